"""T2IAT: whether a model ties one concept more closely to an attribute than another.

Wang, Liu, Di, Liu & Wang, *T2IAT* (Findings of ACL 2023), equations 1–4. Each prompt of a concept is drawn three times
over: as it is (neutral), with attribute A, with attribute B. See decision 19.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan
from typing import Literal

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics import prompt_sets
from clinometer.stats.arguments import generator, require_choice, require_count
from clinometer.stats.association import Array, as_numpy
from clinometer.stats.label_forms import fixed_values_test, quadratic_permutation_test
from clinometer.stats.permutation import Alternative, PermutationMethod

Unit = Literal["prompt", "image"]
Magnitude = Literal["negligible", "small", "medium", "large", ""]

ONE_PROMPT = "one prompt in each set: every way to split two prompts has the same |S|"


@dataclass(frozen=True)
class DifferentialAssociation:
    """A T2IAT test; positive: X is nearer to A, against B, than Y is.

    Attributes
    ----------
    statistic : S(X, Y, A, B), see :func:`differential_association`.
    low, high : 95 % interval of S, as wide as Student's t; images resampled within their prompts, prompts fixed.
    stimulus_low, stimulus_high : 95 % interval of S, as wide as t, that resamples the prompts, with their images.
    effect_size : Cohen's d, over the two-group pooled standard deviation of the images' associations.
    effect_size_low, effect_size_high, effect_size_stimulus_low, effect_size_stimulus_high : its two intervals.
    p_value, exact, n_splits, p_error : the permutation test; ``p_error`` is the Monte-Carlo error, 0 when exact.
    p_method : ``"exact"``, ``"certified"`` or ``"sampled"``.
    p_low, p_high : bounds of the p that counting every split would give: a 95 % interval when sampled, a proven bracket
        when certified (p is its upper end), p itself when exact.
    alternative, unit : its side, and what was permuted.
    association_x, association_y : the two means that S is the difference of.
    n_prompts_x, n_prompts_y, n_x, n_y : prompts, and neutral images, of each set.
    n_a, n_b : images with each attribute, of both sets together.
    left_out : prompts that had no neutral images, or none with one of the attributes, and so count nowhere.
    reason : why a number is NaN; empty when none is.
    """

    statistic: float = nan
    low: float = nan
    high: float = nan
    stimulus_low: float = nan
    stimulus_high: float = nan
    effect_size: float = nan
    effect_size_low: float = nan
    effect_size_high: float = nan
    effect_size_stimulus_low: float = nan
    effect_size_stimulus_high: float = nan
    p_value: float = nan
    exact: bool = False
    n_splits: int = 0
    p_error: float = nan
    p_low: float = nan
    p_high: float = nan
    p_method: PermutationMethod = ""
    alternative: Alternative = "two-sided"
    unit: Unit = "prompt"
    association_x: float = nan
    association_y: float = nan
    n_prompts_x: int = 0
    n_prompts_y: int = 0
    n_x: int = 0
    n_y: int = 0
    n_a: int = 0
    n_b: int = 0
    left_out: int = 0
    reason: str = ""

    @property
    def magnitude(self) -> Magnitude:
        """Cohen's word for |d|: negligible below 0.2, small, medium from 0.5, large from 0.8."""
        return effect_magnitude(self.effect_size)


def effect_magnitude(d: float) -> Magnitude:
    """Return Cohen's word for an effect size.

    >>> effect_magnitude(-0.6)
    'medium'
    """
    if isnan(d):
        return ""
    return "negligible" if abs(d) < 0.2 else "small" if abs(d) < 0.5 else "medium" if abs(d) < 0.8 else "large"


def differential_association(
    *,
    x: Sequence[Array],
    x_a: Sequence[Array],
    x_b: Sequence[Array],
    y: Sequence[Array],
    y_a: Sequence[Array],
    y_b: Sequence[Array],
    unit: Unit = "prompt",
    alternative: Alternative = "two-sided",
    method: Literal["auto", "exact", "sampled"] = "auto",
    permutations: int = 99_999,
    resamples: int = 9_999,
    rng: np.random.Generator | int | None = 0,
) -> DifferentialAssociation:
    """Return the differential association of concepts X and Y with attributes A and B.

    ::

        Asc(x, Xᴬ, Xᴮ) = mean_{a∈Xᴬ} cos(x, a) − mean_{b∈Xᴮ} cos(x, b)                   in [−2, 2]
        S(X, Y, A, B)  = mean_{x∈X} Asc(x, Xᴬ, Xᴮ) − mean_{y∈Y} Asc(y, Yᴬ, Yᴮ)           in [−4, 4]
        d              = S / s,  s² = ((n_x − 1)·s_x² + (n_y − 1)·s_y²) / (n_x + n_y − 2)

    Wang et al. (2023), eq. 1–4. Prompts weigh equally: with ``u_p, a_p, b_p`` the means of the unit vectors of prompt
    p's images and ``G_pq = u_p · (a_q − b_q)``, the mean over X is ``mean_{p,q∈X} G_pq``. So an image that could not
    be made shifts no prompt's weight. ``s_x, s_y`` are the standard deviations of Asc over images.

    p permutes the prompts over the two sets, keeping their sizes. A prompt takes its neutral and its attribute images
    along, so Asc is computed again against the mixed set's own attribute images: ``S`` of a split is a quadratic form
    of G (linear in it for sets of equal size, which is why p is exact there up to 40 prompts, and certified beyond).
    ``unit="image"`` shuffles the fixed associations of images instead; it takes the images of one prompt for
    independent and is anti-conservative.

    Parameters
    ----------
    x, y : for each prompt, an (images × dim) array of its neutral images; numpy's, another library's, or nested lists.
    x_a, x_b, y_a, y_b : for each prompt in the same order, its images with attribute A, and with B.
    alternative : ``"two-sided"`` compares |S|, as the paper does; ``"greater"`` asks for large S.
    method, permutations, rng : as in the permutation tests of ``clinometer.stats``.
    resamples : bootstrap replicates of the intervals; 0 leaves them out.

    Returns
    -------
    DifferentialAssociation
        Numbers that cannot be computed are NaN and ``reason`` says why: no prompt left in a set, an embedding that is
        not finite or is zero, no spread to divide by, one prompt in each set (p), one image in a prompt (interval).

    Raises
    ------
    InvalidInputError
        Lists of different lengths, arrays that are not two-dimensional or whose dimensions differ, an unknown option.
    """
    require_choice("unit", unit, ("prompt", "image"))
    require_count("resamples", resamples, least=0)
    x, x_a, x_b, y, y_a, y_b = ([as_numpy(images) for images in prompts] for prompts in (x, x_a, x_b, y, y_a, y_b))
    widths = set()
    for array in (*x, *x_a, *x_b, *y, *y_a, *y_b):
        if array.ndim != 2:
            raise InvalidInputError.expected_shape("(images × dim) arrays", array, field="embeddings")
        if len(array):
            widths.add(array.shape[1])
    if len(widths) > 1:
        raise InvalidInputError.wrong_shape(
            f"found dimensions {sorted(widths)}; use one encoder for all", field="embeddings"
        )
    pair = prompt_sets.pair_sets(
        prompt_sets.prompt_set(x, x_a, x_b, name="x"), prompt_sets.prompt_set(y, y_a, y_b, name="y")
    )
    return pair_association(
        pair, unit=unit, alternative=alternative, method=method, permutations=permutations, resamples=resamples, rng=rng
    )


def pair_association(
    pair: prompt_sets.SetPair,
    *,
    unit: Unit = "prompt",
    alternative: Alternative = "two-sided",
    method: Literal["auto", "exact", "sampled"] = "auto",
    permutations: int = 99_999,
    resamples: int = 9_999,
    rng: np.random.Generator | int | None = 0,
    drawn: Callable[[], tuple[prompt_sets.PairDraws, prompt_sets.PairDraws]] | None = None,
) -> DifferentialAssociation:
    """:func:`differential_association` of sets whose cosines are computed already.

    ``drawn`` : replicates over images and over prompts, of sets that were resampled elsewhere, each by its
    :func:`set_generator`; called where there is a test at all.
    """
    x, y = pair.x, pair.y
    counts = DifferentialAssociation(
        alternative=alternative,
        unit=unit,
        n_prompts_x=x.n_prompts,
        n_prompts_y=y.n_prompts,
        n_x=x.n_images,
        n_y=y.n_images,
        n_a=sum(x.sizes_a) + sum(y.sizes_a),
        n_b=sum(x.sizes_b) + sum(y.sizes_b),
        left_out=x.left_out + y.left_out,
        reason=pair.reason,
    )
    if pair.reason:
        return counts
    children = generator(rng).spawn(2)
    association = _estimate(counts, pair)
    association = _permutation(association, pair, method, permutations, children[0])
    if drawn is not None:
        return _intervals(association, pair, drawn())
    return _intervals(association, pair, _draw(pair, resamples, children[1])) if resamples else association


def set_generator(rng: np.random.Generator, *, prompts: bool, second: bool) -> np.random.Generator:
    """Return the generator of :func:`pair_association` for the resamples of one of its sets, by images or prompts.

    ``rng`` : as that is given it, and nothing drawn from it yet; ``second`` : of Y, and not of X.
    """
    return rng.spawn(2)[1].spawn(2)[prompts].spawn(2)[second]


def _draw(
    pair: prompt_sets.SetPair, resamples: int, rng: np.random.Generator
) -> tuple[prompt_sets.PairDraws, prompt_sets.PairDraws]:
    """Return replicates over images and over prompts."""
    assert isinstance(pair.x, prompt_sets.PromptSet)
    assert isinstance(pair.y, prompt_sets.PromptSet)
    images, prompts = rng.spawn(2)
    return (
        prompt_sets.bootstrap_draws((pair.x, pair.y), resamples, images, prompts=False),
        prompt_sets.bootstrap_draws((pair.x, pair.y), resamples, prompts, prompts=True),
    )


def _estimate(association: DifferentialAssociation, pair: prompt_sets.SetPair) -> DifferentialAssociation:
    x, y = pair.x.association, pair.y.association
    statistic = x - y
    spread = prompt_sets.pooled_deviation(pair.x, pair.y)
    tied = not spread > pair.rounding
    return replace(
        association,
        statistic=statistic,
        association_x=x,
        association_y=y,
        effect_size=nan if tied else statistic / spread,
        reason=_join(
            association.reason, "effect size: all images associate alike, no spread to divide by" if tied else ""
        ),
    )


def _permutation(
    association: DifferentialAssociation,
    pair: prompt_sets.SetPair,
    method: Literal["auto", "exact", "sampled"],
    permutations: int,
    rng: np.random.Generator,
) -> DifferentialAssociation:
    if association.unit == "prompt" and association.n_prompts_x == association.n_prompts_y == 1:
        return replace(association, reason=_join(association.reason, f"p: {ONE_PROMPT}"))
    if association.unit == "image":
        values = np.concatenate([pair.x.image_associations, pair.y.image_associations])
        test = fixed_values_test(
            values,
            np.arange(len(values)) < association.n_x,
            alternative=association.alternative,
            method=method,
            permutations=permutations,
            rounding=pair.rounding,
            rng=rng,
            items="images",
        )
    else:
        test = quadratic_permutation_test(
            pair.gram,
            sizes=(association.n_prompts_x, association.n_prompts_y),
            alternative=association.alternative,
            method=method,
            permutations=permutations,
            rounding=pair.rounding,
            rng=rng,
        )
    return replace(
        association,
        p_value=float(test.p_value[0]),
        exact=test.exact,
        n_splits=test.n_splits,
        p_error=float(test.standard_error[0]),
        p_low=float(test.p_low[0]),
        p_high=float(test.p_high[0]),
        p_method=test.method,
    )


def _intervals(
    association: DifferentialAssociation,
    pair: prompt_sets.SetPair,
    drawn: tuple[prompt_sets.PairDraws, prompt_sets.PairDraws],
) -> DifferentialAssociation:
    """Return both intervals of S and of d."""
    within = _ends(association, pair, drawn[0], prompts=False)
    alone = _ends(association, pair, drawn[1], prompts=True)
    across = (*prompt_sets.containing(alone[:2], within[:2]), *prompt_sets.containing(alone[2:], within[2:]))
    few = [
        "interval over images: a prompt has one image only" if isnan(within[0]) else "",
        "interval over prompts: a set has one prompt only" if isnan(across[0]) else "",
    ]
    if isfinite(association.effect_size):  # else that is the reason
        few += [
            f"interval of d over {what}: a resample has no spread to divide by"
            for what, ends in (("images", within), ("prompts", across))
            if isfinite(ends[0]) and isnan(ends[2])
        ]
    return replace(
        association,
        low=within[0],
        high=within[1],
        effect_size_low=within[2],
        effect_size_high=within[3],
        stimulus_low=across[0],
        stimulus_high=across[1],
        effect_size_stimulus_low=across[2],
        effect_size_stimulus_high=across[3],
        reason=_join(association.reason, *few),
    )


def _ends(
    association: DifferentialAssociation, pair: prompt_sets.SetPair, draws: prompt_sets.PairDraws, *, prompts: bool
) -> tuple[float, float, float, float]:
    """Return the ends of the intervals of S and of d."""
    freedom = prompt_sets.freedom_of((pair.x, pair.y), prompts=prompts)
    return (
        *prompt_sets.interval_of(draws.statistic, association.statistic, freedom),
        *prompt_sets.interval_of(draws.effect_size, association.effect_size, freedom),
    )


def _join(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)
