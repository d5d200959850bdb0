"""The audit from end to end: plan → generate → encode → score → report, over one run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clinometer._messages import first_and_more, shortened
from clinometer.errors import InvalidInputError, SuiteError
from clinometer.metrics.skin import Swatch, monk_self_test
from clinometer.models import load_encoder
from clinometer.models.files.folder import FolderSource, Manifest, ManifestRow, has_manifest, read_manifest
from clinometer.models.files.image_dataset import ImageDataset, dataset_files
from clinometer.models.images import MAX_PIXELS
from clinometer.models.weights import user_path
from clinometer.pipeline import score
from clinometer.pipeline.association_tests import Settings, association_tests
from clinometer.pipeline.at_hand import Models
from clinometer.pipeline.audits import Asked, Workers, audited, default_out, executor_of, finish, plain_seed
from clinometer.pipeline.audits import audit as run_audit
from clinometer.pipeline.comparison import first_against_rest
from clinometer.pipeline.comparison_page import write_comparison
from clinometer.pipeline.encoders import require_texts
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.execution import Job
from clinometer.pipeline.notebook import run_repr_html
from clinometer.pipeline.paper_tables import paper_table as tabulate
from clinometer.pipeline.planning import Plan, plan_audit
from clinometer.pipeline.recipes import Given
from clinometer.pipeline.reporting import refresh_report
from clinometer.runs import Directory, Progress, Silence, store
from clinometer.runs.comparison import Comparison
from clinometer.runs.manifest import manifest_questions
from clinometer.runs.plan import build_plan
from clinometer.runs.protocol import refresh_protocol
from clinometer.runs.verification import verify
from clinometer.stats.racing import Elimination
from clinometer.studies import study_of
from clinometer.studies.classification.files import classify_files, image_files
from clinometer.studies.classification.scoring import denoiser_of
from clinometer.suites import Suite, load_suite
from clinometer.sweeps import SweepFile
from clinometer.sweeps.running import Given as GivenObjects
from clinometer.sweeps.sweep import Sweep
from clinometer.sweeps.sweep import sweep as run_sweep

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.models import Encoder, Generator

__all__ = [
    "Run",
    "Sweep",
    "association_test",
    "audit",
    "check_skin",
    "classify_images",
    "compare",
    "import_images",
    "open_run",
    "paper_table",
    "plan",
    "score_run",
    "sweep",
    "verify_run",
]

IMPORTED_PART = 64


class Run(store.Run):
    """A run directory, opened: ``run.scores``, ``run.samples``, ``run.suite``, ``run.model_card``, …"""

    def _repr_html_(self) -> str:
        return run_repr_html(
            suite=self.suite,
            model_card=self.model_card,
            samples=self.samples_that_are_whole([]),
            scores=self.scores if self.is_scored else None,
            planned=len(self.plan),
            place=self.url,
        )


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
    asked = Asked(
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
    return Run(run_audit(asked, Models(), Workers(engine, workers), progress or Silence()))


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
        A key, an axis or a baseline that is none, or a directory whose cells were asked something else.
    RunError, EngineError
        The directory is another's, or no worker can be started.
    """
    given = GivenObjects(models or {}, suites or {}, encoder, retry_failed=retry_failed)
    return run_sweep(grid, out, given, Workers(engine, workers), progress or Silence())


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
    progress: Progress | None = None,
) -> Run:
    """Audit finished images in place of a model: a folder with a manifest (CSV or JSON lines), or a table.

    A table is a Parquet file with an Image column, or a directory of such files or of one that ``datasets`` saved; its
    other columns are those of a manifest. The manifest gives for each file its concept (a target of the suite) or its
    group, and the prompt it was made with. ``seed`` serves the resampling only. Images of more than ``max_pixels`` are
    not read and count as failed: a small file can unfold to fill the memory. ``engine`` and ``workers`` are as of
    :func:`audit`.

    Raises
    ------
    ImportManifestError
        The manifest names something that the suite or the folder does not have; the message names file and line.
    SuiteError
        The suite's study needs a model besides the images.
    """
    progress = progress or Silence()
    seed = plain_seed(seed)
    asked = audited(suite)
    if study_of(asked).check is not None:
        raise SuiteError(
            f"suite {asked.name}: a model must work on the images, so an import is not enough; give: clinometer audit "
            f"--suite {asked.name if isinstance(suite, Suite) else suite} --portraits {folder}"
        )
    if max_pixels < 1:
        raise InvalidInputError(f"max_pixels: expected 1 or more, found {max_pixels}")
    rows, source = _finished(Path(folder), None if manifest is None else Path(manifest), name, max_pixels, progress)
    plan = build_plan(
        manifest_questions(rows, asked, rows.path.name if isinstance(rows, Manifest) else str(folder)),
        seed=seed,
        model_fingerprint=source.card.fingerprint,
        part_size=IMPORTED_PART,
        bytes_of=lambda question: source.decoded_bytes(question.file),
    )
    source.assign({sample.id: sample.file for sample in plan})
    job = Job(asked, source, plan, seed, origin="imported")
    out = out or default_out(source, asked)
    return Run(finish(job, out, encoder, device, Models(), Workers(engine, workers), Given(source), progress))


def association_test(
    test: str | Path | Suite | Sequence[str | Path | Suite] = "weat",
    *,
    encoder: str | Encoder = "reference",
    images: str | os.PathLike[str] | None = None,
    labels: str | os.PathLike[str] | None = None,
    sentences: bool = False,
    unit: Literal["word", "sentence"] = "word",
    alternative: Literal["two-sided", "greater", "less"] | None = None,
    ddof: int = 1,
    spread: Literal["union", "pooled"] = "union",
    max_missing: float = 0.2,
    permutations: int = 9_999,
    resamples: int = 9_999,
    seed: int = 0,
    device: str = "auto",
) -> pd.DataFrame:
    """Run WEAT, SEAT or iEAT on words, sentences or pictures: a row a test.

    Parameters
    ----------
    test : ``"weat"`` or ``"ieat"`` (all of them), ``"weat/6"``, ``"seat/6"`` (the same words in sentences), a YAML
        file, or several of these.
    encoder : as of :func:`audit`, or a text-only encoder, or a file of embeddings (``.txt``, ``.vec``, ``.csv``,
        ``.tsv``, ``.parquet``, ``.npy``, ``.npz``).
    images : a folder that holds a folder of pictures for each set that is to be seen and not read.
    labels : for ``.npy``, the file with a label a line.
    sentences : put each word into sentences that say nothing else.
    unit : with sentences, what is permuted and resampled: the ``"word"``, or each ``"sentence"`` as in the paper.
    alternative : instead of the test's own, which is ``"greater"``: X to A, Y to B.
    ddof, spread : what the effect size divides by, see :func:`clinometer.metrics.weat`.
    max_missing : the share of a set that may be missing.
    permutations, resamples, seed : how much is drawn where splits cannot be counted, and for the intervals.

    Returns
    -------
    The fields of :class:`clinometer.pipeline.association_tests.AssociationTest`; ``q`` within the tests of this call.

    Raises
    ------
    SuiteError, ModelError
        A test that is none, an encoder that cannot be loaded or takes no text or no picture.
    """
    options = {} if labels is None else {"labels": os.fspath(labels)}
    seed = plain_seed(seed)
    if isinstance(encoder, str | os.PathLike):
        spec = os.fspath(encoder)
        is_file = user_path(spec).is_file() or spec.startswith("embeddings:")
        encoder = load_encoder(spec, **options, **({} if is_file else {"device": device}))
    settings = Settings(
        unit=unit,
        alternative=alternative,
        ddof=ddof,
        spread=spread,
        permutations=permutations,
        resamples=resamples,
        max_missing=max_missing,
        seed=seed,
    )
    tests = [test] if isinstance(test, str | Path | Suite) else list(test)
    folder = None if images is None else Path(images)
    return association_tests(tests, encoder, images=folder, sentences=sentences, settings=settings)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory (a path, or any URL that fsspec knows)."""
    return Run(path)


def score_run(
    path: str | os.PathLike[str],
    *,
    encoder: str | Encoder | Sequence[str | Encoder] = (),
    drop_encoder: str | Sequence[str] = (),
    suite_options: Sequence[str] = (),
    device: str = "auto",
    engine: str | Engine = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Score a run anew without drawing anything.

    Parameters
    ----------
    encoder : encoders that are added to the run first.
    drop_encoder : names of encoders that are taken out of it then. Their vectors stay, so naming one as ``encoder``
        again brings it back at once; ``run.json`` keeps its card under ``dropped_encoders``.
    suite_options : settings of the suite that scoring alone reads, such as ``["margin=0.2"]``. They hold from now on;
        ``run.json`` keeps the old values beside them, and the report shows both.
    engine, workers : who embeds, as of :func:`audit`.

    Raises
    ------
    RunError, ModelError, SuiteError, EngineError
        A file is missing or is not what was written; an encoder that cannot be used; a setting that is none; no encoder
        of a name that is to be dropped, or no other than those.
    """
    progress = progress or Silence()
    run = Run(path)
    with run.directory.locked():
        run.change_suite(suite_options)
        encoders, recipes = Models().encoders(encoder, device)
        require_texts(encoders, run.suite, until=run.record.get("until") is not None)
        with Workers(engine, workers).opened(device) as opened:
            for each in encoders:
                executor_of(opened, None, recipes).encode(run, each, progress)
        run.drop_encoders([drop_encoder] if isinstance(drop_encoder, str) else drop_encoder)
        table = score(run, progress)
        refresh_protocol(run)
        refresh_report(run)
    return table


def verify_run(path: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
    """Read every file of a run, images too, and return how many there are.

    Raises
    ------
    RunCorruptError
        Some are missing, or not as they were written: the message names them and the way out.
    """
    return verify(Run(path), progress or Silence())


def compare(*runs: str | os.PathLike[str] | store.Run, out: str | os.PathLike[str] | None = None) -> list[Comparison]:
    """Hold finished runs of one suite against the first of them.

    Parameters
    ----------
    runs : two or more, as paths or opened. Runs of one seed are compared image by image: their noise is the same.
    out : a directory for ``comparison.html`` and ``comparison.csv``; nothing is written without one.

    Returns
    -------
    A :class:`clinometer.runs.comparison.Comparison` for each run after the first. Its ``scores`` has a row a concept
    (or a test, or a prompt) and component: the difference, second minus first, with interval, p, q and verdict; and
    rows of refusals, where either run has any.

    Raises
    ------
    RunMismatchError
        The runs are of other suites, were drawn until decided, or no encoder has seen both.
    """
    if out is not None:
        Directory(out).require_place()
    compared = first_against_rest([run if isinstance(run, store.Run) else Run(run) for run in runs])
    if out is not None:
        write_comparison(compared, out)
    return compared


def paper_table(
    run: str | os.PathLike[str] | store.Run, paper: str, *, models: str | Sequence[str] = ()
) -> pd.DataFrame:
    """Hold a run's numbers against the tables that a paper prints: a row a printed cell.

    Parameters
    ----------
    run : a scored run, as a path or opened, of a suite that asks what the tables show.
    paper : ``"mcas"``, ``"internal-bias"``, ``"xmcas"``, ``"t2iat"`` or ``"downstream"``.
    models : the paper's models whose numbers are shown, such as ``"dalle-2"``; by default all.

    Returns
    -------
    The fields of :class:`clinometer.pipeline.paper_tables.Cell`: the printed number, the run's with its interval, their
    difference (run less paper), whether the models are the same, and what is known to be wrong in print.

    Raises
    ------
    InvalidInputError, RunError
        No such paper or model; a run that is none, is not scored, or asks something else.
    """
    opened = run if isinstance(run, store.Run) else Run(run)
    return tabulate(opened, paper, [models] if isinstance(models, str) else models)


def plan(
    suite: str | Path | Suite | None = None,
    *,
    pilot: str | os.PathLike[str] | None = None,
    effect: float | None = None,
    margin: float | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    price: float = 0.0,
    images: int | None = None,
) -> Plan:
    """Say how many images an audit needs, and what they would cost in time and disk. Draws nothing.

    Parameters
    ----------
    suite : as of :func:`audit`; by default the pilot's.
    pilot : a scored run of that suite. Without one, only what needs no pilot is said: images to find a share.
    images : as of :func:`audit`: images a target of the suite whose images and cost are told.
    effect, margin, power, alpha, price : see :func:`clinometer.pipeline.planning.plan_audit`.

    Raises
    ------
    SuiteError, InvalidInputError, RunError
        A suite that is not planned, settings out of range, or a pilot that is none or not scored.
    """
    run = None if pilot is None else Run(pilot)
    asked = load_suite(suite) if suite is not None else run.suite if run is not None else load_suite("reference")
    asked = asked.with_options(images=images)
    return plan_audit(asked, run, effect=effect, margin=margin, power=power, alpha=alpha, price=price)


def classify_images(
    images: Sequence[str | os.PathLike[str]],
    labels: Sequence[str],
    *,
    model: str | Generator = "reference",
    template: str = "{}",
    trials: int = 100,
    seed: int = 0,
    all_trials: bool = False,
    batch_size: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Classify images by how well a diffusion model denoises them under each label.

    Parameters
    ----------
    images : files, or folders of them.
    labels : the classes, two or more.
    model : as of :func:`audit`; it must give access to its denoiser.
    template : the prompt of a class, with ``{}`` for its label.
    trials : noise samples an image takes at most. Timesteps and noise follow from ``seed`` and from the image.
    all_trials : take every noise sample under every label, instead of leaving a label alone once another has beaten it.
    batch_size, device, dtype : how to compute.
    progress : a listener.

    Returns
    -------
    A row an image: ``file``, and the fields of :class:`clinometer.models.diffusers.classifier.Choice`.

    Raises
    ------
    InvalidInputError, ModelError
        No image, labels or settings that do not fit, or a model that cannot classify.
    """
    from clinometer.models.diffusers.classifier import DiffusionClassifier

    seed = plain_seed(seed)
    files = image_files(images)
    generator, _ = Models().generator(model, {"batch_size": batch_size, "dtype": dtype}, device)
    classifier = DiffusionClassifier(
        denoiser_of(generator),
        labels,
        template=template,
        trials=trials,
        seed=seed,
        elimination=None if all_trials else Elimination(),
    )
    return classify_files(files, classifier, progress or Silence())


def check_skin() -> tuple[Swatch, ...]:
    """Hold the skin mask and the typology angle against the ten swatches of the Monk scale."""
    return monk_self_test()


def _finished(
    folder: Path, manifest: Path | None, name: str | None, max_pixels: int, progress: Progress
) -> tuple[Sequence[ManifestRow], FolderSource | ImageDataset]:
    """Images in a folder with a manifest; where there is none, in a table."""
    if manifest is None and (folder.is_file() or (not has_manifest(folder) and dataset_files(folder))):
        dataset = ImageDataset(folder, name=name, max_pixels=max_pixels)
        return dataset.rows, dataset
    rows = read_manifest(folder, manifest)
    if rows.ignored:
        ignored = first_and_more([shortened(str(each)) for each in rows.ignored], 20)
        progress.note(f"{rows.path.name}: columns that mean nothing here: {ignored}")
    return rows, FolderSource(folder, rows, name=name, max_pixels=max_pixels)
