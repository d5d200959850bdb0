"""Commands that measure without a run: classify and test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clinometer.cli.options import BatchSizeOption, DeviceOption, ModelOption


def classify(
    images: Annotated[list[str], typer.Argument(metavar="IMAGES", help="Image files, or folders of them.")],
    labels: Annotated[
        list[str],
        typer.Option("--labels", "-l", help="The classes, separated by commas. Repeatable.", show_default=False),
    ],
    template: Annotated[str, typer.Option(help="The prompt of a class; {} is its label.")] = "{}",
    model: ModelOption = "reference",
    trials: Annotated[int, typer.Option(min=1, help="Noise samples an image takes at most.")] = 100,
    all_trials: Annotated[
        bool, typer.Option("--all-trials", help="Take them all, even where a class is beaten already.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the table: .csv, .json, .parquet.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Timesteps and noise follow from it, and from the image.")] = 0,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = "auto",
    dtype: Annotated[str, typer.Option(help="float32, float16, bfloat16, or auto.")] = "auto",
) -> None:
    """Classify images by how well a diffusion model denoises them under each label."""
    from clinometer import api
    from clinometer.cli.classify import print_choices
    from clinometer.cli.console import LiveProgress
    from clinometer.cli.tables import check_place, write_table

    check_place(out)
    with LiveProgress() as progress:
        choices = api.classify_images(
            images,
            [label.strip() for line in labels for label in line.split(",") if label.strip()],
            model=model,
            template=template,
            trials=trials,
            seed=seed,
            all_trials=all_trials,
            batch_size=batch_size,
            device=device,
            dtype=dtype,
            progress=progress,
        )
    print_choices(choices)
    write_table(choices, out)


def association_test(
    tests: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEST…", help="weat, weat/6, seat/6, ieat/age, a YAML file. [default: weat]"),
    ] = None,
    encoder: Annotated[
        str,
        typer.Option("--encoder", "-e", help="As of audit; or a text-only encoder, or a file of embeddings."),
    ] = "reference",
    images: Annotated[Path | None, typer.Option(help="A folder with a folder of pictures for each set.")] = None,
    labels: Annotated[Path | None, typer.Option(help="For .npy embeddings: the file with a label a line.")] = None,
    sentences: Annotated[bool, typer.Option("--sentences", help="Put words into sentences (SEAT).")] = False,
    unit: Annotated[str, typer.Option(help="With sentences, what is permuted: word or sentence.")] = "word",
    alternative: Annotated[
        str | None, typer.Option(help="greater, less or two-sided. [default: the test's, greater]")
    ] = None,
    ddof: Annotated[int, typer.Option(min=0, max=1, help="1 as in iEAT and sent-bias, 0 as in WEFE.")] = 1,
    spread: Annotated[str, typer.Option(help="What the effect size divides by: union or pooled.")] = "union",
    max_missing: Annotated[float, typer.Option(help="Share of a set that may be missing.")] = 0.2,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the table: .csv, .json, .parquet.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    device: DeviceOption = "auto",
) -> None:
    """Run association tests (WEAT, SEAT, iEAT) on words, pictures or vectors of your own. Draws nothing."""
    from clinometer import api
    from clinometer.cli.tables import check_place, write_table
    from clinometer.cli.weat import print_tests

    check_place(out)
    table = api.association_test(
        tests or "weat",
        encoder=encoder,
        images=images,
        labels=labels,
        sentences=sentences,
        unit=unit,  # type: ignore[arg-type]
        alternative=alternative,  # type: ignore[arg-type]
        ddof=ddof,
        spread=spread,  # type: ignore[arg-type]
        max_missing=max_missing,
        seed=seed,
        device=device,
    )
    print_tests(table)
    write_table(table, out)
