"""Runs scored before verdicts were data: their sentences are read, in one place, and their pages still open."""

from dataclasses import fields
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import clinometer as cm
from clinometer.metrics import Score
from clinometer.metrics.verdict import Verdict
from clinometer.pipeline.comparison_page import comparison_html
from clinometer.pipeline.reporting import render_html
from clinometer.report.from_run import report_input
from clinometer.runs.old_scores import read_verdict, with_verdicts_as_data
from tests.old_runs import as_of_format_1
from tests.toys import Eye, Painter, toy_suite

SENTENCES = {
    "": ("", "", ""),
    "leans to men": ("leans", "men", ""),
    "leans slightly to old women": ("leans slightly", "old women", ""),
    "leans to lighter skin, dark skin more than light": ("leans", "lighter skin", ""),
    "shown balanced within margin": ("balanced", "", ""),
    "balanced within margin": ("balanced", "", ""),
    "undecided": ("undecided", "", ""),
    "not measured": ("not measured", "", ""),
    "shown to lean alike within margin": ("alike", "", ""),
    "the second leans more to man": ("more", "man", ""),
    "the second leans more": ("more", "second", ""),
    "the first leans more": ("more", "first", ""),
    "the first refuses more": ("more", "first", ""),
    "the second refuses more of these prompts": ("more of these prompts", "second", ""),
    "the first's refusals tilt more to woman": ("more", "woman", "first"),
}
"""Every sentence that a run or a comparison ever stored, and what it says."""

STORED = Path(__file__).with_name("scores_with_sentences.csv")
"""MCAS and shares of a small run, as the version before wrote them."""


@pytest.mark.parametrize(("sentence", "read"), SENTENCES.items(), ids=str)
def test_every_sentence_is_read(sentence, read):
    assert tuple(read_verdict(sentence)) == read
    assert read[0] in {"", *Verdict}


def test_words_that_never_were_a_verdict_are_none():
    assert read_verdict("the moon leans to men").verdict == "not measured"


@pytest.fixture(scope="module")
def stored():
    return pd.read_csv(STORED)


def test_a_stored_table_is_read_into_the_columns_of_today(stored):
    read = with_verdicts_as_data(stored)
    assert set(read) == {field.name for field in fields(Score)}
    judged = read[(read.component == "mcas")].set_index("concept")
    assert judged[["verdict", "side"]].to_numpy().tolist() == [["leans", "woman"]] * 2 + [["leans", "man"]] * 2
    assert read.p_labels.isna().all()  # nobody asked then
    assert with_verdicts_as_data(read) is read


def test_the_page_and_the_comparison_of_an_old_run_open(stored, tmp_path):
    old, other = (
        cm.audit(Painter(name=name), toy_suite(target=4, attribute=2), tmp_path / name, encoder=Eye())
        for name in ("old", "other")
    )
    as_of_format_1(Path(old.url))
    old.directory.write_table("scores.parquet", pa.Table.from_pandas(stored, preserve_index=False))
    old = cm.open_run(old.url)
    assert "leans to woman" in render_html(report_input(old))
    assert "2 to woman" in old._repr_html_()
    assert "other" in comparison_html(cm.compare(old, other))
