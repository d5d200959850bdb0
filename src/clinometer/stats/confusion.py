"""Shares of groups that an imperfect reader read, corrected for its known errors: of K groups, and of two.

A reader answers with one of K groups or "cannot tell" (u). With π the true shares and M[k, r] = P(answer r | group k)
the answers of n images, and of m_k images labelled k, are

    y ~ Multinomial(n, p),   p_r = Σ_k π_k M[k, r]            L[k] ~ Multinomial(m_k, M[k])

so that the log-likelihood of both tables together is

    ℓ(π, M) = Σ_r y_r log p_r + Σ_{k,r} L[k, r] log M[k, r]

M must be known from images that are misread as the audited ones are. Portraits are hardly ever unread and scenes often
are, so with other pictures labelled than are asked about the unread say nothing of the shares: π is then of the
*images that are read*, and y and L leave out "cannot tell". Whether the joint model holds is asked by its deviance.

Of two groups, with s the sensitivity and c the specificity of the reader, a share π of A is *read* as

    r = π s + (1 − π) (1 − c)

which is solved for π by Rogan & Gladen (1978). s − (1 − c) = s + c − 1 is Youden's index J, the *informedness*: 1 for a
reader that never errs, 0 for one that tosses a coin. See decision 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import nan, sqrt

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence, require_count
from clinometer.stats.clusters import contrast
from clinometer.stats.proportion import wilson_interval

_GAIN = 1e-9
"""By how much the log-likelihood must still rise for another step: far below what an interval turns on."""

_MOST_STEPS = 2_000

_WIDER = 1.1
"""By how much the quantile at a corner is raised: simulated ones lie 6 to 16 % above that of χ̄², as M is estimated."""

_LEAST = 1e-12
"""An expected count that replaces 0: a share of exactly 0 could not rise again."""

FEWEST_LABELLED = 2
"""Labelled images of each group that were read, below which there are no corrected shares."""

_SAMPLED, _LABELLED, _LUCKY, _STEEP, _ADDED = 2.0, 1.6, 2.5, 1.5, 2
"""How far a quantile is raised for few images, for few labels, and, at this power, for a reader that the labels just
found able, however many they are: its separation is measured with so many counts added to each answer. Chosen on exact
coverages (docs/simulations.md)."""

MISFIT_LEVEL = 0.01
"""p of the deviance below which corrected shares are not to be quoted."""

MISFIT = "no mixture of the labelled images is answered as these are: they are not misread alike"

_MORE_SPREAD = 0.3
"""The spread of errors over contexts is taken at its upper limit, which it exceeds with this probability."""


@dataclass(frozen=True)
class CorrectedShares:
    """Shares of K groups corrected for the reader's errors, each with its interval.

    Attributes
    ----------
    share, low, high : (K,) in [0, 1]; NaN where ``reason`` says why. An interval that ends at 0 or 1 is one-sided.
    bound_low, bound_high : (K,) the ends with none and with all of the unread images of the group.
    identified : whether the reader distinguishes all groups, beyond what chance in ``labelled`` allows.
    separation : smallest singular value of M's estimate: 0 where some mixture of groups is answered like another.
    separation_p : p of the test that it is 0; ``identified`` where below 1 − confidence.
    misfit : deviance of the joint model of both tables, "cannot tell" included: 0 where it fits; ``misfit_p`` its p.
    spread : correlation of the errors within a context, over all respects, at its upper limit; 0 where one is known.
    quotable : whether the shares may be quoted: there are some, and the model fits.
    reason : why there are no shares, or why they may not be quoted; empty where they may.
    """

    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    identified: bool
    separation: float
    separation_p: float
    reason: str = ""
    bound_low: np.ndarray = field(default_factory=lambda: np.full(0, nan))
    bound_high: np.ndarray = field(default_factory=lambda: np.full(0, nan))
    misfit: float = nan
    misfit_p: float = nan
    spread: float = 0.0
    quotable: bool = False


@dataclass(frozen=True)
class Kinds:
    """Of which kinds images are, in one respect or several, such as the model that drew them and their concept.

    Attributes
    ----------
    known : (C, L) names of the kind of each labelled table, a column a respect.
    asked : (n, L) of the images in question, a row an image; None: all of one kind, which is none of the known.
    """

    known: np.ndarray
    asked: np.ndarray | None = None


@dataclass(frozen=True)
class ConfusionMatrix:
    """A reader's answers to pictures of known groups.

    Attributes
    ----------
    counts : (K, K + 1), a row a true group and a column an answer, "cannot tell" last.
    recall, low, high : (K,) in [0, 1], the share of a group that is read as it, with Wilson intervals; NaN of a group
        without a picture.
    unread : (K,) the share of a group that has no answer among the groups.
    """

    counts: np.ndarray
    recall: np.ndarray
    low: np.ndarray
    high: np.ndarray
    unread: np.ndarray


def confusion_matrix(
    truths: ArrayLike, answers: ArrayLike, groups: int, *, confidence: float = 0.95
) -> ConfusionMatrix:
    """Count a reader's answers by the true group.

    ::

        C[k, r] = pictures of group k that are answered r,    recall_k = C[k, k] / Σ_r C[k, r]

    Parameters
    ----------
    truths, answers : (n,) integers from 0, the true group and the answer of each picture; ``groups`` is "cannot tell".

    Raises
    ------
    InvalidInputError
        Lengths that differ, or numbers out of range.

    Examples
    --------
    >>> found = confusion_matrix([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 2], 2)
    >>> found.counts.tolist(), found.recall.tolist(), found.unread.tolist()
    ([[3, 1, 0], [0, 1, 1]], [0.75, 0.5], [0.0, 0.5])
    """
    true, answered = np.asarray(truths, int), np.asarray(answers, int)
    if true.shape != answered.shape or true.ndim != 1:
        raise InvalidInputError.expected_shape("one of each a picture", true, answered, field=("truths", "answers"))
    for name, numbers, most in (("truths", true, groups - 1), ("answers", answered, groups)):
        if numbers.size and (numbers.min() < 0 or numbers.max() > most):
            raise InvalidInputError.out_of_range(
                f"expected numbers from 0 to {most}, found {numbers.min()} to {numbers.max()}", field=name
            )
    counts = np.zeros((groups, groups + 1), int)
    np.add.at(counts, (true, answered), 1)
    recalls = [wilson_interval(int(counts[k, k]), int(counts[k].sum()), confidence) for k in range(groups)]
    with np.errstate(invalid="ignore"):
        unread = counts[:, -1] / counts.sum(axis=1)
    recall, low, high = (np.array([getattr(each, name) for each in recalls]) for name in ("value", "low", "high"))
    return ConfusionMatrix(counts, recall, low, high, unread)


def corrected_shares(
    answers: ArrayLike,
    labelled: ArrayLike,
    *,
    confidence: float = 0.95,
    same_pictures: bool = False,
    kinds: Kinds | None = None,
) -> CorrectedShares:
    """Estimate the shares of K groups from a reader's answers and from its answers on images of known groups.

    π and M are those of greatest likelihood (module docstring), found by EM on the simplex. The interval of π_k is that
    of its profile likelihood::

        { v : 2 (ℓ(π̂, M̂) − max_{π_k = v} ℓ(π, M)) ≤ f χ²₁(confidence) }     f = 1 + 2/n + 1.6/m + 2.5 (c/W)^1.5

    with n the images that are read and m the fewest labelled of a group, so it carries the chance in both tables and
    stays in [0, 1]. W is the test statistic by which the reader tells the groups apart (below), with two counts added
    to every answer, and c what it has to exceed, c/W at most 1: a reader that was just found able was lucky, too. The
    interval reaches up to 1 where the likelihood at 1, which leaves none to every other group, has fallen by no more
    than 1.1 times what χ̄² allows. Of two groups the estimate is Rogan and Gladen's (1978), clipped to [0, 1].

    The shares are of the images *that are read*, and bounds say what the unread can make of them. Where the labelled
    images are some of those in question (``same_pictures``), "cannot tell" is an answer like any other: if it is more
    frequent for one group, its share says so, and shares are of all images.

    Images labelled in several contexts (concepts, models) show how far errors vary between them. In each respect f in
    which images are of kinds, and in all respects together, errors have the correlation ρ_f within a kind. With w_l the
    share of kind l among a row's m labelled images, and v_l among the images in question, the row is worth

        1 / ((1 − Σ_f ρ_f) / m + Σ_f ρ_f Σ_l (w_l − v_l)²)      images

    of the images in question, whose kind in all respects together is none of the known: another model that drew a known
    concept differs as models do, and not as concepts do. Pearson's χ² of the kinds' rows gives ρ_f, and the variance is
    taken at its upper limit. In a respect of which one kind is known nothing can be seen.

    The reader tells the groups apart where no mixture of them is answered like another: M has rank K. With u and V the
    singular vectors of the smallest singular value (left) and of it and of what is beyond K dimensions (right),
    ``uᵀ M̂ V`` is near normal around 0 if not, and its quadratic form follows χ² (Kleibergen & Paap 2006).

    The shares may be quoted where the deviance of the joint model, "cannot tell" among the answers, has p ≥ 0.01 by
    χ²_K: answers that no mixture of the known rows gives come from images that are not misread as those are.

    Parameters
    ----------
    answers : (K + 1,) counts of the answers to the images in question, "cannot tell" last.
    labelled : (K, K + 1) counts of the answers to images of each true group, a row a group; or (contexts, K, K + 1).
    same_pictures : whether the labelled images were drawn at random from those in question.
    kinds : of which kinds the contexts are, and the images in question; else each context is of a kind of its own, and
        the images in question are of another.

    Raises
    ------
    InvalidInputError
        Tables that are not whole counts of these shapes, kinds that do not fit them, or a confidence outside 0 to 1.

    Sources: Rogan & Gladen (1978); Kleibergen & Paap, *Generalized reduced rank tests using the singular value
    decomposition* (2006); F. A. Graybill, C.-M. Wang, *Confidence intervals on nonnegative linear combinations of
    variances* (1980). Coverage is simulated in docs/simulations.md.

    Examples
    --------
    Of 100 images 70 are read as A, by a reader that takes a fifth of either group for the other:

    >>> found = corrected_shares([70, 30, 0], [[80, 20, 0], [20, 80, 0]])
    >>> found.share.round(2).tolist(), found.low.round(2).tolist(), found.high.round(2).tolist()
    ([0.83, 0.17], [0.65, 0.0], [1.0, 0.35])

    Scenes of which a half is unread are not misread like portraits, all of which are read:

    >>> scenes = corrected_shares([35, 15, 50], [[80, 20, 0], [20, 80, 0]])
    >>> scenes.quotable, scenes.reason
    (False, 'no mixture of the labelled images is answered as these are: they are not misread alike')
    """
    require_confidence(confidence)
    y, tables = _tables(answers, labelled, kinds)
    if same_pictures:
        tables, kinds = tables.sum(axis=0, keepdims=True), None
    groups = tables.shape[1]
    nothing = np.full(groups, np.nan)
    columns = slice(None) if same_pictures else slice(groups)
    counted = tables[:, :, columns].sum(axis=(0, 2))

    def without(reason: str, identified: bool = False, at: tuple[float, float] = (nan, nan)) -> CorrectedShares:
        return CorrectedShares(nothing, nothing, nothing, identified, *at, reason, nothing, nothing)

    unlabelled = np.flatnonzero(counted == 0)
    if unlabelled.size:
        read = "" if same_pictures else " that was read"
        return without(
            f"no labelled image of group {unlabelled[0] + 1} of {groups}{read}, so its misreading is unknown"
        )
    pooled = tables[:, :, columns].sum(axis=0)
    separation, p = _separation(pooled)
    at = separation, p
    if not p < 1 - confidence:
        why = "the reader may not tell the groups apart: their rows of answers differ by no more than chance"
        return without(why, at=at)
    if (few := int(counted.min())) < FEWEST_LABELLED:
        group = int(counted.argmin()) + 1
        why = (
            f"{few} labelled image{'s' if few > 1 else ''} of group {group} of {groups} read: {FEWEST_LABELLED} needed"
        )
        return without(why, True, at)
    if not y[columns].sum():
        return without("no image was read", True, at)
    table, spread = pool_contexts(tables[:, :, columns], kinds)
    share, _, best = _fit(y[columns], table)
    raised = _raised(pooled, float(y[columns].sum()), confidence)
    low, high = _profile_interval(y[columns], table, share[0], float(best[0]), confidence, raised)
    unread = 0.0 if same_pictures else float(y[-1] / y.sum())
    misfit, _ = mixture_deviance(y, tables, kinds)
    misfit_p = float(scipy.stats.chi2.sf(misfit, groups))
    fits = misfit_p >= MISFIT_LEVEL
    return CorrectedShares(
        share[0], low, high, True, *at, "" if fits else MISFIT, (1 - unread) * low, (1 - unread) * high + unread,
        misfit, misfit_p, spread, fits,
    )  # fmt: skip


def share_p_values(
    answers: ArrayLike,
    labelled: ArrayLike,
    null: float,
    *,
    same_pictures: bool = False,
    kinds: Kinds | None = None,
    confidence: float = 0.95,
) -> np.ndarray:
    """Test of each group whether its share is ``null``, by the likelihood ratio of both tables; two-sided.

    ::

        p_k = P(χ²₁ ≥ 2 (ℓ(π̂, M̂) − max_{π_k = null} ℓ(π, M)) / f)

    The same ratio makes the interval of :func:`corrected_shares`, so for 0 < null < 1 p_k is below 1 − confidence where
    the interval at that ``confidence`` leaves ``null`` out. It takes tables that ``corrected_shares`` finds identified.

    >>> share_p_values([70, 30, 0], [[80, 20, 0], [20, 80, 0]], 0.5).round(4).tolist()
    [0.0006, 0.0006]
    """
    y, tables = _tables(answers, labelled, kinds)
    if same_pictures:
        tables, kinds = tables.sum(axis=0, keepdims=True), None
    groups = np.arange(tables.shape[1])
    columns = slice(None) if same_pictures else slice(len(groups))
    table, _ = pool_contexts(tables[:, :, columns], kinds)
    _, _, best = _fit(y[columns], table)
    _, _, held = _fit(y[columns], table, groups, np.full(len(groups), null))
    raised = _raised(tables[:, :, columns].sum(axis=0), float(y[columns].sum()), confidence)
    return np.asarray(scipy.stats.chi2.sf(2 * np.maximum(best - held, 0.0) / raised, 1))


def _tables(answers: ArrayLike, labelled: ArrayLike, kinds: Kinds | None) -> tuple[np.ndarray, np.ndarray]:
    """Check the counts; those of labelled images as (contexts × K × K + 1)."""
    tables = _counts("labelled", labelled)
    tables = tables[None] if tables.ndim == 2 else tables
    if tables.ndim != 3 or tables.shape[1] < 2 or tables.shape[2] != tables.shape[1] + 1:
        raise InvalidInputError.wrong_shape(
            "expected K rows (true groups) of K + 1 counts (answers, “cannot tell” last), "
            f"K at least 2, found shape {np.shape(labelled)}",
            field="labelled",
        )
    y = _counts("answers", answers)
    if y.shape != (tables.shape[2],):
        raise InvalidInputError.expected_shape(
            f"{tables.shape[2]} counts, one an answer and “cannot tell” last, as labelled has", y, field="answers"
        )
    if kinds is not None:
        respects = kinds.known.shape[1:]
        if kinds.known.shape != (len(tables), *respects) or len(respects) != 1:
            raise InvalidInputError.expected_shape(
                f"{len(tables)} rows of known kinds, one a context", kinds.known, field="kinds"
            )
        if kinds.asked is not None and kinds.asked.shape[1:] != respects:
            raise InvalidInputError.expected_shape(
                f"as many respects of the images in question as of the known, {respects[0]}", kinds.asked, field="kinds"
            )
    return y, tables


def _raised(table: np.ndarray, n: float, confidence: float) -> float:
    """Return by how much a quantile is raised: f of :func:`corrected_shares`."""
    m, degrees = float(table.sum(axis=1).min()), table.shape[1] - len(table) + 1
    shown = float(scipy.stats.chi2.isf(_separation(table + _ADDED)[1], degrees))
    luck = min(float(scipy.stats.chi2.isf(1 - confidence, degrees)) / max(shown, _LEAST), 1.0)
    return float(1 + _SAMPLED / n + _LABELLED / m + _LUCKY * luck**_STEEP)


def pool_contexts(tables: np.ndarray, kinds: Kinds | None) -> tuple[np.ndarray, float]:
    """Add the contexts' tables (C × K × R) up, each row as many images as it is worth for those in question; and Σ ρ.

    Of a partition f of the contexts into kinds, with n_l images of a row in kind l, Pearson's χ² of the kinds' rows has
    the expectation

        D_f (1 − Σ_g ρ_g) + Σ_g ρ_g Σ_k (R_k − 1) (Σ_l Σ_j n_lj² / n_l − Σ_j n_j² / m)      j the kinds of partition g

    D_f its degrees of freedom, R_k the answers with a count, so the ρ_f, none below 0, come of these equations
    together. The variance of a row is taken at its upper limit: with each χ² in turn at its own, by its low quantile,
    it rises by so much, and these are added as squares (Graybill & Wang 1980).
    """
    pooled, sizes = tables.sum(axis=0), tables.sum(axis=2)
    m, freedom = np.maximum(pooled.sum(axis=1), 1), np.maximum((pooled > 0).sum(axis=1) - 1, 0)
    parts, degrees, found, limits = [], [], [], []
    for members, apart in _partitions(len(tables), kinds):
        of_kind = np.einsum("cl,ckr->lkr", members, tables)
        n = of_kind.sum(axis=2)
        own = float(np.maximum((n > 0).sum(axis=0) - 1, 0) @ freedom)
        if own:
            expected = n[:, :, None] * (pooled / m[:, None])
            chi_square = float((np.square(of_kind - expected) / np.where(expected > 0, expected, 1)).sum())
            parts.append((members, n, apart))
            degrees.append(own)
            found.append(chi_square)
            limits.append(chi_square * own / float(scipy.stats.chi2.ppf(_MORE_SPREAD, own)))
    if not parts:
        return pooled, 0.0

    def coefficient(f: int, g: int) -> float:
        (members, n, _), (others, of_others, _) = parts[f], parts[g]
        both = np.einsum("cl,cj,ck->klj", members, others, sizes)
        within = (np.square(both).sum(axis=2) / np.maximum(n.T, 1)).sum(axis=1)
        return float(freedom @ (within - np.square(of_others).sum(axis=0) / m))

    numbers, expected = range(len(parts)), np.array(degrees)
    slopes = np.array([[coefficient(f, g) for g in numbers] for f in numbers]) - expected[:, None]
    slopes[:, np.diag(slopes) <= 0] = 0  # one image a kind says nothing of it
    scale = np.sqrt(2 * expected)

    def correlations(values: np.ndarray) -> np.ndarray:
        rho, _ = scipy.optimize.nnls(slopes / scale[:, None], (values - expected) / scale)
        return np.asarray(rho / max(rho.sum(), 1.0))

    def variance(rho: np.ndarray) -> np.ndarray:
        return np.asarray(
            (1 - rho.sum()) / m + sum(r * apart(n / m) for r, (_, n, apart) in zip(rho, parts, strict=True))
        )

    as_found, at_limits = np.array(found), np.array(limits)
    estimate = correlations(as_found)
    raised = [correlations(np.where(np.arange(len(parts)) == f, at_limits, as_found)) for f in numbers]
    beyond = np.sqrt(sum(np.square(np.maximum(variance(each) - variance(estimate), 0)) for each in raised))
    spread = float(max(each.sum() for each in raised))
    return pooled / np.maximum((variance(estimate) + beyond) * m, 1.0)[:, None], spread


_Partition = tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]


def _partitions(contexts: int, kinds: Kinds | None) -> list[_Partition]:
    """Part the contexts into kinds, by all respects together and by each that has more than one kind.

    Beside the members (C × kinds, 0 or 1) stands what makes of shares w (kinds × K) Σ_l (w_l − v_l)².
    """
    if kinds is None:
        kinds = Kinds(np.arange(contexts)[:, None])
    names = [
        np.unique(kinds.known[:, [f]], axis=0, return_inverse=True)[1].ravel() for f in range(kinds.known.shape[1])
    ]
    _, together = np.unique(np.stack(names), axis=1, return_inverse=True)
    found: list[_Partition] = []
    for respects in (list(range(len(names))), *([f] for f in range(len(names)) if len(names) > 1)):
        place = together.ravel() if len(respects) > 1 else names[respects[0]]
        members = np.eye(place.max() + 1)[place]
        if len(respects) < len(names) and members.shape[1] in (1, together.max() + 1):
            continue
        among, new = np.zeros(members.shape[1]), 1.0
        if kinds.asked is not None and len(kinds.asked):
            own, counts = np.unique(kinds.asked[:, respects], axis=0, return_counts=True)
            known = {tuple(kinds.known[c, respects]): level for c, level in enumerate(place)}
            levels = [known.get(tuple(kind)) if len(respects) < len(names) else None for kind in own]
            shares = counts / counts.sum()
            new = float(sum(v**2 for v, level in zip(shares, levels, strict=True) if level is None))
            for v, level in zip(shares, levels, strict=True):
                if level is not None:
                    among[level] = v
        found.append((members, partial(_apart, among=among, new=new)))
    return found


def _apart(shares: np.ndarray, among: np.ndarray, new: float) -> np.ndarray:
    return np.asarray(np.square(shares - among[:, None]).sum(axis=0) + new)


def mixture_deviance(y: np.ndarray, tables: np.ndarray, kinds: Kinds | None = None) -> tuple[float, float]:
    """Measure how far counts y (R,) are from any mixture of rows that were counted in contexts (C × K × R) of kinds.

    ::

        2 (ℓ of tables that are free − ℓ(π̂, M̂))

    0 where y is a mixture of the rows; beyond what χ²_{R − 1} allows, it is none. Beside it stands how many images the
    rows are worth for those in question. Groups without an image are left out.

    >>> round(mixture_deviance(np.array([30, 10]), np.array([[[20, 20], [40, 0]]]))[0], 6)
    0.0
    """
    table, _ = pool_contexts(np.asarray(tables, np.float64), kinds)
    table = table[table.sum(axis=1) > 0]
    worth = float(table.sum())
    if not worth or not y.sum():
        return 0.0, worth
    _, _, best = _fit(np.asarray(y, np.float64), table)
    free = sum(float(scipy.special.xlogy(row, row / row.sum()).sum()) for row in (y, *table))
    return max(2 * (free - float(best[0])), 0.0), worth


def _counts(name: str, counts: ArrayLike) -> np.ndarray:
    try:
        numbers = np.asarray(counts, np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError.wrong_type(f"expected whole counts, found {counts!r}", field=name) from None
    odd = ~(np.isfinite(numbers) & (numbers >= 0) & (numbers == np.floor(numbers)))
    if odd.any():
        raise InvalidInputError.out_of_range(f"expected whole counts from 0 up, found {numbers[odd][0]:g}", field=name)
    return numbers


def _separation(table: np.ndarray) -> tuple[float, float]:
    """Find the smallest singular value of M, and p that it is 0."""
    m = table.sum(axis=1)
    observed = table / m[:, None]
    left, values, right = np.linalg.svd(observed)
    u, v = left[:, -1], right[len(table) - 1 :].T
    # Half a count is added: a reader that erred nowhere in a few images has not shown that it never errs.
    rates = (table + 0.5) / (table + 0.5).sum(axis=1, keepdims=True)
    covariance = np.zeros((v.shape[1], v.shape[1]))
    for weight, rate, n in zip(u**2, rates, m, strict=True):
        mean = rate @ v
        covariance += weight / n * ((v * rate[:, None]).T @ v - np.outer(mean, mean))
    statistic = u @ observed @ v
    quadratic = float(statistic @ np.linalg.pinv(covariance, hermitian=True) @ statistic)
    return float(values[-1]), float(scipy.stats.chi2.sf(quadratic, v.shape[1]))


def _fit(
    y: np.ndarray, table: np.ndarray, group: np.ndarray | None = None, held: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximise ℓ by EM, for each of B problems with the share of its ``group`` held at a value, or for one freely.

    Near the border of the simplex EM creeps, so two steps at a time are extrapolated (SQUAREM, scheme S3, Varadhan &
    Roland 2008), where ℓ rises by it. Returns π (B × K), M (B × K × K + 1) and ℓ (B,).
    """
    problems = np.arange(1 if group is None else len(group))
    n = y.sum()

    def on_simplex(state: np.ndarray) -> np.ndarray:
        """Return the state (B × K × K + 2): π in the first column, M in the rest; restores sums, and what is held."""
        state[:, :, 1:] /= state[:, :, 1:].sum(axis=2, keepdims=True)
        shares = state[:, :, 0]
        if group is not None and held is not None:
            shares[problems, group] = 0.0
            shares *= ((1 - held) / np.maximum(shares.sum(axis=1), _LEAST))[:, None]
            shares[problems, group] = held
        else:
            shares /= shares.sum(axis=1, keepdims=True)
        return state

    def step(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return one step of EM, and ℓ before it."""
        joint = state[:, :, :1] * state[:, :, 1:]
        answered = joint.sum(axis=1)
        likelihood = scipy.special.xlogy(y, answered).sum(axis=1) + scipy.special.xlogy(table, state[:, :, 1:]).sum(
            axis=(1, 2)
        )
        expected = joint * (y / np.where(answered > 0, answered, 1.0))[:, None, :]
        of_group = np.maximum(expected.sum(axis=2, keepdims=True), _LEAST)
        return on_simplex(np.concatenate([of_group / n, np.maximum(table + expected, _LEAST)], axis=2)), likelihood

    start = np.concatenate([np.ones((len(table), 1)), table + 0.5], axis=1)
    state = on_simplex(np.tile(start, (len(problems), 1, 1)))
    reached = np.full(len(problems), -np.inf)
    for _ in range(_MOST_STEPS):
        first, likelihood = step(state)
        second, _ = step(first)
        if (likelihood - reached < _GAIN).all():
            break
        reached = likelihood
        speed, bend = first - state, second - 2 * first + state
        length = np.sqrt(np.square(speed).sum(axis=(1, 2)) / np.maximum(np.square(bend).sum(axis=(1, 2)), 1e-300))
        length = np.maximum(length, 1.0)[:, None, None]
        far = on_simplex(np.maximum(state + 2 * length * speed + length**2 * bend, second / 100))
        after, gained = step(far)
        state = np.where((gained >= likelihood)[:, None, None], after, second)
    return state[:, :, 0], state[:, :, 1:], likelihood


def _profile_interval(
    y: np.ndarray, table: np.ndarray, share: np.ndarray, best: float, confidence: float, raised: float
) -> tuple[np.ndarray, np.ndarray]:
    """Find the ends of each share's profile-likelihood interval, all 2 K of them together."""
    from scipy.optimize.elementwise import find_root  # a quarter of a second that nothing else needs

    groups, most = len(share), float(scipy.stats.chi2.ppf(confidence, 1)) * raised

    def excess(held: np.ndarray, group: np.ndarray) -> np.ndarray:
        shape = held.shape
        _, _, reached = _fit(y, table, group.ravel().astype(int), np.clip(held.ravel(), 0.0, 1.0))
        return np.asarray(np.maximum(2 * (best - reached), 0.0) - most).reshape(shape)

    ends = np.repeat([0.0, 1.0], groups)
    group = np.tile(np.arange(groups), 2)
    found = ends.copy()
    beyond = excess(ends, group)
    # A share of 1 leaves none to all the others, each of which chance may lift off 0: a degree of freedom each by even
    # chance. The quantile c of this χ̄²: Σ_j C(others, j) / 2^others · P(χ²_j > c) = 1 − confidence (Self & Liang 1987)
    degrees = np.arange(1, groups)
    weights = scipy.stats.binom.pmf(degrees, groups - 1, 0.5)
    at_corner = scipy.optimize.brentq(
        lambda c: weights @ scipy.stats.chi2.sf(c, degrees) - (1 - confidence),
        0,
        scipy.stats.chi2.ppf(confidence, groups - 1),
    )
    beyond[groups:] -= max(_WIDER * float(at_corner) * raised - most, 0.0)
    inner = np.flatnonzero((beyond > 0) & (ends != np.tile(share, 2)))
    if inner.size:
        estimate, end = np.tile(share, 2)[inner], ends[inner]
        root = find_root(
            excess,
            (np.minimum(estimate, end), np.maximum(estimate, end)),
            args=(group[inner],),
            tolerances={"xatol": 1e-5},
        )
        found[inner] = root.x
    return found[:groups], found[groups:]


@dataclass(frozen=True)
class ReadingCounts:
    """A reader's counts on items of known groups: how many of A are read as A, and of B as B."""

    right_a: int
    n_a: int
    right_b: int
    n_b: int

    def __post_init__(self) -> None:
        for group, right, n in (("a", self.right_a, self.n_a), ("b", self.right_b, self.n_b)):
            require_count(f"n_{group}", n, least=0)
            require_count(f"right_{group}", right, least=0)
            if right > n:
                raise InvalidInputError.out_of_range(
                    f"expected 0 to n_{group} = {n}, found {right}", field=f"right_{group}"
                )

    def swapped(self) -> ReadingCounts:
        """Return the same with A and B exchanged."""
        return ReadingCounts(self.right_b, self.n_b, self.right_a, self.n_a)


@dataclass(frozen=True)
class Informedness:
    """Sensitivity plus specificity less 1, in [−1, 1], with its interval; NaN with a reason without items of a group.

    0 is a reader that knows nothing, below 0 one that reads the groups the wrong way round.
    """

    value: float
    low: float
    high: float
    reason: str = ""


@dataclass(frozen=True)
class CorrectedShare:
    """A share corrected for misreading, in [0, 1], with its interval; NaN with a reason where it has none.

    ``estimate`` is the value before it was clipped to [0, 1].
    """

    value: float
    low: float
    high: float
    estimate: float
    reason: str = ""


NO_ITEM = "no item of a group is known"
COVERS_ZERO = "the interval of sensitivity + specificity \N{MINUS SIGN} 1 covers 0"


@lru_cache(maxsize=1 << 14)  # one reader reads every concept of a run
def informedness(reading: ReadingCounts, confidence: float = 0.95) -> Informedness:
    """``J = s + c − 1`` with the interval of a difference of two shares (Newcombe 1998, method 10).

    The two shares are s and 1 − c; the interval is built from Wilson's of each, so it stays in [−1, 1] and has a width
    where nothing was misread, too.

    >>> youden_j = informedness(ReadingCounts(30, 32, 28, 32))
    >>> round(youden_j.value, 4), round(youden_j.low, 2), round(youden_j.high, 2)
    (0.8125, 0.6, 0.9)

    Raises
    ------
    InvalidInputError
        A confidence outside 0 to 1.
    """
    require_confidence(confidence)
    if not (reading.n_a and reading.n_b):
        return Informedness(nan, nan, nan, NO_ITEM)
    sensitivity = wilson_interval(reading.right_a, reading.n_a, confidence)
    specificity = wilson_interval(reading.right_b, reading.n_b, confidence)
    both = contrast((sensitivity, specificity), (1, 1))
    return Informedness(both.value - 1, max(both.low - 1, -1.0), min(both.high - 1, 1.0))


def corrected_share(count: int, n: int, reading: ReadingCounts, confidence: float = 0.95) -> CorrectedShare:
    """Return the share of A among items of which ``count`` of ``n`` were read as A, corrected for misreading.

    ::

        π = (r + c − 1) / (s + c − 1)          r = count / n, clipped to [0, 1]          (Rogan & Gladen 1978)

    with the interval of Lang & Reiczigel (2014), which carries the sampling error of r, s and c. With
    r' = (count + z²/2)/(n + z²), s' = (right_a + 1)/(n_a + 2), c' alike, and π' made of these,

    ::

        π' + d ± z √( r'(1−r')/(n+z²) + π'² V_s + (1−π')² V_c ) / (s' + c' − 1)
        d = 2 z² (π' V_s − (1−π') V_c)          V_s = s'(1−s')/(n_a+2), V_c alike

    clipped to [0, 1], and widened to hold the estimate where it does not. The three samples are taken as independent,
    and the items in question as misread as often as those whose group is known. Where the interval of
    :func:`informedness` covers 0, r says nothing of π: undefined. A reader that never errs leaves the share as it is;
    exchanging A and B gives 1 − π, and its interval mirrored.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers, more than n of n, or a confidence outside 0 to 1.

    Source: W. J. Rogan, B. Gladen, *Estimating prevalence from the results of a screening test* (1978); Z. Lang,
    J. Reiczigel, *Confidence limits for prevalence of disease adjusted for estimated sensitivity and specificity*
    (2014).
    """
    require_count("n", n, least=0)
    require_count("count", count, least=0)
    if count > n:
        raise InvalidInputError.out_of_range(f"expected 0 to n = {n}, found {count}", field="count")
    youden_j = informedness(reading, confidence)
    reason = youden_j.reason if n else "no image"
    if not reason and youden_j.low <= 0:
        reads_wrong = youden_j.high < 0
        reason = "the reader takes either group for the other" if reads_wrong else COVERS_ZERO
    if reason:
        return CorrectedShare(nan, nan, nan, nan, reason)
    estimate = (count / n + reading.right_b / reading.n_b - 1) / youden_j.value
    # the interval before it is clipped; the module's formulas
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    read = (count + z**2 / 2) / (n + z**2)
    right = np.array([reading.right_a, reading.right_b], np.float64)
    items = np.array([reading.n_a, reading.n_b], np.float64) + 2
    rates = (right + 1) / items
    of_a, of_b = rates * (1 - rates) / items
    slope = float(rates.sum()) - 1
    share = (read + float(rates[1]) - 1) / slope
    centre = share + 2 * z**2 * (share * of_a - (1 - share) * of_b)
    spread = z * sqrt(read * (1 - read) / (n + z**2) + share**2 * of_a + (1 - share) ** 2 * of_b) / slope
    low, high = float(centre - spread), float(centre + spread)
    value = min(max(estimate, 0.0), 1.0)
    # the formula adds counts to every sample: with a handful of items it may pass the estimate by
    return CorrectedShare(value, max(min(low, value), 0.0), min(max(high, value), 1.0), estimate)
