"""Every paper rehearsed on the reference model, by one command, to its page; what was planted is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import clinometer as cm
from clinometer.papers import paper_names
from clinometer.report.rows import Scores

MOST = 30 * 60
"""Processor seconds of the whole: fifteen minutes on two cores."""

pytestmark = [pytest.mark.thorough, pytest.mark.pages]


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    before = sum(os.times()[:4])
    done = cm.reproduce("all", tmp_path_factory.mktemp("rehearsal") / "out", quick=True)
    return done, sum(os.times()[:4]) - before


def test_every_paper_has_its_page_and_nothing_fails(rehearsed):
    done, _ = rehearsed
    assert not done.failed
    assert list(done.pages) == paper_names()
    for page in done.pages.values():
        text = Path(page).read_text()
        assert "A rehearsal: other words, another model." in text
        assert "--quick" in text
        assert 'class="printed"' in text
    assert all((Path(run.url) / "report.html").exists() for run in done.runs.values())


def test_the_tests_whose_answers_were_planted_find_them_and_the_others_nothing(rehearsed):
    done, _ = rehearsed
    found = {}
    for run in done.runs.values():
        for row in Scores.from_frame(run.scores).select("t2iat", "differential_association"):
            found[row.concept] = row
    assert len(found) == 8
    for name in ("crafts-services", "outdoors-indoors"):
        assert found[name].value > 0
        assert found[name].p < 0.05
    assert sum(row.p < 0.05 for name, row in found.items() if name not in ("crafts-services", "outdoors-indoors")) <= 1


def test_it_takes_a_quarter_of_an_hour_on_two_cores(rehearsed):
    assert rehearsed[1] < MOST
