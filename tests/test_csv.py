"""No cell of a CSV is a formula, and no number becomes text."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer._csv import FORMULAS, csv_text


def read(table):
    return list(csv.reader(io.StringIO(csv_text(table), newline="")))


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\tx",
        "\rx",
        " =1",
        "=",
        "-",
        "\uff1d1",
        "--1",
        "+-1",
        "-nan(x)",
    ],
)
def test_what_begins_like_a_formula_becomes_text(cell):
    (_, (found, other)) = read(pd.DataFrame({"name": [cell], "other": ["a=b"]}))
    assert found == "'" + cell.replace("\r", "\n")
    assert other == "a=b"


@pytest.mark.parametrize("value", [-1, -0.5, np.float32(-2.5), -np.inf, 1e-30, True])
def test_numbers_stay_numbers(value):
    (_, (found,)) = read(pd.DataFrame({"value": [value]}))
    assert float(found == "True" or found) == float(value)


@pytest.mark.parametrize("text", ["-1", "-0.5", "+1e-3", "-inf"])
def test_text_that_is_a_number_stays_too(text):
    assert read(pd.DataFrame({"value": [text]}))[1] == [text]


def test_headings_and_missing_values():
    assert read(pd.DataFrame({"=x": ["a", None]})) == [["'=x"], ["a"], [""]]


@given(st.lists(st.text(), min_size=1))
def test_no_text_is_a_formula(cells):
    rows = read(pd.DataFrame({"a": cells, "b": 1.0}))[1:]
    assert len(rows) == len(cells)
    for cell, (found, _) in zip(cells, rows, strict=True):
        assert found.removeprefix("'") == cell.replace("\r\n", "\n").replace("\r", "\n").removeprefix("'")
        if found.startswith(FORMULAS):
            assert np.isfinite(float(found)) or "inf" in found.lower()


@given(st.lists(st.sampled_from(["=1", "a", "", " +x", "a\rb", "-1"]), min_size=1), st.booleans())
def test_equal_cells_are_written_alike_whatever_stands_beside_them(cells, missing):
    """A column of texts is looked at once a text; one with other cells, cell by cell."""
    beside = [None, True, 1] if missing else []
    assert read(pd.DataFrame({"a": [*cells, *beside]}, dtype=object))[1 : len(cells) + 1] == [
        read(pd.DataFrame({"a": [cell]}, dtype=object))[1] for cell in cells
    ]
