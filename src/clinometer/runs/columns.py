"""Tables of many small pieces, as one that takes little memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

import pyarrow as pa

_AT_ONCE: Final = 256
"""Tables that are held apart at most: one of 64 rows takes more for its bookkeeping than for its cells."""


def gathered(tables: Iterable[pa.Table], schema: pa.Schema, shared: Collection[str] = ()) -> pa.Table:
    """Tables one after the other, with the columns of a schema; of ``shared`` ones each text is held once."""
    stream, pieces = iter(tables), [_encoded(schema.empty_table(), shared)]
    while some := list(islice(stream, _AT_ONCE)):
        pieces.append(_encoded(pa.concat_tables(some).select(schema.names).combine_chunks(), shared))
    return pa.concat_tables(pieces).unify_dictionaries()


def _encoded(table: pa.Table, shared: Collection[str]) -> pa.Table:
    for at, name in enumerate(table.column_names):
        if name in shared and not pa.types.is_dictionary(table.schema.field(at).type):
            table = table.set_column(at, name, table[name].dictionary_encode())
    return table.replace_schema_metadata(None)
