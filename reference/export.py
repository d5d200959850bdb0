"""Writes the trained networks as the directories that ship: an ordinary pipeline and an ordinary CLIP, in
half precision.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import yaml
from diffusers import AutoencoderKL, SchedulerMixin, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from transformers import CLIPModel, CLIPProcessor, CLIPTokenizer
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from reference import art, captions
from reference.paths import CLIP, PACKAGE, PIPELINE

LIMIT = 32_000_000


def pipeline(
    vae: AutoencoderKL,
    unet: UNet2DConditionModel,
    clip: CLIPModel,
    tokenizer: CLIPTokenizer,
    scheduler: SchedulerMixin,
) -> StableDiffusionPipeline:
    """The networks as a pipeline. The text encoder is the CLIP's own text tower."""
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=clip.text_model,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def processor(tokenizer: CLIPTokenizer) -> CLIPProcessor:
    """64 px, [−1, 1]: the range that the networks were trained in."""
    images = CLIPImageProcessorPil(
        size={"shortest_edge": art.SIZE},
        crop_size={"height": art.SIZE, "width": art.SIZE},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return CLIPProcessor(image_processor=images, tokenizer=tokenizer)


def vocabulary() -> dict[str, Any]:
    """What vocabulary.yaml holds: everything that the model understands, for people and for suites."""
    rules = captions.grammar()
    rows = {}
    for index, concept in enumerate(art.concepts()):
        phrases = {name: captions.noun_phrases(index, gender, None)[0] for gender, name in enumerate(art.GENDERS)}
        neutral = captions.noun_phrases(index, None, None)[0]
        keys = {"kind": concept.kind, "keyword": captions.keyword(index), "neutral": neutral}
        rows[concept.name] = keys | {
            "man": phrases["man"],
            "woman": phrases["woman"],
            "non-binary": phrases["person"],
        }
    words = {name: captions.attribute_words(name) for name in art.GENDERS}
    words["non-binary"] = words.pop("person")
    return {"templates": rules["templates"], "tones": rules["tones"], "words": words, "concepts": rows}


def export(made: StableDiffusionPipeline, clip: CLIPModel) -> None:
    """Replaces the shipped directories. Raises ValueError where they are larger than the package may carry."""
    for folder in (PIPELINE, CLIP):
        shutil.rmtree(folder, ignore_errors=True)
    _forget_last_call(made.tokenizer)
    made.to(dtype=torch.float16).save_pretrained(PIPELINE)
    clip.half().save_pretrained(CLIP)
    both = processor(made.tokenizer)
    both.save_pretrained(CLIP)
    both.image_processor.save_pretrained(CLIP)
    for folder in (PIPELINE / "tokenizer", CLIP):
        _write_classic_tokenizer(folder)
    _prefix_text_encoder(PIPELINE / "text_encoder" / "model.safetensors")
    for config in (PIPELINE / "text_encoder" / "config.json", CLIP / "config.json"):
        _load_as_float32(config)
    for network in ("vae", "unet"):
        _forget_origin(PIPELINE / network / "config.json")
    for weights in [*PIPELINE.rglob("*.safetensors"), *CLIP.glob("*.safetensors")]:
        weights.chmod(0o644)
    text = yaml.safe_dump(vocabulary(), sort_keys=False, allow_unicode=True, width=120)
    (PACKAGE / "vocabulary.yaml").write_text(text, encoding="utf-8")
    size = size_of(PIPELINE) + size_of(CLIP)
    if size > LIMIT:
        raise ValueError(f"{PIPELINE} and {CLIP} hold {size / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f} MB")


def _forget_last_call(tokenizer: CLIPTokenizer) -> None:
    """Drops the padding and truncation of the last call, which would be written, so that a build that trained
    everything and one that skipped finished stages write the same file.
    """
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()


def _load_as_float32(config: Path) -> None:
    """Makes a plain from_pretrained, without a dtype, load in single precision.

    transformers follows the dtype in config.json, diffusers defaults to float32: left alone, a pipeline
    loaded without a dtype would mix the two and fail.
    """
    values = json.loads(config.read_text(encoding="utf-8"))
    values["dtype"] = "float32"
    for part in ("text_config", "vision_config"):
        if part in values:
            values[part]["dtype"] = "float32"
    config.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _forget_origin(path: Path) -> None:
    """Drops the folder that the network was built in, which diffusers writes into its config."""
    values = json.loads(path.read_text(encoding="utf-8"))
    values.pop("_name_or_path", None)
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_classic_tokenizer(folder: Path) -> None:
    """vocab.json and merges.txt, which transformers 4 and other tools read, from tokenizer.json."""
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False), encoding="utf-8")
    merges = [" ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")


def _prefix_text_encoder(path: Path) -> None:
    """Names the tensors `text_model.…`, as every Stable Diffusion checkpoint does; transformers 4 and 5 both
    read that.
    """
    tensors = {f"text_model.{name.removeprefix('text_model.')}": tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
