"""MCAS, which part carries it, its categories, and at which stage it arises."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from clinometer.report import wording
from clinometer.report.figures.marks import ENCODER_SHAPES, SHAPE_CHARACTERS
from clinometer.report.rows import Row
from clinometer.report.wording import source_words, sources_counted, too_few, verdict_group_of, verdict_words
from clinometer.studies.leaning.figures import category_figure, component_figure, encoder_figure
from clinometer.studies.leaning.figures.concepts import lean_limits
from clinometer.studies.leaning.view import Concept, LeaningView


def categories(view: LeaningView) -> dict[str, Any]:
    """Gather what MCAS says of each concept, a figure for each category, and the table of category statistics."""
    limits = lean_limits(view)
    figures = [
        {"heading": view.category_label(name), "figure": category_figure(view, name, limits)}
        for name in view.suite.categories
    ]
    rows = list(view.mcas.values())
    concepts = [_concept(view, concept) for concept in view.ranked(by=view.mcas)]
    return {
        "concepts": concepts,
        "sources": sources_counted((view.mcas[name], view.pictures.get(name, Row())) for name in view.mcas),
        "scale": wording.MCAS_SCALE,
        "figures": [entry for entry in figures if entry["figure"] is not None],
        "statistics": category_statistics(view),
        "label_a": view.label_a,
        "label_b": view.label_b,
        "margin": view.suite.margin,
        "stimulus": any(row.has_stimulus_interval for row in rows),
        "few": any(too_few(row) for row in rows),
    }


def _concept(view: LeaningView, concept: Concept) -> dict[str, str]:
    """MCAS of a concept beside its parts, each with its interval and its verdict."""
    by_score = {"mcas": view.mcas, "pictures": view.pictures, "text": view.texts}
    rows = {name: by_concept.get(concept.name, Row()) for name, by_concept in by_score.items()}
    cells = {name: wording.with_interval(row.value, row.low, row.high, view.digits) for name, row in rows.items()}
    cells |= {f"{name}_said": verdict_words(row, view.label) for name, row in rows.items()}
    source = source_words(rows["mcas"], rows["pictures"])
    return cells | {"name": concept.name, "lean": verdict_group_of(rows["mcas"]), "source": source}


def category_statistics(view: LeaningView) -> list[dict[str, Any]]:
    """How many concepts, and mean and standard deviation of MCAS, by category: measured positive, negative, and all."""
    names = [*view.suite.categories, "all"]
    table = []
    for category in names:
        by_group = [
            [_statistic(view, category, group, component) for component in ("mean", "std")]
            for group in (view.group_a, view.group_b, "all")
        ]
        if any(row.defined for rows in by_group for row in rows):
            cells = [cell for rows in by_group for cell in _statistic_cells(view, rows)]
            table.append({"label": view.category_label(category), "cells": cells})
    return table


def _statistic(view: LeaningView, category: str, group: str, component: str) -> Row:
    metric = "category" if group == "all" else "category_by_sign"
    rows = view.scores.select(metric, component, category=category)
    groups = ("", "all") if group == "all" else (group,)
    return next((row for row in rows if row.group in groups), Row())


def _statistic_cells(view: LeaningView, rows: Sequence[Row]) -> list[dict[str, str]]:
    """How many concepts, their mean and standard deviation, each with what chance alone would give."""
    counted = next((f"{row.n_target:,}" for row in rows if row.n_target), wording.MISSING)
    return [{"value": counted, "null": ""}] + [
        {
            "value": written(row.value, view.digits),
            "null": written(row.null, view.digits) if isfinite(row.null) else "",
        }
        for row, written in zip(rows, (wording.signed, wording.number), strict=True)
    ]


def stages(view: LeaningView) -> dict[str, Any] | None:
    """Components and encoders; left out when there is neither."""
    components = component_figure(view)
    if components is None:
        return None
    return {
        "components": components,
        "encoders": encoder_figure(view),
        "encoder_keys": _encoder_keys(view),
        "agreement": encoder_agreement(view),
        "only_encoder": view.encoders[0] if len(view.encoders) == 1 else "",
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _encoder_keys(view: LeaningView) -> list[tuple[str, str]]:
    shapes = [ENCODER_SHAPES[order % len(ENCODER_SHAPES)] for order in range(len(view.encoders))]
    return [(SHAPE_CHARACTERS[shape], name) for shape, name in zip(shapes, view.encoders, strict=True)]


def encoder_agreement(view: LeaningView) -> str:
    """For how many concepts all encoders see the same direction."""
    if len(view.encoders) < 2:
        return ""
    by_encoder = [view.scores.by_concept("mcas", "image_part", encoder=name) for name in view.encoders]
    shared = [name for name in view.concepts if all(name in rows and rows[name].defined for rows in by_encoder)]
    same = sum(len({rows[name].value > 0 for rows in by_encoder}) == 1 for name in shared)
    if not shared:
        return ""
    everyone = "Both" if len(view.encoders) == 2 else f"All {len(view.encoders)}"
    return f"{everyone} encoders see the same direction for {same} of {wording.count(len(shared), 'concept')}."
