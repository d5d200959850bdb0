"""What the commands print: progress with rate and time left, a short summary, suites and cards as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from clinometer._in_hand import MARK
from clinometer.cli.rate import MovingRate
from clinometer.cli.words import plain_text
from clinometer.runs import Run
from clinometer.runs.fingerprint import lost_images
from clinometer.runs.protocol import recorded_departures
from clinometer.suites import Protocol, Suite, SuiteTable, load_suite, suite_names

if TYPE_CHECKING:
    from clinometer.models.description import Description
    from clinometer.report.page import Summary

_YES_NO: Final = {True: "yes", False: "no"}


class _Rate(ProgressColumn):
    """Items a second, or seconds an item where that reads better."""

    def render(self, task: Task) -> Text:
        speed = task.fields["rate"].per_second
        if not speed:
            return Text("")
        return Text(f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each", style="progress.data.speed")


class _TimeLeft(ProgressColumn):
    """The time that is left at this rate."""

    def render(self, task: Task) -> Text:
        seconds = task.fields["rate"].seconds_left(int(task.remaining or 0))
        text = "-:--:--" if seconds is None else str(timedelta(seconds=ceil(seconds)))
        return Text(text, style="progress.remaining")


class LiveProgress:
    """A progress bar on a terminal, a line at each stage's start and end elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            _TimeLeft(),
            console=self._console,
        )
        self._stage = ""
        self._task: Any = None
        self._rate = MovingRate()
        self._waiting: Any = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bars.start()
            self._waiting = self._bars.add_task("getting ready", total=None, rate=self._rate)  # libraries take seconds
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, Exception) and self._stage:
            error.add_note(f"{MARK}{self._stage}")
        self._begun()
        if self._console.is_terminal:  # stopping bars that never started prints an empty line
            self._bars.stop()

    def _begun(self) -> None:
        """Take away what stood there until the first stage."""
        if self._waiting is not None:
            self._bars.remove_task(self._waiting)
            self._waiting = None

    def start(self, stage: str, total: int, done: int) -> None:
        """Begin a stage."""
        self._begun()
        self._stage = stage
        self._rate = MovingRate()
        self._task = self._bars.add_task(plain_text(stage), total=total, completed=done, rate=self._rate)
        if not self._console.is_terminal:
            there = f", {done} already there" if done else ""
            self._console.print(f"{plain_text(stage)}: {total}{there}")

    def advance(self, items: int) -> None:
        """Note that some more items are done."""
        self._rate.advance(items)
        self._bars.advance(self._task, items)

    def finish(self) -> None:
        """End the stage."""
        task = self._bars.tasks[self._bars.task_ids.index(self._task)]
        stage, self._stage = self._stage, ""
        self._bars.remove_task(self._task)  # a run of many rounds has more stages than a terminal lines
        self._console.print(f"{plain_text(stage)}: done in {task.elapsed or 0:.1f} s")

    def note(self, message: str) -> None:
        """Say something a user should read."""
        self._console.print(plain_text(message))


def print_summary(run: Run) -> None:
    """The verdicts in short, and where the report is."""
    from clinometer.report.pictures import pictures_in_words
    from clinometer.studies import study_of

    console = Console()
    for line in pictures_in_words(run):
        console.print(f"\n[bold]{plain_text(line)}[/]")
    summary = study_of(run.suite).page(run.suite).summary(run.suite, run.scores)
    console.print()
    console.print(f"Verdicts: {plain_text(summary.verdicts) or 'none'}")
    if summary.rows:
        console.print(_table(summary))
    if summary.unmeasured:
        console.print(f"Not measured: {plain_text(summary.unmeasured)}.")
    print_departures(console, run)
    lost = lost_images(run)
    if len(lost):
        console.print(
            f"[bold]{len(lost)}[/] of {len(run.plan)} images are missing; the report says which. "
            f"The first: {plain_text(str(lost.reason.iloc[0]))}"
        )
    print_report_place(run)


def print_departures(console: Console, run: Run) -> None:
    """Where a run departs from its paper's protocol, if it was put under it."""
    departures = recorded_departures(run.record)
    if departures is None:
        return
    if departures:
        table = Table("option", "the paper", "this run", "", title="Protocol: the paper's, with these departures")
        for departure in departures:
            table.add_row(*map(plain_text, (departure.option, departure.paper, departure.run, departure.reason)))
        console.print(table)
    else:
        console.print("Protocol: the paper's, without departures.")
    for unsaid in run.suite.protocol.unsaid if run.suite.protocol is not None else ():
        console.print(f"The paper leaves open, {plain_text(unsaid.option)}: {plain_text(unsaid.taken)}")


def _table(summary: Summary) -> Table:
    table = Table(title=plain_text(summary.title))
    for order, name in enumerate(summary.columns):
        table.add_column(plain_text(name), justify="left" if order in (0, len(summary.columns) - 1) else "right")
    for row in summary.rows:
        table.add_row(*map(plain_text, row))
    return table


def print_report_place(run: Run) -> None:
    """Name the report."""
    Console(soft_wrap=True).print(f"Report: [bold]{plain_text(run.directory.path('report.html'))}[/]")


def print_suites() -> None:
    """A table of the built-in suites."""
    table = Table("suite", "study", "what it asks", "prompts", "images")
    for column in table.columns:
        column.overflow = "fold"  # a name that is cut short cannot be given to --suite
    for name in suite_names():
        suite = load_suite(name)
        prompts = sum(1 for _ in suite.prompt_specs())
        table.add_row(plain_text(name), suite.study, plain_text(suite.title), str(prompts), str(suite.image_count))
    Console().print(table)


def print_suite(suite: Suite) -> None:
    """Everything that a suite asks."""
    console = Console()
    console.print(f"[bold]{plain_text(suite.title)}[/]\n{plain_text(suite.description)}")
    if suite.source:
        console.print(f"[dim]{plain_text(suite.source)}[/]")
    sheets = suite.sheets() if suite.protocol is None else (*suite.sheets(), *protocol_sheets(suite.protocol))
    for sheet in sheets:
        table = Table(*map(plain_text, sheet.columns), title=plain_text(sheet.title))
        for row in sheet.rows:
            table.add_row(*map(plain_text, row))
        console.print(table)


def protocol_sheets(protocol: Protocol) -> Iterator[SuiteTable]:
    """What the suite's paper prescribes, and what it leaves open."""
    yield SuiteTable("--protocol paper", ("option", "the paper"), tuple(protocol.lines()))
    if protocol.unsaid:
        open_ones = tuple((choice.option, choice.taken) for choice in protocol.unsaid)
        yield SuiteTable("what the paper leaves open", ("option", "taken"), open_ones)
    if protocol.decisions:
        yield SuiteTable("decided otherwise here", ("",), tuple((decision,) for decision in protocol.decisions))


def print_models() -> None:
    """The generators and encoders that are registered."""
    from clinometer.models import registered

    table = Table("kind", "name", "given as")
    for kind, name, usage in registered():
        table.add_row(plain_text(kind), plain_text(name), plain_text(usage))
    Console().print(table)


def print_model(spec: str, **options: Any) -> None:
    """What a model is: the reference model's whole card and its planted truth; of any other what loading it tells."""
    if spec == "reference":
        print_reference()
        return
    from clinometer.models.description import describe_model

    described = describe_model(spec, **options)
    table = Table("", "", title=plain_text(described.card.name), show_header=False)
    for key, value in (*_identity(described), *_abilities(described)):
        table.add_row(plain_text(key), plain_text(value))
    console = Console(soft_wrap=True)
    console.print(table)
    settings = Table("setting", "as it is", title="Settings, where nothing else is asked for")
    for key, value in described.card.settings.items():
        settings.add_row(
            plain_text(key), plain_text(value if isinstance(value, str) else json.dumps(value, default=str))
        )
    console.print(settings)


def _identity(described: Description) -> Iterator[tuple[str, str]]:
    card = described.card
    yield "kind", card.kind
    yield "family", card.family
    yield "revision", card.revision or "none: it is not from the hub"
    yield "weights", f"sha256 {card.weights_sha256}" if card.weights_sha256 else "none of its own"
    yield "licence", described.licence or "not said where it lies; look at its page"
    for key, value in card.notes.items():
        yield key, f"{value:,}" if isinstance(value, int) else str(value)


def _abilities(described: Description) -> Iterator[tuple[str, str]]:
    able = described.capabilities
    if able is None:
        yield "embeds images", _YES_NO[described.sees_images]
        yield "embeds texts", _YES_NO[described.reads_text]
        if described.dimensions is not None:
            yield "dimensions", str(described.dimensions)
        return
    yield "draws from a prompt", _YES_NO[True]
    yield "edits images", _YES_NO[able.edit]
    yield "classifies images", _YES_NO[able.classify]
    yield "text encoders", ", ".join(able.text_encoders) or "none to be seen"
    yield "own text", ", ".join(able.own_text) or "none that is read"
    yield "prior", _YES_NO[able.prior]


def print_reference() -> None:
    """The card of the reference model and the truth planted in it."""
    from clinometer.models import reference

    console = Console(soft_wrap=True)
    console.print_json(json.dumps(reference.card(), ensure_ascii=False, default=str))
    table = Table(
        "concept",
        *next(iter(reference.planted().values())),
        title="Planted probabilities under neutral prompts",
    )
    for concept, truth in reference.planted().items():
        table.add_row(plain_text(concept), *(f"{probability:.2f}" for probability in truth.values()))
    console.print(table)
