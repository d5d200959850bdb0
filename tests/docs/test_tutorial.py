"""The tutorial and the skill: their Python runs, and from the built wheel in a fresh environment, so does all of it."""

import configparser
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel") / "dist"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(build, check=True)
    (made,) = folder.iterdir()
    return made


@pytest.fixture
def give(wheel, tmp_path):
    """A command in a fresh environment, in a folder that has the wheel in ``dist``; what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    venv.create(tmp_path / "env", with_pip=True)
    bin_folder = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    shutil.copytree(wheel.parent, tmp_path / "dist")

    def give(*words, status=(0,)):
        done = subprocess.run(
            [bin_folder / words[0], *words[1:]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in status, (words, done.stderr)
        return done.stdout + done.stderr * done.returncode

    return give


@pytest.mark.slow
@pytest.mark.thorough
def test_the_wheel_holds_every_file_of_the_package_and_its_entry_points(wheel):
    package = ROOT / "src/clinometer"
    files = {f"clinometer/{path.relative_to(package).as_posix()}" for path in package.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as held:
        shipped = {name for name in held.namelist() if ".dist-info/" not in name}
        (name,) = (name for name in held.namelist() if name.endswith("entry_points.txt"))
        points = held.read(name).decode()
    assert shipped == {name for name in files if not name.endswith(".pyc")}
    assert {"clinometer/py.typed", "clinometer/suites/data/mcas.yaml"} <= shipped
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    read = configparser.ConfigParser(delimiters="=")
    read.optionxform = str
    read.read_string(points)
    assert {group: dict(read[group]) for group in read.sections()} == groups


@pytest.mark.slow
@pytest.mark.thorough
def test_the_light_install_reads_scores_and_reports_a_run_and_asks_for_models(give, wheel, tmp_path):
    give("pip", "install", "--quiet", wheel)
    shutil.copytree(ROOT / "tests/fixtures/runs/leaning", tmp_path / "run")
    for words in (
        ("suites",),
        ("score", "run"),
        ("report", "run"),
        ("verify", "run"),
        ("export", "run", "paper", "--board", "none"),
    ):
        give("clinometer", *words)
    assert (tmp_path / "run/report.html").exists()
    assert "pip install 'clinometer[models]'" in give("clinometer", "audit", status=(2,))


@pytest.mark.slow
@pytest.mark.thorough
def test_the_tutorial_runs_from_the_built_wheel_in_a_fresh_environment(give, tmp_path):
    """Everything but the last command, whose model nobody has; drawn in one step, for a picture is a picture."""
    for program, *words in sh_commands(TUTORIAL):
        more = {"pip": ["-c", ROOT / "constraints.txt", "--quiet"], "audit": ["--steps", "1", "--resamples", "999"]}
        if "./my-model" not in words:
            status = (0, 1, 3) if "gate" in words else (0,)
            give(program, *words, *more.get(program, more.get(words[0], [])), status=status)
    for block in blocks(page("docs/tutorial.md"), "python"):
        assert "firefighter" in give("python", "-c", block)
    assert give("python", "-c", "import clinometer; print(clinometer.__file__)").startswith(str(tmp_path / "env"))
    assert (tmp_path / "comparison/comparison.html").exists()
    assert (tmp_path / "paper/methods.md").exists()
