"""Every study has its shape of suite, its scorer and its page."""

from clinometer.report.studies import PAGES
from clinometer.runs.studies import STUDIES
from clinometer.suites import SHAPES


def test_every_study_is_known_in_every_room():
    assert set(STUDIES) == set(PAGES)
    assert set(SHAPES) - set(STUDIES) == {"weat"}  # stimuli that are given: nothing is drawn, so there is no run
    for study, shape in SHAPES.items():
        assert shape.model_fields["study"].default == study


def test_a_page_has_a_masthead_first_and_no_anchor_twice():
    for page in PAGES.values():
        ids = [section.id for section in page.sections]
        assert ids[0] == "masthead"
        assert "verdicts" in ids  # where the link that skips the masthead leads
        assert len(ids) == len(set(ids))
