"""An image-text encoder as a reader: a picture reads as the group whose words it is nearest to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clinometer.errors import ModelError
from clinometer.models.protocols import Card, Question, Reading, not_in_words
from clinometer.models.registry import load_encoder
from clinometer.stats.association import association_scores

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer.models.protocols import Encoder


class EncoderReader:
    """Reads by cosines, as the shares of a run are read: forced, for it always names a group.

    A group's words are its answer's ``labels``, or its text where it has none. Of two groups the answer is A where the
    association score (mean cosine with A's words less that with B's) is above 0; of more, the group of the greatest
    mean cosine. Cosines are no probabilities, so it gives none.
    """

    def __init__(self, encoder: Encoder) -> None:
        if not all(hasattr(encoder, method) for method in ("encode_images", "encode_texts")):
            raise ModelError(f"{encoder.card.name}: it does not embed both images and texts, so it reads nothing")
        self.encoder = encoder
        own = encoder.card
        self.card = Card(
            kind="reader", name=own.name, family=f"encoder/{own.family}", revision=own.revision,
            weights_sha256=own.weights_sha256, settings=own.settings,
            notes=own.notes | {"cannot": "it always names a group: no picture is unclear to it, or of none"},
        )  # fmt: skip
        self.batch_size = 32

    def offers(self, question: Question) -> tuple[str, ...]:
        """Name the groups: it has nothing else to answer."""
        if question.is_open:
            raise not_in_words(self.card, question)
        return question.groups

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Read each image as the group whose words it is nearest to, on average."""
        if not images:
            return []
        vectors = self.encoder.encode_images(images)
        words = [self.encoder.encode_texts(answer.labels or (answer.text,)) for answer in question.answers]
        if len(words) == 2:
            nearest = np.where(association_scores(vectors, *words) > 0, 0, 1)
        else:
            # A score against the last group's words ranks as the mean cosine does: the same is taken from each.
            nearest = np.argmax([association_scores(vectors, each, words[-1]) for each in words], axis=0)
        return [Reading(question.groups[index]) for index in nearest]


def load(source: str, **options: Any) -> EncoderReader:
    """Load an encoder as a reader; ``source`` and ``options`` are those of `load_encoder`."""
    return EncoderReader(load_encoder(source or "reference", **options))
