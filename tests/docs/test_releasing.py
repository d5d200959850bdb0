"""The steps of a release, as far as they go without an index: built, checked, listed, installed."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile

import pytest
import yaml

import clinometer as cm
from tests.docs.pages import ROOT, page, sh_commands

pytestmark = [pytest.mark.thorough, pytest.mark.slow]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what a release is built from, after the steps of the page that are about it."""
    folder = tmp_path_factory.mktemp("release") / "clinometer"
    folder.mkdir()
    for name in ("src", "docs", "tests/fixtures", "pyproject.toml", "README.md", "LICENSE", "CITATION.cff"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    for words in sh_commands(ROOT / "docs/releasing.md"):
        if words[0] == ".venv/bin/python":
            files = sorted(map(str, (folder / "dist").glob("*"))) if words[-1] == "dist/*" else words[-1:]
            here = [sys.executable if word == ".venv/bin/python" else word for word in (*words[:-1], *files)]
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
    bill = json.loads((checkout / "dist/clinometer.cdx.json").read_text("utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    main = bill["metadata"]["component"]
    assert (main["name"], main["version"], main["type"]) == ("clinometer", cm.__version__, "library")
    assert {"numpy", "scipy", "pandas"} <= {component["name"] for component in bill["components"]}


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_what_was_built_installs_and_measures(checkout, tmp_path, kind):
    (built,) = (checkout / "dist").glob(kind)
    venv.create(tmp_path / "env", with_pip=True)
    own = tmp_path / "env/bin/python"
    # Dependencies are those of this environment: an index may be out of reach
    packages = subprocess.run(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    site = next((tmp_path / "env/lib").glob("python*")) / "site-packages"
    shutil.copytree(f"{packages}/hatchling", site / "hatchling")
    for needed in ("packaging", "pathspec", "pluggy", "trove_classifiers"):
        shutil.copytree(f"{packages}/{needed}", site / needed)
    install = [own, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", built]
    subprocess.run(install, check=True, capture_output=True, env=environment)
    environment["PYTHONPATH"] = f"{site}{os.pathsep}{packages}"
    shutil.copytree(ROOT / "tests/fixtures/runs/leaning", tmp_path / "run")
    code = "import clinometer, sys; print(clinometer.__version__, clinometer.__file__)"
    told = subprocess.run([own, "-c", code], check=True, capture_output=True, text=True, env=environment).stdout
    assert told.split()[0] == cm.__version__
    assert str(site) in told
    command = [tmp_path / "env/bin/clinometer", "score", tmp_path / "run"]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=tmp_path)
