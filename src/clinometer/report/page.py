"""How a study is shown: the sections of its page, and its numbers in a few lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from clinometer.report import wording
from clinometer.report.inputs import ReportInput
from clinometer.report.rows import MEAN, METRICS_OF_THE_MODEL, Row, Scores
from clinometer.report.wording import Label, not_measured, reason_words, verdict_group_of, verdict_words

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite


NO_VERDICT: Final = "there is no verdict"


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes
    ----------
    id : its anchor.
    label : its name in the contents; empty for the masthead, which comes before them.
    build : what it says, as plain values for its template; None leaves it out of the page and of its contents.
    template : its template, without ``.html``: of the study, or one of those that all studies share.
    """

    id: str
    label: str
    build: Callable[[Any], dict[str, Any] | None]
    template: str


@dataclass(frozen=True)
class Summary:
    """A run in a few lines, for a terminal and for a notebook.

    Attributes
    ----------
    verdicts : the verdicts, counted.
    title : what the table shows and what its sign means.
    columns, rows : the table; the first column is a name, the last a verdict, those between are numbers.
    unmeasured : the commonest reasons why rows have no verdict, counted; empty where all have one.
    """

    verdicts: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    unmeasured: str = ""


@dataclass(frozen=True)
class Judged:
    """One thing that was judged, in the words of the page; what it could not measure has no value and a note.

    Attributes
    ----------
    name : what it is about: a concept, a test, a contrast.
    row : its score.
    value, interval, q, verdict : as the page writes them; empty where there is none.
    ends : the interval that the verdict rests on, as numbers.
    notes : what else the page says of it: how many images, on what it depends, why there is no verdict.
    """

    name: str
    row: Row
    value: str
    interval: str
    q: str
    verdict: str
    ends: tuple[float, float]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdicts:
    """What a study judges by one quantity.

    Attributes
    ----------
    unit : what a row is about: ``"concept"``.
    symbol : the quantity as a column is headed: ``"Image part"``.
    meaning : its scale and the meaning of its sign.
    rows : everything that was judged, in the order of the suite.
    label : the label of a side.
    """

    unit: str
    symbol: str
    meaning: str
    rows: tuple[Judged, ...]
    label: Label = str


@dataclass(frozen=True)
class Told:
    """The first screen and the verdicts of a page as plain words and rows, for documents that are no page.

    Attributes
    ----------
    finding : the finding in one sentence.
    strongest : the strongest of it with its numbers; empty where nothing stands out.
    verdicts : the verdicts, a list for each quantity.
    """

    finding: str
    strongest: str
    verdicts: tuple[Verdicts, ...]


def judged(
    row: Row,
    name: str,
    label: Label,
    value: str,
    interval: str,
    *,
    ends: tuple[float, float],
    notes: Iterable[str] = (),
) -> Judged:
    """One row with its verdict; one that could not be judged says why."""
    why = [reason_words(row) or NO_VERDICT] if not_measured(row) or not row.defined else []
    return Judged(
        name=name,
        row=row,
        value=value if row.defined else "",
        interval=interval,
        q=wording.bare_probability(row.q),
        verdict=verdict_words(row, label) or "not measured",
        ends=ends,
        notes=tuple(dict.fromkeys(note for note in (*(notes if row.defined else ()), *why) if note)),
    )


def digits_of(rows: Sequence[Row], *, stimulus: bool = False) -> int:
    """Decimals of a column: those that the values and their intervals deserve together."""
    ends = ("stimulus_low", "stimulus_high") if stimulus else ("low", "high")
    return wording.digits_for([getattr(row, name) for row in rows for name in ("value", *ends)])


def unmeasured(rows: Sequence[Row], unit: str) -> str:
    """Count why rows have no verdict, the commonest reason first: ``no image of the target (2 concepts)``."""
    if not rows:
        return f"the scores hold no {unit}"
    lacking = [row for row in rows if verdict_group_of(row) == "unmeasured"]
    return wording.commonest((reason_words(row) or NO_VERDICT for row in lacking), unit)


@dataclass(frozen=True)
class Page:
    """How one study is shown.

    Attributes
    ----------
    view : the input of a report → the view that its sections read.
    package : the package whose folder ``templates`` holds those of the sections.
    sections : in the order of the page; the first is the masthead, and one has the id ``verdicts``.
    summary : (suite, scores) → a few lines.
    told : the view → what its first screen and its verdicts say, for a model card.
    """

    view: type[View]
    package: str
    sections: tuple[Section, ...]
    summary: Callable[[Suite, pd.DataFrame], Summary]
    told: Callable[[Any], Told]


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

    def label(self, group: str) -> str:
        """Look up a group's label for people; a name the suite does not know is shown as it is."""
        return self.report.suite.label_of(group)

    @cached_property
    def encoders(self) -> list[str]:
        """Names of the single encoders, in stored order; rows that no encoder made, as those of refusals, name none."""
        rows = (row for row in self.scores if row.metric not in METRICS_OF_THE_MODEL)
        return list(dict.fromkeys(row.encoder for row in rows if row.encoder not in (MEAN, "")))


class PairView(View, ABC):
    """A run of a study that compares two groups, or two attributes."""

    @abstractmethod
    def labels_of(self, side: str) -> list[str]:
        """Labels of the two sides of a difference, that of ``side``, the first of them, in front."""
