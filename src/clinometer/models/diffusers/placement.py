"""Where a pipeline's parts lie and how they compute: device, offloading, compilation, tiling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clinometer._torch import torch
from clinometer.errors import ModelError
from clinometer.models.batching import release_memory
from clinometer.models.diffusers.backbone import network_of

OFFLOADING = ("model", "sequential")


def place(
    pipeline: Any,
    device: torch.device,
    *,
    device_map: str | None,
    offload: str | None,
    compiled: bool,
    vae_tiling: bool,
) -> None:
    """Move a pipeline to its device, or share it out, and prepare its parts.

    Raises
    ------
    ModelError
        Two ways of sharing memory are asked for at once, or this pipeline or machine has none of the kind.
    """
    if offload is not None:
        _offload(pipeline, device, offload, device_map)
    elif device_map is None:
        pipeline.to(device)
    if vae_tiling:
        vae = getattr(pipeline, "vae", None)
        if not hasattr(vae, "enable_tiling"):
            raise ModelError(
                f"the {type(vae).__name__} of a {type(pipeline).__name__} cannot; leave it out", field="vae_tiling"
            )
        vae.enable_tiling()  # type: ignore[union-attr]
    if compiled:
        network_of(pipeline).compile()


def _offload(pipeline: Any, device: torch.device, offload: str, device_map: str | None) -> None:
    if offload not in OFFLOADING:
        raise ModelError(f"found {offload!r}, expected {' or '.join(OFFLOADING)}", field="offload")
    if device_map is not None:
        raise ModelError("both say where a model's parts lie; give one of them", field=("offload", "device_map"))
    if device.type == "cpu":
        raise ModelError(
            f"found {offload!r}, but there is nothing to offload from on the CPU; leave it out", field="offload"
        )
    if offload == "model":
        pipeline.enable_model_cpu_offload(device=device)
    else:
        pipeline.enable_sequential_cpu_offload(device=device)


def parked(pipeline: Any, *, compiled: bool) -> torch.device:
    """Move the weights of a pipeline to the CPU's memory. Returns the device that they leave.

    Raises
    ------
    ModelError
        Where its parts lie is not a matter of one device, or of the weights alone.
    """
    device: torch.device = pipeline._execution_device
    if device.type == "cpu":
        return device
    modules = _modules(pipeline)
    if compiled or any(hasattr(module, "_hf_hook") for part in modules for module in part.modules()):
        raise ModelError("its network is compiled for where it is, or its parts come and go; load it again")
    _move(modules, torch.device("cpu"))
    release_memory()
    return device


def unparked(pipeline: Any, device: torch.device) -> None:
    """Move the weights of a pipeline back."""
    _move(_modules(pipeline), device)


def _move(modules: Iterable[torch.nn.Module], device: torch.device) -> None:
    """Move modules by themselves: a pipeline warns of half precision on the CPU, where nothing will be computed."""
    for module in modules:
        module.to(device)


def _modules(pipeline: Any) -> list[torch.nn.Module]:
    return [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]


def settings_of(*, compiled: bool, vae_tiling: bool) -> dict[str, bool]:
    """What of this can change an image, as a card records it; nothing where all is off."""
    return {name: True for name, on in (("compiled", compiled), ("vae_tiling", vae_tiling)) if on}
