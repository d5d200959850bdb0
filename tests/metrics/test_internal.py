"""Diffusion bias and bias amplification, elementwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.metrics import (
    bias_amplification,
    delta_alpha_curve,
    diffusion_bias,
    signed_bias_amplification,
    signed_diffusion_bias,
)
from clinometer.metrics.mcas import aligned_diffusion_bias

score = st.floats(-2, 2).filter(lambda x: x == 0 or abs(x) > 1e-6)


@given(score, score)
def test_diffusion_bias_is_the_magnitude_of_its_signed_form_and_symmetric(ii, tt):
    assert diffusion_bias(ii, tt) == abs(signed_diffusion_bias(ii, tt)) == diffusion_bias(tt, ii)
    assert signed_diffusion_bias(ii, tt) == -signed_diffusion_bias(tt, ii)
    assert diffusion_bias(-ii, tt) == diffusion_bias(ii, tt)
    assert 0 <= diffusion_bias(ii, tt) <= 2


@given(score, score, score, st.floats(0.1, 10))
def test_amplification_is_free_of_scale_and_odd_in_its_signs(itp, ita, tt, scale):
    alpha = signed_bias_amplification(itp, ita, tt)
    if tt == 0:
        assert np.isnan(alpha)
        return
    assert signed_bias_amplification(scale * itp, scale * ita, scale * tt) == pytest.approx(float(alpha), rel=1e-9)
    assert signed_bias_amplification(-itp, -ita, tt) == -alpha == signed_bias_amplification(itp, ita, -tt)
    assert bias_amplification(itp, ita, tt) == abs(alpha)


def test_no_amplification_when_text_image_leans_as_text():
    assert bias_amplification(0.1, 0.1, 0.1) == pytest.approx(1)


def test_zero_denominators_are_nan_among_numbers():
    np.testing.assert_array_equal(bias_amplification([1.0, 1.0], [1.0, 1.0], [0.0, 2.0]), [np.nan, 0.5])
    near = [3e-17, -1e-13, 1e-320, 1e-11]
    np.testing.assert_array_equal(np.isnan(bias_amplification(0.1, 0.1, near)), [True, True, True, False])
    assert np.isnan(bias_amplification(0.1, 0.1, 1e-9, rounding=1e-8))


def test_aligned_draws_reach_below_zero_and_keep_coverage_at_zero():
    """At II = 0 percentiles of |II*| − |TT| never cover −|TT|; with signs held they do in 95 % of studies."""
    rng = np.random.default_rng(0)
    ii_hat = rng.normal(0, 1, 500)
    covered = {"aligned": 0, "folded": 0}
    noise = rng.normal(0, 1, 2000)
    for x in ii_hat:
        draws = {
            "aligned": aligned_diffusion_bias(x + noise, np.full(2000, 0.3), np.sign(x), np.float64(1)),
            "folded": signed_diffusion_bias(x + noise, np.full(2000, 0.3)),
        }
        for name, drawn in draws.items():
            low, high = np.quantile(drawn, [0.025, 0.975])
            covered[name] += bool(low <= -0.3 <= high)
    assert covered["aligned"] / 500 == pytest.approx(0.95, abs=0.03)
    assert covered["folded"] == 0


def test_curve_of_too_few_targets_has_a_reason():
    curve = delta_alpha_curve([0.1, 0.2], [1.0, 2.0])
    assert curve.reason
    assert curve.x.size == 0
