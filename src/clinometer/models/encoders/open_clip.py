"""Encoders from open_clip, by architecture and weights: ``RN50/openai``, ``ViT-B-32/laion2b_s34b_b79k``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PIL import Image

from clinometer._messages import nearest
from clinometer._torch import dtype_name, to_device, torch
from clinometer.errors import ModelError, ModelNotFoundError
from clinometer.models.encoders._encoding import (
    DualEncoderBase,
    Normalisation,
    notes_of,
    resolve_options,
    working_encoder,
)
from clinometer.models.protocols import Card
from clinometer.models.weights import PICKLES, describe, hash_files, locate, user_path

import open_clip  # isort: skip - after _torch, which declares the torchvision operators that it needs
from open_clip.transform import PreprocessCfg, image_transform_v2  # isort: skip
from torchvision.transforms import Compose, Normalize, PILToTensor  # isort: skip

Preparation = Callable[[Image.Image], torch.Tensor]

PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class OpenClipEncoder(DualEncoderBase):
    """Embeds images and texts with an open_clip model.

    Parameters
    ----------
    model, tokenizer : open_clip's own; the model is on its device.
    preprocess : turns one RGB image into a (3, height, width) tensor.
    card : what it is.
    batch_size : images a forward pass.
    """

    def __init__(self, model: Any, tokenizer: Any, preprocess: Any, card: Card, *, batch_size: int) -> None:
        super().__init__(card, batch_size=batch_size)
        self.model = model
        self._tokenizer = tokenizer
        self._prepare, self._normalise = _halves(preprocess)
        parameter = next(model.parameters())
        self._device, self._dtype = parameter.device, parameter.dtype

    def exceeds_context(self, texts: Sequence[str]) -> list[bool]:
        """Return, for each text, whether its end is cut off."""
        if hasattr(self._tokenizer, "encode"):
            counts = [len(self._tokenizer.encode(text)) + 2 for text in texts]  # start and end
        else:
            counts = [len(self._tokenizer.tokenizer(text)["input_ids"]) for text in texts]
        return [count > self.context_length for count in counts]

    def prepare_images(self, images: Sequence[Image.Image]) -> list[torch.Tensor]:
        """Resize and crop images: (3, height, width) each, on the CPU."""
        return [self._prepare(image.convert("RGB")) for image in images]

    def _embed_prepared(self, prepared: list[torch.Tensor]) -> torch.Tensor:
        pixels = self._normalise(to_device(torch.stack(prepared), self._device)).to(self._dtype)
        # Explicit: CoCa normalises by default, CLIP does not.
        features: torch.Tensor = self.model.encode_image(pixels, normalize=False)
        return features

    def _embed_texts(self, texts: list[str]) -> torch.Tensor:
        features: torch.Tensor = self.model.encode_text(self._tokenizer(texts).to(self._device), normalize=False)
        return features


def _halves(preprocess: Any) -> tuple[Preparation, Callable[[torch.Tensor], torch.Tensor]]:
    """Split open_clip's preprocessing into what an image goes through alone, in bytes, and what a batch does.

    Its last two steps are to make numbers between 0 and 1 of bytes and to normalise them. Of a transform that ends
    otherwise all is done image by image.
    """
    *first, _, last = getattr(preprocess, "transforms", (None, None))
    if isinstance(last, Normalize):
        in_bytes: Preparation = Compose([*first, PILToTensor()])
        normalisation = Normalisation(255.0, tuple(last.mean), tuple(last.std))
        if normalisation.explains(preprocess, in_bytes):
            return in_bytes, normalisation
    return preprocess, lambda pixels: pixels


@dataclass(frozen=True)
class _WeightsFile:
    """A file of weights and what is known of them; ``unknown`` names what neither a tag nor a file next to it says."""

    name: str
    path: Path
    revision: str | None
    settings: dict[str, Any]
    unknown: tuple[str, ...] = ()


def load(
    source: str,
    *,
    batch_size: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    offline: bool = False,
) -> OpenClipEncoder:
    """Load an open_clip model.

    Parameters
    ----------
    source : ``ARCHITECTURE/WEIGHTS``. The weights are one of open_clip's tags, downloaded as safetensors, or
        a file: safetensors, or a state dict saved by torch, which is read without running code.
    batch_size : images a forward pass (32); it changes a vector by floating-point noise at most.
    device : auto, cpu, cuda, cuda:N, mps.
    dtype : float32 (also for auto: an encoder is a measuring instrument), float16, bfloat16.
    offline : use the local cache only.

    Raises
    ------
    ModelNotFoundError, ModelError
        There is no such architecture or tag, the weights cannot be downloaded, or they do not fit.
    """
    architecture, weights = _split(source)
    weights_file = _find(architecture, weights, offline)
    size, chosen_device, chosen_dtype = resolve_options(batch_size, device, dtype)
    precision = dtype_name(chosen_dtype)
    model = _open(architecture, weights_file, chosen_device, PRECISIONS[precision])
    tokenizer = open_clip.get_tokenizer(architecture)
    preprocess = PreprocessCfg(**model.visual.preprocess_cfg)
    return working_encoder(
        OpenClipEncoder(
            model,
            tokenizer,
            image_transform_v2(preprocess, is_train=False),
            _card(architecture, weights_file, model, tokenizer, precision),
            batch_size=size,
        )
    )


def tags_of(architecture: str) -> list[str]:
    """Return the names of the weights that open_clip has for an architecture."""
    return list(open_clip.list_pretrained_tags_by_model(architecture))


def require_tag(source: str) -> None:
    """Check that ``ARCHITECTURE/WEIGHTS`` is known: the weights as a tag, or as a file that is there.

    Raises
    ------
    ModelNotFoundError
        There is no such architecture, or no such tag or file.
    """
    _tag_of(*_split(source))


def _split(source: str) -> tuple[str, str]:
    """Split a source into architecture, which is known, and weights, which are named."""
    architecture, _, weights = source.partition("/")
    architectures = open_clip.list_models()
    if architecture not in architectures:
        near = ", ".join(nearest(architecture, architectures, most=3) or ["RN50", "ViT-B-32"])
        raise ModelNotFoundError(f"open_clip has no architecture {architecture!r}; near it: {near}")
    if not weights:
        tags = ", ".join(tags_of(architecture)) or "none; give a file"
        raise ModelNotFoundError(f"{architecture}: no weights named; write {architecture}/TAG, with a tag of: {tags}")
    return architecture, weights


def _tag_of(architecture: str, weights: str) -> dict[str, Any]:
    """Look up what open_clip says of a tag; empty for weights that are a file."""
    tag: dict[str, Any] = open_clip.get_pretrained_cfg(architecture, weights)
    if not tag and not user_path(weights).is_file():
        tags = ", ".join(tags_of(architecture)) or "none"
        raise ModelNotFoundError(
            f"{architecture}/{weights}: {weights!r} is no file and no tag of {architecture}; its tags: {tags}"
        )
    return tag


def _find(architecture: str, weights: str, offline: bool) -> _WeightsFile:
    """Find the file of a tag (downloading it) or the user's own file."""
    tag = _tag_of(architecture, weights)
    name = f"{architecture}/{weights}"
    if not tag:
        path = user_path(weights)
        return _WeightsFile(f"{architecture}/{path.name}", path, None, *_said_beside(path))
    repository, file = _safetensors_of(tag.get("hf_hub", ""))
    if not repository:
        raise ModelError.untrusted(f"{name}: open_clip has it as a pickle only; expected safetensors; give a file")

    def download(repository: str, revision: str | None) -> Path:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(repository, file, revision=revision, local_files_only=offline)).parent

    try:
        snapshot = locate(repository, download)
    except ModelError as error:
        raise type(error)(f"{name}: {error}", code=error.code) from error
    return _WeightsFile(name, snapshot.path / file, snapshot.revision, tag)


CONFIGURATION: Final = "open_clip_config.json"
"""The file that open_clip writes next to weights: how images are prepared, and the activation."""


def _said_beside(weights: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read how weights were trained from the configuration next to them; return that, and what it leaves unsaid.

    Raises
    ------
    ModelError
        The configuration is none.
    """
    file, images, model = weights.parent / CONFIGURATION, dict[str, Any](), None
    if file.is_file():
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            images, model = dict(said.get("preprocess_cfg") or {}), said.get("model_cfg")
        except (ValueError, AttributeError, TypeError) as error:
            raise ModelError.malformed(f"{CONFIGURATION}: no configuration of open_clip: {describe(error)}") from error
    names = ("mean", "std", "interpolation", "resize_mode")
    known: dict[str, Any] = {name: images[name] for name in names if name in images}
    unknown = [] if {"mean", "std"} <= known.keys() else ["normalisation of colours (open_clip's default is taken)"]
    if isinstance(model, dict):
        known["quick_gelu"] = bool(model.get("quick_gelu"))
    else:
        unknown.append("activation (the architecture's own is taken)")
    return known, tuple(unknown)


def _safetensors_of(hub: str) -> tuple[str, str]:
    """Split open_clip's ``owner/name/[file]`` into the repository and its safetensors file."""
    repository, _, file = hub.rpartition("/")
    if not file:
        return repository, "open_clip_model.safetensors"
    return repository, file.rsplit(".", 1)[0] + ".safetensors"


def _open(architecture: str, weights_file: _WeightsFile, device: torch.device, precision: str) -> Any:
    preprocessing = {key: weights_file.settings.get(key) for key in ("mean", "std", "interpolation", "resize_mode")}
    try:
        return open_clip.create_model(
            architecture,
            pretrained=str(weights_file.path),
            precision=precision,
            device=device,
            # A tag says how its weights were trained; open_clip itself only warns where that is not the
            # architecture's own activation (all of OpenAI's weights).
            force_quick_gelu=bool(weights_file.settings.get("quick_gelu")),
            force_preprocess_cfg=preprocessing,
            require_pretrained=True,
            weights_only=True,
        ).eval()
    except Exception as error:  # unpickling, shapes, keys, a text tower that must be downloaded: many kinds
        pickled = weights_file.path.suffix in PICKLES
        way_out = " (a pickle that is more than a state dict is not read)" if pickled else ""
        raise ModelError.mismatch(
            f"{weights_file.name}: the weights do not load into {architecture}: {describe(error)}{way_out}"
        ) from error


def _card(architecture: str, weights_file: _WeightsFile, model: Any, tokenizer: Any, precision: str) -> Card:
    configuration = open_clip.get_model_config(architecture)
    with torch.inference_mode():
        device = next(model.parameters()).device
        dimension = int(model.encode_text(tokenizer(["a"]).to(device), normalize=False).shape[-1])
    return Card(
        kind="encoder",
        name=weights_file.name,
        family=f"open_clip/{architecture}",
        revision=weights_file.revision,
        weights_sha256=hash_files([weights_file.path], weights_file.path.parent),
        settings={
            "dimension": dimension,
            "dtype": precision,
            "quick_gelu": bool(weights_file.settings.get("quick_gelu") or configuration.get("quick_gelu", False)),
            "preprocessing": model.visual.preprocess_cfg,
            "tokenizer": type(tokenizer).__name__,
            "context_length": int(tokenizer.context_length),
            "text_beyond_context": "cut",
            "configuration_sha256": hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest(),
        },
        notes=notes_of(model, open_clip, weights_file.unknown),
    )
