"""A mitigation as it lies on disk, and what of it needs only words: ``mitigation.json``, its gate, its wordings.

``mitigation.json`` lies next to a pipeline's ``model_index.json``, next to a LoRA, or alone, and says what was done to
a model and what still is done to each of its prompts. clinometer's loaders honour it. The library diffusers does not
know the file: of a pipeline directory it loads the weights alone, which are those of the model before, and of a LoRA it
loads the whole, as that is in the weights.

A **gate** leaves a prompt alone that names a group: any of the suite's words for any of its groups, as a word of its
own, in the plural too. Which group an image is drawn to follows from its seed alone, so the same image is drawn to the
same group whatever the batch, the worker or the number of images.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from clinometer.errors import InvalidInputError, ModelError, ModelNotFoundError
from clinometer.models.protocols import Card, GenerationRequest, GenerationResult, Generator
from clinometer.models.weights import file_hash, user_path

FILE: Final = "mitigation.json"
TENSORS: Final = "mitigation.safetensors"
Acts = Literal[
    "prompt", "group in the prompt", "text embedding", "unconditional embedding", "cross-attention", "weights"
]
IN_WORDS: Final = ("prompt", "group in the prompt")
"""Where a mitigation acts that needs nothing but the prompt, so that models behind any API can carry it."""

SUBJECT: Final = re.compile(
    r"^(?P<before>(?:(?:(?!\bof\s++(?:an?|the)\s).)*+of\s++)?)(?P<article>an?|the)\s++(?P<noun>\S.*)$", re.IGNORECASE
)
"""A prompt's subject: ``an image of`` | ``a`` | ``firefighter``; or ``a firefighter`` alone."""
PLURALS: Final = {"man": "men", "woman": "women", "child": "children", "wife": "wives", "person": "people"}


class GroupWords(BaseModel):
    """The names of a group: ``word`` names it in a prompt, and by ``names`` the gate recognises it.

    An adjective stands before "person", and a noun in its place: a non-binary person, a man.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    word: str = Field(min_length=1)
    adjective: bool = False
    names: tuple[str, ...] = Field(min_length=1)


class Mitigation(BaseModel):
    """A mitigation of a model, as ``mitigation.json`` records it.

    Attributes
    ----------
    method : the name of the entry point that made it.
    acts_on : where it acts; the words of a prompt, an embedding, cross-attention, or the weights of a LoRA.
    made_for : the card of the model that it was made for: name, family, weights.
    target : the share that each group is to have; they sum to 1.
    targets : the same by prompt, for prompts that are to have other shares, as of a declared standard.
    groups : how each group is named; those outside the target are spared by the gate, too.
    gate : ``words`` leaves prompts alone that name a group; ``none`` changes every prompt.
    seed : which group an image is drawn to follows from it, and from the image's own seed.
    template : of an intervention in the prompt, what replaces it; ``{prompt}`` and ``{subject}`` stand in it.
    strength : of what has one.
    offsets : of the unconditional embedding, how far along the direction of a group, by prompt.
    tensors_sha256 : of the file of tensors next to it.
    drawn_at : steps and guidance that it was made at, which an audit takes where it is asked for no other.
    made_of : what it was made from, and what was measured then; no output depends on it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["clinometer-mitigation/1"] = "clinometer-mitigation/1"
    method: str = Field(min_length=1)
    acts_on: Acts
    made_for: dict[str, str | None]
    target: dict[str, float] = Field(min_length=1)
    targets: dict[str, dict[str, float]] = Field(default_factory=dict)
    groups: dict[str, GroupWords] = Field(min_length=1)
    gate: Literal["words", "none"] = "words"
    seed: int = 0
    template: str = ""
    strength: float = Field(1.0, allow_inf_nan=False)
    offsets: dict[str, float] = Field(default_factory=dict)
    tensors_sha256: str | None = None
    drawn_at: dict[Literal["steps", "guidance_scale"], float] = Field(default_factory=dict)
    made_of: dict[str, Any] = Field(default_factory=dict)

    @field_validator("target")
    @classmethod
    def _check_target(cls, target: dict[str, float]) -> dict[str, float]:
        _require_sum_of_1(target)
        return target

    @field_validator("targets")
    @classmethod
    def _check_targets(cls, targets: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        for target in targets.values():
            _require_sum_of_1(target)
        return targets

    @model_validator(mode="after")
    def _has_words(self) -> Mitigation:
        if unnamed := [name for name in self.target if name not in self.groups]:
            raise InvalidInputError.unknown_name(
                f"target: {unnamed[0]!r} is no group with words; there are {', '.join(self.groups)}"
            )
        for prompt, target in self.targets.items():
            if target.keys() != self.target.keys():
                problem = f"found {', '.join(target)}, expected {', '.join(self.target)}"
                raise InvalidInputError.out_of_range(f"targets: {prompt!r}: {problem}")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that a card records: those that change an image, and which concepts it was learned from."""
        left_out = {"format", "drawn_at", "made_of"} | (set() if self.targets else {"targets"})
        learned = [] if self.acts_on in IN_WORDS else self.made_of.get("concepts", [])
        return {**self.model_dump(exclude=left_out), "learned": learned}

    @cached_property
    def _named(self) -> re.Pattern[str]:
        names = {name.lower() for group in self.groups.values() for name in (group.word, *group.names)}
        ends = {each for name in names for each in (name, f"{name}s", PLURALS.get(name, name))}
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(ends, key=len, reverse=True)))})(?!\w)")

    def spares(self, prompt: str) -> bool:
        """Return whether the gate leaves a prompt alone, since it names a group."""
        return self.gate == "words" and self._named.search(prompt.lower()) is not None

    def group_of(self, seed: int, prompt: str = "") -> str:
        """Draw the group that the image of a seed is drawn to: from the prompt's target, by its seed alone."""
        digest = hashlib.sha256(f"{self.seed}/{seed}".encode()).digest()
        left = int.from_bytes(digest[:8], "big") / 2**64
        drawn = ""
        for name, share in self.targets.get(prompt, self.target).items():
            if share > 0:
                drawn, left = name, left - share
            if left < 0:
                break
        return drawn

    def told(self, result: GenerationResult, request: GenerationRequest) -> GenerationResult:
        """Record with an image the words that it was drawn from, where they are not those of its request."""
        worded = self.worded(request.prompt, request.seed)
        if worded == request.prompt or result.status != "ok":
            return result
        further = f"; {result.reason}" if result.reason else ""
        return replace(result, reason=f"drawn from: {worded}{further}")

    def worded(self, prompt: str, seed: int) -> str:
        """Return the prompt that the image of a seed is drawn from: unchanged where the gate spares it."""
        if self.acts_on not in IN_WORDS or self.spares(prompt):
            return prompt
        if self.acts_on == "prompt":
            subject = SUBJECT.match(prompt)
            named = f"{subject['article']} {subject['noun']}" if subject else prompt
            return re.sub(r"\{(prompt|subject)\}", lambda m: prompt if m[1] == "prompt" else named, self.template)
        return with_group(prompt, self.groups[self.group_of(seed, prompt)])


def _require_sum_of_1(target: Mapping[str, float]) -> None:
    total = sum(target.values())
    if not all(0 <= share <= 1 for share in target.values()) or not abs(total - 1) <= 1e-6:
        shares = ", ".join(f"{name} {share:g}" for name, share in target.items())
        raise InvalidInputError.out_of_range(
            f"found {shares}, which sum to {total:g}; expected shares from 0 to 1 that sum to 1"
        )


def with_group(prompt: str, group: GroupWords) -> str:
    """Name a group in a prompt.

    >>> man = GroupWords(word="man", names=("man",))
    >>> with_group("an image of an artist", man), with_group("a person running", man), with_group("nurses", man)
    ('an image of a man artist', 'a man running', 'nurses, man')
    >>> with_group("a photo of an artist", GroupWords(word="man with light skin", names=("man",)))
    'a photo of a man artist with light skin'
    """
    subject = SUBJECT.match(prompt)
    if subject is None:
        return f"{prompt}, {group.word}" if prompt.strip() else prompt
    word, marked, feature = group.word.partition(" with ")
    noun = subject["noun"]
    if not group.adjective and re.match(r"person\b", noun, re.IGNORECASE):
        noun = noun[len("person") :].lstrip()
    article = subject["article"]
    if article.lower() != "the":
        article = "an" if word[0].lower() in "aeiou" else "a"
    return f"{subject['before']}{article} {word} {noun}".rstrip() + marked + feature


def find_mitigation(place: Path) -> Path | None:
    """Find ``mitigation.json``: the file itself, or the one in a directory; None where there is none."""
    path = place / FILE if place.is_dir() else place
    return path if path.is_file() and path.name.endswith(".json") else None


def read_mitigation(spec: str | Path) -> tuple[Mitigation, Path]:
    """Read a mitigation from its file or its directory, and check its tensors; return it and where it lies.

    Raises
    ------
    ModelNotFoundError, ModelError
        There is none, it does not say what it must, or its tensors are not those that it was written with.
    """
    path = find_mitigation(user_path(spec))
    if path is None:
        raise ModelNotFoundError(
            f"{spec}: no {FILE} there; give the directory that clinometer mitigate wrote", field="mitigation"
        )
    try:
        mitigation = Mitigation.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        problem = first["msg"].removeprefix("Value error, ")
        raise ModelError.malformed(
            f"{path.name}: {f'{where}: ' if where else ''}{problem}", field="mitigation"
        ) from error
    if mitigation.tensors_sha256 is not None:
        tensors = path.with_name(TENSORS)
        if not tensors.is_file() or file_hash(tensors) != mitigation.tensors_sha256:
            what = "is not the file that it was written with" if tensors.is_file() else "is missing"
            raise ModelError.corrupt(
                f"{TENSORS} beside {path.name} {what}; make the mitigation again", field="mitigation"
            )
    return mitigation, path


def write_mitigation(mitigation: Mitigation, folder: Path) -> None:
    """Write ``mitigation.json`` into a folder."""
    written = json.dumps(mitigation.model_dump(mode="json"), indent=2, ensure_ascii=False)
    (folder / FILE).write_text(written + "\n", "utf-8")


def only_draws(name: str, mitigation: Mitigation, does: str) -> ModelError:
    """Return the error of a mitigated model that is to do anything but draw: ``does`` is edits or classifies."""
    return ModelError.unsupported(
        f"{name}: its mitigation {mitigation.method} is of images that are drawn, not of how it {does}; give "
        "--mitigation none, which leaves it out (of a LoRA the gate alone)",
        field="mitigation",
    )


class Reworded:
    """A generator of any kind that is given its prompts as a mitigation words them; all else is the generator's own.

    Parameters
    ----------
    generator : the model.
    mitigation : one that acts on words alone.

    Raises
    ------
    ModelError
        It acts on more than words, which this model does not show.
    """

    def __init__(self, generator: Generator, mitigation: Mitigation) -> None:
        if mitigation.acts_on not in IN_WORDS:
            raise ModelError.unsupported(
                f"method {mitigation.method} acts on the {mitigation.acts_on}, which {generator.card.name} does not "
                "show; use one that acts on the prompt: prompt or balanced",
                field="mitigation",
            )
        self._generator = generator
        self._mitigation = mitigation
        card = generator.card
        self.card: Card = replace(
            card,
            settings=card.settings | {"mitigation": mitigation.settings},
            notes=card.notes | {"mitigation": mitigation.made_of},
        )

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield one result for each request, in their order; each says what was asked for in place of its prompt."""
        requests_by_id: dict[str, GenerationRequest] = {}

        def worded() -> Iterator[GenerationRequest]:
            for request in requests:
                requests_by_id[request.id] = request
                yield self._reword(request)

        for result in self._generator.generate(worded()):
            request = requests_by_id.pop(result.id, None)
            yield result if request is None else self._mitigation.told(result, request)

    def editor(self) -> Any:
        """Refuse to edit; raises `ModelError`."""
        raise only_draws(self.card.name, self._mitigation, "edits")

    def denoiser(self) -> Any:
        """Refuse to classify; raises `ModelError`."""
        raise only_draws(self.card.name, self._mitigation, "classifies")

    def _reword(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, prompt=self._mitigation.worded(request.prompt, request.seed))

    def __getattr__(self, name: str) -> Any:
        """Pass on the generator's other methods, except those that would bypass the mitigation."""
        if name.startswith("_") or name in ("edit", "prior", "with_settings"):
            raise AttributeError(name)
        attribute = getattr(self._generator, name)
        return (lambda request: attribute(self._reword(request))) if name == "shown_requests" else attribute
