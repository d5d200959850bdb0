"""The fuzzers, for a moment and always alike; ``make fuzz`` runs them for an hour."""

import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.inputs import TARGETS, Target, attack, mutated, outcome

pytest.importorskip("openai")


@cache
def samples(name):
    return list(TARGETS[name].samples())


@pytest.mark.parametrize("name", TARGETS)
def test_every_example_is_read(name, tmp_path):
    for number, sample in enumerate(samples(name)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert outcome(TARGETS[name], sample, folder) in ("taken", "refused")
    assert any(outcome(TARGETS[name], sample, tmp_path) == "taken" for sample in samples(name))


@pytest.mark.parametrize("count", [8, pytest.param(40, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_changed_is_taken_or_refused(name, count):
    @settings(max_examples=count)
    @given(seed=st.integers(0, 2**32))
    def change(seed):
        content, found = attack(name, samples(name), random.Random(seed))
        assert found in ("taken", "refused"), content[:500]

    change()


def test_what_is_wrong_is_found(tmp_path):
    def fails(content, folder):
        raise KeyError("x")

    assert outcome(Target(list, fails), b"", tmp_path).startswith("an exception: Traceback")


def test_a_seed_says_what_is_changed():
    content = bytes(range(200))
    assert mutated(random.Random(3), content) == mutated(random.Random(3), content) != content


@pytest.mark.thorough
def test_a_fuzzer_runs_for_as_long_as_it_is_told_and_says_its_seed():
    command = [sys.executable, "-m", "tests.fuzz.inputs", "--seed", "7", "--minutes", "0.02"]
    root = Path(__file__).parents[1]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, timeout=900)
    assert (result.returncode, result.stdout[:8]) == (0, "seed 7: "), result.stderr
