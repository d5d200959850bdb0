"""What needs no run: plan an audit, run WEAT and its kin, classify images, check the skin mask."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clinometer.api.runs import Run
from clinometer.errors import InvalidInputError
from clinometer.models import load_encoder, load_reader
from clinometer.models.files import image_files
from clinometer.models.weights import user_path
from clinometer.pipeline.recipes import Models
from clinometer.pipeline.request import ask, plain_seed
from clinometer.readings.folder import FolderReadings, read_folder
from clinometer.readings.questions import WrittenQuestions, propose_questions, require_writer
from clinometer.readings.questions import write_questions as write_file
from clinometer.readings.weat import WeatSettings, weat_tests
from clinometer.runs import Progress, listening
from clinometer.stats.sequential import Elimination
from clinometer.stats.skin import Swatch, monk_self_test
from clinometer.studies.classification.study import classify_files, denoiser_of
from clinometer.studies.planning import Plan, plan_audit
from clinometer.suites import Suite, load_suite
from clinometer.suites.question import load_question

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.models import Encoder, Generator, Reader


def plan(
    suite: str | Path | Suite | None = None,
    *,
    pilot: str | os.PathLike[str] | Run | None = None,
    effect: float | None = None,
    margin: float | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    price: float = 0.0,
    answer_price: float = 0.0,
    images: int | None = None,
    concepts: int | str | Sequence[str] | None = None,
) -> Plan:
    """Say how many images an audit needs, and what they would cost in time and disk. Draws nothing.

    Parameters
    ----------
    suite : as of :func:`audit`; by default the pilot's.
    pilot : a scored run of that suite, as a path or opened. Without one, only what needs no pilot is said: images to
        find a share.
    images, concepts : as of :func:`audit`: the suite whose images and cost are told has so many.
    effect, margin, power, alpha, price, answer_price : see :func:`clinometer.studies.planning.plan_audit`.

    Raises
    ------
    SuiteError, InvalidInputError, RunError
        A suite that is not planned, settings out of range, or a pilot that is not a run or not scored.
    """
    run = pilot if pilot is None or isinstance(pilot, Run) else Run(pilot)
    if run is not None:
        run.require_images("a pilot")
    audited_suite = (
        load_suite(suite) if suite is not None else run.suite if run is not None else load_suite("reference")
    )
    asked = ask(images=images, concepts=concepts)
    audited_suite = audited_suite.with_options(images=asked.images, concepts=asked.concepts)
    return plan_audit(
        audited_suite, run, effect=effect, margin=margin, power=power, alpha=alpha, price=price,
        answer_price=answer_price,
    )  # fmt: skip


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
    The fields of :class:`clinometer.readings.weat.WeatTest`; ``q`` within the tests of this call.

    Raises
    ------
    SuiteError, ModelError
        An unknown test, an encoder that cannot be loaded or takes no text or no picture.
    """
    options = {} if labels is None else {"labels": os.fspath(labels)}
    seed = plain_seed(seed)
    if isinstance(encoder, str | os.PathLike):
        spec = os.fspath(encoder)
        is_file = user_path(spec).is_file() or spec.startswith("embeddings:")
        encoder = load_encoder(spec, **options, **({} if is_file else {"device": device}))
    settings = WeatSettings(
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
    return weat_tests(tests, encoder, images=folder, sentences=sentences, settings=settings)


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
    return classify_files(files, classifier, listening(progress))


def check_skin() -> tuple[Swatch, ...]:
    """Check the skin mask and the typology angle against the ten swatches of the Monk scale."""
    return monk_self_test()


def read_images(
    folder: str | os.PathLike[str],
    *,
    reader: str | Reader = "reference",
    question: str | Path = "gender",
    truth: str | os.PathLike[str] | None = None,
    same_pictures: bool = False,
    encoder: str | Encoder | None = None,
    threshold: float = 0.9,
    out: str | os.PathLike[str] | None = None,
    budget: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> FolderReadings:
    """Read a folder's pictures, and measure how often the reader errs where the truth is known.

    Parameters
    ----------
    folder : image files, at any depth.
    reader : as of :func:`clinometer.models.load_reader`, or an object that reads.
    question : a built-in question (gender, age, monk) or a YAML file.
    truth : a CSV file with the columns ``file`` and ``group``, of some of the pictures or of all. The shares of the
        groups among the others are corrected by the reader's errors on these, if both are alike to it; a column
        ``concept`` says which are of one kind, as errors differ from kind to kind. Of an open question ``file`` and
        ``concept``; without it the concept of a picture is the folder within ``folder`` that it lies in.
    same_pictures : whether the pictures of ``truth`` were drawn at random from those of ``folder``. Then what is unread
        informs the shares, and they are of all pictures.
    encoder : with ``truth``, the image encoder by whose vectors its pictures are held against the others; by default
        that of a reader which is an encoder. Of an open question, the text encoder by whose vectors answers are put
        together; None leaves those apart that differ once case, articles and punctuation are off.
    threshold : mean cosine from which on answers to an open question are put together.
    out : where readings are kept, part by part: the same call goes on from there. None is ``readings/FOLDER``.
    budget : what the missing answers may cost, of a reader with a price.
    **options : what the reader's adapter takes, such as ``device``, ``batch_size``, ``price``, ``base_url``.

    Raises
    ------
    SuiteError, ModelError, InvalidInputError, RunError
        No such question or reader, or none that can answer it; no picture, or a truth that does not fit; a part of
        readings that cannot be read or written.
    """
    asked = load_question(question)
    loaded = load_reader(reader, **options) if isinstance(reader, str) else reader
    place = Path("readings") / Path(folder).resolve().name if out is None else out
    return read_folder(
        folder, loaded, asked, listening(progress), truth=truth, same_pictures=same_pictures, out=place, budget=budget,
        threshold=threshold, encoder=load_encoder(encoder) if isinstance(encoder, str) else encoder,
    )  # fmt: skip


def write_questions(
    suite: str | Path | Suite,
    *,
    writer: str,
    out: str | os.PathLike[str] = "questions.yaml",
    concepts: Sequence[str] = (),
    most: int = 3,
    budget: float | None = None,
    **options: Any,
) -> WrittenQuestions:
    """Let a language model propose questions about a suite's pictures, and write them as a file to edit.

    Parameters
    ----------
    writer : ``openai:MODEL``, which is sent each concept's prompt and no picture.
    out : a YAML file, which must not be there yet. ``FILE#NAME`` then is a question as of :func:`read_images`.
    concepts, most : of these concepts alone; so many questions a concept at most.
    budget : what the proposals may cost, one a concept.
    **options : ``price`` of one proposal, ``base_url``, ``concurrency``, and what else the endpoint's adapter takes.

    Raises
    ------
    SuiteError, ModelError, InvalidInputError
        No such suite or endpoint, nothing that could be read as a question, or a file that is there already.
    """
    place = Path(out)
    if place.exists():
        raise InvalidInputError.already_exists(
            f"{place}: it is there already; give another place, or remove it", field="out"
        )
    loaded_suite, loaded = load_suite(suite), require_writer(load_reader(writer, **options))
    written = propose_questions(loaded_suite, loaded, concepts=concepts, most=most, budget=budget)
    write_file(written, loaded_suite, place)
    return written
