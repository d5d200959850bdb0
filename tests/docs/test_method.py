"""The pages about the method and the papers: their tables and their code agree with the metrics."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest

from clinometer.metrics import UNBIASED_ANGLE, xmcas
from clinometer.metrics.verdict import FEWEST_IMAGES, Verdict, verdict
from clinometer.pipeline.results import RESAMPLES
from clinometer.stats.permutation import EXACT_LIMIT, MEET_IN_THE_MIDDLE_LIMIT
from clinometer.stats.proportion import parity_gap_null
from clinometer.studies.leaning import mcas_study
from tests import quick
from tests.docs.pages import ROOT, blocks, numbers, page, table_rows
from tests.toys import Eye, Painter, toy_suite

METHOD = page("docs/method.md")
PROSE = " ".join(METHOD.split())


@pytest.fixture(scope="module")
def scores():
    return quick.finished(Painter(), toy_suite(), encoder=[Eye(), Eye("two")]).scores


def test_the_table_of_rows_is_what_a_run_holds(scores):
    told = {
        row[0].strip("`"): (set(re.findall(r"`([^`]+)`", row[1])), "each" in row[2])
        for row in table_rows(METHOD, "metric")
    }
    found = {}
    for metric, rows in scores.groupby("metric"):
        components = {"G-H" if re.fullmatch(r"\w+-\w+", each) else each for each in rows.component}
        found[metric] = (components, set(rows.encoder) == {"mean", "eye", "two"})
    assert told == found


def test_verdicts_come_in_the_order_and_words_of_the_page():
    told = [row[0].strip("`") for row in table_rows(METHOD, "verdict")]
    names = ("NOT_MEASURED", "TOO_FEW", "BALANCED", "UNDECIDED", "LEANS_SLIGHTLY", "LEANS")
    assert told == [Verdict[name].value for name in names]
    judged = {"a": "G", "b": "H", "margin": 0.1}
    for ends, q, enough, expected in (
        ((0.01, 0.3), 0.01, False, told[1]),
        ((0.01, 0.09), 0.01, True, told[2]),
        ((0.1, 0.3), 0.06, True, told[3]),
        ((0.01, 0.12), 0.01, True, told[4]),
        ((0.1, 0.3), 0.05, True, told[5]),
    ):
        found = verdict(value=sum(ends) / 2, low=ends[0], high=ends[1], q=q, enough=enough, **judged)
        assert found.verdict == expected


def test_constants_of_the_page_are_those_of_the_code():
    permutations = inspect.signature(mcas_study).parameters["n_permutations"].default
    counts = (RESAMPLES, permutations, MEET_IN_THE_MIDDLE_LIMIT, EXACT_LIMIT)
    assert {f"{count:,}" for count in counts} <= numbers(METHOD)
    assert FEWEST_IMAGES == 10
    assert "Below **ten images**" in PROSE
    assert {f"{UNBIASED_ANGLE:.4f}", f"{parity_gap_null(8):.3f}"} <= numbers(METHOD)


@pytest.mark.parametrize("name", ["docs/method.md", "docs/reproducing.md"])
def test_the_python_works(name):
    for block in blocks(page(name), "python"):
        exec(compile(block, name, "exec"), {})


def test_what_is_said_of_the_papers_follows_from_their_tables():
    told = numbers(page("docs/reproducing.md"))
    golden = ROOT / "tests/golden"
    table = pd.read_csv(golden / "internal_bias.csv")
    second = table[table.model == "stable-diffusion-2"]
    alpha = second.groupby("stereotype").bias_amplification.mean()
    averages = (alpha["male"], alpha["female"], second.bias_amplification.mean())
    assert {f"{value:.2f}" for value in averages} | {f"{alpha['female'] / alpha['male']:.1f}"} <= told
    women = second[(second.category == "occupation") & (second.stereotype == "female")]
    assert f"{women.mcas.mean():.3f}".replace("-", "−") in told

    categories = pd.read_csv(golden / "mcas_categories.csv").set_index(["model", "category"])
    four = categories.loc["dalle-2"].drop("all").male_biased_std.mean()
    assert f"{four:.4f}" in told
    slipped = categories.loc["stable-diffusion-2"].drop("all").female_biased_mean
    assert {"−0.0980", f"{slipped.replace(-0.98, -0.098).mean():.4f}".replace("-", "−")} <= told

    plane = pd.read_csv(golden / "xmcas.csv")
    similarity = np.tan(plane.theta_rad) * (1 - plane.mcas.abs() + 0.0227)
    points = {"mcas": plane.mcas, "similarity": similarity, "offset": 0.0227}
    far = np.abs(xmcas(**points, centroid=(0, 1 / 3)).distance - plane.euclidean_od).groupby(plane.model).max()
    assert {f"{far[model]:.3f}" for model in ("dalle-2", "stable-diffusion-2")} <= told
    defined = xmcas(**points).distance
    assert {f"{defined.min():.2f}", f"{defined.max():.2f}"} <= told
