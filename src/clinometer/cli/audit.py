"""``clinometer audit`` and ``clinometer sweep``: one audit, or a grid of them; and ``clinometer mitigate``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from clinometer import api
from clinometer.cli.options import MODEL_OPTIONS, LogToOption, given_options, pop_given, with_options
from clinometer.cli.tables import Console, echo, facts_table, plain_text, print_json, print_place, text_table
from clinometer.cli.trust import is_allowed, is_harmless, refuse_untrusted
from clinometer.errors import InvalidInputError
from clinometer.pipeline.options import Option
from clinometer.pipeline.request import FREE, FREE_OF_MODELS, AuditRequest, CellOptions, option_of

if TYPE_CHECKING:
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
    made = api.register(out, policy=policy, **one, model_options=model_options)
    shown = plain_text(str(out))
    remarks = [
        f"{made.images}, {made.planned:,} images at most; suite {made.suite_fingerprint[:12]}…",
        f"Registered on {made.registered:%Y-%m-%d %H:%M:%S} UTC, SHA-256 {made.checksum}.",
        f"Put it where others see when it came, then give: clinometer audit --registration {shown}",
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
    from clinometer.sweeps.guidance import split_tables
    from clinometer.sweeps.page import settings_tables

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
    "steps": Option("Denoising steps.", default="the model's", least=1, kind=int),
    "guidance_scale": Option("Guidance scale.", name="--guidance", default="the model's", kind=float),
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
    made = api.mitigate(
        model, target=shares, words=dict(_split_pairs("word", words or ())), reference=reference,
        options=drawing_options, say=lambda line: console.print(plain_text(line)), **options,
    )  # fmt: skip
    console.print(f"Written: [bold]{plain_text(str(made.directory))}[/]; README.md says what was done")
    further = ["--reference", reference] if reference else []
    measured = f"To measure it: clinometer audit {' '.join([*made.options, *further])}"
    console.print(plain_text(measured))
    files = sorted(str(path) for path in made.directory.rglob("*") if path.is_file())
    print_json("files", of="mitigate", place=str(made.directory), files=files, remarks=[measured])


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
