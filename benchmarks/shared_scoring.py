"""What does it save to have workers measure a run while it is scored, and how much memory does scoring take?

    python -m benchmarks.shared_scoring --images 10000 --concepts 100 --encoders 6 --workers 0 1 2
    python -m benchmarks.shared_scoring --study editing --images 2600 --concepts 4 --side 512

A made-up run as of `benchmarks/study_runs.py`, with some encoders. Each number of workers is a process of its own; 0 is
no engine. Printed are seconds by the clock, processor seconds of the command and of its workers, and the peak memory of
the command and of its largest worker. The scores have to be the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.study_runs import STUDIES, make_study_run
from clinometer.models.protocols import Card
from clinometer.pipeline.engines.dispatch import LocalEngine
from clinometer.pipeline.parallel import Parallel
from clinometer.pipeline.results import score
from clinometer.runs import NoProgress
from clinometer.runs.run import Run


def with_encoders(run: Run, encoders: int, width: int) -> None:
    """Add encoders until there are so many."""
    texts = run.suite.texts()
    for number in range(1, encoders):
        rng, card = np.random.default_rng(number), Card(kind="encoder", name=f"eye-{number}", family="benchmark/none")
        run.encoders.begin(card)
        run.vectors.write_texts(card.name, texts, rng.standard_normal((len(texts), width)).astype(np.float32))
        for part, samples in run.parts.items():
            vectors = rng.standard_normal((len(samples), width)).astype(np.float32)
            run.vectors.write(card.name, part, [sample.id for sample in samples], vectors)
        run.encoders.finish(card)
    run.ledger.list_files()


def measure(place: str, workers: int, resamples: int) -> dict[str, float]:
    """Score a run in this process and so many others."""
    run = Run(place)
    run.record_options({"resamples": resamples})
    begun, used = time.perf_counter(), time.process_time()
    engine = LocalEngine(workers) if workers else None
    pool = None if engine is None else Parallel(engine, None, {}).pool(NoProgress())
    score(run, NoProgress(), pool=pool)
    found = {"clock": time.perf_counter() - begun, "command": time.process_time() - used, "peak": peak("self")}
    processes = [] if engine is None else [str(slot._process.pid) for slot in engine._slots if slot._process]
    for number, process in enumerate(processes):
        found[f"worker {number}"], found[f"peak {number}"] = processor_seconds(process), peak(process)
    if engine is not None:
        engine.close()
    return found


def processor_seconds(process: str) -> float:
    """User's and system's, of another process."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(process: str) -> float:
    """The most memory a process has held, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def main() -> None:
    """Make the run, and score it by each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("images", 10_000), ("concepts", 100), ("encoders", 1), ("width", 768), ("part", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--study", choices=STUDIES, default="leaning")
    parser.add_argument("--side", type=int, default=64, help="pixels a side of portraits that are edited")
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one[0], int(asked.one[1]), asked.resamples)))
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "run")
        made_up = {"part": asked.part, "width": asked.width, "side": asked.side}
        run = make_study_run(place, asked.study, asked.images, asked.concepts, **made_up)
        with_encoders(run, asked.encoders, asked.width)
        written = set()
        for workers in asked.workers:
            (place / "scores.parquet").unlink(missing_ok=True)
            words = [
                sys.executable,
                "-m",
                "benchmarks.shared_scoring",
                *sys.argv[1:],
                "--one",
                str(place),
                str(workers),
            ]
            found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(f"{workers} workers: " + ", ".join(f"{key} {value:.1f}" for key, value in found.items()), flush=True)
            written.add((place / "scores.parquet").read_bytes())
        print("the same scores" if len(written) == 1 else "DIFFERENT SCORES")


if __name__ == "__main__":
    main()
