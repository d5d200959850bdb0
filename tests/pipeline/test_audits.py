"""The audit from end to end, with a painter whose leanings are known: resumed, split, repeated, interrupted."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.errors import (
    ClinometerError,
    Code,
    InvalidInputError,
    ModelError,
    ModelNotFoundError,
    RunCorruptError,
    RunMismatchError,
    RunNotFoundError,
    RunStorageError,
)
from clinometer.models.protocols import GenerationResult
from tests import quick
from tests.old_runs import as_of_format_1
from tests.raising import raises
from tests.runs.stopped import Stopping, table_bytes
from tests.toys import Eye, Painter, paint, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")


def sibling(*case):
    """A case that `make test` leaves out, as another of the same test runs through the same code."""
    return pytest.param(*case, marks=pytest.mark.thorough)


def audit(out, **options):
    options = {"model": Painter(), "suite": toy_suite(), "encoder": Eye(), "out": out} | options
    return quick.audit(**options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture
def run(tmp_path, finished):
    """The finished run, for who changes it."""
    return cm.open_run(shutil.copytree(finished.url, tmp_path / "run"))


@pytest.mark.pages
def test_a_run_holds_everything_the_design_names(tmp_path):
    finished = audit(tmp_path / "run")
    for name in ("run.json", "plan.parquet", "scores.parquet", "scores.csv", "curves.parquet", "report.html"):
        assert finished.directory.exists(name), name
    assert finished.directory.exists("samples/part-00000.parquet")
    assert finished.directory.exists("embeddings/eye/part-00000.parquet")
    assert not [name for name in os.listdir(finished.directory.root) if name.endswith(".tmp")]
    versions = finished.record["versions"]
    assert (versions["numpy"], versions["clinometer"]) == (np.__version__, cm.__version__)


def test_scores_find_what_was_painted(finished):
    scores = finished.scores
    rows = scores[(scores.metric == "mcas") & (scores.component == "mcas") & (scores.encoder == "mean")]
    values = rows.set_index("concept").value
    assert list(values.sort_values().index) == [f"concept {lean:.2f}" for lean in (0.2, 0.4, 0.6, 0.8)]
    assert values["concept 0.20"] < 0 < values["concept 0.80"]
    assert (rows.low <= rows.value).all()
    assert (rows.value <= rows.high).all()


def pictures(run):
    """The pixels of a run, by prompt and seed."""
    samples = run.samples
    drawn = (content for _, content in run.images(samples.id))
    return dict(zip(zip(samples.prompt, samples.seed, strict=True), drawn, strict=True))


@pytest.mark.parametrize(
    "asked",
    quick.thorough_but(
        [1, "1", ["concept 0.20", "concept 0.60"], "concept 0.20, concept 0.60"], 1, "concept 0.20, concept 0.60"
    ),
)
def test_fewer_concepts_are_drawn_with_the_same_pictures(tmp_path, finished, asked):
    run = audit(tmp_path / "run", concepts=asked)
    assert [target.name for target in run.suite.targets] == ["concept 0.20", "concept 0.60"]
    assert {sample.concept for sample in run.plan} - {""} == {"concept 0.20", "concept 0.60"}
    whole = pictures(finished)
    assert all(whole[key] == picture for key, picture in pictures(run).items())
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.component == "image_part")]
    assert set(rows.concept) == {"concept 0.20", "concept 0.60"}


def test_a_run_of_fewer_concepts_goes_on_with_the_same_alone(tmp_path):
    run = audit(tmp_path / "run", concepts=1)
    assert cm.open_run(run.url).record["options"]["concepts"] == 1
    painter = Painter()
    audit(tmp_path / "run", concepts=1, model=painter)
    assert painter.drawn == 0
    for other in (None, 2, ["concept 0.20"]):
        with raises(RunMismatchError, code=Code.MISMATCH, match="suite"):
            audit(tmp_path / "run", concepts=other)


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (["concept 0.21"], Code.UNKNOWN_NAME, r"'concept 0\.21'; did you mean concept 0\.20\?"),
        (0, Code.MALFORMED, "from 1 up, .*found 0"),
        (" ,", Code.MALFORMED, "from 1 up"),
    ],
)
def test_concepts_that_are_not_there_are_named(tmp_path, asked, code, said):
    with raises(ClinometerError, code=code, field="concepts", match=said) as caught:
        audit(tmp_path / "run", concepts=asked)
    assert caught.value.fields == ("concepts",)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None])
def test_a_seed_that_scoring_would_refuse_costs_no_image(tmp_path, seed):
    for begin in (
        lambda: audit(tmp_path / "run", seed=seed),
        lambda: quick.import_images(tmp_path, tmp_path / "run", seed=seed),
    ):
        with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="seed", match=f"found {seed!r}"):
            begin()
    assert not (tmp_path / "run").exists()


def test_a_seed_of_numpy_is_a_seed(tmp_path, finished):
    assert table_bytes(audit(tmp_path / "run", seed=np.int64(0))) == table_bytes(finished)


@pytest.mark.parametrize(
    "option",
    [{"steps": 4}, {"guidance_scale": 2.0}, {"batch_size": 2}, {"dtype": "float16"}, {"model_options": {"height": 8}}],
)
def test_a_setting_that_a_loaded_model_cannot_take_is_refused_by_name(tmp_path, option):
    name = "height" if "model_options" in option else next(iter(option))
    with raises(ModelError, code=Code.CONFLICT, field=name, match="painter is loaded already"):
        audit(tmp_path / "run", **option)
    assert not (tmp_path / "run").exists()


def test_an_encoder_is_a_path_too(tmp_path):
    for each in (tmp_path / "nothing", [tmp_path / "nothing"]):
        with raises(ModelNotFoundError, code=Code.NOT_FOUND, match=r"no encoder '.*nothing'"):
            audit(tmp_path / "run", encoder=each)
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, match=r"no encoder '.*nothing'"):
        cm.association_test(encoder=tmp_path / "nothing")


def test_no_encoder_at_all_costs_no_image(tmp_path):
    with raises(ModelError, code=Code.MISSING, field="encoder", match="found none"):
        audit(tmp_path / "run", encoder=[])
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "run").exists()


def test_an_opened_run_reads_the_same(finished):
    again = cm.open_run(finished.url)
    pd.testing.assert_frame_equal(again.scores, finished.scores)
    assert again.suite == toy_suite()
    assert len(again.samples) == len(again.plan) == 4 * 6 + 6 * 5
    assert "painter × suite toy" in repr(again)
    assert "<" in again._repr_html_()


def test_images_open_in_datasets(finished):
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_dataset(
        "parquet",
        data_files=f"{finished.directory.root}/samples/*.parquet",
        split="train",
        cache_dir=f"{finished.url}-cache",
    )
    assert rows[0]["image"].size == (8, 8)
    assert rows.num_rows == len(finished.plan)


def test_running_a_finished_audit_again_draws_nothing(finished):
    before = table_bytes(finished)
    painter, eye = Painter(), Eye()
    again = audit(finished.url, model=painter, encoder=eye)
    assert (painter.drawn, eye.seen) == (0, 0)
    assert table_bytes(again) == before


@pytest.mark.parametrize("batch_size", quick.thorough_but([1, 3, 50], 3, 50))
def test_scores_do_not_depend_on_how_the_run_is_cut(tmp_path, finished, batch_size):
    run = audit(tmp_path / "run", model=Painter(batch_size=batch_size))
    assert table_bytes(run) == table_bytes(finished)


@pytest.mark.parametrize("after", quick.thorough_but([0, 1, 13, 53], 13))
def test_a_stopped_run_goes_on_and_ends_the_same(tmp_path, finished, after):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        audit(out, model=Stopping(after))
    painter = Painter()
    run = audit(out, model=painter)
    assert painter.drawn <= len(run.plan) - 8 * max(after // 8 - 1, 0)
    assert table_bytes(run) == table_bytes(finished)


@pytest.mark.parametrize("after", quick.thorough_but([0, 1, 13, 53], 13))
def test_what_is_paid_for_is_kept_when_the_user_stops_the_run(tmp_path, finished, after):
    stopping, painter = Stopping(after), Painter()
    stopping.price_per_image = painter.price_per_image = 0.01
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", model=stopping, budget=1.0)
    run = cm.open_run(tmp_path / "run")
    assert sum(len(run.drawn.missing(part)) for part in run.parts) == len(run.plan) - after
    assert len(run.samples) == after // 8 * 8  # a part that exists is whole
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match=f"{len(run.plan) - after} of 54 images"):
        cm.score_run(run.url, encoder=Eye())
    run = audit(run.url, model=painter, budget=1.0)
    assert painter.drawn == len(run.plan) - after
    assert table_bytes(run) == table_bytes(finished)
    assert not run.directory.names("unfinished", ".parquet")


class Unready(Painter):
    """Its first three images fail."""

    def generate(self, requests):
        for result in super().generate(requests):
            yield GenerationResult(result.id, "failed", None, "not yet") if self.drawn <= 3 else result


def test_a_retry_that_is_stopped_keeps_what_is_paid_for(tmp_path, finished):
    audit(tmp_path / "run", model=Unready())
    stopping = Stopping(2)
    stopping.price_per_image = 0.01
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", model=stopping, retry_failed=True, budget=1.0)
    assert (cm.open_run(tmp_path / "run").samples.status == "failed").sum() == 1
    assert table_bytes(audit(tmp_path / "run", retry_failed=True)) == table_bytes(finished)


SCRIPT = """
import sys
from tests import quick
from tests.toys import Eye, Painter, toy_suite
quick.audit(Painter(halt=int(sys.argv[2])), toy_suite(), sys.argv[1], encoder=Eye())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("drawn", "parts"), [pytest.param(3, 0, marks=pytest.mark.thorough), (30, 3)])
def test_a_killed_run_goes_on_and_ends_the_same(tmp_path, finished, drawn, parts):
    out = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(out), str(drawn)], cwd=Path(__file__).parents[2])
    while not (out / "run.json").exists() or len(list(out.glob("samples/part-*.parquet"))) < parts:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "scores.parquet").exists()
    assert table_bytes(audit(out)) == table_bytes(finished)


also_with_its_page = pytest.mark.parametrize(
    "page", [False, pytest.param(True, marks=(pytest.mark.pages, pytest.mark.thorough))], ids=["scored", "page"]
)
"""What is no ordinary run has its page drawn in the thorough half: the page takes longer than all the rest."""


class Killed(BaseException):
    """Ends a process where it stands."""


KILLED_AT = ["plan.parquet", "run.json", "samples/part-00003.parquet", "embeddings/eye/texts.parquet"]


@pytest.mark.parametrize(
    ("file", "torn"),
    [
        (KILLED_AT[0], True),
        sibling(KILLED_AT[0], False),
        (KILLED_AT[1], False),
        sibling(KILLED_AT[1], True),
        (KILLED_AT[2], True),
        sibling(KILLED_AT[2], False),
        sibling(KILLED_AT[3], True),
        sibling(KILLED_AT[3], False),
    ],
)
def test_a_run_killed_at_a_file_goes_on_and_leaves_nothing_behind(tmp_path, monkeypatch, finished, file, torn):
    replace = os.replace

    def kill(temporary, path):
        if str(path).endswith(file):
            if torn:
                os.truncate(temporary, 100)
            raise Killed
        replace(temporary, path)

    monkeypatch.setattr("clinometer.runs.files.os.replace", kill)
    with pytest.raises(Killed):
        audit(tmp_path / "run")
    monkeypatch.undo()
    left = [path for path in (tmp_path / "run").rglob("*.tmp") if not path.name.startswith(".")]
    assert not left
    assert table_bytes(audit(tmp_path / "run")) == table_bytes(finished)
    if file != "plan.parquet":  # where nothing says yet whose the directory is
        assert not list((tmp_path / "run").rglob("*.tmp"))


def test_a_plan_of_ones_own_is_no_run(tmp_path):
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "plan.parquet")
    with raises(RunMismatchError, code=Code.MISMATCH, match="not a run directory"):
        audit(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"suite": toy_suite(target=7)}, r"suite 'toy' \(6 .* not of suite 'toy' \(7 "),
        ({"model": Painter(name="other")}, "name painter → other"),
        ({"model": Painter(refuse="x")}, r"refuse\s+→ x"),
        ({"seed": 5}, "seed 0, not of seed 5"),
    ],
)
def test_a_run_of_something_else_is_refused_by_name(finished, change, words):
    before = table_bytes(finished)
    with raises(RunMismatchError, code=Code.MISMATCH, match=words):
        audit(finished.url, **change)
    assert table_bytes(finished) == before


def test_a_directory_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    with raises(RunMismatchError, code=Code.MISMATCH, match="not a run directory"):
        audit(tmp_path)
    assert os.listdir(tmp_path) == ["diary.txt"]  # not even a lock


def test_what_differs_in_an_encoder_is_told_alone_and_in_short(tmp_path):
    """What run.json holds has been JSON: its lists were tuples."""

    def eye(mean, weights):
        made = Eye()
        settings = {"preprocessing": {"mean": mean, "size": (8, 8)}}
        made.card = dataclasses.replace(made.card, settings=settings, weights_sha256=weights)
        return made

    audit(tmp_path / "run", encoder=eye((0.5, 0.4), "a" * 64))
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"'eye' \(weights_sha256 aaaaaaaa → bbbbbbbb\)"):
        audit(tmp_path / "run", encoder=eye((0.5, 0.4), "b" * 64))
    with raises(
        RunMismatchError, code=Code.MISMATCH, match=r"'eye' \(preprocessing\.mean \[0\.5, 0\.4\] → \[0\.5, 0\.3\]\)"
    ):
        audit(tmp_path / "run", encoder=eye((0.5, 0.3), "a" * 64))


class Mirrored(Eye):
    """Sees green where there is red."""

    def __init__(self, name):
        super().__init__(name)
        self.card = dataclasses.replace(self.card, family="toy/mirrored")

    def encode_images(self, images):
        return super().encode_images(images)[:, [1, 0, 2]]


@pytest.mark.parametrize(
    ("first", "second"),
    [("RN50/openai", "RN50-openai"), sibling("Eye", "eye"), ("eye", "eye"), sibling("\u6a21\u578b", "\u773c\u775b")],
)
def test_no_encoder_is_given_the_embeddings_of_another(tmp_path, first, second):
    painter = Painter()
    with raises(ModelError, code=Code.CONFLICT, match=f"{first}.*{second}.* embeddings/"):
        audit(tmp_path / "run", model=painter, encoder=[Eye(first), Mirrored(second)])
    assert painter.drawn == 0
    audit(tmp_path / "run", encoder=Eye(first))
    with raises(RunMismatchError, code=Code.MISMATCH, match=f"{first}.*|another encoder named"):
        cm.score_run(tmp_path / "run", encoder=Mirrored(second))


def test_no_encoder_takes_the_name_of_the_mean_over_encoders(tmp_path):
    painter = Painter()
    with raises(ModelError, code=Code.CONFLICT, match="encoder 'mean'"):
        audit(tmp_path / "run", model=painter, encoder=Eye("mean"))
    assert painter.drawn == 0


def test_another_encoder_under_the_same_name_is_refused(run):
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"another encoder named 'eye'.*size None → 9"):
        cm.score_run(run.url, encoder=other_eye())


def other_eye():
    eye = Eye()
    eye.card = type(eye.card)(kind="encoder", name="eye", family="toy/eye", settings={"size": 9})
    return eye


def test_another_encoder_is_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", model=Stopping(20))
    run = cm.open_run(tmp_path / "run")
    run.encoders.begin(Eye().card)
    run.vectors.write_texts("eye", ["he"], np.ones((1, 3)))
    painter = Painter()
    with raises(RunMismatchError, code=Code.MISMATCH, match="another encoder named 'eye'"):
        audit(tmp_path / "run", model=painter, encoder=other_eye())
    assert painter.drawn == 0


def test_another_encoder_may_take_the_place_of_embeddings_that_are_deleted(run):
    shutil.rmtree(run.directory.path("embeddings/eye"))
    cm.score_run(run.url, encoder=other_eye())
    assert cm.open_run(run.url).encoder_cards["eye"]["settings"] == {"size": 9}
    with raises(RunMismatchError, code=Code.MISMATCH, match="another encoder named 'eye'"):
        cm.score_run(run.url, encoder=Eye())


@pytest.mark.parametrize(
    ("first", "second"), [("模型", "编码器"), sibling("B-32/openai", "B-32-openai"), sibling("Eye", "eye")]
)
def test_two_encoders_never_share_a_folder(tmp_path, first, second):
    run = audit(tmp_path / "run", encoder=Eye(first))
    with raises(RunMismatchError, code=Code.MISMATCH, match=f"encoder '{second}' .*embeddings/.* encoder '{first}'"):
        cm.score_run(run.url, encoder=Eye(second))
    assert list(cm.open_run(run.url).encoder_cards) == [first]


def test_images_that_are_not_drawn_are_not_encoded(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", model=Stopping(20))
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match=r"\d+ of 54 images"):
        cm.score_run(tmp_path / "run", encoder=Eye("second"))
    assert not cm.open_run(tmp_path / "run").encoder_cards
    assert audit(tmp_path / "run").is_scored


@also_with_its_page
def test_an_encoder_is_added_to_a_finished_run(run, page):
    before = run.scores
    painter_parts = {name: run.directory.read_bytes(name) for name in run.directory.names("samples", ".parquet")}
    scores = cm.score_run(run.url, encoder=Eye("second"))
    assert {"eye", "second", "mean"} <= set(scores.encoder)
    assert painter_parts == {
        name: run.directory.read_bytes(name) for name in run.directory.names("samples", ".parquet")
    }
    one = before[(before.metric == "mcas") & (before.encoder == "eye")].value.to_numpy()
    same = scores[(scores.metric == "mcas") & (scores.encoder == "eye")].value.to_numpy()
    np.testing.assert_array_equal(one, same)


@also_with_its_page
def test_refused_images_are_counted_and_left_out(tmp_path, page):
    run = audit(tmp_path / "run", model=Painter(refuse="lean 0.20"))
    counts = run.samples.status.value_counts()
    assert counts["refused"] == 6
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.concept == "concept 0.20")]
    undefined = rows[rows.component.isin(["ii", "ita", "mcas"])]
    assert undefined.value.isna().all()
    assert (undefined.reason != "").all()
    others = run.scores[(run.scores.metric == "mcas") & (run.scores.concept == "concept 0.80")]
    assert others.value.notna().all()


@pytest.mark.thorough
@pytest.mark.pages
def test_refusals_that_differ_between_groups_are_a_finding(tmp_path):
    run = audit(tmp_path / "run", model=Painter(refuse=" men"))
    rows = run.scores[run.scores.metric == "refusal"].set_index(["component", "concept", "group"])
    assert rows.value["rate", "", "man"] == 1
    assert rows.value["rate", "", "woman"] == 0
    difference = rows.loc["difference", "", "man"]
    assert (difference.value, difference.n_a, difference.n_b) == (1, 10, 10)
    assert difference.p == 0.5  # two matched pairs of prompts: 2 of 4 splits are as extreme
    assert "refused" in run.directory.read_bytes("report.html").decode()
    assert not (cm.open_run(audit(tmp_path / "whole").url).scores.metric == "refusal").any()


class Misbehaving(Eye):
    def __init__(self, images=lambda vectors: vectors, texts=lambda vectors: vectors):
        super().__init__()
        self.images, self.texts = images, texts

    def encode_images(self, images):
        return self.images(super().encode_images(images))

    def encode_texts(self, texts):
        return self.texts(super().encode_texts(texts))


def stop(vectors):
    raise RuntimeError("no more\nsecond line")


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"images": stop}, Code.FAILED, "RuntimeError: no more"),
        sibling({"texts": stop}, Code.FAILED, "RuntimeError: no more"),
        (
            {"images": lambda vectors: vectors[:-1]},
            Code.WRONG_SHAPE,
            r"found ndarray of float32, \(7, 3\), expected .* \(8, 3\)",
        ),
        (
            {"texts": lambda vectors: vectors[:-1]},
            Code.WRONG_SHAPE,
            r"expected an array of numbers, \(\d+, dimension\)",
        ),
        sibling({"images": lambda vectors: vectors[:, 0]}, Code.WRONG_SHAPE, r"found ndarray of float32, \(8,\)"),
        sibling({"images": lambda vectors: vectors[:, :0]}, Code.WRONG_SHAPE, r"found ndarray of float32, \(8, 0\)"),
        sibling({"images": lambda vectors: vectors[:, :2]}, Code.WRONG_SHAPE, r"\(8, 2\), expected .* \(8, 3\)"),
        sibling({"images": lambda vectors: vectors.astype(object)}, Code.WRONG_SHAPE, r"found ndarray of object"),
        ({"images": lambda vectors: None}, Code.WRONG_SHAPE, r"found NoneType"),
        sibling({"images": lambda vectors: vectors * 0}, Code.NOT_FINITE, r"8 of 8 embeddings are zero"),
        ({"images": lambda vectors: vectors * np.float64(1e300)}, Code.NOT_FINITE, "8 of 8 embeddings are not"),
    ],
)
def test_an_encoder_that_gives_no_vectors_is_named_and_the_run_goes_on(tmp_path, finished, change, code, message):
    with raises(ModelError, code=code, match=f"^encoder eye: .*{message}"):
        audit(tmp_path / "run", encoder=Misbehaving(**change))
    painter = Painter()
    run = audit(tmp_path / "run", model=painter)
    assert painter.drawn == 0
    assert table_bytes(run) == table_bytes(finished)


class Bag(Eye):
    """A bag of words: of no word it makes nothing."""

    def encode_texts(self, texts):
        return super().encode_texts(texts) * np.array([[bool(text)] for text in texts])


@also_with_its_page
def test_an_encoder_may_make_nothing_of_the_blank_prompt(tmp_path, finished, page):
    run = audit(tmp_path / "run", encoder=Bag())
    assert not run.texts("eye")[""].any()
    scores, expected = (each.scores.set_index(["metric", "component", "concept"]) for each in (run, finished))
    pd.testing.assert_frame_equal(scores.loc["mcas"], expected.loc["mcas"])


class Odd(Painter):
    """Changes its tenth result."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def generate(self, requests):
        for result in super().generate(requests):
            yield self.change(result) if self.drawn == 10 else result


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (stop, Code.FAILED, "RuntimeError: no more"),
        sibling(lambda result: None, Code.FAILED, "it stopped with AttributeError: "),
        (
            lambda result: dataclasses.replace(result, status="great"),
            Code.WRONG_TYPE,
            "found status 'great' with an image",
        ),
        (lambda result: dataclasses.replace(result, image=None), Code.WRONG_TYPE, "found status 'ok' without an image"),
        sibling(
            lambda result: dataclasses.replace(result, image=np.zeros((4, 4, 3))),
            Code.WRONG_TYPE,
            "found status 'ok' without an image",
        ),
    ],
)
def test_a_generator_that_gives_no_images_is_named_and_the_run_goes_on(tmp_path, finished, change, code, message):
    with raises(ModelError, code=code, match=f"^generator painter.*{message}"):
        audit(tmp_path / "run", model=Odd(change))
    painter = Painter()
    run = audit(tmp_path / "run", model=painter)
    assert 0 < painter.drawn < len(run.plan)
    assert table_bytes(run) == table_bytes(finished)


@pytest.mark.parametrize("poison", ["images", "texts"])
def test_an_embedding_that_is_not_finite_ends_the_stage_and_loses_nothing(tmp_path, finished, poison):
    out = tmp_path / "run"
    with raises(ModelError, code=Code.NOT_FINITE, match="encoder eye: "):
        audit(out, encoder=Eye(poison=poison))
    painter = Painter()
    run = audit(out, model=painter)
    assert painter.drawn == 0
    assert table_bytes(run) == table_bytes(finished)


class Slow(Eye):
    """An encoder that the user stops after some images."""

    def encode_images(self, images):
        if self.seen > 8:
            raise KeyboardInterrupt
        return super().encode_images(images)


@pytest.mark.parametrize(
    "second", [Eye("second", poison="images"), sibling(Eye("second", poison="texts")), Slow("second")]
)
def test_an_encoder_that_never_finished_keeps_no_run_from_being_scored(run, finished, second):
    with pytest.raises((ModelError, KeyboardInterrupt)):
        cm.score_run(run.url, encoder=second)
    assert list(cm.open_run(run.url).encoder_cards) == ["eye"]
    cm.score_run(run.url)
    assert table_bytes(run) == table_bytes(finished)
    scores = cm.score_run(run.url, encoder=Eye("second"))
    assert {"eye", "second", "mean"} <= set(scores.encoder)
    Path(run.directory.path("embeddings/second/part-00002.parquet")).unlink()
    with raises(RunNotFoundError, code=Code.INCOMPLETE):
        cm.score_run(run.url)


def test_a_run_whose_only_encoder_never_finished_names_it(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", encoder=Slow())
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match="give: .* --encoder eye"):
        cm.score_run(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (list(record["encoders"]), list(record["begun_encoders"])) == ([], ["eye"])


@pytest.mark.thorough
def test_embeddings_that_were_begun_do_not_outlive_their_images(tmp_path):
    fickle = Fickle()
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", model=fickle, encoder=Slow())
    run = cm.open_run(tmp_path / "run")
    before = run.embeddings("eye")
    run.directory.remove("samples/part-00000.parquet")
    after = audit(tmp_path / "run", model=fickle).embeddings("eye")
    redrawn = [sample.id for sample in run.parts[0] if sample.id in before and sample.id in after]
    assert redrawn
    assert all((before[key] != after[key]).any() for key in redrawn)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda vectors: vectors * np.nan, Code.NOT_FINITE),
        sibling(lambda vectors: vectors[:, :2], Code.WRONG_SHAPE),
    ],
)
def test_another_encoder_takes_the_place_of_one_that_gives_no_vectors(tmp_path, change, code):
    out = tmp_path / "run"
    with raises(ModelError, code=code, match="another encoder: what is drawn is kept$"):
        audit(out, encoder=Misbehaving(images=change))
    held = cm.open_run(out)
    assert not {**held.encoder_cards, **held.encoders.begun}
    painter = Painter()
    run = audit(out, model=painter, encoder=Eye("other"))
    assert painter.drawn == 0
    assert set(run.encoder_cards) == {"other"}
    assert set(run.scores.encoder) == {"other", "mean"}


class Forgetful(Painter):
    def generate(self, requests):
        yield from list(super().generate(requests))[1:]


def test_a_generator_that_loses_a_request_is_named(tmp_path):
    with raises(ModelError, code=Code.INCOMPLETE, match="1 of 8 requests"):
        audit(tmp_path / "run", model=Forgetful())


def test_a_generator_that_loses_a_paid_request_costs_the_others_nothing(tmp_path):
    forgetful = Forgetful()
    forgetful.price_per_image = 0.01
    with raises(ModelError, code=Code.INCOMPLETE, match="1 of 8 requests"):
        audit(tmp_path / "run", model=forgetful, budget=1.0)
    run = cm.open_run(tmp_path / "run")
    assert (
        sum(len(run.drawn.missing(part)) for part in run.parts) == len(run.plan) - forgetful.drawn + 2
    )  # two parts, less one


class Refusing(Painter):
    def generate(self, requests):
        for request in requests:
            yield GenerationResult(request.id, "refused", None, "not <b>allowed</b>")


@pytest.mark.pages
def test_a_run_without_a_single_image_says_so_everywhere(tmp_path):
    run = audit(tmp_path / "run", model=Refusing(), suite=toy_suite(target=4, attribute=2))
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.component == "mcas")]
    assert rows.value.isna().all()
    assert (rows.reason != "").all()
    assert b"<b>allowed</b>" not in run.directory.read_bytes("report.html")


class Dying(Painter):
    """Its device is lost after some images; as on a real one, all that follow fail."""

    def __init__(self, lives):
        super().__init__()
        self.lives = lives

    def generate(self, requests):
        for result in super().generate(requests):
            alive = self.drawn <= self.lives
            yield result if alive else GenerationResult(result.id, "failed", None, "CUDA error: an illegal address")


@pytest.mark.parametrize(("lives", "parts"), [sibling(0, 0), sibling(16, 2), (20, 3)])
def test_a_model_that_fails_image_after_image_is_stopped_and_its_run_goes_on(tmp_path, finished, lives, parts):
    out = tmp_path / "run"
    with raises(ModelError, code=Code.FAILED, match=r"painter: 32 images in a row .*: CUDA error: an illegal"):
        audit(out, model=Dying(lives))
    kept = cm.open_run(out).samples
    assert len(kept) == 8 * parts
    assert (kept.status == "ok").sum() == lives
    assert table_bytes(audit(out, retry_failed=lives % 8 > 0)) == table_bytes(finished)


def test_a_run_of_failures_alone_is_refused_however_few_they_are(tmp_path):
    few = toy_suite(target=1, attribute=1)
    assert few.image_count < 32
    with raises(ModelError, code=Code.FAILED, match=r"painter: all 10 images .*: CUDA error: an illegal"):
        audit(tmp_path / "run", model=Dying(0), suite=few)
    assert (audit(tmp_path / "run", suite=few).samples.status == "ok").all()


def test_failures_without_a_reason_are_failures(tmp_path):
    class Silent(Painter):
        def generate(self, requests):
            yield from (GenerationResult(request.id, "failed", None, "") for request in requests)

    with raises(ModelError, code=Code.FAILED, match="all 10 images .*: it gave no reason"):
        audit(tmp_path / "run", model=Silent(), suite=toy_suite(target=1, attribute=1))


@also_with_its_page
def test_one_image_that_did_not_fail_is_a_run(tmp_path, page):
    run = audit(tmp_path / "run", model=Dying(1), suite=toy_suite(target=1, attribute=1))
    assert (run.samples.status == "ok").sum() == 1


class Stubborn(Painter):
    def generate(self, requests):
        for result, request in zip(super().generate(requests := list(requests)), requests, strict=True):
            stuck = request.prompt in ("young men", "old men")
            yield GenerationResult(result.id, "failed", None, "too long") if stuck else result


@also_with_its_page
def test_a_prompt_that_fails_stops_no_run(tmp_path, page):
    run = audit(tmp_path / "run", model=Stubborn(), suite=toy_suite(attribute=40))
    assert (run.samples.status == "failed").sum() == 80


class Unlucky(Painter):
    def generate(self, requests):
        for result in super().generate(requests):
            unlucky = self.drawn % 10 == 0
            yield GenerationResult(result.id, "failed", None, "bad luck") if unlucky else result


@pytest.mark.thorough
@pytest.mark.pages
def test_failed_images_are_drawn_anew_when_asked(tmp_path, finished):
    run = audit(tmp_path / "run", model=Unlucky())
    assert (run.samples.status == "failed").sum() == 5
    assert table_bytes(run) != table_bytes(finished)
    painter = Painter()
    assert (audit(run.url, model=painter).samples.status == "failed").sum() == 5
    assert painter.drawn == 0
    again = audit(run.url, model=painter, retry_failed=True)
    assert painter.drawn == 5
    assert table_bytes(again) == table_bytes(finished)


class Fickle(Painter):
    """Never the same image twice, as of a model behind an API; the first call refuses some and fails at some."""

    def generate(self, requests):
        for request in requests:
            self.drawn += 1
            outcome = {2: "refused", 5: "failed"}.get(self.drawn % 8, "ok") if self.drawn <= 54 else "ok"
            image = paint(request.prompt, self.drawn) if outcome == "ok" else None
            yield GenerationResult(request.id, outcome, image, None if image else "not now")


@pytest.mark.thorough
def test_retrying_failures_leaves_refusals_and_images_alone(tmp_path):
    fickle = Fickle()
    before = audit(tmp_path / "run", model=fickle).samples.set_index("id")
    failed = before.status == "failed"
    run = audit(tmp_path / "run", model=fickle, retry_failed=True)
    after = run.samples.set_index("id")
    assert fickle.drawn == len(before) + failed.sum()
    assert list(after.index) == list(before.index)
    pd.testing.assert_frame_equal(after[~failed], before[~failed])
    assert (after.status[failed] == "ok").all()
    assert set(run.embeddings("eye")) == set(after.index[after.status == "ok"])


def test_a_retry_that_is_stopped_keeps_what_was_there(tmp_path, finished):
    audit(tmp_path / "run", model=Unlucky())
    with pytest.raises(KeyboardInterrupt):
        audit(tmp_path / "run", model=Stopping(2), retry_failed=True)
    painter = Painter()
    assert (audit(tmp_path / "run", model=painter).samples.status == "failed").sum() in (3, 4, 5)
    assert painter.drawn == 0
    assert table_bytes(audit(tmp_path / "run", retry_failed=True)) == table_bytes(finished)


def test_an_embedding_does_not_outlive_its_image(tmp_path):
    fickle = Fickle()
    run = audit(tmp_path / "run", model=fickle)
    before = run.embeddings("eye")
    run.directory.remove("samples/part-00001.parquet")
    after = audit(tmp_path / "run", model=fickle).embeddings("eye")
    redrawn = {sample.id for sample in run.parts[1]}
    assert {key for key in after if key not in before or (after[key] != before[key]).any()} == redrawn


def test_a_full_disk_keeps_the_parts_before(tmp_path, monkeypatch, finished):
    from clinometer.runs.storage import Directory

    write, written = Directory.write_bytes, []

    def fill_up(self, name, content):
        if name.startswith("samples/") and len(written) == 3:
            raise RunStorageError(f"{name}: cannot be written: No space left on device")
        written.extend([name] if name.startswith("samples/") else [])
        write(self, name, content)

    monkeypatch.setattr(Directory, "write_bytes", fill_up)
    with raises(RunStorageError, code=Code.STORAGE, match="No space left"):
        audit(tmp_path / "run")
    monkeypatch.undo()
    painter = Painter()
    run = audit(tmp_path / "run", model=painter)
    assert painter.drawn == len(run.plan) - 3 * 8
    assert table_bytes(run) == table_bytes(finished)


def test_a_damaged_part_is_named_and_can_be_redone(run, finished):
    path = Path(run.directory.path("embeddings/eye/part-00002.parquet"))
    path.write_bytes(path.read_bytes()[:100])
    with raises(RunCorruptError, code=Code.CORRUPT, match="part-00002"):
        cm.score_run(run.url)
    path.unlink()
    with raises(RunNotFoundError, code=Code.INCOMPLETE):
        cm.score_run(run.url)
    assert table_bytes(audit(run.url)) == table_bytes(finished)


def without(column):
    return lambda table: table.drop_columns([column])


def holding_nan(table):
    vectors = table["vector"].to_pylist()
    return table.set_column(
        1, "vector", pa.array([[float("nan")] * len(each) for each in vectors], table["vector"].type)
    )


@pytest.mark.filterwarnings("ignore::clinometer.errors.UncheckedRunWarning")
@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("plan.parquet", without("prompt"), "it has no column 'prompt'.*Restore it, or start a new run"),
        sibling("plan.parquet", lambda table: table.slice(1), "not the plan of what run.json asks.*Restore it"),
        sibling("samples/part-00001.parquet", without("status"), "it has no column 'status'.*Delete the file"),
        ("samples/part-00001.parquet", lambda table: table.slice(1), "not those of the plan's part 1.*Delete the file"),
        sibling("embeddings/eye/part-00001.parquet", without("vector"), "it has no column 'vector'.*Delete the file"),
        sibling(
            "embeddings/eye/part-00001.parquet",
            lambda table: table.slice(1),
            "it has no vector of image .*Delete the file",
        ),
        ("embeddings/eye/part-00001.parquet", holding_nan, "hold NaN or infinity, expected finite.*Delete the file"),
        sibling("embeddings/eye/texts.parquet", lambda table: table.slice(1), "it has no vector of '.*Delete the file"),
    ],
)
def test_a_table_that_lacks_something_is_named_and_the_way_out_mends_it(tmp_path, finished, name, damage, words):
    """By what it lacks in a run of format 1; in one of today its checksum says already that it is another table."""
    shutil.copytree(finished.url, tmp_path / "run")
    path = tmp_path / "run" / name
    whole = path.read_bytes()
    pq.write_table(damage(pq.read_table(path)), path)
    with raises(RunCorruptError, code=Code.CORRUPT, match=f"{name}: it (carries no checksum|is not what was written)"):
        audit(tmp_path / "run")
    path.write_bytes(whole)
    as_of_format_1(tmp_path / "run")
    pq.write_table(damage(pq.read_table(path)), path)
    with raises(RunCorruptError, code=Code.CORRUPT, match=f"{name}.*{words}"):
        audit(tmp_path / "run")
    if name != "plan.parquet":
        path.unlink()
        assert table_bytes(audit(tmp_path / "run")) == table_bytes(finished)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record.pop("encoders"), "encoders: it is missing"),
        (lambda record: record["model"].pop("fingerprint"), "model.fingerprint: it is missing"),
        (lambda record: record.update(seed="one"), "seed: .*found 'one'"),
        (lambda record: record.update(model=[]), "model: .*valid dictionary"),
    ],
)
def test_a_record_that_lacks_something_is_named(tmp_path, finished, change, words):
    shutil.copytree(finished.url, tmp_path / "run")
    path = tmp_path / "run/run.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with raises(RunCorruptError, code=Code.CORRUPT, match=rf"run\.json: {words}"):
        cm.score_run(path.parent)


def test_a_run_that_lost_images_is_not_scored_without_them(tmp_path, finished):
    shutil.copytree(finished.url, tmp_path / "run")
    (tmp_path / "run/samples/part-00001.parquet").unlink()
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match="8 of 54 images"):
        cm.score_run(tmp_path / "run")
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"samples/part-00001\.parquet: .*is missing\. Give the"):
        _ = cm.open_run(tmp_path / "run").samples


def test_a_run_of_another_version_is_refused(run):
    path = Path(run.directory.path("run.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with raises(RunCorruptError, code=Code.CORRUPT, match="format 99, expected 2 or 1"):
        _ = cm.open_run(run.url).suite


def test_no_run_is_named(tmp_path):
    with raises(RunNotFoundError, code=Code.NOT_FOUND):
        cm.open_run(tmp_path)


def test_pandas_and_pyarrow_open_the_parts(finished):
    table = pq.read_table(finished.directory.path("scores.parquet"))
    assert {
        "metric",
        "component",
        "concept",
        "category",
        "encoder",
        "value",
        "low",
        "high",
        "p",
        "q",
        "reason",
    } <= set(table.column_names)
    assert len(pd.read_csv(finished.directory.path("scores.csv"))) == table.num_rows
