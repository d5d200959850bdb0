"""The suite of a T2IAT study: concepts, each drawn as it is and with the words of two attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from clinometer.errors import InvalidInputError
from clinometer.suites import base
from clinometer.suites.question import QuestionSpec
from clinometer.suites.strict import ImageCount, Name, Number, Strict, Text


class AttributePair(Strict):
    """The two attributes that are compared; positive leans to ``a``."""

    a: Name
    b: Name


class Stimulus(Strict):
    """One word or phrase for a concept. ``prompt`` replaces the template where that reads badly."""

    name: Name
    prompt: Text | None = None


class StimulusSet(Strict):
    """A concept: its stimuli, and the templates of its neutral prompts and of those with an attribute's word."""

    label: Name | None = None
    template: Text
    attribute_template: Text
    stimuli: tuple[Stimulus, ...] = Field(min_length=1)

    @field_validator("stimuli", mode="before")
    @classmethod
    def _name_alone(cls, stimuli: Any) -> Any:
        """Accept a stimulus given as its name alone."""
        if not isinstance(stimuli, list | tuple):
            return stimuli
        return [{"name": stimulus} if isinstance(stimulus, str) else stimulus for stimulus in stimuli]

    @model_validator(mode="after")
    def _check_templates(self) -> Self:
        for field, holes in (("template", ("{stimulus}",)), ("attribute_template", ("{stimulus}", "{word}"))):
            text = getattr(self, field)
            missing = [hole for hole in holes if text.count(hole) != 1]
            if missing:
                raise InvalidInputError.malformed(f"{field}: expected {missing[0]} once, found {text!r}")
        return self

    def neutral_prompt(self, stimulus: Stimulus) -> str:
        """Return the prompt that names no attribute."""
        return stimulus.prompt or self.template.replace("{stimulus}", stimulus.name)

    def attribute_prompt(self, stimulus: Stimulus, word: str) -> str:
        """Return the prompt with one word of an attribute."""
        texts = {"word": word, "stimulus": stimulus.name}  # at once: a word may itself contain the other hole
        return re.sub(r"\{(word|stimulus)\}", lambda hole: texts[hole[1]], self.attribute_template)


class DifferentialTest(Strict):
    """A T2IAT test: does the model tie ``x`` more closely than ``y`` to attribute A?"""

    name: Name
    x: Name
    y: Name


class ImagesPerPrompt(Strict):
    """Images of each stimulus: neutral, and with each attribute (dealt over its words in turn)."""

    neutral: ImageCount = 10
    attribute: ImageCount = 10


class T2iatSuite(base.Suite):
    """T2IAT's tests of associations between concepts and attributes, of single stimuli, and of amplification.

    ``margin`` is the |S| of a test, and the |Asc| of a stimulus, below which an association counts as none.
    """

    study: Literal["t2iat"] = "t2iat"
    groups: dict[Name, base.AttributeWords] = Field(min_length=2)
    axis: AttributePair
    concepts: dict[Name, StimulusSet] = Field(min_length=1)
    tests: tuple[DifferentialTest, ...] = ()
    images: ImagesPerPrompt = ImagesPerPrompt()
    margin: Annotated[Number, Field(gt=0)] | None = None

    scoring_options: ClassVar[frozenset[str]] = base.Suite.scoring_options | {"margin"}

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        base.refuse_all(self.concepts, "concepts")
        words = sum(len(group.words) for group in self.groups.values())
        base.refuse_many(len(self.stimuli()) * (1 + words), "concepts")
        for role in ("a", "b"):
            base.refuse_unknown(f"axis.{role}", "group", getattr(self.axis, role), self.groups)
        base.refuse_duplicates((self.axis.a, self.axis.b), "axis: a and b must differ; found twice")
        base.refuse_duplicates((test.name for test in self.tests), "tests: name used twice")
        for test in self.tests:
            for role in ("x", "y"):
                base.refuse_unknown(f"tests[{test.name}].{role}", "concept", getattr(test, role), self.concepts)
            base.refuse_duplicates((test.x, test.y), f"tests[{test.name}]: x and y must differ; found twice")
        names = (stimulus.name for _, stimulus in self.stimuli())
        base.refuse_duplicates(names, "concepts: stimulus used twice")
        for name, group in self.groups.items():
            base.refuse_duplicates(group.words, f"groups.{name}.words: word used twice")
        return self

    def stimuli(self) -> tuple[tuple[str, Stimulus], ...]:
        """Return all (concept, stimulus) pairs in order."""
        return tuple((name, stimulus) for name, concept in self.concepts.items() for stimulus in concept.stimuli)

    @property
    def pair(self) -> tuple[str, str]:
        """The two attributes compared, A first."""
        return self.axis.a, self.axis.b

    def prompt_specs(self) -> Iterator[base.PromptSpec]:
        """Yield each stimulus as it is, then with the words of each attribute."""
        for name, concept in self.concepts.items():
            for order, stimulus in enumerate(concept.stimuli):
                neutral = concept.neutral_prompt(stimulus)
                yield base.PromptSpec(neutral, "target", stimulus.name, name, images=self.images.neutral)
                for group in self.pair:
                    for word, images in self._dealt(group, order):
                        prompt = concept.attribute_prompt(stimulus, word)
                        yield base.PromptSpec(prompt, "attribute", stimulus.name, name, group, images)

    def every_prompt_spec(self) -> Iterator[base.PromptSpec]:
        """Yield prompts with every word of each attribute: an image drawn elsewhere may have one that was not dealt."""
        for name, concept in self.concepts.items():
            for stimulus in concept.stimuli:
                yield base.PromptSpec(concept.neutral_prompt(stimulus), "target", stimulus.name, name)
                for group in self.pair:
                    for word in self.groups[group].words:
                        prompt = concept.attribute_prompt(stimulus, word)
                        yield base.PromptSpec(prompt, "attribute", stimulus.name, name, group)

    def _dealt(self, group: str, order: int) -> Iterator[tuple[str, int]]:
        """Return an attribute's words with their images for the ``order``-th stimulus of a concept.

        The images are dealt out in turn, continued from stimulus to stimulus, so that a concept's stimuli together use
        all words equally often, or nearly.
        """
        words, images = self.groups[group].words, self.images.attribute
        counts = [images // len(words)] * len(words)
        for place in range(images % len(words)):
            counts[(order * images + place) % len(words)] += 1
        return ((word, count) for word, count in zip(words, counts, strict=True) if count)

    def neutral_texts(self) -> dict[str, str]:
        """Return the neutral prompt of each stimulus."""
        return {s.name: self.concepts[concept].neutral_prompt(s) for concept, s in self.stimuli()}

    def attribute_texts(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Return the prompts of each stimulus with each word of each attribute, by (stimulus, group)."""
        return {
            (stimulus.name, group): tuple(concept.attribute_prompt(stimulus, word) for word in self.groups[group].words)
            for concept in self.concepts.values()
            for stimulus in concept.stimuli
            for group in self.pair
        }

    def texts(self) -> list[str]:
        """Return neutral prompts, and attribute prompts with every word."""
        attributes = [text for texts in self.attribute_texts().values() for text in texts]
        return list(dict.fromkeys([*self.neutral_texts().values(), *attributes]))

    def questions(self) -> tuple[QuestionSpec, ...]:
        """Return its own ``readings`` alone: an attribute, such as pleasant, need not be a group of people."""
        return self.readings

    def concept_label(self, concept: str) -> str:
        """Return the concept's label for people."""
        return self.concepts[concept].label or concept

    def test_label(self, test: DifferentialTest) -> str:
        """Return ``"Career, against Family"``."""
        return f"{self.concept_label(test.x)}, against {self.concept_label(test.y)}"

    def images_in_words(self) -> str:
        """``"10 neutral and 2 × 10 with an attribute for each stimulus"``."""
        return f"{self.images.neutral} neutral and 2 × {self.images.attribute} with an attribute for each stimulus"

    def sheets(self) -> tuple[base.SuiteTable, ...]:
        """Return tests, attributes, stimuli."""
        tests = tuple((test.name, self.concept_label(test.x), self.concept_label(test.y)) for test in self.tests)
        groups = tuple((role, g, ", ".join(self.groups[g].words)) for role, g in zip("AB", self.pair, strict=True))
        neutral_texts, attribute_texts = self.neutral_texts(), self.attribute_texts()
        stimuli = tuple(
            (self.concept_label(concept), stimulus.name, neutral_texts[stimulus.name],
             attribute_texts[stimulus.name, self.axis.a][0])
            for concept, stimulus in self.stimuli()
        )  # fmt: skip
        columns = ("concept", "stimulus", "neutral prompt", "with an attribute's word")
        return (
            *([base.SuiteTable("Tests", ("test", "X", "Y"), tests)] if tests else []),
            base.SuiteTable("Attributes", ("", "attribute", "words"), groups),
            base.SuiteTable(self.images_in_words(), columns, stimuli),
        )
