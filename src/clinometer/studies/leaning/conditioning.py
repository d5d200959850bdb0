"""What images are conditioned on: the suite's texts in the model's own encoders, and what its prior draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from clinometer.errors import ModelError, RunNotFoundError
from clinometer.models.protocols import DrawsInTwoStages, Generator, ShowsPipeline, offers
from clinometer.runs.drawing import requests_of
from clinometer.runs.embeddings import require_vectors
from clinometer.runs.progress import Progress, naming_errors
from clinometer.runs.run import Run
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.studies.leaning.embeddings import stacked_images, texts_by_group
from clinometer.suites import LeaningSuite

if TYPE_CHECKING:
    from clinometer.models.diffusers.conditioning import DiffusersPrior
    from clinometer.models.encoders.own_text import OwnTextEncoder


def parts_without_prior(run: Run, generator: Generator) -> list[int] | None:
    """List the parts that lack what the model's prior makes of their prompts; None where it has no prior."""
    prior = _prior_of(generator)
    if prior is None:
        return None
    run.encoders.add_own(prior.card)
    return [part for part in run.parts if not run.vectors.has(prior.card.name, part)]


def _prior_of(generator: Generator) -> DiffusersPrior | None:
    if not offers(generator, DrawsInTwoStages):
        return None
    from clinometer.models.diffusers.conditioning import prior_of  # and with it diffusers, which takes seconds

    return prior_of(generator)


def draw_prior_embeddings(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw the missing parts of what the model's prior makes of the plan's prompts; nothing where it has no prior.

    A sample's embedding takes the noise of the sample's image, so it is the one that the image was drawn from. It is
    there for an image that was refused, too: nothing was decoded yet. Batches never cross a part.
    """
    prior, missing = _prior_of(generator), parts_without_prior(run, generator)
    if prior is None or missing is None:
        return
    name, parts = prior.card.name, run.parts
    progress.start("the prior's embeddings", len(run.plan), len(run.plan) - sum(len(parts[part]) for part in missing))
    reasons: list[str | None] = []
    for part in missing:
        with naming_errors("prior", name):
            drawn = list(prior.embed(requests_of(parts[part])))
        by_id = {embedding.id: embedding.vector for embedding in drawn if embedding.vector is not None}
        vectors = np.stack(list(by_id.values())) if by_id else np.zeros((0, 1), np.float32)
        run.vectors.write(name, part, list(by_id), vectors)
        reasons += [embedding.reason for embedding in drawn if embedding.vector is None]
        progress.advance(len(parts[part]))
    progress.finish()
    if reasons:
        progress.note(f"{len(reasons)} embeddings of the prior could not be drawn, the first because: {reasons[0]}")


def prior_embeddings(run: Run, suite: LeaningSuite) -> list[EncoderEmbeddings]:
    """Return what the model's prior drew, in the place of images; nothing where it did not draw the whole plan."""
    names = [name for name in run.own_encoder_cards if all(run.vectors.has(name, part) for part in run.parts)]
    stacked = {name: stacked_images(run.plan, suite, run.embeddings(name)) for name in names}
    return [
        EncoderEmbeddings(encoder=name, target_images=targets, target_texts=None, group_images=groups)
        for name, (targets, groups) in stacked.items()
    ]


def lacks_own_texts(run: Run, generator: Generator) -> bool:
    """Return whether a text encoder of the model has not embedded the suite's texts."""
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
            with naming_errors("encoder", encoder.name):
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
    """Return whether they exist and are recorded: a killed command may not have recorded what a worker wrote."""
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
            raise RunNotFoundError.incomplete(
                f"{run.url}: what {name} embedded is not complete; give the command that began the run again"
            )
    embeddings = []
    for name in run.own_encoder_cards:
        if run.vectors.has_texts(name):
            texts = run.texts(name)
            nothing = np.zeros((0, len(next(iter(texts.values())))), np.float32)
            embeddings.append(
                EncoderEmbeddings(
                    encoder=name,
                    target_images=(nothing,) * len(suite.targets),
                    target_texts=np.stack([texts[suite.text_of(target)] for target in suite.targets]),
                    group_images={group: (nothing,) * len(suite.groups[group].prompts) for group in suite.groups},
                    group_words=texts_by_group(suite, texts, lambda group: group.words),
                )
            )
    return embeddings
