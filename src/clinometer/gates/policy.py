"""A gate's policy as requested: a YAML file, or a mapping of the same keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clinometer._messages import did_you_mean, first_and_more
from clinometer.errors import GateError
from clinometer.suites.reading import read_request
from clinometer.suites.strict import Name, Number, Strict, Text, explain, several

Patterns = Annotated[tuple[Text, ...], BeforeValidator(several), Field(min_length=1)]

SELECTORS: Final = ("concept", "category", "group", "setting", "encoder")
"""Columns of the scores by which a rule chooses rows, with patterns such as ``*worker``."""

NONE: Final = "none"
"""Stands for rows that have none of these, such as those of no setting."""

MOST_RULES: Final = 1_000
"""A rule takes some hundredths of a second."""


def _rules(entry: Any) -> Any:
    """Refuse what is no list of rules, and more than anyone writes."""
    if not isinstance(entry, list | tuple):
        raise ValueError(f"expected a list of rules, found {type(entry).__name__}")
    if len(entry) > MOST_RULES:
        raise ValueError(f"found {len(entry):,} rules, expected at most {MOST_RULES:,}; use patterns, or several gates")
    for place, rule in enumerate(entry):
        if not isinstance(rule, Mapping | Rule):
            raise ValueError(f"rule {place}: expected keys such as metric and within, found {type(rule).__name__}")
    return entry


class Rule(Strict):
    """Numbers and the limits that every one of them must keep.

    Attributes
    ----------
    name : what it is called.
    metric : the numbers' metric, in the run's scores; or
    difference : the component of a difference from the baseline (this run less the baseline).
    component : of the metric; by default the metric's own, where one has its name.
    concept, category, group, setting, encoder : which of these numbers; patterns as of file names, or ``none``. Without
        ``encoder`` those of the average over encoders, and without ``setting`` those of none, where there are any.
    within : the limits are ± this.
    at_least, at_most : or they are these; either may be left out.
    interval : what the interval that is held to the limits is over; by default what the number's verdict rests on.
    """

    name: Name | None = None
    metric: Name | None = None
    difference: Name | None = None
    component: Name | None = None
    concept: Patterns | None = None
    category: Patterns | None = None
    group: Patterns | None = None
    setting: Patterns | None = None
    encoder: Patterns | None = None
    within: Annotated[Number, Field(gt=0)] | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    interval: Literal["images", "stimuli"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_empty_key(cls, data: Any) -> Any:
        """Refuse a key without a value: a limit that a template left empty would be none."""
        for key, value in data.items() if isinstance(data, Mapping) else ():
            if value is None or (key in SELECTORS and isinstance(value, list) and None in value):
                raise ValueError(f"{key} has no value; give one, or leave the key out")
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.metric is None) == (self.difference is None):
            raise ValueError("expected one of metric and difference: of this run, or of this run less the baseline")
        if self.difference is not None and self.component is not None:
            raise ValueError("a difference is named by its component alone; leave out component")
        if self.within is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("within stands for both limits; leave out at_least and at_most")
        if self.within is None and self.at_least is None and self.at_most is None:
            raise ValueError("it has no limit; give within, at_most or at_least")
        if self.limits[0] > self.limits[1]:
            raise ValueError(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        return self

    @property
    def limits(self) -> tuple[float, float]:
        """The lower and the upper limit; ∓∞ for none."""
        if self.within is not None:
            return -self.within, self.within
        return -inf if self.at_least is None else self.at_least, inf if self.at_most is None else self.at_most


class Policy(Strict):
    """The rules of a gate."""

    title: Text | None = None
    rules: Annotated[tuple[Rule, ...], BeforeValidator(_rules)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.rules:
            raise ValueError("rules: expected one or more")  # a bound of the field would count a rule's error twice
        return self

    @property
    def needs_baseline(self) -> bool:
        """Whether a rule is about a difference."""
        return any(rule.difference is not None for rule in self.rules)


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy's file.

    Raises
    ------
    GateError
        There is none, or it says something it must not: the message names the file and the key.
    """
    return policy_from_mapping(read_request(path, "policy", GateError), source=os.fspath(path))


def policy_from_mapping(data: Mapping[str, Any], *, source: str = "policy") -> Policy:
    """Check a policy that is already a mapping.

    Raises
    ------
    GateError
        It says something it must not.
    """
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        raise GateError(explain(error, source, keys_at=_keys_at)) from error


def _keys_at(place: tuple[int | str, ...]) -> tuple[str, ...]:
    """The keys of a rule, or of the policy itself."""
    return tuple((Rule if place else Policy).model_fields)


def require_known(value: str, known: tuple[str, ...], what: str) -> None:
    """Refuse a name that the scores do not have."""
    if value not in known:
        hint = did_you_mean(value, known) or f"the run has {first_and_more(known, most=5) or 'none'}"
        raise GateError(f"{what}: found {value!r}; {hint}")
