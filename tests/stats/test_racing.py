"""When comparisons are settled: the interval against simulations, and races against their full course."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.sequential import Elimination, Race, final_mean
from tests.raising import raises

SEEDS = st.integers(0, 2**32 - 1)


def run(errors, elimination, order=None):
    """Race over known errors; NaN where a class had left. Returns what was measured and how much."""
    images, classes, total = errors.shape
    order = np.tile(np.arange(total), (images, 1)) if order is None else order
    race, measured = Race(images, classes, total, elimination), np.full(errors.shape, np.nan)
    for start, stop in race.looks():
        measured[:, :, start:stop] = np.where(race.active[:, :, None], errors[:, :, start:stop], np.nan)
        race.judge(measured[:, :, :stop], order[:, :stop])
    return measured, (~np.isnan(measured)).sum(axis=(1, 2))


def noisy_errors(rng, images=6, classes=4, total=60, spread=0.2):
    level = rng.random((images, classes, 1))
    return level + spread * rng.standard_normal((images, classes, total)) + rng.random((images, 1, total))


@given(SEEDS)
def test_negation_and_scale(seed):
    d = np.random.default_rng(seed).standard_normal((3, 7))
    plain, other = final_mean(d, 20, 0.9), final_mean(-4 * d, 20, 0.9)
    assert other.mean == pytest.approx(-4 * plain.mean)
    assert other.half_width == pytest.approx(4 * plain.half_width)
    assert np.array_equal(other.decided, plain.decided)


def test_at_the_end_the_mean_is_known_and_after_one_trial_nothing_is():
    d = np.random.default_rng(0).standard_normal(5)
    assert final_mean(d, 5, 0.95).half_width == 0
    assert final_mean(d, 5, 0.95).decided
    assert final_mean(d[:1], 5, 0.95).half_width == np.inf
    assert not final_mean(np.zeros(5), 5, 0.95).decided
    assert not final_mean(np.array([1.0, np.nan, 1.0]), 5, 0.95).decided


def test_the_interval_covers_the_final_mean():
    rng = np.random.default_rng(1)
    for n, total in ((5, 40), (10, 100), (30, 40)):
        d = rng.standard_normal((20_000, total)) + 0.3
        interval = final_mean(d[:, :n], total, 0.95)
        covered = np.abs(d.mean(axis=1) - interval.mean) <= interval.half_width
        # Student's t is exact for the usual variance; that of successive differences has two thirds of its freedom
        assert 0.93 < covered.mean() < 0.96, (n, total, covered.mean())


def test_a_trend_over_the_timesteps_does_not_widen_it():
    rng = np.random.default_rng(2)
    d = rng.standard_normal(200)
    flat, sloped = final_mean(d, 400, 0.95), final_mean(d + np.linspace(-20, 20, 200), 400, 0.95)
    assert sloped.half_width == pytest.approx(flat.half_width, rel=0.05)


@given(SEEDS)
def test_moderation_draws_widths_together_and_moves_no_mean(seed):
    d = np.random.default_rng(seed).standard_normal((5, 10)) * np.arange(1, 6)[:, None]
    own, drawn, one = (final_mean(d, 100, 0.9, weight) for weight in (0.0, 25.0, 1e9))
    assert np.array_equal(own.mean, drawn.mean)
    widths = [np.ptp(np.log(each.half_width)) for each in (own, drawn, one)]
    assert widths[0] > widths[1] > widths[2]
    assert one.half_width == pytest.approx(one.half_width[0], rel=1e-6)
    backwards = final_mean(d[::-1], 100, 0.9, 25.0)
    assert backwards.half_width[::-1] == pytest.approx(drawn.half_width)


def test_moderated_intervals_cover_where_variances_are_alike_and_are_narrower():
    rng = np.random.default_rng(3)
    d = rng.standard_normal((2_000, 25, 100))
    widths = []
    for weight in (0.0, 25.0):
        found = [final_mean(each[:, :10], 100, 0.9, weight) for each in d]
        covered = [np.abs(each.mean(axis=1) - f.mean) <= f.half_width for each, f in zip(d, found, strict=True)]
        assert 0.875 < np.mean(covered) < 0.91
        widths.append(np.mean([f.half_width for f in found]))
    assert widths[1] < 0.97 * widths[0]


@pytest.mark.parametrize(
    ("trials", "total", "confidence", "field"),
    [(0, 5, 0.9, "differences"), (6, 5, 0.9, "differences"), (3, 5, 1.0, "confidence"), (3, 5, 0.0, "confidence")],
)
def test_plans_that_are_none(trials, total, confidence, field):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field=field):
        final_mean(np.zeros(trials), total, confidence)


def test_without_elimination_everything_is_measured_in_one_round():
    errors = noisy_errors(np.random.default_rng(3))
    measured, counts = run(errors, None)
    assert np.array_equal(measured, errors)
    assert set(counts) == {4 * 60}
    assert list(Race(6, 4, 60, None).looks()) == [(0, 60)]


@given(SEEDS)
def test_the_best_class_is_found(seed):
    errors = noisy_errors(np.random.default_rng(seed), spread=0.05)
    measured, counts = run(errors, Elimination())
    for image in range(len(errors)):
        n = np.isfinite(measured[image]).sum(axis=1)
        stayed = np.flatnonzero(n == n.max())
        found = stayed[np.nanmean(measured[image, stayed, : n.max()], axis=1).argmin()]
        gaps = np.sort(errors[image].mean(axis=1))
        if gaps[1] - gaps[0] > 0.05:
            assert found == errors[image].mean(axis=1).argmin()
    assert counts.max() <= 4 * 60
    assert counts.min() >= 4 * 10


def test_the_best_class_is_found_with_less():
    """Classes a step apart leave at one look after another, the farthest behind first."""
    rng = np.random.default_rng(9)
    errors = np.arange(8)[None, :, None] * 0.1 + 0.2 * rng.standard_normal((1, 8, 300))
    measured, counts = run(errors, Elimination())
    left_after = np.isfinite(measured[0]).sum(axis=1)
    assert left_after.tolist() == [70, 70, 40, 20, 10, 10, 10, 10]
    assert counts.item() == 240


@pytest.mark.thorough
@pytest.mark.parametrize("step", [0.0, 0.1])
def test_the_class_that_would_win_seldom_leaves(step):
    """Looked at 29 times beside four rivals at the default confidence; most often lost where all are alike."""
    rng, images = np.random.default_rng(10), 400
    errors = step * np.arange(5)[:, None] + rng.standard_normal((images, 5, 300))
    measured, _ = run(errors, Elimination())
    n = np.isfinite(measured).sum(axis=2)
    winner = errors.mean(axis=2).argmin(axis=1)
    assert np.mean(n[np.arange(images), winner] < n.max(axis=1)) <= 0.02


def test_a_class_that_left_stays_away():
    measured, _ = run(noisy_errors(np.random.default_rng(4)), Elimination())
    finite = np.isfinite(measured)
    assert (np.diff(finite.astype(int), axis=-1) <= 0).all()


def test_a_clear_race_ends_at_the_first_look():
    errors = np.zeros((1, 3, 50)) + np.array([0.0, 1.0, 2.0])[:, None]
    errors += 1e-3 * np.random.default_rng(5).standard_normal(errors.shape)
    assert run(errors, Elimination())[1].item() == 3 * 10
    assert run(errors, Elimination(first_look=4))[1].item() == 3 * 4
    pairs = np.triu(np.ones((3, 3), bool), 1)
    assert run(errors, Elimination(pairs=pairs))[1].item() == 3 * 10


def test_a_class_stays_as_long_as_one_of_its_pairs_is_open():
    rng = np.random.default_rng(6)
    errors = np.zeros((1, 4, 80)) + np.array([0.0, 1.0, 0.0, 2.0])[:, None]  # 0 and 2 are alike
    errors += 0.1 * rng.standard_normal(errors.shape)
    pairs = np.zeros((4, 4), bool)
    pairs[:2, 2:] = True  # A = {0, 1} against B = {2, 3}: 0-2 is close
    measured, _ = run(errors, Elimination(pairs=pairs))
    n = np.isfinite(measured[0]).sum(axis=1)
    assert n[0] == n[2] > n[1] == n[3] == 10


@given(SEEDS)
def test_images_race_apart(seed):
    errors = noisy_errors(np.random.default_rng(seed))
    together, _ = run(errors, Elimination())
    for image in range(len(errors)):
        alone, _ = run(errors[image : image + 1], Elimination())
        assert np.array_equal(alone[0], together[image], equal_nan=True)


def test_trials_are_judged_in_the_order_of_their_timesteps():
    rng = np.random.default_rng(7)
    order = rng.permutation(80)[None]
    errors = 0.05 * rng.standard_normal((1, 2, 80))
    errors[0, 1] += 0.2 + np.sin(order[0] / 80 * 6)
    in_order = run(errors, Elimination(), order)[1].item()
    assert in_order < run(errors, Elimination())[1].item()


def test_what_is_not_finite_ends_the_race():
    errors = noisy_errors(np.random.default_rng(8), images=2)
    errors[0, 1, 3] = np.inf
    measured, counts = run(errors, Elimination(confidence=0.999999))
    assert counts[0] == 4 * 10
    assert counts[1] > 4 * 10 or np.isfinite(measured[1]).all()
