"""Finished images in a table: Parquet with an Image column, or a directory that ``datasets`` saved.

Beside the column ``image`` (the Hugging Face struct of bytes and path, or the files' bytes) the table has the columns
of a manifest: ``concept``, ``group``, ``role``, ``prompt``, ``flagged``, as text or as class labels of ``datasets``. A
row's name is its file's and its number, such as ``train.parquet#7``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from clinometer._parquet import require_bounded
from clinometer.errors import ImportManifestError
from clinometer.models.files.folder import COLUMNS, ManifestRow, manifest_row
from clinometer.models.files.source import flags_of
from clinometer.models.images import MAX_PIXELS, decode_file, decoded_bytes
from clinometer.models.protocols import Card, GenerationRequest, GenerationResult
from clinometer.models.weights import hash_files

IMAGE = "image"
SUFFIXES = (".parquet", ".arrow")

AT_ONCE = 4
"""Rows of the image column that are held together."""

_NOTHING_OPEN: Final[tuple[str, Iterator[tuple[int, Any]]]] = ("", iter(()))
_NOTHING_READ: Final = ("", -1, None)


def dataset_files(place: Path) -> list[Path]:
    """The tables at a place: a Parquet file, or those of a directory; none where it holds no table.

    Left out is what is hidden (macOS puts ``._data.arrow`` beside a file, a download its copies under ``.cache``), and
    what ``datasets`` keeps for itself.
    """
    if place.is_file():
        return [place] if place.suffix in SUFFIXES else []
    paths = [path for suffix in SUFFIXES for path in sorted(place.rglob(f"*{suffix}"))]
    hidden = {path for path in paths if any(part.startswith(".") for part in path.relative_to(place).parts)}
    return [path for path in paths if path not in hidden and not path.name.startswith("cache-")]


class ImageDataset:
    """Finished images behind the generator's protocol: to generate is to read.

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
        self.batch_size = 32
        self.conversions: Counter[str] = Counter()  # as of `FolderSource`
        self._max_pixels = max_pixels
        self._root = place.parent if place.is_file() else place
        files = dataset_files(place)
        if not files:
            raise ImportManifestError(
                f"{place}: found no Parquet or Arrow file; expected a table with a column 'image'"
            )
        self.rows = [row for path in files for row in self._rows_of(path)]
        if not self.rows:
            raise ImportManifestError(f"{place}: its tables hold no rows; expected one an image")
        self._rows = {row.file: row.file for row in self.rows}
        self._flagged = {row.file for row in self.rows if row.flagged}
        self.card = Card(
            kind="generator",
            name=name or (place.stem if place.is_file() else place.resolve().name),
            family="dataset",
            weights_sha256=hash_files(files, self._root),
            settings={"max_pixels": max_pixels} | flags_of(self.rows),
            notes={"images": len(self.rows)},
        )
        self._open: tuple[str, Iterator[tuple[int, Any]]] = _NOTHING_OPEN
        self._last: tuple[str, int, Any] = _NOTHING_READ

    def __getstate__(self) -> dict[str, Any]:
        """What a worker is sent: it opens the tables itself."""
        return self.__dict__ | {"_open": _NOTHING_OPEN, "_last": _NOTHING_READ}

    def assign(self, files: Mapping[str, str]) -> None:
        """Say which row answers which request, by its id."""
        self._rows = dict(files)

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield each request's image: "failed" where it cannot be read, "blank" where it has one colour."""
        for request in requests:
            started = perf_counter()
            row = self._rows[request.id]
            content = self._content(row)
            if not content:
                reason = "the row holds no bytes; embed the images when you save the table"
                yield GenerationResult(request.id, "failed", None, reason)
                continue
            decoding, original = decode_file(content, max_pixels=self._max_pixels)
            self.conversions.update(decoding.conversions)
            seconds = perf_counter() - started
            flagged = row in self._flagged
            yield GenerationResult(
                request.id, decoding.status, decoding.image, decoding.reason, seconds, original, flagged
            )

    def decoded_bytes(self, row: str) -> int:
        """What an image takes in memory once it is decoded."""
        return decoded_bytes(self._content(row) or b"", max_pixels=self._max_pixels)

    def _rows_of(self, path: Path) -> Iterator[ManifestRow]:
        file = path.relative_to(self._root).as_posix()
        table = _table(path, file, [name for name in COLUMNS if name != "file"])
        labels = _class_labels(table.schema)
        for number, record in enumerate(table.to_pylist()):
            yield manifest_row(file, number + 1, _texts(record, labels) | {"file": f"{file}#{number}"})

    def _content(self, row: str) -> bytes | None:
        """An image's file. Rows are asked for in their order, so a table is read through, a few rows at a time."""
        file, _, number = row.rpartition("#")
        if self._last[:2] != (file, int(number)):
            if self._open[0] != file or self._last[1] > int(number):
                self._open = (file, enumerate(_images(self._root / file)))
            cell = next(cell for position, cell in self._open[1] if position == int(number))
            self._last = (file, int(number), cell)
        cell = self._last[2].as_py()
        content: bytes | None = cell.get("bytes") if isinstance(cell, dict) else cell
        return content


def _texts(record: Mapping[str, Any], labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A row's values: a class label by its name; an empty text, or the label −1, is nothing."""
    named = {key: dict(enumerate(names)).get(record[key]) for key, names in labels.items() if key in record}
    return {key: None if value == "" else value for key, value in {**record, **named}.items()}


def _class_labels(schema: pa.Schema) -> dict[str, list[str]]:
    """The names of class labels by column: ``datasets`` stores numbers, and their names in the table's schema."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {key: feature["names"] for key, feature in features.items() if feature.get("_type") == "ClassLabel"}
    except (KeyError, TypeError, ValueError, AttributeError):  # not from datasets, or of another form than known
        return {}


def _images(path: Path) -> Iterator[pa.Scalar]:
    """The image column's values: of Parquet a few rows at a time; an Arrow file is mapped, not read."""
    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as opened:
                for batch in opened.iter_batches(AT_ONCE, columns=[IMAGE], use_threads=False):
                    yield from batch.column(0)
            return
        with pa.memory_map(str(path)) as source:
            for batch in pa.ipc.open_stream(source):
                yield from batch.column(IMAGE)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path.name, error) from error


def _unreadable(file: str, error: Exception) -> ImportManifestError:
    return ImportManifestError(f"{file}: it cannot be read as a table ({type(error).__name__})")


def _require_no_bomb(opened: pq.ParquetFile, source: Any, file: str) -> None:
    try:
        require_bounded(opened, source)
    except pa.ArrowInvalid as error:
        raise ImportManifestError(
            f"{file}: {error}; images hardly shrink, so save the table anew without what it repeats"
        ) from error


def _table(path: Path, file: str, columns: list[str]) -> pa.Table:
    """Read some columns of a table, those that it has."""
    try:
        if path.suffix == ".parquet":
            with path.open("rb") as source, pq.ParquetFile(source) as opened:
                _require_no_bomb(opened, source, file)
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
        raise ImportManifestError(f"{file}: found the columns {', '.join(names)}; expected image, and concept or group")
    kind = schema.field(IMAGE).type
    if not (pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ImportManifestError(
            f"{file}, image: found {kind}, expected the files' bytes, or a struct of bytes and path as `datasets` makes"
        )
    return table
