"""Without the extra ``models``: finished runs are read, scored, compared and reported, and models are asked for."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clinometer.models.registry import EXTRA_PACKAGES
from tests import quick
from tests.toys import Eye, Painter, toy_suite

ROOT = Path(__file__).parents[1]
WITHOUT = f"""
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, *where):
        return None if name.partition(".")[0] in {EXTRA_PACKAGES!r} else self.finder.find_spec(name, *where)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
LIGHT = """
from clinometer import api, stats, metrics
from clinometer.pipeline.results import write_report
import clinometer as cm
first, second, out = sys.argv[1:]
before = cm.open_run(first).scores
assert cm.score_run(first).equals(before)
assert write_report(cm.open_run(first)) == []
assert len(cm.compare(first, second, out=out)) == 1
assert api.verify_run(first)
assert cm.open_run(first)._repr_html_()
"""
REFUSED = """
import clinometer as cm
from clinometer.errors import ModelError
from clinometer.models import load_encoder, load_generator
for load, name in ((load_generator, "reference"), (load_encoder, "reference"), (load_encoder, "ViT-B-32/openai")):
    try:
        load(name)
    except ModelError as error:
        print(error)
"""


def run(code: str, *arguments: Path, hub: bool = False) -> subprocess.CompletedProcess[str]:
    without = WITHOUT.replace("'huggingface_hub'", "''") if hub else WITHOUT
    command = [sys.executable, "-c", without + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.thorough
def test_finished_runs_need_no_models(tmp_path):
    for seed, name in enumerate(("first", "second")):
        quick.audit(Painter(name=name), toy_suite(), tmp_path / name, encoder=Eye(), seed=seed)
    done = run(LIGHT, tmp_path / "first", tmp_path / "second", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/comparison.html").exists()


def test_a_model_says_in_a_line_what_it_needs():
    done = run(REFUSED)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    for line, adapter in zip(lines, ("reference", "reference", "transformers"), strict=True):
        assert re.match(rf"model '{adapter}': \w+ is not installed; ", line)
        assert "pip install 'clinometer[models]'" in line


CARD = """
import clinometer as cm
from clinometer.errors import ModelError
try:
    cm.model_card(sys.argv[1])
except ModelError as error:
    print(error)
"""


@pytest.mark.thorough
def test_a_model_card_says_in_a_line_what_it_needs():
    done = run(CARD, ROOT / "tests/fixtures/runs/leaning")
    (line,) = done.stdout.splitlines()
    assert "huggingface_hub" in line, done.stderr
    assert "pip install 'clinometer[models]'" in line
    assert "pip install huggingface_hub" in line
    done = run(
        CARD.replace("cm.model_card(sys.argv[1])", "print(len(cm.model_card(sys.argv[1])))"),
        ROOT / "tests/fixtures/runs/leaning",
        hub=True,
    )
    assert int(done.stdout) > 1_000, done.stderr


def test_the_extra_brings_what_is_named_when_it_is_missing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {name.split(">")[0].removesuffix("_torch") for name in project["optional-dependencies"]["models"]}
    assert brought == set(EXTRA_PACKAGES) - {"torchvision"}  # which open_clip brings
    assert not brought & {name.split(">")[0] for name in project["dependencies"]}


RATINGS = """
from typer.testing import CliRunner

import pytest
from clinometer.cli.app import app
def find_spec(name, *where, real=importlib.util.find_spec):
    return None if name == "sqlalchemy" else real(name, *where)
importlib.util.find_spec = find_spec
for words in (["new", sys.argv[1]], ["list"], ["collect", "a task"]):
    print(CliRunner().invoke(app, ["ratings", *words]).exception)
"""


def test_rating_tasks_say_in_a_line_what_they_need():
    done = run("import importlib.util" + RATINGS, ROOT / "tests/fixtures/runs/leaning")
    assert (
        done.stdout.splitlines() == ["ratings: sqlalchemy is not installed; give: pip install 'clinometer[web]'"] * 3
    ), done.stderr
