"""What a package can offer: the page of contracts, and examples/plugin, installed and used as the page says."""

import ast
import json
import shlex
import subprocess
import sys
import tomllib
from types import ModuleType
from typing import Any

import pytest

import clinometer.mitigation.making
import clinometer.models
import clinometer.pipeline.engines
import clinometer.runs
import clinometer.studies.study
from clinometer.api import model_card
from clinometer.errors import Code, InvalidInputError, SuiteError
from clinometer.exports.formats import GROUP as FORMATS
from clinometer.models.registry import registered
from clinometer.pipeline import engines
from clinometer.suites import installed_suites, load_suite
from clinometer.suites.schema import SUITES
from tests import quick
from tests.docs.pages import ROOT, blocks, page
from tests.example import PLUGIN, PROJECT, register_example
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

PAGE = page("docs/api/extending.md")
OWN = tomllib.loads(page("pyproject.toml"))["project"]["entry-points"]
GROUPS = {group for group in OWN if group.startswith("clinometer.")} | {engines.GROUP, FORMATS, SUITES}


def test_the_page_has_the_contract_of_every_group():
    [block] = blocks(PAGE, "python")
    told = [line.split(":")[0].removeprefix("# ") for line in block.splitlines() if line.startswith("#")]
    assert sorted(told) == sorted(GROUPS)
    assert len(ast.parse(block).body) == len(told)
    names = {name: getattr(clinometer, name) for name in ("mitigation", "models", "pipeline", "runs", "studies")}
    exec(compile(block, "docs/api/extending.md", "exec"), names | {"Any": Any, "ModuleType": ModuleType})


def test_the_example_offers_something_in_each_group_but_two_and_has_a_metric():
    assert set(PROJECT["entry-points"]) == GROUPS - {"clinometer.mitigations", "clinometer.engines"}
    assert (PLUGIN / "clinometer_example/metric.py").exists()


def test_suites_and_formats_of_a_package_are_found_by_name(tmp_path, monkeypatch):
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match="'example/walls'"):
        load_suite("example/walls")
    run = quick.finished(Painter(), toy_suite(), encoder=Eye())
    with raises(
        InvalidInputError, code=Code.UNKNOWN_NAME, field="format", match="model-card, .*cyclonedx, found 'plain-text'$"
    ):
        model_card(run, format="plain-text")
    register_example(monkeypatch, tmp_path)
    assert set(installed_suites()) == {"example/colours", "example/walls"}
    assert load_suite("example/walls").study == "brightness"
    assert {("reader", "daylight"), ("encoder", "mean-colour")} <= {(kind, name) for kind, name, _ in registered()}
    text = model_card(run, format="plain-text", out=tmp_path / "card.txt")
    row = run.scores[run.scores.verdict != ""].iloc[0]
    assert f"{row.concept}: {row.component} {row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}], {row.verdict}" in text
    assert (tmp_path / "card.txt").read_text() == text
    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="by", match="plain-text"):
        model_card(run, format="plain-text", by="me")
    monkeypatch.setattr("clinometer_example.export.write", lambda run: run.nothing)
    with raises(
        InvalidInputError,
        code=Code.FAILED,
        field="format",
        match=r"'plain-text' \(clinometer_example.export:write\) .*AttributeError",
    ):
        model_card(run, format="plain-text")
    monkeypatch.setattr("clinometer_example.export.write", len)
    with raises(InvalidInputError, code=Code.FAILED, field="format", match="TypeError"):
        model_card(run, format="plain-text")


COMMANDS = """
import json, sys
from clinometer.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = words
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
import clinometer_example
print(clinometer_example.__file__)
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_the_example_is_installed_and_audits_as_the_page_says(tmp_path):
    [block] = blocks(PAGE, "sh")
    install, *commands = [shlex.split(line) for line in block.splitlines()]
    site = tmp_path / "site"
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target", str(site)]
    subprocess.run([sys.executable, "-m", *install[:2], *options, install[2]], check=True, cwd=ROOT)
    asked = [[*words, "--resamples", "999"] if words[1] == "audit" else words for words in commands]
    told = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(asked)], check=True, cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": f"{site}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    ).stdout  # fmt: skip
    assert str(site) in told
    assert "example/walls" in told
    stripes, walls = (clinometer.open_run(tmp_path / "runs" / name) for name in ("stripes", "walls"))
    assert {"metric", "component"} <= set(stripes.scores)
    assert stripes.model_card["settings"] == {"width": 4}
    assert list(stripes.encoder_cards) == ["mean-colour"]
    assert set(stripes.readers.cards) == {"daylight"}
    assert "image_part" in told
    assert set(walls.scores.metric) >= {"brightness"}
