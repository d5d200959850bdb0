"""An estimate that adds up independent means, with its t interval and p-value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import scipy

from clinometer.stats.bootstrap import welch_satterthwaite


@dataclass(frozen=True)
class WelchEstimate:
    """A number whose error is the sum of independent parts.

    Attributes
    ----------
    value : the estimate.
    variances : squared standard error of each part.
    freedoms : degrees of freedom of each part.
    reason : why there is no value, or no error; empty otherwise.
    """

    value: float = nan
    variances: tuple[float, ...] = ()
    freedoms: tuple[int, ...] = ()
    reason: str = ""

    def __add__(self, other: WelchEstimate) -> WelchEstimate:
        """The sum of two independent estimates."""
        reason = self.reason or other.reason
        return WelchEstimate(
            self.value + other.value, self.variances + other.variances, self.freedoms + other.freedoms, reason
        )

    def __neg__(self) -> WelchEstimate:
        return WelchEstimate(-self.value, self.variances, self.freedoms, self.reason)

    def without_error(self) -> WelchEstimate:
        """The same value, held fixed."""
        return WelchEstimate(self.value, (), (), self.reason if np.isnan(self.value) else "")

    @property
    def standard_error(self) -> float:
        """NaN where a part has too few items to tell; 0 for a value held fixed."""
        return float(np.sqrt(sum(self.variances))) if np.isfinite(self.value) else nan

    @property
    def degrees_of_freedom(self) -> float:
        """Welch and Satterthwaite's, of the parts together; infinite for a value held fixed."""
        return float(welch_satterthwaite(list(zip(self.variances, self.freedoms, strict=True))))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The t interval; NaN where there is no error to tell."""
        error = self.standard_error
        if not error > 0:
            return nan, nan
        reach = float(scipy.stats.t.ppf((1 + confidence) / 2, self.degrees_of_freedom)) * error
        return self.value - reach, self.value + reach

    def p_value(self) -> float:
        """Two-sided p of the value 0; NaN where there is no error to tell."""
        error = self.standard_error
        return float(2 * scipy.stats.t.sf(abs(self.value) / error, self.degrees_of_freedom)) if error > 0 else nan


def mean_part(values: np.ndarray) -> tuple[float, int]:
    """Squared standard error and degrees of freedom of a mean; NaN and 0 for fewer than two values."""
    n = len(values)
    return (float(np.var(values, ddof=1)) / n, n - 1) if n > 1 else (nan, 0)


def bilinear_mean(cosines_a: np.ndarray, cosines_b: np.ndarray, what: Sequence[str]) -> WelchEstimate:
    """``mean C_A − mean C_B`` of (n × n_a) and (n × n_b) cosines; rows and columns are three independent samples.

    To first order its error is that of three means: of the rows' own differences, of the A columns' means and of the
    B columns' means. ``what`` names the three for the reason.
    """
    if not (cosines_a.size and cosines_b.size):
        missing = [
            name
            for name, n in zip(what, (cosines_a.shape[0], cosines_a.shape[1], cosines_b.shape[1]), strict=True)
            if not n
        ]
        return WelchEstimate(reason=f"no {' and no '.join(missing)}")
    return _sum_of_parts(_independent_samples(cosines_a, cosines_b), what)


def paired_bilinear_difference(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], what: Sequence[str]
) -> WelchEstimate:
    """:func:`bilinear_mean` of ``second`` minus that of ``first``, each a pair of cosines, items of one place paired.

    The three samples are of differences between partners, so what both have in common is in none of them.
    """
    if not all(cosines.size for cosines in (*first, *second)):
        return bilinear_mean(*second, what) + (-bilinear_mean(*first, what))
    pairs = zip(_independent_samples(*first), _independent_samples(*second), strict=True)
    return _sum_of_parts([of_second - of_first for of_first, of_second in pairs], what)


def _independent_samples(cosines_a: np.ndarray, cosines_b: np.ndarray) -> list[np.ndarray]:
    """Of the rows, the A columns and the B columns: values whose means' errors add up to that of the whole."""
    return [cosines_a.mean(axis=1) - cosines_b.mean(axis=1), cosines_a.mean(axis=0), cosines_b.mean(axis=0)]


def _sum_of_parts(samples: Sequence[np.ndarray], what: Sequence[str]) -> WelchEstimate:
    parts = [mean_part(values) for values in samples]
    single = [name for name, (_, freedom) in zip(what, parts, strict=True) if not freedom]
    reason = f"interval: one of {' and one of '.join(single)} only" if single else ""
    return WelchEstimate(float(samples[0].mean()), tuple(v for v, _ in parts), tuple(f for _, f in parts), reason)
