"""Rates that simulations measure, the CSV files that keep them, and their tables on docs/simulations.md.

``benchmarks/results/NAME.csv`` has a row a rate, of what ``benchmarks/NAME_simulations.py`` or another script measured:

| column | meaning |
|---|---|
| `kind` | the table that it belongs to, which claims choose by |
| `what`, `setting` | what was counted, and of which made-up studies |
| `nominal` | the rate that is promised, as a fraction; empty where nothing is |
| `rate`, `error` | the rate measured, and its Monte-Carlo standard error; 0 where the rate was computed and not drawn |
| `n` | independent studies; 0 where the rate was computed |
| `note` | what a reader has to know, such as that it was measured before a later change; else empty |

``claims.yaml`` says for every file how it is made and which claims the page makes of it: which rows, by regular
expressions of ``kind``, ``what`` and ``setting`` (and a ``nominal`` rate), and whether the highest or the lowest of
them is the worst. The page shows each claim with the average over its rows and the worst of them. ``costs.yaml`` names
rates of the same studies without a safeguard and with it. ``python -m benchmarks.simulations --page`` puts the tables
into the page; a test holds that the page has what the files say.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import isnan, nan, sqrt
from pathlib import Path

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/simulations.md"
RESULTS = ROOT / "benchmarks/results"
COLUMNS = ("kind", "what", "setting", "nominal", "rate", "error", "n", "note")
LEVELS = (0.05, 0.01)


@dataclass(frozen=True)
class Found:
    """One measured rate: of rejections, of intervals that hold the truth, or of whatever its ``kind`` counts.

    Attributes
    ----------
    kind : the table of the page that it belongs to.
    n : studies that are independent of each other; 0 where the rate was computed and not drawn.
    spread : standard deviation over studies, where a study counts many; None where it counts one thing.
    note : what a reader has to know of it.
    """

    kind: str
    what: str
    setting: str
    nominal: float
    rate: float
    n: int
    spread: float | None = None
    note: str = ""

    @property
    def error(self) -> float:
        """Monte-Carlo standard error: of the studies' spread if it is known, else at the nominal rate."""
        if not self.n:
            return 0.0
        spread = sqrt(self.nominal * (1 - self.nominal)) if self.spread is None else self.spread
        return spread / sqrt(self.n)


Experiment = tuple[Callable[..., list[Found]], int, dict[str, object]]
"""What simulates, its number of studies, and its options."""


def rejections(what: str, setting: str, p_values: list[float] | np.ndarray, kind: str = "level") -> list[Found]:
    """Rates of p ≤ 5 % and ≤ 1 %."""
    p = np.asarray(p_values)
    return [Found(kind, what, setting, level, float(np.mean(p <= level)), len(p)) for level in LEVELS]


# --- the files --------------------------------------------------------------------------------------------------------


def read_results(name: str, folder: Path = RESULTS) -> list[Found]:
    """Read what one file keeps."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [
            Found(
                row["kind"], row["what"], row["setting"], float(row["nominal"] or nan), float(row["rate"]),
                int(row["n"]), float(row["error"]) * sqrt(int(row["n"])) if int(row["n"]) else None, row["note"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def write_results(name: str, found: Iterable[Found], folder: Path = RESULTS) -> None:
    """Keep rates in a file, in place of those of the same kinds that it had."""
    found = list(found)
    kinds = {each.kind for each in found}
    old = read_results(name, folder) if (folder / f"{name}.csv").exists() else []
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for each in [*(one for one in old if one.kind not in kinds), *found]:
            nominal = "" if isnan(each.nominal) else f"{each.nominal:g}"
            writer.writerow(
                (each.kind, each.what, each.setting, nominal, f"{each.rate:.6g}", f"{each.error:.4g}", each.n,
                 each.note)
            )  # fmt: skip


@cache
def all_results(folder: Path = RESULTS) -> tuple[Found, ...]:
    """Read what all files keep."""
    return tuple(found for path in sorted(folder.glob("*.csv")) for found in read_results(path.stem, folder))


# --- the page ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A line of the page, about all rows of one kind whose texts match.

    Attributes
    ----------
    worst : "highest" or "lowest", which of the rows is told beside the average.
    promised : in words, where the rows' nominal rate does not say it.
    """

    claim: str
    kind: str
    worst: str
    what: str = ""
    setting: str = ""
    nominal: float | None = None
    promised: str = ""

    def rows(self, found: Sequence[Found]) -> list[Found]:
        """Choose the rows that it is about; it has to be about some."""
        own = [
            each
            for each in found
            if re.fullmatch(self.kind, each.kind)
            and re.search(self.what, each.what)
            and re.search(self.setting, each.setting)
            and (self.nominal is None or each.nominal == self.nominal)
            and not isnan(each.rate)
        ]
        if not own:
            raise SystemExit(f"{RESULTS / 'claims.yaml'}: no row fits the claim {self.claim!r}")
        return own

    def line(self, found: Sequence[Found]) -> str:
        """Write its line of the table."""
        own = self.rows(found)
        worst = {"highest": max, "lowest": min}[self.worst](own, key=lambda each: each.rate)
        nominal = {each.nominal for each in own}
        promised = self.promised or (
            f"{'≤' if self.worst == 'highest' else '≥'} {100 * worst.nominal:g} %"
            if len(nominal) == 1 and not isnan(worst.nominal)
            else "–"
        )
        mean = f"{100 * np.mean([each.rate for each in own]):.1f} %"
        at_worst = f"{100 * worst.rate:.1f}" + (f" ± {100 * worst.error:.1f}" if worst.n else "") + " %"
        mark = " †" if any(each.note for each in own) else ""
        where = worst.setting if len(own) == 1 else f"{len(own)}; {worst.setting}"
        studies = f"{worst.n:,}" if worst.n else "exact"
        return f"| {self.claim} | {promised} | {mean} | {at_worst}{mark} | {studies} | {where} |"


HEAD = "| claim | promised | average | worst ± Monte-Carlo error | studies | settings; the worst |\n|" + 6 * "---|"


def claims_of(folder: Path = RESULTS) -> dict[str, tuple[str, list[Claim]]]:
    """Read the command and the claims of every file."""
    read = yaml.safe_load((folder / "claims.yaml").read_text(encoding="utf-8"))
    return {name: (each["command"], [Claim(**claim) for claim in each["claims"]]) for name, each in read.items()}


def table(name: str, folder: Path = RESULTS) -> str:
    """The table of one file's claims, with how it is made and what has to be known."""
    command, claims = claims_of(folder)[name]
    found = read_results(name, folder)
    notes = dict.fromkeys(each.note for claim in claims for each in claim.rows(found) if each.note)
    lines = [HEAD, *(claim.line(found) for claim in claims), ""]
    lines += [f"† {note}.\n" for note in notes]
    lines.append(f"`{command}` · [all {len(found)} rates](../benchmarks/results/{name}.csv)")
    return "\n".join(lines) + "\n"


def costs_table(folder: Path = RESULTS) -> str:
    """The table of what safeguards cost: the same studies without each and with it, from the files of results."""
    lines = ["| safeguard | studies | found without | found with | cost |\n|" + 5 * "---|"]
    for cost in yaml.safe_load((folder / "costs.yaml").read_text(encoding="utf-8")):
        for setting in cost["settings"]:
            without, own = (
                next(each for each in all_results(folder)
                     if (each.kind, each.what, each.setting) == (cost["kind"], cost[which], setting))
                for which in ("without", "with")
            )  # fmt: skip
            rates = [f"{100 * each.rate:.1f} ± {100 * each.error:.1f} %" for each in (without, own)]
            points = 100 * (without.rate - own.rate)
            lines.append(f"| {cost['safeguard']} | {setting}; {own.n:,} | {rates[0]} | {rates[1]} | {points:.1f} |")
    return "\n".join(lines) + "\n\n`python -m benchmarks.simulations --page`, of the files that `costs.yaml` names\n"


def with_tables(text: str, folder: Path = RESULTS) -> str:
    """Put the table of every file between its marks in the text of the page."""
    tables = {name: partial(table, name) for name in claims_of(folder)} | {"costs": costs_table}
    for name, made in tables.items():
        marks = (f"<!-- {name} -->\n", f"<!-- end of {name} -->")
        pattern = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{PAGE}: no place for the table {name!r}; expected the marks {marks}")
        written = f"{marks[0]}\n{made(folder)}\n{marks[1]}"
        text = pattern.sub(lambda _, written=written: written, text)
    return text


def write_page(page: Path = PAGE, folder: Path = RESULTS) -> None:
    """Put the tables of all files into the page."""
    page.write_text(with_tables(page.read_text(encoding="utf-8"), folder), encoding="utf-8")
