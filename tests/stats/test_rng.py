"""What draws repeats itself, unless it is asked for new draws."""

import numpy as np
import pytest

from clinometer.metrics import histogram_overlap, jaccard_hallucination, stimulus_weat, weat
from clinometer.stats.label_forms import fixed_values_test
from clinometer.stats.permutation import permute_labels, permute_statistic, sign_flip_test

DATA = np.random.default_rng(0)
LABELS, VALUES = np.arange(60) < 30, DATA.normal(size=60)
SETS = [DATA.normal(size=(n, 8)) for n in (30, 30, 4, 4)]
STIMULI = [list(each[:, None]) for each in SETS]
COUNTS = DATA.integers(1, 20, (2, 9))
ASKED, SEEN = [{"a"} for _ in range(40)], [set("abcde"[: 1 + n % 5]) for n in range(40)]

DRAWING = {
    "permute_labels": lambda **rng: permute_labels(VALUES[None], LABELS, n_permutations=999, **rng).p_value,
    "permute_statistic": lambda **rng: (
        permute_statistic(
            lambda members: members @ VALUES, LABELS, np.zeros(60), tolerance=0, n_permutations=999, **rng
        ).p_value
    ),
    "sign_flip_test": lambda **rng: sign_flip_test(VALUES, n_permutations=999, **rng).p_value,
    "fixed_values_test": lambda **rng: (
        fixed_values_test(VALUES, LABELS, method="sampled", permutations=999, **rng).p_value
    ),
    "weat": lambda **rng: weat(*SETS, method="sampled", permutations=999, **rng).p_value,
    "stimulus_weat": lambda **rng: stimulus_weat(*STIMULI, resamples=99, **rng).statistic_low,
    "histogram_overlap": lambda **rng: histogram_overlap(*COUNTS, resamples=99, **rng).null,
    "jaccard_hallucination": lambda **rng: jaccard_hallucination(ASKED, SEEN, resamples=99, **rng).low,
}


@pytest.mark.parametrize("name", DRAWING)
def test_a_call_repeated_gives_the_same_numbers(name):
    draw = DRAWING[name]
    assert draw() == draw() == draw(rng=0) == draw(rng=np.random.default_rng(0))


@pytest.mark.parametrize("name", DRAWING)
def test_none_asks_for_new_draws(name):
    assert len({float(np.squeeze(DRAWING[name](rng=None))) for _ in range(12)}) > 1
