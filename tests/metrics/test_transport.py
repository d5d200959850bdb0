"""Whether known and asked pictures are alike to a reader, and which share may be quoted then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import ReadPictures, rated_group_shares, shares_by_reader, transport
from tests.raising import raises


def pictures(
    rng: np.random.Generator, truths: np.ndarray, unread: float = 0.2, sure: float = 0.9, size: float = 0.1
) -> ReadPictures:
    """Read pictures of two groups, nine of ten right."""
    n = len(truths)
    right, seen = rng.random(n) < 0.9, rng.random(n) >= unread
    return ReadPictures(
        np.where(seen, np.where(right, truths, 1 - truths), 2),
        np.where(seen, np.clip(sure + 0.05 * rng.normal(size=n), 0.5, 1), np.nan),
        np.where(seen, size * np.exp(0.4 * rng.normal(size=n)), np.nan),
    )


TRUTHS = np.repeat([0, 1], 80)


def test_alike_pictures_are_like_whatever_their_shares():
    rng = np.random.default_rng(1)
    asked = pictures(rng, np.repeat([0, 1], [90, 10]))
    found = transport(asked, pictures(rng, TRUTHS), TRUTHS, groups=2)
    assert found.answer == "like"
    assert [each.measure for each in found.tests] == ["unread", "confidence", "size"]


@pytest.mark.parametrize(
    ("odd", "words"),
    [({"unread": 0.7}, "are unread"), ({"sure": 0.75}, "is not as sure"), ({"size": 0.03}, "covers 3")],
)
def test_what_differs_is_named(odd, words):
    rng = np.random.default_rng(2)
    asked = pictures(rng, np.repeat([0, 1], 40), **odd)
    found = transport(asked, pictures(rng, TRUTHS), TRUTHS, groups=2)
    assert found.answer == "unlike"
    assert words in found.reason


def test_few_pictures_cannot_tell():
    rng = np.random.default_rng(3)
    known = pictures(rng, TRUTHS)
    assert transport(pictures(rng, np.repeat([0, 1], 5)), known, TRUTHS, groups=2).answer == "cannot tell"
    nothing = ReadPictures(np.zeros(0, int))
    assert transport(nothing, known, TRUTHS, groups=2).reason == "there is no picture to compare"


def test_vectors_alone_make_nothing_unlike():
    rng = np.random.default_rng(4)
    asked, known = (pictures(rng, truths) for truths in (np.repeat([0, 1], 50), TRUTHS))
    vectors = [rng.normal(size=(len(each.answers), 8)) for each in (asked, known)]
    alike = transport(replace(asked, vectors=vectors[0]), replace(known, vectors=vectors[1]), TRUTHS, groups=2)
    assert alike.answer == "like"
    apart = transport(replace(asked, vectors=vectors[0] + 6), replace(known, vectors=vectors[1]), TRUTHS, groups=2)
    assert apart.answer == "cannot tell"
    assert apart.reason == "these pictures and the known ones look different to the encoder"


def test_unlike_pictures_have_no_share_but_the_number_of_labels():
    rng = np.random.default_rng(5)
    asked = pictures(rng, np.repeat([0, 1], [60, 20]), unread=0.6, size=0.02)
    found = shares_by_reader(asked, pictures(rng, TRUTHS), TRUTHS, groups=2)
    assert not found.quotable
    assert np.isnan(found.share).all()
    assert 10 <= found.labels_needed <= 80
    assert found.reason == found.transport.reason
    assert found.raw[0].n == int((asked.answers < 2).sum())


def test_known_contexts_say_how_far_kinds_differ():
    """One kind unread in 20 % and asked in 55 %: unlike; several kinds from 10 to 60 %: no more unlike than those."""
    rng = np.random.default_rng(6)
    asked = pictures(rng, np.repeat([0, 1], 30), unread=0.55)
    assert transport(asked, pictures(rng, TRUTHS, unread=0.2), TRUTHS, groups=2).answer == "unlike"
    parts = [pictures(rng, TRUTHS, unread=rate) for rate in (0.1, 0.25, 0.45, 0.6)]
    joined = ReadPictures(
        *(np.concatenate([getattr(each, name) for each in parts]) for name in ("answers", "confidence", "size")),
        contexts=np.repeat([*"abcd"], len(TRUTHS)),
    )
    assert transport(asked, joined, np.tile(TRUTHS, 4), groups=2).answer != "unlike"


def test_labels_of_the_same_pictures_are_the_way_out():
    rng = np.random.default_rng(7)
    truths = (rng.random(100) < 0.4).astype(int)
    own = pictures(rng, truths, unread=0.6)
    asked, known = (ReadPictures(own.answers[part]) for part in (slice(30, None), slice(30)))
    found = shares_by_reader(asked, known, truths[:30], groups=2, same_pictures=True)
    oracle = rated_group_shares(truths[:30], own.answers[:30], own.answers[30:], groups=2)
    assert found.by == "rated"
    assert found.share.tolist() == [share.value for share in oracle.shares]
    assert found.low[0] <= np.mean(truths == 0) <= found.high[0]


def test_lists_of_other_lengths_are_refused():
    known = ReadPictures(TRUTHS, confidence=np.ones(3))
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="known"):
        transport(ReadPictures(TRUTHS), known, TRUTHS, groups=2)
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="truths"):
        transport(ReadPictures(TRUTHS), ReadPictures(TRUTHS), TRUTHS[:3], groups=2)


def looks(rng: np.random.Generator, truths: np.ndarray, share: float, wrong: float) -> ReadPictures:
    """Draw pictures of two looks, ``share`` of them of the second, in which ``wrong`` of 100 are misread."""
    look = (rng.random(len(truths)) < share).astype(int)
    misread = rng.random(len(truths)) < np.where(look == 1, wrong, 0.05)
    vectors = rng.normal(size=(len(truths), 8)) + 6 * np.stack([look, truths, 1 - look, *np.zeros((5, len(truths)))], 1)
    return ReadPictures(np.where(misread, 1 - truths, truths), vectors=vectors)


def test_a_look_that_is_misread_and_more_frequent_among_the_asked_is_unlike():
    rng = np.random.default_rng(8)
    asked, truths = np.repeat([0, 1], [60, 20]), np.repeat([0, 1], 100)
    found = transport(looks(rng, asked, 0.8, 0.5), looks(rng, truths, 0.2, 0.5), truths, groups=2)
    assert found.answer == "unlike"
    assert found.reason.endswith("and it is by their looks that known ones are misread")
    by_vectors = next(each for each in found.tests if each.measure == "vectors")
    assert by_vectors.p_unlike == max(by_vectors.p, by_vectors.p_errors) < 0.01


@pytest.mark.parametrize(("share", "wrong"), [(0.2, 0.5), (0.8, 0.05)])
def test_neither_a_look_nor_its_errors_make_unlike_alone(share, wrong):
    rng = np.random.default_rng(9)
    asked, truths = np.repeat([0, 1], [60, 20]), np.repeat([0, 1], 100)
    found = transport(looks(rng, asked, share, wrong), looks(rng, truths, 0.2, wrong), truths, groups=2)
    assert found.answer == ("like" if share == 0.2 else "cannot tell")


def test_a_rotation_of_all_vectors_changes_nothing():
    rng = np.random.default_rng(10)
    asked, known = looks(rng, np.repeat([0, 1], 40), 0.6, 0.5), looks(rng, TRUTHS, 0.2, 0.5)
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    turned = [replace(each, vectors=3 * each.vectors @ turn) for each in (asked, known)]
    assert transport(*turned, TRUTHS, groups=2).answer == transport(asked, known, TRUTHS, groups=2).answer
