"""What does a finished run of a million images cost: to score, to find that nothing is to do, to report and to open?

    python benchmarks/large_run.py --images 1000000 --part 64
    python benchmarks/large_run.py --images 100000 --keep /tmp/large      keeps the run there

A made-up run as an audit leaves it: one small PNG for all images, random vectors, parts of ``--part`` images (an import
makes parts of 64). Each step is a process of its own and prints seconds by the clock and of the processor, and its peak
memory. ``again`` is the whole command once more: plan, comparison with the plan there, parts, embeddings, scores, page.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import clinometer as cm
from benchmarks.browse import ENCODER, GENERATOR, make_run, peak, suite_of
from clinometer.pipeline.results import score, write_report
from clinometer.runs import NoProgress

STEPS = ("first", "again", "score again", "report again")
_OPENED = "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=1", "--dump-dom"


class Finished:
    """A model that has drawn all it was asked, and an encoder that has seen it."""

    def __init__(self, card: object, part: int) -> None:
        self.card, self.batch_size = card, part

    def generate(self, requests: object) -> object:
        raise AssertionError("nothing is to be drawn")

    def encode_images(self, images: object) -> np.ndarray:
        raise AssertionError("nothing is to be embedded")

    encode_texts = encode_images


def step(name: str, place: str, asked: argparse.Namespace) -> dict[str, float]:
    """Do one step in this process."""
    begun, used = time.perf_counter(), time.process_time()
    if name in ("first", "again"):
        model, eye = (Finished(card, asked.part) for card in (GENERATOR, ENCODER))
        cm.audit(model, suite_of(asked.images, asked.concepts), place, encoder=eye, resamples=asked.resamples)
    elif name == "score again":
        score(cm.open_run(place), NoProgress())
    else:
        write_report(cm.open_run(place))
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    return {"seconds": seconds, "of the processor": processor, "peak, MB": peak() * 1.048576}


def opened(address: str) -> float:
    """Seconds until a browser, started for it, has laid the page out."""
    begun = time.perf_counter()
    subprocess.run([*_OPENED, address], check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> None:
    """Make the run, then every step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--concepts", type=int, default=100)
    parser.add_argument("--part", type=int, default=64)
    parser.add_argument("--width", type=int, default=64, help="numbers of a vector")
    parser.add_argument("--resamples", type=int, default=100, help="few: benchmarks/growth.py says what they cost")
    parser.add_argument("--keep", help="where the run is made and kept; one that is there is taken")
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        print(json.dumps(step(*asked.step, asked)))
        return
    folder = Path(asked.keep or tempfile.mkdtemp())
    place = folder / "large"
    try:
        if not place.exists():
            begun = time.perf_counter()
            make_run(place, asked.images, asked.concepts, part=asked.part, width=asked.width)
            print(f"made in {time.perf_counter() - begun:.0f} s, peak {peak() * 1.048576:.0f} MB", flush=True)
        for name in STEPS:
            words = [sys.executable, "-m", "benchmarks.large_run", *sys.argv[1:], "--step", name, str(place)]
            found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(f"{name:14}" + "".join(f"{value:10.1f} {key}" for key, value in found.items()), flush=True)
        page = place / "report.html"
        blank, whole = (min(opened(each) for _ in range(3)) for each in ("about:blank", page.as_uri()))
        print(f"report.html: {page.stat().st_size / 1e6:.2f} MB, opened in {whole:.2f} s (an empty page {blank:.2f} s)")
    finally:
        if not asked.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
