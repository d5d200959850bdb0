"""MCAS of one target: algebra, a double-loop oracle, the edges."""

from __future__ import annotations

import warnings
from dataclasses import astuple
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import mcas
from clinometer.metrics.mcas import components, composite, group_similarity
from clinometer.stats.association import unit_vectors
from tests.raising import raises
from tests.studies.leaning.studies import slow_mean_cosine

SETS = ("target_images", "target_texts", "images_a", "images_b", "texts_a", "texts_b")


def sets(seed: int, dim: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(n, dim)) for name, n in zip(SETS, (5, 1, 4, 3, 2, 6), strict=True)}


def slow(x: dict[str, np.ndarray]) -> list[float]:
    return [
        slow_mean_cosine(x[f"target_{w}"], x[f"{kind}_a"]) - slow_mean_cosine(x[f"target_{w}"], x[f"{kind}_b"])
        for kind, w in (("images", "images"), ("images", "texts"), ("texts", "images"), ("texts", "texts"))
    ]


@given(st.integers(0, 10_000))
def test_four_components_by_double_loop(seed):
    x = sets(seed)
    result, (ii, itp, ita, tt) = mcas(**x), slow(x)
    assert (result.ii, result.itp, result.ita, result.tt) == pytest.approx((ii, itp, ita, tt))
    assert result.mcas == pytest.approx(ii + itp + ita + tt)
    assert result.diffusion_bias == pytest.approx(abs(abs(ii) - abs(tt)))
    assert result.signed_diffusion_bias == pytest.approx(abs(ii) - abs(tt))
    assert result.bias_amplification == pytest.approx(abs((itp + ita) / (2 * tt)))
    assert result.signed_bias_amplification == pytest.approx((itp + ita) / (2 * tt))
    assert result.reason == ""


@given(st.integers(0, 10_000))
def test_swapping_a_and_b_negates_the_leaning_and_keeps_the_magnitudes(seed):
    x = sets(seed)
    swapped = x | {
        f"{kind}_{this}": x[f"{kind}_{other}"] for kind in ("images", "texts") for this, other in ("ab", "ba")
    }
    forth, back = mcas(**x), mcas(**swapped)
    for name in ("ii", "itp", "ita", "tt", "mcas"):
        assert getattr(back, name) == pytest.approx(-getattr(forth, name), abs=1e-12)
    for name in (
        "diffusion_bias",
        "signed_diffusion_bias",
        "bias_amplification",
        "signed_bias_amplification",
    ):
        assert getattr(back, name) == pytest.approx(getattr(forth, name), rel=1e-9)


@given(st.integers(0, 10_000), st.floats(0.001, 1000))
def test_rotation_and_positive_rescaling_change_nothing(seed, scale):
    x = sets(seed)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]
    moved = mcas(**{name: scale * value @ rotation for name, value in x.items()})
    assert astuple(moved)[:5] == pytest.approx(astuple(mcas(**x))[:5], abs=1e-9)


@given(st.integers(0, 10_000))
def test_order_of_items_is_irrelevant(seed):
    x = sets(seed)
    reversed_sets = {name: value[::-1] for name, value in x.items()}
    assert astuple(mcas(**reversed_sets))[:5] == pytest.approx(astuple(mcas(**x))[:5], abs=1e-12)


@given(arrays(np.float64, (2, 3, 4, 3), elements=st.floats(-1, 1)))
def test_mcas_is_four_times_the_difference_of_group_similarities(tensor):
    similarity = group_similarity(tensor)
    np.testing.assert_allclose(composite(tensor, 0, 2), 4 * (similarity[..., 0] - similarity[..., 2]), atol=1e-12)
    np.testing.assert_allclose(components(tensor, 0, 2).sum(-1), composite(tensor, 0, 2))


def test_the_bounds_are_reached():
    e = np.eye(2)[:1]
    result = mcas(target_images=e, target_texts=e, images_a=e, images_b=-e, texts_a=e, texts_b=-e)
    assert result.mcas == pytest.approx(8)
    assert result.diffusion_bias == pytest.approx(0)
    assert result.bias_amplification == pytest.approx(1)


@pytest.mark.parametrize(
    ("missing", "undefined"),
    [
        ("target_images", {"ii", "ita"}),
        ("target_texts", {"itp", "tt"}),
        ("images_a", {"ii", "itp"}),
        ("images_b", {"ii", "itp"}),
        ("texts_a", {"ita", "tt"}),
        ("texts_b", {"ita", "tt"}),
    ],
)
def test_what_is_not_given_is_nan_with_a_reason(missing, undefined):
    result = mcas(**(sets(0) | {missing: None}))
    assert {name for name in ("ii", "itp", "ita", "tt") if isnan(getattr(result, name))} == undefined
    assert isnan(result.mcas)
    assert isnan(result.diffusion_bias)
    assert isnan(result.bias_amplification)
    assert result.reason == f"not given: {missing}"


def test_amplification_is_undefined_at_tt_zero():
    x = sets(0)
    result = mcas(**(x | {"texts_b": x["texts_a"]}))
    assert result.tt == 0
    assert isnan(result.bias_amplification)
    assert isnan(result.signed_bias_amplification)
    assert "TT is 0" in result.reason
    assert not isnan(result.mcas)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_amplification_is_undefined_where_rounding_keeps_tt_from_zero(kind, library):
    """A prompt halfway between two words, and words that are the same at other lengths: TT is 0 but for rounding."""
    read = np.asarray if library == "numpy" else pytest.importorskip("torch").tensor
    for seed in range(10):
        rng = np.random.default_rng(seed)
        a, b = (unit_vectors(rng.normal(size=(1, 512))) for _ in range(2))
        words = rng.normal(size=(4, 512))
        x = {name: rng.normal(size=(4, 512)) for name in SETS}
        for texts in (
            {"target_texts": a + b, "texts_a": a, "texts_b": b},
            {"texts_a": words, "texts_b": 3 * words[::-1]},
        ):
            result = mcas(**{name: read(each.astype(kind)) for name, each in (x | texts).items()})
            assert result.tt == pytest.approx(0, abs=1e-3)
            assert isnan(result.bias_amplification)
            assert isnan(result.signed_bias_amplification)
            assert result.reason == "TT is 0: bias amplification divides by it"
            assert not isnan(result.mcas)


def test_tensors_with_gradients_are_taken_without_a_warning():
    torch = pytest.importorskip("torch")
    x = sets(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mcas(**{name: torch.tensor(each, requires_grad=True) for name, each in x.items()})
    assert found.mcas.item() == pytest.approx(mcas(**x).mcas)


def test_nested_lists_are_read_as_arrays():
    x = sets(0)
    assert mcas(**{name: each.tolist() for name, each in x.items()}) == mcas(**x)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (np.full((2, 6), np.nan), Code.NOT_FINITE),
        (np.zeros((2, 6)), Code.NOT_FINITE),
        (np.ones((2, 7)), Code.WRONG_SHAPE),
        (np.ones((0, 6)), Code.TOO_FEW),
        (np.ones(6), Code.WRONG_SHAPE),
    ],
)
def test_refuses_what_has_no_cosine(name, bad, code):
    field = "targets" if name.startswith("target") else name[-1]
    if field == "a" and bad.shape == (2, 7):
        field = "b"  # which is compared with the vectors of a
    with raises(InvalidInputError, code=code, field=field):
        mcas(**(sets(0) | {name: bad}))
