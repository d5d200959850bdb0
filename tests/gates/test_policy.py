"""Policies as files: what they may say, and what is told of what they may not."""

from math import inf

import pytest

from clinometer.errors import Code, GateError
from clinometer.gates import load_policy, policy_from_mapping
from clinometer.gates.telling import limits_in_words
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
    ("rules", "message"),
    [
        ([], "policy: rules: expected one or more"),
        ([{"within": 1}], "policy: rules.0: expected one of metric and difference"),
        ([RULE | {"difference": "mcas"}], "expected one of metric and difference"),
        ([{"difference": "mcas", "component": "ii", "within": 1}], "leave out component"),
        ([{"metric": "mcas"}], "policy: rules.0: it has no limit; give within, at_most or at_least"),
        ([RULE | {"at_most": 1}], "within stands for both limits"),
        ([{"metric": "mcas", "at_least": 2, "at_most": 1}], "at_least 2 is above at_most 1"),
        ([RULE | {"within": 0}], "rules.0.within: expected more than 0, found 0"),
        ([RULE | {"within": inf}], "rules.0.within: expected a finite number"),
        ([{"metric": "mcas", "at_least": 0, "at_most": None}], "rules.0: at_most has no value; give one, or leave"),
        ([RULE | {"concept": ["nurse", None]}], "rules.0: concept has no value"),
        (RULE, "policy: rules: expected a list of rules, found dict"),
        (None, "policy: rules: expected a list of rules, found NoneType"),
        (["mcas"], "policy: rules: rule 0: expected keys such as metric and within, found str"),
        ([RULE] * 1_001, "policy: rules: found 1,001 rules, expected at most 1,000; use patterns"),
        ([RULE | {"within": True}], "rules.0.within: expected a number, found true"),
        ([{"metric": "mcas", "at_most": False}], "rules.0.at_most: expected a number, found false"),
        ([RULE | {"wihtin": 1}], "policy: rules.0.wihtin: unknown key; did you mean within?"),
        ([RULE | {"colour": 1}], "policy: rules.0.colour: unknown key; expected name, metric, difference, component"),
        ([RULE | {"concept": []}], "rules.0.concept"),
        ([{"four_fifths": 80}], "rules.0.four_fifths: expected at most 1, found 80"),
        (
            [{"four_fifths": 0.8, "at_least": 0.8}],
            "four_fifths stands for the metric and its limit; leave",
        ),
        ([RULE | {"interval": "words"}], "rules.0.interval: expected 'images' or 'stimuli'"),
    ],
)
def test_what_a_rule_cannot_say_is_told_in_one_line(rules, message):
    with pytest.raises(GateError) as raised:
        policy_from_mapping({"rules": rules})
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "more)" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "no such file; give a YAML file with title and rules"), ("rules: [", "gate.yaml: "), 
     ("- a", "gate.yaml: expected a mapping with title and rules, found list"),
     ("\udcff", "gate.yaml: "), ("", "gate.yaml: ")],
)  # fmt: skip
def test_a_file_that_is_no_policy_is_told(tmp_path, text, message):
    place = tmp_path / "gate.yaml"
    if text is not None:
        place.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(GateError) as raised:
        load_policy(place)
    assert message in str(raised.value)
    assert str(place) in str(raised.value)


def test_a_folder_is_no_policy(tmp_path):
    with raises(GateError, code=Code.INVALID, match="a folder"):
        load_policy(tmp_path)


def test_limits_in_words():
    assert limits_in_words(-inf, 0.2) == "at most 0.2"
    assert limits_in_words(0.2, inf) == "at least 0.2"
