"""No row of any study has an interval that leaves out its own value, least of all those of few images."""

from __future__ import annotations

import numpy as np
import pytest

from clinometer.studies.counts.scores import Counts, compared_counts, counts_study
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.t2iat import t2iat_study
from tests.studies.intervals import left_out
from tests.studies.leaning.studies import design, embeddings, study
from tests.studies.t2iat import designs as t2iat


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_intervals_of_few_hold_their_estimates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    few = {"images": int(rng.integers(1, 6)), "attribute_images": int(rng.integers(1, 4))}
    words = tuple(rng.integers(1, 4, 3).tolist())
    one, two = (
        [embeddings(f"e{i}", seed=seed + 100 * i, words=words, **few | {"leanings": leanings}) for i in range(2)]
        for leanings in ((0.6, 0.0, -0.3), (0.0, 0.3, -0.3))
    )
    assert not left_out(study(*one, of=design(3, margin=0.1), n_resamples=99, n_permutations=9))
    for paired in (False, True):
        assert not left_out(compare_leanings(one, two, design(3), paired=paired, n_resamples=99))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_intervals_of_prompts_and_counts_hold_theirs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    of_prompts = t2iat.embeddings(seed, n=int(rng.integers(1, 4)), lean=float(rng.choice([0, 0.6])))
    assert not left_out(t2iat_study([of_prompts], t2iat.DESIGN, n_resamples=99, seed=1).scores)
    tables = [Counts(("c", "d"), ("a", "b", "c"), ("1", "2"), rng.integers(0, 5, (2, 2, 3)), rng.integers(0, 3, (2, 2)))
              for _ in range(2)]  # fmt: skip
    assert not left_out([*counts_study(tables[0]), *counts_study(tables[1]), *compared_counts(*tables)])
