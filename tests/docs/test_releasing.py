"""A release as far as it goes without an index: built, checked, listed, installed, tried as the tutorial says."""

import configparser
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement

import clinometer as cm
from clinometer.suites import load_suite
from tests.docs.pages import ROOT, blocks, page, sh_commands

pytestmark = [pytest.mark.thorough, pytest.mark.slow]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what a release is built from, after the steps of the page that are about it."""
    folder = tmp_path_factory.mktemp("release") / "clinometer"
    folder.mkdir()
    for name in ("src", "docs", "tests/fixtures", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    for words in sh_commands(ROOT / "docs/releasing.md"):
        if words[0] == ".venv/bin/python":
            files = sorted(map(str, (folder / "dist").glob("*"))) if words[-1] == "dist/*" else words[-1:]
            here = [sys.executable if word == ".venv/bin/python" else word for word in (*words[:-1], *files)]
            here += ["--no-validate"] * ("cyclonedx_py" in words)  # half a minute, nearly all of it for URLs
            subprocess.run(here, cwd=folder, check=True, capture_output=True)
    return folder


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads(page("pyproject.toml"))["project"]
    assert project["version"] == yaml.safe_load(page("CITATION.cff"))["version"] == cm.__version__
    assert "Development Status :: 4 - Beta" in project["classifiers"]


def test_a_wheel_and_a_source_distribution_are_built_from_the_same_files(checkout):
    with zipfile.ZipFile(checkout / f"dist/clinometer-{cm.__version__}-py3-none-any.whl") as wheel:
        of_wheel = {name for name in wheel.namelist() if name.startswith("clinometer/")}
    with tarfile.open(checkout / f"dist/clinometer-{cm.__version__}.tar.gz") as archive:
        inside = f"clinometer-{cm.__version__}/src/"
        of_source = {name.removeprefix(inside) for name in archive.getnames() if name.startswith(inside)}
    assert of_wheel
    assert of_wheel <= of_source


def test_the_bill_of_materials_names_the_release_and_what_it_was_tested_with(checkout):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    bill = json.loads((checkout / "dist/clinometer.cdx.json").read_text("utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    main = bill["metadata"]["component"]
    assert (main["name"], main["version"], main["type"]) == ("clinometer", cm.__version__, "library")
    assert {"numpy", "scipy", "pandas"} <= {component["name"] for component in bill["components"]}
    without_urls = [
        {name: value for name, value in component.items() if name != "externalReferences"}
        for component in bill["components"]
    ]
    validator = JsonStrictValidator(SchemaVersion.from_version(bill["specVersion"]))
    assert validator.validate_str(json.dumps(bill | {"components": without_urls})) is None


@pytest.fixture(scope="module")
def wheel(checkout):
    (built,) = (checkout / "dist").glob("*.whl")
    return built


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


def packages_of(requirement, seen):
    """Names of all distributions of this environment that pip would install for a requirement."""
    for extra in ("", *requirement.extras):
        if (requirement.name, extra) in seen:
            continue
        seen.add((requirement.name, extra))
        for line in metadata.requires(requirement.name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                packages_of(needed, seen)
    return {name for name, _ in seen}


COMMANDS = """
import contextlib, io, json, sys
from importlib.metadata import entry_points
[command] = entry_points(group="console_scripts", name="clinometer")
told = []
for words in json.load(sys.stdin):
    sys.argv, said, status = ["clinometer", *words], io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status = command.load()() or 0
        except SystemExit as end:
            status = end.code or 0
    told.append([status, said.getvalue()])
json.dump(told, sys.stdout)
"""


class Installed:
    """The wheel, installed into a fresh environment; what other extras need lies in a folder of their own.

    Dependencies are linked from this environment, exactly those that the wheel's own metadata asks for: an index may be
    out of reach, and ``make`` asks it for the same packages.
    """

    def __init__(self, wheel, folder):
        self.folder = folder
        venv.create(folder / "env", with_pip=False)
        self.bin = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        pip = [sys.executable, "-m", "pip", "--python", self.bin / "python"]
        install = [*pip, "install", "--quiet", "--no-compile", "--no-deps", "--no-index", wheel]
        subprocess.run(install, check=True)
        (self.site,) = (folder / "env/lib").glob("python*/site-packages")
        self.light = packages_of(Requirement("clinometer"), set())
        self.link(self.light, self.site)
        where = self.run(
            "python", "-c", "import clinometer; print(clinometer.__version__, clinometer.__file__)"
        ).split()
        assert where[0] == cm.__version__
        assert where[1].startswith(str(folder / "env"))

    def link(self, names, place):
        for name in names - {"clinometer"}:
            package = metadata.distribution(name)
            for part in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
                if not (place / part).exists():
                    (place / part).symlink_to(package.locate_file(part))

    def with_extras(self, extras):
        """Make a folder of what these extras need beyond the light install, for ``run`` and ``run_all``."""
        place = self.folder / extras
        place.mkdir()
        self.link(packages_of(Requirement(f"clinometer[{extras}]"), set()) - self.light, place)
        return place

    def run(self, *words, extras=None, cwd=None, said=None):
        """Run a program of the environment."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        done = subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=cwd or self.folder, env=environment | ({"PYTHONPATH": str(extras)} if extras else {}),
            input=said, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def run_all(self, *commands, extras=None, cwd):
        """Run commands as its script does, one after another in one process; return how each ended and what it said."""
        told = json.loads(self.run("python", "-c", COMMANDS, extras=extras, cwd=cwd, said=json.dumps(commands)))
        assert len(told) == len(commands)
        return told


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


def test_the_light_install_reads_scores_and_reports_a_run_and_asks_for_models(installed, tmp_path):
    shutil.copytree(ROOT / "tests/fixtures/runs/leaning", tmp_path / "run")
    assert "mcas" in installed.run("clinometer", "suites", cwd=tmp_path)
    commands = (
        ("score", "run", "--resamples", "199"),
        ("report", "run"),
        ("verify", "run"),
        ("export", "run", "paper", "--board", "none"),
        ("audit",),
    )
    *told, (status, said) = installed.run_all(*commands, cwd=tmp_path)
    for words, (ended, what) in zip(commands, told, strict=False):
        assert ended == 0, (words, what)
    assert (tmp_path / "run/report.html").exists()
    assert status == 2
    assert "pip install 'clinometer[models]'" in said


def test_the_tutorial_runs_from_the_built_wheel_in_a_fresh_environment(installed, tmp_path):
    """Everything but the last command, whose model nobody has; few pictures of one step: a picture is a picture."""
    models = installed.with_extras("models")
    few = load_suite("reference").with_options(image_counts={"target": 4, "attribute": 2})
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(few.model_dump(mode="json", exclude_none=True)), "utf-8")
    drawn = ["--suite", "few.yaml", "--steps", "1", "--resamples", "199"]
    commands = []
    for program, *words in list(sh_commands(ROOT / "docs/tutorial.md"))[1:]:
        assert program == "clinometer"
        if "./my-model" not in words:
            commands.append([*words, *(drawn if words[0] == "audit" else [])])
    for words, (status, said) in zip(commands, installed.run_all(*commands, extras=models, cwd=tmp_path), strict=True):
        assert status in ((0, 1, 3) if "gate" in words else (0,)), (words, said)
    for block in blocks(page("docs/tutorial.md"), "python"):
        assert "firefighter" in installed.run("python", "-c", block, extras=models, cwd=tmp_path)
    assert (tmp_path / "comparison/comparison.html").exists()
    assert (tmp_path / "paper/methods.md").exists()
