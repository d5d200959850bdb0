"""Diffusion bias and bias amplification: what happens inside the model."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.studies.leaning.figures import internal_bias_figure
from clinometer.studies.leaning.view import LeaningView

_STATISTICS = ("min", "max", "mean", "standard_error")


def internal_bias(view: LeaningView) -> dict[str, Any] | None:
    """Gather the figure, the summary by stereotype group and every concept's numbers."""
    concepts = _concepts(view)
    if not concepts:
        return None
    curve = view.report.curve
    return {
        "figure": internal_bias_figure(view),
        "summary": summary(view),
        "concepts": concepts,
        "unstable": sum(bool(entry["unstable"]) for entry in concepts),
        "curve_reason": curve.reason or ("" if len(curve.x) else "No curve was fitted."),
        "curve_method": curve.method,
        "left_out": len(curve.left_out),
        "stereotypes": _stereotypes(view),
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _stereotypes(view: LeaningView) -> list[tuple[str, str, str]]:
    groups = dict.fromkeys(c.stereotype for c in view.concepts.values())
    shapes = {view.group_a: ("a", "▶"), view.group_b: ("b", "◀"), view.third: ("third", "◆")}
    return [
        (
            *shapes.get(group, ("balanced", "■")),
            f"tied to {view.label(group)}" if group else "tied to no group",
        )
        for group in groups
    ]


def summary(view: LeaningView) -> list[dict[str, Any]]:
    """Least, greatest, mean and standard error of δ and α by stereotype group: the paper's table 4."""
    rows = view.scores.select("internal_bias_summary")
    by_component = {(row.group, row.component): row for row in rows}
    groups = list(dict.fromkeys(row.group for row in rows))
    return [
        {
            "label": "All concepts" if group in ("", "all") else f"Tied to {view.label(group)}",
            "delta": _in_words(by_component, group, "diffusion_bias", 3),
            "alpha": _in_words(by_component, group, "bias_amplification", 2),
        }
        for group in groups
    ]


def _in_words(by_component: dict[tuple[str, str], Row], group: str, score: str, digits: int) -> dict[str, str]:
    """Least and greatest, and the mean with its standard error; a target whose TT may be 0 makes all of them so."""
    rows = {statistic: by_component.get((group, f"{score}_{statistic}"), Row()) for statistic in _STATISTICS}
    least, greatest, mean, error = (wording.number(rows[statistic].value, digits) for statistic in _STATISTICS)
    return {
        "ends": wording.flagged(
            f"{least},\N{NO-BREAK SPACE}{greatest}", unstable=rows["min"].unstable or rows["max"].unstable
        ),
        "mean": wording.flagged(
            f"{mean}\N{NO-BREAK SPACE}\N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}{error}", unstable=rows["mean"].unstable
        ),
    }


def _concepts(view: LeaningView) -> list[dict[str, Any]]:
    names = ("diffusion_bias", "signed_diffusion_bias", "bias_amplification")
    delta, signed, alpha = (view.scores.by_concept("internal_bias", name) for name in names)
    return [
        {
            "name": name,
            "delta": _value(delta.get(name), 3),
            "null": wording.number(delta[name].null, 3) if name in delta else wording.MISSING,
            "signed": _with_interval(signed.get(name), 3),
            "alpha": _value(alpha.get(name), 2),
            "alpha_null": wording.number(alpha[name].null) if name in alpha else wording.MISSING,
            "alpha_interval": _interval(alpha.get(name)),
            "unstable": name in alpha and alpha[name].unstable,
            "reason": alpha[name].reason if name in alpha and not alpha[name].defined else "",
        }
        for name in view.concepts
        if name in delta or name in alpha
    ]


def _value(row: Row | None, digits: int) -> str:
    return wording.number(row.value, digits) if row is not None else wording.MISSING


def _interval(row: Row | None) -> str:
    return wording.interval(row.low, row.high) if row is not None else ""


def _with_interval(row: Row | None, digits: int) -> str:
    if row is None:
        return wording.MISSING
    return wording.with_interval(row.value, row.low, row.high, digits)
