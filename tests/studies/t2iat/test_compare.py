"""Two runs of a T2IAT study: algebra first, then slow recomputation, then whether the tests keep their level."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import Score
from clinometer.metrics.differences import judge_differences
from clinometer.stats.bootstrap import magnitude_excess
from clinometer.studies.t2iat import DesignedTest, T2iatDesign, T2iatEmbeddings, t2iat_study
from clinometer.studies.t2iat.compare import compare_t2iat
from tests.raising import raises
from tests.studies.t2iat.designs import DESIGN, cosine, embeddings

NAMES = ("r1", "r2", "r3", "g1", "g2", "g3")
OCCUPATIONS = replace(DESIGN, tests=())


def compare(first, second, design=DESIGN, **options):
    quick = {"paired": True, "n_resamples": 300, "seed": 1} | options
    of = [run if isinstance(run, list) else [run] for run in (first, second)]
    return compare_t2iat(*of, design, **quick)


def one(rows, component, concept=None, encoder="mean"):
    (found,) = (
        row for row in rows if (row.component, row.encoder) == (component, encoder) and concept in (None, row.concept)
    )
    return found


def shifted(of: T2iatEmbeddings, by, *, noise=0.02, seed=9) -> T2iatEmbeddings:
    """The same pictures with the neutral ones moved along the axis: another setting of one model."""
    rng = np.random.default_rng(seed)
    by = dict.fromkeys(NAMES, by) if np.isscalar(by) else by
    moved = {
        name: images + by.get(name, 0.0) * np.eye(images.shape[1])[0] + noise * rng.normal(size=images.shape)
        for name, images in of.neutral.items()
    }
    return replace(of, neutral=moved)


APART = dict.fromkeys(NAMES[:3], 0.4) | dict.fromkeys(NAMES[3:], -0.4)
TOGETHER = {name: -lean for name, lean in APART.items()}


# --- algebra -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", [DESIGN, OCCUPATIONS], ids=["tests", "stimuli"])
@pytest.mark.parametrize("margin", [None, 0.05])
def test_a_run_beside_itself_differs_by_nothing(design, margin):
    rows = compare(embeddings(), embeddings(), replace(design, margin=margin))
    for row in rows:
        assert (row.value, row.low, row.high) == (0, 0, 0)
        assert row.component == "effect_size" or row.p == 1
        assert row.verdict != "more"
    assert rows[-1].verdict == "undecided"
    alike = {row.verdict for row in rows if row.component == "association" and row.encoder == "mean"}
    assert alike == ({"undecided"} if margin is None else {"alike"})


@pytest.mark.parametrize("design", [DESIGN, OCCUPATIONS], ids=["tests", "stimuli"])
def test_swapping_the_runs_negates(design):
    first = embeddings()
    second = shifted(first, APART)
    forth, back = compare(first, second, design), compare(second, first, design)
    other = {"first": "second", "second": "first", "": ""}
    for a, b in zip(forth, back, strict=True):
        assert (b.value, b.low, b.high) == pytest.approx((-a.value, -a.high, -a.low), abs=1e-9)
        assert (b.stimulus_low, b.stimulus_high) == pytest.approx(
            (-a.stimulus_high, -a.stimulus_low), abs=1e-9, nan_ok=True
        )
        assert b.p == pytest.approx(a.p, nan_ok=True)
    assert (back[-1].verdict, back[-1].side) == (forth[-1].verdict, other[forth[-1].side])


def test_swapping_the_attributes_negates_and_says_the_same():
    first = embeddings()
    second = shifted(first, APART)
    ours, theirs = compare(first, second), compare(first, second, replace(DESIGN, a="woman", b="man"))
    for component, concept in (("differential_association", "red-green"), ("association", "r1")):
        a, b = one(ours, component, concept), one(theirs, component, concept)
        assert b.value == pytest.approx(-a.value)
        assert (b.verdict, b.side) == (a.verdict, a.side) == ("more", "man")
    assert theirs[-1].value == pytest.approx(ours[-1].value)


def test_rotation_and_length_change_nothing():
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    runs = [embeddings(), embeddings(seed=5)]
    turned = [
        replace(
            run,
            neutral={key: 3.0 * images @ turn for key, images in run.neutral.items()},
            attribute={key: 0.2 * images @ turn for key, images in run.attribute.items()},
        )
        for run in runs
    ]
    for a, b in zip(compare(*runs), compare(*turned), strict=True):
        assert (b.value, b.low, b.high, b.p) == pytest.approx((a.value, a.low, a.high, a.p), abs=1e-6, nan_ok=True)


def test_one_encoder_twice_is_that_encoder():
    runs = [embeddings(), embeddings(seed=5)]
    alone = compare(*runs)
    both = compare(*([run, replace(run, encoder="ear")] for run in runs))
    for component, concept in (("differential_association", "red-green"), ("association", "g2"), ("magnitude", "")):
        a, b = one(alone, component, concept), one(both, component, concept)
        assert (b.value, b.low, b.high, b.p) == pytest.approx((a.value, a.low, a.high, a.p))
    assert one(both, "association", "g2", "eye").value == pytest.approx(one(both, "association", "g2", "ear").value)


# --- slow recomputation ------------------------------------------------------------------------------------------


def slow_statistic(neutral, with_a, with_b):
    """S, image by image: dictionaries of images by stimulus."""

    def mean(names):
        parts = [cosine(neutral[p], with_a[q]).mean() - cosine(neutral[p], with_b[q]).mean()
                 for p in names for q in names]  # fmt: skip
        return np.mean(parts)

    return mean(NAMES[:3]) - mean(NAMES[3:])


def swapped(first, second, signs):
    """Both runs' S after swapping the stimuli whose sign is −1."""
    sides = [
        [(second, first) if sign > 0 else (first, second) for sign in signs],
        [(first, second) if sign > 0 else (second, first) for sign in signs],
    ]
    found = []
    for side in sides:
        held = {name: run[0] for name, run in zip(NAMES, side, strict=True)}
        found.append(
            slow_statistic(
                {name: run.neutral[name] for name, run in held.items()},
                {name: run.attribute[name, "man"] for name, run in held.items()},
                {name: run.attribute[name, "woman"] for name, run in held.items()},
            )
        )
    return found  # second, first


@pytest.mark.parametrize("paired", [True, False])
def test_tests_are_swapped_prompt_by_prompt_as_if_by_hand(paired):
    first, second = embeddings(n=5), embeddings(seed=5, n=5 if paired else 4)
    rows = compare(first, second, paired=paired)
    drawn = [swapped(first, second, signs) for signs in product((1, -1), repeat=6)]
    differences = np.array([s - f for s, f in drawn])
    row = one(rows, "differential_association")
    assert row.value == pytest.approx(differences[0], abs=1e-12)
    assert row.p == pytest.approx(np.mean(np.abs(differences) >= abs(differences[0]) - 1e-12))
    assert (row.p_exact, row.n_splits) == (True, 64)
    if paired:  # otherwise the magnitude is of equally many images
        magnitudes = np.array([abs(s) - abs(f) for s, f in drawn])
        row = one(rows, "magnitude")
        assert row.value == pytest.approx(magnitudes[0], abs=1e-12)
        assert row.p == pytest.approx(np.mean(np.abs(magnitudes) >= abs(magnitudes[0]) - 1e-12))


def test_differences_are_those_of_the_two_studies():
    runs = [embeddings(), embeddings(seed=5)]
    own = [t2iat_study([run], DESIGN, n_resamples=50, seed=1).scores for run in runs]
    rows = compare(*runs)
    for metric, component, ours, concept in (
        ("t2iat", "differential_association", "differential_association", "red-green"),
        ("t2iat", "effect_size", "effect_size", "red-green"),
        ("association", "mean", "association", "g2"),
    ):
        values = [
            next(r.value for r in each if (r.metric, r.component, r.concept) == (metric, component, concept))
            for each in own
        ]
        assert one(rows, ours, concept).value == pytest.approx(values[1] - values[0], abs=1e-12)


def test_a_stimulus_is_tested_as_three_samples_of_pairs():
    first = embeddings()
    second = shifted(first, 0.1, noise=0.1)
    row = one(compare(first, second), "association", "r1")
    man, woman = ([cosine(run.neutral["r1"], run.attribute["r1", g]) for run in (first, second)] for g in
                  ("man", "woman"))  # fmt: skip
    parts = [
        (man[1].mean(1) - woman[1].mean(1)) - (man[0].mean(1) - woman[0].mean(1)),
        man[1].mean(0) - man[0].mean(0),
        woman[1].mean(0) - woman[0].mean(0),
    ]
    variances = np.array([part.var(ddof=1) / len(part) for part in parts])
    freedom = variances.sum() ** 2 / (variances**2 / 11).sum()
    assert row.p == pytest.approx(2 * stats.t.sf(abs(parts[0].mean()) / np.sqrt(variances.sum()), freedom))


def excess_of(run, name):
    man, woman = (cosine(run.neutral[name], run.attribute[name, group]) for group in ("man", "woman"))
    error = sum(part.var(ddof=1) / len(part) for part in (man.mean(1) - woman.mean(1), man.mean(0), woman.mean(0)))
    return magnitude_excess(man.mean() - woman.mean(), np.sqrt(error))


def test_over_all_stimuli_every_flip_is_counted():
    first, second = embeddings(), embeddings(seed=5)
    rows = compare(first, second, OCCUPATIONS)
    own = [t2iat_study([run], OCCUPATIONS, n_resamples=50, seed=1).scores for run in (first, second)]
    asc = [
        np.array([r.value for n in NAMES for r in each
                  if (r.metric, r.component, r.concept, r.encoder) == ("association", "mean", n, "mean")])
        for each in own
    ]  # fmt: skip
    changes = np.abs(asc[1]) - np.abs(asc[0])
    flips = np.array(list(product((1, -1), repeat=6)))
    row = one(rows, "magnitude")
    assert row.value == pytest.approx(changes.mean(), abs=1e-12)
    assert row.p == pytest.approx(np.mean(np.abs(flips @ changes) >= abs(changes.sum()) - 1e-12))
    interval = stats.ttest_1samp(changes, 0).confidence_interval()
    excess = [np.mean([excess_of(run, name) for name in NAMES]) for run in (first, second)]
    assert (row.stimulus_low, row.stimulus_high) == pytest.approx((interval.low - excess[1], interval.high + excess[0]))
    assert row.n_target == 6


# --- what it is for ----------------------------------------------------------------------------------------------


def test_pairs_find_what_two_samples_do_not():
    first = embeddings()
    second = shifted(first, 0.06)
    paired, unpaired = (one(compare(first, second, paired=p), "association", "g1") for p in (True, False))
    assert paired.value == pytest.approx(unpaired.value)
    assert paired.high - paired.low < (unpaired.high - unpaired.low) / 2
    assert (paired.verdict, paired.side) == ("more", "man")
    assert unpaired.verdict == "undecided"
    assert unpaired.n_decide > unpaired.n_target


def test_images_that_would_decide_count_the_family():
    """An interval that leaves out 0 with q above 0.05 is undecided for its family's sake; alone it would be decided."""
    values, p = np.array([0.22, 0.01, 0.02, 0.15]), np.array([0.03, 0.9, 0.8, 0.14])
    rows = [
        Score(metric="comparison", component="association", value=value, low=value - 0.2, high=value + 0.2, p=p, q=q,
              n_target=10)
        for value, p, q in zip(values, p, stats.false_discovery_control(p), strict=True)
    ]  # fmt: skip
    many, _, _, wide = judge_differences(rows, a="man", b="woman", margin=None)
    assert (many.verdict, wide.verdict) == ("undecided", "undecided")
    (alone,) = judge_differences([replace(rows[0], q=0.03)], a="man", b="woman", margin=None)
    assert (alone.verdict, alone.side) == ("more", "man")
    (of_one,) = judge_differences([replace(rows[0], q=0.06)], a="man", b="woman", margin=None)
    assert many.n_decide > 1.2 * of_one.n_decide > 1.2 * 10
    assert wide.n_decide > many.n_decide


def test_runs_alike_are_promised_no_number_that_the_correction_denies():
    """Found on a page: a difference of 0.00 [−0.06, 0.07] beside eight that lean, and "to decide 13" of 12."""
    rows = [
        Score(metric="comparison", component="mcas", value=value, low=value - 0.095, high=value + 0.095, p=0.9, q=0.9,
              n_target=12)
        for value in (0.0, *([0.3] * 8))
    ]  # fmt: skip
    alike, *_ = judge_differences(rows, a="man", b="woman", margin=0.1)
    assert (alike.p_equivalence < 0.05 < alike.q_equivalence, alike.verdict) == (True, "undecided")
    narrow = [replace(row, low=row.value - half, high=row.value + half)
              for row in rows for half in [0.095 * (12 / alike.n_decide) ** 0.5]]  # fmt: skip
    assert judge_differences(narrow, a="man", b="woman", margin=0.1)[0].verdict == "alike"


def test_which_leans_more_over_all():
    first = embeddings()
    for design in (DESIGN, OCCUPATIONS):
        for lean, side in ((APART, "second"), (TOGETHER, "first")):
            size = compare(first, shifted(first, lean), design)[-1]
            assert (size.verdict, size.side) == ("more", side)
    moved = one(compare(first, shifted(first, APART)), "differential_association")
    assert (moved.verdict, moved.side) == ("more", "man")
    assert moved.p == 2 / 2**6


def test_both_runs_moved_alike_change_no_difference_between_concepts():
    """Reds and greens both lean more to A: each stimulus says so, the test between them does not."""
    first = embeddings()
    rows = compare(first, shifted(first, 0.3))
    for stimulus in ("r1", "g1"):
        row = one(rows, "association", stimulus)
        assert (row.verdict, row.side) == ("more", "man")
    assert one(rows, "differential_association").verdict == "undecided"


def test_a_prompt_lost_in_one_run_counts_in_neither():
    first, second = embeddings(), shifted(embeddings(), APART)
    gone = replace(second, neutral=second.neutral | {"r2": np.zeros((0, 5))})
    rows = compare(first, gone, paired=False)
    smaller = replace(DESIGN, concepts={"red": ("r1", "r3"), "green": DESIGN.concepts["green"]})
    alone = compare(first, second, smaller, paired=False)
    row = one(rows, "differential_association")
    assert row.value == pytest.approx(one(alone, "differential_association").value, abs=1e-12)
    assert "left out for want of images in one of the runs: 1 of the prompts" in row.reason
    lost = one(rows, "association", "r2")
    assert np.isnan(lost.value)
    assert "no neutral image" in lost.reason
    assert lost.verdict == "not measured"
    assert one(rows, "magnitude").value == pytest.approx(one(alone, "magnitude").value, abs=1e-12)


def test_a_test_without_a_prompt_is_nan_with_a_reason():
    first = embeddings()
    nothing = replace(first, neutral=first.neutral | dict.fromkeys(NAMES[:3], np.zeros((0, 5))))
    rows = compare(first, nothing, paired=False)
    for component in ("differential_association", "effect_size"):
        row = one(rows, component)
        assert np.isnan(row.value)
        assert np.isnan(row.p)
        assert "no prompt of red has all its images in both runs" in row.reason
    assert one(rows, "differential_association").verdict == "not measured"
    size = one(rows, "magnitude")
    assert "no test is measured" in size.reason
    assert size.verdict == "not measured"


def test_a_stimulus_of_one_image_is_left_out_of_which_leans_more():
    first, second = embeddings(), embeddings(seed=5)
    single = replace(second, neutral=second.neutral | {"r2": second.neutral["r2"][:1]})
    without = replace(second, neutral=second.neutral | {"r2": second.neutral["r2"][:0]})
    row, expected = (one(compare(first, run, OCCUPATIONS, paired=False), "magnitude") for run in (single, without))
    assert (row.value, row.p, row.n_target) == (expected.value, expected.p, 5)
    assert row.verdict == expected.verdict != "not measured"
    assert row.reason == "left out, with one image of a kind in one of the runs: r2"
    few = [replace(run, neutral={name: images[:1] for name, images in run.neutral.items()}) for run in (first, second)]
    none = one(compare(*few, OCCUPATIONS, paired=False), "magnitude")
    assert (none.verdict, np.isfinite(none.value)) == ("not measured", True)
    assert none.reason == "no interval: every stimulus has one image of a kind in one of the runs"


def test_one_prompt_in_each_set_has_no_interval_over_prompts():
    small = T2iatDesign({"red": ("r1",), "green": ("g1",)}, (DesignedTest("red-green", "red", "green"),), "man",
                              "woman")  # fmt: skip
    row = one(compare(embeddings(), embeddings(seed=5), small), "differential_association")
    assert np.isfinite([row.value, row.low, row.p]).all()
    assert np.isnan(row.stimulus_low)
    assert "one only" in row.reason
    assert (row.verdict, row.n_splits) == ("too few images", 4)


@pytest.mark.thorough
def test_fewer_images_do_not_lean_more_by_chance_alone():
    """40 times a model that leans nowhere, 12 images against 3: the magnitude has no sign, and p keeps its level."""
    signs, false = [], 0
    for turn in range(40):
        few, many = (embeddings(2 * turn + k, n=n, lean=0.0) for k, n in ((0, 3), (1, 12)))
        row = one(compare(few, many, OCCUPATIONS, paired=False, n_resamples=20), "magnitude")
        signs.append(row.value > 0)
        false += row.p <= 0.05
    assert 10 < sum(signs) < 30  # binomial, 3 standard errors
    assert false <= 6


@pytest.mark.thorough
def test_the_tests_keep_their_level_and_the_intervals_their_cover():
    """Two independent runs of one model, 50 times; bounds are 3 standard errors of the binomial."""
    base, n = embeddings(), 50
    rng = np.random.default_rng(3)
    false = {"differential_association": 0, "association": 0, "magnitude": 0}
    covered = dict.fromkeys(false, 0)

    def run():
        def redrawn(images):
            return images.mean(axis=0) + 0.5 * rng.normal(size=(6, images.shape[1]))

        return replace(
            base,
            neutral={key: redrawn(images) for key, images in base.neutral.items()},
            attribute={key: redrawn(images) for key, images in base.attribute.items()},
        )

    for _ in range(n):
        rows = compare(run(), run(), paired=False, n_resamples=200)
        for component in false:
            row = one(rows, component, "r1" if component == "association" else None)
            low, high = (row.low, row.high) if component == "association" else (row.stimulus_low, row.stimulus_high)
            false[component] += row.p <= 0.05
            covered[component] += low <= 0 <= high
    assert max(false.values()) <= 7, false
    assert min(covered.values()) >= 43, covered


def test_what_cannot_be_compared_is_refused():
    with raises(InvalidInputError, code=Code.MISMATCH, field="paired"):
        compare(embeddings(), embeddings(n=7))
    with raises(InvalidInputError, code=Code.MISMATCH, field="encoders"):
        compare(embeddings(), embeddings(encoder="ear"))
