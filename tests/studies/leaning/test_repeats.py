"""A picture that was drawn twice counts once, in every number that takes pictures for a sample."""

from dataclasses import replace

import numpy as np
import pytest

from clinometer.metrics.verdict import REPEATS, without_bounds
from clinometer.studies.leaning import crossed_study, mcas_study
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.scores.measuring import counted_once
from clinometer.studies.t2iat import t2iat_study
from tests.studies.leaning.crossed import THREE, crossed_design, crossed_embeddings
from tests.studies.leaning.studies import design, embeddings
from tests.studies.t2iat.designs import DESIGN as T2IAT
from tests.studies.t2iat.designs import embeddings as t2iat_embeddings

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

DESIGN = design()
OPTIONS = {"n_resamples": 50, "n_permutations": 0}


def again(encoder, times=3):
    """Each picture of the targets and of the groups several times, in an order of chance."""
    rng = np.random.default_rng(5)

    def repeated(x):
        order = np.concatenate([np.arange(len(x)), rng.integers(max(len(x), 1), size=(times - 1) * len(x))])
        return x[order]

    return replace(
        encoder,
        target_images=tuple(map(repeated, encoder.target_images)),
        group_images={group: tuple(map(repeated, images)) for group, images in encoder.group_images.items()},
    )


def without_counts(rows):
    """The rows without what they say of repeats: how many there are, what a verdict owes to them, and their order."""
    return [repr(without_bounds(replace(row, n_repeated=0))) for row in rows if row.metric != "pictures"]


def test_a_study_of_pictures_that_repeat_is_that_of_the_different_ones():
    encoder = embeddings("e", seed=0)
    once, thrice = (mcas_study([x], DESIGN, **OPTIONS) for x in (encoder, again(encoder)))
    assert without_counts(thrice) == without_counts(once)
    of_targets = [row for row in thrice if (row.metric, row.component) in (("mcas", "mcas"), ("share", "share"))]
    assert all(row.n_repeated == 2 * row.n_target > 0 for row in of_targets)
    assert not any(row.n_repeated for row in once)


def test_pictures_that_all_repeat_as_often_leave_every_verdict_as_it_is():
    encoder = embeddings("e", seed=0)
    twice = replace(encoder, target_images=tuple(np.repeat(x, 2, axis=0) for x in encoder.target_images))
    once, rows = (mcas_study([x], DESIGN, **OPTIONS) for x in (encoder, twice))
    assert [row.verdict for row in rows] == [row.verdict for row in once]
    assert not any(row.depends_on for row in rows)


def test_what_was_counted_by_bytes_and_what_by_vectors_add_up():
    encoder = embeddings("e", seed=0)
    drawn = tuple(np.full(len(x), 2) for x in encoder.target_images)
    (once,) = counted_once([again(replace(encoder), 1)], DESIGN)
    (both,) = counted_once([replace(encoder, target_copies=drawn)], DESIGN)
    assert [x.sum() for x in both.target_copies] == [2 * x.sum() for x in once.target_copies]


def test_crossed_axes_count_each_picture_once():
    crossed = crossed_design(THREE)
    encoder = crossed_embeddings(crossed)
    assert without_counts(crossed_study([again(encoder)], crossed)) == without_counts(crossed_study([encoder], crossed))


@pytest.mark.parametrize("paired", [False, True])
def test_a_difference_from_a_run_of_one_picture_has_no_more_pictures_than_it(paired):
    """Twenty pictures less twenty times the same one are no sample of twenty differences."""
    first, second = embeddings("e", seed=0), embeddings("e", seed=1)
    one = replace(first, target_images=tuple(x[[0] * len(x)] for x in first.target_images))
    rows = compare_leanings([one], [second], DESIGN, paired=paired, n_resamples=50)
    judged = [row for row in rows if row.component == "mcas" and row.encoder == "mean"]
    assert [row.n_target for row in judged] == [1] * len(DESIGN.targets)
    assert {row.verdict for row in judged} == {"too few images"}


def biased_cache(encoder):
    """Each target's picture that leans most to one side is drawn thirty times more, after all others."""
    towards = np.concatenate(encoder.group_images["man"]).mean(axis=0) - np.concatenate(
        encoder.group_images["woman"]
    ).mean(axis=0)  # fmt: skip
    far = [int(np.argmax(x @ towards)) for x in encoder.target_images]
    images = tuple(np.concatenate([x, x[[at] * 30]]) for x, at in zip(encoder.target_images, far, strict=True))
    return replace(encoder, target_images=images)


@pytest.mark.parametrize("paired", [False, True])
def test_a_difference_says_what_it_owes_to_counting_each_picture_once(paired):
    first, second = embeddings("e", seed=0, images=20), embeddings("e", seed=1, images=20)
    cached = biased_cache(second)
    whole = replace(first, target_images=tuple(np.tile(x, (3, 1))[:50] for x in first.target_images))
    plain = compare_leanings([first], [second], DESIGN, paired=paired, n_resamples=50)
    rows = compare_leanings([whole if paired else first], [cached], DESIGN, paired=paired, n_resamples=50)
    assert without_counts(rows) == without_counts(plain)
    for row in rows:
        assert (row.n_repeated > 0) == (row.component != "itp")
        if np.isfinite(row.low) and row.n_repeated:
            assert row.bound_low <= row.low <= row.high <= row.bound_high
            assert (row.bound_low, row.bound_high) != (row.low, row.high)
            assert row.component == "magnitude" or row.bound_high > row.high
    assert {row.n_repeated for row in rows if row.component == "ii"} == {30}
    back = compare_leanings([cached], [whole if paired else first], DESIGN, paired=paired, n_resamples=50)
    for row, other in zip(rows, back, strict=True):
        if row.component in ("ii", "image_part") and np.isfinite(row.bound_high):
            assert row.bound_high == pytest.approx(-other.bound_low, abs=1e-9)


@pytest.mark.parametrize("paired", [False, True])
def test_a_difference_that_repeats_would_undo_depends_on_them(paired):
    lean = (0.9, 0.9, 0.9, 0.9, 0.9, 0.9)
    first = embeddings("e", seed=0, images=30, noise=0.2, leanings=(0.0,) * 6)
    second = replace(embeddings("e", seed=0, images=30, noise=0.2, leanings=lean), target_texts=first.target_texts)
    other = embeddings("e", seed=0, images=1, noise=0.2, leanings=(-0.9,) * 6)
    images = [np.concatenate([x, np.repeat(y, 400, axis=0)]) for x, y in zip(second.target_images, other.target_images,
                                                                             strict=True)]  # fmt: skip
    apart = tuple(np.arange(len(x)) for x in images)  # the odd one comes last, and not by chance
    drawn = replace(second, target_images=tuple(images), target_batches=apart)
    if paired:
        more = [np.concatenate([x, np.repeat(x[:1], 400, axis=0)]) for x in first.target_images]
        first = replace(first, target_images=tuple(more))
    rows = compare_leanings([first], [drawn], DESIGN, paired=paired, n_resamples=50)
    judged = [row for row in rows if (row.component, row.encoder) == ("image_part", "mean")]
    assert {(row.verdict, row.depends_on) for row in judged} == {("more", REPEATS)}
    (over_all,) = (row for row in rows if row.component == "magnitude")
    assert over_all.n_repeated == (400 if paired else 399) * len(DESIGN.targets)


def test_t2iat_counts_each_picture_once():
    encoder = t2iat_embeddings()
    twice = replace(
        encoder,
        neutral={name: np.repeat(x, 2, axis=0) for name, x in encoder.neutral.items()},
        attribute={key: np.tile(x, (2, 1)) for key, x in encoder.attribute.items()},
    )
    once, other = (t2iat_study([x], T2IAT, n_resamples=50, seed=0).scores for x in (encoder, twice))
    assert without_counts(other) == without_counts(once)
    assert any(row.n_repeated for row in other)
