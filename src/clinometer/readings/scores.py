"""What readers said of a run, as rows of its scores, whatever its study."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from clinometer.errors import RunNotFoundError
from clinometer.metrics.human import HUMAN, SIMULATED
from clinometer.metrics.mcas import IMAGE_PART
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
from clinometer.metrics.records import DECIDES, MEAN, READING, SELECTION, STANDARD, Score
from clinometer.metrics.selection import selection_rows
from clinometer.metrics.verdict import withheld_by_shares
from clinometer.readings.known import answered_questions, read_images, vectors_of_some
from clinometer.readings.open_answers import opened_rows
from clinometer.readings.standard import compare_with_standard, shares_of_readers
from clinometer.report.rows import Scores, scores_table
from clinometer.runs.ratings import with_ratings
from clinometer.runs.ratings.store import Rated
from clinometer.runs.run import Run


def with_readings(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores, below them what readers say of the concepts, where any has read the run.

    Raises
    ------
    RunNotFoundError
        The reader whose verdicts are to stand has not read it.
    """
    readers = run.readers.cards
    decider = str(run.record.get("options", {}).get("verdict_reader") or "")
    require_reader(run, decider)
    tables = {reader: run.readings(reader) for reader in readers}
    vectors = vectors_of_some(run, tables.values())
    answered = [each for reader, table in tables.items() for each in answered_questions(run, reader, table, vectors)]
    judged = reading_rows(answered, decider=decider)
    together = [row for read in read_images(run, tables) for make in (agreement_rows, rated_rows) for row in make(read)]
    rated = {(row.encoder, row.setting, row.concept) for row in together if row.component == "ratings_to_decide"}
    shares = shares_of_readers(answered, [*judged, *together])
    drifts = [
        drift_row(reader, *found) for reader in readers
        if len((found := run.answers.differing(readers[reader]))[0])
    ]  # fmt: skip
    changed = {row.encoder for row in drifts if row.flag}
    rows = scores_table(with_changed([
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
    scores = withheld_by_readers(scores, judged)
    return pd.concat([scores, rows.reindex(columns=scores.columns)], ignore_index=True) if len(rows) else scores


def withheld_by_readers(scores: pd.DataFrame, judged: Sequence[Score]) -> pd.DataFrame:
    """Withhold verdicts on image parts that the share of the reader whose verdicts stand denies.

    Of a question whose groups are those that the image part lies between, by their names.
    """
    decide = {(row.encoder, row.setting) for row in judged if row.flag == DECIDES}
    shares = [row for row in judged if (row.encoder, row.setting) in decide and row.component.endswith("share")]
    own = (scores.metric == "mcas") & (scores.component == IMAGE_PART) & (scores.encoder == MEAN)
    of_pair = scores[(scores.metric == "share") & (scores.component == "share") & (scores.encoder == MEAN)]
    if not (shares and own.any() and len(of_pair)):
        return scores
    before = list(Scores.from_frame(scores[own]))
    after = withheld_by_shares(before, shares, a=of_pair.group.iloc[0])
    changed = scores.copy()
    for name in ("verdict", "side", "reason_code", "reason", "n_decide"):
        changed.loc[own, name] = [getattr(row, name) for row in after]
    return changed


def rescore(run: Run, rated: Rated) -> pd.DataFrame:
    """Compute the rows of people's ratings again, and those of readers that rest on them, beside the run's others."""
    again = (HUMAN, SIMULATED, READING, SELECTION, STANDARD)
    others = run.scores[~run.scores.metric.isin(again)].reset_index(drop=True)
    scores = with_readings(run, with_ratings(run, rated, others))
    run.write_scores(scores, run.curves)
    return scores


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
