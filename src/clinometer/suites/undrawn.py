"""The suites of studies that draw no image: of a table of counts, and of WEAT, SEAT and iEAT on given stimuli."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from clinometer.errors import InvalidInputError
from clinometer.suites.base import PromptSpec, Suite, SuiteTable, refuse_duplicates, refuse_many
from clinometer.suites.strict import Name, Number, Strict, Text


class CountsSuite(Suite):
    """Description of a table of counts. It follows from the table (``clinometer import --counts``); it asks no model.

    ``settings`` : what was varied, in the order of the table; empty where nothing was. ``margin`` : the distance of a
    share from equal shares below which it counts as none.
    """

    study: Literal["counts"] = "counts"
    concepts: tuple[Name, ...] = Field(min_length=1)
    groups: tuple[Name, ...] = Field(min_length=2)
    settings: tuple[Name, ...] = ()
    margin: Annotated[Number, Field(gt=0, lt=1)] | None = None

    options: ClassVar[frozenset[str]] = frozenset()
    scoring_options: ClassVar[frozenset[str]] = Suite.scoring_options | {"margin"}
    draws: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for field in ("concepts", "groups", "settings"):
            refuse_duplicates(getattr(self, field), f"{field}: name used twice")
        return self

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Return nothing: no image is drawn."""
        return iter(())

    def concept_names(self) -> list[str]:
        """Return the concepts, as the table has them."""
        return list(self.concepts)

    def texts(self) -> list[str]:
        """Return nothing: no text is embedded."""
        return []

    def label_of(self, group: str) -> str:
        """Return the group itself, as the table names it."""
        return group

    def images_in_words(self) -> str:
        """Return why there are no images to count."""
        return "none are drawn: they were counted elsewhere"

    def sheets(self) -> tuple[SuiteTable, ...]:
        """Return concepts, groups and settings."""
        named = (("concepts", self.concepts), ("groups", self.groups), ("settings", self.settings))
        return (
            SuiteTable("counted", ("", "names"), tuple((name, ", ".join(names)) for name, names in named if names)),
        )


_POINTING: Final = ("This is {word}.", "That is {word}.", "There is {word}.", "Here is {word}.")

SENTENCES: Final[dict[str, tuple[str, ...]]] = {
    "name": (*_POINTING, "{word} is here.", "{word} is there.", "{word} is a person."),
    "thing": (
        *(sentence.replace("{word}", "{a word}") for sentence in _POINTING),
        "The {word} is here.",
        "The {word} is there.",
    ),
    "other": (*_POINTING, "It is {word}."),
}
"""Sentences that say next to nothing but the word, by its form, after May et al. (2019), *On Measuring Social Biases in
Sentence Encoders*."""


class Stimuli(Strict):
    """One of the four sets: words, a folder of pictures, or both (then the pictures count where there are any).

    ``form`` chooses the sentences around a word: ``"name"``, ``"thing"`` (a noun that takes an article) or ``"other"``.
    ``sentences`` gives others, with ``{word}`` or ``{a word}`` in each.
    """

    label: Name
    words: tuple[Text, ...] = ()
    folder: Name | None = None
    form: Literal["name", "thing", "other"] = "other"
    sentences: tuple[Text, ...] = ()

    @field_validator("sentences")
    @classmethod
    def _has_a_hole(cls, sentences: tuple[str, ...]) -> tuple[str, ...]:
        for sentence in sentences:
            if sentence.count("{word}") + sentence.count("{a word}") != 1:
                raise InvalidInputError.malformed(f"expected {{word}} or {{a word}} once, found {sentence!r}")
        return sentences

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.words and self.folder is None:
            raise InvalidInputError.wrong_type("expected words, or a folder of pictures")
        refuse_duplicates(self.words, "words: used twice")
        refuse_many(len(self.words) * (1 + len(self.sentences)), "words")
        return self

    def sentences_of(self, word: str) -> tuple[str, ...]:
        """Return the sentences about one word."""
        article = "an" if word[:1].lower() in tuple("aeiou") else "a"
        templates = self.sentences or SENTENCES[self.form]
        sentences = (each.replace("{a word}", f"{article} {{word}}").replace("{word}", word) for each in templates)
        return tuple(sentence[:1].upper() + sentence[1:] for sentence in sentences)


class WeatSuite(Suite):
    """Tests of different associations of targets X and Y with attributes A and B.

    ``alternative`` ``"greater"`` is the hypothesis of the test's authors: X to A, Y to B.
    """

    study: Literal["weat"] = "weat"
    x: Stimuli
    y: Stimuli
    a: Stimuli
    b: Stimuli
    alternative: Literal["greater", "less", "two-sided"] = "greater"

    options: ClassVar[frozenset[str]] = frozenset()
    draws: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check_sets(self) -> Self:
        refuse_duplicates((stimuli.label for stimuli in self.sets.values()), "x, y, a, b: label used twice")
        for first, second in (("x", "y"), ("a", "b")):
            if both := set(self.sets[first].words) & set(self.sets[second].words):
                raise InvalidInputError.duplicate(f"{first} and {second} share the word {min(both)!r}")
        return self

    @property
    def sets(self) -> dict[str, Stimuli]:
        """The four sets by their names in the formula."""
        return {"x": self.x, "y": self.y, "a": self.a, "b": self.b}

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Return nothing: no image is drawn."""
        return iter(())

    def texts(self) -> list[str]:
        """Return every word, once."""
        return list(dict.fromkeys(word for stimuli in self.sets.values() for word in stimuli.words))

    def label_of(self, group: str) -> str:
        """Return the label of ``"x"``, ``"y"``, ``"a"`` or ``"b"``."""
        return self.sets[group].label if group in self.sets else group

    def images_in_words(self) -> str:
        """Return why there are no images to count."""
        return "none are drawn: the stimuli are words, or pictures of one's own"

    def sheets(self) -> tuple[SuiteTable, ...]:
        """Return the four sets."""
        rows = tuple(
            (role.upper(), stimuli.label, ", ".join(stimuli.words) or f"pictures in {stimuli.folder}/")
            for role, stimuli in self.sets.items()
        )
        return (SuiteTable(f"{self.alternative}: X to A, Y to B", ("", "set", "stimuli"), rows),)
