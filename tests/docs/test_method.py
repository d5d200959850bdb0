"""The pages about the method and the papers: their tables and their code agree with the metrics."""

import inspect
import re

import pytest

import clinometer as cm
from clinometer.metrics import UNBIASED_ANGLE, mcas_study
from clinometer.metrics.study.relabelling import _MOST_WORDS_COUNTED
from clinometer.metrics.verdict import BALANCED, NOT_MEASURED, UNDECIDED, verdict
from clinometer.runs.score import RESAMPLES
from clinometer.stats.permutation import EXACT_LIMIT
from clinometer.stats.proportion import parity_gap_null
from tests.docs.pages import blocks, page, table_rows
from tests.toys import Eye, Painter, toy_suite

METHOD = page("docs/method.md")
PROSE = " ".join(METHOD.split())


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    return cm.audit(Painter(), toy_suite(), tmp_path_factory.mktemp("rows") / "run", encoder=[Eye(), Eye("two")]).scores


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
    assert told == [NOT_MEASURED, BALANCED, UNDECIDED, "leans slightly to G", "leans to G"]
    judged = {"a": "G", "b": "H", "margin": 0.1}
    assert verdict(value=0.05, low=0.01, high=0.12, q=0.01, **judged) == told[3]
    assert verdict(value=0.05, low=0.01, high=0.09, q=0.01, **judged) == told[1]
    assert verdict(value=0.2, low=0.1, high=0.3, q=0.05, **judged) == told[4]
    assert verdict(value=0.2, low=0.1, high=0.3, q=0.06, **judged) == told[2]


def test_constants_of_the_page_are_those_of_the_code():
    assert f"{RESAMPLES:,} resamples" in PROSE
    permutations = inspect.signature(mcas_study).parameters["n_permutations"].default
    assert f"{permutations:,} relabellings" in PROSE
    assert f"words up to {_MOST_WORDS_COUNTED} in all, images up to {EXACT_LIMIT:,} splits" in PROSE
    assert f"{UNBIASED_ANGLE:.4f} rad" in PROSE
    assert f"{parity_gap_null(8):.3f} for eight images" in PROSE


@pytest.mark.parametrize("name", ["docs/method.md", "docs/reproducing.md"])
def test_the_python_works(name):
    for block in blocks(page(name), "python"):
        exec(compile(block, name, "exec"), {})
