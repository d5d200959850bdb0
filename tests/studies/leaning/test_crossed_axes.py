"""A suite with axes from end to end: drawn, scored, reported, and refused where one pair of groups is needed."""

import shutil

import numpy as np
import pytest

import clinometer as cm
from clinometer.errors import Code, SuiteError
from clinometer.pipeline.parallel import EnginePool
from clinometer.pipeline.results import score
from clinometer.runs import NoProgress
from tests import quick
from tests.pipeline.engine_toys import InTurn
from tests.raising import raises
from tests.toys import Eye, Painter, crossed_suite

pytestmark = [pytest.mark.usefixtures("shortcuts_of_a_module"), pytest.mark.pages]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    painter = Painter(refuse="young dark women")
    return quick.audit(painter, crossed_suite(), out=tmp_path_factory.mktemp("crossed") / "run", encoder=Eye())


def test_the_axis_that_is_painted_is_found_and_its_parts_add_up(finished):
    scores = finished.scores
    rows = scores[(scores.component == "axis:gender") & (scores.encoder == "mean")]
    value = rows[rows.setting == ""].set_index("concept").value
    assert value["concept 0.15"] < value["concept 0.5"] < value["concept 0.85"]
    parts = rows[rows.setting.isin(["ii", "ita"])].groupby("concept").value.sum()
    np.testing.assert_allclose(parts[value.index], value)
    whole = rows[rows.setting.isin(["ii", "itp", "ita", "tt"])].groupby("concept").value.sum()
    np.testing.assert_allclose(whole[value.index], rows[rows.setting == "mcas"].set_index("concept").value[value.index])
    assert set(scores.metric) == {"intersections", "middle", "reader", "refusal"}


def test_refusals_are_compared_along_each_axis(finished):
    scores = finished.scores
    found = scores[(scores.metric == "refusal") & (scores.component == "difference")].set_index("group").value
    assert set(found.index) == {"man", "light"}
    assert found["man"] == pytest.approx(-0.25)  # one of four prompts of women
    assert found["light"] == pytest.approx(-0.25)
    rates = scores[(scores.metric == "refusal") & (scores.component == "rate")]
    assert not rates.duplicated(["concept", "group"]).any()


def test_the_report_tells_axes_and_refusals(finished):
    page = finished.directory.read_bytes("report.html").decode()
    assert "by gender" in page
    assert "by skin tone" in page
    assert "were refused" in page or "refused" in page


def test_a_record_with_axes_is_read_again_and_scored_alike(finished):
    before = finished.directory.read_bytes("scores.parquet")
    cm.score_run(finished.directory.root)
    assert finished.directory.read_bytes("scores.parquet") == before


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_any_number_of_workers_measures_the_same_scores(finished, tmp_path, workers):
    shutil.copytree(finished.url, tmp_path / "run")
    (tmp_path / "run/scores.parquet").unlink()
    run, engine = cm.open_run(tmp_path / "run"), InTurn(workers)
    score(run, NoProgress(), pool=EnginePool(engine, NoProgress()))
    assert sorted(target for unit in engine.units for target in unit) == [0, 1, 2]
    assert run.directory.read_bytes("scores.parquet") == finished.directory.read_bytes("scores.parquet")


def test_an_axis_that_the_encoder_does_not_read_has_no_verdict(finished):
    """The eye reads colours, which are genders, and no tones."""
    scores = finished.scores
    judged = scores[(scores.metric == "intersections") & (scores.encoder == "mean") & (scores.verdict != "")]
    assert set(judged[judged.component == "axis:tone"].verdict) == {"not measured"}
    assert set(judged[judged.component.str.startswith("cell")].verdict) == {"not measured"}
    page = finished.directory.read_bytes("report.html").decode()
    assert "Does the encoder read right?" in page
    assert "cannot read its own attribute images" in page


def test_runs_are_compared_axis_by_axis(finished, tmp_path):
    other = quick.audit(Painter(), crossed_suite(), out=tmp_path / "other", encoder=Eye())
    (found,) = cm.compare(finished.directory.root, other.directory.root, out=tmp_path / "comparison")
    rows = found.scores[(found.scores.metric == "comparison") & (found.scores.encoder == "mean")]
    assert {"axis:gender", "axis:tone"} <= set(rows.component)
    assert "magnitude" not in set(rows.component)
    page = (tmp_path / "comparison" / "comparison.html").read_text()
    assert "concepts counted by gender, " in page
    assert "Image part along the axis, positive to men" in page


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda out: quick.audit(Painter(), crossed_suite(), out=out, encoder=Eye(), until="decided"), "--until"),
        (lambda _: cm.plan(crossed_suite()), "plan"),
    ],
)
def test_what_takes_one_pair_refuses_axes_by_name(ask, what, tmp_path):
    with raises(SuiteError, code=Code.UNSUPPORTED, match=f"gender and tone, and {what}"):
        ask(tmp_path / "run")
