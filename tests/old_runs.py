"""Runs without checksums, made of runs of today: as they were before, and as somebody may make one."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq


def as_of_format_1(run: Path) -> None:
    """Take away what format 2 added: the seals of the tables, and from run.json the checksums."""
    for path in run.rglob("*.parquet"):
        table = pq.read_table(path)
        metadata = {key: value for key, value in (table.schema.metadata or {}).items() if b"seal" not in key}
        pq.write_table(table.replace_schema_metadata(metadata or None), path, compression="zstd")
    record = json.loads((run / "run.json").read_text())
    for key in ("files", "checksum", "suite_options"):
        del record[key]
    (run / "run.json").write_text(json.dumps(record | {"format": 1}, indent=2) + "\n")


def set_back(run: Path) -> None:
    """Set the format back in run.json, and take the checks out of it; the tables keep theirs."""
    record = json.loads((run / "run.json").read_text())
    for key in ("files", "checksum"):
        del record[key]
    (run / "run.json").write_text(json.dumps(record | {"format": 1}))
