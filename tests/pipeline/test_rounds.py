"""Audits drawn until decided: fewer images, the same ones, resumed to the same tables."""

import pytest

import clinometer as cm
from clinometer.errors import Code, InvalidInputError, ModelError, RunMismatchError, SuiteError
from clinometer.pipeline.results import write_report
from tests import quick
from tests.raising import raises
from tests.runs.stopped import Stopping, table_bytes
from tests.toys import Eye, Painter, toy_suite, toy_t2iat_suite

MOST = 40


def audit(out, **options):
    suite = toy_suite(concepts=5, margin=0.05)  # 0.20, 0.35, 0.50, 0.65, 0.80
    options = {"model": Painter(), "suite": suite, "encoder": Eye(), "images": MOST, "until": "decided"} | options
    return quick.audit(out=out, **options)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("stopped") / "run")


def decided(run):
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.component == "image_part")]
    return rows[rows.encoder == "mean"].set_index("concept")


def test_strong_leanings_stop_early_and_parity_goes_on(stopped):
    rows = decided(stopped)
    for concept, side in (("concept 0.20", "woman"), ("concept 0.80", "man")):
        assert (rows.verdict[concept], rows.side[concept]) == ("leans", side)
    assert rows.n_target["concept 0.80"] < MOST / 2
    assert rows.n_target.idxmax() == "concept 0.50"
    assert ((rows.low <= rows.value) & (rows.value <= rows.high)).all()
    assert (rows.q[rows.verdict.isin(["leans", "leans slightly"])] <= 0.05).all()
    assert rows.test.str.contains("valid at any number of images").all()


def test_its_images_are_the_first_of_the_run_that_draws_them_all(stopped, tmp_path):
    whole = audit(tmp_path / "whole", until=None)
    assert len(stopped.samples) < len(whole.samples)
    hashes = whole.samples.set_index("id").sha256
    mine = stopped.samples.set_index("id").sha256
    assert (hashes[mine.index] == mine).all()
    verdicts = decided(whole).verdict
    assert {c: v for c, v in verdicts.items() if "0.50" not in c} == {
        c: v for c, v in decided(stopped).verdict.items() if "0.50" not in c
    }


def test_nothing_else_claims_an_interval_over_target_images(stopped):
    # Attribute images alone make the middle and the check of the reader
    rows = stopped.scores[~stopped.scores.metric.isin(["reader", "middle"])]
    resting = rows[~((rows.metric == "mcas") & rows.component.isin(["itp", "tt", "text_part"]))]
    told = resting.component.isin(["image_part", "mcas"]) & (resting.encoder == "mean") & (resting.metric == "mcas")
    assert resting[told].low.notna().all()
    resting = resting[~told]
    assert resting[["low", "high", "p", "q"]].isna().all(axis=None)
    assert resting.reason.ne("").all()


@pytest.mark.parametrize("batch_size", quick.thorough_but([1, 50], 50))
def test_it_does_not_depend_on_how_the_rounds_are_cut(stopped, tmp_path, batch_size):
    run = audit(tmp_path / "run", model=Painter(batch_size=batch_size))
    assert table_bytes(run) == table_bytes(stopped)


@pytest.mark.parametrize("after", quick.thorough_but([20, 95, 120], 95))
def test_interrupted_in_any_round_it_ends_the_same(stopped, tmp_path, after):
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", model=Stopping(after))
    run = audit(tmp_path / "run")
    assert table_bytes(run) == table_bytes(stopped)
    assert [s.id for s in run.plan] == [s.id for s in stopped.plan]


class Closing(Eye):
    """The user stops it after some images."""

    def encode_images(self, images):
        vectors = super().encode_images(images)
        if self.seen > 60:
            raise KeyboardInterrupt
        return vectors


@pytest.mark.thorough
def test_an_encoder_that_is_added_on_the_way_changes_no_round(stopped, tmp_path):
    """It is none of the run's encoders any more once there are images that it has not seen."""
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", encoder=Closing())
    cm.score_run(tmp_path / "run", encoder=Eye("second"))
    assert set(cm.open_run(tmp_path / "run").encoder_cards) == {"second"}
    run = audit(tmp_path / "run")
    assert table_bytes(run) == table_bytes(stopped)
    assert set(run.encoder_cards) == {"eye"}
    cm.score_run(run.url, encoder=Eye("second"))
    assert set(cm.open_run(run.url).encoder_cards) == {"eye", "second"}


def test_again_it_draws_nothing(stopped):
    painter, before = Painter(), table_bytes(stopped)
    again = audit(stopped.url, model=painter)
    assert painter.drawn == 0
    assert table_bytes(again) == before
    assert cm.score_run(stopped.url).equals(stopped.scores)


@pytest.mark.thorough
def test_a_precision_stops_each_concept_by_its_width(tmp_path):
    rows = decided(audit(tmp_path / "run", until=0.5))
    widths = (rows.high - rows.low) / 2
    assert ((widths <= 0.5) | (rows.n_target == MOST)).all()
    assert rows.n_target.min() < MOST


def test_without_images_the_most_is_ten_times_the_suites(tmp_path):
    run = audit(tmp_path / "run", images=None, until=10.0)
    assert run.suite.images.target == 60
    assert set(decided(run).n_target) == {10}


@pytest.mark.thorough
def test_a_refused_image_counts_as_drawn(tmp_path):
    run = audit(tmp_path / "run", model=Painter(refuse="lean 0.80"), images=20)
    rows = decided(run)
    assert rows.verdict["concept 0.80"] == "not measured"
    assert (run.samples.concept == "concept 0.80").sum() == 20


@pytest.mark.pages
def test_the_report_says_how_it_was_drawn(stopped):
    write_report(stopped)
    page = stopped.directory.read_bytes("report.html").decode()
    assert "until decided" in page
    assert "drawn in rounds" in page
    assert f"at most {MOST} per target" in page


def test_another_rule_is_another_run(stopped):
    with raises(RunMismatchError, code=Code.MISMATCH, match="'until decided', not of stopping 'images fixed"):
        audit(stopped.url, until=None)
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"'until precise to 0\.1'"):
        audit(stopped.url, until=0.1)


@pytest.mark.parametrize("until", ["soon", "0", -1.0, "nan", "inf", True])
def test_a_rule_that_is_none_is_named(tmp_path, until):
    with raises(InvalidInputError, code=Code.MALFORMED, field="until"):
        audit(tmp_path / "run", until=until)


def test_a_study_that_is_drawn_in_one_go_says_so(tmp_path):
    with raises(SuiteError, code=Code.UNSUPPORTED, match="'t2iat' .*--until"):
        audit(tmp_path / "run", suite=toy_t2iat_suite(), images=None)


def test_an_encoder_that_decides_nothing_is_refused_before_anything_is_drawn(stopped, tmp_path):
    class Blind(Eye):
        encode_texts = property()

    painter = Painter()
    with raises(ModelError, code=Code.UNSUPPORTED, match="embeds images only"):
        audit(tmp_path / "run", encoder=Blind(), model=painter)
    assert painter.drawn == 0
    with raises(ModelError, code=Code.UNSUPPORTED, match="embeds images only"):
        cm.score_run(stopped.url, encoder=Blind())


def test_the_budget_covers_the_most_there_may_be(tmp_path):
    painter = Painter()
    painter.price_per_image = 0.01
    with raises(ModelError, code=Code.OVER_BUDGET, match=r"230 images at 0\.01 each cost 2\.30"):
        audit(tmp_path / "run", model=painter, budget=1.0)
    assert painter.drawn == 0


def test_what_needs_a_fixed_number_refuses_it_by_name(stopped, tmp_path):
    other = audit(tmp_path / "other", seed=1, images=12)
    with raises(RunMismatchError, code=Code.MISMATCH, match="until decided are compared"):
        cm.compare(stopped.url, other.url)
    with raises(SuiteError, code=Code.UNSUPPORTED, match="give a pilot without --until"):
        cm.plan(pilot=stopped.url)
