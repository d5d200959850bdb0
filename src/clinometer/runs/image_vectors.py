"""The vectors of a run's images by what these were drawn for, outside memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from clinometer.runs.embedded import require_finished
from clinometer.runs.store import Run
from clinometer.runs.vector_file import VectorFile

Owner = tuple[str, str]
"""The concept and the group of an image, as the plan has them."""

Name = TypeVar("Name", bound=Hashable)


class ImageVectors:
    """The vectors of one encoder, of images by concept and group. Those that were read wait in a temporary file.

    Parameters
    ----------
    keep : seeds of the images that are looked at; all by default. Then an image that is, byte for byte, another one of
        its owner again is left out, and counted in ``repeats``.
    """

    def __init__(self, run: Run, encoder: str, keep: Collection[int] | None = None) -> None:
        require_finished(run, encoder)
        self._run, self._encoder, self._keep = run, encoder, keep
        self._repeats = run.repeats() if keep is None else {}
        self.repeats = Counter[Owner]()
        self._file, self._were_read = VectorFile(), set[int]()
        self._parts: dict[Owner, dict[int, None]] = {}
        for identifier, part, concept, group in run.plan.rows("id", "part", "concept", "group"):
            self._parts.setdefault((concept, group), {})[part] = None
            self.repeats[concept, group] += identifier in self._repeats

    def read(self, owners: Collection[Owner] | None = None) -> None:
        """Read the parts that hold images of some owners, or all parts, once.

        Raises
        ------
        RunCorruptError
            A file is damaged, or lacks an image.
        """
        wanted = {part for owner in (self._parts if owners is None else owners) for part in self._parts.get(owner, ())}
        missing = [part for part in self._run.parts if part in wanted - self._were_read]
        if not missing:
            return
        with self._run.directory.listed_once():
            for part, vectors in self._run.embedding_parts(self._encoder, missing, self._file.width):
                self._run.require_embedded(self._encoder, vectors, [part])
                self._add(part, vectors)
        self._were_read.update(missing)

    def _add(self, part: int, vectors: Mapping[str, np.ndarray]) -> None:
        rows = [
            (((concept, group), part), vectors[identifier])
            for identifier, seed, concept, group in self._run.parts[part].rows("id", "seed", "concept", "group")
            if identifier in vectors and identifier not in self._repeats and (self._keep is None or seed in self._keep)
        ]
        if rows:
            keys, own = zip(*rows, strict=True)
            self._file.add(keys, np.stack(own))

    def of(self, owner: Owner) -> np.ndarray:
        """Those of an owner whose parts were read, (n × dim) in the plan's order; n may be 0."""
        return self._file.rows([(owner, part) for part in self._parts.get(owner, ())], max(self._file.width, 1))

    def named(self, owners: Mapping[Name, Owner]) -> NamedVectors[Name]:
        """The same by other names, read from the file whenever one is asked for."""
        return NamedVectors(self, owners)


class NamedVectors(Mapping[Name, np.ndarray]):
    """Vectors by name, of which those asked for are in memory."""

    def __init__(self, vectors: ImageVectors, owners: Mapping[Name, Owner]) -> None:
        self._vectors, self._owners = vectors, owners

    def __getitem__(self, name: Name) -> np.ndarray:
        return self._vectors.of(self._owners[name])

    def __iter__(self) -> Iterator[Name]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)
