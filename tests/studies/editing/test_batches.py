"""Portraits that came in batches: a batch is one draw, and no value hangs on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clinometer.metrics.records import BATCHES_KNOWN
from clinometer.studies.editing.compare import EditedPortraits, compare_edits
from clinometer.studies.editing.scores import editing_study
from tests.studies.editing.cases import DESIGN, Case

BY = ("component", "concept", "category", "group", "setting", "encoder")
CASE = Case(n=8)
PAIRS = np.arange(32) // 2


def by_name(rows):
    return {tuple(getattr(row, name) for name in BY): row for row in rows if row.metric != "pictures"}


@pytest.fixture(scope="module")
def plain():
    return CASE.scores(n_permutations=99)


@pytest.fixture(scope="module")
def paired():
    return CASE.scores(n_permutations=99, batches=PAIRS)


def test_batches_change_no_value(plain, paired):
    one, two = by_name(plain), by_name(paired)
    assert one.keys() == two.keys()
    for key, row in one.items():
        assert two[key].value == pytest.approx(row.value, nan_ok=True), key
        assert two[key].n_target == row.n_target
    rates = [row for key, row in two.items() if key[0] == "flip_rate"]
    assert {row.n_batches for row in rates} == {4}


def test_a_row_says_that_batches_are_known(plain, paired):
    (row,) = (row for row in paired if row.metric == "pictures")
    assert (row.component, row.flag, row.n_target, row.n_batches) == ("batches", BATCHES_KNOWN, 32, 16)
    assert not [row for row in plain if row.metric == "pictures"]


def test_batches_of_equal_portraits_are_a_sample_of_their_portraits(plain):
    """Each portrait twice, as one batch: intervals and p of means are those of the portraits once."""
    at = np.repeat(np.arange(32), 2)
    reading = CASE.readings
    twice = replace(reading, before=reading.before[at], after=reading.after[at], identity=reading.identity[at])
    faces = replace(CASE.faces, **{name: np.asarray(x)[at] for name, x in vars(CASE.faces).items()})
    found = editing_study(
        [twice], faces, CASE.groups[at], DESIGN, n_permutations=99, n_resamples=30, batches=np.arange(64) // 2
    )
    own = by_name(found)
    for key, row in by_name(plain).items():
        if key[0] in ("ita_change", "identity", "average_face_ita_change"):
            expected = [row.low, row.high, row.p]
            assert [own[key].low, own[key].high, own[key].p] == pytest.approx(expected, nan_ok=True), key


def test_compared_portraits_are_counted_by_their_batches():
    change = CASE.faces.after - CASE.faces.before[:, None, None]
    one = EditedPortraits(CASE.groups, [CASE.readings], change)
    two = replace(one, batches=PAIRS)
    alone, batched = (
        by_name(compare_edits(one, other, DESIGN, paired=True, n_permutations=99)) for other in (one, two)
    )
    assert alone.keys() == batched.keys()
    for key, row in batched.items():
        assert row.value == pytest.approx(alone[key].value, nan_ok=True)
        if np.isfinite(row.value):
            assert row.n_target == alone[key].n_target / 2, key
