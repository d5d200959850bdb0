"""The command line within the test's own process: a process of its own would import torch for every command."""

import sys
import warnings

import pytest

from clinometer.cli import main
from tests.quick import pages_of_a_module, pages_of_a_test

__all__ = ["pages_of_a_module", "pages_of_a_test"]


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Give a command; its status and what it says on stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(
        "TORCHINDUCTOR_CACHE_DIR", str(tmp_path.with_name(f"{tmp_path.name} inductor"))
    )  # made on import
    monkeypatch.setattr("tempfile.tempdir", None)

    def give(*words):
        """The status and what stderr says; left in ``give.printed`` is what is printed, and in ``give.error`` why."""
        monkeypatch.setattr(sys, "argv", ["clinometer", *map(str, words)])
        status, give.error = 0, None
        try:
            main()
        except SystemExit as end:
            status, give.error = end.code or 0, end.__context__
        said = capsys.readouterr()
        give.printed = said.out
        return status, said.err

    return give
