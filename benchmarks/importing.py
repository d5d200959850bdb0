"""What does an import cost beside the least that it can: Pillow and the encoder, in one loop?

    python benchmarks/importing.py --images 1000 3000

JPEGs of 256 × 256 in a folder with a manifest; the bare loop opens each, makes it RGB and embeds batches of 32 by the
same encoder, the reference CLIP. Every size and side is a process of its own. Prints seconds of the processor, without
what loading the encoder took, the share that the bare loop has of the import, and peak memory, which is to be flat.
The import does more: it keeps every file in Parquet, writes vectors, checksums and a plan, and hashes all files. What
it computes of them in the end, scores and a report, is counted apart.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import clinometer as cm
from benchmarks.browse import peak, suite_of
from clinometer.models import load_encoder
from clinometer.runs import NoProgress

BATCH, CONCEPTS, SIZE = 32, 20, 256


class Stages(NoProgress):
    """When each stage began, in seconds of the processor."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}

    def start(self, stage: str, total: int, done: int) -> None:
        """Note it."""
        self.began[stage] = time.process_time()


def make_folder(folder: Path, images: int) -> None:
    """Write so many JPEGs, each of a smooth gradient of its own, and their manifest."""
    rng = np.random.default_rng(0)
    with (folder / "manifest.csv").open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(["file", "concept", "group"])
        for number in range(images):
            small = rng.integers(0, 255, (16, 16, 3), np.uint8)
            Image.fromarray(small).resize((SIZE, SIZE), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg")
            group = ("man", "woman")[number % 2] if number < 64 else ""
            out.writerow([f"{number}.jpg", "" if group else f"concept {number % CONCEPTS}", group])


def bare(folder: Path) -> dict[str, float]:
    """The loop that anyone would write."""
    encoder = load_encoder("reference", device="cpu")
    begun = time.process_time()
    files = sorted(folder.glob("*.jpg"))
    for first in range(0, len(files), BATCH):
        images = []
        for path in files[first : first + BATCH]:
            with Image.open(path) as image:
                images.append(image.convert("RGB"))
        encoder.encode_images(images)
    return {"seconds": time.process_time() - begun, "peak": peak()}


def imported(folder: Path) -> dict[str, float]:
    """The same by ``import_images``; scoring and the report are apart."""
    encoder, stages = load_encoder("reference", device="cpu"), Stages()
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as out:
        cm.import_images(folder, suite=suite_of(2000, CONCEPTS), out=f"{out}/run", encoder=encoder, progress=stages)
    scored = stages.began["scoring"]
    return {"seconds": scored - begun, "scores and report": time.process_time() - scored, "peak": peak()}


def main() -> None:
    """Measure both sides of every size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 3000])
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        print(json.dumps({"bare": bare, "import": imported}[asked.side[0]](Path(asked.side[1]))))
        return
    for images in asked.images:
        with tempfile.TemporaryDirectory() as folder:
            make_folder(Path(folder), images)
            found = {}
            for side in ("bare", "import"):
                words = [sys.executable, "-m", "benchmarks.importing", "--side", side, folder]
                said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
                found[side] = json.loads(said.splitlines()[-1])
            share = found["bare"]["seconds"] / found["import"]["seconds"]
            print(f"{images:,} images: the bare loop has {share:.1%} of the import's processor seconds")
            for side, numbers in found.items():
                print(f"  {side:8}" + "".join(f"{value:10.1f} {name}" for name, value in numbers.items()), flush=True)


if __name__ == "__main__":
    main()
