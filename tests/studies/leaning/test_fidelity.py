"""Do the images show the concept? Ranks by the slow way, hubs, noise, and shares that are not to be read."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.metrics import Score
from clinometer.studies.leaning.scores.shares import fidelity_differences
from tests.studies.leaning.studies import DIM, cosine, design, embeddings, one, study

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


@pytest.mark.thorough
def test_noise_shows_nothing_and_its_shares_are_marked():
    rng, passed = np.random.default_rng(4), 0
    for _ in range(10):
        encoder = replace(faithful(), target_images=tuple(rng.normal(size=(2, DIM)) for _ in range(TARGETS)))
        rows = study(encoder, n_resamples=20, n_permutations=9)
        shown = [not row.flag for row in rows_of(rows, "own_prompt_first")]
        passed += any(shown)
        for t in range(TARGETS):
            for component in ("share", "parity_gap", "corrected_share"):
                row = one(rows, "share", component, concept=f"target {t}")
                assert (row.flag == "not shown") is not shown[t]
                assert shown[t] or row.reason.startswith("its images are not shown to match their own prompt")
    assert passed <= 2  # q ≤ 0.05 in one run of twenty, on average


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


# --- two runs ------------------------------------------------------------------------------------------------------


def shares(hits, n, unshown=()):
    """Rows of ``own_prompt_first``: so many of n images of each target."""
    return [
        Score(
            metric="fidelity", component="own_prompt_first", concept=f"target {t}", encoder="mean", value=k / n,
            n_target=n, flag="not shown" if t in unshown else "",
        )
        for t, k in enumerate(hits)
    ]  # fmt: skip


HITS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8)


@given(HITS)
def test_swapped_runs_differ_by_the_negative(pairs):
    first, second = ([pair[i] for pair in pairs] for i in (0, 1))
    there, back = (
        fidelity_differences(shares(x, 20), shares(y, 20), "mean")[0] for x, y in ((first, second), (second, first))
    )
    assert there.value == pytest.approx(-back.value)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.low <= there.value <= there.high
    assert there.value == pytest.approx(np.mean(np.subtract(second, first)) / 20)


def test_a_run_against_itself_has_not_fallen_and_one_that_draws_anything_has():
    good, garbage = shares([18, 20, 17], 20), shares([3, 1, 2], 20, unshown=(0, 1, 2))
    same, fallen = (fidelity_differences(good, other, "mean") for other in (good, garbage))
    assert same[0].value == 0
    assert same[0].low < 0 < same[0].high
    assert fallen[0].high < -0.5
    own = {(row.component, row.setting): row.value for row in fallen[1:]}
    assert own == pytest.approx(
        {
            ("own_fidelity", "first run"): 55 / 60, ("own_fidelity", "second run"): 6 / 60,
            ("own_unshown", "first run"): 0, ("own_unshown", "second run"): 1,
        }
    )  # fmt: skip


def test_seeds_put_together_count_as_one_run_of_their_images():
    whole = fidelity_differences(shares([18, 15], 20), shares([9, 10], 20), "mean")
    parts = fidelity_differences([*shares([8, 8], 10), *shares([10, 7], 10)], shares([9, 10], 20), "mean")
    for part, own in zip(parts, whole, strict=True):
        assert (part.value, part.low, part.n_target) == pytest.approx((own.value, own.low, own.n_target), nan_ok=True)


def test_only_targets_that_both_runs_measure_are_compared():
    assert fidelity_differences(shares([3], 4), [], "mean") == []
    assert fidelity_differences(shares([3], 4), shares([3], 4), "another encoder") == []
    assert fidelity_differences(shares([3, 2, 2], 4), shares([3], 4), "mean")[0].n_target == 1


def test_few_images_have_no_interval_and_count_beside_no_others():
    (few, *_) = fidelity_differences(shares([9, 0], 9), shares([0, 9], 9), "mean")
    assert few.value == 0
    assert np.isnan([few.low, few.high]).all()
    assert few.reason.startswith("no interval: fewer than 10 images")
    many, *_ = fidelity_differences(shares([10], 10), [*shares([0], 10), *shares([9, 9], 9)[1:]], "mean")
    assert (many.value, many.n_target) == (-1, 1)


@pytest.mark.parametrize(("n_targets", "n"), [(1, 20), (12, 20), (28, 10)])
def test_runs_that_draw_alike_are_rarely_told_apart(n_targets, n):
    """At most 2.5 of 100 are said to have fallen; more than 13 of 200 would then come up once in 1,500 tries."""
    rng = np.random.default_rng(20)
    fallen = 0
    for _ in range(200):
        truth = rng.beta(0.7, 0.5, n_targets)
        first, second = (shares(rng.binomial(n, truth), n) for _ in range(2))
        fallen += fidelity_differences(first, second, "mean")[0].high < 0
    assert fallen <= 13
