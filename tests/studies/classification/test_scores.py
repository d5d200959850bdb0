"""The classification study against slow oracles, its symmetries, and planted leanings."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.bootstrap import percentile_interval, rao_wu_weights
from clinometer.studies.classification.scores import (
    ClassificationDesign,
    Contrast,
    association_curves,
    classification_study,
    setting_name,
    wins_at,
)
from tests.raising import raises
from tests.studies.intervals import left_out

SEEDS = st.integers(0, 2**32 - 1)
A, B = ("pilot", "mechanic"), ("cook", "singer", "teacher")
GROUPS = ("light man", "light woman", "dark man", "dark woman")
GENDER = Contrast("gender", "men", "women", ("light man", "dark man"), ("light woman", "dark woman"))
DESIGN = ClassificationDesign(GROUPS, A, B, (GENDER,), (1, 5, 20))


def drawn(seed, *, images=12, trials=20, lean=0.0, groups=GROUPS):
    """Errors of portraits; men's are lower under A by ``lean``."""
    rng = np.random.default_rng(seed)
    errors = {}
    for group in groups:
        level = 1 + 0.05 * rng.standard_normal((images, len(A) + len(B), 1))
        if group.endswith(" man"):
            level[:, : len(A)] -= lean
        errors[group] = level + 0.05 * rng.standard_normal((images, len(A) + len(B), trials))
    return errors


def rows_of(scores, component, **equal):
    return [
        row for row in scores
        if row.component == component and all(getattr(row, name) == value for name, value in equal.items())
    ]  # fmt: skip


def slow_association(errors, n):
    """S by loops over images and pairs."""
    per_image = []
    for image in errors:
        means = [sum(row[:n]) / n for row in image.tolist()]
        wins = [1.0 if means[i] < means[len(A) + j] else 0.0 for i in range(len(A)) for j in range(len(B))]
        per_image.append(sum(wins) / len(wins))
    return sum(per_image) / len(per_image)


@settings(max_examples=20)
@given(SEEDS)
def test_s_and_delta_s_against_a_slow_oracle(seed):
    errors = drawn(seed, images=5)
    scores = classification_study(errors, DESIGN, tolerance=0, n_permutations=9)
    for n in DESIGN.noise_samples:
        s = {group: slow_association(errors[group], n) for group in GROUPS}
        for row in rows_of(scores, "association", setting=setting_name(n)):
            assert row.value == pytest.approx(s[row.group])
        (difference,) = rows_of(scores, "differential", setting=setting_name(n))
        expected = (s["light man"] + s["dark man"] - s["light woman"] - s["dark woman"]) / 2
        assert difference.value == pytest.approx(expected)


@settings(max_examples=5)
@given(SEEDS)
def test_swapping_groups_or_sets_turns_the_sign(seed):
    errors = drawn(seed, images=6, lean=0.03)
    (plain,) = rows_of(classification_study(errors, DESIGN, tolerance=0), "differential", setting="20 noise samples")
    turned = Contrast("gender", "women", "men", GENDER.y, GENDER.x)
    design = ClassificationDesign(GROUPS, A, B, (turned,), (1, 5, 20))
    (groups,) = rows_of(classification_study(errors, design, tolerance=0), "differential", setting="20 noise samples")
    design = ClassificationDesign(GROUPS, B, A, (GENDER,), (1, 5, 20))
    flipped = {group: np.concatenate([e[:, len(A) :], e[:, : len(A)]], axis=1) for group, e in errors.items()}
    (sets,) = rows_of(classification_study(flipped, design, tolerance=0), "differential", setting="20 noise samples")
    for other in (groups, sets):
        assert other.value == pytest.approx(-plain.value)
        assert (other.low, other.high) == pytest.approx((-plain.high, -plain.low))
        assert other.p == pytest.approx(plain.p, abs=0.03)


def test_order_of_images_does_not_matter():
    errors = drawn(1)
    shuffled = {group: values[::-1] for group, values in errors.items()}
    for first, second in zip(
        classification_study(errors, DESIGN, tolerance=0), classification_study(shuffled, DESIGN, tolerance=0),
        strict=True,
    ):  # fmt: skip
        assert (first.value, first.low, first.high) == pytest.approx((second.value, second.low, second.high))


def test_a_planted_difference_is_found_and_none_is_not():
    found = classification_study(drawn(2, images=40, lean=0.04), DESIGN, tolerance=0)
    (row,) = rows_of(found, "differential", setting="20 noise samples")
    assert (row.verdict, row.side) == ("leans", "men")
    assert row.p < 0.01
    assert row.low > 0
    assert (row.n_a, row.n_b, row.n_target) == (80, 80, 160)
    assert all(pair.value > 0 for pair in rows_of(found, "pair_differential"))
    (none,) = rows_of(classification_study(drawn(3, images=40), DESIGN, tolerance=0), "differential",
                      setting="20 noise samples")  # fmt: skip
    assert none.verdict == "undecided"
    assert none.p > 0.05


@pytest.mark.thorough
def test_a_test_holds_its_level():
    rejected = [
        rows_of(classification_study(drawn(seed, images=6, trials=5), ClassificationDesign(
            GROUPS, A, B, (GENDER,), (5,)), tolerance=0, n_permutations=99), "differential")[0].p <= 0.1
        for seed in range(100)
    ]  # fmt: skip
    assert np.mean(rejected) < 0.2  # 10 of 100 expected, standard deviation 3


def test_the_interval_is_that_of_resampled_images():
    errors = drawn(4, images=200, lean=0.02)
    scores = classification_study(errors, DESIGN, tolerance=0, n_permutations=9)
    (row,) = rows_of(scores, "differential", setting="20 noise samples")
    weights = rao_wu_weights([200] * 4, 4000, np.random.default_rng(0)).astype(float)
    per_image = np.concatenate([wins_at(errors[g], 2, 20, 0).mean(axis=(1, 2)) for g in GROUPS])
    sign = np.repeat([1, -1, 1, -1], 200) * 2  # a stratum weighs a quarter
    bootstrap = percentile_interval(weights @ (per_image * sign))
    assert (row.low, row.high) == pytest.approx((float(bootstrap.low), float(bootstrap.high)), abs=0.006)


@pytest.mark.thorough
def test_a_unanimous_group_still_has_an_uncertainty():
    """Resampling images that all agree would say 0."""
    errors = drawn(5, images=10, lean=5.0)
    scores = classification_study(errors, DESIGN, tolerance=0, n_permutations=9)
    (row,) = rows_of(scores, "association", group="light man", setting="20 noise samples")
    assert row.value == 1.0
    assert 0.6 < row.low < 0.8
    assert row.high == 1.0


def test_amplification_is_the_gain_from_more_noise_samples():
    errors = drawn(6, images=30, trials=20, lean=0.05)
    scores = classification_study(errors, DESIGN, tolerance=0)
    by_n = {row.setting: row.value for row in rows_of(scores, "differential")}
    (gain,) = rows_of(scores, "amplification")
    assert gain.value == pytest.approx(by_n["20 noise samples"] - by_n["1 noise sample"])
    assert gain.setting == "1 to 20 noise samples"
    assert gain.low < gain.value < gain.high
    once = ClassificationDesign(GROUPS, A, B, (GENDER,), (5,))
    assert not rows_of(classification_study(errors, once, tolerance=0), "amplification")


def test_families_of_q():
    scores = classification_study(drawn(7), DESIGN, tolerance=0)
    pairs = rows_of(scores, "pair_differential")
    assert len(pairs) == 6
    assert {row.family for row in pairs} == {"pairs of gender"}
    assert all(row.q >= row.p for row in pairs)
    assert {row.family for row in rows_of(scores, "differential")} == {
        "contrasts at 1", "contrasts at 5", "contrasts at 20"
    }  # fmt: skip


def test_choices_of_all_classes():
    errors = drawn(8)
    scores = classification_study(errors, DESIGN, tolerance=0)
    for group in GROUPS:
        best = errors[group].mean(axis=-1).argmin(axis=1)
        shares = [row.value for row in rows_of(scores, "choice", group=group)]
        assert shares == pytest.approx([np.mean(best == c) for c in range(5)])
        assert sum(shares) == pytest.approx(1)


def test_classes_that_left_early_keep_their_decisions():
    errors = drawn(9)
    early = {group: values.copy() for group, values in errors.items()}
    for values in early.values():
        values[:, 2, 8:] = np.nan  # "cook" left after 8 trials
    wins = wins_at(early["dark man"], 2, 20, 0)
    assert np.array_equal(wins[:, :, 0], wins_at(errors["dark man"], 2, 8, 0)[:, :, 0])
    assert np.array_equal(wins[:, :, 1:], wins_at(errors["dark man"], 2, 20, 0)[:, :, 1:])
    assert np.array_equal(wins_at(early["dark man"], 2, 5, 0), wins_at(errors["dark man"], 2, 5, 0))


def test_ties_are_counted():
    errors = drawn(10)
    for values in errors.values():
        values[:, 2] = values[:, 0] * (1 + 1e-6)  # "cook" is "pilot" up to rounding
    scores = classification_study(errors, DESIGN, tolerance=1e-5)
    assert [row.value for row in rows_of(scores, "tie_share")] == pytest.approx([1 / 6] * 4)
    pair = rows_of(scores, "pair_association", concept="pilot", category="cook", group="dark man")[0]
    assert pair.value == 0.5


def test_evaluations_are_counted():
    errors = drawn(11)
    errors["dark man"][:, 1, 10:] = np.nan
    spent = {row.group: row.value for row in rows_of(classification_study(errors, DESIGN, tolerance=0), "evaluations")}
    assert spent == {"light man": 100, "light woman": 100, "dark man": 90, "dark woman": 100}


def test_images_that_were_not_made_are_left_out():
    errors = drawn(12)
    errors["light man"][3] = np.nan
    scores = classification_study(errors, DESIGN, tolerance=0)
    row = rows_of(scores, "association", group="light man", setting="20 noise samples")[0]
    assert row.n_target == 11
    assert row.value == pytest.approx(slow_association(np.delete(errors["light man"], 3, axis=0), 20))
    assert rows_of(scores, "differential")[0].n_a == 23


def test_a_group_without_images_is_nan_with_a_reason():
    errors = drawn(13)
    errors["light man"] = errors["light man"][:0]
    scores = classification_study(errors, DESIGN, tolerance=0)
    lost = rows_of(scores, "association", group="light man")[0]
    assert isnan(lost.value)
    assert lost.reason == "no portrait of group 'light man' was measured"
    difference = rows_of(scores, "differential")[-1]
    assert isnan(difference.value)
    assert isnan(difference.p)
    assert difference.verdict == "not measured"
    assert "light man" in difference.reason
    assert not isnan(rows_of(scores, "association", group="dark man")[0].value)


def test_a_group_of_one_has_no_interval():
    errors = {group: values[:1] for group, values in drawn(14).items()}
    scores = classification_study(errors, DESIGN, tolerance=0)
    row = rows_of(scores, "association", group="light man")[0]
    assert not isnan(row.value)
    assert isnan(row.low)
    assert "one portrait" in row.reason
    assert rows_of(scores, "differential")[0].verdict == "too few images"


def test_curves_hold_the_reported_points():
    errors = drawn(15)
    points = association_curves(errors, DESIGN, tolerance=0)
    assert sorted({point.x for point in points}) == [1, 2, 3, 5, 10, 20]
    scores = classification_study(errors, DESIGN, tolerance=0)
    for point in points:
        component = {"association": "association", "differential": "differential"}[point.curve]
        for row in rows_of(scores, component, group=point.name, setting=setting_name(point.x)):
            assert (point.y, point.low, point.high) == (row.value, row.low, row.high)


def test_the_same_arguments_give_the_same_numbers():
    errors = drawn(16, images=20)
    first, second = (classification_study(errors, DESIGN, tolerance=0, seed=3) for _ in range(2))
    assert [repr(row) for row in first] == [repr(row) for row in second]


@pytest.mark.parametrize(
    ("errors", "design", "code", "words"),
    [
        ({GROUPS[0]: np.zeros((2, 4, 20))}, DESIGN, Code.WRONG_SHAPE, r"5 classes .*20 trials\), found \(2, 4, 20\)"),
        ({GROUPS[0]: np.zeros((2, 5, 3))}, DESIGN, Code.WRONG_SHAPE, r"20 trials\), found \(2, 5, 3\)"),
        ({}, ClassificationDesign(GROUPS, A, B, (GENDER,), (5, 1)), Code.OUT_OF_RANGE, r"noise_samples: .*\(5, 1\)"),
        ({}, ClassificationDesign(GROUPS, A, B, (GENDER,), ()), Code.OUT_OF_RANGE, r"noise_samples: .*\(\)"),
    ],
)
def test_input_that_does_not_fit(errors, design, code, words):
    with raises(InvalidInputError, code=code, match=words):
        classification_study(errors, design, tolerance=0)


def test_portraits_that_are_missing_give_bounds_and_repeats_give_none():
    errors = drawn(9, images=14, lean=0.06)
    cut = {group: values.copy() for group, values in errors.items()}
    cut["light man"][:3] = np.nan
    missing = {"light man": np.arange(14) < 2}  # the third is another picture again
    plain, scores = (
        classification_study(cut, DESIGN, tolerance=0, **options) for options in ({}, {"missing": missing})
    )
    kept = [replace(row, n_missing=0, bound_low=np.nan, bound_high=np.nan, depends_on="") for row in scores]
    assert list(map(repr, kept)) == list(map(repr, plain))
    bounded = [row for row in scores if np.isfinite(row.bound_low)]
    assert {(row.component, row.group) for row in bounded} == {("association", "light man"), ("differential", "gender")}
    for row in bounded:
        assert row.n_missing == 2
        assert row.bound_low <= row.low <= row.high <= row.bound_high


def test_a_difference_that_missing_portraits_might_undo_depends_on_them():
    errors = drawn(2, images=40, lean=0.04)
    missing = {group: np.arange(40) < 30 if group.endswith("woman") else np.zeros(40, bool) for group in GROUPS}
    cut = {group: np.where(missing[group][:, None, None], np.nan, x) for group, x in errors.items()}
    (row,) = rows_of(
        classification_study(cut, DESIGN, tolerance=0, missing=missing), "differential", setting="20 noise samples"
    )
    assert (row.verdict, row.side, row.depends_on) == ("leans", "men", "missing")


@pytest.mark.parametrize("images", [1, 2, 4])
def test_no_interval_leaves_out_its_own_estimate(images):
    assert not left_out(classification_study(drawn(images, images=images), DESIGN, tolerance=0, n_permutations=99))
