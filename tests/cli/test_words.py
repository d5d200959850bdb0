"""Nothing that somebody else wrote moves a terminal's cursor, changes its colours or is read as markup."""

import ast
import io
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import clinometer
from clinometer.cli import console, reading, tables
from clinometer.suites import suite_from_mapping
from tests.toys import toy_suite

HOSTILE = "a\x1b]0;title\x07\x1b[31mred\x9b2J [bold]b[/] [/] \\[x] \u202eevil\u2028\x00"


def printed(monkeypatch, call):
    """What a command writes to a terminal that takes colours."""
    stream = io.StringIO()
    plain = Console
    for module in (console, reading):
        monkeypatch.setattr(
            module, "Console", lambda **options: plain(file=stream, force_terminal=True, color_system=None, width=200)
        )
    call()
    return stream.getvalue()


@pytest.mark.thorough
@given(st.text())
def test_words_are_letters_and_lines(text):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=10_000, soft_wrap=True)
    console.print(tables.plain_text(text))
    found = stream.getvalue()
    assert all(each.isprintable() or each in "\n\u200c\u200d\u00a0\u202f" for each in found)
    assert sum(map(str.isalnum, found)) == sum(map(str.isalnum, text))  # no markup was taken out


def test_a_suite_is_shown_as_it_is_written(monkeypatch):
    held = toy_suite().model_dump()
    held["title"] = held["description"] = held["source"] = HOSTILE
    held["groups"]["man"]["prompts"][0]["prompt"] = HOSTILE
    held["groups"]["man"]["words"] = [HOSTILE]
    found = printed(monkeypatch, lambda: console.print_suite(suite_from_mapping(held, source="s")))
    assert "[bold]b[/] [/]" in found
    assert not set("\x07\x9b\u202e\u2028\x00") & set(found)
    assert "\x1b]" not in found
    assert "\x1b[31m" not in found


def test_so_are_names_that_head_columns(monkeypatch):
    from clinometer.suites import load_suite

    held = load_suite("downstream/editing").model_dump()
    gender = held["genders"]["a"]
    renamed = "[red]x[/red]"
    held["genders"]["a"] = renamed
    for group in held["groups"].values():
        group["gender"] = renamed if group["gender"] == gender else group["gender"]
    found = printed(monkeypatch, lambda: console.print_suite(suite_from_mapping(held, source="s")))
    assert renamed in found


def test_so_are_files_that_are_classified(monkeypatch):
    row = {"file": f"/a/{HOSTILE}.png", "label": HOSTILE, "runner_up": "b", "margin": 0.1, "low": 0.0, "high": 0.2,
           "tie": False, "evaluations": 3, "reason": HOSTILE}  # fmt: skip
    found = printed(monkeypatch, lambda: reading.print_choices(pd.DataFrame([row])))
    assert "\x1b]" not in found
    assert "\u202e" not in found


def test_an_error_reaches_the_terminal_without_them(tmp_path):
    command = [sys.executable, "-m", "clinometer", "suites", "a\x1b[31m\u202e.yaml"]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=tmp_path)
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
    assert "\u202e" not in result.stderr


@pytest.mark.parametrize("path", sorted((Path(clinometer.__file__).parent / "cli").glob("*.py")), ids=lambda p: p.stem)
def test_no_command_prints_by_another_way(path):
    if path.stem == "tables":
        return
    names = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "rich.markup"
        for alias in node.names
    }
    assert not names
