"""What the studies share: the check that embeddings are complete, the table of scores, the hook itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TypeVar

import numpy as np
import pandas as pd

from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.metrics import Score, StoppingRule
from clinometer.models import reference
from clinometer.models.protocols import Generator
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.suites import Suite

AnySuite = TypeVar("AnySuite", bound=Suite)


@dataclass(frozen=True)
class Scored:
    """What scoring a run leaves behind.

    Attributes
    ----------
    scores : a row a ``clinometer.metrics.Score``.
    curves : what the figures draw beyond the scores: a column ``curve`` names each one, the others are its own.
    """

    scores: pd.DataFrame
    curves: pd.DataFrame


@dataclass(frozen=True)
class Study:
    """What a run does for one shape of suite.

    Attributes
    ----------
    score : (run, number of resamples) → scores. Reads the run, draws and embeds nothing.
    compare : ((first run, second run), encoders that both have, seeds of the images that are pairs or None, number of
        resamples) → differences, second minus first.
    stages : what happens between drawing and embedding, in order: (run, generator, progress). Each does what is
        missing and leaves the rest alone.
    encoders_needed : whether scoring needs an encoder's embeddings.
    texts_needed : whether it needs them of texts too; where not, an encoder without a text tower gives what it can.
    extend_plan : (suite, samples of its questions, part size) → the whole plan, where more samples follow from those.
    check : refuses a generator that the stages cannot use, before anything is drawn.
    open_concepts : (run, rule, encoders) → the concepts that need more images by these encoders, for a study that can
        be drawn until decided.
    """

    score: Callable[[Run, int], Scored]
    compare: Callable[[tuple[Run, Run], Sequence[str], Collection[int] | None, int], list[Score]]
    stages: tuple[Callable[[Run, Generator, Progress], None], ...] = ()
    encoders_needed: bool = True
    texts_needed: bool = False
    extend_plan: Callable[[Suite, Sequence[Sample], int], list[Sample]] | None = None
    check: Callable[[Generator, Suite], None] | None = None
    open_concepts: Callable[[Run, StoppingRule, Sequence[str]], Collection[str]] | None = None


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


def planted_of(run: Run) -> Mapping[str, Mapping[str, float]] | None:
    """What was planted in the run's model: concept → group → probability; None for a model nobody planted.

    Only the weights that were planted have a planted truth, as they were: a name alone is not enough.
    """
    card = run.model_card
    is_planted = card["weights_sha256"] == reference.card()["weights_sha256"] and not card["settings"].get("lora")
    return reference.planted() if is_planted else None


def readings_of(run: Run) -> Mapping[str, Mapping[str, float]] | None:
    """How the reference encoder and the independent judge read the same images, for a planted run that it read.

    None for any other model or encoder.
    """
    is_read = any(card["name"] == "reference" for card in run.encoder_cards.values())
    return reference.readings() if is_read and planted_of(run) is not None else None


def scores_table(scores: Sequence[Score]) -> pd.DataFrame:
    """Scores as the table that a run keeps."""
    return pd.DataFrame([asdict(row) for row in scores], columns=[field.name for field in fields(Score)])
