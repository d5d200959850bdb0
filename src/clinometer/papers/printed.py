"""A paper's printed tables beside a run's numbers, cell by cell, and in the order of its concepts beside people's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from math import isfinite, nan
from typing import Final

import pandas as pd

from clinometer.errors import InvalidInputError
from clinometer.papers.paper import Correlated
from clinometer.published import Published, papers, published
from clinometer.report import wording
from clinometer.runs.run import Run
from clinometer.stats.agreement import Agreement, kendall_tau_b
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.studies import study_of
from clinometer.studies.printed import PrintedCell, PrintedTable
from clinometer.suites import Suite, load_suite

DRAWN: Final = "SD v2.1"
GIVEN: Final = "CFD"
"""What the downstream paper's table calls the two kinds of portraits."""


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
