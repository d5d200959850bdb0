"""The audit from end to end: plan → generate → encode → score → report, over one run directory."""

from __future__ import annotations

import operator
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clinometer._messages import first_and_more, shortened
from clinometer.errors import InvalidInputError, ModelError, SuiteError
from clinometer.metrics.skin import Swatch, monk_self_test
from clinometer.models import load_encoder, load_generator, reference
from clinometer.models.files.folder import FolderSource, Manifest, ManifestRow, has_manifest, read_manifest
from clinometer.models.files.image_dataset import ImageDataset, dataset_files
from clinometer.models.files.portraits import PortraitSource, choose_portraits, read_portraits
from clinometer.models.images import MAX_PIXELS
from clinometer.models.presets import with_presets
from clinometer.models.weights import user_path
from clinometer.pipeline import score
from clinometer.pipeline.association_tests import Settings, association_tests
from clinometer.pipeline.comparison import first_against_rest
from clinometer.pipeline.comparison_page import write_comparison
from clinometer.pipeline.encoders import require_images, require_names, require_texts
from clinometer.pipeline.engines import Engine, open_engine
from clinometer.pipeline.execution import Executor, Job, Serial, execute, part_size_of
from clinometer.pipeline.notebook import run_repr_html
from clinometer.pipeline.paper_tables import paper_table as tabulate
from clinometer.pipeline.parallel import Parallel
from clinometer.pipeline.planning import Plan, plan_audit
from clinometer.pipeline.recipes import Given, Recipe, WithPortraits, recipe_of
from clinometer.pipeline.reporting import refresh_report
from clinometer.pipeline.rounds import rounds_of
from clinometer.runs import Directory, Progress, Silence, store
from clinometer.runs.batches import settle_batch_size
from clinometer.runs.comparison import Comparison
from clinometer.runs.manifest import groups_by_prompt, manifest_questions
from clinometer.runs.plan import build_plan
from clinometer.runs.protocol import portrait_departures, refresh_protocol, suite_under
from clinometer.runs.record import card_record
from clinometer.runs.verification import verify
from clinometer.stats.racing import Elimination
from clinometer.studies import study_of
from clinometer.studies.classification.files import classify_files, image_files
from clinometer.studies.classification.scoring import denoiser_of
from clinometer.studies.leaning.fit import misfits
from clinometer.suites import Question, Suite, load_suite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.models import Encoder, Generator

__all__ = [
    "Run",
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
    progress = progress or Silence()
    seed = _plain_seed(seed)
    asked = suite_under(protocol, _audited(suite)).with_options(images=images, text_targets=text_targets)
    prescribed = None if protocol is None else asked.protocol
    rounds = None
    if until is not None:
        rounds = rounds_of(asked, until, images)
        asked = rounds.suite
    prefer = {} if prescribed is None else prescribed.sampling
    options = {"steps": steps, "guidance_scale": guidance_scale, "batch_size": batch_size, "dtype": dtype}
    options |= model_options or {}
    generator = _generator(model, options, device, prefer=prefer)
    recipe = recipe_of("generator", model, options | {"device": device, "prefer": prefer})
    out = out or _default_out(generator, asked)
    settle_batch_size(out, generator, asked, progress)
    part_size = part_size_of(generator)
    questions, source = (asked if rounds is None else rounds).questions(), None
    if portraits is None and expression != "N":
        raise InvalidInputError(f"expression: found {expression!r}, and no portraits to take it of; give --portraits")
    typed = portrait_departures(prescribed, images, expression) if portraits is not None else []
    if portraits is not None:
        whole = prescribed is not None and prescribed.portraits == "all" and images is None
        asked, questions, source = _portraits(asked, portraits, expression, seed, whole=whole)
        generator, recipe = PortraitSource(source, generator), WithPortraits(source, recipe)
    plan = build_plan(questions, seed=seed, model_fingerprint=generator.card.fingerprint, part_size=part_size)
    if source is not None:
        source.assign({sample.id: sample.file for sample in plan})
    study = study_of(asked)
    if study.check is not None:
        study.check(generator, asked)
    if study.extend_plan is not None:
        plan = study.extend_plan(asked, plan, part_size)
    job = Job(
        asked, generator, plan, seed,
        rounds=rounds, budget=budget, retry_failed=retry_failed, protocol=None if prescribed is None else typed,
    )  # fmt: skip
    if encoder is None:
        encoder = (prescribed.encoders if prescribed is not None else ()) or "reference"
    return _execute(job, out, encoder, device, progress, _Workers(engine, workers, recipe))


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
    seed = _plain_seed(seed)
    asked = _audited(suite)
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
    out = out or _default_out(source, asked)
    return _execute(job, out, encoder, device, progress, _Workers(engine, workers, Given(source)))


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
    seed = _plain_seed(seed)
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
        encoders = _encoders(encoder, device)
        require_texts(encoders, run.suite, until=run.record.get("until") is not None)
        with _Workers(engine, workers, None).opened(_recipes(encoder, encoders, device), device) as executor:
            for each in encoders:
                executor.encode(run, each, progress)
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

    seed = _plain_seed(seed)
    files = image_files(images)
    generator = _generator(model, {"batch_size": batch_size, "dtype": dtype}, device)
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


@dataclass(frozen=True)
class _Workers:
    """Who does the work: an engine as it was asked for, and how its workers come by the generator."""

    engine: str | Engine
    workers: int | None
    generator: Recipe | None

    @contextmanager
    def opened(self, encoders: Mapping[str, Recipe], device: str) -> Iterator[Executor]:
        """Open the engine, and close it again unless it was given open."""
        engine = open_engine(self.engine, self.workers, device) if isinstance(self.engine, str) else self.engine
        try:
            yield Serial() if engine is None else Parallel(engine, self.generator, encoders)
        finally:
            if engine is not None and engine is not self.engine:
                engine.close()


def _execute(
    job: Job,
    out: str | os.PathLike[str],
    encoder: str | Encoder | Sequence[str | Encoder],
    device: str,
    progress: Progress,
    workers: _Workers,
) -> Run:
    encoders = _encoders_of(job.suite, encoder, device, until=job.rounds is not None)
    for each in encoders:
        if said := misfits(card_record(each.card), card_record(job.generator.card), job.suite):
            progress.note(said)
    directory = Directory(out)
    store.require_run_or_nothing(directory)
    with directory.locked(), workers.opened(_recipes(encoder, encoders, device), device) as executor:
        refresh_report(execute(job, out, encoders, progress, executor))
    return Run(out)


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


def _portraits(
    suite: Suite, portraits: str | os.PathLike[str], expression: str, seed: int, *, whole: bool
) -> tuple[Suite, Iterator[Question], FolderSource]:
    """Portraits that are there already: the suite with their number, the questions they answer, and their source.

    ``whole`` takes every one of them; else at most as many of a group as the suite asks for.
    """
    needed = suite.portraits()
    if needed is None:
        raise SuiteError(
            f"suite {suite.name}: it asks for no portraits; give a suite of study editing or classification, or no "
            "portraits"
        )
    folder = reference.portraits_path() if str(portraits) == "reference" else Path(portraits)
    codes, most = needed
    found = read_portraits(folder, codes, expression=expression, prompts=groups_by_prompt(suite))
    rows = choose_portraits(found, None if whole else most, seed)
    if whole:
        suite = suite.with_options(images=max(Counter(row.group for row in rows).values()))
    name = "reference portraits" if str(portraits) == "reference" else folder.resolve().name
    return suite, manifest_questions(rows, suite, str(portraits)), FolderSource(folder, rows, name=name)


def _audited(suite: str | Path | Suite) -> Suite:
    """A suite that asks for images."""
    asked = load_suite(suite)
    if not asked.draws:
        given = asked.name if isinstance(suite, Suite) else suite
        raise SuiteError(f"suite {asked.name}: it asks for no images; give: clinometer test {given}")
    return asked


def _plain_seed(seed: int) -> int:
    """A seed as Python's own number; one is refused here that the scoring would refuse, once every image is drawn."""
    try:
        plain = operator.index(seed)
    except TypeError:
        plain = -1
    if plain < 0:
        raise InvalidInputError(f"seed: expected a whole number, 0 or more, found {seed!r}")
    return plain


def _default_out(generator: Generator, suite: Suite) -> Path:
    return Path("runs") / f"{generator.card.name}-{suite.name}".replace("/", "-")


def _generator(
    model: str | Generator, options: Mapping[str, Any], device: str, *, prefer: Mapping[str, Any] | None = None
) -> Generator:
    if not isinstance(model, str | os.PathLike):
        given = [name for name, value in options.items() if value not in (None, "auto")]
        if given:
            raise ModelError(
                f"{', '.join(given)}: {model.card.name} is loaded already and keeps its own; give such options where "
                "it is loaded, or the model by its name"
            )
        return model
    return load_generator(os.fspath(model), prefer=prefer, device=device, **options)


def _encoders_of(
    suite: Suite, encoder: str | Encoder | Sequence[str | Encoder], device: str, *, until: bool
) -> list[Encoder]:
    """The encoders of an audit; none where its study needs none."""
    if not study_of(suite).encoders_needed:
        return []
    encoders = _encoders(encoder, device)
    if not encoders:
        raise ModelError("encoder: found none, expected one at least, such as reference")
    require_texts(encoders, suite, until=until)
    return encoders


def _named(encoder: str | Encoder | Sequence[str | Encoder]) -> Sequence[str | Encoder]:
    """Encoders as they were given, one by one."""
    alone = isinstance(encoder, str | os.PathLike) or hasattr(encoder, "card")
    return with_presets([encoder] if alone else encoder)  # type: ignore[arg-type]


def _encoders(encoder: str | Encoder | Sequence[str | Encoder], device: str) -> list[Encoder]:
    encoders: list[Encoder] = [
        load_encoder(os.fspath(each), device=device) if isinstance(each, str | os.PathLike) else each
        for each in _named(encoder)
    ]
    for each in encoders:
        require_images(each)
    require_names(encoders)
    return encoders


def _recipes(
    given: str | Encoder | Sequence[str | Encoder], encoders: Sequence[Encoder], device: str
) -> dict[str, Recipe]:
    """How workers come by each encoder, by its name; none of a study that needs none."""
    named = zip(encoders, _named(given), strict=True) if encoders else ()
    return {encoder.card.name: recipe_of("encoder", each, {"device": device}) for encoder, each in named}
