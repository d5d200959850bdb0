"""Images that decide: algebra of the drawn runs, and the runs themselves as an oracle."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.bounded_means import BoundedMeans, bounded_means, normal_score
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.power import (
    BEYOND,
    MANY,
    SIZES,
    EstimatedPilot,
    PowerCurve,
    ScoredItems,
    ScoredPilot,
    called,
    factors_to_decide,
    images_for_share,
    power_curve,
    scored_items,
)
from tests.raising import raises


def pilot_of(*shares: float, n: int = 20, blur: float = 0.2, other: float = 0.0, seed: int = 0) -> BoundedMeans:
    """Samples of two kinds, at 1 and −1, in exactly these shares as far as n images can have them."""
    rng = np.random.default_rng(seed)
    samples = [np.where(np.arange(n) < round(share * n), 1.0, -1.0) + blur * rng.normal(size=n) for share in shares]
    return bounded_means(samples, (-1, 1), 0.0, other, 60)


def sizes_of(*zeros: BoundedMeans, margins: list | None = None, share: str = "decided", **options) -> np.ndarray:
    curve = power_curve(ScoredPilot(zeros, margins, **options), SIZES)
    return curve.sizes_for(0.8, getattr(curve, share))


# --- algebra ----------------------------------------------------------------------------------------------------------


def test_a_larger_leaning_needs_fewer_images() -> None:
    needed = [float(sizes_of(pilot_of(share))[0]) for share in (0.6, 0.7, 0.8, 0.9)]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] > 2 * needed[-1]


def test_power_rises_with_the_images() -> None:
    curve = power_curve(ScoredPilot([pilot_of(0.7, 0.8)]), SIZES)
    assert (np.diff(curve.leans, axis=0) > -0.03).all()
    assert (curve.leans[-1] > 0.8).all()


def test_more_power_needs_more_images() -> None:
    curve = power_curve(ScoredPilot([pilot_of(0.75)]), SIZES)
    needed = [float(curve.sizes_for(power, curve.leans)[0]) for power in (0.5, 0.7, 0.8, 0.9)]
    assert needed == sorted(needed)


def test_sides_do_not_matter() -> None:
    tests = pilot_of(0.7, 0.55, other=0.001)
    mirrored = replace(tests, samples=[-x for x in tests.samples], offset=-tests.offset)
    assert sizes_of(mirrored, margins=[0.3]).tolist() == pytest.approx(sizes_of(tests, margins=[0.3]).tolist())


def test_the_order_of_the_family_does_not_matter() -> None:
    tests = pilot_of(0.7, 0.55, 0.9)
    back = replace(tests, samples=tests.samples[::-1])
    assert sizes_of(back).tolist() == sizes_of(tests).tolist()[::-1]


def test_a_common_unit_does_not_matter() -> None:
    tests = pilot_of(0.7, 0.6, other=0.01)
    scaled = BoundedMeans([2 * x for x in tests.samples], 2 * tests.bounds, tests.offset, 4 * tests.other,
                          tests.other_freedom)  # fmt: skip
    assert sizes_of(scaled, margins=[0.4]).tolist() == pytest.approx(sizes_of(tests, margins=[0.2]).tolist(), rel=1e-6)


def test_a_family_asks_for_more_than_a_test_alone() -> None:
    alone = float(sizes_of(pilot_of(0.7))[0])
    among = float(sizes_of(pilot_of(0.7, *[0.5] * 9))[0])
    assert among > 1.2 * alone


def test_a_second_zero_never_helps() -> None:
    tests = pilot_of(0.7)
    nearer = replace(tests, offset=tests.offset - 0.2)
    alone, both = float(sizes_of(tests)[0]), float(sizes_of(tests, nearer)[0])
    assert both > 1.2 * alone
    assert both >= 0.95 * float(sizes_of(nearer)[0])


def test_between_two_zeros_no_number_decides() -> None:
    """To a by the one and to b by the other, however many images say so."""
    tests = pilot_of(0.5, n=400)
    assert sizes_of(replace(tests, offset=tests.offset + 0.3), replace(tests, offset=tests.offset - 0.3)) == inf


def test_what_the_groups_own_images_are_off_by_stays_unless_they_grow() -> None:
    tests = pilot_of(0.7, n=40, other=0.06)  # as large as the leaning, however many images there are
    assert float(sizes_of(tests)[0]) > MANY
    assert float(sizes_of(tests, grown=True)[0]) < MANY


def test_a_larger_pilot_of_the_same_shares_needs_fewer_images() -> None:
    """It knows better, and the truth may be less far off."""
    few, many = (float(sizes_of(pilot_of(0.7, n=n))[0]) for n in (20, 200))
    assert many < few


def test_ten_of_ten_do_not_say_that_the_other_kind_is_never_drawn() -> None:
    (needed,) = sizes_of(pilot_of(1.0, n=10, blur=0.01))
    assert 10 <= needed < 30
    curve = power_curve(ScoredPilot([pilot_of(1.0, n=10, blur=0.01)]), SIZES[:1])
    assert curve.leans[0, 0] < 1


def test_scores_that_are_all_equal_have_no_spread_and_no_number() -> None:
    tests = bounded_means([np.full(20, 0.4), np.repeat([1.0, -1.0], [16, 4])], (-1, 1), 0.0, 0.0, inf)
    needed = sizes_of(tests)
    assert needed[0] == inf
    assert np.isfinite(needed[1])


def test_without_images_there_is_no_number() -> None:
    tests = bounded_means([np.empty(0), np.array([0.3])], (-1, 1), 0.0, 0.0, inf)
    assert (sizes_of(tests) == inf).all()


def test_an_effect_that_is_named_takes_the_place_of_the_estimate() -> None:
    tests = pilot_of(0.55, 0.95)
    alike = sizes_of(tests, effects=np.array([0.5, 0.5]), share="leans")
    assert alike[0] == pytest.approx(alike[1], rel=0.25)
    small = sizes_of(tests, effects=np.array([0.25, 0.25]), share="leans")
    assert (small > 3 * alike).all()
    assert (sizes_of(tests, effects=np.array([3.0, 3.0])) == inf).all()  # beyond what any picture scores


def test_population_of_a_mean_has_it() -> None:
    items = scored_items(pilot_of(0.7, 0.9))
    means = np.array([0.3, -0.2])
    tilted = items.with_means(means)
    found = (tilted.counts * tilted.points).sum(axis=1) / tilted.counts.sum(axis=1)
    assert found == pytest.approx(means, abs=1e-6)


def test_cells_keep_every_item_and_the_mean() -> None:
    tests = pilot_of(0.7, 0.3)
    items = scored_items(tests)
    assert items.counts.sum(axis=1).tolist() == [20, 20]
    assert (items.counts * items.points).sum(axis=1) / 20 == pytest.approx(tests.value)
    assert items.turned(np.array([-1.0, 1.0])).points[0].tolist() == (-items.points[0, ::-1]).tolist()


def test_shares_rise_between_the_sizes_that_were_drawn() -> None:
    shares = np.array([[0.1, 0.9, 0.2], [0.5, 0.9, 0.3], [0.9, 0.9, 0.2]])
    curve = PowerCurve(np.array([10.0, 100.0, 1000.0]), shares, shares, shares)
    found = curve.sizes_for(0.7, shares)
    assert found[0] == pytest.approx(10**2.5)
    assert found[1:].tolist() == pytest.approx([10, inf])


def test_called_is_benjamini_hochberg_of_every_run() -> None:
    p = np.random.default_rng(3).uniform(0, 0.1, (7, 40))
    p[2, 5:9] = nan
    expected = np.stack([benjamini_hochberg(run) <= 0.05 for run in p.T], axis=1)
    assert (called(p, 0.05) == expected).all()


# --- oracles ----------------------------------------------------------------------------------------------------------


def test_the_score_counts_an_item_as_often_as_it_is_there() -> None:
    items = np.array([[1.0, -1.0, 0.2]])
    often = normal_score(items, np.array([[7, 3, 2]]), np.array([0.001]), np.array([0.1]))
    apart = np.repeat(items, [7, 3, 2], axis=1)
    once = normal_score(apart, np.ones(apart.shape), np.array([0.001]), np.array([0.1]))
    assert often == pytest.approx(once)


@pytest.mark.parametrize(("share", "n"), [(0.8, 20), (0.65, 60), (0.9, 12)])
def test_power_is_what_the_tests_themselves_find(share: float, n: int) -> None:
    """Drawn from a population that is known, and judged image by image."""
    points = np.array([[-1.0, -1.0, -0.8, 0.9, 1.1, 1.1]])
    weights = np.array([[0.0, (1 - share) / 2, (1 - share) / 2, share / 2, share / 2, 0.0]])
    other, freedom = 0.004, 60.0
    tests = bounded_means([np.array([-1.0, 1.1])], (-1, 1.1), 0.0, other, freedom)
    pilot = ScoredPilot([tests, replace(tests, offset=tests.offset - 0.05)], [0.5, 0.4],
                        items=ScoredItems(points, weights, certain=True), runs=3_000)  # fmt: skip
    curve = power_curve(pilot, [n])
    rng, leans, balanced = np.random.default_rng(5), [], []
    for _ in range(30):
        samples = list(rng.choice(points[0], (100, n), p=weights[0]))
        chance = np.sqrt(other) * rng.normal(size=100)
        zeros = [bounded_means(samples, (-1, 1.1), chance - at, other, freedom) for at in (0.0, 0.05)]
        same = np.sign(zeros[0].value) == np.sign(zeros[1].value)
        leans += list((np.max([each.p_value for each in zeros], axis=0) <= 0.05) & same)
        balanced += list(np.max([zeros[0].p_outside(0.5), zeros[1].p_outside(0.4)], axis=0) <= 0.05)
    assert curve.leans[0, 0] == pytest.approx(np.mean(leans), abs=0.04)
    assert curve.balanced[0, 0] == pytest.approx(np.mean(balanced), abs=0.04)


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.6, 0.75, 0.9, 0.1])
def test_a_share_is_found_as_often_as_asked(share: float) -> None:
    """Of two kinds that do not scatter, the test is the exact test of a share."""
    n = int(images_for_share(share, spread=0.0))
    near = [m for m in range(max(10, n - 3), n + 4)]  # the exact power saws up and down
    found = [
        np.mean([binomtest(int(k), m).pvalue <= 0.05 for k in np.random.default_rng(m).binomial(m, share, 400)])
        for m in near
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=0.08)


@pytest.mark.parametrize("share", [0.65, 0.8])
@pytest.mark.parametrize("n", [10, 20, 60])
def test_over_pilots_the_number_that_is_named_decides_in_four_of_five_runs(share: float, n: int) -> None:
    """The exact test of a share, alone: what every pilot names, and its power there, both known exactly."""
    sizes, chances = np.arange(10, 401), binom.pmf(np.arange(n + 1), n, share)
    most = binom.ppf(0.025, sizes, 0.5)
    most = np.where(2 * binom.cdf(most, sizes, 0.5) <= 0.05, most, most - 1)
    power = binom.cdf(most, sizes, share) + binom.sf(sizes - most - 1, sizes, share)
    reached = np.ones(n + 1)
    for k in np.flatnonzero(chances > 1e-3):
        sample = np.where(np.arange(n) < k, 1.0, -1.0)
        (needed,) = sizes_of(bounded_means([sample], (-1, 1), 0.0, 1e-6, 1e6), share="leans", runs=400)
        near = np.flatnonzero(np.abs(sizes - needed) <= 2)  # the exact power saws up and down
        reached[k] = power[near].mean() if len(near) else float(needed > 400)
    assert chances @ reached == pytest.approx(0.8, abs=0.06)


# --- without a pilot --------------------------------------------------------------------------------------------------


def test_shares_without_a_pilot() -> None:
    assert images_for_share(0.3) == images_for_share(0.7)
    assert isnan(images_for_share(0.5))
    assert images_for_share(0.9) < images_for_share(0.75) < images_for_share(0.6)
    assert images_for_share(0.65, attribute_images=(0.2, 0.2)) > 1.5 * images_for_share(0.65)
    assert images_for_share(0.503) == BEYOND


def test_bad_levels_are_named() -> None:
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="power"):
        images_for_share(0.7, power=1.0)
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="share"):
        images_for_share(1.2)


# --- estimates with an interval ---------------------------------------------------------------------------------------

NUMBERS = st.floats(-1, 1)
SPREADS = st.floats(0.01, 1)


def factors(values, errors, margin=None, p=None):
    """Of normal estimates, with the p-values of their intervals unless told otherwise."""
    values, halves = np.asarray(values), norm.isf(0.025) * np.asarray(errors)
    p = 2 * norm.sf(np.abs(values) / errors) if p is None else np.asarray(p)
    return factors_to_decide(values, values - halves, values + halves, p, margin)


def chance(z: float, factor: float) -> float:
    """With which a leaning is found alone, if the truth is normal around the estimate."""
    reach, spread = norm.isf(0.025), np.sqrt(1 + factor)
    return float(norm.sf((reach - z * np.sqrt(factor)) / spread) + norm.cdf((-reach - z * np.sqrt(factor)) / spread))


@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 1.5, 1.9])
def test_alone_it_is_the_closed_form(z: float) -> None:
    (found,) = factors([0.1 * z], [0.1])
    assert chance(z, found) == pytest.approx(0.8, abs=0.02)


@settings(max_examples=20)
@given(st.lists(st.tuples(NUMBERS, SPREADS), min_size=1, max_size=5), st.one_of(st.none(), st.floats(0.02, 1)))
def test_sides_and_order_do_not_matter_to_estimates(family, margin) -> None:
    values, errors = np.array(family).T
    found = factors(values, errors, margin)
    assert factors(-values, errors, margin) == pytest.approx(found)
    assert factors(values[::-1], errors[::-1], margin)[::-1] == pytest.approx(found)


def test_many_tests_take_no_table_of_tests_by_tests() -> None:
    rng = np.random.default_rng(3)
    values, errors = rng.normal(0, 0.3, 20_000), rng.uniform(0.01, 0.3, 20_000)
    tracemalloc.start()
    found = factors(values, errors, margin=0.1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(found).any()
    assert most < 100e6  # a table of them takes 3.2e9


def decided(values, errors, margin=None):
    """Which of a family are shown to lean, or to be balanced, with q over all of them."""
    leans = benjamini_hochberg(2 * norm.sf(np.abs(values) / errors)) <= 0.05
    if margin is None:
        return leans
    return leans | (benjamini_hochberg(norm.sf((margin - np.abs(values)) / errors)) <= 0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("margin", [0.1, None])
def test_with_the_truth_around_the_estimates_four_of_five_draws_decide(margin) -> None:
    rng = np.random.default_rng(5)
    values = np.array([0.0, 0.004, -0.02, 0.05, 0.07, 0.16, -0.3, 0.2, 0.5, -0.5])
    errors = np.linspace(0.08, 0.14, len(values))
    found = factors(values, errors, margin)
    for place, factor in enumerate(found):
        if 1 < factor < inf:
            draws = []
            for _ in range(600):
                spread = errors / np.sqrt(factor)
                draws.append(decided(rng.normal(rng.normal(values, errors), spread), spread, margin)[place])
            assert np.mean(draws) == pytest.approx(0.8, abs=0.06)


def test_balance_is_counted_with_every_test_of_the_family() -> None:
    (alone,) = factors([0.0], [0.06], 0.1)
    among = factors([0.0] + [0.5] * 9, [0.06] + [0.01] * 9, 0.1)[0]
    assert among > 1.3 * alone > 1.3


def test_a_leaning_held_back_by_its_p_alone_is_decided_by_no_number() -> None:
    assert factors([0.3], [0.1], p=[0.4]) == inf
    assert 1 < factors([0.15], [0.1], p=[0.4]) < inf  # its interval is not narrow enough either


def test_the_half_that_faces_0_decides_a_leaning() -> None:
    near, far = (
        (np.array([0.2]), np.array([-0.2]), np.array([0.3])),
        (np.array([0.2]), np.array([-0.1]), np.array([0.6])),
    )
    assert factors_to_decide(*near, np.array([nan])) > factors_to_decide(*far, np.array([nan]))
    mirrored = -near[0], -near[2], -near[1]
    assert factors_to_decide(*mirrored, np.array([nan])) == factors_to_decide(*near, np.array([nan]))


def test_missing_is_missing_and_counts_nowhere() -> None:
    known, missing = factors([0.05, nan], [0.1, nan], 0.1)
    assert missing == inf
    pilot = EstimatedPilot(np.array([[0.1, nan]]), np.array([[0.1, nan]]), np.array([0.3, nan]))
    assert np.isnan(pilot.draw(4.0).p[1]).all()
    assert known > 1
