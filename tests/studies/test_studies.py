"""Every study has its shape of suite, its scorer and its page."""

from clinometer.errors import Code, SuiteError
from clinometer.studies import study_named, study_names
from clinometer.suites import SHAPES
from clinometer.suites.base import Suite
from tests.raising import raises


def test_every_study_is_known_by_one_record():
    assert set(SHAPES) - set(study_names()) == {"weat"}  # stimuli that are given: nothing is drawn, so there is no run
    for name in study_names():
        study = study_named(name)
        assert study.key == name
        assert issubclass(study.suite, Suite)
        assert study.suite.model_fields["study"].default == name
        assert SHAPES[name] is study.suite


def test_an_unknown_study_is_named_with_those_that_there_are():
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match="'height': .*classification"):
        study_named("height")
