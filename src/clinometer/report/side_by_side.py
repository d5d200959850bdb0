"""Runs beside each other as the papers show two models: figures and tables made of each run's own scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import degrees
from typing import Any

from clinometer.report import wording
from clinometer.report.association_view import AssociationView
from clinometer.report.figures.side_by_side import (
    COLOURS,
    SHAPES,
    category_models_figure,
    distribution_models_figure,
    effect_models_figure,
    internal_models_figure,
    plane_models_figure,
)
from clinometer.report.from_run import report_input
from clinometer.report.inputs import Curve
from clinometer.report.rows import MEAN, Row, Scores
from clinometer.report.sections.internal import summary
from clinometer.report.sections.leaning import SHAPE_CHARACTERS, category_statistics
from clinometer.report.view import LeaningView, View
from clinometer.runs import Run
from clinometer.suites import AssociationSuite


def side_by_side(runs: Mapping[str, Run], encoders: Sequence[str]) -> dict[str, Any]:
    """What a page of several runs shows besides their differences, by the runs' names.

    Every number is a row of a run's own scores: of the average over encoders where all runs have the same ones, else of
    the first encoder that all of them have; there is nothing to show where no encoder has seen them all.
    """
    if not encoders:
        return {"study": "", "encoder": "", "marks": [], "models": list(runs)}
    alike = all(set(run.encoder_cards) == set(encoders) for run in runs.values())
    encoder = MEAN if alike else encoders[0]
    associations = all(isinstance(run.suite, AssociationSuite) for run in runs.values())
    gather: Callable[[Any], dict[str, Any]] = _associations if associations else _leanings
    shape = AssociationView if associations else LeaningView
    views = {name: _view(shape, run, encoder) for name, run in runs.items()}
    return {
        "study": "association" if associations else "leaning",
        "encoder": "" if alike else encoder,
        "marks": _marks(list(runs)),
        "models": list(runs),
        **gather(views),
    }


def _view(shape: type[View], run: Run, encoder: str) -> View:
    """A run's rows of one encoder as if it were the only one; curves are of the average and left out then."""
    report = report_input(run)
    held = shape.of(report)
    if encoder == MEAN:
        return held
    rows = [replace(row, encoder=MEAN) for row in held.scores if row.encoder == encoder]
    return shape(replace(report, curves=None, curve=Curve(reason="curves are of the average")), Scores(rows))


def _marks(models: Sequence[str]) -> list[tuple[str, str, str]]:
    """Class, shape and name of every model, as the figures draw them."""
    return [
        (COLOURS[order % len(COLOURS)][0], SHAPE_CHARACTERS[SHAPES[order % len(SHAPES)]], model)
        for order, model in enumerate(models)
    ]


# --- leaning -----------------------------------------------------------------------------------------------------


def _leanings(views: Mapping[str, LeaningView]) -> dict[str, Any]:
    first = next(iter(views.values()))
    figures = [(first.category_label(name), category_models_figure(views, name)) for name in first.suite.categories]
    return {
        "label_a": first.label_a,
        "label_b": first.label_b,
        "label_third": first.label_third,
        "margin": first.suite.margin,
        "figures": [{"heading": heading, "figure": figure} for heading, figure in figures if figure is not None],
        "statistics": _by_label([row for model, view in views.items() for row in _statistics(model, view)]),
        "summary": _by_label([{"model": model, **row} for model, view in views.items() for row in summary(view)]),
        "internal": internal_models_figure(views),
        "concepts": _concepts(views),
        "plane": plane_models_figure(views),
        "planes": _planes(views),
    }


def _by_label(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with what is about the same thing together, model by model."""
    labels = dict.fromkeys(row["label"] for row in rows)
    return [row for label in labels for row in rows if row["label"] == label]


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
    name = max((concept.name for concept in concepts), key=lambda each: abs(view.mcas[each].value))
    return f"{name} {wording.signed(view.mcas[name].value, view.digits)}"


_SHOWN = (
    ("mcas", "mcas", 3),
    ("internal_bias", "diffusion_bias", 3),
    ("internal_bias", "bias_amplification", 2),
)


def _concepts(views: Mapping[str, LeaningView]) -> list[dict[str, Any]]:
    """MCAS, δ and α of every concept and model: table 3 of the internal-bias paper."""
    held = {model: [view.scores.by_concept(*which[:2]) for which in _SHOWN] for model, view in views.items()}
    first = next(iter(views.values()))
    return [
        {"name": name, "cells": [_concept_cells([rows.get(name) for rows in of]) for of in held.values()]}
        for name in first.concepts
    ]


def _concept_cells(rows: Sequence[Row | None]) -> list[str]:
    return [_number(row, component, digits) for row, (_, component, digits) in zip(rows, _SHOWN, strict=True)]


def _number(row: Row | None, component: str, digits: int) -> str:
    if row is None:
        return wording.MISSING
    shown = (wording.signed if component == "mcas" else wording.number)(row.value, digits)
    return f"{shown} (unstable)" if row.unstable else shown


def _planes(views: Mapping[str, LeaningView]) -> list[dict[str, Any]]:
    """MCAS, θ and o-d of every concept and model: table 3 of the xMCAS paper; empty without a third group."""
    first = next(iter(views.values()))
    if first.third is None:
        return []
    held = {
        model: (view.mcas, *(view.scores.by_concept("xmcas", name) for name in ("angle", "distance")))
        for model, view in views.items()
    }
    return [
        {"name": name, "cells": [_plane_cells(*(rows.get(name) for rows in of)) for of in held.values()]}
        for name in first.concepts
    ]


def _plane_cells(mcas: Row | None, angle: Row | None, distance: Row | None) -> list[str]:
    return [
        wording.MISSING if mcas is None else wording.signed(mcas.value, 3),
        wording.MISSING if angle is None or not angle.defined else f"{wording.number(degrees(angle.value), 1)}°",
        wording.MISSING if distance is None else wording.number(distance.value, 3),
    ]


# --- association -------------------------------------------------------------------------------------------------


def _associations(views: Mapping[str, AssociationView]) -> dict[str, Any]:
    first = next(iter(views.values()))
    figures = [(first.concept_label(name), distribution_models_figure(views, name)) for name in first.suite.concepts]
    return {
        "label_a": first.label_a,
        "label_b": first.label_b,
        "margin": first.suite.margin,
        "effects": effect_models_figure(views),
        "tests": [
            {"name": first.test_subject(test), "cells": [_test_cells(view, test.name) for view in views.values()]}
            for test in first.suite.tests
        ],
        "figures": [{"heading": heading, "figure": figure} for heading, figure in figures if figure is not None],
        "stimuli": [
            {"name": stimulus.name, "concept": first.concept_label(concept),
             "cells": [_stimulus_cells(view, stimulus.name) for view in views.values()]}
            for concept, stimulus in first.suite.stimuli()
        ],
    }  # fmt: skip


def _test_cells(view: AssociationView, test: str) -> list[str]:
    """S, p and d, as the T2IAT paper's table prints them."""
    statistic, effect = view.statistics.get(test, Row()), view.effect_sizes.get(test, Row())
    shown = wording.probability(statistic.p, "p").removeprefix("p ").removeprefix("= ")
    return [wording.signed(statistic.value, 3), shown or wording.MISSING, wording.signed(effect.value)]


def _stimulus_cells(view: AssociationView, stimulus: str) -> list[str]:
    parts = ("lower_quartile", "median", "upper_quartile")
    rows = [view.associations.get(stimulus, Row())]
    rows += [view.stimulus_rows("association", part).get(stimulus, Row()) for part in parts]
    return [wording.signed(row.value, 3) for row in rows]
