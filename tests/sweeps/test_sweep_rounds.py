"""Sweeps drawn until differences are decided: images go where they decide, and whoever joins late is held to it."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

import clinometer as cm
from clinometer.errors import Code, RunMismatchError, SweepError
from clinometer.models.protocols import GenerationResult
from clinometer.pipeline import recipes
from clinometer.pipeline.comparison import evidence_between
from tests import quick
from tests.pipeline.engine_toys import InTurn
from tests.raising import raises
from tests.sweeps.toy_sweeps import Broken, Shifted, contents, record
from tests.toys import Eye, toy_suite

MOST = 20
SUITES = {"toy": toy_suite(target=4, attribute=6, concepts=2)}


def models(**changed):
    """One leans as the baseline, one far otherwise."""
    found = {"plain": Shifted(name="plain"), "far": Shifted(6.0, name="far"), "same": Shifted(0.0, name="same")}
    return found | changed


def swept(out, given=("plain", "far", "same"), *, models=None, encoder=None, how=None, **asked):
    """A sweep of one seed that is drawn until decided; ``how`` : who does so, in Python."""
    held = models or globals()["models"]()
    axes = {"suite": "toy", "model": list(given), "seed": [0]}
    asked = {"until": "decided", "images": MOST} | asked
    grid, objects = {"axes": axes, **asked}, {"models": held, "suites": SUITES, "encoder": encoder or Eye()}
    return quick.sweep(grid, out, **objects, **(how or {}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Three models, drawn until it is decided which differ from the first."""
    return swept(tmp_path_factory.mktemp("whole") / "sweep")


def drawn(sweep):
    """Images of each concept, by model."""
    return {
        run.model_card["name"]: Counter(concept for concept in run.samples.concept if concept)
        for run in sweep.runs.values()
    }


def differences(sweep):
    rows = sweep.table
    return rows[(rows.kind == "difference") & (rows.component == "image_part")].set_index(["model", "concept"])


def test_images_go_to_the_concepts_whose_difference_is_undecided(whole):
    images, found = drawn(whole), differences(whole)
    assert set(images["same"].values()) == set(images["plain"].values()) == {MOST}
    assert all(10 <= count <= MOST for count in images["far"].values())
    assert sum(images["far"].values()) < 2 * MOST
    assert (found.verdict["same"] == "undecided").all()
    for concept, row in found.loc["far"].iterrows():
        assert images["far"][concept] == MOST or row.verdict == "more"
        # A pair that holds a picture again counts for none; so far from the others, several look alike
        assert 0 <= images["far"][concept] - row.n_target <= 3
        assert row.low <= row.value <= row.high
    assert "more" in set(found.verdict["far"])


def test_a_difference_is_told_from_the_pairs_that_both_have(whole):
    runs = {run.model_card["name"]: run for run in whole.runs.values()}
    stands = evidence_between(runs["plain"], runs["far"])
    found = differences(whole).loc["far"]
    for concept, stand in stands.items():
        assert (found.low[concept], found.high[concept], found.p[concept]) == (stand.low, stand.high, stand.p)
    alone = cm.compare(runs["plain"], runs["far"])[0].scores
    decided = alone[(alone.component == "image_part") & (alone.encoder == "mean")].set_index("concept")
    pd.testing.assert_series_equal(decided.value, found.value, check_names=False)
    assert alone[alone.component.isin(["magnitude", "ii", "ita"])].p.isna().all()


def test_the_family_is_the_grid(whole):
    found = differences(whole)
    assert whole.differences[whole.differences.component == "image_part"].family.str.contains("4 differences").any()
    evidence = 1 / (found.p - 0.01)
    best = evidence.sort_values(ascending=False).to_numpy()
    expected = min(4 / ((order + 1) * e) for order, e in enumerate(best)) + 0.01
    assert found.q.min() == pytest.approx(min(expected, 1.0))


def test_it_says_so(whole):
    page = Path(whole.directory.root, "sweep.html").read_text()
    assert "differ from the baseline in some concept" in page
    assert "differs in 1 of 2 concepts" in page


@pytest.mark.thorough
def test_a_cell_that_joins_late_draws_what_the_baseline_has_before_it_is_looked_at(whole, tmp_path):
    """And all others stay as they are; what had stopped stays stopped."""
    out = tmp_path / "sweep"
    swept(out, ("plain", "same"))
    late = swept(out)
    assert set(drawn(late)["far"].values()) == {MOST}
    assert set(record(out)["rounds"]["toy"]["stopped"]["far-toy-seed-0".removesuffix("-seed-0")].values()) <= {MOST}
    assert (differences(late).n_target["far"] >= MOST - 3).all()


@pytest.mark.thorough
def test_it_goes_on_as_if_it_had_not_been_stopped(whole, tmp_path):
    out, painters = tmp_path / "sweep", models(far=Shifted(6.0, name="far", stop_after=60))
    with pytest.raises(KeyboardInterrupt):
        swept(out, models=painters)
    painters["far"].stop_after = None
    again = swept(out, models=painters)
    assert drawn(again) == drawn(whole)
    assert contents(out) == contents(Path(whole.directory.root))


def test_a_finished_one_draws_nothing_again(whole, tmp_path):
    shutil.copytree(whole.directory.root, tmp_path / "sweep")
    painters = models()
    again = swept(tmp_path / "sweep", models=painters)
    assert [model.drawn for model in painters.values()] == [0, 0, 0]
    assert contents(tmp_path / "sweep") == contents(Path(whole.directory.root))
    assert not again.failed


@pytest.mark.thorough
def test_a_cell_that_fails_stops_no_other_and_catches_up_when_it_is_mended(whole, tmp_path):
    found = swept(tmp_path / "sweep", models=models(far=Broken(6.0, name="far")))
    assert list(found.failed) == ["far-toy-seed-0"]
    assert drawn(found)["same"] == drawn(whole)["same"]
    repaired = swept(tmp_path / "sweep")
    assert not repaired.failed
    assert set(drawn(repaired)["far"].values()) == {MOST}


class Fickle(Shifted):
    """It fails one image in five, whoever asks again."""

    failed = 0

    def generate(self, requests):
        for request in requests:
            if request.seed % 5:
                yield from super().generate([request])
            else:
                self.failed += 1
                yield GenerationResult(request.id, "failed", None, "busy")


@pytest.mark.thorough
def test_failed_images_are_drawn_anew_once_in_a_command_and_not_in_every_round(tmp_path):
    painters = {name: Fickle(name=name) for name in ("plain", "same")}
    for command in (1, 2):
        found = swept(
            tmp_path / "sweep", list(painters), models=painters, images=20, how={"retry_failed": command == 2}
        )
    lost = [int((run.samples.status == "failed").sum()) for run in found.runs.values()]
    assert [model.failed for model in painters.values()] == [2 * count for count in lost]
    assert all(lost)


@pytest.mark.thorough
def test_a_worker_holds_an_encoder_once_that_was_given_as_an_object(tmp_path, monkeypatch):
    held = {}
    monkeypatch.setattr(recipes, "_BUILT", held)
    found = swept(tmp_path / "sweep", ("plain", "far"), images=15, how={"engine": InTurn(2)})
    assert len(found.runs) == 2
    assert sorted(model.card.kind for model in held.values()) == ["encoder", "generator"]


def test_a_baseline_that_fails_leaves_nothing_to_decide(tmp_path):
    painters = models(plain=Broken(name="plain"))
    found = swept(tmp_path / "sweep", ("plain", "far"), models=painters)
    assert set(drawn(found)["far"].values()) == {10}
    assert found.differences.empty


def test_one_setting_is_drawn_until_its_own_concepts_are_decided(tmp_path):
    one = swept(tmp_path / "sweep", ("plain",))
    alone = quick.audit(
        Shifted(name="plain"), SUITES["toy"], tmp_path / "a", encoder=Eye(), until="decided", images=MOST
    )
    assert contents(tmp_path / "sweep" / "cells" / "plain-toy-seed-0") == contents(tmp_path / "a")
    assert "rounds" not in {key for key, value in record(tmp_path / "sweep").items() if value}
    with raises(SweepError, code=Code.UNSUPPORTED, field="until", match="drawn until their own concepts"):
        swept(tmp_path / "sweep")
    assert not one.failed
    assert alone.record["until"] == {"precision": None}


@pytest.mark.parametrize(("suite", "why"), [
    ("reference-intersections", "cells of gender and tone"),
    ("t2iat/flowers-insects", "'t2iat' .*--until"),
])  # fmt: skip
@pytest.mark.parametrize("given", [("plain",), ("plain", "far")])
def test_a_suite_that_cannot_be_drawn_in_rounds_is_refused_before_anything_is_drawn(tmp_path, suite, why, given):
    painters = models()
    axes = {"suite": ["toy", suite], "model": list(given)}
    with raises(SweepError, code=Code.UNSUPPORTED, field="until", match=f"suite {suite}: .*{why}"):
        swept(tmp_path / "sweep", models=painters, axes=axes)
    assert not (tmp_path / "sweep").exists()
    assert [model.drawn for model in painters.values()] == [0, 0, 0]


def test_a_suite_that_cannot_be_read_is_left_to_its_cells(tmp_path):
    found = swept(tmp_path / "sweep", axes={"suite": ["toy", "toyy.yaml"], "model": ["plain"]}, images=4)
    assert list(found.failed) == ["plain-toyy.yaml-seed-0"]
    assert len(found.runs) == 1


def test_a_cell_is_no_audit_of_its_own(whole):
    with raises(RunMismatchError, code=Code.MISMATCH, match="differences from a baseline"):
        quick.audit(
            Shifted(name="plain"), SUITES["toy"], whole.runs["plain-toy-seed-0"].url,
            encoder=Eye(), until="decided", images=MOST,
        )  # fmt: skip


@pytest.mark.thorough
def test_a_precision_stops_where_the_difference_is_known_well_enough(tmp_path):
    found = swept(tmp_path / "sweep", ("plain", "same"), until=0.6)
    rows = differences(found)
    assert (((rows.high - rows.low) / 2 <= 0.6 + 1e-9) | (rows.n_target == MOST)).all()
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text())["common"]["until"] == 0.6
