"""Sample sizes against statsmodels and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest
from statsmodels.stats.power import NormalIndPower

from clinometer.errors import InvalidInputError
from clinometer.stats.equivalence import equivalence_p_value
from clinometer.stats.multiplicity import images_for_share, images_to_detect, images_to_show_balance


@pytest.mark.parametrize(("effect", "deviation", "power"), [(0.1, 0.5, 0.8), (-0.3, 1.0, 0.9), (0.02, 0.1, 0.95)])
def test_detection_is_statsmodels(effect: float, deviation: float, power: float) -> None:
    expected = NormalIndPower().solve_power(abs(effect) / deviation, power=power, alpha=0.05, ratio=0)
    assert images_to_detect(effect, deviation, power=power) == np.ceil(expected)


@pytest.mark.parametrize("value", [0.0, 0.04])
def test_balance_is_shown_as_often_as_asked(value: float) -> None:
    n = images_to_show_balance(0.1, 0.5, value=value, power=0.8)
    means = np.random.default_rng(1).normal(value, 0.5 / np.sqrt(n), 8_000)
    shown = np.mean([equivalence_p_value(m, 0.5 / np.sqrt(n), 0.1) <= 0.05 for m in means])
    assert shown == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("share", [0.6, 0.75, 0.9, 0.1])
def test_a_share_is_found_as_often_as_asked_and_in_larger_designs_too(share: float) -> None:
    n = int(images_for_share(share))
    for more in (n, n + 1, n + 7):
        found = [binomtest(int(k), more).pvalue <= 0.05 for k in np.random.default_rng(more).binomial(more, share, 500)]
        assert np.mean(found) >= 0.8 - 0.06
    fewer = [binomtest(int(k), n - 1).pvalue <= 0.05 for k in np.random.default_rng(0).binomial(n - 1, share, 1500)]
    assert np.mean(fewer) < 0.8 + 0.04


def test_sides_do_not_matter() -> None:
    assert images_to_detect(0.1, 1.0) == images_to_detect(-0.1, 1.0)
    assert images_for_share(0.3) == images_for_share(0.7)


def test_what_no_number_of_images_does_is_nan() -> None:
    assert np.isnan(images_to_detect(0.0, 1.0))
    assert np.isnan(images_to_show_balance(0.1, 1.0, value=0.1))
    assert np.isnan(images_for_share(0.5))
    assert np.isnan(images_to_detect(np.nan, 1.0))


def test_one_image_is_never_enough() -> None:
    """It has no interval, so no verdict."""
    assert images_to_detect(5.0, 0.1) == 2
    assert images_to_show_balance(5.0, 0.1) == images_to_show_balance(5.0, 0.1, value=0.1) == 2


def test_more_power_needs_more_images() -> None:
    needs = [images_to_detect(0.1, 1.0, power=power) for power in (0.5, 0.8, 0.9, 0.99)]
    assert needs == sorted(needs)


def test_bad_levels_are_named() -> None:
    with pytest.raises(InvalidInputError, match="power"):
        images_to_detect(0.1, 1.0, power=1.0)
    with pytest.raises(InvalidInputError, match="share"):
        images_for_share(1.2)
