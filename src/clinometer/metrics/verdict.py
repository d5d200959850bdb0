"""Verdicts: the words for a score with an interval and a q-value, defined once.

==========================  ==============================================================================
``balanced within margin``  the 95 % interval lies inside ±margin (the suite must name a margin)
``leans to G``              the interval excludes 0 and q ≤ 0.05
``leans slightly to G``     the same, but the estimate is smaller than the margin
``undecided``               none of these: more images would tell
``not measured``            there is no estimate, or no interval or q-value to judge it by
==========================  ==============================================================================

The order is the precedence. A leaning that is certain and yet inside the margin counts as balanced: the
margin is the size below which a suite calls a leaning none.
"""

from __future__ import annotations

from math import isnan

BALANCED = "balanced within margin"
UNDECIDED = "undecided"
NOT_MEASURED = "not measured"

LEVEL = 0.05
"""Largest q-value that counts."""


def verdict(*, value: float, low: float, high: float, q: float, a: str, b: str, margin: float | None = None) -> str:
    """Judge a signed score, positive towards group ``a``, in the words of the table above.

    >>> verdict(value=0.2, low=0.1, high=0.3, q=0.001, a="men", b="women", margin=0.05)
    'leans to men'
    >>> verdict(value=-0.01, low=-0.03, high=0.02, q=0.4, a="men", b="women", margin=0.05)
    'balanced within margin'
    """
    if any(map(isnan, (value, low, high, q))):
        return NOT_MEASURED
    if margin is not None and -margin < low and high < margin:
        return BALANCED
    if low <= 0 <= high or q > LEVEL:
        return UNDECIDED
    slightly = margin is not None and abs(value) < margin
    return f"leans {'slightly ' if slightly else ''}to {a if value > 0 else b}"
