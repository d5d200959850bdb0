"""Our side of what docs/simulations.md says of fairbench-genai, on few runs drawn here; theirs needs its package."""

import numpy as np
import pytest

from benchmarks.fairbench_simulations import our_designs, verdicts
from clinometer.metrics.verdict import Verdict
from tests.toys import SCENARIOS


@pytest.mark.thorough
def test_their_sizes_are_too_few_for_us_until_a_third_of_sixty_is_one_concepts(tmp_path):
    (tmp_path / "kick.yaml").write_text(SCENARIOS)
    designs = {(images, name): (targets, pairs) for images in (9, 24, 60)
               for name, targets, pairs in our_designs(tmp_path / "kick.yaml", None, images)}  # fmt: skip
    assert designs[9, "their file"] == ([1, 1], [1])
    assert designs[60, "one concept"] == ([20], [5, 5, 5, 5])
    for (images, name), (targets, pairs) in designs.items():
        fair = [each for run in range(10, 13) for each in verdicts(targets, pairs, 0.5, np.random.default_rng(run))]
        is_large = (images, name) == (60, "one concept")
        # The order of one run in twenty looks like batches, of which there are too few then
        assert set(fair) <= {Verdict.TOO_FEW, Verdict.UNDECIDED if is_large else Verdict.NOT_MEASURED}
        assert (Verdict.UNDECIDED in fair) == is_large
    assert verdicts(*designs[60, "one concept"], 0.95, np.random.default_rng(0)) == [Verdict.LEANS]
