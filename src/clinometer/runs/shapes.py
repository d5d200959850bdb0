"""The shape of tables that are read back: what their columns hold, and which of them have a cell in every row.

Seals tell a table that was changed from the one that was written. Of a run without seals, or one that somebody made to
be opened, they say nothing: its tables are held against this before anything is made of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Final

import numpy as np
import pyarrow as pa

from clinometer.metrics.records import Score

_TEXTS: Final = frozenset(field.name for field in fields(Score) if isinstance(field.default, str)) | {"curve"}
_NUMBERS: Final = frozenset(field.name for field in fields(Score) if isinstance(field.default, int | float)) | {
    "x",
    "y",
}


def always(schema: pa.Schema, empty: Collection[str] = ()) -> pa.Schema:
    """A schema whose columns have a cell in every row, but for some."""
    return pa.schema([pa.field(field.name, field.type, nullable=field.name in empty) for field in schema])


def require_shape(table: pa.Table, like: pa.Schema) -> None:
    """Refuse a table one of whose columns holds something else, or lacks a cell that it must have.

    Raises
    ------
    ArrowInvalid
        The message names the column.
    """
    for field in table.schema:
        prototype = like.field(field.name)
        if field.type != prototype.type:
            raise pa.ArrowInvalid(f"its column {field.name!r} holds {field.type}, expected {prototype.type}")
        lacking = 0 if prototype.nullable else table[field.name].null_count
        if lacking:
            raise pa.ArrowInvalid(f"its column {field.name!r} is empty in {lacking} of {len(table)} rows")


def require_numbers(table: pa.Table) -> None:
    """Refuse a table of scores or curves whose columns have wrong types; unknown columns are those of newer versions.

    Raises
    ------
    ArrowInvalid
        The message names the column.
    """
    for field in table.schema:
        if field.name in _TEXTS and not _is_text(table[field.name]):
            raise pa.ArrowInvalid(f"its column {field.name!r} holds {field.type}, expected texts")
        if field.name in _NUMBERS and not _is_number(field.type):
            raise pa.ArrowInvalid(f"its column {field.name!r} holds {field.type}, expected numbers")


def _is_text(column: pa.ChunkedArray) -> bool:
    """Whether a column holds texts, or nothing: an empty one that was read from CSV is one of numbers that are none."""
    kind = column.type
    if pa.types.is_floating(kind):
        return not np.isfinite(column.to_numpy()).any()
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def _is_number(kind: pa.DataType) -> bool:
    is_one = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return bool(is_one or pa.types.is_null(kind))
