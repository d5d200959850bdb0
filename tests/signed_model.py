"""The folder of a model that was signed: tests/fixtures/signed says how."""

from __future__ import annotations

import shutil
from pathlib import Path

FILES = {
    "model_index.json": b'{"_class_name": "ToyPipeline", "unet": ["diffusers", "UNet2DConditionModel"], '
    b'"scheduler": ["diffusers", "DDIMScheduler"]}\n',
    "unet/config.json": b"{}\n",
    "unet/diffusion_pytorch_model.safetensors": b"weights",
    "unet/diffusion_pytorch_model.fp16.safetensors": b"half",
    "scheduler/scheduler_config.json": b"{}\n",
    "a/z": b"1",
    "a-b/z": b"2",
    "a.b": b"",
    "\u00e4.txt": b"3",
    ".gitignore": b"x",
    ".git/HEAD": b"x",
    "README.md": b"may change\n",
}
DIGEST = "eca011e2148715d53e5476e728dc1553c248e0aa480a109e8949fc0b1b083bd3"
"""Of the folder, by model_signing.hashing.hash of model-signing 1.1.1."""
SIGNED = "554040b6dfeb77fbbca072d56485516cd29d162a716bca7d6e7a43cd3626a649"
"""Of the folder without README.md: the subject of model.sig."""
WEIGHTS = "79ec099a68a99a36b601d21582f4631fe68e42e30538cc4c555ae8f7704d43bb"
"""What the card of the model calls its weights, those of no variant."""


def write_model(folder: Path, *, signed: bool = False) -> Path:
    """Write the folder, with its signature if asked for."""
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if signed:
        shutil.copy(Path(__file__).parent / "fixtures/signed/model.sig", folder)
    return folder
