"""Measures every family and encoder on the CPU and on a device that refuses to mix, in a process of its own.

On the CPU every tensor is where every other is, so no test there can tell whether a batch, a seed's noise or a
tokenizer's output was moved to the model; and the machine that tests has no accelerator. So a device is registered with
torch (`tests.models.pretended_device`) whose tensors hold the CPU's and say that they lie elsewhere. The registration
lasts as long as the process. Speed, memory and kernels still want a real accelerator.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from clinometer._torch import torch
from clinometer.models.diffusers.classifier import DiffusionClassifier
from clinometer.models.encoders.own_text import own_text_encoders
from clinometer.models.encoders.transformers_clip import load as load_encoder
from clinometer.models.protocols import EditRequest
from tests.models.diffusers import drawing
from tests.models.diffusers.drawing import PROMPTS, draw, opened
from tests.models.diffusers.families import save_family
from tests.models.encoders.tiny_encoders import DUAL, PICTURES, TEXTS, dino

FAMILIES = ("sd-1", "sdxl", "sd3", "flux", "sana", "qwen-image", "kandinsky-2.2", "unclip")
REQUESTS = drawing.REQUESTS[:2]
CLASSIFYING = ("sd-1", "flux", "sana")
ENCODERS = {**DUAL, "dino": dino}
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8))
EDITS = [EditRequest(each.id, each.prompt, each.seed, PICTURE, 0.6) for each in REQUESTS]
FOUND = "differences.json"
MIXED = "a tensor of the device and one of the CPU met"


def main(folder: Path) -> None:
    """Write down the largest difference of everything that is measured."""
    from tests.models.pretended_device import pretended

    found: dict[str, object] = {}
    with pretended() as device:
        try:
            torch.ones(2, device=device) + torch.ones(2)
        except RuntimeError as error:
            found[MIXED] = "two devices" in str(error)
    for name in FAMILIES:
        path = save_family(name, folder)
        expected = drawn(path, name, "cpu")
        with pretended() as device:
            found |= differences(name, drawn(path, name, device), expected)
    for name, make in ENCODERS.items():
        torch.manual_seed(0)
        make(folder / name)
        expected = embedded(folder / name, "cpu")
        with pretended() as device:
            found |= differences(name, embedded(folder / name, device), expected)
    (folder / FOUND).write_text(json.dumps(found))


def differences(name, found, expected):
    return {
        f"{name} {what}": float(max(np.abs(a - b).max() for a, b in zip(found[what], expected[what], strict=True)))
        for what in expected
    }


def drawn(path, name, device):
    """What a family gives: images, edits, denoising errors, vectors of its own text encoders."""
    generator = opened(lambda _: path, name, batch_size=2, device=device, dtype="float32")
    found = {"images": draw(generator, REQUESTS)}
    if name == "sd-1":
        found["edits"] = draw(generator.editor(), EDITS)
    if name in CLASSIFYING:
        found["errors"] = DiffusionClassifier(generator.denoiser(), PROMPTS, trials=2).errors([PICTURE]).errors
    found["images after a wait"] = drawn_after_a_wait(generator)
    if not np.array_equal(found["images after a wait"], found["images"]):
        raise AssertionError(f"{name}: it draws otherwise after it has waited")
    return found | {each.card.name: each.encode_texts(PROMPTS) for each in own_text_encoders(generator)}


def drawn_after_a_wait(generator):
    """Images of a generator that has made room for another; meanwhile all of it is on the CPU."""
    generator.park()
    parts = [part for part in generator.pipeline.components.values() if isinstance(part, torch.nn.Module)]
    left = {tensor.device.type for part in parts for tensor in (*part.parameters(), *part.buffers())}
    if left != {"cpu"}:
        raise AssertionError(f"some of it stayed on {left}")
    generator.unpark()
    return draw(generator, REQUESTS)


def embedded(path, device):
    encoder = load_encoder(str(path), device=device, batch_size=2)
    found = {"vectors": encoder.encode_images(PICTURES)}
    return found | ({"texts": encoder.encode_texts(TEXTS)} if hasattr(encoder, "encode_texts") else {})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
