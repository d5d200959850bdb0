"""A classification audit from end to end, stopped and continued, with images that fail."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.errors import Code, ImportManifestError, ModelError, RunCorruptError, RunNotFoundError, SuiteError
from clinometer.models.images import sha256
from clinometer.models.protocols import GenerationResult
from clinometer.runs import NoProgress, create_run, generate
from clinometer.runs.plan import build_plan
from clinometer.runs.record import new_record
from clinometer.studies.classification.study import elimination_of, group_errors
from tests import quick
from tests.raising import raises
from tests.toy_denoisers import ClassifyingPainter, toy_classification
from tests.toys import Painter


@pytest.fixture(scope="module")
def audited():
    return quick.finished(ClassifyingPainter(), toy_classification())


def rows(run, component, **equal):
    scores = run.scores
    chosen = (scores.metric == "classification") & (scores.component == component)
    for name, value in equal.items():
        chosen &= scores[name] == value
    return scores[chosen]


def files(run):
    folder = run.directory
    names = ["scores.csv", *folder.names("classifications", ".parquet"), "curves.parquet"]
    return {name: folder.read_bytes(name) for name in names}


def test_the_planted_difference_is_found(audited):
    gender = rows(audited, "differential", group="gender", setting="20 noise samples").iloc[0]
    assert (gender.verdict, gender.side) == ("leans", "men")
    assert gender.value > 0.9
    assert rows(audited, "differential", group="age", setting="20 noise samples").iloc[0].verdict == "undecided"
    by_noise = rows(audited, "differential", group="gender").set_index("setting").value
    assert by_noise["1 noise sample"] < by_noise["20 noise samples"]


def test_the_errors_are_kept_and_open_as_they_are(audited):
    table = pd.concat(pq.read_table(name).to_pandas() for name in
                      map(audited.directory.path, audited.directory.names("classifications", ".parquet")))  # fmt: skip
    assert len(table) == 24 * 4
    assert set(table.label) == {"pilot", "mechanic", "cook", "singer"}
    assert {len(errors) for errors in table.errors} == {20}
    assert set(table.evaluations) == {80}
    assert set(table.id) == set(audited.samples.id)
    assert audited.scores.encoder.unique().tolist() == ["denoiser"]
    assert set(audited.curves.curve) == {"association", "differential"}


def test_no_encoder_is_loaded(audited):
    assert audited.encoder_cards == {}


def test_scoring_anew_gives_the_same(audited):
    before = files(audited)
    cm.score_run(audited.url)
    assert files(audited) == before


def test_a_denoiser_that_stops_is_named_and_the_run_goes_on(tmp_path, audited):
    painter = ClassifyingPainter()
    measure, calls = painter.denoiser().errors, []

    def stop(*arguments):
        calls.append(1)
        if len(calls) > 40:
            raise RuntimeError("no more\nsecond line")
        return measure(*arguments)

    painter.denoiser().errors = stop
    with raises(ModelError, code=Code.FAILED, match=r"^denoiser of painter: .*RuntimeError: no more; [^\n]*$"):
        quick.audit(painter, toy_classification(), tmp_path / "run")
    assert cm.open_run(tmp_path / "run").directory.names("classifications", ".parquet")
    assert files(quick.audit(ClassifyingPainter(), toy_classification(), tmp_path / "run")) == files(audited)


@pytest.mark.parametrize("elimination", [None, 0.95])
@pytest.mark.parametrize("fail_after", [37, 600])
def test_a_run_stopped_in_the_timestep_loop_ends_the_same(tmp_path, elimination, fail_after):
    suite = toy_classification(elimination=elimination)
    whole = quick.audit(ClassifyingPainter(), suite, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        quick.audit(ClassifyingPainter(fail_after=fail_after), suite, tmp_path / "stopped")
    stopped = cm.open_run(tmp_path / "stopped")
    assert len(stopped.directory.names("classifications", ".parquet")) < len(stopped.parts)
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match="of 3 parts"):
        cm.score_run(tmp_path / "stopped")
    painter = ClassifyingPainter()
    resumed = quick.audit(painter, suite, tmp_path / "stopped")
    assert painter.drawn == 0
    assert files(resumed) == files(whole)


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_the_batch_size_decides_nothing(audited, tmp_path, rows_at_once):
    other = quick.audit(ClassifyingPainter(rows=rows_at_once), toy_classification(), tmp_path / "run")
    assert files(other) == files(audited)


def test_elimination_spends_less_and_decides_the_same(audited, tmp_path):
    thrifty = quick.audit(ClassifyingPainter(), toy_classification(elimination=0.99), tmp_path / "run")
    assert rows(thrifty, "evaluations").value.max() < 60
    pairs = [
        rows(run, "pair_association").set_index(["concept", "category", "group"]).value for run in (audited, thrifty)
    ]
    assert np.mean(pairs[0] == pairs[1]) > 0.95


def test_elimination_looks_at_the_pairs_between_the_sets_only():
    rule = elimination_of(toy_classification(elimination=0.9))
    assert rule.pairs.sum() == 4
    assert rule.pairs[:2, 2:].all()
    assert elimination_of(toy_classification()) is None


class Stumbling(ClassifyingPainter):
    """Refuses a group, and fails at one image."""

    def generate(self, requests):
        for number, result in enumerate(super().generate(requests)):
            yield GenerationResult(result.id, "failed", None, "it stumbled") if number == 1 else result


@pytest.mark.pages
def test_images_that_could_not_be_made_are_counted_and_left_out(tmp_path):
    run = quick.audit(Stumbling(refuse="young women", batch_size=8), toy_classification(), tmp_path / "run")
    lost = rows(run, "association", group="young woman", setting="20 noise samples").iloc[0]
    assert np.isnan(lost.value)
    assert lost.reason == "no portrait of group 'young woman' was measured"
    gender = rows(run, "differential", group="gender", setting="20 noise samples").iloc[0]
    assert np.isnan(gender.value)
    assert gender.verdict == "not measured"
    assert rows(run, "association", group="young man", setting="20 noise samples").iloc[0].n_target == 5
    assert rows(run, "association", group="old man", setting="20 noise samples").iloc[0].value > 0.9
    page = run.directory.read_bytes("report.html").decode()
    assert "it stumbled" in page
    assert "not allowed here" in page


def test_drawing_failed_images_anew_measures_them_anew(tmp_path):
    suite = toy_classification()
    broken = quick.audit(Stumbling(batch_size=8), suite, tmp_path / "run")
    assert (broken.samples.status == "failed").any()
    repaired = quick.audit(ClassifyingPainter(batch_size=8), suite, tmp_path / "run", retry_failed=True)
    whole = quick.audit(ClassifyingPainter(batch_size=8), suite, tmp_path / "whole")
    assert files(repaired) == files(whole)


def test_a_group_of_one_has_numbers_without_intervals(tmp_path):
    run = quick.audit(ClassifyingPainter(), toy_classification(images={"group": 1}), tmp_path / "run")
    row = rows(run, "association", group="old man", setting="20 noise samples").iloc[0]
    assert not np.isnan(row.value)
    assert np.isnan(row.low)
    assert "one portrait" in row.reason


def test_errors_that_are_not_finite_are_no_choice(tmp_path):
    painter = ClassifyingPainter()
    plain = painter.denoiser().errors
    painter.denoiser().errors = lambda latents, *rest: np.where(
        latents[:, 0, 0, 0].numpy() > 0.5, np.nan, plain(latents, *rest)
    )
    run = quick.audit(painter, toy_classification(), tmp_path / "run")
    errors, *_ = group_errors(run, run.suite)
    assert np.isnan(errors["old man"]).all()
    assert np.isfinite(errors["old woman"]).all()
    table = pq.read_table(run.directory.path(run.directory.names("classifications", ".parquet")[0])).to_pandas()
    assert "not finite" in table.reason.max()


def test_portraits_that_are_one_picture_count_once_and_refused_ones_are_missing(tmp_path):
    class Odd(ClassifyingPainter):
        def generate(self, requests):
            for order, request in enumerate(requests):
                if request.prompt == "young men":
                    yield from super().generate([replace(request, seed=0)])
                elif request.prompt == "old men" and order % 4 == 0:
                    yield GenerationResult(request.id, "refused", None, "no")
                else:
                    yield from super().generate([request])

    run = quick.audit(Odd(), toy_classification(), tmp_path / "run")
    refused = run.samples[run.samples.status == "refused"]
    scores = rows(run, "association", setting="20 noise samples").set_index("group")
    assert (scores.n_target["young man"], scores.n_missing["young man"]) == (1, 0)
    assert scores.n_missing["old man"] == len(refused) > 0
    assert scores.n_target["old man"] == scores.n_target["old woman"] - len(refused)
    assert scores.bound_low["old man"] < scores.low["old man"]
    assert run.scores[run.scores.metric == "pictures"].n_repeated.max() > 0
    gender = rows(run, "differential", group="gender", setting="20 noise samples").iloc[0]
    assert gender.n_missing == len(refused)


def test_a_model_that_only_draws_is_refused_before_it_draws(tmp_path):
    painter = Painter()
    with raises(ModelError, code=Code.UNSUPPORTED, match="painter"):
        quick.audit(painter, toy_classification(), tmp_path / "run")
    assert painter.drawn == 0


@pytest.fixture(scope="module")
def given(audited, tmp_path_factory):
    """The portraits that were drawn, as files with a manifest."""
    folder = tmp_path_factory.mktemp("given")
    group = audited.samples.set_index("id").group
    for name, content in audited.images(audited.samples.id):
        (folder / f"{name}.png").write_bytes(content)
    lines = [f"{name}.png,{group[name]}" for name in audited.samples.id]
    (folder / "manifest.csv").write_text("\n".join(["file,group", *lines]))
    return folder


@pytest.mark.pages
def test_given_portraits_are_classified_as_drawn_ones_are(audited, given, tmp_path):
    painter = ClassifyingPainter()
    run = quick.audit(painter, toy_classification(), tmp_path / "run", portraits=given)
    assert painter.drawn == 0
    for component in ("association", "differential", "pair_association"):
        keys = ["concept", "category", "group", "setting"]
        drawn, read = (rows(each, component).set_index(keys).value for each in (audited, run))
        pd.testing.assert_series_equal(read.sort_index(), drawn.sort_index())
    assert run.model_card["settings"]["portraits"]["name"] == given.name
    page = run.directory.read_bytes("report.html").decode()
    assert f"given portraits, <bdi>{given.name}</bdi>" in page
    assert "not drawn by the model" in page


def test_portraits_of_a_face_database_are_chosen_by_codes_and_seed(given, tmp_path):
    codes = {"young man": "WM", "young woman": "WF", "old man": "BM", "old woman": "BF"}
    groups = pd.read_csv(given / "manifest.csv").set_index("file").group
    for person, (file, group) in enumerate(groups.items()):
        (tmp_path / f"CFD-{codes[group]}-{person:03}-001-N.png").write_bytes((given / file).read_bytes())
    asked = toy_classification().model_dump(mode="json")
    coded = {name: group | {"codes": [codes[name]]} for name, group in asked["groups"].items()}
    suite = toy_classification(groups=coded, images={"group": 2})
    run = quick.audit(ClassifyingPainter(), suite, tmp_path / "run", portraits=tmp_path)
    assert run.samples.group.value_counts().to_dict() == dict.fromkeys(codes, 2)
    assert rows(run, "differential", group="gender", setting="20 noise samples").iloc[0].value > 0.9
    with raises(ImportManifestError, code=Code.MISSING, match="'young man'"):
        quick.audit(ClassifyingPainter(), toy_classification(), tmp_path / "other", portraits=tmp_path)


def test_given_portraits_of_other_groups_are_refused(given, tmp_path):
    for file in given.glob("*.png"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (given / "manifest.csv").read_text() + "\n"
    (tmp_path / "manifest.csv").write_text(text.replace("old man\n", "elder\n", 1))
    with raises(ImportManifestError, code=Code.UNKNOWN_NAME, match="'elder' .*toy classification"):
        quick.audit(ClassifyingPainter(), toy_classification(), tmp_path / "run", portraits=tmp_path)


@pytest.mark.parametrize("suite", ["downstream/classification-reference", "downstream/editing-reference"])
def test_an_import_names_the_command_that_has_a_model(given, tmp_path, suite):
    with raises(SuiteError, code=Code.UNSUPPORTED, match="clinometer audit --suite .*--portraits"):
        quick.import_images(given, tmp_path / "run", suite=suite)
    assert not (tmp_path / "run").exists()


def test_a_model_that_only_draws_classifies_no_given_portraits(given, tmp_path):
    with raises(ModelError, code=Code.UNSUPPORTED):
        quick.audit(Painter(), toy_classification(), tmp_path / "run", portraits=given)
    assert not (tmp_path / "run").exists()


def test_a_damaged_portrait_is_named_and_not_left_out(audited, tmp_path):
    run = cm.open_run(shutil.copytree(audited.url, tmp_path / "run"))
    rows = run.directory.read_table("samples/part-00000.parquet").to_pylist()
    rows[2]["image"]["bytes"] = rows[2]["image"]["bytes"][:60]
    rows[2]["sha256"] = sha256(rows[2]["image"]["bytes"])
    run.drawn.write(0, rows)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"part-00000\.parquet: image 0495a616de02b317"):
        quick.audit(ClassifyingPainter(), toy_classification(), run.url)


def test_a_run_without_its_classifications_says_what_to_do(tmp_path):
    suite, painter = toy_classification(), ClassifyingPainter()
    plan = build_plan(suite.prompt_specs(), seed=0, model_fingerprint=painter.card.fingerprint, part_size=8)
    run = create_run(tmp_path / "run", new_record(suite, painter.card, seed=0, origin="generated"), plan)
    generate(run, painter, NoProgress())
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match="3 of 3 parts"):
        cm.score_run(run.url)
