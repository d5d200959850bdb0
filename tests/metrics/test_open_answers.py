"""Answers in free words: their form, their clusters, and what they hang on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import histogram_overlap
from clinometer.metrics.open_answers import cluster_answers, concept_association, normalise_answer, open_distribution
from tests.raising import raises

RNG = np.random.default_rng(3)
CONCEPTS = [f"concept {k}" for k in np.repeat(range(4), 12)]
ANSWERS = [f"answer {k}" for k in RNG.integers(0, 3, len(CONCEPTS))]


@pytest.mark.parametrize(
    ("said", "form"),
    [
        ("A Hard Hat.", "hard hat"), ("“the  HARD hat”", "hard hat"), ("It is a hard\nhat!", "hard hat"),
        ("Cafe\u0301", "café"), ("Straße", "strasse"), ("ｈａｔ", "hat"), ("30-40", "30 40"), ("A", "a"),
        ("眼鏡。", "眼鏡"),
        ("Unknown", ""), ("Can’t tell.", ""), ("", ""), ("…", ""), ("N/A", ""),
    ],
)  # fmt: skip
def test_answers_are_brought_to_one_form(said, form):
    assert normalise_answer(said) == form


@given(st.text(max_size=40))
def test_a_normal_form_without_an_article_stays_as_it_is(text):
    form = normalise_answer(text)
    if not form.startswith(("a ", "an ", "the ", "it ", "this ", "that ", "he ", "she ")):
        assert normalise_answer(form) == form
    assert form == form.casefold().strip()


def test_clusters_do_not_hang_on_the_order_and_are_named_by_the_most_frequent():
    counts = {"hat": 3, "cap": 5, "scarf": 2, "shawl": 2}
    vectors = {"hat": [1, 0, 0], "cap": [0.99, 0.1, 0], "scarf": [0, 1, 0], "shawl": [0, 0.99, 0.1]}
    expected = {"hat": "cap", "cap": "cap", "scarf": "scarf", "shawl": "scarf"}
    for order in (list(counts), list(reversed(counts))):
        own = {name: counts[name] for name in order}
        assert cluster_answers(own, 3 * np.array([vectors[name] for name in order]), 0.9) == expected
    apart = cluster_answers(counts, np.array(list(vectors.values())), 0.9999)
    assert apart == {name: name for name in counts} == cluster_answers(counts, None, 0.5)


@pytest.mark.parametrize(
    ("vectors", "threshold", "code", "field", "told"),
    [
        (np.eye(3), 0.9, Code.WRONG_SHAPE, "vectors", r"\(3, 3\)"),
        (np.zeros((2, 2)), 0.9, Code.NOT_FINITE, "vectors", ""),
        (np.eye(2), 0.0, Code.OUT_OF_RANGE, "threshold", r"0\.0"),
    ],
)
def test_what_cannot_be_clustered_is_refused(vectors, threshold, code, field, told):
    with raises(InvalidInputError, code=code, field=field, match=told):
        cluster_answers({"hat": 1, "cap": 1}, vectors, threshold)


def test_information_is_that_of_scipy_and_symmetric():
    found = open_distribution(CONCEPTS, ANSWERS, permutations=99)
    table = found.counts
    expected = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic / (2 * table.sum())
    assert found.overall.value == pytest.approx(expected)
    turned = open_distribution(ANSWERS, CONCEPTS, permutations=99)
    assert turned.overall.value == pytest.approx(expected)
    one = np.stack([table[0], table[1:].sum(axis=0)])
    alone = stats.chi2_contingency(one, correction=False, lambda_="log-likelihood").statistic / (2 * table.sum())
    assert found.each[0].value == pytest.approx(alone)


def test_names_and_order_change_nothing():
    found = open_distribution(CONCEPTS, ANSWERS, permutations=199)
    order = RNG.permutation(len(CONCEPTS))
    again = open_distribution([CONCEPTS[k] for k in order], [ANSWERS[k] for k in order], permutations=199)
    np.testing.assert_array_equal(again.counts, found.counts)
    assert again.overall == found.overall


def test_p_is_that_of_an_exact_permutation():
    """Two concepts of three images and answers xxy yyy: by hand, of the C(6, 3) = 20 deals."""
    found = open_distribution(list("aaabbb"), list("xxyyyy"), permutations=19_999)
    # Of 20 choices of a's images, 4 hold both x and 4 hold neither: as much information as observed, or as much.
    assert found.overall.p == pytest.approx(0.4, abs=4 * found.overall.p_error)
    assert found.overall.low == 0


def test_perfect_dependence_reaches_the_largest_information():
    found = open_distribution(list("aaaaaaaabbbbbbbb"), list("xxxxxxxxyyyyyyyy"), permutations=999)
    assert found.overall.value == pytest.approx(np.log(2))
    assert found.overall.high == pytest.approx(np.log(2))
    assert found.overall.p < 0.002
    assert 0 < found.overall.null < found.overall.low < np.log(2)


def test_within_strata_what_strata_explain_is_not_the_concepts():
    """Concepts stand in other strata in other numbers, and the stratum alone decides the answer."""
    strata = np.repeat([0, 1], 20)
    concepts = np.where(np.arange(40) % 20 < np.where(strata == 0, 16, 4), "a", "b")
    answers = np.where(strata == 0, "x", "y")
    assert open_distribution(list(concepts), list(answers), permutations=999).overall.p < 0.01
    within = open_distribution(list(concepts), list(answers), strata=list(strata), permutations=999).overall
    assert (within.value, within.p, within.null) == (0, 1, 0)


@pytest.mark.parametrize(
    ("concepts", "answers", "reason"),
    [
        ("", "", "no image has an answer"),
        ("aaa", "xyz", "one concept has answers"),
        ("aab", "xxx", "all images have one"),
    ],
)
def test_what_is_not_defined_has_a_reason(concepts, answers, reason):
    found = open_distribution(list(concepts), list(answers), permutations=99)
    assert np.isnan(found.overall.value)
    assert found.overall.reason.startswith(reason)
    assert len(found.each) == len(set(concepts))


@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_an_interval_holds_its_estimate(seed):
    rng = np.random.default_rng(seed)
    found = open_distribution(
        list(rng.choice(list("abc"), 18)), list(rng.choice(list("wxyz"), 18)), permutations=99, rng=seed
    )
    for each in (found.overall, *found.each):
        assert 0 <= each.low <= each.value <= each.high <= np.log(3) + 1e-9
        assert 0 < each.p <= 1


# --- concept association ----------------------------------------------------------------------------------------------

FIRST, SECOND = RNG.multinomial(3, [0.5, 0.3, 0.2, 0.0], 15), RNG.multinomial(3, [0.1, 0.3, 0.2, 0.4], 12)


def test_association_is_histogram_intersection_over_union():
    found = concept_association(FIRST, SECOND, permutations=199)
    h, g = FIRST.sum(axis=0) / FIRST.sum(), SECOND.sum(axis=0) / SECOND.sum()
    assert found.value == pytest.approx(np.minimum(h, g).sum() / np.maximum(h, g).sum())
    one_each = np.eye(4)[RNG.integers(0, 4, 20)]
    other = np.eye(4)[RNG.integers(0, 4, 20)]
    same = histogram_overlap(one_each.sum(axis=0).astype(int), other.sum(axis=0).astype(int), resamples=99)
    assert concept_association(one_each, other, permutations=99).value == pytest.approx(same.value)


def test_association_is_symmetric_and_1_for_the_same():
    found, turned = (
        concept_association(FIRST, SECOND, permutations=99),
        concept_association(SECOND, FIRST, permutations=99),
    )
    assert found.value == pytest.approx(turned.value)
    same = concept_association(FIRST, FIRST, permutations=99)
    assert (same.value, same.high, same.p) == (1, 1, 1)
    apart = concept_association(np.eye(2)[[0] * 8], np.eye(2)[[1] * 8], permutations=999)
    assert (apart.value, apart.low) == (0, 0)
    assert apart.p < 0.01


def test_association_counts_images_and_not_answers():
    """Asked thrice as often with the same answers, there are no more images."""
    found = concept_association(FIRST, SECOND, permutations=499)
    thrice = concept_association(3 * FIRST, 3 * SECOND, permutations=499)
    assert (thrice.value, thrice.p) == (pytest.approx(found.value), found.p)
    assert (thrice.low, thrice.high) == (pytest.approx(found.low), pytest.approx(found.high))


def test_association_of_nothing_has_a_reason():
    assert concept_association(FIRST[:1], SECOND).reason == "fewer than two images of one of both"
    assert concept_association(0 * FIRST, SECOND).reason == "no concept is named in one of both"
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field=("initial", "counterfactual")):
        concept_association(-FIRST, SECOND)
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field=("initial", "counterfactual")):
        concept_association(FIRST[:, :2], SECOND)
