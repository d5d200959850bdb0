"""Runs beside each other: pairs by their noise, refusals by name, one page and one table."""

import dataclasses
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import RunMismatchError
from clinometer.models.protocols import GenerationResult
from tests.toys import Eye, Painter, paint, toy_suite

SUITE = {"target": 4, "attribute": 3, "concepts": 4}


class Redder(Painter):
    """The painter, its targets redder by a little: the same noise, another setting."""

    def __init__(self, by=0.06, **options):
        super().__init__(**options)
        self.by = by
        settings = self.card.settings | {"redder": by}
        self.card = dataclasses.replace(self.card, settings=settings)

    def generate(self, requests):
        for request in requests:
            words = request.prompt.split()
            prompt = request.prompt
            if words[-2:-1] == ["lean"]:
                prompt = f"lean {float(words[-1]) + self.by}"
            if self.refuse and self.refuse in request.prompt:
                yield GenerationResult(request.id, "refused", None, "not allowed here")
            else:
                yield GenerationResult(request.id, "ok", paint(prompt, request.seed))


def audit(out, model=None, **options):
    options = {"suite": toy_suite(**SUITE), "encoder": Eye()} | options
    return cm.audit(model or Painter(), out=out, **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    return {
        "plain": audit(folder / "plain"),
        "redder": audit(folder / "redder", Redder(name="redder")),
        "seed": audit(folder / "seed", seed=1),
        "refusing": audit(folder / "refusing", Redder(refuse="lean 0.20", name="refusing")),
    }


def mcas(comparison):
    rows = comparison.scores[(comparison.scores.component == "mcas") & (comparison.scores.encoder == "mean")]
    return rows.set_index("concept")


def test_the_same_seed_is_compared_in_pairs(runs):
    (found,) = cm.compare(runs["plain"].url, runs["redder"])
    assert (found.paired, found.pairs, found.dropped) == (True, 4 * 4 + 6 * 3, 0)
    own = [
        run.scores[(run.scores.metric == "mcas") & (run.scores.encoder == "mean")]
        for run in (found.first, found.second)
    ]
    values = [rows[rows.component == "mcas"].set_index("concept").value for rows in own]
    np.testing.assert_allclose(mcas(found).value, (values[1] - values[0])[mcas(found).index], atol=1e-12)
    assert (mcas(found).value > 0).all()
    assert (mcas(found).verdict == "the second leans more to man").all()


def test_another_seed_is_not_and_its_intervals_are_wider(runs):
    (paired,) = cm.compare(runs["plain"], runs["redder"])
    (found,) = cm.compare(runs["seed"], runs["redder"])
    assert (found.paired, found.pairs) == (False, 0)
    assert ((mcas(found).high - mcas(found).low) > 2 * (mcas(paired).high - mcas(paired).low)).all()
    assert "unpaired" in mcas(found).test.iloc[0]


def test_an_image_without_a_partner_counts_in_neither(runs):
    (found,) = cm.compare(runs["plain"], runs["refusing"])
    assert (found.pairs, found.dropped) == (3 * 4 + 6 * 3, 4)
    row = mcas(found).loc["concept 0.20"]
    assert np.isnan(row.value)
    assert row.verdict == "not measured"


def test_the_page_and_the_table(runs, tmp_path):
    compared = cm.compare(runs["plain"], runs["redder"], runs["refusing"], out=tmp_path / "out")
    assert [each.second.model_card["name"] for each in compared] == ["redder", "refusing"]
    table = pd.read_csv(tmp_path / "out/comparison.csv")
    assert set(table.second) == {"redder", "refusing"}
    assert len(table) == sum(len(each.scores) for each in compared)
    page = (tmp_path / "out/comparison.html").read_text()
    HTMLParser().feed(page)
    for words in ("redder beside painter", "34 pairs of images", "4 images without a partner", "concept 0.80"):
        assert words in page
    assert "http://" not in page
    assert "https://" not in page


def test_names_are_escaped(tmp_path):
    runs = [
        audit(tmp_path / name, Painter(name=f"<b>{name}</b>"), suite=toy_suite(target=2, attribute=2, concepts=2))
        for name in ("one", "two")
    ]
    cm.compare(*runs, out=tmp_path / "out")
    assert "<b>" not in (tmp_path / "out/comparison.html").read_text()


def test_the_command(runs, tmp_path):
    result = CliRunner().invoke(app, ["compare", runs["plain"].url, runs["redder"].url], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "MCAS of redder minus MCAS of painter" in result.output
    assert "redder beside painter" in result.output
    assert "34 pairs of images" in result.output


def test_one_model_at_two_settings_goes_by_its_directories(runs, tmp_path):
    result = CliRunner().invoke(app, ["compare", runs["plain"].url, runs["seed"].url], env={"COLUMNS": "160"})
    assert "MCAS of seed minus MCAS of plain" in result.output
    assert "Not paired" in result.output


def test_what_cannot_be_compared_is_refused_by_name(runs, tmp_path):
    small = {"target": 2, "attribute": 2}
    with pytest.raises(RunMismatchError, match="found 1 run, expected two"):
        cm.compare(runs["plain"])
    with pytest.raises(RunMismatchError, match="cannot be compared with itself"):
        cm.compare(runs["plain"], runs["plain"].url)
    other = audit(tmp_path / "other", suite=toy_suite(**small, concepts=2))
    with pytest.raises(RunMismatchError, match="asks other things"):
        cm.compare(runs["plain"], other)
    unseen = audit(tmp_path / "unseen", suite=toy_suite(**small), encoder=Eye("second"))
    with pytest.raises(RunMismatchError, match=r"no encoder has seen both.*has eye.*has second"):
        cm.compare(runs["plain"], unseen)
    eye = Eye()
    eye.card = dataclasses.replace(eye.card, settings={"size": 9})
    changed = audit(tmp_path / "changed", suite=toy_suite(**small), encoder=eye)
    with pytest.raises(RunMismatchError, match="different encoders of that name"):
        cm.compare(runs["plain"], changed)
