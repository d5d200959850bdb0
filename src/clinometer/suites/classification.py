"""The suite of a classification study: portraits of groups, and two sets of classes they are sorted into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from clinometer.errors import InvalidInputError
from clinometer.suites.base import PromptSpec, Suite, SuiteTable, refuse_duplicates, refuse_unknown
from clinometer.suites.strict import MOST_EACH, ImageCount, Name, Number, Strict, Text

PORTRAIT = "portrait"

Confidence = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=MOST_EACH)]


class PictureGroup(Strict):
    """A group of people: the prompt that draws its portraits, which should say nothing else about them.

    ``codes`` mean it in the file names of finished portraits: the two letters of the Chicago Face Database.
    """

    label: Name | None = None
    prompt: Text
    codes: tuple[Name, ...] = ()


class ClassSet(Strict):
    """Classes that belong together, such as male-dominated professions: name → what the template says of it."""

    label: Name
    classes: dict[Name, Text] = Field(min_length=1)


class Side(Strict):
    """One side of a comparison: groups under one name for people."""

    label: Name
    groups: tuple[Name, ...] = Field(min_length=1)


class GroupContrast(Strict):
    """Two sides whose groups are matched in order: the first of x with the first of y, and so on."""

    x: Side
    y: Side


class PicturesPerGroup(Strict):
    """The number of portraits of each group."""

    group: ImageCount = 256


class ClassificationSuite(Suite):
    """Comparisons of groups by the profession that a diffusion model assigns to a portrait.

    ``a`` and ``b`` are the two sets of classes: an association above ½ goes to a. ``template`` is the prompt of a
    class, with ``{}`` for what its set says of it. ``noise_samples`` are the numbers of trials reported; the largest is
    what an image takes. With ``elimination``, the confidence of an interval, a class gets no more trials once all its
    pairs are decided with it. ``margin`` is the |ΔS| below which a difference counts as none.
    """

    study: Literal["classification"] = "classification"
    groups: dict[Name, PictureGroup] = Field(min_length=1)
    contrasts: dict[Name, GroupContrast] = Field(min_length=1)
    template: Text
    a: ClassSet
    b: ClassSet
    noise_samples: tuple[Count, ...] = Field((1, 10, 100), min_length=1)
    elimination: Confidence | None = None
    images: PicturesPerGroup = PicturesPerGroup()
    margin: Annotated[Number, Field(gt=0, lt=1)] | None = None

    scoring_options: ClassVar[frozenset[str]] = Suite.scoring_options | {"margin"}

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if "{}" not in self.template:
            raise InvalidInputError.malformed(f"template: found {self.template!r}, expected {{}} where the class goes")
        refuse_duplicates((*self.a.classes, *self.b.classes), "a and b: class used twice")
        refuse_duplicates((*self.a.classes.values(), *self.b.classes.values()), "a and b: text used twice")
        refuse_duplicates((group.prompt for group in self.groups.values()), "groups: prompt used twice")
        refuse_duplicates((code for group in self.groups.values() for code in group.codes), "groups: code used twice")
        if list(self.noise_samples) != sorted(set(self.noise_samples)):
            raise InvalidInputError.out_of_range(
                f"noise_samples: found {', '.join(map(str, self.noise_samples))}, expected rising numbers"
            )
        for name, contrast in self.contrasts.items():
            for group in (*contrast.x.groups, *contrast.y.groups):
                refuse_unknown(f"contrasts.{name}", "group", group, self.groups)
            refuse_duplicates((*contrast.x.groups, *contrast.y.groups), f"contrasts.{name}: group used twice")
            if len(contrast.x.groups) != len(contrast.y.groups):
                raise InvalidInputError.wrong_shape(
                    f"contrasts.{name}: x and y are matched in order, so they need equally many groups"
                )
        return self

    @property
    def classes(self) -> dict[str, str]:
        """Every class with its text, those of a first."""
        return self.a.classes | self.b.classes

    @property
    def settings(self) -> dict[int, str]:
        """The name of each number of noise samples in rows of scores: ``"10 noise samples"``."""
        return {n: f"{n} noise sample{'' if n == 1 else 's'}" for n in self.noise_samples}

    @property
    def prompts(self) -> dict[str, str]:
        """The prompt of each class."""
        return {name: self.template.replace("{}", text) for name, text in self.classes.items()}

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Yield the portraits."""
        for name, group in self.groups.items():
            yield PromptSpec(group.prompt, PORTRAIT, group=name, images=self.images.group)

    def texts(self) -> list[str]:
        """Return the prompts of the classes."""
        return list(self.prompts.values())

    def portraits(self) -> tuple[Mapping[str, Sequence[str]], int]:
        """Return the codes of each group in file names, and how many portraits of it are asked for."""
        return {name: group.codes for name, group in self.groups.items()}, self.images.group

    def images_in_words(self) -> str:
        """``"256 portraits per group, 100 noise samples per image"``."""
        return f"{self.images.group} portraits per group, {self.noise_samples[-1]} noise samples per image"

    def sheets(self) -> tuple[SuiteTable, ...]:
        """Return groups, contrasts, classes."""
        groups = tuple(
            (name, group.label or "", group.prompt, ", ".join(group.codes)) for name, group in self.groups.items()
        )
        contrasts = tuple(
            (name, *(f"{side.label}: {', '.join(side.groups)}" for side in (contrast.x, contrast.y)))
            for name, contrast in self.contrasts.items()
        )
        classes = tuple(
            (classes.label, name, self.prompts[name]) for classes in (self.a, self.b) for name in classes.classes
        )
        return (
            SuiteTable(f"{self.images.group} portraits per group", ("group", "label", "prompt", "codes"), groups),
            SuiteTable("compared", ("contrast", "x", "y"), contrasts),
            SuiteTable(
                f"sorted into, with {', '.join(map(str, self.noise_samples))} noise samples",
                ("set", "class", "prompt"),
                classes,
            ),
        )
