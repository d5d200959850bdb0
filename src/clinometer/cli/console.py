"""What the commands print: progress with rate and time left, a short summary, suites and cards as tables."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from math import ceil
from operator import itemgetter
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import typer
from rich.box import SIMPLE_HEAD
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

from clinometer.cli.tables import Console, facts_table, plain_text, print_json, print_place, text_table
from clinometer.errors import MARK
from clinometer.runs import Run
from clinometer.runs.record import recorded_departures
from clinometer.runs.verification import lost_images
from clinometer.suites import SHAPES, Protocol, Suite, SuiteTable, installed_suites, load_suite, suite_names

if TYPE_CHECKING:
    from clinometer.models.description import Description
    from clinometer.runs.several import Comparison
    from clinometer.sweeps.sweep import Sweep


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


SAY_EVERY: Final = 30.0
"""Seconds after which a log says how far the work is."""


class LiveProgress:
    """A progress bar on a terminal; elsewhere a line at each stage's start and end, and every half minute between."""

    def __init__(self, say_every: float = SAY_EVERY) -> None:
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
        self._say_every = say_every
        self._since = monotonic()  # when the stage began, or where there is none the last one ended
        self._said = monotonic()
        self._over = Event()
        self._lock = Lock()  # a line is not begun about a stage that ends meanwhile

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bars.start()
            self._waiting = self._bars.add_task("getting ready", total=None, rate=self._rate)  # libraries take seconds
        else:
            Thread(target=self._keep_saying, name="progress", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if isinstance(error, Exception) and self._stage:
            error.add_note(f"{MARK}{self._stage}")
        self._begun()
        self._over.set()
        if self._console.is_terminal:  # stopping bars that never started prints an empty line
            self._bars.stop()

    def _keep_saying(self) -> None:
        """Log how far the work is, now and then: an hour of silence looks like a command that hangs."""
        while not self._over.wait(max(0.0, self._said + self._say_every - monotonic())):
            if monotonic() - self._said >= self._say_every:  # nothing else was said meanwhile
                self._say(self._where())

    def _where(self) -> str:
        """Return how far the work is: "drawing: 120 of 792, 2.0/s, 0:05:36 left"."""
        with self._lock:
            after = timedelta(seconds=int(monotonic() - self._since))
            if not self._stage:
                return f"{'getting ready' if self._task is None else 'between stages'}: at work for {after}"
            (bar,) = (bar for bar in self._bars.tasks if bar.id == self._task)
            rate, left = (column.render(bar).plain for column in (_Rate(), _TimeLeft()))
            pace = f"{rate}, {left} left" if rate else f"at work for {after}"
            done = "" if bar.total == 1 else f"{bar.completed:,.0f} of {bar.total:,.0f}, "
            return f"{plain_text(self._stage)}: {done}{pace}"

    def _begun(self) -> None:
        """Remove what was shown until the first stage."""
        if self._waiting is not None:
            self._bars.remove_task(self._waiting)
            self._waiting = None

    def start(self, stage: str, total: int, done: int) -> None:
        """Begin a stage."""
        self._begun()
        with self._lock:
            self._stage, self._rate, self._since = stage, MovingRate(), monotonic()
            self._task = self._bars.add_task(plain_text(stage), total=total, completed=done, rate=self._rate)
        if not self._console.is_terminal:
            there = f", {done} already there" if done else ""
            self._say(f"{plain_text(stage)}: {total}{there}")

    def advance(self, items: int) -> None:
        """Note that some more items are done."""
        self._rate.advance(items)
        self._bars.advance(self._task, items)

    def finish(self) -> None:
        """End the stage."""
        with self._lock:
            task = self._bars.tasks[self._bars.task_ids.index(self._task)]
            stage, self._stage, self._since = self._stage, "", monotonic()
            self._bars.remove_task(self._task)  # a run of many rounds has more stages than a terminal lines
        self._say(f"{plain_text(stage)}: done in {task.elapsed or 0:.1f} s")

    def note(self, message: str) -> None:
        """Print a message that a user should read."""
        self._say(plain_text(message))

    def _say(self, line: str) -> None:
        self._console.print(line)
        self._said = monotonic()


def print_summary(run: Run) -> None:
    """Print the verdicts in short, and where the report is."""
    from clinometer.report.readings import reader_lines, standard_lines
    from clinometer.report.view import View
    from clinometer.studies import study_of
    from clinometer.studies.reporting import pictures_in_words

    console = Console()
    for line in pictures_in_words(run):
        console.print(f"\n[bold]{plain_text(line)}[/]")
    scores = run.scores
    summary = study_of(run.suite).page(run.suite).summary(run.suite, scores)
    console.print()
    console.print(f"Verdicts: {plain_text(summary.verdicts) or 'none'}")
    if summary.rows:
        left = (summary.columns[0], summary.columns[-1])
        console.print(text_table(summary.title, summary.columns, summary.rows, left=left))
    if summary.unmeasured:
        console.print(f"Not measured: {plain_text(summary.unmeasured)}.")
    for sentence in summary.found:
        console.print(plain_text(sentence))
    view = View.of_scores(run.suite, scores)
    for line in [*reader_lines(view), *standard_lines(view)]:
        console.print(f"{plain_text(line)}.")
    print_departures(console, run)
    lost = lost_images(run)
    if len(lost):
        console.print(
            f"[bold]{len(lost)}[/] of {len(run.plan)} images are missing; the report says which. "
            f"The first: {plain_text(str(lost.reason.iloc[0]))}"
        )
    print_report_place(run)


def send_to(targets: Sequence[str] | None, found: Run | Sweep | Sequence[Comparison]) -> None:
    """Send what was found to trackers, and print what went wrong, which changes no exit status: all is on the disk."""
    if not targets:
        return
    from clinometer.tracking.content import log_to

    with LiveProgress() as progress:
        problems = log_to(found, targets, progress)
    for problem in problems:
        typer.echo(f"clinometer: {problem}", err=True)


def print_departures(console: Console, run: Run) -> None:
    """Print where a run departs from its paper's protocol, if it was put under it."""
    departures = recorded_departures(run.record)
    if departures is None:
        return
    if departures:
        rows = [(each.option, each.paper, each.run, each.reason) for each in departures]
        title = "Protocol: the paper's, with these departures"
        console.print(text_table(title, ("option", "the paper", "this run", ""), rows))
    else:
        console.print("Protocol: the paper's, without departures.")
    for unsaid in run.suite.protocol.unsaid if run.suite.protocol is not None else ():
        console.print(f"The paper leaves open, {plain_text(unsaid.option)}: {plain_text(unsaid.taken)}")


def print_report_place(run: Run) -> None:
    """Name the report, where there is one."""
    if run.directory.exists("report.html"):
        print_place("Report", run.directory.path("report.html"))


def print_suites() -> None:
    """Print the installed suites; names are whole in 80 columns, for they are given to ``--suite``."""
    console, rows = Console(), list[dict[str, Any]]()
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("suite", no_wrap=True)
    table.add_column("what it asks", overflow="fold")
    for heading in ("prompts", "images"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in (*suite_names(), *installed_suites()):
        suite = load_suite(name)
        prompts = sum(1 for _ in suite.prompt_specs())
        rows.append({"suite": name, "study": suite.study, "title": suite.title, "prompts": prompts,
                     "images": suite.image_count})  # fmt: skip
    studies = dict.fromkeys([*SHAPES, *(row["study"] for row in rows)])
    rows.sort(key=lambda row: list(studies).index(row["study"]))  # stable: leaning first, what draws nothing last
    for _, of_study in groupby(rows, key=itemgetter("study")):
        table.add_section()
        for row in of_study:
            table.add_row(*(plain_text(str(row[key])) for key in ("suite", "title", "prompts", "images")))
    console.print(table)
    if console.is_terminal:
        console.print("clinometer suites NAME shows one; --new FILE begins your own.")
    print_json("tables", of="suites", tables={"built-in suites": rows})


def print_suite(suite: Suite) -> None:
    """Print everything that a suite asks."""
    console = Console()
    console.print(f"[bold]{plain_text(suite.title)}[/]\n{plain_text(suite.description)}")
    if suite.source:
        console.print(f"[dim]{plain_text(suite.source)}[/]")
    if suite.language:
        console.print(f"Language of its prompts: {plain_text(suite.language)}")
    sheets = suite.sheets() if suite.protocol is None else (*suite.sheets(), *protocol_sheets(suite.protocol))
    for sheet in sheets:
        console.print(text_table(sheet.title, sheet.columns, sheet.rows))
    tables = {sheet.title: [dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows] for sheet in sheets}
    print_json("tables", of="suites", tables=tables, remarks=[suite.title, suite.description, suite.source])


def protocol_sheets(protocol: Protocol) -> Iterator[SuiteTable]:
    """Return what the suite's paper prescribes, and what it leaves open."""
    yield SuiteTable("--protocol paper", ("option", "the paper"), tuple(protocol.lines()))
    if protocol.unsaid:
        open_ones = tuple((choice.option, choice.taken) for choice in protocol.unsaid)
        yield SuiteTable("what the paper leaves open", ("option", "taken"), open_ones)
    if protocol.decisions:
        yield SuiteTable("decided otherwise here", ("",), tuple((decision,) for decision in protocol.decisions))


def print_models(name: str | None = None) -> None:
    """Print the adapters that are registered, or those of one name."""
    from clinometer.models import registered

    found = [row for row in registered() if name in (None, row[1])]
    Console().print(text_table("", ("kind", "name", "given as"), found))
    rows = [dict(zip(("kind", "name", "given_as"), row, strict=True)) for row in found]
    print_json("tables", of="models", tables={"installed": rows})


def print_model(spec: str, **options: Any) -> None:
    """Print what a model is: the reference model's card and planted truth; of any other what loading it shows."""
    if spec == "reference":
        print_reference()
        return
    from clinometer.models import registered
    from clinometer.models.description import describe_model

    if any(name == spec and not usage.startswith(name) for _, name, usage in registered()):
        print_models(spec)  # an adapter for models that have names of their own
        return
    described = describe_model(spec, **options)
    known = dict(_describe(described))
    console = Console(soft_wrap=True)
    console.print(facts_table(described.card.name, known))
    settings = described.card.settings.items()
    rows = [(name, value if isinstance(value, str) else json.dumps(value, default=str)) for name, value in settings]
    console.print(text_table("Default settings", ("setting", "value"), rows))
    tables = {described.card.name: [known], "settings": [dict(described.card.settings)]}
    print_json("tables", of="models", tables=tables)


def _describe(described: Description) -> Iterator[tuple[str, str]]:
    """Yield what a model is, then what it is able to do."""
    card, able = described.card, described.capabilities
    yield "kind", card.kind
    yield "family", card.family
    yield "revision", card.revision or "none: it is not from the hub"
    yield "weights", f"sha256 {card.weights_sha256}" if card.weights_sha256 else "none of its own"
    yield "licence", described.licence or "not stated with the model; see its page"
    for key, value in card.notes.items():
        yield key, f"{value:,}" if isinstance(value, int) else str(value)
    if able is None and card.kind == "reader":
        return
    if able is None:
        yield "embeds images", _YES_NO[described.sees_images]
        yield "embeds texts", _YES_NO[described.reads_text]
        if described.dimensions is not None:
            yield "dimensions", str(described.dimensions)
        return
    yield "draws from a prompt", _YES_NO[True]
    yield "edits images", _YES_NO[able.edit]
    yield "classifies images", _YES_NO[able.classify]
    yield "text encoders", ", ".join(able.text_encoders) or "none found"
    yield "own text", ", ".join(able.own_text) or "none that can be read"
    yield "prior", _YES_NO[able.prior]
    yield from able.takes.items()


def print_reference() -> None:
    """Print the reference model's page: what it is, whether it meets its targets, the truth planted in it."""
    from clinometer.models import reference

    card, planted = reference.card(), reference.planted()
    console = Console()
    console.print(
        f"[bold]{plain_text(card['name'])}[/]\n"
        "A small text-to-image diffusion model that ships with clinometer. Under a prompt that names nobody it was "
        "taught to draw men and women, and six skin tones, in made-up proportions: an audit of it has a right answer. "
        "It draws emoji-like figures in a vocabulary of its own, and says nothing about the world."
    )
    defaults, millions = card["defaults"], {name: n / 1e6 for name, n in card["parameters"].items()}
    facts = {
        "draws": f"{defaults['size']} \u00d7 {defaults['size']} pixels, {defaults['steps']} steps, "
                 f"guidance {defaults['guidance']}",
        "parameters": ", ".join(f"{name.replace('_', ' ')} {n:.1f} M" for name, n in millions.items()),
        "size": f"{sum(card['size bytes'].values()) / 1e6:.1f} MB",
        "weights": f"sha256 {card['weights_sha256']}",
        "artwork": "; ".join(f"{each['set']} ({each['licence']})" for each in card["artwork"]),
        "licence": card["licence"],
        "whole card": str(reference.pipeline_path().parent / "MODEL_CARD.md"),
    }  # fmt: skip
    console.print(facts_table("", facts))
    bars = Table("what was asked of it", "bar", "measured", "", title="Is it what it should be?")
    for bar in card["bars"]:
        measured, verdict = f"{bar['measured']:.4g}", "met" if bar["met"] else "[bold]missed[/]"
        bars.add_row(plain_text(bar["bar"]), plain_text(bar["asked"]), measured, verdict)
    console.print(bars)
    table = Table(title="Planted probabilities under neutral prompts; women: the rest to 1", box=SIMPLE_HEAD, padding=0)
    table.add_column("concept", min_width=9, overflow="fold")
    names = [name for name in next(iter(planted.values())) if name != "woman"]
    for name in names:
        table.add_column(f" {name.replace('-', '- ')}", justify="right", min_width=5, overflow="fold")
    for concept, truth in planted.items():
        table.add_row(plain_text(concept), *(f"{truth[name]:.2f}" for name in names))
    console.print(table)
    truths = [{"concept": concept, **truth} for concept, truth in planted.items()]
    print_json("tables", of="models", tables={"bars": card["bars"], "planted probabilities": truths})


AT_ONCE: Final = 0.05
"""Seconds within which items belong to one batch."""
WINDOW: Final = 60.0
"""Seconds that are averaged over, or the last `FEWEST` batches where they take longer."""
FEWEST: Final = 3


class MovingRate:
    """Items a second, over the last minute or the last few batches; right from the first batch.

    A batch's items are told one by one, within a millisecond, after the seconds that it took to make them all. So what
    comes at once counts as one step, and the first step began when the stage did.

    ::

        rate = (items of the steps in the window) / (end of the last step − end of the step before the window)
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        now = clock()
        self._steps: deque[tuple[float, float, int]] = deque([(now, now, 0)])  # begin and end of its news, items so far

    def advance(self, items: int) -> None:
        """Note that some more items are done."""
        now, (begin, _, done) = self._clock(), self._steps[-1]
        if len(self._steps) > 1 and now - begin < AT_ONCE:
            self._steps[-1] = (begin, now, done + items)
            return
        self._steps.append((now, now, done + items))
        while len(self._steps) > FEWEST + 1 and now - self._steps[0][1] > WINDOW:
            self._steps.popleft()

    @property
    def per_second(self) -> float | None:
        """Items a second; None before the first."""
        (_, first, before), (_, last, done) = self._steps[0], self._steps[-1]
        return (done - before) / (last - first) if done > before and last > first else None

    def seconds_left(self, items: int) -> float | None:
        """Return the seconds that so many items will take, from now on; None before the first."""
        rate = self.per_second
        if rate is None:
            return None
        return max(items / rate - (self._clock() - self._steps[-1][1]), 0.0)
