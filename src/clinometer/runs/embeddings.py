"""The vectors of a run: stored part by part, checked before that, and read by what their images were drawn for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clinometer._scratch import VectorFile
from clinometer.errors import ModelError, RunCorruptError, RunNotFoundError
from clinometer.models.protocols import Card
from clinometer.runs.ledger import (
    Ledger,
    embeddings_name,
    saved_again_name,
    vectors_name,
)
from clinometer.runs.plan import StoredPlan
from clinometer.runs.storage import REDO
from clinometer.stats.dependence import SAVED_AGAIN, TOLERANCE

if TYPE_CHECKING:
    from clinometer.runs.samples import Samples

LEAVES_OUT: Final = "leaves_out"
"""The setting in an encoder's card that says which images it has no vector of, such as those without a face."""


class Vectors:
    """The vectors of a run, of its images part by part and of its texts: ``run.vectors``."""

    def __init__(self, ledger: Ledger, planned: StoredPlan, drawn: Samples) -> None:
        self._ledger, self.directory, self.planned, self.drawn = ledger, ledger.directory, planned, drawn

    def has(self, encoder: str, part: int) -> bool:
        """Return whether a part's images are embedded."""
        return self.directory.exists(vectors_name(encoder, part))

    def write(self, encoder: str, part: int, ids: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of a part's images; one that is NaN throughout, of an image without one, is empty."""
        self._ledger.write_table(vectors_name(encoder, part), _vector_table("id", ids, vectors))

    def each_part(
        self, encoder: str, parts: Collection[int] | None = None, width: int = 0
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the image vectors of an encoder by sample id, part by part, of those that are embedded.

        ``parts`` : those that are looked at, all by default; ``width`` : of vectors that were read before, if any.
        """
        part_numbers = self.planned.parts if parts is None else parts
        self._ledger.require_there(vectors_name(encoder, part) for part in part_numbers)
        for part in self.parts_there(encoder, part_numbers):
            vectors = self.of_part(encoder, part)
            part_width = next(map(len, vectors.values()), width)
            width = width or part_width
            if part_width != width:
                name = self.directory.path(vectors_name(encoder, part))
                raise RunCorruptError(
                    f"{name}: its vectors have {part_width} numbers, those of other parts {width}. {REDO}"
                )
            yield part, vectors

    def parts_there(self, encoder: str, parts: Collection[int] | None = None) -> list[int]:
        """Return the parts whose images are embedded; of ``parts``, where those are given."""
        with self.directory.listed_once():
            return [part for part in (self.planned.parts if parts is None else parts) if self.has(encoder, part)]

    def of_part(self, encoder: str, part: int) -> dict[str, np.ndarray]:
        """Return the image vectors of one part, by sample id."""
        return self._read(vectors_name(encoder, part), "id")

    def require(self, encoder: str, vectors: Collection[str], parts: Iterable[int] | None = None) -> None:
        """Refuse embeddings of an encoder that lack an image: without it a score would be one of fewer, unseen.

        ``parts`` : those that are looked at; all by default. Those that the encoder left out are not lacking.

        Raises
        ------
        RunCorruptError
            The message names the file.
        """
        for part in self.planned.parts if parts is None else parts:
            rows = self.drawn.part(part, ["id", "status"]).to_pylist()
            lacking = [row for row in rows if row["status"] == "ok" and row["id"] not in vectors]
            left_out = self.left_out(encoder, [part]) if lacking else ()
            for row in lacking:
                if row["id"] not in left_out:
                    name = self.directory.path(vectors_name(encoder, part))
                    raise RunCorruptError(f"{name}: it has no vector of image {row['id']}. {REDO}")

    def left_out(self, encoder: str, parts: Iterable[int]) -> frozenset[str]:
        """Return the images of some parts that an encoder saw and has no vector of."""
        tables = (self._ledger.read_table(vectors_name(encoder, part), ["id", "vector"]) for part in parts)
        return frozenset(key for t in tables for key in t.filter(pc.is_null(t["vector"]))["id"].to_pylist())

    def require_finished(self, encoder: str) -> None:
        """Refuse an encoder that has not embedded every part and the texts.

        Raises
        ------
        RunNotFoundError
            The message names the way out.
        """
        unfinished = len(self.planned.parts) - len(self.parts_there(encoder))
        if unfinished or not self.has_texts(encoder):
            url = self.directory.url
            raise RunNotFoundError.incomplete(
                f"{url}: encoder {encoder} has not finished (parts to go: {unfinished}); give: clinometer score {url} "
                f"--encoder {encoder}"
            )

    def rows(self, encoder: str, ids: Sequence[str], width: int) -> np.ndarray:
        """Return vectors of some images as rows; NaN for an image without one, or an empty id.

        ``width`` : of the array where there is no image at all.

        Raises
        ------
        RunCorruptError
            A file is damaged, or lacks an image.
        """
        rows = {key: row for row, key in enumerate(ids) if key}
        vectors = np.full((len(ids), width), np.nan, np.float32)
        for part, by_id in self.each_part(encoder):
            self.require(encoder, by_id, [part])
            for key in by_id.keys() & rows.keys():
                if vectors.shape[1] != len(by_id[key]):  # the first of all
                    vectors = np.full((len(ids), len(by_id[key])), np.nan, np.float32)
                vectors[rows[key]] = by_id[key]
        return vectors

    def has_texts(self, encoder: str) -> bool:
        """Return whether the suite's texts are embedded (or known to have no embedding)."""
        return self.directory.exists(f"{embeddings_name(encoder)}/texts.parquet")

    def write_texts(self, encoder: str, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of texts."""
        self._ledger.write_table(f"{embeddings_name(encoder)}/texts.parquet", _vector_table("text", texts, vectors))

    def texts(self, encoder: str, asked: Iterable[str] = ()) -> dict[str, np.ndarray]:
        """Return every text vector of an encoder, by text; none of one that reads no text.

        Each that was ``asked`` must be there.
        """
        name = f"{embeddings_name(encoder)}/texts.parquet"
        vectors = self._read(name, "text")
        lost = [text for text in asked if text.strip() and text not in vectors]
        if vectors and lost:
            raise RunCorruptError(f"{self.directory.path(name)}: it has no vector of {lost[0]!r}. {REDO}")
        return vectors

    def has_saved_again(self, encoder: str) -> bool:
        """Return whether somebody has measured how far saving a picture again moves its vector."""
        return self.directory.exists(saved_again_name(encoder))

    def write_saved_again(self, encoder: str, rows: Sequence[tuple[str, str, float]]) -> None:
        """Write the distances: image, what was done to it, and how far its unit vector moved."""
        ids, changes, distances = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"id": pa.array(ids, pa.string()), "change": pa.array(changes, pa.string())}
        self._ledger.write_table(
            saved_again_name(encoder), pa.table(columns | {"distance": pa.array(distances, pa.float64())})
        )

    def saved_again(self, encoder: str) -> float:
        """Return the 95 % quantile of these distances; ``SAVED_AGAIN`` where no picture had any.

        Runs of earlier versions have no such measurement. There only identical pictures are one, as they were then,
        so that numbers which may be published stay what they are.
        """
        if not self.has_saved_again(encoder):
            return TOLERANCE
        distances = self._ledger.read_table(saved_again_name(encoder), ["distance"])["distance"].to_numpy()
        if not len(distances) or not np.isfinite(distances).all():
            return SAVED_AGAIN
        return max(float(np.quantile(distances, 0.95)), TOLERANCE)

    def _read(self, name: str, key: str) -> dict[str, np.ndarray]:
        table = self._ledger.read_table(name, [key, "vector"])
        column = table["vector"].combine_chunks()
        fault = "no lists of one length"
        if pa.types.is_fixed_size_list(column.type) and pa.types.is_floating(column.type.value_type):
            vectors = np.asarray(column.flatten(), dtype=np.float32).reshape(-1, column.type.list_size)
            keys = table.filter(column.is_valid())[key].to_pylist() if column.null_count else table[key].to_pylist()
            if len(vectors) == len(keys) and np.isfinite(vectors).all():
                return dict(zip(keys, vectors, strict=True))
            fault = "NaN or infinity"
        raise RunCorruptError(f"{self.directory.path(name)}: its vectors hold {fault}, expected finite numbers. {REDO}")


def _vector_table(key: str, keys: Sequence[str], vectors: np.ndarray) -> pa.Table:
    width = vectors.shape[1]
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    empty = np.isnan(vectors).all(axis=1)
    mask = pa.array(empty) if empty.any() else None
    lists = pa.FixedSizeListArray.from_arrays(values, width, mask=mask)
    return pa.table({key: pa.array(keys, pa.string()), "vector": lists})


# --- What an encoder gives, checked before it is stored --------------------------------------------------------------


NO_VECTORS: Final = np.zeros((0, 1), np.float32)
"""Parquet has no vectors of no length."""


PROBED: Final = 4
"""Images, and texts, that are embedded a second time."""

EPSILON: Final = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number."""


class NoVectorsError(ModelError):
    """What an encoder gave is not what it was asked for."""


def checked_vectors(output: Any, card: Card, ids: Sequence[str], width: int | None = None) -> np.ndarray:
    """Check image vectors; those that the encoder's card leaves out are NaN throughout."""
    vectors = shaped_vectors(output, card.name, ids, width)
    left_out = np.isnan(vectors).all(axis=1) & bool(card.settings.get(LEAVES_OUT))
    kept = [key for key, is_out in zip(ids, left_out, strict=True) if not is_out]
    require_vectors(vectors[~left_out], card.name, kept, width)
    return vectors


def require_vectors(output: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """Return what an encoder gave, as (n, d) float32: a vector for each name, of one width with those before.

    A vector with NaN or infinity, or of zeros, would poison every score it enters, and is refused where it arises,
    before it is stored. A text without a word may have no direction: scores leave the blank prompt out then.
    """
    vectors = shaped_vectors(output, encoder, names, width)
    not_finite = ~np.isfinite(vectors).all(axis=1)
    zero = ~vectors.any(axis=1) & np.array([bool(name.strip()) for name in names], bool)
    for bad, what in ((not_finite, "not finite"), (zero, "zero, and have no direction")):
        if bad.any():
            raise NoVectorsError.not_finite(
                f"encoder {encoder}: {int(bad.sum())} of {len(vectors)} embeddings are {what}, first that of "
                f"{names[int(bad.argmax())]!r}: its weights are damaged, or too large for the precision it runs in"
            )
    return vectors


def require_same(first: np.ndarray, again: np.ndarray, card: Card, what: str) -> None:
    """Refuse an encoder that gives other vectors the second time, but for rounding: scores of it would mean nothing.

    ::

        |first − again| / |first| ≤ √ε        of the card's dtype, float32 where it names none
    """
    epsilon = EPSILON.get(str(card.settings.get("dtype")), EPSILON["float32"])
    first, again = np.nan_to_num(first), np.nan_to_num(again)
    lengths = np.maximum(np.linalg.norm(first, axis=1), np.finfo(np.float32).tiny)
    apart = float((np.linalg.norm(first.astype(float) - again, axis=1) / lengths).max(initial=0.0))
    if not apart <= epsilon**0.5:
        raise NoVectorsError.unsupported(
            f"encoder {card.name}: one {what}, embedded twice, gives vectors that are {apart:.2g} of their length "
            "apart: they are random in part"
        )


def shaped_vectors(output: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """Check an encoder's output, (n, d) float32: with one vector too few each image would get its neighbour's."""
    try:
        vectors = np.asarray(output)
        with np.errstate(over="ignore"):  # named below
            vectors = vectors.astype(np.float32) if vectors.dtype.kind in "fiu" else np.zeros(())
    except (TypeError, ValueError, RuntimeError):  # a ragged list, a tensor with its gradient or on a device
        vectors = np.zeros(())
    if vectors.ndim != 2 or len(vectors) != len(names) or vectors.shape[1] != (width or vectors.shape[1] or -1):
        shape = f" of {output.dtype}, {tuple(output.shape)}" if hasattr(output, "shape") else ""
        raise NoVectorsError.wrong_shape(
            f"encoder {encoder}: found {type(output).__name__}{shape}, expected an array of numbers, "
            f"({len(names)}, {width or 'dimension'}): a vector for each image or text, all of one length"
        )
    return vectors


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
    left_out : images of which another encoder has no vector.
    """

    def __init__(
        self, vectors: Vectors, encoder: str, keep: Collection[int] | None = None, left_out: Collection[str] = ()
    ) -> None:
        vectors.require_finished(encoder)
        self._vectors, self._encoder, self.keep = vectors, encoder, keep
        self._repeats = vectors.drawn.repeats() if keep is None else {}
        self._left_out = left_out
        self.repeats = Counter[Owner]()
        self._file, self._were_read = VectorFile(), set[int]()
        self._parts: dict[Owner, dict[int, None]] = {}
        for identifier, part, concept, group in vectors.planned.plan.rows("id", "part", "concept", "group"):
            self._parts.setdefault((concept, group), {})[part] = None
            self.repeats[concept, group] += identifier in self._repeats and identifier not in left_out

    def read(self, owners: Collection[Owner] | None = None) -> None:
        """Read the parts that hold images of some owners, or all parts, once.

        Raises
        ------
        RunCorruptError
            A file is damaged, or lacks an image.
        """
        wanted = {part for owner in (self._parts if owners is None else owners) for part in self._parts.get(owner, ())}
        parts = self._vectors.planned.parts
        missing = [part for part in parts if part in wanted - self._were_read]
        if not missing:
            return
        with self._vectors.directory.listed_once():
            for part, vectors in self._vectors.each_part(self._encoder, missing, self._file.width):
                self._vectors.require(self._encoder, vectors, [part])
                rows = [
                    (((concept, group), part), vectors[key])
                    for key, seed, concept, group in parts[part].rows("id", "seed", "concept", "group")
                    if key in vectors
                    and key not in self._repeats
                    and key not in self._left_out
                    and (self.keep is None or seed in self.keep)
                ]
                if rows:
                    keys, vectors_of_rows = zip(*rows, strict=True)
                    self._file.add(keys, np.stack(vectors_of_rows))
        self._were_read.update(missing)

    def of(self, owner: Owner) -> np.ndarray:
        """Return those of an owner whose parts were read, (n × dim) in the plan's order; n may be 0."""
        return self._file.rows([(owner, part) for part in self._parts.get(owner, ())], max(self._file.width, 1))


class NamedVectors(Mapping[Name, np.ndarray]):
    """Vectors of owners by other names, each read from the file whenever it is asked for."""

    def __init__(self, vectors: ImageVectors, owners: Mapping[Name, Owner]) -> None:
        self._vectors, self._owners = vectors, owners

    def __getitem__(self, name: Name) -> np.ndarray:
        return self._vectors.of(self._owners[name])

    def __iter__(self) -> Iterator[Name]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)
