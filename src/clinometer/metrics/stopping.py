"""Runs drawn in rounds, each target until it is decided: the evidence so far, and when it suffices. See decision 6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan
from typing import Final

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import LEVEL
from clinometer.stats.multiplicity import e_benjamini_hochberg
from clinometer.stats.sequential import p_value_of

ATTRIBUTE_LEVEL = 0.01
"""Share of all errors that the attribute images may make."""


@dataclass(frozen=True)
class StoppingRule:
    """The rule by which a target needs no more images.

    ``precision`` : half-width of the 95 % confidence sequence that suffices; None to stop once the target is decided,
    as leaning or as balanced.
    """

    precision: float | None = None

    def __post_init__(self) -> None:
        if self.precision is not None and not 0 < self.precision < inf:
            raise InvalidInputError.out_of_range(
                f"expected a positive finite number, found {self.precision}", field="precision"
            )


@dataclass(frozen=True)
class Evidence:
    """The evidence of a target's images so far.

    Attributes
    ----------
    n : images seen.
    value : their mean y; ``low``, ``high`` the confidence sequence of its held form and what the attribute images may
        be off by, 95 % together, widened to contain it.
    e, p, q : evidence against a mean of 0, with its p-value and its q-value over the targets; where there is a middle,
        against either.
    e_balance, q_balance : evidence against |mean| ≥ margin, around both zeros; NaN without a margin.
    middle : the groups' middle, with the confidence sequence of how far the mean lies from it, and the margin around
        it; NaN where there is none.
    e_zeros : the evidence against 0 alone, and against the middle alone.
    reach : r, what the attribute images may be off by; NaN where a prompt has one, so that nothing can be decided.
    factor, factor_balance : times the images at which leaning, or balance, is decided with a chance of .8, if those to
        come are drawn from those there are, and all targets that are not decided grow alike; infinite for none, or
        where nobody asked (``ahead``).
    clipped : images whose y was outside of the groups' own span and was held at its end.
    """

    n: int
    value: float
    low: float
    high: float
    e: float
    q: float = nan
    e_balance: float = nan
    q_balance: float = nan
    factor: float = inf
    factor_balance: float = inf
    clipped: int = 0
    reach: float = 0.0
    middle: float = nan
    middle_margin: float = nan
    from_middle_low: float = nan
    from_middle_high: float = nan
    e_zeros: tuple[float, float] = (nan, nan)

    @property
    def p(self) -> float:
        """Anytime-valid p of a mean of 0: what the images say, and what the attribute images may be wrong in."""
        return anytime_p(self.e)

    @property
    def beyond(self) -> tuple[int, int]:
        """On which side of 0, and of the middle, the confidence sequence lies as a whole: 1, −1, or 0 for neither."""
        of_0 = int(self.low > 0) - int(self.high < 0)
        return of_0, of_0 if isnan(self.middle) else int(self.from_middle_low > 0) - int(self.from_middle_high < 0)

    @property
    def leans(self) -> bool:
        """True if the mean is shown to lie beyond both zeros, by the images as held and with those beyond in full."""
        of_0, of_middle = self.beyond
        return self.q <= LEVEL and of_0 != 0 and of_0 == of_middle

    @property
    def balanced(self) -> bool:
        """True if the mean is shown to be within the margin."""
        return self.q_balance <= LEVEL

    def stops(self, rule: StoppingRule) -> bool:
        """Return whether drawing should stop: it is decided, or no further image can decide it."""
        if isnan(self.reach):
            return True
        if rule.precision is not None:
            return (self.high - self.low) / 2 <= rule.precision
        return self.leans or self.balanced


def in_family(stands: Sequence[Evidence]) -> list[Evidence]:
    """Return the same with the q-values of one family, what the attribute images may be wrong in included."""
    q, q_balance = (anytime_q(np.array([getattr(stand, name) for stand in stands])) for name in ("e", "e_balance"))
    return [
        replace(stand, q=float(of_leaning), q_balance=float(of_balance))
        for stand, of_leaning, of_balance in zip(stands, q, q_balance, strict=True)
    ]


FIXED_ONLY: Final = "images were drawn until decided: this interval or test holds only for a number fixed beforehand"


def without_inference(row: Score) -> Score:
    """Return only the estimate of a row whose interval and test hold for a number of images fixed beforehand."""
    claims = (row.low, row.high, row.stimulus_low, row.stimulus_high, row.p)
    if all(isnan(number) for number in claims):
        return row
    return replace(
        row, low=nan, high=nan, stimulus_low=nan, stimulus_high=nan, p=nan, q=nan, p_holm=nan, p_error=nan,
        p_exact=False, n_splits=0, p_method="", p_low=nan, p_high=nan, test="", family="",
        p_equivalence=nan, q_equivalence=nan, n_decide=0, verdict="", side="", reason_code="",
        bound_low=nan, bound_high=nan, depends_on="",
        middle=nan, middle_margin=nan, from_middle_low=nan, from_middle_high=nan, p_zero=nan, p_middle=nan,
        reason=FIXED_ONLY,
    )  # fmt: skip


def anytime_p(e_value: float) -> float:
    """Return the p-value of an e-value, and on top what the attribute images may be wrong in."""
    return float(np.minimum(p_value_of(e_value) + ATTRIBUTE_LEVEL, 1.0))


def anytime_q(e_values: np.ndarray) -> np.ndarray:
    """Return the q-values of a family of e-values, and on top what the attribute images may be wrong in."""
    return np.asarray(np.minimum(e_benjamini_hochberg(e_values) + ATTRIBUTE_LEVEL, 1.0))
