"""The diffusion model as a classifier: which profession it takes a portrait for, group against group.

Saravanan et al. (2023), *Exploring Social Bias in Downstream Applications of Text-to-Image Foundation Models*, eq. 1–3.
"""

from __future__ import annotations

from math import nan

import numpy as np
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError


def pairwise_wins(errors_a: ArrayLike, errors_b: ArrayLike, tolerance: float = 0.0) -> np.ndarray:
    """Decide every pair of classes from each class's error, for each image: (images × |A| × |B|) float64.

    ::

        c(x | {a, b}) = argmin of the two mean denoising errors      (eq. 1)

    1 where a has the smaller error, 0 where b has, ½ where they differ by no more than ``tolerance`` times the smaller
    (a tie: each would be chosen half the time), NaN where an error is NaN. So one pass over |A| + |B| classes decides
    |A|·|B| pairs.

    Parameters
    ----------
    errors_a, errors_b : (images × classes) mean errors; the smaller fits better.
    tolerance : relative difference that counts as a tie: set it to what batch size and rounding may move.

    Examples
    --------
    >>> pairwise_wins([[0.1, 0.3]], [[0.2, 0.3]])
    array([[[1. , 1. ],
            [0. , 0.5]]])
    """
    a, b = np.asarray(errors_a, np.float64), np.asarray(errors_b, np.float64)
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b):
        raise InvalidInputError.wrong_shape(
            f"expected (images × classes) of the same images, found {a.shape} and {b.shape}",
            field=("errors_a", "errors_b"),
        )
    return decide(a[:, :, None], b[:, None, :], tolerance)


def decide(error_a: np.ndarray, error_b: np.ndarray, tolerance: float) -> np.ndarray:
    """Decide pair by pair, as :func:`pairwise_wins` does, between errors of any shapes that broadcast."""
    advantage = error_b - error_a
    tied = np.abs(advantage) <= tolerance * np.minimum(error_a, error_b)
    return np.asarray(0.5 + 0.5 * np.sign(np.where(tied, 0.0, advantage)))


def image_associations(wins: ArrayLike) -> np.ndarray:
    """Return each image's mean over its pairs, without undecided ones: (images × |A| × |B|) → (images,) in [0, 1].

    NaN for an image of which no pair is decided.

    Raises
    ------
    InvalidInputError
        Another shape, no class in a set, or a value outside of [0, 1].
    """
    values = np.asarray(wins, np.float64)
    if values.ndim != 3 or 0 in values.shape[1:]:
        raise InvalidInputError.expected_shape("(images × |A| × |B|)", values, field="wins")
    if ((values < 0) | (values > 1)).any():
        raise InvalidInputError.out_of_range(
            "expected 1 for a, 0 for b, 0.5 for a tie or NaN for undecided", field="wins"
        )
    decided = np.isfinite(values)
    counts = decided.sum(axis=(1, 2))
    total = np.where(decided, values, 0.0).sum(axis=(1, 2))
    return np.asarray(np.divide(total, counts, out=np.full(len(values), nan), where=counts > 0))


def choice_association(wins: ArrayLike) -> float:
    """Return the association of images with A rather than B, by forced choices between one of each.

    ::

        S(D, A, B) = mean_{x∈D} mean_{(a,b)∈A×B} [c(x | {a, b}) = a]        in [0, 1]      (eq. 2)

    ½: neither; above: the images go to A. It is no bias by itself, as A may suit every image better: compare groups.

    Parameters
    ----------
    wins : (images × |A| × |B|) 1 (or true) where a was chosen, 0 where b was, ½ for a tie. NaN is undecided: such
        pairs are left out of their image's mean, and an image without a decided pair is left out of the mean over
        images. NaN if nothing is left.

    Raises
    ------
    InvalidInputError
        Another shape, no class in a set, or a value outside of [0, 1].

    Examples
    --------
    >>> choice_association([[[1, 1], [0, 0.5]], [[1, 0], [1, 0]]])
    0.5625
    """
    per_image = image_associations(wins)
    associations = per_image[np.isfinite(per_image)]
    return float(associations.mean()) if len(associations) else nan
