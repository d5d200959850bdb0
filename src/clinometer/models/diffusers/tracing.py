"""The finished image that a diffusers pipeline predicts at each step of denoising, along with the image itself.

At a step with the noisy latents x_t = α x + σ ε the network's output, after guidance, says what the clean latents are::

    ε-prediction   x̂0 = (x_t − σ ε̂) / α
    v-prediction   x̂0 = α x_t − σ v̂
    flow           x̂0 = x_t − σ v̂                  α = 1 − σ
    sample         x̂0 as it is

A scheduler that reports its own estimate (``pred_original_sample``, ``denoised``) is taken at its word. The steps are
counted by the pipeline's ``callback_on_step_end``; one without it by the calls of its scheduler. Estimates are kept as
latents while the image is drawn, and decoded once it is there: nothing is drawn from a random generator, and the
pipeline goes on with what its scheduler gave it, so the image is the same bit for bit.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, Final

import numpy as np
from diffusers import AutoencoderTiny
from diffusers.utils import BaseOutput
from PIL import Image

from clinometer._torch import torch
from clinometer.errors import ModelError
from clinometer.models.diffusers.denoiser import is_flow_matching, precise
from clinometer.models.diffusers.loading import call_parameters
from clinometer.models.protocols import Estimate
from clinometer.models.weights import describe, in_words, locate_files, named_by, quiet_loading

CALLBACK: Final = "callback_on_step_end"
STAGES: Final = ("scheduler", "decoder_scheduler", "super_res_scheduler")
"""The schedulers that the image comes from, in the order of their steps: of most pipelines one, of UnCLIP two."""

STEPS: Final = 6
"""The default number of steps to trace."""

MOST_APART: Final = 3.0
"""Levels of 255 by which the last step, decoded here, may lie off the image on average: a watermark, half precision."""


def chosen_steps(asked: str | int | Sequence[int] | None, total: int) -> tuple[int, ...]:
    """Choose steps from 1 to ``total``: a number of them, spread evenly up to the last, ``"all"``, or those named.

    >>> chosen_steps(4, 16), chosen_steps("1,5,16", 16), chosen_steps("all", 3)
    ((1, 6, 11, 16), (1, 5, 16), (1, 2, 3))

    Raises
    ------
    ModelError
        It is none of these, or a step is beyond the schedule.
    """
    if isinstance(asked, str) and asked.strip() != "all":
        words = [word.strip() for word in asked.split(",")]
        if not all(re.fullmatch(r"\d+", word) for word in words):
            raise ModelError.malformed(
                f"found {asked!r}, expected a number of steps, 'all', or steps as in 1,5,10", field="trace_steps"
            )
        asked = int(words[0]) if len(words) == 1 else [int(word) for word in words]
    if asked is None or isinstance(asked, int):
        if asked is not None and not 1 <= asked <= total:
            raise ModelError.out_of_range(
                f"found {asked} steps, expected 1 to {total}, which this model draws in", field="trace_steps"
            )
        count = min(STEPS, total) if asked is None else asked
        chosen = np.linspace(1, total, count).round() if count > 1 else np.array([total] * count)
        asked = [int(step) for step in chosen]
    elif isinstance(asked, str):
        asked = range(1, total + 1)
    steps = tuple(sorted(set(asked)))
    if not steps or steps[0] < 1 or steps[-1] > total:
        numbers = ", ".join(map(str, asked)) or "none"
        raise ModelError.out_of_range(
            f"found {numbers}, expected steps from 1 to {total}, which this model draws in", field="trace_steps"
        )
    return steps


class Tracer:
    """Watches a pipeline draw.

    Parameters
    ----------
    pipeline : a loaded pipeline, on its device.
    call : the further arguments of every call, by the pipeline's names.
    size : height and width of its images, where it takes them.
    steps : which to trace, as in `chosen_steps`.
    decoder : a tiny decoder (diffusers' AutoencoderTiny) in place of the pipeline's own, a directory or a hub id.
    keep_latents : whether estimates are given as latents too.

    Raises
    ------
    ModelError
        The pipeline shows no steps, its scheduler or its latents are of a kind that is not known here, or there is no
        such step or decoder.
    """

    def __init__(
        self,
        pipeline: Any,
        *,
        call: dict[str, Any],
        size: tuple[int, int] | None,
        steps: str | int | Sequence[int] | None = None,
        decoder: str | None = None,
        keep_latents: bool = False,
    ) -> None:
        self._pipeline, self._size, self._keep_latents = pipeline, size, keep_latents
        self._schedulers = _schedulers_of(pipeline)
        parameters = call_parameters(pipeline)
        self.total = sum(_iterations(scheduler, name, call, parameters) for name, scheduler in self._schedulers)
        self.steps = chosen_steps(steps, self.total)
        self._has_callback = CALLBACK in parameters and len(self._schedulers) == 1
        self._decoder = None if decoder is None else _tiny_decoder(decoder, pipeline)
        self._is_proven = False
        self._step = 0
        self._last: torch.Tensor | None = None
        self._seen: dict[int, torch.Tensor] = {}
        self._final: torch.Tensor | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the pipeline's call that let it be watched."""
        return {CALLBACK: lambda pipeline, step, timestep, tensors: self._end_step()} if self._has_callback else {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch one call of the pipeline."""
        self._step, self._last, self._seen, self._final = 0, None, {}, None
        with ExitStack() as stack:
            for _, scheduler in self._schedulers:
                stack.enter_context(_tell_steps(scheduler, self._take))
            yield

    def _take(self, estimate: torch.Tensor | None, after: torch.Tensor) -> None:
        self._last, self._final = estimate, after
        if not self._has_callback:
            self._end_step()

    def _end_step(self) -> dict[str, Any]:
        """End a step, returning nothing so that the pipeline keeps its latents."""
        self._step += 1
        if self._step in self.steps and self._last is not None:
            self._seen[self._step] = self._last
        return {}

    def estimates(self, images: Sequence[Image.Image | None]) -> list[tuple[Estimate, ...]]:
        """Decode what was seen of the call that drew ``images``, of each what it was taken for; None has none.

        Raises
        ------
        ModelError
            A step that was asked for did not come, or the last step's latents, decoded, are not the image.
        """
        if missing := [step for step in self.steps if step not in self._seen]:
            raise ModelError.out_of_range(
                f"a {type(self._pipeline).__name__} drew in {self._step} steps, and step {missing[0]} was to be traced",
                field="trace_steps",
            )
        self._prove(images)
        decoder, traces = self._decoder, [list[Estimate]() for _ in images]
        for step, latents in sorted(self._seen.items()):
            pixels = _decode_latents(self._pipeline, latents, self._size, decoder)
            kept = latents.float().cpu().numpy() if self._keep_latents else [None] * len(images)
            for trace, values, latents_of_image in zip(traces, pixels, kept, strict=True):
                trace.append(Estimate(step, None if values is None else Image.fromarray(values), latents_of_image))
        self._seen = {}
        if hasattr(self._pipeline, "maybe_free_model_hooks"):
            self._pipeline.maybe_free_model_hooks()  # what was offloaded waits for its turn again
        return [tuple(trace) if image is not None else () for trace, image in zip(traces, images, strict=True)]

    def _prove(self, images: Sequence[Image.Image | None]) -> None:
        """Require that the latents of the first images decode to them here, too."""
        there = [at for at, image in enumerate(images) if image is not None]
        if self._is_proven or not there or self._final is None:
            return
        pixels = _decode_latents(self._pipeline, self._final, self._size)
        apart = []
        for at in there:
            values, image = pixels[at], np.asarray(images[at], float)
            if values is None or values.shape != image.shape:
                apart.append(np.inf)
            else:
                apart.append(float(np.abs(values - image).mean()))
        if min(apart) > MOST_APART:
            raise ModelError.unsupported(
                f"a {type(self._pipeline).__name__} makes its images of its last latents in a way that is not known "
                "here, so what it takes them for on the way cannot be shown; it cannot be traced"
            )
        self._is_proven = True


def _schedulers_of(pipeline: Any) -> list[tuple[str, Any]]:
    """Find the schedulers whose steps lead to the image, and refuse those whose estimate is not known."""
    name = type(pipeline).__name__
    components = pipeline.components
    schedulers = [(key, components[key]) for key in STAGES if components.get(key) is not None]
    if not schedulers:
        raise ModelError.unsupported(f"a {name} denoises by no scheduler of its own; it cannot be traced")
    for _, scheduler in schedulers:
        noises = isinstance(getattr(scheduler, "alphas_cumprod", None), torch.Tensor)
        if not (noises or hasattr(scheduler, "_sigma_to_alpha_sigma_t") or _matches_flow(scheduler)):
            raise ModelError.unsupported(
                f"a {type(scheduler).__name__} does not tell what it takes the finished image for; a {name} cannot be "
                "traced with it"
            )
    return schedulers


def _matches_flow(scheduler: Any) -> bool:
    return "FlowMatch" in type(scheduler).__name__ or is_flow_matching(scheduler)


def _iterations(scheduler: Any, name: str, call: dict[str, Any], parameters: Mapping[str, Any]) -> int:
    """Count the steps of a scheduler: those asked for, or more where it looks at some timesteps twice (Heun, PNDM)."""
    argument = name.removesuffix("scheduler") + "num_inference_steps"
    keys = [key for key in (argument, "decoder_num_inference_steps") if key in parameters]
    if not keys:
        raise ModelError.unsupported(
            f"its {type(scheduler).__name__} does not say how many steps it takes; it cannot be traced"
        )
    steps = call.get(keys[0], parameters[keys[0]].default)
    trial = copy.deepcopy(scheduler)
    try:
        trial.set_timesteps(steps)
    except (TypeError, ValueError):  # one that shifts its timesteps by the size of the image takes that, too
        return int(steps)
    return len(trial.timesteps)


@contextmanager
def _tell_steps(scheduler: Any, take: Callable[[torch.Tensor | None, torch.Tensor], None]) -> Iterator[None]:
    """Call ``take`` at every step of a scheduler, with its estimate of the clean latents and the latents after it."""
    original = scheduler.step
    signature = inspect.signature(original)
    module = inspect.getmodule(type(scheduler))  # whether it says its own estimate, the class of its output tells
    outputs = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, BaseOutput)]
    tells = any(field.name in TOLD for output in outputs if is_dataclass(output) for field in fields(output))

    @wraps(original)  # pipelines read its signature to know whether it takes their generator
    def step(*positional: Any, **named: Any) -> Any:
        bound = signature.bind(*positional, **named)
        wants_tuple = bound.arguments.get("return_dict", True) is False
        named_arguments = dict(bound.arguments) | {"return_dict": True}
        more = named_arguments.pop("kwargs", {})
        parts = named_arguments["model_output"], named_arguments["timestep"], named_arguments["sample"]
        by_formula = None if tells else _estimate(scheduler, *parts)  # before the scheduler goes on to the next step
        output = original(**named_arguments, **more)
        estimate = next((getattr(output, name) for name in TOLD if getattr(output, name, None) is not None), by_formula)
        take(estimate, output.prev_sample)
        return output.to_tuple() if wants_tuple else output

    scheduler.step = step
    try:
        yield
    finally:
        del scheduler.step


TOLD: Final = ("pred_original_sample", "denoised")
"""The names of a scheduler's own estimate in the output of its step."""


def _estimate(scheduler: Any, predicted: torch.Tensor, timestep: Any, noisy: torch.Tensor) -> torch.Tensor:
    """Solve x_t for the clean latents, in float32; see the formulas above."""
    x_t, output = noisy.float(), predicted.float()
    if output.ndim > 1 and output.shape[1] == 2 * x_t.shape[1]:
        output = output.chunk(2, dim=1)[0]  # the other half is a learned variance
    prediction = scheduler.config.get("prediction_type", "epsilon")
    if hasattr(scheduler, "_sigma_to_alpha_sigma_t") or _matches_flow(scheduler):
        index = scheduler.step_index
        index = scheduler.index_for_timestep(timestep) if index is None else index
        sigma = torch.as_tensor(scheduler.sigmas[index]).float()
        if _matches_flow(scheduler):
            return x_t - sigma.to(x_t.device) * output
        alpha, sigma = scheduler._sigma_to_alpha_sigma_t(sigma)
    else:
        squared = scheduler.alphas_cumprod[int(timestep)].float()
        alpha, sigma = squared.sqrt(), (1 - squared).sqrt()
    alpha, sigma = (torch.as_tensor(each).to(x_t.device, torch.float32) for each in (alpha, sigma))
    if prediction == "sample":
        return output
    if prediction == "v_prediction":
        return alpha * x_t - sigma * output
    if prediction in ("flow", "flow_prediction"):
        return x_t - sigma * output
    return (x_t - sigma * output) / alpha


def _decode_latents(
    pipeline: Any, latents: torch.Tensor, size: tuple[int, int] | None, decoder: Any = None
) -> list[np.ndarray | None]:
    """Decode latents as the pipeline does its last ones: (height, width, 3) bytes each; None where not finite.

    Raises
    ------
    ModelError
        Its decoder, or how its latents are laid out, is not known here.
    """
    name, vae = type(pipeline).__name__, getattr(pipeline, "vae", None)
    movq = pipeline.components.get("movq")
    try:
        with torch.inference_mode():
            if latents.ndim == 3 and hasattr(pipeline, "_unpack_latents") and size is not None:
                latents = pipeline._unpack_latents(latents, *size, pipeline.vae_scale_factor)
            if latents.ndim != 4:
                raise ModelError.unsupported(
                    f"a {name} lays its latents out in a way that is not known here; it cannot be traced"
                )
            if decoder is not None or vae is not None:
                pixels = _through(vae if decoder is None else decoder, latents)
            elif movq is not None:
                pixels = movq.decode(latents.to(movq.dtype), force_not_quantize=True)["sample"]
            else:
                pixels = latents
            pixels = (pixels * 0.5 + 0.5).clamp(0, 1).float().cpu()
    except (RuntimeError, ValueError, TypeError) as error:
        raise ModelError.failed(f"what a {name} makes on its way cannot be decoded: {describe(error)}") from error
    finite = torch.isfinite(pixels).flatten(1).all(dim=1).tolist()
    levels = (pixels.nan_to_num() * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return [values if is_finite else None for values, is_finite in zip(levels, finite, strict=True)]


def _through(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    """Decode by an autoencoder, its scale and shift undone."""
    config = vae.config
    scale = float(config.get("scaling_factor") or 1.0)
    mean, deviation = config.get("latents_mean"), config.get("latents_std")
    with precise(vae):
        if mean is not None and deviation is not None:
            mean, deviation = (
                torch.tensor(each, device=latents.device, dtype=latents.dtype).view(1, -1, 1, 1)
                for each in (mean, deviation)
            )
            latents = latents * deviation / scale + mean
        else:
            latents = latents / scale + float(config.get("shift_factor") or 0.0)
        pixels: torch.Tensor = vae.decode(latents.to(vae.dtype), return_dict=False)[0]
    return pixels


def _tiny_decoder(spec: str, pipeline: Any) -> Any:
    """Load a tiny autoencoder, in the place of the pipeline's own."""
    vae = getattr(pipeline, "vae", None)
    with named_by("trace_decoder"):
        source = locate_files(spec)
    try:
        with quiet_loading():
            decoder = AutoencoderTiny.from_pretrained(source.path, torch_dtype=pipeline.dtype, use_safetensors=True)
    except Exception as error:  # no such file, another class, damaged weights: many kinds
        raise ModelError.unreadable(
            f"{spec} is no tiny decoder: {in_words(error)}; expected diffusers' AutoencoderTiny, as its "
            "save_pretrained writes it",
            field="trace_decoder",
        ) from error
    channels = None if vae is None else vae.config.get("latent_channels")
    if channels != decoder.config.latent_channels:
        raise ModelError.mismatch(
            f"{spec} decodes {decoder.config.latent_channels} channels, and this {type(pipeline).__name__} has "
            f"{channels or 'no latents'}; name one made for it",
            field="trace_decoder",
        )
    return decoder.to(pipeline._execution_device).eval()
