"""What is missing becomes NaN with a reason, and the rest goes on; what cannot be is refused by name."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, isnan

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.studies.leaning import mcas_study
from tests.raising import raises
from tests.studies.leaning.studies import DIM, GROUPS, design, embeddings, one, study

NOTHING = np.empty((0, DIM))


def without_images(t: int = 0, keep: int = 0, **options):
    plain = embeddings(**options)
    images = list(plain.target_images)
    images[t] = images[t][:keep]
    return replace(plain, target_images=tuple(images))


def test_a_target_with_no_images():
    rows = study(without_images())
    for component in ("ii", "ita", "mcas"):
        row = one(rows, "mcas", component, concept="target 0")
        assert isnan(row.value)
        assert isnan(row.p)
        assert row.reason == "no image of the target"
    assert isfinite(one(rows, "mcas", "itp", concept="target 0").value)
    assert isfinite(one(rows, "mcas", "tt", concept="target 0").stimulus_low)
    assert one(rows, "mcas", "mcas", concept="target 0").verdict == "not measured"
    assert one(rows, "share", "share", concept="target 0").reason == "no image of the target"
    assert one(rows, "xmcas", "distance", concept="target 0").reason == "no image of the target"
    intact, other = (one(study(e), "mcas", "mcas", concept="target 1") for e in (embeddings(), without_images()))
    assert (intact.value, intact.low) == pytest.approx((other.value, other.low))
    summary = one(rows, "category", "mean", category="all", group="")
    assert summary.n_target == 5
    assert isfinite(summary.low)
    assert len([r for r in rows if r.metric == "mcas" and isfinite(r.q) and r.encoder == "mean"]) == 5 * 4 + 6 * 2


def test_a_target_with_one_image_has_a_value_and_no_interval():
    row = one(study(without_images(keep=1)), "mcas", "ii", concept="target 0")
    assert isfinite(row.value)
    assert isfinite(row.p_labels)
    assert isnan(row.low)
    assert isnan(row.p)
    assert row.reason == "no interval from one image of the target"
    assert row.n_target == 1


def test_a_prompt_with_no_images_is_left_out_of_its_group():
    plain = embeddings()
    group_images = dict(plain.group_images) | {"man": (NOTHING, *plain.group_images["man"][1:])}
    rows = study(replace(plain, group_images=group_images))
    row = one(rows, "mcas", "ii", concept="target 0")
    assert (row.n_a, row.n_b) == (15, 20)
    assert all(map(isfinite, (row.value, row.low, row.p)))
    assert one(rows, "xmcas_group", "mcas", concept="adult man").reason
    assert isfinite(one(rows, "xmcas_group", "mcas", concept="child man").value)


def test_a_prompt_with_one_image_leaves_no_interval():
    plain = embeddings()
    first = plain.group_images["man"]
    rows = study(replace(plain, group_images=dict(plain.group_images) | {"man": (first[0][:1], *first[1:])}))
    row = one(rows, "mcas", "ii", concept="target 0")
    assert isfinite(row.value)
    assert isnan(row.low)
    assert row.reason == "no interval: a prompt of group 'man' has one image"
    assert isfinite(one(rows, "mcas", "ita", concept="target 0").low)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_with_no_images_at_all(group):
    plain = embeddings()
    rows = study(replace(plain, group_images=dict(plain.group_images) | {group: (NOTHING,) * 4}))
    of_axis = group != "nonbinary"
    ii, similarity = (
        one(rows, "mcas", "ii", concept="target 0"),
        one(rows, "xmcas", "similarity", concept="target 0"),
    )
    assert isnan(ii.value) is of_axis
    assert ii.reason == (f"no image of group '{group}'; draw or import some" if of_axis else "")
    assert isnan(similarity.value) is not of_axis
    assert isfinite(one(rows, "mcas", "ita", concept="target 0").value)
    for row in rows:
        assert isfinite(row.value) or row.reason, row


def test_no_attribute_images_anywhere():
    rows = study(replace(embeddings(), group_images=dict.fromkeys(GROUPS, (NOTHING,) * 4)))
    assert isfinite(one(rows, "mcas", "ita", concept="target 0").p)
    assert isnan(one(rows, "mcas", "mcas", concept="target 0").value)


def test_an_encoder_without_text_tower_counts_for_itself_only():
    blind = replace(embeddings("blind", seed=3), target_texts=None, group_words=None, group_texts=None)
    rows = study(embeddings("clip"), blind)
    row = one(rows, "mcas", "tt", concept="target 0", encoder="blind")
    assert isnan(row.value)
    assert row.reason == "the encoder reads no text"
    assert isfinite(one(rows, "mcas", "ii", concept="target 0", encoder="blind").low)
    for component in ("ii", "mcas"):
        mean, clip = (one(rows, "mcas", component, concept="target 0", encoder=e) for e in ("mean", "clip"))
        assert mean.value == clip.value


def test_only_encoders_without_text_tower():
    rows = study(replace(embeddings(), target_texts=None, group_words=None, group_texts=None))
    assert isfinite(one(rows, "mcas", "ii", concept="target 0").p)
    for row in rows:
        assert isfinite(row.value) or row.reason, row


def test_no_texts_of_the_groups_no_offset():
    rows = study(replace(embeddings(), group_texts=None))
    assert "text was not given" in one(rows, "xmcas", "offset").reason
    angle = one(rows, "xmcas", "angle", concept="target 0")
    assert isnan(angle.value)
    assert "offset" in angle.reason
    assert isfinite(one(rows, "xmcas", "distance", concept="target 0").value)


def test_one_word_has_no_stimulus_interval():
    rows = study(embeddings(words=(4, 4, 1)))
    assert isfinite(one(rows, "mcas", "mcas", concept="target 0").stimulus_low)
    row = one(rows, "xmcas", "similarity", concept="target 0")
    assert isfinite(row.low)
    assert isnan(row.stimulus_low)
    assert row.reason == "no stimulus interval: group 'nonbinary' has one word"
    lone = one(study(embeddings(words=(1, 1, 1))), "mcas", "tt", concept="target 0")
    assert isnan(lone.stimulus_low)
    assert "one word" in lone.reason


def test_the_same_words_for_both_groups_leave_alpha_undefined():
    plain = embeddings(words=(4, 4, 3))
    assert plain.group_words is not None
    for words in (plain.group_words["man"], 3 * plain.group_words["man"][::-1]):
        rows = study(replace(plain, group_words=dict(plain.group_words) | {"woman": words}))
        row = one(rows, "internal_bias", "bias_amplification", concept="target 0")
        assert isnan(row.value)
        assert row.reason == "TT is 0: bias amplification divides by it"
        assert row.flag == "unstable"
        assert one(rows, "mcas", "tt", concept="target 0").p_labels == 1


def test_nothing_measured_at_all_still_answers():
    plain = embeddings()
    empty = replace(
        plain, target_images=(NOTHING,) * 6, target_texts=None, group_words=None, group_texts=None,
        group_images=dict.fromkeys(GROUPS, (NOTHING,) * 4),
    )  # fmt: skip
    rows = study(empty)
    assert rows
    assert all(isnan(row.value) and row.reason for row in rows)


def broken(x: np.ndarray, number: float) -> np.ndarray:
    x = x.copy()
    x[1] = number
    return x


@pytest.mark.parametrize(("number", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (0.0, "zero")])
def test_refuses_embeddings_by_encoder_and_target(number, what):
    plain = embeddings("ViT-B/32")
    images = (plain.target_images[0], broken(plain.target_images[1], number), *plain.target_images[2:])
    with raises(InvalidInputError, code=Code.NOT_FINITE, match=f"encoder ViT-B/32, target 'target 1': row 1 .*{what}"):
        study(replace(plain, target_images=images))
    assert plain.group_words is not None
    words = dict(plain.group_words) | {"woman": broken(plain.group_words["woman"], number)}
    with raises(InvalidInputError, code=Code.NOT_FINITE, match=f"words of group 'woman': row 1 .*{what}"):
        study(replace(plain, group_words=words))


def wrong_studies():
    plain = embeddings()
    assert plain.target_texts is not None
    assert plain.group_words is not None
    few = replace(plain, target_images=plain.target_images[:2])
    only_man = {"man": plain.group_images["man"]}
    yield Code.WRONG_SHAPE, (), "images of 2 targets, .*6", [few], {}
    yield Code.WRONG_SHAPE, (), "2 target texts, .*6", [replace(plain, target_texts=plain.target_texts[:2])], {}
    yield Code.MISSING, (), "group_images: .*woman", [replace(plain, group_images=only_man)], {}
    yield Code.MISSING, (), "woman", [replace(plain, group_words={"man": plain.group_words["man"]})], {}
    yield Code.WRONG_SHAPE, (), "5, 24", [replace(plain, target_texts=np.ones((6, 5)))], {}
    yield Code.WRONG_SHAPE, (), "target texts", [replace(plain, target_texts=np.ones(6))], {}
    yield Code.DUPLICATE, "encoders", "clip, clip", [plain, plain], {}
    yield Code.DUPLICATE, "encoders", "found mean", [replace(plain, encoder="mean")], {}
    yield Code.MISMATCH, (), "other", [plain, replace(without_images(), encoder="other")], {}
    yield Code.TOO_FEW, "encoders", "", [], {}
    yield Code.OUT_OF_RANGE, (), "n_resamples", [plain], {"n_resamples": 0}
    yield Code.OUT_OF_RANGE, (), "n_permutations", [plain], {"n_permutations": -1}
    yield Code.OUT_OF_RANGE, "confidence", "95", [plain], {"confidence": 95}
    yield Code.OUT_OF_RANGE, "seed", "-1", [plain], {"seed": -1}


@pytest.mark.parametrize(("code", "field", "words", "encoders", "options"), list(wrong_studies()))
def test_refuses(code, field, words, encoders, options):
    with raises(InvalidInputError, code=code, field=field, match=words) as caught:
        mcas_study(encoders, design(), **({"n_resamples": 10, "n_permutations": 9} | options))
    assert str(caught.value).count("\n") <= 1


@pytest.mark.parametrize(
    ("changes", "code", "complaint"),
    [
        ({"a": "men"}, Code.UNKNOWN_NAME, "a: .*'men'; .*man, woman, nonbinary"),
        ({"third": "x"}, Code.UNKNOWN_NAME, "third: .*'x'"),
        ({"b": "man"}, Code.DUPLICATE, "a, b, third"),
        ({"third": "woman"}, Code.DUPLICATE, "a, b, third"),
        ({"targets": ()}, Code.TOO_FEW, "targets"),
    ],
)
def test_refuses_a_design(changes, code, complaint):
    with raises(InvalidInputError, code=code, match=complaint):
        design(**changes)


def test_refuses_pairs_that_do_not_fit():
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, match="pairs of group 'man': 2, .*4"):
        study(of=design(pairs=dict.fromkeys(GROUPS, ("adult", "child"))))


def test_without_any_text_the_profile_is_of_images_and_its_pairs_are_ii():
    blind = replace(embeddings("blind", seed=3), target_texts=None, group_words=None, group_texts=None)
    rows = study(blind)
    for t in range(6):
        of = {"concept": f"target {t}"}
        found = {g: one(rows, "profile", "association", group=g, **of) for g in GROUPS}
        values = np.array([row.value for row in found.values()])
        assert values.sum() == pytest.approx(0, abs=1e-12)
        assert one(rows, "profile", "norm", **of).value == pytest.approx(np.linalg.norm(values))
        pair, ii = one(rows, "profile", "man-woman", **of), one(rows, "mcas", "ii", **of)
        assert pair.value == pytest.approx(ii.value)
        assert pair.value == pytest.approx(found["man"].value - found["woman"].value)
        assert pair.low <= pair.value <= pair.high
        assert all(row.verdict for row in found.values())
        assert one(rows, "profile", "norm", **of).reason == ""
