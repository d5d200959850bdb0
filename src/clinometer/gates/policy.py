"""A gate's policy: a YAML file, or a mapping of the same keys."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clinometer.errors import GateError, InvalidInputError
from clinometer.metrics.records import SELECTION
from clinometer.metrics.standard import SMALLEST, TO_LARGEST
from clinometer.suites.strict import Name, Number, Strict, Text, code_of, explain, read_request, several

Patterns = Annotated[tuple[Text, ...], BeforeValidator(several), Field(min_length=1)]

SELECTORS: Final = ("concept", "category", "group", "setting", "encoder")
"""Columns of the scores by which a rule chooses rows, with patterns such as ``*worker``."""

MOST_RULES: Final = 1_000
"""A rule takes some hundredths of a second."""


def _rules(entry: Any) -> Any:
    """Refuse what is no list of rules, an empty one, and more than anyone writes."""
    if not isinstance(entry, list | tuple):
        raise InvalidInputError.wrong_type(f"expected a list of rules, found {type(entry).__name__}")
    if not entry:  # a bound of the field would count a rule's error twice
        raise InvalidInputError.too_few("expected one or more")
    if len(entry) > MOST_RULES:
        raise InvalidInputError.too_many(
            f"found {len(entry):,} rules, expected at most {MOST_RULES:,}; use patterns, or several gates"
        )
    for place, rule in enumerate(entry):
        if not isinstance(rule, Mapping | Rule):
            raise InvalidInputError.wrong_type(
                f"rule {place}: expected keys such as metric and within, found {type(rule).__name__}"
            )
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
    four_fifths : in place of metric and limits: the smallest share over the largest is at least this, 0.8 by the US
        rule of thumb; with ``group`` the share of each of these groups over the largest.
    against : ``"history"`` holds the change from the last runs that were accepted to the limits, in place of the number
        itself; without limits any change is beyond them.
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
    four_fifths: Annotated[Number, Field(gt=0, le=1)] | None = None
    interval: Literal["images", "stimuli"] | None = None
    against: Literal["history"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_empty_key(cls, data: Any) -> Any:
        """Refuse a key without a value: a limit that a template left empty would be none."""
        for key, value in data.items() if isinstance(data, Mapping) else ():
            if value is None or (key in SELECTORS and isinstance(value, list) and None in value):
                raise InvalidInputError.missing(f"{key} has no value; give one, or leave the key out")
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.four_fifths is not None:
            for key in ("metric", "component", "difference", "within", "at_least", "at_most", "interval", "against"):
                if getattr(self, key) is not None:
                    raise InvalidInputError.conflict(
                        f"four_fifths stands for the metric and its limit; leave out {key}"
                    )
            return self
        if (self.metric is None) == (self.difference is None):
            raise InvalidInputError.conflict(
                "expected one of metric and difference, of this run or of this run minus the baseline; or four_fifths"
            )
        if self.difference is not None and self.component is not None:
            raise InvalidInputError.conflict("a difference is named by its component alone; leave out component")
        if self.within is not None and (self.at_least is not None or self.at_most is not None):
            raise InvalidInputError.conflict("within stands for both limits; leave out at_least and at_most")
        if self.against is not None and (self.difference is not None or self.interval is not None):
            raise InvalidInputError.conflict(
                "against: history holds a metric of each run to its limits; leave out difference, interval"
            )
        if self.against is None and self.within is None and self.at_least is None and self.at_most is None:
            raise InvalidInputError.missing("it has no limit; give within, at_most or at_least")
        if self.limits[0] > self.limits[1]:
            raise InvalidInputError.out_of_range(f"at_least {self.at_least:g} is above at_most {self.at_most:g}")
        return self

    @property
    def number(self) -> tuple[str | None, str | None]:
        """The metric and the component; None of a difference, and for the component that has the metric's name."""
        if self.four_fifths is not None:
            return SELECTION, TO_LARGEST if self.group else SMALLEST
        return self.metric, self.component

    @property
    def limits(self) -> tuple[float, float]:
        """The lower and the upper limit; ∓∞ for none. Of a change without limits both are 0."""
        if self.four_fifths is not None:
            return self.four_fifths, inf
        if self.against is not None and self.within is None and self.at_least is None and self.at_most is None:
            return 0.0, 0.0
        if self.within is not None:
            return -self.within, self.within
        return -inf if self.at_least is None else self.at_least, inf if self.at_most is None else self.at_most


class Policy(Strict):
    """The rules of a gate."""

    title: Text | None = None
    rules: Annotated[tuple[Rule, ...], BeforeValidator(_rules)]

    @property
    def needs_baseline(self) -> bool:
        """Whether a rule is about a difference."""
        return any(rule.difference is not None for rule in self.rules)

    @property
    def needs_history(self) -> bool:
        """Return whether any rule compares the run with earlier ones."""
        return any(rule.against is not None for rule in self.rules)


def load_policy(policy: str | os.PathLike[str] | Mapping[str, Any] | Policy) -> Policy:
    """Read a policy's file, or check a mapping of the same keys; a policy is returned as it is.

    Raises
    ------
    GateError
        There is none, or it says something it must not: the message names the file and the key.
    """
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        return policy_from_mapping(policy)
    return policy_from_mapping(read_request(policy, "policy", GateError), source=os.fspath(policy))


def canonical(policy: Policy) -> bytes:
    """Return a policy as JSON that is the same however its file is laid out."""
    rules = policy.model_dump(mode="json", exclude_none=True)
    return json.dumps(rules, sort_keys=True, ensure_ascii=False).encode()


def policy_digest(policy: str | os.PathLike[str] | Mapping[str, Any] | Policy) -> str:
    """Return the SHA-256 of a policy, given as a file, a mapping or itself; comments and layout do not change it.

    Raises
    ------
    GateError
        It cannot be read.
    """
    return hashlib.sha256(canonical(load_policy(policy))).hexdigest()


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
        problem = explain(error, source, keys_at=lambda place: tuple((Rule if place else Policy).model_fields))
        raise GateError(problem, code=code_of(error)) from error
