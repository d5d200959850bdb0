"""Several runs: those of several seeds pooled as one, and two that are compared by what both of them have.

A pooled run copies nothing: it numbers the parts of its runs one after another and reads each where it lies, so
whatever reads a run reads it too: scores, comparisons, figures. It is never written to.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer.errors import RunMismatchError
from clinometer.runs.ledger import Ledger
from clinometer.runs.plan import Plan, StoredPlan
from clinometer.runs.run import Run
from clinometer.runs.storage import Directory
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
        directory, name_there = self._at(name)
        return f"{directory.root}/{name_there}"

    def exists(self, name: str) -> bool:
        directory, name_there = self._at(name)
        return directory.exists(name_there)

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

    def read_table(self, name: str, columns: list[str] | None = None, **how: Any) -> pa.Table:
        directory, name_there = self._at(name)
        return directory.read_table(name_there, columns, **how)


class _PooledLedger(Ledger):
    """The files and cards that the runs list, under the names that they have in the pooled run."""

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
            steps = sorted(set.intersection(*(set(trace_of_run.get("steps", ())) for trace_of_run in traces)))
            apart = ""  # why they have no trace together, though some have one
            if not all(traces):
                apart = "not all of the runs put together were traced"
            elif len({(trace_of_run["total"], trace_of_run["decoder"]) for trace_of_run in traces}) > 1:
                apart = "the runs put together draw in other numbers of steps, or were traced by other decoders"
            elif not steps:
                apart = "the runs put together were traced at different steps"
            some = next(trace_of_run for trace_of_run in traces if trace_of_run)
            trace = dict(some) | {"steps": [] if apart else steps, "latents": False, "apart": apart}
        return dict(records[0]) | {"files": files, "encoders": encoders, "readers": {}, "trace": trace}


class _PooledPlan(StoredPlan):
    """The samples of all the runs, in order."""

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
        for order, (run, traits) in enumerate(zip(self.runs[1:], others, strict=True), 1):
            for what, trait in traits.items():
                if trait != first[what]:
                    raise RunMismatchError(
                        f"{run.url}: its {what} is not that of {self.runs[0].url}; only seeds may differ"
                    )
            if seeds[order] in seeds[:order]:
                raise RunMismatchError.duplicate(
                    f"{run.url}: seed {seeds[order]} is given twice; its images would count twice"
                )
        directory = _PooledDirectory(self.runs)
        ledger = _PooledLedger(directory, self.runs)
        self._set_parts(ledger, _PooledPlan(ledger, self.runs, directory.starts))

    @property
    def is_scored(self) -> bool:
        """Whether scores are there; a pooled run stores none."""
        return False


def pooled(runs: Sequence[Run]) -> Run:
    """Return runs as one; a single run is returned itself."""
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


# --- Runs that are compared ------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Comparison:
    """A run compared with another.

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
        runs = f"{self.second.directory.shown!r} beside {self.first.directory.shown!r}"
        return f"Comparison({runs}: {len(self.scores)} rows, {f'{self.pairs} pairs' if self.paired else 'not paired'})"

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


class NarrowedRun(Run):
    """A run of which only some concepts are looked at: nothing else of it says that there are others.

    Parameters
    ----------
    suite : the run's own, with fewer concepts.
    score : computes the scores and curves of a run; those that are stored are of all its concepts.
    """

    def __init__(self, run: Run, suite: Suite, score: Callable[[Run], tuple[pd.DataFrame, pd.DataFrame]]) -> None:
        super().__init__(run.url)
        self.suite, self._score = suite, score
        names = {spec.concept for spec in suite.every_prompt_spec() if spec.role == "target"}
        samples = enumerate(super().plan.rows("role", "concept"))
        self._plan = super().plan.take(
            np.array([at for at, (role, concept) in samples if role != "target" or concept in names], int)
        )
        self.drawn.only = self._plan.column("id").combine_chunks()

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
