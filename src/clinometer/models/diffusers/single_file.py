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
from typing import Any, Final

from clinometer._torch import torch
from clinometer.errors import ModelError, ModelNotFoundError
from clinometer.models.diffusers.loading import pipeline_class, require_text_to_image, require_whole, whole_components
from clinometer.models.weights import (
    PICKLES,
    Source,
    describe,
    in_words,
    locate_files,
    model_index,
    named_by,
    quiet_loading,
    user_path,
    weight_files,
)

CONFIGURATION = ("*.json", "*.txt", "*.model")
"""The files that are downloaded of a repository that serves as configuration: no weights."""

LORA_MARKS = (".lora_", "lora_unet_", "lora_te", ".lora.", "hada_w1", "lokr_w1")
DENOISER = "model.diffusion_model."
AUTOENCODERS = ("first_stage_model.", "vae.")
TEXT_ENCODERS = ("cond_stage_model.", "conditioner.embedders.", "text_encoders.clip")
T5 = "text_encoders.t5xxl."
FALLBACK = "v1"
"""The type that diffusers infers for a file that it does not know."""


def checked_file(spec: str) -> tuple[Source, Path, dict[str, Any]]:
    """Look into a file without reading its weights: where it is, and its tensors by name, on the meta device.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, a pickle, damaged, a LoRA, or a part of a model.
    """
    from diffusers.loaders.single_file_utils import infer_diffusers_model_type
    from safetensors import SafetensorError, safe_open

    file = user_path(spec)
    if not file.is_file():
        raise ModelNotFoundError(f"no file {spec!r}; give a safetensors file, a pipeline's directory, or a hub id")
    if file.suffix != ".safetensors":
        kind = "a pickle can run code when loaded" if file.suffix in PICKLES else "no model is read from such a file"
        raise ModelError.untrusted(
            f"{file.name}: {kind}; expected a .safetensors file. Choose one, or convert it where you trust it, with "
            "safetensors.torch.save_file"
        )
    try:
        with safe_open(file, framework="pt") as opened:
            shapes = {name: opened.get_slice(name).get_shape() for name in sorted(opened.keys())}
            tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    except (SafetensorError, OSError) as error:
        raise ModelError.corrupt(
            f"{file.name}: not a whole safetensors file ({describe(error)}); download it again"
        ) from error
    if any(mark in name for name in tensors for mark in LORA_MARKS):
        raise ModelError.unsupported(
            f"{file.name}: it is a LoRA and no model of its own; give: --model BASE --lora {file.name}"
        )
    if not any(name.startswith(DENOISER) for name in tensors) and infer_diffusers_model_type(tensors) == FALLBACK:
        first = next(iter(tensors), "none")
        raise ModelError.incomplete(
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
    if config is not None:
        with named_by("model_config"):
            return locate_files(config, CONFIGURATION, offline=offline)
    from diffusers.loaders.single_file_utils import fetch_diffusers_config

    repository = str(fetch_diffusers_config(tensors)["pretrained_model_name_or_path"])
    try:
        return locate_files(repository, CONFIGURATION, offline=offline)
    except ModelError as error:
        raise ModelError.incomplete(
            f"{file.name}: weights alone, without the configuration of {error}; or give another as --model-config"
        ) from error


_PREDICTIONS: Final = {"v": "v_prediction", "v_prediction": "v_prediction", "v-prediction": "v_prediction",
                       "eps": "epsilon", "epsilon": "epsilon"}  # fmt: skip


def prediction_of(file: Path, tensors: Collection[str], pipeline: Any, config: Source) -> str:
    """Compare a file's prediction type with the configuration; return what is known, in words.

    Drawn as if it predicted the noise, a network that predicts the velocity gives grey or burnt images. A file says it
    by a weight called ``v_pred``, or by the metadata ``modelspec.prediction_type``; most say nothing.

    Raises
    ------
    ModelError
        The two say different things.
    """
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        named = str((opened.metadata() or {}).get("modelspec.prediction_type", "")).lower()
    stated = "v_prediction" if "v_pred" in tensors else _PREDICTIONS.get(named)
    taken = getattr(pipeline, "scheduler", None) and pipeline.scheduler.config.get("prediction_type")
    if not taken:
        return ""
    if stated not in (None, taken):
        raise ModelError.mismatch(
            f"{file.name}: it says that it predicts {stated}, and the configuration {config.name} says {taken}; "
            "give --model-config with a pipeline of its kind"
        )
    return (
        f"{taken}, as the file says" if stated else f"unknown; {taken} by the configuration, and the file does not say"
    )


def open_single_file(
    file: Path, tensors: Collection[str], config: Source, *, dtype: torch.dtype
) -> tuple[Any, list[Path]]:
    """Assemble a pipeline from a file and a configuration; return it and the folders that gave weights too.

    Raises
    ------
    ModelError
        The pipeline's class reads no single file, the configuration does not fit, or weights are missing in both.
    """
    index = model_index(config)
    kind = pipeline_class(config, index.get("_class_name"))
    if not hasattr(kind, "from_single_file"):
        raise ModelError.unsupported(
            f"{file.name}: diffusers reads no such pipeline ({config.name}) from one file; give a pipeline's directory"
        )
    folders = _find_supplied(config, index, tensors)
    try:
        with quiet_loading(), whole_components(config.name):
            components = {}
            for name, folder in folders.items():
                library, component_class = index[name]
                components[name] = getattr(importlib.import_module(library), component_class).from_pretrained(
                    folder, torch_dtype=dtype, use_safetensors=True
                )
            pipeline = kind.from_single_file(
                str(file), config=str(config.path), torch_dtype=dtype, local_files_only=True, **components
            )
    except ModelError:
        raise
    except Exception as error:  # components that are missing, shapes that differ: many kinds
        raise ModelError.mismatch(
            f"{file.name}: it does not fit the configuration {config.name}: {in_words(error)}; "
            "give --model-config with a pipeline of its kind, with weights where the file has none"
        ) from error
    require_whole(pipeline, file.name, config.name, "give --model-config with a whole pipeline that has them")
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.eval()  # diffusers leaves T5 in training: its dropout would draw another image each time
    require_text_to_image(file.name, pipeline)
    return pipeline, list(folders.values())


def _find_supplied(config: Source, index: Mapping[str, Any], tensors: Collection[str]) -> dict[str, Path]:
    """Find the components that the configuration has weights of and the file has not, with their folders.

    Autoencoder and text encoders are known by the names of their weights in the file; it holds all else.
    """
    supplied = {}
    for name, declared in index.items():
        folder = config.path / name
        if not isinstance(declared, list) or not folder.is_dir():
            continue
        if name == "vae":
            prefixes: str | tuple[str, ...] = AUTOENCODERS
        elif name.startswith("text_encoder"):
            prefixes = T5 if "T5" in declared[1] else TEXT_ENCODERS
        else:
            continue
        if any(tensor.startswith(prefixes) for tensor in tensors):
            continue
        if any(file.suffix in (".safetensors", *PICKLES) for file in folder.iterdir()):
            weight_files(config.name, [folder])  # for its error: it names a pickle
            supplied[name] = folder
    return supplied
