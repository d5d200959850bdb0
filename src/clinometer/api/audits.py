"""Audits and sweeps, from a suite and a model to a report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clinometer.pipeline.audits import AuditRequest, Workers
from clinometer.pipeline.audits import audit as run_audit
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.loaded_models import Models
from clinometer.runs import NoProgress, Progress
from clinometer.suites import Suite
from clinometer.sweeps import SweepFile
from clinometer.sweeps.running import LoadedObjects as GivenObjects
from clinometer.sweeps.sweep import Sweep
from clinometer.sweeps.sweep import sweep as run_sweep

if TYPE_CHECKING:
    from clinometer.models import Encoder, Generator

from clinometer.api.runs import Run


def audit(
    model: str | Generator = "reference",
    suite: str | Path | Suite = "reference",
    out: str | os.PathLike[str] | None = None,
    *,
    encoder: str | Encoder | Sequence[str | Encoder] | None = None,
    protocol: Literal["paper"] | None = None,
    images: int | None = None,
    seed: int = 0,
    steps: int | None = None,
    guidance_scale: float | None = None,
    batch_size: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    text_targets: Literal["prompt", "keyword"] | None = None,
    model_options: Mapping[str, Any] | None = None,
    budget: float | None = None,
    portraits: str | os.PathLike[str] | None = None,
    expression: str = "N",
    retry_failed: bool = False,
    until: Literal["decided"] | float | None = None,
    engine: str | Engine = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Audit a text-to-image model and return the finished run.

    Parameters
    ----------
    model : ``"reference"``, a directory, a hub id, a plug-in's name, or a generator itself.
    suite : a built-in suite's name, a YAML file, or a suite itself.
    out : the run directory; by default ``runs/<model>-<suite>``. One that holds part of the same audit is continued.
    encoder : one encoder or several: ``"reference"`` (the default), ``"NAME/PRETRAINED"`` of open_clip, a directory, a
        hub id, or ``"openai-clip-six"``, the six of the internal-bias paper.
    protocol : ``"paper"`` takes what the suite's paper prescribes beside its prompts: encoders, text targets, numbers
        of images, and settings of the model as far as it has them. What is given here wins over it, and every departure
        is recorded and reported.
    images : images drawn for each target, instead of the suite's number.
    seed : every image's noise follows from it.
    steps, guidance_scale : sampler settings, instead of the model's own.
    batch_size, device, dtype : how to compute; batch size and device do not enter an image's noise. Without a batch
        size the largest is looked for that memory holds; a run that is continued keeps its own.
    text_targets : what stands for a target in text: its ``"prompt"`` or its ``"keyword"``.
    model_options : what else the model's adapter takes, such as ``{"lora": …}``; see ``clinometer.models``. Like the
        settings above it is for a model that is loaded here; of a generator itself only ``device`` may be given, which
        serves the encoders.
    budget : what the images still missing may cost, of a model with a price; checked before the first request. Of a
        model without one it limits nothing, which is said: a script may give it to all models.
    portraits : for a suite of study editing or classification, portraits to edit or classify instead of drawn ones: a
        folder with a manifest, one of files named as in the Chicago Face Database, or ``"reference"`` for those that
        ship with the package.
    expression : which expression of such a database is taken: N, A, F, HC or HO.
    retry_failed : draw images anew that failed earlier (a refused image is an answer and stays).
    until : draw in rounds, and no more of a target once it is ``"decided"`` as leaning or as balanced within the
        suite's margin, or once its 95 % confidence sequence reaches no further than this number on either side. Valid
        although the images are looked at all along; ``images`` is then the most a target gets, by default ten times
        the suite's number.
    engine, workers : who draws and embeds: ``"local"``, ``"ray"``, ``"ray=ADDRESS"``, a plug-in's name or an engine
        itself, and how many processes. By default this process does, or one for each of several GPUs. Scores do not
        depend on it; see docs/scale.md.
    progress : a listener for the long stages.

    Raises
    ------
    SuiteError, ModelError, RunError, EngineError, InvalidInputError
        Each says what was found, what was expected, and the way out. What was finished stays in ``out``.
    """
    request = AuditRequest(
        model=model,
        suite=suite,
        out=out,
        encoder=encoder,
        protocol=protocol,
        images=images,
        seed=seed,
        steps=steps,
        guidance_scale=guidance_scale,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        text_targets=text_targets,
        model_options=model_options or {},
        budget=budget,
        portraits=portraits,
        expression=expression,
        retry_failed=retry_failed,
        until=until,
    )
    return Run(run_audit(request, Models(), Workers(engine, workers), progress or NoProgress()))


def sweep(
    grid: str | os.PathLike[str] | Mapping[str, Any] | SweepFile,
    out: str | os.PathLike[str] | None = None,
    *,
    models: Mapping[str, Generator] | None = None,
    suites: Mapping[str, Suite] | None = None,
    encoder: str | Encoder | Sequence[str | Encoder] | None = None,
    engine: str | Engine = "local",
    workers: int | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Audit a grid of models, settings, seeds and suites, and hold every setting against a baseline.

    Parameters
    ----------
    grid : a YAML file, or a mapping of the same keys: ``{"axes": {"guidance": [1, 3, 7.5], "seed": [0, 1, 2]},
        "baseline": {"guidance": 7.5}, "images": 20}``; see docs/sweeps.md.
    out : the sweep's directory; by default what the grid says, or ``runs/`` and the name of its file. One that holds
        part of the same sweep, or a smaller one, is continued: no finished cell is done again.
    models, suites : generators and suites that are loaded already, by the names that the axes have for them.
    encoder : as of :func:`audit`; by default what the grid says.
    engine, workers, retry_failed : as of :func:`audit`.
    progress : a listener for the long stages.

    Returns
    -------
    The sweep: ``sweep.table`` and ``sweep.differences`` are its numbers, ``sweep.runs`` its finished runs, and
    ``sweep.failed`` the cells that failed, and why. A cell that fails stops no other.

    Raises
    ------
    SweepError
        An unknown key, axis or baseline, or a directory whose cells were asked something else.
    RunError, EngineError
        The directory is another's, or no worker can be started.
    """
    objects = GivenObjects(models or {}, suites or {}, encoder, retry_failed=retry_failed)
    return run_sweep(grid, out, objects, Workers(engine, workers), progress or NoProgress())
