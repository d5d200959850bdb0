"""The suite of a steerability study: concepts, each asked for as it is and with a group named in the prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from clinometer.errors import InvalidInputError
from clinometer.suites import base
from clinometer.suites.strict import ImageCount, Name, Number, Strict, Text

ASKED: Final = "asked"
"""The role of pictures whose prompt names a group. They need not show it, so no reader's errors are learned on them."""


class SteeredConcept(Strict):
    """A concept: the prompt that draws it and names no group, and one prompt for each group."""

    name: Name
    prompt: Text
    asked: dict[Name, Text]


class SteeredCategory(Strict):
    """Concepts that are summarised together."""

    label: Name | None = None
    concepts: tuple[SteeredConcept, ...] = Field(min_length=1)


class SteeredImages(Strict):
    """Images of each prompt: of one that names no group, and of one that names one."""

    neutral: ImageCount = 20
    asked: ImageCount = 20


class SteerabilitySuite(base.Suite):
    """Comparisons of how reliably a model draws the group that a prompt names.

    All prompts of a concept start from the same noises, so that their pictures are pairs. ``templates`` may replace
    the prompts: ``neutral`` and, by group, ``asked`` have ``{}`` where a concept's ``phrase`` goes, article included.
    A positive gap favours the first group; ``margin`` is the gap below which there is none.
    """

    study: Literal["steerability"] = "steerability"
    groups: dict[Name, base.AttributeWords] = Field(min_length=2)
    categories: dict[Name, SteeredCategory] = Field(min_length=1)
    images: SteeredImages = SteeredImages()
    margin: Annotated[Number, Field(gt=0, lt=1)] | None = None

    options: ClassVar[frozenset[str]] = frozenset({"images", "concepts"})
    scoring_options: ClassVar[frozenset[str]] = base.Suite.scoring_options | {"margin"}

    @model_validator(mode="before")
    @classmethod
    def _fill_templates(cls, data: Any) -> Any:
        """Replace each concept's phrase by the prompts that the templates make of it."""
        if not isinstance(data, dict) or "templates" not in data:
            return data
        templates = data["templates"]
        if not isinstance(templates, dict) or set(templates) != {"neutral", "asked"}:
            raise InvalidInputError.missing(
                "templates: expected the keys neutral and asked, each with {} where a phrase goes"
            )
        asked = templates["asked"] if isinstance(templates["asked"], dict) else {}
        for field, text in (("neutral", templates["neutral"]), *((f"asked.{name}", asked[name]) for name in asked)):
            if not isinstance(text, str) or text.count("{}") != 1:
                raise InvalidInputError.malformed(
                    f"templates.{field}: found {text!r}, expected {{}} once, where a phrase goes"
                )
        categories = dict(data["categories"]) if isinstance(data.get("categories"), dict) else {}
        for name, category in categories.items():
            if not isinstance(category, dict) or not isinstance(category.get("concepts"), list | tuple):
                continue
            concepts = list(category["concepts"])
            for place, concept in enumerate(concepts):
                if isinstance(concept, dict) and isinstance(phrase := concept.get("phrase"), str):
                    prompts = {group: text.replace("{}", phrase) for group, text in asked.items()}
                    rest = {key: value for key, value in concept.items() if key != "phrase"}
                    concepts[place] = {"prompt": templates["neutral"].replace("{}", phrase), "asked": prompts} | rest
            categories[name] = category | {"concepts": concepts}
        return {key: value for key, value in data.items() if key != "templates"} | {"categories": categories}

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        base.refuse_all(self.groups, "groups")
        base.refuse_all(self.categories, "categories")
        base.refuse_duplicates((concept.name for _, concept in self.concepts), "categories: concept name used twice")
        prompts = (text for _, concept in self.concepts for text in (concept.prompt, *concept.asked.values()))
        base.refuse_duplicates(prompts, "categories: prompt used twice")
        for name, group in self.groups.items():
            base.refuse_duplicates(group.words, f"groups.{name}.words: word used twice")
        for category, concept in self.concepts:
            where = f"categories.{category}.concepts[{concept.name}].asked"
            for name in concept.asked:
                base.refuse_unknown(where, "group", name, self.groups)
            if missing := [name for name in self.groups if name not in concept.asked]:
                raise InvalidInputError.missing(
                    f"{where}: no prompt that names {', '.join(missing)}; every group needs one"
                )
        return self

    @property
    def concepts(self) -> tuple[tuple[str, SteeredConcept], ...]:
        """All concepts with their categories, in order."""
        return tuple((name, concept) for name, category in self.categories.items() for concept in category.concepts)

    def prompt_specs(self) -> Iterator[base.PromptSpec]:
        """Yield the prompts of each concept: the one that names no group, then one for each group."""
        for category, concept in self.concepts:
            yield base.PromptSpec(concept.prompt, "target", concept.name, category, images=self.images.neutral)
            for group in self.groups:
                yield base.PromptSpec(
                    concept.asked[group], ASKED, concept.name, category, group, images=self.images.asked,
                    noise=concept.prompt,
                )  # fmt: skip

    def texts(self) -> list[str]:
        """Return prompts that name no group, and the groups' words."""
        words = [word for group in self.groups.values() for word in group.words]
        return list(dict.fromkeys([*(concept.prompt for _, concept in self.concepts), *words]))

    def images_in_words(self) -> str:
        """``"20 per neutral prompt, 20 per prompt that names a group"``."""
        return f"{self.images.neutral} per neutral prompt, {self.images.asked} per prompt that names a group"

    def sheets(self) -> tuple[base.SuiteTable, ...]:
        """Return groups with their words, then concepts with their prompts."""
        groups = tuple((name, self.label_of(name), ", ".join(group.words)) for name, group in self.groups.items())
        concepts = tuple(
            (category, each.name, each.prompt, *(each.asked[name] for name in self.groups))
            for category, each in self.concepts
        )
        columns = ("category", "concept", "neutral", *(f"asked for {name}" for name in self.groups))
        return (
            base.SuiteTable("groups that prompts name", ("group", "label", "words"), groups),
            base.SuiteTable(self.images_in_words(), columns, concepts),
        )

    def _changed(self, **options: Any) -> dict[str, Any]:
        changed = super()._changed(**options)
        if "concepts" in changed:
            changed["categories"] = base.kept_concepts(
                changed["categories"], "concepts", changed.pop("concepts"), self.name
            )
        return changed
