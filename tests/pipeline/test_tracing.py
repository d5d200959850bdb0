"""An audit with a trace: the same images bit for bit, each step's vectors sealed, and a run traced later alike."""

import re
import shutil
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import clinometer as cm
from clinometer.errors import Code, InvalidInputError, ModelError, RunCorruptError, RunError, SuiteError
from clinometer.pipeline.comparison_page import comparison_tables, write_comparison
from clinometer.pipeline.results import write_report
from clinometer.runs import record
from clinometer.runs.ledger import STRIPS, part_name, trace_name
from clinometer.runs.several import pooled
from clinometer.studies import study_of
from tests import quick
from tests.builders import tiny_stable_diffusion
from tests.raising import raises
from tests.toys import Eye, Notes, Painter, Sketcher, crossed_suite, toy_suite, toy_t2iat_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

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


@pytest.mark.thorough
def test_the_images_and_all_other_numbers_are_those_of_a_run_without_tracing(runs):
    traced, plain = runs
    assert traced.samples["sha256"].tolist() == plain.samples["sha256"].tolist()
    others = traced.scores[traced.scores.metric != "trace"].reset_index(drop=True)
    pd.testing.assert_frame_equal(others, plain.scores)
    assert set(traced.scores.metric) - set(plain.scores.metric) == {"trace"}


@pytest.mark.thorough
def test_the_last_step_has_the_vectors_of_the_images(runs):
    traced, _ = runs
    images, last = traced.embeddings("eye"), traced.traces.at("eye", 3)
    assert images.keys() == last.keys()
    assert max(abs(images[key] - last[key]).max() for key in images) < 0.05
    assert traced.traces.record == {"steps": [1, 3], "total": 3, "decoder": None, "latents": False}
    assert {step for pictures in traced.traces.strips().values() for step in pictures} == {1, 3}


@pytest.mark.thorough
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
    with raises(RunError, code=Code.MISMATCH, field="trace_steps", match=r"steps \[1, 3\], not \[1, 2, 3\]"):
        cm.trace_run(plain.url, model=model, encoder=Eye(), steps="all")


def test_a_part_of_the_trace_that_was_changed_or_is_gone_is_found(runs, tmp_path):
    run = cm.open_run(shutil.copytree(runs[0].url, tmp_path / "run"))
    part = next((tmp_path / "run" / "trace" / "eye").glob("part-*.parquet"))
    content = bytearray(part.read_bytes())
    content[len(content) // 3] ^= 1
    part.write_bytes(content)
    with raises(RunCorruptError, code=Code.CORRUPT, match="trace/eye"):
        run.traces.at("eye", 1)
    part.unlink()
    with raises(RunCorruptError, code=Code.CORRUPT, match="missing"):
        cm.api.verify_run(run.url)


def test_what_cannot_be_traced_is_refused_in_a_line(runs, plain, model, tmp_path):
    asked = {"encoder": Eye(), "trace": True, **OPTIONS}
    with raises(ModelError, code=Code.UNSUPPORTED, field="trace", match="finished images alone"):
        cm.audit(Painter(), toy_suite(**SUITE), tmp_path / "a", encoder=Eye(), trace=True)
    with raises(ModelError, code=Code.OUT_OF_RANGE, field="trace_steps", match="found 9 steps, expected 1 to 3"):
        cm.audit(model, toy_suite(**SUITE), tmp_path / "b", trace_steps=9, **asked)
    with raises(SuiteError, code=Code.UNSUPPORTED, match="one pair of groups"):
        cm.audit(model, crossed_suite(), tmp_path / "c", **asked)
    with raises(SuiteError, code=Code.UNSUPPORTED, match="study leaning"):
        cm.audit(model, toy_t2iat_suite(), tmp_path / "d", **asked)
    with raises(InvalidInputError, code=Code.CONFLICT, field="trace_steps"):
        cm.audit(model, toy_suite(**SUITE), tmp_path / "e", trace_steps=2)
    with raises(InvalidInputError, code=Code.CONFLICT, field="trace"):
        cm.audit(model, toy_suite(**SUITE), tmp_path / "f", until="decided", **asked)
    assert not list(tmp_path.glob("[a-f]"))
    with raises(RunError, code=Code.MISMATCH, match="another model than tiny"):
        cm.trace_run(plain.url, model=model, encoder=Eye(), model_options={"steps": 2})


SKETCHED = toy_suite(target=12, attribute=6, concepts=4)


def sketched(out, *, trace_steps="1,2,3,4", seed=0, workers=None, trace=True, **model):
    return quick.audit(
        Sketcher(**model), SKETCHED, out, encoder=Eye(), seed=seed, workers=workers, trace=trace,
        trace_steps=trace_steps if trace else None,
    )  # fmt: skip


class Sketches(dict):
    """Runs whose concepts lean from steps 2, 3 and 4 on, the last redder as well; another seed, and another trace.

    Each is drawn when a test first asks for it.
    """

    OPTIONS: ClassVar = {
        "second": {"sets_in": 2},
        "third": {"sets_in": 3},
        "redder": {"sets_in": 4, "redder": 2.0, "name": "redder"},
        "seed": {"sets_in": 3, "seed": 1},
        "otherwise": {"sets_in": 3, "seed": 2, "trace_steps": "2,4"},
        "untraced": {"sets_in": 3, "seed": 3, "trace": False},
    }

    def __init__(self, folder):
        self.folder = folder

    def __missing__(self, name):
        self[name] = sketched(self.folder / name, **self.OPTIONS[name])
        return self[name]


@pytest.fixture(scope="module")
def sketches(tmp_path_factory):
    return Sketches(tmp_path_factory.mktemp("sketches"))


def with_column(name, cells):
    return lambda table: table.set_column(table.column_names.index(name), name, pa.array(cells(table)))


FOREIGN = {
    "its rows are not each of its images": with_column("step", lambda t: pa.array([9] * len(t), pa.int32())),
    "at each of the steps [1, 2, 3, 4], once": lambda table: table.slice(1),
    "once)": lambda table: pa.concat_tables([table, table.slice(0, 1)]),
    "which is no image of this part": with_column("id", lambda t: [f"{row:x}" for row in range(len(t))]),
    "'step' holds string": with_column("step", lambda t: ["1"] * len(t)),
    "'vector' is empty in 1 of": with_column(
        "vector", lambda t: pa.array([None, *t["vector"].to_pylist()[1:]], t["vector"].type)
    ),
    "'vector' holds string": with_column("vector", lambda t: ["x"] * len(t)),
    "'vector' holds list<": with_column("vector", lambda t: [[0.5] * (row % 3 + 1) for row in range(len(t))]),
}


@pytest.mark.thorough
def test_a_trace_that_somebody_sealed_again_is_no_trace_of_other_images_or_steps(sketches, tmp_path):
    """Most of these gave other numbers without a word, the others a traceback."""
    run = cm.open_run(shutil.copytree(sketches["third"].url, tmp_path / "run"))
    name = trace_name("eye", 1)
    whole = run.ledger.read_table(name)
    for said, change in FOREIGN.items():
        run.ledger.write_table(name, change(whole))
        run.ledger.list_files()
        with raises(RunCorruptError, code=Code.CORRUPT, match=f"{re.escape(name)}: .*{re.escape(said)}") as raised:
            run.traces.at("eye", 1)
        assert "\n" not in str(raised.value)
    run.ledger.write_table(name, whole.slice(0, 0))  # of a part whose images were all refused
    run.ledger.list_files()
    assert run.traces.at("eye", 1).keys() == sketches["third"].traces.at("eye", 1).keys() - set(whole["id"].to_pylist())
    strips = part_name(STRIPS, 0)
    pictures = run.ledger.read_table(strips)
    run.ledger.write_table(strips, with_column("image", lambda t: ["x"] * len(t))(pictures))
    with raises(RunCorruptError, code=Code.CORRUPT, match="'image' .*string"):
        run.traces.strips()


@pytest.mark.parametrize(
    "trace",
    [[1], "x", {"steps": "14"}, {"steps": [1, 1]}, {"steps": [2, 1]}, {"steps": [0]}, {"steps": [5]}, {"steps": []},
     {"total": "<script>"}, {"total": 1e308}, {"total": None}, {"decoder": {}}],
)  # fmt: skip
def test_a_record_that_tells_no_steps_is_refused_in_a_line(sketches, trace):
    said = sketches["third"].record
    other = said | {"trace": said["trace"] | trace if isinstance(trace, dict) else trace}
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"^run\.json: trace") as raised:
        record.require_whole(record.with_checksum(other), "run.json")
    assert "\n" not in str(raised.value)


def of_trace(scores, component):
    rows = scores[(scores.metric == "trace") & (scores.component == component) & (scores.encoder == "mean")]
    return rows[rows.concept != ""]


def test_two_traced_runs_are_compared_step_by_step_in_pairs(sketches):
    runs = sketches["third"], sketches["redder"]
    (found,) = cm.compare(*runs)
    rows = of_trace(found.scores, "image_part")
    assert found.paired
    assert set(rows.setting) == {f"step {step}" for step in (1, 2, 3, 4)}
    for step in (1, 2, 3, 4):
        at, own = (of_trace(run.scores, "image_part") for run in runs)
        values = [each[each.setting == f"step {step}"].set_index("concept").value for each in (at, own)]
        np.testing.assert_allclose(
            rows[rows.setting == f"step {step}"].set_index("concept").value, values[1] - values[0], atol=1e-12
        )
    before, last = (rows[rows.setting == f"step {step}"] for step in (2, 4))
    assert (before.value == 0).all()  # both are grey, from one noise
    assert (before.verdict == "shown to lean alike within the margin").all() or (before.p == 1).all()
    assert (last.low > 0).all()
    assert (last.family == "trace, step 4: image_part").all()
    compared = found.scores[(found.scores.metric == "comparison") & (found.scores.encoder == "mean")]
    compared = compared.set_index(["component", "concept"]).value
    np.testing.assert_allclose(last.value, [compared["image_part", name] for name in last.concept], atol=1e-6)
    parting = of_trace(found.scores, "parting").set_index("concept")
    assert set(parting.value) <= {3.0, 4.0}
    assert set(parting.group) == {"man"}


def test_an_onset_is_so_many_steps_later_within_the_ends_of_both(sketches):
    (found,) = cm.compare(sketches["second"], sketches["redder"])
    own = [of_trace(sketches[name].scores, "onset").set_index("concept") for name in ("second", "redder")]
    later = of_trace(found.scores, "onset").set_index("concept")
    known = later[later.value.notna()]
    assert (own[1].value - own[0].value)[known.index].eq(known.value).all()
    assert (known.value == 2).any()
    assert ((known.low <= known.value) & (known.value <= known.high)).all()
    unknown = later[later.value.isna()]
    assert unknown.reason.str.contains("run: the finished images are not shown to lean").all()
    tables = {table.title: table for table in comparison_tables(found, ("early", "late"))}
    (table,) = (own for title, own in tables.items() if title == "On the way to the images: late compared with early")
    assert len(table.rows) == 4
    assert any(row[1].startswith("+2 [") for row in table.rows)


@pytest.mark.thorough
@pytest.mark.pages
def test_the_page_of_a_comparison_draws_the_curves_of_both(sketches, tmp_path):
    found = cm.compare(sketches["second"], sketches["redder"])
    page = write_comparison(found, tmp_path / "beside")
    html = (tmp_path / "beside" / "comparison.html").read_text()
    assert page
    assert 'id="ways-heading"' in html
    assert "sets in later by" in html


@pytest.mark.thorough
def test_runs_that_are_not_paired_are_compared_step_by_step_too_and_of_one_trace_nothing_is_told(sketches):
    (found,) = cm.compare(sketches["third"], sketches["seed"])
    rows = of_trace(found.scores, "image_part")
    assert not found.paired
    assert rows.test.str.startswith("unpaired").all()
    assert (rows[rows.setting == "step 4"].low < 0).all()
    (found,) = cm.compare(sketches["third"], sketches["otherwise"])
    assert set(of_trace(found.scores, "image_part").setting) == {"step 2", "step 4"}
    (found,) = cm.compare(sketches["third"], sketches["untraced"])
    assert not len(of_trace(found.scores, "onset"))


@pytest.mark.thorough
def test_runs_put_together_share_their_steps_and_say_where_they_share_none(sketches):
    def onset(*names):
        run = pooled([sketches[name] for name in names])
        return run, study_of(run.suite).score(run, 99).scores

    run, scores = onset("third", "seed")
    assert run.traces.record["steps"] == [1, 2, 3, 4]
    assert (of_trace(scores, "image_part").n_target == 24).all()
    assert (of_trace(scores, "onset").value.dropna() == 3).any()
    run, scores = onset("third", "otherwise")
    assert run.traces.record["steps"] == [2, 4]
    assert set(of_trace(scores, "image_part").setting) == {"step 2", "step 4"}
    assert (of_trace(scores, "image_part").n_target == 24).all()
    run, scores = onset("third", "untraced")
    assert not len(of_trace(scores, "image_part"))
    assert set(of_trace(scores, "onset").reason) == {"not all of the runs put together were traced"}


@pytest.mark.thorough
def test_several_workers_trace_as_one_process_does(sketches, tmp_path):
    run, alone = sketched(tmp_path / "run", sets_in=3, workers=2), sketches["third"]
    pd.testing.assert_frame_equal(run.scores, alone.scores)
    for step in (1, 4):
        own, other = (each.traces.at("eye", step) for each in (run, alone))
        assert {key: vector.tobytes() for key, vector in own.items()} == {
            key: vector.tobytes() for key, vector in other.items()
        }
    assert cm.api.verify_run(run.url) > 0
