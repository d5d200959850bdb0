"""Diffusion bias and amplification as the page words and draws them."""

from dataclasses import replace

import pandas as pd

from clinometer.studies.leaning.figures import internal_bias_figure
from clinometer.studies.leaning.pair_and_axes import curves_of
from clinometer.studies.leaning.view import LeaningView
from tests.report.page import Element, with_only
from tests.report.synthetic import small_input


def test_a_summary_that_rests_on_an_unstable_alpha_says_so():
    whole = small_input()
    alphas = whole.scores.component.str.startswith("bias_amplification_")
    flags = whole.scores.flag.mask(alphas & (whole.scores.group == "man"), "unstable")
    page = with_only(replace(whole, scores=whole.scores.assign(flag=flags)), "internal")
    (caption,) = [each for each in page.find("caption") if each.text.startswith("Smallest, largest and mean")]
    inside = [each for each in page.elements if within(each, caption.parent)]
    labels = [each.text for each in inside if each.attributes.get("scope") == "row"]
    cells_of = [[each.text for each in inside if each.tag == "td" and each.parent is row] for row in inside]
    lines = [cells for cells in cells_of if cells]
    assert len(labels) == len(lines) > 1
    for label, cells in zip(labels, lines, strict=True):
        assert [cell.endswith(" (unstable)") for cell in cells] == [False, False] + [label == "Tied to men"] * 2


def test_a_statistic_that_is_missing_has_a_dash():
    whole = small_input()
    kept = whole.scores[whole.scores.component != "diffusion_bias_standard_error"]
    page = with_only(replace(whole, scores=kept), "internal")
    assert any(cell.text.endswith(" ± —") for cell in page.find("td", class_="n"))


def test_the_line_where_nothing_is_amplified_lies_over_the_band(report):
    drawing = internal_bias_figure(LeaningView.of(report)).svg
    assert drawing.index("fill-shade") < drawing.index("stroke-dasharray")


def test_where_every_alpha_is_unstable_no_curve_is_drawn():
    """Also of a run whose curve was stored before that was so."""
    whole = small_input()
    alphas = (whole.scores.metric == "internal_bias") & (whole.scores.component == "bias_amplification")
    scores = whole.scores.assign(flag=whole.scores.flag.mask(alphas, "unstable"))
    curves = pd.DataFrame({"curve": "delta_alpha", "x": [0.0, 1.0], "y": [1.0, 2.0], "low": 0.5, "high": 2.5})
    assert (
        LeaningView.of(replace(whole, scores=scores, curves=curves)).curve.reason
        == "no curve: α is unstable for every concept"
    )
    stable = replace(whole, scores=whole.scores.assign(flag=""), curves=curves)
    assert len(LeaningView.of(stable).curve.x) == 2
    assert not len(curves_of(scores))
    assert len(curves_of(whole.scores.assign(flag="")))


def within(element: Element | None, table: Element | None) -> bool:
    return element is not None and (element.parent is table or within(element.parent, table))
