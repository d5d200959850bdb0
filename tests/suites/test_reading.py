"""Suites that are made to fill a memory or to keep a reader busy are refused soon, in one line."""

import sys

import pytest

from clinometer.errors import SuiteError
from clinometer.suites import load_suite, suite_from_mapping, suite_names
from clinometer.suites.base import MOST_IMAGES, MOST_TEXTS
from clinometer.suites.strict import MOST_BYTES, MOST_EACH, read_yaml
from tests.toys import toy_suite, toy_t2iat_suite

HEAD = "name: a\ntitle: b\ndescription: c\n"


def chain(lines, each, first="a0: &a0 [x]"):
    return "\n".join([first, *(each.format(n, n - 1) for n in range(1, lines))])


HOSTILE = {
    "aliases of aliases": chain(40, "a{0}: &a{0} [*a{1}, *a{1}, *a{1}]"),
    "aliases as keys": chain(40, "a{0}: &a{0} {{? [*a{1}, *a{1}] : 1}}"),
    "merges of merges": chain(
        60,
        "a{0}: &a{0} {{<<: [*a{1}, *a{1}], k{0}: 1}}",
        first="a0: &a0 {" + ", ".join(f"x{n}: 1" for n in range(99)) + "}",
    ),
    "itself": "a: &a [*a, *a]",
    "itself, merged": "a: &a {<<: *a, b: 1}",
    "itself as a key": "&a ? [*a] : 1",
    "many aliases": "a: &a 1\nb: [" + "*a, " * 5000 + "]",
    "deep lists": "a: " + "[" * 5000,
    "deep mappings": "{a: " * 5000,
    "deep blocks": "\n".join(" " * n + "- " for n in range(600)),
    "a deep chain as a key": chain(900, "a{0}: &a{0} [*a{1}]") + "\nb: {? *a899 : 1}",
    "many values": "a: [" + "1," * 100_000 + "]",
    "a long text": HEAD.replace("b", "b" * 100_000),
    "a long name": HEAD.replace("a\n", "a" * 100_000 + "\n", 1),
    "a long key": f"{HEAD}{'k' * 100_000}: 1",
    "a huge file": "# " + "x" * MOST_BYTES,
    "a huge number": f"{HEAD}images: {{target: {'9' * 100_000}}}",
    "a number that counts on": f"{HEAD}images: {{target: {'59:' * 20_000}1}}",
    "a huge power": f"{HEAD}images: {{target: 1.0e+12}}",
}


MOST_CALLS = 2_000_000
"""Calls of functions that refusing a file may take: what unfolds takes billions."""


class TooManyCallsError(Exception):
    """Something unfolds."""


def refused(call):
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > MOST_CALLS:
            sys.setprofile(None)
            raise TooManyCallsError

    sys.setprofile(count)
    try:
        with pytest.raises(SuiteError) as caught:
            call()
    finally:
        sys.setprofile(None)
    message = str(caught.value)
    assert len(message) < 700
    assert message.count("\n") <= 11  # ten problems at most, and how many more there are
    return message


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_unfolds_is_refused_soon(kind, tmp_path):
    (tmp_path / "suite.yaml").write_text(HOSTILE[kind])
    assert str(tmp_path / "suite.yaml") in refused(lambda: load_suite(tmp_path / "suite.yaml"))


def test_a_file_without_an_end_is_refused():
    assert "more than 500,000 bytes" in refused(lambda: load_suite("/dev/zero"))


def test_aliases_in_reason_are_taken():
    text = "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]"
    assert read_yaml(text, source="s") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}


@pytest.mark.parametrize(
    "images", [{"target": 1e12}, {"target": 10**12}, {"attribute": MOST_EACH + 1}, {"target": 10**400}]
)
def test_a_number_of_images_has_a_limit(images):
    message = refused(lambda: toy_suite(images=images))
    assert f"at most {MOST_EACH}" in message


def test_images_of_a_suite_have_a_limit_together():
    assert f"more than {MOST_IMAGES:,}" in refused(lambda: toy_suite(target=MOST_EACH, attribute=MOST_EACH, concepts=6))
    suite = toy_suite()
    assert f"more than {MOST_IMAGES:,}" in refused(
        lambda: toy_suite(attribute=MOST_EACH, concepts=6).with_options(images=MOST_EACH)
    )
    assert suite.with_options(images=1000).image_count == 4000 + 30


def test_texts_that_multiply_have_a_limit():
    words = {"words": [f"w{n}" for n in range(300)]}
    message = refused(lambda: toy_t2iat_suite(stimuli=300, groups={"man": words, "woman": words}))
    assert f"more than {MOST_TEXTS:,}" in message


def test_words_are_dealt_as_cards_are():
    suite = toy_t2iat_suite(attribute=7)
    for order in range(5):
        dealt = [word for card in range(order * 7, (order + 1) * 7) for word in [("young men", "old men")[card % 2]]]
        assert dict(suite._dealt("man", order)) == {word: dealt.count(word) for word in sorted(dealt)}


def test_a_recorded_suite_has_the_same_limits():
    held = toy_suite().model_dump()
    held["images"]["target"] = 10**12
    assert "run.json" in refused(lambda: suite_from_mapping(held, source="run.json"))


def test_no_suite_that_is_built_in_comes_near_the_limits():
    for name in suite_names():
        suite = load_suite(name)
        assert suite.image_count < MOST_IMAGES / 10
        assert len(suite.texts()) < MOST_TEXTS / 5
