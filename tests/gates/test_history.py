"""A run compared with earlier ones: which of these count, what is shown of a change, and what is said of it."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import clinometer as cm
from clinometer.errors import Code, GateError
from clinometer.gates import numbers
from clinometer.gates.numbers import LAST, NEEDED, find_history
from clinometer.gates.outcome import gate_in_words, junit, markdown, way_on
from clinometer.stats.change import latest_change
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
NIGHTS = NEEDED + 4
UNTIL = {"precision": 0.1}
RULE = {"metric": "mcas", "component": "image_part", "against": "history"}


def night(source, place, day, values, *, seed=None, **record):
    """Leave a copy of a run as that of another night: begun then, with a seed and an image part of its own."""
    shutil.copytree(source.directory.place, place)
    run = cm.open_run(place)
    scores = run.scores
    rows = (scores.metric == "mcas") & (scores.component == "image_part") & (scores.encoder == "mean")
    scores.loc[rows, "value"] = values
    own = {"created": (FIRST + timedelta(days=day)).isoformat("T", "seconds"), "seed": day if seed is None else seed}
    run.ledger.update(lambda written: {**written, **own, **record})
    run.write_scores(scores, run.curves)
    return cm.open_run(place)


@pytest.fixture(autouse=True)
def fewer_orders(monkeypatch):
    """Draw a fifth of the orders: what moves here moves far."""
    monkeypatch.setattr(numbers, "latest_change", partial(latest_change, permutations=19_999))


@pytest.fixture(scope="module")
def source():
    return quick.finished(Painter(), toy_suite(target=12, attribute=6), encoder=Eye())


@pytest.fixture(scope="module")
def nights(source, tmp_path_factory):
    """Some nights, the last six of which lie elsewhere in one of four numbers."""
    values = np.random.default_rng(1).normal(size=(NIGHTS, 4))
    values[-6:, 2] += 12
    folder = tmp_path_factory.mktemp("history") / "nights"
    for day, row in enumerate(values):
        night(source, folder / f"night {day:02d}", day, row)
    return folder


@pytest.fixture
def moved(nights):
    return cm.open_run(nights / f"night {NIGHTS - 1:02d}")


@pytest.mark.thorough
def test_what_has_moved_is_called_and_nothing_else(nights, moved):
    judged = cm.gate(moved, {"rules": [RULE]}, history=nights)
    table = judged.table
    assert table.outcome.tolist() == ["holds", "holds", "broken", "holds"]
    row = table.iloc[2]
    assert (row.since, row.n_history) == (6, NIGHTS - 1)
    assert row.change == pytest.approx(12, abs=2)
    assert row.p_holm <= 0.05 < table.p_holm.drop(2).min()
    assert len(judged.history.runs) == NIGHTS - 1
    assert judged.history.left_out == ()
    by_default = cm.gate(moved, history=nights).table
    pd.testing.assert_frame_equal(by_default, table)


def test_runs_without_a_refusal_refused_nothing(nights, moved):
    rule = {"metric": "refusal", "component": "rate", "against": "history"}
    table = cm.gate(moved, {"rules": [rule]}, history=nights).table
    assert (table.outcome == "holds").all()
    assert (table[["change", "spread"]] == 0).all(axis=None)
    assert (table.p == 1).all()


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [({"within": 50}, "holds"), ({"at_most": 0}, "broken"), ({"at_least": 0}, "holds"), ({"at_most": 9}, "broken")],
)
def test_a_change_is_held_to_limits(nights, moved, limits, outcome):
    assert cm.gate(moved, {"rules": [RULE | limits]}, history=nights).outcome == outcome


def test_too_few_earlier_runs_are_no_proof(nights):
    early = cm.open_run(nights / f"night {NEEDED - 2:02d}")
    judged = cm.gate(early, {"rules": [RULE]}, history=nights)
    assert (judged.outcome, judged.holds) == ("undecided", False)
    later = [f"night {day:02d}" for day in range(NEEDED - 1, NIGHTS)]
    assert [place.rsplit("/", 1)[1] for place, _ in judged.history.left_out] == later
    assert f"once {NEEDED - 1} earlier runs are comparable, and {NEEDED - 2} are." in gate_in_words(judged)
    assert "Put 1 more run, accepted by other rules, into the folder" in way_on(judged)
    assert judged.table.reason.str.contains(f"{NEEDED - 1} are needed").all()


def test_a_number_that_few_runs_have_is_not_judged(nights, source, tmp_path):
    values = np.array([0.0, np.nan, 0.0, 0.0])
    unmeasured = night(source, tmp_path / "tonight", NIGHTS, values)
    table = cm.gate(unmeasured, {"rules": [RULE]}, history=nights).table
    assert table.outcome[1] == "undecided"
    assert (table.outcome.drop(1) != "undecided").all()


def test_runs_that_are_not_comparable_are_named_and_left_out(nights, source, moved, tmp_path):
    folder, zero = tmp_path / "nights", np.zeros(4)
    shutil.copytree(nights / "night 00", folder / "a")
    shutil.copytree(nights / "night 00", folder / "b")
    shutil.copytree(moved.directory.place, folder / "itself")
    night(source, folder / "late", 400, zero)
    night(source, folder / "decided", 1, zero, until=UNTIL)
    night(source, folder / "again", 2, zero, seed=0)
    settings = source.record["model"] | {"settings": {"steps": 4}}
    night(source, folder / "settings", 3, zero, model=settings)
    night(source, folder / "damaged", 4, zero)
    (folder / "damaged/scores.parquet").write_bytes(b"")
    night(source, folder / "unreadable", 5, zero)
    (folder / "unreadable/run.json").write_text("{")
    quick.audit(Painter(), toy_suite(target=3, attribute=3), folder / "fewer", encoder=Eye(), seed=77)
    found = find_history(moved, folder)
    assert [run.directory.place.rsplit("/", 1)[1] for run in found.runs] == ["again"]
    reasons = {place.rsplit("/", 1)[1]: reason for place, reason in found.left_out}
    assert {name: reasons.pop(name).split(":")[0] for name in ("late", "decided", "settings", "damaged", "a")} == {
        "late": "begun after this run",
        "decided": "drawn until decided",
        "settings": "another steps",
        "damaged": "its scores are damaged",
        "a": "its seed",  # of two runs of one seed the later counts
    }
    assert reasons.pop("b") == reasons.pop("itself") == "a copy of another run"
    assert "run.json" in reasons.pop("unreadable")
    assert reasons == {"fewer": "begun after this run"}
    assert "left out: " in found.in_words()


def test_one_noise_for_all_nights_is_not_mixed_with_others(nights, source, tmp_path):
    for day, seed in enumerate((7, 7, 8)):
        run = night(source, tmp_path / "same" / str(day), day, np.zeros(4), seed=seed)
    tonight = night(source, tmp_path / "tonight", 9, np.zeros(4), seed=7)
    assert [each.record["seed"] for each in find_history(tonight, tmp_path / "same").runs] == [7, 7]
    assert len(find_history(tonight, tmp_path / "same").left_out) == 1
    assert run.record["seed"] == 8


def test_the_last_of_the_earlier_runs_count(nights, moved):
    found = find_history(moved, nights, NEEDED - 1)
    days = [run.record["created"] for run in found.runs]
    assert days == sorted(days)
    with raises(GateError, code=Code.OUT_OF_RANGE, field="last", match=f"found 3, expected {NEEDED - 1}"):
        find_history(moved, nights, 3)
    assert LAST >= NEEDED - 1


def test_a_folder_without_runs_is_refused(moved, tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with raises(GateError, code=Code.TOO_FEW, field="history"):
            cm.gate(moved, {"rules": [RULE]}, history=place)
    with raises(GateError, code=Code.MISSING, match="against the history"):
        cm.gate(moved, {"rules": [RULE]})
    with raises(GateError, code=Code.CONFLICT, match="there is a history"):
        cm.gate(moved, {"rules": [{"metric": "mcas", "within": 9}]}, history=tmp_path)
    with raises(GateError, code=Code.UNSUPPORTED, field="policy"):
        cm.export(moved, tmp_path / "evidence", evidence=True, policy={"rules": [RULE]})
    with raises(GateError, code=Code.CONFLICT, match="leave out difference, interval"):
        cm.gate(moved, {"rules": [RULE | {"interval": "images"}]}, history=tmp_path)


def test_a_change_is_told_to_people_and_pipelines(nights, moved):
    limits = {"metric": "mcas", "component": "image_part", "within": 50}
    judged = cm.gate(moved, {"rules": [RULE, limits]}, history=nights)
    root = ElementTree.fromstring(junit(judged))
    assert [suite.get("failures") for suite in root] == ["1", "0"]
    assert "the last 6 runs lie +1" in root.find("testsuite/testcase/failure").text
    text = markdown(judged)
    assert f"Compared with {NIGHTS - 1} earlier runs in " in text
    assert "image\\_part unchanged from earlier runs" in text or "image_part unchanged from earlier runs" in text
    written = json.loads(json.dumps(judged.as_mapping()))
    assert len(written["history"]["runs"]) == NIGHTS - 1
    assert written["rules"][0]["against"] == "history"
    assert [row["since"] for row in written["rows"][4:]] == [None] * 4
