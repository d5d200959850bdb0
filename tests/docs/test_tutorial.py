"""The tutorial and the skill: their Python runs. The rest runs in ``test_releasing``, from the built wheel."""

import shutil

import pytest
import yaml

import clinometer as cm
from tests.docs.pages import ROOT, blocks, page, sh_commands

TUTORIAL = ROOT / "docs/tutorial.md"
SKILL = "skills/clinometer/SKILL.md"


@pytest.mark.parametrize(("name", "folder"), [("docs/tutorial.md", "first"), (SKILL, "mine")])
def test_the_python_reads_a_run(name, folder, tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "tests/fixtures/runs/leaning", tmp_path / "runs" / folder)
    monkeypatch.chdir(tmp_path)
    for block in blocks(page(name), "python"):
        exec(compile(block, name, "exec"), {})
    assert "concept 0.20" in capsys.readouterr().out


def test_the_skill_says_what_it_is_for():
    _, front, body = page(SKILL).split("---\n", 2)
    told = yaml.safe_load(front)
    assert told.keys() == {"name", "description"}
    assert told["name"] == (ROOT / SKILL).parent.name
    assert len(told["description"]) <= 1024  # what a skill's front matter may hold
    named = {word.strip("`.,;:") for word in body.split() if word.startswith("`docs/")}
    assert named
    assert all((ROOT / each).exists() for each in named)


def test_the_first_line_installs_the_wheel_of_this_version():
    first = next(sh_commands(TUTORIAL))
    assert first == ["pip", "install", f"dist/clinometer-{cm.__version__}-py3-none-any.whl[models]"]
    assert first in list(sh_commands(ROOT / SKILL))
