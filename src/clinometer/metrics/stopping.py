"""When a run that is drawn in rounds stops. See decision 6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.verdict import LEVEL
from clinometer.stats.multiplicity import e_benjamini_hochberg
from clinometer.stats.sequential import p_value_of

ATTRIBUTE_LEVEL = 0.01
"""Share of all errors that the attribute images may make."""


@dataclass(frozen=True)
class StoppingRule:
    """When a target needs no more images.

    ``precision`` : half-width of the 95 % confidence sequence that suffices; None to stop once the target is decided,
    as leaning or as balanced.
    """

    precision: float | None = None

    def __post_init__(self) -> None:
        if self.precision is not None and not 0 < self.precision < inf:
            raise InvalidInputError(f"precision: expected a positive finite number, found {self.precision}")


@dataclass(frozen=True)
class Evidence:
    """What a target's images tell so far.

    Attributes
    ----------
    n : images seen.
    value : their mean y; ``low``, ``high`` the confidence sequence of its held form and what the attribute images may
        be off by, 95 % together, widened to contain it.
    e, p, q : evidence against a mean of 0, with its p-value and its q-value over the targets.
    e_balance, q_balance : evidence against |mean| ≥ margin; NaN without a margin.
    reach : r, what the attribute images may be off by.
    factor, factor_balance : times the images at which leaning, or balance, is about as likely decided as not, if those
        to come are drawn from those there are, and all targets that are not decided grow alike; infinite for none, or
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

    @property
    def p(self) -> float:
        """Anytime-valid p of a mean of 0: what the images say, and what the attribute images may be wrong in."""
        return min(1.0, p_value_of(self.e) + ATTRIBUTE_LEVEL)

    @property
    def leans(self) -> bool:
        """Whether the mean is shown not to be 0, by the images as held and with those beyond in full."""
        return self.q <= LEVEL and not self.low <= 0 <= self.high

    @property
    def balanced(self) -> bool:
        """Whether the mean is shown to be within the margin."""
        return self.q_balance <= LEVEL

    def stops(self, rule: StoppingRule) -> bool:
        """Tell whether more images are not needed."""
        if rule.precision is not None:
            return (self.high - self.low) / 2 <= rule.precision
        return self.leans or self.balanced


def in_family(stands: Sequence[Evidence]) -> list[Evidence]:
    """Return the same with the q-values of one family, what the attribute images may be wrong in included."""
    q = _q_values([stand.e for stand in stands])
    q_balance = _q_values([stand.e_balance for stand in stands])
    return [
        replace(stand, q=float(of_leaning), q_balance=float(of_balance))
        for stand, of_leaning, of_balance in zip(stands, q, q_balance, strict=True)
    ]


def _q_values(evidence: Sequence[float]) -> np.ndarray:
    return np.asarray(np.minimum(e_benjamini_hochberg(np.array(evidence)) + ATTRIBUTE_LEVEL, 1.0))
