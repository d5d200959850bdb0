"""A pipeline's denoising network, called as the pipeline itself calls it.

Every text-to-image pipeline of diffusers conditions its network in its own way: text states, pooled states, sizes,
position ids, guidance. None of it is rebuilt here. The pipeline is started once for each prompt and stopped at the door
of its network; what it brought along is kept, and later calls change the latents and the timestep only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clinometer._cores import one_thread
from clinometer._torch import torch
from clinometer.errors import ModelError
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
