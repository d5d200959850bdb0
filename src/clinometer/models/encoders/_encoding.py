"""What every encoder does alike: its options, images in batches of one size, texts one by one and not too long.

Pixels are bytes as long as they can be. A preprocessor resizes and crops, and in the end maps every byte by itself::

    x  ↦  (x / divisor − mean_c) / std_c        for channel c

That last step is done by batch on the model's device. What waits for the model and moves to it is a quarter as large,
and less is left to the threads that prepare images, whose Python runs in turn with the model's.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from PIL import Image

from clinometer._cores import one_thread
from clinometer._messages import first_and_more
from clinometer._torch import bytes_of, drop_weights, is_out_of_memory, resolve_device, resolve_dtype, torch
from clinometer.errors import ModelError
from clinometer.models.batching import Batches

if TYPE_CHECKING:
    from clinometer.models.protocols import Card


Item = TypeVar("Item")
AnyEncoder = TypeVar("AnyEncoder")

IMAGE_BATCH = 32


class TruncationWarning(UserWarning):
    """A text is longer than an encoder reads, and its end does not count."""


def encode_texts_alone(
    texts: Sequence[str], embed: Callable[[list[str]], torch.Tensor], *, dimension: int
) -> np.ndarray:
    """Embed texts one by one and in one thread: (len(texts), dimension) float32.

    So a text has the same vector, bit for bit, whatever its neighbours, the batch size, the number of workers and that
    of their cores. See decision 71.
    """
    with one_thread():
        return begin_in_batches(texts, embed, batches=Batches(1), dimension=dimension)()


def begin_in_batches(
    items: Sequence[Item], embed: Callable[[list[Item]], torch.Tensor], *, batches: Batches, dimension: int
) -> Callable[[], np.ndarray]:
    """Send all batches to the device; the returned function waits for the vectors, (len(items), dimension) float32.

    Meanwhile the device may be given more, so that it does not stand still while these are fetched and written. A
    device that computes at once, such as a processor, has computed them.

    The batches are of one size, whatever the caller hands over at once, and smaller for good once memory ran out; a
    row depends on its batch by floating-point noise at most.

    Raises
    ------
    ModelError
        Memory does not hold one item.
    """
    if not len(items):
        return lambda: np.empty((0, dimension), dtype=np.float32)
    try:
        with torch.inference_mode():
            # fetched in one go: a device that is asked for each batch's vectors stands still until the next is there
            vectors = torch.cat(list(batches.results(items, lambda batch: embed(batch).float())))
            return _fetch(vectors)
    except Exception as error:
        if is_out_of_memory(error):
            raise ModelError.failed("the encoder runs out of memory with a single input; try --device cpu") from error
        raise


def _fetch(vectors: torch.Tensor) -> Callable[[], np.ndarray]:
    """Begin to fetch vectors, behind the work that makes them and ahead of any that is given to the device later."""
    if vectors.device.type != "cuda":
        array = vectors.cpu().numpy()
        return lambda: np.asarray(array)
    pinned = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
    pinned.copy_(vectors, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(vectors.device))

    def wait() -> np.ndarray:
        copied.synchronize()
        return np.array(pinned.numpy())  # not kept in memory that the system cannot move

    return wait


def warn_of_truncation(texts: Sequence[str], too_long: Sequence[bool], context_length: int) -> None:
    """Warn once, naming the first text that is cut."""
    cut = [text for text, long in zip(texts, too_long, strict=True) if long]
    if cut:
        quotes = first_and_more([repr(text[:60]) for text in cut])
        warnings.warn(
            f"only the first {context_length} tokens of {quotes} are encoded; shorten the text",
            TruncationWarning,
            stacklevel=3,
        )


class ImageEncoderBase(ABC):
    """An encoder of images in batches; its card's setting ``dimension`` is the length of a vector.

    Parameters
    ----------
    card : what it is.
    batch_size : images a forward pass. Halved for good when the device runs out of memory.
    """

    def __init__(self, card: Card, *, batch_size: int) -> None:
        self.card = card
        self._image_batches = Batches(batch_size)
        self._dimension = int(card.settings["dimension"])

    @property
    def weight_bytes(self) -> int:
        """Bytes of the device that the weights take."""
        return bytes_of([getattr(self, "model", None)])

    def release(self) -> None:
        """Release the weights for good."""
        drop_weights([getattr(self, "model", None)])

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Embed images of any mode and size: (n, d) float32, not normalised."""
        return self._begin(images, lambda batch: self._embed_prepared(self.prepare_images(batch)))()

    def encode_prepared(self, prepared: Sequence[Any]) -> np.ndarray:
        """Embed images that `prepare_images` prepared: (n, d) float32, the same as `encode_images` of the images."""
        return self.begin_prepared(prepared)()

    def begin_prepared(self, prepared: Sequence[Any]) -> Callable[[], np.ndarray]:
        """Send prepared images to the device; the returned function waits for the vectors of `encode_prepared`."""
        return self._begin(prepared, self._embed_prepared)

    def _begin(
        self, items: Sequence[Item], embed: Callable[[list[Item]], torch.Tensor]
    ) -> Callable[[], np.ndarray]:  # fmt: skip
        return begin_in_batches(items, embed, batches=self._image_batches, dimension=self._dimension)

    @abstractmethod
    def prepare_images(self, images: Sequence[Image.Image]) -> list[Any]:
        """Resize and crop images on the CPU: one item an image. It needs no model, so any thread may."""

    @abstractmethod
    def _embed_prepared(self, prepared: list[Any]) -> torch.Tensor:
        """Embed one batch: (n, d)."""


class DualEncoderBase(ImageEncoderBase):
    """An encoder of images and texts; its card's setting ``context_length`` is the tokens that it reads."""

    def __init__(self, card: Card, *, batch_size: int) -> None:
        super().__init__(card, batch_size=batch_size)
        self.context_length = int(card.settings["context_length"])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts: (n, d) float32, not normalised. Text beyond the context is cut, with a warning."""
        warn_of_truncation(texts, self.exceeds_context(texts), self.context_length)
        return encode_texts_alone(texts, self._embed_texts, dimension=self._dimension)

    @abstractmethod
    def exceeds_context(self, texts: Sequence[str]) -> list[bool]:
        """Return, for each text, whether its end is cut off."""

    @abstractmethod
    def _embed_texts(self, texts: list[str]) -> torch.Tensor:
        """Embed texts, of which it is given one at a time: (n, d)."""


def working_encoder(encoder: AnyEncoder, lacking: Collection[str] = ()) -> AnyEncoder:
    """Return an encoder of this package once it has embedded a picture and a text, as far as it embeds them at all.

    A run loads its encoders before it draws. One that gives no vectors, or others every time, is met there and not
    after hours of drawing, or never. ``lacking`` names what `mark_lacking` marked.

    Raises
    ------
    ModelError
        It gives no vector of its card's dimension, one of weights that its files lack, or not twice the same but for
        rounding.
    """
    for what, method, item in (("picture", "encode_images", probe_image()), ("text", "encode_texts", "a")):
        if hasattr(encoder, method):
            card: Card = encoder.card  # type: ignore[attr-defined]
            vector, again = (getattr(encoder, method)([item]) for _ in range(2))
            dimension = int(card.settings["dimension"])
            if vector.shape != (1, dimension):
                raise ModelError.wrong_shape(
                    f"{card.name}: found an array of shape {vector.shape[1:]} for one {what}, expected a vector of "
                    f"{dimension} numbers; name another encoder"
                )
            if not np.isfinite(vector).all():
                why = f"its weights are damaged, or too large for {card.settings['dtype']}"
                if lacking:
                    why = f"its files lack the weights {first_and_more(sorted(lacking))}"
                raise ModelError.not_finite(
                    f"{card.name}: its vector of a {what} is not finite: {why}; name another encoder"
                )
            apart = float(np.linalg.norm(vector - again) / max(np.linalg.norm(vector), np.finfo(np.float32).tiny))
            if apart > torch.finfo(getattr(torch, card.settings["dtype"])).eps ** 0.5:  # rounding stays far below
                raise ModelError.unsupported(
                    f"{card.name}: one {what}, embedded twice, gives vectors that are {apart:.2g} of their length "
                    "apart: they are random in part; name another encoder"
                )
    return encoder


def notes_of(model: torch.nn.Module, library: ModuleType, unknown: Sequence[str] = ()) -> dict[str, Any]:
    """Return the notes of a card: the number of parameters, the versions of libraries, and what is unknown.

    ``unknown`` : conventions that none of the model's files states, each with what is assumed in its place.
    """
    notes: dict[str, Any] = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
    notes |= {library.__name__: library.__version__, "torch": torch.__version__}
    return notes | ({"unknown": "; ".join(unknown)} if unknown else {})


def mark_lacking(model: torch.nn.Module, lacking: Collection[str]) -> None:
    """Write NaN where a model's files lack a weight and its library drew one at random.

    A vector that depends on it is then NaN, and is refused. Many files leave out what no vector needs, such as a
    pooler.
    """
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name in lacking:
                weight.fill_(float("nan"))


def probe_image() -> Image.Image:
    """Return a picture in which no two places look alike."""
    upright = Image.linear_gradient("L")
    return Image.merge("RGB", (upright, upright.rotate(90), Image.radial_gradient("L")))


def resolve_options(
    batch_size: int | None, device: str | None, dtype: str | None
) -> tuple[int, torch.device, torch.dtype]:
    """Resolve the options that every encoder takes: batch size, device, precision.

    ``auto`` is float32 on every device: an encoder is a measuring instrument.

    Raises
    ------
    ModelError
        A batch of no image, or an unknown device or precision.
    """
    if batch_size is not None and batch_size < 1:
        raise ModelError.out_of_range(f"found {batch_size}, expected 1 or more", field="batch_size")
    chosen = resolve_device(device)
    return batch_size or IMAGE_BATCH, chosen, resolve_dtype("float32" if dtype in (None, "auto") else dtype, chosen)


@dataclass(frozen=True)
class Normalisation:
    """``(x / divisor − mean) / std`` of bytes, by channel."""

    divisor: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Map (…, 3, height, width) uint8 to float32."""
        mean, std = _by_channel(self.mean, pixels.device), _by_channel(self.std, pixels.device)
        return pixels.float().div_(self.divisor).sub_(mean).div_(std)

    def explains(
        self, whole: Callable[[Image.Image], torch.Tensor], in_bytes: Callable[[Image.Image], torch.Tensor]
    ) -> bool:
        """Return whether ``whole`` is this map after ``in_bytes``, bit for bit, by an image that holds every byte.

        The image has the size that comes out, so that resizing leaves its bytes as they are.
        """
        shape = in_bytes(Image.new("RGB", (64, 48))).shape
        if len(shape) != 3 or shape[0] != len(self.mean):
            return False
        probe = _every_byte(height=shape[1], width=shape[2])
        expected, raw = whole(probe), in_bytes(probe)
        return raw.dtype == torch.uint8 and raw.shape == expected.shape and torch.equal(self(raw), expected)


def size_left_alone(in_bytes: Callable[[Image.Image], torch.Tensor]) -> tuple[int, int] | None:
    """Return width and height of the images whose bytes a preprocessor leaves as they are; None if it changes all.

    Most resize to one size and crop to it: an image that has it needs neither. Some crop after they enlarge.
    """
    _, height, width = in_bytes(Image.new("RGB", (64, 48))).shape
    probe = _every_byte(height=height, width=width)
    return (width, height) if torch.equal(in_bytes(probe), stack_images([probe])[0]) else None


def stack_images(images: Sequence[Image.Image]) -> torch.Tensor:
    """Stack RGB images of one size: (n, 3, height, width) uint8."""
    # contiguous: a convolution of other strides rounds otherwise
    return torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).contiguous()


@lru_cache
def _by_channel(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """Return numbers that a device is given once: it would stop for them at every batch."""
    return torch.tensor(values, dtype=torch.float32, device=device)[:, None, None]


def _every_byte(*, height: int, width: int) -> Image.Image:
    """Make an image that counts from byte to byte: 3 and 256 share no divisor, so each channel has all values."""
    counted = np.arange(height * width * 3, dtype=np.uint32) % 256
    return Image.fromarray(counted.astype(np.uint8).reshape(height, width, 3))
