"""What a suite says: which groups, which targets, which prompts and words, how many images.

A suite is a YAML file; data, no code. ``load_suite`` reads one by name (a built-in) or by path and checks it once:
unknown keys, missing groups, empty sets and duplicate names are errors that name the file and the field.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from clinometer.errors import SuiteError

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\x00-\x1f]+$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AttributePrompt(_Strict):
    """A prompt whose images stand for a group. Prompts of different groups that share ``pair`` are matched."""

    prompt: Text
    pair: Name | None = None


class Group(_Strict):
    """A social group: the prompts whose images stand for it and the words that name it."""

    label: Name | None = None
    prompts: tuple[AttributePrompt, ...] = Field(min_length=1)
    words: tuple[Text, ...] = Field(min_length=1)


class Axis(_Strict):
    """Which pair of groups MCAS compares (positive leans to ``a``), and which is the third axis of xMCAS."""

    a: Name
    b: Name
    third: Name | None = None


class Target(_Strict):
    """A concept under test: the neutral prompt that draws it."""

    name: Name
    prompt: Text
    keyword: Text | None = None
    stereotype: Name | None = None


class Category(_Strict):
    """Targets that are summarised together."""

    label: Name | None = None
    targets: tuple[Target, ...] = Field(min_length=1)


class Images(_Strict):
    """Images drawn for each prompt."""

    target: int = Field(20, ge=1)
    attribute: int = Field(16, ge=1)


class Suite(_Strict):
    """A whole suite, checked.

    ``stereotype`` of a target names the group that the literature ties it to; it groups summaries and is never
    used to compute a score. ``margin`` is the |MCAS| below which a leaning counts as none.
    """

    name: Name
    title: Text
    description: Text
    source: Text | None = None
    groups: dict[Name, Group] = Field(min_length=2)
    axis: Axis
    categories: dict[Name, Category] = Field(min_length=1)
    images: Images = Images()
    text_targets: Literal["prompt", "keyword"] = "prompt"
    margin: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for role in ("a", "b", "third"):
            group = getattr(self.axis, role)
            if group is not None and group not in self.groups:
                raise ValueError(f"axis.{role}: no group named {group!r}; groups are {', '.join(self.groups)}")
        roles = [group for group in (self.axis.a, self.axis.b, self.axis.third) if group is not None]
        _refuse_duplicates(roles, "axis: a, b and third must differ; found twice")
        _refuse_duplicates((target.name for target in self.targets), "categories: target name used twice")
        for category, target in self.categorised_targets():
            where = f"categories.{category}.targets[{target.name}]"
            if target.stereotype is not None and target.stereotype not in self.groups:
                raise ValueError(f"{where}.stereotype: no group named {target.stereotype!r}")
            if self.text_targets == "keyword" and target.keyword is None:
                raise ValueError(f"{where}.keyword: missing, and text_targets is 'keyword'")
        for name, group in self.groups.items():
            _refuse_duplicates((p.prompt for p in group.prompts), f"groups.{name}.prompts: prompt used twice")
            _refuse_duplicates(group.words, f"groups.{name}.words: word used twice")
            _refuse_duplicates((p.pair for p in group.prompts if p.pair), f"groups.{name}.prompts: pair used twice")
        self._check_pairs()
        return self

    def _check_pairs(self) -> None:
        """Either every prompt of A and B belongs to a pair that the other has too, or none does."""
        pairs = [{p.pair for p in self.groups[name].prompts} for name in (self.axis.a, self.axis.b)]
        if pairs[0] != pairs[1]:
            odd = sorted(str(pair or "(no pair)") for pair in pairs[0] ^ pairs[1])
            raise ValueError(
                f"groups: the prompts of {self.axis.a} and {self.axis.b} are not matched: {', '.join(odd)}; "
                "give each prompt a 'pair' that both groups have, or give none"
            )

    @property
    def targets(self) -> tuple[Target, ...]:
        """All targets, category by category."""
        return tuple(target for _, target in self.categorised_targets())

    def categorised_targets(self) -> tuple[tuple[str, Target], ...]:
        """All (category name, target) pairs in order."""
        return tuple((name, target) for name, cat in self.categories.items() for target in cat.targets)

    def text_of(self, target: Target) -> str:
        """The text that stands for a target: its prompt, or its keyword verbatim."""
        return target.prompt if self.text_targets == "prompt" else str(target.keyword)

    def label_of(self, group: str) -> str:
        """The group's label for people."""
        return self.groups[group].label or group

    @property
    def fingerprint(self) -> str:
        """Hash of the resolved suite, 16 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:16]

    def with_options(self, *, images: int | None = None, text_targets: str | None = None) -> Suite:
        """The same suite with another number of images a target, or other texts for its targets."""
        changed: dict[str, Any] = self.model_dump()
        if images is not None:
            changed["images"]["target"] = images
        if text_targets is not None:
            changed["text_targets"] = text_targets
        return suite_from_mapping(changed, source=f"suite {self.name}")


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML that refuses a key written twice: the plain loader keeps the last one and says nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        doubled = [str(key) for key, count in Counter(map(str, keys)).items() if count > 1]
        if doubled:
            raise SuiteError(f"line {node.start_mark.line + 1}: key written twice: {', '.join(doubled)}")
        return super().construct_mapping(node, deep)


def suite_names() -> list[str]:
    """Names of the built-in suites."""
    folder = resources.files("clinometer.suites") / "data"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_suite(suite: str | Path | Suite) -> Suite:
    """Read a built-in suite by name, or a suite file by path.

    Raises
    ------
    SuiteError
        There is no such suite, or it says something it must not: the message names the file and the field.
    """
    if isinstance(suite, Suite):
        return suite
    if str(suite) in suite_names():
        text = (resources.files("clinometer.suites") / "data" / f"{suite}.yaml").read_text(encoding="utf-8")
        return suite_from_text(text, source=f"suite {suite}")
    path = Path(suite)
    try:
        return suite_from_text(path.read_text(encoding="utf-8"), source=str(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise SuiteError(
            f"no suite named {str(suite)!r}: it is neither a file nor one of {', '.join(suite_names())}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path}: cannot be read as text: {error}") from error


def suite_from_text(text: str, *, source: str) -> Suite:
    """Parse and check a suite. ``source`` is what an error calls it."""
    try:
        data = yaml.load(text, _UniqueKeyLoader)
    except SuiteError as error:
        raise SuiteError(f"{source}: {error}") from error
    except yaml.YAMLError as error:
        raise SuiteError(f"{source}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise SuiteError(
            f"{source}: expected a mapping with name, groups, axis and categories, found {type(data).__name__}"
        )
    return suite_from_mapping(data, source=source)


def suite_from_mapping(data: dict[str, Any], *, source: str) -> Suite:
    """Check a suite that is already a mapping."""
    try:
        return Suite.model_validate(data)
    except ValidationError as error:
        raise SuiteError(_explain(error, source)) from error


def _explain(error: ValidationError, source: str) -> str:
    """One line for the first problem, and how many more there are."""
    problems = error.errors(include_url=False)
    first = problems[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        message = "unknown key"
    elif first["type"] == "value_error":
        message = str(first["ctx"]["error"])
    else:
        message = first["msg"]
        if not isinstance(first["input"], dict | list | tuple):
            message += f", found {first['input']!r}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{source}: {f'{field}: ' if field else ''}{message}{more}"


def _refuse_duplicates(names: Iterable[str], complaint: str) -> None:
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ValueError(f"{complaint}: {', '.join(doubled)}")
