"""When a run that is drawn in rounds draws no more."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from clinometer.errors import InvalidInputError


@dataclass(frozen=True)
class StoppingRule:
    """When a target draws no more.

    ``precision`` : half-width of the 95 % confidence sequence that suffices; None to stop once the target is decided,
    as leaning or as balanced.
    """

    precision: float | None = None

    def __post_init__(self) -> None:
        if self.precision is not None and not 0 < self.precision < inf:
            raise InvalidInputError(f"precision: expected a positive finite number, found {self.precision}")
