"""WEFE 1.0.1's documented example, on the vectors of its words: see tests/golden/README.md for where they come from."""

from pathlib import Path

import numpy as np
import pytest

from clinometer.metrics import association_scores, weat
from tests.metrics.wefe import EFFECT_SIZE, EXACT_P, P_VALUE, STATISTIC

GOLDEN = Path(__file__).parents[1] / "golden" / "wefe_vectors.npz"


@pytest.fixture(scope="module")
def sets():
    """Male terms, female terms, career, family."""
    return np.load(GOLDEN)["vectors"].reshape(4, 8, 300)


def test_statistic_and_effect_size_are_wefes(sets):
    """WEFE sums where we average, over 8 targets a set, and divides by the targets' deviation with ddof 0.

    Its cosines are in float32, which leaves seven digits.
    """
    result = weat(*sets, ddof=0)
    assert 8 * result.statistic == pytest.approx(STATISTIC, abs=2e-7)
    assert result.effect_size == pytest.approx(EFFECT_SIZE, abs=2e-7)
    assert weat(*sets).effect_size == pytest.approx(EFFECT_SIZE * np.sqrt(15 / 16), abs=2e-7)


def test_the_exact_p_is_that_of_all_splits(sets):
    result = weat(*sets)
    assert (result.exact, result.n_splits) == (True, 12_870)
    assert result.p_value == pytest.approx(EXACT_P, abs=5e-7)


def test_wefes_p_is_that_of_drawing_words_with_replacement(sets):
    """Its "permutation" draws 16 of the 16 words with replacement: their difference varies by 15/16 of what it should.

    So its p is below the exact one, by 0.010 here: five times the Monte-Carlo error of 0.002 at its 40,000 draws.
    """
    x, y, a, b = sets
    pool = association_scores(np.concatenate([x, y]), a, b)
    observed = pool[:8].mean() - pool[8:].mean()
    rng = np.random.default_rng(0)
    drawn = rng.choice(pool, (400_000, 16))
    with_replacement = ((drawn[:, :8].mean(axis=1) - drawn[:, 8:].mean(axis=1)) > observed).mean()
    assert with_replacement == pytest.approx(P_VALUE, abs=0.004)
    permuted = rng.permuted(np.tile(pool, (100_000, 1)), axis=1)
    without = ((permuted[:, :8].mean(axis=1) - permuted[:, 8:].mean(axis=1)) >= observed - 1e-9).mean()
    assert without == pytest.approx(EXACT_P, abs=0.005)
    variances = (
        np.var(drawn[:, :8].mean(axis=1) - drawn[:, 8:].mean(axis=1)),
        np.var(permuted[:, :8].mean(axis=1) - permuted[:, 8:].mean(axis=1)),
    )
    assert variances[0] / variances[1] == pytest.approx(15 / 16, abs=0.01)


def test_wefes_two_sided_p_of_a_negative_effect_is_1_and_ours_is_not(sets):
    """It compares |S| with the signed observed value, so every split is as extreme as a negative one."""
    x, y, a, b = sets
    forward, backward = (weat(*pair, a, b, alternative="two-sided").p_value for pair in ((x, y), (y, x)))
    assert forward == backward < 0.5
