"""A folder of finished images as a generator: to generate is to read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Final, TypeVar

from clinometer._cores import available_cores
from clinometer.models.abilities import Converts
from clinometer.models.files.folder import ManifestRow
from clinometer.models.images import (
    BYTES_A_PIXEL,
    DECODING_BYTES,
    MAX_PIXELS,
    PLAIN_BYTES,
    at_hand,
    decode_file,
    decoded_bytes,
    may_be_read,
    sha256,
)
from clinometer.models.protocols import Card, Encoder, GenerationRequest, GenerationResult
from clinometer.models.weights import file_hash, hash_of_hashes

MOST_THREADS = 16
"""That decode files."""

AT_ONCE = 8
"""Files that a thread decodes in one go, at most."""

AT_ONCE_BYTES = 2**24
"""What they may take in memory; a larger one is decoded alone."""

_COUNTING: Final = Lock()
"""Of the module, so that a source can be sent to another process."""


class FolderSource:
    """Finished images behind the generator's protocol: to generate is to read.

    Parameters
    ----------
    directory : the folder.
    rows : its manifest, as `read_manifest` returns it.
    name : the name in the card; the folder's own by default.
    max_pixels : see `clinometer.models.images.decode_image`.
    """

    def __init__(
        self,
        directory: Path | str,
        rows: Sequence[ManifestRow],
        *,
        name: str | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.batch_size = 32
        self.conversions: Counter[str] = Counter()  # what was done to images that are not plain RGB, and to how many
        self._directory = Path(directory)
        self._max_pixels = max_pixels
        self._files = {row.file: row.file for row in rows}
        self._flagged = {row.file for row in rows if row.flagged}
        self._decoded: dict[str, int] = {}  # by file, as far as anybody asked
        self.card = Card(
            kind="generator",
            name=name or self._directory.resolve().name,
            family="folder",
            weights_sha256=hash_of_hashes(self._hashes()),
            settings={"max_pixels": max_pixels} | flags_of(rows),
            notes={"images": len(self._files)},
        )

    def _hashes(self) -> Iterator[tuple[Path, str]]:
        """Each file with its hash. One that is too large fails unread, and to hash it may take hours."""
        for file in self._files:
            path = self._directory / file
            content = at_hand(path)
            if not may_be_read(content, self._max_pixels):
                continue
            if isinstance(content, bytes):
                self._decoded[file] = decoded_bytes(content, max_pixels=self._max_pixels)
            yield path.relative_to(self._directory), sha256(content) if isinstance(content, bytes) else file_hash(path)

    def assign(self, files: Mapping[str, str]) -> None:
        """Say which file answers which request, by its id. Until then, a file's own path is its id."""
        self._files = dict(files)

    def decoded_bytes(self, file: str) -> int:
        """What an image takes in memory once it is decoded: by its head, which is read once."""
        size = self._decoded.get(file)
        if size is None:
            size = self._decoded[file] = decoded_bytes(self._directory / file, max_pixels=self._max_pixels)
        return size

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield each request's image: "failed" where it cannot be read, "blank" where it has one colour."""
        chunks = in_order(
            self._read_all,
            self._chunks(requests),
            weight=self._weight,
            most=DECODING_BYTES,
            workers=min(MOST_THREADS, available_cores()),
        )
        for results in chunks:
            yield from results

    def _chunks(self, requests: Iterable[GenerationRequest]) -> Iterator[list[GenerationRequest]]:
        """A few small images at a time: each thread that is woken costs some of Python's time."""
        chunk: list[GenerationRequest] = []
        for request in requests:
            if chunk and (len(chunk) == AT_ONCE or self._weight([*chunk, request]) > AT_ONCE_BYTES):
                yield chunk
                chunk = []
            chunk.append(request)
        if chunk:
            yield chunk

    def _weight(self, requests: Iterable[GenerationRequest]) -> int:
        """What files may take in memory while they are decoded."""
        files = (self._files.get(request.id) for request in requests)
        return sum(self.decoded_bytes(file) // BYTES_A_PIXEL * PLAIN_BYTES for file in files if file is not None)

    def _read_all(self, requests: Sequence[GenerationRequest]) -> list[GenerationResult]:
        return [self._read(request) for request in requests]

    def _read(self, request: GenerationRequest) -> GenerationResult:
        started = perf_counter()
        file = self._files.get(request.id)
        if file is None:
            return GenerationResult(request.id, "failed", None, "the manifest lists no image for it")
        decoding, content = decode_file(self._directory / file, max_pixels=self._max_pixels)
        with _COUNTING:
            self.conversions.update(decoding.conversions)
        seconds, flagged = perf_counter() - started, file in self._flagged
        return GenerationResult(request.id, decoding.status, decoding.image, decoding.reason, seconds, content, flagged)


def flags_of(rows: Iterable[ManifestRow]) -> dict[str, str]:
    """What a card's settings say of flagged pictures: a hash of which they are; nothing where none is."""
    flagged = sorted(row.file for row in rows if row.flagged)
    content = json.dumps(flagged).encode("utf-8", "surrogatepass")
    return {"flagged": hashlib.sha256(content).hexdigest()[:16]} if flagged else {}


Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    weight: Callable[[Item], int],
    most: int,
    workers: int,
) -> Iterator[Result]:
    """Yield the work's result for each item, in the items' order, made ahead by some threads.

    Parameters
    ----------
    weight : of an item, from before its work begins until its result is taken.
    most : what the items at work or waiting weigh together; an item that weighs more is alone.
    workers : threads; twice as many items are taken ahead at most.
    """
    pending: deque[tuple[Future[Result], int]] = deque()
    total = 0
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            item_weight = weight(item)
            while pending and (total + item_weight > most or len(pending) >= 2 * workers):
                future, first_weight = pending.popleft()
                yield future.result()
                total -= first_weight
            pending.append((pool.submit(work, item), item_weight))
            total += item_weight
        while pending:
            yield pending.popleft()[0].result()


class EmbeddedSource:
    """Finished images and their encoders as one generator, so that a worker has both at hand."""

    def __init__(self, source: Converts, encoders: Sequence[Encoder]) -> None:
        self.card, self.batch_size, self.conversions = source.card, source.batch_size, source.conversions
        self.encoders, self.proven = tuple(encoders), set[str]()
        self._source = source

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Read images."""
        return self._source.generate(requests)
