"""A run in a notebook's cell: what it is, how far it is, and the concepts that lean most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from clinometer.report import wording
from clinometer.report.rows import Row, Scores

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites.schema import Suite

SHOWN = 4
"""Concepts shown at either end."""

_TEMPLATE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""
<div>
<p><strong>{{ model }}</strong> × {{ suite }}<br>{{ images }}
{%- if place %} · <code>{{ place }}</code>{% endif %}</p>
{% if rows %}
<p>{{ verdicts }}</p>
<table>
<thead><tr><th>concept</th><th>MCAS</th><th>95 %</th><th>verdict</th></tr></thead>
<tbody>
{% for row in rows %}
<tr><td>{{ row.name }}</td><td>{{ row.value }}</td><td>{{ row.interval }}</td><td>{{ row.verdict }}</td></tr>
{% endfor %}
</tbody>
</table>
{% else %}
<p>Not scored yet.</p>
{% endif %}
</div>
""")


def run_repr_html(
    *,
    suite: Suite,
    model_card: Mapping[str, Any],
    samples: pd.DataFrame,
    scores: pd.DataFrame | None = None,
    planned: int = 0,
    place: str = "",
) -> str:
    """Summarise a run, finished or not, as a small piece of HTML.

    Parameters
    ----------
    suite, model_card : what was asked of what.
    samples : a row an image, with its ``status``.
    scores : the score table, once there is one.
    planned : how many images the plan holds; 0 when it is not known.
    place : the run directory.
    """
    label_a, label_b = suite.label_of(suite.axis.a), suite.label_of(suite.axis.b)
    rows = [] if scores is None else Scores.from_frame(scores).select("mcas", "mcas")
    return _TEMPLATE.render(
        model=str(model_card.get("name", "unnamed model")),
        suite=suite.title,
        images=_images(samples, planned),
        place=place,
        verdicts=_verdicts(rows, label_a, label_b),
        rows=[_cells(row, label_a, label_b) for row in _ends(rows)],
    ).strip()


def _images(samples: pd.DataFrame, planned: int) -> str:
    statuses = Counter(samples["status"]) if "status" in samples else Counter()
    drawn = wording.count(statuses.pop("ok", 0), "image")
    of = f" of {planned:,}" if planned else ""
    return ", ".join([f"{drawn}{of}", *(f"{n:,} {status}" for status, n in sorted(statuses.items()))])


def _verdicts(rows: list[Row], label_a: str, label_b: str) -> str:
    counts: Counter[str] = Counter(wording.lean_of(row) for row in rows)
    words = {
        "a": f"to {label_a}", "b": f"to {label_b}", "balanced": "balanced", "undecided": "undecided",
        "unmeasured": "not measured",
    }  # fmt: skip
    return " · ".join(f"{counts[lean]} {said}" for lean, said in words.items() if counts[lean])


def _ends(rows: list[Row]) -> list[Row]:
    """Pick the rows that lean most to either side, from A to B."""
    ranked = sorted((row for row in rows if row.defined), key=lambda row: -row.value)
    return ranked if len(ranked) <= 2 * SHOWN else [*ranked[:SHOWN], *ranked[-SHOWN:]]


def _cells(row: Row, label_a: str, label_b: str) -> dict[str, str]:
    digits = wording.digits_for([row.value])
    return {
        "name": row.concept,
        "value": wording.signed(row.value, digits),
        "interval": wording.interval(row.low, row.high, digits),
        "verdict": wording.verdict_words(row, label_a=label_a, label_b=label_b),
    }
