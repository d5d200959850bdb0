"""Diffusion bias and amplification as the page words and draws them."""

from dataclasses import replace

import pandas as pd

from clinometer.report.inputs import _curve
from clinometer.studies.leaning.figures import internal_bias_figure
from clinometer.studies.leaning.scoring import _curves
from clinometer.studies.leaning.sections.internal import summary
from clinometer.studies.leaning.view import LeaningView
from tests.report.page import with_only
from tests.report.synthetic import small_input


def test_a_summary_that_rests_on_an_unstable_alpha_says_so():
    whole = small_input()
    alphas = whole.scores.component.str.startswith("bias_amplification_")
    flags = whole.scores.flag.mask(alphas & (whole.scores.group == "man"), "unstable")
    rows = {
        row["label"]: row for row in summary(LeaningView.of(replace(whole, scores=whole.scores.assign(flag=flags))))
    }
    for label, row in rows.items():
        unstable = label == "Tied to men"
        assert row["alpha"]["mean"].endswith(" (unstable)") == unstable
        assert row["alpha"]["ends"].endswith(" (unstable)") == unstable
        assert "unstable" not in row["delta"]["mean"] + row["delta"]["ends"]


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

    class OldRun:
        curves = pd.DataFrame({"curve": "delta_alpha", "x": [0.0, 1.0], "y": [1.0, 2.0], "low": 0.5, "high": 2.5})

    OldRun.scores = scores
    assert _curve(OldRun).reason == "no curve: α is unstable for every concept"
    OldRun.scores = whole.scores.assign(flag="")
    assert len(_curve(OldRun).x) == 2
    assert not len(_curves(scores))
    assert len(_curves(whole.scores.assign(flag="")))
