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

from clinometer._messages import as_text
from clinometer._secrets import masked
from clinometer.errors import ModelError

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer._torch import torch

Status = Literal["ok", "refused", "failed", "blank"]


@dataclass(frozen=True)
class Card:
    """What a model is, exactly enough to tell two models apart.

    Attributes
    ----------
    kind : "generator" or "encoder".
    name : the name it was asked for by; never a path of one machine.
    family : the adapter and architecture, for example ``"diffusers/StableDiffusionPipeline"``.
    revision : a commit or version, where there is one.
    weights_sha256 : hash over the weight files' names and contents.
    settings : everything else that changes an output: steps, guidance, size, dtype, preprocessing, …
    notes : what a reader should know and no output depends on: licence, parameters, where it came from.
    """

    kind: Literal["generator", "encoder"]
    name: str
    family: str
    revision: str | None = None
    weights_sha256: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", masked(as_text(self.name)))
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
        return masked(as_text(value))
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
class GenerationResult:
    """One image drawn, or the reason why there is none.

    ``content`` is the image's own file, of an image that was finished before: it is stored as it is. ``flagged`` says
    that a safety checker took offence at an image that is kept all the same: people see it blurred.
    """

    id: str
    status: Status
    image: Image | None
    reason: str | None = None
    seconds: float = 0.0
    content: bytes | None = None
    flagged: bool = False


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
    sees no image leaves ``encode_images`` out: it serves association tests on words, and no run takes it. What else one
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


class FaceLandmarker(Protocol):
    """Finds the landmarks of a face. ``name`` tells its library, version and weights."""

    name: str

    def landmarks(self, image: Image) -> np.ndarray | None:
        """Find them: (68, 2) x and y in pixels, in the order of iBUG 300-W; None where no face is found."""
        ...
