"""Commands on finished images and runs: import, score, report, verify, compare, gate, card, export, push."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from clinometer._messages import printable
from clinometer.cli.options import (
    ENCODER_HELP,
    AddedEncoderOption,
    DeviceOption,
    EngineOption,
    LogToOption,
    ManifestOption,
    ReferenceOption,
    ReportOption,
    ResamplesOption,
    RunArgument,
    WorkersOption,
    given_options,
    refuse_without,
)
from clinometer.cli.tables import (
    Console,
    check_place,
    echo,
    plain_text,
    require_other_place,
    tell,
    write_file,
    write_table,
)
from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import RESAMPLES

if TYPE_CHECKING:
    from clinometer.exports.board import Paper

ModelFolderOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        "-m",
        metavar="FOLDER",
        help="The folder of the model's files: the statement is about them, by the digest that OpenSSF model-signing "
        "signs. [default: it is about the run]",
    ),
]

RegistrationOption = Annotated[
    Path | None,
    typer.Option(help="The registration that the run was drawn under; the journal lies beside it."),
]


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
    resamples: Annotated[
        int | None,
        typer.Option(
            min=19, help="Resamples that intervals and tests are computed from, from now on. [default: as before]"
        ),
    ] = None,
    verdict_reader: Annotated[
        str | None,
        typer.Option(help="The reader by whose answers concepts are judged from now on; '' for the best-calibrated."),
    ] = None,
    reference: ReferenceOption = None,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    log_to: LogToOption = None,
) -> None:
    """Score a run anew, with more encoders if given, or fewer. Draws nothing."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary, send_to

    with LiveProgress() as progress:
        api.score_run(
            run,
            encoder=encoder or (),
            drop_encoder=drop_encoder or (),
            suite_options=suite_option or (),
            reference=reference,
            resamples=resamples,
            verdict_reader=verdict_reader,
            device=device,
            engine=engine,
            workers=workers,
            progress=progress,
        )
    print_summary(scored := api.open_run(run))
    tell(scored)
    send_to(log_to, scored)


def trace(
    run: RunArgument,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="What drew the run. [default: the model of its name]")
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option("--encoder", "-e", help="Which of the run's encoders look. Repeatable. [default: all]"),
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="So many steps, some by number as in 1,5,10, or all. [default: 6, evenly spread]")
    ] = None,
    decoder: Annotated[
        str | None, typer.Option(help="A tiny decoder (diffusers' AutoencoderTiny) for speed: a directory or a hub id.")
    ] = None,
    latents: Annotated[bool, typer.Option("--latents", help="Store the latents of these steps, too.")] = False,
    lora: Annotated[str | None, typer.Option(help="The LoRA that the run was begun with.")] = None,
    lora_scale: Annotated[float | None, typer.Option(help="And how strongly it was merged.")] = None,
    lora_partly: Annotated[
        bool, typer.Option("--lora-partly", help="Merge a LoRA of which few weights find a place, as the run did.")
    ] = False,
    scheduler: Annotated[str | None, typer.Option(help="The scheduler that the run was begun with.")] = None,
    device: DeviceOption = "auto",
) -> None:
    """Draw a run's images again, and say from which step on they lean. They stay as they are."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    with LiveProgress() as progress:
        api.trace_run(
            run,
            model=model,
            encoder=encoder or (),
            model_options=given_options(lora=lora, lora_scale=lora_scale, lora_partly=lora_partly, scheduler=scheduler),
            steps=steps,
            decoder=decoder,
            latents=latents,
            device=device,
            progress=progress,
        )
    print_summary(traced := api.open_run(run))
    tell(traced)


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
    from clinometer.cli.results import hold_against_paper
    from clinometer.pipeline.results import write_report

    opened = api.open_run(run)
    if paper is not None:
        hold_against_paper(opened, paper, paper_model or (), out)
        return
    refuse_without(paper_model=paper_model, out=out, needs="paper")
    if opened.unchecked:
        echo(f"{run}: {opened.unchecked}.")
    damages = write_report(opened)
    for damage in damages:
        typer.echo(f"clinometer: {printable(damage)}", err=True)
    print_report_place(opened)
    tell("files", of="report", place=opened.directory.shown, files=["report.html"], remarks=damages)


def verify(
    run: RunArgument,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute", help="Also compute every number anew from the vectors, and say which differ. Writes nothing."
        ),
    ] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(
            help="Also hold the run against a file: assessment-results.json or statement.json of an export, or the "
            "ML-BOM of a card. What it says is derived again."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The run that a record's findings are differences from, where they are.")
    ] = None,
    model: ModelFolderOption = None,
    registration: RegistrationOption = None,
) -> None:
    """Read every file of a run and say which are not as they were written. Status 2 if any is not.

    With --registration also what was changed since it was registered, how often it was tried and what was left out:
    status 1 if anything was changed.
    """
    from clinometer import api
    from clinometer.cli.console import LiveProgress
    from clinometer.runs.verification import unfinished, unlisted

    if evidence is None:
        refuse_without(needs="evidence", baseline=baseline, model=model)
    opened = api.open_run(run)
    if opened.unchecked:
        echo(f"{run}: {opened.unchecked}.")
    with LiveProgress() as progress:
        verified = api.verify_run(
            opened, recompute=recompute, evidence=evidence, baseline=baseline, model=model, progress=progress
        )
    unknown = [] if opened.unchecked else unlisted(opened)
    if opened.unchecked:
        echo(f"{verified} files can be read; nothing tells whether they are those that were written.")
    else:
        echo(f"{run}: {verified - len(unknown)} files are as they were written.")
    if unknown:
        echo(f"Nothing tells of {', '.join(unknown)}: run.json does not list it.")
    if evidence is not None:
        echo(f"It is the run of {evidence}, and what that says follows from it.")
    reviewed = None if registration is None else api.review_registration(opened, registration, evidence=evidence)
    if reviewed is not None:
        echo("\n".join(reviewed.lines()))
    if recompute:
        echo("Its numbers are those that follow from its vectors.")
    if left := unfinished(opened):
        echo(f"The run is not finished: {left}.")
    tell(
        "verification", run=opened, files=verified, checked=not opened.unchecked, unlisted=unknown, unfinished=left,
        recomputed=recompute, evidence=None if evidence is None else str(evidence),
        attempts=[] if reviewed is None else list(reviewed.attempts),
        changes=None if reviewed is None else list(reviewed.changes),
    )  # fmt: skip
    raise typer.Exit(1 if reviewed is not None and reviewed.changes else 0)


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Two or more runs of one suite.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="A directory for comparison.html and comparison.csv.")
    ] = None,
    log_to: LogToOption = None,
) -> None:
    """Compare finished runs with the first of them: which leans more, and by how much."""
    from clinometer import api
    from clinometer.cli.console import send_to
    from clinometer.cli.results import print_comparisons, print_place

    compared = api.compare(*runs, out=out)
    print_comparisons(compared)
    print_place(out)
    tell(compared, report=None if out is None else f"{out.rstrip('/')}/comparison.html")
    send_to(log_to, compared)


def gate(
    run: RunArgument,
    policy: Annotated[
        Path | None, typer.Option("--policy", "-p", help="A YAML file with rules; see docs/gates.md.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="The run that a difference is taken from, such as the last release."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="In place of a policy, one rule: the metric whose numbers have a limit.")
    ] = None,
    component: Annotated[str | None, typer.Option(help="Its component. [default: that of the metric's name]")] = None,
    within: Annotated[float | None, typer.Option(help="Its limits: ± this.")] = None,
    at_least: Annotated[float | None, typer.Option(help="Its lower limit.")] = None,
    at_most: Annotated[float | None, typer.Option(help="Its upper limit.")] = None,
    four_fifths: Annotated[
        float | None,
        typer.Option(help="In place of a metric and limits: the smallest share over the largest is at least this."),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            help="A folder of earlier runs that were accepted. Rules against the history, and --metric, hold the "
            "change from these to limits. Without rules: whether the main numbers have changed."
        ),
    ] = None,
    last: Annotated[int | None, typer.Option(help="How many of these, the latest. [default: 40]")] = None,
    allow_undecided: Annotated[
        bool, typer.Option("--allow-undecided", help="Status 0 where nothing is shown to be broken.")
    ] = False,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Hold a run without checksums to limits all the same.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file for all numbers: .csv, .parquet, or with the rules and runs .json."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of every number why it came out as it did, and what may be done.")
    ] = False,
    junit_file: Annotated[
        Path | None,
        typer.Option(
            "--junit", help="Also write JUnit's XML: a suite a rule, a case a number, for a pipeline to show."
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            envvar="GITHUB_STEP_SUMMARY",
            help="Also add a summary in Markdown to a file. [default: what GITHUB_STEP_SUMMARY names, if anything]",
        ),
    ] = None,
) -> None:
    """Check a finished run against limits: status 0 if all hold, 1 if one is broken, 3 if one is undecided."""
    from clinometer import api
    from clinometer.cli.results import STATUS, print_gate
    from clinometer.gates import policy_from_mapping
    from clinometer.gates.telling import explanations, junit, markdown

    asked = given_options(
        metric=metric, component=component, within=within, at_least=at_least, at_most=at_most, four_fifths=four_fifths
    )
    if policy is not None and asked:
        option = next(iter(asked)).replace("_", "-")
        raise InvalidInputError.conflict(
            f"--{option}: a policy is given, too; put the limit there, or leave --policy out"
        )
    if last is not None and history is None:
        raise InvalidInputError.missing("--last: there is no --history to take runs from")
    if policy is None and not asked and history is None:
        raise InvalidInputError.missing(
            "gate: no limit is given; give --policy FILE, or --metric mcas --component image_part --within 0.25"
        )
    check_place(out)
    for option, file in (("--out", out), ("--junit", junit_file), ("--summary", summary)):
        if file is not None:
            require_other_place(file, run, baseline, policy, history, option=option)
    if asked and history is not None:
        asked["against"] = "history"
    judged = api.gate(
        run,
        policy or (policy_from_mapping({"rules": [asked]}, source="gate") if asked else None),
        baseline=baseline, history=history, unchecked=unchecked, **({} if last is None else {"last": last}),
    )  # fmt: skip
    print_gate(judged, explain=explain)
    write_table(judged.table, out, judged.as_mapping())
    write_file(junit_file, "--junit", junit(judged, allow_undecided=allow_undecided))
    write_file(summary, "--summary", markdown(judged).encode("utf-8", "backslashreplace"), mode="ab")
    status = 0 if allow_undecided and judged.outcome != "broken" else STATUS[judged.outcome]
    tell(judged, exit_code=status, explanations=list(explanations(judged)))
    raise typer.Exit(status)


def import_(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Finished images and a manifest (CSV or JSON lines).")
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="In place of images, a CSV file of how many there are: concept, group, n and, where something was "
            "varied, setting. Rows of the group 'discarded' count images that are of no group.",
        ),
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="The suite that the images answer. [default: mcas]")
    ] = None,
    manifest: ManifestOption = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Run directory. [default: runs/NAME-SUITE]")] = None,
    name: Annotated[str | None, typer.Option(help="What made the images. [default: the folder's name]")] = None,
    max_pixels: Annotated[
        int, typer.Option(min=1, help="Larger images are not read: a small file can unfold to fill the memory.")
    ] = 40_000_000,
    encoder: Annotated[
        list[str] | None, typer.Option("--encoder", "-e", help=f"For images, needed: {ENCODER_HELP}")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    resamples: ResamplesOption = RESAMPLES,
    report: ReportOption = True,
    reference: ReferenceOption = None,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    workers: WorkersOption = None,
) -> None:
    """Audit finished images instead of a model, or counts of them."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    if counts is not None:
        images = given_options(suite=suite, manifest=manifest, encoder=encoder, workers=workers)
        if folder is not None or images:
            found = "a folder" if folder is not None else f"--{next(iter(images))}"
            raise InvalidInputError.conflict(f"--counts: found {found} too; counts have no images, so leave it out")
        print_summary(counted := api.import_counts(counts, out, name=name, report=report, reference=reference))
        tell(counted)
        return
    if folder is None:
        raise InvalidInputError.missing(
            "import: nothing is given; name the folder of the images, or give --counts FILE"
        )
    if not encoder:
        raise InvalidInputError.missing(
            "--encoder: found none; give one that knows such images, such as ViT-B-32/openai, or reference for images "
            "of the reference model"
        )
    with LiveProgress() as progress:
        run = api.import_images(
            folder,
            out,
            suite=suite or "mcas",
            manifest=manifest,
            name=name,
            max_pixels=max_pixels,
            encoder=encoder,
            seed=seed,
            resamples=resamples,
            report=report,
            reference=reference,
            device=device,
            engine=engine,
            workers=workers,
            progress=progress,
        )
    print_summary(run)
    tell(run)


def card(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", help="Finished runs of one model, of any suites.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="A model card, such as README.md. One that is there keeps its text and metadata; only what this "
            "command wrote before is replaced. Of eval-results, a model repository's folder. [default: print it]",
        ),
    ] = None,
    rows: Annotated[
        int,
        typer.Option(
            min=1,
            help="Verdicts of each run that are listed, the largest of those that lean first; the rest is counted.",
        ),
    ] = 20,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="model-card (Markdown with model-index), eval-results (.eval_results/*.yaml of the Hub), "
            "every-eval-ever (its aggregate, JSON), fairness (a Fairness Card, YAML), cyclonedx (an ML-BOM, JSON), or "
            "a plug-in's name.",
        ),
    ] = "model-card",
    benchmark: Annotated[
        str, typer.Option(metavar="OWNER/NAME", help="For eval-results: the benchmark's data set on the Hub.")
    ] = "",
    source: Annotated[str, typer.Option(metavar="URL", help="For eval-results: where the run can be seen.")] = "",
    by: Annotated[str, typer.Option(help="For every-eval-ever and fairness: who made the evaluation.")] = "",
    in_scope: Annotated[
        list[str] | None, typer.Option(help="For fairness: a use that its conclusions are for. Repeatable.")
    ] = None,
    out_of_scope: Annotated[
        list[str] | None, typer.Option(help="For fairness: a use that they are not for. Repeatable.")
    ] = None,
) -> None:
    """Write the part on bias of a model card: Markdown, and the results that the Hugging Face Hub reads."""
    from clinometer import api

    text = api.model_card(
        *runs,
        out=out,
        rows=rows,
        format=format,
        benchmark=benchmark,
        source=source,
        by=by,
        in_scope=in_scope or (),
        out_of_scope=out_of_scope or (),
    )
    if out is None:
        echo(text, nl=False)
    else:
        Console(soft_wrap=True).print(f"Card: [bold]{plain_text(out)}[/]")
    tell("files", of="card", place=out, files=[] if out is None else [out], text=text if out is None else None)


def export(
    run: RunArgument,
    out: Annotated[str, typer.Argument(metavar="DIR", help="A folder for what is written.")],
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence",
            help="In place of a paper's parts, a dated record for an auditor: OSCAL Assessment Results, the clauses "
            "that they may serve and, with a policy, an in-toto statement.",
        ),
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", "-p", help="For the record: a YAML file of rules; each becomes a finding."),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="The run that a policy's differences are taken from.")] = None,
    model: ModelFolderOption = None,
    registration: RegistrationOption = None,
    dataset: Annotated[
        bool,
        typer.Option(
            "--dataset",
            help="In place of a paper's parts, the images as a data set of the Hub: Parquet, a card, Croissant 1.1.",
        ),
    ] = False,
    license: Annotated[str, typer.Option(help="For a data set: its licence, by its SPDX identifier.")] = "",
    board: Annotated[
        str, typer.Option(metavar="PAPER", help="Paper of the two pages for a board: a4, letter, or none for no pages.")
    ] = "a4",
) -> None:
    """Write a run's figures, tables, methods and BibTeX for a paper, and two pages for a board."""
    from clinometer import api

    paper = None if board == "none" else cast("Paper", board)
    names = api.export(
        run, out, evidence=evidence, policy=policy, baseline=baseline, model=model, registration=registration,
        dataset=dataset, license=license, board=paper,
    )  # fmt: skip
    if dataset:
        echo(f"A data set of {len(names)} files. See what its card says before you publish it.")
    elif evidence:
        signed = "the first" if "statement.json" not in names else f"{names[0]} and {names[2]}"
        echo(f"{', '.join(names)}: what was measured, and no claim of compliance. Sign {signed}.")
    else:
        figures, tables = (sum(name.startswith(folder) for name in names) // 2 for folder in ("figures/", "tables/"))
        echo(f"{figures} figures as SVG and PDF, {tables} tables as CSV and LaTeX, the methods and references.")
        if "board.pdf" in names:
            echo("Two pages for a board: board.pdf, printed from board.html.")
        elif "board.html" in names:
            echo(
                "Two pages for a board: board.html. Print it from a browser; with Chromium or "
                "clinometer[pdf] there is a board.pdf."
            )
    Console(soft_wrap=True).print(f"Export: [bold]{plain_text(out)}[/]")
    tell("files", of="export", place=out, files=names)


def push(
    run: RunArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="hf://datasets/OWNER/NAME for the images, with scores, report and Croissant; or hf://OWNER/NAME, a "
            "model's repository, for the part on bias of its card.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent. Asks nothing of the Hub.")
    ] = False,
    benchmark: Annotated[
        str,
        typer.Option(
            metavar="OWNER/NAME",
            help="For a model: the data set that holds the suite. Results go to .eval_results, too.",
        ),
    ] = "",
    source: Annotated[str, typer.Option(metavar="URL", help="For a model: where the run can be seen.")] = "",
    license: Annotated[str, typer.Option(help="For a data set: its licence, by its SPDX identifier.")] = "",
    public: Annotated[
        bool, typer.Option("--public", help="Make a new data set public. [default: it is private]")
    ] = False,
    pull_request: Annotated[bool, typer.Option("--pull-request", help="Propose it by a pull request.")] = False,
) -> None:
    """Send a run to the Hugging Face Hub, with huggingface_hub's own token. A damaged run is not sent."""
    from clinometer import api

    sent = api.push(
        run,
        target,
        dry_run=dry_run,
        benchmark=benchmark,
        source=source,
        license=license,
        public=public,
        pull_request=pull_request,
    )
    for name, size in sent.files.items():
        echo(f"{size:>13,}  {printable(name)}")
    files = f"{len(sent.files)} files of {sum(sent.files.values()):,} bytes"
    place = printable(sent.target)
    remarks = [*sent.notes, f"Sent {files}: {sent.url}" if sent.url else f"{files} would be sent to {place}."]
    echo("\n".join(remarks))
    tell("files", of="push", place=place, files=list(sent.files), remarks=remarks)
