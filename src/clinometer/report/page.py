"""How a study is shown: its view of a run, the sections of its page, what it judges, and its numbers in a few lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from clinometer.report import wording
from clinometer.report.album import Album
from clinometer.report.inputs import ReportInput
from clinometer.report.rows import MEAN, METRICS_OF_THE_MODEL, READING_METRIC, Row, Scores
from clinometer.report.wording import HEADINGS, NOTES, VERDICT_GROUPS, Label, VerdictGroup, verdict_group_of

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite

CHAPTERS: Final = {
    "found": ("Findings", "What was found"),
    "pictures": ("Pictures", "See for yourself"),
    "sure": ("How sure", "How sure it is"),
    "limits": ("Limits", "What it does not say"),
    "basis": ("Basis", "What it rests on"),
    "numbers": ("Numbers", "The numbers"),
}
"""What a reader asks, in this order: its name in the contents, which one line of a phone takes, and its heading."""

NO_VERDICT: Final = "there is no verdict"
SHOWN: Final = 8
"""Rows of a summary that is ranked: half of them from either end."""


@dataclass(frozen=True)
class View:
    """A ``ReportInput`` with its rows read: what every study's page has."""

    unit: ClassVar[str] = "images"
    """What intervals are over."""

    report: ReportInput
    scores: Scores

    @classmethod
    def of(cls, report: ReportInput) -> Self:
        """Read the rows."""
        return cls(report, Scores.from_frame(report.scores))

    @classmethod
    def of_scores(cls, suite: Suite, scores: pd.DataFrame) -> Self:
        """View scores alone: there is no card and no image."""
        nothing: dict[str, Any] = {}
        return cls.of(
            ReportInput(
                title="", suite=suite, model_card=nothing, encoder_cards=nothing, settings=nothing, scores=scores,
                samples=scores[:0], image=lambda _: None,
            )
        )  # fmt: skip

    def label(self, group: str) -> str:
        """Look up a group's label for people; a name the suite does not know is shown as it is."""
        return self.report.suite.label_of(group)

    @staticmethod
    def encoder_label(name: str) -> str:
        """Say which encoder, or that it is the average over them."""
        return "average over encoders" if name == MEAN else name

    @property
    def model(self) -> str:
        """Look up what the model is called."""
        return str(self.report.model_card.get("name", "the model"))

    @cached_property
    def album(self) -> Album:
        """The pictures of the page, each of which it holds once."""
        return Album(self.report)

    @cached_property
    def encoders(self) -> list[str]:
        """Names of the single encoders, in stored order; rows that no encoder made, as those of refusals, name none."""
        others = (*METRICS_OF_THE_MODEL, READING_METRIC)
        found = (encoder for metric, encoder in self.scores.distinct("metric", "encoder") if metric not in others)
        return [encoder for encoder in dict.fromkeys(found) if encoder not in (MEAN, "")]


class PairView(View, ABC):
    """A run of a study that compares two groups, or two attributes."""

    @abstractmethod
    def labels_of(self, side: str) -> list[str]:
        """Labels of the two sides of a difference, that of ``side``, the first of them, in front."""


@dataclass(frozen=True)
class Section:
    """A section of the page. Its template reads the view, as ``view``, and what ``build`` makes of it, as ``s``.

    The first section of a chapter is open, the others are folded.

    Attributes
    ----------
    id : its anchor.
    label : what stands on it while it is folded; empty for the masthead, which comes before all chapters.
    build : what it says besides rows; None leaves it out of the page.
    template : its template, without ``.html``: of the study, or one of those that all studies share.
    chapter : the question that it answers, of ``CHAPTERS``.
    """

    id: str
    label: str
    build: Callable[[Any], dict[str, Any] | None]
    template: str
    chapter: str = "found"


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
    label: Label = str
    over: str = "images"
    drawn: str = "images"
    beside: str = ""
    digits: int = 2
    scale: float = 1.0
    suffix: str = ""
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
        """Say a row's verdict."""
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
        return Counter(verdict_group_of(row) for row in self.rows)

    def marks(self, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Count rows for the marks under the finding, from leaning to B to leaning to A; ``labels`` of A and of B."""
        counts = self.counts()
        leans = {side: "leans to" if counts[side] == 1 else "lean to" for side in ("a", "b")}
        words: dict[VerdictGroup, str] = {
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
        headings = {"a": f"Leans to {labels[0]}", "b": f"Leans to {labels[1]}", **HEADINGS}
        notes = dict(NOTES)
        if margin:
            notes["balanced"] = f"Tests show the score to be within \N{PLUS-MINUS SIGN}{margin:g}."
        found: dict[VerdictGroup, list[Row]] = {group: [] for group in VERDICT_GROUPS}
        for row in self.rows:
            found[verdict_group_of(row)].append(row)
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
        """Put the rows into a few lines."""
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


@dataclass(frozen=True)
class PlainFindings:
    """The first screen and the verdicts of a page as plain words and rows, for documents that are no page.

    Attributes
    ----------
    finding : the finding in one sentence.
    strongest : the strongest of it with its numbers; empty where nothing stands out.
    verdicts : the verdicts, a list for each quantity.
    """

    finding: str
    strongest: str
    verdicts: Sequence[Verdicts]


def digits_of(rows: Iterable[Row], over: str = "images") -> int:
    """Choose decimals for a column: those that the values and their intervals deserve together."""
    return wording.digits_for([number for row in rows for number in (row.value, *row.ends(over))])


def unmeasured(rows: Sequence[Row], unit: str) -> str:
    """Count why rows have no verdict, the commonest reason first: ``no image of the target (2 concepts)``."""
    if not rows:
        return f"the scores hold no {unit}"
    lacking = [row for row in rows if verdict_group_of(row) == "unmeasured"]
    return wording.commonest((wording.reason_words(row) or NO_VERDICT for row in lacking), unit)


@dataclass(frozen=True)
class Page:
    """How one study is shown.

    Attributes
    ----------
    view : the input of a report → the view that its sections read.
    package : the package whose folder ``templates`` holds those of the sections.
    sections : in the order of the page; the first is the masthead, and one has the id ``verdicts``. See
        :func:`clinometer.report.sections.page_sections`.
    finding : the view → the finding in one sentence.
    strongest : the view → the strongest of it with its numbers; empty where nothing stands out.
    verdicts : the view → what it judges, a list for each quantity.
    summarise : the view → a few lines, where these are not the first quantity's.
    meaning : the view → what a side that is named means, in one sentence.
    foremost : (the view, what is judged, concepts, pictures of each) → the pictures beside the finding, where these are
        not :func:`clinometer.report.gallery.foremost_pictures`.
    """

    view: type[View]
    package: str
    sections: tuple[Section, ...]
    finding: Callable[[Any], str]
    strongest: Callable[[Any], str]
    verdicts: Callable[[Any], Sequence[Verdicts]]
    summarise: Callable[[Any], Summary] | None = None
    meaning: Callable[[Any], str] = field(default=lambda view: "")
    foremost: Callable[[Any, Sequence[Verdicts], int, int], list[dict[str, Any]]] | None = None

    def told(self, view: View) -> PlainFindings:
        """Gather what its first screen and its verdicts say."""
        return PlainFindings(self.finding(view), self.strongest(view), self.verdicts(view))

    def summary(self, suite: Suite, scores: pd.DataFrame) -> Summary:
        """Put scores into a few lines, for a terminal and for a notebook."""
        view = self.view.of_scores(suite, scores)
        return self.summarise(view) if self.summarise is not None else self.verdicts(view)[0].summary()
