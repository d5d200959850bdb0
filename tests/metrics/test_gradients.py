"""MCAS, internal bias and xMCAS of torch tensors: the numbers of arrays, batches, and gradients that are right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import (
    bias_amplification,
    diffusion_bias,
    mcas,
    signed_bias_amplification,
    signed_diffusion_bias,
    xmcas,
)
from tests.raising import raises

torch = pytest.importorskip("torch")

SETS = ("target_images", "target_texts", "images_a", "images_b", "texts_a", "texts_b")
NUMBERS = ("ii", "itp", "ita", "tt", "mcas", "diffusion_bias", "signed_diffusion_bias", "bias_amplification",
           "signed_bias_amplification")  # fmt: skip


def sets(seed: int = 0, dim: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(n, dim)) for name, n in zip(SETS, (5, 2, 4, 3, 2, 6), strict=True)}


def tensors(x: dict[str, np.ndarray], kind: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(each, dtype=kind) for name, each in x.items()}


@pytest.mark.parametrize(("kind", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("seed", range(5))
def test_tensors_give_the_numbers_of_arrays(kind, within, seed):
    x = sets(seed)
    found, expected = mcas(**tensors(x, kind)), mcas(**{name: each.astype(np.float32) for name, each in x.items()})
    exact = mcas(**x)
    for name in NUMBERS[:7]:
        assert float(getattr(found, name)) == pytest.approx(getattr(exact, name), abs=within)
        assert float(getattr(found, name)) == pytest.approx(getattr(expected, name), abs=1e-6)
    assert found.reason == exact.reason


def test_bfloat16_is_what_its_rounded_numbers_are():
    x = tensors(sets(1, 64), torch.bfloat16)
    found, rounded = mcas(**x), mcas(**{name: each.double().numpy() for name, each in x.items()})
    for name in NUMBERS[:7]:
        assert float(getattr(found, name)) == pytest.approx(getattr(rounded, name), abs=1e-12)


@pytest.mark.parametrize("kind", [np.ndarray, torch.Tensor])
def test_a_batch_of_targets_is_its_targets_one_by_one(kind):
    rng = np.random.default_rng(2)
    x = sets(2) | {"target_images": rng.normal(size=(3, 5, 6)), "target_texts": rng.normal(size=(3, 2, 6))}
    given = x if kind is np.ndarray else tensors(x)
    together = mcas(**given)
    assert isinstance(together.mcas, kind)
    for t in range(3):
        alone = mcas(**(given | {name: given[name][t] for name in SETS[:2]}))
        for name in NUMBERS:
            assert float(getattr(together, name)[t]) == pytest.approx(float(getattr(alone, name)), abs=1e-9)


@pytest.mark.parametrize("batched", [False, True])
def test_gradients_are_those_of_finite_differences(batched):
    x = tensors(sets(3))
    if batched:
        x |= {name: torch.stack([x[name], x[name].flip(1)]) for name in SETS[:2]}
    values = [each.requires_grad_() for each in x.values()]

    def numbers(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = mcas(**dict(zip(SETS, given, strict=True)))
        return tuple(getattr(found, name) for name in NUMBERS)

    assert torch.autograd.gradcheck(numbers, values)


@pytest.mark.parametrize("formula", [diffusion_bias, signed_diffusion_bias])
def test_gradients_of_diffusion_bias(formula):
    values = torch.tensor([[0.3, -0.2], [-0.1, 0.4]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: formula(v[0], v[1]), values)


@pytest.mark.parametrize("formula", [bias_amplification, signed_bias_amplification])
def test_gradients_of_bias_amplification_and_none_that_are_nan_where_it_is_undefined(formula):
    values = torch.tensor([[0.3, -0.2], [-0.1, 0.4], [0.2, 0.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: formula(*v[:, :1]), values)
    alpha = formula(*values)
    assert torch.isnan(alpha).tolist() == [False, True]
    alpha[0].backward()
    assert torch.isfinite(values.grad).all()


def test_gradients_of_xmcas_and_none_that_are_nan_at_the_centroid():
    values = torch.tensor([[0.2, -0.4], [0.3, 0.25]], dtype=torch.float64, requires_grad=True)
    for number in ("angle", "distance"):
        assert torch.autograd.gradcheck(
            lambda v, n=number: getattr(xmcas(mcas=v[0], similarity=v[1], offset=0.02), n), values
        )
    plain = xmcas(mcas=np.array([0.2, -0.4]), similarity=np.array([0.3, 0.25]), offset=0.02)
    found = xmcas(mcas=values[0], similarity=values[1], offset=0.02)
    assert found.angle.tolist() == pytest.approx(plain.angle.tolist())
    assert found.distance.tolist() == pytest.approx(plain.distance.tolist())
    centre = torch.tensor([0.0, 1 / 3], dtype=torch.float64, requires_grad=True)
    xmcas(mcas=centre[0], similarity=centre[1]).distance.backward()
    assert centre.grad.tolist() == [0, 0]


def test_a_step_down_the_gradient_leans_less():
    x = tensors(sets(4), torch.float32)
    images = x["target_images"].requires_grad_()
    before = mcas(**x)
    before.mcas.square().backward()
    assert images.grad.dtype == torch.float32
    after = mcas(**(x | {"target_images": (images - 0.05 * images.grad).detach()}))
    assert abs(after.mcas) < abs(before.mcas)


def test_a_set_that_is_missing_leaves_tensors_that_are_nan():
    found = mcas(**(tensors(sets()) | {"texts_a": None}))
    assert torch.isnan(found.mcas)
    assert float(found.ii) == pytest.approx(mcas(**sets()).ii)
    assert found.reason == "not given: texts_a"


def test_arrays_of_several_libraries_are_refused():
    mixed = tensors(sets()) | {"images_a": sets()["images_a"]}
    with raises(InvalidInputError, code=Code.MISMATCH, field=("targets", "a", "b"), match="numpy on cpu, torch on cpu"):
        mcas(**mixed)
    with raises(InvalidInputError, code=Code.MISMATCH, field=("ii", "tt"), match="numpy"):
        diffusion_bias(torch.ones(2), np.ones(2))


def test_arrays_need_no_torch():
    code = (
        "import sys, numpy as np; from clinometer.metrics import mcas, xmcas; e = np.eye(2); "
        "m = mcas(target_images=e, target_texts=e, images_a=e[:1], images_b=e[1:], texts_a=e[:1], texts_b=e[1:]); "
        "xmcas(mcas=m.mcas, similarity=.3); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_records_of_arrays_hold_floats():
    assert all(isinstance(value, float) for name, value in asdict(mcas(**sets())).items() if name != "reason")
