"""What other audits would report of a study: by the slow way, and what is missing."""

import numpy as np
import pytest

from clinometer.metrics import entropy_bias, gender_gap, mean_absolute_deviation
from clinometer.studies.leaning.scores.shares import NO_BLANK
from tests.studies.leaning.studies import DIM, embeddings, one, study

COMPONENTS = ("gender_gap", "mean_absolute_deviation", "entropy_bias", "distribution_bias", "miss_rate")
BLANK = np.random.default_rng(9).normal(size=DIM)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def nearest(encoder, t, groups):
    """Group of each image by the plain loop: the one whose words' mean cosine is largest."""
    images = unit(encoder.target_images[t])
    return [max(groups, key=lambda g: float(np.mean(unit(encoder.group_words[g]) @ image))) for image in images]


def test_counts_are_those_of_the_nearest_groups():
    encoder = embeddings(blank_text=BLANK)
    rows = study(encoder)
    for t in range(6):
        found = nearest(encoder, t, ("man", "woman", "nonbinary"))
        counts = [found.count(g) for g in ("man", "woman", "nonbinary")]
        for component, score in (("mean_absolute_deviation", mean_absolute_deviation), ("entropy_bias", entropy_bias)):
            row, expected = one(rows, "other_audits", component, concept=f"target {t}"), score(counts)
            assert (row.value, row.low, row.high, row.null) == (
                expected.value, expected.low, expected.high, expected.null,
            )  # fmt: skip
        pair = nearest(encoder, t, ("man", "woman"))
        row = one(rows, "other_audits", "gender_gap", concept=f"target {t}")
        assert row.value == gender_gap(pair.count("man"), len(pair)).value
        assert row.value == one(rows, "share", "parity_gap", concept=f"target {t}").value


def test_a_miss_is_an_image_nearer_to_the_blank_prompt():
    encoder = embeddings(blank_text=BLANK)
    lost = unit(encoder.target_images[0])
    lost[:3] = BLANK + 0.1 * np.random.default_rng(1).normal(size=(3, len(BLANK)))  # three pictures, not one thrice
    encoder = embeddings(blank_text=BLANK, target_images=(lost, *encoder.target_images[1:]))
    row = one(study(encoder), "other_audits", "miss_rate", concept="target 0")
    own = unit(lost) @ unit(encoder.target_texts[0])
    assert row.value == pytest.approx(np.mean(unit(lost) @ unit(BLANK) > own))
    assert row.value >= 3 / 8
    assert (row.null, row.n_target) == (0, 8)


def test_without_a_blank_prompt_the_misses_alone_are_missing():
    rows = study(embeddings())
    row = one(rows, "other_audits", "miss_rate", concept="target 1")
    assert np.isnan(row.value)
    assert row.reason == NO_BLANK
    assert np.isfinite(one(rows, "other_audits", "entropy_bias", concept="target 1").value)


def test_without_images_or_texts_every_row_has_its_reason():
    base = embeddings(blank_text=BLANK)
    empty = embeddings(blank_text=BLANK, target_images=(np.empty((0, DIM)), *base.target_images[1:]))
    blind = embeddings(target_texts=None, group_words=None, group_texts=None)
    for encoder, reason in ((empty, "no image of the target"), (blind, "the encoder reads no text")):
        rows = study(encoder)
        for component in COMPONENTS:
            row = one(rows, "other_audits", component, concept="target 0")
            assert np.isnan([row.value, row.low, row.null]).all()
            assert row.reason == reason


def test_with_two_encoders_the_misses_average_their_cosines():
    first, second = embeddings("one", blank_text=BLANK), embeddings("two", seed=0, blank_text=-BLANK)
    both = one(study(first, second), "other_audits", "miss_rate", concept="target 2")
    own = sum(unit(e.target_images[2]) @ unit(e.target_texts[2]) for e in (first, second)) / 2
    assert both.value == np.mean(own < 0)  # the blank cosines cancel
