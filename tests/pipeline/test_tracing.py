"""An audit with a trace: the same images bit for bit, each step's vectors sealed, and a run traced later alike."""

import shutil

import pandas as pd
import pytest

import clinometer as cm
from clinometer.errors import InvalidInputError, ModelError, RunCorruptError, RunError, SuiteError
from clinometer.pipeline.reporting import write_report
from tests.builders import tiny_stable_diffusion
from tests.toys import Eye, Notes, Painter, crossed_suite, toy_suite, toy_t2iat_suite

SUITE = {"target": 3, "attribute": 2, "concepts": 2}
OPTIONS = {"steps": 3, "resamples": 19, "report": False, "batch_size": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_stable_diffusion(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="module")
def runs(model, tmp_path_factory):
    """A run with a trace, and one without."""
    folder = tmp_path_factory.mktemp("runs")
    asked = {"suite": toy_suite(**SUITE), "encoder": Eye(), **OPTIONS}
    traced = cm.audit(model, out=folder / "traced", trace=True, trace_steps="1,3", **asked)
    return traced, cm.audit(model, out=folder / "plain", **asked)


@pytest.fixture
def plain(runs, tmp_path):
    return cm.open_run(shutil.copytree(runs[1].url, tmp_path / "run"))


def test_the_images_and_all_other_numbers_are_those_of_a_run_without_tracing(runs):
    traced, plain = runs
    assert traced.samples["sha256"].tolist() == plain.samples["sha256"].tolist()
    others = traced.scores[traced.scores.metric != "trace"].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, plain.scores)
    assert set(traced.scores.metric) - set(plain.scores.metric) == {"trace"}


def test_the_last_step_has_the_vectors_of_the_images(runs):
    traced, _ = runs
    images, last = traced.embeddings("eye"), traced.traces.at("eye", 3)
    assert images.keys() == last.keys()
    assert max(abs(images[key] - last[key]).max() for key in images) < 0.05
    assert traced.traces.record == {"steps": [1, 3], "total": 3, "decoder": None, "latents": False}
    assert {step for pictures in traced.traces.strips().values() for step in pictures} == {1, 3}


def test_the_page_shows_the_way_with_its_pictures_and_no_other_run_has_that_section(runs):
    traced, plain = runs
    for run in runs:
        write_report(run)
    page, other = (run.directory.read_bytes("report.html").decode() for run in (traced, plain))
    assert 'id="inside-heading"' in page
    assert 'alt="concept 0.20, step 1"' in page
    assert 'id="inside-heading"' not in other


def test_a_run_traced_later_is_one_that_was_traced_as_it_was_drawn(runs, plain, model):
    traced, notes = runs[0], Notes()
    rows = cm.trace_run(plain.url, model=model, encoder=Eye(), steps="1,3", progress=notes)
    drawn_so = traced.scores[traced.scores.metric == "trace"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, drawn_so)
    assert not [note for note in notes.messages if "differ" in note]
    with pytest.raises(RunError, match=r"it was traced with steps \[1, 3\], not \[1, 2, 3\]"):
        cm.trace_run(plain.url, model=model, encoder=Eye(), steps="all")


def test_a_part_of_the_trace_that_was_changed_or_is_gone_is_found(runs, tmp_path):
    run = cm.open_run(shutil.copytree(runs[0].url, tmp_path / "run"))
    part = next((tmp_path / "run" / "trace" / "eye").glob("part-*.parquet"))
    content = bytearray(part.read_bytes())
    content[len(content) // 3] ^= 1
    part.write_bytes(content)
    with pytest.raises(RunCorruptError, match="trace/eye"):
        run.traces.at("eye", 1)
    part.unlink()
    with pytest.raises(RunCorruptError, match="missing"):
        cm.api.verify_run(run.url)


def test_what_cannot_be_traced_is_refused_in_a_line(runs, plain, model, tmp_path):
    asked = {"encoder": Eye(), "trace": True, **OPTIONS}
    with pytest.raises(ModelError, match="shows its finished images alone, and no steps"):
        cm.audit(Painter(), toy_suite(**SUITE), tmp_path / "a", encoder=Eye(), trace=True)
    with pytest.raises(ModelError, match="found 9 steps, expected 1 to 3"):
        cm.audit(model, toy_suite(**SUITE), tmp_path / "b", trace_steps=9, **asked)
    with pytest.raises(SuiteError, match="--trace takes one pair of groups"):
        cm.audit(model, crossed_suite(), tmp_path / "c", **asked)
    with pytest.raises(SuiteError, match="a trace is of suites of study leaning"):
        cm.audit(model, toy_t2iat_suite(), tmp_path / "d", **asked)
    with pytest.raises(InvalidInputError, match="and no --trace"):
        cm.audit(model, toy_suite(**SUITE), tmp_path / "e", trace_steps=2)
    with pytest.raises(InvalidInputError, match="beside --until decided"):
        cm.audit(model, toy_suite(**SUITE), tmp_path / "f", until="decided", **asked)
    assert not list(tmp_path.glob("[a-f]"))
    with pytest.raises(RunError, match="drawn by another model than tiny"):
        cm.trace_run(plain.url, model=model, encoder=Eye(), model_options={"steps": 2})
