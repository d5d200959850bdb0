"""Names that the rows of people's ratings share."""

from __future__ import annotations

from math import isfinite
from typing import Final

import numpy as np

HUMAN: Final = "human"
"""The metric of numbers that rest on answers of people."""
SIMULATED: Final = "simulated"
"""The metric of the same numbers where they rest on simulated raters, who are never pooled with people."""

ONE_RATER: Final = "one rater: how raters differ is not known, so it is not in the interval"


def raters_of(answers: np.ndarray) -> int:
    """Raters with at least one answer."""
    return int(np.isfinite(answers).any(axis=1).sum())


def rated_items(answers: np.ndarray) -> int:
    """Items with at least one answer."""
    return int(np.isfinite(answers).any(axis=0).sum())


def caution(answers: np.ndarray, value: float) -> str:
    """What the interval of an estimate does not hold."""
    return ONE_RATER if isfinite(value) and raters_of(answers) == 1 else ""
