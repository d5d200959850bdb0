"""Runs of other parts: several pooled as one or held against each other, and the share of one that a worker has.

Runs of one question and several seeds are read as one: their images are one sample that was drawn in several runs.
Nothing is copied. A pooled run numbers the parts of its runs one after another and reads each where it lies, so all
that reads a run reads it: scores, comparisons, figures. It is not written to.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from clinometer.errors import RunMismatchError
from clinometer.models.protocols import Card, Status
from clinometer.runs.answers import Answers, ReaderCards
from clinometer.runs.embeddings import EncoderCards
from clinometer.runs.ledger import UNFINISHED, Ledger, part_name, readings_name, samples_name
from clinometer.runs.plan import Plan, StoredPlan
from clinometer.runs.samples import Samples
from clinometer.runs.storage import REDO, Check, Directory, Shape
from clinometer.runs.store import Run
from clinometer.suites import Suite

_PART: Final = re.compile(r"(.*/)?part-(\d+)\.parquet")


class _PooledDirectory(Directory):
    """The files of several runs, their parts numbered one after another; all but the parts is the first run's."""

    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__(runs[0].directory.url)
        self._directories = [run.directory for run in runs]
        sizes = [max(run.parts, default=-1) + 1 for run in runs]
        self.starts = [0, *accumulate(sizes[:-1])]

    @property
    def place(self) -> str:
        return "\n".join(directory.place for directory in self._directories)

    def renumbered(self, name: str, order: int) -> str:
        """Return what a file of a run is called here; other files than parts keep their names."""
        match = _PART.fullmatch(name)
        return name if match is None else f"{match[1] or ''}part-{int(match[2]) + self.starts[order]:05d}.parquet"

    def _at(self, name: str) -> tuple[Directory, str]:
        match = _PART.fullmatch(name)
        if match is None:
            return self._directories[0], name
        order = bisect_right(self.starts, int(match[2])) - 1
        return self._directories[order], f"{match[1] or ''}part-{int(match[2]) - self.starts[order]:05d}.parquet"

    def path(self, name: str) -> str:
        directory, own = self._at(name)
        return f"{directory.root}/{own}"

    def exists(self, name: str) -> bool:
        directory, own = self._at(name)
        return directory.exists(own)

    @contextmanager
    def listed_once(self) -> Iterator[None]:
        with ExitStack() as stack:
            for directory in self._directories:
                stack.enter_context(directory.listed_once())
            yield

    def names(self, folder: str, suffix: str) -> list[str]:
        names = [
            self.renumbered(name, order)
            for order, directory in enumerate(self._directories)
            for name in directory.names(folder, suffix)
            if order == 0 or _PART.fullmatch(name)
        ]
        return sorted(names, key=lambda name: (len(name), name))

    def read_table(
        self,
        name: str,
        columns: list[str] | None = None,
        *,
        way_out: str = REDO,
        check: Check | None = None,
        shape: Shape | None = None,
        added: pa.Schema | None = None,
    ) -> pa.Table:
        directory, own = self._at(name)
        return directory.read_table(own, columns, way_out=way_out, check=check, shape=shape, added=added)


class _PooledLedger(Ledger):
    """What the runs list, by the names that it has here."""

    def __init__(self, directory: _PooledDirectory, runs: Sequence[Run]) -> None:
        super().__init__(directory)
        self._pooled, self._runs = directory, runs
        self._record = self._join([run.record for run in runs])

    def _read_record(self) -> dict[str, Any]:
        return self._join([run.ledger.read_anew() for run in self._runs])

    def _join(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        files = {
            self._pooled.renumbered(name, order): checksum
            for order, record in enumerate(records)
            for name, checksum in (record.get("files") or {}).items()
            if order == 0 or _PART.fullmatch(name)
        }
        encoders = {
            name: card
            for name, card in records[0]["encoders"].items()
            if all(name in record["encoders"] for record in records)
        }
        traces = [record.get("trace") or {} for record in records]
        trace: dict[str, Any] = {}
        if any(traces):
            steps = sorted(set.intersection(*(set(own.get("steps", ())) for own in traces)))
            apart = ""  # why they have no trace together, though some have one
            if not all(traces):
                apart = "not all of the runs put together were traced"
            elif len({(own["total"], own["decoder"]) for own in traces}) > 1:
                apart = "the runs put together draw in other numbers of steps, or were traced by other decoders"
            elif not steps:
                apart = "the runs put together were traced at different steps"
            some = next(own for own in traces if own)
            trace = dict(some) | {"steps": [] if apart else steps, "latents": False, "apart": apart}
        return dict(records[0]) | {"files": files, "encoders": encoders, "readers": {}, "trace": trace}


class _PooledPlan(StoredPlan):
    """The samples of all of them, in order."""

    def __init__(self, ledger: Ledger, runs: Sequence[Run], starts: Sequence[int]) -> None:
        super().__init__(ledger)
        self._runs, self._starts = runs, starts

    @cached_property
    def plan(self) -> Plan:
        return Plan.joined(run.plan.shifted(start) for run, start in zip(self._runs, self._starts, strict=True))


class PooledRun(Run):
    """Several runs of one suite and one model, at several seeds, as one.

    Raises
    ------
    RunMismatchError
        They were asked different things, or hold other encoders of one name.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        first, *others = map(_identity, self.runs)
        seeds = [run.record["seed"] for run in self.runs]
        for order, (run, own) in enumerate(zip(self.runs[1:], others, strict=True), 1):
            for what, trait in own.items():
                if trait != first[what]:
                    raise RunMismatchError(
                        f"{run.url}: its {what} is not that of {self.runs[0].url}; only seeds may differ"
                    )
            if seeds[order] in seeds[:order]:
                raise RunMismatchError(f"{run.url}: seed {seeds[order]} is given twice; its images would count twice")
        super().__init__(self.runs[0].directory.url)

    def _assemble(self, ledger: Ledger, planned: StoredPlan, encoders: EncoderCards, samples: type[Samples]) -> None:
        directory = _PooledDirectory(self.runs)
        joined = _PooledLedger(directory, self.runs)
        plan = _PooledPlan(joined, self.runs, directory.starts)
        super()._assemble(joined, plan, EncoderCards(joined), samples)

    @property
    def is_scored(self) -> bool:
        """Whether scores are there: of what is only put together there are none."""
        return False


def pooled(runs: Sequence[Run]) -> Run:
    """Runs as one; a single run is itself."""
    return runs[0] if len(runs) == 1 else PooledRun(runs)


def _identity(run: Run) -> dict[str, Any]:
    record = run.record
    cards = {name: card["fingerprint"] for name, card in run.encoder_cards.items()}
    return {
        "suite": record["suite_fingerprint"],
        "model": record["model"]["fingerprint"],
        "rule of stopping": record.get("until"),
        "set of encoders": cards,
    }


class NarrowedRun(Run):
    """A run of which only some concepts are looked at: nothing else of it says that there are others.

    Parameters
    ----------
    suite : the run's own, with fewer concepts.
    score : computes the scores and curves of a run; those that are stored are of all its concepts.
    """

    drawn: _NarrowedSamples

    def __init__(self, run: Run, suite: Suite, score: Callable[[Run], tuple[pd.DataFrame, pd.DataFrame]]) -> None:
        super().__init__(run.url)
        self.suite, self._score = suite, score
        names = {spec.concept for spec in suite.every_prompt_spec() if spec.role == "target"}
        samples = enumerate(super().plan.rows("role", "concept"))
        self._plan = super().plan.take(
            np.array([at for at, (role, concept) in samples if role != "target" or concept in names], int)
        )
        self.drawn.ids = self._plan.column("id").combine_chunks()

    def _assemble(self, ledger: Ledger, planned: StoredPlan, encoders: EncoderCards, samples: type[Samples]) -> None:
        super()._assemble(ledger, planned, encoders, _NarrowedSamples)

    @property
    def plan(self) -> Plan:
        """The samples of its concepts and groups, in order."""
        return self._plan

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of its concepts, as if it had asked for no others."""
        return self._scored[0]

    @property
    def curves(self) -> pd.DataFrame:
        """The curves of its concepts."""
        return self._scored[1]

    @cached_property
    def _scored(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return self._score(self)


class _NarrowedSamples(Samples):
    """The samples of some ids."""

    ids: pa.Array

    def part(self, part: int, columns: list[str]) -> pa.Table:
        table = super().part(part, columns)
        return table.filter(pc.is_in(table["id"], self.ids))


# --- Two finished runs of one suite beside each other, as data -------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Comparison:
    """A run held against another.

    Attributes
    ----------
    first, second : the runs.
    unpaired : what keeps images from being paired, in words; empty where they are.
    pairs : images that both runs have; 0 where they are not paired.
    dropped : images of either run that have no partner, because the other run could not make it.
    identical : pairs of which both images are one and the same.
    left_out : the concepts that not all of the runs asked for; the runs are narrowed to the others.
    scores : rows of metric ``comparison``, second against first; of refusals where either run has any.
    """

    first: Run
    second: Run
    unpaired: str
    pairs: int
    dropped: int
    identical: int
    scores: pd.DataFrame
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        of = f"{self.second.directory.shown!r} beside {self.first.directory.shown!r}"
        return f"Comparison({of}: {len(self.scores)} rows, {f'{self.pairs} pairs' if self.paired else 'not paired'})"

    @property
    def paired(self) -> bool:
        """Whether images of one prompt and one noise were compared in pairs."""
        return not self.unpaired


def shared_encoders(runs: Sequence[Run]) -> list[str]:
    """Return the names of the encoders that all runs have, the same in each: one of that name may be another."""
    cards = [run.encoder_cards for run in runs]
    return [
        name
        for name, card in cards[0].items()
        if all(name in other and other[name]["fingerprint"] == card["fingerprint"] for other in cards[1:])
    ]


# --- A run as a worker sees it: some of its parts, to which it adds what is missing ----------------------------------


class WorkerRun(Run):
    """A run of which a worker has some parts.

    Every stage makes what its run's parts lack, so it makes of this one what was asked of the worker. ``redraw`` are
    the samples that are drawn anew, by part: of those alone a file is replaced. Its
    record is the driver's.
    """

    drawn: _WorkerSamples
    encoders: _WorkerEncoders
    ledger: _FirstWins

    def __init__(self, url: str | os.PathLike[str], redraw: Mapping[int, Collection[str]]) -> None:
        super().__init__(url)
        self.drawn.redraw(redraw)

    def _assemble(self, ledger: Ledger, planned: StoredPlan, encoders: EncoderCards, samples: type[Samples]) -> None:
        own = _FirstWins(ledger.directory)
        planned = StoredPlan(own)
        planned.chosen = ()
        super()._assemble(own, planned, _WorkerEncoders(own), _WorkerSamples)
        self.readers = _WorkerReaders(own)
        self.answers = _WorkerAnswers(own, planned, self.drawn)

    def choose(self, parts: Sequence[int]) -> None:
        """Set the parts that are worked on from now on."""
        self.planned.chosen = tuple(parts)
        self.drawn.written.clear()

    def take_created(self) -> dict[str, str]:
        """Return the files that this worker has made since it was last asked, with their checksums."""
        created, self.ledger.created = self.ledger.created, {}
        return created

    def record_batch_size(self, batch_size: int) -> None:
        """Record nothing: the driver does."""

    def end_stage(self) -> None:
        """List nothing: the driver does."""


class _FirstWins(Ledger):
    """A ledger that replaces only the tables that it is asked to.

    Two workers may come to write the same part: one that was thought dead, and the one that took over. The first whole
    part stays and the other is dropped, as both hold the same images.
    """

    def __init__(self, directory: Directory) -> None:
        super().__init__(directory)
        self.replaced: set[str] = set()
        self.created: dict[str, str] = {}

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table unless there is one."""
        if name in self.replaced:
            super().write_table(name, table)
        elif checksum := self.directory.create_table(name, table):
            self.created[name] = checksum


class _WorkerSamples(Samples):
    """The samples of a worker's parts."""

    _ledger: _FirstWins

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.written: dict[int, list[tuple[str, Status, str | None]]] = {}
        """What became of the samples that were written here."""

    def statuses(self) -> Iterator[tuple[str, Status, str | None]]:
        """Id, status and reason of each drawn sample; what this worker wrote is not read for it."""
        for part in self._planned.parts:
            if part in self.written:
                yield from self.written[part]
            elif self._directory.exists(samples_name(part)):
                table = self.part(part, ["id", "status", "reason"])
                yield from zip(*(table[name].to_pylist() for name in ("id", "status", "reason")), strict=True)

    def _drawn_parts(self) -> list[int]:
        return [part for part in self._planned.parts if self._directory.exists(samples_name(part))]

    @cached_property
    def _unfinished(self) -> frozenset[str]:
        """Parts that a driver stopped halfway; a worker leaves none so."""
        return frozenset(self._directory.names(UNFINISHED, ".parquet"))

    def _partial_rows(self, part: int, columns: list[str]) -> list[dict[str, Any]]:
        return super()._partial_rows(part, columns) if part_name(UNFINISHED, part) in self._unfinished else []

    def write(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a part; one that is there already stays, but for samples that are drawn anew."""
        if part in self.to_redraw:
            self._ledger.replaced.add(samples_name(part))
        super().write(part, rows)
        if samples_name(part) in self._ledger.created and len(rows) == len(self._planned.parts[part]):
            self.written[part] = [(row["id"], row["status"], row["reason"]) for row in rows]

    def forget_made_of(self, part: int) -> None:
        """Forget what was made of images that are replaced; of a part that was missing, the driver has."""
        if part in self.to_redraw:
            super().forget_made_of(part)


class _WorkerReaders(ReaderCards):
    """The cards of readers, which the driver records."""

    def finish(self, card: Card, *, failed: int = 0) -> None:
        """Record nothing: the driver does, once all parts are there."""


class _WorkerAnswers(Answers):
    """The answers of a worker's parts: those of a part that is there are added to."""

    _ledger: _FirstWins

    def write(self, card: Card, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the answers of a part, and those that were there."""
        name = readings_name(card.name, part)
        if self._directory.exists(name):
            self._ledger.replaced.add(name)
        super().write(card, part, rows)


class _WorkerEncoders(EncoderCards):
    """The cards of encoders, which the driver records."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._used: list[Card] = []

    def begin(self, card: Card, **asked: Any) -> None:
        """Record nothing: the driver has."""

    def finish(self, card: Card) -> None:
        """Record nothing: the driver does, once all parts are there."""

    def forget(self, name: str) -> None:
        """Forget nothing: the driver does, once no worker writes any more."""

    def add_own(self, card: Card) -> None:
        """Keep it for the driver, which records it."""
        self._used.append(card)

    def take_own(self) -> tuple[Card, ...]:
        """Return the model's own encoders that this worker used since it was last asked."""
        cards, self._used = self._used, []
        return tuple(cards)
