"""Strengths from comparisons of two: algebra, published fits, a log-linear oracle, and worlds with raters."""

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.paired_comparisons import paired_strengths
from tests.raising import raises

TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
GAMES = (
    "43 42 43 61 42 60", "33 42 43 60 61 43", "25 43 24 43 42 60", "33 51 25 43 42 61", "51 25 33 42 52 60",
    "25 33 34 43 42 24", "25 15 16 24 16 34",
)  # fmt: skip
"""Baseball, 1987 (Agresti 2002, table 10.10): a row the home team, a column another; games won at home and away."""


def fitted(left, right, answers, names, raters=None, **options):
    left, right, order = np.asarray(left), np.asarray(right), np.arange(len(left))
    pictures = [4 * units + order // 7 % 4 for units in (left, right)]
    return paired_strengths(
        left, right, answers, names=names, raters=order % 5 if raters is None else raters, left_pictures=pictures[0],
        right_pictures=pictures[1], **options,
    )  # fmt: skip


def games():
    rows = []
    for home, row in enumerate(GAMES):
        for away, (won, lost) in zip((team for team in range(7) if team != home), row.split(), strict=True):
            rows += [(home, away, 0)] * int(won) + [(home, away, 1)] * int(lost)
    return np.array(rows).T


def drawn(rng, n=400, k=4, ties=0.5):
    left = rng.integers(0, k, n)
    right = (left + rng.integers(1, k, n)) % k
    strength = np.linspace(-0.8, 0.8, k)
    u, v = strength[left] + 0.3, strength[right]
    weights = np.exp([u, v, np.log(ties) + (u + v) / 2]) if ties else np.exp([u, v])
    return left, right, (rng.random(n) > np.cumsum(weights / weights.sum(axis=0), axis=0)).sum(axis=0)


def test_baseball_is_as_published():
    """BradleyTerry2 (Turner and Firth 2012), section 3: abilities with an advantage of playing at home."""
    found = fitted(*games(), TEAMS)
    published = [1.6196, 1.4754, 1.3271, 1.2813, 1.1438, 0.7047, 0]
    assert list(found.strength.value - found.strength.value[-1]) == pytest.approx(published, abs=6e-5)
    assert np.log(found.left.value / (1 - found.left.value)) == pytest.approx(0.3023, abs=5e-5)
    assert (found.n, found.ties) == (273, 0)


def test_ties_are_those_of_the_log_linear_model():
    """Davidson's model is a Poisson regression of the counts of each outcome (Fienberg 1979)."""
    left, right, answers = drawn(np.random.default_rng(3))
    found, rows, counts = fitted(left, right, answers, tuple("abcd")), [], []
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    for place, (i, j) in enumerate(pairs):
        own = answers[(left == i) & (right == j)]
        for outcome, (of_i, of_j) in enumerate(((1, 0), (0, 1), (0.5, 0.5))):
            unit = of_i * np.eye(4)[i] + of_j * np.eye(4)[j]
            rows.append([*unit[:3] - unit[3], of_i, outcome == 2, *np.eye(len(pairs))[place]])
            counts.append((own == outcome).sum())
    import statsmodels.api as sm  # all of it, which takes a second, for one test

    oracle = sm.GLM(counts, np.array(rows, float), family=sm.families.Poisson()).fit(tol=1e-12)
    assert list(found.strength.value[:3]) == pytest.approx(list(oracle.params[:3]), abs=1e-6)


@pytest.mark.parametrize("ties", [0.0, 0.5])
def test_sides_and_names_that_change_places_change_signs_alone(ties):
    left, right, answers = drawn(np.random.default_rng(4), ties=ties)
    names, raters = tuple("abcd"), np.arange(len(left)) % 7
    found = fitted(left, right, answers, names, raters)
    assert found.strength.value.sum() == pytest.approx(0, abs=1e-9)
    swapped = fitted(right, left, np.array([1, 0, 2])[answers], names, raters)
    assert list(swapped.strength.value) == pytest.approx(list(found.strength.value), abs=1e-6)
    assert list(swapped.strength.high) == pytest.approx(list(found.strength.high), abs=1e-6)
    assert swapped.left.value == pytest.approx(1 - found.left.value)
    against = fitted(left, right, np.array([1, 0, 2])[answers], names, raters)
    assert list(against.preferred.low) == pytest.approx(list(1 - found.preferred.high), abs=1e-6)
    turned = fitted(3 - left, 3 - right, answers, names, raters)
    assert list(turned.strength.value) == pytest.approx(list(found.strength.value[::-1]), abs=1e-6)


def test_raters_who_differ_widen_the_interval_and_one_alone_is_told():
    rng = np.random.default_rng(5)
    left, right, answers = drawn(rng, 600)
    alike = fitted(left, right, answers, tuple("abcd"), np.arange(600) % 6)
    # two of six prefer the other way round, half of what the others prefer is undone
    contrary = np.where(np.arange(600) % 6 < 2, np.array([1, 0, 2])[answers], answers)
    differing = fitted(left, right, contrary, tuple("abcd"), np.arange(600) % 6)
    assert (differing.strength.high - differing.strength.low)[0] > 1.5 * (alike.strength.high - alike.strength.low)[0]
    alone = fitted(left, right, answers, tuple("abcd"), np.zeros(600, int))
    assert alone.reason.startswith("one rater: ")


def test_what_no_comparison_links_or_nobody_beats_is_told():
    few = fitted([0, 1], [1, 0], [0, 1], ("doctor", "nurse"))
    assert (few.defined, few.reason) == (False, "2 comparisons are between two of them, and it takes 10")
    apart = fitted([0, 2] * 10, [1, 3] * 10, [0, 1, 1, 0] * 5, ("doctor", "nurse", "cook", "poet"))
    assert not apart.defined
    assert apart.reason.endswith("none links, so their strengths cannot be compared: doctor, nurse | cook, poet")
    left, right, answers = drawn(np.random.default_rng(6), ties=0)
    answers = np.where(left == 3, 0, np.where(right == 3, 1, answers))
    best = fitted(left, right, answers, tuple("abcd"))
    assert "no maximum" in best.reason
    assert best.strength.value.argmax() == 3
    assert np.isfinite([best.strength.low, best.strength.high]).all()
    order = np.arange(400)
    one = paired_strengths(
        left, right, drawn(np.random.default_rng(6))[2], names=tuple("abcd"), raters=order % 5,
        left_pictures=np.where(left, order, 1_000), right_pictures=np.where(right, 400 + order, 1_000),
    )  # fmt: skip
    assert one.reason == "2 pictures of each are needed for an interval, and one is there of a"
    assert np.isnan(one.strength.low).tolist() == [True, False, False, False]
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE):
        fitted([0] * 10, [2] * 10, [0] * 10, ("a", "b"))
