"""What every suite has: a name, prompts for a model, texts that are embedded, and perhaps a declared standard."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer.errors import InvalidInputError, SuiteError
from clinometer.suites.question import QuestionSpec, question_of_groups
from clinometer.suites.strict import (
    Language,
    Name,
    Number,
    Sparse,
    Strict,
    Text,
    WholeNumber,
    code_of,
    explain_all,
    line_of,
)

_ROUNDING: Final = 0.0051
"""How far a published share may be off, being rounded to a percent; their sum may exceed 1 by that for each group."""

Share = Annotated[Number, Field(ge=0, le=1)]
People = Annotated[Number, Field(gt=0)]


class Reference(Strict):
    """A standard that somebody declared; nothing says that it is fair.

    ``shares`` : by concept and group, by its name or its label; a concept without a group has no match. Of two groups
    one is enough. ``n`` : people that a concept's shares were counted from; without it they are taken as exact.
    ``year`` may be a number, as YAML reads it. ``codes`` : what concepts were mapped to. ``margin`` : the distance
    between two shares below which they count as alike.
    """

    source: Text
    year: Annotated[Name, BeforeValidator(lambda year: str(year) if type(year) is int else year)] | None = None
    place: Name | None = None
    shares: dict[Name, dict[Name, Share]] = Field(min_length=1)
    n: dict[Name, People] = Field(default_factory=dict)
    codes: dict[Name, Name] = Field(default_factory=dict)
    margin: Annotated[Number, Field(gt=0, lt=0.5)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for field in ("n", "codes"):
            for concept in getattr(self, field):
                if concept not in self.shares:
                    hint = did_you_mean(concept, self.shares) or f"there are {first_and_more(list(self.shares), 5)}"
                    raise InvalidInputError.unknown_name(f"{field}.{concept}: it has no shares; {hint}")
        for concept, shares in self.shares.items():
            total = sum(shares.values())
            if total > 1 + _ROUNDING * len(shares):
                raise InvalidInputError.out_of_range(
                    f"shares.{concept}: the groups have {total:.3g} together, more than 1"
                )
        if not any(self.shares.values()):
            raise InvalidInputError.too_few("shares: no concept has a match")
        return self

    @property
    def cited(self) -> str:
        """The citation of its source."""
        return ", ".join(filter(None, (self.source, self.place, self.year)))

    def of_groups(self, names: Mapping[str, str]) -> dict[tuple[str, str], tuple[float, float]]:
        """Return share and people (``inf``: exact) by concept and group, for groups that ``names`` maps to labels."""
        names_of = {text.casefold(): name for name, label in names.items() for text in (label, name)}
        return {
            (concept, names_of[group.casefold()]): (share, self.n.get(concept, inf))
            for concept, shares in self.shares.items()
            for group, share in shares.items()
            if group.casefold() in names_of
        }

    def require_fit(self, concepts: Iterable[str], source: str) -> None:
        """Refuse a standard none of whose concepts is a suite's; others than the suite's are allowed.

        Raises
        ------
        SuiteError
            The message names what the suite has.
        """
        known = list(dict.fromkeys(concepts))
        if not set(self.shares) & set(known):
            first = next(iter(self.shares))
            hint = did_you_mean(first, known) or f"it has {first_and_more(known, 5) or 'none'}"
            raise SuiteError.mismatch(
                f"{source}: none of its concepts, such as {quoted(first)}, is the suite's; {hint}"
            )


MOST_IMAGES: Final = 1_000_000
MOST_TEXTS: Final = 50_000
"""Images of a suite, and its texts: a plan, and what it is made of, is kept in memory."""


@dataclass(frozen=True)
class PromptSpec:
    """A prompt, what it is asked for, and how many images of it.

    Attributes
    ----------
    role : ``"target"`` for a neutral prompt of a concept, ``"attribute"`` for a prompt that names a group; a study may
        have more.
    concept, category, group : the suite's names; empty where they do not apply.
    file : for imported images, the file's place in its folder; else empty.
    noise : what its noises are drawn by, where another prompt is to start from the same; empty for the prompt itself.
    """

    prompt: str
    role: str
    concept: str = ""
    category: str = ""
    group: str = ""
    images: int = 1
    file: str = ""
    noise: str = ""


@dataclass(frozen=True)
class SuiteTable:
    """A table that shows part of a suite to people."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Steps = Annotated[int, Field(ge=1)]


Guidance = Annotated[float, Field(ge=0)]


Side = Annotated[int, Field(ge=1)]


SAMPLING = ("steps", "guidance_scale", "height", "width", "edit_steps", "edit_guidance_scale")
"""The keys of a protocol that are settings of the model, by the names that its adapter takes them by."""


class PaperModel(Strict):
    """A model that the paper audited, and the names by which such a model may be given.

    ``names`` are last parts of a model's name: ``stable-diffusion-2`` means ``stabilityai/stable-diffusion-2`` too.
    Finished images are named as people write: ``DALL-E 2`` by its label.
    """

    label: Name
    names: tuple[Name, ...] = Field(min_length=1)

    def is_called(self, name: str) -> bool:
        """Return whether a model of this name is meant.

        >>> PaperModel(label="SD", names=("stable-diffusion-2",)).is_called("stabilityai/stable-diffusion-2@main")
        True
        >>> PaperModel(label="DALL-E 2", names=("dall-e-2",)).is_called("dall-e 2")
        True
        """
        last = name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()
        plain, label = (re.sub(r"[\s_-]", "", each).lower() for each in (name, self.label))
        return last in {alias.lower() for alias in self.names} or plain == label


class Unsaid(Strict):
    """Something that the paper leaves open: the option that decides it, and what is taken instead."""

    option: Name
    taken: Text


class Protocol(Strict):
    """The settings that a paper prescribes beyond its prompts. ``unsaid`` lists those it leaves open.

    ``models`` are those that the paper audited. ``edit_steps`` and ``edit_guidance_scale`` apply to edits, where they
    differ from the portraits'. ``portraits: all`` uses every portrait of a folder. ``reader: single wording`` says
    that a gender is read by the first wording alone. ``decisions`` lists where clinometer departs from the paper on
    purpose.
    """

    paper: Text
    models: tuple[PaperModel, ...] = Field(min_length=1)
    encoders: tuple[Name, ...] = ()
    text_targets: Literal["prompt", "keyword"] | None = None
    images: dict[Name, Annotated[WholeNumber, Field(ge=1)]] = Field(default_factory=dict)
    steps: Steps | None = None
    guidance_scale: Guidance | None = None
    height: Side | None = None
    width: Side | None = None
    edit_steps: Steps | None = None
    edit_guidance_scale: Guidance | None = None
    portraits: Literal["all"] | None = None
    reader: Literal["single wording"] | None = None
    unsaid: tuple[Unsaid, ...] = ()
    decisions: tuple[Text, ...] = ()

    @property
    def sampling(self) -> dict[str, float]:
        """The settings of the model that the paper names."""
        return {key: value for key in SAMPLING if (value := getattr(self, key)) is not None}

    def leaves_open(self, option: str) -> bool:
        """Return whether the paper does not say what an option should be."""
        return any(unsaid.option == option for unsaid in self.unsaid)

    def lines(self) -> list[tuple[str, str]]:
        """Return what is prescribed, for people: (option, value)."""
        options: dict[str, object] = {
            "model": " or ".join(model.label for model in self.models),
            "encoder": ", ".join(self.encoders),
            "text targets": self.text_targets,
            **{f"images ({name})": count for name, count in self.images.items()},
            **{key.replace("_", " "): f"{value:g}" for key, value in self.sampling.items()},
            "portraits": self.portraits,
            "reader": self.reader,
        }
        return [(name, str(value)) for name, value in options.items() if value]


class AttributeWords(Strict):
    """An attribute or a group: the words that name it in a prompt, and by which an encoder finds it in a picture."""

    label: Name | None = None
    words: tuple[Text, ...] = Field(min_length=1)


class Suite(Sparse, ABC):
    """A whole suite, checked. Each study is a subclass, chosen by the key ``study``."""

    study: str
    name: Name
    title: Text
    description: Text
    source: Text | None = None
    language: Language | None = None
    protocol: Protocol | None = None
    readings: tuple[QuestionSpec, ...] = ()
    reference: Reference | None = None

    optional: ClassVar[frozenset[str]] = frozenset({"readings", "language", "reference"})
    """Keys that are not written where they are empty."""

    options: ClassVar[frozenset[str]] = frozenset({"images"})
    """Which options of ``with_options`` the study takes."""

    scoring_options: ClassVar[frozenset[str]] = frozenset({"reference"})
    """Which settings scoring alone reads: they may change when a run is drawn."""

    draws: ClassVar[bool] = True
    """Whether it asks for images; an audit needs a suite that does."""

    @model_validator(mode="after")
    def _check_protocol(self) -> Self:
        """Refuse a protocol that names what the study does not ask."""
        if self.protocol is not None:
            images = getattr(self, "images", None)
            for name in self.protocol.images:
                refuse_unknown("protocol.images", "number", name, () if images is None else type(images).model_fields)
            if self.protocol.text_targets is not None and "text_targets" not in type(self).model_fields:
                raise InvalidInputError.unsupported(
                    f"protocol.text_targets: a study {self.study!r} has no such key; leave it out"
                )
        return self

    @model_validator(mode="after")
    def _check_readings(self) -> Self:
        """Refuse an answer that names an unknown group, and two questions of one name."""
        if self.readings and not self.draws:
            raise InvalidInputError.conflict(
                "readings: the suite asks for no images, so there is nothing to read; leave readings out"
            )
        refuse_duplicates((question.name for question in self.readings), "readings: question used twice")
        names = {name for of_group in self.group_names().values() for name in of_group} if self.readings else set()
        for number, question in enumerate(self.readings):
            means = [(answer, spec.means) for answer, spec in question.answers.items() if spec.means is not None]
            for answer, group in means:
                refuse_unknown(f"readings.{number}.answers.{answer}.means", "group", group, sorted(names))
            refuse_duplicates((group for _, group in means), f"readings.{number}: answers with one meaning")
        return self

    @classmethod
    def checked(cls, data: Mapping[str, Any], *, source: str, text: str = "") -> Self:
        """Check a mapping. ``source`` is what an error calls it, ``text`` the YAML that it was read from."""
        try:
            suite = cls.model_validate(data)
        except ValidationError as error:
            raise SuiteError(explain_all(error, source, partial(line_of, text)), code=code_of(error)) from error
        if suite.image_count > MOST_IMAGES:
            raise SuiteError.too_many(
                f"{source}: {suite.image_count:,} images, more than {MOST_IMAGES:,}; ask for fewer, or divide the suite"
            )
        return suite

    @abstractmethod
    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Return every prompt and how many images of it, in the order of the plan."""

    def every_prompt_spec(self) -> Iterator[PromptSpec]:
        """Return every question that an image may answer; some studies ask a part of them only."""
        return self.prompt_specs()

    @abstractmethod
    def texts(self) -> list[str]:
        """Return every text that an encoder embeds, once."""

    def texts_by_target(self) -> tuple[list[str], dict[str, str]]:
        """Return the texts that every target's score needs, and the text that only one target's needs, by target."""
        return self.texts(), {}

    def label_of(self, group: str) -> str:
        """Return the group's label for people; a name that the suite does not know stays as it is."""
        return getattr(getattr(self, "groups", {}).get(group), "label", None) or group

    def group_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names by which a reader's answer may refer to each drawn group."""
        return {spec.group: (spec.group,) for spec in self.prompt_specs() if spec.group}

    def questions(self) -> tuple[QuestionSpec, ...]:
        """Return what readers are asked: the suite's own ``readings``, or to which of its groups a person belongs.

        A group is offered by its label, and an encoder finds it by its words, if it has any.
        """
        names = [] if self.readings else list(self.group_names())
        if len(names) < 2:
            return self.readings
        specs = getattr(self, "groups", {})
        groups = {name: (self.label_of(name), getattr(specs.get(name), "words", ())) for name in names}
        return (question_of_groups("groups", "", groups),)

    def concept_names(self) -> list[str]:
        """Return the names of all concepts, in the order of the plan."""
        return list(dict.fromkeys(spec.concept for spec in self.prompt_specs() if spec.concept))

    def with_reference(self, reference: Reference | None, source: str) -> Self:
        """Return the same suite with a declared standard from ``source``; with None, the suite as it is.

        Raises
        ------
        SuiteError
            The standard has none of the suite's concepts.
        """
        if reference is None:
            return self
        reference.require_fit(self.concept_names(), source)
        return self.checked(self.model_dump() | {"reference": reference.model_dump()}, source=source)

    def portraits(self) -> tuple[Mapping[str, Sequence[str]], int] | None:
        """Return each group's codes in file names, and how many portraits it needs; None where it needs none."""
        return None

    @abstractmethod
    def images_in_words(self) -> str:
        """Describe how many images a prompt gets."""

    @abstractmethod
    def sheets(self) -> tuple[SuiteTable, ...]:
        """Return everything that the suite asks, as tables to read."""

    def _changed(self, **options: Any) -> dict[str, Any]:
        """Return the suite as a mapping with ``options`` changed; ``images`` sets all its numbers of images."""
        changed = self.model_dump()
        if "images" in options and isinstance(changed.get("images"), dict):
            options["images"] = dict.fromkeys(changed["images"], options["images"])
        return changed | options

    @property
    def image_count(self) -> int:
        """Images in the whole suite."""
        return sum(question.images for question in self.prompt_specs())

    @property
    def fingerprint(self) -> str:
        """Hash of the resolved suite, 16 hexadecimal digits.

        ``study`` is left out: the other keys imply it; and so are ``protocol`` and ``reference``, which ask nothing.
        """
        return fingerprint_of(self.model_dump())

    @property
    def content(self) -> dict[str, Any]:
        """Everything it asks, whatever the number of images and whatever it is called."""
        about = {"images", "name", "title", "description", "source", "protocol", "language", "reference"}
        return self.model_dump(exclude=about)

    def shared_concepts(self, others: Iterable[Suite]) -> list[str]:
        """Return the concepts that other suites ask for in the same way, if nothing else differs; else none."""
        return []

    def as_in_the_paper(self) -> Self:
        """Return the same suite with the numbers of images and the text targets of its protocol.

        Raises
        ------
        SuiteError
            It has no protocol.
        """
        if self.protocol is None:
            raise SuiteError.unsupported(f"suite {self.name}: it has no protocol")
        changed = self.model_dump()
        if self.protocol.images:
            changed["images"] = changed["images"] | self.protocol.images
        if self.protocol.text_targets is not None:
            changed["text_targets"] = self.protocol.text_targets
        return self.checked(changed, source=f"suite {self.name}, under its protocol")

    def with_options(self, **options: Any) -> Self:
        """Return the same suite with some options changed; those that are None stay as they are.

        ``image_counts`` of every study: numbers of images by the suite's own names for them.

        Raises
        ------
        SuiteError
            The study has no such option, or does not take the value.
        """
        changes = {name: value for name, value in options.items() if value is not None}
        counts: Mapping[str, int] = changes.pop("image_counts", {})
        unknown = sorted(set(changes) - self.options)
        if unknown:
            raise SuiteError.unsupported(
                f"it does not apply to suite {self.name}, whose study is {self.study!r}",
                field=unknown[0],
                takes=sorted(self.options),
            )
        changed = self._changed(**changes)
        for name, count in counts.items():
            known = changed.get("images") or {}
            if name not in known:
                way_out = did_you_mean(name, known) or f"it has {', '.join(known) or 'none'}"
                raise SuiteError.unknown_name(
                    f"suite {self.name} has no images called {name!r}; {way_out}", field="image_counts"
                )
            changed["images"] = known | {name: count}
        return self.checked(changed, source=f"suite {self.name}")


UNASKED: Final = ("study", "protocol", "language", "reference")
"""Keys of a suite that its fingerprint leaves out."""


def fingerprint_of(suite: Mapping[str, Any]) -> str:
    """Hash of what a suite asks, 16 hexadecimal digits: of a resolved suite without ``UNASKED``."""
    questions = {key: value for key, value in suite.items() if key not in UNASKED}
    return hashlib.sha256(json.dumps(questions, sort_keys=True).encode()).hexdigest()[:16]


def refuse_duplicates(names: Iterable[str], complaint: str) -> None:
    """Raise ValueError where a name occurs twice."""
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise InvalidInputError.duplicate(f"{complaint}: {first_and_more(doubled, 10)}")


def refuse_many(number: int, field: str) -> None:
    """Raise ValueError where there are more texts than a suite may have."""
    if number > MOST_TEXTS:
        raise InvalidInputError.too_many(
            f"{field}: {number:,} texts follow from it, more than {MOST_TEXTS:,}; divide the suite"
        )


def refuse_all(names: Iterable[str], field: str) -> None:
    """Raise ValueError where a name is what the rows of scores call the whole suite."""
    if "all" in names:
        raise InvalidInputError.conflict(
            f"{field}.all: 'all' stands for the whole suite in the scores; give another name"
        )


def refuse_unknown(field: str, kind: str, name: str, choices: Iterable[str]) -> None:
    """Raise ValueError where a field names a group or a concept that the suite does not have."""
    names = list(choices)
    if name not in names:
        there_are = f"{kind}s are {first_and_more(names, 10)}" if names else f"the suite has no {kind}s"
        way_out = did_you_mean(name, names) or there_are
        raise InvalidInputError.unknown_name(f"{field}: no {kind} named {name!r}; {way_out}")


def kept_concepts(
    categories: Mapping[str, Any], key: str, concepts: int | Sequence[str], suite: str
) -> dict[str, dict[str, Any]]:
    """Return categories with the first so many concepts of each, or those of some names.

    ``key`` : a category's key that lists its concepts.

    Raises
    ------
    SuiteError
        There is no concept of a name.
    """
    if isinstance(concepts, int):
        kept = {name: category | {key: category[key][:concepts]} for name, category in categories.items()}
    else:
        known = [concept["name"] for category in categories.values() for concept in category[key]]
        if unknown := next((name for name in concepts if name not in known), None):
            way_out = did_you_mean(unknown, known) or f"it has {first_and_more(known, 10)}"
            raise SuiteError.unknown_name(f"suite {suite} has no {quoted(unknown)}; {way_out}", field="concepts")
        kept = {
            name: category | {key: [concept for concept in category[key] if concept["name"] in concepts]}
            for name, category in categories.items()
        }
    return {name: category for name, category in kept.items() if category[key]}


AnySuite = TypeVar("AnySuite", bound=Suite)
"""The shape of a study's suites."""
