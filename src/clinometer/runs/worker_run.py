"""A run as a worker sees it: some of its parts, to which it adds what is missing. Its record is the driver's.

Two workers may come to write the same part: one that was thought dead, and the one that took over. The first whole part
stays and the other is dropped, as both hold the same images.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from clinometer.models.protocols import Card, Status
from clinometer.runs.answers import Answers, ReaderCards
from clinometer.runs.embeddings import EncoderCards
from clinometer.runs.ledger import Ledger, readings_name, samples_name, unfinished_name
from clinometer.runs.plan import StoredPlan
from clinometer.runs.samples import Samples
from clinometer.runs.storage import Directory
from clinometer.runs.store import Run


class WorkerRun(Run):
    """A run of which a worker has some parts.

    Every stage makes what its run's parts lack, so it makes of this one what was asked of the worker. ``redraw`` are
    the samples that are drawn anew, by part: of those alone a file is replaced.
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
        """Take the parts that are worked on from now on."""
        self.planned.chosen = tuple(parts)
        self.drawn.forget_written()

    def take_created(self) -> dict[str, str]:
        """The files that this worker made, where there were none, since it was last asked; and their checksums."""
        created, self.ledger.created = self.ledger.created, {}
        return created

    def record_batch_size(self, batch_size: int) -> None:
        """Record nothing: the driver does."""

    def end_stage(self) -> None:
        """List nothing: the driver does."""


class _FirstWins(Ledger):
    """A ledger that replaces only the tables that it is asked to."""

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
        self._written: dict[int, list[tuple[str, Status, str | None]]] = {}

    def forget_written(self) -> None:
        """Forget what became of the samples that were written here: other parts come."""
        self._written.clear()

    def statuses(self) -> Iterator[tuple[str, Status, str | None]]:
        """Id, status and reason of each drawn sample; what this worker wrote is not read for it."""
        for part in self._planned.parts:
            if part in self._written:
                yield from self._written[part]
            elif self._directory.exists(samples_name(part)):
                table = self.part(part, ["id", "status", "reason"])
                yield from zip(*(table[name].to_pylist() for name in ("id", "status", "reason")), strict=True)

    def _drawn_parts(self) -> list[int]:
        return [part for part in self._planned.parts if self._directory.exists(samples_name(part))]

    @cached_property
    def _unfinished(self) -> frozenset[str]:
        """Parts that a driver stopped halfway; a worker leaves none so."""
        return frozenset(self._directory.names("unfinished", ".parquet"))

    def _partial_rows(self, part: int, columns: list[str]) -> list[dict[str, Any]]:
        return super()._partial_rows(part, columns) if unfinished_name(part) in self._unfinished else []

    def write(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a part; one that is there already stays, but for samples that are drawn anew."""
        if part in self._to_redraw:
            self._ledger.replaced.add(samples_name(part))
        super().write(part, rows)
        if samples_name(part) in self._ledger.created and len(rows) == len(self._planned.parts[part]):
            self._written[part] = [(row["id"], row["status"], row["reason"]) for row in rows]

    def forget_made_of(self, part: int) -> None:
        """Forget what was made of images that are replaced; of a part that was missing, the driver has."""
        if part in self._to_redraw:
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
        """The model's own encoders that this worker used since it was last asked."""
        cards, self._used = self._used, []
        return tuple(cards)
