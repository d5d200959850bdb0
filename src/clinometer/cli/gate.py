"""A gate's outcome in a terminal."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from clinometer.cli.tables import plain_text
from clinometer.gates.gate import limits_in_words
from clinometer.gates.policy import SELECTORS
from clinometer.report import wording

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.gates import Gate, RuleOutcome

STATUS: Final = {"holds": 0, "broken": 1, "undecided": 3}
"""Exit status by outcome; 2 is a user's mistake."""

MOST_ROWS: Final = 40
"""Numbers that a terminal shows; all are in the file."""


def print_gate(judged: Gate) -> None:
    """A line a rule, the numbers of those that do not hold, and what follows."""
    console = Console()
    if judged.unchecked:
        console.print(f"{plain_text(judged.unchecked)}.", soft_wrap=True)
    if judged.policy.title:
        console.print(f"[bold]{plain_text(judged.policy.title)}[/]")
    for rule in judged.rules:
        console.print(plain_text(_counted(rule)))
        open_rows = rule.rows[rule.rows.outcome != "holds"]
        if len(open_rows):
            console.print(_numbers(open_rows))
    console.print(f"[bold]{_sentence(judged)}[/]")


def _counted(rule: RuleOutcome) -> str:
    """``mcas within ±0.25: broken; 2 broken and 20 undecided of 30 numbers.``"""
    counts = rule.rows.outcome.value_counts()
    limits = limits_in_words(*rule.rule.limits)
    named = rule.name if rule.name.endswith(limits) else f"{rule.name} ({limits})"
    why = _shared_reason(rule.rows[rule.rows.outcome != "holds"])
    carried = _carried(rule.rows)
    if len(rule.rows) == 1:
        return f"{named}: {rule.outcome}{why}{carried}."
    if rule.outcome == "holds":
        return f"{named}: holds for all {len(rule.rows)} numbers{carried}."
    phrases = [f"{counts[outcome]} {outcome}" for outcome in ("broken", "undecided") if outcome in counts]
    return f"{named}: {rule.outcome}; {' and '.join(phrases)} of {len(rule.rows)} numbers{why}{carried}."


def _shared_reason(rows: pd.DataFrame) -> str:
    """The reason after a colon, where all numbers that do not hold have the same."""
    reasons = rows.reason.unique()
    return f": {reasons[0]}" if len(reasons) == 1 and reasons[0] else ""


def _carried(rows: pd.DataFrame) -> str:
    """Which part carries what became of MCAS: ``; broken by its text``; of several numbers, how many by which."""
    kinds = [f"{outcome} {part}" for outcome, part in zip(rows.outcome, rows.carried_by, strict=True) if part]
    counted = [f"{n} {kind}" if len(rows) > 1 else kind for kind, n in Counter(kinds).items()]
    return f"; {', '.join(counted)}" if counted else ""


def _are(n: int) -> str:
    return f"{n} is" if n == 1 else f"{n} are"


def _numbers(rows: pd.DataFrame) -> Table:
    """The numbers that are broken, the farthest first, then those that are undecided."""
    rows = rows.sort_values(["outcome", "p"], kind="stable")
    caption = f"{MOST_ROWS} of {len(rows)} are shown; --out FILE has all" if len(rows) > MOST_ROWS else None
    table = Table(caption=caption)
    columns = _columns(rows)
    for heading in columns:
        table.add_column(heading, justify="right" if heading in ("value", "95 %") else "left", overflow="fold")
    for cells in zip(*(column[:MOST_ROWS] for column in columns.values()), strict=True):
        table.add_row(*map(plain_text, cells))
    return table


def _columns(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Cells by the heading of their column; what would say the same in every row, or nothing, has none."""
    numbers = [number for name in ("value", "low", "high") for number in rows[name]]
    digits = wording.digits_for(numbers)
    has_sign = any(number < 0 for number in numbers) or ((rows.at_least < 0) & (rows.at_least > -inf)).any()
    written = wording.signed if has_sign else wording.number
    named = [name for name in SELECTORS if rows[name].nunique() > 1]
    if "concept" in named and "category" in named:
        named.remove("category")
    records = rows.to_dict("records")
    columns = {
        "number": [", ".join(row[name] for name in named if row[name]) or str(row["component"]) for row in records],
        "value": [written(row["value"], digits) for row in records],
        "95 %": [wording.interval(row["low"], row["high"], digits) for row in records],
    }
    if not _shared_reason(rows):
        columns["outcome"] = [": ".join(filter(None, (row["outcome"], row["reason"]))) for row in records]
    if (rows.carried_by != "").any():
        columns["carried"] = list(rows.carried_by)
    if (rows.n_decide > 0).any():
        columns["decided by about"] = [
            f"{n_decide:,} for {n_target:,}" if n_decide else ""
            for n_decide, n_target in zip(rows.n_decide.fillna(0), rows.n_target, strict=True)
        ]
    return columns


def _sentence(judged: Gate) -> str:
    if judged.outcome == "holds":
        return "The gate holds: every number is shown to keep its limits."
    if judged.outcome == "broken":
        broken = int((judged.table.outcome == "broken").sum())
        return f"The gate is broken: of {len(judged.table)} numbers {_are(broken)} shown to be beyond the limit."
    return "The gate is undecided: no number is shown to be beyond its limit, but not all are shown to keep theirs."
