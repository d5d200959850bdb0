"""``clinometer test`` as a user meets it."""

import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from clinometer.cli import reading as weat
from clinometer.cli.app import app
from clinometer.errors import ClinometerError, Code
from clinometer.report.wording import interval, number
from clinometer.suites import load_suite
from tests.raising import raises


@pytest.fixture
def vectors(tmp_path):
    """Vectors of all words of weat/6 but one."""
    rng = np.random.default_rng(0)
    words = [word for word in load_suite("weat/6").texts() if word != "Donna"]
    lines = [" ".join([word.lower(), *map(str, rng.normal(size=5).round(4))]) for word in words]
    (tmp_path / "v.vec").write_text("\n".join(lines))
    return tmp_path / "v.vec"


def run(*words, **options):
    return CliRunner().invoke(app, ["test", *map(str, words)], env={"COLUMNS": "200"}, terminal_width=200, **options)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_a_table_is_shown_and_written(vectors, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(weat, "Console", lambda **options: Console(width=200, **options))
    out = tmp_path / f"table{suffix}"
    shown = run("weat/6", "-e", vectors, "-o", out)
    assert shown.exit_code == 0, shown.output
    assert "male names, female names" in shown.output
    assert "weat/6: without Donna" in shown.output
    assert "every split counted in 1 of 1" in shown.output
    assert "(ddof 1)" in shown.output
    assert "has its reason" not in shown.output
    readers = {
        ".csv": pd.read_csv,
        ".json": lambda p: pd.DataFrame(json.loads(p.read_text())),
        ".parquet": pd.read_parquet,
    }
    row = readers[suffix](out).iloc[0]
    assert (row.n_x, row.n_y, row.n_splits, row.missing) == (8, 7, 6_435, "Donna")
    assert number(row.effect_size, 3) in shown.output
    assert interval(row.effect_size_low, row.effect_size_high) in shown.output


def test_an_undone_test_has_its_reason(vectors, monkeypatch):
    monkeypatch.setattr(weat, "Console", lambda **options: Console(width=200, **options))
    shown = run("weat/1", "weat/6", "-e", vectors, "--spread", "pooled")
    lacking = "25 of 25 are missing (aster, clover, hyacinth and 22 more); at most 20% may be"
    assert f"weat/1: flowers: {lacking}" in shown.output
    assert "the two sets' pooled standard deviation" in shown.output
    assert "What is — has its reason above." in " ".join(shown.output.split())


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_number_and_no_name_is_cut(vectors, tmp_path, monkeypatch, width):
    monkeypatch.setattr(weat, "Console", lambda **options: Console(width=width, **options))
    out = tmp_path / "table.csv"
    shown = run("weat/6", "-e", vectors, "-o", out).output
    row = pd.read_csv(out).iloc[0]
    assert "…" not in shown
    for text in (number(row.statistic, 4), number(row.effect_size, 3), f"{row.p:.3g}", f"{row.q:.3g}", "female"):
        assert text in shown
    assert interval(row.effect_size_low, row.effect_size_high) in shown


def test_a_wrong_place_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "t.csv").mkdir()
    for out, code in (
        (tmp_path / "t.xlsx", Code.UNSUPPORTED),
        (tmp_path / "no" / "t.csv", Code.NOT_FOUND),
        (tmp_path / "t.csv", Code.UNSUPPORTED),
    ):
        with raises(ClinometerError, code=code, match="^--out "):
            run("weat/6", "-o", out, "-e", "nowhere", catch_exceptions=False)


def test_an_encoder_that_knows_nothing_of_the_words_is_named():
    shown = " ".join(run("weat/6").output.split())
    assert "encoder reference does not fit: it knows nothing but the emoji artwork of the reference model" in shown
    assert "it has not learned" in shown
    assert "--encoder ViT-B-32/openai" in shown


def test_an_encoder_that_fits_is_not_warned_of(vectors):
    assert "does not fit" not in run("weat/6", "-e", vectors).output
