"""Stopping: the same MCAS as everywhere, evidence that belongs to one target, decisions that stand."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from clinometer.errors import InvalidInputError
from clinometer.metrics import StoppingRule, rows_when_stopped, stands_of
from clinometer.metrics.verdict import BALANCED, UNDECIDED
from tests.metrics.studies import GROUPS, design, embeddings, one, study

DECIDED = StoppingRule()


def first(encoder, counts):
    """The first images of each target."""
    images = tuple(x[:n] for x, n in zip(encoder.target_images, counts, strict=True))
    return replace(encoder, target_images=images)


def test_the_mean_is_the_mcas_of_the_study():
    encoders = embeddings("a"), embeddings("b", seed=1)
    rows = study(*encoders)
    for target, stand in zip(design().targets, stands_of(encoders, design()), strict=True):
        assert stand.value == pytest.approx(one(rows, "mcas", "mcas", concept=target.name).value)
        assert stand.low <= stand.value <= stand.high
        assert stand.n == 8


def test_leanings_are_decided_and_next_to_none_is_not():
    *leaning, close = stands_of([embeddings(images=40)], design(margin=0.02))
    assert all(stand.leans and not stand.low <= 0 <= stand.high for stand in leaning)
    assert [np.sign(leaning[t].value) for t in (0, 1, 3, 4)] == [1, -1, 1, -1]
    assert abs(close.value) < 0.05
    assert not close.stops(DECIDED)


def test_balance_is_shown_by_enough_images_within_a_wide_margin():
    level, of = embeddings(images=400, leanings=(0.0,) * 6), design(margin=0.62)
    stands = stands_of([level], of)
    assert max(abs(stand.value) for stand in stands) < 0.6
    assert all(stand.balanced and stand.stops(DECIDED) for stand in stands)
    assert not all(stand.balanced for stand in stands_of([first(level, [10] * 6)], of))


def test_evidence_belongs_to_one_target():
    encoder = embeddings(images=30)
    all_of_it = stands_of([encoder], design(margin=0.1))
    fewer = stands_of([first(encoder, [30, 5, 30, 5, 30, 5])], design(margin=0.1))
    for t in (0, 2, 4):
        assert (all_of_it[t].e, all_of_it[t].e_balance, all_of_it[t].low) == (
            fewer[t].e,
            fewer[t].e_balance,
            fewer[t].low,
        )


def test_what_is_decided_stays_decided():
    encoder, counts = embeddings(images=60, noise=1.5, leanings=(0.6, -0.6, 0.0, 0.2, -0.2, 0.0)), [5] * 6
    decided = set()
    for _ in range(8):
        stands = stands_of([first(encoder, counts)], design(margin=0.05))
        now = {t for t, stand in enumerate(stands) if stand.stops(DECIDED)}
        assert decided <= now
        decided, counts = now, [n if t in now else n + 5 for t, n in enumerate(counts)]
    assert 0 < len(decided) < 6


def test_a_precision_stops_where_the_sequence_is_narrow():
    stands = stands_of([embeddings(images=60)], design())
    widths = [(stand.high - stand.low) / 2 for stand in stands]
    rule = StoppingRule(precision=float(np.median(widths)))
    assert [stand.stops(rule) for stand in stands] == [width <= rule.precision for width in widths]
    with pytest.raises(InvalidInputError, match="precision: expected a positive finite number, found 0"):
        StoppingRule(precision=0)


def test_looking_all_along_calls_parity_leaning_no_more_often_than_it_may():
    """30 studies of six targets whose images are the groups' own mixed evenly, looked at after every fifth image."""
    rng = np.random.default_rng(7)
    called = 0
    for _ in range(30):
        encoder = embeddings(images=0, words=(4, 4, 3))
        pool = {g: np.concatenate(encoder.group_images[g]) for g in ("man", "woman")}
        mirrored = embeddings(images=0)
        axis = pool["man"].mean(0) - pool["woman"].mean(0)
        centre = (pool["man"].mean(0) + pool["woman"].mean(0)) / 2
        targets = tuple(
            centre + rng.choice([-0.5, 0.5], (60, 1)) * axis + 0.1 * rng.normal(size=(60, len(axis))) for _ in range(6)
        )
        texts = np.repeat(centre[None], 6, axis=0)
        held = replace(mirrored, target_images=targets, target_texts=texts)
        # MCAS at parity is the constant that the design leaves: move the hypothesis there by subtracting it.
        truth = stands_of([replace(held, target_images=tuple(_balanced(centre, axis) for _ in range(6)))], design())
        for n in range(10, 61, 10):
            stands = stands_of([first(held, [n] * 6)], design())
            if any(not stand.low <= true.value <= stand.high for stand, true in zip(stands, truth, strict=True)):
                called += 1
                break
    assert called <= 30 * 6 * 0.05


def _balanced(centre, axis):
    return np.stack([centre + 0.5 * axis, centre - 0.5 * axis])


def test_rows_of_a_stopped_run_claim_nothing_that_needs_a_fixed_number():
    encoder, of = embeddings(images=30), design(margin=0.02)
    rows = study(encoder, of=of)
    stands = stands_of([encoder], of, ahead=True)
    held = rows_when_stopped(rows, stands, of)
    assert len(held) == len(rows)
    for before, row in zip(rows, held, strict=True):
        assert row.value == before.value or np.isnan(row.value)
        if (row.metric, row.component, row.encoder) == ("mcas", "mcas", "mean"):
            stand = stands[[target.name for target in of.targets].index(row.concept)]
            assert (row.low, row.high, row.q) == (stand.low, stand.high, stand.q)
            assert row.p == pytest.approx(min(1, 1 / stand.e))
            assert row.p <= row.p_holm
            assert "valid at any number of images" in row.test
            leans = stand.leans and before.q <= 0.05
            expected = BALANCED if stand.balanced else "leans" if leans else UNDECIDED
            assert row.verdict.startswith(expected)
            factor = min(stand.factor_balance, stand.factor if before.q <= 0.05 else np.inf)
            assert (row.n_decide > stand.n) == (row.verdict == UNDECIDED and np.isfinite(factor))
        elif row.metric == "reader" or (row.metric == "mcas" and row.component in ("itp", "tt")):
            np.testing.assert_equal(asdict(row), asdict(before))
        else:
            assert np.isnan([row.low, row.high, row.p, row.q]).all()
            assert row.verdict == ""
            assert row.reason


def continued(encoder, of, factor, rng):
    """So many times the images, those to come drawn from those there are, of the targets that are not decided."""
    images = [
        x if stand.stops(DECIDED) else np.concatenate([x, rng.choice(x, int(np.ceil(len(x) * factor)) - len(x))])
        for x, stand in zip(encoder.target_images, stands_of([encoder], of), strict=True)
    ]
    return stands_of([replace(encoder, target_images=tuple(images))], of)


def test_the_images_ahead_decide_in_half_of_the_continuations_or_more():
    encoder = embeddings(images=10, noise=1.5, leanings=(0.6, -0.6, 0.9, 0.5, -0.9, 0.7))
    of, rng = design(margin=0.2), np.random.default_rng(3)
    stands, shares = stands_of([encoder], of, ahead=True), []
    for t, stand in enumerate(stands):
        factor = min(stand.factor, stand.factor_balance)
        if stand.stops(DECIDED) or factor > 10:
            continue
        shares.append(np.mean([continued(encoder, of, factor, rng)[t].stops(DECIDED) for _ in range(10)]))
    assert len(shares) >= 3
    assert min(shares) >= 0.3
    assert np.mean(shares) < 0.95


def test_images_of_a_target_change_nothing_where_its_labels_hold_it_back():
    encoder, of = embeddings(images=10, words=(1, 1, 1), attribute_images=2, noise=1.0), design()
    rows, stands = study(encoder, of=of), stands_of([encoder], of, ahead=True)
    held = rows_when_stopped(rows, stands, of)
    some = 0
    for target, stand in zip(of.targets, stands, strict=True):
        before, row = (one(each, "mcas", "mcas", concept=target.name) for each in (rows, held))
        if before.q > 0.05:
            some += np.isfinite(stand.factor)
            assert row.n_decide == 0
    assert some


def test_where_few_words_carry_a_leaning_more_images_do_not_decide_it():
    encoder, of = embeddings(images=200, words=(1, 1, 1), attribute_images=2), design(margin=0.02)
    stands, rows = stands_of([encoder], of, ahead=True), study(encoder, of=of)
    held = [one(rows_when_stopped(rows, stands, of), "mcas", "mcas", concept=f"target {t}") for t in (0, 3, 4)]
    assert all(stands[t].leans and stands[t].stops(DECIDED) for t in (0, 3, 4))
    assert [row.verdict for row in held] == ["leans to man", UNDECIDED, UNDECIDED]
    assert [row.n_decide for row in held] == [0, 0, 0]
    assert all(row.q <= 0.05 and not row.low <= 0 <= row.high for row in held)
    of_labels = [one(rows, "mcas", "mcas", concept=row.concept).q for row in held]
    assert all(row.test.endswith(f"two-sided: q {q:.2g}") for row, q in zip(held, of_labels, strict=True))
    assert of_labels[0] <= 0.05 < min(of_labels[1:])


def test_images_beyond_the_span_do_not_make_a_leaning_to_the_other_side():
    """All targets lie far out, so that the held images say less than their mean, or even the opposite."""
    shared = embeddings(attribute_images=20).group_images["nonbinary"]
    encoder = embeddings(images=200, words=(1, 1, 1), group_images=dict.fromkeys(GROUPS, shared))
    stands = stands_of([encoder], design(margin=0.02))
    opposed = [stand for stand in stands if stand.q <= 0.05 and stand.low <= 0 <= stand.high]
    assert opposed
    assert not any(stand.leans for stand in opposed)


def test_what_cannot_be_decided_is_said():
    blind = embeddings(target_texts=None, group_words=None, group_texts=None)
    with pytest.raises(InvalidInputError, match="none reads text"):
        stands_of([blind], design())
    nobody = {g: tuple(x[:0] for x in embeddings().group_images[g]) for g in ("man", "woman", "nonbinary")}
    with pytest.raises(InvalidInputError, match="a group of the pair has no image"):
        stands_of([embeddings(group_images=nobody)], design())


def test_a_target_without_images_has_no_evidence():
    encoder = embeddings()
    empty = first(encoder, [0, 8, 8, 8, 8, 8])
    stand = stands_of([empty], design())[0]
    assert np.isnan([stand.value, stand.low, stand.high]).all()
    assert (stand.e, stand.q) == (1, 1)
    assert not stand.stops(DECIDED)
    rows = rows_when_stopped(study(empty), stands_of([empty], design()), design())
    assert one(rows, "mcas", "mcas", concept="target 0").verdict == "not measured"
