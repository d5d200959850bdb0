"""Every paper rehearsed on the reference model, by one command, to its page; what was planted is found."""

from __future__ import annotations

from pathlib import Path

import pytest

import clinometer as cm
from clinometer.models import load_generator
from clinometer.papers import paper_names
from clinometer.papers.paper import load_paper
from clinometer.papers.planning import rehearsal_of
from clinometer.report.view import Scores
from clinometer.suites import ClassificationSuite, T2iatSuite
from tests.latex import CLASSES, complaints

pytestmark = [
    pytest.mark.thorough, pytest.mark.slow, pytest.mark.pages, pytest.mark.usefixtures("shortcuts_of_a_module")
]  # fmt: skip


PLANTED = "crafts-services", "outdoors-indoors"
"""The tests of T2IAT whose answers were planted."""


def with_few_images(run, *, quick):
    """What a user gets, but for numbers that no test below needs: images of MCAS and its kin, and of tests with nothing
    planted; noise of classifying.
    """
    suite, renamed = rehearsal_of(run, quick=quick)
    if run.rehearsal == "words":
        suite = suite.with_options(image_counts={"target": 3, "attribute": 3})
    elif isinstance(suite, T2iatSuite) and suite.tests and suite.tests[0].name not in PLANTED:
        suite = suite.with_options(image_counts={"neutral": 2, "attribute": 2})
    elif isinstance(suite, ClassificationSuite):
        suite = suite.model_copy(update={"noise_samples": (1, 2, 4)})
    return suite, renamed


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """With fewer steps, images and resamples than a user gets."""
    model = {"reference": load_generator("reference", steps=2)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clinometer.papers.planning.rehearsal_of", with_few_images)
        out = tmp_path_factory.mktemp("rehearsal") / "out"
        yield cm.reproduce("all", out, quick=True, objects=model, resamples=199)


def test_every_paper_has_its_page_and_nothing_fails(rehearsed):
    assert not rehearsed.failed
    assert list(rehearsed.pages) == [name for name in paper_names() if load_paper(name).runs]  # others need pictures
    for page in rehearsed.pages.values():
        text = Path(page).read_text()
        assert "A rehearsal: other words, another model." in text
        assert "--quick" in text
        assert 'class="printed"' in text
    assert all((Path(run.url) / "report.html").exists() for run in rehearsed.runs.values())


@pytest.mark.parametrize("style", CLASSES)
def test_every_table_fits_an_article(rehearsed, style, tmp_path):
    files = sorted(Path(rehearsed.url).glob("*/tables/*.tex"))
    assert len(files) >= 9
    assert complaints(style, files, tmp_path) == []


def test_the_tests_whose_answers_were_planted_find_them_and_the_others_nothing(rehearsed):
    found = {}
    for run in rehearsed.runs.values():
        for row in Scores.from_frame(run.scores).select("t2iat", "differential_association"):
            found[row.concept] = row
    assert len(found) == 8
    for name in PLANTED:
        assert found[name].value > 0
        assert found[name].p < 0.05
    assert sum(row.p < 0.05 for name, row in found.items() if name not in PLANTED) <= 1
