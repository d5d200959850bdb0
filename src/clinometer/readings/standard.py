"""A declared standard: the file it is read from, and the rows that compare a run's shares with it.

::

    concept,group,share[,n][,se][,source][,year][,place][,code]        a CSV file, a row for every concept and group

``share`` is a fraction, or ``no match`` where the standard says nothing of the concept; ``n`` the people it was counted
from or ``se`` its standard error, and it is taken as exact without either; ``code`` is what the concept was mapped to,
such as a class of occupations. Source, year and place may be in the first row alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from clinometer._messages import MISSING, composed, did_you_mean, named_in_a_line, quoted
from clinometer.errors import SuiteError
from clinometer.metrics.reading import AnsweredQuestion, errors_elsewhere, shares_of_all
from clinometer.metrics.records import STANDARD, Score
from clinometer.metrics.standard import ReferenceShare, SourceShares, standard_rows
from clinometer.models.files import read_csv
from clinometer.suites import Suite
from clinometer.suites.base import Reference
from clinometer.suites.strict import code_of, first_problem, read_request

COLUMNS: Final = ("concept", "group", "share", "n", "se", "source", "year", "place", "code")
NO_MATCH: Final = "no match"


def compare_with_standard(suite: Suite, sources: Sequence[SourceShares]) -> list[Score]:
    """Compare the shares of every source with the suite's standard; empty where it has none.

    Where no source is about the standard's groups, one row says so.
    """
    if suite.reference is None:
        return []
    rows = list[Score]()
    for source in sources:
        names = {group: suite.label_of(group) for group in source.groups}
        standard = {key: ReferenceShare(*share) for key, share in suite.reference.of_groups(names).items()}
        rows += standard_rows(source, standard, margin=suite.reference.margin)
    if rows:
        return rows
    groups = ", ".join(dict.fromkeys(group for shares in suite.reference.shares.values() for group in shares))
    reason = f"no reader, and nobody who rated, was asked about the standard's groups: {groups}"
    return [Score(metric=STANDARD, component="difference", category="all", encoder="", reason=reason)]


def shares_of_readers(answered: Sequence[AnsweredQuestion], rows: Sequence[Score]) -> list[SourceShares]:
    """Return the corrected shares of each reader and question; where people rated, of people and the reader."""
    sources = []
    for each in answered:
        about = [row for row in rows if (row.encoder, row.setting) == (each.reader, each.question)]
        if rated := [row for row in about if row.component == "rated_share"]:  # people's answers need no correction
            sources.append(SourceShares(rated, each.groups, overall=shares_of_all(each, rated, rated=True)))
        elif corrected := [row for row in about if row.component == "corrected_share"]:
            counts = {(concept.concept, each.question): concept.counts[:-1] for concept in each.concepts}
            overall = shares_of_all(each, corrected)
            sources.append(SourceShares(corrected, each.groups, counts, errors_elsewhere(each), overall))
    return sources


def read_reference(file: str | os.PathLike[str]) -> Reference:
    """Read and check a declared standard: a CSV file, or a YAML file with the keys of a suite's ``reference``.

    Raises
    ------
    SuiteError
        It is no such file: the message names the file, the line and the field.
    """
    path = Path(file)
    if not path.is_file():
        problem = "a folder" if path.is_dir() else "no such file"
        raise SuiteError.unreadable(
            f"{path}: {problem}; give a CSV file with the columns concept, group, share and source"
        )
    if path.suffix in (".yaml", ".yml"):
        return _checked(read_request(path, "reference", SuiteError), str(path))
    table = _Table(path.name)
    for line, record in read_csv(path, _check_fields):
        table.add(f"{path.name}, line {line}", record)
    return table.reference()


@dataclass
class _Table:
    """The rows of a CSV file, as they come."""

    name: str
    shares: dict[str, dict[str, float]] = field(default_factory=dict)
    people: dict[str, float] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    about: dict[str, list[str]] = field(default_factory=lambda: {"source": [], "year": [], "place": []})

    def add(self, at: str, record: Mapping[str, Any]) -> None:
        """Check a row and add it; ``at`` names the file and the line."""
        values = {name: composed(str(record.get(name) or "").strip()) for name in COLUMNS}
        values = {name: "" if value in MISSING else value for name, value in values.items()}
        concept, group = values["concept"], values["group"]
        for name, seen in self.about.items():
            if values[name] and values[name] not in seen:
                seen.append(values[name])
        if not concept:
            raise SuiteError.missing(f"{at}, concept: it is empty; name it")
        if values["code"]:
            self.codes[concept] = values["code"]
        shares = self.shares.setdefault(concept, {})
        if values["share"].casefold() in ("", NO_MATCH):
            return
        if not group:
            raise SuiteError.missing(f"{at}, group: it is empty; name the group that has this share")
        if group in shares:
            raise SuiteError.duplicate(f"{at}: {concept}, {group} has a share above already; remove one")
        shares[group] = share = _number(values["share"], f"{at}, share", most=1.0)
        counted = _people(values, share, at)
        if counted is not None:  # the least of the concept's groups
            self.people[concept] = min(self.people.get(concept, inf), counted)

    def reference(self) -> Reference:
        """Return the standard, checked as a whole."""
        if not self.shares:
            raise SuiteError.too_few(f"{self.name}: it has no row; expected one for every concept and group")
        if not self.about["source"]:
            raise SuiteError.missing(
                f"{self.name}, source: nothing found; say in the first row where the shares are from"
            )
        about = {name: "; ".join(seen) or None for name, seen in self.about.items()}
        return _checked({"shares": self.shares, "n": self.people, "codes": self.codes, **about}, self.name)


def _checked(data: Mapping[str, Any], name: str) -> Reference:
    try:
        return Reference.model_validate(data)
    except ValidationError as error:
        key, message = first_problem(error)
        problem = f"{name}, {key}: {message}" if key else f"{name}, {message}"
        raise SuiteError(problem, code=code_of(error)) from error


def _check_fields(name: str, fields: Iterable[str]) -> None:
    fields = list(fields)
    found = f"{name}, line 1: found the columns {named_in_a_line(fields)}"
    if lacking := [column for column in COLUMNS[:3] if column not in fields]:
        raise SuiteError.missing(f"{found}; {lacking[0]} is missing: expected concept, group, share and source")
    if unknown := [column for column in fields if column not in COLUMNS]:
        hint = did_you_mean(unknown[0], COLUMNS) or f"expected some of {', '.join(COLUMNS)}"
        raise SuiteError.unknown_name(f"{found}; {quoted(unknown[0])} means nothing here; {hint}")
    if len(set(fields)) < len(fields):
        raise SuiteError.duplicate(f"{found}; a column is there twice: remove one")


def _number(text: str, place: str, *, most: float = inf) -> float:
    try:
        number = float(text)
    except ValueError:
        way_out = "; write a share as a fraction, 0.47 for 47 %" if "%" in text or "," in text else ""
        raise SuiteError.wrong_type(f"{place}: found {quoted(text)}, expected a number{way_out}") from None
    if not (isfinite(number) and 0 <= number <= most):
        way_out = "; write it as a fraction, 0.47 for 47 %" if most == 1 and 1 < number <= 100 else ""
        limit = "0 to 1" if most == 1 else "0 or more"
        raise SuiteError.out_of_range(f"{place}: found {text}, expected {limit}{way_out}")
    return number


def _people(values: Mapping[str, str], share: float, at: str) -> float | None:
    """Return how many people a share is of, or how many its standard error is worth; None where it is exact."""
    if values["n"] and values["se"]:
        raise SuiteError.conflict(f"{at}: n and se are both given; keep one")
    if values["n"]:
        people = _number(values["n"], f"{at}, n")
        if people < 1:
            raise SuiteError.out_of_range(
                f"{at}, n: found {values['n']}, expected 1 or more people; leave it out of an exact share"
            )
        return people
    if values["se"]:
        error = _number(values["se"], f"{at}, se")
        if error and not 0 < share < 1:
            raise SuiteError.undefined(f"{at}, se: a share of {share:g} has none by counting; give n in its place")
        return share * (1 - share) / error**2 if error else None
    return None
