"""Targets that other processes measure make the same study, in whatever order they come."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.blocks import Blocks
from clinometer.studies.leaning import crossed_study, mcas_study
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.measuring import counted_once
from clinometer.studies.leaning.scores.study_rows import measurer_of
from clinometer.studies.leaning.scores.views import linear_views
from tests.raising import raises
from tests.studies.leaning.crossed import THREE, crossed_design, crossed_embeddings
from tests.studies.leaning.studies import design, embeddings, target_cosines

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

DESIGN = design()
TARGETS = range(len(DESIGN.targets))


def encoders(n):
    return [embeddings(f"e{seed}", seed=seed) for seed in range(n)]


def unread(encoder):
    """An encoder whose targets' images are somewhere else."""

    def read(position):
        raise AssertionError("an image of a target was read")

    return replace(encoder, target_images=Blocks(list(map(len, encoder.target_images)), read))


def measured(those, order=TARGETS):
    measure = measurer_of(those, DESIGN, n_resamples=200)
    for t in order:
        yield t, pickle.loads(pickle.dumps(measure(t)))


def scored(those, **options):
    return [repr(row) for row in mcas_study(those, DESIGN, n_resamples=200, n_permutations=99, **options)]


@pytest.mark.parametrize("those", [encoders(1), encoders(3)[:2], [*encoders(1), replace(
    embeddings("silent", seed=1), target_texts=None, group_words=None, group_texts=None)]],
    ids=["one", "two", "one that reads no text"])  # fmt: skip
def test_the_same_rows_whoever_measures_in_whatever_order(those):
    once = counted_once(those, DESIGN)  # the order of the pictures is asked where all are at hand
    elsewhere = [unread(each) for each in once]
    assert scored(elsewhere, measured=measured(once, reversed(TARGETS))) == scored(those)


def test_a_target_without_images_is_measured_too():
    none = [replace(each, target_images=(np.zeros((0, 24)), *each.target_images[1:])) for each in encoders(2)]
    once = counted_once(none, DESIGN)
    assert scored([unread(each) for each in once], measured=measured(once)) == scored(none)


def test_a_target_that_nobody_measured_is_named():
    with raises(InvalidInputError, code=Code.MISSING, field="measured", match="'target 2'"):
        scored(encoders(1), measured=measured(encoders(1), [0, 1, 5, 4, 3]))


def test_a_target_of_which_other_images_were_measured_is_named():
    (fewer,) = encoders(1)
    fewer = replace(fewer, target_images=tuple(images[:7] for images in fewer.target_images))
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="measured", match="7 .*'target 0', .*8"):
        scored(encoders(1), measured=measured([fewer]))


CROSSED = crossed_design(THREE)
CROSSED_ENCODERS = [crossed_embeddings(CROSSED, seed=seed, texts=seed != 1) for seed in range(3)]


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 2, 3])
def test_targets_of_crossed_axes_are_measured_apart_too(n):
    """The second of the encoders reads no text; of three, two are averaged."""
    those = CROSSED_ENCODERS[:n]
    once = counted_once(those, CROSSED)
    measure = measurer_of(once, CROSSED)
    measured = [(t, pickle.loads(pickle.dumps(measure(t)))) for t in (3, 0, 5, 1, 4, 2)]
    elsewhere = [unread(each) for each in once]
    found = crossed_study(elsewhere, CROSSED, measured=iter(measured))
    assert list(map(repr, found)) == list(map(repr, crossed_study(those, CROSSED)))
    with raises(InvalidInputError, code=Code.MISSING, field="measured", match="'t4'"):
        crossed_study(elsewhere, CROSSED, measured=[pair for pair in measured if pair[0] != 4])


def test_what_is_measured_of_crossed_axes_are_the_means_of_all_cosines():
    layout = layout_of(CROSSED_ENCODERS, CROSSED)
    reads = [target_cosines(CROSSED_ENCODERS[i], layout) for i in (0, 2)]
    views = linear_views(CROSSED_ENCODERS, StudySetup(CROSSED, layout, ResamplingSettings(1, 0, 0, 0.95)))
    for view, cosines in ((views.mean, reads), (views.by_encoder[0], reads[:1])):
        for t in range(6):
            gram, words = (np.mean([c[t] for c in of], axis=0) for of in (
                [c.image_image for c in cosines], [c.image_word for c in cosines]))  # fmt: skip
            np.testing.assert_allclose(view.items.images[0, t], gram.mean(axis=0))
            np.testing.assert_allclose(view.items.words[0, t], words.mean(axis=0))
            for g, columns in enumerate(layout.image_slices):
                np.testing.assert_allclose(view.image_cosines[t][:, 0, g], gram[:, columns].mean(axis=1))
            for g, columns in enumerate(layout.word_slices):
                np.testing.assert_allclose(view.image_cosines[t][:, 1, g], words[:, columns].mean(axis=1))


@pytest.mark.parametrize(
    ("images", "code", "message"),
    [
        (np.full((3, 24), np.nan), Code.NOT_FINITE, "encoder e0, target 'target 0': row 0 .*NaN"),
        (np.zeros((3, 24)), Code.NOT_FINITE, "encoder e0, target 'target 0': row 0 .*zero"),
        (np.ones((3, 25)), Code.WRONG_SHAPE, "encoder e0: .*24, 25"),
    ],
)
def test_vectors_that_no_cosine_can_take_are_named_when_they_are_measured(images, code, message):
    (encoder,) = encoders(1)
    odd = [replace(encoder, target_images=(images, *encoder.target_images[1:]))]
    with raises(InvalidInputError, code=code, match=message):
        measurer_of(odd, DESIGN)(0)
