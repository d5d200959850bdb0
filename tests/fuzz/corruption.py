"""Damage done to a finished run, a file at a time: every change must be named, and none may change a number.

    python -m tests.fuzz.corruption --seed 1 --count 1000

A toy run is made, and again and again one of its files is damaged: bits flipped, bytes cut off, zeroed, inserted, a
line or a table edited as a user would. Then the run is verified, and scored, reported, compared or gone on with. What
comes of it is one of

- ``named``: verifying names the file, and the other command names it too, or repairs it, or gives the same numbers;
- ``harmless``: the bytes say the same as before, such as a space more in run.json;
- ``silent``: numbers, images or settings are others, and nothing said so; or verifying missed it;
- ``traceback``: an exception that is none of clinometer's own.

The last two are failures; the exit status says whether there were any.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import ClinometerError
from clinometer.pipeline.comparison import compare_runs
from clinometer.pipeline.results import score, write_report
from clinometer.runs import NoProgress, Run
from tests.toys import Eye, Painter, toy_suite

RESAMPLES: Final = 19
OUTCOMES: Final = ("named", "harmless", "silent", "traceback")


@dataclass(frozen=True)
class Tried:
    """A change and what came of it."""

    file: str
    change: str
    way: str
    outcome: str
    detail: str


class Specimen:
    """A finished toy run that can be damaged and restored, and what its commands give while it is whole."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "run"
        suite = toy_suite(target=2, attribute=2, concepts=2, margin=0.1)
        self.other = folder / "other"
        self._audit = lambda name="painter": cm.audit(
            Painter(name=name),
            suite,
            self.place if name == "painter" else self.other,
            encoder=[Eye(), Eye("second")],
            resamples=RESAMPLES,
        )
        self.ways: dict[str, Callable[[], Any]] = {
            "score": self._score,
            "report": self._report,
            "compare": self._compare,
            "resume": self._resume,
            "read": self._read,
        }
        self._resume()
        self._resume("other")
        self.whole = {name: (self.place / name).read_bytes() for name in self.names()}
        self.given = {}
        for name, way in self.ways.items():
            self.given[name] = way()
            self.restore()

    def names(self) -> list[str]:
        """Every file that the run is made of, in order; not those that say who works on it."""
        files = sorted(path for path in self.place.rglob("*") if path.is_file() and not path.name.startswith("."))
        return [path.relative_to(self.place).as_posix() for path in files]

    def restore(self) -> None:
        """Undo all damage."""
        for name in set(self.names()) - set(self.whole):
            (self.place / name).unlink()
        for name, content in self.whole.items():
            path = self.place / name
            if not path.is_file() or path.read_bytes() != content:
                path.write_bytes(content)

    def _score(self) -> pd.DataFrame:
        run = Run(self.place)
        score(run, NoProgress())
        return Run(self.place).scores

    def _report(self) -> Any:
        run = cm.open_run(self.place)
        damage = write_report(run)
        return damage or (self.place / "report.html").read_bytes()

    def _compare(self) -> pd.DataFrame:
        return compare_runs(Run(self.place), Run(self.other)).scores

    def _resume(self, name: str = "painter") -> pd.DataFrame:
        return self._audit(name).scores

    def _read(self) -> Any:
        run = cm.open_run(self.place)
        return [
            run.record | {"files": None, "checksum": None},
            run.scores,
            run.curves,
            run.samples.drop(columns="seconds"),
            [np.stack([*run.embeddings(name).values(), *run.texts(name).values()]) for name in run.encoder_cards],
            list(run.images(run.samples.id)),
        ]


def same(one: Any, other: Any) -> bool:
    """Whether two results say the same, NaN being NaN."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, pd.DataFrame) and isinstance(other, pd.DataFrame):
        return one.equals(other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


# --- damage ----------------------------------------------------------------------------------------------------------

Change = Callable[[bytes, random.Random], bytes | None]
"""From a file's content to another; None removes the file."""


def _flip(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.choice([0, 1, len(content) // 2, len(content) - 1, rng.randrange(len(content))])]


def _zero(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    length = min(rng.choice([1, 16, 512, len(content)]), len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    place = rng.choice([0, len(content), rng.randrange(len(content))])
    return content[:place] + rng.randbytes(rng.choice([1, 8, 100])) + content[place:]


def _remove(content: bytes, rng: random.Random) -> None:
    return None


def _digit(content: bytes, rng: random.Random) -> bytes:
    """As with sed: another digit in a number of a text."""
    places = [match.start() for match in re.finditer(rb"[0-9]", content)]
    place = rng.choice(places)
    digit = rng.choice([each for each in b"0123456789" if each != content[place]])
    return content[:place] + bytes([digit]) + content[place + 1 :]


def _leaf(content: bytes, rng: random.Random) -> bytes:
    """A value of run.json becomes one of its kind or of another kind, or its key goes."""
    record = json.loads(content)
    holder, key = rng.choice(list(_leaves(record)))
    value = holder[key]
    options = [None, 0, -1.5, "odd", [], {}, True, value]
    if isinstance(value, bool | int | float):
        options += [value + 1, value * 9] * 4
    if isinstance(value, str):
        options += [value + " ", value[::-1], "9" + value[1:]] * 3
    if rng.random() < 0.1:
        del holder[key]
    else:
        holder[key] = rng.choice(options)
    return json.dumps(record, indent=2).encode()


def _leaves(held: Any) -> Iterator[tuple[Any, Any]]:
    entries = held.items() if isinstance(held, dict) else enumerate(held)
    for key, value in entries:
        yield held, key
        if isinstance(value, dict | list):
            yield from _leaves(value)


def _table(content: bytes, rng: random.Random) -> bytes:
    """A table read, edited and written by other software, with its metadata or without."""
    table = pq.read_table(pa.BufferReader(content))
    if table.num_rows == 0:
        return _flip(content, rng)
    name = rng.choice(table.column_names)
    column = table[name]
    place = table.column_names.index(name)
    edits: list[Callable[[], pa.Table]] = [
        lambda: table.set_column(place, name, column.take(list(range(len(column)))[::-1])),
        lambda: table.slice(1),
        lambda: table.drop_columns([name]),
        lambda: pa.concat_tables([table, table.slice(0, 1)]),
        lambda: table.take(list(range(table.num_rows))[::-1]),
    ]
    if pa.types.is_floating(column.type):
        edits += [lambda: table.set_column(place, name, pa.array([9.5] * len(column), column.type))] * 3
    if pa.types.is_fixed_size_list(column.type):
        turned = pa.array([[-each for each in row] for row in column.to_pylist()], column.type)
        edits += [lambda: table.set_column(place, name, turned)] * 5
    edited = rng.choice(edits)()
    if rng.random() < 0.5:
        edited = edited.replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    pq.write_table(edited, sink, compression=rng.choice(["zstd", "snappy", "none"]))
    return sink.getvalue().to_pybytes()


ANY: Final[dict[str, Change]] = {
    "flip": _flip,
    "truncate": _truncate,
    "zero": _zero,
    "insert": _insert,
    "remove": _remove,
}
BY_KIND: Final[dict[str, dict[str, Change]]] = {
    ".parquet": {"table": _table, "table again": _table, "flip again": _flip},
    ".json": {"digit": _digit, "leaf": _leaf, "leaf again": _leaf},
    ".csv": {"digit": _digit},
    ".html": {"digit": _digit},
}


def _swap(specimen: Specimen, name: str, rng: random.Random) -> bytes | None:
    """The content of another file of the run, or of the same file of another run."""
    others = [other for other in specimen.whole if other != name and Path(other).suffix == Path(name).suffix]
    elsewhere = (specimen.other / name).read_bytes()
    return rng.choice([elsewhere, *(specimen.whole[other] for other in others)])


def damage(specimen: Specimen, rng: random.Random) -> tuple[str, str]:
    """Change one file. Returns its name and what was done."""
    name = rng.choice(list(specimen.whole))
    changes = ANY | BY_KIND.get(Path(name).suffix, {})
    kind = rng.choice([*changes, "swap"])
    content = specimen.whole[name]
    while True:
        changed = _swap(specimen, name, rng) if kind == "swap" else changes[kind](content, rng)
        if changed != content:
            break
        kind = "flip"
    if changed is None:
        (specimen.place / name).unlink()
    else:
        (specimen.place / name).write_bytes(changed)
    return name, kind.removesuffix(" again")


# --- what comes of it ------------------------------------------------------------------------------------------------


def attempt(specimen: Specimen, rng: random.Random, ways: Sequence[str] = ()) -> Tried:
    """Damage a file, see what comes of it in one of some ways to use the run, and fix it."""
    name, change = damage(specimen, rng)
    way = rng.choice(list(ways or specimen.ways))
    try:
        outcome, detail = _judged(specimen, name, way)
    finally:
        specimen.restore()
    return Tried(name, change, way, outcome, detail)


def _judged(specimen: Specimen, name: str, way: str) -> tuple[str, str]:
    said, failed = _named(lambda: verify_run(specimen.place), name)
    if failed:
        return failed, said
    harmless = not said and name == "run.json" and _says_the_same(specimen)
    if not said and not harmless:
        return "silent", "verify says nothing"
    try:
        given = specimen.ways[way]()
    except ClinometerError as error:
        lines = str(error).splitlines()
        well = (len(lines) <= 2 and Path(name).name in str(error)) or _is_missing(str(error))
        return ("harmless" if harmless else "named", said) if well else ("silent", f"{way} names another: {error}")
    except Exception:
        return "traceback", traceback.format_exc()
    if not same(given, specimen.given[way]) and not (way == "report" and isinstance(given, list)):
        return "silent", f"{way} gives something else"
    return ("harmless" if harmless else "named"), said


def _is_missing(message: str) -> bool:
    """Whether a message says what is to be done again, of a file that is gone: those name the stage."""
    return "not drawn yet" in message or "has not finished" in message or "not scored yet" in message


def _named(do: Callable[[], Any], name: str) -> tuple[str, str]:
    """What a call says that names the file; and how it failed, if it did."""
    try:
        do()
    except ClinometerError as error:
        said = next((line for line in str(error).splitlines() if Path(name).name in line), "")
        return (said, "") if said else (f"names another: {error}", "silent")
    except Exception:
        return traceback.format_exc(), "traceback"
    return "", ""


def _says_the_same(specimen: Specimen) -> bool:
    return bool(json.loads((specimen.place / "run.json").read_bytes()) == json.loads(specimen.whole["run.json"]))


def attempts(seed: int) -> Iterator[Tried]:
    """Damage a run again and again, each time from whole."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        specimen = Specimen(Path(folder))
        while True:
            yield attempt(specimen, rng)


def main(arguments: list[str] | None = None) -> int:
    """Run the long form: print each failure and the counts; 1 if anything was silent or ended in a traceback."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, help="changes; 1,000 where no minutes are given")
    parser.add_argument("--minutes", type=float, help="go on so long")
    asked = parser.parse_args(arguments)
    count = asked.count or (1000 if asked.minutes is None else None)
    ends = inf if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    counts: Counter[str] = Counter()
    by_change: Counter[tuple[str, str]] = Counter()
    for tried in islice(attempts(asked.seed), count):
        counts[tried.outcome] += 1
        by_change[tried.change, tried.outcome] += 1
        if tried.outcome in ("silent", "traceback"):
            print(f"{tried.outcome}: {tried.change} of {tried.file}, then {tried.way}: {tried.detail}")
        if time.monotonic() > ends:
            break
    for (change, outcome), number in sorted(by_change.items()):
        print(f"{change:>10} {outcome:>10} {number:>6}")
    print(f"seed {asked.seed}, {counts.total()} changes: " + ", ".join(f"{counts[each]} {each}" for each in OUTCOMES))
    return int(counts["silent"] + counts["traceback"] > 0)


if __name__ == "__main__":
    sys.exit(main())
