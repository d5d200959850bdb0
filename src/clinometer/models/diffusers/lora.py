"""Low-rank adaptations (LoRA) of a diffusers pipeline: found, merged into its weights, and recorded."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from clinometer.errors import ModelError, ModelNotFoundError
from clinometer.models.weights import Source, damage, hash_files, in_words, locate, named_by, quiet_loading, user_path


def apply_lora(pipeline: Any, spec: str, scale: float, *, offline: bool = False) -> dict[str, Any]:
    """Merge a LoRA into a pipeline's weights, ``W + scale · B A``; return what a card records of it.

    Parameters
    ----------
    spec : a safetensors file, a directory with one, or a hub id ``owner/name[@revision]``.
    scale : how strongly; 1 is as it was trained, 0 leaves the pipeline as it is.

    Raises
    ------
    ModelError
        It is not there, is a pickle, does not fit the pipeline, or the package peft is missing.
    """
    if importlib.util.find_spec("peft") is None:
        raise ModelError("lora: diffusers needs the package peft for it; install it with `pip install peft`")
    if not hasattr(pipeline, "load_lora_weights"):
        raise ModelError("lora: this model takes none; leave it out")
    source, file = _find(spec, offline)
    try:
        with quiet_loading():
            pipeline.load_lora_weights(source.path, weight_name=file.name, adapter_name="lora", local_files_only=True)
            if not pipeline.get_list_adapters():
                raise ModelError(f"lora: none of the weights of {spec} belong to this model; name one made for it")
            pipeline.fuse_lora(lora_scale=scale)
            pipeline.unload_lora_weights()
    except ModelError:
        raise
    except Exception as error:  # keys and shapes that do not fit, damaged files: many kinds
        raise ModelError(
            f"lora: {spec} does not fit this model: {in_words(error)}{damage(error)}; name one made for it"
        ) from error
    return {
        "name": source.name,
        "revision": source.revision,
        "weights_sha256": hash_files([file], file.parent),
        "scale": scale,
    }


def _find(spec: str, offline: bool) -> tuple[Source, Path]:
    """The file of a LoRA, and where it comes from."""
    path = user_path(spec)
    if path.is_file():
        source = Source(name=path.name, path=path.parent)
        files = [path]
    else:
        if path.suffix == ".safetensors" and not path.is_dir():
            raise ModelNotFoundError(
                f"lora: no file {spec}; give a safetensors file, a directory with one, or a hub id"
            )
        with named_by("lora"):
            source = locate(spec, lambda repository, revision: _download(repository, revision, offline))
        files = sorted(source.path.glob("*.safetensors"))
    if len(files) != 1 or files[0].suffix != ".safetensors":
        names = ", ".join(file.name for file in files) or "none"
        raise ModelNotFoundError(
            f"lora: found {names} in {spec}, expected one safetensors file; name the file itself, as DIRECTORY/FILE"
        )
    return source, files[0]


def _download(repository: str, revision: str | None, offline: bool) -> str:
    from huggingface_hub import snapshot_download

    path: str = snapshot_download(
        repository, revision=revision, local_files_only=offline, allow_patterns=["*.safetensors", "*.json"]
    )
    return path
