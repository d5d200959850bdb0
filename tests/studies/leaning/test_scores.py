"""The study against loops, and the algebra that must survive it."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product
from math import atan2, hypot, isfinite, isnan, nan

import numpy as np
import pytest
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from clinometer.metrics import Score
from clinometer.metrics.verdict import Verdict
from clinometer.studies.leaning import EncoderEmbeddings, mcas_study
from clinometer.studies.leaning.scores.contrasts import contrast_tests, pair_weights
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.views import views_of
from tests.studies.leaning.studies import (
    AGES,
    GROUPS,
    QUICK,
    cosine,
    design,
    embeddings,
    one,
    slow_component,
    slow_mean_cosine,
    study,
)

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

COMPONENTS = ("ii", "itp", "ita", "tt")
SUMS = ("image_part", "text_part", "mcas")
NUMBERS = ("value", "low", "high", "stimulus_low", "stimulus_high")


@pytest.fixture(scope="module")
def two() -> tuple[EncoderEmbeddings, EncoderEmbeddings]:
    return embeddings("a"), embeddings("b", seed=1)


@pytest.fixture(scope="module")
def rows(two) -> list[Score]:
    return study(*two)


def test_components_are_the_means_of_all_cosines(rows, two):
    for t in range(6):
        for name in COMPONENTS:
            slow = [slow_component(encoder, t, name) for encoder in two]
            for encoder, value in zip(two, slow, strict=True):
                row = one(rows, "mcas", name, concept=f"target {t}", encoder=encoder.encoder)
                assert row.value == pytest.approx(value, abs=1e-12)
            assert one(rows, "mcas", name, concept=f"target {t}").value == pytest.approx(np.mean(slow), abs=1e-12)


def test_mcas_delta_and_alpha_come_from_the_averaged_components(rows):
    for t in range(6):
        ii, itp, ita, tt = (one(rows, "mcas", name, concept=f"target {t}").value for name in COMPONENTS)
        expected = {
            ("mcas", "mcas"): ii + itp + ita + tt,
            ("mcas", "image_part"): ii + ita,
            ("mcas", "text_part"): itp + tt,
            ("internal_bias", "diffusion_bias"): abs(abs(ii) - abs(tt)),
            ("internal_bias", "signed_diffusion_bias"): abs(ii) - abs(tt),
            ("internal_bias", "bias_amplification"): abs((itp + ita) / (2 * tt)),
            ("internal_bias", "signed_bias_amplification"): (itp + ita) / (2 * tt),
        }
        for (metric, component), value in expected.items():
            assert one(rows, metric, component, concept=f"target {t}").value == pytest.approx(value)


def test_every_estimate_lies_in_its_interval_and_every_gap_has_a_reason(rows):
    for row in rows:
        assert isfinite(row.value) or row.reason, row
        for low, high in ((row.low, row.high), (row.stimulus_low, row.stimulus_high)):
            assert isnan(low) == isnan(high)
            assert row.reason or isfinite(low), row
            # A percentile interval need not cover a biased estimate; here it does, but for rounding.
            assert isnan(low) or low - 1e-6 <= row.value <= high + 1e-6, row
        assert isnan(row.p) == isnan(row.q)
        assert isnan(row.p) or 0 < row.p <= row.q <= 1
        assert isnan(row.p) or (row.test and row.family)
        assert isnan(row.p_labels) or (row.labels_test and row.p_labels_least <= row.p_labels + 1e-12 <= 1 + 1e-9)


def test_p_is_below_5_percent_exactly_where_the_interval_leaves_out_0(rows):
    tested = [row for row in [*rows, *study(embeddings(images=20))] if isfinite(row.p)]
    tested = [row for row in tested if row.metric in ("mcas", "profile") and row.component != "norm"]
    assert {row.p < 0.05 for row in tested} == {True, False}
    for row in tested:
        p_zero = row.p_zero if isfinite(row.middle) else row.p
        assert (p_zero < 0.05) is not (row.low <= 0 <= row.high), (row.metric, row.component, row.concept)
        if isfinite(row.middle):
            assert (row.p_middle < 0.05) is not (row.from_middle_low <= 0 <= row.from_middle_high)
            assert row.p == max(row.p_zero, row.p_middle)


def test_the_interval_over_stimuli_holds_that_over_images(rows):
    for row in rows:
        if row.metric in ("mcas", "profile") and row.component != "norm" and isfinite(row.low):
            assert row.stimulus_low <= row.low <= row.high <= row.stimulus_high


def test_non_negative_scores_stand_beside_their_null(rows):
    names = {"diffusion_bias", "bias_amplification", "norm", "parity_gap", "distance"}
    checked = [r for r in rows if (r.component in names or r.component == "std") and r.metric != "xmcas_group"]
    assert checked
    for row in (row for row in checked if isfinite(row.value)):
        assert row.value >= 0
        assert row.low >= 0
        assert row.null >= 0


def test_the_same_arguments_give_the_same_bits(two, rows):
    for first, second in zip(rows, mcas_study(two, design(), **QUICK), strict=True):
        np.testing.assert_equal(asdict(first), asdict(second))
    other = study(*two, seed=2)
    assert any(x.low != y.low for x, y in zip(rows, other, strict=True) if isfinite(x.low))
    assert all(x.value == y.value for x, y in zip(rows, other, strict=True) if isfinite(x.value))


def test_swapping_a_and_b_mirrors_everything():
    forth, back = study(), study(of=design(a="woman", b="man"))
    for t in range(6):
        for name in (*COMPONENTS, *SUMS):
            x, y = (one(rows, "mcas", name, concept=f"target {t}") for rows in (forth, back))
            assert y.value == pytest.approx(-x.value, abs=1e-12)
            if name != "tt":
                assert (y.low, y.high) == pytest.approx((-x.high, -x.low), abs=1e-6)
            assert (y.stimulus_low, y.stimulus_high) == pytest.approx((-x.stimulus_high, -x.stimulus_low), abs=1e-6)
            assert y.p == pytest.approx(x.p, nan_ok=True)
            if name in ("ita", "tt"):  # counted in full
                assert y.p_labels == pytest.approx(x.p_labels)
        for name in (
            "diffusion_bias",
            "signed_diffusion_bias",
            "bias_amplification",
            "signed_bias_amplification",
        ):
            x, y = (one(rows, "internal_bias", name, concept=f"target {t}") for rows in (forth, back))
            assert y.value == pytest.approx(x.value)


def test_rotation_and_rescaling_change_no_value():
    plain, rng = embeddings(), np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(24, 24)))[0]

    def moved(x: np.ndarray) -> np.ndarray:
        return (x * rng.uniform(0.1, 10, (len(x), 1))) @ rotation

    assert plain.target_texts is not None
    assert plain.group_words is not None
    assert plain.group_texts is not None
    turned = replace(
        plain,
        target_images=tuple(map(moved, plain.target_images)),
        target_texts=moved(plain.target_texts),
        group_images={g: tuple(map(moved, xs)) for g, xs in plain.group_images.items()},
        group_words={g: moved(x) for g, x in plain.group_words.items()},
        group_texts={g: moved(x) for g, x in plain.group_texts.items()},
    )
    for x, y in zip(study(plain), study(turned), strict=True):
        for name in (*NUMBERS, "p", "null"):
            assert getattr(x, name) == pytest.approx(getattr(y, name), rel=1e-3, abs=1e-5, nan_ok=True)


def test_order_of_targets_and_of_their_images_is_irrelevant():
    plain = embeddings()
    order = [3, 0, 5, 1, 4, 2]
    assert plain.target_texts is not None
    shuffled = replace(
        plain,
        target_images=tuple(plain.target_images[t] for t in order),
        target_texts=plain.target_texts[order],
    )
    forth = study(plain)
    back = study(shuffled, of=design(targets=tuple(design().targets[t] for t in order)))
    reversed_images = study(replace(plain, target_images=tuple(x[::-1] for x in plain.target_images)))
    for row in forth:
        if not row.concept or row.metric == "xmcas_group":
            continue
        same = one(back, row.metric, row.component, concept=row.concept, encoder=row.encoder, group=row.group)
        again = one(
            reversed_images,
            row.metric,
            row.component,
            concept=row.concept,
            encoder=row.encoder,
            group=row.group,
        )
        for name in (*NUMBERS, "p", "q", "null"):
            assert getattr(row, name) == pytest.approx(getattr(same, name), rel=1e-4, abs=1e-6, nan_ok=True)
        assert row.value == pytest.approx(again.value, nan_ok=True)


def test_a_target_in_a_small_family_is_measured_the_same_in_other_company():
    """Below eight targets no variance is moderated over them."""
    plain = embeddings()
    assert plain.target_texts is not None
    alone = study(
        replace(plain, target_images=plain.target_images[:1], target_texts=plain.target_texts[:1]),
        of=design(targets=design().targets[:1]),
    )
    together = study(plain)
    for component in (*COMPONENTS, "mcas"):
        x, y = (one(rows, "mcas", component, concept="target 0") for rows in (alone, together))
        for name in (*NUMBERS, "p"):
            assert getattr(x, name) == pytest.approx(getattr(y, name), abs=1e-6, nan_ok=True)


def test_one_encoder_is_its_own_mean():
    rows = study()
    unjudged = {"verdict": "", "side": "", "reason_code": "", "n_decide": 0, "q_equivalence": nan}
    second_zero = dict.fromkeys(
        ("middle", "from_middle_low", "from_middle_high", "middle_margin", "p_zero", "p_middle"), nan
    )
    for row in rows:
        if row.encoder == "clip" and row.metric in ("mcas", "internal_bias", "share"):
            mean = one(rows, row.metric, row.component, concept=row.concept)
            if isfinite(mean.middle):  # a verdict has two zeros, and an encoder's own row none
                assert (mean.p_zero, row.q <= mean.q) == (row.p, True)
                mean = replace(mean, p=row.p, q=row.q, p_holm=row.p_holm, **second_zero)
            np.testing.assert_equal(asdict(replace(mean, encoder="clip", **unjudged)), asdict(row))


def test_families_are_corrected_together(rows):
    for encoder in ("mean", "a", "b"):
        for component in (*COMPONENTS, *SUMS):
            family = [r for r in rows if (r.metric, r.component, r.encoder) == ("mcas", component, encoder)]
            if component == "tt":  # rests on no image
                assert all(isnan(r.p) and isnan(r.q) and isfinite(r.p_labels) for r in family)
            else:
                expected = false_discovery_control([r.p for r in family])
                np.testing.assert_allclose([r.q for r in family], expected, rtol=1e-12)
            assert {r.family for r in family} == {f"mcas: {component} over 6 targets"}


def test_prompts_move_as_one_and_swap_within_their_pair(rows):
    """Four matched pairs have 2⁴ labellings however many images they hold; 4 + 5 words C(9, 4)."""
    many = study(embeddings(attribute_images=9))
    for found in (rows, many):
        for component, least in (("ii", 2 / 16), ("itp", 2 / 16), ("ita", 1 / 126), ("tt", 1 / 126)):
            row = one(found, "mcas", component, concept="target 0")
            assert row.p_labels_least == pytest.approx(least)
            assert row.p_labels >= least * (1 - 1e-12)
            assert ("words" in row.labels_test) is (component in ("ita", "tt"))
            assert ("prompts permuted within matched pairs" in row.labels_test) is (component in ("ii", "itp"))
        for component in SUMS:
            both = one(found, "mcas", component, concept="target 0")
            assert both.p_labels_least == pytest.approx(1 / (16 * 126))


def test_the_text_part_is_tested_over_words_and_pairs_of_prompts():
    """Student's t with the variance of the pairs' differences and of the words in either list."""
    encoder = embeddings()
    row = one(study(encoder), "mcas", "text_part", concept="target 1")
    text = encoder.target_texts[1]
    man, woman = (np.array([slow_mean_cosine(text[None], x) for x in encoder.group_images[g]]) for g in GROUPS[:2])
    words = [np.array([cosine(text, w) for w in encoder.group_words[g]]) for g in GROUPS[:2]]
    value = (man - woman).mean() + words[0].mean() - words[1].mean()
    of_pairs, of_words = (man - woman).var(ddof=1) / 4, sum(w.var(ddof=1) / len(w) for w in words)
    freedom = (of_pairs + of_words) ** 2 / (of_pairs**2 / 3 + of_words**2 / (len(words[0]) + len(words[1]) - 2))
    low, high = student.interval(0.95, freedom, value, np.sqrt(of_pairs + of_words))
    assert (row.value, row.low, row.high) == pytest.approx((value, low, high))
    assert row.p == pytest.approx(2 * student.sf(abs(value) / np.sqrt(of_pairs + of_words), freedom))
    assert row.test == "Student's t over words and attribute prompts, two-sided"


def test_the_text_part_knows_nothing_of_the_pictures():
    """Other pictures, more of them or none: its number, its test and its verdict stay."""
    few, many = (study(embeddings(images=8, target_images=images)) for images in (
        embeddings(images=2, seed=3).target_images, embeddings(images=30, seed=4, leanings=(-2.0,) * 6).target_images,
    ))  # fmt: skip
    for t in range(6):
        one_run, other = (one(rows, "mcas", "text_part", concept=f"target {t}") for rows in (few, many))
        np.testing.assert_equal(asdict(one_run), asdict(other))
        assert (one_run.n_target, one_run.n_decide) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "test", "reason"),
    [
        ({"pairs": {}}, "over words and attribute prompts", ""),
        ({"one prompt": True}, "over words and attribute images", ""),
        ({"words": (1, 5, 3)}, "", "group 'man' has one word"),
        ({"one prompt": True, "attribute_images": 1}, "", "a prompt of group 'man' has one image"),
    ],
)
def test_the_units_of_the_text_part_are_what_there_is(changes, test, reason):
    changes = dict(changes)
    of = design(pairs=changes.pop("pairs", design().pairs))
    only_one = changes.pop("one prompt", False)
    encoder = embeddings(**changes)
    if only_one:
        held = {g: x[:1] for g, x in encoder.group_images.items()}
        encoder, of = replace(encoder, group_images=held, group_texts=None), design(pairs={}, prompts={})
    row = one(study(encoder, of=of), "mcas", "text_part", concept="target 0")
    assert isfinite(row.value)
    assert test in row.test
    assert isfinite(row.p) is bool(test)
    assert reason in row.reason


def test_permuted_prompts_are_the_slow_count():
    encoder = embeddings()
    row = one(study(encoder), "mcas", "ii", concept="target 1")
    unit = {g: [x / np.linalg.norm(x, axis=1, keepdims=True) for x in held] for g, held in encoder.group_images.items()}
    images = encoder.target_images[1] / np.linalg.norm(encoder.target_images[1], axis=1, keepdims=True)
    man, woman = (np.array([(images @ x.T).mean() for x in unit[g]]) for g in GROUPS[:2])
    drawn = [abs(np.mean(np.array(signs) * (man - woman))) for signs in product((1, -1), repeat=4)]
    assert row.p_labels == pytest.approx(np.mean(np.array(drawn) >= abs((man - woman).mean()) * (1 - 1e-9)))


def test_words_beyond_listing_are_counted_too():
    """Of 16 + 16 words C(32, 16) splits are exact: nothing is drawn."""
    two = design(2, pairs={}, groups=GROUPS[:2], third=None, prompts={})
    drawn = embeddings(leanings=(0.2, 0.0), attribute_images=3, words=(16, 16), groups=GROUPS[:2])
    rows, fewer = (study(drawn, of=two, n_permutations=n) for n in (99, 1))
    for component, n_splits in (("ii", 70), ("itp", 70), ("ita", 601_080_390), ("tt", 601_080_390)):
        row, other = (one(each, "mcas", component, concept="target 0") for each in (rows, fewer))
        assert row.p_labels_least == pytest.approx(2 / n_splits)
        assert row.p_labels == other.p_labels


def test_without_pairs_prompts_are_permuted_over_the_pool():
    rows = study(of=design(pairs={}))
    assert "within the pool" in one(rows, "mcas", "ii", concept="target 0").labels_test


def test_matched_prompts_hold_age_fixed():
    """Ages far apart blur the pool, not the pairs: the same small leaning is found only within pairs."""
    rng = np.random.default_rng(0)
    plain = embeddings(noise=0.15, leanings=(0.25,))
    ages = rng.normal(size=(4, 24)) * 2
    aged = {g: tuple(x + age for x, age in zip(xs, ages, strict=True)) for g, xs in plain.group_images.items()}
    one_target = design(targets=design().targets[:1])
    paired = study(replace(plain, group_images=aged), of=one_target)
    pooled = study(replace(plain, group_images=aged), of=replace(one_target, pairs={}))
    of_pairs, of_pool = (one(rows, "mcas", "itp", concept="target 0") for rows in (paired, pooled))
    assert of_pairs.p_labels == of_pairs.p_labels_least == 2 / 16
    assert of_pool.p_labels > of_pairs.p_labels
    assert of_pairs.p == of_pool.p  # the images of a prompt scatter around that prompt's own mean


def test_planted_leanings_are_found_and_named():
    leanings = (1.5, -1.5, 0.0, 0.3, -0.3, 0.0)
    rows = study(embeddings(leanings=leanings, images=20, attribute_images=16, words=(10, 10, 3)), n_permutations=999)
    for component in ("image_part", "mcas"):
        judged = [one(rows, "mcas", component, concept=f"target {t}") for t in range(2)]
        assert [(row.verdict, row.side) for row in judged] == [(Verdict.LEANS, "man"), (Verdict.LEANS, "woman")]
    verdicts = {r.verdict for r in rows if (r.metric, r.encoder) != ("mcas", "mean") or r.component not in SUMS}
    profile = {row.verdict for row in rows if row.metric == "profile"}
    assert verdicts == profile | {""}


def test_few_images_have_numbers_and_no_verdict():
    rows = study(embeddings(leanings=(1.5,) * 6, images=7, noise=0.1))
    for t in range(6):
        row = one(rows, "mcas", "mcas", concept=f"target {t}")
        assert isfinite(row.low)
        assert row.p < 0.01
        assert (row.verdict, row.side, row.reason_code) == (Verdict.TOO_FEW, "", "too few images")
        assert row.n_decide >= 8


def test_the_verdict_does_not_rest_on_the_labels():
    """Few words and prompts allow no small p of permuted labels; the images decide all the same."""
    few = embeddings(leanings=(1.5,) * 6, images=20, attribute_images=16, words=(1, 1, 1), noise=0.3)
    one_prompt = replace(few, group_images={g: held[:1] for g, held in few.group_images.items()}, group_texts=None)
    rows = study(one_prompt, of=design(pairs={}, prompts={}))
    row = one(rows, "mcas", "mcas", concept="target 0")
    assert row.p_labels == row.p_labels_least == 2 / 4
    assert row.verdict == Verdict.LEANS


def test_share_counts_images_nearer_to_the_words_of_a(rows, two):
    for t in range(6):
        association = np.zeros(8)
        for encoder in two:
            assert encoder.group_words is not None
            words = encoder.group_words
            s = [
                np.mean([cosine(x, w) for w in words["man"]]) - np.mean([cosine(x, w) for w in words["woman"]])
                for x in encoder.target_images[t]
            ]
            row = one(rows, "share", "share", concept=f"target {t}", encoder=encoder.encoder)
            assert row.value == np.mean(np.array(s) > 0)
            association += s
        mean = one(rows, "share", "share", concept=f"target {t}")
        assert mean.value == np.mean(association > 0)
        assert mean.group == "man"
        gap = one(rows, "share", "parity_gap", concept=f"target {t}")
        assert gap.value == abs(mean.value - 0.5)
        assert gap.null == pytest.approx(0.13671875)
        assert gap.low <= gap.value <= gap.high <= 0.5


def test_profile_is_centred_and_its_pairs_are_mcas(rows, two):
    for t in range(6):
        c = {
            g: np.mean(
                [
                    slow_mean_cosine(w, a)
                    for e in two
                    for w in (e.target_images[t], e.target_texts[t : t + 1])
                    for a in (np.concatenate(e.group_images[g]), e.group_words[g])
                ]
            )
            for g in GROUPS
        }
        found = {g: one(rows, "profile", "association", concept=f"target {t}", group=g).value for g in GROUPS}
        mean = np.mean(list(c.values()))
        assert sum(found.values()) == pytest.approx(0, abs=1e-12)
        assert found == pytest.approx({g: x - mean for g, x in c.items()}, abs=1e-12)
        norm = one(rows, "profile", "norm", concept=f"target {t}")
        assert norm.value == pytest.approx(np.linalg.norm(list(found.values())))
        pair = one(rows, "profile", "man-woman", concept=f"target {t}")
        mcas = one(rows, "mcas", "mcas", concept=f"target {t}")
        assert [getattr(pair, n) for n in NUMBERS] == pytest.approx([getattr(mcas, n) for n in NUMBERS], abs=1e-6)
        assert one(rows, "profile", "woman-nonbinary", concept=f"target {t}").value == pytest.approx(
            4 * (c["woman"] - c["nonbinary"])
        )


def test_plane_is_made_of_similarity_mcas_and_the_offset(rows, two):
    k = one(rows, "xmcas", "offset").value
    own = [one(rows, "xmcas_group", "mcas", concept=f"{age} nonbinary").value for age in AGES]
    assert k == pytest.approx(-np.mean(own))
    for t in range(6):
        c = np.mean(
            [
                slow_mean_cosine(w, a)
                for e in two
                for w in (e.target_images[t], e.target_texts[t : t + 1])
                for a in (np.concatenate(e.group_images["nonbinary"]), e.group_words["nonbinary"])
            ]
        )
        m = one(rows, "mcas", "mcas", concept=f"target {t}").value
        assert one(rows, "xmcas", "similarity", concept=f"target {t}").value == pytest.approx(c)
        assert one(rows, "xmcas", "angle", concept=f"target {t}").value == pytest.approx(atan2(c, 1 - abs(m) + k))
        assert one(rows, "xmcas", "distance", concept=f"target {t}").value == pytest.approx(hypot(c - 1 / 3, m))


def test_groups_stand_at_the_mean_of_their_prompts_and_on_their_own_side(rows):
    for component in ("mcas", "similarity"):
        for g in GROUPS:
            own = [one(rows, "xmcas_group", component, concept=f"{age} {g}").value for age in AGES]
            place = one(rows, "xmcas_group", component, concept="", group=g)
            assert place.value == pytest.approx(np.mean(own))
    assert one(rows, "xmcas_group", "mcas", concept="", group="man").value > 0
    assert one(rows, "xmcas_group", "mcas", concept="", group="woman").value < 0


def test_categories_summarise_their_targets(rows):
    values = np.array([one(rows, "mcas", "mcas", concept=f"target {t}").value for t in range(6)])
    chosen = {
        ("job", ""): [0, 2, 4], ("sport", ""): [1, 3, 5], ("all", ""): list(range(6)),
        ("all", "man"): [0, 3], ("all", "woman"): [1, 4], ("job", "man"): [0], ("sport", "man"): [3],
    }  # fmt: skip
    for (category, group), members in chosen.items():
        mean = one(rows, "category", "mean", category=category, group=group)
        std = one(rows, "category", "std", category=category, group=group)
        assert mean.value == pytest.approx(values[members].mean())
        assert mean.n_target == len(members)
        if len(members) == 1:
            assert isnan(std.value)
            assert std.reason == "one target: no spread"
        else:
            assert std.value == pytest.approx(values[members].std())
    for group, members in (("man", values[values > 0]), ("woman", values[values < 0])):
        row = one(rows, "category_by_sign", "mean", category="all", group=group)
        assert row.value == pytest.approx(members.mean())
        assert row.null * row.value > 0  # its null has its sign: a mean of picked signs is never 0


def test_internal_bias_is_summarised_by_stereotype(rows):
    for group, members in (("man", [0, 3]), ("woman", [1, 4]), ("", range(6))):
        for name in ("diffusion_bias", "bias_amplification"):
            of_members = [one(rows, "internal_bias", name, concept=f"target {t}") for t in members]
            x = np.array([row.value for row in of_members])
            expected = {"min": x.min(), "max": x.max(), "mean": x.mean()}
            expected["standard_error"] = x.std(ddof=1) / np.sqrt(len(x))
            for statistic, value in expected.items():
                row = one(rows, "internal_bias_summary", f"{name}_{statistic}", group=group)
                if statistic in ("mean", "standard_error") and all(member.flag for member in of_members):
                    assert isnan(row.value)  # no α of them means anything
                    continue
                assert row.value == pytest.approx(value)
                assert row.null > 0


def test_unstable_where_the_words_could_have_cancelled(rows):
    for t in range(6):
        for encoder in ("mean", "a", "b"):
            tt = one(rows, "mcas", "tt", concept=f"target {t}", encoder=encoder)
            alpha = one(rows, "internal_bias", "bias_amplification", concept=f"target {t}", encoder=encoder)
            assert (alpha.flag == "unstable") == (tt.stimulus_low <= 0 <= tt.stimulus_high)


def test_a_study_of_two_groups_has_no_plane():
    two_groups = design(groups=GROUPS[:2], third=None, pairs=dict.fromkeys(GROUPS[:2], AGES), prompts={})
    rows = study(embeddings(groups=GROUPS[:2], words=(4, 5)), of=two_groups)
    assert not [row for row in rows if row.metric.startswith("xmcas")]
    norm, mcas = (one(rows, m, c, concept="target 0") for m, c in (("profile", "norm"), ("mcas", "mcas")))
    assert norm.value == pytest.approx(abs(mcas.value) / (4 * np.sqrt(2)))


def test_any_pair_of_any_groups_may_be_the_axis():
    """Nothing is wired to gender: other names, another order, four groups."""
    names = ("pale", "dark", "tan", "brown")
    four = design(
        groups=names, a="brown", b="pale", third=None, pairs={}, prompts={},
        targets=tuple(replace(t, stereotype=None) for t in design().targets),
    )  # fmt: skip
    encoder = embeddings(groups=names, words=(3, 3, 3, 3))
    rows = study(encoder, of=four)
    assert one(rows, "mcas", "ii", concept="target 0").value == pytest.approx(
        slow_component(encoder, 0, "ii", "brown", "pale")
    )
    assert len({r.component for r in rows if r.metric == "profile"}) == 2 + 6


def test_holm_stands_beside_q_in_the_family_that_is_named():
    rows = [row for row in study() if np.isfinite(row.p)]
    assert rows
    for row in rows:
        family = [other for other in rows if (other.family, other.encoder) == (row.family, row.encoder)]
        assert row.family
        assert row.p <= row.q <= row.p_holm <= min(1, len(family) * row.p) + 1e-12


def test_signed_delta_and_alpha_say_what_their_parts_say(rows, two):
    """Over images TT is fixed: δ has the magnitudes of II's interval, and α the interval of ITP + ITA, divided."""
    measured = layout_of(two, design()), design()
    study_of = StudySetup(measured[1], measured[0], ResamplingSettings(9, 0, 0, 0.95))
    view = views_of(two, study_of).mean
    tops = contrast_tests(study_of, view, pair_weights(study_of, ("itp", "ita"), *study_of.pair)).estimate
    for t, target in enumerate(design().targets):
        ii, tt = (one(rows, "mcas", name, concept=target.name) for name in ("ii", "tt"))
        delta, alpha = (
            one(rows, "internal_bias", f"signed_{name}", concept=target.name)
            for name in ("diffusion_bias", "bias_amplification")
        )
        least = 0.0 if ii.low <= 0 <= ii.high else min(abs(ii.low), abs(ii.high))
        most = max(abs(ii.low), abs(ii.high))
        assert (delta.low, delta.high) == pytest.approx((least - abs(tt.value), most - abs(tt.value)))
        assert delta.stimulus_low <= delta.low <= delta.value <= delta.high <= delta.stimulus_high
        divided = sorted((tops.low[t] / (2 * tt.value), tops.high[t] / (2 * tt.value)))
        assert (alpha.low, alpha.high) == pytest.approx(divided)
        assert isfinite(alpha.stimulus_low) == (alpha.flag != "unstable")
        if isfinite(alpha.stimulus_low):
            assert alpha.stimulus_low <= alpha.low <= alpha.value <= alpha.high <= alpha.stimulus_high


def test_theta_and_distance_say_nothing_that_mcas_denies(rows):
    for target in design().targets:
        mcas = one(rows, "mcas", "mcas", concept=target.name)
        similarity, angle, distance = (
            one(rows, "xmcas", name, concept=target.name) for name in ("similarity", "angle", "distance")
        )
        k = one(rows, "xmcas", "offset", concept="")
        if mcas.low <= 0 <= mcas.high:
            at_parity = atan2(similarity.low, 1 + k.high)
            assert angle.low == pytest.approx(at_parity)
            off = max(similarity.low - 1 / 3, 1 / 3 - similarity.high, 0.0)
            assert distance.low == pytest.approx(off)
        assert angle.low <= angle.value <= angle.high
        assert distance.low <= distance.value <= distance.high


def test_a_group_whose_every_alpha_is_unstable_has_no_mean():
    """Words that scatter widely: TT may be 0 for every target."""
    unsure = embeddings(words=(2, 2, 2), noise=3.0)
    rows = study(unsure)
    alphas = [one(rows, "internal_bias", "bias_amplification", concept=t.name) for t in design().targets]
    assert {row.flag for row in alphas} == {"unstable"}
    for statistic in ("mean", "standard_error"):
        row = one(rows, "internal_bias_summary", f"bias_amplification_{statistic}", group="")
        assert isnan(row.value)
        assert row.flag == "unstable"
        assert row.reason.startswith("no mean: TT may be 0 for every target")
    assert isfinite(one(rows, "internal_bias_summary", "diffusion_bias_mean", group="").value)


def test_words_are_not_held_between_bounds_that_no_image_tells():
    """Without an image of a group nothing says what ITA could be: it has Student's t, not a p of 0."""
    lacking = embeddings(images=10)
    nobody = {"man": tuple(x[:0] for x in lacking.group_images["man"])}
    lacking = replace(lacking, group_images=lacking.group_images | nobody)
    rows = study(lacking)
    for target in design().targets:
        row = one(rows, "mcas", "ita", concept=target.name)
        assert row.test.startswith("Student's t")
        assert row.p > 0
