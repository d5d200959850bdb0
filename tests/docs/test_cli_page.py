"""docs/cli.md is what docs/generate_cli.py writes today, and what ``--help`` shows."""

import importlib.util
import re

import pytest
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

import clinometer.cli.app as cli_app
from clinometer.cli.app import app
from tests.docs.pages import ROOT, page

COMMANDS = get_command(app).commands


def generator():
    spec = importlib.util.spec_from_file_location("generate_cli", ROOT / "docs/generate_cli.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    assert page("docs/cli.md") == generator().render(), "give: python docs/generate_cli.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_what_the_page_tells(name):
    section = page("docs/cli.md").split(f"## clinometer {name}\n")[1].split("\n## ")[0]
    environment = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
    shown = CliRunner().invoke(app, [name, "--help"], env=environment).stdout.partition("Examples:")[0]
    for option in set(re.findall(r"`(--[\w-]+)`", section)):
        assert option in shown
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", shown)) - {"--help"} == set(re.findall(r"`(--[\w-]+)`", section))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_shows_the_words_in_brackets_too(name, monkeypatch):
    """Rich takes them for markup, and would leave out every default that is said in words."""
    monkeypatch.setattr(cli_app, "IN_BOXES", True)
    command = get_command(app).commands[name]
    plain = {each.name: each.help for each in command.params}
    drawn = {each.name: each.help for each in command.get_params(command.context_class(command)) if each.name in plain}
    assert {name: help and Text.from_markup(help).plain for name, help in drawn.items()} == plain
