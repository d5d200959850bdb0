"""A reproduction: its runs, what they take (pictures that they share, evaluations, time, disk), and its directory.

With the reference model a paper is rehearsed: the design of its suite in words that the model knows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from clinometer.errors import ClinometerError, RunMismatchError
from clinometer.models import reference
from clinometer.models.files.source import PortraitSource
from clinometer.models.protocols import GenerationRequest, Generator
from clinometer.papers.paper import CountedRun, Paper, PaperRun, load_paper, rehearsal_file, rehearsed_words
from clinometer.papers.printed import counts_of_labels
from clinometer.pipeline.audits import given_portraits
from clinometer.pipeline.execution import part_size_of
from clinometer.pipeline.recipes import Models
from clinometer.pipeline.request import OF_SUITE, AuditRequest, ask
from clinometer.runs import Directory, Run
from clinometer.runs.drawing import price_of
from clinometer.runs.ledger import RECORD, samples_name
from clinometer.runs.plan import build_plan
from clinometer.runs.record import suite_under
from clinometer.studies import study_of
from clinometer.suites import Suite, load_suite, suite_from_mapping
from clinometer.suites.strict import explain
from clinometer.sweeps import Cell

RUNS: Final = "runs"
COUNTS: Final = "counts"
GIVEN: Final = "given pictures"
"""Model name of a run whose pictures are given, and not drawn."""

REFERENCE: Final = "reference"
PATIENCE: Final = 10.0
"""Seconds of a picture that is timed, over which no second one is drawn to time it without what comes before."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of a paper, of one model.

    Attributes
    ----------
    paper, name : which run of which paper.
    request : the audit that it is.
    renamed : of a rehearsal, its own name for each name of the paper's suite; None where the paper's words are asked.
    """

    paper: str
    name: str
    model: str
    request: AuditRequest
    renamed: Mapping[str, str] | None = None

    @property
    def place(self) -> str:
        """The run directory."""
        return str(self.request.out)

    @property
    def key(self) -> str:
        """Name of the run's folder."""
        return self.place.rstrip("/").rpartition("/")[2]

    @property
    def spec(self) -> PaperRun:
        """The run as the paper's file describes it."""
        return load_paper(self.paper).runs[self.name]

    @property
    def suite(self) -> Suite:
        """The suite with the options of the request."""
        suite = suite_under(self.request.protocol, load_suite(self.request.suite))
        return suite.with_options(**{name: getattr(self.request, name) for name in OF_SUITE})

    @property
    def prefer(self) -> Mapping[str, float]:
        """The settings of the model that the paper prescribes; none of a rehearsal."""
        protocol = self.suite.protocol if self.request.protocol is not None else None
        return {} if protocol is None else protocol.sampling


@dataclass(frozen=True)
class PlannedCounts:
    """A run of counts of a paper, from labels of given pictures; its fields are those of :class:`PlannedRun`."""

    paper: str
    name: str
    place: str
    pictures: Path
    model: str = GIVEN
    renamed: None = None

    @property
    def key(self) -> str:
        """Name of the run's folder."""
        return f"{self.paper}-{self.name}"

    @property
    def spec(self) -> CountedRun:
        """The run as the paper's file describes it."""
        return load_paper(self.paper).counted[self.name]


AnyRun = PlannedRun | PlannedCounts


def planned_runs(
    directory: Directory,
    papers: Sequence[Paper],
    models: Sequence[str],
    *,
    quick: bool,
    options: Mapping[str, Any],
    pictures: str | None = None,
    objects: Mapping[str, Generator] | None = None,
) -> list[AnyRun]:
    """Plan every run of some papers, model by model, and then their runs of counts.

    Parameters
    ----------
    options : of an audit, for every run; a run that needs portraits is planned where they include some.
    pictures : the folder of given pictures; without it there are no runs of counts.
    objects : generators that are loaded already, by the names that ``models`` has for them.

    Raises
    ------
    InvalidInputError
        An option is not one of an audit, or does not take the value.
    """
    base = f"{directory.url.rstrip('/')}/{RUNS}"
    planned = list[AnyRun]()
    every = [(model, paper, name) for model in models for paper in papers for name in paper.runs]
    for model, paper, name in every:
        spec, renamed, chosen = paper.runs[name], None, dict(options)
        suite: str | Suite = spec.suite
        if model == REFERENCE:
            suite, renamed = rehearsal_of(spec, quick=quick)
            chosen["encoder"] = chosen.get("encoder") or REFERENCE
        else:
            chosen["protocol"] = "paper"
        called = suite.name if isinstance(suite, Suite) else suite
        if spec.needs is None:
            chosen.pop("portraits", None)
        elif chosen.get("portraits") is None:
            continue
        else:
            called = f"{called}-given"
        place = f"{base}/{Cell.of(model=model, suite=called, seed=None).name}"
        counts = spec.quick if quick and renamed is None else None
        request = ask(model=model, suite=suite, out=place, image_counts=counts, **chosen)
        if objects and model in objects:
            request = request.model_copy(update={"model": objects[model]})
        planned.append(PlannedRun(paper.name, name, model, request, renamed))
    if pictures is not None:
        planned += [
            PlannedCounts(paper.name, name, f"{base}/{paper.name}-{name}", Path(pictures))
            for paper in papers
            for name in paper.counted
        ]
    return planned


def rehearsal_of(run: PaperRun, *, quick: bool = False) -> tuple[Suite, Mapping[str, str]]:
    """Return the suite that replaces a paper's on the reference model, and its names for the paper's names.

    With ``quick``, a suite made for rehearsals has its own numbers of images; otherwise the paper's numbers count.
    """
    original = load_suite(run.suite).as_in_the_paper()
    if run.rehearsal == "words":
        suite = _in_known_words(original)
        return suite.with_options(image_counts=run.quick if quick else None), rehearsed_words()[0]
    suite = load_suite(rehearsal_file(run.rehearsal) or run.rehearsal)
    content = suite.model_dump() | {"protocol": original.model_dump()["protocol"]}
    if content.get("tests"):
        (test,) = [test for test in content["tests"] if test["name"] in run.renamed.values()]
        concepts = {name: content["concepts"][name] for name in (test["x"], test["y"])}
        content |= {"tests": [test], "concepts": concepts, "name": f"{suite.name}-{test['name']}"}
    if not quick and original.protocol is not None:
        content["images"] |= original.protocol.images
    return suite_from_mapping(content, source=f"rehearsal of {run.suite}"), run.renamed


def _in_known_words(suite: Suite) -> Suite:
    """Translate a suite of the papers into words that the reference model was taught, concept by concept."""
    words, pairs = rehearsed_words()
    known = reference.vocabulary()["concepts"]
    content = suite.model_dump()
    for category in content["categories"].values():
        for target in category["targets"]:
            name = words[target["name"]]
            prompt = f"an image of {known[name]['neutral']}"
            target |= {"name": name, "keyword": known[name]["keyword"], "prompt": prompt}
    for name, group in content["groups"].items():
        known_as = {"nonbinary": "non-binary"}.get(name, name)
        for spec in group["prompts"]:
            spec["prompt"] = f"an image of {known[pairs[spec['pair']]][known_as]}"
    content["name"], content["title"] = f"{suite.name}-rehearsal", f"Rehearsal in other words of {suite.title}"
    content["description"] = (
        f"The design of the suite {suite.name} in words that the reference model was taught. Its concepts are others, "
        "so that its numbers are not the paper's."
    )
    return suite_from_mapping(content, source=f"rehearsal of {suite.name}")


@dataclass(frozen=True)
class Rate:
    """How long an image takes, and how many bytes; NaN where nobody knows."""

    seconds: float = nan
    bytes: float = nan


@dataclass(frozen=True)
class RunNeeds:
    """What a run takes.

    Attributes
    ----------
    images : in the run. ``shared`` of them are those of an earlier run, and ``there`` are drawn already, or given.
    evaluations : of the network for what is missing: steps, twice where guidance evaluates without the prompt, too; NaN
        where the model's card names no steps.
    seconds, bytes : for what is missing, at the model's rate.
    cost : of a model with a price.
    reason : why the model cannot be loaded, or cannot do what the run needs; all numbers are then 0.
    """

    run: AnyRun
    images: int = 0
    shared: int = 0
    there: int = 0
    evaluations: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0
    cost: float = 0.0
    reason: str = ""

    @property
    def missing(self) -> int:
        """Images that are drawn."""
        return self.images - self.shared - self.there


@dataclass(frozen=True)
class Needs:
    """What a reproduction takes, run by run, and what has to be brought for runs that are not among them."""

    runs: Sequence[RunNeeds] = ()
    brought: Sequence[str] = ()

    def total(self, name: str) -> float:
        """Sum a number over the runs."""
        return float(sum(getattr(run, name) for run in self.runs))


def needs_of(
    planned: Sequence[AnyRun],
    models: Models,
    rates: dict[str, Rate],
    finished: Mapping[str, Sequence[str]],
    *,
    draws: bool,
) -> Needs:
    """Load the models and estimate what their runs take; ``rates`` by model are filled in.

    ``finished`` : by model, where runs lie whose pictures are shared.
    ``draws`` : whether one picture, which nobody keeps, may be drawn of a model without a price to know how long it
    takes.
    """
    needs = list[RunNeeds]()
    earlier = {model: set[str]().union(*map(_drawn_of, places)) for model, places in finished.items()}
    for run in planned:
        try:
            if isinstance(run, PlannedCounts):
                images = counts_of_labels(run.pictures, run.spec.label)[1]
                needs.append(RunNeeds(run, images=images, there=images))
            else:
                needs.append(_run_needs(run, models, rates, earlier.setdefault(run.model, set()), draws=draws))
        except ClinometerError as error:
            needs.append(RunNeeds(run, reason=" ".join(str(error).split())))
    papers = [load_paper(name) for name in dict.fromkeys(run.paper for run in planned)]
    there = {(run.paper, run.name) for run in planned}
    lacking = [spec.needs for paper in papers for name, spec in paper.runs.items() if (paper.name, name) not in there]
    return Needs(needs, list(dict.fromkeys(filter(None, lacking))))


def _run_needs(run: PlannedRun, models: Models, rates: dict[str, Rate], earlier: set[str], *, draws: bool) -> RunNeeds:
    request, suite = run.request, run.suite
    generator, _ = models.generator(request.model, request.adapter_options, request.device, prefer=run.prefer)
    questions = suite.prompt_specs()
    if request.portraits is not None:
        prescribed = None if request.protocol is None else suite.protocol
        suite, questions, source = given_portraits(request, suite, prescribed)
        generator = PortraitSource(source, generator)
    study, card, size = study_of(suite), generator.card, part_size_of(generator)
    study.check(generator, suite)
    plan = build_plan(questions, seed=request.seed, model_fingerprint=card.fingerprint, part_size=size)
    samples = study.extend_plan(suite, plan, size)
    there = _drawn_of(run.place)
    if request.portraits is not None:  # they are given, and not drawn
        there |= {sample.id for sample in samples if not sample.source}
    if run.model not in rates:
        rates[run.model] = rate_of(run.place) or (_timed(generator, samples[0].prompt) if draws else None) or Rate()
    steps, rows = card.settings.get("steps"), 2 if (card.settings.get("guidance_scale") or 0) > 1 else 1
    of_image = steps * rows if steps else nan
    missing, shared, evaluations = 0, 0, 0.0
    for sample in samples:
        if sample.id in there:
            continue
        if sample.id in earlier and not sample.source:
            shared += 1
            continue
        missing += 1
        evaluations += of_image * (sample.strength if sample.source else 1.0)
    earlier |= {sample.id for sample in samples}
    rate = rates[run.model]
    if not (Directory(run.place).exists(RECORD) and Run(run.place).is_scored):
        evaluations += study.evaluations(suite, len(plan))
    return RunNeeds(
        run, images=len(samples), shared=shared, there=len(samples) - missing - shared, evaluations=evaluations,
        seconds=_times(rate.seconds, evaluations / of_image if steps else missing),
        bytes=_times(rate.bytes, missing + shared),
        cost=missing * price_of(generator),
    )  # fmt: skip


def _times(rate: float, number: float) -> float:
    """Multiply; 0 images take no time, even at an unknown rate."""
    return rate * number if number else 0.0


def _drawn_of(place: str) -> frozenset[str]:
    """Return the ids of the images of a run that are drawn already."""
    if not Directory(place).exists(RECORD):
        return frozenset()
    run = Run(place)
    parts = [part for part in run.parts if run.drawn.has(part)]
    return frozenset(identifier for part in parts for identifier in run.parts[part].column("id").to_pylist())


def rate_of(place: str) -> Rate | None:
    """Return what an image of a run took; None where none of it is drawn."""
    if not Directory(place).exists(RECORD):
        return None
    run = Run(place)
    drawn = run.samples
    if not len(drawn):
        return None
    stored = sum(run.directory.size(samples_name(part)) for part in run.parts if run.drawn.has(part))
    return Rate(float(drawn.seconds[drawn.status == "ok"].mean()), stored / len(drawn))


def _timed(generator: Generator, prompt: str) -> Rate | None:
    """Time a picture that nobody keeps; None of a model that is paid for."""
    if price_of(generator):
        return None
    from clinometer.models.images import encode_png

    seconds = 0.0
    for _ in range(2):  # the first picture of a small model takes as long as it takes to get ready
        begun = perf_counter()
        (result,) = generator.generate([GenerationRequest("trial", prompt, 0)])
        seconds = perf_counter() - begun
        if seconds > PATIENCE:
            break
    return Rate(seconds, float(len(encode_png(result.image))) if result.image is not None else nan)


REPRODUCTION: Final = "reproduction.json"


class RunStatus(BaseModel):
    """The outcome of a run; ``reason`` says why it failed."""

    model_config = ConfigDict(extra="forbid")

    paper: str
    run: str
    model: str
    status: Literal["planned", "finished", "failed"] = "planned"
    reason: str = ""


class ReproductionRecord(BaseModel):
    """The contents of reproduction.json.

    Attributes
    ----------
    papers, models : every one that was ever asked for here, in this order.
    quick, seed, encoder : what all runs are asked alike.
    portraits, pictures : the folder of given ones, or nothing.
    runs : by its folder, what became of each run.
    rates : seconds and bytes of an image, by model.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    created: str
    papers: list[str]
    models: list[str]
    quick: bool
    seed: int
    encoder: list[str]
    portraits: str | None = None
    pictures: str | None = None
    runs: dict[str, RunStatus] = {}
    rates: dict[str, tuple[float | None, float | None]] = {}


class Reproduction:
    """A reproduction's directory, opened: ``.pages``, ``.runs``, ``.failed``, …"""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.directory = Directory(url)
        self.record: ReproductionRecord = read_record(self.directory)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.directory.url

    @property
    def papers(self) -> list[Paper]:
        """The papers that were asked for here."""
        return [load_paper(name) for name in self.record.papers]

    @cached_property
    def planned(self) -> list[AnyRun]:
        """Every run of these papers, of every model."""
        record = self.record
        options = {"seed": record.seed, "encoder": record.encoder or None, "portraits": record.portraits}
        return planned_runs(
            self.directory, self.papers, record.models, quick=record.quick, options=options, pictures=record.pictures
        )

    @property
    def runs(self) -> dict[str, Run]:
        """The finished runs, by their folders."""
        finished = [run for run in self.planned if self.status(run).status == "finished"]
        return {run.key: Run(run.place) for run in finished}

    @property
    def failed(self) -> dict[str, str]:
        """The runs that failed, by their folders, and why."""
        statuses = {run.key: self.status(run) for run in self.planned}
        return {key: status.reason for key, status in statuses.items() if status.status == "failed"}

    @property
    def pages(self) -> dict[str, str]:
        """The page of each paper, by its name."""
        return {paper.name: self.directory.path(self.page_of(paper)) for paper in self.papers}

    def status(self, run: AnyRun) -> RunStatus:
        """Return what became of a run."""
        return self.record.runs.get(run.key) or RunStatus(paper=run.paper, run=run.name, model=run.model)

    def folder_of(self, paper: Paper) -> str:
        """Return where a paper's page and tables lie, within the directory: in a folder where there are several."""
        return f"{paper.name}/" if len(self.record.papers) > 1 else ""

    def page_of(self, paper: Paper) -> str:
        """Return the name of a paper's page."""
        return f"{self.folder_of(paper)}paper.html"

    def __repr__(self) -> str:
        return f"Reproduction({self.directory.shown!r}: {', '.join(self.record.papers)}, {len(self.failed)} failed)"


def read_record(directory: Directory) -> ReproductionRecord:
    """Read reproduction.json.

    Raises
    ------
    RunNotFoundError, RunMismatchError
        There is none, or it is not what was written.
    """
    try:
        return ReproductionRecord.model_validate(directory.read_json(REPRODUCTION))
    except ValidationError as error:
        raise RunMismatchError(
            f"{explain(error, directory.path(REPRODUCTION))}; restore it, or give another --out"
        ) from error
