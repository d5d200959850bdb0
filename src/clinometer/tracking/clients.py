"""The trackers: each function sends one run by the tracker's own client; what is there already is not sent again.

The module runs in a process of its own, so that a client that hangs, prints or ends its process costs an audit nothing.
Only the tracker knows whether a step was sent: no record is kept elsewhere.
"""

from __future__ import annotations

import importlib.util
import io
import os
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from clinometer._secrets import masked
from clinometer.errors import InvalidInputError


@dataclass(frozen=True)
class Step:
    """One point of every series of a tracker's run.

    Attributes
    ----------
    number : its place on the tracker's axis: the images drawn so far, or the number of a checkpoint.
    metrics : values by name, all finite.
    pictures : grids as PNG, by name.
    files : further files, by name.
    """

    number: int
    metrics: Mapping[str, float]
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class TrackedRun:
    """The content of one run of a tracker.

    Attributes
    ----------
    id : 32 hexadecimal digits, the same whenever the same audit is sent.
    project : the tracker's project: the suite's name.
    name : its name there.
    config : the settings, as text and numbers.
    steps : in ascending order of their numbers.
    """

    id: str
    project: str
    name: str
    config: Mapping[str, str | int | float]
    steps: Sequence[Step]


@contextmanager
def _as_files(contents: Mapping[str, bytes], suffix: str = "") -> Iterator[dict[str, str]]:
    """Write contents into a folder that lasts as long as the block; yields their paths by name."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, f"{name}{suffix}") for name in contents}
        for name, path in paths.items():
            Path(path).write_bytes(contents[name])
        yield paths


def to_mlflow(run: TrackedRun, target: str) -> None:
    """Send a run to MLflow; ``target`` is a tracking URI, by default MLflow's own default."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    client = MlflowClient(target or None)
    experiment = client.get_experiment_by_name(run.project)
    place = experiment.experiment_id if experiment else client.create_experiment(run.project)
    earlier = client.search_runs([place], f"tags.`clinometer.id` = '{run.id}'", max_results=1)
    there = earlier[0] if earlier else client.create_run(place, run_name=run.name, tags={"clinometer.id": run.id})
    identifier, known = there.info.run_id, there.data.params
    params = [Param(name, str(value)) for name, value in run.config.items() if name not in known]
    client.log_batch(identifier, params=params[:100])
    for step in run.steps:
        sent = RunTag(f"clinometer.step.{step.number}", "sent")
        if sent.key in there.data.tags:
            continue
        already = {  # an earlier attempt may have ended among them
            name
            for name in step.metrics.keys() & there.data.metrics.keys()
            if any(point.step == step.number for point in client.get_metric_history(identifier, name))
        }
        now = int(time.time() * 1000)
        points = [Metric(name, value, now, step.number) for name, value in step.metrics.items() if name not in already]
        for start in range(0, len(points), 1000):  # MLflow accepts no more at once
            client.log_batch(identifier, metrics=points[start : start + 1000])
        with _as_files(step.pictures, ".png") as pictures, _as_files(step.files) as files:
            for path in pictures.values():
                client.log_artifact(identifier, path, f"pictures/{step.number}")
            for path in files.values():
                client.log_artifact(identifier, path, f"files/{step.number}")
        client.log_batch(identifier, tags=[sent])
    client.set_terminated(identifier)


def to_wandb(run: TrackedRun, target: str) -> None:
    """Send a run to Weights & Biases; ``target`` is ``PROJECT`` or ``ENTITY/PROJECT``."""
    import wandb

    entity, _, project = target.rpartition("/")
    settings = wandb.Settings(console="off", silent=True, init_timeout=60, disable_git=True, save_code=False)
    with wandb.init(
        entity=entity or None, project=project or run.project, id=run.id, name=run.name, config=dict(run.config),
        resume="allow", settings=settings,
    ) as there:  # fmt: skip
        folder = Path(there.settings.sync_dir).parent
        offline = {path.name for each in folder.glob(f"*-{run.id}") for path in each.glob("*.sent")}
        for step in run.steps:
            # the service knows its last step; a folder that is still to be synced holds a file for each
            if step.number < there.step or f"{step.number}.sent" in offline:
                continue
            with _as_files(step.pictures, ".png") as pictures, _as_files(step.files) as files:
                images = {f"pictures/{name}": wandb.Image(path, caption=name) for name, path in pictures.items()}
                there.log({**step.metrics, **images}, step=step.number)
                kept = wandb.Artifact(f"clinometer-{run.id}", "audit", metadata={"step": step.number})
                for name, path in files.items():
                    kept.add_file(path, name)
                there.log_artifact(kept)
                if not there.offline:
                    kept.wait()
            (Path(there.settings.sync_dir) / f"{step.number}.sent").touch()


def to_trackio(run: TrackedRun, target: str) -> None:
    """Send a run to trackio; ``target`` is a project, a Space ``OWNER/NAME``, or the address of a server."""
    import trackio

    where = {"server_url": target} if "://" in target else {"space_id": target} if "/" in target else {}
    there = trackio.init(
        project=run.project if where or not target else target, name=f"{run.name} {run.id[:8]}",
        config=dict(run.config), resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False, **where,
    )  # fmt: skip
    for step in run.steps:
        if step.number < there._next_step:  # what a resumed run of that name would number its next step
            continue
        with _as_files(step.pictures, ".png") as pictures, _as_files(step.files) as files:
            images = {f"pictures/{name}": trackio.Image(path, caption=name) for name, path in pictures.items()}
            trackio.log({**step.metrics, **images}, step=step.number)
            for name, path in files.items():
                trackio.log_artifact(path, name=f"{run.id[:8]}-{name}", type="audit")
    trackio.finish()


def to_tensorboard(run: TrackedRun, target: str) -> None:
    """Write event files into a folder, ``tensorboard`` by default: a file for each step, whole or not at all."""
    import numpy as np
    from PIL import Image
    from tensorboardX import SummaryWriter

    folder = Path(target or "tensorboard") / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', run.name)[:80]}-{run.id[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    for step in run.steps:
        suffix = f".step{step.number}"
        if any(folder.glob(f"events.*{suffix}")):
            continue
        with tempfile.TemporaryDirectory(dir=folder, prefix="unfinished-") as unfinished:
            with SummaryWriter(unfinished, filename_suffix=suffix) as writer:
                for name, value in step.metrics.items():
                    writer.add_scalar(name, value, step.number)
                for name, png in step.pictures.items():
                    with Image.open(io.BytesIO(png)) as picture:
                        writer.add_image(f"pictures/{name}", np.asarray(picture), step.number, dataformats="HWC")
                settings = "\n".join(f"| {name} | {value} |" for name, value in run.config.items())
                writer.add_text("settings", f"| setting | value |\n|---|---|\n{settings}", step.number)
            for name, content in step.files.items():
                (folder / f"{step.number}-{name}").write_bytes(content)
            for path in Path(unfinished).glob("events.*"):
                os.replace(path, folder / path.name)


@dataclass(frozen=True)
class Tracker:
    """A tracker that results can be sent to.

    Attributes
    ----------
    send : sends one run.
    package : what has to be installed, as it is imported.
    target : the part after the colon, in words.
    """

    send: Callable[[TrackedRun, str], None]
    package: str
    target: str


TRACKERS: Final[Mapping[str, Tracker]] = {
    "mlflow": Tracker(to_mlflow, "mlflow", "a tracking URI"),
    "wandb": Tracker(to_wandb, "wandb", "PROJECT or ENTITY/PROJECT"),
    "trackio": Tracker(to_trackio, "trackio", "PROJECT, a Space OWNER/NAME, or a server's URL"),
    "tensorboard": Tracker(to_tensorboard, "tensorboardX", "a folder"),
}


def require_trackers(targets: Iterable[str]) -> list[tuple[str, str]]:
    """Split ``TRACKER[:TARGET]``, and refuse what cannot be sent to.

    Raises
    ------
    InvalidInputError
        There is no such tracker, or its client is not installed.
    """
    split = []
    for option in targets:
        name, _, target = option.partition(":")
        if name not in TRACKERS:
            known = ", ".join(f"{name}[:{tracker.target}]" for name, tracker in TRACKERS.items())
            raise InvalidInputError.unknown_name(f"--log-to: found {masked(option)!r}, expected {known}")
        if importlib.util.find_spec(package := TRACKERS[name].package) is None:
            raise InvalidInputError.lacks_package(package, f"clinometer[{name}]", what=f"--log-to {name}")
        split.append((name, target))
    return split


def main() -> None:
    """Send the runs that standard input holds to ``sys.argv[1]``, at the target ``sys.argv[2]``."""
    runs: list[TrackedRun] = pickle.load(sys.stdin.buffer)  # written by the process that started this one
    for run in runs:
        TRACKERS[sys.argv[1]].send(run, sys.argv[2])
