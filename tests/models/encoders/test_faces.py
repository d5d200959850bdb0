"""Faces as vectors, on a photograph that ships with scikit-image; and what becomes of images without a vector."""

import importlib.util
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from skimage.data import astronaut, coffee

import clinometer as cm
from clinometer.api.runs import verify_run
from clinometer.errors import Code, ModelError
from clinometer.models.encoders import faces
from clinometer.stats.association import unit_vectors
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite, toy_t2iat_suite

PORTRAIT = Image.fromarray(astronaut()).crop((0, 0, 512, 300))
WITHOUT = Image.fromarray(coffee())


@pytest.fixture(scope="module")
def encoder():
    return faces.load("")


def test_a_face_is_near_to_itself_and_a_picture_without_one_has_no_vector(encoder):
    pictures = [PORTRAIT, PORTRAIT.transpose(Image.Transpose.FLIP_LEFT_RIGHT), PORTRAIT.resize((256, 150)), WITHOUT]
    vectors = encoder.encode_images(pictures)
    assert vectors.shape == (4, 128)
    assert np.isnan(vectors[3]).all()
    units = unit_vectors(vectors[:3].astype(np.float64))
    assert (units @ units[0]).min() > 0.95
    again = np.concatenate([faces.load("").encode_images([picture]) for picture in pictures])
    np.testing.assert_array_equal(vectors, again)


def test_the_card_pins_weights_and_says_what_is_left_out(encoder):
    assert encoder.card.revision == "0.1.0"
    assert len(encoder.card.weights_sha256) == 64
    assert encoder.card.settings["leaves_out"] == "no face was found"
    assert not hasattr(encoder, "encode_texts")


def test_without_the_packages_one_line_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with raises(ModelError, code=Code.NOT_INSTALLED, match=r"^[^\n]*clinometer\[faces\]"):
        faces.load("")


class HalfBlind(Eye):
    """Sees no image whose red, to the 255th, is an odd number."""

    def __init__(self, says_so=True):
        super().__init__("half-blind")
        self.card = replace(self.card, settings={"leaves_out": "it is odd"} if says_so else {})

    def encode_images(self, images):
        vectors = super().encode_images(images)
        vectors[[int(np.asarray(image)[0, 0, 0]) % 2 == 1 for image in images]] = np.nan
        return vectors


def test_an_encoder_that_does_not_say_so_gives_every_vector(tmp_path):
    with raises(ModelError, code=Code.NOT_FINITE, match="half-blind: 7 of 8"):
        quick.audit(Painter(), toy_suite(), encoder=HalfBlind(says_so=False), out=tmp_path / "run")


def images_of(run):
    """Of each concept: how many images an encoder has, and how many are not there."""
    rows = run.scores.query("metric == 'mcas' and component == 'ii' and encoder == 'mean'")
    return {row.concept: (row.n_target, row.n_missing) for row in rows.itertuples()}


@pytest.mark.thorough
def test_images_without_a_vector_are_missing_to_all_encoders_and_counted(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=8, attribute=16), encoder=[Eye(), HalfBlind()], out=tmp_path / "run")
    left_out = run.left_out()
    assert 0 < len(left_out) < len(run.plan)
    assert run.embeddings("half-blind").keys() == {sample.id for sample in run.plan} - left_out
    lost = {name: sum(s.id in left_out for s in run.plan if s.concept == name) for name in images_of(run)}
    assert images_of(run) == {name: (8 - n, n) for name, n in lost.items()}
    rows = run.scores.query("component == 'image_part' and encoder == 'mean' and n_missing > 0 and value == value")
    assert len(rows)
    assert (rows.bound_low < rows.low).all()
    assert (rows.bound_high > rows.high).all()
    assert verify_run(run) > 0
    alone = quick.audit(Painter(), toy_suite(target=8, attribute=16), encoder=Eye(), out=tmp_path / "alone")
    assert set(images_of(alone).values()) == {(8, 0)}
    (both,) = cm.compare(run, alone)
    assert both.dropped == len(left_out)


@pytest.mark.thorough
def test_workers_leave_out_the_same(tmp_path):
    runs = [
        quick.audit(Painter(), toy_suite(), encoder=[Eye(), HalfBlind()], out=tmp_path / str(n), workers=n)
        for n in (1, 2)
    ]
    left, right = (run.scores.drop(columns=["run"], errors="ignore") for run in runs)
    assert left.equals(right)


def test_t2iat_counts_what_is_left_out(tmp_path):
    run = quick.audit(Painter(), toy_t2iat_suite(), encoder=HalfBlind(), out=tmp_path / "run")
    neutral = {sample.id: sample.concept for sample in run.plan if not sample.group}
    lost = Counter(neutral[key] for key in run.left_out() if key in neutral)
    rows = run.scores[run.scores.n_missing > 0]
    assert len(rows)
    assert rows.n_missing.max() <= sum(lost.values())
