"""What a run asks of its encoders, before anything is drawn: a wrong one must not cost an hour of images.

See decision 40.
"""

from __future__ import annotations

from collections.abc import Sequence

from clinometer._messages import quoted
from clinometer.errors import ModelError
from clinometer.models.abilities import ReadsTexts, SeesImages, offers
from clinometer.models.protocols import Encoder
from clinometer.runs.ledger import embeddings_name
from clinometer.studies import study_of
from clinometer.suites import Suite

LONGEST_NAME = 200


def require_images(encoder: Encoder) -> None:
    """Refuse an encoder that sees none."""
    if not offers(encoder, SeesImages):
        raise ModelError(
            f"encoder {encoder.card.name}: it embeds texts only, and a run holds images; name a dual encoder, such as "
            "ViT-B-32/openai (clinometer test takes any encoder)"
        )


def require_texts(encoders: Sequence[Encoder], suite: Suite, *, until: bool) -> None:
    """Refuse an encoder that reads none, where scores need it or where they decide how many images there are."""
    needed = until or study_of(suite).texts_needed
    for encoder in encoders:
        if needed and not offers(encoder, ReadsTexts):
            raise ModelError(
                f"encoder {encoder.card.name}: it embeds images only, and a suite of study {suite.study} asks by words "
                "what they show; name a dual encoder, such as ViT-B-32/openai"
            )


def require_names(encoders: Sequence[Encoder]) -> None:
    """Refuse the name that scores reserve, and two encoders whose embeddings would share a folder."""
    by_place: dict[str, Encoder] = {}
    for encoder in encoders:
        if encoder.card.name == "mean":
            raise ModelError("encoder 'mean': in the scores that name is the mean over encoders; rename its directory")
        if not encoder.card.name.strip("./\\ ") or len(encoder.card.name) > LONGEST_NAME:
            raise ModelError(
                f"encoder {quoted(encoder.card.name)}: its embeddings are kept in a folder of that name, and none can "
                f"be called so; give it a name of letters and digits, of at most {LONGEST_NAME} characters"
            )
        place = embeddings_name(encoder.card.name)
        other = by_place.setdefault(place.lower(), encoder)  # one place on systems that know no case
        if other.card.fingerprint != encoder.card.fingerprint:
            raise ModelError(
                f"encoders {other.card.name!r} ({other.card.family}) and {encoder.card.name!r} ({encoder.card.family})"
                f": the embeddings of both would lie in {place}; rename the directory of one, or give one only"
            )
