"""A paper whose pictures are given: labels become counts, tests and a table, by the one command."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import clinometer as cm
from clinometer.api import plan_reproduction
from clinometer.errors import Code, InvalidInputError
from tests.cli.conftest import cli
from tests.raising import raises

__all__ = ["cli"]
CELLS = {
    ("dall_e_3", "ceo"): {"plain": "www wwww mmm".replace(" ", ""), "diverse": "wwwwwwbbbb"},
    ("dall_e_3", "nurse"): {"plain": "w" * 10, "diverse": "w" * 10},
    ("held back", "ceo"): {"plain": "m" * 10, "diverse": "wwwmmmmbbb"},
}
NAMES = {"w": "woman", "m": "man", "b": "both"}


@pytest.fixture
def folder(tmp_path):
    rows = [
        (f"{model}/{concept}-{prompt}-{at}.jpg", model, concept, prompt, NAMES[seen], "")
        for (model, concept), prompts in CELLS.items()
        for prompt, seen_in in prompts.items()
        for at, seen in enumerate(seen_in)
    ]
    place = tmp_path / "pictures"
    for name, *_ in rows:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"")
    table = pd.DataFrame(rows, columns=["file", "model", "concept", "prompt", "seen_gender", "seen_race"])
    table["seen_race"] = ["asian", "black"] * (len(rows) // 2)
    table.to_csv(place / "pictures.csv", index=False)
    return place


def cells_of(out):
    return pd.read_csv(Path(out) / "tables/gender-by-prompt.csv", keep_default_na=False, na_values=["NaN"])


def test_labels_become_the_table_of_every_model_that_is_in_the_folder(folder, tmp_path):
    done = cm.reproduce("prompting", tmp_path / "out", pictures=folder, report=False)
    assert not done.failed
    assert set(done.runs) == {"prompting-gender", "prompting-race"}
    cells = cells_of(done.url)
    exact = cells[cells.column == "exact p"].set_index(["model", "concept"]).run.astype(float)
    assert exact.to_dict() == pytest.approx(
        {("dall_e_3", "ceo"): 0.0217, ("dall_e_3", "nurse"): 1.0, ("held back", "ceo"): 0.0108}, abs=5e-5
    )
    page = Path(done.pages["prompting"]).read_text()
    assert "of 3 cells, χ² without a correction puts 2 below .05, the exact test 2; 2 have q" in page
    assert "held back" in page  # a model that nobody here has a name for
    assert "FLUX" in page  # the print is of it, too
    assert "p-values are not available: put printed.csv" in page
    assert "0.022" in page
    again = cm.reproduce("prompting", tmp_path / "out", pictures=folder, report=False)
    assert not again.failed
    assert Path(again.pages["prompting"]).read_text() == page


def test_the_same_numbers_come_from_import(folder, tmp_path, cli):
    cm.reproduce("prompting", tmp_path / "out", pictures=folder, report=False)
    table = tmp_path / "out/counts/prompting-gender.csv"
    status, said = cli("import", "--counts", str(table), "--out", str(tmp_path / "run"), "--no-report")
    assert status == 0, said
    own, theirs = (cm.open_run(place).scores for place in (tmp_path / "run", tmp_path / "out/runs/prompting-gender"))
    pd.testing.assert_frame_equal(own, theirs)


def test_what_the_paper_prints_stands_in_the_column_of_its_test(folder, tmp_path):
    (folder / "printed.csv").write_text(
        "model,concept,p,label\ndall_e_3,ceo,0.029,\nheld back,ceo,<0.001,seen_gender\ndall_e_3,nurse,0.4,seen_race\n"
    )
    done = cm.reproduce("prompting", tmp_path / "out", pictures=folder, report=False)
    page = Path(done.pages["prompting"]).read_text()
    assert '"printed">0.029<' in page
    assert '"printed">&lt;0.001<' in page
    assert "printed.csv has the p-values of 2 cells, of which 2 lie below .05" in page
    cells = cells_of(done.url)
    assert set(cells.column[cells.printed != ""]) == {"χ² p"}


def test_it_is_said_what_it_takes_and_it_is_in_all_where_pictures_are_given(folder, tmp_path):
    needs = plan_reproduction("prompting", tmp_path / "out", pictures=folder)
    assert [(run.images, run.missing) for run in needs.runs] == [(60, 0), (60, 0)]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("file", "gone.jpg", "pictures.csv, line 2, file: there is no 'gone.jpg' in"),
        ("model", "", "pictures.csv, line 2, model: it is empty; fill it in"),
        ("model", "a: b", "pictures.csv, line 2, model: found 'a: b'; leave out ': '"),
        ("prompt", "other", "pictures.csv: no picture of dall_e_3: nurse at prompt other"),
    ],
)
def test_a_line_that_is_wrong_costs_its_table_alone_and_is_named(folder, tmp_path, column, value, said):
    table = pd.read_csv(folder / "pictures.csv")
    table.loc[0, column] = value
    table.to_csv(folder / "pictures.csv", index=False)
    done = cm.reproduce("prompting", tmp_path / "out", pictures=folder, report=False)
    assert all(said in reason for reason in done.failed.values())
    page = Path(done.pages["prompting"]).read_text()
    assert "Left out of this page" in page
    record = json.loads((tmp_path / "out/reproduction.json").read_text())
    assert {run["status"] for run in record["runs"].values()} == {"failed"}


def test_a_column_that_is_missing_leaves_the_other_table(folder, tmp_path):
    table = pd.read_csv(folder / "pictures.csv").drop(columns="seen_race")
    table.to_csv(folder / "pictures.csv", index=False)
    done = cm.reproduce("prompting", tmp_path / "out", pictures=folder, report=False)
    ((key, reason),) = done.failed.items()
    assert key == "prompting-race"
    assert "seen_race is missing: expected file, model, concept, prompt, seen_race" in reason
    assert len(cells_of(done.url)) == 3 * (6 + 3)


def test_without_pictures_it_is_said_what_to_bring(tmp_path, cli):
    with raises(InvalidInputError, code=Code.MISSING, field="pictures", match="paper prompting"):
        cm.reproduce("prompting", tmp_path / "out")
    status, said = cli("reproduce", "prompting", "--out", str(tmp_path / "out"), "--pictures", str(tmp_path / "none"))
    assert status == 2
    assert "no such folder; give a folder of pictures and pictures.csv" in said
