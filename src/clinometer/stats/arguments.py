"""Checks of arguments that many functions share, so that a mistake is named in one line."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, get_args

import numpy as np

from clinometer.errors import InvalidInputError


def require_count(name: str, n: Any, least: int = 1) -> None:
    """Refuse anything but a whole number of ``least`` or more."""
    if not isinstance(n, Integral):
        raise InvalidInputError.wrong_type(f"expected a whole number, found {n!r}", field=name)
    if n < least:
        raise InvalidInputError.out_of_range(f"expected at least {least}, found {n}", field=name)


def require_choice(name: str, choice: Any, choices: Any) -> None:
    """Refuse anything but one of the choices, or of the strings of a ``Literal``."""
    choices = get_args(choices) or choices
    if choice not in choices:
        raise InvalidInputError.expected_one_of(choices, choice, field=name)


def require_confidence(confidence: Any) -> None:
    """Refuse a confidence outside 0 to 1, such as 95 for 0.95."""
    if not isinstance(confidence, Real) or not 0 < float(confidence) < 1:
        raise InvalidInputError.out_of_range(
            f"expected a number between 0 and 1, found {confidence!r}", field="confidence"
        )


def generator(rng: Any) -> np.random.Generator:
    """Return the random generator for a seed, a generator or None."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise InvalidInputError.wrong_type(
            f"expected a seed (a whole number, at least 0), a numpy Generator or None, found {rng!r}", field="rng"
        ) from None
