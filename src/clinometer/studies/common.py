"""What the studies share: the check that embeddings are complete, and the table of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TypeVar

import numpy as np
import pandas as pd

from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.metrics import Score
from clinometer.runs.store import Run
from clinometer.suites import Suite

AnySuite = TypeVar("AnySuite", bound=Suite)


def suite_of(run: Run, shape: type[AnySuite]) -> AnySuite:
    """The run's suite, in the shape that its study has."""
    if not isinstance(run.suite, shape):
        raise RunCorruptError(f"{run.url}: its suite is of study {run.suite.study!r}, expected a {shape.__name__}")
    return run.suite


def embedded(run: Run, encoder: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The vectors of images by sample id, and of texts by text.

    Raises
    ------
    RunNotFoundError
        The encoder has not finished.
    RunCorruptError
        A file is damaged, or lacks an image or a text.
    """
    require_finished(run, encoder)
    vectors = run.embeddings(encoder)
    run.require_embedded(encoder, vectors)
    return vectors, run.texts(encoder)


def require_finished(run: Run, encoder: str) -> None:
    """Refuse an encoder that has not embedded every part and the texts.

    Raises
    ------
    RunNotFoundError
        The message names the way out.
    """
    unfinished = [part for part in run.parts if not run.has_embeddings(encoder, part)]
    if unfinished or not run.has_texts(encoder):
        raise RunNotFoundError(
            f"{run.url}: encoder {encoder} has not finished ({len(unfinished)} parts to go); give: clinometer score "
            f"{run.url} --encoder {encoder}"
        )


def scores_table(scores: Sequence[Score]) -> pd.DataFrame:
    """Scores as the table that a run keeps."""
    return pd.DataFrame([asdict(row) for row in scores], columns=[field.name for field in fields(Score)])
