"""What the commands print: progress with rate and time left, a short summary, suites and cards as tables."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from clinometer.errors import ModelNotFoundError
from clinometer.runs import Run
from clinometer.suites import Suite, load_suite, suite_names

SHOWN_CONCEPTS = 5


class _Rate(ProgressColumn):
    """Items a second, or seconds an item where that reads better."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each", style="progress.data.speed")


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
            TimeRemainingColumn(),
            console=self._console,
        )
        self._stage = ""
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._console.is_terminal:  # stopping bars that never started prints an empty line
            self._bars.stop()

    def start(self, stage: str, total: int, done: int) -> None:
        """Begin a stage."""
        self._stage = stage
        self._task = self._bars.add_task(escape(stage), total=total, completed=done)
        if not self._console.is_terminal:
            there = f", {done} already there" if done else ""
            self._console.print(f"{escape(stage)}: {total}{there}")

    def advance(self, items: int) -> None:
        """Note that some more items are done."""
        self._bars.advance(self._task, items)

    def finish(self) -> None:
        """End the stage."""
        task = self._bars.tasks[self._bars.task_ids.index(self._task)]
        self._bars.stop_task(self._task)
        if not self._console.is_terminal:
            self._console.print(f"{escape(self._stage)}: done in {task.elapsed or 0:.1f} s")

    def note(self, message: str) -> None:
        """Say something a user should read."""
        self._console.print(escape(message))


def print_summary(run: Run) -> None:
    """The verdicts in short, and where the report is."""
    console = Console()
    scores = run.scores
    rows = scores[(scores.metric == "mcas") & (scores.component == "mcas") & (scores.encoder == "mean")]
    console.print()
    console.print(_verdict_counts(rows))
    console.print(_extremes(run, rows))
    refused = (run.samples.status != "ok").sum()
    if refused:
        console.print(f"[bold]{refused}[/] of {len(run.plan)} images could not be made; the report says which.")
    print_report_place(run)


def _verdict_counts(rows: pd.DataFrame) -> str:
    counts = rows.verdict.value_counts()
    return "Verdicts: " + ", ".join(f"[bold]{count}[/] {escape(str(word))}" for word, count in counts.items())


def _extremes(run: Run, rows: pd.DataFrame) -> Table:
    """The concepts that lean farthest either way."""
    suite = run.suite
    ordered = rows.dropna(subset=["value"]).sort_values("value", ascending=False)
    shown = (
        ordered
        if len(ordered) <= 2 * SHOWN_CONCEPTS
        else pd.concat([ordered[:SHOWN_CONCEPTS], ordered[-SHOWN_CONCEPTS:]])
    )
    table = Table(
        title=f"MCAS: + leans to {escape(suite.label_of(suite.axis.a))}, − to {escape(suite.label_of(suite.axis.b))}"
    )
    for heading, justify in (
        ("concept", "left"),
        ("MCAS", "right"),
        ("95 % interval", "right"),
        ("q", "right"),
        ("verdict", "left"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in shown.to_dict("records"):
        table.add_row(
            escape(row["concept"]),
            f"{row['value']:+.3f}",
            escape(f"[{row['low']:+.3f}, {row['high']:+.3f}]"),
            f"{row['q']:.2g}",
            escape(row["verdict"]),
        )
    return table


def print_report_place(run: Run) -> None:
    """Name the report."""
    Console(soft_wrap=True).print(f"Report: [bold]{escape(run.directory.path('report.html'))}[/]")


def print_suites() -> None:
    """A table of the built-in suites."""
    table = Table("suite", "what it asks", "targets", "groups", "images")
    for name in suite_names():
        suite = load_suite(name)
        table.add_row(
            name,
            escape(suite.title),
            str(len(suite.targets)),
            ", ".join(suite.groups),
            str(_image_count(suite)),
        )
    Console().print(table)


def _image_count(suite: Suite) -> int:
    prompts = sum(len(group.prompts) for group in suite.groups.values())
    return len(suite.targets) * suite.images.target + prompts * suite.images.attribute


def print_suite(suite: Suite) -> None:
    """Everything that a suite asks."""
    console = Console()
    console.print(f"[bold]{escape(suite.title)}[/]\n{escape(suite.description)}")
    if suite.source:
        console.print(f"[dim]{escape(suite.source)}[/]")
    groups = Table("group", "prompts", "words", title=f"{suite.images.attribute} images an attribute prompt")
    for name, group in suite.groups.items():
        groups.add_row(escape(name), escape("\n".join(p.prompt for p in group.prompts)), escape(", ".join(group.words)))
    console.print(groups)
    targets = Table("category", "target", "prompt", "stereotype", title=f"{suite.images.target} images a target")
    for category, target in suite.categorised_targets():
        targets.add_row(*map(escape, (category, target.name, target.prompt, target.stereotype or "")))
    console.print(targets)


def print_models() -> None:
    """The generators and encoders that are registered."""
    from clinometer.models import registered

    table = Table("kind", "name", "given as")
    for kind, name, usage in registered():
        table.add_row(kind, escape(name), escape(usage))
    Console().print(table)


def print_card(name: str) -> None:
    """The card of the reference model and the truth planted in it."""
    from clinometer.models import reference

    if name != "reference":
        raise ModelNotFoundError(
            f"no card at hand for {name!r}: only the model that ships with the package has one before it is loaded "
            "(reference); any other's is written to run.json by clinometer audit"
        )
    console = Console(soft_wrap=True)
    console.print_json(json.dumps(reference.card(), ensure_ascii=False, default=str))
    table = Table(
        "concept",
        *next(iter(reference.planted().values())),
        title="Planted probabilities under neutral prompts",
    )
    for concept, truth in reference.planted().items():
        table.add_row(escape(concept), *(f"{probability:.2f}" for probability in truth.values()))
    console.print(table)
