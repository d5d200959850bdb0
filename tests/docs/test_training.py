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
    trains, measures, _ = blocks(page("docs/training.md"), "python")
    exec(compile(trains, "docs/training.md", "exec"), names)
    losses = names["losses"]
    assert losses[-1] < 0.8 * losses[0]
    assert all(torch.isfinite(weight.grad).all() for weight in names["weights"])
    assert all(parameter.grad is None for parameter in names["clip"].parameters())
    exec(compile(measures, "docs/training.md", "exec"), names)
    whole = names["mcas"](
        target_images=names["embed"](torch.cat([
            names["draw"](names["prompts"][: len(batch)], batch) for batch in names["latents"].split(8)
        ])).detach(),
        target_texts=None, images_a=names["groups"]["man"]["images"], images_b=names["groups"]["woman"]["images"],
        texts_a=names["words"]["man"], texts_b=names["words"]["woman"],
    )  # fmt: skip
    assert float(names["score"].compute()["image_part"]) == pytest.approx(float(whole.ii + whole.ita), abs=1e-5)
    assert float(names["share"].compute()["n"]) == 16


def test_the_loop_with_audits_runs_to_its_end(tmp_path, monkeypatch):
    """With steps that are too few for a look: looks are tried in tests/test_training_callback.py."""
    monkeypatch.chdir(tmp_path)
    *_, audits = blocks(page("docs/training.md"), "python")
    trained: list = []
    names = {"batches": range(3), "train_on": trained.append, "pipeline": None, "accelerator": None}
    exec(compile(audits, "docs/training.md", "exec"), names)
    assert trained == [0, 1, 2]
    assert names["audits"].looks == []
    assert not names["audits"].should_stop
