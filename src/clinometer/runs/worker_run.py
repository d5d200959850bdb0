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
from clinometer.runs.ledger import Ledger, samples_name, unfinished_name
from clinometer.runs.plan import Plan
from clinometer.runs.storage import Directory
from clinometer.runs.store import Run


class WorkerRun(Run):
    """A run of which a worker has some parts.

    Every stage makes what its run's parts lack, so it makes of this one what was asked of the worker. ``redraw`` are
    the samples that are drawn anew, by part: of those alone a file is replaced.
    """

    def __init__(self, url: str | os.PathLike[str], redraw: Mapping[int, Collection[str]]) -> None:
        super().__init__(url)
        self.ledger: _FirstWins = _FirstWins(self.directory)
        self._chosen: tuple[int, ...] = ()
        self._own_encoders: list[Card] = []
        self._drawn_here: dict[int, list[tuple[str, Status, str | None]]] = {}
        self.redraw(redraw)

    def choose(self, parts: Sequence[int]) -> None:
        """Take the parts that are worked on from now on."""
        self._chosen = tuple(parts)
        self._drawn_here.clear()

    @property
    def is_whole(self) -> bool:
        """It is not."""
        return False

    @property
    def parts(self) -> dict[int, Plan]:
        """The samples of each chosen part."""
        return {part: self._all_parts[part] for part in self._chosen}

    def _drawn_parts(self) -> list[int]:
        return [part for part in self.parts if self.directory.exists(samples_name(part))]

    def drawn(self) -> Iterator[tuple[str, Status, str | None]]:
        """Id, status and reason of each drawn sample; what this worker wrote is not read for it."""
        for part in self.parts:
            if part in self._drawn_here:
                yield from self._drawn_here[part]
            elif self.directory.exists(samples_name(part)):
                table = self._part(part, ["id", "status", "reason"])
                yield from zip(*(table[name].to_pylist() for name in ("id", "status", "reason")), strict=True)

    def take_created(self) -> dict[str, str]:
        """The files that this worker made, where there were none, since it was last asked; and their checksums."""
        created, self.ledger.created = self.ledger.created, {}
        return created

    @cached_property
    def _unfinished(self) -> frozenset[str]:
        """Parts that a driver stopped halfway; a worker leaves none so."""
        return frozenset(self.directory.names("unfinished", ".parquet"))

    def _partial_rows(self, part: int, columns: list[str]) -> list[dict[str, Any]]:
        return super()._partial_rows(part, columns) if unfinished_name(part) in self._unfinished else []

    def write_samples(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a part; one that is there already stays, but for samples that are drawn anew."""
        if part in self._to_redraw:
            self.ledger.replaced.add(samples_name(part))
        super().write_samples(part, rows)
        if samples_name(part) in self.ledger.created and len(rows) == len(self.parts[part]):
            self._drawn_here[part] = [(row["id"], row["status"], row["reason"]) for row in rows]

    def forget_made_of(self, part: int) -> None:
        """Forget what was made of images that are replaced; of a part that was missing, the driver has."""
        if part in self._to_redraw:
            super().forget_made_of(part)

    def begin_encoder(self, card: Card) -> None:
        """Record nothing: the driver has."""

    def finish_encoder(self, card: Card) -> None:
        """Record nothing: the driver does, once all parts are there."""

    def forget_encoder(self, name: str) -> None:
        """Forget nothing: the driver does, once no worker writes any more."""

    def add_own_encoder(self, card: Card) -> None:
        """Keep it for the driver, which records it."""
        self._own_encoders.append(card)

    def take_own_encoders(self) -> tuple[Card, ...]:
        """The model's own encoders that this worker used since it was last asked."""
        cards, self._own_encoders = self._own_encoders, []
        return tuple(cards)

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
