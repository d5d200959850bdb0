"""What an encoder's card says it was made for, and encoders that are taken out of a run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.stats import binom

import clinometer as cm
from clinometer.errors import RunNotFoundError
from clinometer.metrics.verdict import Verdict
from clinometer.models import reference
from clinometer.stats.proportion import exact_share
from clinometer.studies import fit
from clinometer.studies.fit import STRAYS, knows_images, misfits, unfit, unfit_pictures, unknown_words
from clinometer.suites import load_suite, suite_names
from tests import quick
from tests.toys import Eye, Notes, Painter, toy_suite

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
    with pytest.raises(RunNotFoundError, match=r"has no scores of 'ear'; it has those of eye"):
        cm.score_run(run.url, drop_encoder=["ear"])
    with pytest.raises(RunNotFoundError, match=r"eye is all that .* is scored with"):
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
    assert unfit_pictures({"name": "a CLIP of photographs", "notes": {}}, [photograph(rng)] * 9) == ""


def test_fitting_pictures_are_refused_less_than_once_in_a_hundred():
    """Exactly: at whatever number of pictures, if one in twenty of those that fit seems to be something else."""
    for n in (2, 10, 20, 60, 200):
        least = next(k for k in range(1, n + 1) if exact_share(k, n, STRAYS, confidence=0.98).low > STRAYS)
        assert binom.sf(least - 1, n, STRAYS) <= 0.01
