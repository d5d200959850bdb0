"""Pictures of a run, small enough for a page: decoded under limits, drawn again, and kept.

What is served is never what a run holds: each image is decoded to pixels and encoded as WebP, so nothing that hides in
a file reaches a browser.
"""

from __future__ import annotations

import hashlib
import io
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from PIL import Image
from starlette.exceptions import HTTPException

from clinometer.errors import RunCorruptError
from clinometer.models.images import decode_image, sha256
from clinometer.runs import Run
from clinometer.runs.browse import Stored, read_through, stored_images
from clinometer.runs.ledger import samples_name
from clinometer.runs.storage import REDO
from clinometer.web.pages import Identifier
from clinometer.web.sample_index import IndexedSample, Samples

router = APIRouter()

Size = Literal["small", "medium", "large"]

SIDES: Final[dict[Size, int]] = {"small": 128, "medium": 256, "large": 1024}
"""Pixels of a picture's longer side, at most."""
MOST_KEPT: Final = 200_000
"""Pictures in the file, a few kilobytes each; beyond it the oldest go."""
AT_ONCE: Final = 2
"""Images decoded at a time: one may take half a gigabyte while it is."""
QUALITY: Final = 82

Batch = dict[int, tuple[str | None, bytes | None]]
"""Stored images by row: ids and bytes."""


class Album:
    """Pictures that were made, in a file beside the indices; by the hash of what they were made from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place = folder / "pictures.sqlite"
        self._decoding = threading.BoundedSemaphore(AT_ONCE)
        self._recent = _Recent()

    def picture(self, run: Run, sample: IndexedSample | Stored, size: Size) -> bytes | None:
        """Return a sample's picture as WebP; None where there is none or it cannot be decoded.

        Raises
        ------
        RunCorruptError
            It is not the image that was written.
        """
        key = f"{sample.sha256}/{size}"
        picture = self._cached(key)
        if picture is not None:
            return picture
        with self._decoding:
            content = self._recent.image(run, sample)
            picture = shrunk(content, SIDES[size]) if content and _is_of(content, sample) else None
        if picture is not None:
            self._keep(key, picture)
        return picture

    def make_ready(self, run: Run, images: Iterable[Stored], size: Size) -> None:
        """Render the pictures that are not cached yet, reading each part only once.

        Raises
        ------
        RunCorruptError
            A part cannot be read.
        """
        parts: dict[int, dict[int, Stored]] = {}
        for image in images:
            if image.sha256 and self._cached(f"{image.sha256}/{size}") is None:
                parts.setdefault(image.part, {})[image.row] = image
        for part, by_row in sorted(parts.items()):
            for row, content in read_through(run, part, by_row):
                with self._decoding:
                    picture = shrunk(content, SIDES[size]) if content and _is_of(content, by_row[row]) else None
                if picture is not None:
                    self._keep(f"{by_row[row].sha256}/{size}", picture)

    def _cached(self, key: str) -> bytes | None:
        query = "SELECT digest, content FROM kept WHERE key = ?"
        row = self._with_file(lambda database: database.execute(query, (key,)).fetchone())
        return row[1] if row and row[0] == _digest(key, row[1]) else None

    def _keep(self, key: str, content: bytes) -> None:
        row = (key, _digest(key, content), content)

        def keep(database: sqlite3.Connection) -> None:
            added = database.execute("INSERT OR REPLACE INTO kept (key, digest, content) VALUES (?, ?, ?)", row)
            database.execute("DELETE FROM kept WHERE number <= ?", ((added.lastrowid or 0) - MOST_KEPT,))

        self._with_file(keep)

    def _with_file(self, do: Callable[[sqlite3.Connection], Any]) -> Any:
        """Ask the file. One that is damaged goes, and what was asked of it is not done: a picture is made again."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with closing(sqlite3.connect(self._place, timeout=10)) as database, database:
                database.executescript(
                    "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
                    "CREATE TABLE IF NOT EXISTS kept "
                    "(number INTEGER PRIMARY KEY, key TEXT UNIQUE, digest BLOB, content BLOB);"
                )
                return do(database)
        except sqlite3.OperationalError:  # others write, or none can be written there: this picture is not kept
            return None
        except sqlite3.DatabaseError:
            for ending in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self._place.with_name(f"{self._place.name}{ending}").unlink(missing_ok=True)
            return None
        except OSError:
            return None


class _Recent:
    """The stored images that were read last: neighbours on a page are often neighbours in a part."""

    MOST: Final = 4
    MOST_BYTES: Final = 2**25
    """Of a batch that is held; a larger one is read again."""

    def __init__(self) -> None:
        self._batches: OrderedDict[tuple[str, int, int], Batch] = OrderedDict()
        self._lock = threading.Lock()

    def image(self, run: Run, sample: IndexedSample | Stored) -> bytes | None:
        """Return the stored bytes of a sample's image; None where they are another's by now."""
        with self._lock:
            of_part = (stored for key, stored in self._batches.items() if key[:2] == (run.url, sample.part))
            batch = next((stored for stored in of_part if stored.get(sample.row, ("", None))[0] == sample.id), None)
        if batch is None:
            batch = stored_images(run, sample.part, sample.row)
            if sum(len(content or b"") for _, content in batch.values()) <= self.MOST_BYTES:
                with self._lock:
                    self._batches[run.url, sample.part, min(batch)] = batch
                    while len(self._batches) > self.MOST:
                        self._batches.popitem(last=False)
        identifier, content = batch[sample.row]
        return content if identifier == sample.id else None


def _is_of(content: bytes, sample: IndexedSample | Stored) -> bool:
    """Return whether an image is the one that the index was made of: it may have been exchanged together with its hash.

    Raises
    ------
    RunCorruptError
        It is not.
    """
    if sample.sha256 and sha256(content) != sample.sha256:
        raise RunCorruptError(
            f"{samples_name(sample.part)}: image {sample.id} is not the one that was read before. {REDO}"
        )
    return True


def _digest(key: str, content: bytes) -> bytes:
    """Return what tells a picture that was kept from one that was damaged since."""
    return hashlib.blake2b(content, key=key.encode()[:64], digest_size=16).digest()


def shrunk(content: bytes, side: int) -> bytes | None:
    """Return an image as WebP of at most so many pixels a side; None where it is damaged or larger than is decoded."""
    decoded = decode_image(content).image
    if decoded is None:
        return None
    decoded.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    decoded.save(buffer, "WEBP", quality=QUALITY, method=2)
    return buffer.getvalue()


@router.get("/pictures/{run}/{sample}/{size}")
def picture(request: Request, run: Identifier, sample: Identifier, size: Size) -> Response:
    """Return one picture. Run and sample are looked up among those that are known."""
    entry = request.app.state.runs.get(run)
    with Samples(request.app.state.shelf.path(entry)) as samples:
        indexed_sample = samples.find(sample)
    if indexed_sample is None:
        raise HTTPException(404, "There is no such picture.")
    content = request.app.state.album.picture(entry.run, indexed_sample, size)
    if content is None:
        raise HTTPException(404, "There is no picture, or it cannot be decoded.")
    return Response(content, media_type="image/webp", headers={"Cache-Control": "private, max-age=86400"})
