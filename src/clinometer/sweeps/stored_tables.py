"""Numbers that a sweep computes from its runs, kept beside them: what they are made of is part of their names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.runs import Directory, Run
from clinometer.runs.fingerprint import fingerprint_of_scores

FOLDER: Final = "pooled"

Computed = tuple[pd.DataFrame, dict[str, Any]]
"""A table, and a few facts about it."""


def stored_table(
    directory: Directory, name: str, runs: Sequence[Run], resamples: int, compute: Callable[[], Computed]
) -> Computed:
    """A table that follows from runs: read where it was computed from the same, else computed and kept.

    A file carries the hash of what its table is made of in its name, so none is taken for that of another state.
    """
    made_of = _made_of(runs, resamples)
    if made_of is None:
        return compute()
    stem = f"{FOLDER}/{name}-{made_of}"
    try:
        facts = directory.read_json(f"{stem}.json")  # written last
        return directory.read_table(f"{stem}.parquet").to_pandas(ignore_metadata=True), facts
    except (RunNotFoundError, RunCorruptError):
        table, facts = compute()
    _forget(directory, name)
    directory.write_table(f"{stem}.parquet", pa.Table.from_pandas(table, preserve_index=False))
    directory.write_json(f"{stem}.json", facts)
    return table, facts


def _made_of(runs: Sequence[Run], resamples: int) -> str | None:
    """A hash of what the scores of some runs are made of; None where it is unknown for one of them."""
    prints = [fingerprint_of_scores(run, resamples) for run in runs]
    if not all(prints):
        return None
    return hashlib.sha256(json.dumps(prints).encode()).hexdigest()[:16]


def _forget(directory: Directory, name: str) -> None:
    """Remove what was computed from an earlier state."""
    for suffix in (".json", ".parquet"):
        for file in directory.names(FOLDER, suffix):
            if file.removeprefix(f"{FOLDER}/").removesuffix(suffix)[:-17] == name:
                directory.remove(file)
