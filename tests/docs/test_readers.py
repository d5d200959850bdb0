"""The page about readers: its question is one, its first command runs, and its Python reads."""

import shlex

import pytest
from typer.testing import CliRunner

from clinometer.models.reference import portraits_path
from clinometer.suites.question import load_question
from tests.docs.pages import blocks, page

PAGE = page("docs/readers.md")


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """The folder ``pictures`` of the reference model's portraits; of three in four the group is given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    lines = ["file,group"]
    for number, file in enumerate(sorted(portraits_path().glob("*.png"))):
        (tmp_path / "pictures" / file.name).write_bytes(file.read_bytes())
        if number % 4:
            lines.append(f"{file.name},{'woman' if 'woman' in file.name else 'man'}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    return tmp_path


def test_the_question_of_the_page_is_one(tmp_path):
    (tmp_path / "question.yaml").write_text(blocks(PAGE, "yaml")[0])
    question = load_question(tmp_path / "question.yaml")
    assert list(question.answers) == ["hat", "scarf", "nothing"]


def test_the_open_question_of_the_page_is_one(tmp_path):
    (tmp_path / "question.yaml").write_text(blocks(PAGE, "yaml")[1])
    question = load_question(tmp_path / "question.yaml")
    assert (question.kind, dict(question.counterfactuals)) == ("open", {"cook": ("guard", "nurse")})


@pytest.mark.thorough
@pytest.mark.slow
def test_the_commands_and_the_python_read(pictures):
    from clinometer.cli.app import app

    command = shlex.split(blocks(PAGE, "sh")[0].splitlines()[0])[1:]
    command[command.index("--reader") + 1] = "reference"
    found = CliRunner().invoke(app, command, catch_exceptions=False)
    assert found.exit_code == 0
    assert "96 pictures whose group is given" in found.stdout
    assert "The other 32" in found.stdout
    names = {}
    (reads,) = [block for block in blocks(PAGE, "python") if "cm.read_images" in block]
    exec(compile(reads, "docs/readers.md", "exec"), names)
    read = names["found"]
    assert (read.confusion.recall > 0.8).all()
    true = read.table[read.table.truth.isna()].file.str.contains("woman").mean()
    assert read.shares.low[0] <= true <= read.shares.high[0]
