"""How a study is shown: the sections of its page, and its numbers in a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    template : its template in ``templates/sections``, without ``.html``.
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
    """

    verdicts: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Page:
    """How one study is shown.

    Attributes
    ----------
    view : the input of a report → the view that its sections read.
    sections : in the order of the page; the first is the masthead, and one has the id ``verdicts``.
    summary : (suite, scores) → a few lines.
    """

    view: type[View]
    sections: tuple[Section, ...]
    summary: Callable[[Suite, pd.DataFrame], Summary]
