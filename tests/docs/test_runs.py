"""The page about run directories names every file, key and column there is."""

import json
import os
from dataclasses import fields

import pytest

from clinometer.metrics import Score
from clinometer.runs.plan import PLAN_SCHEMA
from clinometer.runs.samples import SAMPLE_FIELDS
from tests import quick
from tests.docs.pages import blocks, page, table_rows
from tests.toys import Eye, Painter, toy_suite

PAGE = page("docs/runs.md")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "runs/reference-reference"
    return quick.audit(Painter(), toy_suite(concepts=10), folder, encoder=Eye())


def named(heading):
    return {name.strip(" `") for row in table_rows(PAGE, heading) for name in row[0].split(",")}


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("column in plan", set(PLAN_SCHEMA.names)),
        ("column in samples", set(SAMPLE_FIELDS)),
        ("column in scores", {field.name for field in fields(Score)}),
    ],
)
def test_the_tables_have_every_column(heading, names):
    assert named(heading) == names


def test_the_tables_match_a_run(run):
    assert named("key") == set(json.loads(run.directory.read_bytes("run.json")))
    assert named("column in scores") == set(run.scores.columns)
    assert named("column in curves") == set(run.curves.columns)
    columns = set(run.directory.read_table("embeddings/eye/part-00000.parquet").column_names)
    assert named("column in embeddings") == columns | set(
        run.directory.read_table("embeddings/eye/texts.parquet").column_names
    )


def test_every_file_of_a_run_is_named(run):
    shown = blocks(PAGE, "")[0]
    for folder, _, files in os.walk(run.directory.root):
        for file in files:
            name = f"{folder.removeprefix(run.directory.root)}/{file}".replace("/eye/", "/ENCODER/")
            if "/part-" in name:
                name = name.split("/part-")[0] + "/part-00000.parquet"
            assert f"RUN{name}" in shown, name


def test_every_metric_of_a_run_is_named(run):
    (row,) = [row for row in table_rows(PAGE, "column in scores") if row[0] == "`metric`"]
    assert {f"`{metric}`" for metric in run.scores.metric} <= set(row[1].replace(",", "").split())


def test_the_python_works(run, monkeypatch, capsys):
    monkeypatch.chdir(run.directory.root.removesuffix("/runs/reference-reference"))
    same, first, others, _ = blocks(PAGE, "python")
    defined = {}
    exec(compile(same, "docs/runs.md", "exec"), defined)
    assert defined["share_of_the_same"](run.url, run.url) == 1
    exec(compile(first, "docs/runs.md", "exec"), {})
    assert "concept 0.20" in capsys.readouterr().out
    exec(compile(others.split("# datasets")[0], "docs/runs.md", "exec"), {})
