"""The vectors of a whole run, refused while any is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from clinometer.errors import RunNotFoundError
from clinometer.runs.scratch import VectorFile
from clinometer.runs.store import Run


def embedded(run: Run, encoder: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The vectors of images by sample id, and of texts by text.

    Raises
    ------
    RunNotFoundError
        The encoder has not finished.
    RunCorruptError
        A file is damaged, or lacks an image or a text.
    """
    with run.directory.listed_once():
        require_finished(run, encoder)
        vectors = run.embeddings(encoder)
        run.vectors.require(encoder, vectors)
        return vectors, run.texts(encoder)


def embedded_rows(run: Run, encoder: str, ids: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The vectors of some images as the rows of one array, and those of texts by text; raises as :func:`embedded`.

    ``ids`` : whose, row by row; that of an image without a vector, or of an empty id, is NaN.
    """
    with run.directory.listed_once():
        require_finished(run, encoder)
        texts, rows = run.texts(encoder), {key: row for row, key in enumerate(ids) if key}
        vectors = _no_vectors(len(ids), next(map(len, texts.values()), 1))
        for part, by_id in run.vectors.each_part(encoder):
            run.vectors.require(encoder, by_id, [part])
            for key in by_id.keys() & rows.keys():
                if vectors.shape[1] != len(by_id[key]):  # the first of all
                    vectors = _no_vectors(len(ids), len(by_id[key]))
                vectors[rows[key]] = by_id[key]
        return vectors, texts


def _no_vectors(n: int, width: int) -> np.ndarray:
    return np.full((n, width), np.nan, np.float32)


def require_finished(run: Run, encoder: str) -> None:
    """Refuse an encoder that has not embedded every part and the texts.

    Raises
    ------
    RunNotFoundError
        The message names the way out.
    """
    unfinished = len(run.parts) - len(run.vectors.parts_there(encoder))
    if unfinished or not run.vectors.has_texts(encoder):
        raise RunNotFoundError(
            f"{run.url}: encoder {encoder} has not finished (parts to go: {unfinished}); give: clinometer score "
            f"{run.url} --encoder {encoder}"
        )


# --- The vectors of a run's images by what these were drawn for, outside memory --------------------------------------


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
        self._repeats = run.drawn.repeats() if keep is None else {}
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
            for part, vectors in self._run.vectors.each_part(self._encoder, missing, self._file.width):
                self._run.vectors.require(self._encoder, vectors, [part])
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
