"""Do the images show the concept? Ranks by the slow way, hubs, noise, and shares that are not to be read."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from tests.metrics.studies import DIM, cosine, design, embeddings, one, study

TARGETS = 6


def faithful(**changes):
    """Each target's images near its own text."""
    encoder, rng = embeddings(**changes), np.random.default_rng(2)
    texts = rng.normal(size=(TARGETS, DIM))
    images = tuple(text + 0.5 * rng.normal(size=(8, DIM)) for text in texts)
    return replace(encoder, target_texts=texts, target_images=images)


def rows_of(rows, component, **equal):
    return [one(rows, "fidelity", component, concept=f"target {t}", **equal) for t in range(TARGETS)]


def test_ranks_are_those_of_the_sorted_cosines():
    encoder = embeddings()
    rows = study(encoder)
    for t, (first, upper, rank) in enumerate(
        zip(*(rows_of(rows, f"own_prompt_{name}") for name in ("first", "upper_half", "rank")), strict=True)
    ):
        ranks = []
        for image in encoder.target_images[t]:
            found = [cosine(image, text) for text in encoder.target_texts]
            ranks.append(1 + sum(x > found[t] for x in found))
        assert first.value == np.mean(np.array(ranks) == 1)
        assert upper.value == np.mean(np.array(ranks) <= 3)
        assert rank.value == np.mean(ranks)
        assert (first.null, upper.null, rank.null, first.n_target) == (pytest.approx(1 / 6), 0.5, 3.5, 8)
        for row in (first, upper, rank):
            assert row.low <= row.value <= row.high


def test_faithful_images_are_not_flagged():
    rows = study(faithful())
    assert not [row for row in rows if row.flag == "not shown"]
    assert all(row.q <= 0.05 and row.value > 0.5 for row in rows_of(rows, "own_prompt_first"))


def test_noise_shows_nothing_and_its_shares_are_marked():
    rng, passed = np.random.default_rng(4), 0
    for _ in range(20):
        encoder = replace(faithful(), target_images=tuple(rng.normal(size=(2, DIM)) for _ in range(TARGETS)))
        rows = study(encoder, n_resamples=20, n_permutations=9)
        shown = [not row.flag for row in rows_of(rows, "own_prompt_first")]
        passed += any(shown)
        for t in range(TARGETS):
            for component in ("share", "parity_gap", "corrected_share"):
                row = one(rows, "share", component, concept=f"target {t}")
                assert (row.flag == "not shown") is not shown[t]
                assert shown[t] or row.reason.startswith("its images do not show the concept")
    assert passed <= 4  # q ≤ 0.05 in one run of twenty, on average


def test_a_prompt_that_everything_is_near_to_helps_nobody():
    """Noise images, and a text that lies in the middle of all images: it is first for every image."""
    rng = np.random.default_rng(6)
    centre = rng.normal(size=DIM)
    images = tuple(centre + 0.3 * rng.normal(size=(8, DIM)) for _ in range(TARGETS))
    texts = np.stack([centre, *rng.normal(size=(TARGETS - 1, DIM))])
    row = one(
        study(replace(embeddings(), target_images=images, target_texts=texts)),
        "fidelity", "own_prompt_first", concept="target 0",
    )  # fmt: skip
    assert row.value == 1
    assert row.flag == "not shown"


def test_two_targets_of_one_text_are_no_rivals():
    encoder = faithful()
    texts = encoder.target_texts.copy()
    texts[1] = texts[0]
    row = rows_of(study(replace(encoder, target_texts=texts)), "own_prompt_first")[0]
    assert row.value == 1
    assert row.null == pytest.approx(1 / 5)


def test_what_is_missing_has_its_reason():
    blind = embeddings(target_texts=None, group_words=None, group_texts=None)
    base = faithful()
    empty = replace(base, target_images=(np.empty((0, DIM)), *base.target_images[1:]))
    alone = design(1)
    lonely = embeddings(leanings=(0.3,))
    for rows, reason in (
        (study(blind), "the encoder reads no text"),
        (study(empty), "no image of the target"),
        (study(lonely, of=alone), "one text: there is no other to compare with"),
    ):
        for component in ("own_prompt_first", "own_prompt_upper_half", "own_prompt_rank"):
            row = one(rows, "fidelity", component, concept="target 0")
            assert isnan(row.value)
            assert isnan(row.null)
            assert row.reason == reason
            assert not row.flag
