"""Finished images behind the generator's protocol: to generate is to read.

They lie in a folder, or in a table: Parquet with an Image column, or a directory that ``datasets`` saved. Beside the
column ``image`` (the Hugging Face struct of bytes and path, or the files' bytes) a table has the columns of a manifest:
``concept``, ``group``, ``role``, ``prompt``, ``batch``, ``flagged``, as text or as class labels of ``datasets``. A
row's name is its file's and its number, such as ``train.parquet#7``. Portraits are read with the model that edits or
classifies them.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from clinometer._cores import available_cores
from clinometer._parquet import require_bounded
from clinometer.errors import ImportManifestError
from clinometer.models.files import COLUMNS, ManifestRow, manifest_row
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
from clinometer.models.protocols import (
    Card,
    Converts,
    Encoder,
    GenerationRequest,
    GenerationResult,
    Generator,
    Priced,
    offers,
)
from clinometer.models.weights import file_hash, hash_files, hash_of_hashes

MOST_THREADS = 16
"""The most threads that decode files."""

AT_ONCE = 8
"""Files that a thread decodes in one go, at most."""

AT_ONCE_BYTES = 2**24
"""The most memory that they may take, in bytes; a larger file is decoded alone."""

IMAGE = "image"
TABLES = (".parquet", ".arrow")

ROWS_AT_ONCE = 4
"""Rows of the image column that are held together."""

_COUNTING: Final = Lock()
"""Belongs to the module, so that a source can be sent to another process."""


class _FinishedImages:
    """The requests that finished images answer, and what a card says of the images."""

    def __init__(
        self, name: str, family: str, weights_sha256: str, rows: Sequence[ManifestRow], max_pixels: int
    ) -> None:  # fmt: skip
        self.batch_size = 32
        self.conversions: Counter[str] = Counter()  # what was done to images that are not plain RGB, and to how many
        self._max_pixels = max_pixels
        self._files = {row.file: row.file for row in rows}
        self._flagged = {row.file for row in rows if row.flagged}
        self._batches = {row.file: row.batch for row in rows if row.batch}
        self.card = Card(
            kind="generator",
            name=name,
            family=family,
            weights_sha256=weights_sha256,
            settings={"max_pixels": max_pixels} | marks_of(rows),
            notes={"images": len(self._files)},
        )

    def assign(self, files: Mapping[str, str]) -> None:
        """Assign the files to the requests that they answer, by their ids. Until then, a file's own path is its id."""
        self._files = dict(files)

    def _decode(self, request: GenerationRequest, file: str, source: bytes | Path, started: float) -> GenerationResult:
        decoding, content = decode_file(source, max_pixels=self._max_pixels)
        with _COUNTING:
            self.conversions.update(decoding.conversions)
        return GenerationResult(
            request.id, decoding.status, decoding.image, decoding.reason, perf_counter() - started, content,
            file in self._flagged, batch=self._batches.get(file),
        )  # fmt: skip


class FolderSource(_FinishedImages):
    """Finished images of a folder.

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
        self._directory = Path(directory)
        self._decoded: dict[str, int] = {}  # by file, as far as anybody asked
        hashes = hash_of_hashes(self._hashes([row.file for row in rows], max_pixels))
        super().__init__(name or self._directory.resolve().name, "folder", hashes, rows, max_pixels)

    def _hashes(self, files: Iterable[str], max_pixels: int) -> Iterator[tuple[Path, str]]:
        """Yield each file once with its hash. One that is too large fails unread, and to hash it may take hours."""
        for file in dict.fromkeys(files):
            path = self._directory / file
            content = at_hand(path)
            if not may_be_read(content, max_pixels):
                continue
            if isinstance(content, bytes):
                self._decoded[file] = decoded_bytes(content, max_pixels=max_pixels)
            yield path.relative_to(self._directory), sha256(content) if isinstance(content, bytes) else file_hash(path)

    def decoded_bytes(self, file: str) -> int:
        """Return what an image takes in memory once it is decoded: by its head, which is read once."""
        size = self._decoded.get(file)
        if size is None:
            size = self._decoded[file] = decoded_bytes(self._directory / file, max_pixels=self._max_pixels)
        return size

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield each request's image: "failed" where it cannot be read, "blank" where it has one colour."""
        chunks = in_order(
            lambda chunk: [self._read(request) for request in chunk],
            self._chunks(requests),
            weight=self._weight,
            most=DECODING_BYTES,
            workers=min(MOST_THREADS, available_cores()),
        )
        for results in chunks:
            yield from results

    def _chunks(self, requests: Iterable[GenerationRequest]) -> Iterator[list[GenerationRequest]]:
        """Yield a few small images at a time: each thread that is woken costs some of Python's time."""
        chunk: list[GenerationRequest] = []
        for request in requests:
            if chunk and (len(chunk) == AT_ONCE or self._weight([*chunk, request]) > AT_ONCE_BYTES):
                yield chunk
                chunk = []
            chunk.append(request)
        if chunk:
            yield chunk

    def _weight(self, requests: Iterable[GenerationRequest]) -> int:
        """Return what files may take in memory while they are decoded."""
        files = (self._files.get(request.id) for request in requests)
        return sum(self.decoded_bytes(file) // BYTES_A_PIXEL * PLAIN_BYTES for file in files if file is not None)

    def _read(self, request: GenerationRequest) -> GenerationResult:
        started = perf_counter()
        file = self._files.get(request.id)
        if file is None:
            return GenerationResult(request.id, "failed", None, "the manifest lists no image for it")
        return self._decode(request, file, self._directory / file, started)


def marks_of(rows: Sequence[ManifestRow]) -> dict[str, str]:
    """Return a card's settings for flagged pictures and batches: a hash of which they are, of each that there is."""
    marks: dict[str, list[Any]] = {
        "flagged": sorted(row.file for row in rows if row.flagged),
        "batches": sorted((row.file, row.batch) for row in rows if row.batch),
    }
    contents = {name: json.dumps(each).encode("utf-8", "surrogatepass") for name, each in marks.items() if each}
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in contents.items()}


Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], *, weight: Callable[[Item], int], most: int, workers: int
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


_NOTHING_OPEN: Final[tuple[str, Iterator[tuple[int, Any]]]] = ("", iter(()))
_NOTHING_READ: Final = ("", -1, None)


def dataset_files(place: Path) -> list[Path]:
    """Return the tables at a place: a Parquet file, or those of a directory; none where it holds no table.

    Left out is what is hidden (macOS puts ``._data.arrow`` beside a file, a download its copies under ``.cache``), and
    what ``datasets`` keeps for itself.
    """
    if place.is_file():
        return [place] if place.suffix in TABLES else []
    paths = [path for suffix in TABLES for path in sorted(place.rglob(f"*{suffix}"))]
    hidden = {path for path in paths if any(part.startswith(".") for part in path.relative_to(place).parts)}
    return [path for path in paths if path not in hidden and not path.name.startswith("cache-")]


class ImageDataset(_FinishedImages):
    """Finished images of a table.

    Parameters
    ----------
    place : a Parquet file, or a directory of Parquet files or of ``datasets``.
    name : the name in the card; the place's own by default.
    max_pixels : see `clinometer.models.images.decode_image`.

    Raises
    ------
    ImportManifestError
        There is no table, none with a row, or one without an Image column or with a row that is neither a concept nor
        a group.
    """

    def __init__(self, place: Path, *, name: str | None = None, max_pixels: int = MAX_PIXELS) -> None:
        self._root = place.parent if place.is_file() else place
        files = dataset_files(place)
        if not files:
            raise ImportManifestError.unreadable(
                f"{place}: it is an archive; unpack it, and name the folder"
                if zipfile.is_zipfile(place) or (place.is_file() and tarfile.is_tarfile(place))
                else f"{place}: found no Parquet or Arrow file; expected a table with a column 'image'"
            )
        self.rows = [row for path in files for row in self._rows_of(path)]
        if not self.rows:
            raise ImportManifestError.too_few(f"{place}: its tables hold no rows; expected one an image")
        own_name = place.stem if place.is_file() else place.resolve().name
        super().__init__(name or own_name, "dataset", hash_files(files, self._root), self.rows, max_pixels)
        self._open: tuple[str, Iterator[tuple[int, Any]]] = _NOTHING_OPEN
        self._last: tuple[str, int, Any] = _NOTHING_READ

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker is sent: it opens the tables itself."""
        return self.__dict__ | {"_open": _NOTHING_OPEN, "_last": _NOTHING_READ}

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield each request's image: "failed" where it cannot be read, "blank" where it has one colour."""
        for request in requests:
            started = perf_counter()
            row = self._files[request.id]
            content = self._content(row)
            if not content:
                reason = "the row holds no bytes; embed the images when you save the table"
                yield GenerationResult(request.id, "failed", None, reason)
                continue
            yield self._decode(request, row, content, started)

    def decoded_bytes(self, row: str) -> int:
        """Return what an image takes in memory once it is decoded."""
        return decoded_bytes(self._content(row) or b"", max_pixels=self._max_pixels)

    def _rows_of(self, path: Path) -> Iterator[ManifestRow]:
        file = path.relative_to(self._root).as_posix()
        table = _table(path, file, [name for name in COLUMNS if name != "file"])
        try:  # ``datasets`` stores a class label as a number, and the names of labels in the table's schema
            features = json.loads((table.schema.metadata or {})[b"huggingface"])["info"]["features"]
            labels = {name: each["names"] for name, each in features.items() if each.get("_type") == "ClassLabel"}
        except (KeyError, TypeError, ValueError, AttributeError):  # not from datasets, or of another form than known
            labels = {}
        for number, record in enumerate(table.to_pylist()):
            named = {key: dict(enumerate(names)).get(record[key]) for key, names in labels.items() if key in record}
            # an empty text, or the label −1, is nothing
            texts = {key: None if value == "" else value for key, value in {**record, **named}.items()}
            yield manifest_row(file, number + 1, texts | {"file": f"{file}#{number}"})

    def _content(self, row: str) -> bytes | None:
        """Return the bytes of an image's file. Rows are asked for in order, so a table is read a few rows at a time."""
        file, _, number = row.rpartition("#")
        if self._last[:2] != (file, int(number)):
            if self._open[0] != file or self._last[1] > int(number):
                self._open = (file, enumerate(_images(self._root / file)))
            cell = next(cell for position, cell in self._open[1] if position == int(number))
            self._last = (file, int(number), cell)
        cell = self._last[2].as_py()
        content: bytes | None = cell.get("bytes") if isinstance(cell, dict) else cell
        return content


def _images(path: Path) -> Iterator[pa.Scalar]:
    """Yield the image column's values: of Parquet a few rows at a time; an Arrow file is mapped, not read."""
    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as opened:
                for batch in opened.iter_batches(ROWS_AT_ONCE, columns=[IMAGE], use_threads=False):
                    yield from batch.column(0)
            return
        with pa.memory_map(str(path)) as source:
            for batch in pa.ipc.open_stream(source):
                yield from batch.column(IMAGE)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path.name, error) from error


def _unreadable(file: str, error: Exception) -> ImportManifestError:
    return ImportManifestError.unreadable(f"{file}: it cannot be read as a table ({type(error).__name__})")


def _table(path: Path, file: str, columns: list[str]) -> pa.Table:
    """Read some columns of a table, those that it has."""
    try:
        if path.suffix == ".parquet":
            with path.open("rb") as source, pq.ParquetFile(source) as opened:
                try:
                    require_bounded(opened, source)
                except pa.ArrowInvalid as error:
                    raise ImportManifestError.too_many(
                        f"{file}: {error}; images hardly shrink, so save the table again without what it repeats"
                    ) from error
                schema = opened.schema_arrow
                names = schema.names
                table = opened.read([name for name in columns if name in names])
        else:
            with pa.memory_map(str(path)) as source:
                whole = pa.ipc.open_stream(source).read_all()
            schema, names = whole.schema, whole.column_names
            table = whole.select([name for name in columns if name in names])
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error
    if IMAGE not in names or not {"concept", "group"} & set(names):
        raise ImportManifestError.missing(
            f"{file}: found the columns {', '.join(names)}; expected image, and concept or group"
        )
    kind = schema.field(IMAGE).type
    if not (pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ImportManifestError.wrong_type(
            f"{file}, image: found {kind}, expected the files' bytes, or a struct of bytes and path as `datasets` makes"
        )
    return table


class EmbeddedSource:
    """Finished images and their encoders as one generator, so that a worker has both."""

    def __init__(self, source: Converts, encoders: Sequence[Encoder]) -> None:
        self.card, self.batch_size, self.conversions = source.card, source.batch_size, source.conversions
        self.encoders, self.proven = tuple(encoders), set[str]()
        self._source = source

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Read images."""
        return self._source.generate(requests)


class PortraitSource:
    """Portraits from a folder, and what a model does with them, as one generator.

    It has ``editor`` or ``denoiser`` where the model has.
    """

    def __init__(self, folder: FolderSource, model: Generator) -> None:
        self._folder, self._model = folder, model
        self.batch_size = model.batch_size
        self.conversions = folder.conversions
        self.price_per_image = float(model.price_per_image) if offers(model, Priced) else 0.0
        portraits = {"name": folder.card.name, "sha256": folder.card.weights_sha256}
        self.card = replace(model.card, settings=model.card.settings | {"portraits": portraits})

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Read the portraits."""
        return self._folder.generate(requests)

    def __getattr__(self, name: str) -> Any:
        if name in {"editor", "denoiser", "weight_bytes"}:
            return getattr(self._model, name)
        raise AttributeError(name)
