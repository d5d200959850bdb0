"""Swapping two runs prompt by prompt: what S becomes when some prompts' images change places between the runs.

With ``u_p`` and ``d_p = a_p − b_p`` a prompt's neutral mean and direction, ``z_p = +1`` where its images stay with
their run and −1 where they are swapped, and bars and tildes for the half sum and half difference of the two runs::

    S(z)          = mean_{p,q} (ū_p + z_p ũ_p) · (d̄_q + z_q d̃_q)           of one set, as the second run has it
    S(z) − S(−z)  = Σ_p z_p c_p,     c_p = ((u²_p − u¹_p) · mean_q d̄_q + (d²_p − d¹_p) · mean_q ū_q) / P
    S(z) + S(−z)  = 2 (mean ū · mean d̄ + Σ_{p,q} z_p z_q ũ_p · d̃_q / P²)

The quadratic terms cancel in the difference: it is linear in z although S is not, and ``c_p`` is what each prompt adds
to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.metrics.t2iat.sets import PromptSet
from clinometer.stats.permutation import PermutationTest, sampled_p_value
from clinometer.stats.sign_flips import SAMPLED_FLIPS

COUNTED_PROMPTS = 16
"""Prompts up to which every swap is counted in the test of magnitudes, which has a quadratic term."""

_CHUNK = 8192


@dataclass(frozen=True)
class SetSwaps:
    """One set of prompts in two runs, averaged over encoders.

    Attributes
    ----------
    contributions : (P,) ``c_p``; their sum is the difference of the set's mean associations.
    constant, quadratic : the parts of ``(S(z) + S(−z)) / 2 = constant + zᵀ quadratic z``.
    """

    contributions: np.ndarray
    constant: float
    quadratic: np.ndarray

    def half_sums(self, signs: np.ndarray) -> np.ndarray:
        """``(S(z) + S(−z)) / 2`` for each row of signs (N × P)."""
        return self.constant + np.asarray(np.einsum("np,pq,nq->n", signs, self.quadratic, signs, optimize=True))


def set_swaps(first: Sequence[PromptSet], second: Sequence[PromptSet]) -> SetSwaps:
    """Swaps of one set, from its two runs as each encoder sees them; both runs have the same prompts, in order."""
    parts = [_one_encoder(*pair) for pair in zip(first, second, strict=True)]
    return SetSwaps(
        np.mean([part.contributions for part in parts], axis=0),
        float(np.mean([part.constant for part in parts])),
        np.mean([part.quadratic for part in parts], axis=0),
    )


def _one_encoder(first: PromptSet, second: PromptSet) -> SetSwaps:
    n = first.n_prompts
    neutral, direction = (first.means + second.means) / 2, (first.directions + second.directions) / 2
    moved, turned = second.means - first.means, second.directions - first.directions
    middle, axis = neutral.mean(axis=0), direction.mean(axis=0)
    return SetSwaps((moved @ axis + turned @ middle) / n, float(middle @ axis), moved @ turned.T / (4 * n * n))


@dataclass(frozen=True)
class PairSwaps:
    """One test in two runs: its sets, and where their prompts stand among all prompts of the suite."""

    x: SetSwaps
    y: SetSwaps
    places_x: np.ndarray
    places_y: np.ndarray

    @property
    def contributions(self) -> np.ndarray:
        """What each prompt of X, then of Y, adds to ``S(second) − S(first)``."""
        return np.concatenate([self.x.contributions, -self.y.contributions])

    def magnitudes(self, signs: np.ndarray) -> np.ndarray:
        """``|S(z)| − |S(−z)|`` for each row of signs over all prompts (N × prompts of the suite)."""
        of_x, of_y = signs[:, self.places_x], signs[:, self.places_y]
        half_sum = self.x.half_sums(of_x) - self.y.half_sums(of_y)
        half_difference = (of_x @ self.x.contributions - of_y @ self.y.contributions) / 2
        return np.asarray(np.abs(half_sum + half_difference) - np.abs(half_sum - half_difference))


def magnitude_test(tests: Sequence[PairSwaps], rng: np.random.Generator) -> PermutationTest:
    """Two-sided p of ``mean_t |S_t(second)| − |S_t(first)|`` under swaps of prompts between the runs.

    A prompt of several tests is swapped in all of them. Every swap is counted up to 16 prompts; beyond,
    ``SAMPLED_FLIPS`` are drawn.
    """
    n = 1 + max(int(place) for test in tests for place in (*test.places_x, *test.places_y))
    used = np.unique(np.concatenate([np.r_[test.places_x, test.places_y] for test in tests]))
    exact = len(used) <= COUNTED_PROMPTS
    chunks = _all_signs(len(used)) if exact else _random_signs(len(used), rng)
    observed = float(_mean_magnitude(tests, np.ones((1, n)))[0])
    tolerance = 1e-10 * max(abs(observed), *(float(np.abs(test.contributions).sum()) for test in tests))
    extreme = total = 0
    for chunk in chunks:
        signs = np.ones((len(chunk), n))
        signs[:, used] = chunk
        extreme += int((np.abs(_mean_magnitude(tests, signs)) >= abs(observed) - tolerance).sum())
        total += len(chunk)
    if exact:
        p = np.array([extreme / total])
        return PermutationTest(np.array([observed]), p, True, total, np.zeros(1), "two-sided", "", p, p)
    estimate = sampled_p_value(np.array([extreme]), total)
    return PermutationTest(np.array([observed]), estimate[0], False, total, estimate[1], "two-sided", "", *estimate[2:])


def _mean_magnitude(tests: Sequence[PairSwaps], signs: np.ndarray) -> np.ndarray:
    return np.asarray(np.mean([test.magnitudes(signs) for test in tests], axis=0))


def _all_signs(n: int) -> list[np.ndarray]:
    numbers = np.arange(2**n)
    signs = 1.0 - 2.0 * (numbers[:, None] >> np.arange(n) & 1)
    return [signs[start : start + _CHUNK] for start in range(0, len(signs), _CHUNK)]


def _random_signs(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    drawn = (rng.integers(0, 2, size=(SAMPLED_FLIPS, n), dtype=np.int8) * 2 - 1).astype(np.int8)
    return [drawn[start : start + _CHUNK] for start in range(0, len(drawn), _CHUNK)]


def places_of(concepts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    """Where each concept's stimuli stand among all of the suite's."""
    places, start = {}, 0
    for name, stimuli in concepts.items():
        places[name] = np.arange(start, start + len(stimuli))
        start += len(stimuli)
    return places
