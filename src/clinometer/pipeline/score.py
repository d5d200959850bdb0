"""From the store to the scores: the suite's study turns embeddings into numbers, and they are written."""

from __future__ import annotations

import pandas as pd

from clinometer._cores import one_blas_thread
from clinometer.errors import RunNotFoundError
from clinometer.runs.encoding import require_drawn
from clinometer.runs.fingerprint import SCORED, SCORES, are_whole, fingerprint_of_scores, is_current
from clinometer.runs.progress import Progress
from clinometer.runs.ratings import with_ratings
from clinometer.runs.store import Run
from clinometer.studies import study_of
from clinometer.studies.refusals.scoring import with_refusals
from clinometer.studies.study import Pool

RESAMPLES = 10_000


def score(run: Run, progress: Progress, *, resamples: int = RESAMPLES, pool: Pool | None = None) -> pd.DataFrame:
    """Compute every number from the embeddings on disk and write them. Draws and embeds nothing.

    With a ``pool``, its processes measure what the study lets them; the scores are the same, bit for bit.

    Scores that are there and were made of the same are kept.

    Raises
    ------
    RunNotFoundError
        Images are still to be drawn, no encoder has embedded the run, or what one embedded is not complete.
    """
    made_of = fingerprint_of_scores(run, resamples)
    if is_current(run, SCORES, made_of) and are_whole(run, SCORED):
        progress.note("scoring: nothing to do, what the scores are made of has not changed")
        return run.scores
    require_drawn(run)
    study = study_of(run.suite)
    if study.encoders_needed and not run.encoder_cards:
        name = next(iter(run.begun_encoder_cards), "reference")
        raise RunNotFoundError(f"{run.url}: no encoder has finished; give: clinometer score {run.url} --encoder {name}")
    progress.start("scoring", 1, 0)
    with one_blas_thread():
        if pool is None or study.score_by is None:
            scored = study.score(run, resamples)
        else:
            scored = study.score_by(run, resamples, pool)
    scores = with_ratings(run, with_refusals(run, scored.scores))
    run.write_scores(scores, scored.curves, made_of)
    progress.advance(1)
    progress.finish()
    return scores
