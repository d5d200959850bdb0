"""Two runs beside each other: algebra first, then what pairing buys, then whether the test keeps its level."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import numpy as np
import pytest
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.verdict import ReasonCode, Verdict
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, layout_of
from tests.raising import raises
from tests.studies.leaning.studies import AGES, design, embeddings, one, study, target_cosines

LEANINGS = (0.6, -0.6, 0.0, 0.3, -0.3, 0.0)


def compare(first, second, **options):
    quick = {"paired": True, "n_resamples": 400, "seed": 1} | options
    of = quick.pop("of", design())
    return compare_leanings([first], [second], of, **quick)


def shifted(of: EncoderEmbeddings, by: tuple[float, ...], noise: float = 0.05) -> EncoderEmbeddings:
    """The same pictures, each moved along the axis between the groups: what another setting of one model draws."""
    rng = np.random.default_rng(9)
    axis = _mean(of, "man") - _mean(of, "woman")
    targets = tuple(
        images + x * axis + noise * rng.normal(size=images.shape)
        for images, x in zip(of.target_images, by, strict=True)
    )
    return replace(of, target_images=targets)


def _mean(of: EncoderEmbeddings, group: str) -> np.ndarray:
    return np.concatenate(of.group_images[group]).mean(axis=0)


def test_a_run_beside_itself_differs_by_nothing():
    for row in compare(embeddings(), embeddings()):
        assert (row.value, row.low, row.high) == (0, 0, 0)
        assert row.p == 1
    assert compare(embeddings(), embeddings())[-1].verdict == "undecided"


def test_the_difference_is_that_of_the_two_studies():
    first, second = embeddings(), embeddings(seed=5)
    rows, studies = compare(first, second), [study(run) for run in (first, second)]
    for component in ("ii", "itp", "ita", "image_part", "mcas"):
        for target in ("target 0", "target 3"):
            values = [one(own, "mcas", component, concept=target).value for own in studies]
            assert one(rows, "comparison", component, concept=target).value == pytest.approx(values[1] - values[0])


def test_runs_are_shown_alike_within_the_margin_and_not_beyond_it():
    first = embeddings(images=40)
    second = shifted(first, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    rows = {row.concept: row for row in compare(first, second, of=design(margin=0.1)) if row.component == "mcas"
            and row.encoder == "mean"}  # fmt: skip
    assert (rows["target 0"].verdict, rows["target 0"].side) == ("more", "man")
    assert rows["target 0"].q_equivalence > 0.5
    for t in range(1, 6):
        assert rows[f"target {t}"].verdict == "alike"
        assert rows[f"target {t}"].p_equivalence <= rows[f"target {t}"].q_equivalence <= 0.05
    swapped = {row.concept: row for row in compare(second, first, of=design(margin=0.1)) if row.component == "mcas"
               and row.encoder == "mean"}  # fmt: skip
    assert swapped["target 3"].p_equivalence == pytest.approx(rows["target 3"].p_equivalence)


def test_what_is_undecided_says_how_many_images_would_decide():
    first, second = (embeddings(images=12, seed=seed) for seed in (0, 9))
    rows = compare(first, second, paired=False, of=design(margin=0.05))
    undecided = [row for row in rows if row.verdict == "undecided" and row.component == "mcas"]
    assert undecided
    assert all(row.n_decide > row.n_target or row.n_decide == 0 for row in undecided)  # 0: no number decides it
    assert any(row.n_decide for row in undecided)


def test_swapping_the_runs_negates():
    first = embeddings()
    second = shifted(first, (0.3, 0.0, -0.2, 0.0, 0.1, 0.0))
    forth, back = compare(first, second), compare(second, first)
    for a, b in zip(forth, back, strict=True):
        assert (b.value, b.low, b.high) == pytest.approx((-a.value, -a.high, -a.low), abs=1e-12)
        assert b.p == pytest.approx(a.p)


def test_swapping_the_groups_negates():
    first = embeddings(images=12)
    second = shifted(first, (0.3, 0.0, -0.2, 0.0, 0.1, 0.0))
    ours = one(compare(first, second), "comparison", "mcas", concept="target 0")
    theirs = one(compare(first, second, of=design(a="woman", b="man")), "comparison", "mcas", concept="target 0")
    assert theirs.value == pytest.approx(-ours.value)
    assert (theirs.verdict, theirs.side) == (ours.verdict, ours.side) == ("more", "man")


def test_pairs_find_what_two_samples_do_not():
    first = embeddings(images=12)
    second = shifted(first, (0.08,) * 6)
    paired = one(compare(first, second), "comparison", "mcas", concept="target 2")
    unpaired = one(compare(first, second, paired=False), "comparison", "mcas", concept="target 2")
    assert paired.value == pytest.approx(unpaired.value)
    assert paired.high - paired.low < (unpaired.high - unpaired.low) / 2
    assert (paired.verdict, paired.side) == ("more", "man")
    assert unpaired.verdict == "undecided"


def test_which_leans_more_over_all():
    first = embeddings()
    more = shifted(first, tuple(0.5 * np.sign(x) for x in LEANINGS))
    assert compare(first, more)[-1].side == "second"
    assert compare(more, first)[-1].side == "first"


@pytest.mark.thorough
def test_the_test_keeps_its_level_and_the_interval_its_cover():
    """Two independent runs of one model, 60 times: p ≤ 0.05 in no more than 13 % (binomial, 3 standard errors)."""
    false, covered, n = 0, 0, 60
    of = design(1, pairs={}, third=None, groups=("man", "woman"))
    of = replace(
        of, prompts={g: tuple(f"{age} {g}" for age in AGES) for g in of.groups}, pairs=dict.fromkeys(of.groups, AGES)
    )
    base = embeddings(leanings=(0.3,), groups=of.groups, words=(4, 5))
    rng = np.random.default_rng(3)

    def run():
        centre = base.target_images[0].mean(axis=0)
        return replace(
            base,
            target_images=(centre + 0.5 * rng.normal(size=(16, len(centre))),),
            group_images={
                g: tuple(
                    images.mean(axis=0) + 0.5 * rng.normal(size=(6, len(centre))) for images in base.group_images[g]
                )
                for g in of.groups
            },
        )

    for _ in range(n):
        row = one(compare(run(), run(), of=of, paired=False), "comparison", "mcas", concept="target 0")
        false += row.p <= 0.05
        covered += row.low <= 0 <= row.high
    assert false <= 0.13 * n
    assert covered >= 0.87 * n


@pytest.fixture(scope="module")
def means_of_five():
    """ITA rests on a target's five images alone, a mean: rows, with the t tests of pairs and of two samples."""
    runs = embeddings(images=5), embeddings(images=5, seed=5)
    runs = runs[0], replace(runs[1], group_words=runs[0].group_words)
    layout = layout_of(runs[:1], design())
    words = [target_cosines(run, layout).image_word[2] for run in runs]
    first, second = (c @ np.repeat([1 / 4, -1 / 5, 0], (4, 5, 3)) for c in words)
    tests = {True: stats.ttest_rel(second, first), False: stats.ttest_ind(second, first, equal_var=False)}
    rows = {
        paired: one(compare(*runs, paired=paired, n_resamples=20_000), "comparison", "ita", concept="target 2")
        for paired in tests
    }
    return [(rows[paired], tests[paired]) for paired in tests]


def test_intervals_of_few_images_are_those_of_t(means_of_five):
    for row, test in means_of_five:
        low, high = test.confidence_interval()
        assert row.high - row.low == pytest.approx(high - low)


def test_p_of_few_images_is_that_of_the_t_test(means_of_five):
    for row, test in means_of_five:
        assert row.p == pytest.approx(test.pvalue)


def test_a_run_beside_itself_has_no_difference_and_p_is_1():
    rows = compare(embeddings(), embeddings())
    assert {(row.value, row.p) for row in rows if row.component == "mcas"} == {(0.0, 1.0)}


def test_words_are_the_same_in_two_runs_that_share_no_noise():
    """Other words move both runs alike, so what they add to one run's ITA they take off the other's."""
    first = embeddings()
    still = tuple(np.repeat(images.mean(axis=0)[None], 8, axis=0) for images in first.target_images)
    rng = np.random.default_rng(4)
    first, second = (
        replace(first, target_images=tuple(images + 0.02 * rng.normal(size=images.shape) for images in still))
        for _ in range(2)
    )
    row = one(compare(first, second, paired=False), "comparison", "ita", concept="target 0")
    own = one(study(first), "mcas", "ita", concept="target 0")
    assert own.stimulus_high - own.stimulus_low > 50 * (row.high - row.low)
    assert row.stimulus_high - row.stimulus_low < 2 * (row.high - row.low)


def test_fewer_images_do_not_lean_more_by_chance_alone():
    few, many = embeddings(), embeddings(images=40, attribute_images=20, seed=5)
    cut = replace(
        many,
        target_images=tuple(images[:8] for images in many.target_images),
        group_images={g: tuple(images[:5] for images in held) for g, held in many.group_images.items()},
    )
    assert compare(few, many, paired=False)[-1] == compare(few, cut, paired=False)[-1]
    assert compare(many, few, paired=False)[-1] == compare(cut, few, paired=False)[-1]


def test_what_is_missing_in_one_run_is_nan_with_a_reason():
    first = embeddings()
    images = (np.zeros((0, first.target_images[0].shape[1])), *first.target_images[1:])
    rows = compare(first, replace(first, target_images=images), paired=False)
    row = one(rows, "comparison", "mcas", concept="target 0")
    assert np.isnan(row.value)
    assert row.verdict == "not measured"
    assert row.reason == "no image of it in one of the runs"
    assert rows[-1].n_target == 5
    lacking = replace(first, target_images=images)
    row = one(compare(lacking, lacking), "comparison", "mcas", concept="target 0")
    assert row.reason == "no image of it that both runs drew"
    unread = replace(first, target_texts=None, group_texts=None, group_words=None)
    row = one(compare(unread, unread), "comparison", "itp", concept="target 0")
    assert row.reason == "one of the runs has no such number: no attribute image, or an encoder that reads no text"


def test_what_cannot_be_compared_is_refused():
    with raises(InvalidInputError, code=Code.MISMATCH, field="paired"):
        compare(embeddings(), embeddings(images=7))
    with raises(InvalidInputError, code=Code.MISMATCH, field="encoders"):
        compare(embeddings("one"), embeddings("two"))


def without_prompt(of: EncoderEmbeddings, group: str, lost: int) -> EncoderEmbeddings:
    images = tuple(x[:0] if i == lost else x for i, x in enumerate(of.group_images[group]))
    return replace(of, group_images=of.group_images | {group: images})


def test_an_attribute_prompt_that_one_run_lost_is_left_out_of_both():
    first, second = embeddings(), embeddings(seed=5)
    cut = [without_prompt(run, "woman", 2) for run in (first, second)]
    rows, expected = compare(first, cut[1], paired=False), compare(*cut, paired=False)
    assert [(r.value, r.low, r.high, r.p, r.verdict) for r in rows] == [
        (r.value, r.low, r.high, r.p, r.verdict) for r in expected
    ]
    row = one(rows, "comparison", "ii", concept="target 0")  # with so few prompts left MCAS is withheld
    assert row.reason == "left out of both for want of images in one of the runs: “old woman” of woman"
    in_pairs = one(compare(*cut), "comparison", "ii", concept="target 0")
    assert in_pairs.reason == "left out of both for want of images that both runs drew: “old woman” of woman"
    assert one(rows, "comparison", "ita", concept="target 0").reason == ""
    other = compare(first, without_prompt(second, "nonbinary", 1), paired=False)
    assert one(other, "comparison", "mcas", concept="target 0").reason == ""


def test_a_lost_attribute_prompt_makes_no_difference_between_runs_that_draw_alike():
    """Old women are drawn as old men: a mean over women without them is another one."""
    first = embeddings(noise=0.05)
    women = tuple(first.group_images["man" if i == 2 else "woman"][i] for i in range(4))
    first = replace(first, group_images=first.group_images | {"woman": women})
    second = shifted(first, (0.0,) * 6, noise=0.01)
    rows = compare(first, without_prompt(second, "woman", 2), paired=False)
    mixed = study(first), study(without_prompt(second, "woman", 2))
    of = {"concept": "target 0", "encoder": "mean"}
    own = one(mixed[1], "mcas", "mcas", **of).value - one(mixed[0], "mcas", "mcas", **of).value
    assert abs(one(rows, "comparison", "mcas", **of).value) < abs(own) / 5


def test_a_target_of_one_image_is_left_out_of_which_leans_more():
    first, second = embeddings(), embeddings(seed=5)
    images = (second.target_images[0][:1], *second.target_images[1:])
    row = compare(first, replace(second, target_images=images), paired=False)[-1]
    rest = [replace(run, target_images=(run.target_images[0][:0], *run.target_images[1:])) for run in (first, second)]
    expected = compare(*rest, paired=False)[-1]
    assert (row.value, row.n_target) == (pytest.approx(expected.value), 5)
    assert row.verdict != "not measured"
    assert row.reason == "left out, with one image in one of the runs: target 0"


def test_which_leans_more_without_any_target_is_not_measured():
    first = embeddings()
    none = replace(first, target_images=tuple(images[:0] for images in first.target_images))
    row = compare(first, none, paired=False)[-1]
    assert (row.verdict, row.reason) == ("not measured", "no target is measured in both runs")


def test_an_encoder_that_does_not_read_either_run_gives_no_verdict_on_the_difference():
    good, poor = embeddings(), embeddings(seed=5)
    noise = np.random.default_rng(9)
    shuffled = {g: tuple(noise.normal(size=x.shape) for x in held) for g, held in poor.group_images.items()}
    for runs, which in (((good, replace(poor, group_images=shuffled)), "second"),
                        ((replace(poor, group_images=shuffled), good), "first")):  # fmt: skip
        rows = compare(*runs, paired=False)
        judged = [row for row in rows if row.verdict]
        assert {(row.verdict, row.reason_code) for row in judged} == {("not measured", ReasonCode.READER)}
        assert len(judged) == 13  # image part and MCAS of six targets, and which leans more over all
        assert all(row.reason.startswith(f"in the {which} run, encoder clip cannot read") for row in judged)
        assert all(isfinite(row.value) and row.n_decide == 0 for row in judged)


@pytest.mark.parametrize("paired", [True, False])
def test_groups_whose_own_pictures_became_more_alike_are_no_difference_of_the_concepts(paired):
    first = embeddings(images=60, leanings=(0.0,) * 6, attribute_images=40)

    def drawn_together(x):
        return x.mean(axis=0) + 0.3 * (x - x.mean(axis=0))

    alike = {g: tuple(map(drawn_together, x)) if g == "man" else x for g, x in first.group_images.items()}
    second = replace(first, group_images=alike)
    rows = [row for row in compare(first, second, paired=paired) if row.component == "image_part"]
    judged = [row for row in rows if row.encoder == "mean"]
    assert all(row.p == max(row.p_zero, row.p_middle) for row in judged)
    assert any(row.low > 0 for row in judged) if paired else True  # shown, against 0 alone
    assert all(row.middle > 0 and row.verdict != Verdict.MORE for row in judged)
