"""How scoring grows: processor time and peak memory with images, concepts and encoders, and the exponents.

    python benchmarks/growth.py                                  an hour on one core
    python benchmarks/growth.py --images 1000 10000 --concepts 10 100 --encoders 1 2

One axis grows at a time; the others stay at ``--base``. Every size is a process of its own, so that its peak is its
own. Vectors are random, of 768 numbers, and lie in a file as those of a run do; 320 attribute images.
The exponent is the slope of log seconds on log size: 1 is linear. Of memory it is the slope in bytes that counts, and a
fit ``peak = fixed + slope × size`` tells what a larger study would need.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from time import process_time

import numpy as np

from clinometer._scratch import Scratch, VectorFile
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign, mcas_study

DIM, PROMPTS, PER_PROMPT, WORDS = 768, 16, 10, 8
GROUPS = ("man", "woman")
BASE = {"images": 3000, "concepts": 30, "encoders": 1}
_ROWS = 1000


def random_vectors(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Vectors around a common centre, as embeddings are."""
    return 1 + rng.standard_normal((*shape, DIM), dtype=np.float32)


def random_encoder(number: int, images: int, concepts: int) -> EncoderEmbeddings:
    """An encoder that has seen so many images, shared among the concepts."""
    rng, file = np.random.default_rng(number), VectorFile()
    for target in range(concepts):
        own = images // concepts
        for first in range(0, own, _ROWS):
            rows = min(_ROWS, own - first)
            file.add([target] * rows, random_vectors(rng, rows))
    return EncoderEmbeddings(
        encoder=f"encoder {number}",
        target_images=file.blocks(range(concepts), DIM),
        target_texts=random_vectors(rng, concepts),
        group_images={g: tuple(random_vectors(rng, PER_PROMPT) for _ in range(PROMPTS)) for g in GROUPS},
        group_words={g: random_vectors(rng, WORDS) for g in GROUPS},
        blank_text=random_vectors(rng, 1)[0],
    )


def measure(images: int, concepts: int, encoders: int, resamples: int, missing: float = 0.0) -> dict[str, float]:
    """Score one study in this process: processor seconds, and the peak of its memory in bytes.

    ``missing`` : so many images for each that is there are not, so that verdicts have bounds.
    """
    made = [random_encoder(number, images, concepts) for number in range(encoders)]
    lost = round(missing * images / concepts)
    targets = tuple(TargetDesign(f"concept {t}", "all", missing=lost) for t in range(concepts))
    design = Design(targets, GROUPS, *GROUPS, margin=0.1)
    started = process_time()
    mcas_study(made, design, n_resamples=resamples, store=Scratch)
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "seconds": process_time() - started,
        "peak": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit),
    }


def measured_apart(resamples: int, missing: float, **sizes: int) -> dict[str, float]:
    """The same in a process of its own."""
    options = {**sizes, "resamples": resamples, "missing": missing}
    command = [sys.executable, __file__, "--one", json.dumps(options)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def slopes(sizes: list[int], found: list[dict[str, float]]) -> tuple[float, float]:
    """The exponent of the seconds, and bytes of peak memory a unit of size."""
    seconds, peaks = ([each[name] for each in found] for name in ("seconds", "peak"))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), float(np.polyfit(sizes, peaks, 1)[0])


def report(axis: str, sizes: list[int], base: dict[str, int], resamples: int, missing: float) -> None:
    """Measure one axis and print it."""
    found = []
    for size in sizes:
        found.append(measured_apart(resamples, missing, **{**base, axis: size}))
        print(f"{axis:10}{size:>10,}{found[-1]['seconds']:>12.1f} s{found[-1]['peak'] / 1e6:>12,.0f} MB", flush=True)
    if len(sizes) > 1:
        exponent, slope = slopes(sizes, found)
        print(
            f"{axis:10} seconds grow with exponent {exponent:.2f}; memory by {slope / 1e3:,.1f} kB each\n", flush=True
        )


def main() -> None:
    """Measure every axis."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--images", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--concepts", type=int, nargs="*", default=[10, 100, 1000])
    parser.add_argument("--encoders", type=int, nargs="*", default=[1, 2, 4, 6])
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--missing", type=float, default=0.0, help="images that are missing, for each that is there")
    parser.add_argument("--base", type=json.loads, default=BASE, help="JSON: what the other axes are")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(**options.one)))
        return
    print(f"base: {options.base}, {options.resamples:,} replicates")
    for axis in BASE:
        sizes: list[int] = getattr(options, axis)
        report(axis, sizes, options.base, options.resamples, options.missing)


if __name__ == "__main__":
    main()
