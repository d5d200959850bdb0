"""Variance of a crossed design by its source, and the tests by exchanging treatments within blocks."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.clusters import SOURCES, crossed_variance
from tests.raising import raises


def design(seed: int = 0, units: int = 5, treatments: int = 3, blocks: int = 6, **sd: float) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)

    def part(name: str, *size: int) -> np.ndarray:
        return sd.get(name, 0.0) * rng.standard_normal(size)

    common = part("treatment", treatments, 1)
    return [
        part("unit", 1, 1) + common + part("unit_treatment", treatments, 1) + part("block", 1, blocks)
        + part("residual", treatments, blocks)
        for _ in range(units)
    ]  # fmt: skip


@pytest.mark.thorough
def test_components_have_no_bias() -> None:
    sd = {"unit": 1.0, "treatment": 0.5, "unit_treatment": 0.7, "block": 0.9, "residual": 0.4}
    found = [crossed_variance(design(i, 8, 4, **sd), n_permutations=1).components for i in range(800)]
    for name in SOURCES:
        values = np.array([each[name].value for each in found])
        assert abs(values.mean() - sd[name] ** 2) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize(("name", "promised"), [("unit_treatment", 0.95), ("block", 0.95), ("residual", 0.95)])
def test_intervals_of_normal_readings_cover(name: str, promised: float) -> None:
    sd = {"unit": 1.0, "treatment": 0.5, "unit_treatment": 0.7, "block": 0.9, "residual": 0.4}
    found = [crossed_variance(design(i, 8, 4, **sd), n_permutations=1).components[name] for i in range(500)]
    held = np.mean([each.low <= sd[name] ** 2 <= each.high for each in found])
    assert held > promised - 0.03


@pytest.mark.parametrize("treatments", [2, 3])
def test_an_estimate_lies_within_its_interval_and_one_degree_of_freedom_gives_none(treatments: int) -> None:
    below = 0
    for i in range(60):
        for name, each in crossed_variance(design(i, 3, treatments, residual=1.0), n_permutations=1).components.items():
            assert np.isnan(each.low) or each.low <= each.value <= each.high
            assert np.isnan(each.low) or name != "treatment" or treatments > 2
            below += bool(each.value < 0 and np.isfinite(each.low))
    assert below


def test_the_p_of_a_unit_is_that_of_every_exchange() -> None:
    y = design(3, units=1, treatments=2, blocks=7, residual=1.0, unit_treatment=0.5)[0]
    spread = [
        np.stack([column[list(order)] for column, order in zip(y.T, orders, strict=True)], 1).mean(axis=1).var()
        for orders in product(permutations(range(2)), repeat=7)
    ]
    exact = np.mean(np.array(spread) >= y.mean(axis=1).var() - 1e-12)
    drawn = crossed_variance([y], n_permutations=20_000).unit_p[0]
    assert drawn == pytest.approx(exact, abs=0.015)


def test_scale_shift_and_order_of_treatments_do_not_matter() -> None:
    y = design(1, residual=1.0, block=0.5, unit_treatment=0.5)
    one = crossed_variance(y, n_permutations=400)
    scaled = crossed_variance([3 * each + 7 for each in y], n_permutations=400)
    turned = crossed_variance([each[::-1] for each in y], n_permutations=400)
    for name in SOURCES:
        assert scaled.components[name].value == pytest.approx(9 * one.components[name].value)
        assert turned.components[name].value == pytest.approx(one.components[name].value)
    assert scaled.unit_p == pytest.approx(one.unit_p)


def test_what_all_units_share_is_no_dependence_of_one() -> None:
    y = [each + 5 * np.arange(3)[:, None] for each in design(2, residual=1.0)]
    found = crossed_variance(y, n_permutations=999).components
    assert found["treatment"].p_value < 0.01
    assert found["unit_treatment"].p_value > 0.05


def test_incomplete_blocks_are_left_out_and_one_unit_has_its_test_alone() -> None:
    y = design(4, units=2, residual=1.0)
    y[0][1, 2] = np.nan
    found = crossed_variance(y, n_permutations=99)
    assert found.blocks.tolist() == [5, 6]
    alone = crossed_variance(y[1:], n_permutations=99)
    assert "two units" in alone.reason
    assert np.isfinite(alone.unit_p).all()
    assert np.isnan(alone.components["unit"].value)
    nothing = crossed_variance([np.full((2, 3), np.nan)], n_permutations=99)
    assert np.isnan(nothing.unit_p).all()


@pytest.mark.parametrize("readings", [[], [np.zeros((1, 4))], [np.zeros((2, 4)), np.zeros((3, 4))], [np.zeros(3)]])
def test_other_shapes_are_refused(readings: list[np.ndarray]) -> None:
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="readings"):
        crossed_variance(readings)
