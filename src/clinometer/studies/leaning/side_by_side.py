"""Leaning runs beside each other, as the papers show two models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import degrees
from typing import Any

from clinometer.report import wording
from clinometer.report.comparison import by_label
from clinometer.report.rows import Row, Scores
from clinometer.runs.together import Comparison
from clinometer.studies.leaning.figures.models import (
    category_models_figure,
    internal_models_figure,
    plane_models_figure,
)
from clinometer.studies.leaning.scores.shares import FIDELITY, OWN_FIDELITY, OWN_UNSHOWN, RUNS
from clinometer.studies.leaning.sections.categories import category_statistics
from clinometer.studies.leaning.sections.internal import summary
from clinometer.studies.leaning.view import LeaningView


def side_by_side(views: Mapping[str, LeaningView], encoder: str) -> dict[str, Any]:
    """Figures and tables of several leaning runs; all of them are of the encoder that the views hold."""
    first = next(iter(views.values()))
    summaries = by_label([{"model": model, **row} for model, view in views.items() for row in summary(view)])
    planes = _planes(views)
    figures = [(first.category_label(name), category_models_figure(views, name)) for name in first.suite.categories]
    return {
        "label_a": first.label_a,
        "label_b": first.label_b,
        "label_third": first.label_third,
        "margin": first.suite.margin,
        "figures": [{"heading": heading, "figure": figure} for heading, figure in figures if figure is not None],
        "statistics": by_label([row for model, view in views.items() for row in _statistics(model, view)]),
        "summary": summaries,
        "internal": internal_models_figure(views),
        "concepts": _concepts(views),
        "plane": plane_models_figure(views),
        "planes": planes,
        "contents": [
            *([("internal", "Inside the models")] if summaries else []),
            *([("plane", "A third group")] if planes else []),
        ],
    }


def _statistics(model: str, view: LeaningView) -> list[dict[str, Any]]:
    """The model's rows of the MCAS paper's table 5, and the concept that leans most in each category."""
    by_label = {view.category_label(name): name for name in (*view.suite.categories, "all")}
    return [
        {"model": model, **row, "strongest": _strongest(view, by_label[row["label"]])}
        for row in category_statistics(view)
    ]


def _strongest(view: LeaningView, category: str) -> str:
    concepts = view.ranked(None if category == "all" else category)
    if not concepts:
        return ""
    name = max((concept.name for concept in concepts), key=lambda name: abs(view.mcas[name].value))
    return f"{name} {wording.signed(view.mcas[name].value, view.digits)}"


def fidelity_caution(comparison: Comparison, labels: tuple[str, str]) -> tuple[str, str]:
    """Say that one run's pictures show less of what was asked, where the interval leaves out 0; and by what numbers."""
    rows = Scores.from_frame(comparison.scores).select("comparison", encoder="*")
    over_all = next((row for row in rows if row.component == FIDELITY), None)
    if over_all is None:
        return "", ""
    own = {(row.component, row.setting): row for row in rows if row.component in (OWN_FIDELITY, OWN_UNSHOWN)}
    shares, unshown = ([own[component, run] for run in RUNS] for component in (OWN_FIDELITY, OWN_UNSHOWN))
    numbers = (
        f"Pictures nearest to their own prompt: {wording.percent(shares[0].value)} in {labels[0]}, "
        f"{wording.percent(shares[1].value)} in {labels[1]}; the difference is "
        f"{wording.with_interval(over_all.value, over_all.low, over_all.high)}."
    )
    if not over_all.has_interval or over_all.low <= 0 <= over_all.high:
        return "", numbers
    worse = int(over_all.value < 0)
    n = round(unshown[worse].value * unshown[worse].n_target)
    lost = (
        f" Of {wording.count(unshown[worse].n_target, 'concept')}, {n} {'is' if n == 1 else 'are'} no longer shown "
        "better than chance would."
        if n > round(unshown[1 - worse].value * unshown[1 - worse].n_target)
        else ""
    )
    return (
        f"The pictures of {labels[worse]} show less of what was asked.{lost} "
        "A difference in leaning may come from that.",
        numbers,
    )


_SHOWN = (
    ("mcas", "mcas", 3),
    ("internal_bias", "diffusion_bias", 3),
    ("internal_bias", "bias_amplification", 2),
)


def _concepts(views: Mapping[str, LeaningView]) -> list[dict[str, Any]]:
    """MCAS, δ and α of every concept and model: table 3 of the internal-bias paper."""
    by_model = {model: [view.scores.by_concept(*which[:2]) for which in _SHOWN] for model, view in views.items()}
    first = next(iter(views.values()))
    return [
        {"name": name, "cells": [_concept_cells([rows.get(name) for rows in of]) for of in by_model.values()]}
        for name in first.concepts
    ]


def _concept_cells(rows: Sequence[Row | None]) -> list[str]:
    return [_number(row, component, digits) for row, (_, component, digits) in zip(rows, _SHOWN, strict=True)]


def _number(row: Row | None, component: str, digits: int) -> str:
    if row is None:
        return wording.MISSING
    text = (wording.signed if component == "mcas" else wording.number)(row.value, digits)
    return wording.flagged(text, unstable=row.unstable)


def _planes(views: Mapping[str, LeaningView]) -> list[dict[str, Any]]:
    """MCAS, θ and o-d of every concept and model: table 3 of the xMCAS paper; empty without a third group."""
    first = next(iter(views.values()))
    if first.third is None:
        return []
    by_model = {
        model: (view.mcas, *(view.scores.by_concept("xmcas", name) for name in ("angle", "distance")))
        for model, view in views.items()
    }
    return [
        {"name": name, "cells": [_plane_cells(*(rows.get(name) for rows in of)) for of in by_model.values()]}
        for name in first.concepts
    ]


def _plane_cells(mcas: Row | None, angle: Row | None, distance: Row | None) -> list[str]:
    return [
        wording.MISSING if mcas is None else wording.signed(mcas.value, 3),
        wording.MISSING if angle is None or not angle.defined else f"{wording.number(degrees(angle.value), 1)}°",
        wording.MISSING if distance is None else wording.number(distance.value, 3),
    ]
