"""How tables are written as Parquet: images as they are, everything else compressed."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

IMAGE: Final = "image"


def writing_options(schema: pa.Schema) -> dict[str, Any]:
    """What ``pyarrow.parquet.write_table`` is told of a table's columns.

    A PNG is compressed already. To try again, to look for the same image twice and to note the smallest one takes twice
    the time and holds five more copies of a part.
    """
    if IMAGE not in schema.names:
        return {"compression": "zstd"}
    others = [name for name in schema.names if name != IMAGE]
    return {
        "compression": {f"{IMAGE}.bytes": "none", f"{IMAGE}.path": "zstd"} | dict.fromkeys(others, "zstd"),
        "use_dictionary": others,
        "write_statistics": others,
    }
