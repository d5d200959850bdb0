"""Runs scored before verdicts were data: their sentences are read, in one place, and their pages still open."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import clinometer as cm
from clinometer.metrics import Score
from clinometer.metrics.verdict import Verdict
from clinometer.pipeline.comparison_page import comparison_html
from clinometer.pipeline.results import render_html
from clinometer.report.view import scores_table
from clinometer.runs.run import WITHOUT_PARTS, read_verdict, with_parts, with_verdicts_as_data
from clinometer.studies.reporting import report_input
from tests import quick
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


@pytest.mark.thorough
def test_the_page_and_the_comparison_of_an_old_run_open(stored, tmp_path):
    old, other = (
        quick.audit(Painter(name=name), toy_suite(target=4, attribute=2), tmp_path / name, encoder=Eye())
        for name in ("old", "other")
    )
    as_of_format_1(Path(old.url))
    old.directory.write_table("scores.parquet", pa.Table.from_pandas(stored, preserve_index=False))
    old = cm.open_run(old.url)
    page = render_html(report_input(old))
    assert "leans to woman" in page  # its MCAS
    assert "did not separate how pictures lean from how texts lean; give: clinometer score RUN" in page
    assert "4 not measured" in old._repr_html_()
    assert "other" in comparison_html(cm.compare(old, other))


def test_a_table_without_parts_gets_their_values_and_says_what_it_lacks(stored):
    old = with_verdicts_as_data(stored)
    table = with_parts(old)
    assert with_parts(table) is table
    parts = table[table.component.isin(["image_part", "text_part"])]
    mean = table[(table.encoder == "mean") & (table.metric == "mcas")].pivot(
        index="concept", columns="component", values="value"
    )
    np.testing.assert_allclose(mean.image_part + mean.text_part, mean.mcas, atol=1e-4)  # the file has five digits
    np.testing.assert_allclose(mean.image_part, mean.ii + mean.ita)
    assert parts[["low", "high", "p", "q"]].isna().all(axis=None)
    assert set(parts.reason) == {WITHOUT_PARTS}
    judged = (parts.component == "image_part") & (parts.encoder == "mean")
    assert set(parts.verdict[judged]) == {"not measured"}
    assert set(parts.verdict[~judged]) == {""}


def test_a_table_along_axes_without_parts_leans_nowhere():
    rows = [
        Score(metric="intersections", component=component, concept="nurse", group=group, value=0.4, low=0.1, high=0.7,
              p=0.01, q=0.01, verdict=verdict, side=side, setting=setting)
        for component, group, setting, verdict, side in (
            ("axis:gender", "woman", "", "leans", "woman"), ("axis:gender", "woman", "ii", "", ""),
            ("cell:old man", "old man", "", "undecided", ""),
            ("interaction:gender×age", "old man", "", "leans", "old man"),
        )
    ]  # fmt: skip
    table = with_parts(scores_table(rows))
    whole = table[(table.setting == "") & ~table.component.str.startswith("interaction")]
    assert whole.value.isna().all()
    assert set(whole.verdict) == {"not measured"}
    assert set(whole.reason) == {WITHOUT_PARTS}
    assert table[table.setting == "mcas"].value.tolist() == [0.4, 0.4]
    assert table[table.component.str.startswith("interaction")].verdict.tolist() == ["leans"]
