"""Does an encoder read? The check, its rows, and what it withholds."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from clinometer.metrics.verdict import ReasonCode, Verdict
from clinometer.stats.confusion import corrected_share
from clinometer.studies.leaning.scores.cosines import averaged_embeddings
from clinometer.studies.leaning.scores.encoder_check import reader_checks
from tests.quick import thorough_but
from tests.studies.leaning.studies import DIM, GROUPS, cosine, design, embeddings, one, study

WORDS = (8, 8, 8)


def able(name="clip", **changes):
    """Words and images on the same directions, level between the groups."""
    encoder = embeddings(name, words=WORDS, noise=0.3, **changes)
    centre = np.mean([np.concatenate(encoder.group_images[g]).mean(axis=0) for g in GROUPS[:2]], axis=0)
    towards = {g: np.concatenate(encoder.group_images[g]).mean(axis=0) - centre for g in GROUPS}
    rng = np.random.default_rng(5)
    return replace(
        encoder,
        target_images=tuple(x - centre for x in encoder.target_images),
        group_images={g: tuple(x - centre for x in encoder.group_images[g]) for g in GROUPS},
        group_words={g: towards[g] + 0.3 * rng.normal(size=(8, DIM)) for g in GROUPS},
    )


def noisy(name="noise", *, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    base = shift * rng.normal(size=DIM)
    return embeddings(
        name,
        target_images=tuple(base + rng.normal(size=(8, DIM)) for _ in range(6)),
        target_texts=base + rng.normal(size=(6, DIM)),
        group_images={g: tuple(base + rng.normal(size=(8, DIM)) for _ in range(4)) for g in GROUPS},
        group_words={g: base + rng.normal(size=(10, DIM)) for g in GROUPS},
    )


def blind(encoder):
    return replace(encoder, target_texts=None, group_words=None, group_texts=None)


def test_sensitivity_and_specificity_are_counts_by_the_rule_of_shares():
    encoder = able()
    rows = study(encoder)
    words = encoder.group_words
    for component, group, sign in (("sensitivity", "man", 1), ("specificity", "woman", -1)):
        images = np.concatenate(encoder.group_images[group])
        reads = [
            sign * (np.mean([cosine(x, w) for w in words["man"]]) - np.mean([cosine(x, w) for w in words["woman"]]))
            for x in images
        ]
        row = one(rows, "reader", component, encoder="clip")
        assert (row.value, row.n_target, row.group) == (np.mean(np.array(reads) > 0), 20, group)
        assert row.low <= row.value <= row.high
    both = one(rows, "reader", "informedness")
    sums = sum(one(rows, "reader", each).value for each in ("sensitivity", "specificity"))
    assert both.value == pytest.approx(sums - 1)
    assert not both.flag


def test_swapping_the_groups_swaps_the_rates():
    forth, back = (study(able(), of=design(a=a, b=b)) for a, b in (("man", "woman"), ("woman", "man")))
    for one_way, other in (("sensitivity", "specificity"), ("specificity", "sensitivity")):
        x, y = one(forth, "reader", one_way), one(back, "reader", other)
        assert (x.value, x.low, x.high) == (y.value, y.low, y.high)
    for t in range(6):
        x, y = (one(rows, "share", "corrected_share", concept=f"target {t}") for rows in (forth, back))
        assert (1 - y.value, 1 - y.high, 1 - y.low) == pytest.approx((x.value, x.low, x.high))


def test_the_corrected_share_stands_beside_the_raw_one():
    rows = study(able())
    check = reader_checks([able()], design())["mean"]
    for t in range(6):
        raw = one(rows, "share", "share", concept=f"target {t}")
        corrected = one(rows, "share", "corrected_share", concept=f"target {t}")
        found = corrected_share(round(raw.value * raw.n_target), raw.n_target, check.reading)
        assert (corrected.value, corrected.low, corrected.high) == (found.value, found.low, found.high)
        assert (corrected.n_target, corrected.n_a, corrected.n_b) == (8, 20, 20)
        assert ("clipped" in corrected.reason) == (found.value != found.estimate)


def test_every_group_is_read_as_some_group():
    rows = study(able())
    for drawn in GROUPS:
        shares = [one(rows, "reader", "confusion", group=drawn, setting=f"read as {g}") for g in GROUPS]
        assert sum(row.value for row in shares) == pytest.approx(1)
        assert {row.n_target for row in shares} == {20}
    two = design(2, groups=GROUPS[:2], third=None, pairs={}, prompts={})
    rows = study(embeddings(leanings=(0.2, 0.0), groups=GROUPS[:2], words=(4, 5)), of=two)
    for name, drawn in (("sensitivity", GROUPS[0]), ("specificity", GROUPS[1])):  # of two groups they are the diagonal
        right = one(rows, "reader", "confusion", group=drawn, setting=f"read as {drawn}")
        assert right.value == one(rows, "reader", name).value


@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("seed", thorough_but(range(4), 0))
def test_noise_in_no_finding_out(seed, shift):
    rows = study(noisy(seed=seed, shift=shift), of=design(margin=0.05))
    verdicts = [one(rows, "mcas", "mcas", concept=f"target {t}") for t in range(6)]
    assert {row.verdict for row in verdicts} == {Verdict.NOT_MEASURED}
    assert all("cannot read its own attribute images" in row.reason and "noise" in row.reason for row in verdicts)
    assert all(np.isfinite(row.value) and row.n_decide == 0 for row in verdicts)
    assert one(rows, "reader", "informedness").flag == "cannot read"
    assert isnan(one(rows, "share", "corrected_share", concept="target 0").value) or shift == 0


def test_what_reads_keeps_its_verdicts():
    rows = study(able(leanings=(2.0, -2.0, 0.0, 1.0, -1.0, 0.0), images=10))
    assert any(row.verdict.startswith("leans") for row in rows)


def test_an_encoder_to_which_everything_is_one_group_does_not_read():
    encoder = able()
    towards = encoder.group_words["man"].mean(axis=0) - encoder.group_words["woman"].mean(axis=0)
    moved = {g: tuple(x + 50 * towards for x in encoder.group_images[g]) for g in GROUPS}
    check = reader_checks([replace(encoder, group_images=moved)], design())["clip"]
    assert (check.reading.right_a, check.reading.right_b) == (20, 0)
    assert (check.reads, check.code) == (False, ReasonCode.READER)


def _misplaced(encoder, right):
    """The encoder with all images moved along the words until so many of the second group's are read right."""
    towards = encoder.group_words["man"].mean(axis=0) - encoder.group_words["woman"].mean(axis=0)
    unit = {g: w / np.linalg.norm(w, axis=1, keepdims=True) for g, w in encoder.group_words.items()}
    d = unit["man"].mean(axis=0) - unit["woman"].mean(axis=0)
    along = np.sort(np.concatenate(encoder.group_images["woman"]) @ d)
    step = -(along[right - 1] + along[right]) / 2 / (towards @ d)
    moved = {g: tuple(x + step * towards for x in encoder.group_images[g]) for g in GROUPS}
    return replace(
        encoder, group_images=moved, target_images=tuple(x + step * towards for x in encoder.target_images)
    )  # fmt: skip


@pytest.mark.parametrize(("right", "reads"), [(10, False), (9, False), (11, True)])
def test_one_that_takes_half_of_a_group_for_the_other_does_not_read(right, reads):
    check = reader_checks([_misplaced(able(), right)], design())["clip"]
    assert check.reading.right_b == right
    assert check.reading.right_a == 20
    assert check.informedness.low > 0
    assert check.p_images <= 0.01
    assert check.reads is reads
    assert check.code == (ReasonCode.NONE if reads else ReasonCode.READER)
    assert ("misses 'woman'" in check.reason) is not reads


def test_what_misses_one_side_gives_no_verdict_and_says_so():
    rows = study(_misplaced(able(), 9), of=design(margin=0.05))
    verdicts = [one(rows, "mcas", "mcas", concept=f"target {t}") for t in range(6)]
    assert {(row.verdict, row.reason_code) for row in verdicts} == {(Verdict.NOT_MEASURED, ReasonCode.READER)}
    assert all("misses 'woman', which it mostly takes for 'man'" in row.reason for row in verdicts)
    assert one(rows, "reader", "informedness").flag == "cannot read"


def test_words_that_mean_nothing_do_not_read_images_that_differ():
    rng, reads = np.random.default_rng(7), 0
    for _ in range(40):
        words = {g: rng.normal(size=(10, DIM)) for g in GROUPS}
        reads += reader_checks([replace(able(), group_words=words)], design())["mean"].reads
    assert reads <= 2


def test_an_encoder_without_words_is_asked_of_its_images():
    check = reader_checks([blind(able())], design())["mean"]
    assert (check.basis, check.reads) == ("images", True)
    assert not reader_checks([blind(noisy())], design())["mean"].reads
    row = one(study(blind(able())), "share", "corrected_share", concept="target 0")
    assert isnan(row.value)
    assert row.reason == "the encoder reads no text"


def test_two_prompts_of_images_alone_are_compared_image_by_image():
    two = design(groups=GROUPS, pairs={}, prompts={})
    for encoder, reads in ((able(), True), (noisy(), False)):
        few = {g: encoder.group_images[g][:2] for g in GROUPS}
        check = reader_checks([replace(blind(encoder), group_images=few)], two)["mean"]
        assert (check.reads, check.reading.n_a) == (reads, 2 * len(few["man"][0]))


def test_the_average_is_checked_as_it_reads():
    good, poor = able("good"), noisy("poor")
    poor = replace(poor, group_images={g: tuple(x[:5] for x in poor.group_images[g]) for g in GROUPS},
                   group_words={g: poor.group_words[g][:8] for g in GROUPS})  # fmt: skip
    checks = reader_checks([good, poor], design())
    assert list(checks) == ["mean", "good", "poor"]
    assert checks["good"].reads
    assert not checks["poor"].reads
    assert "encoder poor" in checks["poor"].reason
    worst = reader_checks([replace(poor, encoder="other"), poor], design())["mean"]
    assert not worst.reads
    assert "the average over encoders" in worst.reason


def test_averaged_embeddings_have_the_averaged_cosines():
    first, second = embeddings("one"), embeddings("two", seed=3)
    both = averaged_embeddings([first, second, blind(embeddings("three"))])
    for x, y in ((0, 1), (2, 0)):
        slow = np.mean([cosine(e.target_images[x][1], e.group_words["woman"][y]) for e in (first, second)])
        assert cosine(both.target_images[x][1], both.group_words["woman"][y]) == pytest.approx(slow)
    assert averaged_embeddings([first]) is first


def test_what_does_not_fit_has_no_say_and_neither_has_the_average():
    good, alien = able("good"), replace(able("alien"), unfit={"": "encoder alien does not fit"})
    rows = study(good, alien)
    verdict = one(rows, "mcas", "mcas", concept="target 0")
    assert (verdict.verdict, verdict.reason) == (Verdict.NOT_MEASURED, "encoder alien does not fit")
    assert reader_checks([good, alien], design())["good"].reads
    partly = replace(able(), unfit={"target 1": "it has not learned 'x'"})
    rows = study(partly)
    assert one(rows, "mcas", "mcas", concept="target 1").reason == "it has not learned 'x'"
    assert one(rows, "mcas", "mcas", concept="target 0").verdict != Verdict.NOT_MEASURED
    check = reader_checks([partly], design())["mean"]
    assert (check.code_for("target 1"), check.code_for("target 0")) == (ReasonCode.DOMAIN, ReasonCode.NONE)


def test_too_few_images_are_not_called_an_encoder_that_cannot_read():
    few = {g: (x[0][:1], *(np.empty((0, DIM)) for _ in x[1:])) for g, x in able().group_images.items()}
    check = reader_checks([replace(able(), group_images=few)], design())["mean"]
    assert check.code == ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES
    none = few | {"woman": tuple(np.empty((0, DIM)) for _ in range(4))}
    check = reader_checks([replace(able(), group_images=none)], design())["mean"]
    assert check.reason == "no image of group 'woman' to check encoder clip on"
