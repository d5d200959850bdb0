"""``clinometer audit`` and ``clinometer sweep``: one audit, or a grid of them; and ``clinometer mitigate``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.table import Table

from clinometer.cli.options import (
    OF_AN_AUDIT,
    DeviceOption,
    EngineOption,
    LogToOption,
    RetryFailedOption,
    WorkersOption,
    given_options,
    with_options_of_an_audit,
)
from clinometer.cli.tables import Console, echo, plain_text, tell, text_table
from clinometer.cli.trust import is_allowed, is_harmless, refuse_untrusted
from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import FREE, FREE_OF_MODELS, AuditRequest, CellOptions, flag_of

if TYPE_CHECKING:
    from clinometer.pipeline.audits import Preview
    from clinometer.sweeps.sweep import Sweep


@with_options_of_an_audit(OF_AN_AUDIT)
def audit(asked: dict[str, Any], model_options: dict[str, Any], dry_run: bool, log_to: Sequence[str]) -> None:
    """Audit a model, or several as a sweep: draw, embed, score, report. Stopped, the same command goes on."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary, send_to

    out = asked.pop("out")
    one, options, axes = _one_audit(asked, model_options)
    if dry_run:
        from clinometer.pipeline.audits import preview
        from clinometer.pipeline.request import ask

        cells = math.prod(len(values) or 1 for values in axes.values())
        others = [
            ask(**one | {"model": model, "suite": suite}) for model, suite in product(axes["model"], axes["suite"])
        ]
        from clinometer.gates.registration import with_registration

        _print_preview(preview(with_registration(ask(**one, out=out, model_options=options)), others), cells)
        return
    if any(len(values) > 1 for values in axes.values()):
        if asked["registration"]:
            raise InvalidInputError.conflict(
                "--registration: it is of one audit, and several are asked for; give one at a time"
            )
        if asked["reader"] or asked["verdict_reader"]:
            raise InvalidInputError.unsupported(
                "--reader: a sweep reads none of its runs; give clinometer read RUN --reader NAME for each afterwards"
            )
        if asked["ablate"] or asked["phrases"]:
            raise InvalidInputError.conflict(
                "--ablate: it is of one audit, and several are asked for; give one at a time"
            )
        grid = {axis: values for axis, values in axes.items() if values not in ([], [None])}
        common = {name: asked[name] for name in (*CellOptions.model_fields, "encoder")}
        run = {name: asked[name] for name in ("retry_failed", "engine", "workers")}
        audit_grid(grid, out, common | {"options": model_options}, log_to, **run)
        return
    with LiveProgress() as progress:
        audited = api.audit(one.pop("model"), one.pop("suite"), out, **one, model_options=options, progress=progress)
    print_summary(audited)
    tell(audited)
    send_to(log_to, audited)


def _one_audit(
    asked: dict[str, Any], model_options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, list[Any]]]:
    """Return the first audit that is asked for, the options of its model, and the values of each axis of a sweep."""
    lora = model_options.pop("lora", None) or ()
    asked |= {name: asked[name] or None for name in ("encoder", "phrases")}
    axes: dict[str, list[Any]] = {"lora": [None if name == "none" else name for name in lora]}
    one = dict(asked)
    for name, field in AuditRequest.model_fields.items():
        if name in asked and (kind := flag_of(field).several) is not None:
            axis = flag_of(field).name.removeprefix("--") or name
            values = list(asked[name] or ()) if kind is str else numbers(axis, asked[name], kind)
            axes[axis] = values or [field.default]
            one[name] = axes[axis][0]
    return one, model_options | given_options(lora=next(iter(axes["lora"]), None)), axes


OF_A_REGISTRATION: Final[dict[str, tuple[Any, Any]]] = {
    "policy": (
        Annotated[
            Path | None,
            typer.Option("--policy", "-p", help="The rules that the run will be held to; their hash is registered."),
        ],
        None,
    ),
    "out": (
        Annotated[Path, typer.Option("--out", "-o", help="The registration; a file that is not there yet.")],
        Path("registration.json"),
    ),
}


@with_options_of_an_audit(OF_A_REGISTRATION, without=(*FREE, *FREE_OF_MODELS))
def register(asked: dict[str, Any], model_options: dict[str, Any], policy: Path | None, out: Path) -> None:
    """Write down what an audit will ask, before anything is drawn. Draws and loads nothing."""
    from clinometer import api

    one, options, axes = _one_audit(asked, model_options)
    if several := next((axis for axis, values in axes.items() if len(values) > 1), None):
        raise InvalidInputError.too_many(
            f"--{several}: found several values, and a registration is of one audit; give one"
        )
    made = api.register(out, policy=policy, **one, model_options=options)
    shown = plain_text(str(out))
    remarks = [
        f"{made.images}, {made.planned:,} images at most; suite {made.suite_fingerprint[:12]}…",
        f"Registered on {made.registered:%Y-%m-%d %H:%M:%S} UTC, SHA-256 {made.checksum}.",
        f"Put it where others see when it came, then give: clinometer audit --registration {shown}",
    ]
    echo("\n".join(remarks))
    tell("files", of="register", place=str(out), files=[str(out)], remarks=remarks)


def _print_preview(preview: Preview, cells: int) -> None:
    """Print what an audit would ask first; ``cells`` audits are asked for together, of which it is the first."""
    console = Console(soft_wrap=True)
    table = Table("", "", title=plain_text(preview.model), show_header=False)
    for name, told in preview.takes.items():
        table.add_row(plain_text(name), plain_text(told))
    console.print(table)
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
    asked = {
        "suite": preview.suite, "images": preview.images, "images_of_groups": preview.of_groups,
        "audits": cells, "price": preview.price,
        "cost": preview.cost, "prompt": preview.prompt, "seed": preview.seed,
    }  # fmt: skip
    requests = [{"request": request} for request in preview.requests]
    takes = [dict(preview.takes)]
    tell("tables", of="audit", tables={preview.model: takes, "asked": [asked], "requests, not sent": requests})


Number = TypeVar("Number", int, float)


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file with the axes of the grid.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="The sweep's directory. [default: the file's out, or runs/NAME]")
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    retry_failed: RetryFailedOption = False,
    log_to: LogToOption = None,
) -> None:
    """Audit a grid of models and settings, each cell a run. Stopped, the same command goes on where it was."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, send_to

    _refuse_what_a_sweep_may_not(file, has_out=out is not None)
    with LiveProgress() as progress:
        swept = api.sweep(file, out, engine=engine, workers=workers, retry_failed=retry_failed, progress=progress)
    print_sweep(swept)
    send_to(log_to, swept)
    end_sweep(swept)


def _refuse_what_a_sweep_may_not(file: Path, *, has_out: bool) -> None:
    """Refuse a sweep's file that runs code, sends data elsewhere or weakens a check, unless the user has allowed it."""
    from clinometer.sweeps.grid import load_sweep

    asked = load_sweep(file)
    keys = [f"options.{name}" for name, value in asked.options.items() if not is_harmless("audit", name, value)]
    if not has_out and "://" in (asked.out or ""):
        keys.append("out")
    if not is_allowed(file, file.read_bytes()):
        refuse_untrusted([f"{file}: {key}" for key in keys], "it to clinometer audit", str(file))


def print_sweep(swept: Sweep) -> None:
    """Print a row a setting, and where the page is."""
    from clinometer.sweeps.guidance import split_tables
    from clinometer.sweeps.page import settings_tables

    console = Console()
    for title, columns, rows in settings_tables(swept.outcome):
        console.print(text_table(title, columns, rows, left=(columns[0], columns[-1])))
    place = Console(soft_wrap=True)
    for suite in swept.record.grid.values("suite"):
        for split in split_tables(swept.outcome, suite):
            place.print(plain_text(f"{split['name']}: {split['said']}"))
    place.print(f"Table: [bold]{plain_text(swept.directory.path('table.csv'))}[/]")
    place.print(f"Report: [bold]{plain_text(swept.directory.path('sweep.html'))}[/]")
    tell(swept)


def end_sweep(swept: Sweep) -> None:
    """End with a message and status 2 where a cell failed."""
    from clinometer.sweeps.sweep import require_finished

    require_finished(swept)


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


def audit_grid(
    axes: Mapping[str, Sequence[Any]], out: str | None, common: Mapping[str, Any], log_to: Sequence[str], **run: Any
) -> None:
    """Run the sweep that ``clinometer audit`` becomes with several models, settings or seeds."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, send_to

    grid = {"axes": {axis: list(values) for axis, values in axes.items()}, **common}
    with LiveProgress() as progress:
        swept = api.sweep(grid, out, progress=progress, **run)
    print_sweep(swept)
    send_to(log_to, swept)
    end_sweep(swept)


def mitigate(
    model: Annotated[str, typer.Argument(help="As an audit takes it: reference, a pipeline directory, a hub id.")],
    method: Annotated[
        str,
        typer.Option(help="prompt, balanced, projection, unconditional, steering, lora, or a plug-in's name."),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="The directory to write; not there yet, or empty.")],
    suite: Annotated[
        str, typer.Option("--suite", "-s", help="A suite of study leaning: its groups, and concepts to learn from.")
    ] = "reference",
    target: Annotated[
        str | None,
        typer.Option(help="The groups' shares: man=0.5,woman=0.5. [default: the groups compared, all alike]"),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(help="A declared standard, as audit takes it: its concepts are to have its shares."),
    ] = None,
    gate: Annotated[str, typer.Option(help="words spares prompts that name a group; none changes all.")] = "words",
    concepts: Annotated[
        str | None, typer.Option(help="Concepts to learn from: a number of each category, or names. [default: all]")
    ] = None,
    word: Annotated[
        list[str] | None, typer.Option(help="How a group is named in a prompt: man=male. Repeatable.")
    ] = None,
    intervention: Annotated[
        str | None, typer.Option(help="For prompt: the text, with {prompt} or {subject} in it. [default: ENTIGEN's]")
    ] = None,
    strength: Annotated[
        float | None, typer.Option(help="For projection (1000), unconditional and steering (1). [default: those]")
    ] = None,
    images: Annotated[
        int | None, typer.Option(min=1, help="Images of each prompt that a method draws. [default: the method's]")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", "-e", help="Reads what unconditional and lora draw. [default: reference]")
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="For lora: answers (the network's, to prompts that name a group) or score (the images' leaning). "
            "[default: answers]"
        ),
    ] = None,
    training_steps: Annotated[
        int | None, typer.Option(min=1, help="For lora: steps of training. [default: 320; with score 60]")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="For lora. [default: 0.004; with score 0.002]")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Denoising steps. [default: the model's]")] = None,
    guidance_scale: Annotated[
        float | None, typer.Option("--guidance", help="Guidance scale. [default: the model's]")
    ] = None,
    seed: Annotated[int, typer.Option(help="What is drawn follows from it, and which image is of which group.")] = 0,
    device: DeviceOption = "auto",
) -> None:
    """Make of a model one that is to lean less, with a card. Audits of both say whether it does."""
    from clinometer import api

    console = Console(soft_wrap=True)
    settings = {"intervention": intervention, "strength": strength, "images": images, "encoder": encoder,
                "loss": loss, "training_steps": training_steps, "learning_rate": learning_rate}  # fmt: skip
    shares = (
        None if target is None else {name: _share(value) for name, value in _split_pairs("target", target.split(","))}
    )
    made = api.mitigate(
        model, method, out, suite=suite, target=shares, reference=reference, gate=gate, concepts=concepts, seed=seed,
        words=dict(_split_pairs("word", word or [])), say=lambda line: console.print(plain_text(line)),
        options=given_options(steps=steps, guidance_scale=guidance_scale, device=device), **settings,
    )  # fmt: skip
    console.print(f"Written: [bold]{plain_text(str(made.directory))}[/], with what was done in README.md")
    further = ["--reference", reference] if reference else []
    measured = f"Measure it: clinometer audit {' '.join([*made.options, *further])}"
    console.print(plain_text(measured))
    files = sorted(str(path) for path in made.directory.rglob("*") if path.is_file())
    tell("files", of="mitigate", place=str(made.directory), files=files, remarks=[measured])


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
