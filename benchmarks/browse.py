"""How long does a page of a large run take, once the run has been read, and how much memory?

    python benchmarks/browse.py --images 1000000

A made-up run: 1,000 concepts, a 16-number embedding and an 8 × 8 PNG an image, parts of 10,000. It is read once by one
process; a second one, with nothing in hand, opens the index and pages of the explorer. Prints seconds and peak memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from clinometer.models.images import encode_png, sha256
from clinometer.models.protocols import Card
from clinometer.runs.ledger import samples_name, vectors_name
from clinometer.runs.plan import Parts, Plan, build_plan
from clinometer.runs.record import card_record, new_record, with_checksum
from clinometer.runs.run import Run, create_run
from clinometer.runs.samples import SAMPLE_SCHEMA
from clinometer.suites import Suite, suite_from_mapping

PART = 10_000
GENERATOR = Card(kind="generator", name="made up", family="benchmark/none")
ENCODER = Card(kind="encoder", name="eye", family="benchmark/none")


def suite_of(images: int, concepts: int) -> Suite:
    """So many images, nearly all of concepts."""
    groups = {
        name: {"prompts": [{"prompt": f"a {name}", "pair": "plain"}], "words": [name]} for name in ("man", "woman")
    }
    targets = [{"name": f"concept {order}", "prompt": f"a picture of {order}"} for order in range(concepts)]
    return suite_from_mapping(
        {
            "name": "large", "title": "Large", "description": "Made up.", "groups": groups,
            "axis": {"a": "man", "b": "woman"}, "categories": {"all of them": {"targets": targets}},
            "images": {"target": images // concepts - 1, "attribute": concepts // 2},
        },
        source="benchmark",
    )  # fmt: skip


def make_run(
    place: Path, images: int, concepts: int, pictures: Sequence[bytes] = (), *, part: int = PART, width: int = 16
) -> Run:
    """Write a run as an audit would leave it, but for its scores; of these pictures in turn, or of one small one."""
    suite = suite_of(images, concepts)
    plan = build_plan(suite.prompt_specs(), seed=0, model_fingerprint=GENERATOR.fingerprint, part_size=part)
    record = new_record(suite, GENERATOR, seed=0, origin="generated")
    run = create_run(place, with_checksum(record | {"encoders": {"eye": card_record(ENCODER)}}), plan)
    rng, drawn = np.random.default_rng(0), cycle(pictures or [encode_png(Image.new("RGB", (8, 8), "teal"))])
    texts = suite.texts()
    run.vectors.write_texts("eye", texts, rng.standard_normal((len(texts), width)).astype(np.float32))
    for number, samples in Parts(Plan.of(plan)).items():
        run.ledger.write_table(
            samples_name(number), pa.Table.from_pylist(list(rows(samples, drawn)), schema=SAMPLE_SCHEMA)
        )
        vectors = rng.standard_normal((len(samples), width)).astype(np.float32)
        run.vectors.write("eye", number, [sample.id for sample in samples], vectors)
    run.ledger.list_files()
    assert run.directory.exists(vectors_name("eye", 0))
    return run


def rows(samples: list, drawn: Iterator[bytes]) -> Iterator[dict]:
    """A part's rows, each with the next picture."""
    for sample, png in zip(samples, drawn, strict=False):
        kept = {key: value for key, value in asdict(sample).items() if key not in ("part", "file")}
        yield kept | {"status": "ok", "image": {"bytes": png}, "sha256": sha256(png), "seconds": 0.1}


def visit(place: str, cache: str, images: int, *, reading: bool) -> dict[str, float]:
    """Seconds of each page in this process, and its peak memory in MiB before and after."""
    from fastapi.testclient import TestClient

    from clinometer.web.app import create_app
    from clinometer.web.security import ServerSettings

    app = create_app(ServerSettings(runs=(place,), cache=Path(cache), hosts=("testserver",)))
    browser, taken = TestClient(app), {}
    taken["peak memory before, MiB"] = peak()

    def timed(name: str, address: str) -> str:
        begun = time.perf_counter()
        response = browser.get(address)
        while response.status_code == 202:
            response = browser.get(address)
        assert response.status_code == 200, response.text
        taken[name] = time.perf_counter() - begun
        return response.text

    first = timed("index", "/runs").split('name="run" value="')[1][:12]
    address = f"/explore?run={first}"
    if reading:
        timed("first reading", address)
    else:
        page = timed("explorer, first page", address)
        timed("its last page", f"{address}&page={images // 48}")
        timed("one concept of 1,000", f"{address}&of=target/concept+700")
        timed("every image, least certain first", f"{address}&order=unsure")
        timed("every image that reads as a group, least typical first", f"{address}&order=unusual&side=man")
        timed("within a margin", f"{address}&within=0.001")
        timed("a picture", page.split('<img class="tile"')[1].split('src="')[1].split('"')[0])
    taken["peak memory after, MiB"] = peak()
    return taken


def peak() -> float:
    """The process's peak memory, in MiB; what the process that started it held is not in it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--concepts", type=int, default=1_000)
    parser.add_argument("--visit", nargs=3, metavar=("RUNS", "CACHE", "HOW"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.visit:
        print(json.dumps(visit(*asked.visit[:2], asked.images, reading=asked.visit[2] == "reading")))
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "runs", "large")
        make_run(place, asked.images, asked.concepts)
        for how in ("reading", "looking"):
            words = [
                sys.executable,
                __file__,
                "--images",
                str(asked.images),
                "--visit",
                str(place.parent),
                f"{folder}/cache",
                how,
            ]
            said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            for name, value in json.loads(said).items():
                print(f"{name}: {value:.2f}")
        index = next(Path(folder, "cache", "samples").glob("*.sqlite"))
        print(f"the index: {index.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
