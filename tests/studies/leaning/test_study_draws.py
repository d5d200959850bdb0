"""Replicates and relabellings: what the shortcuts stand for, done the long way; then coverage and level."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clinometer.metrics import mcas
from clinometer.metrics.mcas import IMAGE_PART, component_of, composite
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.studies.leaning import EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.compare import image_part_replicates
from clinometer.studies.leaning.scores.contrasts import pools_of
from clinometer.studies.leaning.scores.cosines import (
    Weights,
    average_cosines,
    group_cosines,
    mean_cosines,
    uniform_weights,
)
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.views import views_of
from tests.studies.leaning.studies import (
    AGES,
    DIM,
    GROUPS,
    design,
    embeddings,
    item_means,
    one,
    slow_mean_cosine,
    study,
    target_cosines,
)

LAYOUT = layout_of([embeddings()], design())


def small_study(*encoders: EncoderEmbeddings, n_resamples: int = 2000) -> StudySetup:
    layout = layout_of(encoders, design())
    return StudySetup(design(), layout, ResamplingSettings(n_resamples, 500, 0, 0.95))


def counts(sizes: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """How often each item was drawn, at least once in all."""
    return np.concatenate([rng.multinomial(n, np.full(n, 1 / n)) for n in sizes])


@given(st.integers(0, 1000))
def test_a_weighted_tensor_is_the_tensor_of_the_resampled_items(seed):
    """Integer weights: the same as repeating the rows that were drawn and averaging all cosines again."""
    rng, encoder = np.random.default_rng(seed), embeddings()
    target = [counts((8,), rng) for _ in range(6)]
    images, words = counts((5,) * 12, rng), counts((4, 5, 3), rng)
    weights = Weights(
        tuple(c[None] / c.sum() for c in target),
        np.concatenate([images[s] / images[s].sum() for s in LAYOUT.image_slices])[None],
        np.concatenate([words[s] / words[s].sum() for s in LAYOUT.word_slices])[None],
    )
    tensor = mean_cosines(target_cosines(encoder, LAYOUT), LAYOUT, weights)[0]
    assert encoder.target_texts is not None
    assert encoder.group_words is not None
    t = seed % 6
    own, text = np.repeat(encoder.target_images[t], target[t], axis=0), encoder.target_texts[t : t + 1]
    for g, group in enumerate(GROUPS):
        a = np.repeat(np.concatenate(encoder.group_images[group]), images[LAYOUT.image_slices[g]], axis=0)
        w = np.repeat(encoder.group_words[group], words[LAYOUT.word_slices[g]], axis=0)
        slow = [slow_mean_cosine(x, y) for x, y in ((own, a), (text, a), (own, w), (text, w))]
        np.testing.assert_allclose(tensor[t, :, g], slow, atol=1e-12)


def test_rows_of_weights_are_computed_apart():
    """Any chunk of replicates gives the numbers it gives among the others."""
    encoder, own = embeddings(), small_study(embeddings(), n_resamples=60)
    cosines = target_cosines(encoder, own.layout)
    rng = np.random.default_rng(0)
    whole = Weights(
        tuple(rng.random((60, 8), np.float32) for _ in range(6)),
        rng.random((60, 60), np.float32),
        rng.random((60, 12), np.float32),
    )
    part = Weights(tuple(w[7:19] for w in whole.targets), whole.images[7:19], whole.words[7:19])
    np.testing.assert_allclose(
        mean_cosines(cosines, own.layout, whole)[7:19], mean_cosines(cosines, own.layout, part), rtol=2e-5
    )


def test_average_of_encoders_commutes_with_the_tensor():
    cosines = [target_cosines(embeddings(str(seed), seed=seed), LAYOUT) for seed in range(3)]
    uniform = uniform_weights(LAYOUT, LAYOUT.target_sizes)
    np.testing.assert_allclose(
        mean_cosines(average_cosines(cosines), LAYOUT, uniform),
        np.mean([mean_cosines(c, LAYOUT, uniform) for c in cosines], axis=0),
        atol=1e-14,
    )


def test_groups_on_the_plane_average_all_ways_to_hold_out_half():
    """Four images a prompt, two prompts a group: every split of each prompt in halves."""
    rng = np.random.default_rng(0)
    images = {g: tuple(rng.normal(size=(4, DIM)) for _ in range(2)) for g in GROUPS}
    encoder = replace(embeddings(), group_images=images, group_texts=None)
    layout = layout_of([encoder], design(pairs={}, prompts={}))
    tensor = mean_cosines(group_cosines(encoder, layout), layout, uniform_weights(layout, (4,) * 6))[0]
    halves = [list(pair) for pair in combinations(range(4), 2)]
    for h in range(2):  # the two prompts of the first group as targets
        for g, group in enumerate(GROUPS):
            slow = []
            for own in halves:
                kept = [i for i in range(4) if i not in own]
                for other in halves:
                    attributes = [
                        x[kept] if (group, p) == (GROUPS[0], h) else x[other] for p, x in enumerate(images[group])
                    ]
                    slow.append(slow_mean_cosine(images[GROUPS[0]][h][own], np.concatenate(attributes)))
            assert tensor[h, 0, g] == pytest.approx(np.mean(slow))


def test_an_image_is_never_compared_with_itself():
    """Orthogonal images: every cosine of two different ones is 0, and so is the group's similarity to itself."""
    basis = np.eye(DIM)
    images = {g: (basis[8 * i : 8 * i + 4], basis[8 * i + 4 : 8 * i + 8]) for i, g in enumerate(GROUPS)}
    encoder = replace(embeddings(), group_images=images, group_texts=None)
    layout = layout_of([encoder], design(pairs={}, prompts={}))
    tensor = mean_cosines(group_cosines(encoder, layout), layout, uniform_weights(layout, (4,) * 6))
    np.testing.assert_array_equal(tensor[0, :, 0], 0)


def test_item_means_average_to_the_estimate():
    cosines = target_cosines(embeddings(), LAYOUT)
    point = mean_cosines(cosines, LAYOUT, uniform_weights(LAYOUT, LAYOUT.target_sizes))[0]
    images, words = item_means(cosines)
    for m, (means, slices) in enumerate(((images, LAYOUT.image_slices), (words, LAYOUT.word_slices))):
        for g, columns in enumerate(slices):
            np.testing.assert_allclose(means[..., columns].mean(axis=-1), point[:, 2 * m : 2 * m + 2, g].T, atol=1e-12)


def test_chance_alone_leans_to_nobody_and_scatters_as_the_replicates_do():
    view = views_of([embeddings()], small_study(embeddings())).mean
    leaning = composite(view.targets.whole().null, 0, 1)
    spread = composite(view.targets.whole().stimulus, 0, 1).std(axis=0)
    np.testing.assert_allclose(leaning.std(axis=0), spread, rtol=1e-4)
    assert (np.abs(leaning.mean(axis=0)) < 4 * spread / np.sqrt(len(leaning))).all()
    np.testing.assert_allclose(view.targets.whole().null.mean(axis=(0, 3)), view.targets.point.mean(axis=-1), atol=0.01)


def test_pairs_are_matched_by_name_not_by_place():
    shuffled = design(pairs={"man": AGES, "woman": AGES[::-1], "nonbinary": AGES})
    prompts = pools_of(shuffled, LAYOUT).prompts
    assert prompts.strata.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]
    assert prompts.in_a.tolist() == [True] * 4 + [False] * 4


def test_a_prompt_without_images_is_no_unit():
    empty = embeddings()
    images = dict(empty.group_images) | {"man": (np.empty((0, DIM)), *empty.group_images["man"][1:])}
    layout = layout_of([replace(empty, group_images=images)], design())
    prompts = pools_of(design(), layout).prompts
    assert len(prompts.in_a) == 7
    assert prompts.strata.tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_replicates_of_a_mean_have_the_variance_of_a_mean():
    """ITP with the attributes of B fixed: its variance over A is the stratified s²/n in closed form."""
    encoder = embeddings()
    own = small_study(encoder, n_resamples=20_000)
    view = views_of([encoder], own).mean
    means = item_means(target_cosines(encoder, own.layout))[0][1]  # (T × images)
    for t in range(2):
        expected = sum(
            means[t, s].var(ddof=1) / 5 / 16 for s in own.layout.prompt_slices[:4]
        )  # four prompts of five images: each weighs a quarter
        assert view.targets.whole().images[:, t, 1, 0].var() == pytest.approx(expected, rel=0.05)


def test_stimulus_replicates_resample_words_and_encoders():
    encoders = [embeddings(str(seed), seed=seed) for seed in range(3)]
    own = small_study(*encoders, n_resamples=20_000)
    views = views_of(encoders, own)
    means = np.array([item_means(target_cosines(e, own.layout))[1][1, 0] for e in encoders])  # tt of the first target
    words = own.layout.word_slices[0]
    single = views.by_encoder[0].targets.whole().stimulus[:, 0, 3, 0]
    assert single.var() == pytest.approx(means[0, words].var(ddof=1) / 4, rel=0.05)
    # With the encoders drawn as well: law of total variance, words within the drawn encoders.
    tt = means[:, words].mean(axis=1)
    pooled = views.mean.targets.whole().stimulus[:, 0, 3, 0]
    between = tt.var(ddof=1) / 3
    assert pooled.mean() == pytest.approx(tt.mean(), abs=0.01)
    assert pooled.var() > between
    np.testing.assert_array_equal(views.mean.targets.whole().stimulus[:, 0, 1, 0].shape, (20_000,))


@pytest.mark.parametrize("batches", [False, True], ids=["each by itself", "in batches"])
@pytest.mark.parametrize("images", [2, 5], ids=["16 items", "40 items"])
def test_replicates_of_the_image_part_alone_are_those_of_the_views(images, batches, monkeypatch):
    """Signs, encoders and targets taken together or apart, all weights at once or a few: the same numbers."""
    encoders = [embeddings(str(seed), images=images, seed=seed) for seed in range(3)]
    if batches:
        encoders = [replace(e, target_batches=tuple(np.arange(len(x)) // 2 for x in e.target_images)) for e in encoders]
    others = [replace(e, target_images=tuple(-x for x in e.target_images)) for e in encoders]
    own, runs = small_study(*encoders, n_resamples=40), []
    seeds = own, replace(own, settings=replace(own.settings, image_seed=1))
    for weights in (2**24, 64):
        monkeypatch.setattr("clinometer.studies.leaning.compare.WHOLE", weights)
        monkeypatch.setattr("clinometer.studies.leaning.compare.PART", weights)
        for second in seeds:  # by the same weights, and by others
            runs = [
                (some, study, views_of(some, study).mean.targets) for some, study in ((encoders, own), (others, second))
            ]
            alone = image_part_replicates([(some, study, view.point) for some, study, view in runs])
            for (_, of_run, view), found in zip(runs, alone, strict=True):
                for kind in ("images", "stimulus"):
                    expected = component_of(getattr(view.whole(), kind), *of_run.pair, IMAGE_PART)
                    np.testing.assert_allclose(getattr(found, kind), expected, atol=2e-6)


def test_an_interval_over_attribute_images_is_that_of_t():
    """ITP rests on the attributes' images alone: a mean over strata, whose t interval has a closed form."""
    encoder = embeddings(images=5)
    layout = layout_of([encoder], design())
    rows = study(encoder)
    images, _ = item_means(target_cosines(encoder, layout))
    for t in range(3):
        itp = one(rows, "mcas", "itp", concept=f"target {t}")
        error = np.sqrt(sum(images[1, t, s].var(ddof=1) / 5 / 16 for s in layout.prompt_slices[:8]))
        half = stats.t.ppf(0.975, 8 * 4) * error
        assert (itp.low, itp.high) == pytest.approx((itp.value - half, itp.value + half))
        assert itp.p == pytest.approx(2 * stats.t.sf(abs(itp.value) / error, 8 * 4))


def test_words_and_encoders_add_their_variances_over_stimuli():
    """TT of one encoder varies with its words; of several with the encoders too."""
    encoders = [embeddings(str(seed), seed=seed) for seed in range(3)]
    layout = layout_of(encoders, design())
    means = np.array([item_means(target_cosines(e, layout))[1][1, 0] for e in encoders])
    of_words = np.array([[m[s].var(ddof=1) / (s.stop - s.start) for s in layout.word_slices[:2]] for m in means])
    rows = study(*encoders)
    first = one(rows, "mcas", "tt", concept="target 0", encoder="0")
    half = stats.t.ppf(0.975, 3 + 4) * np.sqrt(of_words[0].sum())
    assert (first.stimulus_high - first.stimulus_low) / 2 == pytest.approx(half)
    tt = np.array([m[layout.word_slices[0]].mean() - m[layout.word_slices[1]].mean() for m in means])
    averaged = means.mean(axis=0)
    both = sum(averaged[s].var(ddof=1) / (s.stop - s.start) for s in layout.word_slices[:2])
    parts = [(both, 3 + 4), (tt.var(ddof=1) / 3, 2)]
    half = stats.t.ppf(0.975, welch_satterthwaite(parts)) * np.sqrt(sum(v for v, _ in parts))
    mean = one(rows, "mcas", "tt", concept="target 0")
    assert (mean.stimulus_high - mean.stimulus_low) / 2 == pytest.approx(half)


def test_words_are_fixed_in_the_interval_over_images():
    view = views_of([embeddings()], small_study(embeddings(), n_resamples=50)).mean
    tt = view.targets.whole().images[:, :, 3]
    np.testing.assert_array_equal(tt, np.broadcast_to(tt[:1], tt.shape))
    assert view.targets.whole().stimulus[:, :, 3].std(axis=0).min() > 0


def population(rng: np.random.Generator, n_targets: int, n_attributes: int, leaning: float) -> EncoderEmbeddings:
    """Two groups that differ by age and by group; one target; images drawn again, words and texts fixed."""
    fixed = np.random.default_rng(0)
    base, towards, ages = (
        fixed.normal(size=DIM),
        fixed.normal(size=(2, DIM)) * 0.3,
        fixed.normal(size=(2, DIM)) * 0.4,
    )
    texts, words = fixed.normal(size=(1, DIM)), {g: fixed.normal(size=(3, DIM)) for g in GROUPS[:2]}

    def around(centre: np.ndarray, n: int) -> np.ndarray:
        return centre + 0.6 * rng.normal(size=(n, DIM))

    return EncoderEmbeddings(
        encoder="clip",
        target_images=(around(base + leaning * (towards[0] - towards[1]), n_targets),),
        target_texts=texts,
        group_images={
            g: tuple(around(base + leaning * towards[i] + age, n_attributes) for age in ages)
            for i, g in enumerate(GROUPS[:2])
        },
        group_words=words,
    )


ONE_TARGET = design(
    targets=(TargetDesign("t", "c"),),
    groups=GROUPS[:2],
    third=None,
    pairs=dict.fromkeys(GROUPS[:2], AGES[:2]),
    prompts={},
)


@pytest.mark.thorough
@pytest.mark.slow
def test_intervals_cover():
    """10 target images, 2 × 8 attribute images a group, 35 runs of one population; 95 % or more, less two errors."""
    many = population(np.random.default_rng(1), 200_000, 50_000, 0.7)
    assert many.group_words is not None
    truth = mcas(
        target_images=many.target_images[0],
        target_texts=many.target_texts,
        images_a=np.concatenate(many.group_images["man"]),
        images_b=np.concatenate(many.group_images["woman"]),
        texts_a=many.group_words["man"],
        texts_b=many.group_words["woman"],
    )
    covered = dict.fromkeys(("ii", "itp", "ita", "mcas"), 0)
    for run in range(35):
        rows = study(
            population(np.random.default_rng([2, run]), 10, 8, 0.7),
            of=ONE_TARGET,
            n_resamples=400,
            n_permutations=1,
            seed=run,
        )
        for name in covered:
            row = one(rows, "mcas", name, concept="t")
            covered[name] += row.low <= getattr(truth, name) <= row.high
    for name, count in covered.items():
        assert count / 35 >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 35), name


@pytest.mark.thorough
@pytest.mark.slow
def test_p_holds_its_level_when_the_groups_are_alike():
    p = {"ii": [], "itp": []}
    for run in range(50):
        encoder = population(np.random.default_rng([3, run]), 6, 6, 0.0)
        rows = study(encoder, of=ONE_TARGET, n_resamples=2, n_permutations=1, seed=run)
        for name, values in p.items():
            values.append(one(rows, "mcas", name, concept="t").p)
    assert stats.kstest(p["itp"], "uniform").pvalue > 0.001
    assert np.mean(np.array(p["itp"]) <= 0.05) == pytest.approx(0.05, abs=0.06)
    assert np.mean(np.array(p["ii"]) <= 0.05) <= 0.1  # one target alone is judged cautiously


def test_more_resamples_and_images_narrow_or_settle():
    """Quadrupling images halves the interval, roughly: nothing else in it grows."""
    few, many = (
        one(
            study(population(np.random.default_rng(5), 10 * k, 8 * k, 0.7), of=ONE_TARGET, n_resamples=1000),
            "mcas",
            "ii",
            concept="t",
        )
        for k in (1, 4)
    )
    assert (many.high - many.low) / (few.high - few.low) == pytest.approx(0.5, abs=0.2)
