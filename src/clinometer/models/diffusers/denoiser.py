"""How well a diffusers pipeline denoises an image under a prompt: the measure of the diffusion classifier.

With x the clean latents, ε standard normal noise and t a timestep, a variance-preserving model is shown
``x_t = √ᾱ_t x + √(1 − ᾱ_t) ε``; a flow-matching model is shown ``x_t = (1 − σ_t) x + σ_t ε`` with ``σ_t = t / T``.

===============  ======================  =========================================
prediction       target                  squared error of ε in terms of its own
===============  ======================  =========================================
epsilon          ε                       1
v_prediction     √ᾱ_t ε − √(1 − ᾱ_t) x   ᾱ_t
sample           x                       ᾱ_t / (1 − ᾱ_t)
flow             ε − x                   (1 − σ_t)²
===============  ======================  =========================================

The last column follows from solving x_t for ε: a v-model's estimate is ``ε̂ = √ᾱ v̂ + √(1 − ᾱ) x_t``, so that
``ε̂ − ε = √ᾱ (v̂ − v)``; likewise for the others.

Noising and targets are float32, whatever the model computes in: in float16, 1 − ᾱ at the first timesteps is off by
14 %.

The network is called as its pipeline calls it. Every text-to-image pipeline of diffusers conditions its network in its
own way: text states, pooled states, sizes, position ids, guidance. None of it is rebuilt here. The pipeline is started
once for each prompt and stopped when it calls its network; the arguments of that call are kept, and later calls change
the latents and the timestep only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageOps

from clinometer._cores import one_thread
from clinometer._torch import torch
from clinometer.errors import ModelError
from clinometer.models.batching import Batches
from clinometer.models.protocols import Card
from clinometer.models.weights import describe

NETWORKS = ("unet", "transformer")
"""The components of a pipeline that may be its denoising network, in the order they are looked for."""

START = {"guidance_scale": 1.0, "num_inference_steps": 2, "output_type": "latent"}
"""Arguments that start a pipeline: without guidance, and with so many steps that the first is not at timestep 0."""

COPIES = 2
"""Copies of a prompt in the call that is recorded: arguments with this many rows depend on the prompt."""


@dataclass(frozen=True)
class Call:
    """The arguments of a pipeline's network on the first step of one prompt.

    Attributes
    ----------
    latents : what it denoises, one row.
    timestep_scale : the timestep it passed over the scheduler's own: 1 for most, 1/1000 for FLUX.
    timestep_dtype : its type.
    arguments : everything else by name; tensors of the prompt have one row.
    per_prompt : names ("a" or "a.b") of the arguments that belong to the prompt and not to all alike.
    """

    latents: torch.Tensor
    timestep_scale: float
    timestep_dtype: torch.dtype
    arguments: dict[str, Any]
    per_prompt: frozenset[str]


def network_of(pipeline: Any) -> torch.nn.Module:
    """Return the denoising network of a pipeline.

    Raises
    ------
    ModelError
        It has no network of a known kind.
    """
    for name in NETWORKS:
        network = getattr(pipeline, name, None)
        if isinstance(network, torch.nn.Module):
            return network
    raise ModelError.unsupported(
        f"a {type(pipeline).__name__} has no denoising network that can be called; expected a component named "
        f"{' or '.join(NETWORKS)}"
    )


def record_call(pipeline: Any, prompt: str, options: Mapping[str, Any]) -> Call:
    """Start the pipeline on a prompt, without guidance, and return what it gives its network first.

    Raises
    ------
    ModelError
        The pipeline fails, or calls its network in a way that does not show what is what.
    """
    network = network_of(pipeline)
    parameters = inspect.signature(pipeline.__call__).parameters
    started = {name: value for name, value in START.items() if name in parameters} | dict(options)
    arguments = _stopped_at(network, lambda: pipeline(prompt=[prompt] * COPIES, **started), pipeline)
    first, timestep = next(iter(arguments)), arguments.get("timestep")
    latents = arguments.pop(first)
    if not isinstance(latents, torch.Tensor) or len(latents) != COPIES or not isinstance(timestep, torch.Tensor):
        raise ModelError.unsupported(
            f"a {type(pipeline).__name__} does not call its {type(network).__name__} with a row of latents for each "
            "prompt and a timestep; it cannot be used as a classifier"
        )
    del arguments["timestep"]
    flat = dict(_tensors(arguments))
    per_prompt = frozenset(name for name, value in flat.items() if value.ndim and len(value) == COPIES)
    return Call(
        latents=latents[:1],
        timestep_scale=_scale(timestep, pipeline),
        timestep_dtype=timestep.dtype,
        arguments=_map_tensors(arguments, lambda name, value: value[:1] if name in per_prompt else value),
        per_prompt=per_prompt,
    )


class ConditionedNetwork:
    """A pipeline's network with its conditioning; each distinct prompt is encoded once, and alone.

    Parameters
    ----------
    pipeline : a loaded text-to-image pipeline.
    options : further arguments of the pipeline's call, such as ``height``.
    """

    def __init__(self, pipeline: Any, options: Mapping[str, Any]) -> None:
        self._pipeline = pipeline
        self._options = options
        self._network = network_of(pipeline)
        self._rows: dict[str, int] = {}
        self._calls: list[Call] = []
        self._stacked: dict[str, torch.Tensor] = {}

    def rows(self, prompts: Sequence[str]) -> torch.Tensor:
        """Number prompts by their conditioning, encoding those that are new: (len(prompts),).

        Raises
        ------
        ModelError
            Encodings differ in length, and cannot share a batch.
        """
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._rows]
        for prompt in new:
            with one_thread():
                self._calls.append(record_call(self._pipeline, prompt, self._options))
            self._rows[prompt] = len(self._rows)
        for name in self._calls[0].per_prompt if new else ():
            encoded = [dict(_tensors(call.arguments))[name] for call in self._calls]
            for prompt, row in zip(self._rows, encoded, strict=True):
                if row.shape != encoded[0].shape:
                    raise ModelError.unsupported(
                        f"{name}: the encodings of {next(iter(self._rows))!r} and {prompt!r} are of shapes "
                        f"{tuple(encoded[0].shape)} and {tuple(row.shape)}; only pipelines that pad theirs to one "
                        "length can be used as classifiers"
                    )
            self._stacked[name] = torch.cat(encoded)
        return torch.tensor([self._rows[prompt] for prompt in prompts])

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """The shape of one row of latents as the network takes it; known once a prompt is."""
        return tuple(self._calls[0].latents.shape[1:])

    def __call__(self, latents: torch.Tensor, timesteps: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Predict for latents (n, …) at timesteps (n,) under the prompts numbered ``rows`` (n,); float32."""
        call, device = self._calls[0], self._pipeline.device
        rows = rows.to(device)
        arguments = _map_tensors(
            call.arguments, lambda name, value: self._stacked[name][rows] if name in call.per_prompt else value
        )
        passed = timesteps * call.timestep_scale if call.timestep_scale != 1 else timesteps
        network_input = latents.to(device, call.latents.dtype)
        output = self._network(network_input, timestep=passed.to(device, call.timestep_dtype), **arguments)
        predicted = output[0] if isinstance(output, tuple) else output.sample
        if predicted.ndim == latents.ndim and predicted.shape[1] == 2 * latents.shape[1]:
            predicted = predicted.chunk(2, dim=1)[0]  # the other half is a learned variance
        return torch.as_tensor(predicted).float()


class _StoppedError(Exception):
    """The pipeline has reached its network."""


def _stopped_at(network: torch.nn.Module, start: Callable[[], Any], pipeline: Any) -> dict[str, Any]:
    """Run until the network is called; return its arguments by name."""
    arguments: dict[str, Any] = {}

    def stop(module: torch.nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        arguments.update(inspect.signature(module.forward).bind(*positional, **named).arguments)
        raise _StoppedError

    handle = network.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        with torch.no_grad():
            start()
    except _StoppedError:
        pass
    except Exception as error:  # whatever a pipeline's code raises
        raise ModelError.unsupported(
            f"a {type(pipeline).__name__} cannot be started on a prompt: {describe(error)}"
        ) from error
    finally:
        handle.remove()
    if not arguments:
        raise ModelError.unsupported(
            f"a {type(pipeline).__name__} does not call its {type(network).__name__} to draw an image"
        )
    return arguments


def _scale(timestep: torch.Tensor, pipeline: Any) -> float:
    """Return the ratio of the timestep passed to the scheduler's first."""
    first = float(pipeline.scheduler.timesteps[0])
    ratio = float(timestep.float().flatten()[0]) / first
    for scale in (1.0, 1.0 / pipeline.scheduler.config.num_train_timesteps):
        if abs(ratio - scale) <= 1e-2 * scale:  # rounding in half precision
            return scale
    raise ModelError.unsupported(
        f"a {type(pipeline).__name__} passes timestep {first} to its network as {ratio * first:g}; expected it as it "
        "is, or divided by the number of timesteps"
    )


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor within nested mappings, by dotted name."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _tensors(inner, f"{name}.{key}" if name else str(key))


def _map_tensors(value: Any, change: Callable[[str, torch.Tensor], torch.Tensor], name: str = "") -> Any:
    """Return the same nested mappings with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(name, value)
    if isinstance(value, Mapping):
        return {key: _map_tensors(inner, change, f"{name}.{key}" if name else str(key)) for key, inner in value.items()}
    return value


# --- How well a network denoises an image under a prompt -------------------------------------------------------------


Prediction = Literal["epsilon", "v_prediction", "sample", "flow"]
Weighting = Literal["target", "epsilon"]


@dataclass(frozen=True)
class Noising:
    """The noise schedule and the target of one model.

    Attributes
    ----------
    prediction : what the model predicts.
    num_timesteps : T; timesteps are 0 … T − 1, and any number in [0, T) for flow matching.
    signal : (T,) float32 √ᾱ_t; empty for flow matching.
    noise : (T,) float32 √(1 − ᾱ_t); empty for flow matching.
    """

    prediction: Prediction
    num_timesteps: int
    signal: torch.Tensor
    noise: torch.Tensor

    def timesteps(self, fractions: torch.Tensor) -> torch.Tensor:
        """Map fractions in [0, 1) of the schedule to timesteps: whole numbers, or float32 for flow matching."""
        scaled = fractions.double() * self.num_timesteps
        if self.prediction == "flow":
            return scaled.float()
        return scaled.long().clamp(max=self.num_timesteps - 1)

    def noised(self, clean: torch.Tensor, noise: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        """Return x_t for each row; (n, …) float32."""
        a, b = self._coefficients(clean, timesteps)
        return a * clean + b * noise

    def target(self, clean: torch.Tensor, noise: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        """Return what the model should predict for each row; (n, …) float32."""
        if self.prediction == "epsilon":
            return noise
        if self.prediction == "sample":
            return clean
        if self.prediction == "flow":
            return noise - clean
        a, b = self._coefficients(clean, timesteps)
        return a * noise - b * clean

    def weights(self, timesteps: torch.Tensor, weighting: Weighting) -> torch.Tensor:
        """Return the factor of each row's squared error: 1, or what makes it an error of ε; (n,) float32."""
        a, b = self._coefficients(timesteps, timesteps)
        one = torch.ones_like(a)
        if weighting == "target" or self.prediction == "epsilon":
            return one
        if self.prediction == "sample":
            return (a / b) ** 2
        return a**2

    def _coefficients(self, like: torch.Tensor, timesteps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the factors of x and of ε in x_t, shaped to broadcast over rows of ``like``."""
        if self.prediction == "flow":
            sigma = timesteps.float() / self.num_timesteps
            a, b = 1 - sigma, sigma
        else:
            a, b = (table.to(timesteps.device)[timesteps] for table in (self.signal, self.noise))
        shape = (-1, *[1] * (like.ndim - 1))
        return a.reshape(shape).to(like.device), b.reshape(shape).to(like.device)


def noising_of(scheduler: Any) -> Noising:
    """Read a diffusers scheduler: by what it holds, not by its class.

    One with ``alphas_cumprod`` is variance-preserving, and its ``prediction_type`` says what the model predicts. One
    without, whose ``sigmas`` run from 0 to 1 in proportion to its timesteps, is a flow-matching scheduler.

    Raises
    ------
    ModelError
        It is neither: a Karras-style or a discrete one.
    """
    config = scheduler.config
    num_timesteps = int(config.get("num_train_timesteps", 0))
    alphas = getattr(scheduler, "alphas_cumprod", None)
    prediction = config.get("prediction_type", "epsilon")
    flow = prediction in ("flow_prediction", "flow") or config.get("use_flow_sigmas", False)
    if isinstance(alphas, torch.Tensor) and not flow and prediction in ("epsilon", "v_prediction", "sample"):
        alphas = alphas.float().cpu()
        return Noising(prediction, len(alphas), alphas.sqrt(), (1 - alphas).sqrt())
    if num_timesteps > 0 and (flow or is_flow_matching(scheduler)):
        return Noising("flow", num_timesteps, torch.empty(0), torch.empty(0))
    raise ModelError.unsupported(
        f"scheduler {type(scheduler).__name__}: prediction type {prediction!r} cannot be scored; expected epsilon, "
        "v_prediction, sample or flow matching"
    )


def is_flow_matching(scheduler: Any) -> bool:
    """Return whether the noise levels are between 0 and 1 and the timesteps are T times them."""
    sigmas, timesteps = getattr(scheduler, "sigmas", None), getattr(scheduler, "timesteps", None)
    if not isinstance(sigmas, torch.Tensor) or not isinstance(timesteps, torch.Tensor) or not len(timesteps):
        return False
    levels = sigmas[: len(timesteps)].float()
    scaled = timesteps.float().to(levels.device) / scheduler.config.num_train_timesteps
    return bool(levels.max() <= 1 + 1e-6 and torch.allclose(levels, scaled, atol=1e-4))


TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""By precision, the relative difference of two mean errors that other batches may make or unmake."""


class DiffusersDenoiser:
    """The denoising error of a diffusers text-to-image pipeline, UNet or transformer.

    Parameters
    ----------
    pipeline : a loaded pipeline, on its device.
    card : what it is; the card of the generator over the same pipeline.
    size : height and width that images are brought to.
    batch_size : rows (an image at a timestep under a prompt) a call of the network. Halved for good when the device
        runs out of memory.
    weighting : ``"target"`` scores what the model was trained to predict; ``"epsilon"`` turns every error into one of
        the noise, as the paper writes it. For an ε-model they are the same.
    options : further arguments that start the pipeline on a prompt.
    """

    def __init__(
        self,
        pipeline: Any,
        card: Card,
        *,
        size: tuple[int | None, int | None],
        batch_size: int,
        weighting: Weighting = "target",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        network_of(pipeline)  # what would fail at the first image is refused before anything is drawn
        kind, vae = type(pipeline).__name__, getattr(pipeline, "vae", None)
        if pipeline.components.get("guider") is not None:
            raise ModelError.unsupported(
                f"a {kind} guides by a {type(pipeline.guider).__name__}, which a call cannot turn off; it cannot be "
                "used as a classifier"
            )
        if vae is None and "movq" in pipeline.components:
            raise ModelError.unsupported(
                f"a {kind} denoises under an image embedding that its prior draws, not under a text; it cannot be used "
                "as a classifier"
            )
        if vae is not None:
            _require_one_scale(vae)
        self.card = card
        self._batches = Batches(batch_size)
        self.pipeline = pipeline
        self.noising: Noising = noising_of(pipeline.scheduler)
        self.tolerance = TOLERANCES.get(pipeline.dtype, TOLERANCES[torch.bfloat16])
        self._weighting: Weighting = weighting
        height, width = size
        if height is None or width is None:
            raise ModelError.unsupported(f"a {kind} does not say what size its images have; it cannot classify any")
        self._size = height, width
        started = {**(options or {}), "height": height, "width": width}
        latents = record_call(pipeline, "a person", started).latents
        self.noising = noising_of(pipeline.scheduler)  # once more: a pipeline may give it timesteps of its own
        if vae is None and tuple(latents.shape[1:]) != (3, height, width):
            raise ModelError.unsupported(
                f"a {kind} has no vae, and denoises {tuple(latents.shape[1:])}, no pixels; it "
                "cannot be used as a classifier"
            )
        self._network = ConditionedNetwork(pipeline, started)

    @property
    def batch_size(self) -> int:
        """Rows a call of the network."""
        return self._batches.size

    def timesteps(self, fractions: torch.Tensor) -> torch.Tensor:
        """Map fractions in [0, 1) of the noise schedule to the model's timesteps."""
        return self.noising.timesteps(fractions)

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Encode images: (n, …) float32 latents on the CPU, the most probable ones, no draw.

        An image of another size is cut to the model's proportions about its centre and resized (bicubic).
        """
        height, width = self._size
        fitted = [ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.BICUBIC) for image in images]
        pixels = torch.from_numpy(np.stack([np.asarray(image, np.float32) for image in fitted]) / 127.5 - 1)
        vae = getattr(self.pipeline, "vae", None)
        pixels = pixels.permute(0, 3, 1, 2)
        if vae is None:
            return pixels.contiguous()  # it denoises pixels
        with torch.inference_mode(), precise(vae):
            # one at a time: a convolution's rounding may depend on the size of its batch
            return torch.cat([_encode(vae, image[None]) for image in pixels])

    def errors(
        self, latents: torch.Tensor, timesteps: torch.Tensor, noise: torch.Tensor, prompts: Sequence[str]
    ) -> np.ndarray:
        """Return the mean squared denoising error of each row: (n,) float32.

        ::

            e = w_t · mean (target(x, ε, t) − f(x_t, t, c))²        mean over the elements of the latents

        Each row is computed from its own arguments; which rows share a batch changes it by rounding alone.

        Parameters
        ----------
        latents : (n, …) clean latents x, as in `encode_images`.
        timesteps : (n,) as in `timesteps`.
        noise : (n, …) float32 standard normal ε.
        prompts : (n,) the text c of each row.

        Raises
        ------
        ModelError
            The pipeline cannot be started on a prompt, or shows its network something that is not known here.
        """
        rows = self._network.rows(prompts)

        def part(numbers: list[int]) -> np.ndarray:
            chunk = slice(numbers[0], numbers[-1] + 1)
            x, t, drawn = latents[chunk], timesteps[chunk], noise[chunk]
            with torch.inference_mode():
                noised = self._pack(self.noising.noised(x, drawn, t))
                target = self._pack(self.noising.target(x, drawn, t))
                predicted = self._network(noised, t, rows[chunk])
                squares = (predicted - target.to(predicted.device)).square().flatten(1).mean(dim=1).cpu()
                return np.asarray((self.noising.weights(t, self._weighting) * squares).numpy(), np.float32)

        errors = list(self._batches.results(range(len(rows)), part))
        return np.concatenate(errors) if errors else np.empty(0, np.float32)

    def _pack(self, latents: torch.Tensor) -> torch.Tensor:
        """Arrange latents as the network takes them: as they are, or as rows of patches (FLUX)."""
        expected = self._network.latent_shape
        if tuple(latents.shape[1:]) == expected:
            return latents
        pack = getattr(self.pipeline, "_pack_latents", None)
        packed = pack(latents, *latents.shape) if pack is not None and latents.ndim == 4 else latents
        if tuple(packed.shape[1:]) != expected:
            raise ModelError.unsupported(
                f"a {type(self.pipeline).__name__} denoises latents of shape {expected}, and its VAE makes "
                f"{tuple(latents.shape[1:])}; how one becomes the other is not known here"
            )
        return torch.as_tensor(packed)


def _require_one_scale(vae: Any) -> None:
    if vae.config.get("latents_mean") is not None or hasattr(vae, "bn"):
        raise ModelError.unsupported(
            f"a {type(vae).__name__} scales each channel of its latents apart; it is not supported"
        )


@contextmanager
def precise(vae: Any) -> Iterator[None]:
    """Make a VAE that overflows in float16 compute in float32, as its pipeline does."""
    upcast = bool(vae.config.get("force_upcast")) and vae.dtype == torch.float16
    if upcast:
        vae.to(torch.float32)
    try:
        yield
    finally:
        if upcast:
            vae.to(torch.float16)


def _encode(vae: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Encode one image as the networks of its pipeline expect it."""
    config = vae.config
    _require_one_scale(vae)
    try:
        encoded = vae.encode(pixels.to(vae.device, vae.dtype))
    except (RuntimeError, ValueError) as error:
        raise ModelError.unsupported(f"a {type(vae).__name__} cannot encode an image: {describe(error)}") from error
    latents = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latent
    shifted = latents.float() - (config.get("shift_factor") or 0.0)
    return torch.as_tensor(shifted * float(config.get("scaling_factor") or 1.0)).cpu()
