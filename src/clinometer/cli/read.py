"""The command ``read``, and what it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clinometer.cli.options import BatchSizeOption, DeviceOption, EngineOption, WorkersOption, given_options
from clinometer.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from rich.table import Table

    from clinometer.pipeline.reading import FolderReadings


def read(
    folder: Annotated[str, typer.Argument(metavar="FOLDER|RUN", help="A folder of pictures, or a run directory.")],
    reader: Annotated[
        list[str] | None,
        typer.Option(
            "--reader",
            "-r",
            help="A directory or hub id of a classifier, VQA or vision-language model; openai:MODEL; or an encoder. Of "
            "a run repeatable. [default: reference]",
        ),
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option(
            "--question",
            "-q",
            help="gender, age, a YAML file with a question, or one of the suite's by its name. Of a run repeatable. "
            "[default: gender, of a run what its suite asks]",
        ),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="A CSV file with the columns file and group: what some pictures show.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where readings are kept. [default: readings/FOLDER]")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="Also write the table: .csv, .json, .parquet.")] = None,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = "auto",
    price: Annotated[float | None, typer.Option(help="What one answer costs, of a server.")] = None,
    budget: Annotated[float | None, typer.Option(help="What the missing answers may cost.")] = None,
    base_url: Annotated[str | None, typer.Option(help="The server. [default: OpenAI's, or OPENAI_BASE_URL]")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Requests at once. [default: 4]")] = None,
    requests_per_minute: Annotated[float | None, typer.Option(help="The pace. [default: the server's]")] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
) -> None:
    """Have a reader say what pictures show, and measure how often it errs. Draws nothing."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary
    from clinometer.cli.tables import check_place, write_table
    from clinometer.runs import Directory
    from clinometer.runs.ledger import RECORD

    check_place(table)
    if Directory(folder).exists(RECORD):
        if out is not None:
            raise InvalidInputError("--out: the answers of a run are kept in it; leave --out out")
        server = given_options(price=price, base_url=base_url, batch_size=batch_size, concurrency=concurrency,
                               requests_per_minute=requests_per_minute)  # fmt: skip
        with LiveProgress() as progress:
            answers = api.read_run(
                folder, reader=reader or "reference", question=question or (), budget=budget, device=device,
                engine=engine, workers=workers, progress=progress, **server,
            )  # fmt: skip
        for name, said in answers.items():
            print_answers(name, said)
        run = api.open_run(folder)
        if run.is_scored:
            print_summary(run)
        if table is not None:
            import pandas as pd

            write_table(pd.concat([said.assign(reader=name) for name, said in answers.items()]), table)
        return
    for option, values in (("reader", reader), ("question", question)):
        if values and len(values) > 1:
            raise InvalidInputError(f"--{option}: found {len(values)}, and a folder takes one; give it once, or a run")
    options = given_options(
        batch_size=batch_size, price=price, base_url=base_url, concurrency=concurrency,
        requests_per_minute=requests_per_minute,
    )  # fmt: skip
    with LiveProgress() as progress:
        found = api.read_images(
            folder, reader=(reader or ["reference"])[0], question=(question or ["gender"])[0], truth=truth, out=out,
            budget=budget, progress=progress, device=device, **options,
        )  # fmt: skip
    print_readings(found)
    write_table(found.table, table)


def print_answers(name: str, answers: pd.DataFrame) -> None:
    """What a reader said of a run's images, a question a table."""
    from rich.console import Console

    from clinometer.cli.tables import plain_text

    for question, rows in answers.groupby("question", sort=False):
        said = rows["answer"].fillna("no answer").value_counts()
        counted = ", ".join(f"{answer} {count:,}" for answer, count in said.items())
        Console().print(plain_text(f"{name}, {question}: {counted}"))


def print_readings(found: FolderReadings) -> None:
    """How the groups are read where they are known, and their shares where they are not."""
    from rich.console import Console

    from clinometer.cli.tables import plain_text
    from clinometer.report.wording import percent
    from clinometer.studies.reading import unread_in_words

    groups, matrix, shares, unknown = found.question.groups, found.confusion, found.shares, int(found.answers.sum())
    console = Console()
    console.print(plain_text(f"{found.question.text} {found.card.name} read {len(found.table):,} pictures."))
    if matrix is not None:
        columns = {f"read as {group}": list(map(str, matrix.counts[:, k])) for k, group in enumerate(groups)}
        columns["as none of them"] = list(map(str, matrix.counts[:, -1]))
        columns["read right"] = _with_interval(matrix.recall, matrix.low, matrix.high)
        console.print(_table(f"{int(matrix.counts.sum()):,} pictures whose group is given", groups, columns))
    if unknown:
        columns = {"share read": [percent(count / unknown) for count in found.answers[:-1]]}
        if shares is not None and not shares.reason:
            columns["corrected"] = _with_interval(shares.share, shares.low, shares.high)
        console.print(_table(f"The other {unknown:,}" if matrix else f"{unknown:,} pictures", groups, columns))
    lines = [_what_it_rests_on(found)]
    if unread := unread_in_words(found.table):
        lines.append(f"Of no group: {unread}.")
    if cannot := found.card.notes.get("cannot"):
        lines.append(f"What this reader cannot do: {cannot}.")
    for line in filter(None, lines):
        console.print(plain_text(line))


def _table(title: str, groups: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Table:
    from rich.table import Table

    from clinometer.cli.tables import plain_text

    table = Table("group", title=title, title_justify="left")
    for heading in columns:
        table.add_column(plain_text(heading), justify="right")
    for cells in zip(groups, *columns.values(), strict=True):
        table.add_row(*map(plain_text, cells))
    return table


def _with_interval(values: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> list[str]:
    """Percentages with their intervals: ``98 % [92 %, 100 %]``."""
    from clinometer.report.wording import percent

    return [f"{percent(value)} [{percent(low)}, {percent(high)}]"
            for value, low, high in zip(values, lows, highs, strict=True)]  # fmt: skip


def _what_it_rests_on(found: FolderReadings) -> str:
    """Say what the shares suppose, or why they are not corrected."""
    if found.confusion is None:
        return "How often it errs is unknown: give --truth with the groups of some pictures, and shares are corrected."
    if found.shares is None:
        return ""
    if found.shares.reason:
        return f"No corrected share: {found.shares.reason}."
    return "The corrected shares suppose that these are misread as those whose group is given; brackets: 95 %."
