"""What the check of dependencies makes of pip-audit's words, and that make runs every fuzzer."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
judge = runpy.run_path(str(ROOT / ".ci" / "audit_dependencies.py"))["judge"]


def package(name, *bugs, skipped=False):
    if skipped:
        return {"name": name, "skip_reason": f"Dependency not found on PyPI and could not be audited: {name}"}
    vulns = [{"id": bug, "fix_versions": ["2"]} for bug in bugs]
    return {"name": name, "version": "1", "vulns": vulns}


def said(*packages):
    return json.dumps({"dependencies": list(packages), "fixes": []})


@pytest.mark.parametrize(
    ("output", "error", "status", "words"),
    [
        (said(*map(package, "abcdefghijk"), package("x", skipped=True)), "", 0, "no vulnerability is known of 11"),
        (said(package("a", "CVE-1"), package("b")), "Found 1 known vulnerability", 1, "a 1: CVE-1, fixed in 2"),
        (said(package("a", skipped=True), package("b", skipped=True)), "", 3, "knows 0 of 2 packages"),
        (said(), "", 3, "knows 0 of 0 packages"),
        ("", "Traceback\nConnectionError: pypi.org", 3, "was not reached, so nothing is known: ConnectionError: pypi"),
        ("", "", 3, "it said nothing"),
        ("[]", "", 3, "was not reached"),
    ],
)
def test_only_what_was_asked_and_answered_passes(output, error, status, words):
    found, lines = judge(output, error)
    assert found == status
    assert words in lines[0]


def test_make_runs_every_fuzzer():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "$(wildcard tests/fuzz/*.py)" in makefile
    for path in (ROOT / "tests" / "fuzz").glob("*.py"):
        assert "--seed" in path.read_text(encoding="utf-8")
