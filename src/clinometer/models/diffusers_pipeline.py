"""Generators from diffusers pipelines: Stable Diffusion, and any other that needs no more than a prompt."""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import diffusers

from clinometer._torch import dtype_name, resolve_device, resolve_dtype, torch
from clinometer.errors import ModelError
from clinometer.models.conditioning import Conditioning
from clinometer.models.diffusers_generator import DiffusersGenerator
from clinometer.models.protocols import Card
from clinometer.models.weights import (
    Source,
    configuration_files,
    describe,
    hash_files,
    locate,
    quiet_loading,
    weight_files,
)

CALL_NAMES = {"steps": "num_inference_steps"}
"""Settings whose name in a pipeline's ``__call__`` differs from ours."""


def load(
    source: str,
    *,
    steps: int | None = None,
    guidance_scale: float | None = None,
    height: int | None = None,
    width: int | None = None,
    negative_prompt: str | None = None,
    scheduler: str | None = None,
    batch_size: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    variant: str | None = None,
    offline: bool = False,
    name: str | None = None,
) -> DiffusersGenerator:
    """Load a diffusers pipeline from a directory or a hub id ``owner/name[@revision]``.

    Parameters
    ----------
    steps, guidance_scale, height, width : None takes the pipeline's own default. Guidance of 1 or less skips
        the unconditional pass.
    negative_prompt : what guidance steers away from; None is the pipeline's default, most often the empty
        prompt.
    scheduler : the name of a diffusers scheduler class that replaces the pipeline's, with the same
        configuration.
    batch_size : images a call; None chooses by device and size. It changes an image by floating-point noise
        at most.
    device : auto, cpu, cuda, cuda:N, mps.
    dtype : auto (float16 on CUDA, float32 elsewhere), float32, float16, bfloat16.
    variant : a variant of the weight files, such as fp16.
    offline : use the local cache only.
    name : the name in the card, where the directory's own says too little.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, gated, without safetensors, not a text-to-image pipeline, or an option does not fit.
    """
    found = locate(source, lambda repository, revision: _download(repository, revision, variant, offline))
    chosen_device = resolve_device(device)
    pipeline = _open(found, resolve_dtype(dtype, chosen_device), variant)
    if scheduler is not None:
        pipeline.scheduler = _scheduler(scheduler, pipeline)
    settings = _settings(pipeline, steps=steps, guidance_scale=guidance_scale, height=height, width=width)
    size = (settings["height"], settings["width"]) if "height" in settings else None
    if batch_size is not None and batch_size < 1:
        raise ModelError(f"batch_size: found {batch_size}, expected 1 or more")
    pipeline.to(chosen_device)
    pipeline.set_progress_bar_config(disable=True)
    guided = settings.get("guidance_scale", 0) > 1
    return DiffusersGenerator(
        pipeline,
        _card(name or found.name, found, pipeline, variant, settings | {"negative_prompt": negative_prompt}),
        call={CALL_NAMES.get(key, key): value for key, value in settings.items()},
        conditioning=Conditioning(pipeline, size=size, guided=guided, negative_prompt=negative_prompt),
        batch_size=batch_size or default_batch_size(chosen_device.type, size),
    )


def load_reference(source: str = "", **options: Any) -> DiffusersGenerator:
    """Load the reference model that ships with this package; ``options`` are those of `load`."""
    from clinometer.models import reference

    if source:
        raise ModelError(f"the reference model takes nothing after its name; found {source!r}")
    made_for = reference.card()["defaults"]
    defaults = {"name": "reference", "steps": made_for["steps"], "guidance_scale": made_for["guidance"]}
    given = {key: value for key, value in options.items() if value is not None}
    return load(str(reference.pipeline_path()), **(defaults | given))


def default_batch_size(device: str, size: tuple[int, int] | None) -> int:
    """Choose how many images a call draws: as many pixels as a common device holds, at most 64 images."""
    height, width = size or (1024, 1024)
    budget = 8 * 512 * 512 if device == "cuda" else 2 * 256 * 256
    return max(1, min(64, budget // (height * width)))


def _download(repository: str, revision: str | None, variant: str | None, offline: bool) -> str:
    path: str = diffusers.DiffusionPipeline.download(
        repository, revision=revision, variant=variant, use_safetensors=True, local_files_only=offline
    )
    return path


def _component_folders(found: Source) -> list[Path]:
    """List the folders of the components that ``model_index.json`` names, without the scheduler's."""
    index = found.path / "model_index.json"
    try:
        components = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{found.name}/model_index.json: {type(error).__name__}; expected a diffusers pipeline, "
            "as DiffusionPipeline.save_pretrained writes it"
        ) from error
    names = [key for key in sorted(components) if not key.startswith("_") and key != "scheduler"]
    return [found.path / key for key in names if (found.path / key).is_dir()]


def _open(found: Source, dtype: torch.dtype, variant: str | None) -> Any:
    """Read a pipeline from its directory and check that a prompt is all it needs."""
    # Read for its error alone: it names a pickle, where diffusers would say that a file is missing.
    weight_files(found.name, _component_folders(found), variant)
    try:
        with quiet_loading():
            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                found.path, dtype=dtype, variant=variant, use_safetensors=True, local_files_only=True
            )
    except Exception as error:  # missing files, unknown classes, mismatched shapes, remote code: many kinds
        raise ModelError(f"{found.name}: diffusers cannot load it: {describe(error)}") from error
    parameters = inspect.signature(pipeline.__call__).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD]
    named = {each.name for each in parameters}
    takes_prompt_and_seed = {"prompt", "generator"} <= named
    # Pipelines that change a given image declare it optional too, and stop without it.
    if not takes_prompt_and_seed or set(needed) - {"prompt"} or "image" in named:
        raise ModelError(
            f"{found.name}: a {type(pipeline).__name__} needs more than a prompt; expected a text-to-image pipeline"
        )
    return pipeline


def _scheduler(name: str, pipeline: Any) -> Any:
    kind: Any = getattr(diffusers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, diffusers.SchedulerMixin)):
        known = ", ".join(each.__name__ for each in pipeline.scheduler.compatibles)
        raise ModelError(f"scheduler: found {name!r}, expected a class of diffusers: {known}")
    replaced: Any = kind
    return replaced.from_config(pipeline.scheduler.config)


def _settings(pipeline: Any, **asked: float | None) -> dict[str, Any]:
    """Fix steps, guidance and size: what was asked, else the pipeline's default; only what it takes."""
    sides = _default_sides(pipeline)
    parameters = inspect.signature(pipeline.__call__).parameters
    settings: dict[str, Any] = {}
    for key, value in asked.items():
        parameter = parameters.get(CALL_NAMES.get(key, key))
        if parameter is None and value is not None:
            raise ModelError(f"{key}: a {type(pipeline).__name__} has no such setting; leave it out")
        if parameter is not None:
            settings[key] = value if value is not None else sides.get(key, parameter.default)
    settings = {key: value for key, value in settings.items() if value is not None}
    if settings.get("steps", 1) < 1:
        raise ModelError(f"steps: found {settings['steps']}, expected 1 or more")
    multiple = max(8, getattr(pipeline, "vae_scale_factor", 8))
    for key in {"height", "width"} & set(settings):
        if settings[key] < 1 or settings[key] % multiple:
            raise ModelError(f"{key}: found {settings[key]}, expected a positive multiple of {multiple}")
    return settings


def _default_sides(pipeline: Any) -> dict[str, int]:
    """Read the size a pipeline was trained for: its backbone's latent size times its VAE's scale."""
    backbone = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
    latent = getattr(getattr(backbone, "config", None), "sample_size", None)
    scale = getattr(pipeline, "vae_scale_factor", None)
    if latent is None or scale is None:
        return {}
    height, width = (latent, latent) if isinstance(latent, int) else latent
    return {"height": height * scale, "width": width * scale}


def _card(name: str, found: Source, pipeline: Any, variant: str | None, settings: dict[str, Any]) -> Card:
    """Record what an image depends on (neither device nor batch size), and in the notes what it does not."""
    folders = _component_folders(found)
    modules = [each for each in pipeline.components.values() if isinstance(each, torch.nn.Module)]
    return Card(
        kind="generator",
        name=name,
        family=f"diffusers/{type(pipeline).__name__}",
        revision=found.revision,
        weights_sha256=hash_files(weight_files(found.name, folders, variant), found.path),
        settings=settings
        | {
            "scheduler": _scheduler_card(pipeline.scheduler),
            "safety_checker": getattr(pipeline, "safety_checker", None) is not None,
            "dtype": dtype_name(pipeline.dtype),
            "noise": "torch CPU generator for each image, float32",
            "configuration_sha256": hash_files(configuration_files(folders), found.path),
        },
        notes={
            "parameters": sum(each.numel() for module in modules for each in module.parameters()),
            "diffusers": diffusers.__version__,
            "torch": torch.__version__,
        },
    )


def _scheduler_card(scheduler: Any) -> dict[str, str]:
    config = {key: value for key, value in scheduler.config.items() if not key.startswith("_")}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()
    return {"class": type(scheduler).__name__, "config_sha256": digest}
