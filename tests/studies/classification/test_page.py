"""The page of a classification study."""

import re
from dataclasses import replace
from html import escape, unescape
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from clinometer.pipeline.results import render_html
from clinometer.report import wording
from clinometer.studies.classification.page import (
    PAGE,
    amplification_words,
    association_figure,
    differential_figure,
    noise,
    noise_figure,
    resting,
)
from clinometer.studies.reporting import report_input
from tests import quick
from tests.report.page import Page
from tests.toy_denoisers import ClassifyingPainter, toy_classification


@pytest.fixture(scope="module")
def run():
    return quick.finished(ClassifyingPainter(), toy_classification(), report=True)


@pytest.fixture(scope="module")
def page(run):
    return run.directory.read_bytes("report.html").decode()


def view_of(run):
    return PAGE.view.of(report_input(run))


def test_every_section_is_there(page):
    Page(page)  # every element is closed in turn
    for section in ("verdicts", "noise", "pairs", "choices", "gallery", "table", "method", "method-limits"):
        assert f'<section id="{section}"' in page
        assert f'id="{section}-heading"' in page


def test_headings_skip_no_level(page):
    levels = [int(e.tag[1]) for e in Page(page).elements if re.fullmatch("h[1-6]", e.tag)]
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))


def test_every_row_of_the_table_can_be_told_from_the_others(run, page):
    table = page.split('<table id="scores"')[1].split("</table>")[0]
    heads = [unescape(head) for head in re.findall(r"<button[^>]*>([^<]*)<", table)]
    told = [heads.index(name) - 1 for name in ("Setting", "Category", "Group") if name in heads]  # after the row's name
    rows = table.split("<tbody>")[1].split("</tr>")[:-1]
    names = [re.search(r'<th scope="row">(.*?)</th>', row)[1] for row in rows]
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert (
        len(rows)
        == len(run.scores)
        == len({(name, *(own[i] for i in told)) for name, own in zip(names, cells, strict=True)})
    )
    assert {own[told[0]] for own in cells} == set(run.scores.setting)


def test_the_finding_names_who_goes_where(run, page):
    said = PAGE.finding(view_of(run))
    assert re.fullmatch(
        r"Between a profession red and one green, painter takes portraits of men for the former \d+ percentage "
        r"points more often than those of women\.", said
    )  # fmt: skip
    assert escape(said) in page
    rests = resting(view_of(run))
    assert re.fullmatch(r"That is ΔS \+1\.00 \[.+\], q .+, from 12 and 12 portraits\.", rests)
    assert escape(rests) in page


def test_every_contrast_has_its_verdict_and_numbers(run, page):
    view = view_of(run)
    assert "<strong><bdi>Gender</bdi></strong> leans to men" in page
    assert "<strong><bdi>Age</bdi></strong> is undecided" in page
    for row in view.differentials.values():
        assert f"{row.n_a} and {row.n_b} portraits" in page


def test_every_figure_is_told_in_words(page):
    for name in ("association", "differential", "noise-association", "noise-differential", "pairs0", "pairs1"):
        (description,) = re.findall(rf'<desc id="{name}-desc">(.+?)</desc>', page)
        assert len(description) > 20


def test_lines_of_one_colour_are_told_by_shape_and_dashes(run, page):
    keys = noise(view_of(run))
    for key in (keys["groups"], keys["contrasts"]):
        assert len({entry["dashes"] for entry in key}) == len(key)
    assert f'stroke-dasharray="{keys["contrasts"][1]["dashes"]}"' in page


def test_a_change_with_noise_samples_has_both_its_ends(run, page):
    view = view_of(run)
    said = amplification_words(view)
    first, *_, last = (view.rows("differential", group="gender", setting=each)[0].value
                       for each in view.suite.settings.values())  # fmt: skip
    ends = f"ΔS from {wording.signed(first)} to {wording.signed(last)}, by "
    assert f": {ends}" in said
    assert f">{ends}<span" in page


def test_letters_of_figures_stay_readable_on_a_phone(run):
    view = view_of(run)
    for figure in (association_figure(view), differential_figure(view), noise_figure(view, "differential")):
        smallest = min(float(size) for size in re.findall(r'font-size="([\d.]+)(?:px)?"', figure.svg))
        assert smallest * 358 / figure.width >= 8  # 358 pixels are what a phone of 390 leaves them


def test_the_matrix_holds_every_pair(run, page):
    rows = view_of(run).rows("pair_differential", group="gender")
    assert len(rows) == 4
    drawing = page.split('id="pairs0-title"')[1].split("</svg>")[0]
    for name in ("pilot", "mechanic", "cook", "singer"):
        assert name in drawing


def test_shares_of_choices_are_all_there(run, page):
    table = page.split("Share of each group’s portraits")[1].split("</table>")[0]
    assert len(re.findall(r"<tr><th scope=\"row\">", table)) == 4
    assert len(re.findall(r'<td class="n folds">\d+', table)) == 4 * 4


def test_the_page_asks_the_network_for_nothing(page):
    assert not re.findall(r'(?:src|href)="https?:', page)


def test_nothing_measured_is_said_and_not_zero(run):
    held = report_input(run)
    scores = held.scores.copy()
    for column in ("value", "low", "high", "p", "q"):
        scores[column] = np.nan
    scores["verdict"] = scores.verdict.where(scores.component != "differential", "not measured")
    curves = pd.DataFrame(columns=held.curves.columns)
    empty = replace(held, scores=scores, curves=curves)
    assert "Nothing could be measured" in PAGE.finding(PAGE.view.of(empty))
    page = render_html(empty)
    assert '<h3 id="verdicts-heading">' in page
    assert '<p class="numbers"><span class="reason">' in page  # the reason begins its line, without a semicolon
    assert '<p class="numbers">;' not in page


def test_groups_without_a_counterpart_are_not_called_unclassified(run):
    held = report_input(run)
    lost = held.scores.component == "differential"
    scores = held.scores.copy()
    scores.loc[lost, ["value", "low", "high", "p", "q"]] = np.nan
    scores.loc[lost, "verdict"] = "not measured"
    said = PAGE.finding(PAGE.view.of(replace(held, scores=scores)))
    assert said == "Nothing could be measured: no contrast of the suite has a score for painter."


def test_names_are_escaped(tmp_path):
    evil = '<script>alert("x")</script>'
    suite = toy_classification(title=evil, a={"label": evil, "classes": {"pilot": "a pilot", evil: "a mechanic"}})
    run = quick.audit(ClassifyingPainter(), suite, tmp_path / "run", report=True)
    assert "<script>alert" not in run.directory.read_bytes("report.html").decode()


def test_the_summary_is_the_contrasts(run):
    summary = PAGE.summary(run.suite, run.scores)
    assert summary.verdicts == "1 to men · 1 undecided"
    assert [row[0] for row in summary.rows] == ["gender", "age"]
    assert "painter" in run._repr_html_()


def test_one_number_of_noise_samples_needs_no_curve(tmp_path):
    run = quick.audit(ClassifyingPainter(), toy_classification(noise_samples=[5]), tmp_path / "run", report=True)
    page = run.directory.read_bytes("report.html").decode()
    assert '<section id="noise"' not in page
    assert '<section id="pairs"' in page
