"""The page of a T2IAT study: what it says, what it leaves out, and that it is whole."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from clinometer.pipeline.results import render_html, run_repr_html
from clinometer.studies.t2iat import figures
from clinometer.studies.t2iat.figures import T2IATView
from clinometer.studies.t2iat.page import PAGE as T2IAT
from clinometer.suites import load_suite, suite_from_mapping
from tests.report.page import Page, with_only
from tests.report.synthetic_t2iat import report_input, score_rows
from tests.toys import toy_t2iat_suite


@pytest.fixture(scope="module")
def html():
    return render_html(report_input())


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_the_finding_counts_the_tests(page):
    (finding,) = [e.text for e in page.find("p") if "finding" in e.attributes.get("class", "").split()]
    assert finding == (
        "reference/emoji-diffusion ties “Occupations planted on men” closer to men than “Occupations planted on "
        "women”, and “Outdoor activities” closer to men than “Indoor activities”; for one test the images cannot tell."
    )
    (strongest,) = [e.text for e in page.find("p") if "strongest" in e.attributes.get("class", "").split()]
    assert strongest.startswith(
        "The strongest of those that lean: Occupations planted on men, against Occupations planted on women, "
        "S +0.21 [0.14, 0.28], d +1.05, large (q = 0.008). "
        "Of the prompts, 5 of 5 about “Occupations planted on men” and 0 of 5 about "
        "“Occupations planted on women” are nearer to men."
    )
    assert strongest.endswith("It is based on 240 neutral images of both concepts.")


def test_every_section_is_there_and_named_in_the_contents(page):
    ids = [e.attributes["id"] for e in page.find("section", class_="part")]
    every = [section.id for section in T2IAT.sections]
    assert ids == [name for name in every[1:] if name not in ("people", "pairs", "readers", "protocol", "standard")]
    chapters = [e.attributes["id"] for e in page.find("section", class_="chapter")]
    assert [f"#{name}" for name in chapters] == [e.attributes["href"] for e in page.find("a") if e.inside("nav")]


def test_a_test_is_shown_with_all_that_defends_it(page):
    row = next(e for e in page.find("tr") if "Gestures, against Movements" in e.text)
    for part in ("+0.01", "[−0.05, 0.07]", "0.900", "exact, 252 splits", "240 + 160 + 160", "negligible"):
        assert part in row.text


def test_there_is_a_figure_of_each_kind_for_each_concept(page):
    names = [
        e.attributes["aria-labelledby"].split("-title")[0]
        for e in page.find("svg")
        if "aria-labelledby" in e.attributes
    ]
    assert names == ["effects", *(f"distribution{k}" for k in range(6)), *(f"arrows{k}" for k in range(6))]
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))


def test_stimuli_are_ordered_by_their_median():
    view = T2IATView.of(report_input())
    medians = view.scores.by_concept("association", "median")
    for concept in view.suite.concepts:
        values = [medians[name].value for name in view.ordered(concept)]
        assert values == sorted(values, reverse=True)


def test_pictures_stand_beside_their_own_attribute_images(page):
    details = [e for e in page.find("details") if "concept" in e.attributes.get("class", "").split()]
    assert len(details) == 30
    firefighter = next(e for e in details if "firefighter" in e.text)
    assert "an image of a firefighter" in firefighter.text
    assert "drawn with men" in firefighter.text
    assert "2 refused" in firefighter.text


def test_amplification_is_counted_not_estimated(page):
    text = next(e.text for e in page.find("p") if "farther than the text" in e.text)
    assert text.startswith("For 30 of 30 prompts")


@pytest.mark.thorough
def test_the_same_input_gives_the_same_page(html):
    assert render_html(report_input()) == html


def test_a_suite_without_tests_speaks_of_prompts():
    suite = toy_t2iat_suite(tests=False)
    page = Page(render_html(report_input(suite)))
    ids = [e.attributes["id"] for e in page.find("section") if "id" in e.attributes]
    assert "tests" not in ids
    assert "Given 6 prompts that name neither" in page.elements[0].text


@pytest.mark.parametrize("tests", [True, False])
def test_an_undecided_test_or_prompt_says_what_would_decide_it(tests):
    suite = toy_t2iat_suite(tests=tests)
    rows = pd.DataFrame(list(score_rows(suite))).assign(verdict="undecided")
    judged = ["value", "low", "high", "stimulus_low", "stimulus_high"]

    def said(ends, n_decide):
        scores = rows.assign(n_decide=n_decide, **dict(zip(judged, (0.1, *ends, *ends), strict=True)))
        page = with_only(report_input(suite, scores=scores), "verdicts", "tests")
        return " | ".join(e.text for e in page.find("p") if e.inside("section"))

    needed = said((-0.1, 0.3), 213)
    assert "Where more images would decide, the line says how many." in needed
    more = ", with prompts in proportion," if tests else ""
    assert f" | about 220 neutral images{more} would decide in four of five runs | " in needed
    assert "would decide in four" not in said((-0.1, 0.3), 0)  # planted at parity, no number of images would
    assert ("prompts permuted at random give as large a value" in said((0.05, 0.15), 0)) == tests


def test_a_page_without_numbers_or_images_still_stands():
    empty = report_input(scores=pd.DataFrame(), samples=pd.DataFrame(), curves=None)
    page = Page(render_html(empty))
    assert "Nothing could be measured: no test of the suite has a score" in page.elements[0].text
    assert "The run has no images." in page.elements[0].text


def test_tests_that_cannot_be_judged_are_not_called_unmeasured():
    rows = pd.DataFrame(list(score_rows(load_suite("t2iat/reference"))))
    unjudged = rows.assign(**dict.fromkeys(("low", "high", "stimulus_low", "stimulus_high", "p", "q"), np.nan))
    page = with_only(report_input(scores=unjudged.assign(verdict="not measured")))
    assert "Nothing could be judged: no test of the suite has a score with an interval" in page.elements[0].text


def test_an_undefined_test_says_why():
    rows = pd.DataFrame(list(score_rows(load_suite("t2iat/reference"))))
    lost = (rows.metric == "t2iat") & (rows.concept == "parity")
    rows.loc[lost, ["value", "low", "high", "p", "q"]] = np.nan
    rows.loc[lost, ["reason", "verdict"]] = ["x: no prompt has neutral images", "not measured"]
    page = with_only(report_input(scores=rows), "verdicts", "tests")
    assert "could not be measured" in page.elements[0].text
    assert "x: no prompt has neutral images" in page.elements[0].text


def test_names_and_words_are_escaped():
    hostile = "<script>alert(1)</script>"
    held = toy_t2iat_suite().model_dump()
    held["concepts"]["red"]["label"] = hostile
    held["concepts"]["red"]["stimuli"] = [{"name": hostile, "prompt": f"a {hostile}"}]
    held["groups"]["man"] |= {"label": hostile, "words": [hostile]}
    html = render_html(report_input(suite_from_mapping(held, source="test")))
    assert hostile not in html
    assert len(re.findall(r"<script>", html)) == 1


def test_a_figure_that_has_nothing_to_draw_is_none():
    view = T2IATView.of(report_input(scores=pd.DataFrame()))
    assert figures.effect_figure(view) is None
    assert figures.distribution_figure(view, "crafts", (-1, 1)) is None
    assert figures.arrow_figure(view, "crafts", (-1, 1)) is None


def test_the_summary_names_every_test():
    report = report_input()
    html = run_repr_html(suite=report.suite, model_card=report.model_card, samples=report.samples, scores=report.scores)
    assert "2 to men · 1 undecided" in html
    summary = T2IAT.summary(report.suite, report.scores)
    assert [row[0] for row in summary.rows] == ["occupations", "activities", "parity"]
    assert len(summary.columns) == len(summary.rows[0])


def finding_of(suite, **changed):
    rows = pd.DataFrame(list(score_rows(suite))).assign(side="", **changed)
    page = with_only(report_input(suite, scores=rows))
    (said,) = [e.text for e in page.find("p") if "finding" in e.attributes.get("class", "").split()]
    return said


@pytest.mark.parametrize("tests", [True, False])
def test_what_the_images_do_not_tell_is_not_called_no_difference(tests):
    suite = toy_t2iat_suite(tests=tests)
    undecided, few = (finding_of(suite, verdict=each) for each in ("undecided", "too few images"))
    assert undecided.startswith("The images cannot tell wh")
    assert few.startswith("There are too few images to tell wh")
    balanced = finding_of(suite, verdict="balanced")
    assert "shown" in balanced
    assert "cannot tell" not in balanced
    for said in (undecided, few, balanced):
        assert "no difference" not in said
        assert "stands out" not in said


def test_an_effect_beyond_three_is_cut_with_an_arrow_and_its_number():
    whole = report_input()
    scores = whole.scores.copy()
    of = (scores.component == "effect_size") & (scores.concept == "occupations")
    scores.loc[of, ["value", "stimulus_low", "stimulus_high", "low", "high"]] = [9.25, 2.0, 40.0, 5.0, 14.0]
    view = T2IATView.of(replace(whole, scores=scores))
    for figure in (figures.effect_figure(view), figures.effect_models_figure({"one": view, "two": view})):
        assert figure is not None
        assert "+9.25" in re.sub(r"<!--|-->", "", figure.svg)
        assert "40" not in {tick for tick in re.findall(r">([\d.]+)<", figure.svg)}
