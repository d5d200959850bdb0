"""What of a run goes into a paper: its figures, its tables, how it was measured, and whom to cite; and before a board.

Two pages for a board tell what was found, how sure it is, what it means and what to do next, with pictures and limits.
Every sentence follows from rows: a side is named where a verdict names it, and what the images do not tell is said so.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pandas as pd

from clinometer._csv import csv_text
from clinometer.errors import InvalidInputError
from clinometer.pipeline.latex import ESCAPES, QUOTED_BRACKET, latex, latex_figures, plain_name
from clinometer.report import wording
from clinometer.report.figures import Figure, figures_in, painted, pdf_file, svg_file
from clinometer.report.fonts import font_faces
from clinometer.report.gallery import foremost_pictures
from clinometer.report.html import asset, environment, light_inks, shown, style_and_script
from clinometer.report.inputs import report_input
from clinometer.report.model_card.content import escaped as markdown_text
from clinometer.report.model_card.content import limits_of, one_line
from clinometer.report.page import Page, Section, Verdicts, View
from clinometer.report.rows import Row, Scores
from clinometer.report.sections import HUMAN, flat, how_sure
from clinometer.runs import Directory, Run
from clinometer.studies import study_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Paper = Literal["a4", "letter"]

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
        raise InvalidInputError(f"{place.shown}: this is the run itself; give another folder")
    place.require_place()
    report = report_input(run)
    page = study_of(run.suite).page(run.suite)
    view = page.view.of(report)
    inks = light_inks()
    figures = _named_figures(page, view)
    written: list[tuple[str, str | bytes]] = [
        *(
            (f"figures/{name}.{kind}", draw(figure, inks))
            for name, figure in figures.items()
            for kind, draw in (("svg", svg_file), ("pdf", pdf_file))
        ),
        *_figure_captions(figures),
        *_tables(view, page),
        *_methods(view, page),
        *(board_files(run, view, page, board) if board else ()),
    ]
    for name, content in written:
        place.write_bytes(name, content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    return [name for name, _ in written]


def _named_figures(page: Page, view: View) -> dict[str, Figure]:
    """Name each figure of the report by what it shows."""
    named: dict[str, Figure] = {}
    for figure in (figure for section in page.sections for figure in figures_in(section.build(view))):
        name = plain_name(f"{figure.title}".lower())[:60].strip("-")
        if name in named:
            name = f"{name}-{plain_name(figure.name)}"
        named[name] = figure
    return named


def _figure_captions(figures: Mapping[str, Figure]) -> Iterator[tuple[str, str]]:
    if figures:
        told = [(name, figure, f"{figure.title.rstrip('.')}.") for name, figure in figures.items()]
        yield "figures.tex", latex_figures(told, label="figure")


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
            return self._draw(name)
        raise InvalidInputError("the report of this run has no figure")

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


def _tables(view: View, page: Page) -> Iterator[tuple[str, str]]:
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


def _methods(view: View, page: Page) -> Iterator[tuple[str, str]]:
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
        """Fill in the template, with what is put into it written so; white space at its ends is ours."""

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


# --- two pages for a board -------------------------------------------------------------------------------------------

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_NODE: Final = rb"node\d{8}"

PATIENCE: Final = 120
"""Seconds that a browser has to print two pages."""

NAMED: Final = 6
"""Concepts that a side names; more are counted."""

_LONGEST: Final = {"title": 110, "finding": 420, "strongest": 260, "meaning": 330, "line": 260, "limit": 330}
"""Characters of what may be long because a name is, so that two pages are two pages whatever a suite says."""


def board_files(run: Run, view: View, page: Page, paper: Paper) -> Iterator[tuple[str, str | bytes]]:
    """Write ``board.html`` and, where there is something that prints it, ``board.pdf``."""
    html = board_html(run, view, page, paper)
    yield "board.html", html
    pdf = print_page(html)
    if pdf is not None:
        yield "board.pdf", _printed_alike(pdf, str(view.report.settings.get("created", "")))


def board_html(run: Run, view: View, page: Page, paper: Paper) -> str:
    """Render the two pages as one HTML file that asks the network for nothing."""
    report, judged = view.report, page.verdicts(view)
    lead = page.sections[0].build(view) or {}
    figure = lead.get("figure")
    drawing = base64.b64encode(svg_file(figure, light_inks())).decode("ascii") if figure else ""
    templates = environment(page.package)
    style = f"@page {{ size: {paper}; margin: 14mm; }}\n{font_faces()}\n{asset('board.css')}"
    cards = {"model": report.model_card} | {f"encoder {name}": card for name, card in report.encoder_cards.items()}
    return templates.get_template("board.html").render(
        title=wording.shortened(report.title, _LONGEST["title"]),
        finding=wording.shortened(page.finding(view), _LONGEST["finding"]),
        strongest=wording.shortened(page.strongest(view), _LONGEST["strongest"]),
        sure=[
            (name, wording.shortened(said, _LONGEST["line"]))
            for name, said in how_sure(view, judged)
            if name != "The rule"
        ],
        practice=[wording.shortened(line, _LONGEST["line"]) for line in in_practice(judged)],
        meaning=wording.shortened(lead.get("meaning") or page.meaning(view), _LONGEST["meaning"]),
        steps=[wording.shortened(step, _LONGEST["line"]) for step in next_steps(view, judged)],
        marks=[mark | {"words": wording.shortened(mark["words"], 60)} for mark in lead.get("marks", ())],
        figure=drawing and f"data:image/svg+xml;base64,{drawing}",
        caption=wording.shortened(lead.get("caption", ""), _LONGEST["line"]),
        strips=foremost_pictures(view, judged, most=3),
        limits=[limit for limit in limits_of(page, view) if len("".join(limit)) <= _LONGEST["limit"]],
        facts=[(name, wording.shortened(value, 90)) for name, value in lead.get("facts", ())],
        hashes=[
            ("run.json", run.record.get("checksum") or "none: the run was begun by a version without checksums"),
            ("scores.parquet", run.directory.sha256("scores.parquet")),
            ("suite", run.record["suite_fingerprint"]),
            *(
                (wording.shortened(name, 40), card.get("weights_sha256") or card.get("fingerprint") or "none")
                for name, card in list(cards.items())[:4]
            ),
        ],
        versions=", ".join(f"{name} {version}" for name, version in list(run.record["versions"].items())[:6]),
        version=metadata.version("clinometer"),
        unchecked=report.unchecked,
        damaged=bool(report.damage),
        paper=paper,
        **style_and_script(style),
    )


def in_practice(judged: Sequence[Verdicts]) -> list[str]:
    """Name what leans to which side, and what is shown balanced, in the words of the verdicts."""
    lines = []
    for each in judged:
        by_words: dict[str, list[Row]] = {}
        for row in each.rows:
            if wording.leans(row) or wording.verdict_group_of(row) == "balanced":
                by_words.setdefault(each.verdict(row), []).append(row)
        opening = f"{wording.capitalised(each.symbol)}: " if len(judged) > 1 else ""
        for words, rows in by_words.items():
            rows.sort(key=lambda row: -abs(row.value))
            names = [wording.shortened(each.name(row), 44) for row in rows[:NAMED]]
            more = len(rows) - len(names)
            listed = wording.listed([*names, *([f"{more} more"] if more else [])])
            lines.append(f"{opening}{wording.capitalised(words)}: {listed}.")
    none = "No verdict names a side: nothing here says that the model leans, and nothing that it does not."
    return lines[:5] or [none]


def next_steps(view: View, judged: Sequence[Verdicts]) -> list[str]:
    """Say what may be done next, by what was found and what keeps it from being surer."""
    rows = [row for each in judged for row in each.rows]
    groups = [wording.verdict_group_of(row) for row in rows]
    named, unmeasured = sum(map(wording.leans, rows)), groups.count("unmeasured")
    undecided = [row for row, group in zip(rows, groups, strict=True) if group in ("undecided", "few")]
    steps = []
    if named:
        steps.append(
            "Decide for each leaning whether the use can bear it. Where it cannot, change the prompts, the choice of "
            "pictures or the model, then measure again: clinometer compare tells whether it helped."
        )
    if undecided:
        reach = wording.about(*(row.n_decide for row in undecided))
        beside = f", {judged[0].beside}" if judged[0].beside else ""
        each = f"{reach} {judged[0].drawn} each{beside}, by today\u2019s estimates"
        more = each if reach else "clinometer plan says how many"
        steps.append(
            f"Draw more where the images do not tell ({len(undecided):,}): {more}. Until then conclude nothing."
        )
    if unmeasured:
        of = wording.count(unmeasured, judged[0].unit)
        steps.append(f"Mend what could not be measured ({of}) before anything is said of it.")
    lost = sum(status != "ok" for status in view.report.samples["status"]) if "status" in view.report.samples else 0
    if lost:
        steps.append(f"Find out why {wording.count(lost, 'image is', 'images are')} missing: refusals can lean, too.")
    if len(view.encoders) == 1:
        steps.append("Read the same pictures with a second encoder; that draws nothing anew.")
    if view.encoders and not any(row.metric == HUMAN for row in view.scores):
        steps.append("Have people say what a sample of the pictures shows: clinometer ratings.")
    steps.append("Set limits and hold every new version of the model to them: clinometer gate.")
    return steps[:5]


# --- printing --------------------------------------------------------------------------------------------------------


def print_page(html: str) -> bytes | None:
    """Print a page as PDF by Chromium, else by WeasyPrint; None where there is neither, or neither can."""
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser:
        with tempfile.TemporaryDirectory(prefix="clinometer-", ignore_cleanup_errors=True) as folder:
            page, pdf = Path(folder, "board.html"), Path(folder, "board.pdf")
            page.write_text(html, "utf-8", "replace")
            command = [
                browser, "--headless", "--disable-gpu", "--disable-extensions", "--no-first-run",
                "--no-pdf-header-footer", f"--user-data-dir={folder}/profile", f"--print-to-pdf={pdf}", page.as_uri(),
            ]  # fmt: skip
            if getattr(os, "geteuid", lambda: 1)() == 0:  # as root a browser starts without its sandbox or not at all
                command.insert(1, "--no-sandbox")
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
                if printed := pdf.read_bytes():
                    return printed
    from PIL import ImageFile

    takes_truncated = ImageFile.LOAD_TRUNCATED_IMAGES
    try:
        from weasyprint import HTML
    except (ImportError, OSError):  # it is not installed, or the libraries that it needs are not there
        return None
    finally:  # it has the whole process take damaged images for whole ones
        ImageFile.LOAD_TRUNCATED_IMAGES = takes_truncated
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = epoch or "0"  # fontTools writes it into a font in place of the time of printing
    try:
        return bytes(HTML(string=html).write_pdf())
    finally:
        if epoch is None:
            del os.environ["SOURCE_DATE_EPOCH"]


def _printed_alike(pdf: bytes, created: str) -> bytes:
    """Make a PDF such that the same run prints alike.

    It has the date of its run in place of the time of printing, and Chromium's names of parts of the page, which go on
    from what the browser made before, are numbered in their order.
    """
    digits = re.sub(r"\D", "", created)[:14].ljust(14, "0").encode("ascii")
    pdf = re.sub(rb"(/(?:Creation|Mod)Date \(D:)\d{14}", rb"\g<1>" + digits, pdf)
    names = sorted(set(re.findall(_NODE, pdf)))
    numbered = {name: b"node%08d" % number for number, name in enumerate(names, 1)}
    return re.sub(_NODE, lambda found: numbered[found[0]], pdf)
