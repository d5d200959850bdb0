"""What a study judges, and how it is written: on a page, in a terminal, in a notebook, on a model card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.view import Row

NO_VERDICT: Final = "there is no verdict"
SHOWN: Final = 8
"""Rows of a summary that is ranked: half of them from either end."""


@dataclass(frozen=True)
class Summary:
    """A run in a few lines, for a terminal and for a notebook.

    Attributes
    ----------
    verdicts : the verdicts, counted.
    title : what the table shows and what its sign means.
    columns, rows : the table; the first column is a name, the last a verdict, those between are numbers.
    unmeasured : the commonest reasons why rows have no verdict, counted; empty where all have one.
    found : sentences on what was found besides, as whole sentences.
    """

    verdicts: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    unmeasured: str = ""
    found: tuple[str, ...] = ()


MOST_LISTED: Final = 1_000
"""Rows of a list on a page; more would take a browser minutes, and the scores have all."""


@dataclass(frozen=True)
class Verdicts:
    """What a study judges by one quantity, and how it is written: on its page, in a terminal, on a model card.

    Attributes
    ----------
    unit : what a row is about: ``"concept"``.
    symbol : the quantity: ``"image part"``.
    meaning : its scale and the meaning of its sign.
    rows : everything that was judged, in the order of the suite.
    label : the label of a side.
    over : what the judged interval is over, images or ``"stimuli"``.
    drawn : what more of would decide.
    beside : what would have to grow in proportion, such as ``wording.IN_PROPORTION``.
    digits, scale, suffix : how numbers are written.
    reach : between what rows' numbers lie; None where that is not known.
    name, short_name : what a row is about, on the page and in a terminal.
    said : a row's verdict in words.
    notes : what else the page says of a row that has a number: how many images, on what it depends.
    counted : of a row the share of images that read as the group that most do; None where none is read.
    effects : effect sizes by concept, where it has any.
    heading : how a column of names is headed, where not by the unit.
    is_ranked : whether a summary shows those that lean most to either side, and no more of them than ``SHOWN``.
    """

    unit: str
    symbol: str
    meaning: str
    rows: Sequence[Row]
    label: wording.Label = str
    over: str = "images"
    drawn: str = "images"
    beside: str = ""
    digits: int = 2
    scale: float = 1.0
    suffix: str = ""
    reach: tuple[float, float] | None = None
    name: Callable[[Row], str] = field(default=lambda row: row.concept or row.group)
    short_name: Callable[[Row], str] | None = None
    said: Callable[[Row], str] | None = None
    notes: Callable[[Row], Iterable[str]] = field(default=lambda row: ())
    counted: Callable[[Row], wording.CountedShare | None] | None = None
    effects: Mapping[str, Row] | None = None
    heading: str = ""
    is_ranked: bool = False

    @property
    def title(self) -> str:
        """The symbol as a heading."""
        return wording.capitalised(self.symbol)

    def value(self, row: Row) -> str:
        """Write a row's number; empty where it has none."""
        return f"{wording.signed(self.scale * row.value, self.digits)}{self.suffix}" if row.defined else ""

    def interval(self, row: Row) -> str:
        """Write the interval that a row's verdict rests on; empty where it has none."""
        low, high = row.ends(self.over)
        return wording.interval(self.scale * low, self.scale * high, self.digits)

    def verdict(self, row: Row) -> str:
        """Word a row's verdict."""
        words = self.said(row) if self.said is not None else wording.verdict_words(row, self.label)
        return words or "not measured"

    def notes_of(self, row: Row) -> list[str]:
        """Add why there is no verdict to what else is said of a row."""
        lacks = wording.not_measured(row) or not row.defined
        notes = [
            *(self.notes(row) if row.defined else ()),
            *([wording.reason_words(row) or NO_VERDICT] if lacks else []),
        ]
        return list(dict.fromkeys(note for note in notes if note))

    def counts(self) -> Counter[str]:
        """Count rows by where they are listed."""
        return Counter(wording.verdict_group_of(row) for row in self.rows)

    def marks(self, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Count rows for the marks under the finding, from leaning to B to leaning to A; ``labels`` of A and of B."""
        counts = self.counts()
        leans = {side: "leans to" if counts[side] == 1 else "lean to" for side in ("a", "b")}
        words: dict[wording.VerdictGroup, str] = {
            "b": f"{leans['b']} {labels[1]}",
            "few": "too few images to tell",
            "undecided": "undecided",
            "balanced": "balanced",
            "a": f"{leans['a']} {labels[0]}",
            "unmeasured": "not measured",
        }
        return [{"lean": lean, "count": counts[lean], "words": words[lean]} for lean in words if counts[lean]]

    def lists(self, labels: Sequence[str], margin: float | None) -> list[dict[str, Any]]:
        """List rows by their verdicts, the strongest first; a reason that all without a number share is said once."""
        headings = {"a": f"Leans to {labels[0]}", "b": f"Leans to {labels[1]}", **wording.HEADINGS}
        notes = dict(wording.NOTES)
        if margin:
            notes["balanced"] = f"Tests show the score to be within \N{PLUS-MINUS SIGN}{margin:g}."
        found: dict[wording.VerdictGroup, list[Row]] = {group: [] for group in wording.VERDICT_GROUPS}
        for row in self.rows:
            found[wording.verdict_group_of(row)].append(row)
        lists = []
        for group, rows in found.items():
            if group != "unmeasured":
                rows.sort(key=lambda row: -abs(row.value))
            reasons = {wording.reason_words(row) for row in rows}
            once = group == "unmeasured" and len(rows) > 1 and len(reasons) == 1 and reasons != {""}
            note = f"{wording.capitalised(reasons.pop())}." if once else notes.get(group, "")
            if len(rows) > MOST_LISTED:
                note = f"{note} The first {MOST_LISTED:,} of {len(rows):,}; scores.csv has all.".lstrip()
            listed = rows[:MOST_LISTED]
            lists.append({"lean": group, "heading": headings[group], "note": note, "rows": listed, "said_once": once})
        return [each for each in lists if each["rows"]]

    def summary(self) -> Summary:
        """Summarise the rows in a few lines."""
        rows = list(self.rows)
        if self.is_ranked:
            ranked = sorted((row for row in rows if row.defined), key=lambda row: -row.value)
            rows = ranked if len(ranked) <= SHOWN else [*ranked[: SHOWN // 2], *ranked[-SHOWN // 2 :]]
        of_effects = ["d"] if self.effects is not None else []
        return Summary(
            verdicts=wording.counted(self.rows, self.label),
            title=f"{self.title}: {self.meaning}",
            columns=(self.heading or self.unit, self.symbol, "95 %", *of_effects, "q", "verdict"),
            rows=tuple(
                (
                    (self.short_name or self.name)(row),
                    self.value(row) or wording.MISSING,
                    self.interval(row),
                    *([wording.signed(self.effects.get(row.concept, Row()).value)] if self.effects is not None else []),
                    wording.bare_probability(row.q),
                    wording.verdict_in_full(row, self.label) if self.said is None else self.said(row),
                )
                for row in rows
            ),
            unmeasured=unmeasured(self.rows, self.unit),
        )


def digits_of(rows: Iterable[Row], over: str = "images") -> int:
    """Choose decimals for a column: those that the values and their intervals deserve together."""
    return wording.digits_for([number for row in rows for number in (row.value, *row.ends(over))])


def unmeasured(rows: Sequence[Row], unit: str) -> str:
    """Count why rows have no verdict, the commonest reason first: ``no image of the target (2 concepts)``."""
    if not rows:
        return f"the scores have no {unit}"
    lacking = [row for row in rows if wording.verdict_group_of(row) == "unmeasured"]
    return wording.commonest((wording.reason_words(row) or NO_VERDICT for row in lacking), unit)
