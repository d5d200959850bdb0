"""What a generator and an encoder are, to the rest of the house.

A generator draws images for requests; an encoder turns images and texts into vectors of one space. Each carries a card:
the encoder is part of the measurement, so name, weights and preprocessing are recorded with every number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np

from clinometer._messages import OTHERWISE, as_text
from clinometer._secrets import masked, without_home
from clinometer.errors import ModelError

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer._torch import torch

Status = Literal["ok", "refused", "failed", "blank"]
"""What became of an image: drawn, refused by the model, failed with an error, or drawn in one colour."""


@dataclass(frozen=True)
class Card:
    """What a model is, exactly enough to tell two models apart.

    Attributes
    ----------
    kind : "generator", "encoder" or "reader".
    name : the name it was asked for by; never a path of one machine.
    family : the adapter and architecture, for example ``"diffusers/StableDiffusionPipeline"``.
    revision : a commit or version, where there is one.
    weights_sha256 : hash over the weight files' names and contents.
    settings : everything else that changes an output: steps, guidance, size, dtype, preprocessing, …
    notes : what a reader should know and no output depends on: licence, parameters, where it came from.
    """

    kind: Literal["generator", "encoder", "reader"]
    name: str
    family: str
    revision: str | None = None
    weights_sha256: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", without_home(masked(as_text(self.name))))
        for part in ("settings", "notes"):
            try:
                plain = _plain(dict(getattr(self, part)))
                json.dumps(plain)
            except (TypeError, ValueError) as error:
                raise ModelError(
                    f"card of {self.name}, {part}: {error}; expected text, numbers, lists and mappings of them"
                ) from error
            object.__setattr__(self, part, plain)

    @property
    def fingerprint(self) -> str:
        """Hash of all that can change an output (notes are left out), 16 hexadecimal digits."""
        identity = {key: value for key, value in asdict(self).items() if key != "notes"}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy, at any depth, as Python's own: run.json holds no others."""
    if isinstance(value, str):
        return without_home(masked(as_text(value)))
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_plain, value))
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


SETTINGS: Final = (
    "steps",
    "guidance_scale",
    "prior_steps",
    "prior_guidance_scale",
    "edit_steps",
    "edit_guidance_scale",
    "height",
    "width",
    "negative_prompt",
    "prefer",
    "batch_size",
)
"""Options of a generator that its weights do not hang on."""


@dataclass(frozen=True)
class GenerationRequest:
    """One image to draw. ``seed`` alone decides its noise, whatever the batch or the worker."""

    id: str
    prompt: str
    seed: int


@dataclass(frozen=True)
class EditRequest(GenerationRequest):
    """One image to change towards a prompt; ``strength`` in (0, 1], of which 1 keeps nothing of the image."""

    image: Image
    strength: float


@dataclass(frozen=True)
class Estimate:
    """What a model took its finished image for at a step of denoising, counted from 1; ``latents`` where asked for.

    ``image`` is None where its values are not finite.
    """

    step: int
    image: Image | None
    latents: np.ndarray | None = None


@dataclass(frozen=True)
class GenerationResult:
    """One image drawn, or the reason why there is none.

    ``content`` is the image's own file, of an image that was finished before: it is stored as it is. ``flagged`` says
    that a safety checker took offence at an image that is kept all the same: people see it blurred. ``trace`` is what
    the image was taken for on the way, of a generator that was asked to watch.
    """

    id: str
    status: Status
    image: Image | None
    reason: str | None = None
    seconds: float = 0.0
    content: bytes | None = None
    flagged: bool = False
    trace: tuple[Estimate, ...] = ()


class Generator(Protocol):
    """Draws images from prompts.

    One that runs out of memory lowers ``batch_size`` and goes on. What else one may be able to do, such as edit, stands
    in :mod:`clinometer.models.abilities`.
    """

    card: Card
    batch_size: int

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield a result for each request, in any order."""
        ...


class Editor(Protocol):
    """Changes images towards prompts."""

    card: Card
    batch_size: int

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[GenerationResult]:
        """Yield a result for each request, in any order."""
        ...


class Encoder(Protocol):
    """Embeds images and texts in one space.

    One that reads no text leaves ``encode_texts`` out: what needs texts is then undefined, with that reason. One that
    sees no image leaves ``encode_images`` out: it serves WEAT and its kin, and no run takes it. What else one
    may be able to do, such as look texts up, stands in :mod:`clinometer.models.abilities`.
    """

    card: Card

    def encode_images(self, images: Sequence[Image]) -> np.ndarray:
        """Embed images: (n, d) float32, not normalised."""
        ...

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts: (n, d) float32, not normalised."""
        ...


class Denoiser(Protocol):
    """Says how well a diffusion model denoises an image under a prompt.

    ``batch_size`` rows fill a call of the network. ``tolerance`` is the relative difference of two mean errors that
    rounding may make or unmake, when the rows fall into other batches.
    """

    card: Card
    batch_size: int
    tolerance: float

    def encode_images(self, images: Sequence[Image]) -> torch.Tensor:
        """Encode images as the model denoises them: (n, …) float32 on the CPU."""
        ...

    def timesteps(self, fractions: torch.Tensor) -> torch.Tensor:
        """Map fractions in [0, 1) of the noise schedule to the model's timesteps."""
        ...

    def errors(
        self, latents: torch.Tensor, timesteps: torch.Tensor, noise: torch.Tensor, prompts: Sequence[str]
    ) -> np.ndarray:
        """Measure the mean squared denoising error of each row: (n,) float32."""
        ...


@dataclass(frozen=True)
class Answer:
    """One answer of a closed question: the group that it stands for, and the words in which it is offered.

    Attributes
    ----------
    group : by the suite's name, such as "woman".
    text : as a person or a model is offered it, such as "a woman".
    labels : what else it is called: the labels of classifiers that mean it, and the words by which an encoder finds it.
    """

    group: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that it is called, without case."""
        return tuple(dict.fromkeys(name.casefold() for name in (*self.labels, self.text, self.group)))


@dataclass(frozen=True)
class Question:
    """A question about a picture: a closed one has answers, its own and those of `OTHERWISE`; an open one has none.

    Raises
    ------
    ModelError
        One answer alone, or names that two of them share.
    """

    name: str
    text: str
    answers: tuple[Answer, ...] = ()

    def __post_init__(self) -> None:
        if self.is_open:
            return
        groups = [answer.group for answer in self.answers]
        names = [name for answer in self.answers for name in answer.names]
        twice = next((name for name in names if names.count(name) > 1), None)
        if len(set(groups)) < 2 or twice is not None or set(names) & {*OTHERWISE, *OTHERWISE.values()}:
            found = f"{twice!r} twice" if twice else f"{', '.join(groups) or 'none'}"
            raise ModelError(
                f"question {self.name}: found the answers {found}, expected two or more with names of their own; "
                f"{', '.join(OTHERWISE.values())} are always there"
            )

    @property
    def is_open(self) -> bool:
        """Whether it is answered in free words."""
        return not self.answers

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that its answers stand for."""
        return tuple(answer.group for answer in self.answers)

    @property
    def options(self) -> dict[str, str]:
        """Every answer's words by what it stands for, in the order in which they are offered."""
        return {answer.group: answer.text for answer in self.answers} | OTHERWISE

    @property
    def fingerprint(self) -> str:
        """Hash of wording and answers, 16 hexadecimal digits: another wording is another question."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Reading:
    """What a reader answered of one picture.

    Attributes
    ----------
    answer : a group, or a key of `OTHERWISE`; of an open question what was said. None where there is no answer, of
        which ``reason`` says why.
    probabilities : of every option in the question's order, summing to 1; None of a reader that gives none.
    words : what it said, where it answers in words.
    reason : why there is no answer: it was refused, it failed, or what came could not be read as one of the options.
    prompt_sha256 : hash of the words that were sent beside the picture, of a reader behind an endpoint.
    """

    answer: str | None
    probabilities: tuple[float, ...] | None = None
    words: str | None = None
    reason: str | None = None
    prompt_sha256: str | None = None


ASKED_OPENLY: Final = (
    "{question}\nAnswer in English, with one to five words and nothing else. If the picture does not show it, answer "
    '"unknown".'
)
"""How readers that answer in words are asked an open question."""

MOST_WORDS: Final = 10
"""Of an answer to an open question, which was asked for in five: more are an essay."""


def open_reading(said: str, *, cut: bool = False) -> Reading:
    """Read what was said to an open question: a few words, or no answer. ``cut`` says that it had not ended."""
    words = " ".join(said.split())
    shown = words if len(words) <= 300 else words[:299] + "…"
    if not words:
        return Reading(None, words="", reason="unread: an empty answer")
    if len(words.split()) > MOST_WORDS:
        return Reading(None, words=shown, reason=f"unread: an essay of more than {MOST_WORDS} words")
    if cut or len(words) > 200:
        return Reading(None, words=shown, reason="unread: it was cut off")
    return Reading(words, words=words)


class Reader(Protocol):
    """Says what pictures show, by a closed question or, where it answers in words, by an open one.

    Its card pins all that an answer hangs on. ``offers`` are the options that it can answer with: a reader that must
    choose among groups leaves those of `OTHERWISE` out, and what it reads of other pictures is forced.
    """

    card: Card
    batch_size: int

    def offers(self, question: Question) -> tuple[str, ...]:
        """Name the options that it can answer with; none of an open question that it can answer.

        Raises
        ------
        ModelError
            It cannot answer the question; that it takes words is told by `not_in_words`.
        """
        ...

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Answer the question of each image, in their order."""
        ...


def not_in_words(reader: Card, question: Question) -> ModelError:
    """Tell that a reader answers with labels or groups alone, and an open question takes words."""
    return ModelError(
        f"{reader.name}: question {question.name} is open, and this reader has no words to answer it with; give a "
        "vision-language model, a model for visual question answering, or openai:MODEL"
    )


class FaceLandmarker(Protocol):
    """Finds the landmarks of a face. ``name`` tells its library, version and weights."""

    name: str

    def landmarks(self, image: Image) -> np.ndarray | None:
        """Find them: (68, 2) x and y in pixels, in the order of iBUG 300-W; None where no face is found."""
        ...
