"""Every prompt, keyword and word of a paper's suite is the paper's own, letter by letter.

``tests/golden/prompts`` holds what the papers print. Where a suite departs on purpose, the file has the printed text
(null where nothing is printed), ours, and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clinometer.suites import (
    ClassificationSuite,
    EditingSuite,
    LeaningSuite,
    Suite,
    T2iatSuite,
    load_suite,
    suite_names,
)

FOLDER = Path(__file__).parents[1] / "golden" / "prompts"
PAPERS = ("mcas", "internal-bias", "xmcas", "t2iat", "downstream")
LEANING = PAPERS[:3]
GOLDEN = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in PAPERS}
T2IAT, DOWNSTREAM = GOLDEN["t2iat"], GOLDEN["downstream"]


def ours(entry: str | dict[str, Any]) -> str:
    """What the suite must have: the printed text, or ours where the file says why."""
    if isinstance(entry, str):
        return entry
    return str(entry.get("ours", entry["printed"]))


def entries(value: Any) -> Iterator[dict[str, Any]]:
    """Every entry of a golden file that has a printed text of its own."""
    if isinstance(value, dict):
        if "printed" in value:
            yield value
        for each in value.values():
            yield from entries(each)
    elif isinstance(value, list):
        for each in value:
            yield from entries(each)


def with_article(phrase: str) -> str:
    """``an image of a/an ...``, as the MCAS paper prints it once for all."""
    return f"an image of {'an' if phrase[0] in 'aeio' else 'a'} {phrase}"


def listed(printed: str) -> list[str]:
    return printed.split(", ")


def leaning(name: str) -> LeaningSuite:
    suite = load_suite(name)
    assert isinstance(suite, LeaningSuite)
    return suite


def association(name: str) -> T2iatSuite:
    suite = load_suite(f"t2iat/{name}")
    assert isinstance(suite, T2iatSuite)
    return suite


@pytest.mark.parametrize("name", PAPERS)
def test_a_departure_has_a_reason_and_is_one(name: str) -> None:
    found = list(entries(GOLDEN[name]))
    assert found
    for entry in found:
        if entry["printed"] is None or entry.get("ours", entry["printed"]) != entry["printed"]:
            assert entry.get("reason"), entry


def test_every_suite_of_a_paper_is_here() -> None:
    """A suite with a protocol comes from a paper; and the other way round."""
    expected = {*LEANING, *(f"t2iat/{name}" for name in (*T2IAT["tests"], "occupations"))}
    expected |= {"downstream/editing", "downstream/classification"}
    assert {name for name in suite_names() if load_suite(name).protocol is not None} == expected


@pytest.mark.parametrize("name", LEANING)
def test_the_targets_prompts(name: str) -> None:
    printed = GOLDEN[name]["targets"]
    if name == "internal-bias":  # which prints whole prompts
        assert [target.prompt for target in leaning(name).targets] == printed
        return
    for category, phrases in printed.items():
        prompts = [target.prompt for target in leaning(name).categories[category].targets]
        assert prompts == [with_article(phrase) for phrase in phrases]
    assert list(leaning(name).categories) == list(printed)


@pytest.mark.parametrize("name", LEANING)
def test_the_groups_prompts(name: str) -> None:
    printed = GOLDEN[name]["attributes"]
    suite = leaning(name)
    assert list(suite.groups) == list(printed)
    for group, phrases in printed.items():
        asked = [ours(phrase) for phrase in phrases]
        expected = asked if name == "internal-bias" else [with_article(phrase) for phrase in asked]
        assert [each.prompt for each in suite.groups[group].prompts] == expected


@pytest.mark.parametrize("name", LEANING)
def test_the_groups_words(name: str) -> None:
    suite = leaning(name)
    for group, printed in GOLDEN[name]["words"].items():
        assert list(suite.groups[group].words) == listed(ours(printed))


def test_the_keywords_of_mcas_are_those_of_its_table_4() -> None:
    """The table lists each half of a category; farmer and programmer stand the other way round in the appendix."""
    for category, halves in GOLDEN["mcas"]["keywords"].items():
        keywords = [target.keyword for target in leaning("mcas").categories[category].targets]
        middle = len(keywords) // 2
        assert [set(keywords[:middle]), set(keywords[middle:])] == [set(listed(half)) for half in halves]


@pytest.mark.parametrize("name", ["internal-bias", "xmcas"])
def test_the_keywords_are_those_of_the_papers_table_3(name: str) -> None:
    keywords = [target.keyword for target in leaning(name).targets]
    assert keywords == [ours(entry) for entry in GOLDEN[name]["keywords"]]


def test_nine_of_the_keywords_differ_from_those_of_mcas() -> None:
    first, second = (leaning(name).targets for name in ("mcas", "xmcas"))
    differing = [
        (a.keyword, b.keyword)
        for a, b in zip(first, second, strict=True)
        if str(a.keyword).lower() != str(b.keyword).lower()
    ]
    assert len(differing) == 9
    assert ("car", "Car Fixing") in differing
    assert ("baseball player", "Baseball") in differing


@pytest.mark.parametrize("name", T2IAT["tests"])
def test_the_prompts_of_a_t2iat_test(name: str) -> None:
    test, template = T2IAT["tests"][name], T2IAT["tests"][name]["template"]
    words = {side: listed(T2IAT["stimuli"][test[side][1]]) for side in ("a", "b")}
    expected = []
    for side in ("x", "y"):
        concept, printed = test[side]
        for stimulus in listed(T2IAT["stimuli"][printed]):
            expected.append((concept, stimulus, "", template["neutral"].format(stimulus=stimulus)))
            expected += [
                (concept, stimulus, test[group][0], template["attribute"].format(stimulus=stimulus, word=word))
                for group in ("a", "b")
                for word in words[group]
            ]
    suite = association(name)
    assert [(q.category, q.concept, q.group, q.prompt) for q in suite.every_prompt_spec()] == expected
    assert {q.prompt for q in suite.prompt_specs()} <= {prompt for *_, prompt in expected}
    if template["printed"]:
        opening = template["printed"].partition("{")[0]
        assert template["neutral"].startswith(opening)


def test_the_prompts_of_occupations() -> None:
    printed, suite = T2IAT["occupations"], association("occupations")
    held = suite.concepts[printed["category"]]
    assert [stimulus.name for stimulus in held.stimuli] == [ours(entry) for entry in printed["stimuli"]]
    assert [held.neutral_prompt(stimulus) for stimulus in held.stimuli] == [e["prompt"] for e in printed["stimuli"]]
    for group in ("male", "female"):
        assert list(suite.groups[group].words) == printed["words"][group]
    opening = printed["template"].partition("{")[0].removesuffix("a ")
    assert all(prompt.startswith(opening) for prompt in suite.neutral_texts().values())


def filled(template: str, what: str) -> str:
    """A template of the downstream paper, with "an" where its "a" would stand before a vowel."""
    article = f"a{'n' if what[0] in 'AE' else ''} "
    return template.replace("a _____", f"{article}{what}")


def test_the_prompts_of_editing() -> None:
    suite = load_suite("downstream/editing")
    assert isinstance(suite, EditingSuite)
    template = DOWNSTREAM["edit_template"]
    groups = [filled(template, ours(entry)) for entry in DOWNSTREAM["editing_groups"]]
    assert [group.prompt for group in suite.groups.values()] == groups
    professions = [template.replace("_____", ours(entry)) for entry in DOWNSTREAM["professions"]]
    assert [profession.prompt for profession in suite.professions.values()] == professions
    assert [suite.wordings[0].a, suite.wordings[0].b] == DOWNSTREAM["wordings"]["ours"]


def test_the_prompts_of_classification() -> None:
    suite = load_suite("downstream/classification")
    assert isinstance(suite, ClassificationSuite)
    groups = [filled(DOWNSTREAM["edit_template"], ours(entry)) for entry in DOWNSTREAM["classification_groups"]]
    assert [group.prompt for group in suite.groups.values()] == groups
    classes = [
        DOWNSTREAM["class_template"].replace("_____", ours(entry))
        for side in ("a", "b")
        for entry in DOWNSTREAM["classes"][side]
    ]
    assert list(suite.prompts.values()) == classes


def texts(suite: Suite) -> Iterator[str]:
    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, each in value.items():
                yield from strings(key)
                yield from strings(each)
        elif isinstance(value, list | tuple):
            for each in value:
                yield from strings(each)

    return strings(suite.model_dump(exclude={"title", "description", "source", "protocol"}))


@pytest.mark.parametrize("name", suite_names())
def test_yaml_has_folded_no_word(name: str) -> None:
    """A line that breaks at a hyphen would leave "light- skinned"."""
    for text in texts(load_suite(name)):
        assert "- " not in text
        assert " -" not in text
        assert "  " not in text
