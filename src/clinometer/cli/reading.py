"""Commands on pictures and words outside a run: read, which takes a run too, questions, classify, test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from rich.table import Table

from clinometer import api
from clinometer.cli.options import READER_OPTIONS, TABLE, TableOption, with_options
from clinometer.cli.tables import Console, check_place, plain_text, print_json, text_table, write_table
from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import Argument, Option

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.readings.folder import FolderReadings


@with_options(api.read_run, api.read_images, also=READER_OPTIONS, without=("run", "folder"))
def read(
    folder: Annotated[str, Argument("A folder of pictures, or a run directory.", metavar="FOLDER|RUN")],
    *,
    reader: Sequence[str] = (),
    question: Sequence[str] = (),
    out: Path | None = None,
    same_pictures: bool = False,
    table: Annotated[Path | None, replace(TABLE, short="")] = None,
    **options: Any,
) -> None:
    """Ask readers what pictures show, and measure how often they err.

    Draws nothing.
    """
    from clinometer.cli.console import LiveProgress
    from clinometer.runs import Directory
    from clinometer.runs.ledger import RECORD

    check_place(table)
    if Directory(folder).exists(RECORD):
        if out is not None:
            raise InvalidInputError.unsupported("--out: the answers of a run are kept in it; leave --out out")
        if same_pictures:
            raise InvalidInputError.unsupported(
                "--same-pictures: it is of a folder; label a run's own pictures by clinometer ratings"
            )
        with LiveProgress() as progress:
            answers = api.read_run(
                folder, reader=reader or "reference", question=question, **options, progress=progress
            )
        _show_answers(folder, answers, table)
        return
    if options["check_drift"]:
        raise InvalidInputError.unsupported(
            "--check-drift: it is of a run, whose pictures are read part by part; leave it out"
        )
    for name in ("check_drift", "retry_failed", "engine", "workers"):  # which a folder has no use for
        options.pop(name, None)
    for option, values in (("reader", reader), ("question", question)):
        if values and len(values) > 1:
            raise InvalidInputError.too_many(
                f"--{option}: found {len(values)}, and a folder takes one; give it once, or a run"
            )
    with LiveProgress() as progress:
        found = api.read_images(
            folder, reader=(reader or ["reference"])[0], question=(question or ["gender"])[0], out=out,
            same_pictures=same_pictures, **options, progress=progress,
        )  # fmt: skip
    if found.opened is None:
        print_readings(found)
    else:
        print_open_answers(
            f"{found.question.text} {found.card.name} read {len(found.table):,} pictures.", found.opened
        )  # fmt: skip
    write_table(found.table, table)
    print_json("tables", of="read", tables=_found_tables(found))


def _show_answers(folder: str, answers: Mapping[str, pd.DataFrame], table: Path | None) -> None:
    """Print what readers answered about a run, closed questions and open ones, and write all of it."""
    import pandas as pd

    from clinometer.cli.console import print_summary

    run = api.open_run(folder)
    for name, readings in answers.items():
        questions = run.readers.questions(name)
        is_open = readings["question"].isin([each for each, spec in questions.items() if spec.kind == "open"])
        for question, rows in readings[~is_open].groupby("question", sort=False):
            answered = rows["answer"].fillna("no answer").value_counts()
            counted = ", ".join(f"{answer} {count:,}" for answer, count in answered.items())
            Console().print(plain_text(f"{name}, {question}: {counted}"))
        for question in dict.fromkeys(readings["question"][is_open]):
            distribution = api.open_answers(folder, reader=name, question=question)
            print_open_answers(f"{name}, {question}: {questions[question].text}", distribution)
    if run.is_scored:
        print_summary(run)
    of_all = pd.concat([readings.assign(reader=name) for name, readings in answers.items()])
    groups = of_all.fillna({"answer": ""}).groupby(["reader", "question", "answer"], sort=False)
    print_json(run, answers=groups.size().rename("pictures").reset_index().to_dict("records"))
    write_table(of_all, table)


@with_options(
    api.write_questions,
    also={
        "price": Option("Price of the proposals for one concept.", kind=float),
        "base_url": READER_OPTIONS["base_url"],
        "concurrency": READER_OPTIONS["concurrency"],
    },
)
def questions(suite: str, *, out: Path = Path("questions.yaml"), concepts: str = "", **options: Any) -> None:
    """Let a language model propose questions about a suite's pictures.

    Writes a file for you to edit. Sends no pictures.
    """
    names = [name.strip() for name in concepts.split(",") if name.strip()]
    written = api.write_questions(suite, out=out, concepts=names, **options)
    counts = [(spec, len(written.proposed_for[spec.name])) for spec in written.questions]
    rows = [(spec.name, spec.kind, spec.text, f"{n:,} concepts" if n > 1 else "1 concept") for spec, n in counts]
    console = Console()
    console.print(text_table("", ("question", "kind", "text", "proposed for"), rows))
    for where, reason in written.unread.items():
        console.print(plain_text(f"Not taken, {where}: {reason}"))
    console.print(plain_text(f"Written to {out}. Read and edit it, then give clinometer read --question {out}#NAME."))
    untaken = [f"not taken, {where}: {reason}" for where, reason in written.unread.items()]
    print_json("files", of="questions", place=str(out), files=[str(out)], remarks=untaken)


MOST_COLUMNS: Final = 6
"""Answers that have a column of their own in a terminal; the table that is written has all."""


def _found_tables(found: FolderReadings) -> dict[str, Any]:
    """Gather what was read of a folder as tables: the pictures, and the shares of the groups with their bounds."""
    tables: dict[str, Any] = {"pictures": found.table.drop(columns="sha256", errors="ignore")}
    if found.opened is not None:
        distribution, names = found.opened.found, ("value", "low", "high", "q", "n", "reason")
        tables["concepts"] = [
            {"concept": concept} | {name: getattr(each, name) for name in names}
            for concept, each in zip(distribution.concepts, distribution.each, strict=True)
        ]
        return tables
    matrix, quoted = found.confusion, found.quoted
    recalls = {"recall": "recall", "recall_low": "low", "recall_high": "high"}
    shares = {name: name.removeprefix("share_") for name in ("share", "share_low", "share_high", "bound_low",
                                                             "bound_high")}  # fmt: skip
    carried = {"transport": "", "labels_needed": None, "reason": ""} if quoted is None else {
        "transport": quoted.transport.answer, "labels_needed": quoted.labels_needed, "reason": quoted.reason,
    }  # fmt: skip
    tables["groups"] = [
        {"group": group, "read_as": found.answers[k]}
        | {f"read_{'share' if name == 'value' else name}": each for name, each in vars(found.read[k]).items()}
        | {name: None if matrix is None else getattr(matrix, own)[k] for name, own in recalls.items()}
        | {name: getattr(quoted, own)[k] if quoted and quoted.by else None for name, own in shares.items()}
        | carried
        for k, group in enumerate(found.question.groups)
    ]
    return tables


def print_open_answers(title: str, answers: Any) -> None:
    """Print the free answers by concept, how much they depend on the concept, and counterfactuals."""
    from clinometer.report.wording import bare_probability

    found, console = answers.found, Console()
    console.print(plain_text(title))
    shown = found.answers[:MOST_COLUMNS]
    columns = {answer: list(map(str, found.counts[:, k])) for k, answer in enumerate(shown)}
    if len(found.answers) > len(shown):
        columns[f"{len(found.answers) - len(shown)} more"] = list(map(str, found.counts[:, len(shown) :].sum(axis=1)))
    columns["no answer"] = list(map(str, answers.unread))
    columns["dependence, nats"] = [_dependence(each) for each in found.each]
    columns["q"] = ["–" if each.reason else bare_probability(each.q) for each in found.each]
    console.print(_table("Answers by concept", found.concepts, columns, of="concept"))
    overall = found.overall
    lines = [
        f"No number: {overall.reason}." if overall.reason
        else f"All concepts: {_dependence(overall)} nats, p = {bare_probability(overall.p)}, over {overall.n:,} "
        f"pictures; {overall.null:.2f} if answers did not depend on the concept.",
        f"Put together: {answers.clustered_by}.",
    ]  # fmt: skip
    lines += [
        f"{initial} against {other}: concept association {each.value:.2f} [{each.low:.2f}, {each.high:.2f}], "
        f"q = {bare_probability(each.q)}, {each.null:.2f} if the counterfactual changed nothing."
        if not each.reason else f"{initial} against {other}: no concept association, {each.reason}."
        for (initial, other), each in answers.associations.items()
    ]  # fmt: skip
    console.print_lines(lines)


def _dependence(each: Any) -> str:
    return "–" if each.reason else f"{each.value:.2f} [{each.low:.2f}, {each.high:.2f}]"


def print_readings(found: FolderReadings) -> None:
    """Print how the known groups are read, and the shares of the others."""
    from clinometer.readings.scores import unread_in_words
    from clinometer.report.wording import percent

    groups, matrix, quoted, unknown = found.question.groups, found.confusion, found.quoted, int(found.answers.sum())
    console = Console()
    console.print(plain_text(f"{found.question.text} {found.card.name} read {len(found.table):,} pictures."))
    if matrix is not None:
        columns = {f"read as {group}": list(map(str, matrix.counts[:, k])) for k, group in enumerate(groups)}
        columns["as none of them"] = list(map(str, matrix.counts[:, -1]))
        columns["read right"] = _with_interval(matrix.recall, matrix.low, matrix.high)
        console.print(_table(f"{int(matrix.counts.sum()):,} pictures whose group is given", groups, columns))
    if unknown:
        read, as_read = int(found.answers[:-1].sum()), found.read
        bounds = [(each.bound_low, each.bound_high) for each in as_read]
        columns = {"of the read": _with_interval(*zip(*((each.value, each.low, each.high) for each in as_read),
                                                      strict=True)) if read else ["–"] * len(groups)}  # fmt: skip
        if quoted is not None and quoted.by:
            heading = "by people and reader" if quoted.by == "rated" else "corrected"
            columns[heading] = _with_interval(quoted.share, quoted.low, quoted.high)
            bounds = list(zip(quoted.bound_low, quoted.bound_high, strict=True))
        if unknown > read and not (quoted is not None and quoted.by == "rated"):
            columns["with the unread"] = [f"[{percent(low)}, {percent(high)}]" for low, high in bounds]
        console.print(_table(f"The other {unknown:,}" if matrix else f"{unknown:,} pictures", groups, columns))
    lines = [_what_it_rests_on(found)]
    if unread := unread_in_words(found.table):
        lines.append(f"Without a group: {unread}.")
    if cannot := found.card.notes.get("cannot"):
        lines.append(f"Limits of this reader: {cannot}.")
    console.print_lines(filter(None, lines))


def _table(title: str, groups: Sequence[str], columns: Mapping[str, Sequence[str]], *, of: str = "group") -> Table:
    table = text_table(title, (of, *columns), zip(groups, *columns.values(), strict=True), left=(of,))
    table.title_justify = "left"
    return table


def _with_interval(values: Iterable[float], lows: Iterable[float], highs: Iterable[float]) -> list[str]:
    """Return percentages with their intervals: ``98 % [92 %, 100 %]``."""
    from clinometer.report.wording import percent

    return [f"{percent(value)} [{percent(low)}, {percent(high)}]"
            for value, low, high in zip(values, lows, highs, strict=True)]  # fmt: skip


def _what_it_rests_on(found: FolderReadings) -> str:
    """Return what the shares assume, or why they are not corrected."""
    if found.confusion is None:
        return (
            "Shares are as the reader answers, in brackets with their 95 % intervals. How often it errs is unknown: "
            "give --truth with the groups of some pictures to correct them."
        )
    quoted = found.quoted
    if quoted is None:
        return ""
    if quoted.by == "rated":
        return "Shares of all pictures, by the given groups of some and the reader's answers to all; brackets: 95 %."
    if not quoted.by:
        return (
            f"No corrected share: {quoted.reason}. The share of the read is as the reader answers, and may be far off. "
            f"Label {quoted.labels_needed:,.0f} of these pictures, drawn at random, and give them as --truth with "
            "--same-pictures."
        )
    doubt = {
        "like": "known and asked pictures are alike to the reader",
        "cannot tell": f"whether they do, nobody can tell: {quoted.transport.reason}",
    }[quoted.transport.answer]
    return f"Corrected shares are of the pictures read, if the reader's errors carry over ({doubt}); brackets: 95 %."


@with_options(api.classify_images)
def classify(images: list[str], labels: list[str], *, out: TableOption = None, **options: Any) -> None:
    """Classify images with a diffusion model.

    An image gets the label under which the model denoises it best.
    """
    from clinometer.cli.console import LiveProgress

    check_place(out)
    with LiveProgress() as progress:
        names = [label.strip() for line in labels for label in line.split(",") if label.strip()]
        choices = api.classify_images(images, names, **options, progress=progress)
    print_choices(choices)
    write_table(choices, out)
    print_json("tables", of="classify", tables={"choices": choices})


@with_options(api.association_test)
def association_test(*, out: TableOption = None, **options: Any) -> None:
    """Run association tests: WEAT, SEAT and iEAT.

    On words, pictures or vectors of your own. Draws nothing.
    """
    check_place(out)
    table = api.association_test(**options)
    print_tests(table)
    write_table(table, out)
    print_json("tables", of="test", tables={"association tests": table})


WIDE: Final = 120
"""Columns of a terminal from which names stand side by side; below, under each other: no number is cut."""
NAMES: Final = ("test", "X, Y", "A, B", "n")


def print_tests(table: pd.DataFrame) -> None:
    """Print a line a test, then what was left out and what the columns mean."""
    from clinometer.report import wording

    console = Console()
    first = table.iloc[0]
    wide = console.width >= WIDE
    printed = Table(title=plain_text(f"Association tests on {first.encoder}"), show_lines=not wide)
    for name in NAMES if wide else ("\n".join(NAMES),):
        printed.add_column(name, overflow="fold")
    for name in ("statistic", "effect\nsize d", "95 %\ninterval", "p", "q"):
        printed.add_column(name, justify="right", no_wrap=True)
    for row in _rows(table):
        about = (row.test, f"{row.x}, {row.y}", f"{row.a}, {row.b}", f"{row.n_x}+{row.n_y}, {row.n_a}+{row.n_b}")
        cells = (
            *(about if wide else ("\n".join(about),)),
            wording.number(row.statistic, 4),
            wording.number(row.effect_size, 3),
            wording.interval(row.effect_size_low, row.effect_size_high) or wording.MISSING,
            *(f"{probability:.3g}" if isfinite(probability) else wording.MISSING for probability in (row.p, row.q)),
        )
        printed.add_row(*map(plain_text, cells))
    console.print(printed)
    for row in _rows(table):
        if row.reason:
            console.print(f"{plain_text(row.test)}: {plain_text(row.reason)}")
        elif row.missing:
            console.print(f"{plain_text(row.test)}: without {plain_text(row.missing)}")
    unfit = [row for row in _rows(table) if row.misfit]
    if unfit:
        count = "" if len(unfit) == len(table) else f" ({len(unfit)} of {len(table)} tests)"
        way_out = "name another, such as --encoder ViT-B-32/openai"
        console.print(
            f"[yellow]{plain_text(unfit[0].misfit)}{count}. No number of such a test is a finding; {way_out}[/]"
        )
    console.print(f"[dim]{plain_text(_conventions(table))}[/]")


def _rows(table: pd.DataFrame) -> Iterator[Any]:
    return iter(table.itertuples(index=False))


METHODS = {
    "exact": "every split counted",
    "certified": "bracketed with proof (p_low to p_high)",
    "sampled": "splits sampled",
}


def _conventions(table: pd.DataFrame) -> str:
    first = table.iloc[0]
    counts = table.p_method.value_counts()
    methods = ", ".join(f"{words} in {counts[how]} of {len(table)}" for how, words in METHODS.items() if how in counts)
    sides = ", ".join(sorted(set(table.alternative)))
    divisor = "the two sets' pooled" if first.spread == "pooled" else "the targets'"
    ddof = "" if first.spread == "pooled" else f" (ddof {first.ddof})"
    lacking = " What is — has its reason above." if (table.reason != "").any() else ""
    return (
        f"p: {sides}; {methods or 'none'}. q: Benjamini–Hochberg, {first.family}. "
        f"d divides by {divisor} standard deviation{ddof}; intervals, of d, resample the stimuli.{lacking}"
    )


def print_choices(choices: pd.DataFrame) -> None:
    """Print a row an image."""
    from clinometer.report import wording

    rows = []
    for row in choices.to_dict("records"):
        note = row["reason"] or ("tie" if row["tie"] else "")
        margin, low, high = (wording.signed_percent(row[name]) for name in ("margin", "low", "high"))
        ends = f"[{low}, {high}]" if wording.MISSING not in (low, high) else ""
        margin = margin if row["label"] else ""
        rows.append(
            (Path(row["file"]).name, row["label"], row["runner_up"], margin, ends, str(row["evaluations"]), note)
        )
    title = "margin to the runner-up relative to the error, 95 % over noise samples; rows: what the network was asked"
    columns = ("image", "label", "runner-up", "margin", "95 %", "rows", "")
    Console().print(text_table(title, columns, rows, left=("image", "label", "runner-up", "")))


def print_swatches(swatches: Iterable[Any]) -> None:
    """Print the ten Monk skin tones as the mask and the angle see them."""
    table = Table("tone", "colour", "counts as skin", "angle", "class", title="Monk Skin Tone Scale")
    seen = list(swatches)
    for swatch in seen:
        answer = "yes" if swatch.is_skin else "[bold]no[/]"
        table.add_row(str(swatch.number), f"[on {swatch.colour}]      [/] {swatch.colour}", answer,
                      f"{swatch.angle:.1f}°", swatch.tone)  # fmt: skip
    console = Console()
    console.print(table)
    console.print(
        "A tone that does not count as skin is reported as unknown, never as a class; a rate of unknowns that differs "
        "between groups is itself a finding."
    )
    rows = [{name: getattr(each, name) for name in ("number", "colour", "is_skin", "angle", "tone")} for each in seen]
    print_json("tables", of="models", tables={"Monk Skin Tone Scale": rows})
