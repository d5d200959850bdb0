"""The suite of a leaning study: groups with prompts and words, and targets whose leaning is measured.

A suite may ask for its prompts with one word left out.

"a photo of a nurse" without "photo" would be "a of a nurse" to the letter: no prompt that anybody writes, and what a
model makes of it says more about broken grammar than about "photo". So, of English prompts, a content word is left out
with what only served it. Where it is the only content word between function words, those before it go too; function
words that come to stand at the beginning go; and a or an follows the word that comes next::

    a photo of a nurse         without photo   a nurse
                               without nurse   a photo
    an image of a chief cook   without chief   an image of a cook          without image   a chief cook

Function words (articles, prepositions, conjunctions, forms of *to be*) are never left out by themselves. Pronouns and
possessives are content: they may name a group. Of a prompt in another language each word between spaces is left out to
the letter. A phrase, several words or a word of a language without spaces, is left out as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from clinometer._messages import quoted
from clinometer.errors import InvalidInputError, SuiteError
from clinometer.suites.base import (
    PromptSpec,
    Suite,
    SuiteTable,
    kept_concepts,
    refuse_all,
    refuse_duplicates,
    refuse_unknown,
)
from clinometer.suites.question import QuestionSpec, question_of_groups
from clinometer.suites.strict import LANGUAGE_TAG, SEVERAL_LANGUAGES, ImageCount, Name, Number, Sparse, Strict, Text

_FUNCTION_WORDS: Final = frozenset(
    "a an the of in on at by with for to from as into onto and or but is are was were be being that which who".split()  # noqa: SIM905 - words are read
)
_LEADING: Final = _FUNCTION_WORDS - {"a", "an", "the"}
"""Function words with which no prompt begins."""

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’-]\w+)*")
_VOWEL_SOUND: Final = re.compile(r"(?!uni|us[ei]|eu|one)[aeiou]|hour|hon[eo]|heir", re.IGNORECASE)


@dataclass(frozen=True)
class Ablation:
    """A prompt without one of its words, or of its phrases.

    Attributes
    ----------
    word : what was left out, as written in the prompt; numbered where it occurs again, ``big (2)``.
    start, stop : its position in the whole prompt.
    prompt : what is left.
    """

    word: str
    start: int
    stop: int
    prompt: str


def ablations(prompt: str, phrases: Sequence[str] = (), *, language: str | None = None) -> tuple[Ablation, ...]:
    """Return the prompts without one content word, or one of ``phrases``, at a time; none where nothing would be left.

    Without a ``language`` the prompt is taken to be English. See the module for the rule.

    >>> [(each.word, each.prompt) for each in ablations("a photo of an old nurse")]
    [('photo', 'an old nurse'), ('old', 'a photo of a nurse'), ('nurse', 'a photo of an old')]
    >>> [each.prompt for each in ablations("an image of a chief executive officer", ["chief executive officer"])]
    ['a chief executive officer', 'an image']
    """
    english = (language or "en").lower().split("-")[0] == "en"
    units = _units(prompt, phrases, whole_words=english)
    content = [not english or text.lower() not in _FUNCTION_WORDS for text, *_ in units]
    left_out, seen = [], dict[str, int]()
    for at, (text, start, stop) in enumerate(units):
        if not content[at]:
            continue
        seen[text] = seen.get(text, 0) + 1
        first = start
        adjoins_content = (  # a comma parts two words
            (at > 0 and content[at - 1] and not prompt[units[at - 1][2] : start].strip())
            or (at + 1 < len(units) and content[at + 1] and not prompt[stop : units[at + 1][1]].strip())
        )
        if english and not adjoins_content:
            before = next((i for i in range(at - 1, -1, -1) if content[i]), -1)
            first = units[before + 1][1]
        rest = _tidied(prompt[:first] + prompt[stop:], prompt, english=english)
        if rest:
            left_out.append(Ablation(text if seen[text] == 1 else f"{text} ({seen[text]})", start, stop, rest))
    return tuple(left_out)


def _units(prompt: str, phrases: Sequence[str], *, whole_words: bool) -> list[tuple[str, int, int]]:
    """Split a prompt into phrases and words, each with its place; of phrases that overlap the longer one counts."""
    taken: list[tuple[int, int]] = []
    for phrase in sorted(phrases, key=len, reverse=True):
        pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)" if whole_words else re.escape(phrase)
        for match in re.finditer(pattern, prompt, re.IGNORECASE):
            if all(match.end() <= start or stop <= match.start() for start, stop in taken):
                taken.append(match.span())
    words = [match.span() for match in _WORD.finditer(prompt)]
    words = [(a, b) for a, b in words if all(b <= start or stop <= a for start, stop in taken)]
    return [(prompt[start:stop], start, stop) for start, stop in sorted([*taken, *words])]


def _tidied(text: str, whole: str, *, english: bool) -> str:
    """Return what is left of ``whole`` as a prompt, without the commas and function words of what was left out."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r" ?([,;:])[\s,;:]*(?=[,;:])", "", text)
    text = re.sub(r" ([,;:.])", r"\1", text).strip(" ,;:-")
    if not english:
        return text
    while (first := text.partition(" ")[0]).lower() in _LEADING:
        text = text[len(first) :].strip(" ,;:-")
    if all(word.lower() in _FUNCTION_WORDS for word in _WORD.findall(text)):
        return ""

    def article(match: re.Match[str]) -> str:
        if re.search(rf"\b{match[1]} {match[2]}\b", whole):  # as the prompt's author wrote it: an hour, a unit
            return match[0]
        right = "an" if _VOWEL_SOUND.match(match[2]) else "a"
        return f"{right.capitalize() if match[1][0].isupper() else right} {match[2]}"

    return re.sub(r"\b(a|an) (\w+)", article, text, flags=re.IGNORECASE)


BLANK_PROMPT: Final = ""
"""The prompt that an image is compared with to see whether it shows anything of its own."""

ABLATED: Final = "ablated"
"""The role of images of a target's prompt without one of its words."""


class AttributePrompt(Strict):
    """A prompt whose images represent a group. Prompts of different groups that share ``pair`` are matched."""

    prompt: Text
    pair: Name | None = None


class Group(Sparse):
    """A social group: the prompts whose images represent it and the words that name it.

    ``cell`` is its level on every axis, in a suite with axes.
    """

    label: Name | None = None
    cell: dict[Name, Name] | None = None
    prompts: tuple[AttributePrompt, ...] = Field(min_length=1)
    words: tuple[Text, ...] = Field(min_length=1)

    optional: ClassVar[frozenset[str]] = frozenset({"cell"})


class Axis(Strict):
    """The pair of groups that MCAS compares (positive leans to ``a``), and the third group of xMCAS."""

    a: Name
    b: Name
    third: Name | None = None


class Target(Sparse):
    """A concept under test: the neutral prompt that draws it, or several wordings of it by their names.

    With ``wordings`` each is measured as a target of its own, ``nurse (photo)``, and the images of all start from the
    same noises; ``prompt`` is then the first of them.
    """

    name: Name
    prompt: Text
    keyword: Text | None = None
    stereotype: Name | None = None
    wordings: dict[Name, Text] | None = Field(None, min_length=2, max_length=20)

    optional: ClassVar[frozenset[str]] = frozenset({"wordings"})

    @model_validator(mode="before")
    @classmethod
    def _prompt_of_wordings(cls, data: Any) -> Any:
        """Use the first wording as the prompt."""
        wordings = data.get("wordings") if isinstance(data, dict) else None
        if not isinstance(wordings, dict) or not wordings:
            return data
        first = next(iter(wordings.values()))
        if data.get("prompt", first) != first:
            raise InvalidInputError.conflict("prompt: it stands beside wordings; make it one of them, the first")
        return {**data, "prompt": first}

    def worded(self, wording: str | None) -> tuple[Target, ...]:
        """Return a target for each wording, or the concept in one ``wording``; itself, where it has none."""
        if self.wordings is None:
            return (self,)
        if wording is not None:
            prompts = {self.name: self.wordings[wording]}
        else:
            prompts = {wording_name(self.name, name): prompt for name, prompt in self.wordings.items()}
        return tuple(
            Target(name=name, prompt=prompt, keyword=self.keyword, stereotype=self.stereotype)
            for name, prompt in prompts.items()
        )


def wording_name(concept: str, wording: str) -> str:
    """Return the name of the target of one wording of a concept."""
    return f"{concept} ({wording})"


def ablation_name(target: str, word: str) -> str:
    """Return the name of a target's images drawn without a word of its prompt."""
    return f"{target} (without {word})"


class Category(Strict):
    """Targets that are summarised together."""

    label: Name | None = None
    targets: tuple[Target, ...] = Field(min_length=1)


class Images(Strict):
    """Images drawn for each prompt."""

    target: ImageCount = 20
    attribute: ImageCount = 16


class CrossedAxis(Strict):
    """One axis: its levels with their labels for people. Of two levels, positive leans to the first."""

    label: Name | None = None
    levels: dict[Name, Name] = Field(min_length=2)


class LeaningSuite(Suite):
    """Measurements of how far each concept leans between two groups: MCAS, internal bias, xMCAS.

    ``stereotype`` of a target names the group that the literature ties it to; it groups summaries and is never
    used to compute a score. ``margin`` is the size of a score below which it counts as none.

    With ``ablate`` every target is also drawn without each of its words, from the same noises, ``phrases`` left out as
    one (:mod:`clinometer.suites.leaning`). These images belong to no target: they only show what a word does.

    With ``axes`` the groups are cells, one for every combination of the axes' levels, and every axis is measured by
    itself; ``axis`` is then left out, as a pair of cells may differ on two axes at once.
    """

    study: Literal["leaning"] = "leaning"
    groups: dict[Name, Group] = Field(min_length=2)
    axes: dict[Name, CrossedAxis] | None = None
    axis: Axis | None = Field(None, validate_default=True)
    categories: dict[Name, Category] = Field(min_length=1)
    images: Images = Images()
    text_targets: Literal["prompt", "keyword"] = "prompt"
    margin: Annotated[Number, Field(gt=0)] | None = None
    wording: Name | None = None
    ablate: bool | None = None
    phrases: tuple[Text, ...] = ()

    optional: ClassVar[frozenset[str]] = Suite.optional | {"axes", "axis", "wording", "ablate", "phrases"}
    options: ClassVar[frozenset[str]] = frozenset(
        {"images", "text_targets", "concepts", "wording", "ablate", "phrases"}
    )
    scoring_options: ClassVar[frozenset[str]] = Suite.scoring_options | {"margin"}

    @field_validator("axis")
    @classmethod
    def _one_or_the_other(cls, axis: Axis | None, info: ValidationInfo) -> Axis | None:
        crossed = info.data.get("axes")
        if axis is None and crossed is None and "axes" in info.data:
            raise PydanticCustomError("missing", "Field required")
        if axis is not None and crossed:
            raise InvalidInputError.conflict(
                f"not beside axes: {axis.a!r} against {axis.b!r} may differ on several axes at once; leave axis out, "
                f"and {' and '.join(crossed)} are measured one by one"
            )
        return axis

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        self._check_wordings()
        self._check_ablations()
        refuse_all(self.groups, "groups")
        refuse_all(self.categories, "categories")
        self._check_groups_compared()
        refuse_duplicates((target.name for target in self.targets), "categories: target name used twice")
        for category, target in self.categorised_targets():
            where = f"categories.{category}.targets[{target.name}]"
            if target.stereotype is not None:
                refuse_unknown(f"{where}.stereotype", "group", target.stereotype, [*self.groups, *self.level_labels])
            if self.text_targets == "keyword" and target.keyword is None:
                raise InvalidInputError.missing(f"{where}.keyword: missing, and text_targets is 'keyword'")
        for name, group in self.groups.items():
            refuse_duplicates((p.prompt for p in group.prompts), f"groups.{name}.prompts: prompt used twice")
            refuse_duplicates(group.words, f"groups.{name}.words: word used twice")
            refuse_duplicates((p.pair for p in group.prompts if p.pair), f"groups.{name}.prompts: pair used twice")
        first, *others = self.groups if self.axis is None else (self.axis.a, self.axis.b)
        pairs = {p.pair for p in self.groups[first].prompts}
        for other in others:  # a prompt of one has a partner in each other, or none has any
            other_pairs = {p.pair for p in self.groups[other].prompts}
            unpaired = {None} & (pairs | other_pairs) if pairs | other_pairs != {None} else set()
            if odd := sorted(str(pair or "(no pair)") for pair in (pairs ^ other_pairs) | unpaired):
                raise InvalidInputError.mismatch(
                    f"groups: the prompts of {first} and {other} are not matched: {', '.join(odd)}; "
                    "give each prompt a 'pair' that both groups have, or give none"
                )
        return self

    def _check_wordings(self) -> None:
        """Check that wordings have the same names in every concept that has any, and no concept has a text twice."""
        concepts = {
            target.name: target.wordings
            for category in self.categories.values()
            for target in category.targets
            if target.wordings
        }
        first, names = next(iter(concepts.items()), ("", {}))
        for concept, texts in concepts.items():
            refuse_duplicates(texts.values(), f"categories: {concept}: text of two wordings")
            if texts.keys() != names.keys():
                raise InvalidInputError.mismatch(
                    f"categories: {concept} has the wordings {', '.join(texts)}, and {first} has "
                    f"{', '.join(names)}; give all the same, so that they can be compared"
                )
        odd = next((name for name in names if not LANGUAGE_TAG.fullmatch(name)), "" if names else "none")
        if self.language == SEVERAL_LANGUAGES and odd:
            raise InvalidInputError.malformed(
                f"language: {SEVERAL_LANGUAGES!r} says that every wording is a language, named by its tag such as en "
                f"or zh-Hant; found the wording {odd}"
            )
        if self.wording is not None:
            refuse_unknown("wording", "wording", self.wording, names)
        if concepts and self.axes:
            raise InvalidInputError.conflict(
                "axes: concepts have wordings, which are measured along one pair of groups; leave one out"
            )

    def _check_ablations(self) -> None:
        """Check that words are left out along one pair of groups and of one wording, and phrases are in prompts."""
        if not self.ablate:
            if self.phrases:
                raise InvalidInputError.conflict(
                    "phrases: they are left out as one with 'ablate: true' (--ablate), which is not given"
                )
            return
        if self.axes:
            raise InvalidInputError.conflict(
                "ablate: what a word does is measured along one pair of groups, and the suite has axes"
            )
        if self.wordings:
            names = ", ".join(next(iter(self.wordings.values())))
            raise InvalidInputError.conflict(
                f"ablate: concepts have several wordings; choose one with --wording: {names}"
            )
        prompts = {target.prompt for target in self.targets}
        for phrase in self.phrases:
            if not any(phrase.casefold() in prompt.casefold() for prompt in prompts):
                raise InvalidInputError.unknown_name(
                    f"phrases: found {quoted(phrase)}, which is in no prompt of the suite's targets"
                )
        if not any(self.ablations.values()):
            raise InvalidInputError.too_few(
                f"ablate: nothing is left of {quoted(min(prompts))} without a word of it; give longer prompts or, in a "
                "language without spaces, phrases"
            )

    def _check_groups_compared(self) -> None:
        """Check the pair of groups, or the axes and the cell of every group."""
        if self.axis is None:
            self._check_axes(self.axes or {})
            return
        if odd := next((name for name, group in self.groups.items() if group.cell is not None), ""):
            raise InvalidInputError.conflict(
                f"groups.{odd}.cell: the suite has no axes; declare them, or leave cell out"
            )
        roles = self.axis.model_dump(exclude_none=True)
        for role, name in roles.items():
            refuse_unknown(f"axis.{role}", "group", name, self.groups)
        refuse_duplicates(roles.values(), "axis: a, b and third must differ; found twice")

    def _check_axes(self, axes: Mapping[str, CrossedAxis]) -> None:
        """Check that there are two axes or more, that names are unambiguous, and that each cell has one group."""
        if len(axes) < 2:
            raise InvalidInputError.too_few(
                f"axes: found {', '.join(axes) or 'none'}, expected two or more; for one pair give axis.a, axis.b"
            )
        if odd := next((name for name in axes if ":" in name or "×" in name), ""):
            raise InvalidInputError.malformed(
                f"axes.{odd}: ':' and '×' stand between names in the scores; give another name"
            )
        levels = [level for axis in axes.values() for level in axis.levels]
        refuse_duplicates(levels, "axes: levels of two axes need different names; found twice")
        refuse_duplicates([*self.groups, *levels], "axes: a level and a group need different names; found twice")
        groups: dict[tuple[str, ...], str] = {}
        for name, group in self.groups.items():
            where, cell = f"groups.{name}.cell", group.cell
            if cell is None:
                raise InvalidInputError.missing(
                    f"{where}: missing, and the suite has axes; give its level of {', '.join(axes)}"
                )
            if odd := next((axis for axis in cell if axis not in axes), ""):
                raise InvalidInputError.unknown_name(f"{where}: no axis named {odd!r}; axes are {', '.join(axes)}")
            for axis, spec in axes.items():
                if axis not in cell:
                    raise InvalidInputError.missing(f"{where}.{axis}: missing; levels are {', '.join(spec.levels)}")
                refuse_unknown(f"{where}.{axis}", "level", cell[axis], spec.levels)
            place = tuple(cell[axis] for axis in axes)
            if place in groups:
                raise InvalidInputError.duplicate(
                    f"{where}: {' × '.join(place)} is the cell of {groups[place]!r} already"
                )
            groups[place] = name
        if missing := [place for place in product(*(axis.levels for axis in axes.values())) if place not in groups]:
            cells = ", ".join(" × ".join(place) for place in missing)
            raise InvalidInputError.missing(
                f"groups: no group for {cells}; every combination of the axes' levels needs one"
            )

    @property
    def compared(self) -> Axis:
        """The pair of groups that MCAS compares, where the suite has one.

        Raises
        ------
        SuiteError
            The groups are cells of axes.
        """
        return self.pair_for("this")

    def pair_for(self, what: str) -> Axis:
        """Return the pair of groups that MCAS compares, which ``what`` needs.

        Raises
        ------
        SuiteError
            The groups are cells of axes.
        """
        if self.axis is None:
            raise SuiteError.unsupported(
                f"suite {self.name}: its groups are cells of {' and '.join(self.axes or {})}, and {what} takes one "
                "pair of groups; give a suite with axis.a and axis.b"
            )
        return self.axis

    @property
    def level_labels(self) -> dict[str, str]:
        """The levels of all axes with their labels; empty without axes."""
        return {level: label for axis in (self.axes or {}).values() for level, label in axis.levels.items()}

    def axis_label(self, axis: str) -> str:
        """Return the axis' label for people."""
        return (self.axes or {})[axis].label or axis

    @property
    def targets(self) -> tuple[Target, ...]:
        """All targets, category by category."""
        return tuple(target for _, target in self.categorised_targets())

    def categorised_targets(self) -> tuple[tuple[str, Target], ...]:
        """Return all (category name, target) pairs in order."""
        return tuple(
            (name, target)
            for name, category in self.categories.items()
            for concept in category.targets
            for target in concept.worded(self.wording)
        )

    @property
    def wordings(self) -> dict[str, dict[str, str]]:
        """The target of each wording, by concept; empty in a suite without wordings."""
        return {
            target.name: {wording: wording_name(target.name, wording) for wording in target.wordings}
            for category in self.categories.values()
            for target in category.targets
            if target.wordings is not None and self.wording is None
        }

    @property
    def languages(self) -> list[str]:
        """The languages of its prompts, by their tags; empty if unknown."""
        if self.language != SEVERAL_LANGUAGES:
            return [self.language] if self.language else []
        return list(next(iter(self.wordings.values()))) if self.wording is None else [self.wording]

    @property
    def ablations(self) -> dict[str, tuple[Ablation, ...]]:
        """The words left out of each target's prompt, by the target's name; empty without ablations."""
        if not self.ablate:
            return {}
        language = next(iter(self.languages), None)
        return {each.name: ablations(each.prompt, self.phrases, language=language) for each in self.targets}

    def of_ablations(self) -> LeaningSuite:
        """Return a suite with a target for every word that is left out, named as its images are, and no other."""
        changed: dict[str, Any] = self.model_dump() | {"ablate": None, "phrases": (), "wording": None}
        targets: dict[str, list[dict[str, Any]]] = {}
        for category, target in self.categorised_targets():
            for left in self.ablations[target.name]:
                names = {"name": ablation_name(target.name, left.word)}
                targets.setdefault(category, []).append(target.model_dump() | names)
        changed["categories"] = {name: changed["categories"][name] | {"targets": targets[name]} for name in targets}
        return self.checked(changed, source=f"suite {self.name}, word by word")

    @property
    def content(self) -> dict[str, Any]:
        """Everything it asks, whatever the one wording and without single words: such runs are compared."""
        return {name: value for name, value in super().content.items() if name not in ("wording", "ablate", "phrases")}

    def text_of(self, target: Target) -> str:
        """Return the text that represents a target: its prompt, or its keyword verbatim."""
        return target.prompt if self.text_targets == "prompt" else str(target.keyword)

    def label_of(self, group: str) -> str:
        """Return the label for people of a group, or of a level of an axis."""
        return super().label_of(group) if group in self.groups else self.level_labels.get(group, group)

    def group_names(self) -> dict[str, tuple[str, ...]]:
        """Return each group's name and, of a cell, its levels."""
        return {name: (name, *(group.cell or {}).values()) for name, group in self.groups.items()}

    def questions(self) -> tuple[QuestionSpec, ...]:
        """Return its own ``readings``; without any, one about its groups, or one an axis about its levels."""
        if self.readings or not self.axes:
            return super().questions()
        return tuple(
            question_of_groups(
                name, self.axis_label(name), {level: (label, ()) for level, label in axis.levels.items()}
            )
            for name, axis in self.axes.items()
        )

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Yield the targets' prompts, then the groups' prompts."""
        images, ablations_by_target = self.images.target, self.ablations
        for category, entry in self.categories.items():
            for concept in entry.targets:
                noise = concept.prompt if concept.wordings else ""
                for target in concept.worded(self.wording):
                    yield PromptSpec(target.prompt, "target", target.name, category, images=images, noise=noise)
                    for left in ablations_by_target.get(target.name, ()):
                        name = ablation_name(target.name, left.word)
                        yield PromptSpec(left.prompt, ABLATED, name, category, images=images, noise=concept.prompt)
        for name, group in self.groups.items():
            for attribute in group.prompts:
                yield PromptSpec(attribute.prompt, "attribute", group=name, images=self.images.attribute)

    def texts(self) -> list[str]:
        """Return targets' texts, attribute prompts, words, and the blank prompt."""
        texts = [self.text_of(target) for target in self.targets]
        for group in self.groups.values():
            texts += [attribute.prompt for attribute in group.prompts]
            texts += group.words
        return list(dict.fromkeys([*texts, BLANK_PROMPT]))

    def texts_by_target(self) -> tuple[list[str], dict[str, str]]:
        """Return the groups' words and prompts, and each target's own text."""
        shared = [text for group in self.groups.values() for text in (*group.words, *(p.prompt for p in group.prompts))]
        return shared, {target.name: self.text_of(target) for target in self.targets}

    def images_in_words(self) -> str:
        """``"20 per target, 16 per attribute prompt"``."""
        words = f", {self.images.target} without each word" if self.ablate else ""
        return f"{self.images.target} per target{words}, {self.images.attribute} per attribute prompt"

    def sheets(self) -> tuple[SuiteTable, ...]:
        """Return groups with their prompts and words, then targets."""
        groups = tuple(
            (name, "\n".join(p.prompt for p in group.prompts), ", ".join(group.words))
            for name, group in self.groups.items()
        )
        targets = tuple(
            (category, target.name, target.prompt, target.stereotype or "")
            for category, target in self.categorised_targets()
        )
        return (
            SuiteTable(f"{self.images.attribute} images per attribute prompt", ("group", "prompts", "words"), groups),
            SuiteTable(
                f"{self.images.target} images per target", ("category", "target", "prompt", "stereotype"), targets
            ),
        )

    def _changed(self, **options: Any) -> dict[str, Any]:
        changed = super()._changed(**options)
        changed["images"]["attribute"] = self.images.attribute
        if "concepts" not in options:
            return changed
        changed["categories"] = kept_concepts(changed["categories"], "targets", changed.pop("concepts"), self.name)
        if "phrases" not in options:  # one may belong to a concept that was left out
            prompts = [t["prompt"].casefold() for each in changed["categories"].values() for t in each["targets"]]
            changed["phrases"] = [each for each in self.phrases if any(each.casefold() in prompt for prompt in prompts)]
        return changed

    def shared_concepts(self, others: Iterable[Suite]) -> list[str]:
        """Return the concepts that other suites ask for in the same way, if nothing else differs; else none."""
        suites: list[LeaningSuite] = [self]
        for suite in others:
            if not isinstance(suite, LeaningSuite):
                return []
            suites.append(suite)
        concepts = [
            {target.name: (name, target) for name, category in suite.categories.items() for target in category.targets}
            for suite in suites
        ]
        shared = [name for name, concept in concepts[0].items() if all(each.get(name) == concept for each in concepts)]
        contents = [suite.with_options(concepts=shared).content for suite in suites] if shared else []
        return shared if all(content == contents[0] for content in contents) else []
