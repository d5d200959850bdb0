"""MCAS and what is computed from its parts: four association scores of one target, and their sum.

MCAS: Mandal, Leavy & Little, *Multimodal Composite Association Score* (eq. 1 and 2). Internal bias, what the diffusion
stage adds to the text encoder's own leaning: *Generated Bias: Auditing Internal Bias Dynamics of Text-To-Image
Generative Models* (eq. 4 and 5); the curve of one on the other is LOESS with a confidence band, by Cleveland's own code
(scikit-misc). xMCAS, MCAS and the similarity to a third group as a point on a plane: *eXtended Multimodal Composite
Association Score* (eq. 4 and 5, figure 2).

All functions work elementwise on arrays of components, of numpy or of any library of the Array API standard: a torch
tensor keeps its gradient and its device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from numbers import Real
from types import MappingProxyType

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike
from skmisc.loess import loess

from clinometer.errors import InvalidInputError
from clinometer.stats.association import (
    Array,
    as_numpy,
    association_scores,
    is_of_another_library,
    numbers_together,
    rounding_of,
)

ROUNDING = 1e-12
"""By how much a difference of two mean cosines may miss 0 in float64 and be 0."""


def signed_diffusion_bias(ii: Array, tt: Array) -> Array:
    """``|II| − |TT|``, in [−2, 2]; positive: images lean more than the text encoder. δ is its magnitude."""
    xp, (ii, tt) = numbers_together(ii=ii, tt=tt)
    return xp.abs(ii) - xp.abs(tt)


def diffusion_bias(ii: Array, tt: Array) -> Array:
    """Return the diffusion bias ``δ = ||II| − |TT||`` (eq. 4), in [0, 2]; it says how much, not which way."""
    return abs(signed_diffusion_bias(ii, tt))


def signed_bias_amplification(itp: Array, ita: Array, tt: Array, *, rounding: float = ROUNDING) -> Array:
    """``(ITP + ITA) / (2 TT)``; negative: text–image and text–text lean opposite ways; NaN at TT = 0.

    ``rounding`` is how far from 0 a TT still is 0. See decision 4.
    """
    xp, (itp, ita, tt) = numbers_together(itp=itp, ita=ita, tt=tt)
    defined = xp.abs(tt) > rounding
    # Divided by 1 where it is undefined, so that no gradient is NaN for what the result leaves out.
    return xp.where(defined, (itp + ita) / (2 * xp.where(defined, tt, xp.ones_like(tt))), xp.nan)


def bias_amplification(itp: Array, ita: Array, tt: Array, *, rounding: float = ROUNDING) -> Array:
    """Return the bias amplification ``α = |(ITP + ITA) / (2 TT)|`` (eq. 5), from 0 up; NaN at TT = 0.

    Above 1, text-to-image leans more than text alone. It explodes near TT = 0. ``rounding`` as in the signed form.
    """
    return abs(signed_bias_amplification(itp, ita, tt, rounding=rounding))


def aligned_diffusion_bias(ii: np.ndarray, tt: np.ndarray, sign_ii: np.ndarray, sign_tt: np.ndarray) -> np.ndarray:
    """``|II| − |TT|`` of bootstrap draws, with the signs of the estimates: ``sign(ÎI)·II* − sign(T̂T)·TT*``.

    Draws of ``|II*|`` cannot reach below 0, so at II = 0 their percentiles never cover the truth. With the
    sign held, draws scatter evenly; and since ``||x̂| − |x|| ≤ |x̂ − x|`` (reverse triangle inequality), a
    symmetric interval that covers x around x̂ covers |x| around |x̂| at least as often.
    """
    return np.asarray(sign_ii * ii - sign_tt * tt)


def delta_alpha_curve(delta: ArrayLike, alpha: ArrayLike) -> SmoothCurve:
    """Return the LOESS curve of bias amplification on diffusion bias (figures 3, 4), without targets that are NaN."""
    return loess_curve(np.asarray(delta), np.asarray(alpha))


_FEWEST_POINTS = 8  # below it a local line rests on fewer than six points at the usual span


@dataclass(frozen=True)
class SmoothCurve:
    """A fitted curve at the points ``x`` with its pointwise band; empty, with a reason, without a fit."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reason: str = ""


def loess_curve(
    x: np.ndarray, y: np.ndarray, *, span: float = 0.75, n_points: int = 60, confidence: float = 0.95
) -> SmoothCurve:
    """Return the local linear fit of y on x (Cleveland & Devlin 1988), on an even grid over the range of x.

    Pairs with a NaN are left out.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    is_finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[is_finite], y[is_finite]
    if len(np.unique(x)) < _FEWEST_POINTS:
        return _no_curve(f"{len(np.unique(x))} distinct points; a local fit needs {_FEWEST_POINTS}")
    grid = np.linspace(x.min(), x.max(), n_points)
    try:
        model = loess(x, y, span=span, degree=1)
        model.fit()
        prediction = model.predict(grid, stderror=True)
        band = prediction.confidence(alpha=1 - confidence)
    except ValueError as error:
        return _no_curve(f"the local fit is singular: {error}")
    return SmoothCurve(grid, np.array(prediction.values), np.array(band.lower), np.array(band.upper))


def _no_curve(reason: str) -> SmoothCurve:
    nothing = np.empty(0)
    return SmoothCurve(nothing, nothing, nothing, nothing, reason)


MODALITIES = ("ii", "itp", "ita", "tt")
"""Target–attribute pairs: image–image, prompt–image, image–word, prompt–word."""

IMAGE_PART = "image_part"
"""II + ITA, in [−4, 4]: what a target's pictures lean. Headlines and verdicts of a run are of this."""

TEXT_PART = "text_part"
"""ITP + TT, in [−4, 4]: what the text encoder makes of the prompt. No picture of the target enters it."""

COMPONENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {name: (name,) for name in MODALITIES} | {IMAGE_PART: ("ii", "ita"), TEXT_PART: ("itp", "tt"), "mcas": MODALITIES}
)
"""Every score of the family and the modalities it is the sum of."""


@dataclass(frozen=True)
class Mcas:
    """The four association scores of a target and what follows from them; positive leans to A.

    Floats; of a batch of targets arrays (…,); of torch tensors 0-dimensional or batched tensors with their gradient.

    ``ii``, ``itp``, ``ita``, ``tt`` in [−2, 2]; ``mcas`` their sum, in [−8, 8]. ``diffusion_bias`` and
    ``bias_amplification`` are non-negative, their signed forms keep the direction. What cannot be computed is
    NaN, and ``reason`` says why.
    """

    ii: Array
    itp: Array
    ita: Array
    tt: Array
    mcas: Array
    diffusion_bias: Array
    signed_diffusion_bias: Array
    bias_amplification: Array
    signed_bias_amplification: Array
    reason: str = ""


def mcas(
    *,
    target_images: Array | None,
    target_texts: Array | None,
    images_a: Array | None,
    images_b: Array | None,
    texts_a: Array | None,
    texts_b: Array | None,
) -> Mcas:
    """Return MCAS of one target from embeddings (rows) of one encoder.

    ::

        II  = mean_{w ∈ target images} s(w, images A, images B)
        ITP = mean_{w ∈ target texts}  s(w, images A, images B)
        ITA = mean_{w ∈ target images} s(w, texts A, texts B)
        TT  = mean_{w ∈ target texts}  s(w, texts A, texts B)
        MCAS = II + ITP + ITA + TT

    The targets may be batches (… × rows × dim), which share the attributes and give arrays (…,). Arrays of another
    library of the Array API standard, such as torch's, give arrays of that library, in float64 whatever the embeddings
    are in, with the gradient to the embeddings: MCAS is a loss (docs/training.md).

    An argument that is ``None`` leaves the components that need it NaN, and with them every number made of
    them. Bias amplification is NaN where TT is 0, or as near to it as the texts' precision can tell.

    Raises
    ------
    InvalidInputError
        As :func:`clinometer.stats.association.association_scores`.

    Examples
    --------
    >>> import numpy as np
    >>> man, woman = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    >>> result = mcas(target_images=man, target_texts=man + woman, images_a=man, images_b=woman,
    ...               texts_a=man, texts_b=woman)
    >>> result.ii, result.itp, result.ita, result.tt, result.mcas
    (1.0, 0.0, 1.0, 0.0, 2.0)
    >>> result.bias_amplification, result.reason
    (nan, 'TT is 0: bias amplification divides by it')
    """
    ii = _mean_association(target_images, images_a, images_b)
    itp = _mean_association(target_texts, images_a, images_b)
    ita = _mean_association(target_images, texts_a, texts_b)
    # in float64, whatever the texts are in: a ratio divides by it, and float16 sums miss 0 by more than its input does
    tt = _mean_association(*(None if x is None else _exact(x) for x in (target_texts, texts_a, texts_b)))
    arguments = {
        "target_images": target_images, "target_texts": target_texts, "images_a": images_a,
        "images_b": images_b, "texts_a": texts_a, "texts_b": texts_b,
    }  # fmt: skip
    missing = [name for name, value in arguments.items() if value is None]
    reason = f"not given: {', '.join(missing)}" if missing else ""
    rounding = rounding_of(_rows(value) for name, value in arguments.items() if "texts" in name and value is not None)
    xp, (ii, itp, ita, tt) = numbers_together(ii=ii, itp=itp, ita=ita, tt=tt)
    if not reason and bool(xp.any(xp.abs(tt) <= rounding)):
        reason = "TT is 0: bias amplification divides by it"
    signed_delta = signed_diffusion_bias(ii, tt)
    signed_alpha = signed_bias_amplification(itp, ita, tt, rounding=rounding)
    numbers = {
        "ii": ii, "itp": itp, "ita": ita, "tt": tt, "mcas": ii + itp + ita + tt,
        "diffusion_bias": abs(signed_delta), "signed_diffusion_bias": signed_delta,
        "bias_amplification": abs(signed_alpha), "signed_bias_amplification": signed_alpha,
    }  # fmt: skip
    if xp is np and not numbers["mcas"].ndim:
        numbers = {name: float(number) for name, number in numbers.items()}
    return Mcas(**numbers, reason=reason)


def _mean_association(targets: Array | None, a: Array | None, b: Array | None) -> Array:
    """Average a target's rows, or each target's of a batch (… × rows × dim); NaN where a set is missing."""
    if targets is None or a is None or b is None:
        return nan
    arrays = [x if is_of_another_library(x) else as_numpy(x) for x in (targets, a, b)]
    if any(is_of_another_library(x) for x in arrays):
        arrays = [_exact(x) if is_of_another_library(x) else x for x in arrays]
    scores = association_scores(_rows(arrays[0]), *arrays[1:])
    xp = array_namespace(scores)
    scores = xp.reshape(scores, tuple(arrays[0].shape[:-1]))
    mean = xp.mean(scores, axis=-1) if xp is not np else np.mean(scores, axis=-1, dtype=np.float64)
    return mean if is_of_another_library(mean) else np.where(np.isfinite(mean), mean, nan)


def _rows(x: Array) -> Array:
    """Return all rows of a batch of sets (… × rows × dim), one after another; a set as it is."""
    x = x if is_of_another_library(x) else as_numpy(x)
    return array_namespace(x).reshape(x, (-1, x.shape[-1])) if len(x.shape) > 2 else x


def _exact(x: Array) -> Array:
    """Return embeddings in float64, or as near to it as their device goes; their gradient is in their own precision."""
    if not is_of_another_library(x):
        vectors = as_numpy(x)
        return vectors.astype(np.float64) if vectors.dtype.kind == "f" else vectors
    xp = array_namespace(x)
    if not xp.isdtype(x.dtype, "real floating"):
        return x
    try:
        return xp.astype(x, xp.float64)
    except TypeError:  # Apple's GPUs know no float64
        return xp.astype(x, xp.float32)


def components(tensor: np.ndarray, a: int, b: int) -> np.ndarray:
    """Return II, ITP, ITA, TT from mean cosines: ``C[…, target, modality, A] − C[…, target, modality, B]``."""
    difference: np.ndarray = tensor[..., a] - tensor[..., b]
    return difference


def composite(tensor: np.ndarray, a: int, b: int) -> np.ndarray:
    """Return MCAS from mean cosines (… × target × modality × group): the sum of the four components."""
    ii, itp, ita, tt = np.moveaxis(components(tensor, a, b), -1, 0)
    total: np.ndarray = ii + itp + ita + tt  # numpy sums an axis of four in this order, and four times slower
    return total


def component_of(tensor: np.ndarray, a: int, b: int, name: str) -> np.ndarray:
    """Compute one of :data:`COMPONENTS`, the sum of its modalities."""
    parts = components(tensor, a, b)
    return np.asarray(sum(parts[..., MODALITIES.index(modality)] for modality in COMPONENTS[name]))


def group_similarity(tensor: np.ndarray) -> np.ndarray:
    """``c_g``: mean over the four modalities of the mean cosine of a target to group g; (… × target × group).

    ``MCAS(A, B) = 4 (c_A − c_B)``: both sides are the sum over the four modalities of C[m, A] − C[m, B],
    since c is that sum over 4 for either group.
    """
    ii, itp, ita, tt = np.moveaxis(tensor, -2, 0)
    mean: np.ndarray = (ii + itp + ita + tt) / 4  # numpy sums an axis of four in this order, and four times slower
    return mean


CENTROID = (1 / 3, 0.0)
"""(similarity, MCAS) of an unbiased target: the centre of the triangle (0, 1), (0, −1), (1, 0)."""

UNBIASED_ANGLE = float(np.arctan2(1 / 3, 1))
"""Angle of the centroid: atan2(1/3, 1) = 0.32175 rad = 18.43°. (The paper prints 0.17, which is wrong.)"""

UNDEFINED = "mcas, similarity or offset is not defined"
AT_ORIGIN = "angle: similarity and 1 − |MCAS| + offset are both 0, which is no direction"

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Xmcas:
    """A target on the xMCAS plane: polar form ``±mcas ∠ angle`` (radians), Euclidean form ``distance``."""

    mcas: Array
    similarity: Array
    angle: Array
    distance: Array
    reason: str = ""


def xmcas(
    *,
    mcas: Array,
    similarity: Array,
    offset: Array = 0.0,
    centroid: tuple[float, float] = CENTROID,
) -> Xmcas:
    """Return the polar and Euclidean form of xMCAS, for one target or for arrays of targets.

    Arrays of any library of the Array API standard: a torch tensor keeps its gradient and its device.

    ::

        θ = atan2(c, 1 − |MCAS| + k)          o-d = ‖(c, MCAS) − centroid‖

    c is the target's similarity to the third group (mean cosine over the four modality pairs), k the offset
    (minus the mean MCAS of the third group's own concepts). A large θ means near to the third group; the
    distance says how far the target is from (1/3, 0), in no direction.

    ``centroid=(0, 1/3)`` reproduces the column the paper prints: it was computed with the axes of the
    centroid swapped.

    The angle is NaN where c and 1 − |MCAS| + k are both 0: the origin lies in no direction.

    Raises
    ------
    InvalidInputError
        Not a number, shapes that do not match, arrays of several libraries, or a centroid that is not a point.

    Examples
    --------
    >>> unbiased = xmcas(mcas=0.0, similarity=1 / 3)
    >>> round(unbiased.angle, 5), unbiased.distance
    (0.32175, 0.0)
    """
    xp, (m, c, k) = numbers_together(mcas=mcas, similarity=similarity, offset=offset)
    try:
        np.broadcast_shapes(m.shape, c.shape, k.shape)
    except ValueError:
        names = ("mcas", "similarity", "offset")
        raise InvalidInputError.expected_shape("shapes that match", m, c, k, field=names) from None
    if np.shape(centroid) != (2,) or not all(isinstance(x, Real) and isfinite(x) for x in centroid):
        raise InvalidInputError.not_finite(
            f"expected two finite numbers (similarity, MCAS), found {centroid!r}", field="centroid"
        )
    m, c, k = (xp.where(xp.isfinite(x), x, xp.nan) for x in (m, c, k))
    rest = 1 - xp.abs(m) + k
    origin = (xp.abs(c) <= _ROUNDING) & (xp.abs(rest) <= _ROUNDING)
    angle = xp.where(origin, xp.nan, xp.atan2(c, xp.where(origin, xp.ones_like(rest), rest)))
    along, across = c - centroid[0], m - centroid[1]
    squares = along * along + across * across
    # The root has no slope at the centroid itself; left as it is there, the distance is 0 and its gradient too.
    distance = xp.where(squares > 0, xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares))), squares)
    reason = "" if bool(xp.all(xp.isfinite(m + c + k))) else UNDEFINED
    reason = reason or (AT_ORIGIN if bool(xp.any(origin)) else "")
    if xp is np and angle.ndim == 0:
        return Xmcas(float(m), float(c), float(angle), float(distance), reason)
    return Xmcas(m, c, angle, distance, reason)
