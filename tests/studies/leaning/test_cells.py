"""The page of a suite with axes: verdicts by axis, the cells, what goes together; and the same in a terminal."""

from __future__ import annotations

from dataclasses import asdict, replace

import pandas as pd
import pytest

from clinometer.metrics.records import Score
from clinometer.pipeline.results import render_html
from clinometer.report import ReportInput, wording
from clinometer.report.model_card import CardInput, eval_results, section_of
from clinometer.report.view import scores_table
from clinometer.studies import study_of
from clinometer.studies.leaning.embeddings import design_of_suite
from clinometer.studies.leaning.view import LeaningView
from clinometer.suites import LeaningSuite, suite_from_mapping
from tests.report.markdown import tables
from tests.report.page import Page, with_only
from tests.report.synthetic import encoder_card, model_card, picture
from tests.studies.leaning.crossed import THREE, TWO, crossed_embeddings
from tests.studies.leaning.studies import mcas_study

LABELS = {"man": "men", "woman": "women", "light": "light skin", "medium": "medium skin", "dark": "dark skin"}


def suite_of(axes, names=("teacher", "cook", "guard")) -> LeaningSuite:
    suite = suite_from_mapping({
        "name": "crossed", "title": "Crossed", "description": "d", "margin": 0.02,
        "axes": {name: {"levels": {level: LABELS[level] for level in levels}} for name, levels in axes.items()}
        | {"tone": {"label": "skin tone", "levels": {level: LABELS[level] for level in axes["tone"]}}},
        "groups": {
            f"{tone} {gender}": {
                "label": f"{LABELS[gender]} with {LABELS[tone]}", "cell": {"gender": gender, "tone": tone},
                "prompts": [{"prompt": f"a {gender}, {tone}"}, {"prompt": f"an old {gender}, {tone}"}],
                "words": [f"{gender} {tone}", f"{tone} {gender}"],
            }
            for gender in axes["gender"] for tone in axes["tone"]
        },
        "categories": {"work": {"targets": [{"name": name, "prompt": f"an image of a {name}"} for name in names]}},
    }, source="test")  # fmt: skip
    assert isinstance(suite, LeaningSuite)
    return suite


def input_of(suite, rows, planted=None) -> ReportInput:
    samples = pd.DataFrame([
        {"id": "1f", "prompt": "an image of a cook", "concept": "cook", "role": "target", "group": "", "seed": 0,
         "category": "work", "status": "ok", "reason": "", "seconds": 1.0},
    ])  # fmt: skip
    return ReportInput(
        title="model × Crossed", suite=suite, model_card=model_card(), encoder_cards={"e0": encoder_card("e0")},
        settings={"seed": 0}, scores=scores_table(rows), samples=samples, image=picture, planted=planted,
    )  # fmt: skip


def rows_of(suite) -> list[Score]:
    design = design_of_suite(suite)
    return mcas_study([crossed_embeddings(design)], design)


def said(rows, **verdicts) -> list[Score]:
    """Rows with the verdicts of teacher as given, by component; a value has its sign."""
    changed = []
    for row in rows:
        given = verdicts.get(row.component.split(":")[-1]) if row.concept == "teacher" and not row.setting else None
        if row.component.startswith(("cell", "residual")) or row.encoder != "mean":
            given = None
        changed.append(replace(row, verdict=given[0], value=given[1]) if given else row)
    return changed


def words_of(suite, rows) -> str:
    return LeaningView.of(input_of(suite, rows)).verdict_words("teacher")


UNDECIDED = ("undecided", 0.01)


@pytest.mark.parametrize(
    ("gender", "tone", "both", "words"),
    [
        (("leans", -0.3), UNDECIDED, UNDECIDED,
         "leans to women; by skin tone undecided; interaction undecided"),
        (("leans", -0.3), ("leans", 0.2), UNDECIDED,
         "leans to women and to light skin; interaction undecided"),
        (UNDECIDED, UNDECIDED, UNDECIDED, "by gender and skin tone undecided; interaction undecided"),
        (UNDECIDED, ("balanced", 0.0), ("leans", 0.1),
         "by gender undecided; by skin tone shown balanced; men with light skin more often than men and light skin "
         "alone would give"),
        (("leans slightly", 0.1), UNDECIDED, ("leans", -0.1),
         "leans to men; by skin tone undecided; men with light skin less often than men and light skin alone "
         "would give"),
        (("not measured", float("nan")), ("not measured", float("nan")), ("not measured", float("nan")),
         "by gender and skin tone not measured; interaction not measured"),
    ],
)  # fmt: skip
def test_verdicts_in_words_name_levels_and_never_a_diagonal(gender, tone, both, words):
    suite = suite_of(TWO)
    assert words_of(suite, said(rows_of(suite), gender=gender, tone=tone, **{"gender×tone": both})) == words


def test_of_more_levels_those_leaned_to_are_named():
    suite = suite_of(THREE)
    rows = [
        replace(row, verdict="leans", side="dark", value=0.3)
        if (row.component, row.group, row.concept, row.encoder) == ("axis:tone", "dark", "teacher", "mean")
        else replace(row, verdict="undecided" if row.verdict else "", value=0.01 if row.verdict else row.value)
        for row in rows_of(suite)
    ]
    assert words_of(suite, rows).startswith("leans to dark skin; by gender undecided; interaction undecided")


@pytest.mark.parametrize("axes", [TWO, THREE])
def test_the_page_has_every_cell_with_its_interval(axes):
    suite = suite_of(axes)
    rows = rows_of(suite)
    html = render_html(input_of(suite, rows, planted={"cook": {"man": 0.9, "woman": 0.1, "light": 0.5, "dark": 0.1}}))
    page = Page(html)
    matrices = [table for table in page.find("table") if table.attributes.get("class") == "cells"]
    assert len(matrices) == 3
    cells = {
        (row.concept, row.group): row for row in rows if row.component.startswith("cell:") and row.encoder == "mean"
    }
    digits = LeaningView.of(input_of(suite, rows)).digits
    for row in cells.values():
        shown = f"{wording.signed(row.value, digits)} {wording.interval(row.low, row.high, digits)}"
        assert any(shown in table.text for table in matrices)
    for matrix in matrices:
        assert all(LABELS[level] in matrix.text for level in (*axes["gender"], *axes["tone"]))
    assert "no interaction" not in page.find("header")[0].text
    assert "Planted" in html
    assert 'id="stages"' not in html  # of one pair of groups


def test_the_first_screen_counts_axis_by_axis():
    suite = suite_of(TWO)
    rows = said(rows_of(suite), gender=("leans", -0.9), tone=UNDECIDED, **{"gender×tone": UNDECIDED})
    rows = [replace(r, verdict="undecided") if r.verdict and r.concept != "teacher" else r for r in rows]
    header = with_only(input_of(suite, rows)).find("header")[0].text
    assert "leans by gender to women for 1, 2 undecided; by skin tone to no side, 3 undecided;" in header
    assert "interaction undecided for 3." in header
    assert "an image of a teacher leans to women; by skin tone undecided; interaction undecided" in header
    assert "women with" not in header


@pytest.mark.parametrize(
    ("verdict", "code", "words"),
    [
        (
            "not measured",
            "the encoder does not fit the suite",
            "Nothing could be judged for {}: the encoder does not fit",
        ),
        (
            "too few images",
            "too few images",
            "There are too few images to tell whether {} leans, asked for 3 concepts ",
        ),
    ],
)
def test_what_cannot_be_told_along_any_axis_is_not_called_leaning_to_no_side(verdict, code, words):
    suite = suite_of(TWO)
    rows = [replace(row, verdict=verdict, side="", reason_code=code) if row.verdict else row for row in rows_of(suite)]
    report = input_of(suite, rows)
    header = with_only(report).find("header")[0].text
    assert words.format(report.model_card["name"]) in header
    assert "to no side" not in header


def test_the_summary_is_the_same_in_short():
    suite = suite_of(TWO)
    rows = said(rows_of(suite), gender=("leans", -0.9), tone=UNDECIDED, **{"gender×tone": UNDECIDED})
    scores = pd.DataFrame([asdict(row) for row in rows])
    summary = study_of(suite).page(suite).summary(suite, scores)
    assert summary.columns == ("concept", "gender", "skin tone", "verdict")
    assert summary.rows[0][0] == "teacher"
    assert summary.rows[0][-1] == "leans to women; by skin tone undecided; interaction undecided"
    assert "gender: 1 to women · " in summary.verdicts


def test_a_run_without_numbers_says_so():
    suite = suite_of(TWO)
    html = render_html(input_of(suite, []))
    assert "Nothing could be measured" in html
    assert study_of(suite).page(suite).summary(suite, scores_table([])).unmeasured == "the scores have no axis verdict"


def test_an_unmeasured_concept_has_its_reason():
    suite = suite_of(TWO)
    design = design_of_suite(suite)
    held = crossed_embeddings(design)
    lost = replace(held, target_images=(held.target_images[0][:0], *held.target_images[1:]))
    html = render_html(input_of(suite, mcas_study([lost], design)))
    assert "no image of the target" in html


@pytest.mark.parametrize("axes", [TWO, THREE])
def test_a_model_card_has_each_axis_and_the_interaction(axes):
    suite = suite_of(axes)
    rows = said(rows_of(suite), gender=("leans", 0.3))
    report = input_of(suite, rows)
    run = CardInput(report, study_of(suite).page(suite), "clinometer audit")
    section = section_of([run], rows=100, version="1")
    gender, tone, interaction = (table[1:] for table in tables(section) if "Verdict" in table[0])
    assert [len(each) for each in (gender, tone, interaction)] == [3, 9 if axes is THREE else 3, 3]
    assert [row[1] for row in gender if row[0] == "teacher"] == ["+0.30"]
    assert all(row[2].startswith("[") and row[3] for row in (*gender, *tone, *interaction))
    judged = [row for row in (*gender, *tone, *interaction) if "not measured" in row[4]]
    assert judged
    assert all("cannot read its own attribute images" in row[5] for row in judged)
    values = {row.value for row in rows}
    assert {result.metric_value for result in eval_results([run], rows=100)} <= values
