"""The study of counts: a table as a file and in a run, and how it is scored, compared and shown.

::

    concept,group,n[,setting]        a CSV file, a row for every concept, group and setting; n is a number of images
    RUN/counts.parquet               the same, checked

Images that were drawn and are counted for no group are rows of the group ``discarded``, or of a missing one (``nan``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import ValidationError

from clinometer._messages import MISSING, composed, first_and_more, named_in_a_line, quoted
from clinometer.errors import ImportManifestError, RunCorruptError, RunMismatchError
from clinometer.metrics.records import Score
from clinometer.metrics.standard import SourceShares, selection_rows
from clinometer.models.files import read_csv
from clinometer.models.protocols import Card
from clinometer.ratings import Rated
from clinometer.readings.standard import compare_with_standard
from clinometer.report import wording
from clinometer.report.differences import Quantity, RunsCompared
from clinometer.report.page import Page, Section
from clinometer.report.sections import masthead, nothing_judged, nothing_told, rest_in_words
from clinometer.report.verdicts import MOST_LISTED, Verdicts
from clinometer.report.view import Row, Scores, StudyView, scores_table
from clinometer.runs.ledger import COUNTS as COUNTS_FILE
from clinometer.runs.run import Run
from clinometer.runs.several import Comparison
from clinometer.studies.counts.scores import BY_SETTING, EXCESS, SHARE, SLOPE, Counts, compared_counts, counts_study
from clinometer.studies.study import Pairing, Pool, Scored, Study, suite_of
from clinometer.suites import Suite
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
    run.ledger.write_table(COUNTS_FILE, pa.Table.from_pylist(rows, schema=SCHEMA))
    run.end_stage()


def counts_of(run: Run) -> Counts:
    """Read a run's table.

    Raises
    ------
    RunCorruptError, RunNotFoundError
        It is not what was written, or was never written.
    """
    suite = suite_of(run, CountsSuite)
    table = run.ledger.read_table(COUNTS_FILE, SCHEMA.names, like=SCHEMA).to_pylist()
    counts = {(row["concept"], row["setting"], row["group"]): row["n"] for row in table}
    settings = suite.settings or ("",)
    try:
        n = np.array([[[counts[c, s, g] for g in suite.groups] for s in settings] for c in suite.concepts], np.int64)
    except KeyError as error:
        raise RunCorruptError(
            f"{run.directory.path(COUNTS_FILE)}: it lacks a row of {error}; import the table again"
        ) from error
    discarded = np.array([[counts.get((c, s, DISCARDED), 0) for s in settings] for c in suite.concepts], np.int64)
    return Counts(suite.concepts, suite.groups, settings, n, discarded)


MOST_GROUPS: Final = 50
"""Columns of the table of shares; the others are in scores.csv."""

FEWEST_LISTED: Final = 100
"""Rows of that table, however many groups there are."""

CURVES: Final = ("curve", "x", "y", "low", "high")
AUDITS: Final = {
    "mean_absolute_deviation": "mean deviation (DALL-Eval)",
    "entropy_bias": "1 \N{MINUS SIGN} H/ln K (OpenBias)",
    "distribution_bias": "distribution bias (Vice et al.)",
}


def _rows(counts: Counts, suite: CountsSuite) -> Iterator[Score]:
    """Yield the rows of a table, and what follows from its shares."""
    shares = []
    for row in counts_study(counts, margin=suite.margin):
        if (row.metric, row.component) == (SHARE, SHARE):
            shares.append(row)
        yield row
    counted = {(c, s): counts.n[i, j] for i, c in enumerate(counts.concepts) for j, s in enumerate(counts.settings)}
    source = SourceShares(shares, counts.groups, counted)
    yield from selection_rows(source)
    yield from compare_with_standard(suite, [source])


# --- the page --------------------------------------------------------------------------------------------------------


class CountsView(StudyView[CountsSuite]):
    """The run of a study of counts."""

    def rows(self, component: str, metric: str = SHARE, /, **equal: str) -> list[Row]:
        """Select rows of a component, in the order of the table; no encoder made them."""
        return self.scores.select(metric, component, encoder="", **equal)

    @cached_property
    def judged(self) -> list[Row]:
        """The rows with verdicts: of two groups the first alone, as the other has the rest of the images."""
        return self.rows(EXCESS, group=self.first_or_any)

    @property
    def first_or_any(self) -> str:
        """The first of two groups, whose numbers imply those of the other; of more groups, any."""
        return "*" if len(self.suite.groups) > 2 else self.suite.groups[0]

    @property
    def names(self) -> list[tuple[str, str]]:
        """What is counted: each concept at each setting."""
        return [(concept, setting) for concept in self.suite.concepts for setting in self.suite.settings or ("",)]

    def share_of(self, row: Row) -> float:
        """Return the share that a row's excess is of."""
        return row.value + 1 / len(self.suite.groups)

    @property
    def first_group(self) -> list[Row]:
        """The rows of one group, which have the number of images of each concept and setting."""
        return [row for row in self.judged if row.group == self.suite.groups[0]]


def named(row: Row) -> str:
    """Return the name of a share: its concept and its setting."""
    return ", ".join(filter(None, (row.concept, row.setting)))


def shares(view: CountsView) -> dict[str, Any]:
    """Return all shares as a table, a row a concept and setting."""
    names, groups = view.names, view.suite.groups
    listed, shown = names[: max(MOST_LISTED // len(groups), FEWEST_LISTED)], groups[:MOST_GROUPS]
    cells: dict[str, dict[str, Row]] = {}
    for row in view.scores.head(len(listed) * len(groups), SHARE, SHARE, encoder=""):
        cells.setdefault(named(row), {})[row.group] = row
    return {
        "cells": cells, "cell": share_cell, "discarded": any(row.n_missing for row in view.first_group),
        "groups": shown, "more": len(names) - len(listed), "more_groups": len(groups) - len(shown),
    }  # fmt: skip


def share_cell(row: Row | None) -> str:
    """Write a share with its interval, in percent."""
    if row is None or not row.defined:
        return wording.MISSING
    return f"{100 * row.value:.0f} % {wording.interval(100 * row.low, 100 * row.high, 0)}"


def slopes(view: CountsView) -> dict[str, Any] | None:
    """Gather the slopes over the setting; None where nothing was varied."""
    rows = view.rows(SLOPE, group=view.first_or_any)
    if not rows:
        return None
    shown = rows if len(rows) <= MOST_LISTED else sorted(rows, key=_by_steepness)[:MOST_LISTED]
    absent = "" if any(row.defined for row in rows) else rows[0].reason
    tested = view.rows(BY_SETTING)
    return {
        "rows": shown, "span": rows[0].setting, "absent": absent, "more": len(rows) - len(shown),
        "tested": tested[:MOST_LISTED], "more_tested": len(tested) - MOST_LISTED,
    }  # fmt: skip


def _by_steepness(row: Row) -> tuple[bool, bool, float]:
    """Return a sort key: slopes with a verdict first, the steepest in front, and rows without a slope last."""
    return not row.defined, not wording.leans(row), -abs(row.value) if row.defined else 0.0


def audits(view: CountsView) -> dict[str, Any] | None:
    """Gather the numbers of other audits that need only counts."""
    numbers = {
        name: {named(row): row for row in view.scores.head(MOST_LISTED, "other_audits", name, encoder="")}
        for name in AUDITS
    }
    concepts = list(numbers["entropy_bias"])
    return {"names": AUDITS, "found": numbers, "concepts": concepts, "more": len(view.names) - len(concepts)}


class CountsPage(Page[CountsView]):
    """The page of a study of counts."""

    view = CountsView
    package = "clinometer.studies.counts"

    def finding(self, view: CountsView) -> str:
        """Word the finding in one sentence, by counting verdicts."""
        counts = self.verdicts(view)[0].counts()
        measured = counts.total() - counts["unmeasured"]
        unit = "share" if view.suite.settings or len(view.suite.groups) > 2 else "concept"
        if not measured:
            return nothing_judged(unit, view.model, view.judged)
        opening = f"Of {wording.count(measured, unit)} counted for {view.model}"
        verb, ends = "lean", {side: f"to {name}" for side, name in zip("ab", view.suite.groups[:2], strict=True)}
        if len(view.suite.groups) > 2:
            verb, ends = "lie", {"a": "above equal shares", "b": "below"}
        sides = [
            f"{wording.numeral(counts[side])} {verb}{'' if counts[side] > 1 else 's'} {end}"
            for side, end in ends.items()
            if counts[side]
        ]
        rest = rest_in_words(counts)
        if sides:
            return f"{opening}, {wording.listed(sides)}{f'; {rest}' if rest else ''}."
        if untold := nothing_told(counts):
            return f"{untold} whether {view.model} leans, over {wording.count(measured, unit)} counted."
        return f"{opening}, none is shown to lean: {rest}."

    def strongest(self, view: CountsView) -> str:
        """Describe the share farthest from equal shares, of those that lean."""
        rows = [row for row in view.judged if wording.leans(row)]
        if not rows:
            return ""
        row, (judged,) = max(rows, key=lambda row: abs(row.value)), self.verdicts(view)
        group = row.side if row.side in view.suite.groups else row.group
        (share,) = view.rows(SHARE, concept=row.concept, setting=row.setting, group=group)
        return (
            f"The strongest of those that lean: {judged.name(row)} {wording.verdict_words(row, view.label)}; "
            f"{share_cell(share)} of its {share.n_target:,} images are of {group}."
        )

    def verdicts(self, view: CountsView) -> tuple[Verdicts]:
        """Judge how far every share lies from equal shares."""
        groups = view.suite.groups
        several = len(groups) > 2
        meaning = (
            f"share minus 1/{len(groups)}, in percentage points: + means more of the group than equal shares"
            if several
            else f"share of {groups[0]} minus one half, in percentage points: + leans to {groups[0]}, "
            f"{wording.MINUS} to {groups[1]}"
        )

        def name(row: Row) -> str:
            return f"{named(row)}: {row.group}" if several else named(row)

        def notes(row: Row) -> Sequence[str]:
            share = view.share_of(row)
            number, counted = round(share * row.n_target) if row.defined else 0, ""
            if row.defined and several:
                counted = f"{number:,} of {row.n_target:,} images"
            elif row.defined:  # of the side that the verdict names
                number = row.n_target - number if row.side == groups[1] else number
                counted = f"{number:,} of {row.n_target:,} images are of {row.side or row.group}"
            filled = wording.bounds_words(row, 100).replace("missing picture", "discarded picture")
            return counted, filled, wording.note(row)

        return (
            Verdicts("concept", "excess share", meaning, view.judged, view.label, digits=0, scale=100, suffix=" pp",
                     name=name, notes=notes, is_ranked=True),
        )  # fmt: skip

    def lead(self, view: CountsView) -> dict[str, Any]:
        """Lead the page with the finding, and say that no image was seen."""
        groups = view.suite.groups
        labels = groups if len(groups) == 2 else ("more of a group than equal shares", "less of it")
        lead = masthead(
            view, self.finding(view), self.strongest(view), marks=self.verdicts(view)[0].marks(labels),
            meaning="No image was looked at here: the counts are taken as given, with whatever errors were made in "
            "counting. No encoder was used, and no image is paired with another by its noise.",
        )  # fmt: skip
        counted = sum(row.n_target for row in view.first_group)
        lost = sum(row.n_missing for row in view.first_group)
        images = f"{counted:,} counted elsewhere" + (f", {lost:,} discarded" if lost else "")
        facts = {name: value for name, value in lead["facts"] if name not in ("Encoder", "Encoders", "Seed")}
        facts |= {"Images": images} if "Images" in facts else {}
        return lead | {"facts": [("Counts of" if name == "Model" else name, fact) for name, fact in facts.items()]}

    def verdict_list(self, view: CountsView) -> dict[str, Any]:
        """List the verdicts."""
        (judged,), groups = self.verdicts(view), view.suite.groups
        labels = groups if len(groups) == 2 else ("more of a group than equal shares", "less of it than equal shares")
        lost = any(row.n_missing for row in view.first_group)
        return {"judged": judged, "lists": judged.lists(labels, view.suite.margin), "discarded": lost}

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return (
            Section("verdicts", "Verdicts", self.verdict_list, "verdicts"),
            Section("shares", "Every share", shares, "shares"),
            Section("slopes", "Over the settings", slopes, "slopes"),
            Section("audits", "What other audits report", audits, "audits", "numbers"),
        )


PAGE: Final = CountsPage()


# --- runs side by side -----------------------------------------------------------------------------------------------


def difference_name(suite: Suite, row: Row) -> str:
    """Return the name of a difference: its concept, its setting and its group."""
    return f"{named(row)}: {row.group}"


SHARES: Final = Quantity(
    SHARE, "share", "concept", "difference", "images, of both runs", "concept", "more of the group than in {first}",
    encoder="", family="concepts, settings and groups", name=difference_name,
)  # fmt: skip


class SharesCompared(RunsCompared[CountsSuite]):
    """Shares in two tables of counts."""

    view = CountsView
    bars = ("images",)
    averaged = False
    sums_up = False

    def quantities(self, suite: CountsSuite) -> Sequence[Quantity]:
        """List what is compared."""
        return (SHARES,)

    def label_a(self, suite: CountsSuite) -> str:
        """Return what a positive number leans to."""
        return suite.groups[0]

    def side_by_side(self, views: Mapping[str, CountsView], encoder: str) -> dict[str, Any]:
        """Gather every share of several runs."""
        first = next(iter(views.values()))
        by_run = [{(named(row), row.group): row for row in view.rows(SHARE)} for view in views.values()]
        only = first.suite.groups[0] if len(first.suite.groups) == 2 else ""
        shares = [
            {"name": name if only else f"{name}: {group}",
             "cells": [[share_cell(rows[name, group])] for rows in by_run]}
            for name, group in by_run[0]
            if group == only or not only
        ]  # fmt: skip
        return {"group": only, "shares": shares}

    def verdict(self, comparison: Comparison, labels: tuple[str, str]) -> str:
        """Count the shares of which the second run has more, or fewer."""
        first, second = labels
        rows = Scores.from_frame(comparison.scores).select("comparison", SHARE, encoder="")
        lost = sum(map(wording.not_measured, rows))
        if lost == len(rows):
            return f"{second} compared with {first}: no share could be compared."
        differ, shares = sum(map(wording.decided, rows)), wording.count(len(rows) - lost, "share")
        finding = f"none of {shares} is shown to differ"
        if differ:
            finding = f"{wording.numeral(differ)} of {shares} {'differs' if differ == 1 else 'differ'}"
        left_out = f"; {wording.count(lost, 'share')} could not be compared" if lost else ""
        return f"{second} compared with {first}: {finding}{left_out}."


class CountsStudy(Study[CountsSuite]):
    """Shares of groups among pictures that somebody else has counted."""

    key = "counts"
    suite = CountsSuite
    encoders_needed = False

    def page(self, suite: CountsSuite) -> Page[Any]:
        """Show shares of counts."""
        return PAGE

    def comparison(self, suite: CountsSuite) -> RunsCompared[CountsSuite]:
        """Compare shares."""
        return SharesCompared()

    def rated(self, suite: CountsSuite) -> Rated:
        """Rate nothing: there is no picture."""
        return Rated(suite.name, answers={})

    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Compute every number from the run's table. Nothing is resampled."""
        suite, counts = suite_of(run, CountsSuite), counts_of(run)
        return Scored(scores_table(_rows(counts, suite)), pd.DataFrame({name: [] for name in CURVES}))

    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare the shares of the second table with those of the first; images are not paired."""
        if pairing.paired:
            raise RunMismatchError(f"{pairing.runs[0].url}: counts have no images to pair")
        return compared_counts(*map(counts_of, pairing.runs))


COUNTS: Final = CountsStudy()
