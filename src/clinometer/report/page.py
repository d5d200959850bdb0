"""How a study is shown: the sections of its page, and its numbers in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.report.verdict_words import reason_words, verdict_group_of
from clinometer.report.view import View

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite


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


def digits_of(rows: Sequence[Row], *, stimulus: bool = False) -> int:
    """Decimals of a column: those that the values and their intervals deserve together."""
    ends = ("stimulus_low", "stimulus_high") if stimulus else ("low", "high")
    return wording.digits_for([getattr(row, name) for row in rows for name in ("value", *ends)])


def unmeasured(rows: Sequence[Row], unit: str) -> str:
    """Count why rows have no verdict, the commonest reason first: ``no image of the target (2 concepts)``."""
    if not rows:
        return f"the scores hold no {unit}"
    lacking = [row for row in rows if verdict_group_of(row) == "unmeasured"]
    return wording.commonest((reason_words(row) or "there is no verdict" for row in lacking), unit)


@dataclass(frozen=True)
class Page:
    """How one study is shown.

    Attributes
    ----------
    view : the input of a report → the view that its sections read.
    package : the package whose folder ``templates`` holds those of the sections.
    sections : in the order of the page; the first is the masthead, and one has the id ``verdicts``.
    summary : (suite, scores) → a few lines.
    """

    view: type[View]
    package: str
    sections: tuple[Section, ...]
    summary: Callable[[Suite, pd.DataFrame], Summary]
