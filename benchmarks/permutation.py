"""Permutation tests beside scipy's, with the same statistic and number of splits.

    python benchmarks/permutation.py [--permutations N]

The prompt test of T2IAT is a quadratic form of a Gram matrix; scipy gets the same form, vectorised over splits. The
exact count is of 20 + 20 fixed values. p of both sides is printed, so that a ratio is of the same answer. The
last pair is the association of 500 images with 1,000 attribute images, beside a loop over pairs.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from clinometer.stats.association import association_scores
from clinometer.stats.label_forms import quadratic_permutation_test, quadratic_statistic
from clinometer.stats.permutation import split_test

X, Y = 20, 30


def main() -> None:
    """Time both sides and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--permutations", type=int, default=999_999)
    n = parser.parse_args().permutations
    rng = np.random.default_rng(0)
    gram = rng.normal(size=(X + Y, X + Y)) + 0.1 * (np.arange(X + Y) < X)[:, None]
    ours, seconds = timed(lambda: quadratic_permutation_test(gram, (X, Y), method="sampled", permutations=n))
    theirs, scipys = timed(lambda: scipy_quadratic(gram, n))
    print(f"quadratic form, {X} + {Y} prompts, {n:,} splits: {seconds:.2f} s, {n / seconds:,.0f} splits a second")
    print(f"  scipy: {scipys:.2f} s, ratio {scipys / seconds:.1f}; p {ours.p_value[0]:.5f}, scipy's {theirs:.5f}")

    values = rng.normal(size=40) + 1.7 * (np.arange(40) < 20)
    exact, seconds = timed(lambda: split_test(values[None], np.arange(40) < 20, alternative="greater"))
    theirs, scipys = timed(lambda: scipy_means(values[:20], values[20:]))
    print(f"exact, 20 + 20: {seconds:.2f} s, p {exact.p_value[0]:.3g}")
    print(f"  scipy, 100,000 splits: {scipys:.2f} s, p {theirs:.3g}")

    images, a, b = (rng.normal(size=(rows, 512)).astype(np.float32) for rows in (500, 500, 500))
    association_scores(images, a, b)  # threads and libraries are up
    mean, seconds = timed(lambda: association_scores(images, a, b).mean())
    looped, loop = timed(lambda: association_loop(images, a, b))
    print(f"association of 500 images with 2 x 500: {1000 * seconds:.2f} ms, {mean:.6f}")
    print(f"  a cosine for each pair in a loop: {loop:.2f} s, {looped:.6f}; ratio {loop / seconds:.0f}")


def timed(compute: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the seconds it took."""
    began = time.perf_counter()
    return compute(), time.perf_counter() - began


def scipy_quadratic(gram: np.ndarray, n: int) -> float:
    """p of the same form from scipy, which permutes the numbers of the prompts; two-sided in |S|."""

    def statistic(x: np.ndarray, _: np.ndarray, axis: int) -> np.ndarray:
        rows = np.moveaxis(x, axis, -1).reshape(-1, X).astype(int)
        members = np.zeros((len(rows), X + Y), bool)
        np.put_along_axis(members, rows, True, axis=1)
        return np.abs(quadratic_statistic(gram, members)).reshape(np.moveaxis(x, axis, -1).shape[:-1])

    numbers = np.arange(X + Y)
    found = stats.permutation_test(
        (numbers[:X], numbers[X:]), statistic, n_resamples=n, vectorized=True, alternative="greater", batch=8192, rng=0
    )
    return float(found.pvalue)


def association_loop(images: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Mean association the way the T2IAT notebook walks: every image with every attribute image, one pair at a time."""

    def cosine(u: np.ndarray, v: np.ndarray) -> float:
        return float(np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v)))

    each = [np.mean([cosine(w, u) for u in a]) - np.mean([cosine(w, u) for u in b]) for w in images]
    return float(np.mean(each))


def scipy_means(x: np.ndarray, y: np.ndarray) -> float:
    """p of the difference of means from 100,000 of scipy's splits."""
    found = stats.permutation_test(
        (x, y), lambda a, b, axis: a.mean(axis) - b.mean(axis), n_resamples=100_000, vectorized=True,
        alternative="greater", batch=8192, rng=0,
    )  # fmt: skip
    return float(found.pvalue)


if __name__ == "__main__":
    main()
