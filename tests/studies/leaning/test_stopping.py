"""Stopping: the same MCAS as everywhere, evidence that belongs to one target, decisions that stand."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.stats import t as student

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.verdict import Verdict
from clinometer.studies.leaning import Evidence, StoppingRule, evidence_of, mcas_study, rows_when_stopped
from tests.raising import raises
from tests.studies.leaning.studies import design, embeddings, one, study

DECIDED = StoppingRule()


def first(encoder, counts):
    """The first images of each target."""
    images = tuple(x[:n] for x, n in zip(encoder.target_images, counts, strict=True))
    return replace(encoder, target_images=images)


@pytest.mark.parametrize("component", ["image_part", "mcas"])
def test_the_mean_is_the_score_of_the_study(component):
    encoders = embeddings("a"), embeddings("b", seed=1)
    rows = study(*encoders)
    for target, stand in zip(design().targets, evidence_of(encoders, design(), component=component), strict=True):
        assert stand.value == pytest.approx(one(rows, "mcas", component, concept=target.name).value)
        assert stand.low <= stand.value <= stand.high
        assert stand.n == 8


def test_leanings_are_decided_and_next_to_none_is_not():
    far = embeddings(images=40, leanings=(1.0, -1.0, 0.8, 0.9, -1.0, -0.1))
    *leaning, close = evidence_of([far], design(margin=0.02))
    assert all(stand.leans and not stand.low <= 0 <= stand.high for stand in leaning)
    assert [np.sign(leaning[t].value) for t in (0, 1, 3, 4)] == [1, -1, 1, -1]
    assert close.low <= 0 <= close.high
    assert not close.stops(DECIDED)


def test_balance_is_shown_by_enough_images_within_a_wide_margin():
    level, of = embeddings(images=400, leanings=(-0.17,) * 6, attribute_images=100), design(margin=0.3)
    stands = evidence_of([level], of)
    assert max(abs(stand.value - stand.middle) for stand in stands) < stands[0].middle_margin < 0.3
    assert all(stand.balanced and stand.stops(DECIDED) for stand in stands)
    assert not all(stand.balanced for stand in evidence_of([first(level, [10] * 6)], of))


def test_evidence_belongs_to_one_target():
    encoder = embeddings(images=30)
    all_of_it = evidence_of([encoder], design(margin=0.1))
    fewer = evidence_of([first(encoder, [30, 5, 30, 5, 30, 5])], design(margin=0.1))
    for t in (0, 2, 4):
        assert (all_of_it[t].e, all_of_it[t].e_balance, all_of_it[t].low) == (
            fewer[t].e,
            fewer[t].e_balance,
            fewer[t].low,
        )


def test_what_is_decided_stays_decided():
    leanings = (1.0, -1.0, 0.0, 0.2, -0.2, 0.0)
    encoder, counts = embeddings(images=60, noise=1.0, leanings=leanings, attribute_images=20), [5] * 6
    decided = set()
    for _ in range(8):
        stands = evidence_of([first(encoder, counts)], design(margin=0.05))
        now = {t for t, stand in enumerate(stands) if stand.stops(DECIDED)}
        assert decided <= now
        decided, counts = now, [n if t in now else n + 5 for t, n in enumerate(counts)]
    assert 0 < len(decided) < 6


def test_a_precision_stops_where_the_sequence_is_narrow():
    stands = evidence_of([embeddings(images=60)], design())
    widths = [(stand.high - stand.low) / 2 for stand in stands]
    rule = StoppingRule(precision=float(np.median(widths)))
    assert [stand.stops(rule) for stand in stands] == [width <= rule.precision for width in widths]
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="precision", match="found 0"):
        StoppingRule(precision=0)


@pytest.mark.thorough
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
        truth = evidence_of([replace(held, target_images=tuple(_balanced(centre, axis) for _ in range(6)))], design())
        for n in range(10, 61, 10):
            stands = evidence_of([first(held, [n] * 6)], design())
            if any(not stand.low <= true.value <= stand.high for stand, true in zip(stands, truth, strict=True)):
                called += 1
                break
    assert called <= 30 * 6 * 0.05


def _balanced(centre, axis):
    return np.stack([centre + 0.5 * axis, centre - 0.5 * axis])


NO_TARGET_IMAGE = [("mcas", component) for component in ("itp", "tt", "text_part")]


def test_rows_of_a_stopped_run_claim_nothing_that_needs_a_fixed_number():
    encoder, of = embeddings(images=30), design(margin=0.02)
    rows = study(encoder, of=of)
    evidence = {name: evidence_of([encoder], of, component=name, ahead=True) for name in ("image_part", "mcas")}
    held = rows_when_stopped(rows, evidence, of)
    assert len(held) == len(rows)
    for before, row in zip(rows, held, strict=True):
        assert row.value == before.value or np.isnan(row.value)
        if (row.metric, row.encoder) == ("mcas", "mean") and row.component in evidence:
            stand = evidence[row.component][[target.name for target in of.targets].index(row.concept)]
            assert (row.low, row.high, row.q) == (stand.low, stand.high, stand.q)
            assert row.p == pytest.approx(min(1, 1 / stand.e + 0.01))
            assert row.p <= row.p_holm
            assert "valid at any number of images" in row.test
            expected = "balanced" if stand.balanced else "leans" if stand.leans else "undecided"
            assert row.verdict.startswith(expected)
            factor = min(stand.factor_balance, stand.factor)
            assert (row.n_decide > stand.n) == (row.verdict == Verdict.UNDECIDED and np.isfinite(factor))
        elif row.metric in ("reader", "middle") or (row.metric, row.component) in NO_TARGET_IMAGE:
            np.testing.assert_equal(asdict(row), asdict(before))
        else:
            assert np.isnan([row.low, row.high, row.p, row.q]).all()
            assert row.verdict == ""
            assert row.reason


def stopped_with(encoder, of):
    stands = {name: evidence_of([encoder], of, component=name, ahead=True) for name in ("image_part", "mcas")}
    return rows_when_stopped(study(encoder, of=of), stands, of)


def test_missing_pictures_move_the_ends_of_a_sequence_as_those_of_a_fixed_number():
    encoder, of = embeddings(images=40), design(margin=0.02)
    lacking = replace(of, targets=tuple(replace(t, missing=n) for n, t in enumerate(of.targets)))
    fixed = {(row.concept, row.component): row for row in study(encoder, of=lacking) if row.encoder == "mean"}
    for before, row in zip(stopped_with(encoder, of), stopped_with(encoder, lacking), strict=True):
        assert (row.verdict, row.side, row.n_decide) == (before.verdict, before.side, before.n_decide)
        np.testing.assert_equal(
            (row.value, row.low, row.high, row.q), (before.value, before.low, before.high, before.q)
        )
        if (row.metric, row.component, row.encoder) == ("mcas", "image_part", "mean") and row.n_missing:
            held = fixed[row.concept, row.component]
            assert row.low - row.bound_low == pytest.approx(held.low - held.bound_low)
            assert row.bound_high - row.high == pytest.approx(held.bound_high - held.high)
            assert not row.depends_on or row.verdict != Verdict.UNDECIDED


@pytest.mark.thorough
def test_a_leaning_of_a_stopped_run_depends_on_pictures_that_might_undo_it():
    encoder, of = embeddings(images=40), design(margin=0.02)
    many = replace(of, targets=tuple(replace(t, missing=400) for t in of.targets))
    decided = [row for row in stopped_with(encoder, many) if row.component == "image_part" and row.verdict == "leans"]
    assert decided
    assert {row.depends_on for row in decided} == {"missing"}
    few = replace(of, targets=tuple(replace(t, missing=1) for t in of.targets))
    sure = [row for row in stopped_with(encoder, few) if row.component == "image_part" and row.verdict == "leans"]
    assert any(not row.depends_on for row in sure)


def continued(encoder, of, factor, rng):
    """So many times the images, those to come drawn from those there are, of the targets that are not decided."""
    images = [
        x if stand.stops(DECIDED) else np.concatenate([x, rng.choice(x, int(np.ceil(len(x) * factor)) - len(x))])
        for x, stand in zip(encoder.target_images, evidence_of([encoder], of), strict=True)
    ]
    return evidence_of([replace(encoder, target_images=tuple(images))], of)


@pytest.mark.thorough
def test_the_images_ahead_decide_in_four_of_five_continuations():
    encoder = embeddings(images=10, attribute_images=60, noise=1.5, leanings=(0.6, -0.6, 0.9, 0.5, -0.9, 0.7))
    of, rng = design(margin=0.2), np.random.default_rng(3)
    stands, shares = evidence_of([encoder], of, ahead=True), []
    for t, stand in enumerate(stands):
        factor = min(stand.factor, stand.factor_balance)
        if stand.stops(DECIDED) or factor > 10:
            continue
        shares.append(np.mean([continued(encoder, of, factor, rng)[t].stops(DECIDED) for _ in range(10)]))
    assert len(shares) >= 3
    assert min(shares) >= 0.4
    assert 0.65 <= np.mean(shares) <= 1


@pytest.mark.parametrize("component", ["image_part", "mcas"])
def test_what_the_attribute_images_may_be_off_by_is_given_away_beforehand(component):
    """r is Student's bound on the mean of their cosines, from an independent count over prompts."""
    encoder = embeddings(images=40)
    unit = {g: [x / np.linalg.norm(x, axis=1, keepdims=True) for x in held] for g, held in encoder.group_images.items()}
    for t, stand in enumerate(evidence_of([encoder], design(), component=component)):
        images = encoder.target_images[t]
        towards = (images / np.linalg.norm(images, axis=1, keepdims=True)).mean(axis=0)
        if component == "mcas":
            towards = towards + encoder.target_texts[t] / np.linalg.norm(encoder.target_texts[t])
        prompts = [x @ towards for g in ("man", "woman") for x in unit[g]]
        n = {g: sum(map(len, unit[g])) for g in ("man", "woman")}
        sizes = [n[g] for g in ("man", "woman") for _ in unit[g]]
        error = np.sqrt(
            sum((len(z) / size) ** 2 * z.var(ddof=1) / len(z) for z, size in zip(prompts, sizes, strict=True))
        )
        assert stand.reach == pytest.approx(student.ppf(0.995, sum(len(z) - 1 for z in prompts)) * error)


def test_few_attribute_images_decide_less():
    many, few = (evidence_of([embeddings(images=40, attribute_images=n)], design()) for n in (40, 2))
    assert max(stand.reach for stand in many) < min(stand.reach for stand in few)


@pytest.mark.parametrize("rule", [StoppingRule(), StoppingRule(precision=0.1)])
def test_one_attribute_image_a_prompt_decides_nothing_and_asks_for_no_more(rule):
    encoders = [embeddings(images=40, attribute_images=1)]
    stands = evidence_of(encoders, design(), ahead=True)
    assert all(np.isnan(stand.reach) and stand.stops(rule) and not (stand.leans or stand.balanced) for stand in stands)
    rows = rows_when_stopped(mcas_study(encoders, design(), n_resamples=99), {"image_part": stands}, design())
    told = [row for row in rows if (row.metric, row.component, row.encoder) == ("mcas", "image_part", "mean")]
    assert {row.verdict for row in told} == {"not measured"}
    assert all(row.reason.startswith("no interval: an attribute prompt has one picture that counts") for row in told)


def test_images_beyond_the_span_do_not_make_a_leaning_to_the_other_side():
    """Where many images lie further out than the groups' own, the held ones may say the opposite of their mean."""
    opposed = Evidence(n=200, value=0.1, low=-0.3, high=0.1, e=1e6, q=0.01, clipped=150)
    assert not opposed.leans
    assert replace(opposed, high=-0.05, value=-0.2).leans


def test_what_cannot_be_decided_is_said():
    blind = embeddings(target_texts=None, group_words=None, group_texts=None)
    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="encoders"):
        evidence_of([blind], design())
    nobody = {g: tuple(x[:0] for x in embeddings().group_images[g]) for g in ("man", "woman", "nonbinary")}
    with raises(InvalidInputError, code=Code.TOO_FEW):
        evidence_of([embeddings(group_images=nobody)], design())


def test_a_target_without_images_has_no_evidence():
    encoder = embeddings()
    empty = first(encoder, [0, 8, 8, 8, 8, 8])
    stand = evidence_of([empty], design())[0]
    assert np.isnan([stand.value, stand.low, stand.high]).all()
    assert (stand.e, stand.q) == (1, 1)
    assert not stand.stops(DECIDED)
    rows = rows_when_stopped(study(empty), {"image_part": evidence_of([empty], design())}, design())
    assert one(rows, "mcas", "image_part", concept="target 0").verdict == "not measured"


def test_a_mean_leans_only_beyond_both_zeros():
    encoders = [embeddings(images=60, leanings=(x,) * 6, attribute_images=40) for x in (0.5, -0.17, -0.5)]
    stands = [stand for encoder in encoders for stand in evidence_of([encoder], design())]
    assert len({stand.middle for stand in stands}) == 1
    assert {stand.leans for stand in stands} == {True, False}
    for stand in stands:
        of_0, of_middle = stand.beyond
        assert (of_0 == 0) == (stand.low <= 0 <= stand.high)
        assert (of_middle == 0) == (stand.from_middle_low <= 0 <= stand.from_middle_high)
        assert stand.e <= min(stand.e_zeros) * (1 + 1e-12)
        assert stand.leans <= (of_0 == of_middle != 0)
