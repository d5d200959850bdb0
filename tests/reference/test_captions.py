"""The grammar: what a caption says must be true of the pictures it is shown with."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reference import art, captions

GENDERED = re.compile(
    r"\b(man|woman|male|female|boy|girl|he|she|him|her|his|hers|father|mother|husband|wife|brother|sister|son|daughter|"
    r"non-binary|nonbinary|they|them|their)\b"
)
NOTHING = np.empty((0,), np.uint8)
PICTURES = art.Pictures(NOTHING, *art.labels())
CAPTIONS = captions.all_captions()
MAN, WOMAN, PERSON = range(3)


def test_the_factorial_is_complete_and_labelled_once():
    axes = art.labels()
    assert len(axes[0]) == 76 * 3 * 6 * 4 == 5472
    assert len(set(zip(*axes, strict=True))) == 5472


def test_sequences_follow_the_emoji_recipes():
    concept = art.concepts()[captions.concept_index("firefighter")]
    assert concept.sequence("woman", 5) == "1f469-1f3ff-200d-1f692"
    assert concept.sequence("person", 0) == "1f9d1-200d-1f692"
    assert art.concepts()[captions.concept_index("running")].sequence("man", 1) == "1f3c3-1f3fb-200d-2642"
    assert art.concepts()[captions.concept_index("santa")].sequence("person", 2) == "1f9d1-1f3fc-200d-1f384"


def test_every_sequence_is_distinct():
    sequences = [
        concept.sequence(gender, tone) for concept in art.concepts() for gender in art.GENDERS for tone in range(6)
    ]
    assert len(set(sequences)) == len(sequences)


def test_neutral_captions_carry_no_gender_word():
    for caption in CAPTIONS:
        assert (caption.gender is None) == (GENDERED.search(caption.text) is None) or caption.text in WORDS, caption


WORDS = {word for gender in art.GENDERS for word in captions.attribute_words(gender)}


def test_captions_name_a_skin_tone_exactly_when_they_say_one():
    for caption in CAPTIONS:
        assert (caption.tone is not None) == ("skin" in caption.text), caption


def test_one_text_means_one_thing():
    meanings: dict[str, set[captions.Caption]] = {}
    for caption in CAPTIONS:
        meanings.setdefault(caption.text, set()).add(caption)
    assert {text: said for text, said in meanings.items() if len(said) > 1} == {}


@pytest.mark.parametrize("step", [7])
def test_every_caption_is_true_of_some_pictures_and_they_agree_with_it(step: int):
    for caption in CAPTIONS[::step]:
        true = caption.true_of(PICTURES)
        assert true.any(), caption
        if caption.concept is not None:
            assert set(PICTURES.concept[true]) == {caption.concept}
        if caption.gender is not None:
            assert set(PICTURES.gender[true]) == {caption.gender}
        if caption.tone is not None:
            assert set(PICTURES.tone[true]) == {caption.tone}


def test_a_man_is_true_of_a_man_who_fights_fires_but_not_of_a_boy():
    (caption,) = (c for c in CAPTIONS if c.text == "a photo of a man")
    true = caption.true_of(PICTURES)
    at = (PICTURES.gender == MAN) & (PICTURES.concept == captions.concept_index("firefighter"))
    assert true[at].all()
    assert not true[PICTURES.concept == captions.concept_index("child")].any()
    assert not true[PICTURES.gender != MAN].any()


def test_neutral_captions_are_as_true_of_men_as_of_women():
    for caption in CAPTIONS[::5]:
        if caption.gender is None:
            true = caption.true_of(PICTURES)
            counts = np.bincount(PICTURES.gender[true], minlength=3)
            assert counts[MAN] == counts[WOMAN] == counts[PERSON], caption


@pytest.mark.parametrize(
    ("name", "gender", "tone", "phrase"),
    [
        ("firefighter", WOMAN, 5, "a woman firefighter with dark skin"),
        ("artist", None, None, "an artist"),
        ("running", None, None, "a person running"),
        ("running", PERSON, 1, "a non-binary person with light skin running"),
        ("curly hair", MAN, 2, "a man with curly hair and medium-light skin"),
        ("older adult", WOMAN, None, "an old woman"),
        ("child", PERSON, None, "a non-binary child"),
        ("adult", None, None, "a person"),
    ],
)
def test_noun_phrases(name: str, gender: int | None, tone: int | None, phrase: str):
    assert captions.noun_phrases(captions.concept_index(name), gender, tone)[0] == phrase


def test_held_out_combinations_are_a_sixth_and_balanced():
    held_out = art.split(PICTURES)
    assert held_out.mean() == pytest.approx(1 / 6)
    for labels, size in ((PICTURES.concept, 76), (PICTURES.gender, 3), (PICTURES.set, 4)):
        counts = np.bincount(labels[held_out], minlength=size)
        assert counts.min() == counts.max()
    assert np.bincount(PICTURES.tone[held_out]).min() > 100
