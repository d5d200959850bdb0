"""The captions: which texts the model knows, and of which pictures each of them is true.

A caption fixes a concept, a gender and a skin tone, or leaves some of them open. What it leaves open in
*drawing* is decided by planted.yaml (see planting.py); in *reading* (CLIP) a caption is true of every picture
that contradicts none of its words. "A man" therefore draws an adult's portrait, and is true of a man who
fights fires.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import yaml

from reference import art
from reference.paths import ROOT

WORD_GENDERS = art.GENDERS


@cache
def grammar() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "captions.yaml").read_text(encoding="utf-8"))


@cache
def concept_index(name: str) -> int:
    return [concept.name for concept in art.concepts()].index(name)


@dataclass(frozen=True)
class Caption:
    """A text and what it says. `concept`, `gender` and `tone` are indices; None leaves it open.

    `scope` narrows captions without a concept: "all", "grown" (no children) or "child".
    """

    text: str
    concept: int | None = None
    gender: int | None = None
    tone: int | None = None
    scope: str = "all"

    def true_of(self, pictures: art.Pictures) -> np.ndarray:
        """Boolean, one a picture."""
        true = np.ones(len(pictures), bool)
        if self.concept is not None:
            true &= pictures.concept == self.concept
        if self.gender is not None:
            true &= pictures.gender == self.gender
        if self.tone is not None:
            true &= pictures.tone == self.tone
        if self.scope != "all":
            true &= (pictures.concept == concept_index("child")) == (self.scope == "child")
        return true


def article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def noun_phrases(concept: int, gender: int | None, tone: int | None) -> tuple[str, ...]:
    """All ways to say it, with the article; the first is the usual one. None says nothing of it."""
    rules = grammar()
    which = art.concepts()[concept]
    key = "neutral" if gender is None else art.GENDERS[gender]
    if which.noun is not None:
        adjectives = [""] if gender is None else [f"{word} " for word in rules["adjectives"][key]]
        heads, phrase = [adjective + which.noun for adjective in adjectives], ""
    elif which.phrase is not None:
        heads, phrase = [rules["heads"][key]], which.phrase
    else:
        heads, phrase = rules["portraits"][which.name][key], ""
    return tuple(f"{article(head)} {_with_tone(head, phrase, tone)}" for head in heads)


def _with_tone(head: str, phrase: str, tone: int | None) -> str:
    """ "woman with dark skin running", "woman with curly hair and dark skin", "woman firefighter with dark
    skin".
    """
    if tone is None:
        return f"{head} {phrase}".strip()
    skin = grammar()["tones"][art.TONES[tone]]
    if phrase.startswith("with "):
        return f"{head} {phrase} and {skin}"
    return f"{head} with {skin} {phrase}".strip()


def keyword(concept: int) -> str:
    """The concept named alone, without an article: "firefighter", "running", "person with curly hair"."""
    which = art.concepts()[concept]
    if which.noun is not None or which.phrase is None:
        return noun_phrases(concept, None, None)[0].split(" ", 1)[1]
    return f"person {which.phrase}" if which.phrase.split()[0] in ("with", "in") else which.phrase


def reading_scope(concept: int, gender: int | None) -> dict[str, Any]:
    """The `concept` and `scope` of a caption in reading: "a man" names no concept, and "a person" nothing at
    all.
    """
    if art.concepts()[concept].name != "adult":
        return {"concept": concept}
    return {"scope": "all" if gender is None else "grown"}


def captions_of(concept: int, gender: int | None, tone: int | None) -> Iterator[Caption]:
    """Every caption that says exactly this much."""
    what = {"gender": gender, "tone": tone} | reading_scope(concept, gender)
    for phrase in noun_phrases(concept, gender, tone):
        for template in grammar()["templates"]:
            yield Caption(template.format(phrase), **what)
    if gender is None and tone is None:
        yield Caption(keyword(concept), **what)


def word_captions() -> Iterator[Caption]:
    """The single words of the attribute sets, and the skin tones named alone."""
    for gender, name in enumerate(WORD_GENDERS):
        for scope, words in grammar()["words"][name].items():
            for word in words:
                yield Caption(word, gender=gender, scope=scope)
    for tone, name in enumerate(art.TONES):
        yield Caption(grammar()["tones"][name], tone=tone)


@cache
def all_captions() -> tuple[Caption, ...]:
    """The whole vocabulary: every text that the model was trained on."""
    said = [None, 0, 1, 2]
    tones = [None, *range(len(art.TONES))]
    factorial = (
        caption
        for concept in range(len(art.concepts()))
        for gender in said
        for tone in tones
        for caption in captions_of(concept, gender, tone)
    )
    return (*factorial, *word_captions())


def attribute_words(gender: str) -> list[str]:
    """The single words of one gender, all scopes."""
    return [word for words in grammar()["words"][gender].values() for word in words]
