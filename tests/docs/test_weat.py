"""The page about WEAT: its Python runs, its suite loads, its table of files is complete."""

import re

import clinometer as cm
from clinometer.models.encoders.embeddings import LABEL_COLUMNS, READERS
from clinometer.suites.schema import suite_from_text
from tests.docs.pages import blocks, numbers, page, table_rows
from tests.metrics.wefe import EFFECT_SIZE, EXACT_P, P_VALUE, STATISTIC

PAGE = page("docs/weat.md")


def test_the_python_runs(capsys):
    (block,) = blocks(PAGE, "python")
    exec(compile(block, "docs/weat.md", "exec"), {})
    assert "weat/6" in capsys.readouterr().out


def test_the_suite_of_ones_own_runs():
    (text,) = blocks(PAGE, "yaml")
    suite = suite_from_text(text, source="docs/weat.md")
    table = cm.association_test(suite, resamples=99, sentences=True)
    assert table.reason[0] == ""
    assert table.alternative[0] == "two-sided"


def test_every_kind_of_file_and_label_is_told():
    told = [name for row in table_rows(PAGE, "file of vectors") for name in re.findall(r"`(\.\w+)`", row[0])]
    assert sorted(told) == sorted(READERS)
    assert all(f"`{name}`" in PAGE for name in LABEL_COLUMNS)


def test_the_numbers_of_wefe_are_those_that_are_tested():
    told = {f"{STATISTIC:.6f}", f"{EFFECT_SIZE:.6f}", str(P_VALUE), str(EXACT_P)}
    assert told <= numbers(PAGE)
