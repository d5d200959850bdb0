"""Functions that need no run: plan an audit, run WEAT and its kin, classify images, check the skin mask.

What a function needs is imported when it is called: the command line reads the signatures, and starts at once.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import (
    RESAMPLING_SEED,
    Argument,
    AskedEncoder,
    AskedModel,
    AskedReader,
    AskedRun,
    AskedSuite,
    Listener,
    Option,
    Place,
    ask,
    documented,
    option_of,
    plain_seed,
)

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.readings.folder import FolderReadings
    from clinometer.readings.questions import WrittenQuestions
    from clinometer.stats.skin import Swatch
    from clinometer.studies.planning import Plan


@documented
def plan(
    suite: Annotated[AskedSuite | None, replace(option_of("suite"), several=None, default="the pilot's")] = None,
    *,
    pilot: Annotated[AskedRun | None, Option("A scored run of the suite.", short="-p", metavar="RUN")] = None,
    images: Annotated[int | None, option_of("images")] = None,
    concepts: Annotated[int | str | Sequence[str] | None, option_of("concepts")] = None,
    effect: Annotated[
        float | None,
        Option("The image part (on either side) to detect.", default="each concept's own in the pilot"),
    ] = None,
    margin: Annotated[
        float | None, Option("The margin within which balance is to be shown.", default="the suite's")
    ] = None,
    power: Annotated[float, Option("Probability of reaching the verdict.")] = 0.8,
    alpha: Annotated[
        float, Option("Level of q over all concepts; without a pilot, level for one concept alone.")
    ] = 0.05,
    price: Annotated[float, Option("Price of one image, for a model behind an API.")] = 0.0,
    answer_price: Annotated[float, Option("Price of one answer, for a reader behind an API.")] = 0.0,
) -> "Plan":
    """Estimate how many images an audit needs, and what they would cost in time and disk. Draws nothing.

    Parameters
    ----------
    pilot : a scored run of that suite, as a path or opened. Without one, only what needs no pilot is said: images to
        find a share.
    images, concepts : as of :func:`audit`: the suite whose images and cost are told has so many.

    Raises
    ------
    SuiteError, InvalidInputError, RunError
        A suite that is not planned, settings out of range, or a pilot that is not a run or not scored.
    """
    from clinometer.api.runs import open_if_place
    from clinometer.studies.planning import plan_audit
    from clinometer.suites import load_suite

    run = None if pilot is None else open_if_place(pilot)
    if run is not None:
        run.require_images("a pilot")
    audited_suite = (
        load_suite(suite) if suite is not None else run.suite if run is not None else load_suite("reference")
    )
    request = ask(images=images, concepts=concepts)
    audited_suite = audited_suite.with_options(images=request.images, concepts=request.concepts)
    return plan_audit(
        audited_suite, run, effect=effect, margin=margin, power=power, alpha=alpha, price=price,
        answer_price=answer_price,
    )  # fmt: skip


@documented
def association_test(
    test: Annotated[
        AskedSuite | Sequence[AskedSuite],
        Argument("weat, weat/6, seat/6, ieat/age, or a YAML file.", metavar="TEST…", default="weat", many=True),
    ] = "weat",
    *,
    encoder: Annotated[
        AskedEncoder, Option("An encoder as for audit, a text-only encoder, or a file of embeddings.", short="-e")
    ] = "reference",
    images: Annotated[
        Place | None, Option("A folder that contains a folder of pictures for each set.", kind=Path)
    ] = None,
    labels: Annotated[Place | None, Option("For .npy embeddings: a file with one label per line.", kind=Path)] = None,
    sentences: Annotated[bool, Option("Put words into sentences (SEAT).")] = False,
    unit: Annotated[
        Literal["word", "sentence"], Option("With --sentences: what is permuted, word or sentence.")
    ] = "word",
    alternative: Annotated[
        Literal["two-sided", "greater", "less"] | None,
        Option("Alternative hypothesis: greater, less or two-sided.", default="the test's own, greater"),
    ] = None,
    ddof: Annotated[
        int, Option("Delta degrees of freedom: 1 as in iEAT and sent-bias, 0 as in WEFE.", least=0, most=1)
    ] = 1,
    spread: Annotated[
        Literal["union", "pooled"],
        Option("The standard deviation that the effect size is divided by: union or pooled."),
    ] = "union",
    max_missing: Annotated[float, Option("Largest share of a set that may be missing.")] = 0.2,
    permutations: int = 9_999,
    resamples: int = 9_999,
    seed: Annotated[int, RESAMPLING_SEED] = 0,
    device: Annotated[str, option_of("device")] = "auto",
) -> "pd.DataFrame":
    """Run WEAT, SEAT or iEAT on words, sentences or pictures: a row a test.

    Parameters
    ----------
    test : ``"weat"`` or ``"ieat"`` (all of them), ``"weat/6"``, ``"seat/6"`` (the same words in sentences), a YAML
        file, or several of these.
    encoder : as of :func:`audit`, or a text-only encoder, or a file of embeddings (``.txt``, ``.vec``, ``.csv``,
        ``.tsv``, ``.parquet``, ``.npy``, ``.npz``).
    images : a folder that holds a folder of pictures for each set that is to be seen and not read.
    sentences : put each word into sentences that say nothing else.
    unit : with sentences, what is permuted and resampled: the ``"word"``, or each ``"sentence"`` as in the paper.
    alternative : in place of the test's own, which is ``"greater"``: X to A, Y to B.
    ddof, spread : what the effect size divides by, see :func:`clinometer.metrics.weat`.
    permutations, resamples, seed : how much is drawn where splits cannot be counted, and for the intervals.

    Returns
    -------
    The fields of :class:`clinometer.readings.weat.WeatTest`; ``q`` within the tests of this call.

    Raises
    ------
    SuiteError, ModelError
        An unknown test, an encoder that cannot be loaded or takes no text or no picture.
    """
    from clinometer.models import load_encoder
    from clinometer.models.weights import user_path
    from clinometer.readings.weat import WeatSettings, weat_tests
    from clinometer.suites import Suite

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


@documented
def classify_images(
    images: Annotated[Sequence[Place], Argument("Image files, or folders of them.", metavar="IMAGES", many=True)],
    labels: Annotated[Sequence[str], Option("The classes, separated by commas. Repeatable.", short="-l", many=True)],
    *,
    template: Annotated[str, Option("The prompt for a class; {} stands for its label.")] = "{}",
    model: Annotated[
        AskedModel,
        Option("'reference', a pipeline directory, a safetensors file, or a hub id.", short="-m"),
    ] = "reference",
    trials: Annotated[int, Option("Maximum number of noise samples per image.", least=1)] = 100,
    all_trials: Annotated[bool, Option("Use all noise samples, even for a class that is already ruled out.")] = False,
    seed: Annotated[int, Option("Seed from which, with the image, timesteps and noise are derived.")] = 0,
    batch_size: Annotated[int | None, option_of("batch_size")] = None,
    device: Annotated[str, option_of("device")] = "auto",
    dtype: Annotated[str, option_of("dtype")] = "auto",
    progress: Listener | None = None,
) -> "pd.DataFrame":
    """Classify images by how well a diffusion model denoises them under each label.

    Parameters
    ----------
    labels : the classes, two or more.
    model : as of :func:`audit`; it must give access to its denoiser.
    all_trials : take every noise sample under every label, instead of leaving a label alone once another has beaten it.
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
    from clinometer.models.files import image_files
    from clinometer.pipeline.recipes import Models
    from clinometer.runs import listening
    from clinometer.stats.sequential import Elimination
    from clinometer.studies.classification.study import classify_files, denoiser_of

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


def check_skin() -> "tuple[Swatch, ...]":
    """Check the skin mask and the typology angle against the ten swatches of the Monk scale."""
    from clinometer.stats.skin import monk_self_test

    return monk_self_test()


@documented
def read_images(
    folder: Place,
    *,
    reader: AskedReader = "reference",
    question: str | Path = "gender",
    truth: Place | None = None,
    same_pictures: Annotated[bool, Option("The pictures in --truth were drawn at random from the folder's.")] = False,
    encoder: AskedEncoder | None = None,
    threshold: float = 0.9,
    out: Annotated[
        Place | None, Option("Directory to keep the readings in.", short="-o", default="readings/FOLDER", kind=Path)
    ] = None,
    budget: float | None = None,
    progress: Listener | None = None,
    **options: Any,
) -> "FolderReadings":
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
    encoder : with ``truth``, the image encoder by whose vectors its pictures are compared with the others; by default
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
    from clinometer.models import load_encoder, load_reader
    from clinometer.readings.folder import read_folder
    from clinometer.runs import listening
    from clinometer.suites.question import load_question

    loaded_question = load_question(question)
    loaded = load_reader(reader, **options) if isinstance(reader, str) else reader
    place = Path("readings") / Path(folder).resolve().name if out is None else out
    return read_folder(
        folder, loaded, loaded_question, listening(progress), truth=truth, same_pictures=same_pictures, out=place,
        budget=budget, threshold=threshold, encoder=load_encoder(encoder) if isinstance(encoder, str) else encoder,
    )  # fmt: skip


@documented
def write_questions(
    suite: Annotated[AskedSuite, Argument("A built-in suite or a YAML file.", metavar="SUITE")],
    *,
    writer: Annotated[str, Option("The language model: openai:MODEL.")],
    out: Annotated[
        Place, Option("The file to write; it must not exist yet.", short="-o", kind=Path)
    ] = "questions.yaml",
    concepts: Annotated[
        Sequence[str], Option("Only these concepts, separated by commas.", kind=str, default="all")
    ] = (),
    most: Annotated[int, Option("Questions per concept.", least=1, most=20)] = 3,
    budget: Annotated[float | None, Option("The most that all proposals may cost.")] = None,
    **options: Any,
) -> "WrittenQuestions":
    """Let a language model propose questions about a suite's pictures, and write them as a file to edit.

    Parameters
    ----------
    writer : ``openai:MODEL``, which is sent each concept's prompt and no picture.
    out : a YAML file, which must not be there yet. ``FILE#NAME`` then is a question as of :func:`read_images`.
    budget : what the proposals may cost, one a concept.
    **options : ``price`` of one proposal, ``base_url``, ``concurrency``, and what else the endpoint's adapter takes.

    Raises
    ------
    SuiteError, ModelError, InvalidInputError
        No such suite or endpoint, nothing that could be read as a question, or a file that is there already.
    """
    from clinometer.models import load_reader
    from clinometer.readings.questions import propose_questions, require_writer
    from clinometer.readings.questions import write_questions as write_file
    from clinometer.suites import load_suite

    place = Path(out)
    if place.exists():
        raise InvalidInputError.already_exists(
            f"{place}: it is there already; give another place, or remove it", field="out"
        )
    loaded_suite, loaded = load_suite(suite), require_writer(load_reader(writer, **options))
    written = propose_questions(loaded_suite, loaded, concepts=concepts, most=most, budget=budget)
    write_file(written, loaded_suite, place)
    return written
