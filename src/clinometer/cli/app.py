"""The commands. Each imports what it needs when it runs, so that ``--help`` is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="clinometer",
    help="Measure how far a text-to-image model leans.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="'reference', a pipeline directory, or a hub id such as owner/name."),
]
ENCODER_HELP = "'reference', NAME/PRETRAINED of open_clip (RN50/openai), a directory or a hub id. Repeatable."
EncoderOption = Annotated[
    list[str] | None, typer.Option("--encoder", "-e", help=f"{ENCODER_HELP} [default: reference]")
]
AddedEncoderOption = Annotated[list[str] | None, typer.Option("--encoder", "-e", help=f"Added first: {ENCODER_HELP}")]
BatchSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Images at once; it changes an image by rounding at most.")
]
ManifestOption = Annotated[
    Path | None, typer.Option(help="The manifest. [default: manifest or metadata, .csv or .jsonl]")
]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run directory.")]


@app.command()
def audit(
    model: ModelOption = "reference",
    suite: Annotated[str, typer.Option("--suite", "-s", help="A built-in suite or a YAML file.")] = "reference",
    encoder: EncoderOption = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Run directory. [default: runs/MODEL-SUITE]")] = None,
    images: Annotated[int | None, typer.Option(min=1, help="Images a target. [default: the suite's]")] = None,
    seed: Annotated[int, typer.Option(help="Every image's noise follows from it.")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Denoising steps. [default: the model's]")] = None,
    guidance: Annotated[float | None, typer.Option(min=0, help="Guidance scale. [default: the model's]")] = None,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = "auto",
    dtype: Annotated[str, typer.Option(help="float32, float16, bfloat16, or auto.")] = "auto",
    text_targets: Annotated[
        str | None,
        typer.Option(help="What stands for a target in text: prompt or keyword. [default: the suite's]"),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Draw images anew that failed earlier.")] = False,
) -> None:
    """Audit a model: draw, embed, score, report. Stopped, the same command goes on where it was."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    with LiveProgress() as progress:
        run = api.audit(
            model,
            suite,
            out,
            encoder=encoder or "reference",
            images=images,
            seed=seed,
            steps=steps,
            guidance_scale=guidance,
            batch_size=batch_size,
            device=device,
            dtype=dtype,
            text_targets=text_targets,  # type: ignore[arg-type]
            retry_failed=retry_failed,
            progress=progress,
        )
    print_summary(run)


@app.command()
def score(run: RunArgument, encoder: AddedEncoderOption = None, device: DeviceOption = "auto") -> None:
    """Score a run anew, with more encoders if given. Draws nothing."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    with LiveProgress() as progress:
        api.score_run(run, encoder=encoder or (), device=device, progress=progress)
    print_summary(api.open_run(run))


@app.command()
def report(run: RunArgument) -> None:
    """Write the report of a run anew."""
    from clinometer import api
    from clinometer import report as report_room
    from clinometer.cli.console import print_report_place

    opened = api.open_run(run)
    report_room.write(opened)
    print_report_place(opened)


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Finished images and a manifest (CSV or JSON lines).")],
    suite: Annotated[str, typer.Option("--suite", "-s", help="The suite that the images answer.")] = "mcas",
    manifest: ManifestOption = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Run directory. [default: runs/NAME-SUITE]")] = None,
    name: Annotated[str | None, typer.Option(help="What made the images. [default: the folder's name]")] = None,
    encoder: EncoderOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    device: DeviceOption = "auto",
) -> None:
    """Audit finished images instead of a model."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    with LiveProgress() as progress:
        run = api.import_images(
            folder,
            out,
            suite=suite,
            manifest=manifest,
            name=name,
            encoder=encoder or "reference",
            seed=seed,
            device=device,
            progress=progress,
        )
    print_summary(run)


@app.command()
def suites(
    name: Annotated[str | None, typer.Argument(help="A built-in suite or a YAML file.")] = None,
) -> None:
    """List the built-in suites, or show what one asks."""
    from clinometer.cli.console import print_suite, print_suites
    from clinometer.suites import load_suite

    if name is None:
        print_suites()
    else:
        print_suite(load_suite(name))


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="'reference' shows its card and planted truth.")] = None,
) -> None:
    """List the generators and encoders at hand, or show the card of one."""
    from clinometer.cli.console import print_card, print_models

    if name is None:
        print_models()
    else:
        print_card(name)


def _version(value: bool) -> None:
    if value:
        from importlib import metadata

        typer.echo(metadata.version("clinometer"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
