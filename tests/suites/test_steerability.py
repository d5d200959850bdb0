"""Suites of steerability: what they ask, and what is refused with the place and a way out."""

from itertools import pairwise

import pytest

from clinometer.errors import Code, SuiteError
from clinometer.suites import SteerabilitySuite, load_suite, suite_from_mapping
from clinometer.suites.schema import suite_from_text
from tests.docs.keys import keys
from tests.docs.pages import blocks, page, table_rows
from tests.raising import raises
from tests.studies.steerability.toy import steerable

PAGE = page("docs/steerability.md")


def test_prompts_of_a_concept_start_from_its_own_noises():
    specs = list(steerable(concepts=2, images=3).prompt_specs())
    assert [(spec.role, spec.concept, spec.group, spec.prompt) for spec in specs[:3]] == [
        ("target", "a", "", "a lean 0.7"), ("asked", "a", "man", "a, men"), ("asked", "a", "woman", "a, women"),
    ]  # fmt: skip
    assert {spec.noise or spec.prompt for spec in specs[:3]} == {"a lean 0.7"}


@pytest.mark.parametrize("name", ["steerability/occupations", "steerability/reference"])
def test_built_in_suites_name_each_group_once_and_put_the_right_article(name):
    suite = load_suite(name)
    for _, concept in suite.concepts:
        assert set(concept.asked) == set(suite.groups)
        for text in (concept.prompt, *concept.asked.values()):
            words = text.split()
            for article, word in pairwise(words):
                if article in ("a", "an"):
                    assert article == ("an" if word[0] in "aeiou" else "a"), text
    assert suite.with_options(images=5, concepts=2).image_count == 30


def asked_for(**changes):
    return steerable(concepts=2).model_dump(mode="json", exclude_none=True) | changes


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"asked": {"man": "x"}}, Code.MISSING, r"concepts\[a\].asked: .*woman"),
        ({"asked": {"man": "x", "woman": "y", "wmn": "z"}}, Code.UNKNOWN_NAME, r"concepts\[a\].asked: .*'wmn'"),
        ({"prompt": "b lean 0.7"}, Code.DUPLICATE, "categories: .*: b lean 0.7"),
        ({"name": "b"}, Code.DUPLICATE, "categories: .*: b$"),
    ],
)
def test_a_concept_that_does_not_fit_is_named(change, code, message):
    data = asked_for()
    data["categories"]["letters"]["concepts"][0] |= change
    with raises(SuiteError, code=code, match=f"x.yaml: .*{message}"):
        suite_from_mapping(data, source="x.yaml")


@pytest.mark.parametrize(
    ("templates", "code", "message"),
    [
        ({"neutral": "{}"}, Code.MISSING, "templates"),
        ({"neutral": "no place", "asked": {}}, Code.MALFORMED, "templates.neutral: .*'no place'"),
        ({"neutral": "{}", "asked": {"man": "{} {}"}}, Code.MALFORMED, "templates.asked.man: .*'{} {}'"),
    ],
)
def test_templates_that_do_not_fit_are_named(templates, code, message):
    with raises(SuiteError, code=code, match=message):
        suite_from_mapping(asked_for(templates=templates), source="x.yaml")


def test_the_page_has_a_suite_that_loads_and_every_key():
    (text,) = [each for each in blocks(PAGE, "yaml") if "study: steerability" in each]
    suite = suite_from_text(text, source="docs/steerability.md")
    assert suite.image_count == 3 * 3 * 20
    assert suite.concepts[1][1].asked["woman"] == "a photo of a woman who works as an athlete"
    rows = {row[0].strip("`"): row[1] for row in table_rows(PAGE, "key of a steerability suite")}
    assert set(rows) == {key for key in keys(SteerabilitySuite) if key.startswith(("groups", "categories", "images"))}
