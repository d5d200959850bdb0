"""The statements about open answers on docs/simulations.md: drawn here on few studies, and read off the page."""

from __future__ import annotations

import pytest

from benchmarks import open_answers_simulations as sim
from tests.benchmarks.page_tables import told


@pytest.mark.thorough
def test_what_does_not_depend_is_seldom_found_to():
    for found in (*sim.dependence(50, (3, 20, 6), 0.0), *sim.association(50, 20, 10, 0.0)):
        if found.kind == "open-level":
            assert found.rate <= 0.05 + 4 * found.error, found
        else:
            assert found.rate >= 0.95 - 4 * found.error, found


def test_the_page_says_what_it_shows():
    """No level above 5 %, no coverage below 93 %, and power that grows with the images."""
    assert all(rate <= 0.05 for *_, rate, _ in told("open-level"))
    assert all(rate >= 0.93 for *_, rate, _ in told("open-coverage"))
    power = {(what, data): rate for what, data, _, rate, _ in told("open-power")}
    whole = "p ≤ 5 %, all concepts together"
    few = power[whole, "2 concepts of 10 images, 3 answers; 1 of each answer's share is the concept's"]
    more = power[whole, "3 concepts of 20 images, 6 answers; 1 of each answer's share is the concept's"]
    assert 0.4 <= few <= 0.7
    assert more >= 0.95
