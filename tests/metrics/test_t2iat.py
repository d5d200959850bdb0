"""T2IAT against its definition, image by image; what must not change it; and what it says when it cannot tell."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import differential_association, effect_magnitude
from clinometer.metrics.prompt_sets import (
    bilinear_mean,
    bootstrap_draws,
    difference_draws,
    freedom_of,
    pair_sets,
    prompt_set,
    set_draws,
)
from clinometer.metrics.t2iat import pair_association, set_generator
from clinometer.stats.bootstrap import percentile_interval, welch_satterthwaite
from tests.raising import raises

DIM = 6


def drawn(seed=0, sizes_x=(3, 3, 3), sizes_y=(3, 3, 3), lean=0.0, attribute=4):
    """Embeddings of both concepts; X leans to A by ``lean``."""
    rng = np.random.default_rng(seed)
    axis = np.eye(DIM)[0]

    def images(n, shift, own):
        return rng.normal(size=(n, DIM)) * 0.5 + shift * axis + own

    def concept(sizes, shift):
        owns = rng.normal(size=(len(sizes), DIM))
        neutral = [images(n, shift, own) for n, own in zip(sizes, owns, strict=True)]
        with_a = [images(attribute, 1, own) for own in owns]
        with_b = [images(attribute, -1, own) for own in owns]
        return neutral, with_a, with_b

    return dict(zip(("x", "x_a", "x_b"), concept(sizes_x, lean), strict=True)) | dict(
        zip(("y", "y_a", "y_b"), concept(sizes_y, -lean), strict=True)
    )


def quick(data, **options):
    return differential_association(**data, **({"resamples": 0} | options))


# --- the definition, without any shortcut ------------------------------------------------------------------------


def cos(u, v):
    return float(u @ v / np.sqrt(u @ u) / np.sqrt(v @ v))


def asc(image, with_a, with_b):
    """Equation 2, prompts weighing equally."""
    return np.mean([np.mean([cos(image, a) for a in prompt]) for prompt in with_a]) - np.mean(
        [np.mean([cos(image, b) for b in prompt]) for prompt in with_b]
    )


def mean_asc(prompts):
    """Mean of equation 2 over a set of prompts, each (neutral, with A, with B), against the set's own images."""
    with_a, with_b = [p[1] for p in prompts], [p[2] for p in prompts]
    return np.mean([np.mean([asc(image, with_a, with_b) for image in p[0]]) for p in prompts])


def prompts_of(data):
    return [
        *zip(data["x"], data["x_a"], data["x_b"], strict=True),
        *zip(data["y"], data["y_a"], data["y_b"], strict=True),
    ]


def by_definition(data):
    prompts, n = prompts_of(data), len(data["x"])
    return mean_asc(prompts[:n]) - mean_asc(prompts[n:])


@pytest.mark.parametrize(("sizes_x", "sizes_y"), [((3, 3), (3, 3)), ((2, 4, 1), (5, 2)), ((3,), (2, 2, 2))])
def test_the_statistic_is_the_definition(sizes_x, sizes_y):
    data = drawn(1, sizes_x, sizes_y, lean=0.3)
    found = quick(data)
    assert found.statistic == pytest.approx(by_definition(data), abs=1e-12)
    assert found.statistic == pytest.approx(found.association_x - found.association_y, abs=1e-12)
    assert (found.n_x, found.n_y) == (sum(sizes_x), sum(sizes_y))
    assert (found.n_prompts_x, found.n_prompts_y) == (len(sizes_x), len(sizes_y))


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize(("sizes_x", "sizes_y"), [((2, 2, 2), (2, 2, 2)), ((2, 3), (1, 2, 2)), ((2,), (2, 1, 2))])
def test_p_mixes_the_prompts_and_measures_each_set_against_its_own_images(sizes_x, sizes_y, alternative):
    data = drawn(2, sizes_x, sizes_y, lean=0.4, attribute=2)
    prompts, n = prompts_of(data), len(sizes_x)
    splits = []
    for chosen in combinations(range(len(prompts)), n):
        rest = [order for order in range(len(prompts)) if order not in chosen]
        splits.append(mean_asc([prompts[i] for i in chosen]) - mean_asc([prompts[i] for i in rest]))
    splits, observed = np.array(splits), by_definition(data)
    extreme = {
        "two-sided": np.abs(splits) >= abs(observed) - 1e-9,
        "greater": splits >= observed - 1e-9,
        "less": splits <= observed + 1e-9,
    }[alternative]
    found = quick(data, alternative=alternative)
    assert found.exact
    assert found.p_error == 0
    assert found.n_splits == len(splits)
    assert found.p_value == pytest.approx(extreme.mean(), abs=1e-12)


def test_the_effect_size_is_cohens_d_with_the_pooled_deviation():
    data = drawn(3, (3, 3), (4, 4), lean=0.2)
    x = [asc(image, data["x_a"], data["x_b"]) for prompt in data["x"] for image in prompt]
    y = [asc(image, data["y_a"], data["y_b"]) for prompt in data["y"] for image in prompt]
    pooled = np.sqrt(((len(x) - 1) * np.var(x, ddof=1) + (len(y) - 1) * np.var(y, ddof=1)) / (len(x) + len(y) - 2))
    assert quick(data).effect_size == pytest.approx((np.mean(x) - np.mean(y)) / pooled, rel=1e-10)


def test_unit_image_permutes_fixed_associations():
    data = drawn(4, (2, 2), (2, 2), lean=0.2)
    x = [asc(image, data["x_a"], data["x_b"]) for prompt in data["x"] for image in prompt]
    y = [asc(image, data["y_a"], data["y_b"]) for prompt in data["y"] for image in prompt]
    pool = np.array(x + y)
    splits = np.array([2 * pool[list(chosen)].mean() - 2 * pool.mean() for chosen in combinations(range(8), 4)])
    observed = np.mean(x) - np.mean(y)
    found = quick(data, unit="image")
    assert found.exact
    assert found.unit == "image"
    assert found.p_value == pytest.approx(np.mean(np.abs(splits) >= abs(observed) - 1e-9))


# --- what must not change it -------------------------------------------------------------------------------------

SEEDS = st.integers(0, 10_000)


def same(one, other, sign=1):
    assert other.statistic == pytest.approx(sign * one.statistic, abs=1e-10)
    assert other.effect_size == pytest.approx(sign * one.effect_size, rel=1e-8)
    assert other.p_value == pytest.approx(one.p_value, abs=1e-12)


@settings(max_examples=25)
@given(seed=SEEDS)
def test_swapping_the_concepts_or_the_attributes_negates(seed):
    data = drawn(seed, (2, 3, 1), (2, 2, 4), lean=0.2)
    found = quick(data)
    concepts = {swap: data[name] for swap, name in zip(("y", "y_a", "y_b", "x", "x_a", "x_b"), data, strict=True)}
    attributes = {swap: data[name] for swap, name in zip(("x", "x_b", "x_a", "y", "y_b", "y_a"), data, strict=True)}
    same(found, quick(concepts), sign=-1)
    same(found, quick(attributes), sign=-1)


@settings(max_examples=25)
@given(seed=SEEDS)
def test_rotation_scale_and_order_change_nothing(seed):
    data = drawn(seed, (2, 3), (2, 2), lean=0.2)
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    turned = {name: [3.0 * images @ turn for images in held] for name, held in data.items()}
    shuffled = {name: [rng.permutation(images) for images in held] for name, held in data.items()}
    found = quick(data)
    same(found, quick(turned))
    same(found, quick(shuffled))


@settings(max_examples=25)
@given(seed=SEEDS)
def test_a_prompts_weight_does_not_depend_on_its_number_of_images(seed):
    data = drawn(seed, (2, 2), (2, 2), lean=0.2)
    doubled = data | {"x": [np.repeat(data["x"][0], 5, axis=0), data["x"][1]]}
    one, other = quick(data), quick(doubled)
    assert other.statistic == pytest.approx(one.statistic, abs=1e-10)
    assert other.p_value == pytest.approx(one.p_value)


def test_the_same_images_under_both_names_give_exactly_no_association():
    data = drawn(5)
    same_images = data | {"y": data["x"], "y_a": data["x_a"], "y_b": data["x_b"]}
    found = quick(same_images)
    assert found.statistic == 0
    assert found.effect_size == 0
    assert found.p_value == 1


def collapsed(seed, sizes, kind, dim=64):
    """Every prompt has the same images, in an order and at lengths of its own."""
    rng = np.random.default_rng(seed)
    kinds = rng.normal(size=(3, 4, dim))

    def copy(images):
        return (rng.permutation(images) * rng.uniform(0.5, 2, size=(4, 1))).astype(kind)

    names = (("x", "x_a", "x_b"), ("y", "y_a", "y_b"))
    return {
        name: [copy(images) for _ in range(n)]
        for n, each in zip(sizes, names, strict=True)
        for name, images in zip(each, kinds, strict=True)
    }


@pytest.mark.parametrize("sizes", [(5, 5), (4, 5), (21, 21)])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("method", ["auto", "sampled"])
def test_a_model_that_draws_the_same_for_every_prompt_has_p_1(sizes, kind, method):
    for seed in range(5):
        found = quick(collapsed(seed, sizes, kind), method=method, permutations=99)
        assert found.statistic == pytest.approx(0, abs=4 * float(np.finfo(kind).eps))
        assert found.p_value == 1


@pytest.mark.parametrize("unit", ["prompt", "image"])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("method", ["auto", "sampled"])
def test_attributes_with_the_same_images_associate_nothing(unit, alternative, method):
    for seed in range(5):
        data = drawn(seed, (3,) * 4, (3,) * 5)
        data |= {f"{name}_b": [3 * images[::-1] for images in data[f"{name}_a"]] for name in "xy"}
        found = quick(data, unit=unit, alternative=alternative, method=method, permutations=99)
        assert found.statistic == pytest.approx(0, abs=1e-15)
        assert found.p_value == 1
        assert np.isnan(found.effect_size)
        assert "no spread to divide by" in found.reason


def test_results_repeat_and_sampled_p_agrees_with_exact():
    data = drawn(6, (2,) * 6, (2,) * 6, lean=0.15)
    exact = quick(data)
    sampled = [quick(data, method="sampled", permutations=20_000, rng=seed) for seed in (1, 1, 2)]
    assert sampled[0] == sampled[1]
    assert not sampled[0].exact
    assert sampled[2].p_value == pytest.approx(exact.p_value, abs=5 * sampled[2].p_error + 1e-4)


def test_tensors_and_nested_lists_are_read_as_arrays():
    torch = pytest.importorskip("torch")
    data = drawn(6, lean=0.2)
    expected = quick(data)
    for read in (torch.tensor, lambda images: torch.tensor(images).requires_grad_(), np.ndarray.tolist):
        assert quick({name: [read(images) for images in held] for name, held in data.items()}) == expected
    coarse = quick({name: [torch.tensor(i).to(torch.bfloat16) for i in held] for name, held in data.items()})
    assert coarse.statistic == pytest.approx(expected.statistic, abs=0.02)


# --- intervals ---------------------------------------------------------------------------------------------------


def test_the_intervals_hold_the_estimates_and_the_one_over_prompts_is_wider():
    found = differential_association(**drawn(7, (8,) * 6, (8,) * 6, lean=0.1, attribute=8), resamples=2000)
    assert found.low < found.statistic < found.high
    assert found.effect_size_low < found.effect_size < found.effect_size_high
    assert found.stimulus_high - found.stimulus_low > found.high - found.low
    assert found.reason == ""


def test_the_image_interval_is_as_wide_as_independent_draws_scatter():
    """Prompts fixed, images drawn again: the interval's half width is about 1.96 standard deviations of S."""
    rng = np.random.default_rng(8)
    owns = rng.normal(size=(2, 3, DIM))

    def sample():
        sets = [
            [
                [own + shift * np.eye(DIM)[0] + 0.5 * rng.normal(size=(12, DIM)) for own in owns[k]]
                for shift in (0, 1, -1)
            ]
            for k in (0, 1)
        ]
        return dict(zip(("x", "x_a", "x_b", "y", "y_a", "y_b"), [*sets[0], *sets[1]], strict=True))

    scatter = np.std([quick(sample(), method="sampled", permutations=1).statistic for _ in range(300)])
    widths = []
    for _ in range(15):
        found = differential_association(**sample(), resamples=600)
        widths.append(found.high - found.low)
    assert np.mean(widths) / (2 * 1.96 * scatter) == pytest.approx(1, abs=0.12)


@pytest.mark.thorough
def test_the_prompt_interval_is_as_wide_as_new_prompts_scatter():
    """Prompts and images drawn again: the interval over prompts is about 2 × 1.96 standard deviations of S wide.

    Resampling the images of resampled prompts too would make it wider, by the images' share of the variance.
    """
    rng = np.random.default_rng(9)

    def sample():
        def concept():
            owns = rng.normal(size=(14, DIM)) * 0.4 + 1
            leans = 0.15 * rng.normal(size=14)
            return [
                [own + (side + (lean if side == 0 else 0)) * np.eye(DIM)[0] + 0.6 * rng.normal(size=(3, DIM))
                 for own, lean in zip(owns, leans, strict=True)]
                for side in (0, 1, -1)
            ]  # fmt: skip

        return dict(zip(("x", "x_a", "x_b", "y", "y_a", "y_b"), [*concept(), *concept()], strict=True))

    scatter = np.std([quick(sample(), method="sampled", permutations=1).statistic for _ in range(250)])
    widths = []
    for _ in range(15):
        found = differential_association(**sample(), resamples=400, method="sampled", permutations=1)
        widths.append(found.stimulus_high - found.stimulus_low)
    assert np.mean(widths) / (2 * 1.96 * scatter) == pytest.approx(1, abs=0.15)


def sets_of(data):
    return [prompt_set(data[name], data[f"{name}_a"], data[f"{name}_b"], name=name) for name in "xy"]


@pytest.mark.parametrize("prompts", [False, True], ids=["images", "prompts"])
def test_intervals_are_as_wide_as_students_t(prompts):
    """Of S and of d, over images and over prompts: plain percentiles, moved outwards by the ratio of the quantiles."""
    data = drawn(21, (3, 3, 3), (3, 3, 3), lean=0.2)
    found, pair = differential_association(**data, resamples=400, rng=5), pair_sets(*sets_of(data))
    rng = np.random.default_rng(5).spawn(2)[1].spawn(2)[prompts]
    sets = (pair.x, pair.y)
    draws, freedom = bootstrap_draws(sets, 400, rng, prompts=prompts), freedom_of(sets, prompts=prompts)
    assert freedom < 40
    kind = "stimulus_" if prompts else ""
    for name, replicates in (("", draws.statistic), ("effect_size_", draws.effect_size)):
        expected = percentile_interval(replicates, freedom=freedom)
        ends = getattr(found, f"{name}{kind}low"), getattr(found, f"{name}{kind}high")
        assert ends == pytest.approx((expected.low, expected.high))


def test_sets_that_were_resampled_apart_make_the_same_test():
    """Without their cosines, and each by the generator of its own place."""
    x, y = sets_of(drawn(21, (3, 4, 3), (3, 3, 5), lean=0.2))
    apart = {
        (prompts, second): set_draws(
            prompt_set, 300, set_generator(np.random.default_rng([1, 2]), prompts=prompts, second=bool(second)),
            prompts=prompts,
        )
        for prompts in (False, True)
        for second, prompt_set in enumerate((x, y))
    }  # fmt: skip
    pair = pair_sets(x.measured(), y.measured())

    def drawn_apart():
        return tuple(
            difference_draws((apart[prompts, 0], apart[prompts, 1]), (pair.x, pair.y)) for prompts in (False, True)
        )

    found = pair_association(pair, rng=np.random.default_rng([1, 2]), drawn=drawn_apart)
    assert found == pair_association(pair_sets(x, y), resamples=300, rng=np.random.default_rng([1, 2]))
    assert np.isfinite([found.low, found.stimulus_low, found.p_value]).all()


@pytest.mark.parametrize("prompts", [False, True], ids=["images", "prompts"])
def test_replicates_of_both_parts_of_d_are_moved_onto_their_estimates(prompts):
    """S by what is added and the squared deviation by a factor, so that d has the sign of S in every replicate."""
    data = drawn(25, (4, 3, 3, 3), (3, 3, 3, 5), lean=0.5)
    found = quick(data)
    x, y = sets_of(data)
    draws = bootstrap_draws((x, y), 500, np.random.default_rng(6), prompts=prompts)
    assert draws.statistic.mean() == pytest.approx(found.statistic)
    squared = (draws.statistic / draws.effect_size) ** 2
    assert squared.mean() == pytest.approx((found.statistic / found.effect_size) ** 2)
    assert (np.sign(draws.effect_size) == np.sign(draws.statistic)).all()
    assert abs(draws.effect_size.mean()) > abs(found.effect_size)  # a ratio is skewed, and no shift hides it


def test_the_freedom_over_prompts_is_welchs():
    """A prompt moves the mean of G by its row and its column; sets of unlike size have little more than the smaller."""
    sets = sets_of(drawn(22, (3,) * 3, (5,) * 12))
    parts = []
    for held in sets:
        gram = held.means @ held.directions.T
        parts.append((np.var(gram.mean(axis=0) + gram.mean(axis=1), ddof=1) / len(gram), len(gram) - 1))
    assert freedom_of(sets, prompts=True) == pytest.approx(float(welch_satterthwaite(parts)))
    assert freedom_of(sets[1:], prompts=True) == pytest.approx(11)


def test_the_freedom_over_images_is_that_of_three_means():
    (held, _) = sets_of(drawn(23, (5,), (3,), attribute=3))
    whole = bilinear_mean(held.cosines_a, held.cosines_b, ("neutral", "A", "B"))
    assert freedom_of([held], prompts=False) == pytest.approx(whole.degrees_of_freedom)
    three = sets_of(drawn(23, (5, 4, 6), (3,)))[0]
    assert 0 < freedom_of([three], prompts=False) <= 15 + 12 + 12 - 9


@pytest.mark.parametrize("prompts", [False, True], ids=["images", "prompts"])
def test_the_freedom_of_a_difference_is_that_of_partners(prompts):
    first, second = (sets_of(drawn(seed)) for seed in (24, 25))
    forth = freedom_of(second, prompts=prompts, minus=first)
    assert forth == pytest.approx(freedom_of(first, prompts=prompts, minus=second))
    assert forth <= (4 if prompts else 12 + 18 + 18)
    assert freedom_of(first, prompts=prompts, minus=first) == np.inf  # nothing varies


def test_one_image_in_a_prompt_leaves_the_number_and_loses_its_interval():
    found = differential_association(**drawn(9, (1, 3), (3, 3)), resamples=200)
    assert np.isfinite(found.statistic)
    assert np.isnan(found.low)
    assert np.isfinite(found.stimulus_low)
    assert "a prompt has one image only" in found.reason


def test_a_resample_of_one_image_over_and_over_loses_the_interval_of_d_and_says_so():
    """Of two images a resample is one: where a set has them alone, it has no spread."""
    found = differential_association(**drawn(9, (2,), (2,), attribute=3), resamples=200)
    assert np.isfinite([found.statistic, found.low, found.effect_size]).all()
    assert np.isnan(found.effect_size_low)
    assert "interval of d over images: a resample has no spread to divide by" in found.reason
    assert "interval of d over prompts" not in found.reason  # that of S is missing, too, and said


# --- what cannot be told -----------------------------------------------------------------------------------------


def test_one_prompt_in_each_set_has_no_p_and_says_so():
    found = differential_association(**drawn(10, (4,), (4,), lean=0.3), resamples=200)
    assert np.isfinite(found.statistic)
    assert np.isfinite(found.low)
    assert np.isnan(found.p_value)
    assert "one prompt in each set" in found.reason
    assert "a set has one prompt only" in found.reason


def test_a_prompt_without_images_is_left_out_and_counted():
    data = drawn(11, (3, 3, 3), (3, 3, 3), lean=0.2)
    broken = {name: list(held) for name, held in data.items()}
    broken["x_a"][1] = np.zeros((0, DIM))
    broken["y"][2] = np.zeros((0, DIM))
    found = quick(broken)
    kept = {
        name: [p for order, p in enumerate(held) if order != (1 if name[0] == "x" else 2)]
        for name, held in data.items()
    }
    assert found.statistic == quick(kept).statistic
    assert found.left_out == 2
    assert (found.n_prompts_x, found.n_prompts_y) == (2, 2)


def test_a_set_without_any_prompt_is_nan_with_a_reason():
    data = drawn(12) | {"x_b": [np.zeros((0, DIM))] * 3}
    found = differential_association(**data, resamples=100)
    assert np.isnan([found.statistic, found.effect_size, found.p_value, found.low]).all()
    assert found.reason == "x: no prompt has neutral images and images with both attributes"


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "1 of 3 embeddings are not finite"), (np.inf, "not finite"), (0, "zero")]
)
def test_an_embedding_that_is_no_direction_is_nan_with_a_reason(value, words):
    data = drawn(13)
    data["y"][1][2] = value
    found = quick(data)
    assert np.isnan(found.statistic)
    assert np.isnan(found.p_value)
    assert "y, prompt 2" in found.reason
    assert words in found.reason
    data["y"][0] = np.zeros((0, DIM))  # left out, but counted on the way to the second
    assert "y, prompt 2" in quick(data).reason


def test_images_that_all_associate_alike_have_no_effect_size():
    data = {name: [np.repeat(images[:1], 3, axis=0) for images in held[:1]] for name, held in drawn(14).items()}
    found = quick(data)
    assert np.isfinite(found.statistic)
    assert np.isnan(found.effect_size)
    assert "no spread to divide by" in found.reason


@pytest.mark.parametrize(
    ("change", "code", "field", "words"),
    [
        ({"x_a": []}, Code.WRONG_SHAPE, (), "x, x_a, x_b: .*3, 0 and 3"),
        ({"y": [np.zeros(4)] * 3}, Code.WRONG_SHAPE, "embeddings", r"\(4,\)"),
        ({"y": [np.ones((2, 4))] * 3}, Code.WRONG_SHAPE, "embeddings", r"\[4, 6\]"),
        ({"y": [[[1.0, 2.0], [1.0]]] * 3}, Code.WRONG_SHAPE, "embeddings", r"\(\)"),
        ({"y": [np.full((2, 6), 1j)] * 3}, Code.WRONG_TYPE, (), "y, prompt 1: .*complex128"),
        ({"y": [np.full((2, 6), "a")] * 3}, Code.WRONG_TYPE, (), "y, prompt 1: .*<U1"),
        ({"unit": "pixel"}, Code.UNKNOWN_NAME, "unit", "prompt, image"),
        ({"alternative": "bigger"}, Code.UNKNOWN_NAME, "alternative", ""),
        ({"method": "guess"}, Code.UNKNOWN_NAME, "method", ""),
        ({"resamples": -1}, Code.OUT_OF_RANGE, "resamples", "at least 0, found -1"),
        ({"rng": "abc"}, Code.WRONG_TYPE, "rng", "'abc'"),
    ],
)
def test_what_no_formula_can_take_is_refused(change, code, field, words):
    with raises(InvalidInputError, code=code, field=field, match=words):
        differential_association(**({"resamples": 0} | drawn(15) | change))


@pytest.mark.parametrize(
    ("d", "word"), [(0.1, "negligible"), (-0.2, "small"), (0.5, "medium"), (-0.8, "large"), (np.nan, "")]
)
def test_cohens_words(d, word):
    assert effect_magnitude(d) == word


@pytest.mark.parametrize("prompts", [2, 3, 6])
def test_the_interval_over_prompts_holds_that_over_images(prompts):
    """Two prompts may agree by chance where their images scatter: over prompts, too, nothing is surer."""
    for seed in range(12):
        rng = np.random.default_rng([20, prompts, seed])
        sets = {
            name: [np.ones(6) + rng.normal(size=(4, 6)) for _ in range(prompts)]
            for name in ("x", "x_a", "x_b", "y", "y_a", "y_b")
        }
        found = differential_association(**sets, resamples=400)
        assert found.stimulus_low <= found.low <= found.high <= found.stimulus_high
        assert found.effect_size_stimulus_low <= found.effect_size_low
        assert found.effect_size_high <= found.effect_size_stimulus_high
