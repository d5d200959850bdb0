"""Rates that simulations measure, and their tables on docs/simulations.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[1] / "docs/simulations.md"
LEVELS = (0.05, 0.01)


@dataclass(frozen=True)
class Found:
    """One measured rate: of rejections, of intervals that hold the truth, or of whatever its ``kind`` counts.

    Attributes
    ----------
    kind : the table of the page that it belongs to.
    n : studies that are independent of each other; 0 where the rate was computed and not drawn.
    spread : standard deviation over studies, where a study counts many; None where it counts one thing.
    """

    kind: str
    what: str
    setting: str
    nominal: float
    rate: float
    n: int
    spread: float | None = None

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


HEADS = {
    "level": ("test", "p ≤"),
    "coverage": ("interval", "nominal"),
    "verdict-level": ("verdicts at parity", "nominal"),
    "verdict-away": ("verdicts away from parity", "nominal"),
    "verdict-power": ("leanings", "nominal"),
    "verdict-texts": ("texts that lean", "at most"),
    "middle": ("said of a known composition", "at most"),
    "middle-power": ("what is found", "nominal"),
    "families-level": ("suites at parity", "wanted, at most"),
    "families-away": ("ends of intervals", "promised"),
    "derived-coverage": ("number", "promised"),
    "power-none": ("plans", "nominal"),
    "compare-level": ("verdicts on equal runs", "nominal"),
    "compare-missing": ("verdicts where one run refuses", "nominal"),
    "compare-away": ("verdicts on runs that differ", "nominal"),
    "compare-power": ("differences", "nominal"),
    "sweep-level": ("differences of equal settings", "promised"),
    "sweep-away": ("differences where settings differ", "promised"),
    "split-level": ("the split where guidance adds nothing", "promised"),
    "split-away": ("the split where it adds to half", "promised"),
    "gate-level": ("gates", "promised, at most"),
    "gate-power": ("gates", "nominal"),
    "intersections-level": ("test", "p ≤"),
    "intersections-coverage": ("interval", "nominal"),
    "reader-coverage": ("corrected share", "nominal"),
    "reader-groups": ("share of a group", "nominal"),
    "reader-parity": ("suites at parity that are called", "wanted, at most"),
    "reader-rated": ("share by people and a reader", "nominal"),
    "reader-believed": ("encoder that cannot read", "wanted, at most"),
    "reader-refused": ("encoder that can", "wanted, at most"),
    "transport-few": ("corrected share", "nominal"),
    "transport-called": ("known and asked pictures", "wanted, at most"),
    "transport-contexts": ("corrected share", "nominal"),
    "transport-respects": ("corrected share", "nominal"),
    "open-level": ("answers that depend on nothing", "nominal"),
    "open-power": ("answers that depend on their concept", "p or q ≤"),
    "open-coverage": ("interval of", "nominal"),
    "ratings-coverage": ("share corrected by people", "nominal"),
    "ratings-slips": ("encoder, and interval", "nominal"),
    "ratings-bound": ("encoder never wrong", "held with slight errors"),
    "ratings-width": ("share corrected by people", "width of people alone, at most"),
    "ratings-planned": ("ratings named by the planner", "reach of ± 0.05, wanted"),
    "interval-faces": ("interval", "nominal"),
    "interval-agreement": ("interval", "nominal"),
    "interval-texts": ("text part, the groups' pictures drawn again", "nominal"),
    "dependence-level": ("concepts at parity", "wanted, at most"),
    "dependence-power": ("concepts that lean, independent pictures", "–"),
    "dependence-joined": ("a model that draws alike pictures", "wanted"),
    "downstream-level": ("test", "p ≤"),
    "downstream-coverage": ("interval", "nominal"),
}
"""Headings of the first and third column of each kind's table."""


def table(found: Sequence[Found], kind: str) -> str:
    """A Markdown table of one kind of rates."""
    head = HEADS.get(kind, ("what", "nominal"))
    lines = [f"| {head[0]} | data | {head[1]} | measured | Monte-Carlo error | studies |", "|---|---|---|---|---|---|"]
    for each in (each for each in found if each.kind == kind):
        error = f"{each.error:.2%}" if each.n else "exact"
        nominal = "–" if isnan(each.nominal) else f"{100 * each.nominal:g}%"
        lines.append(f"| {each.what} | {each.setting} | {nominal} | {each.rate:.2%} | {error} "
                     f"| {each.n or '–'} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def with_tables(text: str, found: Sequence[Found], kinds: Sequence[str]) -> str:
    """Put the tables of these kinds between their marks in the text of the page."""
    for kind in kinds:
        marks = (f"<!-- {kind} -->\n", f"<!-- end of {kind} -->")
        pattern = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{PAGE}: no place for the table {kind!r}; expected the marks {marks}")
        text = pattern.sub(lambda _, marks=marks, kind=kind: f"{marks[0]}\n{table(found, kind)}\n{marks[1]}", text)
    return text
