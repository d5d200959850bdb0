"""Do a reader's errors carry over from the pictures that are known to those that it is asked about?

Errors measured on one kind of pictures correct the shares of another only where the reader sees both alike. Nobody can
compare the errors without labels; what the reader shows of itself can be: whether it reads a picture at all, how sure
it is, how large the thing is that it read, and the vectors of an encoder. With a measure cut into B classes, y_b of the
asked and L[k, b] of the known pictures of group k, the hypothesis of "alike" is

    y ~ Multinomial(n, Σ_k π_k M[k])      L[k] ~ Multinomial(m_k, M[k])      π whatever it may be

so a composition that differs is no difference. Its deviance is the test (:func:`mixture_deviance`), with known contexts
as far apart as they are.

Vectors of an encoder are cut into classes of pictures that look alike (k-means), and tell two things: whether the asked
pictures fall into them as the known do, with p as above; and whether the reader errs differently from class to class,
with the classes permuted among the known pictures of a group::

    T = Σ_k Σ_b Σ_r (L[k, b, r] − E[k, b, r])² / E[k, b, r]      r the answers, E[k, b, r] = L[k, b, ·] L[k, ·, r] / m_k

Pictures that merely look different need not be misread: known pictures are unlike by their looks only where both are
shown, so p is the larger of the two (an intersection–union test).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import nan
from typing import Final, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.confusion import Kinds, mixture_deviance
from clinometer.stats.multiplicity import holm

UNLIKE_LEVEL: Final = 0.01
"""Holm's p of the measures below which known and asked pictures are called unlike."""

SEEN: Final = 0.25
"""A difference of shares that had to be seen with power .8 at the 5 % level where pictures are called alike."""

MOST_CLASSES: Final = 4
PER_CLASS: Final = 5
"""Classes into which a measure is cut, at most, and asked pictures that each is to have."""

PERMUTATIONS: Final = 1_999
"""Permutations of the classes among the known pictures of a group."""

UNREAD, SURE, SIZE, VECTORS = "unread", "confidence", "size", "vectors"

Alike = Literal["like", "unlike", "cannot tell"]


@dataclass(frozen=True)
class ReadPictures:
    """A reader's output for n pictures.

    Attributes
    ----------
    answers : (n,) a group from 0, or K where there is no answer among the groups.
    confidence : (n,) the probability that it gives its answer, NaN where none; None of a reader that gives none.
    size : (n,) the share of the picture that what it read covers, such as a face; NaN, or None, likewise.
    vectors : (n, d) of an image encoder; None where there are none.
    contexts : (n,) or (n, L) of which kind each is, in one respect or several, such as its concept, or the model that
        drew it and its concept; None is one context.
    """

    answers: np.ndarray
    confidence: np.ndarray | None = None
    size: np.ndarray | None = None
    vectors: np.ndarray | None = None
    contexts: np.ndarray | None = None

    def where(self, chosen: np.ndarray) -> ReadPictures:
        """Return those that ``chosen`` (n,) marks."""
        return ReadPictures(*(None if (own := getattr(self, each.name)) is None else np.asarray(own)[chosen]
                              for each in fields(self)))  # type: ignore[arg-type]  # fmt: skip

    def counts(self, groups: int) -> np.ndarray:
        """Return (K + 1,) counts of the answers."""
        return np.bincount(np.asarray(self.answers, int), minlength=groups + 1)


def number_kinds(known: ReadPictures, asked: ReadPictures) -> tuple[np.ndarray, Kinds]:
    """Number the contexts of known pictures (n,) from 0, and name the kinds of these and of the asked pictures.

    Raises
    ------
    InvalidInputError
        Contexts in other numbers of respects.
    """
    if known.contexts is None or not len(known.answers):
        return np.zeros(len(known.answers), int), Kinds(np.full((1, 1), ""))
    own, others = (None if each.contexts is None else _respects(each.contexts) for each in (known, asked))
    assert own is not None
    if others is not None and others.shape[1] != own.shape[1]:
        raise InvalidInputError.wrong_shape(
            f"expected {own.shape[1]} columns as of the known pictures, found {others.shape[1]}",
            field=("asked", "contexts"),
        )
    names, place = np.unique(own, axis=0, return_inverse=True)
    return place.ravel(), Kinds(names, others)


def _respects(contexts: ArrayLike) -> np.ndarray:
    names = np.asarray(contexts, str)
    return names[:, None] if names.ndim == 1 else names


def count_by_kind(
    known: ReadPictures, truths: ArrayLike, asked: ReadPictures, *, groups: int
) -> tuple[np.ndarray, Kinds]:
    """Count the answers to known pictures, (contexts, K, K + 1), and name the kinds of these and of the asked."""
    place, kinds = number_kinds(known, asked)
    tables = np.zeros((len(kinds.known), groups, groups + 1), int)
    np.add.at(tables, (place, np.asarray(truths, int), np.asarray(known.answers, int)), 1)
    return tables, kinds


@dataclass(frozen=True)
class Likeness:
    """One measure of asked and known pictures: their means (NaN of vectors), p that they are alike, and by how many.

    ``p_errors`` : of vectors, p that known pictures are read alike whatever they look like; NaN of other measures.
    """

    measure: str
    asked: float
    known: float
    p: float
    n_asked: int
    n_known: int
    p_errors: float = nan

    @property
    def p_unlike(self) -> float:
        """The p-value that known and asked pictures are alike by this measure."""
        return self.p if self.measure != VECTORS else max(self.p, self.p_errors)


@dataclass(frozen=True)
class Transport:
    """The verdict on whether a reader's errors carry over (``like``, ``unlike``, ``cannot tell``) and its reason."""

    answer: Alike
    tests: tuple[Likeness, ...]
    p: float
    reason: str


def transport(asked: ReadPictures, known: ReadPictures, truths: ArrayLike, *, groups: int) -> Transport:
    """Ask whether known and asked pictures are alike to a reader.

    *Unlike* where a measure of what the reader does (unread, confidence, size) differs at Holm's p < .01, or where the
    pictures look different to an encoder in a way in which the known ones are misread differently. *Like* where none
    differs, Holm's p ≥ .05, the vectors neither, and each measure had pictures enough for a difference of .25 of a
    share to be seen. Else nobody can tell: pictures of another concept look different whether or not the reader errs
    differently there.

    Parameters
    ----------
    truths : (n,) the group of each known picture, from 0.

    Examples
    --------
    Of portraits a reader misses one in a hundred, of scenes the half:

    >>> portraits = ReadPictures(np.repeat([0, 1, 2], [100, 98, 2]))
    >>> scenes = ReadPictures(np.repeat([0, 1, 2], [20, 10, 30]))
    >>> found = transport(scenes, portraits, np.repeat([0, 1], 100), groups=2)
    >>> found.answer, found.reason
    ('unlike', '50 % of these pictures are unread, and 1 % of the known ones')
    """
    true = np.asarray(truths, int)
    for name, pictures in (("asked", asked), ("known", known)):
        for each in (pictures.confidence, pictures.size, pictures.vectors, pictures.contexts):
            if each is not None and len(each) != len(pictures.answers):
                raise InvalidInputError.wrong_shape(
                    f"expected one of each a picture, {len(pictures.answers)}", field=name
                )
    if true.shape != np.shape(known.answers):
        raise InvalidInputError.wrong_shape(f"expected one of each known picture, {len(known.answers)}", field="truths")
    if not len(asked.answers) or not len(true):
        return Transport("cannot tell", (), nan, "there is no picture to compare")
    contexts, kinds = number_kinds(known, asked)
    tests = []
    for measure in (UNREAD, SURE, SIZE, VECTORS):
        classes = _classes(measure, asked, known, groups)
        if classes is None:
            continue
        mine, theirs, means = classes
        size = int(max(mine.max(), theirs.max())) + 1
        tables = np.zeros((len(kinds.known), groups, size))
        has = theirs >= 0
        np.add.at(tables, (contexts[has], true[has], theirs[has]), 1)
        y = np.bincount(mine[mine >= 0], minlength=size)
        tables = tables[:, tables.sum(axis=(0, 2)) > 0]
        deviance, worth = mixture_deviance(y, tables, kinds)
        p = float(scipy.stats.chi2.sf(deviance, size - 1)) if size > 1 else 1.0
        of_errors = nan
        if measure == VECTORS:  # where pictures look alike, how they are misread says nothing
            answers = np.asarray(known.answers, int)[has]
            of_errors = _errors_p_value(true[has], theirs[has], answers) if p < UNLIKE_LEVEL else 1.0
        tests.append(Likeness(measure, *means, p, int(y.sum()), int(worth), of_errors))
    return _conclude(tests)


def _errors_p_value(truths: np.ndarray, classes: np.ndarray, answers: np.ndarray) -> float:
    """Find p that pictures of one group are answered alike in all classes: T of the module, classes permuted."""
    rng, total = np.random.default_rng(17), np.zeros(PERMUTATIONS + 1)
    for group in np.unique(truths):
        own = truths == group
        said = np.eye(answers.max() + 1)[answers[own]]
        orders = rng.permuted(np.tile(classes[own], (PERMUTATIONS + 1, 1)), axis=1)
        orders[0] = classes[own]
        for each in np.unique(orders[0]):
            of_class = orders == each
            expected = of_class[0].sum() * said.mean(axis=0)
            differences = np.square(of_class @ said - expected)
            total += np.divide(differences, expected, out=np.zeros_like(differences), where=expected > 0).sum(axis=1)
    return float(np.mean(total >= total[0] - 1e-9 * max(total[0], 1)))


def _classes(
    measure: str, asked: ReadPictures, known: ReadPictures, groups: int
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]] | None:
    """Cut a measure into classes, −1 where a picture has none, the same of asked and known; and the means of both."""
    if measure == UNREAD:
        mine, theirs = (np.asarray(each.answers) == groups for each in (asked, known))
        return mine.astype(int), theirs.astype(int), (float(mine.mean()), float(theirs.mean()))
    both = [{SURE: each.confidence, SIZE: each.size, VECTORS: each.vectors}[measure] for each in (asked, known)]
    if any(each is None for each in both):
        return None
    values = [np.asarray(each, np.float64).reshape(len(each), -1) for each in both]  # type: ignore[arg-type]
    has = [np.asarray(np.isfinite(each).all(axis=1)) for each in values]
    if not (has[0].any() and has[1].any()):
        return None
    classes = min(max(int(has[0].sum()) // PER_CLASS, 2), MOST_CLASSES)
    pooled = np.concatenate([each[own] for each, own in zip(values, has, strict=True)])
    if measure == VECTORS:
        unit = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        _, cut = scipy.cluster.vq.kmeans2(unit, min(classes, len(unit)), minit="++", rng=np.random.default_rng(17))
        means = nan, nan
    else:
        # quantiles of the asked and of the known with equal weight, so that few asked pictures move them, too
        one = [np.quantile(each[own], np.linspace(0, 1, 101)) for each, own in zip(values, has, strict=True)]
        edges = np.unique(np.quantile(np.concatenate(one), np.linspace(0, 1, classes + 1)[1:-1]))
        cut = np.searchsorted(edges, pooled[:, 0], side="right")
        means = float(values[0][has[0]].mean()), float(values[1][has[1]].mean())
    cut = np.unique(cut, return_inverse=True)[1]
    mine, theirs = (np.full(len(each), -1) for each in values)
    first = int(has[0].sum())
    mine[has[0]], theirs[has[1]] = cut[:first], cut[first:]
    return mine, theirs, means


def _conclude(tests: list[Likeness]) -> Transport:
    unlike, differ = (holm(np.array([getattr(each, name) for each in tests])) for name in ("p_unlike", "p"))
    most = int(np.argmin(unlike))
    p = float(unlike[most])
    if p < UNLIKE_LEVEL:
        return Transport("unlike", tuple(tests), p, _differ(tests[most]))
    if differ.min() < 0.05:
        return Transport("cannot tell", tuple(tests), p, _differ(tests[int(np.argmin(differ))]))
    z = float(scipy.stats.norm.ppf(0.975) + scipy.stats.norm.ppf(0.8))
    enough = (SEEN / z) ** 2 / 0.25
    if any(not each.n_known or 1 / each.n_asked + 1 / each.n_known > enough for each in tests):
        return Transport("cannot tell", tuple(tests), p, "too few pictures to see a difference of a quarter of them")
    return Transport("like", tuple(tests), p, "no difference was seen that these pictures would have shown")


def _differ(each: Likeness) -> str:
    """Describe what differs."""
    asked, known = each.asked, each.known
    if each.measure == UNREAD:
        return f"{100 * asked:.0f} % of these pictures are unread, and {100 * known:.0f} % of the known ones"
    if each.measure == SIZE:
        return f"what is read covers {100 * asked:.1f} % of these pictures, and {100 * known:.1f} % of the known ones"
    if each.measure == SURE:
        return f"the reader is not as sure: {asked:.2f} on average of these pictures, {known:.2f} of the known ones"
    different = "these pictures and the known ones look different to the encoder"
    return (
        different
        if each.p_errors >= UNLIKE_LEVEL
        else f"{different}, and it is by their looks that known ones are misread"
    )
