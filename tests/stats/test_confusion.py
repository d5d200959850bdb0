"""Shares of K groups corrected by a reader's confusion: algebra, the two-group oracle, a slow optimiser, coverage."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from benchmarks.transport_simulations import two_group_ratio
from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import corrected_shares
from clinometer.stats.confusion import Kinds, ReadingCounts, _raised, corrected_share, share_p_values
from tests.raising import raises


def confusion(rng: np.random.Generator, recall: np.ndarray, unreadable: np.ndarray) -> np.ndarray:
    """Rows of P(answer | group): what is not recalled nor unreadable falls on the others at random."""
    groups = len(recall)
    rows = np.zeros((groups, groups + 1))
    for k, row in enumerate(rows):
        row[k], row[-1] = recall[k] * (1 - unreadable[k]), unreadable[k]
        row[[j for j in range(groups) if j != k]] = rng.dirichlet(np.full(groups - 1, 2.0)) * (1 - row.sum())
    return rows


def tables(rng: np.random.Generator, groups: int, n: int = 100, m: int = 64) -> tuple[np.ndarray, np.ndarray]:
    rows = confusion(rng, rng.uniform(0.6, 0.97, groups), np.full(groups, 0.12))
    shares = rng.dirichlet(np.ones(groups))
    return rng.multinomial(n, shares @ rows), np.array([rng.multinomial(m, row) for row in rows])


def log_likelihood(shares: np.ndarray, rows: np.ndarray, answers: np.ndarray, labelled: np.ndarray) -> float:
    return float((answers * np.log(shares @ rows)).sum() + (labelled * np.log(rows)).sum())


@given(seed=st.integers(0, 2**32 - 1), groups=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_shares_add_up_and_lie_in_their_intervals(seed, groups):
    found = corrected_shares(*tables(np.random.default_rng(seed), groups))
    if found.identified:
        assert found.share.sum() == pytest.approx(1)
        assert ((found.low >= 0) & (found.low <= found.share) & (found.share <= found.high) & (found.high <= 1)).all()
    else:
        assert np.isnan(found.share).all()
        assert found.reason


def test_groups_in_another_order_have_the_same_shares():
    answers, labelled = tables(np.random.default_rng(3), 4)
    order = np.array([2, 0, 3, 1])
    columns = np.append(order, 4)
    plain, mixed = corrected_shares(answers, labelled), corrected_shares(answers[columns], labelled[order][:, columns])
    for name in ("share", "low", "high"):
        assert getattr(mixed, name) == pytest.approx(getattr(plain, name)[order], abs=1e-4)


@given(
    read=st.integers(0, 60),
    right=st.tuples(st.integers(28, 40), st.integers(28, 40)),
    confidence=st.sampled_from([0.8, 0.95]),
)
@settings(max_examples=40, deadline=None)
def test_of_two_groups_it_is_rogan_and_gladens(read, right, confidence):
    a, b = right
    found = corrected_shares([read, 60 - read, 0], [[a, 40 - a, 0], [40 - b, b, 0]], confidence=confidence)
    oracle = corrected_share(read, 60, ReadingCounts(a, 40, b, 40))
    assert found.share[0] == pytest.approx(oracle.value, abs=1e-4)


def test_a_reader_that_never_errs_leaves_shares_as_they_are():
    found = corrected_shares([50, 30, 20, 0], np.eye(3, 4) * 1000)
    assert found.share == pytest.approx([0.5, 0.3, 0.2], abs=1e-6)


def test_a_free_optimiser_finds_no_likelier_shares():
    answers, labelled = tables(np.random.default_rng(11), 3)
    found = corrected_shares(answers, labelled, same_pictures=True)

    def minus(logits: np.ndarray) -> float:
        parts = np.exp(logits.reshape(3, 5))
        return -log_likelihood(
            parts[:, 0] / parts[:, 0].sum(), parts[:, 1:] / parts[:, 1:].sum(1, keepdims=True), answers, labelled
        )

    start = np.log(np.column_stack([np.ones(3), labelled + 0.5]))
    best = minimize(minus, start.ravel(), method="BFGS", options={"maxiter": 2000})
    shares = np.exp(best.x.reshape(3, 5)[:, 0])
    assert found.share == pytest.approx(shares / shares.sum(), abs=2e-3)


def test_the_ends_are_where_the_profile_likelihood_has_fallen_far_enough():
    """On a line of shares of two groups, with M's two rates searched on a grid."""
    answers, labelled = np.array([37, 23, 0]), np.array([[35, 5, 0], [8, 32, 0]])
    found = corrected_shares(answers, labelled)
    rates = np.linspace(0.5, 0.9999, 600)
    s, c = np.meshgrid(rates, rates, indexing="ij")

    def best_at(share: float) -> float:
        read = share * s + (1 - share) * (1 - c)
        table = 35 * np.log(s) + 5 * np.log(1 - s) + 8 * np.log(1 - c) + 32 * np.log(c)
        return float((37 * np.log(read) + 23 * np.log(1 - read) + table).max())

    top = best_at(found.share[0])
    wald = (37.5 / 45 - 10.5 / 45) ** 2 / (
        37.5 * 7.5 / 45**2 / 44 + 10.5 * 34.5 / 45**2 / 44
    )  # about, two counts added
    raised = 1 + 2 / 60 + 1.6 / 40 + 2.5 * (3.841 / wald) ** 1.5
    for end in (found.low[0], found.high[0]):
        assert 2 * (top - best_at(end)) == pytest.approx(3.841 * raised, abs=0.02)


def test_answers_that_cannot_tell_count_for_the_groups_they_come_from():
    labelled = [[60, 0, 4], [0, 32, 32]]
    half = corrected_shares([48, 24, 28], labelled, same_pictures=True)
    assert half.share[1] > 24 / 72  # dropped, the unreadable would leave a third


def test_a_reader_that_guesses_has_no_shares():
    guesses = corrected_shares([50, 40, 10], [[30, 30, 4], [30, 30, 4]])
    assert not guesses.identified
    assert np.isnan(guesses.share).all()
    assert "may not tell" in guesses.reason


def test_a_mixture_that_reads_like_a_group_is_seen():
    rows = np.array([[40, 20, 4, 0], [10, 50, 4, 0], [25, 35, 4, 0]])  # the third is the mean of the first two
    found = corrected_shares([50, 50, 0, 0], rows)
    assert not found.identified
    assert found.separation == pytest.approx(0, abs=0.02)


def test_readers_that_guess_are_called_able_in_five_of_a_hundred():
    """The unit of chance is a labelled image; 400 readers without any knowledge."""
    rng = np.random.default_rng(5)
    able = [
        corrected_shares([0, 0, 0, 0], [rng.multinomial(64, [0.3, 0.3, 0.3, 0.1]) for _ in range(3)]).identified
        for _ in range(400)
    ]
    assert np.mean(able) <= 0.085  # .05 and three standard errors


def test_without_images_or_labels_there_is_a_reason():
    assert corrected_shares([0, 0, 0], [[60, 4, 0], [4, 60, 0]]).reason == "no image was read"
    missing = corrected_shares([5, 5, 0], [[60, 4, 0], [0, 0, 0]])
    assert not missing.identified
    assert missing.reason.startswith("no labelled image of group 2 of 2")


@pytest.mark.parametrize(
    ("answers", "labelled", "code", "field", "named"),
    [
        ([1, 2], [[1, 0, 0], [0, 1, 0]], Code.WRONG_SHAPE, "answers", r"\(2,\)"),
        ([1, 2, 0.5], [[1, 0, 0], [0, 1, 0]], Code.OUT_OF_RANGE, "answers", r"0\.5"),
        ([1, 2, -1], [[1, 0, 0], [0, 1, 0]], Code.OUT_OF_RANGE, "answers", "-1"),
        ([1, 2, 0], [[1, 0], [0, 1]], Code.WRONG_SHAPE, "labelled", r"\(2, 2\)"),
        ([1, 2, 0], "many", Code.WRONG_TYPE, "labelled", "'many'"),
    ],
)
def test_tables_of_another_shape_are_refused(answers, labelled, code, field, named):
    with raises(InvalidInputError, code=code, field=field, match=named):
        corrected_shares(answers, labelled)


@pytest.mark.thorough
def test_intervals_cover_six_groups_that_a_reader_recalls_unevenly():
    """Method.md's case: recall .45 to .97, 12 % unreadable, 100 images and 64 labelled; raw shares cover far less."""
    rng, groups, studies = np.random.default_rng(8), 6, 40
    shares = np.array([0.35, 0.25, 0.15, 0.1, 0.1, 0.05])
    covered, raw = [], []
    for _ in range(studies):
        rows = confusion(rng, np.array([0.45, 0.6, 0.7, 0.8, 0.9, 0.97]), np.full(groups, 0.12))
        answers = rng.multinomial(100, shares @ rows)
        found = corrected_shares(answers, [rng.multinomial(64, row) for row in rows])
        covered.append((found.low <= shares) & (shares <= found.high))
        read = answers[:-1] / answers[:-1].sum()
        reach = 1.96 * np.sqrt(read * (1 - read) / answers[:-1].sum())
        raw.append((read - reach <= shares) & (shares <= read + reach))
    assert np.mean(covered) > 0.9
    assert np.mean(raw) < 0.8


SCENES, PORTRAITS = [21, 22, 57], [[93, 1, 6], [1, 94, 5]]


def test_shares_are_among_the_read_whatever_is_unread():
    """A share that the unread column alone would move, and bounds that hold whatever the unread show."""
    found = corrected_shares([21, 22, 57], [[93, 1, 6], [1, 94, 5]])
    read = corrected_shares([21, 22, 0], [[93, 1, 0], [1, 94, 0]])
    for name in ("share", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(read, name), abs=1e-6)
    assert found.bound_low == pytest.approx(0.43 * found.low)
    assert found.bound_high == pytest.approx(0.43 * found.high + 0.57)


def test_what_no_mixture_of_the_known_would_answer_may_not_be_quoted():
    found = corrected_shares(SCENES, PORTRAITS)
    assert (found.quotable, found.identified) == (False, True)
    assert found.misfit_p < 1e-6
    assert "not misread alike" in found.reason
    alike = corrected_shares([60, 34, 6], PORTRAITS)
    assert alike.quotable
    assert alike.misfit_p > 0.5


@pytest.mark.thorough
def test_misfit_is_seldom_found_where_the_known_are_of_the_same_kind():
    rng, rows = np.random.default_rng(6), np.array([[0.7, 0.1, 0.2], [0.1, 0.5, 0.4]])
    p = np.array([
        corrected_shares(rng.multinomial(60, [0.7, 0.3] @ rows), [rng.multinomial(40, row) for row in rows]).misfit_p
        for _ in range(200)
    ])  # fmt: skip
    assert np.mean(p < 0.01) <= 0.03


def test_contexts_that_err_alike_cost_little_and_others_much():
    alike = np.tile([[18, 2, 0], [4, 16, 0]], (4, 1, 1))
    apart = np.array(
        [[[20, 0, 0], [0, 20, 0]], [[16, 4, 0], [9, 11, 0]], [[19, 1, 0], [0, 20, 0]], [[17, 3, 0], [7, 13, 0]]]
    )
    found = [corrected_shares([40, 20, 0], each) for each in (alike.sum(axis=0), alike, apart)]
    pooled, same, varied = (each.high[0] - each.low[0] for each in found)
    assert same == pytest.approx(pooled)
    assert varied > 1.15 * pooled
    assert [each.spread for each in found[:2]] == [0, 0]
    assert 0 < found[2].spread < 1


def test_the_order_of_contexts_and_an_empty_one_change_nothing():
    rng = np.random.default_rng(4)
    tables = np.array([[rng.multinomial(20, row) for row in ([0.8, 0.1, 0.1], [0.3, 0.5, 0.2])] for _ in range(3)])
    plain = corrected_shares([30, 20, 9], tables)
    for other in (tables[::-1], np.concatenate([tables, np.zeros((1, 2, 3))])):
        found = corrected_shares([30, 20, 9], other)
        assert found.low == pytest.approx(plain.low)
        assert found.spread == pytest.approx(plain.spread)


# --- kinds in several respects ----------------------------------------------------------------------------------------

MODELS, CONCEPTS = ("one", "two", "three"), ("cook", "judge", "pilot", "nurse")
NAMES = np.array([(model, concept) for model in MODELS for concept in CONCEPTS])


def by_kind(right: dict[str, int], of: int = 10) -> np.ndarray:
    """Tables of both groups, of which so many of ten are read right by what a name says, and nine of ten else."""
    rows = [[[hits := right.get(m, right.get(c, 9)), of - hits, 0], [of - hits, hits, 0]] for m, c in NAMES]
    return np.array(rows)


def width(tables: np.ndarray, names: np.ndarray | None, asked: tuple[str, str] | None = None) -> float:
    kinds = None if names is None else Kinds(names, None if asked is None else np.array([asked] * 90))
    found = corrected_shares([60, 30, 0], tables, kinds=kinds)
    return float(found.high[0] - found.low[0])


def test_kinds_of_one_respect_are_the_contexts_and_turning_respects_changes_nothing():
    tables = by_kind({"two": 7, "pilot": 8})
    one = np.arange(len(tables)).astype(str)[:, None]
    assert width(tables, one) == width(tables, None)
    asked = ("four", "pilot")
    turned = width(tables, NAMES[:, ::-1], asked[::-1])
    assert turned == pytest.approx(width(tables, NAMES, asked), abs=1e-4)
    order = np.random.default_rng(3).permutation(len(tables))
    assert width(tables[order], NAMES[order], asked) == pytest.approx(width(tables, NAMES, asked), abs=1e-4)
    constant = np.c_[NAMES, np.full(len(NAMES), "plain")]
    found = [corrected_shares([60, 30, 0], tables, kinds=each).low[0] for each in (
        Kinds(NAMES, np.array([asked])), Kinds(constant, np.array([(*asked, "plain")])))]  # fmt: skip
    assert found[0] == found[1]


def test_what_differs_between_models_widens_the_share_of_another_and_not_of_a_known():
    tables = by_kind({"two": 7})
    another, known = width(tables, NAMES, ("four", "cook")), width(tables, NAMES, ("one", "clerk"))
    assert another > 1.3 * known
    concepts = by_kind({"pilot": 6})
    assert width(concepts, NAMES, ("four", "cook")) < width(concepts, NAMES, ("one", "clerk"))
    # as if each pair of model and concept were a kind of its own, another model differs no more than another pair
    assert another > width(tables, None)


def test_images_of_all_concepts_know_them_better_than_images_of_one():
    tables = by_kind({"pilot": 6, "nurse": 10})
    asked = np.array([("four", concept) for concept in CONCEPTS])
    of_all = corrected_shares([60, 30, 0], tables, kinds=Kinds(NAMES, asked))
    of_one = corrected_shares([60, 30, 0], tables, kinds=Kinds(NAMES, asked[:1]))
    assert of_all.spread == of_one.spread > 0
    assert of_all.high[0] - of_all.low[0] < of_one.high[0] - of_one.low[0]


def test_kinds_of_other_shapes_are_refused():
    tables = by_kind({})
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="kinds", match=r"12 .*\(11, 2\)"):
        corrected_shares([60, 30, 0], tables, kinds=Kinds(NAMES[1:]))
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="kinds", match=r"2, .*\(1, 1\)"):
        corrected_shares([60, 30, 0], tables, kinds=Kinds(NAMES, np.array([["cook"]])))


def test_the_ratio_of_two_groups_is_what_another_way_finds():
    rng = np.random.default_rng(5)
    for _ in range(60):
        (m1, m2, n), (s, c, share) = rng.integers(3, 40, 3), rng.uniform(0.5, 1, 3)
        x1, x2 = rng.binomial(m1, s), rng.binomial(m2, 1 - c)
        y = rng.binomial(n, share * s + (1 - share) * (1 - c))
        tables = np.array([[x1, m1 - x1, 0], [x2, m2 - x2, 0]])
        fallen = two_group_ratio(y, n, x1, m1, x2, m2, share)
        p = scipy.stats.chi2.sf(fallen / _raised(tables[:, :2], n, 0.95), 1)
        assert share_p_values([y, n - y, 0], tables, share)[0] == pytest.approx(float(p), abs=1e-5)


def test_few_labelled_images_widen_the_interval_and_one_gives_none():
    widths = [float(np.ptp([(f := corrected_shares([40, 20, 0], [[m - 1, 1, 0], [1, m - 1, 0]])).low[0], f.high[0]]))
              for m in (8, 16, 64)]  # fmt: skip
    assert widths[0] > widths[1] > widths[2]
    one = corrected_shares([40, 20, 0], [[60, 0, 0], [0, 1, 0]])
    assert np.isnan(one.share).all()
    assert one.reason.startswith("1 labelled image of group 2 of 2")
