"""``make test`` and what ``make test-all`` adds are all tests, and none twice."""

import os
import re
import shlex
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKS = ("thorough", "slow", "pages")
SUBSETS = list(chain.from_iterable(combinations(MARKS, count) for count in range(len(MARKS) + 1)))
MARKED = "import pytest\n" + "".join(
    "".join(f"@pytest.mark.{mark}\n" for mark in marks) + f"def test_{number}(): pass\n"
    for number, marks in enumerate(SUBSETS)
)


def commands(target: str) -> list[list[str]]:
    """Find the commands of pytest that a target of the Makefile runs."""
    made = subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True, text=True)
    return [shlex.split(line)[1:] for line in made.stdout.splitlines() if " -m pytest " in line]


def collected(options: list[str], place: Path) -> list[str]:
    """Collect tests of every combination of marks, as a target does, in this process's environment alone."""
    (place / "test_marked.py").write_text(MARKED)
    (place / "pytest.ini").write_text("[pytest]\nmarkers =\n" + "".join(f"    {mark}\n" for mark in MARKS))
    found = subprocess.run(
        [sys.executable, *options, "--collect-only", "--quiet", "-p", "no:cacheprovider"],
        cwd=place,
        check=False,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
    )
    return re.findall(r"^test_marked\.py::test_(\d+)$", found.stdout, re.MULTILINE)


def test_the_two_halves_are_all_tests_and_none_twice(tmp_path):
    (contributor,), (rest,), both = (commands(target) for target in ("test", "test-rest", "test-all"))
    assert both == [contributor, rest]
    halves = [collected(options, tmp_path) for options in (contributor, rest)]
    assert all(halves)
    assert sorted(map(int, chain(*halves))) == list(range(len(SUBSETS)))
    others = [
        [word for word in options if "thorough" not in word and not word.isdigit()] for options in (contributor, rest)
    ]
    assert others[0] == others[1]  # so neither leaves anything out in another way
    assert not any(word.startswith(("-k", "--ignore", "--deselect", "tests")) for word in contributor)


def test_what_must_pass_is_both_halves_and_the_lint():
    made = re.findall(r"^make (\S+)$", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    assert made in (["test", "test-rest", "lint"], ["test-all", "lint"])
