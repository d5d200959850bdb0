"""The statements about carried errors on docs/simulations.md: drawn here on few studies, and read off the page."""

from __future__ import annotations

import pytest

from benchmarks import transport_simulations as sim
from tests.benchmarks.page_tables import told


@pytest.mark.thorough
def test_shares_that_are_quoted_hold():
    """Errors that vary by context, by .5 in logits: carried into the interval they hold, and they are mostly quoted."""
    quoted, _, given = sim.shares_over_contexts(60, 0.5, contexts=4, known=20, asked=30)
    assert quoted.rate >= 0.95 - 4 * quoted.error
    assert given.rate > 0.8


@pytest.mark.thorough
def test_alike_pictures_are_seldom_unlike_and_others_often():
    alike, _ = sim.transport_called(60, "alike", known=100, asked=100)
    assert alike.rate <= 0.01 + 4 * alike.error
    other, _ = sim.transport_called(30, "faces half as large", known=100, asked=100)
    assert other.rate > 0.9


def test_the_page_says_what_it_shows():
    for what, data, _, rate, error in told("transport-few"):
        if what.startswith("holds"):
            assert rate >= 0.95 - 4 * error, data
    for what, data, _, rate, error in told("transport-contexts"):
        if what.startswith("quoted"):
            assert rate >= 0.95 - 4 * error, data
    for what, data, _, rate, error in told("transport-called"):
        if what == "called unlike" and data.startswith("alike"):
            assert rate <= 0.01 + 4 * error, data
