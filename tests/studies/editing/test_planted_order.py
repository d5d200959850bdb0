"""The order of flips against what was planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.records import Score
from clinometer.studies.editing.design import EditingDesign, GenderReadings, PortraitGroup
from clinometer.studies.editing.scores import planted_order
from tests.raising import raises

PLANTED = {
    name: {"man": p, "woman": 1 - p} for name, p in zip("abcdef", (0.95, 0.85, 0.65, 0.3, 0.2, 0.1), strict=True)
}
DESIGN = EditingDesign(
    groups=(PortraitGroup("women", "woman"), PortraitGroup("men", "man")),
    a="man",
    b="woman",
    professions=dict.fromkeys(PLANTED, "all"),
    strengths=(0.5, 1.0),
)


def readings(n: int = 40, *, seed: int = 0, follow: float = 1.0) -> tuple[GenderReadings, np.ndarray]:
    """Edits at strength 1 read as men as often as was planted, times ``follow``; at strength 0.5 nothing flips."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1], n)
    before = np.where(groups == 0, -1.0, 1.0)
    man = np.array([planted["man"] for planted in PLANTED.values()])
    chance = 0.5 + follow * (man - 0.5)
    after = np.repeat(before[:, None, None], 6, 1).repeat(2, 2)
    after[:, :, 1] = np.where(rng.random((2 * n, 6)) < chance, 1.0, -1.0)
    return GenderReadings("toy", before[:, None], after[..., None], np.ones(after.shape)), groups


def at_full_strength(rows: list[Score]) -> Score:
    (found,) = [row for row in rows if row.setting == "strength 1"]
    return found


def test_it_is_spearmans_correlation_of_the_rates() -> None:
    reading, groups = readings()
    found = at_full_strength(planted_order([reading], groups, DESIGN, PLANTED))
    flipped = reading.before[:, None] * reading.after[:, :, 1] < 0
    rates = np.concatenate([flipped[groups == g, :, 0].mean(0) for g in (0, 1)])
    other = [PLANTED[name][gender] for gender in ("man", "woman") for name in PLANTED]
    assert found.value == pytest.approx(spearmanr(rates, other).statistic)
    assert found.value > 0.9
    assert found.low < found.high <= 1
    assert found.n_target == 80


def test_reversing_what_was_planted_turns_the_sign() -> None:
    reading, groups = readings()
    reversed_ = {name: {"man": row["woman"], "woman": row["man"]} for name, row in PLANTED.items()}
    plain, turned = (at_full_strength(planted_order([reading], groups, DESIGN, p)) for p in (PLANTED, reversed_))
    assert turned.value == pytest.approx(-plain.value)
    assert (turned.low, turned.high) == pytest.approx((-plain.high, -plain.low))


def test_neither_names_nor_the_order_of_portraits_matter() -> None:
    reading, groups = readings()
    plain = at_full_strength(planted_order([reading], groups, DESIGN, PLANTED))
    swapped = replace(DESIGN, a="woman", b="man")
    turned = replace(reading, before=-reading.before, after=-reading.after)
    assert at_full_strength(planted_order([turned], groups, swapped, PLANTED)) == plain
    order = np.random.default_rng(1).permutation(len(groups))
    shuffled = replace(reading, before=reading.before[order], after=reading.after[order])
    assert at_full_strength(planted_order([shuffled], groups[order], DESIGN, PLANTED)).value == plain.value


def test_where_flips_follow_nothing_the_interval_holds_zero() -> None:
    held = [at_full_strength(planted_order([r], g, DESIGN, PLANTED, n_resamples=300))
            for r, g in (readings(follow=0.0, seed=seed) for seed in range(40))]  # fmt: skip
    assert sum(row.low <= 0 <= row.high for row in held) >= 34


def test_nothing_to_order_has_a_reason() -> None:
    reading, groups = readings()
    weak = planted_order([reading], groups, DESIGN, PLANTED)[0]
    assert weak.setting == "strength 0.5"
    assert np.isnan(weak.value)
    assert weak.reason == "a group has no flip rate, or all are alike: nothing to order"
    lost = replace(reading, after=np.where(groups[:, None, None, None] == 0, np.nan, reading.after))
    assert "no flip rate" in at_full_strength(planted_order([lost], groups, DESIGN, PLANTED)).reason
    one = np.array([0, 40])
    single = replace(reading, before=reading.before[one], after=reading.after[one])
    found = at_full_strength(planted_order([single], groups[one], DESIGN, PLANTED))
    assert np.isfinite(found.value)
    assert np.isnan(found.low)
    assert found.reason == "a group has one portrait: no interval"


def test_too_few_known_professions_make_no_row() -> None:
    reading, groups = readings()
    assert planted_order([reading], groups, DESIGN, {name: PLANTED[name] for name in "ab"}) == []
    assert planted_order([reading], groups, DESIGN, {name: {"dark": 0.5} for name in PLANTED}) == []
    some = planted_order([reading], groups, DESIGN, {name: PLANTED[name] for name in "abf"})
    assert np.isfinite(at_full_strength(some).value)


def test_portraits_without_a_group_are_refused() -> None:
    reading, groups = readings()
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, match="toy: .*5 .*80"):
        planted_order([reading], groups[:5], DESIGN, PLANTED)
