"""Generators from diffusers pipelines: any that draws an image from no more than a prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import diffusers

from clinometer._torch import dtype_name, resolve_device, resolve_dtype, torch
from clinometer.errors import ModelError
from clinometer.models import reference, weights
from clinometer.models.batching import batch_bounds
from clinometer.models.diffusers import loading
from clinometer.models.diffusers.conditioning import Conditioning
from clinometer.models.diffusers.denoiser import network_of
from clinometer.models.diffusers.generator import MARK, DiffusersGenerator
from clinometer.models.diffusers.mitigated import Mitigator, apply_lora
from clinometer.models.diffusers.settings import (
    CALL_NAMES,
    CallSettings,
    call_settings,
    edit_settings,
    negative_prompt_of,
    replaced_scheduler,
    scheduler_cards,
)
from clinometer.models.mitigation import find_mitigation
from clinometer.models.protocols import Card

SAFETY_CHECKERS = ("keep", MARK, "off")
OFFLOADING = ("model", "sequential")


@dataclass(frozen=True)
class Origin:
    """The origin of a pipeline, as its card records it."""

    name: str
    revision: str | None
    weights_sha256: str
    configuration_sha256: str
    notes: dict[str, Any] = field(default_factory=dict)


def load(
    source: str,
    *,
    steps: int | None = None,
    guidance_scale: float | None = None,
    prior_steps: int | None = None,
    prior_guidance_scale: float | None = None,
    edit_steps: int | None = None,
    edit_guidance_scale: float | None = None,
    height: int | None = None,
    width: int | None = None,
    prefer: Mapping[str, float] | None = None,
    negative_prompt: str | None = None,
    scheduler: str | None = None,
    lora: str | None = None,
    lora_scale: float | None = None,
    lora_partly: bool = False,
    safety_checker: str = "keep",
    batch_size: int | None = None,
    device: str | None = None,
    device_map: str | None = None,
    offload: str | None = None,
    dtype: str | None = None,
    compile: bool = False,
    vae_tiling: bool = False,
    variant: str | None = None,
    offline: bool = False,
    trust_remote_code: str | None = None,
    model_config: str | None = None,
    mitigation: str | None = None,
    name: str | None = None,
) -> DiffusersGenerator:
    """Load a diffusers pipeline from a directory, a safetensors file, or a hub id ``owner/name[@revision]``.

    Parameters
    ----------
    steps, guidance_scale, height, width : None takes the pipeline's own default. Guidance of 1 or less skips
        the unconditional pass. Where a pipeline has two guidances, it is the one that is on by default.
    prior_steps, prior_guidance_scale : the same for the prior of Kandinsky, UnCLIP and other models of two stages.
    edit_steps, edit_guidance_scale : the same for edits; None edits as it draws.
    prefer : steps, guidance and size where they are not given above, as far as the pipeline takes them.
    negative_prompt : what guidance steers away from; None is the pipeline's default, most often the empty
        prompt.
    scheduler : the name of a diffusers scheduler class that replaces the pipeline's, with the same
        configuration.
    lora : a low-rank adaptation to merge: a safetensors file, a directory or a hub id. One of ``clinometer mitigate``
        is left out of the images whose prompts its gate spares.
    lora_scale : how strongly; None is 1.
    lora_partly : whether a LoRA is merged of which fewer than nine in ten weights find a place in the model.
    safety_checker : keep, mark or off: what the pipeline's own checker flags is refused, or kept with a mark.
    batch_size : images a call; None leaves it to `DiffusersGenerator.fit_batch_size`. It changes an image by
        floating-point noise at most.
    device : auto, cpu, cuda, cuda:N, mps.
    device_map : how accelerate shares a pipeline out over devices, such as balanced.
    offload : model or sequential: parts wait in the CPU's memory, and come to the device when they are needed.
    dtype : auto (float16 on CUDA, float32 elsewhere), float32, float16, bfloat16.
    compile : compile the denoising network with torch.compile; the first batch then takes minutes.
    vae_tiling : decode in tiles, for large images in little memory; the seams change an image a little.
    variant : a variant of the weight files, such as fp16.
    offline : use the local cache only.
    trust_remote_code : the model's own name, where the code in its repository is trusted to run.
    model_config : for a safetensors file, the pipeline whose configuration it takes: a directory or a hub id.
    mitigation : the directory or file that ``clinometer mitigate`` wrote; None takes the ``mitigation.json`` that lies
        in the pipeline's directory, and ``none`` leaves it out, and the gate of a LoRA.
    name : the name in the card, where the directory's own says too little.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, gated, without safetensors, not a text-to-image pipeline, or an option does not fit.
    """
    if safety_checker not in SAFETY_CHECKERS:
        raise ModelError.expected_one_of(SAFETY_CHECKERS, safety_checker, field="safety_checker")
    if batch_size is not None and batch_size < 1:
        raise ModelError.out_of_range(f"found {batch_size}, expected 1 or more", field="batch_size")
    no_scale = {"lora_scale": lora_scale, "lora_partly": lora_partly or None} if lora is None else {}
    _require_absent(no_scale, "there is no lora to scale; name one, or leave it out")
    chosen_device = resolve_device(device)
    precision = resolve_dtype(dtype, chosen_device)
    file = weights.user_path(mitigation) if mitigation not in (None, "none") else None
    if weights.is_single_file(source):
        refused = {"device_map": device_map, "variant": variant, "trust_remote_code": trust_remote_code}
        _require_absent(refused, "a single file has no such choice; leave it out")
        pipeline, origin = _from_file(source, model_config, precision, offline)
    else:
        _require_absent({"model_config": model_config}, "only a single safetensors file takes one; leave it out")
        checkpoint = weights.locate(
            source, lambda repository, revision: loading.download(repository, revision, variant, offline)
        )
        file = find_mitigation(checkpoint.path) if mitigation is None else file
        pipeline, origin = _from_checkpoint(
            checkpoint, precision, variant=variant, device_map=device_map, trusted=trust_remote_code,
            without=("safety_checker",) if safety_checker == "off" else (), offline=offline,
        )  # fmt: skip
    if scheduler is not None:
        pipeline.scheduler = replaced_scheduler(scheduler, pipeline)
    if safety_checker == "off" and getattr(pipeline, "safety_checker", None) is not None:
        pipeline.safety_checker = None
    settings: dict[str, Any] = {
        "steps": steps, "guidance_scale": guidance_scale, "prior_steps": prior_steps,
        "prior_guidance_scale": prior_guidance_scale, "edit_steps": edit_steps,
        "edit_guidance_scale": edit_guidance_scale, "height": height, "width": width, "prefer": prefer,
        "negative_prompt": negative_prompt,
    }  # fmt: skip
    chosen_settings(pipeline, **settings)  # what is refused is refused before the weights are moved
    further: dict[str, Any] = {key: True for key, is_on in (("compiled", compile), ("vae_tiling", vae_tiling)) if is_on}
    if safety_checker == MARK:
        _keep_pictures(pipeline, source)
        further["safety_checker"] = MARK
    mitigator = None if file is None else Mitigator.of(pipeline, file, origin.name, origin.weights_sha256, lora)
    if lora is not None:
        further["lora"], gated, placed = apply_lora(
            pipeline, lora, 1.0 if lora_scale is None else lora_scale, offline=offline, gated=mitigation != "none",
            partly=lora_partly,
        )  # fmt: skip
        origin = replace(origin, notes=origin.notes | {"lora": f"{placed} found a place in the model"})
        if gated is not None and mitigator is not None:
            raise ModelError.conflict(
                f"{lora} is a mitigation, and {file} is another; a model can carry one. Leave one out, or give "
                "--mitigation none, which leaves out that one and the LoRA's gate",
                field="mitigation",
            )
        mitigator = mitigator if gated is None else Mitigator(pipeline, gated, {})
    _place(pipeline, chosen_device, device_map=device_map, offload=offload, vae_tiling=vae_tiling, compiled=compile)
    pipeline.set_progress_bar_config(disable=True)
    completed = dict if mitigator is None else mitigator.completed
    opened = OpenedPipeline(
        pipeline, origin, name, chosen_device.type, further, compile, completed, mitigator=mitigator
    )
    return opened.generator(**settings, batch_size=batch_size)


@dataclass(frozen=True)
class OpenedPipeline:
    """A pipeline on its device: what generators at any settings of a call have in common.

    Attributes
    ----------
    origin : where it came from. ``name`` is what its card calls it, where that says too little.
    device : the kind of device.
    further : what its card records besides the settings of a call.
    compiled : whether its network is compiled.
    defaults : settings of a call → the same, completed with the defaults of the caller that loaded it.
    batch_sizes : those that memory was found to hold, by the settings that say how much a batch takes.
    mitigator : what a mitigation does to each batch.
    """

    pipeline: Any
    origin: Origin
    name: str | None
    device: str
    further: Mapping[str, Any]
    compiled: bool = False
    defaults: Callable[[dict[str, Any]], dict[str, Any]] = dict
    batch_sizes: dict[Any, int] = field(default_factory=dict)
    mitigator: Mitigator | None = None

    def generator(self, *, batch_size: int | None = None, **options: Any) -> DiffusersGenerator:
        """Draw with it at some settings; ``options`` are those of `chosen_settings`.

        Raises
        ------
        ModelError
            The pipeline has no such setting, or cannot take the value.
        """
        settings, edits, negative_prompt = chosen_settings(self.pipeline, **self.defaults(options))
        recorded = settings.recorded | edits.recorded | {"negative_prompt": negative_prompt} | dict(self.further)
        if self.mitigator is not None:
            acts_on = self.mitigator.mitigation.acts_on
            if acts_on == "unconditional embedding" and not settings.guided:
                raise ModelError.conflict(
                    "it offsets the unconditional embedding, which only guidance uses, and guidance is off; give a "
                    "guidance above 1",
                    field="mitigation",
                )
            if acts_on != "weights":  # that of a LoRA is recorded with it
                recorded["mitigation"] = self.mitigator.mitigation.settings
        return DiffusersGenerator(
            self.pipeline,
            _card(self.origin, self.name, self.pipeline, recorded),
            call=settings.call,
            conditioning=Conditioning(
                self.pipeline,
                size=settings.size,
                guided=settings.guided,
                negative_prompt=negative_prompt,
                mitigator=self.mitigator,
            ),
            batch_size=batch_size or batch_bounds(self.device, settings.size, compiled=self.compiled),
            edit_call=edits.call,
            opened=self,
        )


def chosen_settings(
    pipeline: Any,
    *,
    prefer: Mapping[str, float] | None = None,
    negative_prompt: str | None = None,
    edit_steps: int | None = None,
    edit_guidance_scale: float | None = None,
    **options: float | None,
) -> tuple[CallSettings, CallSettings, str | None]:
    """Fix the settings of drawing, those of edits, and the negative prompt; parameters as in `load`.

    Raises
    ------
    ModelError
        The pipeline has no such setting, or cannot take the value.
    """
    drawn = {name: options.get(name) for name in CALL_NAMES}
    settings = call_settings(pipeline, prefer=prefer, **drawn)
    edits = edit_settings(
        pipeline, settings, prefer=prefer or {}, edit_steps=edit_steps, edit_guidance_scale=edit_guidance_scale
    )
    return settings, edits, negative_prompt_of(pipeline, settings, negative_prompt)


@wraps(load, assigned=())  # its signature says which options there are
def load_reference(source: str = "", **options: Any) -> DiffusersGenerator:
    """Load the reference model that ships with this package; ``options`` are those of `load`."""
    if source:
        raise ModelError.unknown_name(f"the reference model takes nothing after its name; found {source!r}")
    settings = {"name": "reference"} | options
    generator = load(str(reference.pipeline_path()), **_as_made_for(settings))
    assert isinstance(generator.opened, OpenedPipeline)
    generator.opened = replace(generator.opened, defaults=_as_made_for)
    return generator


def _as_made_for(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the reference model was made for, where nothing else is asked or preferred."""
    made_for = reference.card()["defaults"]
    wished = {key for key in ("steps", "guidance_scale") if key in (options.get("prefer") or {})}
    defaults = {"steps": made_for["steps"], "guidance_scale": made_for["guidance"]}
    settings = {key: value for key, value in options.items() if value is not None}
    return {key: value for key, value in defaults.items() if key not in wished} | settings


def _require_absent(options: dict[str, Any], reason: str) -> None:
    for key, value in options.items():
        if value is not None:
            raise ModelError.unsupported(f"found {value!r}, but {reason}", field=key)


def _keep_pictures(pipeline: Any, source: str) -> None:
    """Make a pipeline's checker judge copies, which it blackens, and keep its flags as its ``marks`` (decision 35).

    The pipeline sees no flags: it would leave a flagged picture in the wrong range of values.
    """
    checker: Any = getattr(pipeline, "safety_checker", None)
    if checker is None:
        raise ModelError.unsupported(
            f"found {MARK!r}, but {source} has no checker of its own; leave it out", field="safety_checker"
        )
    judge, checker.marks = checker.forward, []

    def forward(*positional: Any, images: Any, **options: Any) -> tuple[Any, ...]:
        _, *kinds = judge(*positional, images=deepcopy(images), **options)
        checker.marks += [any(flags) for flags in zip(*kinds, strict=True)]
        return (images, *([False] * len(images) for _ in kinds))

    checker.forward = forward


def _place(
    pipeline: Any, device: torch.device, *, device_map: str | None, offload: str | None, vae_tiling: bool,
    compiled: bool,
) -> None:  # fmt: skip
    """Move a pipeline to its device, share it out, or have its parts wait for their turn; prepare its parts."""
    if offload not in (None, *OFFLOADING):
        raise ModelError.expected_one_of(OFFLOADING, offload, field="offload")
    if offload is not None and device_map is not None:
        raise ModelError.conflict(
            "both say where a model's parts lie; give one of them", field=("offload", "device_map")
        )
    if offload is not None and device.type == "cpu":
        raise ModelError.unsupported(
            f"found {offload!r}, but there is nothing to offload from on the CPU; leave it out", field="offload"
        )
    if offload == "model":
        pipeline.enable_model_cpu_offload(device=device)
    elif offload == "sequential":
        pipeline.enable_sequential_cpu_offload(device=device)
    elif device_map is None:
        pipeline.to(device)
    if vae_tiling:
        vae: Any = getattr(pipeline, "vae", None)
        if not hasattr(vae, "enable_tiling"):
            raise ModelError.unsupported(
                f"the {type(vae).__name__} of a {type(pipeline).__name__} cannot; leave it out", field="vae_tiling"
            )
        vae.enable_tiling()
    if compiled:
        network_of(pipeline).compile()


def _from_file(source: str, model_config: str | None, dtype: torch.dtype, offline: bool) -> tuple[Any, Origin]:
    """Open a single file with its configuration."""
    checkpoint, file, tensors = loading.checked_file(source)
    config = loading.configuration_of(file, tensors, model_config, offline)
    pipeline, folders = loading.open_single_file(file, tensors, config, dtype=dtype)
    predicts = loading.prediction_of(file, tensors, pipeline, config)
    hashes = [weights.hash_files([file], file.parent)]
    if folders:
        hashes.append(weights.hash_files(weights.weight_files(config.name, folders), config.path))
    return pipeline, Origin(
        name=checkpoint.name,
        revision=None,
        weights_sha256=_join_hashes(hashes),
        configuration_sha256=weights.hash_files(
            weights.configuration_files(weights.component_folders(config)), config.path
        ),
        notes={"configuration": config.name, "configuration revision": config.revision}
        | ({"prediction type": predicts} if predicts else {}),
    )


def _from_checkpoint(
    checkpoint: weights.Source, dtype: torch.dtype, *, variant: str | None, device_map: str | None, trusted: str | None,
    without: tuple[str, ...], offline: bool,
) -> tuple[Any, Origin]:  # fmt: skip
    """Open a pipeline's directory; its origin covers the pipelines that it is connected to."""
    pipeline = loading.open_pipeline(
        checkpoint, dtype=dtype, variant=variant, device_map=device_map, trusted=trusted, without=without
    )
    sources = [checkpoint, *loading.connected_sources(checkpoint, offline)]
    of_weights, of_configurations = [], []
    for source in sources:
        folders = weights.component_folders(source)
        of_weights.append(weights.hash_files(weights.weight_files(source.name, folders, variant, without), source.path))
        of_configurations.append(weights.hash_files(weights.configuration_files(folders), source.path))
    return pipeline, Origin(
        name=checkpoint.name,
        revision=checkpoint.revision,
        weights_sha256=_join_hashes(of_weights),
        configuration_sha256=_join_hashes(of_configurations),
        notes={f"connected {source.name}": source.revision for source in sources[1:]}
        | loading.unstated(checkpoint.path, pipeline),
    )


def _card(origin: Origin, name: str | None, pipeline: Any, settings: dict[str, Any]) -> Card:
    """Record what an image depends on (neither device nor batch size), and in the notes what it does not."""
    modules = [module for module in pipeline.components.values() if isinstance(module, torch.nn.Module)]
    schedulers = scheduler_cards(pipeline)
    return Card(
        kind="generator",
        name=name or origin.name,
        family=f"diffusers/{type(pipeline).__name__}",
        revision=origin.revision,
        weights_sha256=origin.weights_sha256,
        settings=settings
        | schedulers
        | {
            "safety_checker": settings.get("safety_checker", getattr(pipeline, "safety_checker", None) is not None),
            "dtype": dtype_name(pipeline.dtype),
            "noise": "torch CPU generator for each image, float32",
            "configuration_sha256": origin.configuration_sha256,
        },
        notes={
            "parameters": sum(parameter.numel() for module in modules for parameter in module.parameters()),
            "diffusers": diffusers.__version__,
            "torch": torch.__version__,
        }
        | origin.notes,
    )


def _join_hashes(hashes: list[str]) -> str:
    """Return one hash of one source's files, or of several sources' together."""
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()
