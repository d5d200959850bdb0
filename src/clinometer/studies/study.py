"""The base class of a study: all that other rooms call (decision 52), and how its work is divided.

What a study measures piece by piece is measured by an engine's workers where there are some, else by this process, in
turn. See decision 36. A study also names the numbers that belong in the cells of papers' tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isfinite, nan
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias

import pandas as pd

from clinometer._cores import one_thread
from clinometer.errors import RunCorruptError
from clinometer.metrics import Score
from clinometer.metrics.verdict import Evidence, Source, StoppingRule
from clinometer.models.protocols import Generator
from clinometer.published import Published
from clinometer.ratings import Rated
from clinometer.report import wording
from clinometer.report.differences import RunsCompared
from clinometer.report.page import Page
from clinometer.report.view import Row
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress
from clinometer.runs.run import Run
from clinometer.stats.clusters import contrast
from clinometer.stats.proportion import Estimate
from clinometer.suites import Suite
from clinometer.suites.base import AnySuite


@dataclass(frozen=True)
class Scored:
    """What scoring a run leaves behind.

    Attributes
    ----------
    scores : a row a ``clinometer.metrics.Score``.
    curves : what the figures draw beyond the scores: a column ``curve`` names each one, the others are its own.
    """

    scores: pd.DataFrame
    curves: pd.DataFrame


@dataclass(frozen=True)
class Pairing:
    """Two runs of one suite, and what of them is compared.

    Attributes
    ----------
    runs : the two; a difference is second minus first.
    encoders : the names of those that have embedded both.
    seeds : the seeds of the images that are pairs; None where the runs are not paired, and all images count.
    resamples : how many bootstrap replicates an interval takes.
    """

    runs: tuple[Run, Run]
    encoders: Sequence[str]
    seeds: frozenset[int] | None
    resamples: int

    @property
    def paired(self) -> bool:
        """Whether images are compared with the one of the other run that started from the same noise."""
        return self.seeds is not None

    @property
    def seed(self) -> int:
        """The seed of resampling: the first run's."""
        seed: int = self.runs[0].record["seed"]
        return seed


@dataclass(frozen=True)
class ComparedGroups:
    """The two groups between which rates of refusal are compared.

    Attributes
    ----------
    a, b : their names; empty where the suite compares none.
    place : (a prompt's group, its text) → the side it counts for, empty for the group itself; and the name that it
        shares with the prompts it is matched with, empty for none.
    """

    a: str = ""
    b: str = ""
    place: Callable[[str, str], tuple[str, str]] = lambda group, prompt: ("", "")


def named_answers(suite: Suite) -> dict[str, str]:
    """Find the group that an answer means: groups by their names and labels, in small letters."""
    groups = getattr(suite, "groups", {})
    labels = {(getattr(group, "label", None) or name).lower(): name for name, group in groups.items()}
    return labels | {name.lower(): name for name in groups}


Stage = Callable[[Run, Generator, Progress], None]
"""What happens between drawing and embedding: does what is missing, and leaves the rest alone."""


@dataclass(frozen=True)
class PartStage:
    """A stage that makes part after part, so that an engine's workers may share it. Calling it makes all parts here.

    Attributes
    ----------
    make : makes what is missing of a run's parts; a function of a module, as workers import it by its name.
    title : what a user is told it does.
    missing : (run, generator) → the parts that lack what it adds, asked once before any is made; None where it has
        nothing to add for this generator. It asks no weights: the command may have released its own. Left out of a
        stage that draws samples from others, such as edits: its parts are those whose samples have a source.
    """

    make: Stage
    title: str
    missing: Callable[[Run, Generator], Collection[int] | None] | None = None

    def __call__(self, run: Run, generator: Generator, progress: Progress) -> None:
        """Make all parts, one after the other."""
        self.make(run, generator, progress)


@dataclass(frozen=True)
class WholeStage:
    """A stage that is done in one go, by one of an engine's workers. Calling it does it here.

    Attributes
    ----------
    make : does what is missing; a function of a module, as workers import it by its name.
    title : what a user is told it does.
    is_missing : (run, generator) → whether there is anything to do. It asks no weights: the command may have released
        its own.
    """

    make: Stage
    title: str
    is_missing: Callable[[Run, Generator], bool]

    def __call__(self, run: Run, generator: Generator, progress: Progress) -> None:
        """Do the whole stage in this process."""
        self.make(run, generator, progress)


class Work(Protocol):
    """Something that is done unit by unit. It is pickled for other processes, each of which opens it once."""

    def open(self) -> Callable[[tuple[int, ...]], Any]:
        """Read what it takes, and return what makes a unit."""
        ...


class Pool(Protocol):
    """Processes among which a study may share out what it measures."""

    @property
    def workers(self) -> int:
        """How many there are."""
        ...

    def map(self, work: Work, units: Sequence[tuple[int, ...]], names: Sequence[str]) -> Iterator[Any]:
        """Yield what is made of each unit, in any order; ``names`` : what the numbers in units stand for, to a user."""
        ...


class Study(ABC, Generic[AnySuite]):
    """One shape of suite, from its questions to its page. Methods that are not abstract may be left as they are.

    Those that raise ``NotImplementedError`` are capabilities that only some studies have: ask ``overrides`` first.

    Attributes
    ----------
    key : the value of the key ``study`` in its suites.
    suite : the shape of its suites.
    stages : what happens between drawing and embedding, in order. One that is a :class:`PartStage` is shared out among
        workers, a :class:`WholeStage` is done by one of them, and any other by the command.
    encoders_needed : whether scoring needs an encoder's embeddings.
    reads_pixels : whether scoring reads the pictures themselves, so that the numbers rest on every pixel.
    printed_tables : which of a run's numbers published tables print, by the names of the tables in
        ``clinometer.published``.
    texts_needed : whether it needs them of texts too; where not, an encoder without a text tower gives what it can.
    groups_grow : whether the groups' own images grow in proportion where more images of a concept decide it.
    text_components : components that rest on texts alone, and on no picture.
    component_names : what people call its components, and single numbers by ``metric:component``, where that is not
        their name with spaces.
    """

    key: ClassVar[str]
    suite: ClassVar[type[Suite]]
    stages: ClassVar[tuple[Stage, ...]] = ()
    encoders_needed: ClassVar[bool] = True
    reads_pixels: ClassVar[bool] = False
    texts_needed: ClassVar[bool] = False
    printed_tables: ClassVar[Mapping[str, PrintedCells]] = {}
    groups_grow: ClassVar[bool] = False
    text_components: ClassVar[Collection[str]] = ()
    component_names: ClassVar[Mapping[str, str]] = {}

    def overrides(self, method: str) -> bool:
        """Return whether the study has a method of its own in place of this class's."""
        return getattr(type(self), method) is not getattr(Study, method)

    @abstractmethod
    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Score a run; draw and embed nothing. A study that measures piece by piece shares that out in a ``pool``."""

    @abstractmethod
    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare two runs, second minus first; image by image where they are paired."""

    @abstractmethod
    def page(self, suite: AnySuite) -> Page[Any]:
        """Return how runs of a suite are shown."""

    @abstractmethod
    def comparison(self, suite: AnySuite) -> RunsCompared[AnySuite]:
        """Return how runs of a suite are shown side by side."""

    def extend_plan(self, suite: AnySuite, samples: Sequence[Sample], part_size: int) -> list[Sample]:
        """Return the whole plan from the samples of the suite's questions; more may follow from those."""
        return list(samples)

    def check(self, generator: Generator, suite: AnySuite) -> None:
        """Refuse a generator that the stages cannot use, before anything is drawn."""

    def check_rounds(self, suite: AnySuite, labelled: bool) -> None:
        """Refuse a suite that cannot be drawn until decided; ``labelled`` : whether it is known how readers err."""

    def check_trace(self, suite: AnySuite) -> None:
        """Refuse a suite whose numbers do not follow the way to its images, in a study whose can."""

    def open_concepts(self, run: Run, rule: StoppingRule, encoders: Sequence[str]) -> Collection[str]:
        """List the concepts that need more images, of a study that can be drawn until decided."""
        raise NotImplementedError

    def paired_evidence_of(self, pairing: Pairing) -> Mapping[str, Evidence]:
        """Return the evidence of pairs on each concept's difference, of a study that draws until these are decided."""
        raise NotImplementedError

    def split(self, pairing: Pairing) -> list[Score]:
        """Split what the network learned from what guidance adds, by a run at guidance 1 and one at another."""
        raise NotImplementedError

    def evaluations(self, suite: AnySuite, images: int) -> int:
        """Count the evaluations of a network that the stages take after so many images are drawn."""
        return 0

    def plan(self, pilot: Run, effect: float | None, margin: float | None, power: float, alpha: float) -> pd.DataFrame:
        """Count the images that each concept takes, a row a concept, as :class:`clinometer.studies.planning.Plan` says.

        To detect, to show balance and to decide either, with the groups' images in proportion, and to decide if these
        stayed as many as they are.
        """
        raise NotImplementedError

    def plan_unseen(self, suite: AnySuite, power: float, alpha: float) -> pd.DataFrame:
        """Count the images that find an effect without a pilot, a row a size.

        Columns ``share`` of images on one side, or ``effect`` and ``reader`` in words; and ``to_detect``.
        """
        raise NotImplementedError

    def compared_groups(self, suite: AnySuite) -> Sequence[ComparedGroups]:
        """Return the groups between which rates of refusal are compared, one entry a pair."""
        return (ComparedGroups(),)

    def rated(self, suite: AnySuite) -> Rated:
        """Return what people rate in its runs, images of concepts alone, and by which rule an encoder reads that."""
        return Rated(suite.name, answers=named_answers(suite))

    def judged(self, suite: AnySuite) -> Sequence[tuple[str, str]]:
        """Return component and concept of each number that is judged; none where they follow from a run."""
        return ()

    def withhold_by_readers(self, scores: pd.DataFrame, judged: Sequence[Score]) -> pd.DataFrame:
        """Return the scores without the verdicts that the reader whose verdicts stand contradicts.

        ``judged`` : the rows of all readers, of which those that decide have a flag.
        """
        return scores

    def carried_by(self, scores: pd.DataFrame, rows: pd.DataFrame, limits: tuple[float, float]) -> list[Source]:
        """Return for each of some rows which of its parts, among all scores, puts its interval where it is.

        ``rows`` : with columns ``low`` and ``high``, the interval that is held to the ``limits``.
        """
        return [Source.NONE] * len(rows)

    def counts_images(self, row: Row) -> bool:
        """Return whether a row counts all images of its concept, those that repeat others included."""
        return False

    def restates(self, row: Row) -> bool:
        """Return whether the verdict of a row only repeats what that of another row says."""
        return False

    def reading_words(self, suite: AnySuite) -> Mapping[str, Sequence[str]]:
        """Return the words by which an encoder reads single images, by group; none where no groups are compared so."""
        return {}


def in_shape(suite: Suite, shape: type[AnySuite]) -> AnySuite:
    """Return a suite in the shape that its study has, for the types."""
    assert isinstance(suite, shape)
    return suite


def suite_of(run: Run, shape: type[AnySuite]) -> AnySuite:
    """Return the run's suite, in the shape that its study has."""
    if not isinstance(run.suite, shape):
        raise RunCorruptError(f"{run.url}: its suite is of study {run.suite.study!r}, expected a {shape.__name__}")
    return run.suite


UNITS_A_WORKER: Final = 4
"""So many at least: the last to end keeps the others waiting."""
BYTES_A_UNIT: Final = 2**24
"""What a process returns at once, about."""

Unit = tuple[int, ...]


@dataclass(frozen=True)
class RunWork(ABC):
    """Work on a run that is finished but for its scores.

    Attributes
    ----------
    place : of the run, absolute: a worker may be elsewhere.
    """

    place: str

    @abstractmethod
    def on(self, run: Run) -> Callable[[Unit], Any]:
        """Read what it takes, and return what makes a unit."""

    def open(self) -> Callable[[Unit], Any]:
        """Return the same in another process."""
        with one_thread():
            make = self.on(Run(self.place))
        return partial(_in_one_thread, make)


def _in_one_thread(make: Callable[[Unit], Any], unit: Unit) -> Any:
    with one_thread():
        return make(unit)


def map_units(
    work: RunWork, run: Run, numbers: Sequence[int], names: Sequence[str], pool: Pool | None, *, size: int
) -> Iterator[Any]:
    """Return what is made of every number, unit by unit, in any order.

    ``names`` : what the numbers stand for, to a user; ``size`` : bytes that a process returns of one number, about.
    """
    if pool is None:
        return map(work.on(run), [(number,) for number in numbers])
    return pool.map(work, units_of(numbers, pool.workers, size), names)


def units_of(numbers: Sequence[int], workers: int, size: int) -> list[Unit]:
    """Return numbers in order, some a unit: a few units for each worker, of about :data:`BYTES_A_UNIT` at most."""
    at_once = max(1, min(-(-len(numbers) // (UNITS_A_WORKER * workers)), BYTES_A_UNIT // max(size, 1)))
    return [tuple(numbers[first : first + at_once]) for first in range(0, len(numbers), at_once)]


@dataclass(frozen=True)
class PrintedCell:
    """One printed number beside the run's.

    Attributes
    ----------
    table : the paper's name of the table.
    model : the paper's model that the number is of, by its key.
    column : the printed column.
    concept, category, group, setting : the printed row, by the suite's names; empty where they do not apply.
    printed : the cell as it is printed.
    paper : its number; NaN where it is not a number, such as "<0.001".
    encoder : the encoder that the run's number rests on, or "mean".
    run, low, high : the run's estimate and its 95 % interval.
    difference : run − paper.
    paper_inside : whether the paper's number lies in the run's interval; None where there is none.
    same_model : whether the run's model is the paper's, as far as names tell.
    note : why a number is missing, and what is known of the printed one.
    """

    table: str
    model: str
    column: str
    concept: str = ""
    category: str = ""
    group: str = ""
    setting: str = ""
    printed: str = ""
    paper: float = nan
    encoder: str = ""
    run: float = nan
    low: float = nan
    high: float = nan
    difference: float = nan
    paper_inside: bool | None = None
    same_model: bool = False
    note: str = ""


@dataclass(frozen=True)
class RunNumber:
    """The run's number for a cell, with its 95 % interval, the encoder it rests on, and what is to be noted of it."""

    value: float = nan
    low: float = nan
    high: float = nan
    encoder: str = ""
    notes: tuple[str, ...] = ()
    p: float = nan


@dataclass(frozen=True)
class PrintedTable:
    """A printed table, and the run whose numbers stand beside it.

    Attributes
    ----------
    name : of its file.
    publication : the paper that prints it.
    answered : the paper's suites all of whose questions the run's suite asks.
    suite, scores : of the run.
    renamed : of a run that rehearses the paper in other words, its own name for each name of the paper's suite.
    """

    name: str
    publication: Published
    answered: Sequence[str]
    suite: Suite
    scores: pd.DataFrame
    renamed: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """The rows as printed."""
        return self.publication.rows(self.name)

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], list[dict[Any, Any]]]:
        """The run's rows of each metric's components."""
        rows = defaultdict[tuple[str, str], list[dict[Any, Any]]](list)
        for row in self.scores.to_dict("records"):
            rows[row["metric"], row["component"]].append(row)
        return rows

    def own_name(self, name: str) -> str:
        """Return the run's name for a name of the paper's suite."""
        return self.renamed.get(name, name)

    def find(self, metric: str, component: str, *, encoder: str = "mean", **equal: str) -> RunNumber:
        """Return the one number of the run that has these names and no others."""
        asked = {name: self.own_name(value) for name, value in equal.items()}
        names = {"concept": "", "group": "", "setting": "", **asked, "encoder": encoder}
        rows = self._numbers.get((metric, component), [])
        row = next((row for row in rows if all(row[name] == value for name, value in names.items())), None)
        if row is None:
            return RunNumber(encoder=encoder, notes=("the run has no such number",))
        notes = [str(row["reason"])] if not isfinite(row["value"]) or not isfinite(row["low"]) else []
        notes += ["unstable: TT may be 0"] if row["flag"] == "unstable" else []
        return RunNumber(row["value"], row["low"], row["high"], encoder, tuple(filter(None, notes)), row["p"])

    def cell(
        self, row: Mapping[str, str], printed_column: str, column: str, number: RunNumber, **names: Any
    ) -> PrintedCell:
        """Return a printed cell beside a number of the run.

        ``row``, ``printed_column`` : where the cell stands in the file; empty where nothing is printed. ``column`` :
        what it is called.
        """
        printed, paper = row[printed_column] if printed_column else "", nan
        with suppress(ValueError):
            paper = float(printed)
        notes = [*number.notes] + ([] if isfinite(paper) or not printed else [f"the paper prints {printed}"])
        return PrintedCell(
            table=self.publication.tables[self.name],
            model=row.get("model") or row.get("dataset") or next(iter(self.publication.models)),
            column=column, printed=printed, paper=paper, encoder=number.encoder, run=float(number.value),
            low=float(number.low), high=float(number.high), note="; ".join(notes), **names,
        )  # fmt: skip


def mean_number(found: Sequence[RunNumber], names: Sequence[str]) -> RunNumber:
    """Average groups that weigh alike and share no portrait; the interval follows from theirs (Zou and Donner 2008)."""
    parts = [Estimate(each.value, each.low, each.high, 0) for each in found]
    mean = contrast(parts, [1 / len(parts)] * len(parts))
    notes = dict.fromkeys(note for each in found for note in each.notes)
    return RunNumber(mean.value, mean.low, mean.high, found[0].encoder, (*notes, f"mean of {wording.listed(names)}"))


PrintedCells: TypeAlias = Callable[[PrintedTable], Iterator[PrintedCell]]
"""Yields the cells of a printed table, in order of columns."""
