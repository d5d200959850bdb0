"""A run as a worker sees it: some of its parts, to which it adds what is missing. Its record is the driver's.

Two workers may come to write the same part: one that was thought dead, and the one that took over. The first whole part
stays and the other is dropped, as both hold the same images.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from clinometer.models.protocols import Card
from clinometer.runs.ledger import Ledger
from clinometer.runs.places import samples_name
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
        self.redraw(redraw)

    def choose(self, parts: Sequence[int]) -> None:
        """Take the parts that are worked on from now on."""
        self._chosen = tuple(parts)

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

    def write_samples(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a part; one that is there already stays, but for samples that are drawn anew."""
        if part in self._to_redraw:
            self.ledger.replaced.add(samples_name(part))
        super().write_samples(part, rows)

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
        """Record nothing: the driver has."""

    def record_batch_size(self, batch_size: int) -> None:
        """Record nothing: the driver does."""

    def end_stage(self) -> None:
        """List nothing: the driver does."""


class _FirstWins(Ledger):
    """A ledger that replaces only the tables that it is asked to."""

    def __init__(self, directory: Directory) -> None:
        super().__init__(directory)
        self.replaced: set[str] = set()

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table unless there is one."""
        if name in self.replaced:
            super().write_table(name, table)
        else:
            self.directory.create_table(name, table)
