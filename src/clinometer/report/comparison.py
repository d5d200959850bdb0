"""The page of a comparison: what each further run does otherwise than the first, concept by concept."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from clinometer.report import wording
from clinometer.report.html import asset, environment, policy
from clinometer.report.rows import Row, Scores
from clinometer.runs.comparison import Comparison
from clinometer.runs.storage import Directory


def comparison_html(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons with one first run as one self-contained HTML page."""
    style = asset("style.css")
    return (
        environment()
        .get_template("comparison.html")
        .render(
            title=f"{names(comparisons[0])[0]} beside {', '.join(names(each)[1] for each in comparisons)}",
            comparisons=[_shown(each) for each in comparisons],
            style=Markup(style),
            policy=policy(style, ""),
        )
    )


def write_comparison(comparisons: Sequence[Comparison], folder: str | os.PathLike[str]) -> str:
    """Write ``comparison.html`` and ``comparison.csv``, its rows led by the runs' names; return the page's place."""
    directory = Directory(folder)
    tables = []
    for each in comparisons:
        first, second = names(each)
        tables.append(each.scores.assign(first=first, second=second))
    table = pd.concat(tables)
    table = table[["first", "second", *table.columns.drop(["first", "second"])]]
    directory.write_bytes("comparison.csv", table.to_csv(index=False).encode())
    directory.write_bytes("comparison.html", comparison_html(comparisons).encode("utf-8", errors="replace"))
    return directory.path("comparison.html")


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """MCAS of every concept: name, difference, interval, q, verdict."""
    rows = Scores.from_frame(comparison.scores).select("comparison", "mcas")
    digits = wording.digits_for([row.value for row in rows])
    return [_cells(row, comparison, digits) for row in rows]


def comparison_verdict(comparison: Comparison) -> str:
    """One sentence: which leans more, or that it is undecided, and over what."""
    (row,) = Scores.from_frame(comparison.scores).select("comparison", "magnitude")
    first, second = names(comparison)
    if not row.defined:
        return f"{second} beside {first}: {row.reason}"
    digits = wording.digits_for([row.value])
    said = _worded(row.verdict, comparison)
    if not said.endswith("leans more"):
        said = "undecided which leans more: the images do not tell the two apart"
    return (
        f"{second} beside {first}: {said}. Mean |MCAS| differs by {wording.signed(row.value, digits)} "
        f"{wording.interval(row.low, row.high, digits)}, {wording.probability(row.p, 'p')}"
    )


def _shown(comparison: Comparison) -> dict[str, Any]:
    rows = Scores.from_frame(comparison.scores).select("comparison", "mcas")
    counts = Counter(_worded(row.verdict, comparison) for row in rows)
    first, second = names(comparison)
    return {
        "first": first,
        "second": second,
        "verdict": comparison_verdict(comparison),
        "counts": [f"{n} {said}" for said, n in counts.most_common()],
        "paired": comparison.paired,
        "pairs": comparison.pairs,
        "dropped": comparison.dropped,
        "test": next((row.test for row in rows if row.test), ""),
        "rows": comparison_rows(comparison),
    }


def _cells(row: Row, comparison: Comparison, digits: int) -> tuple[str, ...]:
    return (
        row.concept,
        wording.signed(row.value, digits),
        wording.interval(row.low, row.high, digits),
        wording.probability(row.q, "q"),
        _judgement(row, comparison) if row.defined else row.reason,
    )


def _judgement(row: Row, comparison: Comparison) -> str:
    """The verdict, and what would decide where it is undecided."""
    needed = wording.needed(row)
    return _worded(row.verdict, comparison) + (f" ({needed})" if needed else "")


def _worded(verdict: str, comparison: Comparison) -> str:
    """The runs' names in place of their numbers, the groups' labels in place of their names."""
    for side, name in zip(("the first", "the second"), names(comparison), strict=True):
        if verdict.startswith(side):
            said = verdict.removeprefix(side)
            head, found, group = said.partition(" to ")
            label = comparison.first.suite.label_of(group) if found else ""
            return f"{name}{head}{found}{label}"
    return verdict


def names(comparison: Comparison) -> tuple[str, str]:
    """What the two are called: their models; one model at two settings, by the runs' directories."""
    runs = comparison.first, comparison.second
    first, second = (str(run.model_card["name"]) for run in runs)
    if first != second:
        return first, second
    first, second = (run.url.rstrip("/").rsplit("/", 1)[-1] for run in runs)
    return first, second
