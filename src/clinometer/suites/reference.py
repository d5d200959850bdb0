"""A declared standard: the share of each group that shares of pictures are held against, and where it is from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer.errors import InvalidInputError, SuiteError
from clinometer.suites.strict import Name, Number, Strict, Text

_ROUNDING: Final = 0.0051
"""How far published shares of all groups may be from 1 together, by which each was rounded to a percent."""

Share = Annotated[Number, Field(ge=0, le=1)]
People = Annotated[Number, Field(gt=0)]


class Reference(Strict):
    """A standard that somebody declared; nothing says that it is fair.

    ``shares`` : by concept and group, by its name or its label; a concept without a group has no match. Of two groups
    one is enough. ``n`` : people that a concept's shares were counted from; without it they are taken as exact.
    ``codes`` : what concepts were mapped to. ``margin`` : the distance between two shares below which they count as
    alike.
    """

    source: Text
    year: Name | None = None
    place: Name | None = None
    shares: dict[Name, dict[Name, Share]] = Field(min_length=1)
    n: dict[Name, People] = Field(default_factory=dict)
    codes: dict[Name, Name] = Field(default_factory=dict)
    margin: Annotated[Number, Field(gt=0, lt=0.5)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _year_as_text(cls, data: Any) -> Any:
        """Accept a year as YAML reads it, as a number."""
        if isinstance(data, Mapping) and isinstance(data.get("year"), int) and not isinstance(data["year"], bool):
            return {**data, "year": str(data["year"])}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        for field, named in (("n", self.n), ("codes", self.codes)):
            for concept in named:
                if concept not in self.shares:
                    raise InvalidInputError.unknown_name(f"{field}.{concept}: it has no shares; {self._known(concept)}")
        for concept, shares in self.shares.items():
            total = sum(shares.values())
            if total > 1 + _ROUNDING * len(shares):
                raise InvalidInputError.out_of_range(
                    f"shares.{concept}: the groups have {total:.3g} together, more than 1"
                )
        if not any(self.shares.values()):
            raise InvalidInputError.too_few("shares: no concept has a match")
        return self

    def _known(self, concept: str) -> str:
        return did_you_mean(concept, self.shares) or f"there are {first_and_more(list(self.shares), 5)}"

    @property
    def cited(self) -> str:
        """The citation of its source."""
        return ", ".join(filter(None, (self.source, self.place, self.year)))

    def of_groups(self, names: Mapping[str, str]) -> dict[tuple[str, str], tuple[float, float]]:
        """Return share and people (``inf``: exact) by concept and group, for groups that ``names`` maps to labels."""
        called = {called.casefold(): name for name, label in names.items() for called in (label, name)}
        return {
            (concept, called[group.casefold()]): (share, self.n.get(concept, inf))
            for concept, shares in self.shares.items()
            for group, share in shares.items()
            if group.casefold() in called
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
