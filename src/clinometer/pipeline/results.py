"""From the store to the scores, and from these to the page: the suite's study says what each of them holds."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer._cores import one_thread
from clinometer.errors import DamagedRunWarning, RunCorruptError, RunNotFoundError
from clinometer.metrics.human import HUMAN, SIMULATED
from clinometer.metrics.records import READING, SELECTION, STANDARD
from clinometer.pipeline.request import RESAMPLES
from clinometer.ratings import with_ratings
from clinometer.readings.fit import withhold_unfit
from clinometer.readings.scores import rows_of_readers
from clinometer.report import wording
from clinometer.report.html import notebook_html, render_page
from clinometer.report.view import ReportInput
from clinometer.runs.encoding import require_drawn
from clinometer.runs.progress import Progress
from clinometer.runs.run import SCORE_AGAIN, Run
from clinometer.runs.verification import (
    REPORT,
    SCORED,
    SCORES,
    are_whole,
    fingerprint_of_report,
    fingerprint_of_scores,
    is_current,
)
from clinometer.studies import study_of
from clinometer.studies.refusals.scoring import with_refusals, with_repeats
from clinometer.studies.reporting import report_input
from clinometer.studies.study import Pool, Scored
from clinometer.suites import Suite

MOST_LINES: Final = 20
"""Differences that a message lists; the others are counted."""

_KEYS: Final = ("metric", "component", "concept", "category", "group", "setting", "encoder")
"""Columns that say what a row's numbers are of."""


def resamples_of(*runs: Run) -> int:
    """Find how many resamples the numbers of a run are computed from; of several runs together, the fewest."""
    return min(int(run.record.get("options", {}).get("resamples", RESAMPLES)) for run in runs)


def score(run: Run, progress: Progress, *, pool: Pool | None = None) -> pd.DataFrame:
    """Compute every number from the embeddings on disk and write them. Draws and embeds nothing.

    With a ``pool``, its processes measure what the study lets them; the scores are the same, bit for bit.

    Scores that are there and were made of the same are kept.

    Raises
    ------
    RunNotFoundError
        Images are still to be drawn, no encoder has embedded the run, or what one embedded is not complete.
    """
    resamples = resamples_of(run)
    made_of = fingerprint_of_scores(run, resamples)
    if is_current(run, SCORES, made_of) and are_whole(run, SCORED):
        progress.note("scoring: nothing to do, what the scores are made of has not changed")
        return run.scores
    require_drawn(run)
    study = study_of(run.suite)
    if study.encoders_needed and not run.encoder_cards:
        name = next(iter(run.encoders.begun), "reference")
        raise RunNotFoundError.incomplete(
            f"{run.url}: no encoder has finished; give: clinometer score {run.url} --encoder {name}"
        )
    progress.start("scoring", 1, 0)
    scored = compute_scores(run, resamples, pool)
    run.write_scores(scored.scores, scored.curves, made_of)
    progress.advance(1)
    progress.finish()
    return scored.scores


def compute_scores(run: Run, resamples: int, pool: Pool | None = None) -> Scored:
    """Compute every number of a run from what is on disk; nothing is written."""
    scored = score_study(run, resamples, pool)
    scores = with_repeats(run, with_refusals(run, scored.scores))
    return Scored(_with_people_and_readers(run, scores), scored.curves)


def _with_people_and_readers(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores followed by people's ratings and readers' answers; a reader's verdict may withhold another."""
    study = study_of(run.suite)
    scores = with_ratings(run, study.rated(run.suite), scores)
    rows, judged = rows_of_readers(run)
    scores = study.withhold_by_readers(scores, judged)
    return pd.concat([scores, rows.reindex(columns=scores.columns)], ignore_index=True) if len(rows) else scores


def score_answers_again(run: Run) -> pd.DataFrame:
    """Compute the rows of people's ratings and of readers again, and keep the run's others as they are."""
    others = run.scores[~run.scores.metric.isin((HUMAN, SIMULATED, READING, SELECTION, STANDARD))]
    scores = _with_people_and_readers(run, others.reset_index(drop=True))
    run.write_scores(scores, run.curves)
    return scores


def score_study(run: Run, resamples: int, pool: Pool | None = None) -> Scored:
    """Compute what the run's study measures, without verdicts of encoders that do not fit the run."""
    study = study_of(run.suite)
    with one_thread():
        scored = study.score(run, resamples, pool)
    return Scored(withhold_unfit(scored.scores, run), scored.curves)


def require_same_scores(run: Run, progress: Progress) -> None:
    """Compute every number again from what is on disk, hold it against those that are stored, and write nothing.

    Numbers are the same that agree to nine digits: on another machine the last may differ.

    Raises
    ------
    RunCorruptError
        Some differ: the message says which, a line each, and how many there are.
    RunError
        A run is not drawn to the end or not scored, or a file is missing or damaged.
    """
    stored = {SCORES: run.scores, "curves.parquet": run.curves}
    require_drawn(run)
    progress.start("scoring again", 1, 0)
    scored = compute_scores(run, resamples_of(run))
    progress.advance(1)
    progress.finish()
    again = {SCORES: scored.scores, "curves.parquet": scored.curves}
    differences = [line for name in stored for line in _differences(name, stored[name], again[name])]
    if differences:
        more = f"\nand {len(differences) - MOST_LINES:,} more" if len(differences) > MOST_LINES else ""
        raise RunCorruptError(
            f"{run.url}: {wording.count(len(differences), 'difference')} between the stored numbers and those that "
            f"follow from its vectors\n{chr(10).join(differences[:MOST_LINES])}{more}\nIf it "
            f"was scored by another version, that may be why. {SCORE_AGAIN}"
        )


def _differences(name: str, stored: pd.DataFrame, again: pd.DataFrame) -> Iterator[str]:
    """Yield where two tables differ, a line each: rows and columns that one lacks, and cells."""
    keys = [key for key in ("curve", *_KEYS) if key in stored and key in again]
    old, new = (table.set_axis(_row_names(table[keys]), axis="index") for table in (stored, again))
    yield from (f"{name}: column {column} is not stored" for column in new.columns.difference(old.columns))
    yield from (f"{name}: {row} is stored, and not found again" for row in old.index.difference(new.index, sort=False))
    yield from (f"{name}: {row} is found again, and not stored" for row in new.index.difference(old.index, sort=False))
    both = new.index.intersection(old.index, sort=False)
    for column in new.columns.intersection(old.columns, sort=False):
        one, other = old.loc[both, column], new.loc[both, column]
        if pd.api.types.is_numeric_dtype(one) and pd.api.types.is_numeric_dtype(other):
            same = np.isclose(one.astype(float), other.astype(float), rtol=1e-9, atol=1e-12, equal_nan=True)
        else:
            same = (one.astype(object).fillna("") == other.astype(object).fillna("")).to_numpy()
        for row in both[~same]:
            yield f"{name}: {column} of {row}: stored {one[row]}, again {other[row]}"


def _row_names(keys: pd.DataFrame) -> pd.Index:
    """Return what each row is of, in words; rows of the same, such as points of a curve, are numbered."""
    if not len(keys):
        return pd.Index([], dtype=str)
    names = keys.astype(str).agg(" / ".join, axis="columns").str.replace(r"( / )+", " / ", regex=True).str.strip(" /")
    number = names.groupby(names).cumcount()
    return pd.Index(names.where(number == 0, names + ", " + number.astype(str)))


# --- the page --------------------------------------------------------------------------------------------------------


def render_html(report: ReportInput) -> str:
    """Render the report of a run as one self-contained HTML page: see :func:`clinometer.report.render_page`."""
    return render_page(report, study_of(report.suite).page(report.suite))


def write_report(run: Run) -> list[str]:
    """Write ``report.html`` into a run directory. Returns what of the run is missing or damaged, as the page says it.

    Raises
    ------
    RunError
        The run is not scored, or its scores, its plan or run.json are not what was written.
    """
    run.directory.require_writable()
    with run.directory.listed_once():
        report = report_input(run)
        page = render_html(report)
    run.ledger.unlist([REPORT])
    with run.ledger.together():  # of two reports that are written at once the list names the one that stays
        run.ledger.write_bytes(REPORT, page.encode("utf-8", "replace"))
        run.ledger.list_files([REPORT])
        if not report.damage:
            run.ledger.note_made_of(REPORT, fingerprint_of_report(run))
    return report.damage


def refresh_report(run: Run) -> bool:
    """Write ``report.html`` unless the one that is there was made of the same, or the run was asked to go without.

    Returns whether it was written.

    Raises
    ------
    RunError
        As :func:`write_report`.

    Warns
    -----
    DamagedRunWarning
        For each part that is missing or damaged.
    """
    if not run.record.get("options", {}).get("report", True):
        return False
    if is_current(run, REPORT, fingerprint_of_report(run)) and are_whole(run, (REPORT,)):
        return False
    for damage in write_report(run):
        warnings.warn(DamagedRunWarning(damage), stacklevel=2)
    return True


def run_repr_html(
    *,
    suite: Suite,
    model_card: Mapping[str, Any],
    samples: pd.DataFrame,
    scores: pd.DataFrame | None = None,
    planned: int = 0,
    place: str = "",
) -> str:
    """Summarise a run, finished or not, as a small piece of HTML.

    Parameters
    ----------
    suite, model_card : what was asked of what.
    samples : a row an image, with its ``status``.
    scores : the score table, once there is one.
    planned : how many images the plan holds; 0 when it is not known.
    place : the run directory.
    """
    statuses = Counter(samples["status"]) if "status" in samples else Counter[str]()
    drawn = wording.count(statuses.pop("ok", 0), "image") + (f" of {planned:,}" if planned else "")
    about = (", ".join([drawn, *(f"{n:,} {status}" for status, n in sorted(statuses.items()))]), place)
    title = f"{model_card.get('name', 'unnamed model')} × {suite.title}"
    if scores is None:
        return notebook_html(title, about, ["Not scored yet."])
    summary = study_of(suite).page(suite).summary(suite, scores)
    unmeasured = f"Not measured: {summary.unmeasured}." if summary.unmeasured else ""
    said = (summary.verdicts, unmeasured, *summary.found)
    return notebook_html(title, about, said, [(summary.title, summary.columns, summary.rows)] if summary.rows else [])
