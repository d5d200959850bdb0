"""Answers in free words: normalised, clustered, and compared with the concepts of their images.

An open question has no list of answers (OpenBias, D'Incà et al. 2024; TIBET, Chinchure et al. 2024). What readers say
is brought to one form, answers that mean the same are put together, and what is left is a table concept × answer. Its
null is that answers do not depend on concepts: then the answers of all images may be redistributed among them. Clusters
are formed from all answers without regard to concepts, so under the null every redistribution is equally likely.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import generator, require_confidence, require_count
from clinometer.stats.bootstrap import ball_interval, rao_wu_weights
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.permutation import sampled_p_value

_OPENING: Final = re.compile(r"(?:(?:it|this|that|he|she) (?:is|appears to be|looks like|looks) )?(?:(?:a|an|the) )?")
_UNSEEN: Final = frozenset({
    "unknown", "unclear", "unsure", "uncertain", "none", "nothing", "n/a", "na", "cannot tell", "can not tell",
    "can't tell", "cant tell", "not visible", "not clear", "not sure", "none of these", "cannot be determined",
})  # fmt: skip
"""What answers say that tell nothing of the image."""

_STRONGEST: Final = 4.0
"""How many times the observed dependence is tried, in logits of the shares, before the largest possible is taken."""


def normalise_answer(text: str) -> str:
    """Normalise an answer; one that says that nothing can be told becomes empty.

    Compatibility characters, accents apart from their letters, case, punctuation, runs of spaces, and an opening "it
    is a" are taken off; accents stay where they are. Only English has its articles removed.

    >>> normalise_answer("  The “Hard  Hat”. "), normalise_answer("It is a Café!"), normalise_answer("Unknown")
    ('hard hat', 'café', '')
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(each if unicodedata.category(each)[0] in "LMN" or each in "'’/" else " " for each in folded)
    plain = " ".join(kept.replace("’", "'").split()).strip("'/ ")
    plain = plain[_OPENING.match(plain).end() :] or plain  # type: ignore[union-attr]
    return "" if plain in _UNSEEN else plain


def cluster_answers(counts: Mapping[str, int], vectors: ArrayLike | None, threshold: float) -> dict[str, str]:
    """Cluster answers that mean the same: map each answer to the name of its cluster.

    Agglomerative clustering of the texts' vectors by average cosine (Sokal & Michener 1958, UPGMA), cut where two
    clusters' answers are ``threshold`` alike on average. A cluster is named by its most frequent answer, of equally
    frequent ones by the first in the alphabet. The same whatever the order of the answers.

    Parameters
    ----------
    counts : how often each normalised answer was given.
    vectors : (n, d) of the answers in the order of ``counts``, by a text encoder; None puts nothing together.
    threshold : least mean cosine within a cluster, in (0, 1].

    Raises
    ------
    InvalidInputError
        Vectors that do not fit, have no direction, or a threshold out of its range.
    """
    if not 0 < threshold <= 1:
        raise InvalidInputError.out_of_range(
            f"found {threshold}, expected a cosine above 0 and up to 1", field="threshold"
        )
    if vectors is None or len(counts) < 2:
        return {answer: answer for answer in counts}
    array = np.asarray(vectors, np.float64)
    if array.ndim != 2 or len(array) != len(counts):
        raise InvalidInputError.expected_shape(f"({len(counts)} × d)", array, field="vectors")
    lengths = np.linalg.norm(array, axis=1)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise InvalidInputError.not_finite(
            "one is zero or not finite, so its answer has no cosine with others", field="vectors"
        )
    names = list(counts)
    order = sorted(range(len(names)), key=names.__getitem__)
    unit = np.round(array[order] / lengths[order, None], 6)  # so that noise of a batch decides no tie
    tree = scipy.cluster.hierarchy.linkage(unit, method="average", metric="cosine")
    labels = scipy.cluster.hierarchy.fcluster(tree, 1 - threshold + 1e-9, criterion="distance")
    ordered = [names[index] for index in order]
    heads = {
        label: min((name for name, own in zip(ordered, labels, strict=True) if own == label),
                   key=lambda name: (-counts[name], name))
        for label in set(labels)
    }  # fmt: skip
    return {name: heads[label] for name, label in zip(ordered, labels, strict=True)}


@dataclass(frozen=True)
class Dependence:
    """The mutual information of answer and concept, in nats, over the images that were answered.

    ``value`` is never negative, and above 0 on average where nothing depends: ``null`` is its mean over answers dealt
    out again, and ``p`` the share of deals with as much. ``reason`` says why a number is NaN.
    """

    value: float
    low: float
    high: float
    null: float
    p: float
    p_error: float
    n: int
    q: float = nan
    reason: str = ""


@dataclass(frozen=True)
class OpenDistribution:
    """The answers of each concept, and whether they depend on it.

    Attributes
    ----------
    concepts, answers : names of the rows and columns; answers from the most frequent on.
    counts : (C, K) images.
    overall : mutual information of concept and answer, in [0, min(ln C, ln K)].
    each : (C,) of each concept: of being this concept or another, and the answer.
    """

    concepts: tuple[str, ...]
    answers: tuple[str, ...]
    counts: np.ndarray
    overall: Dependence
    each: tuple[Dependence, ...]


def open_distribution(
    concepts: Sequence[str],
    answers: Sequence[str],
    *,
    strata: Sequence[object] | None = None,
    permutations: int = 9_999,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = 0,
) -> OpenDistribution:
    """Tabulate answers by concept, and test whether they depend on it.

    ::

        I = Σ_s n_s/n Σ_{c,a} f(c, a | s) ln( f(c, a | s) / (f(c | s) f(a | s)) )

    is mutual information within strata; with one stratum that of OpenBias's question "does the context change the
    answer?". Of a concept, ``c`` is "this one or another". p: answers are permuted among the images of a stratum, whose
    number of each concept stands, so it is exact up to ``permutations``; q corrects over the concepts. The interval
    inverts a test: tables are drawn from shares between those of no dependence and beyond those observed, by the same
    power of the ratio of both, and it holds the information of those from which the observed one is no surprise.

    Parameters
    ----------
    concepts, answers : (n,) of each image that was answered, by the name of the answer's cluster.
    strata : (n,) within which images are exchangeable, such as their wording; None is one.

    Raises
    ------
    InvalidInputError
        Lengths that differ.
    """
    if not len(concepts) == len(answers) == len(concepts if strata is None else strata):
        raise InvalidInputError.wrong_shape(
            "expected one of each an image, found other lengths", field=("concepts", "answers", "strata")
        )
    require_count("permutations", permutations)
    require_confidence(confidence)
    rng = generator(rng)
    names, row = np.unique(np.asarray(concepts, str), return_inverse=True)
    distinct, column = np.unique(np.asarray(answers, str), return_inverse=True)
    _, layer = np.unique([0] * len(row) if strata is None else list(map(str, strata)), return_inverse=True)
    shape = (int(layer.max(initial=0)) + 1, len(names), len(distinct))
    table = np.zeros(shape)
    np.add.at(table, (layer, row, column), 1)
    views = [table, *(_one_against_rest(table, index) for index in range(len(names) if len(names) > 1 else 0))]
    observed = np.array([float(_information(view)) if len(row) else nan for view in views])
    extreme, total = np.zeros(len(views), np.int64), np.zeros(len(views))
    if len(names) > 1 and len(distinct) > 1:
        for drawn in _dealt(table, permutations, rng):
            information = np.stack([_information(drawn), *(
                _information(_one_against_rest(drawn, index)) for index in range(len(names))
            )])  # fmt: skip
            extreme += (information >= observed[:, None] - 1e-12).sum(axis=1)
            total += information.sum(axis=1)
    p, error, _, _ = sampled_p_value(extreme, permutations)
    reason = (
        "no image has an answer" if not len(row) else "one concept has answers, and it takes two" if len(names) < 2
        else "all images have one answer" if len(distinct) < 2 else ""
    )  # fmt: skip
    if reason:
        nothing = Dependence(nan, nan, nan, nan, nan, nan, len(row), reason=reason)
        found_each: tuple[Dependence, ...] = (nothing,) * len(names)
        overall = nothing
    else:
        q = benjamini_hochberg(p[1:])
        records = [
            Dependence(float(observed[k]), *_interval(view, confidence, k), float(total[k] / permutations), float(p[k]),
                       float(error[k]), len(row), float(q[k - 1]) if k else nan)
            for k, view in enumerate(views)
        ]  # fmt: skip
        overall, found_each = records[0], tuple(records[1:])
    order = np.argsort(-table.sum(axis=(0, 1)), kind="stable")
    counts = table.sum(axis=0).astype(int)[:, order]
    return OpenDistribution(tuple(map(str, names)), tuple(map(str, distinct[order])), counts, overall, found_each)


def _one_against_rest(tables: np.ndarray, index: int) -> np.ndarray:
    """Return tables (…, C, K) as (…, 2, K): this concept, and all others together."""
    own = tables[..., index, :]
    return np.stack([own, tables.sum(axis=-2) - own], axis=-2)


def _information(tables: np.ndarray) -> np.ndarray:
    """Return the mutual information of tables (…, S, C, K) within their strata."""
    rows, columns = tables.sum(axis=-1, keepdims=True), tables.sum(axis=-2, keepdims=True)
    whole = rows.sum(axis=-2, keepdims=True)
    xlogy = scipy.special.xlogy
    terms = xlogy(tables, tables).sum(axis=(-3, -2, -1)) - xlogy(rows, rows).sum(axis=(-3, -2, -1))
    terms += xlogy(whole, whole).sum(axis=(-3, -2, -1)) - xlogy(columns, columns).sum(axis=(-3, -2, -1))
    return np.asarray(np.maximum(terms / tables.sum(axis=(-3, -2, -1)), 0.0))


def _dealt(table: np.ndarray, permutations: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return random tables with the same margins, in chunks of draws: answers redistributed within strata."""
    chunk = max(1, 2_000_000 // max(table.size, 1))
    pieces = []
    for start in range(0, permutations, chunk):
        size = min(chunk, permutations - start)
        layers = [
            scipy.stats.random_table(own.sum(axis=1), own.sum(axis=0)).rvs(size, random_state=rng)
            for own in table
        ]  # fmt: skip
        pieces.append(np.stack(layers, axis=1))
    return pieces


def _interval(table: np.ndarray, confidence: float, salt: int, draws: int = 999) -> tuple[float, float]:
    """Return the interval of the information from which the observed one is no surprise, from no dependence upwards.

    ::

        p_t(a | c) ∝ p(a) (p̂(a | c) / p(a))^t        t = 0: no dependence,  1: as observed

    p̂ has half an image added, in the shares of all, so that an answer that was not given may be. The lower end is taken
    at half of the upper one's risk: observed shares are rougher than those behind them, and so are those it is drawn
    from. See docs/simulations.md.
    """
    sizes = table.sum(axis=-1, keepdims=True)
    common = np.divide(table.sum(axis=-2, keepdims=True), np.maximum(sizes.sum(axis=-2, keepdims=True), 1))
    own = (table + common / 2) / (sizes + 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(common > 0, np.log(own) - np.log(common), 0.0)
    observed, tail = float(_information(table)), (1 - confidence) / 2

    def shares(t: float) -> np.ndarray:
        weights = common * np.exp(t * ratio)
        return np.asarray(weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300))

    def drawn(t: float) -> np.ndarray:
        rng = np.random.default_rng([salt, 13])
        return _information(np.stack([
            [rng.multinomial(int(n), share, draws) for n, share in zip(layer[:, 0], own_shares, strict=True)]
            for layer, own_shares in zip(sizes, shares(t), strict=True)
        ]).transpose(2, 0, 1, 3).astype(float))  # fmt: skip

    def edge(surprised: Callable[[float], bool], low: float, high: float) -> float:
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if surprised(middle) else (low, middle)
        return (low + high) / 2

    def too_little(t: float) -> bool:
        return float((drawn(t) >= observed - 1e-12).mean()) < tail / 2

    def not_too_much(t: float) -> bool:
        return float((drawn(t) <= observed + 1e-12).mean()) >= tail

    def of(t: float) -> float:
        return float(_information(shares(t) * sizes))

    low = of(edge(too_little, 0.0, _STRONGEST)) if too_little(0.0) else 0.0
    if not_too_much(_STRONGEST):
        # the same concepts, with answers that tell as much of them as can be
        apart = np.zeros_like(table)
        for index in range(table.shape[-2]):
            apart[:, index, index % table.shape[-1]] += sizes[:, index, 0]
        high = float(_information(apart))
    else:
        high = of(edge(not_too_much, 0.0, _STRONGEST)) if not_too_much(0.0) else of(0.0)
    return min(low, observed), max(high, observed)


@dataclass(frozen=True)
class ConceptAssociation:
    """TIBET's concept association score of two sets of images; see `concept_association`.

    ``p`` is the share of deals of all images to two sets that differ as much, ``null`` the mean score over them. At 1
    the counterfactual changes nothing; ``q`` is for the caller, who knows the family.
    """

    value: float
    low: float
    high: float
    null: float
    p: float
    p_error: float
    n_initial: int
    n_counterfactual: int
    q: float = nan
    reason: str = ""


def concept_association(
    initial: ArrayLike,
    counterfactual: ArrayLike,
    *,
    permutations: int = 9_999,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = 0,
) -> ConceptAssociation:
    """Return TIBET's concept association score of a prompt and its counterfactual, in [0, 1]; 1: the same concepts.

    ::

        CAS = Σ_i min(h_i, g_i) / Σ_i max(h_i, g_i)        h, g: shares of what was named in the images of both

    Chinchure et al. (2024), *TIBET*, as their code computes it: the intersection over union of the histograms of what a
    reader names in the images of the initial prompt and of a counterfactual one. The code divides both histograms by
    their sums, and so do we. With ``D = ½ Σ |h − g|`` it is ``(1 − D)/(1 + D)``.

    Two samples of one distribution overlap by less than 1: ``null`` says by how much. p permutes whole images between
    both sets, so what one image is asked several times over counts once. The interval is the ball of ``h − g`` that its
    bootstrap over images needs, by the triangle inequality: it covers at least as often, also near 1.

    Parameters
    ----------
    initial, counterfactual : (n, K) and (m, K): how often each image's answers name each of K concepts, 0 or more.

    Raises
    ------
    InvalidInputError
        Shapes that do not fit, or negative numbers.
    """
    first, second = (np.asarray(each, np.float64) for each in (initial, counterfactual))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise InvalidInputError.wrong_shape(
            f"expected (n × K) and (m × K), found {first.shape} and {second.shape}", field=("initial", "counterfactual")
        )
    if not (first >= 0).all() or not (second >= 0).all():  # NaN is neither
        raise InvalidInputError.out_of_range("expected counts, 0 or more", field=("initial", "counterfactual"))
    require_count("permutations", permutations)
    require_confidence(confidence)
    n, m = len(first), len(second)
    if n < 2 or m < 2 or not first.any() or not second.any():
        reason = "fewer than two images of one of both" if min(n, m) < 2 else "no concept is named in one of both"
        return ConceptAssociation(nan, nan, nan, nan, nan, nan, n, m, reason=reason)
    rng = generator(rng)

    def shares(sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums / np.maximum(sums.sum(axis=-1, keepdims=True), 1e-300))

    h, g = shares(first.sum(axis=0)), shares(second.sum(axis=0))
    distance = float(np.abs(h - g).sum() / 2)
    pool = np.concatenate([first, second])
    taken = np.zeros((permutations, n + m))
    taken[:, :n] = 1
    taken = rng.permuted(taken, axis=1)
    apart = np.abs(shares(taken @ pool) - shares((1 - taken) @ pool)).sum(axis=1) / 2
    p, error, _, _ = sampled_p_value(np.array([(apart >= distance - 1e-12).sum()]), permutations)
    drawn = [
        shares(rao_wu_weights([len(own)], permutations, rng) @ own) - share
        for own, share in ((first, h), (second, g))
    ]  # fmt: skip
    ball = ball_interval(np.asarray(distance), np.abs(drawn[0] - drawn[1]).sum(axis=1) / 2, confidence)

    def score(d: float) -> float:
        return (1 - min(d, 1.0)) / (1 + min(d, 1.0))

    return ConceptAssociation(
        score(distance), score(float(ball.high)), score(float(ball.low)), float(((1 - apart) / (1 + apart)).mean()),
        float(p[0]), float(error[0]), n, m,
    )  # fmt: skip
