"""Runs beside each other as the papers show two models: figures and tables made of each run's own scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import degrees
from typing import Any, TypeVar

from clinometer.report import wording
from clinometer.report.association_view import AssociationView
from clinometer.report.cells_models import crossed_models
from clinometer.report.cells_view import CellsView
from clinometer.report.classification_view import ClassificationView, contrast_in_words
from clinometer.report.figures.side_by_side import (
    COLOURS,
    SHAPES,
    asymmetry_models_figure,
    category_models_figure,
    differential_models_figure,
    distribution_models_figure,
    effect_models_figure,
    internal_models_figure,
    plane_models_figure,
)
from clinometer.report.from_run import report_input
from clinometer.report.inputs import Curve
from clinometer.report.rows import MEAN, Row, Scores
from clinometer.report.sections.editing import average_faces
from clinometer.report.sections.internal import summary
from clinometer.report.sections.leaning import SHAPE_CHARACTERS, category_statistics
from clinometer.report.view import EditingView, LeaningView, View
from clinometer.runs import Run
from clinometer.suites import LeaningSuite

AnyView = TypeVar("AnyView", bound=View)


def side_by_side(runs: Mapping[str, Run], encoders: Sequence[str]) -> dict[str, Any]:
    """What a page of several runs shows besides their differences, by the runs' names.

    Every number is a row of a run's own scores: of the average over encoders where all runs have the same ones, else of
    the first encoder that all of them have; there is nothing to show where no encoder has seen them all, in a study
    that needs one.
    """
    suite = next(iter(runs.values())).suite
    study = "cells" if isinstance(suite, LeaningSuite) and suite.axes else suite.study
    if not encoders and study != "classification":
        return {"study": "", "encoder": "", "marks": [], "models": list(runs)}
    alike = all(set(run.encoder_cards) == set(encoders) for run in runs.values())
    page = {"study": study, "encoder": "" if alike else encoders[0], "marks": _marks(list(runs)), "models": list(runs)}
    encoder = MEAN if alike else encoders[0]
    if study == "cells":
        return page | crossed_models({name: _view(CellsView, run, encoder) for name, run in runs.items()})
    if study == "leaning":
        return page | _leanings({name: _view(LeaningView, run, encoder) for name, run in runs.items()})
    if study == "association":
        return page | _associations({name: _view(AssociationView, run, encoder) for name, run in runs.items()})
    if study == "editing":
        return page | _edits({name: EditingView.of(report_input(run)) for name, run in runs.items()}, encoders[0])
    return page | _classifications({name: ClassificationView.of(report_input(run)) for name, run in runs.items()})


def _view(shape: type[AnyView], run: Run, encoder: str) -> AnyView:
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
    return wording.flagged(shown, unstable=row.unstable)


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


# --- editing and classification ----------------------------------------------------------------------------------


def _edits(views: Mapping[str, EditingView], encoder: str) -> dict[str, Any]:
    first = next(iter(views.values()))
    return {
        "reader": encoder,
        "label_a": first.label_a,
        "label_b": first.label_b,
        "margin": None,
        "asymmetry": asymmetry_models_figure(views, encoder),
        "edits": [
            {
                "name": f"{wording.capitalised(first.label(group))}, into “{kind}”",
                "concept": setting,
                "cells": [_edit_cells(view, encoder, group, kind, setting) for view in views.values()],
            }
            for group in first.suite.groups
            for kind, setting in first.columns
        ],
        "columns": first.columns,
        "faces": _by_label([{"model": model, **row} for model, view in views.items() for row in average_faces(view)]),
    }


def _edit_cells(view: EditingView, encoder: str, group: str, kind: str, setting: str) -> list[str]:
    """Flip rate, change of the skin's angle, cosine of before and after."""
    rows = {
        "flip_rate": view.class_rows("flip_rate", encoder),
        "ita_change": [row for row in view.pixel_rows("ita_change") if not row.concept],
        "identity": view.class_rows("identity", encoder),
    }
    about = (group, kind, setting)
    flips, skin, identity = (
        next((row for row in held if (row.group, row.category, row.setting) == about), Row()) for held in rows.values()
    )
    return [
        wording.percent(flips.value) if flips.defined else wording.MISSING,
        f"{wording.signed(skin.value, 1)}°" if skin.defined else wording.MISSING,
        wording.number(identity.value) if identity.defined else wording.MISSING,
    ]


def _classifications(views: Mapping[str, ClassificationView]) -> dict[str, Any]:
    first = next(iter(views.values()))
    return {
        "label_a": first.label_a,
        "label_b": first.label_b,
        "margin": first.suite.margin,
        "setting": first.setting,
        "differentials": differential_models_figure(views),
        "contrasts": [
            {"name": contrast_in_words(first.suite, name),
             "cells": [_differential_cells(view.differentials.get(name, Row())) for view in views.values()]}
            for name in first.suite.contrasts
        ],
        "groups": [
            {"name": wording.capitalised(first.label(group)),
             "cells": [_association_cells(view.associations.get(group, Row())) for view in views.values()]}
            for group in first.suite.groups
        ],
    }  # fmt: skip


def _differential_cells(row: Row) -> list[str]:
    """ΔS with its interval, and q."""
    shown = f"{wording.signed(row.value)} {wording.interval(row.low, row.high)}".strip()
    q = wording.probability(row.q, "q").removeprefix("q ").removeprefix("= ")
    return [shown if row.defined else wording.MISSING, q or wording.MISSING]


def _association_cells(row: Row) -> list[str]:
    shown = f"{wording.number(row.value)} {wording.interval(row.low, row.high)}".strip()
    return [shown if row.defined else wording.MISSING]
