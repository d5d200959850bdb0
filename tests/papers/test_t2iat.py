"""T2IAT whole, by a painter: eight tests, occupations, the rating task, and people's answers on the page."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import clinometer as cm
from clinometer.cli.audit import set_up_raters
from clinometer.published import published
from tests.cli.conftest import cli
from tests.papers.toy_papers import Artist, reproduced
from tests.web.rating import Rater
from tests.web.serving import client

__all__ = ["cli"]
FEW = {"resamples": 99}
SD21 = "stabilityai/stable-diffusion-2-1"
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shortcuts_of_a_module")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("t2iat") / "out"
    return reproduced("t2iat", out, models=(SD21,), objects={SD21: Artist(SD21)}, **FEW)


def page_of(done):
    return (Path(done.url) / "paper.html").read_text()


@pytest.mark.thorough
def test_every_printed_number_has_its_own_beside_it(whole):
    assert not whole.failed
    page = page_of(whole)
    for row in published("t2iat").rows("t2iat"):
        for column in ("association_score", "p_value", "effect_size_d"):
            assert f'"printed">{row[column].replace("-", chr(0x2212)).replace("<", "&lt;")}<' in page
    for run in whole.runs.values():
        if run.suite.tests:
            cells = cm.paper_table(run, "t2iat")
            (value,) = cells[cells.column == "S"].run
            assert f"{value:.3f}".replace("-", chr(0x2212)) in page
    assert page.count("nobody has rated these pictures") == 1  # a note of eight cells
    assert "The paper prints 0.55" in page
    assert {path.name.split("-")[1] for path in (Path(whole.url) / "figures").glob("*.svg")} == {"3", "4"}


@pytest.mark.thorough
def test_raters_see_what_the_papers_did_and_their_answers_come_back(whole, cli, tmp_path, monkeypatch):
    monkeypatch.setattr("clinometer.pipeline.results.render_html", lambda *given, **named: "")  # of runs; none is read
    lines = set_up_raters(whole)
    assert [line.startswith("Raters of T2IAT") for line in lines] == [True, True, False]
    assert "clinometer serve" in lines[-1]
    database = f"sqlite:///{Path(whole.url) / 'ratings.sqlite'}"
    status, said = cli("ratings", "list", "--database", database)
    assert status == 0, said
    assert "T2IAT, pleasant or unpleasant" in cli.printed
    (again,) = set_up_raters(whole)
    assert "ratings collect TASK" in again
    browser = client(whole.url, cache=tmp_path / "cache", database=database)
    invitation = lines[0].rpartition("/join/")[2].split()[0]
    for _ in range(3):  # a concept a page: everyone ties the first two to one side
        assert Rater(browser.app, invitation).answer_all(lambda place: "pleasant") == 4
    browser.app.state.ratings.close()
    task = re.search(r"^(\w+) .*T2IAT, pleasant or unpleasant", cli.printed, re.MULTILINE)[1]
    status, told = cli("ratings", "collect", task, "--database", database)
    assert status == 0, told
    said = {"career": 0.9, "family": 0.2, "science": 0.8, "arts": 0.3}
    for key, run in whole.runs.items():
        sets = [name for name in said if name in run.suite.concepts]
        if not sets:
            continue
        answers = tmp_path / f"{key}.csv"
        with answers.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["item", "rater", "answer"])
            for name in sets:
                for rater in range(10):
                    first = rater < 10 * said[name]
                    writer.writerow([f"concept:{name}", f"r{rater}", run.suite.axis.a if first else run.suite.axis.b])
        status, told = cli("ratings", "import", run.url, answers)
        assert status == 0, told
    again = reproduced("t2iat", whole.url, models=(SD21,), objects={SD21: Artist(SD21)}, **FEW)
    page = page_of(again)
    for share in said.values():
        assert f'"ours">{share:.2f}' in page
    assert page.count('"ours">1.00') >= 4
    assert "nobody has rated" not in page
    told = "Kendall’s τ of people’s fractions and the machine’s scores of these pictures, over 8 concepts: "
    assert re.search(told + r"[+\u2212][\d.]+ \[\u2212?[\d.]+, [\d.]+\]", page)
