"""The page about T2IAT: its rows are a run's rows, its Python works, its numbers are the code's."""

import re

import numpy as np
import pytest

import clinometer as cm
from clinometer.stats.permutation import sign_flip_test
from tests.docs.pages import blocks, numbers, page, table_rows
from tests.toys import Eye, Painter, toy_t2iat_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

PAGE = page("docs/t2iat.md")


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    out = tmp_path_factory.mktemp("rows") / "run"
    return cm.audit(Painter(), toy_t2iat_suite(neutral=30, attribute=4), out, encoder=Eye()).scores


@pytest.mark.thorough
def test_the_table_of_rows_is_what_a_run_holds(scores):
    told = {
        (row[0].strip("`"), component)
        for row in table_rows(PAGE, "metric")
        for component in re.findall(r"`([^`]+)`", row[1])
    }
    assert told == set(zip(scores.metric, scores.component, strict=True))
    judged = {(row[0].strip("`"), row[1].strip("`")) for row in table_rows(PAGE, "metric") if row[3] != "no"}
    assert judged == set(zip(*(scores[scores.verdict != ""][name] for name in ("metric", "component")), strict=True))


def test_the_python_works():
    for block in blocks(PAGE, "python"):
        exec(compile(block, "docs/t2iat.md", "exec"), {})


def test_sign_flips_are_counted_as_far_as_the_page_says():
    changes = np.arange(1.0, 36)
    assert sign_flip_test(changes[:34]).exact
    assert not sign_flip_test(changes).exact
    assert "34" in numbers(PAGE)
