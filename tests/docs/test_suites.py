"""The page about suites: its example loads, its table has every key, its messages are the real ones."""

import copy
import re

import pytest
import yaml

from clinometer.errors import Code, SuiteError
from clinometer.suites import LeaningSuite, Protocol, T2iatSuite, load_suite, suite_from_mapping, suite_names
from clinometer.suites.schema import suite_from_text
from tests.docs.keys import keys
from tests.docs.pages import blocks, page, table_rows
from tests.raising import raises

PAGE = page("docs/suites.md")


def test_the_example_is_a_suite():
    text = blocks(PAGE, "yaml")[0]
    suite = suite_from_text(text, source="docs/suites.md")
    assert suite.name == "skin-tone"
    assert (suite.axis.a, suite.axis.b) == ("light", "dark")
    assert len(suite.targets) == 8
    assert suite.margin == 0.02


def test_the_table_has_every_key_and_says_which_are_required():
    rows = {row[0].strip("`"): row[1] for row in table_rows(PAGE, "key")}
    assert set(rows) == keys(LeaningSuite)
    required = {name for name, field in LeaningSuite.model_fields.items() if field.is_required()}
    assert {key for key, said in rows.items() if said == "yes" and "." not in key} == required


def test_the_example_of_a_t2iat_study_is_a_suite():
    (text,) = [each for each in blocks(PAGE, "yaml") if "study: t2iat" in each]
    suite = suite_from_text(text, source="docs/suites.md")
    assert isinstance(suite, T2iatSuite)
    assert suite.image_count == 8 * 30
    assert len(suite.tests) == 1


def test_the_example_in_several_languages_is_a_suite():
    (text,) = [each for each in blocks(PAGE, "yaml") if "language: mul" in each]
    suite = suite_from_text(text, source="docs/suites.md")
    assert suite.languages == ["en", "de"]
    assert list(suite.wordings) == ["firefighter", "mechanic", "teacher", "cook"]
    assert suite.image_count == 4 * 2 * 20 + 4 * 16


def test_the_table_of_t2iat_keys_is_whole():
    rows = {row[0].strip("`"): row[1] for row in table_rows(PAGE, "key of a T2IAT suite")}
    common = {"study", "name", "title", "description", "source", "language", "margin", "protocol"}
    common |= {f"protocol.{key}" for key in keys(Protocol)}
    common |= {key for key in keys(T2iatSuite) if key.startswith(("readings", "reference"))}
    assert set(rows) == keys(T2iatSuite) - common
    required = {name for name, field in T2iatSuite.model_fields.items() if field.is_required()} - common
    assert {key for key, said in rows.items() if said == "yes" and "." not in key} == required


def test_the_built_in_suites_are_listed_with_their_sizes():
    rows = {re.findall(r"`([^`]+)`", row[0])[0]: row for row in table_rows(PAGE, "built-in suite")}
    assert set(rows) == {name for name in suite_names() if load_suite(name).draws}
    for name, row in rows.items():
        suite = load_suite(name)
        assert row[3] == f"{suite.image_count:,}"
        if isinstance(suite, LeaningSuite | T2iatSuite):
            assert row[1] == ", ".join(group.label for group in suite.groups.values())


BASE = {
    "name": "tone",
    "title": "Light and dark",
    "description": "A suite about skin tone.",
    "groups": {
        "light": {"prompts": [{"prompt": "a person with light skin"}], "words": ["light skin"]},
        "dark": {"prompts": [{"prompt": "a person with dark skin"}], "words": ["dark skin"]},
    },
    "axis": {"a": "light", "b": "dark"},
    "categories": {"work": {"targets": [{"name": "judge", "prompt": "an image of a judge"}]}},
}

CHANGES = {
    "a key that does not exist": lambda s: s["groups"]["light"].update(word=["x"]),
    "a missing key": lambda s: s.pop("axis"),
    "a group that does not exist": lambda s: s["axis"].update(b="medium"),
    "the same group twice on the axis": lambda s: s["axis"].update(b="light"),
    "an empty list": lambda s: s["groups"]["dark"].update(words=[]),
    "a word, prompt or pair twice in a group": lambda s: s["groups"]["dark"].update(words=["dark", "dark"]),
    "a target name twice": lambda s: s["categories"].update(more=copy.deepcopy(s["categories"]["work"])),
    "prompts that are not matched": lambda s: s["groups"]["light"]["prompts"][0].update(pair="child"),
    "keywords asked for and missing": lambda s: s.update(text_targets="keyword"),
    "a wrong type": lambda s: s.update(images={"target": "many"}),
}


@pytest.mark.parametrize("mistake", CHANGES)
def test_each_message_is_the_one_a_user_gets(mistake):
    said = {row[0]: row[1].strip("`") for row in table_rows(PAGE, "mistake")}
    suite = copy.deepcopy(BASE)
    CHANGES[mistake](suite)
    with pytest.raises(SuiteError) as caught:
        suite_from_mapping(suite, source="mine.yaml")
    assert str(caught.value) == said[mistake]


def test_the_other_messages_too():
    said = {row[0]: row[1].strip("`") for row in table_rows(PAGE, "mistake")}
    assert set(said) == {*CHANGES, "a key written twice", "no such suite"}
    with raises(SuiteError, code=Code.UNKNOWN_NAME) as caught:
        load_suite("mcsa")
    assert str(caught.value) == said["no such suite"]
    with raises(SuiteError, code=Code.DUPLICATE) as caught:
        suite_from_text(yaml.safe_dump(BASE) + "name: again\n", source="mine.yaml")
    assert str(caught.value) == said["a key written twice"]
