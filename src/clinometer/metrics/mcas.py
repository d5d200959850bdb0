"""MCAS: four association scores of one target, in the image and the text modality, and their sum.

Mandal, Leavy & Little, *Multimodal Composite Association Score* (eq. 1 and 2), and *Generated Bias* (eq. 4
and 5) for diffusion bias and bias amplification, which are functions of the same four numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from types import MappingProxyType

import numpy as np
from array_api_compat import array_namespace

from clinometer.metrics.internal import signed_bias_amplification, signed_diffusion_bias
from clinometer.stats.association import (
    Array,
    as_numpy,
    association_scores,
    is_of_another_library,
    numbers_together,
    rounding_of,
)

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
    """MCAS of one target from embeddings (rows) of one encoder.

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
    """All rows of a batch of sets (… × rows × dim), one after another; a set as it is."""
    x = x if is_of_another_library(x) else as_numpy(x)
    return array_namespace(x).reshape(x, (-1, x.shape[-1])) if len(x.shape) > 2 else x


def _exact(x: Array) -> Array:
    """Embeddings in float64, or as near to it as their device goes; their gradient is in their own precision."""
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
    """II, ITP, ITA, TT from mean cosines: ``C[…, target, modality, A] − C[…, target, modality, B]``."""
    difference: np.ndarray = tensor[..., a] - tensor[..., b]
    return difference


def composite(tensor: np.ndarray, a: int, b: int) -> np.ndarray:
    """MCAS from mean cosines (… × target × modality × group): the sum of the four components."""
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
