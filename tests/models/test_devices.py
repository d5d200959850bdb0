"""Models on a device of their own: every tensor is where it is needed, and the numbers are the CPU's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.on_a_device import (
    ENCODERS,
    FAMILIES,
    FOUND,
    MIXED,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.slow
def test_nothing_is_left_on_the_wrong_device(tmp_path):
    """A process of its own measures all on the CPU and on a device that refuses to mix: the largest differences."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.models.on_a_device", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    differences = json.loads((tmp_path / FOUND).read_text())
    assert differences.pop(MIXED) is True  # what else would be an error below
    assert {name.split()[0] for name in differences} == {*FAMILIES, *ENCODERS}
    in_levels = {name: value for name, value in differences.items() if name.endswith(("images", "edits", "wait"))}
    assert {name: value for name, value in in_levels.items() if value > 1} == {}
    assert {name: value for name, value in differences.items() if name not in in_levels and value > 1e-4} == {}
