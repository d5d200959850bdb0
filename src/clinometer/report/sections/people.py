"""People and the machine: what people saw, the shares corrected by them, and how far both agree."""

from __future__ import annotations

from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import MEAN, Row
from clinometer.report.view import View

HUMAN: Final = "human"
SIMULATED: Final = "simulated"
RATES: Final = (
    ("alpha", "Krippendorff\N{RIGHT SINGLE QUOTATION MARK}s α (1 full agreement, 0 as by chance)", "item"),
    ("self_consistency", "The same answer when asked again", "repeated item"),
    ("attention", "Right where the answer was known", "item"),
)


def people(view: View) -> dict[str, Any] | None:
    """Tables of agreement, of encoders and of concepts, by people and apart from them by simulated raters.

    None where neither rated.
    """
    parts = [part for metric in (HUMAN, SIMULATED) if (part := _part(view, metric)) is not None]
    return {"parts": parts} if parts else None


def _part(view: View, metric: str) -> dict[str, Any] | None:
    alpha = view.scores.first(metric, "alpha", encoder="")
    if alpha is None:
        return None
    encoders = _encoders(view, metric)
    shares = view.scores.select(metric, "share", encoder="")
    concepts = [_concept(view, row, encoders[0] if encoders else "") for row in shares]
    return {
        "simulated": metric == SIMULATED,
        "raters": wording.count(alpha.n_a, "simulated rater" if metric == SIMULATED else "rater"),
        "rated_items": wording.count(alpha.n_b, "item"),
        "label_a": view.label(shares[0].group) if shares else "",
        "agreement": [_rate(view, metric, *rate) for rate in RATES],
        "encoders": [_encoder(view, metric, name) for name in encoders],
        "lead": encoders[0] if encoders else "",
        "concepts": concepts,
        "has_read": any(row["raw"] != wording.MISSING for row in concepts),
        "correlations": _correlations(view, metric),
        "missing": wording.reasons(_missing_reasons(view, metric)),
        "one": any("one rater" in row.reason for row in shares),
    }


def _encoders(view: View, metric: str) -> list[str]:
    """Encoders whose readings were held against people's; the average where there are several."""
    rows = view.scores.select(metric, "corrected_share", encoder="*")
    names = list(dict.fromkeys(row.encoder for row in rows))
    return names[1:] if len(names) == 2 and names[0] == MEAN else names


def _rate(view: View, metric: str, component: str, label: str, unit: str) -> dict[str, str]:
    row = view.scores.first(metric, component, encoder="")
    is_known = row is not None and row.defined
    return {
        "label": label,
        "value": _value(row),
        "of": wording.count(row.n_target, unit) if row is not None and is_known else "",
    }


def _encoder(view: View, metric: str, name: str) -> dict[str, Any]:
    rows = [view.scores.first(metric, rate, encoder=name) for rate in ("sensitivity", "specificity")]
    return {
        "name": "average over encoders" if name == MEAN else name,
        "rates": [
            {
                "value": _value(row),
                "of": f"{wording.count(row.n_target, 'image')} of {view.label(row.group)}" if row is not None else "",
            }
            for row in rows
        ],
    }


def _concept(view: View, row: Row, encoder: str) -> dict[str, str]:
    raw = view.scores.by_concept("share", "share", encoder=encoder or MEAN).get(row.concept)
    corrected = view.scores.by_concept(row.metric, "corrected_share", encoder=encoder).get(row.concept)
    more = view.scores.by_concept(row.metric, "more_ratings", encoder=encoder).get(row.concept)
    return {
        "name": row.concept,
        "raw": _value(raw),
        "people": _value(row),
        "rated": str(row.n_target),
        "corrected": _value(corrected),
        "more": f"{more.value:,.0f}" if more is not None and more.defined else wording.MISSING,
    }


def _correlations(view: View, metric: str) -> list[dict[str, str]]:
    rows = view.scores.select(metric, "tau", encoder="*")
    several = len({row.encoder for row in rows}) > 2
    return [
        {
            "score": row.setting,
            "encoder": "average" if row.encoder == MEAN else row.encoder,
            "tau": _value(row),
            "n": str(row.n_target),
        }
        for row in rows
        if row.n_target and (several or row.encoder == MEAN)
    ]


def _value(row: Row | None) -> str:
    if row is None or not row.defined:
        return wording.MISSING
    interval = f" {wording.interval(row.low, row.high)}" if row.has_interval else ""
    return f"{wording.number(row.value)}{interval}"


def _missing_reasons(view: View, metric: str) -> list[tuple[str, str]]:
    rows = [row for row in view.scores if row.metric == metric and row.component in ("share", "alpha", "tau")]
    return [(row.concept or row.setting or "agreement", row.reason) for row in rows if not row.defined and row.reason]
