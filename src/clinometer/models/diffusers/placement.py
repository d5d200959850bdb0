"""Where a pipeline's parts lie and how they compute: device, offloading, compilation, tiling."""

from __future__ import annotations

from typing import Any

from clinometer._torch import torch
from clinometer.errors import ModelError
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
                f"vae_tiling: the {type(vae).__name__} of a {type(pipeline).__name__} cannot; leave it out"
            )
        vae.enable_tiling()  # type: ignore[union-attr]
    if compiled:
        network_of(pipeline).compile()


def _offload(pipeline: Any, device: torch.device, offload: str, device_map: str | None) -> None:
    if offload not in OFFLOADING:
        raise ModelError(f"offload: found {offload!r}, expected {' or '.join(OFFLOADING)}")
    if device_map is not None:
        raise ModelError("offload and device_map: both say where a model's parts lie; give one of them")
    if device.type == "cpu":
        raise ModelError(f"offload: found {offload!r}, but there is nothing to offload from on the CPU; leave it out")
    if offload == "model":
        pipeline.enable_model_cpu_offload(device=device)
    else:
        pipeline.enable_sequential_cpu_offload(device=device)


def settings_of(*, compiled: bool, vae_tiling: bool) -> dict[str, bool]:
    """What of this can change an image, as a card records it; nothing where all is off."""
    return {name: True for name, on in (("compiled", compiled), ("vae_tiling", vae_tiling)) if on}
