"""Audits and sweeps, from a suite and a model to a report; finished images and counts in the place of a model."""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol

from clinometer._messages import as_text, first_and_more, shortened
from clinometer.api.runs import Run
from clinometer.errors import ImportManifestError, InvalidInputError, SuiteError
from clinometer.gates.policy import Policy, policy_digest
from clinometer.gates.registration import Registration, audit_registered, write_registration
from clinometer.models.files import Manifest, ManifestRow, has_manifest, odd_batches, read_manifest, unlisted_images
from clinometer.models.files.source import FolderSource, ImageDataset, dataset_files
from clinometer.models.images import MAX_PIXELS
from clinometer.pipeline.audits import Workers, audited, default_out, finish
from clinometer.pipeline.audits import audit as run_audit
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.execution import Job
from clinometer.pipeline.recipes import Models, ReadyModel
from clinometer.pipeline.request import (
    FREE,
    RESAMPLES,
    AskedSuite,
    AuditOptions,
    Model,
    Place,
    ask,
    fields_in_order,
    plain_seed,
    told_default,
)
from clinometer.pipeline.results import refresh_report, score
from clinometer.readings.standard import read_reference
from clinometer.runs import Directory, Progress, listening, store
from clinometer.runs.manifest import manifest_prompt_specs, rows_named_by_prompts
from clinometer.runs.plan import build_plan
from clinometer.runs.record import COUNTED, new_record
from clinometer.studies import study_of
from clinometer.studies.counts.table import card_of_counts, read_counts, suite_of_counts, write_counts
from clinometer.suites import Suite
from clinometer.sweeps import SweepFile
from clinometer.sweeps.sweep import LoadedObjects as GivenObjects
from clinometer.sweeps.sweep import Sweep
from clinometer.sweeps.sweep import sweep as run_sweep

if TYPE_CHECKING:
    from clinometer.models import Encoder, Generator


P = ParamSpec("P")
POSITIONAL: Final = ("model", "suite", "out")


class _Audit(Protocol[P]):
    """A function of a model, a suite, a place, and of every option of an audit."""

    def __call__(
        self, model: Model = ..., suite: AskedSuite = ..., out: Place | None = ..., *args: P.args, **options: P.kwargs
    ) -> Run: ...


def _take_options(options: Callable[P, AuditOptions]) -> Callable[[Callable[..., Run]], _Audit[P]]:
    """Decorate a function with the options of an audit, which make its types, signature and documentation."""

    def document(function: Any) -> _Audit[P]:
        kinds, parameters, lines = inspect.Parameter, [], []
        for name, field in fields_in_order().items():
            kind = kinds.POSITIONAL_OR_KEYWORD if name in POSITIONAL else kinds.KEYWORD_ONLY
            parameters.append(kinds(name, kind, default=field.default))
            text = f"{name} : {field.description}{told_default(field)}"
            lines.append(textwrap.fill(text, 116, initial_indent="    ", subsequent_indent="        "))
        function.__signature__ = inspect.Signature(parameters, return_annotation=Run)
        opening, heading, errors = function.__doc__.partition("    Raises\n")
        told = "\n".join(("    Parameters", "    ----------", *lines, "", ""))
        function.__doc__ = f"{opening}{told}{heading}{errors}"
        return function  # type: ignore[no-any-return]

    return document


@_take_options(AuditOptions)
def audit(model: Model = "reference", suite: AskedSuite = "reference", out: Place | None = None, **options: Any) -> Run:
    """Audit a text-to-image model and return the finished run.

    Models, suites, encoders and engines may be objects, too.

    Raises
    ------
    SuiteError, ModelError, RunError, EngineError, InvalidInputError
        Each says what was found, what was expected, and the way out. What was finished stays in ``out``.
    """
    request = ask(model=model, suite=suite, out=out, **options)
    workers, progress = Workers(request.engine, request.workers), listening(request.progress)
    if request.registration is not None:
        return Run(audit_registered(request, lambda merged: run_audit(merged, Models(), workers, progress)))
    return Run(run_audit(request, Models(), workers, progress))


def register(
    file: str | os.PathLike[str],
    *,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy | None = None,
    **options: Any,
) -> Registration:
    """Write down what an audit will ask, before anything is drawn; see docs/registration.md.

    ``cm.audit(registration=file)`` then asks it, and ``file`` with the ending ``.journal.jsonl`` lists every attempt.

    Parameters
    ----------
    file : where the registration is written, at most 2 kB; it must not be there.
    policy : the rules that the run will be held to, as of :func:`clinometer.gate`; their hash is registered.
    **options : those of :func:`audit`, by names and numbers alone: objects cannot be written down. What changes no
        number, such as ``out`` and ``device``, is given with the audit.

    Raises
    ------
    InvalidInputError, SuiteError, ModelError, GateError
        An option, or a policy, that cannot be used or written down; the file is there or cannot be written.
    """
    if free := next((name for name in options if name in FREE), None):
        raise InvalidInputError.unsupported("it changes no number; give it with the audit", field=free)
    return write_registration(Path(file), ask(**options), None if policy is None else policy_digest(policy))


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
    return run_sweep(grid, out, objects, Workers(engine, workers), listening(progress))


IMPORTED_PART = 128
"""Images of a part, at most: each part costs some milliseconds, and a command that is killed loses one."""


def import_images(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    suite: str | Path | Suite = "mcas",
    manifest: str | os.PathLike[str] | None = None,
    name: str | None = None,
    max_pixels: int = MAX_PIXELS,
    encoder: str | Encoder | Sequence[str | Encoder] = "reference",
    seed: int = 0,
    device: str = "auto",
    engine: str | Engine = "local",
    workers: int | None = None,
    resamples: int = RESAMPLES,
    report: bool = True,
    reference: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Audit finished images in place of a model: a folder with a manifest (CSV or JSON lines), or a table.

    A table is a Parquet file with an Image column, or a directory of such files or of one that ``datasets`` saved; its
    other columns are those of a manifest. Images that FAIRBench saved need none: they are named by their prompts, which
    the suite asks, its own scenarios. The manifest gives for each file its concept (a target of the suite) or its
    group, and the prompt it was made with. ``seed`` serves the resampling only. Images of more than ``max_pixels`` are
    not read and count as failed: a small file can unfold to fill the memory. ``engine``, ``workers``,
    ``resamples``, ``report`` and ``reference`` are as of :func:`audit`.

    Raises
    ------
    ImportManifestError
        The manifest names something that the suite or the folder does not have; the message names file and line.
    SuiteError
        The suite's study needs a model besides the images.
    """
    progress = listening(progress)
    seed, options = plain_seed(seed), ask(resamples=resamples, report=report).kept
    audited_suite = audited(suite)
    if reference is not None:
        audited_suite = audited_suite.with_reference(read_reference(reference), os.fspath(reference))
    if study_of(audited_suite).offers("check"):
        raise SuiteError.unsupported(
            f"suite {audited_suite.name}: a model must work on the images, so an import is not enough; give: "
            f"clinometer audit --suite {audited_suite.name if isinstance(suite, Suite) else suite} --portraits {folder}"
        )
    if ":/" in str(folder) and not Path(folder).exists():  # of a URL that was taken for a path one slash is gone
        raise ImportManifestError.unsupported(
            f"{folder}: images are imported from a disk; download them, and give their folder"
        )
    if max_pixels < 1:
        raise InvalidInputError.out_of_range(f"expected 1 or more, found {max_pixels}", field="max_pixels")
    place, listed = Path(folder), None if manifest is None else Path(manifest)
    rows, source = _list_finished_images(place, listed, name, max_pixels, progress, audited_suite)
    plan = build_plan(
        manifest_prompt_specs(rows, audited_suite, rows.path.name if isinstance(rows, Manifest) else str(folder)),
        seed=seed,
        model_fingerprint=source.card.fingerprint,
        part_size=IMPORTED_PART,
        bytes_of=lambda question: source.decoded_bytes(question.file),
    )
    del rows  # of a million files they take as much memory as all that is kept of them from here on
    source.assign({sample.id: sample.file for sample in plan})
    job = Job(audited_suite, source, lambda: plan, seed, origin="imported", options=options)
    out = out or default_out(source.card, audited_suite)
    return Run(finish(job, out, encoder, device, Models(), Workers(engine, workers), ReadyModel(source), progress))


def import_counts(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    report: bool = True,
    reference: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Audit counts in place of images: a CSV file with the columns concept, group, n and, where there is one, setting.

    The run has shares, tests and slopes over the setting, and no image: commands that need one say so. Images that were
    drawn and are counted for no group are rows of the group ``discarded``. ``name`` says what made the images; by
    default it is the file's. ``reference`` is as of :func:`audit`.

    Raises
    ------
    ImportManifestError
        The table is not one: the message names file, line and field.
    """
    progress, path = listening(progress), Path(file)
    options = {"report": True} if report else {"report": False}
    counts = read_counts(path)
    suite, card = suite_of_counts(path, counts), card_of_counts(path, name, counts)
    if reference is not None:
        suite = suite.with_reference(read_reference(reference), os.fspath(reference))
    directory = Directory(out or Path("runs") / f"{card.name}-{suite.name}".replace("/", "-"))
    store.require_run_or_nothing(directory)
    with directory.locked():
        run = store.create_run(directory.url, new_record(suite, card, seed=0, origin=COUNTED, options=options), [])
        run.record_options(options)
        write_counts(run, counts)
        del counts  # the run has them from here on
        score(run, progress)
        refresh_report(run)
    return Run(directory.url)


def _list_finished_images(
    folder: Path, manifest: Path | None, name: str | None, max_pixels: int, progress: Progress, suite: Suite
) -> tuple[Sequence[ManifestRow], FolderSource | ImageDataset]:
    """Find images: in a folder with a manifest; where there is none, in a table, or named by the suite's prompts."""
    if manifest is None and (folder.is_file() or (not has_manifest(folder) and dataset_files(folder))):
        dataset = ImageDataset(folder, name=name, max_pixels=max_pixels)
        for said in odd_batches(folder.name, dataset.rows):
            progress.note(said)
        return dataset.rows, dataset
    if manifest is None and not has_manifest(folder) and (named := rows_named_by_prompts(folder, suite)):
        if others := sum(path.suffix == ".png" for path in folder.iterdir()) - len(named):
            progress.note(f"{folder}: {others:,} further images, of prompts that the suite does not ask")
        return named, FolderSource(folder, named, name=name, max_pixels=max_pixels)
    rows = read_manifest(folder, manifest)
    if rows.ignored:
        ignored = first_and_more([shortened(str(column)) for column in rows.ignored], 20)
        progress.note(f"{rows.path.name}: columns that mean nothing here: {ignored}")
    for said in odd_batches(rows.path.name, rows):
        progress.note(said)
    if left := unlisted_images(folder, rows):
        files = first_and_more([shortened(as_text(file)) for file in left], 3)
        verb = "is an image" if len(left) == 1 else f"are {len(left):,} images"
        progress.note(f"{rows.path.name}: there {verb} in the folder that it does not list: {files}")
    return rows, FolderSource(folder, rows, name=name, max_pixels=max_pixels)
