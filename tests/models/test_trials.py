"""Timesteps and noise: spread evenly, and following from seed, image and trial alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer._torch import torch
from clinometer.models.diffusers.classifier import fractions, noise

KEYS = st.tuples(st.integers(0, 2**40), st.text(max_size=8))


@given(KEYS)
def test_each_power_of_ten_is_stratified(key):
    where = fractions(*key, 1000)
    assert where.min() >= 0
    assert where.max() < 1
    for n in (1, 10, 100, 1000):
        grid = np.sort(where[:n])
        assert np.diff(grid) == pytest.approx(1 / n)
        assert len({int(f) for f in n * where[:n]}) == n or np.isclose(n * where[:n] % 1, 0, atol=1e-6).any()


@given(KEYS, st.integers(1, 300))
def test_fewer_trials_are_a_prefix_of_more(key, n):
    assert np.array_equal(fractions(*key, 300)[:n], fractions(*key, n))


def test_any_prefix_is_spread():
    where = fractions(0, "image", 100)
    for n in range(1, 101):
        grid = np.sort(where[:n])
        gaps = np.diff(np.append(grid, grid[0] + 1))
        assert gaps.max() <= max(1.0 / n, 10.0 ** -np.floor(np.log10(n))) + 1e-9


def test_each_trial_is_uniform_over_images():
    firsts = np.array([fractions(0, f"image {number}", 7) for number in range(4000)])
    for trial in range(7):
        counts = np.histogram(firsts[:, trial], bins=10, range=(0, 1))[0]
        assert ((counts - 400) ** 2 / 400).sum() < 27.9  # chi-squared with 9 degrees of freedom: p > 0.001


def test_noise_follows_from_its_key():
    shape = (4, 8, 8)
    first = noise(1, "image", 500, 3, shape)
    assert first.dtype == torch.float32
    torch.rand(100)  # the global generator does not matter
    assert torch.equal(noise(1, "image", 500, 3, shape), first)
    others = [noise(2, "image", 500, 3, shape), noise(1, "other", 500, 3, shape), noise(1, "image", 501, 3, shape),
              noise(1, "image", 500, 4, shape)]  # fmt: skip
    for other in others:
        assert abs(torch.corrcoef(torch.stack([first.flatten(), other.flatten()]))[0, 1]) < 0.25
    assert abs(torch.stack([first, *others]).std() - 1) < 0.1
