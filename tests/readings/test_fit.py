"""What an encoder's card says it was made for, and encoders that are taken out of a run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import binom

import clinometer as cm
from clinometer.errors import Code, RunNotFoundError
from clinometer.metrics.verdict import ReasonCode, Verdict
from clinometer.models import reference
from clinometer.readings import fit
from clinometer.readings.fit import STRAYS, knows_images, misfits, unfit, unfit_pictures, unknown_words
from clinometer.stats.proportion import exact_share
from clinometer.suites import load_suite, suite_names
from tests import quick
from tests.quick import thorough_but
from tests.raising import raises
from tests.toy_denoisers import ClassifyingPainter, toy_classification
from tests.toy_editing import Reader as Colours
from tests.toy_editing import Recolourer
from tests.toy_editing import toy_suite as toy_editing_suite
from tests.toys import Eye, Notes, Painter, crossed_suite, toy_suite, toy_t2iat_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

CARD = {"name": "reference", "notes": {"domain": reference.domain()}}
MODEL = {"name": "reference", "weights_sha256": reference.card()["weights_sha256"]}


def test_words_are_looked_up_whatever_their_case():
    card = {"name": "x", "notes": {"domain": {"words": "an image of non-binary people"}}}
    assert unknown_words(card, ["An image of non-binary people", "an image of an o'clock, 2 cats and cats"]) == [
        "o'clock", "cats", "and",
    ]  # fmt: skip
    assert unknown_words({"name": "x", "notes": {}}, ["anything"]) == []


def test_the_reference_encoder_fits_the_reference_suites_alone():
    for name in suite_names():
        suite = load_suite(name)
        if suite.draws and not name.startswith("downstream"):  # those ask for "a photo of a man" alone
            assert (unfit(CARD, MODEL, suite) == {}) is ("reference" in name), name


def test_images_are_known_by_the_models_name_or_weights():
    assert knows_images(CARD, {"name": "mine", "weights_sha256": MODEL["weights_sha256"]})
    assert knows_images(CARD, {"name": "reference", "weights_sha256": None})
    other = {"name": "sd", "weights_sha256": "ab"}
    assert not knows_images(CARD, other)
    assert knows_images({"name": "clip", "notes": {}}, other)
    assert unfit(CARD, other, load_suite("reference"))[""].endswith("not images of sd")


def test_a_single_concept_may_be_unknown():
    suite = load_suite("reference")
    first, *rest = suite.categories["occupation"].targets
    changed = suite.model_copy(
        update={
            "categories": {
                "occupation": suite.categories["occupation"].model_copy(
                    update={"targets": (first.model_copy(update={"prompt": "an image of a welder"}), *rest)}
                )
            }
        }
    )
    found = unfit(CARD, MODEL, changed)
    assert list(found) == [first.name]
    assert "'welder'" in found[first.name]
    assert f"'{first.name}'" in misfits(CARD, MODEL, changed)
    assert misfits(CARD, MODEL, suite) == ""


class Narrow(Eye):
    """An eye whose card names the words that it knows."""

    def __init__(self, words: str, name: str = "eye") -> None:
        super().__init__(name)
        self.card = replace(self.card, notes={"domain": {"about": "colours", "words": words}})


@pytest.mark.pages
def test_a_run_says_what_does_not_fit_and_gives_no_verdict(tmp_path):
    notes = Notes()
    words = "young old men women others he his she hers they"
    run = quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Narrow(words), progress=notes)
    assert any("has not learned every word of 'concept 0.20'" in each for each in notes.messages)
    verdicts = run.scores[(run.scores.component == "image_part") & (run.scores.encoder == "mean")]
    verdicts = verdicts[verdicts.metric == "mcas"]
    assert set(verdicts.verdict) == {Verdict.NOT_MEASURED}
    assert verdicts.reason.str.contains("'lean'").all()
    assert "it has not learned" in run.directory.read_bytes("report.html").decode()


def test_a_dropped_encoder_leaves_the_scores_and_comes_back_unread(tmp_path):
    first, second = Eye("first"), Eye("second")
    run = quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=[first, second])
    seen, both = second.seen, run.scores
    cm.score_run(run.url, drop_encoder="second")
    run = cm.open_run(run.url)
    assert set(run.scores.encoder) == {"mean", "first"}
    record = json.loads(run.directory.read_bytes("run.json"))
    assert list(record["encoders"]) == ["first"]
    assert list(record["dropped_encoders"]) == ["second"]
    cm.score_run(run.url, encoder=second)
    run = cm.open_run(run.url)
    assert second.seen == seen
    assert run.encoders.dropped == {}
    np.testing.assert_array_equal(run.scores.value, both.value)


def test_what_cannot_be_dropped_is_named(tmp_path):
    run = quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye())
    with raises(RunNotFoundError, code=Code.UNKNOWN_NAME, field="drop_encoder", match="'ear'; .*eye"):
        cm.score_run(run.url, drop_encoder=["ear"])
    with raises(RunNotFoundError, code=Code.TOO_FEW, field="drop_encoder"):
        cm.score_run(run.url, drop_encoder=["eye"])
    assert list(cm.open_run(run.url).encoder_cards) == ["eye"]


def test_pictures_of_unknown_origin_fit_what_names_no_models():
    card = {"name": "eye", "notes": {"domain": {"about": "drawings of one model", "models": ["painter"]}}}
    assert "knows nothing but drawings of one model" in fit.unfit_stimuli(card, [], pictures=True)
    assert fit.unfit_stimuli(card, ["any word"], pictures=False) == ""
    assert fit.unfit_stimuli({"name": "eye"}, ["any word"], pictures=True) == ""


def photograph(rng: np.random.Generator) -> Image.Image:
    return Image.fromarray(rng.integers(0, 256, (80, 60, 3), np.uint8))


def drawing(rng: np.random.Generator) -> Image.Image:
    canvas = np.full((80, 60, 3), 250, np.uint8)
    canvas[20:60, 15:45] = rng.integers(0, 256, 3)
    return Image.fromarray(canvas)


def test_a_reader_of_drawings_does_not_fit_photographs():
    rng, card = np.random.default_rng(1), CARD
    assert "30 of 30 pictures" in unfit_pictures(card, [photograph(rng) for _ in range(30)])
    drawings = [drawing(rng) for _ in range(38)]
    assert unfit_pictures(card, drawings) == ""
    assert unfit_pictures(card, [*drawings, photograph(rng), photograph(rng)]) == ""  # one in twenty may be anything
    assert unfit_pictures(card, []) == ""
    assert unfit_pictures(card, drawings[:1]) == ""
    assert "1 of 1 picture " in unfit_pictures(card, [photograph(rng)])
    assert unfit_pictures(card, [photograph(rng), *drawings[:1]]) == ""
    assert unfit_pictures({"name": "a CLIP of photographs", "notes": {}}, [photograph(rng)] * 9) == ""


def test_fitting_pictures_are_refused_less_than_once_in_a_hundred():
    """Exactly: at whatever number of pictures, if one in twenty of those that fit seems to be something else."""
    for n in (2, 10, 20, 60, 200):
        least = next(k for k in range(1, n + 1) if exact_share(k, n, STRAYS, confidence=0.98).low > STRAYS)
        assert binom.sf(least - 1, n, STRAYS) <= 0.01


# --- every study ------------------------------------------------------------------------------------------------------


DRAWINGS = {"about": "drawings of another model", "models": ["another"]}


class StrangeEye(Eye):
    def __init__(self, name: str = "stranger") -> None:
        super().__init__(name)
        self.card = replace(self.card, notes={"domain": DRAWINGS})


class StrangeColours(Colours):
    card = replace(Colours.card, name="stranger", notes={"domain": DRAWINGS})


STUDIES = {
    "leaning": (Painter, toy_suite(target=12), Eye, StrangeEye),
    "axes": (Painter, crossed_suite(images=12), Eye, StrangeEye),
    "t2iat": (Painter, toy_t2iat_suite(neutral=8, attribute=6, stimuli=4), Eye, StrangeEye),
    "t2iat without tests": (Painter, toy_t2iat_suite(neutral=12, attribute=6, tests=False), Eye, StrangeEye),
    "editing": (Recolourer, toy_editing_suite(images={"group": 12}), Colours, StrangeColours),
}
"""Who draws, what, and an encoder that fits and one that does not."""


def judged(scores: pd.DataFrame) -> pd.DataFrame:
    """Verdicts that rest on an encoder, and not on pixels."""
    return scores[scores.verdict.ne("") & scores.encoder.ne("pixels")]


@pytest.fixture(scope="module", params=thorough_but(STUDIES, "leaning", "editing"))
def unfit_runs(request, tmp_path_factory):
    """A run by an encoder that fits; one by an encoder that does not, after what was said of it; and one by both."""
    painter, suite, fits, strange = STUDIES[request.param]
    place, notes = tmp_path_factory.mktemp("unfit"), Notes()
    measured = quick.finished(painter(), suite, encoder=fits())
    run = quick.audit(painter(), suite, place / "run", encoder=strange(), progress=notes, report=True)
    assert any("it gives no verdict here" in each for each in notes.messages)
    return measured, run, quick.audit(painter(), suite, place / "both", encoder=[fits(), strange()], seed=1)


@pytest.mark.thorough
def test_an_encoder_that_does_not_fit_gives_no_verdict_in_any_study(unfit_runs):
    measured, run, both = unfit_runs
    before, rows = judged(measured.scores), judged(run.scores)
    assert before.verdict.isin(["leans", "leans slightly", "undecided", "balanced"]).any()  # else nothing is shown
    assert len(rows) == len(before)
    assert set(rows.verdict) == {Verdict.NOT_MEASURED}
    assert set(rows.side) == {""}
    told = rows[rows.value.notna()]
    assert set(told.reason_code) == {ReasonCode.DOMAIN}
    assert told.reason.str.contains("knows nothing but drawings of another model").all()
    page = run.directory.read_bytes("report.html").decode()
    assert "the encoder does not fit the suite or the model" in page
    assert "the change stands out" not in page
    # the average holds what does not fit; by itself the other encoder keeps its verdicts
    by_both = judged(both.scores)
    assert set(by_both.verdict[by_both.encoder.isin(["mean", "stranger"])]) <= {Verdict.NOT_MEASURED}
    own = by_both[~by_both.encoder.isin(["mean", "stranger"])]
    assert own.empty or not own.verdict.eq(Verdict.NOT_MEASURED).all()


def test_nor_between_runs(unfit_runs):
    _, run, both = unfit_runs
    (compared,) = cm.compare(run, both)  # they share the encoder that does not fit
    rows = judged(compared.scores)
    rows = rows[~rows.component.str.contains("refusal")]
    assert len(rows)
    assert set(rows.verdict) == {Verdict.NOT_MEASURED}
    assert rows.reason[rows.value.notna()].str.startswith("in the first run, encoder stranger does not fit").all()


def test_what_rests_on_no_encoder_keeps_its_verdicts():
    run = quick.finished(ClassifyingPainter(), toy_classification())
    assert run.scores.verdict.eq("leans").any()
    pd.testing.assert_frame_equal(fit.withhold_unfit(run.scores, run), run.scores)
