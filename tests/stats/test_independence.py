"""The exact test of a table of counts: what changes nothing, Fisher's, every table by definition, and its level."""

from __future__ import annotations

from itertools import product
from math import comb, prod

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clinometer.stats.change import DRAWN, exact_independence

TABLES = hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(2, 4)), elements=st.integers(0, 6))


@given(TABLES, st.randoms())
def test_order_and_empty_columns_change_nothing(table, random):
    found = exact_independence(table)
    columns = random.sample(range(table.shape[1]), table.shape[1])
    others = (table[::-1], table[:, columns], np.c_[table, [0, 0]])
    for other in others:
        again = exact_independence(other)
        assert again.p_value == pytest.approx(found.p_value, nan_ok=True)
        assert again.cramers_v == pytest.approx(found.cramers_v, nan_ok=True)
    assert not found.p_value <= 0


@given(hnp.arrays(np.int64, (2, 2), elements=st.integers(1, 30)))
def test_of_two_columns_it_is_fishers(table):
    found = exact_independence(table)
    assert found.exact
    assert found.p_value == pytest.approx(scipy.stats.fisher_exact(table).pvalue)


@given(TABLES)
def test_p_is_that_of_every_table_by_definition(table):
    columns, first = table.sum(axis=0), int(table[0].sum())
    own = prod(comb(int(c), int(x)) for c, x in zip(columns, table[0], strict=True))
    likely = [
        prod(comb(int(c), x) for c, x in zip(columns, row, strict=True))
        for row in product(*(range(c + 1) for c in columns))
        if sum(row) == first
    ]
    found = exact_independence(table)
    if (table.sum(axis=1) > 0).all():
        assert found.p_value == pytest.approx(sum(x for x in likely if x <= own) / sum(likely))
        assert found.n_tables == (len(likely) if (columns > 0).sum() > 1 else 1)


def test_rows_alike_have_p_1_and_no_association():
    found = exact_independence([[5, 3, 2], [5, 3, 2]])
    assert (found.p_value, found.cramers_v) == (1.0, 0.0)


def test_nothing_in_common_has_v_1():
    found = exact_independence([[10, 0], [0, 10]])
    assert found.cramers_v == pytest.approx(1.0)
    assert found.p_value == pytest.approx(2 / comb(20, 10))


@pytest.mark.parametrize(
    ("table", "p", "reason"),
    [([[10, 0], [7, 0]], 1.0, "of one group"), ([[0, 0], [3, 4]], np.nan, "fewer than two settings")],
)
def test_what_cannot_differ(table, p, reason):
    found = exact_independence(table)
    assert found.p_value == pytest.approx(p, nan_ok=True)
    assert np.isnan(found.cramers_v)
    assert np.isnan(found.p_chi_squared)
    assert reason in found.reason


def test_what_is_drawn_agrees_with_what_is_listed_and_is_never_0():
    """Three rows are drawn; with the third empty but for one picture they are nearly the two that are listed."""
    listed = exact_independence([[30, 12, 3], [20, 20, 9]]).p_value
    drawn = exact_independence([[30, 12, 3], [20, 20, 9], [0, 1, 0]])
    assert not drawn.exact
    assert drawn.n_tables == DRAWN
    assert drawn.p_value == pytest.approx(listed, abs=0.1)
    assert exact_independence([[500, 0, 0], [0, 500, 0], [0, 0, 500]]).p_value == 1 / (DRAWN + 1)


def test_the_level_is_held_in_small_and_unequal_worlds():
    """No more than .05 of 2,000 tables of one distribution each; a rate of .05 has a standard error of .005."""
    rng = np.random.default_rng(1)
    for shares, n in (((0.5, 0.3, 0.2), (10, 10)), ((0.9, 0.05, 0.05), (10, 30)), ((0.5, 0.5, 0.0), (7, 5))):
        tables = np.stack([rng.multinomial(size, shares, 2000) for size in n], axis=1)
        different, of = np.unique(tables, axis=0, return_inverse=True)
        p = np.array([exact_independence(table).p_value for table in different])[of.ravel()]
        assert (p <= 0.05).mean() <= 0.05 + 3 * 0.005
