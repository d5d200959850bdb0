"""A steerability audit from its suite to its page: who is drawn when asked for, and what is said without labels."""

import contextlib
import shutil

import numpy as np
import pytest

import clinometer as cm
from clinometer.errors import Code, ImportManifestError, InvalidInputError
from clinometer.metrics.verdict import FIXED_ONLY
from clinometer.pipeline.results import render_html
from clinometer.studies import study_of
from clinometer.studies.reporting import report_input
from tests import quick
from tests.raising import raises
from tests.studies.steerability.toy import Steered, eye_reader, steerable, write_labels
from tests.toys import Eye


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory):
    """A run of a model that is deaf to women in one of four concepts; no picture is labelled."""
    return quick.audit(Steered(["b"]), steerable(), tmp_path_factory.mktemp("steered") / "run", encoder=Eye())


@pytest.fixture(scope="module")
def labelled(unlabelled, tmp_path_factory):
    """The same run once labelled pictures say how the reader errs."""
    place = tmp_path_factory.mktemp("labelled")
    shutil.copytree(unlabelled.directory.place, place / "run")
    return read_with_labels(place)


def read_with_labels(place):
    """Read a folder's run and 60 pictures whose group is known, and return it."""
    with contextlib.chdir(place):
        cm.read_run("run", reader=eye_reader(), truth=write_labels(place / "labels"))
    return cm.open_run(place / "run")


def rows(run, component):
    scores = run.scores[run.scores.metric == "steerability"]
    return scores[scores.component == component].set_index(["concept", "group"])


def test_without_labels_there_is_no_verdict_and_the_page_says_why(unlabelled):
    assert rows(unlabelled, "success").value.loc["b", "woman"] == 0.5
    gap = rows(unlabelled, "gap").loc[("b", "man-woman")]
    assert (gap.value, gap.bound_low < 0 < gap.bound_high) == (0.5, True)
    assert rows(unlabelled, "corrected_gap").value.isna().all()
    assert set(unlabelled.verdicts.verdict) == {"not measured"}
    text = render_html(report_input(unlabelled))
    assert "How often the reader errs is not known" in text
    assert "recognises the first group 50 percentage points more often" in text


def test_labels_give_the_verdict_to_the_concept_with_the_planted_gap_alone(labelled):
    verdicts = rows(labelled, "corrected_gap")
    verdict = {name: "leans" if name == "b" else "balanced" for name in "abcd"}
    assert verdicts.verdict.to_dict() == {(name, "man-woman"): said for name, said in verdict.items()}
    assert verdicts.side.loc["b", "man-woman"] == "man"
    view = study_of(labelled.suite).page(labelled.suite)
    report = view.view.of(report_input(labelled))
    assert view.finding(report) == (
        "Of 4 concepts, steered draws men more readily for one and both equally readily for three."
    )
    assert view.strongest(report).startswith("“b, women”: 10 of 20 read as women; “b, men”: 20 of 20 read as men.")


def test_pictures_asked_for_a_group_are_neither_the_concepts_share_nor_known_pictures(labelled):
    read = labelled.scores[labelled.scores.metric == "reading"]
    share = read[(read.component == "share") & (read.group == "man")].set_index("concept")
    assert share.n_target.to_dict() == dict.fromkeys("abcd", 20)  # the neutral ones alone
    assert share.value.to_dict() == {"a": 1, "b": 1, "c": 0.95, "d": 1}
    assert set(read[read.component == "recall"].n_target) == {30}  # the labelled folder's
    assert set(labelled.readings("eye").truth) == {None}


def test_swapping_the_groups_turns_the_sign(labelled, tmp_path):
    asked = steerable(concepts=2).model_dump(exclude_none=True)
    asked["groups"] = dict(reversed(asked["groups"].items()))
    quick.audit(Steered(["b"]), type(steerable()).checked(asked, source="toy"), tmp_path / "run", encoder=Eye())
    mine, theirs = (rows(each, "corrected_gap").value.to_numpy()[:2] for each in (read_with_labels(tmp_path), labelled))
    assert np.allclose(mine, -theirs, atol=1e-6)


def test_a_gate_holds_success_and_gaps(labelled, unlabelled):
    def outcome(run, **rule):
        return cm.gate(run, {"rules": [{"metric": "steerability", **rule}]}).outcome

    assert outcome(labelled, component="success", concept="b", group="woman", at_least=0.9) == "broken"
    assert outcome(labelled, component="corrected_gap", within=0.9) == "holds"
    assert outcome(unlabelled, component="corrected_gap", within=0.9) == "undecided"


def test_comparison_finds_the_concept_that_changed(unlabelled, tmp_path):
    fair = quick.audit(Steered(name="fair"), steerable(), tmp_path / "fair", encoder=Eye())
    (comparison,) = cm.compare(unlabelled, fair, out=tmp_path / "compared")
    assert comparison.paired
    gaps = comparison.scores[comparison.scores.component == "gap"].set_index("concept")
    assert gaps.value.round(6).to_dict() == {"a": 0.0, "b": -0.5, "c": 0.0, "d": 0.0}
    assert "Success by group, and gaps as read" in (tmp_path / "compared/comparison.html").read_text()


def test_a_group_that_is_refused_more_often_is_told(tmp_path):
    run = quick.audit(Steered(refuse="women"), steerable(concepts=8), tmp_path / "run", encoder=Eye())
    refused = run.scores[(run.scores.metric == "refusal") & (run.scores.component == "difference")]
    assert (refused.value.item(), refused.side.item()) == (-1.0, "woman")
    assert rows(run, "success").n_missing.loc["a", "woman"] == 20


def drawn_until_decided(place, **asked):
    """Audit until decided, beside labelled pictures, at most 60 pictures of each prompt."""
    truth = asked.pop("truth") if "truth" in asked else write_labels(place / "labels", each=200)
    options = {"until": "decided", "images": 60, "reader": eye_reader(), "truth": truth, "encoder": Eye()}
    with contextlib.chdir(place):
        return quick.audit(Steered(["b"]), steerable(), place / "run", **(options | asked))


def test_a_gap_that_is_plain_draws_no_more_and_its_verdict_stands(tmp_path):
    run = drawn_until_decided(tmp_path)
    gap = rows(run, "corrected_gap")
    assert gap.verdict.loc["b", "man-woman"] == "leans"
    assert gap.side.loc["b", "man-woman"] == "man"
    assert gap.low.loc["b", "man-woman"] > 0
    drawn = gap.n_target.droplevel("group")
    assert 10 <= drawn["b"] < drawn.drop("b").min() <= 60
    assert set(gap.verdict.drop("b")) <= {"balanced", "undecided"}
    means = run.scores[
        run.scores.component.isin(["gap", "mean_gap", "success"]) & (run.scores.metric == "steerability")
    ]
    assert means.value.notna().all()
    assert means[["low", "high", "p"]].isna().all(axis=None)
    assert set(means.reason) == {FIXED_ONLY}


def test_no_gap_is_decided_while_nobody_knows_how_the_reader_errs(tmp_path):
    with raises(InvalidInputError, code=Code.MISSING, field="until", match="steered: .*--reader"):
        drawn_until_decided(tmp_path, truth=None)
    assert not (tmp_path / "run").exists()


def test_labels_that_nobody_reads_are_refused_before_anything_is_drawn(tmp_path):
    with raises(InvalidInputError, code=Code.CONFLICT, field="truth"):
        drawn_until_decided(tmp_path, reader=None)
    assert not (tmp_path / "run").exists()


def test_labels_that_leave_a_group_out_are_refused_before_anything_is_drawn(tmp_path):
    men = write_labels(tmp_path / "men", groups=["men"])
    with raises(InvalidInputError, code=Code.MISSING, field="truth"):
        drawn_until_decided(tmp_path, truth=men)
    with raises(ImportManifestError, code=Code.NOT_FOUND, match=r"nowhere\.csv"):
        drawn_until_decided(tmp_path, truth=tmp_path / "nowhere.csv")
    assert not (tmp_path / "run").exists()
