"""Audits, sweeps and whole papers; finished images and counts in the place of a model.

What a function needs is imported when it is called: the command line reads the signatures, and starts at once.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, Protocol

from clinometer.api.runs import AskedPolicy, open_run
from clinometer.errors import ImportManifestError, InvalidInputError, SuiteError
from clinometer.pipeline.request import (
    FREE,
    RESAMPLES,
    RESAMPLING_SEED,
    Argument,
    AskedEngine,
    AskedModel,
    AskedSuite,
    AuditOptions,
    Encoders,
    Listener,
    Option,
    Place,
    ask,
    documented,
    fields_in_order,
    option_of,
    plain_seed,
)

if TYPE_CHECKING:
    from clinometer.api.run import Run
    from clinometer.gates.registration import Registration
    from clinometer.models import Generator
    from clinometer.models.files import ManifestRow
    from clinometer.models.files.source import FolderSource, ImageDataset
    from clinometer.papers.planning import Needs, Reproduction
    from clinometer.runs import Progress
    from clinometer.suites import Suite
    from clinometer.sweeps import SweepFile
    from clinometer.sweeps.sweep import Sweep


P = ParamSpec("P")
POSITIONAL: Final = ("model", "suite", "out")


class _Audit(Protocol[P]):
    """A function of a model, a suite, a place, and of every option of an audit."""

    def __call__(
        self,
        model: AskedModel = ...,
        suite: AskedSuite = ...,
        out: Place | None = ...,
        *args: P.args,
        **options: P.kwargs,
    ) -> "Run": ...


def _take_options(options: Callable[P, AuditOptions]) -> Callable[[Callable[..., "Run"]], _Audit[P]]:
    """Decorate a function with the options of an audit, which make its types, signature and documentation."""

    def decorate(function: Any) -> _Audit[P]:
        kinds, parameters = inspect.Parameter, []
        for name, field in fields_in_order().items():
            kind = kinds.POSITIONAL_OR_KEYWORD if name in POSITIONAL else kinds.KEYWORD_ONLY
            annotation = Annotated[field.annotation, option_of(name)]  # type: ignore[name-defined]
            parameters.append(kinds(name, kind, default=field.default, annotation=annotation))
        function.__signature__ = inspect.Signature(parameters, return_annotation="Run")
        function.__annotations__ = {each.name: each.annotation for each in parameters}
        return documented(function)  # type: ignore[no-any-return]

    return decorate


@_take_options(AuditOptions)
def audit(
    model: AskedModel = "reference", suite: AskedSuite = "reference", out: Place | None = None, **options: Any
) -> "Run":
    """Audit a text-to-image model and return the finished run.

    Models, suites, encoders and engines may be objects, too.

    Raises
    ------
    SuiteError, ModelError, RunError, EngineError, InvalidInputError
        Each says what was found, what was expected, and the way out. What was finished stays in ``out``.
    """
    from clinometer.pipeline.audits import Workers
    from clinometer.pipeline.audits import audit as run_audit
    from clinometer.pipeline.recipes import Models
    from clinometer.runs import listening

    request = ask(model=model, suite=suite, out=out, **options)
    workers, progress = Workers(request.engine, request.workers), listening(request.progress)
    if request.registration is not None:
        from clinometer.gates.registration import audit_registered

        return open_run(audit_registered(request, lambda merged: run_audit(merged, Models(), workers, progress)))
    return open_run(run_audit(request, Models(), workers, progress))


@documented
def register(
    file: Place,
    *,
    policy: Annotated[
        AskedPolicy | None,
        Option("The policy that the run will be checked against; its hash is registered.", short="-p", kind=Path),
    ] = None,
    **options: Any,
) -> "Registration":
    """Write down what an audit will ask, before anything is drawn; see docs/registration.md.

    ``cm.audit(registration=file)`` then asks it, and ``file`` with the ending ``.journal.jsonl`` lists every attempt.

    Parameters
    ----------
    file : where the registration is written, at most 2 kB; it must not be there.
    **options : those of :func:`audit`, by names and numbers alone: objects cannot be written down. What changes no
        number, such as ``out`` and ``device``, is given with the audit.

    Raises
    ------
    InvalidInputError, SuiteError, ModelError, GateError
        An option, or a policy, that cannot be used or written down; the file is there or cannot be written.
    """
    from clinometer.gates.policy import policy_digest
    from clinometer.gates.registration import write_registration

    if free := next((name for name in options if name in FREE), None):
        raise InvalidInputError.unsupported("it changes no number; give it with the audit", field=free)
    return write_registration(Path(file), ask(**options), None if policy is None else policy_digest(policy))


@documented
def sweep(
    grid: Annotated[
        "Place | Mapping[str, Any] | SweepFile",
        Argument("A YAML file with the axes of the grid.", metavar="FILE", kind=Path),
    ],
    out: Annotated[
        Place | None, Option("The sweep's directory.", short="-o", default="the file's out, or runs/NAME")
    ] = None,
    *,
    models: "Mapping[str, Generator] | None" = None,
    suites: "Mapping[str, Suite] | None" = None,
    encoder: Encoders | None = None,
    engine: Annotated[AskedEngine, option_of("engine")] = "local",
    workers: Annotated[int | None, option_of("workers")] = None,
    retry_failed: Annotated[bool, option_of("retry_failed")] = False,
    progress: Listener | None = None,
) -> "Sweep":
    """Audit a grid of models, settings, seeds and suites, and hold every setting against a baseline.

    Parameters
    ----------
    grid : a YAML file, or a mapping of the same keys: ``{"axes": {"guidance": [1, 3, 7.5], "seed": [0, 1, 2]},
        "baseline": {"guidance": 7.5}, "images": 20}``; see docs/sweeps.md.
    out : the sweep's directory; by default what the grid says, or ``runs/`` and the name of its file. One that holds
        part of the same sweep, or a smaller one, is continued: no finished cell is done again.
    models, suites : generators and suites that are loaded already, by the names that the axes have for them.
    encoder : as of :func:`audit`; by default what the grid says.
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
    from clinometer.pipeline.audits import Workers
    from clinometer.runs import listening
    from clinometer.sweeps.sweep import LoadedObjects
    from clinometer.sweeps.sweep import sweep as run_sweep

    objects = LoadedObjects(models or {}, suites or {}, encoder, retry_failed=retry_failed)
    return run_sweep(grid, out, objects, Workers(engine, workers), listening(progress))


IMPORTED_PART = 128
"""Images of a part, at most: each part costs some milliseconds, and a command that is killed loses one."""


@documented
def import_images(
    folder: Annotated[
        Place, Argument("Folder of images with a manifest (CSV or JSON lines).", metavar="[DIR]", kind=Path)
    ],
    out: Annotated[Place | None, Option("Run directory.", short="-o", default="runs/NAME-SUITE")] = None,
    *,
    suite: Annotated[
        AskedSuite, Option("The suite that the images were made for.", short="-s", default="mcas")
    ] = "mcas",
    manifest: Annotated[
        Place | None, Option("Manifest file.", default="manifest or metadata, .csv or .jsonl", kind=Path)
    ] = None,
    name: Annotated[str | None, Option("Name of the model that made the images.", default="the folder's name")] = None,
    max_pixels: Annotated[
        int,
        Option(
            "Do not read images with more pixels than this: a small file can decompress to fill the memory.", least=1
        ),
    ] = 40_000_000,
    encoder: Annotated[
        Encoders, replace(option_of("encoder"), help=f"Required for images: {option_of('encoder').help}", default="")
    ] = "reference",
    seed: Annotated[int, RESAMPLING_SEED] = 0,
    resamples: Annotated[int, option_of("resamples")] = RESAMPLES,
    report: Annotated[bool, option_of("report")] = True,
    reference: Annotated[Place | None, option_of("reference")] = None,
    device: Annotated[str, option_of("device")] = "auto",
    engine: Annotated[AskedEngine, option_of("engine")] = "local",
    workers: Annotated[int | None, option_of("workers")] = None,
    progress: Listener | None = None,
) -> "Run":
    """Audit finished images in place of a model: a folder with a manifest (CSV or JSON lines), or a table.

    A table is a Parquet file with an Image column, or a directory of such files or of one that ``datasets`` saved; its
    other columns are those of a manifest. Images that FAIRBench saved need none: they are named by their prompts, which
    the suite asks, its own scenarios. The manifest gives for each file its concept (a target of the suite) or its
    group, and the prompt it was made with. Images that are not read count as failed.

    Raises
    ------
    ImportManifestError
        The manifest names something that the suite or the folder does not have; the message names file and line.
    SuiteError
        The suite's study needs a model besides the images.
    """
    from clinometer.models.files import Manifest
    from clinometer.pipeline.audits import Workers, default_out, load_asked_suite, run_job
    from clinometer.pipeline.execution import Job
    from clinometer.pipeline.recipes import Models, ReadyModel
    from clinometer.readings.standard import read_reference
    from clinometer.runs import listening
    from clinometer.runs.plan import build_plan, manifest_prompt_specs
    from clinometer.studies import study_of
    from clinometer.suites import Suite

    progress = listening(progress)
    seed, options = plain_seed(seed), ask(resamples=resamples, report=report).kept
    audited_suite = load_asked_suite(suite)
    if reference is not None:
        audited_suite = audited_suite.with_reference(read_reference(reference), os.fspath(reference))
    if study_of(audited_suite).overrides("check"):
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
    return open_run(
        run_job(job, out, encoder, device, Models(), Workers(engine, workers), ReadyModel(source), progress)
    )


@documented
def import_counts(
    file: Annotated[
        Place,
        Option(
            "Instead of images, a CSV file of counts with the columns concept, group, n and, where something was "
            "varied, setting. Rows of the group 'discarded' count images that belong to no group.",
            key="counts",
            kind=Path,
        ),
    ],
    out: Place | None = None,
    *,
    name: str | None = None,
    report: bool = True,
    reference: Place | None = None,
    progress: Listener | None = None,
) -> "Run":
    """Audit counts in place of images: a CSV file with the columns concept, group, n and, where there is one, setting.

    The run has shares, tests and slopes over the setting, and no image: commands that need one say so. Images that were
    drawn and are counted for no group are rows of the group ``discarded``. ``name`` says what made the images; by
    default it is the file's. ``reference`` is as of :func:`audit`.

    Raises
    ------
    ImportManifestError
        The table is not one: the message names file, line and field.
    """
    from clinometer.pipeline.results import refresh_report, score
    from clinometer.readings.standard import read_reference
    from clinometer.runs import Directory, listening
    from clinometer.runs.record import COUNTED, new_record
    from clinometer.runs.run import create_run, require_run_or_nothing
    from clinometer.studies.counts.study import card_of_counts, read_counts, suite_of_counts, write_counts

    progress, path = listening(progress), Path(file)
    options = {"report": True} if report else {"report": False}
    counts = read_counts(path)
    suite, card = suite_of_counts(path, counts), card_of_counts(path, name, counts)
    if reference is not None:
        suite = suite.with_reference(read_reference(reference), os.fspath(reference))
    directory = Directory(out or Path("runs") / f"{card.name}-{suite.name}".replace("/", "-"))
    require_run_or_nothing(directory)
    with directory.locked():
        run = create_run(directory.url, new_record(suite, card, seed=0, origin=COUNTED, options=options), [])
        run.record_options(options)
        write_counts(run, counts)
        del counts  # the run has them from here on
        score(run, progress)
        refresh_report(run)
    return open_run(directory.url)


def _list_finished_images(
    folder: Path, manifest: Path | None, name: str | None, max_pixels: int, progress: "Progress", suite: "Suite"
) -> "tuple[Sequence[ManifestRow], FolderSource | ImageDataset]":
    """Find images: in a folder with a manifest; where there is none, in a table, or named by the suite's prompts."""
    from clinometer._messages import as_text, first_and_more, shortened
    from clinometer.models.files import has_manifest, odd_batches, read_manifest, unlisted_images
    from clinometer.models.files.source import FolderSource, ImageDataset, dataset_files
    from clinometer.runs.plan import rows_named_by_prompts

    if manifest is None and (folder.is_file() or (not has_manifest(folder) and dataset_files(folder))):
        dataset = ImageDataset(folder, name=name, max_pixels=max_pixels)
        for remark in odd_batches(folder.name, dataset.rows):
            progress.note(remark)
        return dataset.rows, dataset
    if manifest is None and not has_manifest(folder) and (named := rows_named_by_prompts(folder, suite)):
        if others := sum(path.suffix == ".png" for path in folder.iterdir()) - len(named):
            progress.note(f"{folder}: {others:,} further images, of prompts that the suite does not ask")
        return named, FolderSource(folder, named, name=name, max_pixels=max_pixels)
    rows = read_manifest(folder, manifest)
    if rows.ignored:
        ignored = first_and_more([shortened(str(column)) for column in rows.ignored], 20)
        progress.note(f"{rows.path.name}: columns that mean nothing here: {ignored}")
    for remark in odd_batches(rows.path.name, rows):
        progress.note(remark)
    if left := unlisted_images(folder, rows):
        files = first_and_more([shortened(as_text(file)) for file in left], 3)
        verb = "is an image" if len(left) == 1 else f"are {len(left):,} images"
        progress.note(f"{rows.path.name}: there {verb} in the folder that it does not list: {files}")
    return rows, FolderSource(folder, rows, name=name, max_pixels=max_pixels)


@documented
def reproduce(
    papers: Annotated[
        str | Sequence[str],
        Argument("mcas, internal-bias, xmcas, t2iat, downstream, prompting, or all.", metavar="PAPER…", many=True),
    ],
    out: Annotated[Place, Option("Directory to write to. What is already finished in it is kept.", short="-o")],
    *,
    models: Annotated[
        str | Sequence[str],
        Option(
            "As for audit. With 'reference', a paper is only rehearsed, in words that this model knows. Repeatable.",
            key="model",
            short="-m",
            default="reference",
            many=True,
        ),
    ] = "reference",
    quick: Annotated[bool, Option("Draw only a few images; every page says so.")] = False,
    pictures: Annotated[
        Place | None,
        Option("For the paper prompting, which draws nothing: a folder of labelled pictures with pictures.csv."),
    ] = None,
    engine: Annotated[AskedEngine, option_of("engine")] = "local",
    workers: Annotated[int | None, option_of("workers")] = None,
    objects: "Mapping[str, Generator] | None" = None,
    show: "Callable[[Needs], None]" = lambda needs: None,
    progress: Listener | None = None,
    **options: Any,
) -> "Reproduction":
    """Finish every run that some papers take, and write a page for each that compares its print with what was measured.

    Parameters
    ----------
    objects : generators that are loaded already, by the names that ``models`` has for them.
    show : is given what it takes, run by run, before anything is drawn.
    progress : a listener for the long stages.
    options : further options of :func:`audit` that hold for every run: ``encoder``, ``seed``, ``device``,
        ``portraits``, ``budget``, …

    Returns
    -------
    The reproduction: ``.pages`` by paper, ``.runs``, and ``.failed`` runs with why. A run that fails stops no other.

    Raises
    ------
    InvalidInputError
        There is no such paper, or an option is not one of an audit.
    RunError, EngineError
        The directory is another's or was asked something else, or no worker can be started.
    """
    from clinometer.papers.reproduction import ReproductionRequest, papers_of
    from clinometer.papers.reproduction import reproduce as run_reproduction
    from clinometer.pipeline.audits import Workers
    from clinometer.runs import listening

    folder = None if pictures is None else os.fspath(pictures)
    request = ReproductionRequest(papers_of(papers, folder), _several(models), quick, options, objects or {}, folder)

    def count(file: str, place: str, name: str) -> None:
        import_counts(file, place, name=name, report=options.get("report", True))

    return run_reproduction(out, request, Workers(engine, workers), listening(progress), count, show)


def plan_reproduction(
    papers: str | Sequence[str],
    out: Place,
    *,
    models: str | Sequence[str] = "reference",
    quick: bool = False,
    pictures: Place | None = None,
    objects: "Mapping[str, Generator] | None" = None,
    **options: Any,
) -> "Needs":
    """Return what a reproduction takes: images, evaluations, hours, gigabytes. Draws and writes nothing."""
    from clinometer.papers.reproduction import ReproductionRequest, look_ahead, papers_of

    folder = None if pictures is None else os.fspath(pictures)
    request = ReproductionRequest(papers_of(papers, folder), _several(models), quick, options, objects or {}, folder)
    return look_ahead(out, request)


def _several(names: str | Sequence[str]) -> list[str]:
    """Return names as a list, each once."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))
