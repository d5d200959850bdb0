"""Export a run for a paper: figures, tables, a description of the method, and references."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from clinometer._csv import csv_text
from clinometer.errors import InvalidInputError
from clinometer.exports.board import Paper, board_files
from clinometer.exports.latex import ESCAPES, QUOTED_BRACKET, latex, latex_figures, plain_name
from clinometer.report import wording
from clinometer.report.figures import Figure, figures_in, painted, pdf_file, svg_file
from clinometer.report.html import environment, light_inks, shown
from clinometer.report.model_card import escaped as markdown_text
from clinometer.report.model_card import one_line
from clinometer.report.page import Page, Section
from clinometer.report.sections import flat
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Scores, View
from clinometer.runs import Directory, Run
from clinometer.studies import component_names
from clinometer.studies.reporting import page_and_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

NAMES: Final = ("category", "concept", "group", "setting", "encoder")
"""The columns by which the rows of a metric differ."""


def export_run(run: Run, out: str | os.PathLike[str], board: Paper | None = "a4") -> list[str]:
    """Write figures, tables, methods, references and two pages for a board into a folder; return the files' names.

    ``figures/`` holds each figure of the report as SVG and as PDF, ``figures.tex`` includes them with captions,
    ``tables/`` the verdicts and every metric as CSV and as LaTeX (booktabs), ``methods.md`` and ``methods.tex`` a
    description of what was done with the run's own settings, and ``references.bib`` what these cite. ``board.html``
    is two pages on the paper ``board``, and ``board.pdf`` these
    printed, where Chromium or WeasyPrint is there. The same run gives the same bytes.

    Raises
    ------
    RunError
        The run is not scored, its files are not what was written, or the folder cannot be written.
    InvalidInputError
        The folder is the run itself.
    """
    place = Directory(out)
    if place.place == run.directory.place:
        raise InvalidInputError.conflict(f"{place.shown}: this is the run itself; give another folder")
    place.require_place()
    page, view = page_and_view(run)
    inks = light_inks()
    figures = _named_figures(page, view)
    captioned = [(name, figure, f"{figure.title.rstrip('.')}.") for name, figure in figures.items()]
    written: list[tuple[str, str | bytes]] = [
        *(
            (f"figures/{name}.{kind}", draw(figure, inks))
            for name, figure in figures.items()
            for kind, draw in (("svg", svg_file), ("pdf", pdf_file))
        ),
        *([("figures.tex", latex_figures(captioned, label="figure"))] if captioned else []),
        *_tables(view, page),
        *_methods(view, page),
        *(board_files(run, view, page, board) if board else ()),
    ]
    place.require_own([name for name, _ in written], OWN_MARKS)
    for name, content in written:
        place.write_bytes(name, content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    return [name for name, _ in written]


OWN_MARKS: Final[Mapping[str, bytes]] = {
    "README.md": b"\n- clinometer\n", "references.bib": b"@misc{clinometer,", "methods.md": b"[@clinometer]",
    "methods.tex": b"clinometer",
}  # fmt: skip
"""Text that marks a file as one written here, as other tools use the same file names."""


def _named_figures(page: Page[Any], view: View) -> dict[str, Figure]:
    """Name each figure of the report by what it shows."""
    named: dict[str, Figure] = {}
    for figure in (figure for section in page.sections for figure in figures_in(section.build(view))):
        name = plain_name(f"{figure.title}".lower())[:60].strip("-")
        if name in named:
            name = f"{name}-{plain_name(figure.name)}"
        named[name] = figure
    return named


class Figures:
    """The figures of a run's report as matplotlib figures, by name: ``figures.forest()``. Each call draws a new one.

    What is drawn is yours: change its axes, its labels, its size, and ``savefig`` it. ``leaning`` is the figure that a
    report opens with, in every study.
    """

    def __init__(self, run: Run) -> None:
        self._page, self._view = page_and_view(run)

    def leaning(self) -> Canvas:
        """Draw how far each concept, or test, leans: the figure at the head of the report."""
        for name in self._names:
            return self._draw(name)
        raise InvalidInputError.unsupported("the report of this run has no figure")

    @cached_property
    def _names(self) -> dict[str, tuple[Section, str]]:
        """The section and the name of each figure, by its name in Python."""
        return {
            figure.name.replace("-", "_"): (section, figure.name)
            for section in self._page.sections
            for figure in figures_in(section.build(self._view))
        }

    def _draw(self, name: str) -> Canvas:
        section, own = self._names[name]
        figure = next(figure for figure in figures_in(section.build(self._view)) if figure.name == own)
        drawn = painted(figure, light_inks())
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if shell is not None and type(drawn) not in shell.display_formatter.formatters["image/png"].type_printers:
            from IPython.core.pylabtools import select_figure_formats

            # a notebook shows figures once pyplot has been used, and not before
            select_figure_formats(shell, {"png"})  # type: ignore[no-untyped-call]
        return drawn

    def __getattr__(self, name: str) -> Callable[[], Canvas]:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"the report has no figure {name!r}; it has {', '.join(self._names) or 'none'}")
        return partial(self._draw, name)

    def __dir__(self) -> list[str]:
        return sorted({"leaning", *self._names})

    def __repr__(self) -> str:
        return f"Figures({', '.join(dir(self))})"


def _tables(view: View, page: Page[Any]) -> Iterator[tuple[str, str]]:
    for number, verdicts in enumerate(page.verdicts(view), start=1):
        name = f"verdicts-{number}" if number > 1 else "verdicts"
        table = verdict_table(verdicts)
        caption = f"{verdicts.title}: {verdicts.meaning.rstrip('.')}. Intervals are 95 % over {verdicts.over}."
        yield f"tables/{name}.csv", csv_text(table)
        yield f"tables/{name}.tex", latex(table, caption=caption, label=f"tab:{name}")
    scores, taken = view.report.scores, set[str]()
    for metric, rows in scores.groupby("metric", sort=False):
        name = plain_name(str(metric))
        name = name if name not in taken else f"{name}-{len(taken) + 1}"
        taken.add(name)
        yield f"tables/{name}.csv", csv_text(rows.dropna(axis=1, how="all"))
        yield f"tables/{name}.tex", metric_latex(scores, str(metric))


def verdict_table(verdicts: Verdicts) -> pd.DataFrame:
    """Format what a study judges as a table: a row a concept or a test."""
    unit = verdicts.heading or wording.capitalised(verdicts.unit)
    return pd.DataFrame(
        [
            {
                unit: verdicts.name(row),
                "n": f"{row.n_target:,.0f}" if row.n_target else "",
                verdicts.title: verdicts.value(row),
                "95 % interval": verdicts.interval(row),
                "q": wording.bare_probability(row.q),
                "Verdict": verdicts.verdict(row),
            }
            for row in verdicts.rows
        ]
    )


def metric_latex(scores: pd.DataFrame, metric: str) -> str:
    """Write the numbers of a metric as a LaTeX table: a row a concept, group or setting, a column a component.

    Where a run has several encoders and their average, the table holds the average. An unstable or undefined number is
    marked as in the report.

    Raises
    ------
    InvalidInputError
        The run has no such metric.
    """
    rows = [row for row in Scores.from_frame(scores) if row.metric == metric]
    if not rows:
        raise InvalidInputError.expected_one_of(scores.metric.unique(), metric, field="metric")
    if any(row.encoder == "mean" for row in rows):
        rows = [row for row in rows if row.encoder == "mean"]
    names = [name for name in NAMES if len({getattr(row, name) for row in rows}) > 1]
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.component, []).append(row.value)
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        written = wording.estimate(row, wording.digits_for(values[row.component]))
        cells.setdefault(tuple(getattr(row, name) for name in names), {})[row.component] = written
    table = pd.DataFrame(
        [dict(zip(map(wording.capitalised, names), key, strict=True)) | written for key, written in cells.items()]
    ).fillna("")
    caption = f"{metric.replace('_', ' ').capitalize()}, with 95 % intervals over images."
    return latex(table.rename(columns=component_names()), caption=caption, label=f"tab:{metric}")


def _methods(view: View, page: Page[Any]) -> Iterator[tuple[str, str]]:
    report = view.report
    tests = sorted(
        {row.test.partition(":")[0] for verdicts in page.verdicts(view) for row in verdicts.rows if row.test}
    )
    statuses = Counter(report.samples["status"])
    values = {
        "view": view,
        "report": report,
        "settings": {
            name: value
            for name, value in flat(report.model_card.get("settings") or {}).items()
            if value != wording.MISSING
        },
        "statuses": statuses,
        "tests": tests,
    }

    def rendered(foreign: Callable[[str], str]) -> str:
        """Render the template, escaping values with a filter; white space at its ends is stripped."""

        def finalize(value: Any) -> str:
            text = str(shown(value))
            ends = (" " if text[:1].isspace() else "", " " if text[-1:].isspace() else "")
            return f"{ends[0]}{foreign(text)}{ends[1]}"

        methods = environment(page.package).overlay(
            autoescape=False, trim_blocks=False, lstrip_blocks=False, finalize=finalize
        )
        text = methods.get_template("methods.md").render(values).strip()
        return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n") if part.strip())

    text = rendered(markdown_text)
    yield "methods.md", f"{text}\n"
    pieces = re.split(r"(\[@[\w;@ ]+\])", rendered(lambda told: one_line(told).replace("[", QUOTED_BRACKET)))
    cited = [
        f"\\cite{{{piece[2:-1].replace('; @', ',')}}}" if at % 2 else piece.translate(ESCAPES)
        for at, piece in enumerate(pieces)
    ]
    yield "methods.tex", f"{''.join(cited)}\n"
    entries = (resources.files("clinometer.report") / "references.bib").read_text("utf-8").split("\n\n")
    keys = [entry.partition("{")[2].partition(",")[0] for entry in entries]
    named = [entry.strip() for key, entry in zip(keys, entries, strict=True) if f"@{key}" in text]
    yield "references.bib", "\n\n".join(named) + "\n"
