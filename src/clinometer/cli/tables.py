"""Tables that a command writes beside what it shows, and somebody else's words on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape

from clinometer._csv import csv_text
from clinometer._messages import printable
from clinometer.errors import InvalidInputError, RunStorageError

if TYPE_CHECKING:
    import pandas as pd


WRITERS: Final[dict[str, Callable[[pd.DataFrame, Path], Any]]] = {
    ".csv": lambda table, path: path.write_text(csv_text(table), encoding="utf-8", newline=""),
    ".json": lambda table, path: table.to_json(
        path, orient="records", indent=2, force_ascii=False, double_precision=15
    ),
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
}


def check_place(out: Path | None) -> None:
    """Refuse a file that cannot be one, or is of a kind that is not written, before anything is computed."""
    if out is None:
        return
    if out.suffix.lower() not in WRITERS or out.is_dir():
        hint = ", found a folder" if out.is_dir() else ""
        raise InvalidInputError(f"--out {out}: expected a file of {', '.join(WRITERS)}{hint}")
    if not out.parent.is_dir():
        raise InvalidInputError(f"--out {out}: no folder {out.parent}")


def require_other_place(out: Path, *read: str | Path | None) -> None:
    """Refuse a file that is read, or lies in a run that is: writing it would destroy what was held to limits."""
    place = out.resolve()
    for given in read:
        if given is not None and Path(given).resolve() in (place, *place.parents):
            raise InvalidInputError(f"--out {out}: it would overwrite, or lie in, {given}; give another file")


def write_table(table: pd.DataFrame, out: Path | None, mapping: Mapping[str, Any] | None = None) -> None:
    """Write the whole table, every column of it; as JSON the ``mapping`` in its place, where there is one.

    The first key of a mapping stands in the file's first line.
    """
    if out is None:
        return
    try:
        if mapping is not None and out.suffix.lower() == ".json":
            lines = json.dumps(mapping, indent=2, ensure_ascii=False, allow_nan=False).partition("\n")
            out.write_text(f"{{{lines[2].lstrip()}\n", encoding="utf-8")
        else:
            WRITERS[out.suffix.lower()](table, out)
    except OSError as error:
        raise RunStorageError(f"{out}: cannot be written: {error.strerror or error}; give another --out") from error
    Console(soft_wrap=True).print(f"Table: [bold]{plain_text(str(out))}[/]")


def plain_text(text: str) -> str:
    """Text as rich prints it: no markup is read in it, and nothing reaches the terminal but letters and lines."""
    return escape(printable(text))
