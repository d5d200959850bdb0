"""Encoders from transformers: dual towers with image and text features in one space, and towers of images alone.

CLIP, SigLIP, ALIGN and their kin are dual. DINO and other vision transformers see and do not read: of the components
they give the one between images, and the others are missing with that reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Final

import transformers
from PIL import Image

from clinometer._torch import dtype_name, to_device, torch
from clinometer.errors import ModelError
from clinometer.models import weights
from clinometer.models.encoders._encoding import (
    DualEncoderBase,
    ImageEncoderBase,
    Normalisation,
    mark_lacking,
    notes_of,
    probe_image,
    resolve_options,
    size_left_alone,
    stack_images,
    working_encoder,
)
from clinometer.models.protocols import Card

CHECKPOINT = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors")
"""The files of a repository that are downloaded: weights, configurations, vocabularies, templates."""

POOLINGS = ("cls", "mean", "pooled")
CLASS_TOKENS = {"cls_token", "class_token", "class_embedding", "cls_register_token"}
"""The names of the token before the patches whose learned state represents the image."""

PIXELS = "pixel_values"
IN_BYTES = {"do_rescale": False, "do_normalize": False}
"""Steps that an image processor is to leave out."""

Prepared = dict[str, torch.Tensor]
"""The inputs of a model for one image, by name."""


class TransformersEncoder(DualEncoderBase):
    """Embeds images and texts with a transformers dual encoder.

    Parameters
    ----------
    model : it has ``get_image_features`` and ``get_text_features``, and is on its device.
    image_processor, tokenizer : the model's own.
    card : what it is.
    batch_size : images a forward pass.
    """

    def __init__(self, model: Any, image_processor: Any, tokenizer: Any, card: Card, *, batch_size: int) -> None:
        super().__init__(card, batch_size=batch_size)
        self.model = model
        self._inputs = ImageInputs(image_processor)
        self._tokenizer = tokenizer

    def exceeds_context(self, texts: Sequence[str]) -> list[bool]:
        """Return, for each text, whether its end is cut off."""
        if not len(texts):
            return []
        tokens = self._tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return [len(ids) > self.context_length for ids in tokens]

    def prepare_images(self, images: Sequence[Image.Image]) -> list[Prepared]:
        """Resize and crop images: what the model takes of each, on the CPU."""
        return self._inputs.prepare(images)

    def _embed_prepared(self, prepared: list[Prepared]) -> torch.Tensor:
        return _features(self.model.get_image_features(**self._inputs.batch(prepared, self.model)))

    def _embed_texts(self, texts: list[str]) -> torch.Tensor:
        # Always padded to the full length: SigLIP was trained so, and no row depends on its neighbours.
        inputs = self._tokenizer(
            texts, padding="max_length", truncation=True, max_length=self.context_length, return_tensors="pt"
        )
        return _features(self.model.get_text_features(**inputs.to(self.model.device)))


class TransformersImageEncoder(ImageEncoderBase):
    """Embeds images with a vision transformer that has no text tower, such as DINOv2.

    Parameters
    ----------
    model : returns ``last_hidden_state`` (n, tokens, d), and is on its device.
    image_processor : the model's own.
    card : what it is; its setting ``pooling`` says what an image's vector is: the first token's state ("cls"), the
        mean over all tokens ("mean"), or what the model itself makes of them ("pooled").
    batch_size : images a forward pass.
    """

    def __init__(self, model: Any, image_processor: Any, card: Card, *, batch_size: int) -> None:
        super().__init__(card, batch_size=batch_size)
        self.model = model
        self._inputs = ImageInputs(image_processor)

    def prepare_images(self, images: Sequence[Image.Image]) -> list[Prepared]:
        """Resize and crop images: what the model takes of each, on the CPU."""
        return self._inputs.prepare(images)

    def _embed_prepared(self, prepared: list[Prepared]) -> torch.Tensor:
        output = self.model(**self._inputs.batch(prepared, self.model))
        match self.card.settings["pooling"]:
            case "pooled":
                return torch.as_tensor(output.pooler_output)
            case "cls":
                return torch.as_tensor(output.last_hidden_state[:, 0])
            case _:
                return torch.as_tensor(output.last_hidden_state.mean(dim=1))


class ImageInputs:
    """The inputs of a model for images: its image processor's outputs, by name.

    Where the processor's last steps, compared with what it does, are no more than a `Normalisation`, pixels stay bytes
    until they are where the model is.
    """

    def __init__(self, image_processor: Any) -> None:
        self._process = image_processor
        whole, in_bytes = (partial(_pixels_of, image_processor, steps) for steps in ({}, IN_BYTES))
        try:
            normalisation = Normalisation(
                1 / image_processor.rescale_factor, tuple(image_processor.image_mean), tuple(image_processor.image_std)
            )
            self._normalisation = normalisation if normalisation.explains(whole, in_bytes) else None
        except Exception:  # whatever a processor raises that has no such steps, or not their settings
            self._normalisation = None
        self._size_left_alone = size_left_alone(in_bytes) if self._normalisation else None

    def prepare(self, images: Sequence[Image.Image]) -> list[Prepared]:
        """Prepare images: the pixels of each, and further inputs of some models (SigLIP 2 of variable size)."""
        images = [image if image.mode == "RGB" else image.convert("RGB") for image in images]
        if self._size_left_alone is not None and {image.size for image in images} == {self._size_left_alone}:
            return [{PIXELS: pixels} for pixels in stack_images(images)]
        steps = {} if self._normalisation is None else IN_BYTES
        inputs = self._process(images, return_tensors="pt", **steps)
        return [{name: torch.as_tensor(rows[index]) for name, rows in inputs.items()} for index in range(len(images))]

    def batch(self, prepared: Sequence[Prepared], model: Any) -> Prepared:
        """Assemble a batch on the device of the model."""
        stacked = {
            name: to_device(torch.stack([inputs[name] for inputs in prepared]), model.device) for name in prepared[0]
        }
        if self._normalisation is not None:
            stacked[PIXELS] = self._normalisation(stacked[PIXELS])
        return {
            name: tensor.to(model.dtype) if tensor.is_floating_point() else tensor for name, tensor in stacked.items()
        }


def _pixels_of(image_processor: Any, steps: dict[str, bool], image: Image.Image) -> torch.Tensor:
    """Preprocess one image: (3, height, width); raises where the processor returns more than pixels."""
    (pixels,) = image_processor([image], return_tensors="pt", **steps).values()
    return torch.as_tensor(pixels[0])


def _features(output: Any) -> torch.Tensor:
    """Return the projected features from what a tower returns: a tensor, or a record that pools them."""
    features: torch.Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return features


def load(
    source: str,
    *,
    batch_size: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    pooling: str | None = None,
    offline: bool = False,
    name: str | None = None,
) -> TransformersEncoder | TransformersImageEncoder:
    """Load an encoder from a directory or a hub id ``owner/name[@revision]``.

    Parameters
    ----------
    batch_size : images a forward pass (32); it changes a vector by floating-point noise at most.
    device : auto, cpu, cuda, cuda:N, mps.
    dtype : float32 (also for auto: an encoder is a measuring instrument), float16, bfloat16.
    pooling : for an encoder of images alone: cls, mean or pooled. None takes the class token; of a model without one
        what the model pools itself, or else the mean.
    offline : use the local cache only.
    name : the name in the card, where the directory's own says too little.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, gated, without safetensors, or embeds no images.
    """
    checkpoint = weights.locate_files(source, CHECKPOINT, without=["*/*"], offline=offline)
    # Read for its error alone: it names a pickle, where transformers would say that a file is missing.
    weights.weight_files(checkpoint.name, [checkpoint.path])
    size, chosen_device, chosen_dtype = resolve_options(batch_size, device, dtype)
    model, lacking = load_model(checkpoint, chosen_dtype)
    is_dual = hasattr(model, "get_image_features") and hasattr(model, "get_text_features")
    if not (is_dual or model.main_input_name == "pixel_values"):
        raise ModelError.unsupported(
            f"{checkpoint.name}: a {type(model).__name__} does not embed images and texts in one space, nor images "
            "alone; expected a dual encoder such as CLIP or SigLIP, or a vision transformer such as DINOv2"
        )
    if hasattr(model.config, "mask_ratio"):
        model.config.mask_ratio = 0.0  # ViTMAE hides three patches in four, others each time: that was its training
    model.to(chosen_device).eval()
    image_processor = load_part(checkpoint, transformers.AutoImageProcessor, backend="pil")
    card_name = name or checkpoint.name
    if not is_dual:
        card = _image_card(card_name, checkpoint, model, image_processor, pooling)
        return working_encoder(TransformersImageEncoder(model, image_processor, card, batch_size=size), lacking)
    if pooling is not None:
        raise ModelError.unsupported(f"{card_name}: pooling applies to an encoder of images alone; leave it out")
    tokenizer = load_part(checkpoint, transformers.AutoTokenizer)
    weights.require_vocabulary(checkpoint.name, tokenizer)
    _require_end(card_name, model, tokenizer)
    text_config = getattr(model.config, "text_config", model.config)
    positions = getattr(text_config, "max_position_embeddings", tokenizer.model_max_length)
    context_length = int(min(positions, tokenizer.model_max_length))
    tokens = tokenizer("a", padding="max_length", truncation=True, max_length=context_length, return_tensors="pt")
    with torch.inference_mode():
        features = _features(model.get_text_features(**tokens.to(model.device)))
    settings = {
        "dimension": int(features.shape[-1]),  # measured, for configurations name it in many ways
        "tokenizer": type(tokenizer).__name__,
        "context_length": context_length,
        "text_beyond_context": "cut",
    }
    card = _card_of(card_name, checkpoint, model, image_processor, settings)
    return working_encoder(TransformersEncoder(model, image_processor, tokenizer, card, batch_size=size), lacking)


@wraps(load, assigned=())  # its signature says which options there are
def load_reference(source: str = "", **options: Any) -> TransformersEncoder | TransformersImageEncoder:
    """Load the encoder that ships with this package; ``options`` are those of `load`."""
    from clinometer.models import reference

    if source:
        raise ModelError.unknown_name(f"the reference encoder takes nothing after its name; found {source!r}")
    encoder = load(str(reference.clip_path()), **({"name": "reference"} | options))
    encoder.card = replace(encoder.card, notes=encoder.card.notes | {"domain": reference.domain()})
    return encoder


def load_model(checkpoint: weights.Source, dtype: torch.dtype) -> tuple[Any, Collection[str]]:
    """Read the model, and the names of weights that its files lack; these are marked by `mark_lacking`."""
    with weights.quiet_loading():
        model, loading = load_part(
            checkpoint, transformers.AutoModel, dtype=dtype, use_safetensors=True, output_loading_info=True
        )
    mark_lacking(model, loading["missing_keys"])
    return model, loading["missing_keys"]


def load_part(checkpoint: weights.Source, kind: Any, **options: Any) -> Any:
    """Read the model, its image processor (by PIL: torchvision's resizing gives other pixels) or its tokenizer."""
    try:
        return kind.from_pretrained(checkpoint.path, local_files_only=True, trust_remote_code=False, **options)
    except Exception as error:  # missing files, unknown classes, mismatched shapes, remote code: many kinds
        raise weights.cannot_load(checkpoint.name, "transformers", error) from error


def _require_end(name: str, model: Any, tokenizer: Any) -> None:
    """Refuse a text tower that looks for another token at a text's end than its tokenizer writes there.

    CLIP's then takes the state of the first token, which is that of every text. 2 stands in old configurations for the
    token of the largest number.
    """
    end, tokens = getattr(getattr(model, "text_model", None), "eos_token_id", None), tokenizer("a")["input_ids"]
    looked_for = max(tokens) if end == 2 else end
    if end is not None and (looked_for not in tokens or looked_for != tokenizer.eos_token_id):
        raise ModelError.mismatch(
            f"{name}: its text tower takes token {looked_for} for the end of a text, and its tokenizer ends one with "
            f"{tokenizer.eos_token_id}, so another token would be read; correct eos_token_id in config.json"
        )


def _image_card(name: str, checkpoint: weights.Source, model: Any, image_processor: Any, pooling: str | None) -> Card:
    if pooling not in (None, *POOLINGS):
        raise ModelError.expected_one_of(POOLINGS, pooling, field="pooling")
    with torch.inference_mode():
        inputs = ImageInputs(image_processor)
        output = model(**inputs.batch(inputs.prepare([probe_image()]), model))
    states = getattr(output, "last_hidden_state", None)
    if states is None or states.ndim != 3:
        raise ModelError.unsupported(
            f"{name}: a {type(model).__name__} gives no state for each token; expected a vision transformer"
        )
    possible = _poolings(model, output)
    if pooling not in (None, *possible):
        lacking = "class token" if pooling == "cls" else "vector of its own for an image"
        raise ModelError.unsupported(
            f"{name}, pooling {pooling}: a {type(model).__name__} has no {lacking}; expected {' or '.join(possible)}"
        )
    chosen = pooling or possible[0]
    vector = output.pooler_output if chosen == "pooled" else states
    settings = {"dimension": int(vector.shape[-1]), "pooling": chosen}
    unknown = [] if pooling or chosen != "mean" else ["pooling (tokens are averaged; it has no token or layer for it)"]
    if hasattr(model.config, "mask_ratio"):
        settings["mask_ratio"] = model.config.mask_ratio
    return _card_of(name, checkpoint, model, image_processor, settings, unknown)


def _poolings(model: Any, output: Any) -> list[str]:
    """Return what an image's vector can be; the first is the default.

    Without a class token the first state is that of a patch, the top left of the image. DINOv3's ConvNeXt has no such
    parameter, and puts what it pools before the patches.
    """
    pooled = getattr(output, "pooler_output", None)
    if pooled is not None and (pooled.ndim != 2 or not pooled.isfinite().all()):  # NaN: see `mark_lacking`
        pooled = None
    names = (name.split(".") for name, _ in model.named_parameters())
    has_class_token = any(name[-1] in CLASS_TOKENS and "head" not in name for name in names)
    others = [] if pooled is None else ["pooled"]
    if has_class_token or (pooled is not None and torch.equal(pooled, output.last_hidden_state[:, 0])):
        return ["cls", "mean", *others]
    return [*others, "mean"]


PREPROCESSING: Final = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")


def _card_of(
    name: str,
    checkpoint: weights.Source,
    model: Any,
    image_processor: Any,
    settings: dict[str, Any],
    unknown: Sequence[str] = (),
) -> Card:
    if not any((checkpoint.path / file).is_file() for file in PREPROCESSING):
        unknown = [*unknown, "preprocessing (its library's for such a model; no file says what it was trained with)"]
    # without what names its files
    preprocessing = {key: value for key, value in image_processor.to_dict().items() if not key.startswith("_")}
    return Card(
        kind="encoder",
        name=name,
        family=f"transformers/{type(model).__name__}",
        revision=checkpoint.revision,
        weights_sha256=weights.hash_files(weights.weight_files(checkpoint.name, [checkpoint.path]), checkpoint.path),
        settings=settings
        | {
            "dtype": dtype_name(model.dtype),
            "preprocessing": preprocessing | {"class": type(image_processor).__name__},
            "configuration_sha256": weights.hash_files(weights.configuration_files([checkpoint.path]), checkpoint.path),
        },
        notes=notes_of(model, transformers, unknown),
    )
