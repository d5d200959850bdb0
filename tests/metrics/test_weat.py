"""WEAT: algebra, exactness, conventions."""

from __future__ import annotations

import itertools
import math
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import association_scores, stimulus_weat, weat
from clinometer.stats.association import unit_vectors
from tests.raising import raises

module = sys.modules["clinometer.metrics.weat"]


def sets(seed: int, n_x: int = 5, n_y: int = 6, shift: float = 0.0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x, y, a, b = (rng.normal(size=(n, 8)) for n in (n_x, n_y, 4, 3))
    return x + shift * (a.mean(axis=0) - b.mean(axis=0)), y, a, b


@given(st.integers(0, 10_000), st.sampled_from([0, 1]))
def test_statistic_and_effect_size_by_definition(seed, ddof):
    x, y, a, b = sets(seed)
    result = weat(x, y, a, b, ddof=ddof)
    s_x, s_y = association_scores(x, a, b), association_scores(y, a, b)
    assert result.statistic == pytest.approx(s_x.mean() - s_y.mean())
    assert result.effect_size == pytest.approx((s_x.mean() - s_y.mean()) / np.concatenate([s_x, s_y]).std(ddof=ddof))
    assert (result.n_x, result.n_y, result.ddof, result.reason) == (5, 6, ddof, "")


@given(st.integers(0, 10_000))
def test_swaps_negate_and_mirror(seed):
    x, y, a, b = sets(seed)
    result = weat(x, y, a, b)
    for swapped in (weat(y, x, a, b, alternative="less"), weat(x, y, b, a, alternative="less")):
        assert swapped.statistic == pytest.approx(-result.statistic)
        assert swapped.effect_size == pytest.approx(-result.effect_size)
        assert swapped.p_value == pytest.approx(result.p_value)


@given(st.integers(0, 10_000))
def test_order_scale_and_rotation_change_nothing(seed):
    x, y, a, b = sets(seed)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(8, 8)))[0]
    moved = weat(*(3.0 * s[::-1] @ rotation for s in (x, y, a, b)))
    result = weat(x, y, a, b)
    assert moved.statistic == pytest.approx(result.statistic, abs=1e-12)
    assert moved.p_value == pytest.approx(result.p_value)


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_p_agrees_with_scipy(alternative):
    x, y, a, b = sets(3)
    result = weat(x, y, a, b, alternative=alternative)
    theirs = stats.permutation_test(
        (association_scores(x, a, b), association_scores(y, a, b)),
        lambda u, v: u.mean() - v.mean(),
        n_resamples=np.inf,
        alternative=alternative,
    )
    assert result.exact
    assert result.n_splits == math.comb(11, 5)
    assert result.standard_error == 0
    assert result.p_value == pytest.approx(theirs.pvalue)


def test_exact_and_sampled_agree_and_name_themselves():
    x, y, a, b = sets(1, 10, 10, shift=0.2)
    exact = weat(x, y, a, b, method="exact")
    sampled = weat(x, y, a, b, method="sampled", permutations=20_000, rng=0)
    assert exact.exact
    assert not sampled.exact
    assert sampled.n_splits == 20_000
    assert abs(exact.p_value - sampled.p_value) < 4 * sampled.standard_error + 1e-4
    assert sampled == weat(x, y, a, b, method="sampled", permutations=20_000, rng=np.random.default_rng(0))


def test_twenty_and_twenty_are_still_exact():
    result = weat(*sets(0, 20, 20, shift=0.2))
    assert result.exact
    assert result.n_splits == math.comb(40, 20)


def test_beyond_forty_p_is_certified_unless_the_splits_are_few():
    certified = weat(*sets(0, 21, 21, shift=0.3))
    sampled = weat(*sets(0, 21, 21, shift=0.3), method="sampled", permutations=100_000, rng=1)
    assert (certified.p_method, sampled.p_method) == ("certified", "sampled")
    assert certified.n_splits == math.comb(42, 21)
    assert certified.p_low <= certified.p_value == certified.p_high < certified.p_low * 1.01
    assert sampled.p_low <= certified.p_high
    assert certified.p_low <= sampled.p_high
    few = weat(*sets(0, 2, 60))
    assert few.exact
    assert few.n_splits == math.comb(62, 2)


def test_sampled_p_is_never_zero():
    result = weat(*sets(0, 25, 25, shift=9.0), method="sampled", permutations=49)
    assert result.p_value == 1 / 50


def test_a_certified_p_is_a_number_however_small():
    result = weat(*sets(0, 25, 25, shift=9.0))
    assert result.p_method == "certified"
    assert result.p_value == pytest.approx(1 / math.comb(50, 25), rel=1e-9)  # complete separation: one split


def test_float32_ties_are_ties():
    """The same targets on both sides: swapping a copy ties with the observed split, whatever the rounding."""
    rng = np.random.default_rng(0)
    x, a, b = (rng.normal(size=(n, 8)).astype(np.float32) for n in (4, 3, 3))
    assert weat(x, x.copy(), a, b).p_value >= 0.5


def test_no_spread_no_effect_size():
    x, _, a, b = sets(0)
    same = np.repeat(x[:1], 4, axis=0)
    result = weat(same, same, a, b)
    assert result.statistic == 0
    assert math.isnan(result.effect_size)
    assert result.p_value == 1
    assert "no spread" in result.reason


def same(kind, seed, x, y, a):
    """Attributes that are one set in another order and at other lengths; targets that are one vector at many."""
    lengths = np.random.default_rng(seed).uniform(0.5, 2, size=(len(x) + len(y) + len(a), 1))
    b = (a[::-1] * lengths[: len(a)]).astype(kind)
    yield x.astype(kind), y.astype(kind), a.astype(kind), b
    targets = (x[:1] * lengths[len(a) :]).astype(kind)
    yield targets[: len(x)], targets[len(x) :], a.astype(kind), -b


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_rounding_is_neither_an_effect_nor_a_finding(kind, n, alternative):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        for arguments in same(kind, seed, *(rng.normal(size=(size, 64)) for size in (n, n, 6))):
            one_by_one = [[row[None] for row in each] for each in arguments]
            results = [
                weat(*arguments, alternative=alternative),
                weat(*arguments, alternative=alternative, method="sampled", permutations=99, spread="pooled"),
                stimulus_weat(*one_by_one, alternative=alternative, resamples=20),
            ]
            for result in results:
                assert result.statistic == pytest.approx(0, abs=4 * float(np.finfo(kind).eps))
                assert result.p_value == 1
                assert math.isnan(result.effect_size)
                assert result.reason == "all targets associate alike: no spread to divide by"


def test_any_library_and_precision_will_do():
    torch = pytest.importorskip("torch")
    expected = weat(*sets(0))
    tensors = [torch.tensor(each) for each in sets(0)]
    for tensor_sets in (
        [each.clone().requires_grad_() for each in tensors],
        [tensors[0].float(), *tensors[1:]],
        [*tensors[:2], *sets(0)[2:]],
        [each.tolist() for each in sets(0)],
    ):
        assert weat(*tensor_sets).effect_size == pytest.approx(expected.effect_size, abs=1e-6)
    coarse = weat(*(each.to(torch.bfloat16) for each in tensors))
    assert coarse.effect_size == pytest.approx(expected.effect_size, abs=0.05)
    stimuli = [[row[None] for row in each.clone().requires_grad_()] for each in tensors]
    assert stimulus_weat(*stimuli, resamples=20).statistic == pytest.approx(expected.statistic)
    with raises(InvalidInputError, code=Code.WRONG_TYPE, field="x"):
        weat(*(each.to(torch.complex64) for each in tensors))


def test_too_few_targets_are_not_said_to_associate_alike():
    result = weat(*sets(0, 1, 1), spread="pooled")
    assert math.isnan(result.effect_size)
    assert result.reason == "effect size: too few targets for a standard deviation"
    assert math.isfinite(result.p_value)


def test_two_targets_have_an_effect_size_and_a_p():
    result = weat(*sets(0, 1, 1))
    assert result.n_splits == 2
    assert abs(result.effect_size) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("options", "code", "field", "words"),
    [
        ({"method": "guess"}, Code.UNKNOWN_NAME, "method", "auto, exact, sampled"),
        ({"alternative": "bigger"}, Code.UNKNOWN_NAME, "alternative", ""),
        ({"method": "sampled", "permutations": 0}, Code.OUT_OF_RANGE, "permutations", "at least 1, found 0"),
        ({"method": "sampled", "permutations": 2.5}, Code.WRONG_TYPE, "permutations", "2.5"),
        (
            {"rng": -1},
            Code.WRONG_TYPE,
            "rng",
            "a whole number, at least 0.*found -1",
        ),
        ({"rng": "abc"}, Code.WRONG_TYPE, "rng", "'abc'"),
        *[({"ddof": ddof}, Code.UNKNOWN_NAME, "ddof", "0 or 1") for ddof in (-1, 2, 0.5, "a")],
        ({"method": "sampled", "permutations": -5}, Code.OUT_OF_RANGE, "permutations", "at least 1, found -5"),
    ],
)
def test_refuses_options(options, code, field, words):
    with raises(InvalidInputError, code=code, field=field, match=words):
        weat(*sets(0), **options)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"resamples": 0}, Code.OUT_OF_RANGE),
        ({"resamples": 2.5}, Code.WRONG_TYPE),
        ({"confidence": 95}, Code.OUT_OF_RANGE),
    ],
)
def test_refuses_options_of_the_intervals(options, code):
    with raises(InvalidInputError, code=code, field=tuple(options)):
        stimulus_weat(*as_stimuli(*sets(0)), **options)


def test_refuses_exact_when_it_cannot_be():
    with raises(InvalidInputError, code=Code.TOO_MANY, field="method"):
        weat(*sets(0, 25, 25), method="exact")


@pytest.mark.parametrize(("place", "field"), list(enumerate("xyab")))
def test_refuses_nan_and_empty_sets(place, field):
    for bad, code, about in (
        (np.full((2, 8), np.nan), Code.NOT_FINITE, "targets" if field in "xy" else field),
        (np.empty((0, 8)), Code.TOO_FEW, field),
    ):
        arguments = list(sets(0))
        arguments[place] = bad
        with raises(InvalidInputError, code=code, field=about):
            weat(*arguments)


def as_stimuli(*embeddings):
    return [[row[None] for row in each] for each in embeddings]


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_one_embedding_a_stimulus_is_weat_itself(seed):
    x, y, a, b = sets(seed)
    plain, result = weat(x, y, a, b), stimulus_weat(*as_stimuli(x, y, a, b), resamples=50, rng=seed)
    for field in ("statistic", "effect_size", "p_value", "n_splits"):
        assert getattr(result, field) == pytest.approx(getattr(plain, field))


def test_a_stimulus_scores_the_mean_of_its_items_and_weighs_as_one():
    x, y, a, b = sets(5)
    repeated = [[np.tile(items, (k + 1, 1)) for k, items in enumerate(each)] for each in as_stimuli(x, y, a, b)]
    plain, result = weat(x, y, a, b), stimulus_weat(*repeated, resamples=50, rng=0)
    assert result.effect_size == pytest.approx(plain.effect_size)
    assert result.p_value == pytest.approx(plain.p_value)
    pair = stimulus_weat([x[:2], x[2:4]], *as_stimuli(y, a, b), resamples=50, rng=0)
    s_x = association_scores(x, a, b)[:4].reshape(2, 2).mean(axis=1)
    assert pair.statistic == pytest.approx(s_x.mean() - association_scores(y, a, b).mean())


@pytest.mark.parametrize("spread", ["union", "pooled"])
def test_intervals_hold_the_estimate_and_mirror_when_x_and_y_swap(spread):
    x, y, a, b = as_stimuli(*sets(2, n_x=8, n_y=8, shift=0.5))
    result = stimulus_weat(x, y, a, b, rng=0, resamples=999, spread=spread)
    swapped = stimulus_weat(y, x, a, b, rng=1, resamples=999, spread=spread)
    assert result.statistic_low < result.statistic < result.statistic_high
    assert result.effect_size_low < result.effect_size < result.effect_size_high
    assert swapped.statistic_low == pytest.approx(-result.statistic_high, abs=0.1)
    again = stimulus_weat(x, y, a, b, rng=0, resamples=999, spread=spread)
    assert again == result


@pytest.mark.parametrize("options", [{"spread": "union", "ddof": 1}, {"spread": "pooled", "ddof": 1}])
def test_replicates_are_weat_of_resampled_stimuli(options):
    """With weights of as many draws as stimuli, a replicate is the WEAT of what was drawn, by the slow way."""
    drawn = sets(9, n_x=4, n_y=4)
    counts = [np.array([[2, 1, 1, 0]]), np.array([[0, 3, 1, 0]]), np.array([[1, 1, 1, 1]]), np.array([[2, 0, 1]])]
    statistic, effect = module._statistic_and_effect(
        [unit_vectors(each) for each in drawn], [c / c.sum() for c in counts], **options
    )
    slow = weat(*(np.repeat(each, c[0], axis=0) for each, c in zip(drawn, counts, strict=True)), **options)
    assert statistic[0] == pytest.approx(slow.statistic)
    assert effect[0] == pytest.approx(slow.effect_size)


def test_the_spread_of_replicates_is_that_of_the_targets():
    """Resamples of n − 1 targets scatter too little about their own mean; the mean of what they say is put right."""
    held = [unit_vectors(each) for each in sets(9, n_x=4, n_y=5)]
    even = [np.full((1, len(u)), 1 / len(u)) for u in held]
    every = [np.array(list(itertools.product(range(n), repeat=n - 1))) for n in (4, 5)]  # all resamples there are
    w_x, w_y = ((drawn[:, :, None] == np.arange(n)).mean(axis=1) for n, drawn in zip((4, 5), every, strict=True))
    weights = [np.repeat(w_x, len(w_y), axis=0), np.tile(w_y, (len(w_x), 1)), *even[2:]]
    formula = partial(module._statistic_and_effect, held, ddof=1, spread="pooled")
    value, d = (float(each[0]) for each in formula(even))
    for resampled in (True, False):
        statistic, effect = formula(weights, resampled=resampled)
        squares = np.where(np.isnan(effect), 0.0, statistic / effect) ** 2  # 0: one target over and over
        assert (np.mean(squares) == pytest.approx((value / d) ** 2)) == resampled


@given(st.integers(0, 10_000), st.sampled_from(["union", "pooled"]))
@settings(max_examples=20)
def test_slopes_are_the_shares_of_the_error(seed, spread):
    """They add to 0 in every set, and those of the statistic are its deviations from the mean, over n."""
    held = [unit_vectors(each) for each in sets(seed)]
    formula = partial(module._statistic_and_effect, held, ddof=1, spread=spread)
    of_statistic, of_effect = zip(*module._slopes(formula, held), strict=True)
    assert [part.sum() for part in (*of_statistic, *of_effect)] == pytest.approx([0.0] * 8, abs=1e-5)
    x, y, a, b = held
    s, gap = x @ (a.mean(axis=0) - b.mean(axis=0)), x.mean(axis=0) - y.mean(axis=0)
    assert of_statistic[0] == pytest.approx((s - s.mean()) / len(x))
    assert of_statistic[3] == pytest.approx(-(b @ gap - (b @ gap).mean()) / len(b))


def test_two_targets_have_no_interval_of_the_effect_size():
    x, y, a, b = as_stimuli(*sets(1))
    result = stimulus_weat(x[:2], y, a, b, resamples=50)
    assert result.reason == "no interval of the effect size: a set of targets has two stimuli; it takes three"
    assert np.isnan([result.effect_size_low, result.effect_size_high]).all()
    assert result.statistic_low < result.statistic < result.statistic_high


def test_the_pooled_spread_is_cohens():
    x, y, a, b = sets(4)
    s_x, s_y = association_scores(x, a, b), association_scores(y, a, b)
    pooled = math.sqrt((4 * s_x.var(ddof=1) + 5 * s_y.var(ddof=1)) / 9)
    result = weat(x, y, a, b, spread="pooled")
    assert result.effect_size == pytest.approx((s_x.mean() - s_y.mean()) / pooled)
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="spread"):
        weat(x, y, a, b, spread="both")


def test_a_set_of_one_stimulus_has_no_interval():
    x, y, a, b = as_stimuli(*sets(1))
    result = stimulus_weat(x, y, a[:1], b, resamples=20)
    assert result.reason == "no interval: set A has one stimulus"
    assert np.isnan([result.statistic_low, result.effect_size_high]).all()
    assert np.isfinite([result.statistic, result.effect_size, result.p_value]).all()


def test_stimuli_of_different_dimensions_and_empty_ones_are_refused():
    _, y, a, b = as_stimuli(*sets(1))
    for wrong, code, field in (
        ([], Code.TOO_FEW, "x"),
        ([np.empty((0, 8))], Code.TOO_FEW, "x[0]"),
        ([np.ones((1, 7))], Code.WRONG_SHAPE, ("x", "y", "a", "b")),
    ):
        with raises(InvalidInputError, code=code, field=field):
            stimulus_weat(wrong, y, a, b)
