"""Finished images in a table: Parquet with an Image column, or a directory that ``datasets`` saved.

Beside the column ``image`` (the Hugging Face struct of bytes and path, or the files' bytes) the table has the columns
of a manifest: ``concept``, ``group``, ``role``, ``prompt``, as text or as class labels of ``datasets``. A row's name is
its file's and its number, such as ``train.parquet#7``.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clinometer.errors import ImportManifestError
from clinometer.models.folder import COLUMNS, ManifestRow, manifest_row
from clinometer.models.images import MAX_PIXELS, decode_image
from clinometer.models.protocols import Card, GenerationRequest, GenerationResult
from clinometer.models.weights import hash_files

IMAGE = "image"
SUFFIXES = (".parquet", ".arrow")


def dataset_files(place: Path) -> list[Path]:
    """The tables at a place: a Parquet file, or those of a directory; none where it holds no table.

    Left out is what is hidden (macOS puts ``._data.arrow`` beside a file, a download its copies under ``.cache``), and
    what ``datasets`` keeps for itself.
    """
    if place.is_file():
        return [place] if place.suffix in SUFFIXES else []
    found = [path for suffix in SUFFIXES for path in sorted(place.rglob(f"*{suffix}"))]
    hidden = {path for path in found if any(part.startswith(".") for part in path.relative_to(place).parts)}
    return [path for path in found if path not in hidden and not path.name.startswith("cache-")]


class ImageDataset:
    """Finished images behind the generator's protocol: to generate is to read.

    Parameters
    ----------
    place : a Parquet file, or a directory of Parquet files or of ``datasets``.
    name : the name in the card; the place's own by default.

    Raises
    ------
    ImportManifestError
        There is no table, none with a row, or one without an Image column or with a row that is neither a concept nor
        a group.
    """

    def __init__(self, place: Path, *, name: str | None = None) -> None:
        self.batch_size = 32
        self.conversions: Counter[str] = Counter()  # as of `FolderSource`
        self._place = place
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
        self.card = Card(
            kind="generator",
            name=name or (place.stem if place.is_file() else place.resolve().name),
            family="dataset",
            weights_sha256=hash_files(files, self._root),
            settings={"max_pixels": MAX_PIXELS},
            notes={"images": len(self.rows)},
        )
        self._starts = lru_cache(_row_group_starts)
        self._images = lru_cache(maxsize=1)(self._read_images)

    def assign(self, files: Mapping[str, str]) -> None:
        """Say which row answers which request, by its id."""
        self._rows = dict(files)

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield each request's image: "failed" where it cannot be read, "blank" where it has one colour."""
        for request in requests:
            started = perf_counter()
            file, _, number = self._rows[request.id].rpartition("#")
            held = self._held(file, int(number))
            content = held.get("bytes") if isinstance(held, dict) else held
            if not content:
                reason = "the row holds no bytes; embed the images when you save the table"
                yield GenerationResult(request.id, "failed", None, reason)
                continue
            found = decode_image(content)
            self.conversions.update(found.conversions)
            yield GenerationResult(request.id, found.status, found.image, found.reason, perf_counter() - started)

    def _rows_of(self, path: Path) -> Iterator[ManifestRow]:
        file = path.relative_to(self._root).as_posix()
        table = _table(path, file, [name for name in COLUMNS if name != "file"])
        labels = _class_labels(table.schema)
        for number, record in enumerate(table.to_pylist()):
            yield manifest_row(file, number + 1, _texts(record, labels) | {"file": f"{file}#{number}"})

    def _held(self, file: str, number: int) -> Any:
        """The image column's value in a row. One row group is held at a time: a file may be larger than memory."""
        starts = self._starts(self._root / file)
        group = bisect_right(starts, number) - 1
        return self._images(file, group)[number - starts[group]].as_py()

    def _read_images(self, file: str, group: int) -> pa.ChunkedArray:
        return _table(self._root / file, file, [IMAGE], group).column(IMAGE)


def _texts(record: Mapping[str, Any], labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A row's values: a class label by its name; an empty text, or the label −1, is nothing."""
    named = {key: dict(enumerate(names)).get(record[key]) for key, names in labels.items() if key in record}
    return {key: None if value == "" else value for key, value in {**record, **named}.items()}


def _class_labels(schema: pa.Schema) -> dict[str, list[str]]:
    """The names of class labels by column: ``datasets`` stores numbers, and their names in the table's schema."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {key: each["names"] for key, each in features.items() if each.get("_type") == "ClassLabel"}
    except (KeyError, TypeError, ValueError, AttributeError):  # not from datasets, or of another form than known
        return {}


def _row_group_starts(path: Path) -> list[int]:
    """The first row of each row group of a Parquet file; an Arrow file is mapped, not read, and is one group."""
    if path.suffix != ".parquet":
        return [0]
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return [0, *accumulate(sizes[:-1])]


def _table(path: Path, file: str, columns: list[str], group: int | None = None) -> pa.Table:
    """Read some columns of a table, those that it has; of a Parquet file one row group, or all."""
    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as opened:
                schema = opened.schema_arrow
                known = schema.names
                names = [name for name in columns if name in known]
                table = opened.read(names) if group is None else opened.read_row_group(group, names)
        else:
            with pa.memory_map(str(path)) as source:
                whole = pa.ipc.open_stream(source).read_all()
            schema, known = whole.schema, whole.column_names
            table = whole.select([name for name in columns if name in known])
    except (pa.ArrowException, OSError) as error:
        raise ImportManifestError(f"{file}: it cannot be read as a table ({type(error).__name__})") from error
    if IMAGE not in known or not {"concept", "group"} & set(known):
        raise ImportManifestError(f"{file}: found the columns {', '.join(known)}; expected image, and concept or group")
    kind = schema.field(IMAGE).type
    if not (pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ImportManifestError(
            f"{file}, image: found {kind}, expected the files' bytes, or a struct of bytes and path as `datasets` makes"
        )
    return table
