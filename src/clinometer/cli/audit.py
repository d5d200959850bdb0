"""``clinometer audit``: one audit, or a sweep where several values are given."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from clinometer.cli.options import (
    AuditEncoderOption,
    BatchSizeOption,
    DeviceOption,
    EngineOption,
    WorkersOption,
    given_options,
    with_model_options,
)
from clinometer.cli.sweep import audit_grid, is_grid, numbers, one_each


@with_model_options
def audit(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="'reference', a pipeline directory, a safetensors file, or a hub id. Repeatable: several values of "
            "this, or of --suite, --lora, --guidance, --steps, --seed, are a sweep. [default: reference]",
        ),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option("--suite", "-s", help="A built-in suite or a YAML file. Repeatable. [default: reference]"),
    ] = None,
    encoder: AuditEncoderOption = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", help="Run directory. [default: runs/MODEL-SUITE, of a sweep runs/MODEL-SUITE-sweep]"
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="'paper': what the suite's paper prescribes beside its prompts (encoders, text targets, images, "
            "steps, guidance, size). Other options win over it, and the report names every departure."
        ),
    ] = None,
    images: Annotated[int | None, typer.Option(min=1, help="Images a target. [default: the suite's]")] = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(help="Every image's noise follows from it. Several by commas. [default: 0]"),
    ] = None,
    steps: Annotated[
        list[str] | None, typer.Option(help="Denoising steps. Several by commas. [default: the model's]")
    ] = None,
    guidance: Annotated[
        list[str] | None, typer.Option(help="Guidance scale. Several by commas. [default: the model's]")
    ] = None,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = "auto",
    dtype: Annotated[str, typer.Option(help="float32, float16, bfloat16, or auto.")] = "auto",
    text_targets: Annotated[
        str | None,
        typer.Option(help="What stands for a target in text: prompt or keyword. [default: the suite's]"),
    ] = None,
    portraits: Annotated[
        str | None,
        typer.Option(
            help="Portraits to edit or classify, for a suite of such a study: a folder, or 'reference'. "
            "[default: drawn]"
        ),
    ] = None,
    expression: Annotated[
        str, typer.Option(help="Of a face database, the expression that is taken: N, A, F, HC or HO.")
    ] = "N",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Draw images anew that failed earlier.")] = False,
    until: Annotated[
        str | None,
        typer.Option(
            help="Draw in rounds, and no more of a target once it is 'decided', or known to within a number such as "
            "0.1; --images is then the most it gets. [default: draw all images]"
        ),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    *,
    model_options: dict[str, Any],
) -> None:
    """Audit a model: draw, embed, score, report. Stopped, the same command goes on where it was."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    lora, budget = model_options.pop("lora", None), model_options.pop("budget", None)
    axes: dict[str, list[Any]] = {
        "suite": suite or ["reference"],
        "model": model or ["reference"],
        "lora": [None if name == "none" else name for name in lora or ()],
        "guidance": numbers("guidance", guidance, float),
        "steps": numbers("steps", steps, int),
        "seed": numbers("seed", seed, int) or [0],
    }
    common: dict[str, Any] = {
        "encoder": encoder or None,
        "protocol": protocol,
        "images": images,
        "batch_size": batch_size,
        "device": device,
        "dtype": dtype,
        "text_targets": text_targets,
        "budget": budget,
        "portraits": portraits,
        "expression": expression,
        "until": until,
    }
    run: dict[str, Any] = {"retry_failed": retry_failed, "engine": engine, "workers": workers}
    if is_grid(axes):
        audit_grid(axes, out, common | {"options": model_options}, **run)
        return
    one = one_each(axes)
    with LiveProgress() as progress:
        audited = api.audit(
            one["model"],
            one["suite"],
            out,
            seed=one["seed"],
            steps=one["steps"],
            guidance_scale=one["guidance"],
            model_options=model_options | given_options(lora=one["lora"]),
            progress=progress,
            **common,
            **run,
        )
    print_summary(audited)
