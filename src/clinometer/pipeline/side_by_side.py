"""Runs beside each other as the papers show two models: figures and tables made of each run's own scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clinometer.report.figures.marks import COLOURS, SHAPE_CHARACTERS, SHAPES
from clinometer.report.gallery import beside_each_other
from clinometer.report.inputs import Curve, report_input
from clinometer.report.page import View
from clinometer.report.rows import MEAN, Scores
from clinometer.runs import Run
from clinometer.studies import study_of


def side_by_side(runs: Mapping[str, Run], encoders: Sequence[str], first: Sequence[str] = ()) -> dict[str, Any]:
    """What a page of several runs shows besides their differences, by the runs' names; pictures of ``first`` first.

    Every number is a row of a run's own scores: of the average over encoders where all runs have the same ones, else of
    the first encoder that all of them have; there is nothing to show where no encoder has seen them all, in a study
    that needs one.
    """
    suite = next(iter(runs.values())).suite
    study = study_of(suite)
    shown_as = study.comparison(suite)
    if not encoders and study.encoders_needed:
        return {"study": "", "encoder": "", "marks": [], "bars": (), "models": list(runs), "contents": [],
                "pictures": []}  # fmt: skip
    alike = all(set(run.encoder_cards) == set(encoders) for run in runs.values())
    encoder = MEAN if alike else encoders[0]
    views = {
        name: _of_one_encoder(shown_as.view, run, encoder) if shown_as.averaged else shown_as.view.of(report_input(run))
        for name, run in runs.items()
    }
    context = {
        "study": study.key,
        "encoder": "" if alike else encoders[0],
        "marks": _marks(list(runs)),
        "bars": shown_as.bars,
        "models": list(runs),
        "contents": [],
        "pictures": beside_each_other(views, first),
    }
    return context | shown_as.side_by_side(views, encoders[0] if encoders else "")


def _of_one_encoder(shape: type[View], run: Run, encoder: str) -> View:
    """A run's rows of one encoder as if it were the only one; curves are of the average and left out then."""
    report = report_input(run)
    view = shape.of(report)
    if encoder == MEAN:
        return view
    rows = [replace(row, encoder=MEAN) for row in view.scores if row.encoder == encoder]
    return shape(replace(report, curves=None, curve=Curve(reason="curves are of the average")), Scores(rows))


def _marks(models: Sequence[str]) -> list[tuple[str, str, str]]:
    """Class, shape and name of every model, as the figures draw them."""
    return [
        (COLOURS[order % len(COLOURS)][0], SHAPE_CHARACTERS[SHAPES[order % len(SHAPES)]], model)
        for order, model in enumerate(models)
    ]
