"""The image embeddings that a model's prior draws: a stage of a leaning run, and its embeddings for the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clinometer.models.abilities import DrawsInTwoStages, offers
from clinometer.models.protocols import Generator
from clinometer.runs.drawing import requests_of
from clinometer.runs.failures import named
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.studies.leaning.stacks import stacked_images
from clinometer.suites import LeaningSuite

if TYPE_CHECKING:
    from clinometer.models.diffusers.prior import DiffusersPrior


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
    from clinometer.models.diffusers.prior import prior_of  # and with it diffusers, which takes seconds

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
        with named("prior", name):
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
    """What the model's prior drew, in the place of images; nothing where it did not draw the whole plan."""
    return [
        _embeddings(run, suite, name)
        for name in run.own_encoder_cards
        if all(run.vectors.has(name, part) for part in run.parts)
    ]


def _embeddings(run: Run, suite: LeaningSuite, name: str) -> EncoderEmbeddings:
    vectors = run.embeddings(name)
    targets, groups = stacked_images(run.plan, suite, vectors, width=len(next(iter(vectors.values()), ())) or 1)
    return EncoderEmbeddings(encoder=name, target_images=targets, target_texts=None, group_images=groups)
