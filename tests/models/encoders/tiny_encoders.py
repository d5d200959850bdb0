"""Tiny encoders with random weights of every kind that transformers has, and what they are given to read."""

from __future__ import annotations

import json

import numpy as np
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from clinometer._torch import torch
from tests.builders import VISION, _text_config, tiny_tokenizer

RNG = np.random.default_rng(0)
PICTURES = [Image.fromarray(RNG.integers(0, 256, (40, 30, 3), np.uint8)) for _ in range(5)]
TEXTS = ["a man", "an image of a very old firefighter"]


def _siglip(path):
    config = transformers.SiglipConfig(
        text_config=_text_config(tiny_tokenizer(16)) | {"projection_size": 32}, vision_config=VISION
    )
    transformers.SiglipModel(config).save_pretrained(path)
    transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(path)
    tiny_tokenizer(16).save_pretrained(path)


def _siglip2(path):
    vision = VISION | {"num_patches": 16}
    config = transformers.Siglip2Config(
        text_config=_text_config(tiny_tokenizer(16)) | {"projection_size": 32}, vision_config=vision
    )
    transformers.Siglip2Model(config).save_pretrained(path)
    transformers.Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16).save_pretrained(path)
    tiny_tokenizer(16).save_pretrained(path)


def _clipseg(path):
    config = transformers.CLIPSegConfig(
        text_config=_text_config(tiny_tokenizer()), vision_config=VISION, projection_dim=16
    )
    transformers.CLIPSegModel(config).save_pretrained(path)
    transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)


def dino(path):
    config = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=7
    )
    transformers.Dinov2Model(config).save_pretrained(path)
    transformers.BitImageProcessorPil(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
    ).save_pretrained(path)


SQUARE = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})


def _alone(model):
    """Saves a tower of images alone."""

    def save(path):
        model().save_pretrained(path)
        SQUARE.save_pretrained(path)

    return save


ALONE = {
    "vit": _alone(lambda: transformers.ViTModel(transformers.ViTConfig(**VISION))),
    "dinov3-convnext": _alone(
        lambda: transformers.DINOv3ConvNextModel(
            transformers.DINOv3ConvNextConfig(hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], image_size=32)
        )
    ),
    "siglip-vision": _alone(lambda: transformers.SiglipVisionModel(transformers.SiglipVisionConfig(**VISION))),
    "swin": _alone(
        lambda: transformers.SwinModel(
            transformers.SwinConfig(
                image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4
            )
        )
    ),
    "i-jepa": _alone(lambda: transformers.IJepaModel(transformers.IJepaConfig(**VISION))),
    "mae": _alone(lambda: transformers.ViTMAEModel(transformers.ViTMAEConfig(**VISION))),
}

DUAL = {"siglip": _siglip, "siglip2": _siglip2, "clipseg": _clipseg}


SENTENCES = ["a nurse", "she", "a nurse is here and there", "he"]
"""What `tiny_bert` knows the words of."""


def tiny_bert(folder, pooling=None, normalise=False, **extra):
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", *sorted({word for text in SENTENCES for word in text.split()})]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    fast.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=12,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    if pooling is not None:
        kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), *([("Normalize", "2_Normalize")] if normalise else [])]
        steps = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
        (folder / "modules.json").write_text(json.dumps(steps))
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 5} | extra))
    return folder
