"""T2IAT runs beside each other, as the paper shows two models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.studies.t2iat.models_figures import distribution_models_figure, effect_models_figure
from clinometer.studies.t2iat.view import AssociationView


def side_by_side(views: Mapping[str, AssociationView], encoder: str) -> dict[str, Any]:
    """Figures and tables of several T2IAT runs; all of them are of the encoder that the views hold."""
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
    p = wording.bare_probability(statistic.p)
    return [wording.signed(statistic.value, 3), p or wording.MISSING, wording.signed(effect.value)]


def _stimulus_cells(view: AssociationView, stimulus: str) -> list[str]:
    parts = ("lower_quartile", "median", "upper_quartile")
    rows = [view.associations.get(stimulus, Row())]
    rows += [view.stimulus_rows("association", part).get(stimulus, Row()) for part in parts]
    return [wording.signed(row.value, 3) for row in rows]
