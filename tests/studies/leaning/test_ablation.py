"""Single words from end to end: left out of prompts, drawn from the same noises, tested, told on the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError, SuiteError
from clinometer.metrics.records import ABLATION
from clinometer.studies.leaning.embeddings import design_of_suite, embeddings_of_ablations
from clinometer.studies.leaning.scores.ablation import LeftOutWord, ablation_rows
from clinometer.studies.reporting import report_input
from clinometer.suites import suite_from_mapping
from tests import quick
from tests.raising import raises
from tests.report.page import with_only
from tests.toys import Eye, Painter, crossed_suite, toy_suite, two_wordings


def worded_suite(images: int = 20):
    """Two prompts that end in what the painter paints, "lean 0.95" and "lean 0.50", after a word that it ignores."""
    asked = toy_suite(target=images, concepts=2).model_dump() | {"ablate": True}
    for category, lean in zip(asked["categories"].values(), ("0.95", "0.50"), strict=True):
        category["targets"] = [{"name": f"concept {lean}", "prompt": f"a photo, lean {lean}"}]
    return suite_from_mapping(asked, source="toy")


@pytest.fixture(scope="module")
def finished():
    return quick.finished(Painter(), worded_suite(), encoder=Eye())


def effects(run):
    rows = run.scores[run.scores.metric == ABLATION]
    return {(row.concept, row.setting): row for row in rows.itertuples()}


def test_the_words_that_carry_it_are_found_and_no_others(finished):
    found = effects(finished)
    shown = {key: row.side for key, row in found.items() if row.verdict == "more"}
    assert shown == {("concept 0.95", "lean"): "man", ("concept 0.95", "0.95"): "man"}
    assert len(found) == 6
    assert all(row.n_target == 20 and row.low <= row.value <= row.high for row in found.values())
    ignored = found["concept 0.95", "photo"]
    assert (ignored.value, ignored.p) == (pytest.approx(0, abs=1e-9), 1)


def test_pictures_without_a_word_are_of_no_concept(finished):
    scores = finished.scores
    assert set(scores[scores.metric == "mcas"].concept) == {"concept 0.95", "concept 0.50"}
    assert (scores[(scores.metric == "mcas") & (scores.component == "image_part")].n_target == 20).all()
    roles = finished.plan.column("role").to_pylist()
    assert (roles.count("target"), roles.count("ablated")) == (2 * 20, 6 * 20)


def test_an_effect_is_the_image_part_with_the_word_less_that_without_it(finished):
    """Negated where the two are exchanged; of the groups exchanged, too."""
    suite = finished.suite
    words = [LeftOutWord(name, each.word) for name, left_out in suite.ablations.items() for each in left_out]
    whole, without, missing = embeddings_of_ablations(finished, suite)
    design = design_of_suite(suite.of_ablations())
    rows = ablation_rows(whole, without, design, words, missing=missing)
    turned = ablation_rows(without, [replace(own, group_images=whole[0].group_images) for own in whole], design, words)
    swapped = ablation_rows(whole, without, replace(design, a=design.b, b=design.a), words)
    for other in (turned, swapped):
        assert np.array([-row.value for row in other]) == pytest.approx([row.value for row in rows], abs=1e-9)
        assert [row.p for row in other] == pytest.approx([row.p for row in rows], abs=1e-6)


def test_the_page_shows_every_word_with_sign_and_number(finished):
    page = with_only(report_input(finished), "ablation")
    words = [each for each in page.elements if each.attributes.get("class", "").split(" ")[0] == "word"]
    assert len(words) == 2 + 6  # two in the key
    coloured = [each for each in words[2:] if "word-a" in each.attributes["class"]]
    assert [each.text[:4] for each in coloured] == ["lean", "0.95"]
    (said,) = (each.text for each in page.elements if each.attributes.get("id") == "ablation")
    assert "Of 6 words, 2 move the pictures: “" in said
    assert "moves pictures to man" in said


def test_a_noise_that_lacks_a_picture_bounds_the_effect(tmp_path):
    lost = quick.audit(Painter(refuse="photo, 0.95"), worded_suite(12), out=tmp_path / "run", encoder=Eye())
    found = effects(lost)
    assert found["concept 0.95", "lean"].n_missing == 12
    assert "no pair" in found["concept 0.95", "lean"].reason
    assert found["concept 0.50", "0.50"].n_target == 12


@pytest.mark.parametrize(
    ("suite", "options", "code", "said"),
    [
        (two_wordings(), {"ablate": True}, Code.CONFLICT, "plain, longer"),
        (crossed_suite(), {"ablate": True}, Code.CONFLICT, "crossed"),
        (toy_suite(), {"phrases": ["young men"]}, Code.CONFLICT, "--ablate"),
        (worded_suite(), {"phrases": ["a phtoo"]}, Code.UNKNOWN_NAME, "'a phtoo'"),
        (
            toy_suite(concepts=2, language="zh"),
            {"ablate": True, "phrases": ["lean 0.20", "lean 0.80"]},
            Code.TOO_FEW,
            "'lean 0.20'",
        ),
    ],
)
def test_what_cannot_be_left_out_is_said_in_a_line(suite, options, code, said):
    with raises(SuiteError, code=code, match=said):
        suite.with_options(**options)


def test_until_decided_takes_no_pairs(tmp_path):
    with raises(InvalidInputError, code=Code.CONFLICT, field="ablate"):
        quick.audit(Painter(), worded_suite(), out=tmp_path / "run", encoder=Eye(), until="decided")
