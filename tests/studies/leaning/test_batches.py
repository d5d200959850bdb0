"""Pictures that came in batches are as many draws as batches, in every number; and copies count once."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.dependence_simulations import in_batches, independent, saved_again
from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.records import BATCHES_KNOWN
from clinometer.studies.leaning import crossed_study, mcas_study
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.scores.shares import BY_ORDER
from tests.raising import raises
from tests.studies.leaning.crossed import THREE, crossed_design, crossed_embeddings
from tests.studies.leaning.studies import design, embeddings, one

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

DESIGN = design()
OPTIONS = {"n_resamples": 200, "n_permutations": 0}


def batches(encoder, labels):
    return replace(encoder, target_batches=tuple(labels(len(x)) for x in encoder.target_images))


def in_pairs(encoder):
    """Each picture of the targets followed by one of the same vector but for what saving again does not move."""
    rng = np.random.default_rng(3)
    images = tuple(np.repeat(x, 2, axis=0) for x in encoder.target_images)
    return replace(encoder, target_images=tuple(x + 0.2 * rng.normal(size=x.shape) for x in images))


def test_batches_of_one_picture_each_change_nothing():
    encoder = embeddings(images=12)
    plain, named = (mcas_study([own], DESIGN, **OPTIONS) for own in (encoder, batches(encoder, np.arange)))
    assert list(map(repr, named)) == [repr(row) for row in plain if row.metric != "pictures"]


def test_the_order_of_batches_and_their_names_do_not_matter():
    encoder = in_pairs(embeddings(images=12))
    numbered = batches(encoder, lambda n: np.arange(n) // 2)
    named = batches(encoder, lambda n: np.array([f"request {n - i // 2}" for i in range(n)]))
    rows = mcas_study([numbered], DESIGN, **OPTIONS)
    for row, other in zip(rows, mcas_study([named], DESIGN, **OPTIONS), strict=True):
        assert (row.metric, row.component, row.concept) == (other.metric, other.component, other.concept)
        if row.metric == "mcas" and np.isfinite(row.low):
            assert (row.low, row.high, row.value) == pytest.approx((other.low, other.high, other.value), abs=1e-9)
    (told,) = (row for row in rows if row.metric == "pictures")
    assert (told.flag, told.n_target, told.n_batches) == (BATCHES_KNOWN, 24 * 6, 12 * 6)
    assert told.value > 0.5


def test_a_verdict_takes_ten_batches():
    encoder = embeddings(images=40, leanings=(0.9,) * 6, noise=0.2)
    found = {}
    for size in (2, 4, 5, 40):
        own = batches(encoder, lambda n, size=size: np.arange(n) // size)
        row = one(mcas_study([own], DESIGN, **OPTIONS), "mcas", "image_part", concept="target 0")
        found[size] = row.verdict
        assert (row.n_target, row.n_batches) == (40, 40 // size)
    assert found == {2: "leans", 4: "leans", 5: "too few images", 40: "too few images"}
    assert row.reason == "no interval: all images of the target came in one batch"


def test_batches_widen_every_interval_that_rests_on_the_targets_images():
    encoder = in_pairs(embeddings(images=12, noise=0.3))
    alone, paired = (
        mcas_study([batches(encoder, lambda n, size=size: np.arange(n) // size)], DESIGN, **OPTIONS) for size in (1, 2)
    )
    paired = [row for row in paired if row.metric != "pictures"]
    widths = {
        (row.metric, row.component): (other.high - other.low) / (row.high - row.low)
        for row, other in zip(alone, paired, strict=True)
        if np.isfinite(row.low) and row.high > row.low and row.concept == "target 2" and row.encoder == "mean"
    }
    for metric, component in (("mcas", "ita"), ("mcas", "image_part"), ("share", "share"), ("internal_bias",
                              "signed_diffusion_bias"), ("profile", "association")):  # fmt: skip
        assert widths[metric, component] > 1.02, (metric, component)
    assert widths["mcas", "itp"] == 1
    for row, other in zip(alone, paired, strict=True):
        assert np.isnan(row.value) or row.value == pytest.approx(other.value, abs=1e-9)


def test_axes_know_batches():
    crossed = crossed_design(THREE)
    encoder = in_pairs(crossed_embeddings(crossed))
    rows = crossed_study([batches(encoder, lambda n: np.arange(n) // 2)], crossed)
    of_targets = [row for row in rows if row.concept and row.metric == "intersections"]
    assert of_targets
    assert {(row.n_target, row.n_batches) for row in of_targets} == {(len(encoder.target_images[0]),
                                                                      len(encoder.target_images[0]) // 2)}  # fmt: skip


@pytest.mark.parametrize("paired", [False, True])
def test_differences_know_batches(paired):
    first, second = (in_pairs(embeddings(seed=seed, images=12)) for seed in (0, 1))
    labelled = [batches(run, lambda n: np.arange(n) // 2) for run in (first, second)]
    alone = [batches(run, np.arange) for run in (first, second)]
    rows, plain = (compare_leanings([a], [b], DESIGN, paired=paired, n_resamples=50) for a, b in (labelled, alone))
    for row, before in zip(rows, plain, strict=True):
        if row.component == "ita" and row.concept:
            assert (row.n_batches, before.n_batches) == (12, 0)
            assert row.high - row.low > before.high - before.low


def test_the_order_of_drawing_tells_what_nobody_says():
    encoder = embeddings(images=12, noise=0.1)
    rng = np.random.default_rng(0)
    apart = np.concatenate(encoder.group_images["man"]).mean(axis=0) - np.concatenate(
        encoder.group_images["woman"]
    ).mean(axis=0)  # fmt: skip
    sides = [np.repeat(rng.choice([-1.0, 1.0], 12), 4)[:, None] for _ in DESIGN.targets]
    images = [x[:1] + 0.5 * s * apart + 0.1 * rng.normal(size=(48, 24)) for x, s in
              zip(encoder.target_images, sides, strict=True)]  # fmt: skip
    rows = mcas_study([replace(encoder, target_images=tuple(images))], DESIGN, **OPTIONS)
    (told,) = (row for row in rows if row.metric == "pictures")
    assert (told.flag, told.setting, told.n_batches) == (BY_ORDER, "batches of 4", 72)
    assert one(rows, "mcas", "mcas", concept="target 0").n_batches == 12


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (lambda sizes: tuple(np.arange(n) for n in sizes[:-1]), "5 .*6"),
        (lambda sizes: tuple(np.arange(n + 1) for n in sizes), r"'target 0'.*\(9,\), .*8"),
    ],
)
def test_batches_that_do_not_fit_are_refused(labels, said):
    encoder = embeddings()
    own = replace(encoder, target_batches=labels([len(x) for x in encoder.target_images]))
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, match=said):
        mcas_study([own], DESIGN, **OPTIONS)


def test_pairs_and_fours_do_not_lean():
    """Of 8 studies each of three concepts at parity; the page of simulations has thousands."""
    for size in (2, 4):
        alone, nobody, known = in_batches(8, size, 20, concepts=3)
        assert nobody.rate <= 0.1
        assert known.rate <= 0.1
        assert alone.rate >= nobody.rate
    ignored, once = saved_again(8, 4, 20, 1e-3)
    assert once.rate == 0 < ignored.rate
    alone, nobody, _ = independent(8, 40, 0.85)
    assert nobody.rate >= alone.rate - 0.1
