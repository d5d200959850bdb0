"""The table of exit codes in docs/cli.md is what commands return, and has every status that there is."""

import ast
import re
import sys
from pathlib import Path

import pytest

import clinometer.cli
from clinometer.cli.app import EXIT_CODES
from clinometer.cli.runs import STATUS
from tests import quick
from tests.docs.pages import page
from tests.toys import Eye, Painter, toy_suite


def fail_by(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.fixture(scope="module")
def run():
    return quick.finished(Painter(), toy_suite(target=12, attribute=6), encoder=Eye(), report=True).directory.place


LIMIT = ("gate", "RUN", "--metric", "mcas")
ENDINGS = [
    (0, ("suites",), None),
    (0, (*LIMIT, "--within", 9), None),
    (0, ("gate", "--help"), None),
    (0, ("gate", "RUN", "--history", "PARENT", "--allow-undecided"), None),
    (1, (*LIMIT, "--at-most", -9), None),
    (2, (), None),
    (2, ("audti",), None),
    (2, ("verify", "nowhere"), None),
    (2, (*LIMIT, "--metric", "mcas"), None),
    (3, ("gate", "RUN", "--history", "PARENT"), None),
    (70, ("suites", "mcas"), ZeroDivisionError()),
    (130, ("suites", "mcas"), KeyboardInterrupt()),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("status", "words", "error"), ENDINGS)
def test_a_command_ends_as_the_table_says(cli, run, monkeypatch, tmp_path, status, words, error):
    if error is not None:
        monkeypatch.setattr("clinometer.suites.load_suite", fail_by(error))
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier/damaged").mkdir()
    (tmp_path / "earlier/damaged/run.json").write_text("{}")
    meant = {"RUN": run, "PARENT": tmp_path / "earlier"}
    assert cli(*(meant.get(word, word) for word in words))[0] == status


def test_every_status_is_in_the_table_and_is_tried():
    written = {int(found) for found in re.findall(r"^\| (\d+) \|", page("docs/cli.md"), re.MULTILINE)}
    assert written == set(EXIT_CODES) == {status for status, *_ in ENDINGS}
    assert set(STATUS.values()) < set(EXIT_CODES)
    of_gates = re.findall(r"^\| (\d) \| (\w*) ", page("docs/gates.md"), re.MULTILINE)
    assert {outcome: int(status) for status, outcome in of_gates if outcome} == STATUS


def test_no_command_ends_with_another_number():
    """Whatever is given to ``sys.exit`` or ``typer.Exit`` as a number stands in the table."""
    ends = [
        (path.name, node.args[0].value)
        for path in Path(clinometer.cli.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "typer.Exit", "exit", "ctx.exit")
        and node.args and isinstance(node.args[0], ast.Constant)
    ]  # fmt: skip
    assert ends
    assert {status for _, status in ends} <= set(EXIT_CODES), ends
    assert sys.modules["clinometer.cli.app"].STATUS in EXIT_CODES
