"""Commands that draw: audit (and register, before it), sweep, mitigate, reproduce; and what they print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from clinometer import api
from clinometer._messages import first_and_more
from clinometer.cli.config import is_allowed, is_harmless, refuse_untrusted
from clinometer.cli.options import MODEL_OPTIONS, LogToOption, given_options, pop_given, with_options
from clinometer.cli.tables import Console, echo, facts_table, plain_text, print_json, print_place, text_table
from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import FREE, FREE_OF_MODELS, AuditRequest, CellOptions, Option, option_of

if TYPE_CHECKING:
    from clinometer.papers.planning import Needs, Reproduction
    from clinometer.pipeline.audits import Preview
    from clinometer.sweeps.sweep import Sweep


@with_options(api.audit, also=MODEL_OPTIONS)
def audit(
    *,
    out: str | None = None,
    log_to: LogToOption = None,
    dry_run: Annotated[
        bool,
        Option("Load the model, show what the audit would ask, what it would cost and its first request, and exit."),
    ] = False,
    **options: Any,
) -> None:
    """Audit a model: draw images, embed, score and report.

    Several models or settings make a sweep. If the command is stopped, run it again to continue.
    """
    from clinometer.cli.console import LiveProgress, print_summary, send_to

    one, model_options, axes = _one_audit(options)
    if dry_run:
        from clinometer.gates.registration import with_registration
        from clinometer.pipeline.audits import preview
        from clinometer.pipeline.request import ask

        cells = math.prod(len(values) or 1 for values in axes.values())
        others = [
            ask(**one | {"model": model, "suite": suite}) for model, suite in product(axes["model"], axes["suite"])
        ]
        _print_preview(preview(with_registration(ask(**one, out=out, model_options=model_options)), others), cells)
        return
    if any(len(values) > 1 for values in axes.values()):
        if options["registration"]:
            raise InvalidInputError.conflict(
                "--registration: it is of one audit, and several are asked for; give one at a time"
            )
        if options["reader"] or options["verdict_reader"]:
            raise InvalidInputError.unsupported(
                "--reader: a sweep reads none of its runs; give clinometer read RUN --reader NAME for each afterwards"
            )
        if options["ablate"] or options["phrases"]:
            raise InvalidInputError.conflict(
                "--ablate: it is of one audit, and several are asked for; give one at a time"
            )
        grid = {axis: values for axis, values in axes.items() if values not in ([], [None])}
        common = {name: options[name] for name in (*CellOptions.model_fields, "encoder") if name in options}
        run = {name: options[name] for name in ("retry_failed", "engine", "workers") if name in options}
        model_options.pop("lora", None)
        _run_sweep({"axes": grid, **common, "options": model_options}, out, log_to, **run)
        return
    model, suite = one.pop("model"), one.pop("suite")
    with LiveProgress() as progress:
        audited = api.audit(model, suite, out, **one, model_options=model_options, progress=progress)
    print_summary(audited)
    print_json(audited)
    send_to(log_to, audited)


def _one_audit(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, list[Any]]]:
    """Return the options of the first audit, those of its model, and the values of each axis of a sweep."""
    model_options = pop_given(options, MODEL_OPTIONS)
    axes: dict[str, list[Any]] = {"lora": [None if name == "none" else name for name in model_options.pop("lora", ())]}
    one = dict(options)
    for name, field in AuditRequest.model_fields.items():
        option = option_of(name)
        if option.several is not None:
            axis, given = option.name.removeprefix("--") or name, options.get(name) or []
            axes[axis] = (given if option.several is str else numbers(axis, given, option.several)) or [field.default]
            one[name] = axes[axis][0]
    return one, model_options | given_options(lora=next(iter(axes["lora"]), None)), axes


@with_options(api.audit, api.register, also=MODEL_OPTIONS, without=(*FREE, *FREE_OF_MODELS))
def register(
    *,
    policy: Path | None = None,
    out: Annotated[Path, Option("File to write the registration to; it must not exist yet.", short="-o")] = Path(
        "registration.json"
    ),
    **options: Any,
) -> None:
    """Record what an audit will ask, before anything is drawn. Draws and loads nothing."""
    one, model_options, axes = _one_audit(options)
    if several := next((axis for axis, values in axes.items() if len(values) > 1), None):
        raise InvalidInputError.too_many(
            f"--{several}: found several values, and a registration is of one audit; give one"
        )
    registration = api.register(out, policy=policy, **one, model_options=model_options)
    shown = plain_text(str(out))
    remarks = [
        f"{registration.images}, {registration.planned:,} images at most; suite {registration.suite_fingerprint[:12]}…",
        f"Registered on {registration.registered:%Y-%m-%d %H:%M:%S} UTC, SHA-256 {registration.checksum}.",
        f"Put it where others can see when it was made, then give: clinometer audit --registration {shown}",
    ]
    echo("\n".join(remarks))
    print_json("files", of="register", place=str(out), files=[str(out)], remarks=remarks)


def _print_preview(preview: Preview, cells: int) -> None:
    """Print the first requests of an audit, which is the first of ``cells``."""
    console = Console(soft_wrap=True)
    console.print(facts_table(preview.model, preview.takes))
    of_many = f" That is the first of {cells} audits." if cells > 1 else ""
    costs = f" At {preview.price:g} each they cost {preview.cost:,.2f}." if preview.price else ""
    groups = f" {preview.of_groups:,} of them are for the groups." if preview.of_groups else ""
    console.print(f"{plain_text(preview.suite)} asks for {preview.images:,} images.{costs}{groups}{of_many}")
    console.print(f"The first is of {plain_text(repr(preview.prompt))}, with the seed {preview.seed}.")
    for number, request in enumerate(preview.requests, 1):
        console.print(f"[bold]Request {number}[/], not sent:")
        console.print(plain_text(request))
    if not preview.requests:
        console.print("The model asks no server. Nothing was drawn.")
    summary = {
        "suite": preview.suite, "images": preview.images, "images_of_groups": preview.of_groups,
        "audits": cells, "price": preview.price,
        "cost": preview.cost, "prompt": preview.prompt, "seed": preview.seed,
    }  # fmt: skip
    requests = [{"request": request} for request in preview.requests]
    takes = [dict(preview.takes)]
    print_json("tables", of="audit", tables={preview.model: takes, "asked": [summary], "requests, not sent": requests})


Number = TypeVar("Number", int, float)


@with_options(api.sweep)
def sweep(grid: Path, *, out: str | None = None, log_to: LogToOption = None, **options: Any) -> None:
    """Audit a grid of models and settings, one run per cell.

    If the command is stopped, run it again to continue.
    """
    _refuse_what_a_sweep_may_not(grid, has_out=out is not None)
    _run_sweep(grid, out, log_to, **options)


def _run_sweep(grid: Path | dict[str, Any], out: str | None, log_to: Sequence[str] | None, **options: Any) -> None:
    """Run a sweep and print what it found; end with status 2 where a cell failed."""
    from clinometer.cli.console import LiveProgress, send_to
    from clinometer.sweeps.sweep import require_finished

    with LiveProgress() as progress:
        swept = api.sweep(grid, out, **options, progress=progress)
    print_sweep(swept)
    send_to(log_to, swept)
    require_finished(swept)


def _refuse_what_a_sweep_may_not(file: Path, *, has_out: bool) -> None:
    """Refuse a sweep's file that runs code, sends data elsewhere or weakens a check, unless the user has allowed it."""
    from clinometer.sweeps.grid import load_sweep

    requested = load_sweep(file)
    keys = [f"options.{name}" for name, value in requested.options.items() if not is_harmless("audit", name, value)]
    if not has_out and "://" in (requested.out or ""):
        keys.append("out")
    if not is_allowed(file, file.read_bytes()):
        refuse_untrusted([f"{file}: {key}" for key in keys], "it to clinometer audit", str(file))


def print_sweep(swept: Sweep) -> None:
    """Print a row a setting, and where the page is."""
    from clinometer.sweeps.page import settings_tables, split_tables

    console = Console()
    for title, columns, rows in settings_tables(swept.outcome):
        console.print(text_table(title, columns, rows, left=(columns[0], columns[-1])))
    place = Console(soft_wrap=True)
    for suite in swept.record.grid.values("suite"):
        for split in split_tables(swept.outcome, suite):
            place.print(plain_text(f"{split['name']}: {split['said']}"))
    print_place("Table", swept.directory.path("table.csv"))
    print_place("Report", swept.directory.path("sweep.html"))
    print_json(swept)


def numbers(option: str, texts: Sequence[str] | None, kind: type[Number]) -> list[Number]:
    """Return the numbers of an option that takes several, by commas or again: ``--seed 0,1 --seed 2``.

    Raises
    ------
    InvalidInputError
        One is not a number.
    """
    parsed_numbers = []
    for word in (word.strip() for words in texts or () for word in words.split(",")):
        try:
            parsed_numbers.append(kind(word))
        except ValueError as error:
            what = "whole numbers" if kind is int else "numbers"
            raise InvalidInputError.malformed(
                f"--{option}: found {word!r}, expected {what}, separated by commas"
            ) from error
    return parsed_numbers


MITIGATION_SETTINGS: Final[dict[str, Option]] = {
    "intervention": Option("For prompt: the text, which contains {prompt} or {subject}.", default="ENTIGEN's"),
    "strength": Option(
        "For projection, unconditional and steering: how strongly to intervene.",
        default="1000 for projection, 1 for the others",
        kind=float,
    ),
    "images": Option("Images that the method draws per prompt.", default="the method's", least=1, kind=int),
    "encoder": Option(
        "For unconditional and lora: the encoder that reads their images.", short="-e", default="reference"
    ),
    "loss": Option(
        "For lora: train on answers (the network's own, to prompts that name a group) or on score (the leaning of "
        "images).",
        default="answers",
    ),
    "training_steps": Option("For lora: training steps.", default="320; 60 with --loss score", least=1, kind=int),
    "learning_rate": Option("For lora: learning rate.", default="0.004; 0.002 with --loss score", kind=float),
}
"""Options of single mitigation methods, by their names in Python."""
DRAWING: Final[dict[str, Option]] = {
    "steps": replace(option_of("steps"), several=None, kind=int),
    "guidance_scale": replace(option_of("guidance_scale"), several=None, least=None, kind=float),
    "device": replace(option_of("device"), default="auto", kind=str),
}
"""How a model draws what a method learns from."""


@with_options(api.mitigate, also=MITIGATION_SETTINGS | DRAWING)
def mitigate(
    model: str, *, target: str | None = None, words: Sequence[str] = (), reference: str | None = None, **options: Any
) -> None:
    """Make a version of a model that is meant to lean less.

    Writes it with a card. Audit both to see whether it does.
    """
    console = Console(soft_wrap=True)
    shares = None
    if target is not None:
        shares = {name: _share(value) for name, value in _split_pairs("target", target.split(","))}
    drawing_options = pop_given(options, DRAWING)
    mitigated = api.mitigate(
        model, target=shares, words=dict(_split_pairs("word", words or ())), reference=reference,
        options=drawing_options, say=lambda line: console.print(plain_text(line)), **options,
    )  # fmt: skip
    console.print(f"Written: [bold]{plain_text(str(mitigated.directory))}[/]; README.md says what was done")
    further = ["--reference", reference] if reference else []
    measured = f"To measure it: clinometer audit {' '.join([*mitigated.options, *further])}"
    console.print(plain_text(measured))
    files = sorted(str(path) for path in mitigated.directory.rglob("*") if path.is_file())
    print_json("files", of="mitigate", place=str(mitigated.directory), files=files, remarks=[measured])


def _split_pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Split NAME=VALUE."""
    pairs = [text.partition("=") for text in texts]
    if wrong := next((text for text, (name, sign, _) in zip(texts, pairs, strict=True) if not (name and sign)), None):
        raise InvalidInputError.malformed(f"--{option}: found {wrong!r}, expected GROUP=VALUE")
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInputError.malformed(f"--target: found {text!r}, expected a share such as 0.5") from error


OF_RUNS: Final = AuditRequest.model_fields.keys() - {
    "encoder", "portraits", "budget", "resamples", "device", "engine", "workers", "retry_failed", "out",
}  # fmt: skip
"""Options of an audit that the papers themselves prescribe."""


@with_options(api.reproduce, api.audit, without=OF_RUNS)
def reproduce(
    papers: list[str],
    out: str,
    *,
    models: Sequence[str] = ("reference",),
    quick: bool = False,
    pictures: str | None = None,
    engine: str = "local",
    workers: int | None = None,
    dry_run: Annotated[
        bool,
        Option("Load the models, show what the reproduction would take, and exit. Draws nothing."),
    ] = False,
    seed: Annotated[int, replace(option_of("seed"), several=None, least=0)] = 0,
    **options: Any,
) -> None:
    """Reproduce papers: make their runs, and compare the results."""
    from clinometer.cli.console import LiveProgress
    from clinometer.papers.reproduction import require_finished

    if twice := next((name for place, name in enumerate(models) if name in models[:place]), None):
        raise InvalidInputError.duplicate(f"--model: found {twice} twice; leave one out")
    options = given_options(**options, seed=seed)  # what is not asked for is not recorded
    if dry_run:
        needs = api.plan_reproduction(papers, out, models=models, quick=quick, pictures=pictures, **options)
        print_needs(needs)
        names = ("images", "missing", "shared", "there", "evaluations", "seconds", "bytes", "cost", "reason")
        rows = [
            {"paper": each.run.paper, "run": each.run.name, "model": each.run.model, "place": each.run.place}
            | {name: getattr(each, name) for name in names}
            for each in needs.runs
        ]
        print_json("tables", of="reproduce", tables={"runs": rows}, remarks=lines_of(needs))
        return
    with LiveProgress() as progress:
        done = api.reproduce(
            papers, out, models=models, quick=quick, pictures=pictures, engine=engine, workers=workers,
            progress=progress, show=print_needs, **options,
        )  # fmt: skip
    invitations = set_up_raters(done)
    print_pages(done, invitations)
    require_finished(done)


RATINGS: Final = "ratings.sqlite"


def set_up_raters(done: Reproduction) -> list[str]:
    """Make the rating tasks of the papers, once their runs are finished, and say how raters get to them.

    The database lies in the directory, with the runs whose pictures it shows; what is there already is left as it is.
    """
    tasks = [(paper, task) for paper in done.papers if paper.raters for task in paper.raters.tasks]
    if not tasks or not done.directory.is_local:
        return []
    from clinometer.cli.serve import ratings_database, require_web

    try:
        require_web("raters")
    except InvalidInputError as error:
        return [f"The paper asked people, too; no task is made for them: {error}"]
    from clinometer.runs import Run
    from clinometer.web.database import writing
    from clinometer.web.ratings.tasks import OTHER_ANSWERS, TaskSpec, answers_for, draw_from, invite, make_task

    place = done.directory.path(RATINGS)
    serve = f"clinometer serve {done.directory.shown} --database sqlite:///{place}"
    if done.directory.exists(RATINGS):
        return [
            f"Rating tasks are in {place}; open them: {serve}; then: clinometer ratings collect TASK, and this again"
        ]
    lines = []
    for paper, task in tasks:
        assert paper.raters is not None
        for model in done.record.models:
            runs = [
                run for run in done.planned if (run.paper, run.model) == (paper.name, model) and run.name in task.runs
            ]
            if any(done.status(run).status != "finished" for run in runs):
                continue
            opened = [Run(run.place) for run in runs]
            answers = answers_for(opened, OTHER_ANSWERS)
            spec = TaskSpec(f"{task.title}: {model}", paper.raters.question, answers, paper.raters.raters, repeats=0)
            drawn = draw_from(opened, 0, shown=paper.raters.shown, seed=done.record.seed)
            with ratings_database(f"sqlite:///{place}", is_new=True) as engine, writing(engine) as session:
                token = invite(session, stored := make_task(session, spec, drawn))
                lines.append(f"Raters of {stored.title}: http://127.0.0.1:8765/join/{token} (shown this once)")
    return [*lines, f"Open them: {serve}"] if lines else []


def print_needs(needs: Needs) -> None:
    """Print a row a run, then what it takes in all and what has to be brought."""
    console = Console()
    columns = ("run", "images", "drawn", "of another run", "evaluations", "hours", "GB")
    rows = [
        (
            f"{each.run.paper}, {each.run.name}, {each.run.model}",
            *(_whole(number) for number in (each.images, each.missing, each.shared, each.evaluations)),
            *(_decimal(number) for number in (each.seconds / 3600, each.bytes / 1e9)),
        )
        for each in needs.runs
        if not each.reason
    ]
    console.print(text_table("What it takes", columns, rows, left=columns[:1]))
    console.print_lines(lines_of(needs))


def lines_of(needs: Needs) -> list[str]:
    """Return what it takes in all, what must be brought, and what cannot be done, a line each."""
    images, evaluations, seconds, size, cost = (
        needs.total(name) for name in ("missing", "evaluations", "seconds", "bytes", "cost")
    )
    hours = f"about {_decimal(seconds / 3600)} hours of drawing" if isfinite(seconds) else (
        "the drawing time is not known before one picture is timed, without --dry-run"
    )  # fmt: skip
    disk = f", {_decimal(size / 1e9)} GB" if isfinite(size) else ""
    work = f"{_whole(evaluations)} evaluations of the network" if isfinite(evaluations) else (
        "an unknown number of evaluations, as a model names no steps"
    )  # fmt: skip
    price = f" They cost {cost:,.2f}." if cost else ""
    lines = [f"{_whole(images)} images to draw, {work}, {hours}{disk}.{price} Encoding and scoring are extra."]
    lines += [f"You need to provide: {line}" for line in needs.brought]
    lost = [f"{each.run.name} of {each.run.model} ({each.reason})" for each in needs.runs if each.reason]
    return [*lines, *([f"Not possible, unlike the others: {first_and_more(lost, 5)}"] if lost else [])]


def _whole(number: float) -> str:
    return f"{number:,.0f}" if isfinite(number) else "?"


def _decimal(number: float) -> str:
    return f"{number:.2g}" if isfinite(number) and number < 100 else f"{number:,.0f}" if isfinite(number) else "?"


def print_pages(done: Reproduction, raters: Sequence[str]) -> None:
    """Name the page of each paper, how raters get to their tasks, and the runs that failed."""
    console = Console(soft_wrap=True)
    console.print_lines(raters)
    for name, page in done.pages.items():
        console.print(f"{name}: [bold]{plain_text(page)}[/]")
    for name, reason in done.failed.items():
        console.print(plain_text(f"{name} failed: {reason}"))
    failed = [f"{name}: {reason}" for name, reason in done.failed.items()]
    print_json(
        "files", of="reproduce", place=done.directory.shown, files=list(done.pages.values()), remarks=[*raters, *failed]
    )
