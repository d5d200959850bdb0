"""What is sent to a tracker: numbers with their intervals, counts of verdicts, grids of pictures, and files.

A tracker that is down, slow or out of disk stops no audit and loses nothing.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageOps
from skimage.util import montage

from clinometer._csv import csv_text
from clinometer._messages import shortened
from clinometer._secrets import masked
from clinometer.pipeline.comparison_page import comparison_html
from clinometer.report.differences import pair_names
from clinometer.report.gallery import foremost_pictures
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Scores, View
from clinometer.runs import Progress, Run
from clinometer.runs.several import Comparison
from clinometer.runs.verification import REPORT
from clinometer.studies.reporting import page_and_view
from clinometer.sweeps.sweep import Sweep
from clinometer.tracking.clients import Step, TrackedRun, require_trackers

MOST_GRIDS: Final = 12
"""Concepts whose pictures are sent: those that lean most, to either side."""

COLUMNS: Final = 4
SIDE: Final = 96
"""Pictures in a row of a grid, and their width and height in pixels."""


def tracked(results: Run | Sweep | Sequence[Comparison]) -> list[TrackedRun]:
    """Return the tracker's runs for an audit's run, a sweep or comparisons.

    A sweep over checkpoints is a run of the tracker for each setting and seed, with a step for each checkpoint; of any
    other sweep every cell is a run.

    Raises
    ------
    RunError
        A run is not scored, or is damaged.
    """
    if isinstance(results, Run):
        step = _step_of(results, _images(results))
        return [TrackedRun(_id_of(results), results.suite.name, _name_of(results), _config_of(results), [step])]
    if isinstance(results, Sweep):
        return list(_of_sweep(results))
    return [_of_comparison(each, names) for each, names in zip(results, pair_names(results), strict=True)]


def _id_of(*runs: Run) -> str:
    """Return a digest of the runs' plans, models and dates, which stays when they are moved or scored again."""
    origins = [[run.record[name] for name in ("created", "seed", "suite_fingerprint")] for run in runs]
    models = [run.model_card["fingerprint"] for run in runs]
    return hashlib.sha256(json.dumps([origins, models]).encode()).hexdigest()[:32]


def _name_of(run: Run) -> str:
    return f"{run.model_card['name']} {run.suite.name} seed {run.record['seed']}"


def _images(run: Run) -> int:
    return int((run.samples["status"] == "ok").sum()) if len(run.samples) else 0


def _config_of(run: Run) -> dict[str, str | int | float]:
    """Return the settings that a tracker shows and filters by, all of which run.json holds."""
    card, record = run.model_card, run.record
    settings = {f"setting/{name}": value for name, value in card.get("settings", {}).items()}
    config = {
        "model": card["name"], "family": card["family"], "model_fingerprint": card["fingerprint"],
        "suite": run.suite.name, "suite_fingerprint": record["suite_fingerprint"], "seed": record["seed"],
        "encoders": ", ".join(run.encoder_cards), "clinometer": record["versions"].get("clinometer", ""),
    }  # fmt: skip
    return {
        name: value if isinstance(value, int | float) else str(value)
        for name, value in (config | settings).items()
        if value is not None
    }


def _step_of(run: Run, number: int) -> Step:
    page, view = page_and_view(run)
    verdicts = page.verdicts(view)
    files = {"scores.csv": csv_text(run.scores).encode("utf-8", "backslashreplace")}
    if run.directory.exists(REPORT):
        files["report.html"] = run.directory.read_bytes(REPORT)
    return Step(number, _numbers_of(run, verdicts), dict(_grids_of(view, verdicts)), files)


def numbers_of(run: Run) -> dict[str, float]:
    """Return all that was judged in a scored run, by name, with the ends of its interval, and how many have a verdict.

    A number that is not defined is left out, and counted under ``verdicts/not measured``.

    Raises
    ------
    RunError
        The run is not scored, or is damaged.
    """
    page, view = page_and_view(run)
    return _numbers_of(run, page.verdicts(view))


def _numbers_of(run: Run, verdicts: Iterable[Verdicts]) -> dict[str, float]:
    """Return value and interval of all that was judged, and how many have each verdict."""
    counts, metrics = Counter[str](), dict[str, float]()
    for judged in verdicts:
        for row in judged.rows:
            counts[row.verdict or "not measured"] += 1
            place = f"{row.component}/{_plain(judged.name(row))}"
            metrics |= _interval(place, row.value, *row.ends(judged.over))
    return {"images": float(_images(run))} | _verdict_counts(counts) | metrics


def _verdict_counts(counts: Mapping[str, int]) -> dict[str, float]:
    return {f"verdicts/{_plain(name)}": float(n) for name, n in sorted(counts.items())}


def _interval(place: str, value: float, low: float, high: float) -> dict[str, float]:
    numbers = {place: value, f"{place}/low": low, f"{place}/high": high}
    return {name: float(number) for name, number in numbers.items() if isfinite(number)}


def _plain(name: str) -> str:
    """Return a name in the characters that all trackers accept in names of metrics."""
    return re.sub(r"[^\w. -]+", "-", name, flags=re.ASCII).strip() or hashlib.sha256(name.encode()).hexdigest()[:8]


def _grids_of(view: View, verdicts: Sequence[Verdicts]) -> Iterator[tuple[str, bytes]]:
    """Yield the pictures at the top of a report, a grid as PNG for each concept."""
    for strip in foremost_pictures(view, verdicts, MOST_GRIDS):
        pictures = [_square(tile.picture.url) for tile in strip["tiles"]]
        rows = -(-len(pictures) // COLUMNS)
        grid = montage(np.stack(pictures), grid_shape=(rows, COLUMNS), channel_axis=-1, fill=(255, 255, 255))
        png = io.BytesIO()
        Image.fromarray(grid.astype(np.uint8)).save(png, "PNG")
        yield _plain(strip["label"]), png.getvalue()


def _square(url: str) -> np.ndarray:
    """Decode a thumbnail's data URL and centre it on a white square."""
    with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
        return np.asarray(ImageOps.pad(image.convert("RGB"), (SIDE, SIDE), color="white"))


def _of_sweep(sweep: Sweep) -> Iterator[TrackedRun]:
    runs, cells = sweep.runs, defaultdict[tuple[tuple[str, Any], ...], list[tuple[str, Run]]](list)
    for cell in sweep.cells:
        if cell.name in runs:
            others = tuple((axis, value) for axis, value in cell.values if axis != "checkpoint")
            cells[others].append((str(cell["checkpoint"] or ""), runs[cell.name]))
    for others, checkpoints in cells.items():
        varied = {axis: value for axis, value in others if axis in sweep.record.grid.varied}
        first = checkpoints[0][1]
        name = ", ".join(f"{axis} {value}" for axis, value in varied.items()) or _name_of(first)
        numbers = _step_numbers([checkpoint for checkpoint, _ in checkpoints], first)
        steps = sorted(zip(numbers, (run for _, run in checkpoints), strict=True), key=lambda pair: pair[0])
        config = _config_of(first) | {f"axis/{axis}": str(value) for axis, value in varied.items()}
        yield TrackedRun(
            _id_of(first), first.suite.name, name, config, [_step_of(run, number) for number, run in steps]
        )


def _step_numbers(checkpoints: Sequence[str], first: Run) -> list[int]:
    """Return the number at the end of each checkpoint's name, or its place where one has none or two have the same."""
    if checkpoints == [""]:
        return [_images(first)]
    matches = [re.search(r"\d+(?=\D*$)", checkpoint) for checkpoint in checkpoints]
    numbers = [int(match[0]) for match in matches if match]
    return numbers if len(set(numbers)) == len(checkpoints) else list(range(len(checkpoints)))


def _of_comparison(comparison: Comparison, names: tuple[str, str]) -> TrackedRun:
    metrics = dict[str, float]()
    counts = Counter[str]()
    for row in Scores.from_frame(comparison.scores):
        if row.verdict:
            counts[row.verdict] += 1
        where = "/".join(_plain(part) for part in (row.component, row.concept, row.group, row.setting) if part)
        metrics |= _interval(f"{where}/{_plain(row.encoder)}" if row.encoder else where, row.value, row.low, row.high)
    first, second = comparison.first, comparison.second
    config = {"first": names[0], "second": names[1]} | {
        f"{which}/{name}": value
        for which, run in (("first", first), ("second", second))
        for name, value in _config_of(run).items()
    }
    files = {"comparison.csv": csv_text(comparison.scores).encode("utf-8", "backslashreplace")}
    files["comparison.html"] = comparison_html([comparison]).encode("utf-8", "replace")
    step = Step(_images(second), _verdict_counts(counts) | metrics, files=files)
    return TrackedRun(_id_of(first, second), first.suite.name, f"{names[1]} against {names[0]}", config, [step])


DEADLINE: Final = 300
"""Seconds that a tracker may take; one that takes longer is given up, and tried again by the next command."""


def log_to(results: Run | Sweep | Sequence[Comparison], targets: Iterable[str], progress: Progress) -> list[str]:
    """Send numbers, pictures and report of results to each of ``targets``; return what went wrong, a line each.

    Whatever happens to a tracker is logged and returned, and raises nothing. What was sent before is not sent again,
    and what was not is sent by the next call. Pictures that a safety checker flagged are left out.

    Parameters
    ----------
    results : a scored run, a sweep, or comparisons with one first run.
    targets : ``TRACKER`` or ``TRACKER:TARGET``; see `TRACKERS`. Keys are read by the clients themselves, from where
        each looks for them; none is printed or stored.

    Raises
    ------
    InvalidInputError
        As of :func:`require_trackers`.
    RunError
        A run is not scored, or is damaged.
    """
    trackers = require_trackers(targets)
    runs = tracked(results) if trackers else []
    problems = []
    for name, target in trackers:
        progress.note(f"sending to {name}")
        if problem := _send(name, target, runs):
            again = "it is sent by the next command that is given --log-to, such as clinometer score"
            problems.append(masked(f"{name}: not sent: {problem}; {again}"))
            logging.getLogger("clinometer").warning(problems[-1])
    return problems


def _send(name: str, target: str, runs: Sequence[TrackedRun]) -> str:
    """Send runs from a process of its own; return what went wrong, in words, or nothing."""
    source = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-c", "from clinometer.tracking.clients import main; main()", name, target]
    with tempfile.TemporaryFile() as errors:  # no pipe: what a client leaves running would keep it open
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,  # an interrupt is for the audit; clients write what they have before they end
            )  # fmt: skip
        except OSError as error:
            return f"its process could not start: {error}"
        try:
            process.communicate(pickle.dumps(list(runs)), timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"no answer within {DEADLINE} seconds"
        if process.returncode == 0:
            return ""
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return shortened(lines[-1] if lines else f"its process ended with status {process.returncode}", 300)
