"""A run in a notebook's cell: what it is, how far it is, and its numbers in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from clinometer.report import wording
from clinometer.studies import study_of

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite

_TEMPLATE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""
<div>
<p><strong>{{ model }}</strong> × {{ suite }}<br>{{ images }}
{%- if place %} · <code>{{ place }}</code>{% endif %}</p>
{% if summary %}
<p>{{ summary.verdicts }}</p>
{% if summary.unmeasured %}
<p>Not measured: {{ summary.unmeasured }}.</p>
{% endif %}
{% if summary.rows %}
<table>
<caption>{{ summary.title }}</caption>
<thead><tr>{% for name in summary.columns %}<th>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in summary.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% endif %}
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
    return _TEMPLATE.render(
        model=str(model_card.get("name", "unnamed model")),
        suite=suite.title,
        images=_images(samples, planned),
        place=place,
        summary=None if scores is None else study_of(suite).page(suite).summary(suite, scores),
    ).strip()


def _images(samples: pd.DataFrame, planned: int) -> str:
    statuses = Counter(samples["status"]) if "status" in samples else Counter()
    drawn = wording.count(statuses.pop("ok", 0), "image")
    of = f" of {planned:,}" if planned else ""
    return ", ".join([f"{drawn}{of}", *(f"{n:,} {status}" for status, n in sorted(statuses.items()))])
