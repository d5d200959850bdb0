"""Encoders from transformers: CLIP and any other dual tower with image and text features in one space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import transformers
from PIL import Image

from clinometer._torch import dtype_name, resolve_device, resolve_dtype, torch
from clinometer.errors import ModelError
from clinometer.models._encoding import IMAGE_BATCH, TEXT_BATCH, encode_in_batches, warn_of_truncation
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


class TransformersEncoder:
    """Embeds images and texts with a transformers dual encoder.

    Parameters
    ----------
    model : it has ``get_image_features`` and ``get_text_features``, and is on its device.
    image_processor, tokenizer : the model's own.
    card : what it is.
    batch_size : images a forward pass.
    """

    def __init__(
        self,
        model: Any,
        image_processor: Any,
        tokenizer: Any,
        card: Card,
        *,
        batch_size: int,
    ) -> None:
        self.model = model
        self.card = card
        self.context_length = int(card.settings["context_length"])
        self._image_processor = image_processor
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._dimension = int(card.settings["dimension"])

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Embed images of any mode and size: (n, d) float32, not normalised."""
        return encode_in_batches(images, self._embed_images, batch_size=self._batch_size, dimension=self._dimension)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts: (n, d) float32, not normalised. Text beyond the context is cut, with a warning."""
        warn_of_truncation(texts, self.exceeds_context(texts), self.context_length)
        return encode_in_batches(texts, self._embed_texts, batch_size=TEXT_BATCH, dimension=self._dimension)

    def exceeds_context(self, texts: Sequence[str]) -> list[bool]:
        """Tell for each text whether its end is cut off."""
        if not len(texts):
            return []
        tokens = self._tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return [len(each) > self.context_length for each in tokens]

    def _embed_images(self, images: list[Image.Image]) -> torch.Tensor:
        inputs = self._image_processor([each.convert("RGB") for each in images], return_tensors="pt")
        pixels = inputs["pixel_values"].to(self.model.device, self.model.dtype)
        return _features(self.model.get_image_features(pixel_values=pixels))

    def _embed_texts(self, texts: list[str]) -> torch.Tensor:
        # Always padded to the full length: SigLIP was trained so, and no row depends on its neighbours.
        inputs = self._tokenizer(
            texts,
            padding="max_length",
            truncation=True,
            max_length=self.context_length,
            return_tensors="pt",
        )
        return _features(self.model.get_text_features(**inputs.to(self.model.device)))


def _features(output: Any) -> torch.Tensor:
    """Take the projected features out of what a tower returns: a tensor, or a record that pools them."""
    features: torch.Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return features


def load(
    source: str,
    *,
    batch_size: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    offline: bool = False,
    name: str | None = None,
) -> TransformersEncoder:
    """Load a dual encoder from a directory or a hub id ``owner/name[@revision]``.

    Parameters
    ----------
    batch_size : images a forward pass (32); it changes a vector by floating-point noise at most.
    device : auto, cpu, cuda, cuda:N, mps.
    dtype : float32 (also for auto: an encoder is a measuring instrument), float16, bfloat16.
    offline : use the local cache only.
    name : the name in the card, where the directory's own says too little.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, gated, without safetensors, or not a dual encoder.
    """
    found = locate(source, lambda repository, revision: _download(repository, revision, offline))
    # Read for its error alone: it names a pickle, where transformers would say that a file is missing.
    weight_files(found.name, [found.path])
    chosen_device = resolve_device(device)
    model, image_processor, tokenizer = _open(
        found, resolve_dtype("float32" if dtype in (None, "auto") else dtype, chosen_device)
    )
    model.to(chosen_device).eval()
    return TransformersEncoder(
        model,
        image_processor,
        tokenizer,
        _card(name or found.name, found, model, image_processor, tokenizer),
        batch_size=batch_size or IMAGE_BATCH,
    )


def load_reference(source: str = "", **options: Any) -> TransformersEncoder:
    """Load the encoder that ships with this package; ``options`` are those of `load`."""
    from clinometer.models import reference

    if source:
        raise ModelError(f"the reference encoder takes nothing after its name; found {source!r}")
    return load(str(reference.clip_path()), **({"name": "reference"} | options))


def _download(repository: str, revision: str | None, offline: bool) -> str:
    from huggingface_hub import snapshot_download

    path: str = snapshot_download(
        repository,
        revision=revision,
        local_files_only=offline,
        allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"],
        ignore_patterns=["*/*"],
    )
    return path


def _open(found: Source, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Read model, image processor and tokenizer, and check that there are two towers."""
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet_loading():
            model = transformers.AutoModel.from_pretrained(found.path, dtype=dtype, use_safetensors=True, **local)
        # The PIL backend: torchvision's resizing gives other pixels, and is not everywhere.
        image_processor = transformers.AutoImageProcessor.from_pretrained(found.path, backend="pil", **local)
        tokenizer = transformers.AutoTokenizer.from_pretrained(found.path, **local)
    except Exception as error:  # missing files, unknown classes, mismatched shapes, remote code: many kinds
        raise ModelError(f"{found.name}: transformers cannot load it: {describe(error)}") from error
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        raise ModelError(
            f"{found.name}: a {type(model).__name__} does not embed images and texts in one space; "
            "expected a dual encoder such as CLIP or SigLIP"
        )
    return model, image_processor, tokenizer


def _card(name: str, found: Source, model: Any, image_processor: Any, tokenizer: Any) -> Card:
    context_length = _context_length(model, tokenizer)
    return Card(
        kind="encoder",
        name=name,
        family=f"transformers/{type(model).__name__}",
        revision=found.revision,
        weights_sha256=hash_files(weight_files(found.name, [found.path]), found.path),
        settings={
            "dimension": _dimension(model, tokenizer, context_length),
            "dtype": dtype_name(model.dtype),
            "preprocessing": _preprocessing(image_processor),
            "tokenizer": type(tokenizer).__name__,
            "context_length": context_length,
            "text_beyond_context": "cut",
            "configuration_sha256": hash_files(configuration_files([found.path]), found.path),
        },
        notes={
            "parameters": sum(each.numel() for each in model.parameters()),
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        },
    )


def _context_length(model: Any, tokenizer: Any) -> int:
    text_config = getattr(model.config, "text_config", model.config)
    positions = getattr(text_config, "max_position_embeddings", tokenizer.model_max_length)
    return int(min(positions, tokenizer.model_max_length))


def _dimension(model: Any, tokenizer: Any, context_length: int) -> int:
    """Measure the dimension of the shared space with one short text: configurations name it in many ways."""
    tokens = tokenizer("a", padding="max_length", truncation=True, max_length=context_length, return_tensors="pt")
    with torch.inference_mode():
        return int(_features(model.get_text_features(**tokens.to(model.device))).shape[-1])


def _preprocessing(image_processor: Any) -> dict[str, Any]:
    """Record an image processor's class and settings, without what names its files."""
    settings = {key: value for key, value in image_processor.to_dict().items() if not key.startswith("_")}
    return settings | {"class": type(image_processor).__name__}
