"""The page about the score as a loss: its Python trains."""

from __future__ import annotations

import pytest

from tests.docs.pages import blocks, page


@pytest.mark.thorough
@pytest.mark.slow
def test_the_training_loop_leans_less_with_each_step():
    pytest.importorskip("torch")
    from clinometer._torch import torch  # makes diffusers importable beside a torchvision that does not load

    names: dict = {}
    exec(compile(blocks(page("docs/training.md"), "python")[0], "docs/training.md", "exec"), names)
    losses = names["losses"]
    assert losses[-1] < 0.8 * losses[0]
    assert all(torch.isfinite(weight.grad).all() for weight in names["weights"])
    assert all(parameter.grad is None for parameter in names["clip"].parameters())
