"""Several runs together: pooled as one, or held against each other.

Runs of one question and several seeds are read as one: their images are one sample that was drawn in several runs.
Nothing is copied. A pooled run numbers the parts of its runs one after another and reads each where it lies, so all
that reads a run reads it: scores, comparisons, figures. It is not written to.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from clinometer.errors import RunMismatchError
from clinometer.runs.embeddings import EncoderCards
from clinometer.runs.ledger import Ledger
from clinometer.runs.plan import Plan, StoredPlan
from clinometer.runs.samples import Samples
from clinometer.runs.storage import REDO, Check, Directory, Shape
from clinometer.runs.store import Run

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
        """What a file of a run is called here; other files than parts keep their names."""
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
        self._record = self._joined([run.record for run in runs])

    def _read_record(self) -> dict[str, Any]:
        return self._joined([run.ledger.read_anew() for run in self._runs])

    def _joined(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
        return dict(records[0]) | {"files": files, "encoders": encoders, "readers": {}, "trace": _joined_trace(records)}


def _joined_trace(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Say which steps all runs looked at; ``apart`` says why they have no trace together, and some have one."""
    traces = [record.get("trace") or {} for record in records]
    if not any(traces):
        return {}
    steps = sorted(set.intersection(*(set(trace.get("steps", ())) for trace in traces)))
    apart = ""
    if not all(traces):
        apart = "not all of the runs put together were traced"
    elif len({(trace["total"], trace["decoder"]) for trace in traces}) > 1:
        apart = "the runs put together draw in other numbers of steps, or were traced by other decoders"
    elif not steps:
        apart = "the runs put together were traced at different steps"
    some = next(trace for trace in traces if trace)
    return dict(some) | {"steps": [] if apart else steps, "latents": False, "apart": apart}


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
        _require_alike(self.runs)
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


def _require_alike(runs: Sequence[Run]) -> None:
    first = runs[0]
    for order, run in enumerate(runs[1:], 1):
        for what, trait in _identity(run).items():
            if trait != _identity(first)[what]:
                raise RunMismatchError(f"{run.url}: its {what} is not that of {first.url}; only seeds may differ")
        if run.record["seed"] in [other.record["seed"] for other in runs[:order]]:
            raise RunMismatchError(f"{run.url}: seed {run.record['seed']} is given twice; its images would count twice")


def _identity(run: Run) -> dict[str, Any]:
    record = run.record
    cards = {name: card["fingerprint"] for name, card in run.encoder_cards.items()}
    return {
        "suite": record["suite_fingerprint"],
        "model": record["model"]["fingerprint"],
        "rule of stopping": record.get("until"),
        "set of encoders": cards,
    }


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
    scores : rows of metric ``comparison``, second against first; of refusals where either run has any.
    """

    first: Run
    second: Run
    unpaired: str
    pairs: int
    dropped: int
    identical: int
    scores: pd.DataFrame

    def __repr__(self) -> str:
        of = f"{self.second.directory.shown!r} beside {self.first.directory.shown!r}"
        return f"Comparison({of}: {len(self.scores)} rows, {f'{self.pairs} pairs' if self.paired else 'not paired'})"

    @property
    def paired(self) -> bool:
        """Whether images of one prompt and one noise were compared in pairs."""
        return not self.unpaired


def shared_encoders(runs: Sequence[Run]) -> list[str]:
    """Names of the encoders that all runs have, the same in each: one of that name may be another."""
    cards = [run.encoder_cards for run in runs]
    return [
        name
        for name, card in cards[0].items()
        if all(name in other and other[name]["fingerprint"] == card["fingerprint"] for other in cards[1:])
    ]
