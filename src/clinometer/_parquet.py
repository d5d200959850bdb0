"""How much memory a Parquet table needs, computed before it is read: 458 bytes can unfold to 7.5 GB.

A footer may be wrong, and Arrow trusts it. So the sizes of pages are read from their own headers, by which Arrow
allocates memory, and the bytes of a dictionary's texts are counted before they are written out. See decision 29.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

MOST_ROWS: Final = 2**20
"""Rows of a small file. In a larger one each takes a byte or more: ids and hashes hardly shrink."""

MOST_UNFOLDED: Final = (2**28, 64)
"""Bytes unfolded, and times as many as the file has: a table with fewer is no bomb."""

_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_PLAIN: Final = frozenset({0, 6})
"""Encodings of texts that are as large in a page as in memory: PLAIN and DELTA_LENGTH_BYTE_ARRAY."""
_DICTIONARY: Final = frozenset({2, 8})
_HEADER: Final = 2**16
"""Bytes of a page's header, at most."""


def require_bounded(opened: pq.ParquetFile, file: Any, columns: Collection[str] | None = None) -> None:
    """Refuse a table with more rows, or with columns that unfold to more bytes, than is plausible for the file's size.

    ``file`` : the same file, which can be sought and read; ``columns`` : those that will be read, all by default.

    Raises
    ------
    ArrowInvalid
        The message names the column, its bytes and those of the file.
    """
    size, metadata = file.seek(0, 2), opened.metadata
    if metadata.num_rows > max(MOST_ROWS, size):
        raise pa.ArrowInvalid(f"it has {metadata.num_rows:,} rows in {size:,} bytes")
    wanted = None if columns is None else {name.partition(".")[0] for name in columns}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    unfolded, doubtful = 0, dict[str, int]()
    for column in (group.column(number) for group in groups for number in range(group.num_columns)):
        path, n = column.path_in_schema, column.num_values
        if n == 0 or (wanted is not None and path.partition(".")[0] not in wanted):
            continue  # Arrow reads as many cells as the footer says, and no page where it says 0
        pages = list(_page_headers(file, column))
        n_bytes, width = sum(page[2] for page in pages), _WIDTHS.get(column.physical_type, 0)
        unfolded += max(n_bytes, n * (width or 8))  # each text needs at least its offset
        _require_fewer(unfolded, size, path)
        encodings = {header[place] for page in pages for key, place in ((5, 2), (8, 4)) if (header := page.get(key))}
        if not width and not encodings <= _PLAIN:
            known = encodings <= _PLAIN | _DICTIONARY
            doubtful[path] = doubtful.get(path, 0) + (n * n_bytes if known else max(n, 1) * max(n_bytes, size))
            if not known:
                _require_fewer(doubtful[path], size, path)
    for path in doubtful if sum(doubtful.values()) > MOST_UNFOLDED[0] else ():
        as_dictionary = pq.ParquetFile(file, read_dictionary=[path], pre_buffer=False)
        chunks = as_dictionary.read([path], use_threads=False).column(0).chunks
        unfolded += sum(map(_count_unfolded, chunks))
        _require_fewer(unfolded, size, path)


def _require_fewer(unfolded: int, size: int, path: str) -> None:
    least, times = MOST_UNFOLDED
    if unfolded > max(least, times * size):
        raise pa.ArrowInvalid(f"with its column {path!r} it unfolds to {unfolded:,} bytes, from {size:,}")


def _count_unfolded(array: pa.Array) -> int:
    """Count the bytes of an array once the texts of its dictionaries are written out."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.fill_null(pc.binary_length(array.dictionary), 0)
        return int(pc.sum(pc.take(lengths, array.indices.drop_null())).as_py() or 0)
    if pa.types.is_struct(array.type):
        return sum(map(_count_unfolded, array.flatten()))
    return (
        _count_unfolded(array.flatten())
        if hasattr(array, "flatten") and pa.types.is_nested(array.type)
        else array.nbytes
    )


# --- page headers, which pyarrow does not show -----------------------------------------------------------------------


def _page_headers(file: Any, column: pq.ColumnChunkMetaData) -> Iterator[dict[int, Any]]:
    """Yield the headers of a column's pages as Parquet numbers their fields: 2 the bytes unfolded, 3 those packed."""
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end = at + column.total_compressed_size
    while at < end:
        file.seek(at)
        content = bytes(file.read(min(_HEADER, end - at)))
        try:
            header, length = _page_header(content)
            at += length + header[3]
        except (IndexError, KeyError) as error:
            raise pa.ArrowInvalid(f"its column {column.path_in_schema!r} has a page without a header") from error
        if header[3] < 0 or header.get(2, -1) < 0:
            raise pa.ArrowInvalid(f"its column {column.path_in_schema!r} has a page of less than no bytes")
        yield header


def _page_header(content: bytes) -> tuple[dict[int, Any], int]:
    """Return a page's header and its length: the fields by number, as Thrift's compact protocol writes a structure."""
    fields, number, outer, at = dict[int, Any](), 0, list[tuple[dict[int, Any], int]](), 0
    while True:
        kind, step = content[at] & 15, content[at] >> 4
        at += 1
        if kind == step == 0:  # the end of a structure
            if not outer:
                return fields, at
            fields, number = outer.pop()
            continue
        if step:
            number += step
        else:
            number, at = _thrift_value(content, at, _INTEGER)
        if kind == _STRUCTURE:
            fields[number] = inner = dict[int, Any]()
            outer.append((fields, number))
            fields, number = inner, 0
        else:
            fields[number], at = _thrift_value(content, at, kind)


_INTEGER: Final = 5
_STRUCTURE: Final = 12


def _thrift_value(content: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return the value of a kind at a place, and where it ends; None in place of texts and fractions."""
    if kind in (1, 2):  # the kind of a Boolean is its value
        return kind == 1, at
    if kind == 3:
        return content[at], at + 1
    if kind == 7:
        return None, at + 8
    if kind not in (4, _INTEGER, 6, 8):
        raise KeyError(kind)  # lists and maps: a page's header has none
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return (None, at + value) if kind == 8 else ((value >> 1) ^ -(value & 1), at)
