"""Association of targets with two attribute sets: the common root of WEAT, SEAT, iEAT and MCAS.

Notation: ``x̂ = x / ‖x‖``. Embeddings are rows. A mean of unit vectors is *not* normalised again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_torch_array

from clinometer._cores import available_cores
from clinometer.errors import InvalidInputError

Array: TypeAlias = Any  # any array of the Array API standard: numpy, torch, jax, cupy…

# Rows handled at a time: 1,024 rows of 512 float32 are 2 MiB, so the second look at them is served by the
# cache.
_CHUNK_ROWS = 1024
_SPANS_PER_WORKER = 8
_PARALLEL_FROM = 1 << 20  # numbers; below it, starting threads costs more than it saves


def association_scores(targets: Array, a: Array, b: Array) -> Array:
    """Return the association of every target with attribute set A against attribute set B.

    ::

        s(w, A, B) = mean_{a∈A} cos(w, a) − mean_{b∈B} cos(w, b)  =  ŵ · d,   d = mean(â) − mean(b̂)

    Caliskan, Bryson & Narayanan (2017); Mandal et al., MCAS, eq. 1. Range [−2, 2]; positive: nearer to A.

    The right-hand side is exact, whatever the sizes of A and B: ``cos(w, a) = ŵ·â`` is linear in ``â``, so
    ``mean_a cos(w, a) = ŵ · mean(â)``, and likewise for B. One dot product per target replaces |A| + |B|
    cosines.

    Parameters
    ----------
    targets : (n, dim)
    a, b : (|A|, dim), (|B|, dim)
        Any arrays of the Array API standard, of one library and on one device; a torch tensor keeps its gradient
        and its device. Nested lists and data frames are read as numpy arrays.

    Returns
    -------
    (n,) array of the same library. For numpy: in the precision of ``targets`` (at least float32), and the
    same bits whatever the number of threads. For others: in the precision that the three are promoted to.

    Raises
    ------
    InvalidInputError
        Not two-dimensional, no rows, no real numbers, dimensions that differ, a zero vector, NaN or infinity, arrays
        of several libraries or devices.

    Examples
    --------
    >>> import numpy as np
    >>> association_scores(np.array([[2.0, 0.0], [3.0, 3.0]]), np.array([[1.0, 0.0]]), np.array([[0.0, 5.0]]))
    array([1., 0.])
    """
    targets, a, b = _together(targets=targets, a=a, b=b)
    direction = association_direction(a, b)
    if targets.shape[1] != direction.shape[0]:
        raise InvalidInputError.wrong_shape(
            f"{targets.shape[1]} dimensions, but a and b have {direction.shape[0]}; use one encoder for all",
            field="targets",
        )
    if isinstance(targets, np.ndarray) and isinstance(direction, np.ndarray):
        return project_rows(targets, direction, name="targets")
    units = unit_vectors(targets, name="targets")
    xp = array_namespace(units)
    kind = xp.result_type(units, direction)
    return xp.astype(units, kind, copy=False) @ xp.astype(direction, kind, copy=False)


def nearest_group(cosines: np.ndarray) -> np.ndarray:
    """Find as which of K groups each image is read: the one whose words it is nearest to, (n × K) → (n,) from 0.

    ::

        r(x) = argmax_g mean_{w∈W_g} cos(x, w)        of equals the last

    So of two groups an image is A where its association score with the words is above 0. All that reads an image by
    cosines reads it so: the reader ``clip``, the shares of a run, and the explorer. What is added to all cosines of an
    image changes nothing.

    >>> nearest_group(np.array([[0.3, 0.1], [0.1, 0.3], [0.2, 0.2]])).tolist()
    [0, 1, 1]
    """
    groups = cosines.shape[1]
    return np.asarray(groups - 1 - cosines[:, ::-1].argmax(axis=1))


def association_direction(a: Array, b: Array) -> Array:
    """Return the direction from attribute set B to A, ``d = mean(â) − mean(b̂)``: (dim,), ‖d‖ ≤ 2.

    Neither the two means nor ``d`` is normalised: the length of ``d`` says how far the two sets lie apart.
    """
    a, b = _together(a=a, b=b)
    mean_a, mean_b = _mean_unit_vector(a, "a"), _mean_unit_vector(b, "b")
    if a.shape[1] != b.shape[1]:
        raise InvalidInputError.wrong_shape(
            f"{b.shape[1]} dimensions, but a has {a.shape[1]}; use one encoder for both", field="b"
        )
    return mean_a - mean_b


def _mean_unit_vector(x: Array, name: str) -> Array:
    """``mean(x̂) = Σ_i x_i / (n ‖x_i‖)``: for numpy one weighted sum of rows, without the unit vectors themselves."""
    x = as_vectors(name, x)
    if isinstance(x, np.ndarray):
        rows = x.astype(np.float64, copy=False)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.vecdot(rows, rows)
        if _squares_are_safe(squares).all():
            # no BLAS: after so small a product OpenBLAS's helper thread spins on a core that the pass over rows needs
            return np.einsum("n,nd->d", 1 / np.sqrt(squares), rows) / len(rows)
    units = unit_vectors(x, name=name)
    return array_namespace(units).mean(units, axis=0)


def unit_vectors(x: Array, *, name: str = "x") -> Array:
    """Return rows divided by their lengths, ``x̂ = x / ‖x‖``: (n, dim). numpy arrays come back as float64.

    Each row is first divided by its largest magnitude, so no length overflows or underflows.
    """
    x = as_vectors(name, x)
    xp = array_namespace(x)
    if isinstance(x, np.ndarray):
        x = x.astype(np.float64, copy=False)
    largest = xp.max(xp.abs(x), axis=1, keepdims=True)
    _check_lengths(name, largest[:, 0])
    scaled = x / largest
    return scaled / xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))


def rounding_of(sets: Iterable[Array]) -> float:
    """Return by how much mean cosines of these embeddings (n, dim), or their differences, may differ and be the same.

    ::

        max(1e-12, 4 ε / √dim)        ε the precision of the coarsest set

    A copy of a vector at another length has coordinates rounded again, each by up to ε/2 of itself at random, so its
    cosines are off by less than ε/√dim; 1e-12 is far above what sums of float64 lose.
    """
    rounding = 1e-12
    for x in sets:
        xp = array_namespace(x)
        if xp.isdtype(x.dtype, "real floating"):
            rounding = max(rounding, 4 * float(xp.finfo(x.dtype).eps) / math.sqrt(x.shape[1]))
    return rounding


def project_rows(x: np.ndarray, direction: np.ndarray, *, name: str = "x", threads: int | None = None) -> np.ndarray:
    """``x̂ · direction`` for every row of a large matrix, in one pass over memory: (n,).

    Per chunk of rows, the dot product with ``direction`` pulls the chunk into the cache and the row lengths
    are taken from there. Every row is reduced on its own, so neither the chunks nor the threads can change a
    bit, and the check for zero, NaN and infinity looks at the n lengths only, never at the matrix again.
    """
    kind = x.dtype if x.dtype in (np.float32, np.float64) else np.dtype(np.float32 if x.itemsize < 4 else np.float64)
    direction = direction.astype(kind)
    dots, squares = np.empty(len(x), kind), np.empty(len(x), kind)

    def reduce_rows(start: int, stop: int) -> None:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for first in range(start, stop, _CHUNK_ROWS):
                rows = slice(first, min(first + _CHUNK_ROWS, stop))
                chunk = np.ascontiguousarray(x[rows], kind)
                np.vecdot(chunk, direction, out=dots[rows])
                np.vecdot(chunk, chunk, out=squares[rows])

    workers = threads or (available_cores() if x.size >= _PARALLEL_FROM else 1)
    # More spans than workers: a core that is busy elsewhere then holds up one span, not its whole share.
    edges = np.linspace(0, len(x), _SPANS_PER_WORKER * workers + 1).astype(int).tolist()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(reduce_rows, edges[:-1], edges[1:]))
    # ``dots / √squares``; rows whose squares left the safe range are checked and done again, scaled
    unsafe = np.flatnonzero(~_squares_are_safe(squares))
    squares[unsafe] = 1
    scores: np.ndarray = dots / np.sqrt(squares)
    if unsafe.size:
        largest = np.abs(x[unsafe]).max(axis=1)
        _check_lengths(name, largest, unsafe)
        scores[unsafe] = unit_vectors(x[unsafe]) @ direction.astype(np.float64)
    return scores


def _squares_are_safe(squares: np.ndarray) -> np.ndarray:
    """Return whether squared lengths are far from underflow and overflow; false for NaN, to check it again."""
    limits = np.finfo(squares.dtype)
    return np.asarray((squares > limits.tiny * 2**40) & (squares < limits.max))


def as_vectors(name: str, x: Array) -> Array:
    """Return embeddings as they are, and anything but an array as numpy's: (vectors × dim) of real numbers."""
    vectors = x
    if not is_array_api_obj(x):
        vectors = as_numpy(x)
    if len(vectors.shape) != 2:
        form = f"{len(vectors.shape)} dimensions" if vectors.shape else type(x).__name__
        raise InvalidInputError.wrong_shape(f"expected a 2-dimensional array (vectors × dim), found {form}", field=name)
    if 0 in vectors.shape:
        raise InvalidInputError.too_few(
            f"expected at least one vector, found an array of shape {tuple(vectors.shape)}", field=name
        )
    if not array_namespace(vectors).isdtype(vectors.dtype, ("real floating", "integral")):
        raise InvalidInputError.wrong_type(f"expected real numbers, found dtype {vectors.dtype}", field=name)
    return vectors


def as_numpy(x: Array) -> np.ndarray:
    """Return embeddings as numpy's: off their device, without their gradient; bfloat16, which numpy lacks, as float32.

    Rows of different lengths become a single object, which is no vector.
    """
    if is_torch_array(x):
        x = x.detach().cpu()
        x = x.float() if x.dtype == array_namespace(x).bfloat16 else x
    try:
        return np.asarray(x)
    except (TypeError, ValueError, RuntimeError):  # the last from tensors with gradients in a list
        return np.array(None)


def is_of_another_library(x: object) -> bool:
    """Return whether x is an array of the Array API standard and not numpy's: a torch tensor, for one."""
    return is_array_api_obj(x) and not isinstance(x, np.ndarray | np.generic)


def numbers_together(**numbers: Array) -> tuple[Any, list[Array]]:
    """Return numbers and arrays of numbers of one library, and its namespace: numpy's, unless an array is of another.

    What is no array, such as NaN for a component that is missing, becomes one of that library, on its device.

    Raises
    ------
    InvalidInputError
        Arrays of several libraries, or what holds no numbers.
    """
    names, others = tuple(numbers), [x for x in numbers.values() if is_of_another_library(x)]
    if not others:
        try:
            return np, [np.asarray(x, np.float64) for x in numbers.values()]
        except (TypeError, ValueError) as error:
            found = ", ".join(f"{name} = {x!r}" for name, x in numbers.items())
            raise InvalidInputError.wrong_type(f"expected numbers or arrays of numbers, found {found}") from error
    try:
        xp = array_namespace(*others)
    except TypeError:
        raise InvalidInputError.mismatch("expected arrays of one library, found several", field=names) from None
    if any(isinstance(x, np.ndarray) and x.ndim for x in numbers.values()):
        raise InvalidInputError.mismatch("expected arrays of one library, found numpy's among others", field=names)
    kind = xp.result_type(*others)
    as_array = (
        x if is_of_another_library(x) else xp.asarray(float(x), dtype=kind, device=device(others[0]))
        for x in numbers.values()
    )
    return xp, list(as_array)


def _together(**sets: Array) -> list[Array]:
    """Return the sets, of one library and on one device."""
    arrays = [as_vectors(name, x) for name, x in sets.items()]
    places = {f"{array_namespace(x).__name__.removeprefix('array_api_compat.')} on {device(x)}" for x in arrays}
    if len(places) > 1:
        listing = ", ".join(sorted(places))
        raise InvalidInputError.mismatch(
            f"expected arrays of one library on one device, found {listing}", field=tuple(sets)
        )
    return arrays


def _check_lengths(name: str, largest: Array, rows: np.ndarray | None = None) -> None:
    """Refuse rows whose largest magnitude is 0, infinite or NaN."""
    xp = array_namespace(largest)
    for bad, what in ((~xp.isfinite(largest), "NaN or infinity"), (largest == 0, "a zero vector")):
        if bool(xp.any(bad)):
            first = int(xp.argmax(xp.astype(bad, xp.int64)))
            row = first if rows is None else int(rows[first])
            raise InvalidInputError.not_finite(
                f"row {row} holds {what}; a cosine needs finite, non-zero vectors", field=name
            )


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``x @ y``, without the warning of an invalid value.

    OpenBLAS multiplies float32 matrices of five columns by a vector in a kernel for AVX-512 that also computes on
    lanes nobody set and drops them (``sgemv_t``, 0.3.31). The product is right, bit for bit; but now and then those
    lanes hold what raises the processor's flag, and numpy warns of finite numbers. NaN passes through, as it does
    through ``@``.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(x @ y)
