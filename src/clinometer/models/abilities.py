"""What a model may be able to do besides what every one can: a protocol for each, and one way to ask.

A model has an ability where it has all of its members, by whatever name its class goes. `offers` asks for them as
Python does when they are used, so that a model that hands on what another can do is asked the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar

import numpy as np

from clinometer.models.protocols import Denoiser, Editor, Encoder, GenerationRequest, Generator

if TYPE_CHECKING:
    from PIL.Image import Image

Ability = TypeVar("Ability")


def offers(model: object, ability: type[Ability]) -> TypeGuard[Ability]:
    """Whether a model has an ability.

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
        """Give what edits."""
        ...


class Denoises(Generator, Protocol):
    """Gives access to its denoising errors; ``denoiser`` raises `ModelError` where its weights give none."""

    def denoiser(self) -> Denoiser:
        """Give what denoises."""
        ...


class DrawsInTwoStages(Generator, Protocol):
    """Draws an image embedding from a text, then the image; ``prior`` is None where this pipeline does not."""

    def prior(self) -> Any:
        """Give the first stage."""
        ...


class DrawsAtOnce(Generator, Protocol):
    """Finds how many images it draws at once, and sets ``batch_size``: to ``known`` where a run has found it before."""

    def fit_batch_size(self, prompt: str, *, known: int | None = None) -> None:
        """Find it, for prompts no longer than this."""
        ...


class TakesSettings(Generator, Protocol):
    """Draws at other settings without being loaded anew: `with_settings` gives another generator on the same weights.

    It is given those of :data:`~clinometer.models.protocols.SETTINGS` that are not its defaults.
    """

    def with_settings(self, **settings: Any) -> Generator:
        """Give the other generator."""
        ...


class Traces(Generator, Protocol):
    """Tells what it takes an image for at steps on the way, beside the same image.

    ``traced`` raises `ModelError` where its weights cannot; ``traced_steps`` are those that it tells of, of
    ``traced_total``.
    """

    traced_steps: tuple[int, ...]
    traced_total: int

    def traced(self, steps: Any = None, *, decoder: str | None = None, keep_latents: bool = False) -> Traces:
        """Give the generator that does."""
        ...


class ShowsPipeline(Generator, Protocol):
    """Shows the pipeline that it draws by."""

    pipeline: Any


class HasComponents(Protocol):
    """A pipeline of diffusers: its networks, tokenizers and schedulers by their names."""

    components: Mapping[str, Any]


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
    """Takes a bad answer for a wrong setting until it ``has_drawn`` an image; a run that holds images of it says so."""

    has_drawn: bool


class NamesStrength(Editor, Protocol):
    """An editor that says whether its edits have a strength; one that says nothing has."""

    names_strength: bool


# --- both ---------------------------------------------------------------------------------------------------------


class Weighs(Protocol):
    """Says how many bytes of a device its weights take."""

    weight_bytes: int


class Parks(Protocol):
    """Leaves its device for the host's memory and comes back, the same to the bit; in between it is not used.

    ``weight_bytes`` are what it takes there, too; 0 where it cannot leave. Either may raise: it is then loaded again.
    """

    weight_bytes: int

    def park(self) -> None:
        """Leave the device, and hold nothing large there any more."""
        ...

    def unpark(self) -> None:
        """Come back to the device that it left."""
        ...


class Releases(Protocol):
    """Lets go of its weights for good, where others compute in its place; its card and its abilities stay."""

    def release(self) -> None:
        """Let go; nothing is computed by it any more."""
        ...


def weights_of(models: Iterable[object]) -> int:
    """Bytes that the weights of models take together; 0 where one of them that computes here does not say."""
    sizes = [model.weight_bytes if offers(model, Weighs) else 0 for model in models]
    return sum(sizes) if all(sizes) else 0


# --- encoders ------------------------------------------------------------------------------------------------------


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
        """Begin; what is returned waits for the vectors, the same as of `PreparesImages.encode_prepared`."""
        ...
