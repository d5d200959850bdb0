"""A small classifier of men and women, trained on the shipped portraits in the test that wants one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from clinometer._torch import torch  # before transformers
from clinometer.models import reference
from clinometer.models.files import read_manifest

import transformers  # isort: skip

PORTRAITS = Path(reference.__file__).with_name("portraits")
LABELS = {0: "woman", 1: "man"}


def portraits(folder: Path = PORTRAITS) -> tuple[np.ndarray, np.ndarray]:
    """(n, 64, 64, 3) drawings and (n,) whether each shows a man."""
    rows = read_manifest(folder, folder / "manifest.csv")
    pictures = [np.asarray(Image.open(folder / row.file).convert("RGB")) for row in rows]
    return np.stack(pictures), np.array([int(str(row.group).split()[-1] == "man") for row in rows])


def train(path, pictures, men, *, steps=150, seed=0):
    """Train a small residual network on moved, blurred, tinted and noisy copies; save it as a directory."""
    torch.manual_seed(seed)
    config = transformers.ResNetConfig(
        embedding_size=12, hidden_sizes=[12, 24, 48], depths=[1, 1, 1], layer_type="basic", id2label=LABELS,
        label2id={each: key for key, each in LABELS.items()},
    )  # fmt: skip
    model = transformers.ResNetForImageClassification(config)
    processor = transformers.ViTImageProcessorPil(size={"height": 64, "width": 64})
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1
    truth = torch.from_numpy(men)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(steps):
        some = torch.randint(len(images), (48,))
        batch = images[some]
        size = int(torch.randint(32, 65, ()))
        batch = torch.nn.functional.interpolate(batch, (size, size), mode="bilinear", antialias=True)
        batch = torch.nn.functional.interpolate(batch, (64, 64), mode="bilinear")
        shift = torch.randint(-5, 6, (2,)).tolist()
        batch = torch.roll(batch, shift, (2, 3)) * (0.8 + 0.4 * torch.rand(48, 3, 1, 1))
        batch = batch + 0.2 * torch.rand(()) * torch.randn_like(batch)
        loss = torch.nn.functional.cross_entropy(model(batch.clamp(-1, 1)).logits, truth[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval().save_pretrained(path)
    processor.save_pretrained(path)
    return path
