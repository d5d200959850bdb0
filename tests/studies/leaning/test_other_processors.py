"""Numbers do not depend on the processor: on what its BLAS sums in which order, or on the last bit of a vector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from math import isfinite

import numpy as np
import pytest

from tests.studies.leaning.studies import GROUPS, design, embeddings, study

NUMBERS = ("value", "low", "high", "stimulus_low", "stimulus_high", "null", "p", "q")


def numbers(changed: float = 0.0) -> list[list[float]]:
    """Every number of a small study, whose vectors are changed by so much of themselves at random."""
    rng, own = np.random.default_rng(1), embeddings(leanings=(0.6, -0.3), groups=GROUPS[:2])
    images = tuple(x * (1 + changed * rng.standard_normal(x.shape)) for x in own.target_images)
    of = design(2, groups=GROUPS[:2], third=None)
    rows = study(replace(own, target_images=images), of=of, n_resamples=100, n_permutations=0)
    return [[float(getattr(row, name)) for name in NUMBERS] for row in rows]


def assert_alike(found: list[list[float]], expected: list[list[float]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert list(map(isfinite, one)) == list(map(isfinite, other))
        assert np.nan_to_num(one) == pytest.approx(np.nan_to_num(other), rel=1e-10, abs=1e-12)


def test_a_change_in_the_last_bit_stays_there():
    assert_alike(numbers(1e-15), numbers())


@pytest.mark.thorough
def test_the_kernels_of_another_processor_give_the_same_numbers():
    """OpenBLAS chooses its kernels by the processor; those of a Pentium 4 sum in another order. Others ignore it."""
    asked = [sys.executable, "-m", __name__]
    env = os.environ | {"OPENBLAS_CORETYPE": "Prescott"}
    done = subprocess.run(asked, env=env, check=True, capture_output=True, text=True)
    assert_alike(json.loads(done.stdout), numbers())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(numbers()))
