"""Suites whose groups are cells of axes."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from clinometer.errors import Code, SuiteError
from clinometer.metrics.verdict import StoppingRule
from clinometer.pipeline.execution import Rounds
from clinometer.studies.leaning.embeddings import design_of_suite
from clinometer.studies.planning import plan_audit
from clinometer.suites import LeaningSuite, load_suite, suite_from_mapping, suite_names
from tests.docs.pages import blocks, page, table_rows
from tests.raising import raises

SUITE = {
    "name": "crossed", "title": "t", "description": "d",
    "axes": {
        "gender": {"levels": {"man": "men", "woman": "women"}},
        "tone": {"label": "skin tone", "levels": {"light": "light skin", "dark": "dark skin"}},
    },
    "groups": {
        f"{tone} {gender}": {
            "cell": {"tone": tone, "gender": gender},
            "prompts": [{"prompt": f"a {gender} with {tone} skin", "pair": "adult"}],
            "words": [f"{tone} {gender}", f"{gender}, {tone}"],
        }
        for tone in ("light", "dark")
        for gender in ("man", "woman")
    },
    "categories": {"work": {"targets": [{"name": "cook", "prompt": "a cook"}]}},
}  # fmt: skip


def changed(**changes):
    """The suite with dotted paths set; None removes one."""
    suite = deepcopy(SUITE)
    for path, value in changes.items():
        *way, last = path.split("__")
        held = suite
        for key in way:
            held = held[key]
        if value is None:
            del held[last]
        else:
            held[last] = value
    return suite


def test_the_design_knows_axes_and_cells_and_no_pair():
    suite = suite_from_mapping(SUITE, source="s")
    design = design_of_suite(suite)
    assert design.axes == {"gender": ("man", "woman"), "tone": ("light", "dark")}
    assert design.cells["dark woman"] == ("woman", "dark")
    assert (design.a, design.b, design.third) == ("", "", None)
    assert suite.label_of("woman") == "women"
    assert (suite.axis_label("tone"), suite.axis_label("gender")) == ("skin tone", "gender")


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"groups__dark woman": None},
         Code.MISSING, "groups: .*woman × dark"),
        ({"groups__dark woman__cell": {"tone": "dark", "gender": "man"}},
         Code.DUPLICATE, r"groups\.dark woman\.cell: man × dark .*'dark man'"),
        ({"groups__dark man__cell": None},
         Code.MISSING, r"groups\.dark man\.cell: .*gender, tone"),
        ({"groups__dark man__cell": {"tone": "dark"}}, Code.MISSING, r"groups\.dark man\.cell\.gender: .*man, woman"),
        ({"groups__dark man__cell": {"tone": "darkest", "gender": "man"}},
         Code.UNKNOWN_NAME, r"groups\.dark man\.cell\.tone: .*'darkest'.*dark"),
        ({"groups__dark man__cell": {"tone": "dark", "gender": "man", "age": "old"}},
         Code.UNKNOWN_NAME, r"groups\.dark man\.cell: .*'age'.*gender, tone"),
        ({"axes__tone": None}, Code.TOO_FEW, "axes: .*gender.*axis.a, axis.b"),
        ({"axes__tone__levels": {"light": "light", "man": "x"}},
         Code.DUPLICATE, "axes: .*man$"),
        ({"axes__gender__levels": {"man": "men"}}, Code.TOO_FEW, r"axes\.gender\.levels: .*2 "),
        ({"axis": {"a": "light man", "b": "dark woman"}},
         Code.CONFLICT, "axis: .*'light man' against 'dark woman'.*gender and tone"),
        ({"axes": None}, Code.MISSING, "axis: "),
        ({"axes": None, "axis": {"a": "light man", "b": "dark woman"}},
         Code.CONFLICT, r"groups\.light man\.cell: "),
        ({"groups__dark man__prompts": [{"prompt": "p"}]},
         Code.MISMATCH, r"groups: .*light man and dark man.*\(no pair\), adult"),
        ({"groups__dark man__words": []}, Code.TOO_FEW, r"groups\.dark man\.words: .*1 "),
        ({"axes__tone__labels": "x"}, Code.UNKNOWN_NAME, r"axes\.tone\.labels: "),
    ],
)  # fmt: skip
def test_mistakes_have_one_line(changes, code, words):
    with raises(SuiteError, code=code, match=f"^s: {words}", most_lines=1):
        suite_from_mapping(changed(**changes), source="s")


def test_the_messages_on_the_page_are_the_real_ones():
    told = {row[0]: row[1].strip("`") for row in table_rows(page("docs/suites.md"), "mistake with axes")}
    mistakes = {
        "a pair beside axes": ({"axis": {"a": "light man", "b": "dark woman"}}, Code.CONFLICT),
        "a combination without a group": ({"groups__dark woman": None}, Code.MISSING),
        "two groups in one cell": ({"groups__dark woman__cell": {"tone": "dark", "gender": "man"}}, Code.DUPLICATE),
    }
    for mistake, (changes, code) in mistakes.items():
        with raises(SuiteError, code=code) as error:
            suite_from_mapping(changed(**changes), source="mine.yaml")
        assert str(error.value) == told.pop(mistake)
    assert not told


def test_the_example_on_the_page_is_the_head_of_a_suite():
    (text,) = [each for each in blocks(page("docs/suites.md"), "yaml") if each.startswith("axes:")]
    head = yaml.safe_load(text)
    assert head["axes"] == SUITE["axes"]
    assert suite_from_mapping({**SUITE, "groups": SUITE["groups"] | head["groups"]}, source="page").axes


def test_suites_without_axes_keep_their_fingerprints():
    """A run of one that was drawn before there were axes is still a run of it."""
    for name in suite_names():
        suite = load_suite(name)
        if isinstance(suite, LeaningSuite) and suite.axes is None:
            asked = suite.model_dump(exclude={"study"})
            assert "axes" not in asked
            assert not any("cell" in group for group in asked["groups"].values())
    assert suite_from_mapping(PLAIN, source="s").fingerprint == "335460a2caf2e3a2"


PLAIN = {
    "name": "plain", "title": "t", "description": "d", "axis": {"a": "men", "b": "women"},
    "groups": {name: {"prompts": [{"prompt": name}], "words": [name, f"the {name}"]} for name in ("men", "women")},
    "categories": {"work": {"targets": [{"name": "cook", "prompt": "a cook"}]}},
}  # fmt: skip
"""Its fingerprint below was made by a version that knew no axes."""


def test_a_suite_with_axes_survives_its_record():
    suite = load_suite("reference-intersections")
    assert suite_from_mapping(suite.model_dump(), source="run.json") == suite
    assert suite.with_options(images=3).images.target == 3


def test_what_needs_one_pair_says_so():
    suite = load_suite("reference-intersections")
    assert isinstance(suite, LeaningSuite)
    for ask in (lambda: suite.compared, lambda: Rounds(StoppingRule(), suite), lambda: plan_audit(suite, None)):
        with raises(SuiteError, code=Code.UNSUPPORTED, match="gender and tone"):
            ask()
