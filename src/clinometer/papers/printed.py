"""A paper's printed numbers next to measured ones: of a run, cell by cell, and of pictures that people labelled.

The order of a table's concepts is compared with people's, too. A paper whose pictures are given, and not drawn, has its
numbers from a folder with counts of labels::

    FOLDER/pictures.csv    file, model, concept, prompt, and what people saw: seen_gender, seen_race; a row a picture
    FOLDER/printed.csv     model, concept, p and, where the labels are not seen_gender, label: what the paper prints
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from math import isfinite, nan
from pathlib import Path
from typing import Any, Final

import pandas as pd

from clinometer._csv import csv_text
from clinometer._messages import MISSING, composed, first_and_more, named_in_a_line, quoted
from clinometer.errors import ImportManifestError, InvalidInputError
from clinometer.models.files import read_csv
from clinometer.papers.paper import Correlated
from clinometer.published import Published, papers, published
from clinometer.report import wording
from clinometer.report.view import Row, Scores
from clinometer.runs.run import Run
from clinometer.stats.agreement import Agreement, kendall_tau_b
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.studies import study_of
from clinometer.studies.study import PrintedCell, PrintedTable
from clinometer.suites import Suite, load_suite

DRAWN: Final = "SD v2.1"
GIVEN: Final = "CFD"
"""The two kinds of portraits, as the downstream paper's table names them."""


def paper_table(
    run: Run, paper: str, models: Sequence[str] = (), renamed: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Compare each printed cell of a paper's tables with the run's number: a row a cell, a :class:`PrintedCell`.

    Parameters
    ----------
    paper : ``"mcas"``, ``"internal-bias"``, ``"xmcas"``, ``"t2iat"`` or ``"downstream"``.
    models : the paper's models whose numbers are shown; empty for all.
    renamed : of a run that rehearses the paper in other words, its own name for each name of the paper's suite.

    Raises
    ------
    InvalidInputError
        No such paper or model, or a run whose suite does not ask what the table shows.
    """
    publication = published(paper)
    if not publication.tables:
        raise InvalidInputError.expected_one_of(
            [name for name in papers() if published(name).tables], paper, field="paper"
        )
    answered = _require_answered(run.suite, publication, paper) if renamed is None else publication.suites
    for name in models:
        if name not in publication.models:
            raise InvalidInputError.expected_one_of(publication.models, name, field="paper_model")
    offered, chosen = study_of(run.suite).printed_tables, models or publication.models
    cells = [
        asdict(_finish(cell, publication, run))
        for name in publication.tables
        if name in offered
        for cell in offered[name](PrintedTable(name, publication, answered, run.suite, run.scores, renamed or {}))
        if cell.model in chosen
    ]
    return pd.DataFrame(cells, columns=list(PrintedCell.__dataclass_fields__))


def with_q(cells: pd.DataFrame, column: str) -> pd.DataFrame:
    """Add a column q to the cells of a table: Benjamini and Hochberg's of its column of p-values, over all its rows."""
    tested = cells[cells.column == column]
    if not len(tested):
        return cells
    q = tested.assign(
        column="q", printed="", paper=nan, low=nan, high=nan, difference=nan, paper_inside=None, note="",
        run=benjamini_hochberg(tested.run.to_numpy(float)),
    )  # fmt: skip
    return pd.concat([cells, q])


def models_of(paper: str) -> dict[str, str]:
    """Return the models of a paper's tables: key and label."""
    return {key: model.label for key, model in published(paper).models.items()}


def _require_answered(suite: Suite, publication: Published, paper: str) -> Sequence[str]:
    """Return the suites of the paper all of whose questions the run's suite asks."""
    questions = _concepts_and_groups(suite)
    answered = [name for name in publication.suites if _asked_by(name) <= questions]
    if not answered:
        more = (
            f" --suite {publication.suites[0]}"
            if len(publication.suites) < 4
            else f" --suite with one of {', '.join(publication.suites)}"
        )
        raise InvalidInputError.unsupported(
            f"suite {suite.name}: it does not ask what the tables of paper {paper!r} show; give a run of: clinometer "
            f"audit --protocol paper{more}"
        )
    return answered


@cache
def _asked_by(name: str) -> set[tuple[str, str]]:
    return _concepts_and_groups(load_suite(name))


def _concepts_and_groups(suite: Suite) -> set[tuple[str, str]]:
    return {(question.concept, question.group) for question in suite.every_prompt_spec()}


def _finish(cell: PrintedCell, publication: Published, run: Run) -> PrintedCell:
    """Return a cell with its difference, and with what is known of the printed number."""
    notes = [slip.said for slip in publication.slips if slip.holds(asdict(cell))]
    card = run.model_card
    same = publication.models[cell.model].is_called(str(card["name"])) and not (
        card["settings"].get("lora") or card["settings"].get("mitigation")
    )
    if cell.model in (GIVEN, DRAWN):
        portraits = "portraits" in card["settings"]
        if portraits != (cell.model == GIVEN):
            notes.append(f"the run's portraits are {'given' if portraits else 'drawn'}, the paper's are not")
    interval = isfinite(cell.low) and isfinite(cell.high) and isfinite(cell.paper)
    return replace(
        cell,
        difference=cell.run - cell.paper,
        paper_inside=bool(cell.low <= cell.paper <= cell.high) if interval else None,
        same_model=same,
        note="; ".join(filter(None, [cell.note, *notes])),
    )


FEWEST = 3
"""Concepts whose order can be compared."""


def correlations(correlated: Correlated | None, by_model: dict[str, pd.DataFrame]) -> list[str]:
    """Describe the rank agreement of the two columns that a table correlates, one sentence per model.

    Where nobody has rated our pictures, the paper's own fractions stand in for them, which are from other pictures.
    """
    if correlated is None:
        return []
    sentences = []
    for model, cells in by_model.items():
        people = cells[cells.column == correlated.people].set_index("concept")
        machine = cells[cells.column == correlated.machine].set_index("concept").run
        rated = people.run.notna().sum() >= FEWEST
        tau = tau_of(people.run if rated else people.paper, machine)
        whose = "people’s fractions" if rated else "the paper’s fractions, which are from other pictures,"
        estimate = wording.with_interval(tau.value, tau.low, tau.high) if isfinite(tau.value) else tau.reason
        sentences.append(
            f"{f'{model}: ' if len(by_model) > 1 else ''}Kendall’s τ of {whose} and the machine’s scores of these "
            f"pictures, over {wording.count(tau.n, 'concept')}: {estimate}. The paper prints {correlated.printed}."
        )
        if not rated:
            sentences.append(
                "Nobody has rated these pictures yet: clinometer reproduce names the task that shows them."
            )
    return sentences


def tau_of(people: pd.Series, machine: pd.Series) -> Agreement:
    """Return Kendall's τ-b of two columns over the concepts that have both, with its jackknife interval."""
    both = pd.DataFrame({"people": people, "machine": machine}).dropna()
    if len(both) < FEWEST:
        return Agreement(nan, nan, nan, len(both), reason="fewer than three concepts have both")
    return kendall_tau_b(both.people.to_numpy(), both.machine.to_numpy())


LIST: Final = "pictures.csv"
PRINT: Final = "printed.csv"
KEYS: Final = ("file", "model", "concept", "prompt")
DISCARDED: Final = "discarded"
"""The group, in a table of counts, of pictures of which nobody could tell."""

LABEL: Final = "seen_gender"
"""The labels that printed p-values are of where the file does not say."""

BETWEEN: Final = ": "
"""Separates the model from what it was asked for, in the name of a concept."""

BY_SETTING: Final = "by_setting"
LEVEL: Final = 0.05
SHARES, SAME = "share of pictures", "same shares at every prompt?"
CHI_SQUARED, EXACT, Q = "χ² p", "exact p", "q"


def counts_of_labels(folder: Path, label: str) -> tuple[str, int]:
    """Return a table of counts, as ``clinometer import --counts`` reads it, and the number of pictures.

    Concepts are models with what they drew, settings are prompts.

    Raises
    ------
    ImportManifestError
        There is no such folder or list, a column or a value is missing, or a picture is: the message names file, line
        and field.
    """
    counts, groups = Counter[tuple[str, str, str]](), dict[str, None]()
    for row in _rows(folder, label):
        groups.setdefault(row[label], None)
        counts[f"{row['model']}{BETWEEN}{row['concept']}", row["prompt"], row[label]] += 1
    concepts, prompts = (list(dict.fromkeys(key[at] for key in counts)) for at in (0, 1))
    if len(prompts) < 2:
        raise ImportManifestError.too_few(
            f"{LIST}, prompt: found {named_in_a_line(prompts) or 'none'}; expected two or more"
        )
    for concept in concepts:
        if lacking := [prompt for prompt in prompts if not any(counts[concept, prompt, group] for group in groups)]:
            raise ImportManifestError.missing(
                f"{LIST}: no picture of {concept} at prompt {first_and_more(lacking, 3)}; every model draws every "
                "concept at every prompt, or leave it out"
            )
    table = [
        {"concept": concept, "setting": prompt, "group": group, "n": counts[concept, prompt, group]}
        for concept in concepts
        for prompt in prompts
        for group in groups
    ]
    return csv_text(pd.DataFrame(table)), counts.total()


def _rows(folder: Path, label: str) -> Iterator[dict[str, str]]:
    """Yield each picture of the list, checked."""
    if not folder.is_dir() or not (folder / LIST).is_file():
        found = "no such folder" if not folder.is_dir() else f"it holds no {LIST}"
        raise ImportManifestError.unreadable(
            f"{folder}: {found}; give a folder of pictures and {LIST} with the columns {', '.join(KEYS)}, {label}"
        )

    def check_fields(name: str, fields: Sequence[str]) -> None:
        if lacking := [field for field in (*KEYS, label) if field not in fields]:
            raise ImportManifestError.missing(
                f"{name}, line 1: found the columns {named_in_a_line(fields)}; {lacking[0]} is missing: expected "
                f"{', '.join(KEYS)}, {label}"
            )

    seen = dict[str, int]()
    for line, record in read_csv(folder / LIST, check_fields):
        row = {field: composed(str(record.get(field) or "").strip()) for field in (*KEYS, label)}
        where = f"{LIST}, line {line}"
        if empty := next((field for field in KEYS if not row[field]), None):
            raise ImportManifestError.missing(f"{where}, {empty}: it is empty; fill it in")
        if BETWEEN in row["model"]:
            raise ImportManifestError.malformed(
                f"{where}, model: found {quoted(row['model'])}; leave out {quoted(BETWEEN)}"
            )
        if row["file"] in seen:
            raise ImportManifestError.duplicate(
                f"{where}, file: {row['file']} is in line {seen[row['file']]}; leave one out"
            )
        if not (folder / row["file"]).is_file():
            raise ImportManifestError.not_found(
                f"{where}, file: there is no {quoted(row['file'])} in {folder}; restore it"
            )
        seen[row["file"]] = line
        row[label] = DISCARDED if row[label] in MISSING else row[label]
        yield row


def printed_p(folder: Path, label: str) -> dict[tuple[str, str], str]:
    """Read the p-values that a paper prints, by model and concept; none where they are not at hand.

    Raises
    ------
    ImportManifestError
        The file has other columns.
    """
    if not (folder / PRINT).is_file():
        return {}

    def check_fields(name: str, fields: Sequence[str]) -> None:
        if {"model", "concept", "p"} - set(fields):
            raise ImportManifestError.missing(
                f"{name}, line 1: found the columns {named_in_a_line(fields)}; expected model, concept, p[, label]"
            )

    rows = [record for _, record in read_csv(folder / PRINT, check_fields)]
    return {
        (row["model"].strip(), row["concept"].strip()): (row["p"] or "").strip()
        for row in rows
        if (row.get("label") or LABEL).strip() == label
    }


def counted_cells(scores: Scores, printed: dict[tuple[str, str], str]) -> pd.DataFrame:
    """Format a run of counts as cells of a table: shares with intervals, the paper's test, the exact one, and q."""
    cells = [
        _cell(row, row.setting, row.group, row.value, row.low, row.high)
        for row in scores.select("share", "share", encoder="")
    ]
    tests = {BY_SETTING: (EXACT, Q), f"{BY_SETTING}_chi_squared": (CHI_SQUARED,)}
    for component in reversed(tests):
        for row in scores.select("share", component, encoder=""):
            for column in tests[component]:
                value = row.q if column == Q else row.p
                cells.append(_cell(row, SAME, column, value, nan, nan, printed if column == CHI_SQUARED else {}))
    return pd.DataFrame(cells)


def _cell(
    row: Row, setting: str, column: str, value: float, low: float, high: float,
    in_print: dict[tuple[str, str], str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    model, _, concept = row.concept.partition(BETWEEN)
    text = (in_print or {}).get((model, concept), "")
    number = float(pd.to_numeric(text, errors="coerce"))
    return {
        "table": SHARES, "model": model, "column": column, "concept": concept, "category": "", "group": "",
        "setting": setting, "printed": text, "paper": number, "encoder": "", "run": value, "low": low, "high": high,
        "difference": value - number, "paper_inside": None, "same_model": True, "note": row.reason,
    }  # fmt: skip


def said_of(cells: pd.DataFrame) -> list[str]:
    """Count the cells in which each test finds a difference, and what correcting for their number leaves."""
    tests = cells[cells.setting == SAME]
    tested = len(tests[tests.column == EXACT])
    counts = {column: int((tests.run[tests.column == column] < LEVEL).sum()) for column in (CHI_SQUARED, EXACT, Q)}
    lines = [
        f"of {wording.count(tested, 'cell')}, χ² without a correction puts {counts[CHI_SQUARED]} below .05, the exact "
        f"test {counts[EXACT]}; {counts[Q]} have q < .05 once all {tested} are corrected for (Benjamini and Hochberg)."
    ]
    printed = tests[tests.printed != ""]
    if len(printed):
        below = int((printed.paper < LEVEL).sum() + printed.printed.str.startswith("<").sum())
        lines.append(
            f"{PRINT} has the p-values of {wording.count(len(printed), 'cell')}, of which {below} lie below .05."
        )
    else:
        lines.append(
            f"The paper's own p-values are not available: put {PRINT} (model, concept, p) next to {LIST}, and they are "
            "shown in the column of χ²."
        )
    return lines
