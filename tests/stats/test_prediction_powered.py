"""Shares by people with a reader's help: algebra, the papers' own code, and what an oracle counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from clinometer.errors import Code, InvalidInputError
from clinometer.models.reference import readings
from clinometer.stats.prediction_powered import more_items_to_reach, rated_share
from clinometer.stats.proportion import wilson_at
from tests.raising import raises


def seen_and_read(n: int, share: float, wrong: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    seen = rng.random(n) < share
    return seen.astype(float), (seen ^ (rng.random(n) < wrong)).astype(float)


bits = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40)


@given(bits, st.lists(st.booleans(), max_size=40))
def test_exchanging_yes_and_no_mirrors_the_interval(rated, unrated):
    y, f = np.array(rated, float).T
    others = np.array(unrated, float)
    found, other = rated_share(y, f, others), rated_share(1 - y, 1 - f, 1 - others)
    assert [other.value, other.low, other.high] == pytest.approx([1 - found.value, 1 - found.high, 1 - found.low])
    assert other.weight == pytest.approx(found.weight)


@given(bits, st.lists(st.booleans(), max_size=40))
def test_a_reader_read_the_wrong_way_round_helps_as_much(rated, unrated):
    y, f = np.array(rated, float).T
    others = np.array(unrated, float)
    found, other = rated_share(y, f, others), rated_share(y, 1 - f, 1 - others)
    assert [other.value, other.low, other.high] == pytest.approx([found.value, found.low, found.high])
    assert other.weight == pytest.approx(-found.weight)


@given(bits, st.lists(st.booleans(), max_size=40), st.randoms())
def test_the_order_of_items_does_not_matter(rated, unrated, shuffled):
    y, f = np.array(rated, float).T
    order = list(range(len(y)))
    shuffled.shuffle(order)
    one, two = rated_share(y, f, unrated), rated_share(y[order], f[order], unrated)
    assert (one.value, one.low, one.high) == pytest.approx((two.value, two.low, two.high))


@given(bits)
def test_without_a_reader_it_is_wilsons_interval(rated):
    y = np.array(rated, float)[:, 0]
    found = rated_share(y)
    wilson = binomtest(int(y.sum()), len(y)).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high))
    assert found.effective == pytest.approx(len(y))


@given(bits)
def test_where_all_are_rated_the_reader_adds_nothing(rated):
    y, f = np.array(rated, float).T
    assert rated_share(y, f, []).effective == pytest.approx(len(y))
    assert rated_share(y, f, []).value == pytest.approx(y.mean())


@pytest.mark.parametrize("wrong", [0.05, 0.2, 0.5])
def test_it_is_ppi_of_the_rated_and_the_others(wrong):
    """λ over all N items is PPI++'s λ over the others times N / (N − n)."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    y, f = seen_and_read(3_000, 0.4, wrong)
    n, total = 500, 3_000
    found = rated_share(y[:n], f[:n], f[n:])
    theirs = found.weight * (total - n) / total
    assert found.value == pytest.approx(float(ppi_mean_pointestimate(y[:n], f[:n], f[n:], lam=theirs)[0]), abs=1e-12)
    low, high = (float(end[0]) for end in ppi_mean_ci(y[:n], f[:n], f[n:], alpha=0.05))
    assert found.high - found.low == pytest.approx(high - low, rel=0.03)  # the corners add an error or two to 500
    assert found.value == pytest.approx((low + high) / 2, abs=0.003)


def test_a_reader_that_knows_all_leaves_the_error_of_the_items():
    y, _ = seen_and_read(10_000, 0.3, 0.0)
    found = rated_share(y[:2_000], y[:2_000], y[2_000:])
    assert found.value == pytest.approx(y.mean())
    assert found.effective == pytest.approx(10_000, rel=0.01)


def test_items_drawn_within_strata_weigh_by_their_strata():
    """All 20 read as yes, 20 of the 180 others: the share is that of the strata, weighed 1 to 9."""
    y = np.r_[np.repeat([1, 0], [18, 2]), np.repeat([1, 0], [2, 18])].astype(float)
    strata = np.repeat([0, 1], 20)
    found = rated_share(y, strata=strata, sizes=[20, 180])
    assert found.value == pytest.approx(0.1 * 0.9 + 0.9 * 0.1)
    read = np.repeat([1.0, 0.0], 20)
    with_reader = rated_share(y, read, np.zeros(160), strata=strata, sizes=[20, 180])
    assert with_reader.value == pytest.approx(found.value)


def test_answers_that_are_neither_leave_the_share():
    y, f = seen_and_read(400, 0.4, 0.1)
    neither = np.zeros(400, bool)
    neither[::4] = True
    found = rated_share(y, outside=neither)
    assert found.value == pytest.approx(y[~neither].mean())
    assert found.effective == pytest.approx(300, rel=0.01)
    assert rated_share(y[:200], f[:200], f[200:], outside=neither[:200]).effective > 150


def test_raters_that_differ_widen_the_interval():
    rng = np.random.default_rng(0)
    clear, readily = rng.normal(size=200), np.linspace(-0.8, 0.8, 6)
    alike, apart = (clear + k * readily[:, None] > 0.2 for k in (0, 1))
    assert rated_share(apart.astype(float)).effective < rated_share(alike.astype(float)).effective / 2
    assert rated_share(apart.astype(float)).freedom < 10


def test_nothing_is_undefined_with_a_reason():
    assert rated_share(np.full((2, 3), np.nan)).reason == "nothing was rated"
    assert rated_share([1.0, 0.0], outside=[True, True]).reason == "no answer is one of the two"
    assert rated_share([1.0, 0.0], strata=[0, 0], sizes=[5, 5]).reason == "nothing of a stratum was rated"


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"ratings": [2.0, 0.0]}, Code.OUT_OF_RANGE, "ratings"),
        ({"ratings": [1.0, 0.0], "readings": [1.0]}, Code.WRONG_SHAPE, "readings"),
        ({"ratings": [1.0, 0.0], "readings": [1.0, 3.0]}, Code.OUT_OF_RANGE, "readings"),
        ({"ratings": [1.0, 0.0], "strata": [0, 1]}, Code.CONFLICT, ("strata", "sizes")),
        ({"ratings": [1.0, 0.0], "strata": [0, 1], "sizes": [4]}, Code.WRONG_SHAPE, "sizes"),
    ],
)
def test_what_cannot_be_is_refused(wrong, code, field):
    with raises(InvalidInputError, code=code, field=field):
        rated_share(**wrong)


def test_the_planner_names_ratings_that_do():
    y, f = seen_and_read(2_000, 0.3, 0.1)
    found = rated_share(y[:50], f[:50], f[50:])
    more = int(more_items_to_reach(0.05, found))
    assert more > 0
    reach = lambda n: wilson_at(found.value, 1 / (found.growing * 50 / n + found.fixed), 0.95)  # noqa: E731
    assert found.value - reach(50 + more)[0] <= 0.05 >= reach(50 + more)[1] - found.value
    assert max(reach(49 + more)[1] - found.value, found.value - reach(49 + more)[0]) > 0.05
    assert np.isnan(more_items_to_reach(0.01, rated_share(y[:50], f[:50], f[50:100])))
    assert more_items_to_reach(0.4, found) == 0
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="margin"):
        more_items_to_reach(0.6, found)


@pytest.mark.parametrize("concept", ["guard", "shrugging"])
def test_the_judge_as_a_perfect_rater_of_what_the_clip_misreads(concept):
    """25 of the judged images are rated, again and again: the interval covers the judge's share of all of them."""
    row = readings()[concept]
    n, more = int(row["n"]), int(row["differ"] + row["encoder"] - row["judge"]) // 2
    less = int(row["differ"]) - more
    both = int(row["judge"]) - less
    joint = np.repeat([[1, 1], [1, 0], [0, 1], [0, 0]], [both, less, more, n - both - less - more], axis=0).astype(
        float
    )
    assert joint.sum(axis=0).tolist() == [row["judge"], row["encoder"]]
    rng, held = np.random.default_rng(0), []
    for _ in range(200):
        seen, read = rng.permutation(joint).T
        found = rated_share(seen[:25], read[:25], read[25:])
        held.append(found.low <= row["judge"] / n <= found.high)
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize(("raters", "apart"), [(2, 0.0), (2, 0.1), (3, 0.0), (3, 0.1)])
def test_few_raters_are_the_units(raters, apart):
    """People who choose yes more or less readily than people do on average: what matters is the average of all."""
    rng, held, studies = np.random.default_rng([raters, round(10 * apart)]), 0, 300
    for _ in range(studies):
        likely = np.clip(0.4 + apart * rng.normal(size=raters), 0, 1)[:, None]
        clear = rng.beta(0.5, 0.5, 60)  # images differ in how clear they are
        found = rated_share((rng.random((raters, 60)) < np.clip(likely + clear - 0.5, 0, 1)).astype(float))
        held += found.low <= 0.4 <= found.high
    assert held / studies >= 0.93 - 2 * (0.93 * 0.07 / studies) ** 0.5


def test_two_raters_who_agree_by_chance_still_leave_a_doubt():
    y, _ = seen_and_read(60, 0.4, 0.0)
    other = y.copy()
    other[[np.flatnonzero(y == 1)[0], np.flatnonzero(y == 0)[0]]] = 0, 1  # as often yes: no difference is seen
    alone, both = rated_share(y), rated_share(np.stack([y, other]))
    assert both.high - both.low > 1.05 * (alone.high - alone.low)
    assert both.freedom == 1
