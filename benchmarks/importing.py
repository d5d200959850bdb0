"""What does an import cost beside the least that it can: Pillow and the encoder, in one loop?

    python benchmarks/importing.py --images 1000 3000

JPEGs of 256 × 256 in a folder with a manifest; the bare loop opens each, makes it RGB and embeds batches of 32 by the
same encoder, the reference CLIP. Every size and side is a process of its own, and both sides of a size take turns.
Prints seconds of the processor, the least of the rounds, the share that the bare loop has of the import, and peak
memory, which is to be flat. Loading the encoder is apart, and so is what a first import loads besides: each process
imports, or embeds, a few images before it is measured. Torch has one thread on both sides: of several, those that wait
spin, and that would count. The import does more: it keeps every file in Parquet, writes vectors, checksums and a plan,
and hashes all files. What it computes of them in the end, scores and a report, is not counted.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image

import clinometer as cm
from benchmarks.browse import peak, suite_of
from clinometer.models import Encoder, load_encoder
from clinometer.runs import NoProgress

BATCH, CONCEPTS, FEW, SIZE = 32, 20, 96, 256


class ScoringBeginsError(Exception):
    """Everything is embedded."""


class UntilScored(NoProgress):
    """Ends an import before it is scored."""

    def start(self, stage: str, total: int, done: int) -> None:
        """Look which stage begins."""
        if stage == "scoring":
            raise ScoringBeginsError


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


def bare(folder: Path, encoder: Encoder) -> None:
    """The loop that anyone would write."""
    files = sorted(folder.glob("*.jpg"))
    for first in range(0, len(files), BATCH):
        images = []
        for path in files[first : first + BATCH]:
            with Image.open(path) as image:
                images.append(image.convert("RGB"))
        encoder.encode_images(images)


def imported(folder: Path, encoder: Encoder) -> None:
    """The same by ``import_images``, up to the scores."""
    with tempfile.TemporaryDirectory() as out, suppress(ScoringBeginsError):
        cm.import_images(
            folder, suite=suite_of(2000, CONCEPTS), out=f"{out}/run", encoder=encoder, progress=UntilScored()
        )


SIDES: dict[str, Callable[[Path, Encoder], None]] = {"bare": bare, "import": imported}


def measured(side: str, few: Path, folder: Path) -> dict[str, float]:
    """Seconds of the processor and of the clock, and peak memory, of this process."""
    encoder = load_encoder("reference", device="cpu")
    SIDES[side](few, encoder)
    begun, clock = time.process_time(), time.perf_counter()
    SIDES[side](folder, encoder)
    return {"seconds": time.process_time() - begun, "by the clock": time.perf_counter() - clock, "peak": peak()}


def main() -> None:
    """Measure both sides of every size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 3000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        side, few, folder = asked.side
        print(json.dumps(measured(side, Path(few), Path(folder))))
        return
    for images in asked.images:
        with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as folder:
            make_folder(Path(few), FEW)
            make_folder(Path(folder), images)
            found: dict[str, dict[str, float]] = {}
            for _ in range(asked.rounds):
                for side in SIDES:
                    words = [sys.executable, "-m", "benchmarks.importing", "--side", side, few, folder]
                    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
                    said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=one_thread).stdout
                    now = json.loads(said.splitlines()[-1])
                    found[side] = {name: min(value, found.get(side, now)[name]) for name, value in now.items()}
            share = found["bare"]["seconds"] / found["import"]["seconds"]
            print(f"{images:,} images: the bare loop has {share:.1%} of the import's processor seconds")
            for side, numbers in found.items():
                print(f"  {side:8}" + "".join(f"{value:10.1f} {name}" for name, value in numbers.items()), flush=True)


if __name__ == "__main__":
    main()
