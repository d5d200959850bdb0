"""The generation loop over a diffusers pipeline: batches in, an outcome for every request out.

The pipeline is driven through its public ``__call__``, so that what is audited is what its users run; the
loop around it adds what an audit needs: a seed of its own for each image, prompts encoded once, and a reason
where there is no image. Editing is image to image, as the pipeline's users do it (SDEdit, Meng et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import numpy as np
from PIL import Image

from clinometer._cores import available_cores
from clinometer._torch import bytes_of, drop_weights, torch
from clinometer.errors import ModelError
from clinometer.models.batching import BatchBounds, Batches, largest_batch, release_memory
from clinometer.models.diffusers.conditioning import Conditioning, DiffusersPrior
from clinometer.models.diffusers.denoiser import DiffusersDenoiser
from clinometer.models.diffusers.loading import call_parameters, draws, edits_by_instruction, images_of
from clinometer.models.diffusers.settings import FIXED, STEP_NAMES, TRIAL_STEPS, is_guided
from clinometer.models.diffusers.tracing import Tracer
from clinometer.models.images import blank_reason
from clinometer.models.mitigation import only_draws
from clinometer.models.protocols import Card, EditRequest, GenerationRequest, GenerationResult

if TYPE_CHECKING:
    from clinometer.models.diffusers.mitigated import Mitigator

REFUSED = "the pipeline's safety checker flagged it"
FLAGS = ("nsfw_content_detected", "nsfw_detected", "watermark_detected")
"""Fields of an output that mark each replaced image: the first of Stable Diffusion, the others of DeepFloyd IF."""

MARK: Final = "mark"
"""The setting, in a card, of a checker whose flags are stored with the pictures, as its ``marks``."""

NOT_FINITE = "the model returned values that are not finite; try dtype float32"


class Opened(Protocol):
    """A pipeline that is loaded, from which generators at several settings are made."""

    @property
    def compiled(self) -> bool:
        """True if its network is compiled."""
        ...

    @property
    def batch_sizes(self) -> dict[Any, int]:
        """Batch sizes that memory was found to hold, by the settings that say how much a batch takes."""
        ...

    def generator(self, *, batch_size: int | None = None, **options: Any) -> DiffusersGenerator:
        """Draw with it at some settings."""
        ...


class DiffusersGenerator:
    """Draws images with a diffusers text-to-image pipeline.

    Parameters
    ----------
    pipeline : a loaded pipeline, on its device.
    card : what it is; its settings already hold everything that changes an output.
    call : further arguments of every pipeline call: steps, guidance, size.
    conditioning : makes the arguments that carry a batch's prompts and noise.
    batch_size : images per call, or the bounds between which `fit_batch_size` looks for it; until then the first of
        them. Halved for good when the device runs out of memory.
    edit_call : the same as ``call`` for edits, where they have other steps or guidance.
    opened : what it shares with generators at other settings.
    """

    def __init__(
        self,
        pipeline: Any,
        card: Card,
        *,
        call: dict[str, Any],
        conditioning: Conditioning,
        batch_size: int | BatchBounds,
        edit_call: dict[str, Any] | None = None,
        opened: Opened | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.opened = opened
        self.card = card
        self._batches = Batches(batch_size.start if isinstance(batch_size, BatchBounds) else batch_size)
        self._bounds = batch_size if isinstance(batch_size, BatchBounds) else None
        self._home = torch.device("cpu")
        self._is_fitted = False
        self._draws_alone = False
        self._tracer: Tracer | None = None
        self._untraced: ModelError | None = None
        self._call = call
        self._edit_call = call if edit_call is None else edit_call
        self._conditioning = conditioning
        self._draws = draws(pipeline)
        if not self._draws:
            self._bounds, self.batch_size = None, 1  # there is no image for a trial

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield one result for each request, in their order.

        An image that cannot be drawn has status "failed" and the reason; one that the safety checker flags is
        "refused", or kept and marked where the checker only marks; one of a single colour is "blank" and is kept. The
        requests are read a batch at a time.

        Raises
        ------
        ModelError
            The images are not of the size that was asked for, or it draws none: it changes a given one.
        """
        if not self._draws:
            raise ModelError.unsupported(
                f"{self.card.name}: a {type(self.pipeline).__name__} changes a given image and draws none; expected a "
                "suite of study editing, with --portraits"
            )
        size = self._call.get("width"), self._call.get("height")

        def failed(request: GenerationRequest, reason: str, seconds: float) -> GenerationResult:
            return GenerationResult(request.id, "failed", None, reason, seconds)

        for result in self._batches.attempt(requests, self._results, failed):
            if result.image is not None and None not in size and result.image.size != size:  # some do without a word
                drawn = "{} x {}".format(*result.image.size)
                raise ModelError.out_of_range(
                    f"asked for {size[0]} x {size[1]}, but this {type(self.pipeline).__name__} draws {drawn}; ask for "
                    "a size that it has",
                    field=("width", "height"),
                )
            if self._untraced is not None:
                raise self._untraced
            yield result

    @property
    def weight_bytes(self) -> int:
        """Bytes of the device that the weights take; 0 where they are offloaded, and come and go."""
        return bytes_of(self.pipeline.components.values(), self.pipeline._execution_device)

    def park(self) -> None:
        """Move the weights to the CPU's memory; until `unpark`, neither this nor what shares them draws.

        Raises
        ------
        ModelError
            They are compiled, offloaded or shared out over devices.
        """
        home: torch.device = self.pipeline._execution_device
        if home.type != "cpu":
            modules = [part for part in self.pipeline.components.values() if isinstance(part, torch.nn.Module)]
            compiled = self.opened is not None and self.opened.compiled
            if compiled or any(hasattr(module, "_hf_hook") for part in modules for module in part.modules()):
                raise ModelError.unsupported(
                    "its network is compiled for where it is, or its parts come and go; load it again"
                )
            self._move(torch.device("cpu"))
            release_memory()
        self._home = home

    def unpark(self) -> None:
        """Move the weights back to where they were before `park`."""
        self._move(self._home)

    def _move(self, device: torch.device) -> None:
        """Move modules by themselves: a pipeline warns of half precision on the CPU, where nothing will be computed."""
        for part in self.pipeline.components.values():
            if isinstance(part, torch.nn.Module):
                part.to(device)

    def release(self) -> None:
        """Release the weights for good, of everything that shares them."""
        drop_weights(self.pipeline.components.values())

    @property
    def batch_size(self) -> int:
        """Images a call."""
        return self._batches.size

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self._batches.size = size

    def fit_batch_size(self, prompt: str, *, known: int | None = None) -> None:
        """Make ``batch_size`` the largest that memory holds; one that was asked for stays as it is.

        Trial calls draw ``prompt`` in few steps, in batches that double until memory runs out. Nothing is tried twice,
        nor where the bounds leave no choice.

        Parameters
        ----------
        prompt : the longest that will be drawn.
        known : what was found before on the same question: taken without a trial.
        """
        if self._bounds is None:
            return
        if known is not None:
            self.batch_size = known
        elif not self._is_fitted and self._bounds.start < self._bounds.most:
            batch_sizes = {} if self.opened is None else self.opened.batch_sizes
            few = {name: min(self._call[name], TRIAL_STEPS) for name in STEP_NAMES if name in self._call}
            question = self._call.get("height"), self._call.get("width"), is_guided(self._call), prompt

            def draw(size: int) -> None:
                arguments = self._conditioning([prompt] * size, list(range(size)))
                self.pipeline(**(self._call | few), **arguments, output_type="np")

            if question not in batch_sizes:
                batch_sizes[question] = largest_batch(draw, self._bounds)
            self.batch_size = batch_sizes[question]
        self._is_fitted = True

    def with_settings(self, **settings: Any) -> DiffusersGenerator:
        """Return the same weights at other settings of a call: steps, guidance, size, negative prompt, batch size.

        Raises
        ------
        ModelError
            The pipeline has no such setting, or it was not loaded here.
        """
        if self.opened is None:
            raise ModelError.unsupported(
                f"{self.card.name}: it was not loaded from a file, and its settings cannot change"
            )
        return self.opened.generator(**settings)

    def mitigated(self, mitigator: Mitigator) -> DiffusersGenerator:
        """Return the same pipeline at the same settings, with what a mitigation does to each batch; for trials."""
        other = copy(self)
        other._conditioning = self._conditioning.changed(mitigator=mitigator)
        return other

    def traced(
        self, steps: str | int | Sequence[int] | None = None, *, decoder: str | None = None, keep_latents: bool = False
    ) -> DiffusersGenerator:
        """Return one that draws the same images and reports the predicted image of each at some steps.

        Parameters
        ----------
        steps, decoder, keep_latents : as in `clinometer.models.diffusers.tracing.Tracer`.

        Raises
        ------
        ModelError
            The pipeline cannot be watched, or there is no such step or decoder.
        """
        height, width = self._call.get("height"), self._call.get("width")
        traced = copy(self)
        traced._tracer = Tracer(
            self.pipeline, call=self._call, size=None if height is None or width is None else (height, width),
            steps=steps, decoder=decoder, keep_latents=keep_latents,
        )  # fmt: skip
        return traced

    @property
    def traced_steps(self) -> tuple[int, ...]:
        """The steps that it watches, the last of all among them or not; none where it was not asked to."""
        return () if self._tracer is None else self._tracer.steps

    @property
    def traced_total(self) -> int:
        """The number of steps in which it draws while traced."""
        return 0 if self._tracer is None else self._tracer.total

    def denoiser(self) -> DiffusersDenoiser:
        """Return the same pipeline as a measure of how well it denoises an image: what classifies with it.

        Raises
        ------
        ModelError
            Its scheduler or its network is of a kind that cannot be scored, or it carries a mitigation.
        """
        self._require_as_it_is("classifies")
        size = self._call.get("height"), self._call.get("width")
        options = {name: value for name, value in self._call.items() if name in FIXED}
        return DiffusersDenoiser(self.pipeline, self.card, size=size, batch_size=self.batch_size, options=options)

    def editor(self) -> DiffusersEditor:
        """Return the same pipeline as an editor of images.

        Raises
        ------
        ModelError
            It has no image-to-image pipeline, or carries a mitigation.
        """
        self._require_as_it_is("edits")
        none = ModelError.unsupported(
            f"{self.card.name}: a {type(self.pipeline).__name__} has no image-to-image pipeline in diffusers; "
            "expected one that edits images, for a suite of study editing"
        )
        from diffusers import AutoPipelineForImage2Image  # it imports the pipelines of every family

        editing = self.pipeline
        try:
            if not edits_by_instruction(editing):
                editing = AutoPipelineForImage2Image.from_pipe(editing)
        except Exception as error:  # ValueError for a family without one, others for a component it lacks
            raise none from error
        if "strength" not in call_parameters(editing) and not edits_by_instruction(editing):
            raise none
        editing.set_progress_bar_config(disable=True)
        conditioning = self._conditioning.changed(guided=is_guided(self._edit_call))
        return DiffusersEditor(
            editing, self.card, call=self._edit_call, conditioning=conditioning, batch_size=self.batch_size
        )

    def prior(self) -> DiffusersPrior:
        """Return the first stage of the same pipeline: what draws the image embeddings that its images are drawn from.

        Raises
        ------
        ModelError
            It has no prior that gives an image embedding.
        """
        return DiffusersPrior(
            self.pipeline, self.card, call=self._call, conditioning=self._conditioning, batch_size=self.batch_size
        )

    def _require_as_it_is(self, does: str) -> None:
        if self._conditioning.mitigation is not None:
            raise only_draws(self.card.name, self._conditioning.mitigation, does)

    def _results(self, batch: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """Draw a batch in one pipeline call; image by image where the pipeline takes noise that they would share."""
        if len(batch) > 1 and self._draws_alone:
            return [result for request in batch for result in self._results([request])]
        started = perf_counter()
        watching = nullcontext() if self._tracer is None else self._tracer.watching()
        with watching, global_noise(batch[0].seed) as draws_globally, in_bytes(self.pipeline) as finiteness:
            output = self._output(batch)
            self._draws_alone = draws_globally()
        if len(batch) > 1 and self._draws_alone:
            return self._results(batch)
        results = self._judge(batch, output, finiteness, started)
        if self._tracer is None:
            return results
        try:  # an error here is none of the images': it ends the drawing, and takes no image for failed
            traces = self._tracer.estimates([result.image for result in results])
        except ModelError as error:
            self._untraced = error
            return results
        return [replace(result, trace=trace) for result, trace in zip(results, traces, strict=True)]

    def _output(self, batch: Sequence[GenerationRequest]) -> Any:
        """Call the pipeline."""
        arguments = self._conditioning([request.prompt for request in batch], [request.seed for request in batch])
        watched = {} if self._tracer is None else self._tracer.arguments
        return self.pipeline(**self._call, **arguments, **watched, output_type="np")

    def _judge(
        self, batch: Sequence[GenerationRequest], output: Any, finiteness: Finiteness, started: float
    ) -> list[GenerationResult]:
        """Judge each image of a call's output; ``started`` is when the call began."""
        seconds = (perf_counter() - started) / len(batch)
        images = np.asarray(images_of(output))
        are_kept = self.card.settings.get("safety_checker") == MARK
        if are_kept:
            marks: list[bool] = self.pipeline.safety_checker.marks
            flags = marks[-len(batch) :]
            marks.clear()
        else:
            kinds = [of_kind for name in FLAGS if (of_kind := getattr(output, name, None))]
            flags = list(map(any, zip(*kinds, strict=True))) if kinds else [False] * len(batch)
        refused = [flag and not are_kept for flag in flags]
        drawn = zip(batch, images, finiteness.is_finite(images), refused, strict=True)
        with ThreadPoolExecutor(available_cores()) as threads:  # the device waits for this
            judged = list(threads.map(lambda arguments: _outcome(*arguments), drawn))
        results = [
            replace(result, seconds=seconds, flagged=flag and result.image is not None)
            for result, flag in zip(judged, flags, strict=True)
        ]
        mitigation = self._conditioning.mitigation
        return results if mitigation is None else list(map(mitigation.told, results, batch))


@contextmanager
def global_noise(seed: int) -> Iterator[Callable[[], bool]]:
    """Seed torch's global generators by ``seed`` for a pipeline that uses them; then restore them.

    Most take all their noise from the generators that they are given. Language models that write prompts or image
    tokens (ERNIE-Image, GLM-Image) sample from the global ones.

    Yields
    ------
    callable
        Tells whether anything has been taken.
    """
    initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = list(range(torch.cuda.device_count())) if initialized else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        before = _global_states(devices)
        yield lambda: not all(map(torch.equal, before, _global_states(devices)))


def _global_states(devices: list[int]) -> list[torch.Tensor]:
    return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, devices)]


@dataclass
class Finiteness:
    """Records, for each image that an image processor turned into bytes, whether its values were finite."""

    finite: list[bool] = field(default_factory=list)

    def is_finite(self, images: np.ndarray) -> list[bool]:
        """Return whether the values of each image (n, height, width, 3) are finite, or were before becoming bytes."""
        if self.finite and images.dtype == np.uint8:  # a pipeline may show its images one by one
            return self.finite[-len(images) :]
        return [bool(np.isfinite(image).all()) for image in images]


@contextmanager
def in_bytes(pipeline: Any) -> Iterator[Finiteness]:
    """Make a pipeline that is asked for arrays, ``output_type="np"``, return (n, height, width, 3) uint8.

    It would move floats to its host, four bytes a value or two, and the host would round them to one while the device
    waits: 0.4 s of one core for 64 images of 512 x 512, which an accelerator draws in two or three seconds. Asking for
    tensors would not do, since pipelines differ in what they give then. Its image processor is where that happens, so
    it is asked for the floats where they are::

        b = round(255 · x)        x in [0, 1]; halves to even, as numpy rounds

    and the pipeline hands on the bytes. One that does not show its images through an image processor, or not as
    pictures of three channels, gives what it gives; so does one whose images are with the host already, where numpy is
    as quick.
    """
    finiteness = Finiteness()
    processor: Any = getattr(pipeline, "image_processor", None)
    original = getattr(processor, "postprocess", None)
    if original is None:
        yield finiteness
        return

    def postprocess(image: Any, output_type: str = "pil", *arguments: Any, **options: Any) -> Any:
        if output_type != "np" or not _is_away(image):  # a safety checker is shown pictures
            return original(image, output_type, *arguments, **options)
        values = original(image, "pt", *arguments, **options)
        if not isinstance(values, torch.Tensor) or values.ndim != 4 or values.shape[1] != 3:
            return original(image, output_type, *arguments, **options)
        finiteness.finite += torch.isfinite(values).flatten(1).all(dim=1).tolist()
        rounded = (values.float() * 255).round_().to(torch.uint8)
        return rounded.permute(0, 2, 3, 1).contiguous().cpu().numpy()

    processor.postprocess = postprocess
    try:
        yield finiteness
    finally:
        del processor.postprocess


def _is_away(image: Any) -> bool:
    return isinstance(image, torch.Tensor) and image.device.type != "cpu"


def _outcome(request: GenerationRequest, values: np.ndarray, finite: bool, refused: bool) -> GenerationResult:
    """Judge one drawn image: (height, width, 3), bytes or in [0, 1]. By image: a batch does not fit a core's cache."""
    if refused:
        return GenerationResult(request.id, "refused", None, REFUSED)
    if not finite:
        return GenerationResult(request.id, "failed", None, NOT_FINITE)
    image = Image.fromarray(values if values.dtype == np.uint8 else (values * 255).round().astype(np.uint8))
    reason = blank_reason(image)
    return GenerationResult(request.id, "blank" if reason else "ok", image, reason)


class DiffusersEditor(DiffusersGenerator):
    """Changes images towards a prompt, by noising them in part and denoising them under the prompt.

    One whose pipeline takes no strength edits by instruction: the image is a condition like the prompt
    (InstructPix2Pix, FLUX Kontext, FLUX.2, Qwen-Image-Edit), and ``names_strength`` is false.

    All components are those of the generator's pipeline; nothing is loaded again. Every image has its own CPU
    generator, so that neither batch nor place in it changes the result.
    """

    def __init__(self, *pipeline_and_card: Any, **options: Any) -> None:
        super().__init__(*pipeline_and_card, **options)
        self._draws = True  # an image comes with every request
        self.names_strength = "strength" in call_parameters(self.pipeline)
        if not self.names_strength:
            self.batch_size = 1  # several images would be several views of one

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[GenerationResult]:
        """Yield one result for each request, in their order; outcomes as `DiffusersGenerator.generate`."""
        for _, same in groupby(requests, key=lambda request: request.strength):
            yield from self.generate(same)  # a call of the pipeline has one strength

    def _output(self, batch: Sequence[GenerationRequest]) -> Any:
        requests = cast("Sequence[EditRequest]", batch)
        arguments = self._conditioning([request.prompt for request in batch], [request.seed for request in batch])
        arguments.pop("latents", None)  # the noise comes on top of the image, from the same generators
        size = (self._call["width"], self._call["height"]) if "width" in self._call else None
        images = [
            request.image if size in (None, request.image.size) else request.image.resize(size) for request in requests
        ]
        parameters = call_parameters(self.pipeline)
        call = {name: value for name, value in self._call.items() if name in parameters}
        if self.names_strength:
            return self.pipeline(**call, **arguments, image=images, strength=requests[0].strength, output_type="np")
        return self.pipeline(**call, **arguments, image=images[0], output_type="np")
