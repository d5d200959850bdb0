"""The commands. Each imports what it needs when it runs, so that ``--help`` is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from clinometer.cli.options import (
    BaseUrlOption,
    BudgetOption,
    CompileOption,
    ConcurrencyOption,
    DeviceMapOption,
    EditGuidanceOption,
    EditStepsOption,
    EngineOption,
    HeightOption,
    LoraScaleOption,
    LorasOption,
    ModelConfigOption,
    NegativePromptOption,
    OffloadOption,
    PaceOption,
    PriceOption,
    PriorGuidanceOption,
    PriorStepsOption,
    QualityOption,
    SafetyCheckerOption,
    SchedulerOption,
    TrustedHostOption,
    TrustRemoteCodeOption,
    VaeTilingOption,
    VariantOption,
    WidthOption,
    WorkersOption,
    as_typed,
    given,
    refuse_repeated,
    refuse_without,
)
from clinometer.cli.ratings import ratings
from clinometer.cli.serve import serve
from clinometer.cli.sweep import audit_grid, is_grid, numbers, one_each, sweep
from clinometer.cli.unforeseen import RESUMED, VARIABLE
from clinometer.errors import ClinometerError


class _Commands(TyperGroup):
    """All commands. Mistakes name options as they are typed. Ctrl-C ends in a line: Typer's own answer has no word."""

    def invoke(self, ctx: Any) -> Any:
        words = list(ctx.args)
        try:
            return super().invoke(ctx)
        except ClinometerError as error:
            command = self.commands.get(ctx.invoked_subcommand or "")
            if command is not None:
                error.args = (as_typed(str(error), command, words),)
            raise
        except KeyboardInterrupt:
            goes_on = " The same command goes on from here." if ctx.invoked_subcommand in RESUMED else ""
            typer.echo(f"clinometer: stopped.{goes_on}", err=True)
            raise typer.Exit(130) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found = super().resolve_command(ctx, args)
        refuse_repeated(found[1], found[2])
        return found


app = typer.Typer(
    name="clinometer",
    cls=_Commands,
    help="Measure how far a text-to-image model leans.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(ratings)

ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="'reference', a pipeline directory, a safetensors file, or a hub id."),
]
ENCODER_HELP = (
    "'reference', NAME/PRETRAINED of open_clip (RN50/openai), a directory, a hub id, or openai-clip-six. Repeatable."
)
EncoderOption = Annotated[
    list[str] | None, typer.Option("--encoder", "-e", help=f"{ENCODER_HELP} [default: reference]")
]
AuditEncoderOption = Annotated[
    list[str] | None, typer.Option("--encoder", "-e", help=f"{ENCODER_HELP} [default: the protocol's, or reference]")
]
AddedEncoderOption = Annotated[list[str] | None, typer.Option("--encoder", "-e", help=f"Added first: {ENCODER_HELP}")]
BatchSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Images at once; by default found. It changes an image by rounding at most.")
]
ManifestOption = Annotated[
    Path | None, typer.Option(help="The manifest. [default: manifest or metadata, .csv or .jsonl]")
]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run directory.")]


@app.command()
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
    height: HeightOption = None,
    width: WidthOption = None,
    negative_prompt: NegativePromptOption = None,
    scheduler: SchedulerOption = None,
    prior_steps: PriorStepsOption = None,
    prior_guidance: PriorGuidanceOption = None,
    edit_steps: EditStepsOption = None,
    edit_guidance: EditGuidanceOption = None,
    model_config: ModelConfigOption = None,
    lora: LorasOption = None,
    lora_scale: LoraScaleOption = None,
    safety_checker: SafetyCheckerOption = None,
    variant: VariantOption = None,
    device_map: DeviceMapOption = None,
    offload: OffloadOption = None,
    compile_: CompileOption = False,
    vae_tiling: VaeTilingOption = False,
    trust_remote_code: TrustRemoteCodeOption = None,
    price: PriceOption = None,
    budget: BudgetOption = None,
    base_url: BaseUrlOption = None,
    trusted_host: TrustedHostOption = None,
    quality: QualityOption = None,
    concurrency: ConcurrencyOption = None,
    requests_per_minute: PaceOption = None,
) -> None:
    """Audit a model: draw, embed, score, report. Stopped, the same command goes on where it was."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    options = given(
        height=height,
        width=width,
        negative_prompt=negative_prompt,
        scheduler=scheduler,
        prior_steps=prior_steps,
        prior_guidance_scale=prior_guidance,
        edit_steps=edit_steps,
        edit_guidance_scale=edit_guidance,
        model_config=model_config,
        lora_scale=lora_scale,
        safety_checker=safety_checker,
        variant=variant,
        device_map=device_map,
        offload=offload,
        compile=compile_,
        vae_tiling=vae_tiling,
        trust_remote_code=trust_remote_code,
        price=price,
        base_url=base_url,
        trusted_host=trusted_host,
        quality=quality,
        concurrency=concurrency,
        requests_per_minute=requests_per_minute,
    )
    axes: dict[str, list[Any]] = {
        "suite": suite or ["reference"],
        "model": model or ["reference"],
        "lora": [None if each == "none" else each for each in lora or ()],
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
        audit_grid(axes, out, common | {"options": options}, **run)
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
            model_options=options | given(lora=one["lora"]),
            progress=progress,
            **common,
            **run,
        )
    print_summary(audited)


@app.command()
def score(
    run: RunArgument,
    encoder: AddedEncoderOption = None,
    drop_encoder: Annotated[
        list[str] | None,
        typer.Option("--drop-encoder", help="Left out of the scores from now on; its vectors stay. Repeatable."),
    ] = None,
    suite_option: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting of the suite that scoring alone reads, from now on: margin=0.2. run.json keeps the old "
            "value too, and the report shows both. Repeatable."
        ),
    ] = None,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    workers: WorkersOption = None,
) -> None:
    """Score a run anew, with more encoders if given, or fewer. Draws nothing."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    with LiveProgress() as progress:
        api.score_run(
            run,
            encoder=encoder or (),
            drop_encoder=drop_encoder or (),
            suite_options=suite_option or (),
            device=device,
            engine=engine,
            workers=workers,
            progress=progress,
        )
    print_summary(api.open_run(run))


@app.command()
def report(
    run: RunArgument,
    paper: Annotated[
        str | None,
        typer.Option(
            help="Instead, hold the run against the tables that a paper prints: mcas, internal-bias, xmcas, t2iat or "
            "downstream."
        ),
    ] = None,
    paper_model: Annotated[
        list[str] | None,
        typer.Option(help="The paper's model that is shown, such as dalle-2. Repeatable. [default: all]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where that table is written. [default: RUN/paper-NAME.csv]")
    ] = None,
) -> None:
    """Write the report of a run anew, or hold the run against a paper's tables."""
    from clinometer import api
    from clinometer.cli.console import print_report_place
    from clinometer.cli.paper import hold_against_paper
    from clinometer.pipeline.reporting import write_report

    opened = api.open_run(run)
    if paper is not None:
        hold_against_paper(opened, paper, paper_model or (), out)
        return
    refuse_without(paper_model=paper_model, out=out, needs="paper")
    for damage in write_report(opened):
        typer.echo(f"clinometer: {damage}", err=True)
    print_report_place(opened)


@app.command()
def verify(run: RunArgument) -> None:
    """Read every file of a run and say which are not as they were written. Status 2 if any is not."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress

    with LiveProgress() as progress:
        verified = api.verify_run(run, progress=progress)
    typer.echo(f"{run}: {verified} files are as they were written.")


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Two or more runs of one suite.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="A directory for comparison.html and comparison.csv.")
    ] = None,
) -> None:
    """Hold finished runs against the first of them: which leans more, and by how much."""
    from clinometer import api
    from clinometer.cli.comparison import print_comparisons, print_place

    compared = api.compare(*runs, out=out)
    print_comparisons(compared)
    print_place(out)


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Finished images and a manifest (CSV or JSON lines).")],
    suite: Annotated[str, typer.Option("--suite", "-s", help="The suite that the images answer.")] = "mcas",
    manifest: ManifestOption = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Run directory. [default: runs/NAME-SUITE]")] = None,
    name: Annotated[str | None, typer.Option(help="What made the images. [default: the folder's name]")] = None,
    max_pixels: Annotated[
        int, typer.Option(min=1, help="Larger images are not read: a small file can unfold to fill the memory.")
    ] = 40_000_000,
    encoder: EncoderOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    workers: WorkersOption = None,
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
            max_pixels=max_pixels,
            encoder=encoder or "reference",
            seed=seed,
            device=device,
            engine=engine,
            workers=workers,
            progress=progress,
        )
    print_summary(run)


@app.command()
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


@app.command("test")
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
    from clinometer.cli.association import print_tests
    from clinometer.cli.tables import check_place, write_table

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


@app.command()
def plan(
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="A built-in suite or a YAML file. [default: the pilot's]")
    ] = None,
    pilot: Annotated[
        str | None, typer.Option("--pilot", "-p", metavar="RUN", help="A scored run of the suite.")
    ] = None,
    images: Annotated[int | None, typer.Option(min=1, help="Images a target. [default: the suite's]")] = None,
    effect: Annotated[
        float | None, typer.Option(help="|MCAS| that is to be found. [default: each concept's own in the pilot]")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Within which balance is to be shown. [default: the suite's]")
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of deciding.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Level of the tests, of a concept by itself.")] = 0.05,
    price: Annotated[float, typer.Option(help="What an image costs, of a model behind an API.")] = 0.0,
) -> None:
    """Say how many images an audit needs, and the time and disk they would take. Draws nothing."""
    from clinometer import api
    from clinometer.cli.planning import print_plan

    found = api.plan(
        suite, pilot=pilot, effect=effect, margin=margin, power=power, alpha=alpha, price=price, images=images
    )
    print_plan(found, images)


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
    name: Annotated[
        str | None,
        typer.Argument(
            help="What an audit takes as its model or encoder; it is loaded. 'reference' also shows its planted truth."
        ),
    ] = None,
    check_skin: Annotated[
        bool, typer.Option("--check-skin", help="Hold the skin mask against the ten Monk skin tones.")
    ] = False,
    model_config: ModelConfigOption = None,
) -> None:
    """List the generators and encoders at hand, or say what one is and can do. Draws nothing."""
    from clinometer.cli.console import print_model, print_models

    if check_skin:
        from clinometer import api
        from clinometer.cli.classify import print_swatches

        print_swatches(api.check_skin())
    elif name is None:
        print_models()
    else:
        print_model(name, **given(model_config=model_config))


app.command()(sweep)
app.command()(serve)


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
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show the traceback of what goes wrong; also by {VARIABLE}=1.")
    ] = False,
) -> None:
    pass
