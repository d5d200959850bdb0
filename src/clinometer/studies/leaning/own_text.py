"""The suite's texts in the model's own text encoders: a stage of a leaning run, and its embeddings for the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from clinometer.errors import ModelError, RunNotFoundError
from clinometer.models.abilities import ShowsPipeline, offers
from clinometer.models.protocols import Generator
from clinometer.runs.encoding import require_vectors
from clinometer.runs.failures import named
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.suites import LeaningSuite

if TYPE_CHECKING:
    from clinometer.models.encoders.own_text import OwnTextEncoder


def lacks_own_texts(run: Run, generator: Generator) -> bool:
    """Tell whether a text encoder of the model has not embedded the suite's texts."""
    return any(not _has_texts(run, encoder.name) for encoder in _own_encoders(generator))


def embed_own_texts(run: Run, generator: Generator, progress: Progress) -> None:
    """Embed the suite's texts with each text encoder of the model that is not done; nothing where it shows none.

    One that cannot be asked, or gives no vectors, is left out with a note: no other number depends on it.
    """
    texts = [text for text in run.suite.texts() if text.strip()]  # an empty text may have no token at all
    for encoder in _own_encoders(generator):
        if _has_texts(run, encoder.name):
            continue
        progress.start(f"texts in {encoder.name}", len(texts), 0)
        try:
            with named("encoder", encoder.name):
                card, vectors = encoder.card, require_vectors(encoder.encode_texts(texts), encoder.name, texts)
        except ModelError as error:
            progress.note(f"its rows are left out, and nothing else depends on them: {error}")
        else:
            run.encoders.add_own(card)
            run.vectors.write_texts(encoder.name, texts, vectors)
        progress.advance(len(texts))
        progress.finish()


def _own_encoders(generator: Generator) -> Iterator[OwnTextEncoder]:
    if not offers(generator, ShowsPipeline):
        return
    from clinometer.models.encoders.own_text import own_text_encoders  # and with it PyTorch, which takes seconds

    yield from own_text_encoders(generator)


def _has_texts(run: Run, name: str) -> bool:
    """Tell whether they are there, and recorded: a killed command may not have recorded what a worker wrote."""
    return run.vectors.has_texts(name) and name in run.own_encoder_cards


def own_embeddings(run: Run, suite: LeaningSuite) -> list[EncoderEmbeddings]:
    """Read the texts as the model's own encoders embed them, with no image anywhere.

    Raises
    ------
    RunNotFoundError
        What one of them, or the prior, embedded is not complete.
    """
    for name in run.own_encoder_cards:
        if not (run.vectors.has_texts(name) or all(run.vectors.has(name, part) for part in run.parts)):
            raise RunNotFoundError(
                f"{run.url}: what {name} embedded is not complete; give the command that began the run again"
            )
    return [_embeddings(run, suite, name) for name in run.own_encoder_cards if run.vectors.has_texts(name)]


def _embeddings(run: Run, suite: LeaningSuite, name: str) -> EncoderEmbeddings:
    texts = run.texts(name)
    nothing = np.zeros((0, len(next(iter(texts.values())))), np.float32)
    return EncoderEmbeddings(
        encoder=name,
        target_images=(nothing,) * len(suite.targets),
        target_texts=np.stack([texts[suite.text_of(target)] for target in suite.targets]),
        group_images={group_name: (nothing,) * len(group.prompts) for group_name, group in suite.groups.items()},
        group_words={
            group_name: np.stack([texts[w] for w in group.words]) for group_name, group in suite.groups.items()
        },
    )
