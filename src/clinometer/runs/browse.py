"""Read a run piece by piece to show its images: the memory this takes does not grow with the run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import nan
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.runs.ledger import RECORD, samples_name, vectors_name
from clinometer.runs.run import Run
from clinometer.runs.samples import ADDED, SAMPLE_SHAPE, WITHOUT_PIXELS, checked_image
from clinometer.runs.storage import REDO, Directory
from clinometer.stats.association import nearest_group, unit_vectors

_STAMPS: Final = ("size", "mtime", "LastModified", "last_modified", "updated", "ETag", "etag")
"""What filesystems say of a file that changes with it."""
_ROWS: Final = 8
"""Images read at once on the way to the one that is wanted."""


@dataclass(frozen=True)
class Stored:
    """Where an image is in its run, and the hash of its bytes; empty where there is no image."""

    id: str
    part: int
    row: int
    sha256: str


def found_below(place: str, *, depth: int = 4, most_folders: int = 20_000) -> Iterator[Directory]:
    """Run directories at a place or below it, nearest first; hidden folders and links are not followed."""
    level, looked_at = [Directory(place)], 0
    for _ in range(depth + 1):
        below: list[Directory] = []
        for directory in level:
            looked_at += 1
            try:
                is_run = directory.exists(RECORD)
            except RunCorruptError:  # one that cannot be read is shown with the reason
                is_run = True
            if is_run:
                yield directory
                continue
            entries: list[dict[str, Any]] = []
            with suppress(OSError):  # not a folder, or not readable
                entries = directory.fs.ls(directory.root, detail=True) if looked_at <= most_folders else []
            names = sorted(
                entry["name"].rstrip("/").rsplit("/", 1)[-1]
                for entry in entries
                if entry["type"] == "directory" and not entry.get("islink")
            )
            base = directory.url.rstrip("/")
            below += [Directory(f"{base}/{name}") for name in names if not name.startswith(".")]
        level = below


def stamp_of(directory: Directory) -> str:
    """Return a text that changes when a run's record does, or when parts are added to it."""
    stamps = []
    for name in (RECORD, "samples", "report.html"):
        with suppress(OSError):
            info = directory.fs.info(directory.path(name))
            stamps.append("/".join(str(info[key]) for key in _STAMPS if key in info))
    return " ".join(stamps)


def stored_in(run: Run, part: int) -> dict[str, Stored]:
    """Return where the images of a part are stored, by id; no pixels are read.

    Raises
    ------
    RunCorruptError, RunNotFoundError
        The part is not what was written, or is not there.
    """
    table = run.ledger.read_table(samples_name(part), ["id", "sha256"])
    rows = zip(table["id"].to_pylist(), table["sha256"].to_pylist(), strict=True)
    return {identifier: Stored(identifier, part, row, digest or "") for row, (identifier, digest) in enumerate(rows)}


def read_through(run: Run, part: int, rows: Collection[int]) -> Iterator[tuple[int, bytes | None]]:
    """Yield the stored images of some rows of a part, in order; it is read once, a few rows at a time.

    Raises
    ------
    RunCorruptError
        One is not what was written, or the part cannot be read.
    """
    wanted, path = set(rows), run.directory.path(samples_name(part))
    for first, batch in _batches(run, part):
        for row in sorted(wanted & set(range(first, first + batch.num_rows))):
            yield row, checked_image(batch.slice(row - first, 1).to_pylist()[0], path)


def _batches(run: Run, part: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the images of a part, a few rows at a time, each time with the number of the first row."""
    first = 0
    for batch in run.ledger.read_batches(samples_name(part), ["id", "sha256", "image.bytes"], _ROWS):
        yield first, batch
        first += batch.num_rows


def stored_images(run: Run, part: int, row: int) -> dict[int, tuple[str | None, bytes | None]]:
    """Return a few stored images of a part around ``row``, by row: its id and its bytes, or None.

    The part is read a few rows at a time, as far as the one that is wanted.

    Raises
    ------
    RunCorruptError
        One is not what was written, or the part cannot be read.
    """
    path = run.directory.path(samples_name(part))
    for first, batch in _batches(run, part):
        if row < first + batch.num_rows:
            return {at: (image["id"], checked_image(image, path)) for at, image in enumerate(batch.to_pylist(), first)}
    raise RunCorruptError(f"{path}: cannot be read (it has fewer rows than it had). {REDO}")


# --- What an encoder sees in single images ---------------------------------------------------------------------------
#
# As which group each reads, by how much, and how typical each is of its own.
#
# Of an image x and the words W_g of each group that a suite compares::
#
#     r_g(x) = mean_{w∈W_g} cos(x, w)        reads as argmax_g r_g,   margin = largest − second largest
#
# Of two groups the margin is |s(x, A, B)|, the association that the share of a target's images is counted from, so
# that as many images read as A as the report says. And among the images I of the same concept, or of the same group::
#
#     typicality(x) = cos(x, mean_{i∈I} î)   in [−1, 1]
#
# A part of a run is read at a time: what is held grows with concepts and groups.


Owner = tuple[str, str]
"""Whose image it is: its role, and its concept; of a role without concepts its group."""

_PART: Final = re.compile(r"samples/part-(\d{5,9})\.parquet")


@dataclass(frozen=True)
class Reading:
    """What an encoder sees in one image.

    Attributes
    ----------
    group : as which it reads; empty where the encoder or the suite has no words to read by.
    margin : by how much, from 0; NaN without a group.
    typicality : cosine with the mean of its owner's images.
    """

    group: str
    margin: float
    typicality: float


@dataclass(frozen=True)
class Piece:
    """A part of a run: its number, and the columns of its samples."""

    part: int
    columns: dict[str, list[Any]]

    @property
    def owners(self) -> list[Owner]:
        """Whose image each is."""
        roles, concepts, groups = (self.columns[name] for name in ("role", "concept", "group"))
        return [(str(r or ""), str(c or g or "")) for r, c, g in zip(roles, concepts, groups, strict=True)]


def part_numbers(run: Run) -> list[int]:
    """Return numbers of the parts whose images are there."""
    matches = map(_PART.fullmatch, run.directory.names("samples", ".parquet"))
    return [int(match[1]) for match in matches if match is not None]


def piece_of(run: Run, part: int) -> Piece:
    """Return one part's samples without their pixels.

    Raises
    ------
    RunCorruptError, RunNotFoundError
        It is not what was written, or is there no more.
    """
    table = run.ledger.read_table(samples_name(part), WITHOUT_PIXELS, like=SAMPLE_SHAPE, added=ADDED)
    return Piece(part, {name: table[name].to_pylist() for name in WITHOUT_PIXELS})


class Reader:
    """One encoder's readings of a run, in two passes: ``learn`` every part, then ``read`` them in any order.

    Parameters
    ----------
    words : of the groups that images are read as; a study names them.
    """

    def __init__(self, run: Run, encoder: str, words: Mapping[str, Sequence[str]]) -> None:
        self._run = run
        self.encoder = encoder
        try:
            texts = run.texts(encoder) if words else {}
        except RunNotFoundError:  # the encoder has not come to them
            texts = {}
        has_all = all(word in texts for group in words.values() for word in group)
        self.groups: tuple[str, ...] = tuple(words) if has_all else ()
        """Those that images are read as; none where a word of theirs is not embedded."""
        self._words = [
            unit_vectors(np.stack([texts[word] for word in words[name]])).mean(axis=0) for name in self.groups
        ]
        self._sums: dict[Owner, np.ndarray] = {}

    def learn(self, piece: Piece) -> None:
        """Add a part's images to the means of their owners."""
        rows, units = self._vectors(piece)
        for owner, rows_of_owner in _by_owner(piece, rows):
            self._sums[owner] = self._sums.get(owner, 0.0) + units[rows_of_owner].sum(axis=0)

    def read(self, piece: Piece) -> Iterator[tuple[int, Reading]]:
        """Yield what it sees in the images of a part, each with its row; those that it did not see are left out."""
        rows, units = self._vectors(piece)
        if not len(rows):
            return
        groups, margins = [""] * len(units), np.full(len(units), nan)
        if self.groups:
            cosines = units @ np.stack(self._words).T
            ranked = np.sort(cosines, axis=1)
            groups, margins = [self.groups[g] for g in nearest_group(cosines)], ranked[:, -1] - ranked[:, -2]
        typicality = np.full(len(rows), nan)
        for owner, rows_of_owner in _by_owner(piece, rows):
            if owner in self._sums:  # else its images were embedded since
                length = float(np.linalg.norm(self._sums[owner]))
                if length:  # else their mean has no direction
                    typicality[rows_of_owner] = units[rows_of_owner] @ self._sums[owner] / length
        for row, *cells in zip(rows.tolist(), groups, margins.tolist(), typicality.tolist(), strict=True):
            yield row, Reading(*cells)

    def _vectors(self, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of a part's images that the encoder saw, and their unit vectors."""
        name = vectors_name(self.encoder, piece.part)
        if not self._run.directory.exists(name):
            return np.zeros(0, int), np.zeros((0, 1))
        by_id = self._run.vectors.of_part(self.encoder, piece.part)
        vectors = np.stack([*by_id.values()]) if by_id else np.zeros((0, 1), np.float32)
        row_of = {identifier: row for row, identifier in enumerate(piece.columns["id"])}
        rows = np.array([row_of.get(identifier, -1) for identifier in by_id], int)
        whole = (rows >= 0) & np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)  # others have no direction
        units = unit_vectors(vectors[whole], name="vector") if whole.any() else np.zeros((0, vectors.shape[1]))
        return rows[whole], units


def _by_owner(piece: Piece, rows: np.ndarray) -> Iterator[tuple[Owner, np.ndarray]]:
    """Yield each owner among some rows of a part, and which of the rows are its own."""
    owners = piece.owners
    codes = {owner: code for code, owner in enumerate(dict.fromkeys(owners))}
    row_codes = np.array([codes[owner] for owner in owners], int)[rows]
    for owner, code in codes.items():
        rows_of_owner = np.flatnonzero(row_codes == code)
        if len(rows_of_owner):
            yield owner, rows_of_owner
