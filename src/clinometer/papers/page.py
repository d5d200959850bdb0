"""The page of a paper: its tables and figures in its order, each next to what the runs measured, and the files of both.

It writes what was measured when the runs were scored, and estimates nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from typing import Any

import pandas as pd

from clinometer._csv import csv_text
from clinometer.errors import ClinometerError
from clinometer.exports.latex import latex, latex_columns, latex_figures, plain_name
from clinometer.papers.paper import (
    AnyPart,
    ComponentTable,
    CountedRun,
    CountedTable,
    Drawing,
    Faces,
    Paper,
    PaperRun,
    PrintedTable,
    RowsDrawing,
    rehearsed_words,
)
from clinometer.papers.planning import GIVEN, REFERENCE, AnyRun, PlannedCounts, Reproduction
from clinometer.papers.printed import (
    DRAWN,
    correlations,
    counted_cells,
    models_of,
    paper_table,
    printed_p,
    said_of,
    with_q,
)
from clinometer.papers.printed import GIVEN as GIVEN_PORTRAITS
from clinometer.papers.tables import LaidTable, component_rows, laid_out
from clinometer.report import wording
from clinometer.report.figures import Figure, figures_in, pdf_file, renamed, rows_figure, svg_file
from clinometer.report.html import asset, environment, light_inks, page_style, style_and_script
from clinometer.report.view import Scores, View
from clinometer.runs import Directory, Run
from clinometer.runs.record import Departure, departures
from clinometer.studies import study_of
from clinometer.studies.reporting import page_and_view
from clinometer.suites import load_suite

REHEARSAL = "A rehearsal: other words, another model. It shows every step, and says nothing about the paper’s numbers."
REHEARSAL_IN_SHORT = "Rehearsal: other words, another model."
QUICK = "A quick look: so few images that most intervals are wide and few verdicts are given (--quick)."


@dataclass(frozen=True)
class FinishedRun:
    """A run of the paper that is finished."""

    planned: AnyRun
    run: Run
    drawn: dict[str, tuple[dict[str, Figure], dict[str, Any]]] = field(default_factory=dict)

    @cached_property
    def view(self) -> View:
        """The run as its report shows it."""
        view: View = page_and_view(self.run)[1]
        return view

    def figures(self, part: Drawing) -> Iterator[tuple[Figure, Sequence[Mapping[str, str]]]]:
        """Yield the figures of a section of the run's report, those that it has, each with the key of its lines."""
        if part.section not in self.drawn:
            page = study_of(self.run.suite).page(self.run.suite)
            built = [each.build(self.view) for each in page.sections if each.id == part.section]
            keys = next((each for each in built if isinstance(each, dict)), {})
            self.drawn[part.section] = {figure.name: figure for figure in figures_in(built)}, keys
        drawn, keys = self.drawn[part.section]
        return ((drawn[name], keys.get(part.keys.get(name, ""), ())) for name in part.figures if name in drawn)

    @property
    def in_words(self) -> str:
        """How many pictures it has, of what, and which encoders read them."""
        suite, encoders = self.run.suite, list(self.run.encoder_cards)
        seen = f"; {'encoder' if len(encoders) == 1 else 'encoders'}: {wording.listed(encoders)}" if encoders else ""
        return f"{len(self.run.samples):,} pictures, {suite.images_in_words()}{seen}."

    @property
    def departures(self) -> list[Departure]:
        """Where it is not what the paper prescribes, whether or not it was put under its protocol."""
        return departures(self.run.record, list(self.run.encoder_cards))


@dataclass(frozen=True)
class PageFigure:
    """A figure on the page, with its legend and the key of its lines; ``model`` where the page has several."""

    model: str
    figure: Figure
    legend: str
    key: Sequence[Mapping[str, str]] = ()

    @property
    def in_words(self) -> str:
        """The legend for a file outside the page, where the key of the lines has to be in words."""
        styles = (f"{each['glyph']} {'dashed' if each['dashes'] else 'solid'}, {each['label']}" for each in self.key)
        return " ".join(filter(None, ("; ".join(styles) and f"Lines: {'; '.join(styles)}.", self.legend)))


@dataclass(frozen=True)
class PagePart:
    """Something that the paper prints, as the page shows it: a table, a table of words, figures, or faces."""

    part: AnyPart
    table: LaidTable | None = None
    words: pd.DataFrame | None = None
    figures: Sequence[PageFigure] = ()
    said: Sequence[str] = ()
    faces: Sequence[Mapping[str, Any]] = ()


class PaperPage:
    """The contents of a paper's page, from its runs."""

    def __init__(self, reproduction: Reproduction, paper: Paper) -> None:
        self.reproduction, self.paper = reproduction, paper
        self.planned = [run for run in reproduction.planned if run.paper == paper.name]
        finished = [run for run in self.planned if reproduction.status(run).status == "finished"]
        self.finished, self.lost = list[FinishedRun](), dict[str, str]()
        for run in finished:
            try:
                opened = Run(run.place)
                _ = opened.scores
            except ClinometerError as error:  # a run that was damaged since costs its own part of the page alone
                self.lost[run.key] = " ".join(str(error).split())
            else:
                self.finished.append(FinishedRun(run, opened))

    @property
    def drawn(self) -> list[FinishedRun]:
        """The finished runs whose pictures were drawn here: those that the printed numbers are compared with."""
        return [each for each in self.finished if not isinstance(each.planned, PlannedCounts)]

    def _runs_of(self, name: str) -> list[FinishedRun]:
        """Return the finished runs of this name, one per model."""
        return [each for each in self.finished if each.planned.name == name]

    def label_of(self, run: AnyRun) -> str:
        """Return the label of a run, with its model where the page has several."""
        return f"{run.name}, {run.model}" if len(self.models) > 1 else run.name

    @property
    def is_rehearsal(self) -> bool:
        """Whether no model was asked the paper's own words."""
        return all(run.renamed is not None for run in self.planned)

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """The runs that are not there, and why."""
        lines = list[tuple[str, str]]()
        for run in self.planned:
            status = self.reproduction.status(run)
            if status.status != "finished":
                lines.append((f"{run.name}, {run.model}", status.reason or "not begun"))
        planned = {run.name for run in self.planned}
        specs: dict[str, PaperRun | CountedRun] = {**self.paper.runs, **self.paper.counted}
        lines += [(name, f"not provided: {spec.needs}") for name, spec in specs.items() if name not in planned]
        return [*lines, *self.lost.items()]

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """The names that a rehearsal has for the paper's; empty where the page shows more than a rehearsal."""
        if not self.is_rehearsal:
            return {}
        return {name: rehearsed for run in self.planned for name, rehearsed in (run.renamed or {}).items()}

    def label(self, key: str, value: str, part: PrintedTable | CountedTable) -> str:
        """Return the paper's words for a value of a key."""
        if value in part.labels:
            return part.labels[value]
        if key == "model":
            return models_of(self.paper.name).get(value, value)
        if key == "category":
            for spec in self.paper.runs.values():
                categories = getattr(load_suite(spec.suite), "categories", {})
                if value in categories:
                    return str(categories[value].label or value)
        return value

    @cached_property
    def cells(self) -> dict[str, pd.DataFrame]:
        """Every printed cell beside our numbers, by our models."""
        by_model: dict[str, list[pd.DataFrame]] = {}
        for each in self.drawn:
            try:
                table = paper_table(each.run, self.paper.name, self._printed_of(each), each.planned.renamed)
            except ClinometerError:  # a run that the paper's figures rest on, and none of its tables
                continue
            by_model.setdefault(each.planned.model, []).append(table)
        return {model: pd.concat(tables) for model, tables in by_model.items()}

    def _printed_of(self, run: FinishedRun) -> Sequence[str]:
        """Return the paper's models that a run is compared with; a run of given portraits with those of given ones."""
        given = [each.planned.model for each in self.drawn if each.planned.spec.needs]
        if run.planned.spec.needs:
            return (GIVEN_PORTRAITS,)
        return (DRAWN,) if run.planned.model in given else ()

    def cells_of(self, part: PrintedTable) -> dict[str, pd.DataFrame]:
        """Return the cells of a table, by our models."""
        name = self.paper.published.tables[part.printed]
        tables = {model: cells[cells.table == name] for model, cells in self.cells.items()}
        return tables if part.tested is None else {model: with_q(cells, part.tested) for model, cells in tables.items()}

    def table(self, part: PrintedTable) -> LaidTable | None:
        """Format a printed table."""
        return laid_out(part, self.cells_of(part), lambda key, value: self.label(key, value, part), self.renamed)

    def counted(self, part: CountedTable) -> LaidTable | None:
        """Format a table of counts, by the run of its labels."""
        for each in self.finished:
            if isinstance(each.planned, PlannedCounts) and each.planned.name == part.counted:
                printed = printed_p(each.planned.pictures, each.planned.spec.label)
                cells = counted_cells(Scores.from_frame(each.run.scores), printed)
                laid = laid_out(part, {GIVEN: cells}, lambda key, value: self.label(key, value, part), {})
                return None if laid is None else replace(laid, said=tuple(said_of(cells)))
        return None

    def figures(self, part: Drawing) -> list[PageFigure]:
        """Draw the figures that have the form of a printed one."""
        drawn = []
        for order, each in enumerate(self._runs_of(part.run)):
            for figure, key in each.figures(part):
                model = each.planned.model if len(self.models) > 1 else ""
                on_page = renamed(figure, f"{part.place}-{order}-{figure.name}")
                drawn.append(PageFigure(model, on_page, f"{part.legend} {each.in_words}", key))
        return drawn

    def faces(self, part: Faces) -> list[dict[str, Any]]:
        """Gather average faces: of each model the heads of columns, and a row a group."""
        tables = []
        for each in self._runs_of(part.run):
            page = study_of(each.run.suite).page(each.run.suite)
            (built,) = (section.build(each.view) for section in page.sections if section.id == part.faces)
            if built and built.get("faces"):
                heads = [", ".join(column) for column in getattr(each.view, "columns", ())]
                tables.append({"model": each.planned.model, "heads": heads, "rows": built["faces"]})
        return tables

    def rows(self, part: RowsDrawing) -> list[PageFigure]:
        """Draw single numbers, a row each, of all models side by side."""
        runs = self._runs_of(part.run)
        by_model = {
            each.planned.model: {
                row.concept.removeprefix(part.without): row
                for row in each.view.scores.select(part.metric, part.component)
                if row.concept and part.group in (None, row.group)
            }
            for each in runs
        }
        names = list(dict.fromkeys(name for rows in by_model.values() for name in rows))
        figure = rows_figure(by_model, names, part.symbol, part.ends, name=part.place, title=part.title)
        drawn = [f"{each.planned.model}: {each.in_words}" if len(runs) > 1 else each.in_words for each in runs]
        return [] if figure is None else [PageFigure("", figure, " ".join([part.legend, *drawn]))]

    @cached_property
    def models(self) -> list[str]:
        """The models of its runs."""
        return list(dict.fromkeys(run.model for run in self.planned))

    def components(self, part: ComponentTable) -> pd.DataFrame:
        """Format a table of words next to what was measured."""
        scores = {each.planned.model: Scores.from_frame(each.run.scores) for each in self._runs_of(part.run)}
        heads = list(scores) if len(scores) > 1 else ["Measured here"] * len(scores)
        rows = [[*words, *ranges] for words, ranges in component_rows(part, scores)]
        return pd.DataFrame(rows, columns=[*part.columns, *heads])

    @cached_property
    def parts(self) -> list[PagePart]:
        """What the paper prints, in its order."""
        return [self._part(part) for part in self.paper.contents]

    def _part(self, part: AnyPart) -> PagePart:
        if isinstance(part, PrintedTable):
            return PagePart(part, table=self.table(part), said=correlations(part.correlated, self.cells_of(part)))
        if isinstance(part, CountedTable):
            return PagePart(part, table=self.counted(part))
        if isinstance(part, ComponentTable):
            return PagePart(part, words=self.components(part))
        if isinstance(part, Faces):
            return PagePart(part, faces=self.faces(part))
        if isinstance(part, RowsDrawing):
            return PagePart(part, figures=self.rows(part))
        return PagePart(part, figures=self.figures(part))

    def finding(self) -> str:
        """Summarise the page in one sentence."""
        if not self.finished:
            return "No run of this paper is finished: there is nothing to compare with it yet."
        if self.is_rehearsal:
            return REHEARSAL
        if self.paper.counted:
            return " ".join(f"{each.part.heading}: {each.table.said[0]}" for each in self.parts if each.table)
        frames = list(self.cells.values())
        if not sum(frame.paper_inside.notna().sum() for frame in frames):
            return "No printed number can be compared with an interval of ours."
        inside = pd.concat([frame.paper_inside.dropna() for frame in frames]).astype(bool)
        printed = f"{inside.sum()} of {wording.count(len(inside), 'printed number')}"
        return f"{printed} lie in the 95\N{NARROW NO-BREAK SPACE}% intervals of what was measured here."

    def notices(self) -> list[str]:
        """Return what a reader must know first."""
        lines = [QUICK] if self.reproduction.record.quick else []
        if self.is_rehearsal and self.finished:
            lines.insert(0, REHEARSAL)
        elif any(run.renamed is not None for run in self.planned):
            lines.append(f"The numbers of {REFERENCE} are a rehearsal: other words, another model.")
        return lines

    def departures(self) -> list[tuple[str, Departure]]:
        """List every departure from the protocol with whose it is: one that several runs share once."""
        whose: dict[Departure, list[str]] = {}
        for each in self.finished:
            for departure in each.departures:
                whose.setdefault(departure, []).append(self.label_of(each.planned))
        every = len(self.finished)
        return [("every run" if len(names) == every else wording.listed(names), each) for each, names in whose.items()]

    def run_rows(self) -> list[dict[str, Any]]:
        """Describe the runs, with links to their reports."""
        ups = "../" if self.reproduction.folder_of(self.paper) else ""
        return [
            {
                "name": self.label_of(each.planned),
                "link": f"{ups}runs/{each.planned.key}/report.html" if each.run.directory.exists("report.html") else "",
                "suite": each.run.suite.name,
                "images": f"{len(each.run.samples) or each.run.model_card['settings'].get('images', 0):,}",
                "shared": "; ".join(f"{n:,} of {name}" for name, n in each.run.record.get("pictures_of", {}).items()),
                "encoders": wording.listed(list(each.run.encoder_cards)) or "none",
                "seed": str(each.run.record["seed"]),
            }
            for each in self.finished
        ]

    def open_questions(self) -> list[tuple[str, str]]:
        """List what the paper leaves open, with the choice that was made, and deliberate differences."""
        lines: dict[tuple[str, str], None] = {}
        for spec in self.paper.runs.values():
            protocol = load_suite(spec.suite).protocol
            if protocol is not None:
                lines |= dict.fromkeys((each.option.replace("_", " "), each.taken) for each in protocol.unsaid)
                lines |= dict.fromkeys(("on purpose", decision) for decision in protocol.decisions)
        return list(lines)


def paper_html(page: PaperPage) -> str:
    """Render a paper as one self-contained HTML page."""
    paper = page.paper
    style = (resources.files("clinometer.papers") / "templates" / "paper.css").read_text(encoding="utf-8")
    words = [(name, word) for name, word in rehearsed_words()[0].items() if page.renamed.get(name) == word]
    return (
        environment("clinometer.papers")
        .get_template("paper.html")
        .render(
            title=f"{paper.name}: {paper.title}",
            paper=paper,
            publication=paper.published,
            models=page.models,
            finding=page.finding(),
            notices=page.notices(),
            left_out=page.left_out,
            departures=page.departures(),
            unsaid=page.open_questions(),
            is_rehearsal=page.is_rehearsal,
            words=words,
            parts=page.parts,
            runs=page.run_rows(),
            **style_and_script(page_style(style), asset("page.js")),
        )
    )


def write_page(reproduction: Reproduction, paper: Paper) -> None:
    """Write a paper's page, and its tables and figures each as files of their own."""
    page, folder = PaperPage(reproduction, paper), reproduction.folder_of(paper)
    directory, inks, drawn = reproduction.directory, light_inks(), list[tuple[str, Figure, str]]()
    for part in page.parts:
        for each in part.figures:
            figure, model = each.figure, each.model
            name = plain_name("-".join(filter(None, (part.part.place, figure.title.lower(), model))))
            directory.write_bytes(f"{folder}figures/{name}.svg", svg_file(figure, inks))
            directory.write_bytes(f"{folder}figures/{name}.pdf", pdf_file(figure, inks))
            opening = f"{part.part.heading} of {paper.cited}: {part.part.title}. {model}"
            drawn.append((name, figure, " ".join([*opening.split(), each.in_words])))
        cells = part.words if part.table is None else part.table.cells
        if cells is not None:
            place = f"{folder}tables/{part.part.place}"
            _write(directory, f"{place}.csv", csv_text(cells))
            _write(directory, f"{place}.tex", table_latex(part, page))
    if drawn:
        _write(directory, f"{folder}figures.tex", latex_figures(drawn, label=paper.name))
    _write(directory, reproduction.page_of(paper), paper_html(page))


def table_latex(part: PagePart, page: PaperPage) -> str:
    """Write a table for an article; its caption says what its cells are, and whether it is a rehearsal."""
    label = f"tab:{page.paper.name}-{part.part.place}"
    short = [REHEARSAL_IN_SHORT] if page.is_rehearsal else []
    if part.table is None:
        assert part.words is not None
        return latex(part.words, caption=" ".join([f"{part.part.title}.", *short]), label=label)
    columns, blocks = part.table.for_latex()
    caption = f"{part.part.title}. The printed number, and what was measured here with its 95 % interval."
    notes = [*short, *(f"({letter}) {note}." for letter, note in part.table.notes)]  # each part has its notes
    notes += [*([] if page.is_rehearsal else part.table.said), *part.said]
    return latex_columns(columns, caption=caption, label=label, blocks=blocks, notes=" ".join(notes))


def _write(directory: Directory, name: str, text: str) -> None:
    directory.write_bytes(name, text.encode("utf-8", "replace"))
