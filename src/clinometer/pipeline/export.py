"""What of a run goes into a paper: its figures, its tables, how it was measured, and whom to cite."""

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
from clinometer.pipeline.board import Paper, board_files
from clinometer.report import wording
from clinometer.report.figures import Figure, painted, pdf_file, svg_file
from clinometer.report.html import environment, light_inks
from clinometer.report.inputs import report_input
from clinometer.report.page import Page, Section, Verdicts, View
from clinometer.report.rows import Scores
from clinometer.report.sections import flat
from clinometer.runs import Directory, Run
from clinometer.studies import study_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LONG: Final = 40
"""Rows of a table that goes over pages."""

NAMES: Final = ("category", "concept", "group", "setting", "encoder")
"""The columns by which the rows of a metric differ."""

_LATEX: Final = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\^{}", "~": r"\~{}", "−": "$-$", "–": "--", "—": "---", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\leq$",
    "≥": r"$\geq$", "°": r"$^\circ$", "“": "``", "”": "''", "’": "'", "δ": r"$\delta$", "Δ": r"$\Delta$",
    "α": r"$\alpha$", "θ": r"$\theta$", "²": "$^2$", "→": r"$\rightarrow$", "…": r"\ldots{}", "·": r"$\cdot$",
    "<": "$<$", ">": "$>$", "|": "$|$",
})  # fmt: skip
"""What LaTeX reads otherwise, or what its older engines have no letter for."""


def export_run(run: Run, out: str | os.PathLike[str], board: Paper | None = "a4") -> list[str]:
    """Write figures, tables, methods, references and two pages for a board into a folder; return the files' names.

    ``figures/`` holds each figure of the report as SVG and as PDF, ``tables/`` the verdicts and every metric as CSV and
    as LaTeX (booktabs), ``methods.md`` and ``methods.tex`` a description of what was done with the run's own settings,
    and ``references.bib`` what these cite. ``board.html`` is two pages on the paper ``board``, and ``board.pdf`` these
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
        raise InvalidInputError(f"{place.shown}: this is the run itself; give another folder")
    place.require_place()
    report = report_input(run)
    page = study_of(run.suite).page(run.suite)
    view = page.view.of(report)
    written: list[tuple[str, str | bytes]] = [
        *_figures(view, page),
        *_tables(view, page),
        *_methods(view, page),
        *(board_files(run, view, page, board) if board else ()),
    ]
    for name, content in written:
        place.write_bytes(name, content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    return [name for name, _ in written]


class Figures:
    """The figures of a run's report as matplotlib's, by their names: ``figures.dial()``. Each call draws anew.

    What is drawn is yours: change its axes, its labels, its size, and ``savefig`` it. ``leaning`` is the figure that a
    report opens with, in every study.
    """

    def __init__(self, run: Run) -> None:
        self._page = study_of(run.suite).page(run.suite)
        self._view = self._page.view.of(report_input(run))

    def leaning(self) -> Canvas:
        """Draw how far each concept, or test, leans: the figure at the head of the report."""
        for name in self._names:
            return self._drawn(name)
        raise InvalidInputError("the report of this run has no figure")

    @cached_property
    def _names(self) -> dict[str, tuple[Section, str]]:
        """The section and the name of each figure, by its name in Python."""
        return {
            figure.name.replace("-", "_"): (section, figure.name)
            for section in self._page.sections
            for figure in _figures_in(section.build(self._view))
        }

    def _drawn(self, name: str) -> Canvas:
        section, own = self._names[name]
        figure = next(figure for figure in _figures_in(section.build(self._view)) if figure.name == own)
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
        return partial(self._drawn, name)

    def __dir__(self) -> list[str]:
        return sorted({"leaning", *self._names})

    def __repr__(self) -> str:
        return f"Figures({', '.join(dir(self))})"


def _figures(view: View, page: Page) -> Iterator[tuple[str, bytes]]:
    inks = light_inks()
    found = {figure.name: figure for section in page.sections for figure in _figures_in(section.build(view))}
    for name, figure in found.items():
        yield f"figures/{name}.svg", svg_file(figure, inks)
        yield f"figures/{name}.pdf", pdf_file(figure, inks)


def _figures_in(value: Any) -> Iterator[Figure]:
    if isinstance(value, Figure):
        yield value
    elif isinstance(value, Mapping):
        yield from _figures_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _figures_in(part)


def _tables(view: View, page: Page) -> Iterator[tuple[str, str]]:
    for number, verdicts in enumerate(page.verdicts(view), start=1):
        name = f"verdicts-{number}" if number > 1 else "verdicts"
        table = verdict_table(verdicts)
        caption = f"{verdicts.title}: {verdicts.meaning.rstrip('.')}. Intervals are 95 % over {verdicts.over}."
        yield f"tables/{name}.csv", csv_text(table)
        yield f"tables/{name}.tex", latex(table, caption=caption, label=f"tab:{name}")
    scores = view.report.scores
    for metric, rows in scores.groupby("metric", sort=False):
        yield f"tables/{metric}.csv", csv_text(rows.dropna(axis=1, how="all"))
        yield f"tables/{metric}.tex", metric_latex(scores, str(metric))


def verdict_table(verdicts: Verdicts) -> pd.DataFrame:
    """Put what a study judges into a table as it is written: a row a concept or a test."""
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
        raise InvalidInputError(
            f"found {metric!r}, expected one of {', '.join(scores.metric.unique())}", field="metric"
        )
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
    return latex(table.rename(columns=wording.COMPONENT_NAMES), caption=caption, label=f"tab:{metric}")


def latex(table: pd.DataFrame, *, caption: str, label: str) -> str:
    """Write a table of texts as LaTeX with the rules of booktabs; a long one goes over pages."""
    needs = "booktabs, longtable" if len(table) > LONG else "booktabs"
    written = table.map(lambda cell: str(cell).translate(_LATEX)).rename(
        columns=lambda name: str(name).translate(_LATEX)
    )
    body = written.style.hide(axis="index").to_latex(
        hrules=True,
        caption=caption.translate(_LATEX),
        label=label,
        position="htbp",
        environment="longtable" if len(table) > LONG else None,
        column_format="l" * len(table.columns),
    )
    return f"% needs \\usepackage{{{needs}}}\n{body}"


def _methods(view: View, page: Page) -> Iterator[tuple[str, str]]:
    report = view.report
    tests = sorted(
        {row.test.partition(":")[0] for verdicts in page.verdicts(view) for row in verdicts.rows if row.test}
    )
    statuses = Counter(report.samples["status"])
    text = (
        environment(page.package)
        .overlay(autoescape=False, trim_blocks=False, lstrip_blocks=False)
        .get_template("methods.md")
        .render(
            view=view,
            report=report,
            settings={
                name: value
                for name, value in flat(report.model_card.get("settings") or {}).items()
                if value != wording.MISSING
            },
            statuses=statuses,
            tests=tests,
        )
    )
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n") if paragraph.strip())
    yield "methods.md", f"{text}\n"
    pieces = re.split(r"(\[@[\w;@ ]+\])", text)
    cited = [
        f"\\cite{{{piece[2:-1].replace('; @', ',')}}}" if at % 2 else piece.translate(_LATEX)
        for at, piece in enumerate(pieces)
    ]
    yield "methods.tex", f"{''.join(cited)}\n"
    entries = (resources.files("clinometer.report") / "references.bib").read_text("utf-8").split("\n\n")
    yield "references.bib", "\n\n".join(entry.strip() for entry in entries if _key(entry) in text) + "\n"


def _key(entry: str) -> str:
    return "@" + entry.partition("{")[2].partition(",")[0]
