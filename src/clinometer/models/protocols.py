"""The protocols of generators and encoders, and of what each may be able to do besides.

A generator draws images for requests; an encoder turns images and texts into vectors of one space. Each carries a card:
the encoder is part of the measurement, so name, weights and preprocessing are recorded with every number. What reads
pictures is in `clinometer.models.readers`.

What only some can do is an ability, each with a protocol of its own. A model has an ability where it has all of its
members, by whatever name its class goes. `offers` asks for them as Python does when they are used, so that a model that
hands on what another can do is asked the same way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeGuard, TypeVar

import numpy as np

from clinometer._messages import as_text
from clinometer._secrets import masked, without_home
from clinometer.errors import ModelError

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer._torch import torch

Status = Literal["ok", "refused", "failed", "blank"]
"""The outcome of an image: drawn, refused by the model, failed with an error, or drawn in one colour."""


@dataclass(frozen=True)
class Card:
    """The identity of a model, exact enough to distinguish any two.

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
                raise ModelError.wrong_type(
                    f"card of {self.name}, {part}: {error}; expected text, numbers, lists and mappings of them"
                ) from error
            object.__setattr__(self, part, plain)

    @property
    def fingerprint(self) -> str:
        """Hash of all that can change an output (notes are left out), 16 hexadecimal digits."""
        identity = {key: value for key, value in asdict(self).items() if key != "notes"}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return numbers and arrays of numpy, at any depth, as Python's own: run.json holds no others."""
    if isinstance(value, str):
        return without_home(masked(as_text(value)))
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(_plain, value))
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


SETTINGS: Final = (
    "steps", "guidance_scale", "prior_steps", "prior_guidance_scale", "edit_steps", "edit_guidance_scale", "height",
    "width", "negative_prompt", "prefer", "batch_size",
)  # fmt: skip
"""Options of a generator that its weights do not depend on."""


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
    """A model's prediction of its finished image at a step of denoising, counted from 1; ``latents`` where asked for.

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
    the image was taken for on the way, of a generator that was asked to watch. ``batch`` names what the image came from
    beside others, such as the request of a server; an image that its seed alone decides needs none.
    """

    id: str
    status: Status
    image: Image | None
    reason: str | None = None
    seconds: float = 0.0
    content: bytes | None = None
    flagged: bool = False
    trace: tuple[Estimate, ...] = ()
    batch: str | None = None


class Generator(Protocol):
    """Draws images from prompts.

    One that runs out of memory lowers ``batch_size`` and goes on. What else one may be able to do, such as edit, stands
    below.
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


class SeesImages(Protocol):
    """Embeds images."""

    def encode_images(self, images: Sequence[Image]) -> np.ndarray:
        """Embed images: (n, d) float32, not normalised."""
        ...


class ReadsTexts(Protocol):
    """Embeds texts."""

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts: (n, d) float32, not normalised."""
        ...


class Encoder(SeesImages, ReadsTexts, Protocol):
    """Embeds images and texts in one space.

    One that reads no text leaves ``encode_texts`` out: what needs texts is then undefined, with that reason. One that
    cannot embed every image, as it sees nothing but faces, says why in its card's setting ``leaves_out`` and gives
    those NaN throughout: they are then missing, as refused ones are, and count as that. One that
    sees no image leaves ``encode_images`` out: it serves WEAT and its kin, and no run takes it. What else one
    may be able to do, such as look texts up, stands below.
    """

    card: Card


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
    """Finds the landmarks of a face. ``name`` gives its library, version and weights."""

    name: str

    def landmarks(self, image: Image) -> np.ndarray | None:
        """Find them: (68, 2) x and y in pixels, in the order of iBUG 300-W; None where no face is found."""
        ...


Ability = TypeVar("Ability")


def offers(model: object, ability: type[Ability]) -> TypeGuard[Ability]:
    """Return whether a model has an ability.

    >>> class Drawer:
    ...     price_per_image = 0.04
    >>> offers(Drawer(), Priced), offers(Drawer(), DrawsAtOnce)
    (True, False)
    """
    # its own members alone: a generator is one already
    members = {*vars(ability), *vars(ability).get("__annotations__", {})}
    return all(hasattr(model, name) for name in members if not name.startswith("_"))


# --- generators ----------------------------------------------------------------------------------------------------


class Edits(Generator, Protocol):
    """Changes images towards prompts; ``editor`` raises `ModelError` where its weights cannot."""

    def editor(self) -> Editor:
        """Return the editor."""
        ...


class Denoises(Generator, Protocol):
    """Gives access to its denoising errors; ``denoiser`` raises `ModelError` where its weights give none."""

    def denoiser(self) -> Denoiser:
        """Return the denoiser."""
        ...


class DrawsInTwoStages(Generator, Protocol):
    """Draws an image embedding from a text, then the image; ``prior`` is None where this pipeline does not."""

    def prior(self) -> Any:
        """Return the first stage."""
        ...


class DrawsAtOnce(Generator, Protocol):
    """Finds how many images it draws at once, and sets ``batch_size``: to ``known`` where a run has found it before."""

    def fit_batch_size(self, prompt: str, *, known: int | None = None) -> None:
        """Find it, for prompts no longer than this."""
        ...


class TakesSettings(Generator, Protocol):
    """Draws at other settings without being loaded again: `with_settings` gives another generator on the same weights.

    It is given those of `SETTINGS` that are not its defaults.
    """

    def with_settings(self, **settings: Any) -> Generator:
        """Return the other generator."""
        ...


class Traces(Generator, Protocol):
    """A generator that also returns its prediction of the finished image at steps on the way.

    ``traced`` raises `ModelError` where its weights cannot; ``traced_steps`` are those that it tells of, of
    ``traced_total``.
    """

    traced_steps: tuple[int, ...]
    traced_total: int

    def traced(self, steps: Any = None, *, decoder: str | None = None, keep_latents: bool = False) -> Traces:
        """Return the generator that does."""
        ...


class ShowsPipeline(Generator, Protocol):
    """Shows the pipeline that it draws by."""

    pipeline: Any


class Priced(Protocol):
    """Costs money, an image or an answer, in any one currency."""

    price_per_image: float


class TellsSettings(Generator, Protocol):
    """Says what a request of it can say: ``takes`` has words by the name of a setting, such as "seed" or "price"."""

    takes: Mapping[str, str]


class ShowsRequests(Generator, Protocol):
    """Asks a server, and shows what it would send for an image: keys masked, and nothing sent."""

    def shown_requests(self, request: GenerationRequest) -> list[str]:
        """Show each request of one image, in their order."""
        ...


class Converts(Generator, Protocol):
    """Reads images from files: what it did to them, and to how many."""

    conversions: Mapping[str, int]


class EmbedsInPassing(Generator, Protocol):
    """Reads finished images, which its encoders embed while they are decoded.

    ``proven`` : names of encoders that were found to give one image the same vector twice.
    """

    encoders: Sequence[Encoder]
    proven: set[str]


class Remembers(Protocol):
    """Takes a bad answer for a wrong setting until it ``has_drawn`` an image; set where a run already holds some."""

    has_drawn: bool


class RemembersAnswers(Protocol):
    """Takes a bad answer for a wrong setting until it ``has_answered``; a run that holds answers of it says so."""

    has_answered: bool


class NamesStrength(Editor, Protocol):
    """An editor that says whether its edits have a strength; one that says nothing has."""

    names_strength: bool


# --- both ---------------------------------------------------------------------------------------------------------


class Parks(Protocol):
    """Leaves its device for the host's memory and comes back, the same to the bit; in between it is not used.

    ``weight_bytes`` are what it takes there, too; 0 where it cannot leave. Either may raise: it is then loaded again.
    """

    weight_bytes: int

    def park(self) -> None:
        """Move off the device, and free its memory there."""
        ...

    def unpark(self) -> None:
        """Move back to the device that it left."""
        ...


class Releases(Protocol):
    """Releases its weights for good, where others compute in its place; its card and its abilities stay."""

    def release(self) -> None:
        """Release the weights; nothing is computed with them any more."""
        ...


def weights_of(models: Iterable[object]) -> int:
    """Return how many bytes the weights of models take together; 0 where one that computes here does not tell."""
    sizes = [getattr(model, "weight_bytes", 0) for model in models]
    return sum(sizes) if all(sizes) else 0


# --- encoders ------------------------------------------------------------------------------------------------------


class LooksUpTexts(Protocol):
    """Looks texts up, and lists those that it does not have."""

    def missing(self, texts: Iterable[str]) -> Sequence[str]:
        """List them."""
        ...


class PreparesImages(Protocol):
    """Resizes and normalises images apart from its model: threads do so ahead of it, an item an image."""

    def prepare_images(self, images: Sequence[Image]) -> list[Any]:
        """Prepare images, in any thread."""
        ...

    def encode_prepared(self, prepared: Sequence[Any]) -> np.ndarray:
        """Embed what was prepared: (n, d) float32."""
        ...


class BeginsPrepared(Protocol):
    """Hands prepared images to its device and waits for their vectors later: two parts are then in its hands."""

    def begin_prepared(self, prepared: Sequence[Any]) -> Callable[[], np.ndarray]:
        """Begin; the returned function waits for the vectors, the same as in `PreparesImages.encode_prepared`."""
        ...
