"""From the store to the scores: the suite's study turns embeddings into numbers, and they are written."""

from __future__ import annotations

import pandas as pd

from clinometer.errors import RunNotFoundError
from clinometer.runs.encoding import require_drawn
from clinometer.runs.progress import Progress
from clinometer.runs.ratings import with_ratings
from clinometer.runs.refusals import with_refusals
from clinometer.runs.store import Run
from clinometer.runs.studies import STUDIES

RESAMPLES = 10_000


def score(run: Run, progress: Progress, *, resamples: int = RESAMPLES) -> pd.DataFrame:
    """Compute every number from the embeddings on disk and write them. Draws and embeds nothing.

    Raises
    ------
    RunNotFoundError
        Images are still to be drawn, no encoder has embedded the run, or what one embedded is not complete.
    """
    require_drawn(run)
    study = STUDIES[run.suite.study]
    if study.encoders_needed and not run.encoder_cards:
        name = next(iter(run.begun_encoder_cards), "reference")
        raise RunNotFoundError(f"{run.url}: no encoder has finished; give: clinometer score {run.url} --encoder {name}")
    progress.start("scoring", 1, 0)
    scored = study.score(run, resamples)
    scores = with_ratings(run, with_refusals(run, scored.scores))
    run.write_scores(scores, scored.curves)
    progress.advance(1)
    progress.finish()
    return scores
