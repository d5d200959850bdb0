"""Wordings from end to end: drawn from the same noises, split by source, told on the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clinometer as cm
from clinometer.studies.leaning.embeddings import design_of_suite, encoder_embeddings, readings_of_wordings
from clinometer.studies.leaning.scores.components import image_part_direction
from clinometer.studies.leaning.scores.measuring import counted_once, pictures_that_count
from clinometer.studies.reporting import report_input
from clinometer.suites import suite_from_mapping
from tests import quick
from tests.report.page import with_only
from tests.toys import Eye, Painter, toy_suite, two_wordings

pytestmark = [pytest.mark.pages]


@pytest.fixture(scope="module")
def finished():
    return quick.finished(Painter(), two_wordings(), encoder=Eye())


def test_every_wording_has_its_verdict_and_every_concept_its_test(finished):
    scores = finished.scores
    parts = scores[(scores.metric == "mcas") & (scores.component == "image_part") & (scores.encoder == "mean")]
    assert parts.concept.str.endswith((" (plain)", " (longer)")).all()
    rows = scores[(scores.metric == "wording") & (scores.encoder == "mean")]
    assert set(rows.component) == {"concept", "wording", "concept_wording", "noise", "image", "by_wording"}
    tested = rows[rows.component == "by_wording"]
    assert np.isfinite(tested.q).all()
    assert (tested.n_target == 24).all()


def test_the_readings_are_the_image_parts(finished):
    scores, suite = finished.scores, finished.suite
    seen, design = [encoder_embeddings(finished, suite, "eye")], design_of_suite(suite)
    direction = image_part_direction(counted_once(seen, design)[0], design)
    kept = dict(zip((target.name for target in design.targets), pictures_that_count(seen, design).kept, strict=True))
    readings = readings_of_wordings(finished, suite, "eye", direction)
    rows = scores[(scores.metric == "mcas") & (scores.component == "image_part") & (scores.encoder == "eye")]
    values = rows.set_index("concept").value
    for concept, by_wording in suite.wordings.items():
        for order, target in enumerate(by_wording.values()):
            counted = slice(None) if kept[target] is None else kept[target]
            assert readings[concept][order][counted].mean() == pytest.approx(values[target], abs=1e-6)


def test_the_page_tells_where_the_variance_comes_from(finished):
    page = finished.directory.read_bytes("report.html").decode()
    assert "Concept × wording" in page
    assert "depends on its wording" in page


def test_languages_are_told_as_such(finished):
    """Verdicts that differ are told where the difference is shown, and where it is not nothing is said of them."""
    report, names = report_input(finished), {"plain": "en", "longer": "de"}
    asked = report.suite.model_dump() | {"language": "mul"}
    for category in asked["categories"].values():
        for target in category["targets"]:
            target["wordings"] = {names[name]: text for name, text in target["wordings"].items()}
    scores = report.scores.copy()
    scores["concept"] = scores.concept.str.replace("(plain)", "(en)").str.replace("(longer)", "(de)")
    first, second = list(report.suite.wordings)[:2]
    shown = scores.concept.isin([first]) & (scores.component == "by_wording")
    scores.loc[shown, "flag"] = "depends on the wording"
    part = (scores.metric == "mcas") & (scores.component == "image_part") & (scores.encoder == "mean")
    for concept in (first, second):
        scores.loc[part & (scores.concept == f"{concept} (en)"), ["verdict", "side"]] = ["undecided", ""]
        scores.loc[part & (scores.concept == f"{concept} (de)"), ["verdict", "side"]] = ["leans", "man"]
    told = replace(report, suite=suite_from_mapping(asked, source="toy"), scores=scores)
    page = with_only(told, "wordings", "verdicts", "certainty")
    said = {each.attributes["id"]: each.text for each in page.elements if each.attributes.get("id")}
    assert f"The verdict on {first} depends on the language: undecided in en; leans to man in de" in said["wordings"]
    assert f"The verdict on {second}" not in said["wordings"]
    assert "Does the language matter?" in {each.text for each in page.find("summary")}
    assert "wording" not in said["wordings"]
    assert "Prompts are in de. The text part, MCAS" in said["verdicts"]


@pytest.mark.thorough
def test_a_suite_without_wordings_has_no_such_rows(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=4), out=tmp_path / "run", encoder=Eye())
    assert "wording" not in set(run.scores.metric)


@pytest.mark.thorough
def test_a_noise_of_which_one_wording_lost_a_picture_is_no_pair(finished, tmp_path):
    lost = quick.audit(Painter(refuse="seen from afar"), two_wordings(), out=tmp_path / "run", encoder=Eye())
    (compared,) = cm.compare(finished, lost)
    rows = compared.scores[compared.scores.metric == "comparison"]
    assert compared.paired
    assert len(rows)
