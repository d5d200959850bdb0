"""Whole models in one safetensors file, in the layout of their authors: Stable Diffusion and what diffusers reads so.

The file holds weights alone. What they are put together by (classes, sizes, scheduler, vocabularies) is in the
configuration of a diffusers pipeline: a directory, or a repository on the hub of which only the small files are read.
What the file leaves out (FLUX often comes without autoencoder and text encoders) is taken from that directory, where
it has the weights.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from clinometer._torch import torch
from clinometer.errors import ModelError, ModelNotFoundError
from clinometer.models.diffusers.completeness import require_values, require_vocabularies, whole_components
from clinometer.models.diffusers.loading import model_index, pipeline_class, require_text_to_image
from clinometer.models.weights import (
    PICKLES,
    Source,
    describe,
    in_words,
    locate,
    named_by,
    quiet_loading,
    user_path,
    weight_files,
)

CONFIGURATION = ("*.json", "*.txt", "*.model")
"""What is fetched of a repository that serves as configuration: no weights."""

LORA_MARKS = (".lora_", "lora_unet_", "lora_te", ".lora.", "hada_w1", "lokr_w1")
DENOISER = "model.diffusion_model."
AUTOENCODERS = ("first_stage_model.", "vae.")
TEXT_ENCODERS = ("cond_stage_model.", "conditioner.embedders.", "text_encoders.clip")
T5 = "text_encoders.t5xxl."
FALLBACK = "v1"
"""What diffusers takes a file for that it does not know."""


def checked_file(spec: str) -> tuple[Source, Path, dict[str, Any]]:
    """Look into a file without reading its weights: where it is, and its tensors by name, on the meta device.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, a pickle, damaged, a LoRA, or a part of a model.
    """
    file = user_path(spec)
    if not file.is_file():
        raise ModelNotFoundError(f"no file {spec!r}; give a safetensors file, a pipeline's directory, or a hub id")
    if file.suffix != ".safetensors":
        kind = "a pickle can run code when loaded" if file.suffix in PICKLES else "no model is read from such a file"
        raise ModelError(
            f"{file.name}: {kind}; expected a .safetensors file. Choose one, or convert it where you trust it, with "
            "safetensors.torch.save_file"
        )
    tensors = _tensors(file)
    if any(mark in name for name in tensors for mark in LORA_MARKS):
        raise ModelError(f"{file.name}: it is a LoRA and no model of its own; give: --model BASE --lora {file.name}")
    if not any(name.startswith(DENOISER) for name in tensors) and _kind_of(tensors) == FALLBACK:
        first = next(iter(tensors), "none")
        raise ModelError(
            f"{file.name}: no whole model in its authors' layout (its first weight is {first}); a part of a diffusers "
            "pipeline is loaded by the pipeline's directory"
        )
    return Source(name=file.stem, path=file.parent), file, tensors


def configuration_of(file: Path, tensors: Mapping[str, Any], config: str | None, offline: bool) -> Source:
    """Find the configuration: what was asked for, else the repository that diffusers knows for such weights.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there and cannot be downloaded.
    """
    from huggingface_hub import snapshot_download

    def fetch(repository: str, revision: str | None) -> str:
        path: str = snapshot_download(
            repository, revision=revision, local_files_only=offline, allow_patterns=list(CONFIGURATION)
        )
        return path

    if config is not None:
        with named_by("model_config"):
            return locate(config, fetch)
    repository = _repository_for(tensors)
    try:
        return locate(repository, fetch)
    except ModelError as error:
        raise ModelError(
            f"{file.name}: weights alone, without the configuration of {error}; or give another as --model-config"
        ) from error


def open_single_file(
    file: Path, tensors: Collection[str], config: Source, *, dtype: torch.dtype
) -> tuple[Any, list[Path]]:
    """Put a pipeline together from a file and a configuration; return it and the folders that gave weights too.

    Raises
    ------
    ModelError
        The pipeline's class reads no single file, the configuration does not fit, or weights are missing in both.
    """
    kind = pipeline_class(config, model_index(config).get("_class_name"))
    if not hasattr(kind, "from_single_file"):
        raise ModelError(
            f"{file.name}: diffusers reads no such pipeline ({config.name}) from one file; give a pipeline's directory"
        )
    folders = _supplied(config, tensors)
    try:
        with quiet_loading(), whole_components(config.name):
            components = {name: _load_component(config, name, dtype) for name in folders}
            pipeline = kind.from_single_file(
                str(file), config=str(config.path), torch_dtype=dtype, local_files_only=True, **components
            )
    except ModelError:
        raise
    except Exception as error:  # components that are missing, shapes that differ: many kinds
        raise ModelError(
            f"{file.name}: it does not fit the configuration {config.name}: {in_words(error)}; "
            "give --model-config with a pipeline of its kind, with weights where the file has none"
        ) from error
    require_values(file.name, pipeline, "give --model-config with a whole pipeline that has them")
    require_vocabularies(config.name, pipeline)
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.eval()  # diffusers leaves T5 in training: its dropout would draw another image each time
    require_text_to_image(file.name, pipeline)
    return pipeline, list(folders.values())


def _tensors(file: Path) -> dict[str, Any]:
    """The file's tensors by name, with shapes and no values."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            names = sorted(opened.keys())
            return {name: torch.empty(opened.get_slice(name).get_shape(), device="meta") for name in names}
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file.name}: not a whole safetensors file ({describe(error)}); download it anew") from error


def _kind_of(tensors: Mapping[str, Any]) -> str:
    from diffusers.loaders.single_file_utils import infer_diffusers_model_type

    return str(infer_diffusers_model_type(tensors))


def _repository_for(tensors: Mapping[str, Any]) -> str:
    from diffusers.loaders.single_file_utils import fetch_diffusers_config

    return str(fetch_diffusers_config(tensors)["pretrained_model_name_or_path"])


def _supplied(config: Source, tensors: Collection[str]) -> dict[str, Path]:
    """The components that the configuration has weights of and the file has not, with their folders."""
    supplied = {}
    for name, declared in model_index(config).items():
        folder = config.path / name
        if not isinstance(declared, list) or not folder.is_dir() or _holds(tensors, name, declared[1]):
            continue
        if any(file.suffix in (".safetensors", *PICKLES) for file in folder.iterdir()):
            weight_files(config.name, [folder])  # for its error: it names a pickle
            supplied[name] = folder
    return supplied


def _load_component(config: Source, name: str, dtype: torch.dtype) -> Any:
    library, kind = model_index(config)[name]
    component_class = getattr(importlib.import_module(library), kind)
    return component_class.from_pretrained(config.path / name, torch_dtype=dtype, use_safetensors=True)


def _holds(tensors: Collection[str], component: str, kind: str) -> bool:
    """Whether the file has weights of a component: autoencoder and text encoders are known by their names in it."""
    if component == "vae":
        return any(name.startswith(AUTOENCODERS) for name in tensors)
    if component.startswith("text_encoder"):
        return any(name.startswith(T5 if "T5" in kind else TEXT_ENCODERS) for name in tensors)
    return True
