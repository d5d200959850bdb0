"""The tables of docs/simulations.md."""

from __future__ import annotations

from math import nan

from tests.docs.pages import page, table_rows


def told(kind: str) -> list[tuple[str, str, float, float, float]]:
    """Rows of a table of the page: what, data, nominal, measured, error."""
    between = page("docs/simulations.md").partition(f"<!-- {kind} -->")[2].partition(f"<!-- end of {kind} -->")[0]
    heading = between.strip().split("|")[1].strip()
    return [
        (what, data, percent(nominal), percent(rate), 0.0 if error == "exact" else percent(error))
        for what, data, nominal, rate, error, _ in table_rows(between, heading)
    ]


def percent(cell: str) -> float:
    """``5%`` as 0.05, and ``–`` as NaN."""
    return nan if cell == "–" else float(cell.rstrip("%")) / 100
