"""The rows of a T2IAT study: associations of stimuli, their quartiles, amplification, q-values, verdicts."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.prompt_sets import WelchEstimate, bilinear_mean, prompt_set, set_draws
from clinometer.stats.bootstrap import percentile_interval
from clinometer.stats.permutation import sign_flip_test
from clinometer.studies.t2iat import (
    ConceptMeasurer,
    T2iatDesign,
    T2iatEmbeddings,
    t2iat_study,
    t2iat_study_of,
)
from clinometer.studies.t2iat.scores import overall_rows
from tests.raising import raises
from tests.studies.t2iat.designs import DESIGN, DIM, cosine, embeddings


def study(held=None, design=DESIGN, **options):
    held = held or [embeddings()]
    return t2iat_study(held, design, **({"n_resamples": 200, "seed": 1} | options))


def row(found, metric, component, encoder="mean", **equal):
    (one,) = (
        score
        for score in found.scores
        if (score.metric, score.component, score.encoder) == (metric, component, encoder)
        and all(getattr(score, name) == value for name, value in equal.items())
    )
    return one


FOUND = study()


def test_a_stimulus_is_the_mean_over_its_own_images():
    held = embeddings()
    values = cosine(held.neutral["r2"], held.attribute["r2", "man"]).mean(axis=1) - cosine(
        held.neutral["r2"], held.attribute["r2", "woman"]
    ).mean(axis=1)
    mean = row(FOUND, "association", "mean", concept="r2")
    assert mean.value == pytest.approx(values.mean(), abs=1e-12)
    assert row(FOUND, "association", "median", concept="r2").value == pytest.approx(np.median(values))
    assert row(FOUND, "association", "upper_quartile", concept="r2").value == pytest.approx(np.quantile(values, 0.75))
    assert (mean.n_target, mean.n_a, mean.n_b) == (12, 12, 12)
    assert mean.low < mean.value < mean.high
    assert (mean.verdict, mean.side) == ("leans", "man")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_concepts_that_others_measured_make_the_same_study(n):
    """The second of the encoders reads no text; of three, no image of green is there, and one of red is missing."""
    held = [embeddings(seed, encoder=f"eye {seed}") for seed in range(n)]
    held[1:2] = [replace(each, neutral_texts={}, attribute_texts={}) for each in held[1:2]]
    if n == 3:
        there = {name: 0 if name[0] == "g" else 11 if name == "r1" else 12 for name in held[0].neutral}
        held = [replace(each, neutral={k: x[: there[k]] for k, x in each.neutral.items()}) for each in held]
    measure = ConceptMeasurer(held, DESIGN, 200, 1)
    measured = [(number, pickle.loads(pickle.dumps(measure(number)))) for number in (1, 0)]
    names = [each.encoder for each in held]
    found = t2iat_study_of(names, DESIGN, measured, seed=1)
    expected = study(held)
    assert list(map(repr, found.scores)) == list(map(repr, expected.scores))
    assert list(map(repr, found.densities)) == list(map(repr, expected.densities))
    with raises(InvalidInputError, code=Code.MISSING, field="measured"):
        t2iat_study_of(names, DESIGN, measured[:1], seed=1)


def test_a_concept_and_the_test_agree():
    parts = [row(FOUND, "association", "mean", concept="", category=name).value for name in ("red", "green")]
    assert row(FOUND, "t2iat", "differential_association").value == pytest.approx(parts[0] - parts[1], abs=1e-12)


def test_the_interval_of_a_concept_over_its_prompts_is_as_wide_as_students_t():
    held = embeddings()
    kinds = [
        held.neutral,
        *({name: held.attribute[name, group] for name in held.neutral} for group in ("man", "woman")),
    ]
    red = prompt_set(*([kind[name] for name in DESIGN.concepts["red"]] for kind in kinds), name="red")
    draws = set_draws(red, 200, np.random.default_rng([1, 0, 1]), prompts=True).association
    expected = percentile_interval(draws - draws.mean() + red.association, freedom=2)
    found = row(FOUND, "association", "mean", concept="", category="red")
    assert (found.stimulus_low, found.stimulus_high) == pytest.approx((expected.low, expected.high))


def test_amplification_is_the_change_in_the_texts_own_direction():
    held = embeddings()
    for name, sign in (("r1", 1), ("g1", -1)):
        text = (
            cosine(held.neutral_texts[name], held.attribute_texts[name, "man"]).mean()
            - cosine(held.neutral_texts[name], held.attribute_texts[name, "woman"]).mean()
        )
        assert np.sign(text) == sign
        tail, head, change, turned = (
            row(FOUND, "amplification", part, concept=name) for part in ("text", "image", "change", "amplification")
        )
        assert tail.value == pytest.approx(text, abs=1e-12)
        assert head.value == row(FOUND, "association", "mean", concept=name).value
        assert change.value == pytest.approx(head.value - tail.value, abs=1e-12)
        assert turned.value == pytest.approx(sign * change.value, abs=1e-12)
        assert turned.value > 0
        assert np.isfinite([tail.stimulus_low, head.low, change.low, change.stimulus_low]).all()
        assert change.stimulus_high - change.stimulus_low > change.high - change.low  # words vary too


def test_the_overall_change_is_tested_by_flipping_every_sign():
    changes = np.array(
        [row(FOUND, "amplification", "change", concept=n).value for n in ("r1", "r2", "r3", "g1", "g2", "g3")]
    )
    signs = np.sign(
        [row(FOUND, "amplification", "text", concept=n).value for n in ("r1", "r2", "r3", "g1", "g2", "g3")]
    )
    flips = np.array(np.meshgrid(*[[1, -1]] * 6)).reshape(6, -1).T
    for component, values in (
        ("change", changes),
        ("amplification", changes * signs),
    ):
        p = np.mean(np.abs(flips @ values) >= abs(values.sum()) - 1e-12)
        overall = row(FOUND, "amplification", component, concept="", category="all")
        assert overall.value == pytest.approx(values.mean())
        assert overall.p == pytest.approx(p)
        assert overall.p_exact
        interval = stats.ttest_1samp(values, 0).confidence_interval()
        assert (overall.stimulus_low, overall.stimulus_high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(("n", "exact"), [(20, True), (34, True), (35, False)])
def test_the_flips_of_many_stimuli_are_counted_while_they_can_be(n, exact):
    values = np.random.default_rng(3).normal(0.3, 1, n)
    arrows = [(WelchEstimate(float(value)), WelchEstimate(0.0)) for value in values]
    change, _ = overall_rows(arrows, np.random.default_rng(0))
    found = sign_flip_test(values, rng=np.random.default_rng(0))
    assert change.p_exact == exact
    assert (change.p, change.p_low, change.p_high) == (found.p_value, found.p_low, found.p_high)
    assert change.n_splits == (2**n if exact else 99_999)


def test_q_values_are_within_a_family_and_a_view():
    rows = [score for score in FOUND.scores if score.metric == "association" and score.family]
    mean = [score for score in rows if score.encoder == "mean"]
    assert len(mean) == 6
    expected = stats.false_discovery_control([score.p for score in mean])
    assert [score.q for score in mean] == pytest.approx(expected)


def test_swapping_the_attributes_negates_every_signed_row():
    swapped = study(design=replace(DESIGN, a="woman", b="man"))
    for metric, component in (("association", "mean"), ("amplification", "change"), ("t2iat", "effect_size")):
        for score in FOUND.scores:
            if (score.metric, score.component) == (metric, component) and score.encoder == "mean":
                other = row(swapped, metric, component, concept=score.concept, category=score.category)
                assert other.value == pytest.approx(-score.value, abs=1e-10)
    for score in FOUND.scores:
        if score.component == "amplification" and score.concept:
            other = row(swapped, "amplification", "amplification", concept=score.concept)
            assert other.value == pytest.approx(score.value, abs=1e-10)


def test_the_mean_over_encoders_is_the_mean_of_their_numbers():
    found = study([embeddings(1, encoder="one"), embeddings(2, encoder="two")])
    for metric, component, name in (
        ("t2iat", "differential_association", "red-green"),
        ("association", "mean", "g2"),
        ("amplification", "change", "r3"),
    ):
        one, two, mean = (row(found, metric, component, encoder, concept=name) for encoder in ("one", "two", "mean"))
        assert mean.value == pytest.approx((one.value + two.value) / 2, abs=1e-12)


def test_one_encoder_is_its_own_mean():
    for score in FOUND.scores:
        if score.encoder == "mean":
            twin = row(FOUND, score.metric, score.component, "eye", concept=score.concept, category=score.category)
            assert replace(twin, encoder="mean") == score or np.isnan(score.value) or _same(twin, score)


def _same(one, other):
    return all(
        a == b or (isinstance(a, float) and np.isnan(a) and np.isnan(b))
        for name, a in vars(one).items()
        if name != "encoder"
        for b in [getattr(other, name)]
    )


def test_lost_images_cost_their_own_rows_only():
    held = embeddings()
    neutral = held.neutral | {"r1": np.zeros((0, DIM))}
    attribute = held.attribute | {("g2", "man"): np.zeros((0, DIM))}
    found = study([replace(held, neutral=neutral, attribute=attribute)])
    for name, words in (("r1", "no neutral image"), ("g2", "no image with man")):
        lost = row(found, "association", "mean", concept=name)
        assert np.isnan([lost.value, lost.p, lost.low]).all()
        assert words in lost.reason
        assert lost.verdict == "not measured"
        assert np.isnan(row(found, "amplification", "change", concept=name).value)
    test = row(found, "t2iat", "differential_association")
    assert np.isfinite([test.value, test.p]).all()
    assert "left out for want of images: 2 of the prompts" in test.reason
    overall = row(found, "amplification", "change", concept="", category="all")
    assert overall.n_target == 4
    assert "left out for want of an association: 2 of the stimuli" in overall.reason
    assert (
        row(found, "association", "mean", concept="r2").value == row(FOUND, "association", "mean", concept="r2").value
    )


def test_an_encoder_that_reads_no_text_has_no_arrow_and_says_so():
    found = study([replace(embeddings(), neutral_texts={}, attribute_texts={})])
    tail = row(found, "amplification", "text", concept="r1")
    assert np.isnan(tail.value)
    assert tail.reason == "the encoder reads no text"
    assert np.isfinite(row(found, "association", "mean", concept="r1").value)


def test_both_ends_of_a_mean_arrow_are_seen_by_the_encoders_that_read_text():
    blind = replace(embeddings(2, encoder="blind"), neutral_texts={}, attribute_texts={})
    found = study([embeddings(1, encoder="one"), blind])
    for part in ("text", "image", "change"):
        mean, one = (row(found, "amplification", part, encoder, concept="g1") for encoder in ("mean", "one"))
        assert mean.value == pytest.approx(one.value)
    parts = [row(found, "association", "mean", encoder, concept="g1").value for encoder in ("mean", "one", "blind")]
    assert parts[0] == pytest.approx((parts[1] + parts[2]) / 2)


def test_no_row_is_undefined_without_a_reason():
    held = embeddings(n=1)
    for score in study([held]).scores:
        if np.isnan(score.value) or (score.family and np.isnan(score.p)):
            assert score.reason, score


@pytest.mark.parametrize("n", [1, 2, 4])
def test_no_row_lacks_its_intervals_without_a_reason(n):
    for score in study([embeddings(n=n)]).scores:
        if np.isnan([score.low, score.stimulus_low]).all():
            assert score.reason, score


def test_densities_integrate_to_one_and_a_flat_one_has_none():
    for density in FOUND.densities:
        assert np.trapezoid(density.y, density.x) == pytest.approx(1, abs=0.12)
    held = embeddings()
    flat = replace(held, neutral=held.neutral | {"r1": np.repeat(held.neutral["r1"][:1], 5, axis=0)})
    assert len(study([flat]).densities[0].x) == 0


def test_the_t_interval_of_a_bilinear_mean_covers():
    """Coverage over 2,000 draws of 12 × (12 + 12): 95 % within Monte-Carlo error (3.5 standard errors)."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        x, a, b = (
            rng.normal(size=(12, 3)) + np.array([1, 0.3, 0]),
            rng.normal(size=(12, 3)) + 0.5,
            rng.normal(size=(12, 3)),
        )
        low, high = bilinear_mean(x @ a.T, x @ b.T, ("x", "a", "b")).interval()
        hits += low <= 1 * 0.5 + 0.3 * 0.5 <= high
    assert hits / 2000 == pytest.approx(0.95, abs=3.5 * np.sqrt(0.95 * 0.05 / 2000))


def test_welchs_t_is_scipys():
    x, y = np.random.default_rng(1).normal(size=(2, 9)) * [[1], [3]]
    found = WelchEstimate(x.mean(), (x.var(ddof=1) / 9,), (8,)) + (-WelchEstimate(y.mean(), (y.var(ddof=1) / 9,), (8,)))
    expected = stats.ttest_ind(x, y, equal_var=False)
    assert found.p_value() == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert found.interval() == pytest.approx((interval.low, interval.high))


# --- single stimuli: what is drawn is the image ---------------------------------------------------------------------


def two_kinds(rng, images, shares, *, apart=0.5):
    """Stimuli whose images are of one of two kinds, drawn with these shares, and attribute images around the poles."""
    names = [f"s{order}" for order in range(len(shares))]
    axis, neutral, attribute = np.eye(DIM)[0], {}, {}
    for name, share in zip(names, shares, strict=True):
        kind = np.where(rng.random(images) < share, apart, -apart)[:, None]
        neutral[name] = np.ones(DIM) + kind * axis + 0.05 * rng.normal(size=(images, DIM))
        for group, side in (("man", 1), ("woman", -1)):
            attribute[name, group] = np.ones(DIM) + side * axis + 0.05 * rng.normal(size=(12, DIM))
    design = T2iatDesign({"jobs": tuple(names)}, (), "man", "woman")
    return T2iatEmbeddings("eye", neutral, attribute, {}, {}), design


def judged(held, design):
    found = study([held], design)
    return [row(found, "association", "mean", concept=name) for name in design.concepts["jobs"]]


def test_a_stimulus_is_called_leaning_exactly_where_its_interval_leaves_out_0():
    rng = np.random.default_rng(11)
    rows = [each for _ in range(5) for each in judged(*two_kinds(rng, 10, np.linspace(0.1, 0.9, 12)))]
    assert all((each.p <= 0.05) == (not each.low <= 0 <= each.high) for each in rows)
    assert {each.p <= 0.05 for each in rows} == {True, False}
    assert rows[0].test == "Gaffke's test over images, two-sided"


def test_four_images_of_one_kind_are_not_certain():
    """Their own variance is next to nothing: Welch's t gives p below 1e-3, and sixteen at parity have two such."""
    rng = np.random.default_rng(12)
    for _ in range(10):
        rows = judged(*two_kinds(rng, 4, [0.5] * 16))
        assert {each.verdict for each in rows} == {"too few images"}
        assert min(each.q for each in rows) > 0.05
        assert all(each.n_decide >= 8 for each in rows)


@pytest.mark.thorough
def test_parity_is_seldom_called_a_leaning():
    """60 studies of sixteen stimuli at parity, ten images each: 5 % may hold a false leaning; at most 8 of 60."""
    rng = np.random.default_rng(13)
    false = sum(any(each.verdict == "leans" for each in judged(*two_kinds(rng, 10, [0.5] * 16))) for _ in range(60))
    assert false <= 8


def test_swapping_the_attributes_turns_every_interval():
    held, design = two_kinds(np.random.default_rng(14), 10, np.linspace(0.2, 0.8, 10))
    forth, back = judged(held, design), judged(held, replace(design, a="woman", b="man"))
    for one, other in zip(forth, back, strict=True):
        assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low), abs=1e-12)
        assert (other.p, other.verdict) == (pytest.approx(one.p), one.verdict)


def test_the_images_end_of_an_arrow_has_the_interval_of_the_stimulus():
    for name in ("r1", "g2"):
        mean, image = (
            row(FOUND, "association", "mean", concept=name),
            row(FOUND, "amplification", "image", concept=name),
        )
        assert (image.value, image.low, image.high) == (mean.value, mean.low, mean.high)
        change = row(FOUND, "amplification", "change", concept=name)
        assert change.stimulus_low <= change.low <= change.high <= change.stimulus_high
        assert (change.p <= 0.05) == (not change.low <= 0 <= change.high)
