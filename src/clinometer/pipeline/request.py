"""How an option is declared, and what an audit may be asked: each option once, with its type, limits, default and help.

An option stands beside its type, in the function or the request that takes it::

    def plan(suite: Annotated[AskedSuite | None, Option("A built-in suite or a YAML file.", short="-s")] = None, …)

The command line, ``clinometer.toml`` and docs/cli.md get its name, type, default, limits and help from there, and
``documented`` writes the help into the docstring of the function. More than a call asks for an audit, such as a
registration and the cells of a sweep, so its options are the fields of a class, :class:`AuditRequest`. The keys of a
sweep's file and what run.json keeps as ``options`` follow from these fields, too. Nothing heavy is imported here: see
decision 78.
"""

from __future__ import annotations

import inspect
import operator
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo

from clinometer.errors import InvalidInputError
from clinometer.suites.strict import ImageCount, Number, Strict, WholeNumber, code_of, first_problem

if TYPE_CHECKING:
    from clinometer.models.protocols import Encoder, Generator
    from clinometer.models.readers import Reader
    from clinometer.pipeline.engines import Engine
    from clinometer.runs.progress import Progress
    from clinometer.runs.run import Run
    from clinometer.suites import Suite

    AskedModel: TypeAlias = str | Generator
    AskedSuite: TypeAlias = str | Path | Suite
    AskedEncoder: TypeAlias = str | Encoder
    Encoders: TypeAlias = AskedEncoder | Sequence[AskedEncoder]
    AskedReader: TypeAlias = str | Reader
    Readers: TypeAlias = AskedReader | Sequence[AskedReader]
    AskedEngine: TypeAlias = str | Engine
    AskedRun: TypeAlias = str | os.PathLike[str] | Run
    Listener: TypeAlias = Progress
else:  # objects pass as they are, and nothing that knows them is imported
    AskedModel = AskedSuite = AskedEncoder = Encoders = AskedReader = Readers = Any
    AskedEngine = AskedRun = Listener = Any

Place: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Option:
    """An option of a command: how it is given, and what becomes of it.

    Attributes
    ----------
    help : what it does; for a field of a request, the description of the field.
    name, short, metavar : where they do not follow from the name of the parameter.
    key : its name in files and variables, where that is not the name of the parameter.
    default : what applies where it is not given, in words. The function's own default then applies.
    panel : the heading of ``--help`` that it is listed under.
    least, most : its limits.
    kind : how the command line reads it, where that does not follow from the type.
    several : how each of several values is read, which are a sweep.
    many : whether it may be repeated.
    typed : whether the command line has it.
    kept : whether run.json keeps it: what changes the numbers and is in no card and no suite.
    alike : whether the cells of a sweep must agree on it, because it changes an image.
    of_suite : whether it changes what the suite asks.
    """

    help: str = ""
    name: str = ""
    short: str = ""
    metavar: str | None = None
    key: str = ""
    default: str = ""
    panel: str | None = None
    least: float | None = None
    most: float | None = None
    kind: Any = None
    several: type | None = None
    many: bool = False
    typed: bool = True
    kept: bool = False
    alike: bool = False
    of_suite: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether the option may be repeated on the command line."""
        return self.many or self.several is not None


class Argument(Option):
    """An argument of a command, which has no name there."""


RUN: Final = Argument("A run directory.", metavar="RUN")
RESAMPLING_SEED: Final = Option("Seed for the resampling.")

Function = TypeVar("Function", bound=Callable[..., Any])
HEADING: Final = "Parameters\n----------\n"


def parts_of(annotation: Any) -> Iterator[Any]:
    """Yield a type and every part of it, the metadata of annotations too."""
    yield annotation
    for part in get_args(annotation) if get_origin(annotation) is not Literal else ():
        yield from parts_of(part)


def option_in(annotation: Any) -> Option | None:
    """Return the option that an annotation declares; None where it declares none."""
    found = get_args(annotation) if get_origin(annotation) is Annotated else ()
    return next((each for each in found if isinstance(each, Option)), None)


def default_in_words(option: Option, default: Any) -> str:
    """Return what applies where an option is not given, as ``--help`` ends; empty where nothing is to be said."""
    words = option.default or ("" if default is None else str(default))
    return f" [default: {words}]" if words else ""


def documented(function: Function) -> Function:
    """Decorate a function that declares options: its docstring describes those that it does not describe itself.

    The signature that people see has the plain types.
    """
    signature, document = inspect.signature(function), inspect.getdoc(function) or ""
    if HEADING not in document:
        section = re.search("^(Returns|Raises)\n---", document, re.MULTILINE)
        place = section.start() if section else len(document)
        document = f"{document[:place].rstrip()}\n\n{HEADING}\n\n{document[place:]}"
    opening, _, rest = document.partition(HEADING)
    described, _, rest = rest.partition("\n\n")
    own = {
        name.lstrip("*"): entry
        for entry in re.split(r"\n(?=\S)", described)
        for name in entry.partition(" : ")[0].split(", ")
    }
    parameters, entries = [], dict[str, None]()  # an entry may describe several parameters
    for name, parameter in signature.parameters.items():
        option = option_in(parameter.annotation)
        if option is None:
            parameters.append(parameter)
        else:
            parameters.append(parameter.replace(annotation=get_args(parameter.annotation)[0]))
            default = None if parameter.default in (parameter.empty, "", (), False) else parameter.default
            text = f"{name} : {option.help}{default_in_words(option, default)}"
            own.setdefault(name, textwrap.fill(text, 116, subsequent_indent="    "))
        if name in own:
            entries[own[name]] = None
    document = f"{opening}{HEADING}{chr(10).join(entries)}\n\n{rest}"
    function.__doc__ = textwrap.indent(document, "    ").strip()
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function


RESAMPLES: Final = 10_000

WORK: Final = "Where the work runs"
READING: Final = "Readers of the images"
INSIDE: Final = "Tracing the denoising steps"
SERVERS: Final = "Options of models behind an API"


def plain_seed(seed: Any) -> int:
    """Return a seed as Python's own number; scoring would refuse some, once every image is drawn."""
    try:
        plain = operator.index(seed)
    except TypeError:
        plain = -1
    if plain < 0:
        raise InvalidInputError.out_of_range(f"expected a whole number, 0 or more, found {seed!r}", field="seed")
    return plain


def _read_until(until: Any) -> Any:
    """Read a stopping rule; ``yes`` would pass for the number 1."""
    try:
        if until in (None, "decided") or (not isinstance(until, bool) and 0 < float(until) < float("inf")):
            return until if until in (None, "decided") else float(until)
    except (TypeError, ValueError):
        pass
    raise InvalidInputError.malformed(f"expected 'decided' or a positive precision, found {until!r}")


def _read_seed(seed: Any) -> int:
    try:
        return plain_seed(seed)
    except InvalidInputError as error:
        raise InvalidInputError(error.problem, code=error.code) from error


def _read_concepts(concepts: Any) -> Any:
    """Read a number, or names as a list or separated by commas."""
    if isinstance(concepts, str):
        concepts = int(concepts) if concepts.strip().isdecimal() else concepts.split(",")
    if concepts is None or (isinstance(concepts, int) and not isinstance(concepts, bool) and concepts > 0):
        return concepts
    listed = concepts if isinstance(concepts, list | tuple) else ()
    names = [name.strip() for name in listed] if all(isinstance(name, str) for name in listed) else []
    if not names or not all(names):
        wanted = "a number from 1 up, or names separated by commas"
        raise InvalidInputError.malformed(f"expected {wanted}, found {concepts!r}")
    return names


Seed = Annotated[int, BeforeValidator(_read_seed), Field(lt=2**63)]
Steps = Annotated[WholeNumber, Field(ge=1)]
Scale = Annotated[Number, Field(ge=0)]


class CellOptions(Strict):
    """What every cell of a sweep is asked alike; of a single audit, too."""

    model_config = ConfigDict(protected_namespaces=())

    protocol: Annotated[Literal["paper"] | None, Option(alike=True)] = Field(
        None,
        description="'paper' applies the settings that the suite's paper prescribes (encoders, text targets, images, "
        "steps, guidance, size). Options that you give take precedence, and the report lists every departure.",
    )
    images: Annotated[ImageCount | None, Option(default="the suite's", alike=True, of_suite=True)] = Field(
        None, description="Images per target."
    )
    concepts: Annotated[
        int | list[str] | str | None,
        BeforeValidator(_read_concepts),
        Option(default="all", kept=True, alike=True, of_suite=True),
    ] = Field(
        None,
        description="Audit only some concepts: a number per category, or names separated by commas. The others are "
        "not drawn, and the correction for multiple tests does not count them.",
    )
    text_targets: Annotated[
        Literal["prompt", "keyword"] | None, Option(default="the suite's", alike=True, of_suite=True)
    ] = Field(None, description="The text that represents a target: prompt or keyword.")
    until: Annotated[
        Literal["decided"] | float | None, BeforeValidator(_read_until), Option(default="draw all images", alike=True)
    ] = Field(
        None,
        description="Draw in rounds, and stop drawing a target once it is 'decided' to lean or to be balanced, or "
        "known to within a number such as 0.1 at 95 %. The results stay valid although they are looked at after every "
        "round. The number of images is then the maximum per target, by default ten times the suite's.",
    )
    portraits: Annotated[Place | None, Option(default="drawn by the model", alike=True)] = Field(
        None,
        description="Portraits to edit or classify, for suites of a study that does so: a folder with a manifest, a "
        "folder of files named as in the Chicago Face Database, or 'reference'.",
    )
    expression: Annotated[str, Option(alike=True)] = Field(
        "N",
        min_length=1,
        description="The expression to use from a face database: N, A, F, HC or HO.",
    )
    reference: Annotated[Place | None, Option(default="the suite's", alike=True)] = Field(
        None,
        description="A declared standard to compare shares with, in addition to parity; it has nothing to do with the "
        "reference model. A CSV file with the columns concept, group, share, source and, where known, n or se, "
        "year, place, code; or a YAML file.",
    )
    budget: Annotated[Scale | None, Option(panel=SERVERS)] = Field(
        None,
        description="The most that the images still to be drawn may cost, checked before the first request. It has no "
        "effect on a model without a price.",
    )
    batch_size: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        None,
        description="Images per batch; found automatically by default. It changes an image by rounding errors at most.",
    )
    device: str = Field("auto", min_length=1, description="cpu, cuda, cuda:1, mps, or auto.")
    dtype: Annotated[str, Option(alike=True)] = Field(
        "auto", min_length=1, description="float32, float16, bfloat16, or auto."
    )
    resamples: Annotated[WholeNumber, Option(kept=True)] = Field(
        RESAMPLES,
        ge=19,
        le=1_000_000,
        description="Resamples for intervals and tests; fewer are faster and less precise.",
    )
    report: Annotated[bool, Option(name="--report/--no-report", kept=True)] = Field(
        True, description="Write the run's report at the end; `clinometer report` can write it later."
    )
    trace: Annotated[bool, Option(panel=INSIDE)] = Field(
        False,
        description="Keep a diffusers model's intermediate estimates of each image, and report from which step on it "
        "leans.",
    )
    trace_steps: Annotated[str | int | list[int] | None, Option(panel=INSIDE, default="6, evenly spread")] = Field(
        None, description="With --trace: how many steps to keep, their numbers such as 1,5,10, or all."
    )
    trace_decoder: Annotated[str | None, Option(panel=INSIDE, default="the model's own")] = Field(
        None,
        description="With --trace: a tiny decoder (diffusers' AutoencoderTiny), as a directory or a hub id.",
    )
    trace_latents: Annotated[bool, Option(panel=INSIDE)] = Field(
        False, description="With --trace: also store the latents of these steps."
    )

    @property
    def watches(self) -> dict[str, Any] | None:
        """What is looked at on the way; None where nothing is.

        Raises
        ------
        InvalidInputError
            Something is said of a trace, and none is asked for; or images are drawn until decided.
        """
        asked = {"steps": self.trace_steps, "decoder": self.trace_decoder, "latents": self.trace_latents}
        if not self.trace:
            given = next((name for name, value in asked.items() if value not in (None, False)), None)
            if given is not None:
                raise InvalidInputError.conflict(
                    f"found {asked[given]}, and no --trace; give both", field=f"trace_{given}"
                )
            return None
        if self.until is not None:
            raise InvalidInputError.conflict(
                f"found beside --until {self.until}; what is traced has no intervals that hold while images are drawn "
                "until decided, so leave one of them out",
                field="trace",
            )
        return asked


class AuditOptions(CellOptions):
    """What else a single audit is asked, beside its model, its suite and its place."""

    encoder: Annotated[Encoders | None, Option(short="-e", many=True, default="the protocol's, or reference")] = Field(
        None,
        description="'reference', NAME/PRETRAINED from open_clip such as RN50/openai, a directory, a hub id, or "
        "openai-clip-six for the six CLIP models of the internal-bias paper. Repeatable.",
    )
    seed: Annotated[Seed, Option(several=int)] = Field(0, description="Seed from which every image's noise is derived.")
    steps: Annotated[Steps | None, Option(several=int, default="the model's")] = Field(
        None, description="Denoising steps."
    )
    guidance_scale: Annotated[Scale | None, Option(name="--guidance", several=float, default="the model's")] = Field(
        None, description="Guidance scale."
    )
    wording: Annotated[str | None, Option(several=str, of_suite=True, default="all")] = Field(
        None, description="Name of the only wording to use, where a suite has several for each concept."
    )
    ablate: Annotated[bool | None, Option(of_suite=True, kept=True)] = Field(
        None,
        description="Also draw every concept without each word of its prompt, from the same noise, and report the "
        "effect of each word. This draws a concept's images once more per word.",
    )
    phrases: Annotated[Sequence[str] | None, Option(name="--phrase", many=True, of_suite=True, kept=True)] = Field(
        None, description="With --ablate: a phrase to leave out as a whole. Repeatable."
    )
    image_counts: Annotated[
        Mapping[str, ImageCount] | None, Option(typed=False, default="the suite's", of_suite=True)
    ] = Field(
        None,
        description="Numbers of images by the suite's own names for them, such as {'target': 6, 'attribute': 4}; "
        "replaces images.",
    )
    model_options: Annotated[Mapping[str, Any] | None, Option(typed=False)] = Field(
        None,
        description="Further options of the model's adapter, such as {'lora': …}; see clinometer.models. Like the "
        "settings above, they apply to a model that clinometer loads; with a generator object, only the device may be "
        "given.",
    )
    retry_failed: bool = Field(
        False,
        description="Draw failed images again, and ask readers again where they failed. A refusal counts as an answer "
        "and is kept.",
    )
    reader: Annotated[Readers | None, Option(short="-r", many=True, panel=READING)] = Field(
        None,
        description="Reader that answers the suite's questions about the images: a directory or hub id of a "
        "classifier, VQA or vision-language model; openai:MODEL; or an encoder. Repeatable.",
    )
    answer_price: Annotated[Annotated[Number, Field(ge=0)] | None, Option(panel=READING)] = Field(
        None, description="Price of one answer from an openai: reader; --budget covers images and answers."
    )
    reader_url: Annotated[str | None, Option(panel=READING, default="OpenAI's, or OPENAI_BASE_URL")] = Field(
        None, description="URL of the server of an openai: reader."
    )
    verdict_reader: Annotated[str | None, Option(panel=READING, kept=True, default="the best-calibrated one")] = Field(
        None, description="The reader whose answers decide the verdicts."
    )
    truth: Annotated[Place | None, Option(panel=READING)] = Field(
        None,
        description="Labelled pictures that show how often the readers err, read before anything is drawn: a CSV file "
        "with the columns file and group, next to the pictures. Required with --until where verdicts rest on readers.",
    )
    engine: Annotated[AskedEngine, Option(panel=WORK)] = Field(
        "local", description="Where the work runs: local, ray, ray=ADDRESS, or the name of a plug-in."
    )
    workers: Annotated[
        Annotated[WholeNumber, Field(ge=1)] | None,
        Option(panel=WORK, default="1, or one per GPU where there are several"),
    ] = Field(None, description="Number of processes that draw and embed. Scores do not depend on it.")
    registration: Place | None = Field(
        None,
        description="A file that `clinometer register` wrote. It determines what is measured, so leave out options "
        "that would change that; its journal records every attempt.",
    )
    progress: Annotated[Listener | None, Option(typed=False)] = Field(
        None, description="A listener that is told about progress."
    )


class AuditRequest(AuditOptions):
    """What an audit is asked; the fields are the parameters of :func:`clinometer.audit`."""

    model: Annotated[AskedModel, Option(short="-m", several=str)] = Field(
        "reference",
        description="'reference', a pipeline directory, a safetensors file, a hub id, or the name of a plug-in.",
    )
    suite: Annotated[AskedSuite, Option(short="-s", several=str)] = Field(
        "reference", description="A built-in suite or a YAML file."
    )
    out: Annotated[
        Place | None, Option(short="-o", default="runs/MODEL-SUITE; for a sweep, runs/MODEL-SUITE-sweep")
    ] = Field(None, description="Run directory. An unfinished run of the same audit is continued.")

    _registered: dict[str, Any] = PrivateAttr(default_factory=dict)

    def under(self, registered: Mapping[str, Any]) -> AuditRequest:
        """Return the same request of a run that keeps which registration it was drawn under."""
        request = self.model_copy()
        request._registered = dict(registered)
        return request

    @property
    def adapter_options(self) -> dict[str, Any]:
        """What the model's adapter is given."""
        own = ("steps", "guidance_scale", "batch_size", "dtype")
        return {name: getattr(self, name) for name in own} | dict(self.model_options or {})

    @property
    def kept(self) -> dict[str, Any]:
        """What run.json keeps of it: options beside their defaults that stand in no card and in no suite."""
        fields = AuditRequest.model_fields
        kept = {name: getattr(self, name) for name in KEPT if getattr(self, name) != fields[name].default}
        return kept | ({"registration": self._registered} if self._registered else {})


def option_of(name: str) -> Option:
    """Return how an option of an audit is declared, with its help and its lower limit."""
    field = AuditRequest.model_fields[name]
    declared = next((each for each in field.metadata if isinstance(each, Option)), Option())
    limits = [*field.metadata, *(each for part in parts_of(field.annotation) for each in getattr(part, "metadata", ()))]
    least = next((limit.ge for limit in limits if hasattr(limit, "ge")), None)
    return replace(declared, help=str(field.description), least=least)


KEPT: Final = tuple(name for name in AuditRequest.model_fields if option_of(name).kept)
OF_SUITE: Final = tuple(name for name in AuditRequest.model_fields if option_of(name).of_suite)
ALIKE: Final = tuple(name for name in CellOptions.model_fields if option_of(name).alike)


FREE: Final = (
    "out", "device", "batch_size", "budget", "engine", "workers", "retry_failed", "report", "answer_price",
    "registration", "progress",
)  # fmt: skip
"""Options that change no number, or only by rounding: a registration leaves them to the audit."""
FREE_OF_MODELS: Final = (
    "price",
    "concurrency",
    "requests_per_minute",
    "offload",
    "device_map",
    "vae_tiling",
    "compile",
)


def fields_in_order() -> dict[str, FieldInfo]:
    """List every option of an audit: first what it is of, then what it is asked."""
    fields: dict[str, FieldInfo] = {}
    for options in (AuditRequest, AuditOptions, CellOptions):
        fields |= {name: AuditRequest.model_fields[name] for name in options.__annotations__ if name[0] != "_"}
    return fields


def ask(**options: Any) -> AuditRequest:
    """Check what an audit is asked.

    Raises
    ------
    InvalidInputError
        There is no such option, or it does not take the value: the message names it.
    """
    try:
        return AuditRequest(**options)
    except ValidationError as error:
        name, problem = first_problem(error, lambda _: AuditRequest.model_fields)
        raise InvalidInputError(problem, code=code_of(error), field=name.partition(".")[0]) from error
