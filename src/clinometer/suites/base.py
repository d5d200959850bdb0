"""What every suite has, whatever it studies: a name, the questions it puts to a model, the texts it embeds."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Final, Self

from pydantic import ValidationError, model_validator

from clinometer._messages import did_you_mean, escaped, first_and_more, quoted, shortened
from clinometer.errors import SuiteError
from clinometer.suites.protocol import Protocol
from clinometer.suites.strict import Name, Strict, Text

MOST_IMAGES: Final = 1_000_000
MOST_TEXTS: Final = 50_000
"""Images of a suite, and its texts: a plan, and what it is made of, is held in memory."""


@dataclass(frozen=True)
class PromptSpec:
    """A prompt, what it is asked for, and how many images of it.

    Attributes
    ----------
    role : ``"target"`` for a neutral prompt of a concept, ``"attribute"`` for a prompt that names a group; a study may
        have more.
    concept, category, group : the suite's names; empty where they do not apply.
    file : for imported images, the file's place in its folder; else empty.
    """

    prompt: str
    role: str
    concept: str = ""
    category: str = ""
    group: str = ""
    images: int = 1
    file: str = ""


@dataclass(frozen=True)
class SuiteTable:
    """A table that shows part of a suite to people."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Suite(Strict, ABC):
    """A whole suite, checked. Each study is a subclass, chosen by the key ``study``."""

    study: str
    name: Name
    title: Text
    description: Text
    source: Text | None = None
    protocol: Protocol | None = None

    options: ClassVar[frozenset[str]] = frozenset({"images"})
    """Which options of ``with_options`` the study takes."""

    scoring_options: ClassVar[frozenset[str]] = frozenset()
    """Which settings scoring alone reads: they may change when a run is drawn."""

    draws: ClassVar[bool] = True
    """Whether it asks for images; an audit needs a suite that does."""

    @model_validator(mode="after")
    def _check_protocol(self) -> Self:
        """A protocol names nothing that the study does not ask."""
        if self.protocol is not None:
            images = getattr(self, "images", None)
            for name in self.protocol.images:
                refuse_unknown("protocol.images", "number", name, () if images is None else type(images).model_fields)
            if self.protocol.text_targets is not None and "text_targets" not in type(self).model_fields:
                raise ValueError(f"protocol.text_targets: a study {self.study!r} has no such key; leave it out")
        return self

    @classmethod
    def checked(cls, data: Mapping[str, Any], *, source: str) -> Self:
        """Check a mapping. ``source`` is what an error calls it."""
        try:
            suite = cls.model_validate(data)
        except ValidationError as error:
            raise SuiteError(explain(error, source)) from error
        if suite.image_count > MOST_IMAGES:
            raise SuiteError(
                f"{source}: {suite.image_count:,} images, more than {MOST_IMAGES:,}; ask for fewer, or divide the suite"
            )
        return suite

    @abstractmethod
    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Every prompt and how many images of it, in the order of the plan."""

    def every_prompt_spec(self) -> Iterator[PromptSpec]:
        """Every question that an image may answer; some studies ask a part of them only."""
        return self.prompt_specs()

    @abstractmethod
    def texts(self) -> list[str]:
        """Every text that an encoder embeds, once."""

    @abstractmethod
    def label_of(self, group: str) -> str:
        """The group's label for people; a name that the suite does not know stays as it is."""

    def portraits(self) -> tuple[Mapping[str, Sequence[str]], int] | None:
        """The codes of each group in file names, and how many portraits of it are asked for; None where none are."""
        return None

    @abstractmethod
    def images_in_words(self) -> str:
        """How many images a prompt gets, for people."""

    @abstractmethod
    def sheets(self) -> tuple[SuiteTable, ...]:
        """Everything the suite asks, as tables for people."""

    @abstractmethod
    def _changed(self, **options: Any) -> dict[str, Any]:
        """The suite as a mapping, with options changed that are among ``options``."""

    @property
    def image_count(self) -> int:
        """Images in the whole suite."""
        return sum(question.images for question in self.prompt_specs())

    @property
    def fingerprint(self) -> str:
        """Hash of the resolved suite, 16 hexadecimal digits.

        ``study`` is left out: the other keys imply it; and so is ``protocol``, which asks nothing by itself.
        """
        return fingerprint_of(self.model_dump())

    @property
    def content(self) -> dict[str, Any]:
        """Everything it asks, whatever the number of images and whatever it is called."""
        return self.model_dump(exclude={"images", "name", "title", "description", "source", "protocol"})

    def as_in_the_paper(self) -> Self:
        """The same suite with the numbers of images and the text targets of its protocol.

        Raises
        ------
        SuiteError
            It has no protocol.
        """
        if self.protocol is None:
            raise SuiteError(f"suite {self.name}: it has no protocol")
        changed = self.model_dump()
        if self.protocol.images:
            changed["images"] = changed["images"] | self.protocol.images
        if self.protocol.text_targets is not None:
            changed["text_targets"] = self.protocol.text_targets
        return self.checked(changed, source=f"suite {self.name}, under its protocol")

    def with_options(self, **options: Any) -> Self:
        """The same suite with some options changed; those that are None stay as they are.

        Raises
        ------
        SuiteError
            The study has no such option, or does not take the value.
        """
        changes = {name: value for name, value in options.items() if value is not None}
        unknown = sorted(set(changes) - self.options)
        if unknown:
            raise SuiteError(
                f"it does not apply to suite {self.name}, whose study is {self.study!r}",
                field=unknown[0],
                takes=sorted(self.options),
            )
        return self.checked(self._changed(**changes), source=f"suite {self.name}")


UNASKED: Final = ("study", "protocol")
"""Keys of a suite that its fingerprint leaves out."""


def fingerprint_of(suite: Mapping[str, Any]) -> str:
    """Hash of what a suite asks, 16 hexadecimal digits: of a resolved suite without ``UNASKED``."""
    questions = {key: value for key, value in suite.items() if key not in UNASKED}
    return hashlib.sha256(json.dumps(questions, sort_keys=True).encode()).hexdigest()[:16]


def refuse_duplicates(names: Iterable[str], complaint: str) -> None:
    """Raise ValueError where a name occurs twice."""
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ValueError(f"{complaint}: {first_and_more(doubled, 10)}")


def refuse_many(number: int, field: str) -> None:
    """Raise ValueError where there are more texts than a suite may have."""
    if number > MOST_TEXTS:
        raise ValueError(f"{field}: {number:,} texts follow from it, more than {MOST_TEXTS:,}; divide the suite")


def refuse_all(names: Iterable[str], field: str) -> None:
    """Raise ValueError where a name is what the rows of scores call the whole suite."""
    if "all" in names:
        raise ValueError(f"{field}.all: 'all' stands for the whole suite in the scores; give another name")


def refuse_unknown(field: str, kind: str, name: str, choices: Iterable[str]) -> None:
    """Raise ValueError where a field names a group or a concept that the suite does not have."""
    names = list(choices)
    if name not in names:
        way_out = did_you_mean(name, names) or f"{kind}s are {first_and_more(names, 10)}"
        raise ValueError(f"{field}: no {kind} named {name!r}; {way_out}")


def _in_our_words(message: str) -> str:
    """Say what pydantic expects as every other message does: ``expected at least 1``."""
    for theirs, ours in (("Input should be ", "expected "), ("greater than or equal to", "at least"),
                         ("less than or equal to", "at most"), ("greater than", "more than")):  # fmt: skip
        message = message.replace(theirs, ours)
    return message


_SHAPES: Final = {"tuple_type": "a list", "list_type": "a list", "dict_type": "keys with values"}


def explain(
    error: ValidationError, source: str, *, keys_at: Callable[[tuple[int | str, ...]], Iterable[str]] = lambda place: ()
) -> str:
    """Tell in one line the first problem, and how many more there are: see :func:`first_problem`."""
    field, message = first_problem(error, keys_at)
    return f"{source}: {f'{field}: ' if field else ''}{message}"


def first_problem(
    error: ValidationError, keys_at: Callable[[tuple[int | str, ...]], Iterable[str]] = lambda place: ()
) -> tuple[str, str]:
    """Name the field of the first problem, and say what it is; a misspelt key before the key it leaves out.

    ``keys_at`` : the keys that a place may hold, where an unknown one shall be told by them.
    """
    problems = error.errors(include_url=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    field = escaped(".".join(str(part) for part in first["loc"]))
    if first["type"] == "extra_forbidden":
        place, key = first["loc"][:-1], str(first["loc"][-1])
        missing = [str(p["loc"][-1]) for p in problems if p["type"] == "missing" and p["loc"][:-1] == place]
        known = list(keys_at(place))
        way_out = did_you_mean(key, missing) or did_you_mean(key, known)
        if known and not way_out:
            way_out = f"expected {', '.join(known)}"
        message = "; ".join(filter(None, ("unknown key", way_out)))
    elif first["type"] == "value_error":
        message = str(first["ctx"]["error"])
    else:
        expected = _SHAPES.get(first["type"])  # in YAML's words: a writer of suites knows no tuple
        message = f"expected {expected}" if expected else _in_our_words(first["msg"])
        if first["type"] != "missing" and not isinstance(first["input"], dict | list | tuple):
            message += f", found {quoted(first['input'])}"
        if first["type"] == "string_type" and isinstance(first["input"], bool | int | float | date):
            message += "; put it in quotes"  # YAML reads no, yes, 2024 and 2024-05-01 as something else than text
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return shortened(field, 200), f"{shortened(message, 500)}{more}"
