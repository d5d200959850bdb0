"""Targets that other processes measure make the same study, in whatever order they come."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from clinometer.errors import InvalidInputError
from clinometer.stats.blocks import Blocks
from clinometer.studies.leaning.scores import mcas_study, measurer_of
from tests.metrics.studies import design, embeddings

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
    elsewhere = [unread(each) for each in those]
    assert scored(elsewhere, measured=measured(those, reversed(TARGETS))) == scored(those)


def test_a_target_without_images_is_measured_too():
    none = [replace(each, target_images=(np.zeros((0, 24)), *each.target_images[1:])) for each in encoders(2)]
    assert scored([unread(each) for each in none], measured=measured(none)) == scored(none)


def test_a_target_that_nobody_measured_is_named():
    with pytest.raises(InvalidInputError, match="measured: nothing of target 'target 2'"):
        scored(encoders(1), measured=measured(encoders(1), [0, 1, 5, 4, 3]))


def test_a_target_of_which_other_images_were_measured_is_named():
    (fewer,) = encoders(1)
    fewer = replace(fewer, target_images=tuple(images[:7] for images in fewer.target_images))
    with pytest.raises(InvalidInputError, match="measured: 7 images of target 'target 0', expected 8"):
        scored(encoders(1), measured=measured([fewer]))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.full((3, 24), np.nan), "encoder e0, target 'target 0': row 0 holds NaN or infinity"),
        (np.zeros((3, 24)), "encoder e0, target 'target 0': row 0 is a zero vector"),
        (np.ones((3, 25)), "encoder e0: embeddings of different dimensions: 24, 25"),
    ],
)
def test_vectors_that_no_cosine_can_take_are_named_when_they_are_measured(images, message):
    (encoder,) = encoders(1)
    measure = measurer_of([replace(encoder, target_images=(images, *encoder.target_images[1:]))], DESIGN)
    with pytest.raises(InvalidInputError, match=message):
        measure(0)
