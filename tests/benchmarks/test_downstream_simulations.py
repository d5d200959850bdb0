"""What docs/simulations.md says of small samples in the other studies, on few studies drawn here."""

from __future__ import annotations

import pytest

from benchmarks import downstream_simulations as sim


@pytest.mark.thorough
def test_four_images_of_a_stimulus_are_certain_to_welch_and_not_between_bounds():
    rates = {found.what: found.rate for found in sim.stimulus_verdicts(40, 4)}
    assert rates["any false leaning, own variance (Welch)"] > 0.5
    assert rates["any false leaning, with bounds"] <= 0.05


@pytest.mark.thorough
def test_from_eight_images_on_single_stimuli_keep_their_promises():
    found = {each.what: each for each in sim.stimulus_verdicts(80, 8)}
    for what in ("any false leaning, with bounds", "false among all leanings, half at 85 %"):
        assert found[what].rate <= 0.05 + 3 * found[what].error
    assert found["single stimuli, with bounds"].rate >= 0.92


@pytest.mark.thorough
@pytest.mark.parametrize("portraits", [2, 4, 8])
def test_portraits_hold_their_level_however_few(portraits):
    for found in sim.portrait_verdicts(100, portraits, 16, 0.9):
        if found.kind == "downstream-level":
            assert found.rate <= 0.05 + 3 * found.error
        else:
            assert found.rate >= 0.95 - 3 * found.error
