"""A table of counts as a file, and in a run.

::

    concept,group,n[,setting]        a CSV file, a row for every concept, group and setting; n is a number of images
    RUN/counts.parquet               the same, checked

Images that were drawn and are counted for no group are rows of the group ``discarded``, or of a missing one (``nan``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from clinometer._messages import MISSING, composed, first_and_more, named_in_a_line, quoted
from clinometer.errors import ImportManifestError, RunCorruptError
from clinometer.models.files import read_csv
from clinometer.models.protocols import Card
from clinometer.runs.ledger import COUNTS
from clinometer.runs.run import Run
from clinometer.studies.counts.scores import Counts
from clinometer.studies.study import suite_of
from clinometer.suites.strict import code_of, first_problem
from clinometer.suites.undrawn import CountsSuite

DISCARDED: Final = "discarded"
COLUMNS: Final = ("concept", "group", "n", "setting")
SCHEMA: Final = pa.schema({"concept": pa.string(), "group": pa.string(), "n": pa.int64(), "setting": pa.string()})
MOST: Final = 10**9
"""Images of a row."""

MOST_CELLS: Final = 100_000
"""Rows of a table: each becomes several numbers."""

_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(?:[.,' \u00a0\u2009\u202f\u2019]\d{3})+(?:[.,]0*)?")
"""A number in groups of three digits: of ``1.000`` nobody knows whether it is 1 or a thousand."""

Key = tuple[str, str, str]
"""Concept, setting and group."""


def read_counts(file: Path) -> dict[Key, int]:
    """Read and check a table of counts.

    Raises
    ------
    ImportManifestError
        It is no such table: the message names the file, the line and the field.
    """
    if not file.is_file():
        found = "a folder" if file.is_dir() else "no such file"
        raise ImportManifestError.unreadable(f"{file}: {found}; give a CSV file with the columns concept, group, n")
    counts: dict[Key, int] = {}
    lines: dict[Key, int] = {}
    for line, record in read_csv(file, _check_fields):
        concept, group, setting = (
            composed(str(record.get(field) or "").strip()) for field in ("concept", "group", "setting")
        )
        group = DISCARDED if group in MISSING else group  # somebody looked, and could not tell
        setting = "" if setting in MISSING else setting
        for field, text in (("concept", concept), ("group", group)):
            if not text or text in MISSING:
                raise ImportManifestError.missing(f"{file.name}, line {line}, {field}: it is empty; name it")
        key = (concept, setting, group)
        if key in lines:
            named = ", ".join(filter(None, (concept, group, setting)))
            raise ImportManifestError.duplicate(
                f"{file.name}, line {line}: {named} was counted in line {lines[key]}; add the two, or leave one out"
            )
        if len(counts) == MOST_CELLS:
            raise ImportManifestError.too_many(f"{file.name}: more than {MOST_CELLS:,} rows; divide it")
        lines[key], counts[key] = line, _whole(record["n"], f"{file.name}, line {line}, n")
    _require_complete(file.name, counts, lines)
    return counts


def _check_fields(name: str, fields: Sequence[str]) -> None:
    found = f"{name}, line 1: found the columns {named_in_a_line(fields)}"
    if unknown := [field for field in fields if field not in COLUMNS]:
        if {"group", "n"}.isdisjoint(fields) and "concept" in fields and len(unknown) > 1:
            raise ImportManifestError.unknown_name(
                f"{found}; make a row of each number: concept, {quoted(unknown[0])} as its group, and n"
            )
        meant = unknown[0].lower()
        meant = "n" if meant in ("count", "counts", "number", "frequency", "freq", "images") else meant
        hint = f"; rename it to {meant}" if meant in COLUMNS and meant not in fields else ""
        raise ImportManifestError.unknown_name(
            f"{found}; {quoted(unknown[0])} means nothing here: expected concept, group, n and, where something was "
            f"varied, setting{hint}"
        )
    if lacking := [field for field in COLUMNS[:3] if field not in fields]:
        raise ImportManifestError.missing(f"{found}; {lacking[0]} is missing: expected concept, group, n")
    if len(set(fields)) < len(fields):
        raise ImportManifestError.duplicate(f"{found}; a column is there twice: remove one")


def _whole(text: object, place: str) -> int:
    """Read a number of images."""
    written = str(text or "").strip()
    if written in MISSING:
        raise ImportManifestError.missing(
            f"{place}: {quoted(text)} says that the number is missing; where none was counted, say 0"
        )
    if _THOUSANDS.fullmatch(written):
        raise ImportManifestError.malformed(f"{place}: found {quoted(text)}; write it without marks between thousands")
    whole, point, rest = written.partition(".")
    try:  # a column in which one entry is missing is written as 74.0
        number = int(whole if point and rest and not rest.strip("0") else written)
    except ValueError:
        share = "; of a share give the number of images that it is of" if re.search(r"%|^0?[.,]\d", written) else ""
        raise ImportManifestError.wrong_type(
            f"{place}: found {quoted(text)}, expected a whole number of images{share}"
        ) from None
    if not 0 <= number <= MOST:
        raise ImportManifestError.out_of_range(f"{place}: found {number}, expected 0 to {MOST:,} images")
    return number


def _require_complete(name: str, counts: dict[Key, int], lines: dict[Key, int]) -> None:
    """Refuse a table without counts, with one group, or that leaves out a group of some concept and setting."""
    if not counts:
        raise ImportManifestError.too_few(f"{name}: it holds no counts; expected a row for every concept and group")
    groups = list(dict.fromkeys(group for *_, group in counts))
    if len([group for group in groups if group != DISCARDED]) < 2:
        raise ImportManifestError.too_few(f"{name}, group: found {', '.join(groups)}; expected two groups or more")
    concepts = list(dict.fromkeys(concept for concept, *_ in counts))
    settings = list(dict.fromkeys(setting for _, setting, _ in counts))
    if "" in settings and len(settings) > 1:
        line = next(lines[key] for key in counts if not key[1])
        raise ImportManifestError.missing(
            f"{name}, line {line}, setting: it is empty, and other rows have one; name it"
        )
    _refuse_sums(name, counts, concepts)
    for concept in concepts:
        for setting in settings:
            if missing := [group for group in groups if (concept, setting, group) not in counts]:
                at = f", setting {setting}" if setting else ""
                if near := [each for each in concepts if each != concept and each.casefold() == concept.casefold()]:
                    at += f", which is beside {near[0]}: write it in one way"
                raise ImportManifestError.missing(
                    f"{name}, concept {concept}{at}: no row of group {first_and_more(missing, 3)}; where none was "
                    "counted, say 0"
                )


SUMS: Final = frozenset({"total", "sum", "all", "overall"})
"""Names of rows at the end of a table that are the sums of the others."""


def _refuse_sums(name: str, counts: dict[Key, int], concepts: Sequence[str]) -> None:
    """Refuse a concept that is the sum of all others: its images would be counted twice."""
    sums = [concept for concept in concepts if concept.casefold() in SUMS]
    if len(sums) != 1 or len(concepts) < 2:
        return
    others: dict[tuple[str, str], int] = {}
    for (concept, setting, group), n in counts.items():
        if concept != sums[0]:
            others[setting, group] = others.get((setting, group), 0) + n
    total = {(setting, group): n for (concept, setting, group), n in counts.items() if concept == sums[0]}
    if total == others:
        raise ImportManifestError.conflict(f"{name}, concept {sums[0]}: it is the sum of the other rows; leave it out")


def suite_of_counts(file: Path, counts: dict[Key, int]) -> CountsSuite:
    """Return the suite of a table's run.

    Raises
    ------
    ImportManifestError
        A name is empty or too long.
    """
    names = [list(dict.fromkeys(key[place] for key in counts)) for place in range(3)]
    try:
        return CountsSuite(
            name="counts", title="Counts without images",
            description="Images counted by others, by concept and group: no image was seen here.",
            concepts=tuple(names[0]), groups=tuple(group for group in names[2] if group != DISCARDED),
            settings=tuple(filter(None, names[1])),
        )  # fmt: skip
    except ValidationError as error:
        field, message = first_problem(error)
        raise ImportManifestError(f"{file.name}, {field}: {message}", code=code_of(error)) from error


def card_of_counts(file: Path, name: str | None, counts: dict[Key, int]) -> Card:
    """Return the model card of a run of counts."""
    content = hashlib.sha256(repr(list(counts.items())).encode()).hexdigest()
    images = {"images": sum(n for (*_, group), n in counts.items() if group != DISCARDED)}
    lost = sum(n for (*_, group), n in counts.items() if group == DISCARDED)
    return Card(
        "generator", name or file.stem, "counts", weights_sha256=content,
        settings=images | ({DISCARDED: lost} if lost else {}), notes={"file": file.name},
    )  # fmt: skip


def write_counts(run: Run, counts: dict[Key, int]) -> None:
    """Store a table in its run."""
    rows = [{"concept": c, "group": g, "n": n, "setting": s} for (c, s, g), n in counts.items()]
    run.ledger.write_table(COUNTS, pa.Table.from_pylist(rows, schema=SCHEMA))
    run.end_stage()


def counts_of(run: Run) -> Counts:
    """Read a run's table.

    Raises
    ------
    RunCorruptError, RunNotFoundError
        It is not what was written, or was never written.
    """
    suite = suite_of(run, CountsSuite)
    table = run.ledger.read_table(COUNTS, SCHEMA.names, like=SCHEMA).to_pylist()
    counts = {(row["concept"], row["setting"], row["group"]): row["n"] for row in table}
    settings = suite.settings or ("",)
    try:
        n = np.array([[[counts[c, s, g] for g in suite.groups] for s in settings] for c in suite.concepts], np.int64)
    except KeyError as error:
        raise RunCorruptError(
            f"{run.directory.path(COUNTS)}: it lacks a row of {error}; import the table again"
        ) from error
    discarded = np.array([[counts.get((c, s, DISCARDED), 0) for s in settings] for c in suite.concepts], np.int64)
    return Counts(suite.concepts, suite.groups, settings, n, discarded)
