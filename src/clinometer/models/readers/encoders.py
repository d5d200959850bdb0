"""Readers without a model of their own: by an image-text encoder's cosines, and by the colour of the skin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clinometer._cores import one_thread
from clinometer._messages import NONE, UNCLEAR
from clinometer.errors import ModelError
from clinometer.models.protocols import Card
from clinometer.models.readers import Question, Reading, not_in_words
from clinometer.models.registry import load_encoder
from clinometer.stats.association import association_scores, nearest_group
from clinometer.stats.skin import CB_RANGE, CR_RANGE, MINIMUM_SHARE, MONK_SWATCHES, monk_tone

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer.models.protocols import Encoder


class EncoderReader:
    """Reads by cosines (`nearest_group`), which makes the shares of a run: forced, for it always names a group.

    A group's words are its answer's ``labels``, or its text where it has none. Cosines are no probabilities, so it
    gives none.
    """

    def __init__(self, encoder: Encoder) -> None:
        if not all(hasattr(encoder, method) for method in ("encode_images", "encode_texts")):
            raise ModelError.unsupported(
                f"{encoder.card.name}: it does not embed both images and texts, so it reads nothing"
            )
        self.encoder = encoder
        card = encoder.card
        self.card = Card(
            kind="reader", name=card.name, family=f"encoder/{card.family}", revision=card.revision,
            weights_sha256=card.weights_sha256, settings=card.settings,
            notes=card.notes | {"cannot": "it always names a group: no picture is unclear to it, or of none"},
        )  # fmt: skip
        self.batch_size = 32

    def possible_answers(self, question: Question) -> tuple[str, ...]:
        """Return the groups: it has no other answers."""
        if question.is_open:
            raise not_in_words(self.card, question)
        return question.groups

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Read each image as the group whose words it is nearest to, on average."""
        if not images:
            return []
        vectors = self.encoder.encode_images(images)
        with one_thread():
            words = [self.encoder.encode_texts(answer.labels or (answer.text,)) for answer in question.answers]
        # A score against the last group's words ranks as the mean cosine does: the same is taken from each.
        cosines = np.stack([association_scores(vectors, each, words[-1]) for each in words], axis=1)
        return [Reading(question.groups[index]) for index in nearest_group(cosines)]


def load(source: str, **options: Any) -> EncoderReader:
    """Load an encoder as a reader; ``source`` and ``options`` are those of `load_encoder`."""
    return EncoderReader(load_encoder(source or "reference", **options))


TONES: Final = {f"monk {number}": number for number in range(1, len(MONK_SWATCHES) + 1)}
"""The names of the ten tones, as an answer's labels have them."""


class MonkReader:
    """Reads the tone of the skin: the one of the Monk scale that is nearest to the mean colour of a picture's skin.

    An answer is of the tones among its names, ``monk 1`` to ``monk 10``. A picture with too little skin is unclear.
    """

    def __init__(self, name: str | None = None) -> None:
        self.card = Card(
            kind="reader", name=name or "monk", family="skin/monk",
            settings={"swatches": list(MONK_SWATCHES), "difference": "CIEDE2000", "cb": list(CB_RANGE),
                      "cr": list(CR_RANGE), "minimum_share": MINIMUM_SHARE},
            notes={"cannot": "it tells the light in a picture as much as the person, takes wood and sand for skin, and "
                             "never names tone 10, which is no skin to its mask"},
        )  # fmt: skip
        self.batch_size = 32

    def _meant(self, question: Question) -> dict[int, str]:
        """Return the answer of each tone that one has."""
        meant = {TONES[name]: answer.group for answer in question.answers for name in answer.names if name in TONES}
        if len(set(meant.values())) < 2:
            raise ModelError.unsupported(
                f"{self.card.name}: question {question.name} has no two answers with a tone among their labels, such "
                "as 'monk 1'; it answers the question monk"
            )
        return meant

    def possible_answers(self, question: Question) -> tuple[str, ...]:
        """Return the answers that have a tone, and "cannot tell"; where a tone is no answer's, "none of these"."""
        if question.is_open:
            raise not_in_words(self.card, question)
        meant = self._meant(question)
        named = tuple(group for group in question.groups if group in meant.values())
        return (*named, *([NONE] if len(meant) < len(TONES) else []), UNCLEAR)

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Read the tone of each image."""
        meant, readings = self._meant(question), []
        for image in images:
            tone = monk_tone(np.asarray(image.convert("RGB")))
            readings.append(Reading(UNCLEAR if tone is None else meant.get(tone, NONE)))
        return readings


def load_monk(source: str, *, device: str | None = None, name: str | None = None) -> MonkReader:
    """Make what reads tones of skin; ``source`` and ``device`` have no meaning here."""
    return MonkReader(name)
