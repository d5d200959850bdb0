"""Wordings from end to end: drawn from the same noises, split by source, told on the page."""

from __future__ import annotations

import numpy as np
import pytest

import clinometer as cm
from clinometer.studies.leaning.embeddings import encoder_embeddings, readings_of_wordings, study_design
from clinometer.studies.leaning.scores.components import image_part_direction
from clinometer.studies.leaning.scores.measuring import counted_once, pictures_that_count
from tests import quick
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
    seen, design = [encoder_embeddings(finished, suite, "eye")], study_design(suite)
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


def test_a_suite_without_wordings_has_no_such_rows(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=4), out=tmp_path / "run", encoder=Eye())
    assert "wording" not in set(run.scores.metric)


def test_a_noise_of_which_one_wording_lost_a_picture_is_no_pair(finished, tmp_path):
    lost = quick.audit(Painter(refuse="seen from afar"), two_wordings(), out=tmp_path / "run", encoder=Eye())
    (compared,) = cm.compare(finished, lost)
    rows = compared.scores[compared.scores.metric == "comparison"]
    assert compared.paired
    assert len(rows)
