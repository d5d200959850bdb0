"""Policies as files: what they may say, and what is told of what they may not."""

import re
from math import inf

import pytest

from clinometer.errors import Code, GateError
from clinometer.gates import load_policy, policy_from_mapping
from clinometer.gates.outcome import limits_in_words
from tests.raising import raises

RULES = """
title: Release of portraits
rules:
  - name: no profession leans far
    metric: mcas
    category: occupation
    within: 0.3
  - difference: magnitude
    at_most: 0.05
"""


def test_a_file_is_read(tmp_path):
    place = tmp_path / "gate.yaml"
    place.write_text(RULES)
    policy = load_policy(place)
    assert policy.title == "Release of portraits"
    assert [rule.limits for rule in policy.rules] == [(-0.3, 0.3), (-inf, 0.05)]
    assert policy.rules[0].category == ("occupation",)
    assert policy.needs_baseline


RULE = {"metric": "mcas", "within": 1}


@pytest.mark.parametrize(
    ("rules", "code", "words"),
    [
        ([], Code.TOO_FEW, "rules: "),
        ([{"within": 1}], Code.CONFLICT, r"rules\.0: .*metric and difference"),
        ([RULE | {"difference": "mcas"}], Code.CONFLICT, r"rules\.0: .*metric and difference"),
        ([{"difference": "mcas", "component": "ii", "within": 1}], Code.CONFLICT, "component"),
        ([{"metric": "mcas"}], Code.MISSING, r"rules\.0: .*within, at_most or at_least"),
        ([RULE | {"at_most": 1}], Code.CONFLICT, "at_most"),
        ([{"metric": "mcas", "at_least": 2, "at_most": 1}], Code.OUT_OF_RANGE, "at_least 2 .*at_most 1"),
        ([RULE | {"within": 0}], Code.OUT_OF_RANGE, r"rules\.0\.within: .*found 0"),
        ([RULE | {"within": inf}], Code.NOT_FINITE, r"rules\.0\.within: .*inf"),
        ([{"metric": "mcas", "at_least": 0, "at_most": None}], Code.MISSING, r"rules\.0: at_most"),
        ([RULE | {"concept": ["nurse", None]}], Code.MISSING, r"rules\.0: concept"),
        (RULE, Code.WRONG_TYPE, "rules: .*dict"),
        (None, Code.WRONG_TYPE, "rules: .*NoneType"),
        (["mcas"], Code.WRONG_TYPE, "rules: rule 0: .*str"),
        ([RULE] * 1_001, Code.TOO_MANY, "rules: .*1,001 .*1,000"),
        ([RULE | {"within": True}], Code.WRONG_TYPE, r"rules\.0\.within: .*true"),
        ([{"metric": "mcas", "at_most": False}], Code.WRONG_TYPE, r"rules\.0\.at_most: .*false"),
        ([RULE | {"wihtin": 1}], Code.UNKNOWN_NAME, r"rules\.0\.wihtin: .*mean within\?"),
        ([RULE | {"colour": 1}], Code.UNKNOWN_NAME, r"rules\.0\.colour: .*name, metric, difference, component"),
        ([RULE | {"concept": []}], Code.TOO_FEW, r"rules\.0\.concept"),
        ([{"four_fifths": 80}], Code.OUT_OF_RANGE, r"rules\.0\.four_fifths: .*1, found 80"),
        ([{"four_fifths": 0.8, "at_least": 0.8}], Code.CONFLICT, "four_fifths .*at_least"),
        ([RULE | {"interval": "words"}], Code.UNKNOWN_NAME, r"rules\.0\.interval: .*'images' or 'stimuli'"),
    ],
)
def test_what_a_rule_cannot_say_is_told_in_one_line(rules, code, words):
    with raises(GateError, code=code, match=f"^policy: .*{words}") as raised:
        policy_from_mapping({"rules": rules})
    assert "\n" not in str(raised.value)
    assert "more)" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, Code.NOT_FOUND),
        ("rules: [", Code.MALFORMED),
        ("- a", Code.WRONG_TYPE),
        ("\udcff", Code.NOT_TEXT),
        ("", Code.WRONG_TYPE),
    ],
)
def test_a_file_that_is_no_policy_is_told(tmp_path, text, code):
    place = tmp_path / "gate.yaml"
    if text is not None:
        place.write_bytes(text.encode("utf-8", "surrogateescape"))
    with raises(GateError, code=code, match=re.escape(str(place))):
        load_policy(place)


def test_a_folder_is_no_policy(tmp_path):
    with raises(GateError, code=Code.WRONG_TYPE, match="a folder"):
        load_policy(tmp_path)


def test_limits_in_words():
    assert limits_in_words(-inf, 0.2) == "at most 0.2"
    assert limits_in_words(0.2, inf) == "at least 0.2"
