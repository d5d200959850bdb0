"""A declared standard: the share of each group that shares of pictures are compared with, and its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer.errors import InvalidInputError, SuiteError
from clinometer.suites.strict import Name, Number, Strict, Text

_ROUNDING: Final = 0.0051
"""How far a published share may be off, being rounded to a percent; their sum may exceed 1 by that for each group."""

Share = Annotated[Number, Field(ge=0, le=1)]
People = Annotated[Number, Field(gt=0)]


class Reference(Strict):
    """A standard that somebody declared; nothing says that it is fair.

    ``shares`` : by concept and group, by its name or its label; a concept without a group has no match. Of two groups
    one is enough. ``n`` : people that a concept's shares were counted from; without it they are taken as exact.
    ``year`` may be a number, as YAML reads it. ``codes`` : what concepts were mapped to. ``margin`` : the distance
    between two shares below which they count as alike.
    """

    source: Text
    year: Annotated[Name, BeforeValidator(lambda year: str(year) if type(year) is int else year)] | None = None
    place: Name | None = None
    shares: dict[Name, dict[Name, Share]] = Field(min_length=1)
    n: dict[Name, People] = Field(default_factory=dict)
    codes: dict[Name, Name] = Field(default_factory=dict)
    margin: Annotated[Number, Field(gt=0, lt=0.5)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for field in ("n", "codes"):
            for concept in getattr(self, field):
                if concept not in self.shares:
                    hint = did_you_mean(concept, self.shares) or f"there are {first_and_more(list(self.shares), 5)}"
                    raise InvalidInputError.unknown_name(f"{field}.{concept}: it has no shares; {hint}")
        for concept, shares in self.shares.items():
            total = sum(shares.values())
            if total > 1 + _ROUNDING * len(shares):
                raise InvalidInputError.out_of_range(
                    f"shares.{concept}: the groups have {total:.3g} together, more than 1"
                )
        if not any(self.shares.values()):
            raise InvalidInputError.too_few("shares: no concept has a match")
        return self

    @property
    def cited(self) -> str:
        """The citation of its source."""
        return ", ".join(filter(None, (self.source, self.place, self.year)))

    def of_groups(self, names: Mapping[str, str]) -> dict[tuple[str, str], tuple[float, float]]:
        """Return share and people (``inf``: exact) by concept and group, for groups that ``names`` maps to labels."""
        names_of = {text.casefold(): name for name, label in names.items() for text in (label, name)}
        return {
            (concept, names_of[group.casefold()]): (share, self.n.get(concept, inf))
            for concept, shares in self.shares.items()
            for group, share in shares.items()
            if group.casefold() in names_of
        }

    def require_fit(self, concepts: Iterable[str], source: str) -> None:
        """Refuse a standard none of whose concepts is a suite's; others than the suite's are allowed.

        Raises
        ------
        SuiteError
            The message names what the suite has.
        """
        known = list(dict.fromkeys(concepts))
        if not set(self.shares) & set(known):
            first = next(iter(self.shares))
            hint = did_you_mean(first, known) or f"it has {first_and_more(known, 5) or 'none'}"
            raise SuiteError.mismatch(
                f"{source}: none of its concepts, such as {quoted(first)}, is the suite's; {hint}"
            )
