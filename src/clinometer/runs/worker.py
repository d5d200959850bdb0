"""A worker's share of a run: the parts that it makes, and what it reports to the driver, which alone records it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clinometer.models.protocols import Card, Status


@dataclass
class Worker:
    """What a worker makes and reports. A run that is opened for one writes no run.json but to delist what it replaces.

    Every stage makes what its run's parts lack, so it makes of these parts what was asked of the worker. Two workers
    may come to write the same file: one that was thought dead, and the one that took over. The first whole file stays
    and the other is dropped, as both hold the same.

    Attributes
    ----------
    parts : those that it works on.
    replaced : names of files that it was asked to replace; it writes any other only where there is none.
    created : the files that it has made, with their checksums.
    drawn : id, status and reason of the samples that it has written, by part.
    own_encoders : the model's own encoders that it has used.
    unfinished : files of parts that a driver stopped halfway, once listed; a worker leaves none so.
    """

    parts: tuple[int, ...] = ()
    replaced: set[str] = field(default_factory=set)
    created: dict[str, str] = field(default_factory=dict)
    drawn: dict[int, list[tuple[str, Status, str | None]]] = field(default_factory=dict)
    own_encoders: list[Card] = field(default_factory=list)
    unfinished: frozenset[str] | None = None

    def begin(self, parts: Sequence[int]) -> None:
        """Begin with some parts; what was reported of those before is forgotten."""
        self.parts = tuple(parts)
        self.created, self.drawn, self.own_encoders = {}, {}, []
