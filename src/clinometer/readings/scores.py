"""Rows of the scores for what readers said of a run, whatever its study."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from clinometer.errors import RunNotFoundError
from clinometer.metrics.readers import (
    agreement_rows,
    confusion_rows,
    drift_row,
    peer_rows,
    planned_rows,
    rated_rows,
    with_changed,
)
from clinometer.metrics.reading import reading_rows
from clinometer.metrics.records import Score
from clinometer.metrics.standard import selection_rows
from clinometer.readings.known import answered_questions, read_images, vectors_of_some
from clinometer.readings.open_answers import opened_rows
from clinometer.readings.standard import compare_with_standard, shares_of_readers
from clinometer.report.rows import scores_table
from clinometer.runs.run import Run


def rows_of_readers(run: Run) -> tuple[pd.DataFrame, list[Score]]:
    """Return what readers say of the concepts as a table of scores, and the rows that are judged.

    Raises
    ------
    RunNotFoundError
        The reader whose verdicts count has not read it.
    """
    readers = run.readers.cards
    decider = str(run.record.get("options", {}).get("verdict_reader") or "")
    require_reader(run, decider)
    if not readers and run.suite.reference is None:
        return scores_table([]), []
    tables = {reader: run.readings(reader) for reader in readers}
    vectors = vectors_of_some(run, tables.values())
    answered = [each for reader, table in tables.items() for each in answered_questions(run, reader, table, vectors)]
    judged = reading_rows(answered, decider=decider)
    together = [row for read in read_images(run, tables) for make in (agreement_rows, rated_rows) for row in make(read)]
    rated = {(row.encoder, row.setting, row.concept) for row in together if row.component == "ratings_to_decide"}
    shares = shares_of_readers(answered, [*judged, *together])
    differing = {reader: run.answers.differing(card) for reader, card in readers.items()}
    drifts = [drift_row(reader, *answers) for reader, answers in differing.items() if len(answers[0])]
    changed = {row.encoder for row in drifts if row.flag}
    table = scores_table(with_changed([
        *judged,
        *(row for each in answered for make in (confusion_rows, peer_rows) for row in make(each)),
        *together,
        *(row for each in answered for row in planned_rows(each, judged)
          if (row.encoder, row.setting, row.concept) not in rated),
        *(row for reader, table in tables.items() for row in opened_rows(run, reader, table)),
        *(row for source in shares for row in selection_rows(source)),
        *(compare_with_standard(run.suite, shares) if run.suite.draws else ()),
        *drifts,
    ], changed))  # fmt: skip
    return table, judged


def require_reader(run: Run, decider: str, others: Sequence[str] = ()) -> None:
    """Refuse to judge by a reader that has not read a run and is none of the ``others``; an empty name is none.

    Raises
    ------
    RunNotFoundError
        The message names those that have.
    """
    known = [*run.readers.cards, *others]
    if decider and decider not in known:
        expected = f"expected one of {', '.join(known)}, or " if known else ""
        raise RunNotFoundError.unknown_name(
            f"found {decider!r}, which has not read {run.url}; {expected}give: "
            f"clinometer read {run.url} --reader {decider}",
            field="verdict_reader",
        )
