"""Differences between two runs over portraits: swaps against brute force, symmetry, level and cover."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from clinometer.metrics.differences import DEALT, SWAPPED, PortraitPair, difference_row, portrait_magnitude
from clinometer.studies.classification import ClassificationDesign, Contrast
from clinometer.studies.classification.scores import ClassifiedPortraits, compare_classifications
from clinometer.studies.editing.compare import EditedPortraits, compare_edits
from clinometer.studies.editing.design import EditingDesign, GenderReadings, PortraitGroup

WEIGHTS = {"women": 1.0, "men": -1.0}
OPTIONS = {"n_permutations": 19_999}


def drawn(rng, n=4, columns=1, shift=0.0):
    return {group: (rng.random((n, columns)) < 0.4 + shift).astype(float) for group in WEIGHTS}


def theta(values, column=0):
    return sum(weight * values[group][:, column].mean() for group, weight in WEIGHTS.items())


def row_of(pair, **options):
    given = OPTIONS | {"answers": 1, "rng": np.random.default_rng(0)} | options
    return difference_row(pair, WEIGHTS, "flip_asymmetry", **given)


def swapped(first, second, places):
    """Both runs after the pairs at ``places`` (group, i) have changed places."""
    runs = [{group: values.copy() for group, values in run.items()} for run in (first, second)]
    for group, i in places:
        runs[0][group][i], runs[1][group][i] = second[group][i].copy(), first[group][i].copy()
    return runs


def dealt(first, second):
    """Every way of dealing each group's portraits out again between two runs."""
    n = {group: len(values) for group, values in first.items()}
    pools = {group: np.concatenate([first[group], second[group]]) for group in WEIGHTS}
    chosen = product(*(combinations(range(2 * n[group]), n[group]) for group in WEIGHTS))
    for choice in chosen:
        members = {group: np.isin(np.arange(2 * n[group]), own) for group, own in zip(WEIGHTS, choice, strict=True)}
        yield ({group: pools[group][~members[group]] for group in WEIGHTS},
               {group: pools[group][members[group]] for group in WEIGHTS})  # fmt: skip


def every_swap(first, second):
    places = [(group, i) for group in WEIGHTS for i in range(len(first[group]))]
    for size in range(len(places) + 1):
        for some in combinations(places, size):
            yield swapped(first, second, some)


@pytest.mark.parametrize("paired", [True, False])
def test_p_counts_every_relabelling_of_the_runs(paired):
    rng = np.random.default_rng(1)
    first, second = drawn(rng), drawn(rng, shift=0.3)
    row = row_of(PortraitPair(first, second, paired))
    all_ways = list(every_swap(first, second) if paired else dealt(first, second))
    others = np.array([theta(b) - theta(a) for a, b in all_ways])
    assert row.value == pytest.approx(theta(second) - theta(first))
    assert (row.p_exact, row.n_splits, row.test) == (True, len(all_ways), SWAPPED if paired else DEALT)
    assert row.p == pytest.approx((np.abs(others) >= abs(row.value) - 1e-9).mean())


@pytest.mark.parametrize("paired", [True, False])
def test_the_magnitude_is_tested_by_the_same_relabellings(paired):
    rng = np.random.default_rng(2)
    first, second = drawn(rng, columns=3), drawn(rng, columns=3, shift=0.2)

    def size(values):
        return np.mean([abs(theta(values, column)) for column in range(3)])

    row = portrait_magnitude(
        PortraitPair(first, second, paired), {group: np.full(3, weight) for group, weight in WEIGHTS.items()},
        rng=np.random.default_rng(0), **OPTIONS,
    )  # fmt: skip
    ways = every_swap(first, second) if paired else dealt(first, second)
    others = np.array([size(b) - size(a) for a, b in ways])
    assert row.value == pytest.approx(size(second) - size(first))
    assert row.p == pytest.approx((np.abs(others) >= abs(row.value) - 1e-9).mean())
    assert (row.component, row.q) == ("magnitude", row.p)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("answers", [1, None])
def test_turned_round_it_says_the_same(paired, answers):
    rng = np.random.default_rng(3)
    first, second = drawn(rng, n=9), drawn(rng, n=9, shift=0.3)
    forth = row_of(PortraitPair(first, second, paired), answers=answers)
    back = row_of(PortraitPair(second, first, paired), answers=answers)
    assert (back.value, back.low, back.high) == pytest.approx((-forth.value, -forth.high, -forth.low))
    assert back.p == pytest.approx(forth.p, abs=0.02)


def test_pairs_that_agree_make_it_narrow_and_a_doubt_remains():
    first = drawn(np.random.default_rng(4), n=40)
    second = {group: values.copy() for group, values in first.items()}
    second["women"][:3] = 1 - second["women"][:3]
    rows = [row_of(PortraitPair(first, second, paired)) for paired in (True, False)]
    assert rows[0].high - rows[0].low < 0.6 * (rows[1].high - rows[1].low)
    alike = row_of(PortraitPair(first, first, True))
    assert (alike.value, alike.p) == (0, 1)
    assert alike.low < -0.01 < 0.01 < alike.high


def test_who_is_missing_in_one_run_counts_in_neither_of_a_pair():
    rng = np.random.default_rng(5)
    first, second = drawn(rng, n=6), drawn(rng, n=6, shift=0.3)
    first["men"][2] = np.nan
    whole = [{"women": run["women"], "men": np.delete(run["men"], 2, axis=0)} for run in (first, second)]
    found, expected = row_of(PortraitPair(first, second, True)), row_of(PortraitPair(*whole, True))
    assert found == expected
    assert found.n_target == 11


def test_a_group_without_portraits_has_no_difference_and_no_test():
    rng = np.random.default_rng(6)
    first = drawn(rng) | {"men": np.full((4, 1), np.nan)}
    row = row_of(PortraitPair(first, drawn(rng), True))
    assert np.isnan([row.value, row.p]).all()
    assert row.reason == "nothing was measured"
    weights = {group: np.ones(1) for group in WEIGHTS}
    size = portrait_magnitude(PortraitPair(first, drawn(rng), True), weights, rng=rng, **OPTIONS)
    assert np.isnan(size.value)
    assert "both runs measure" in size.reason
    assert size.verdict == "not measured"


def edited(rng, lose=None, group=None, n=12):
    """Portraits of women and of men, edited into three professions; of one of them a run may have no edit."""
    groups = np.repeat([0, 1], n)
    before = np.where(groups == 0, -1.0, 1.0)[:, None]
    after = rng.normal(size=(2 * n, 3, 1, 1)) + 2 * before[:, :, None, None] * np.array([-1, 1, 1])[:, None, None]
    tone = rng.normal(size=(2 * n, 3, 1))
    if lose is not None:
        rows = np.ones(2 * n, bool) if group is None else groups == group
        after[rows, lose] = tone[rows, lose] = np.nan
    return EditedPortraits(groups, [GenderReadings("reader", before, after, np.ones(tone.shape))], tone)


EDITING = EditingDesign(
    groups=(PortraitGroup("women", "f", ""), PortraitGroup("men", "m", "")), a="m", b="f",
    professions={"cook": "low", "maid": "low", "judge": "high"}, strengths=(1.0,), tones=(),
)  # fmt: skip


def edit_row(rows, component="flip_asymmetry", **named):
    wanted = {"encoder": "mean", "concept": "", "category": "low", "group": ""} | named
    (row,) = [r for r in rows if r.component == component and all(getattr(r, k) == v for k, v in wanted.items())]
    return row


@pytest.mark.parametrize("paired", [True, False])
def test_a_profession_that_one_run_lost_is_left_out_of_both(paired):
    """Cooks flip and maids do not: a class with cooks in one run only would differ by that alone."""
    rng = np.random.default_rng(8)
    rows = compare_edits(edited(rng, lose=0), edited(rng), EDITING, paired=paired, n_permutations=199)
    row, maid, cook = edit_row(rows), edit_row(rows, concept="maid"), edit_row(rows, concept="cook")
    assert (row.value, row.low, row.high) == (maid.value, maid.low, maid.high)
    assert row.reason == "left out, as one of the runs has nothing of it: cook"
    assert (cook.verdict, cook.reason) == ("not measured", "nothing was measured in one of the runs: cook")
    assert edit_row(rows, category="high").reason == ""
    assert "cook" in edit_row(rows, "magnitude", category="all").reason


def test_a_profession_that_one_group_lost_is_said_of_that_group():
    rng = np.random.default_rng(9)
    rows = compare_edits(edited(rng, lose=0, group=1), edited(rng), EDITING, paired=False, n_permutations=199)
    assert "cook" in edit_row(rows, "flip_rate", group="men").reason
    assert edit_row(rows, "flip_rate", group="women").reason == ""
    assert "cook" in edit_row(rows).reason


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_it_keeps_its_level_and_its_cover(paired):
    """Two models that flip with probabilities of their own; portraits differ in how easily they flip."""
    rng = np.random.default_rng(7)
    false_alarms, covered, n, repeats = 0, 0, 20, 400
    for shift in (0.0, 0.25):
        for _ in range(repeats):
            ease = {group: rng.normal(0, 0.15, (n, 1)) for group in WEIGHTS}
            first, second = (
                {group: (rng.random((n, 1)) < (0.35 + ease[group] + (by if group == "women" else 0))).astype(float)
                 for group in WEIGHTS}
                for by in (0.0, shift)
            )  # fmt: skip
            row = row_of(PortraitPair(first, second, paired), n_permutations=199)
            covered += row.low <= shift <= row.high
            false_alarms += shift == 0 and row.p <= 0.05
    assert false_alarms / repeats <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert covered / (2 * repeats) >= 0.93


def lost(run, places, **fields):
    """A run of edits without those at some places, (n, P, S)."""
    (reading,) = run.readings
    after = np.where(places[..., None], np.nan, reading.after)
    missing = {"missing": places} | fields
    return replace(run, readings=[replace(reading, after=after)],
                   tone_change=np.where(places, np.nan, run.tone_change), **missing)  # fmt: skip


def bounded(rows):
    return [row for row in rows if np.isfinite(row.bound_low)]


def bare(rows):
    """Rows without what is said of the pictures that are missing."""
    return [
        repr(replace(row, n_missing=0, bound_low=np.nan, bound_high=np.nan, depends_on="",
                     reason=row.reason.partition("no bounds")[0].rstrip("; ")))
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("paired", [True, False])
def test_bounds_of_a_difference_of_edits_hold_its_interval_and_change_nothing_else(paired):
    rng = np.random.default_rng(12)
    first, second = edited(rng), edited(rng)
    places = rng.random(first.tone_change.shape) < 0.2
    options = {"paired": paired, "n_permutations": 199}
    plain = compare_edits(first, lost(second, places, missing=None), EDITING, **options)
    rows = compare_edits(first, lost(second, places), EDITING, **options)
    assert bare(rows) == bare(plain)
    assert {row.component for row in bounded(rows)} == {"flip_rate", "flip_asymmetry", "magnitude"}
    for row in bounded(rows):
        assert row.bound_low <= row.low <= row.high <= row.bound_high
        assert row.n_missing or not row.depends_on
    changes = [row for row in rows if row.component == "ita_change" and row.n_missing]
    assert changes
    assert all("has no furthest value" in row.reason for row in changes)
    whole = compare_edits(first, second, EDITING, **options)
    for row, before in zip(rows, whole, strict=True):
        assert row.component == "magnitude" or not row.n_missing or np.isnan(row.bound_low) or (
            row.bound_low - 1e-9 <= before.value <= row.bound_high + 1e-9
        )  # fmt: skip


@pytest.mark.parametrize("paired", [True, False])
def test_bounds_of_a_difference_of_choices_hold_its_interval_and_change_nothing_else(paired):
    rng = np.random.default_rng(13)
    design = ClassificationDesign(
        ("men", "women"), ("pilot",), ("cook", "maid"), (Contrast("g", "m", "w", ("men",), ("women",)),), (4,)
    )
    runs = [{group: 1 + 0.3 * rng.random((14, 3, 4)) for group in design.groups} for _ in range(2)]
    gone = {group: rng.random(14) < 0.25 for group in design.groups}
    cut = {group: np.where(gone[group][:, None, None], np.nan, x) for group, x in runs[1].items()}
    whole, plain, rows = (
        compare_classifications(ClassifiedPortraits(runs[0], 0.0), other, design, paired=paired, n_permutations=199)
        for other in (ClassifiedPortraits(runs[1], 0.0), ClassifiedPortraits(cut, 0.0),
                      ClassifiedPortraits(cut, 0.0, gone))
    )  # fmt: skip
    assert bare(rows) == bare(plain)
    assert [row.component for row in bounded(rows)] == [row.component for row in rows]
    for row, before in zip(rows, whole, strict=True):
        assert row.bound_low <= row.low <= row.high <= row.bound_high
        assert row.component == "magnitude" or row.bound_low <= before.value <= row.bound_high


@pytest.mark.thorough
def test_a_filter_of_one_group_makes_no_finding_of_flips_without_a_qualifier():
    """Portraits flip as often in both genders and runs; of one the second does not show those that flip."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng([14, seed])
        first, second = edited(rng, n=40), edited(rng, n=40)
        flipped = np.sign(second.readings[0].after[..., 0]) != np.sign(second.readings[0].before[:, :, None])
        places = flipped & (second.groups == 0)[:, None, None] & (rng.random(flipped.shape) < 0.8)
        rows = compare_edits(first, lost(second, places), EDITING, paired=False, n_permutations=199)
        found.append([(row.verdict == "more", bool(row.depends_on)) for row in rows if row.verdict])
    says = np.array(found)[..., 0]
    bare_says = says & ~np.array(found)[..., 1]
    assert says.any(axis=1).mean() >= 0.4
    assert bare_says.any(axis=1).mean() <= 0.1
