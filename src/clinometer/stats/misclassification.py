"""A share that was read by an imperfect reader: how well it reads, and the share corrected for that.

With s the sensitivity and c the specificity of the reader, a share π of A is *read* as

    r = π s + (1 − π) (1 − c)

which is solved for π by Rogan & Gladen (1978). s − (1 − c) = s + c − 1 is Youden's index J, the *informedness*: 1 for a
reader that never errs, 0 for one that tosses a coin. See decision 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import nan, sqrt

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence, require_count
from clinometer.stats.proportion import wilson_interval


@dataclass(frozen=True)
class ReadingCounts:
    """How a reader did on items whose group is known: so many of A read as A, so many of B as B."""

    right_a: int
    n_a: int
    right_b: int
    n_b: int

    def __post_init__(self) -> None:
        for group, right, n in (("a", self.right_a, self.n_a), ("b", self.right_b, self.n_b)):
            require_count(f"n_{group}", n, least=0)
            require_count(f"right_{group}", right, least=0)
            if right > n:
                raise InvalidInputError(f"right_{group}: expected 0 to n_{group} = {n}, found {right}")

    def swapped(self) -> ReadingCounts:
        """The same with A and B exchanged."""
        return ReadingCounts(self.right_b, self.n_b, self.right_a, self.n_a)


@dataclass(frozen=True)
class Informedness:
    """Sensitivity plus specificity less 1, in [−1, 1], with its interval; NaN with a reason without items of a group.

    0 is a reader that knows nothing, below 0 one that reads the groups the wrong way round.
    """

    value: float
    low: float
    high: float
    reason: str = ""


@dataclass(frozen=True)
class CorrectedShare:
    """A share corrected for misreading, in [0, 1], with its interval; NaN with a reason where it has none.

    ``estimate`` is the value before it was clipped to [0, 1].
    """

    value: float
    low: float
    high: float
    estimate: float
    reason: str = ""


NO_ITEM = "no item of a group is known"
COVERS_ZERO = "the interval of sensitivity + specificity \N{MINUS SIGN} 1 covers 0"


@lru_cache(maxsize=1 << 14)  # one reader reads every concept of a run
def informedness(reading: ReadingCounts, confidence: float = 0.95) -> Informedness:
    """``J = s + c − 1`` with the interval of a difference of two shares (Newcombe 1998, method 10).

    The two shares are s and 1 − c; the interval is built from Wilson's of each, so it stays in [−1, 1] and has a width
    where nothing was misread, too.

    >>> youden_j = informedness(ReadingCounts(30, 32, 28, 32))
    >>> round(youden_j.value, 4), round(youden_j.low, 2), round(youden_j.high, 2)
    (0.8125, 0.6, 0.9)

    Raises
    ------
    InvalidInputError
        A confidence outside 0 to 1.
    """
    require_confidence(confidence)
    if not (reading.n_a and reading.n_b):
        return Informedness(nan, nan, nan, NO_ITEM)
    sensitivity = wilson_interval(reading.right_a, reading.n_a, confidence)
    specificity = wilson_interval(reading.right_b, reading.n_b, confidence)
    both = (sensitivity, specificity)
    below = sqrt(sum((share.value - share.low) ** 2 for share in both))
    above = sqrt(sum((share.high - share.value) ** 2 for share in both))
    value = sensitivity.value + specificity.value - 1
    return Informedness(value, max(value - below, -1.0), min(value + above, 1.0))


def corrected_share(count: int, n: int, reading: ReadingCounts, confidence: float = 0.95) -> CorrectedShare:
    """Share of A among items of which ``count`` of ``n`` were read as A, corrected for misreading.

    ::

        π = (r + c − 1) / (s + c − 1)          r = count / n, clipped to [0, 1]          (Rogan & Gladen 1978)

    with the interval of Lang & Reiczigel (2014), which carries the sampling error of r, s and c. With
    r' = (count + z²/2)/(n + z²), s' = (right_a + 1)/(n_a + 2), c' alike, and π' made of these,

    ::

        π' + d ± z √( r'(1−r')/(n+z²) + π'² V_s + (1−π')² V_c ) / (s' + c' − 1)
        d = 2 z² (π' V_s − (1−π') V_c)          V_s = s'(1−s')/(n_a+2), V_c alike

    clipped to [0, 1], and widened to hold the estimate where it does not. The three samples are taken as independent,
    and the items in question as misread as often as those whose group is known. Where the interval of
    :func:`informedness` covers 0, r says nothing of π: undefined. A reader that never errs leaves the share as it is;
    exchanging A and B gives 1 − π, and its interval mirrored.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers, more than n of n, or a confidence outside 0 to 1.

    Source: W. J. Rogan, B. Gladen, *Estimating prevalence from the results of a screening test* (1978); Z. Lang,
    J. Reiczigel, *Confidence limits for prevalence of disease adjusted for estimated sensitivity and specificity*
    (2014).
    """
    require_count("n", n, least=0)
    require_count("count", count, least=0)
    if count > n:
        raise InvalidInputError(f"count: expected 0 to n = {n}, found {count}")
    youden_j = informedness(reading, confidence)
    reason = youden_j.reason if n else "no image"
    if not reason and youden_j.low <= 0:
        reads_wrong = youden_j.high < 0
        reason = "the reader takes either group for the other" if reads_wrong else COVERS_ZERO
    if reason:
        return CorrectedShare(nan, nan, nan, nan, reason)
    estimate = (count / n + reading.right_b / reading.n_b - 1) / youden_j.value
    low, high = _lang_reiczigel(count, n, reading, confidence)
    value = min(max(estimate, 0.0), 1.0)
    # the formula adds counts to every sample: with a handful of items it may pass the estimate by
    return CorrectedShare(value, max(min(low, value), 0.0), min(max(high, value), 1.0), estimate)


def _lang_reiczigel(count: int, n: int, reading: ReadingCounts, confidence: float) -> tuple[float, float]:
    """The interval before it is clipped; the module's formulas."""
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    read = (count + z**2 / 2) / (n + z**2)
    right = np.array([reading.right_a, reading.right_b], np.float64)
    items = np.array([reading.n_a, reading.n_b], np.float64) + 2
    rates = (right + 1) / items
    of_a, of_b = rates * (1 - rates) / items
    slope = float(rates.sum()) - 1
    share = (read + float(rates[1]) - 1) / slope
    centre = share + 2 * z**2 * (share * of_a - (1 - share) * of_b)
    spread = z * sqrt(read * (1 - read) / (n + z**2) + share**2 * of_a + (1 - share) ** 2 * of_b) / slope
    return float(centre - spread), float(centre + spread)
