"""Finished images whose manifest gives the file and the prompt alone: the prompt says what they answer."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from clinometer.errors import Code, ImportManifestError
from clinometer.models.files import ManifestRow
from clinometer.runs.plan import manifest_prompt_specs
from clinometer.suites import PromptSpec, Suite, load_suite
from tests import quick
from tests.raising import raises
from tests.toys import Eye, paint, toy_suite, toy_t2iat_suite


def made(folder: Path, suite: Suite, columns: Callable[[PromptSpec], dict[str, str]]) -> Path:
    """A folder of painted images for every question, and a manifest with these columns."""
    folder.mkdir()
    rows = []
    for number, question in enumerate(suite.prompt_specs()):
        for count in range(question.images):
            file = f"{number}-{count}.png"
            paint(question.prompt, 100 * number + count).save(folder / file)
            rows.append({"file": file, **columns(question)})
    with (folder / "manifest.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def whole(question: PromptSpec) -> dict[str, str]:
    return {"concept": question.concept, "group": question.group, "prompt": question.prompt}


def prompt_alone(question: PromptSpec) -> dict[str, str]:
    return {"prompt": question.prompt}


@pytest.mark.parametrize("suite", [toy_suite(target=3, attribute=3), toy_t2iat_suite(neutral=3, attribute=2)])
def test_the_prompt_alone_says_what_the_columns_say(tmp_path, suite):
    runs = [
        quick.import_images(made(tmp_path / name, suite, columns), tmp_path / f"run-{name}", suite=suite, encoder=Eye())
        for name, columns in (("whole", whole), ("prompt", prompt_alone))
    ]
    pd.testing.assert_frame_equal(runs[0].scores, runs[1].scores)
    fields = ["role", "concept", "category", "group", "prompt"]
    pd.testing.assert_frame_equal(runs[0].samples[fields], runs[1].samples[fields])


@pytest.mark.parametrize("name", ["mcas", "internal-bias", "xmcas", "t2iat/light-dark-skin", "t2iat/career-family"])
def test_every_prompt_of_a_built_in_suite_finds_its_question(name):
    suite = load_suite(name)
    asked = list(suite.every_prompt_spec())
    rows = [ManifestRow(f"{n}.png", None, None, "target", each.prompt, n) for n, each in enumerate(asked)]
    found = list(manifest_prompt_specs(rows, suite, "manifest.csv"))
    for question, answer in zip(asked, found, strict=True):
        assert (answer.role, answer.concept, answer.category, answer.group, answer.prompt) == (
            question.role, question.concept, question.category, question.group, question.prompt,
        )  # fmt: skip


def test_a_word_that_is_not_dealt_is_still_the_attributes():
    """Ten images of 25 words: another drawing may have dealt others."""
    suite = load_suite("t2iat/light-dark-skin")
    drawn = {question.prompt for question in suite.prompt_specs()}
    others = [question for question in suite.every_prompt_spec() if question.prompt not in drawn]
    assert others
    row = ManifestRow("a.png", None, None, "target", others[0].prompt, 2)
    (found,) = manifest_prompt_specs([row], suite, "manifest.csv")
    assert found.group == others[0].group


def rows_of(*prompts: str) -> list[ManifestRow]:
    return [ManifestRow(f"{n}.png", None, None, "target", each, n + 2) for n, each in enumerate(prompts)]


def test_a_prompt_of_another_suite_is_named_with_the_way_out():
    suite = load_suite("mcas")
    with raises(ImportManifestError, code=Code.UNKNOWN_NAME) as caught:
        list(manifest_prompt_specs(rows_of("an image of a doctor", "an image of a docter"), suite, "manifest.csv"))
    assert str(caught.value) == (
        "manifest.csv, line 3, prompt: 'an image of a docter' is no prompt of suite mcas; did you mean an image of a "
        "doctor? Fix it, add the column concept or group, or give the --suite it was made for"
    )
    with raises(ImportManifestError, code=Code.UNKNOWN_NAME, match="no prompt of suite mcas"):
        list(manifest_prompt_specs(rows_of("Landschaft mit Bäumen"), suite, "manifest.csv"))


def test_a_prompt_that_two_questions_share_is_named():
    suite = toy_suite(target=2, attribute=2)
    asked = suite.model_dump()
    asked["categories"]["low"]["targets"][0]["prompt"] = "young men"
    shared = type(suite).checked(asked, source="toy")
    with raises(ImportManifestError, code=Code.MISSING, match=r"suite toy for concept 0\.20 and man; add the column"):
        list(manifest_prompt_specs(rows_of("young men"), shared, "manifest.csv"))


def test_portraits_may_be_told_by_their_prompts(tmp_path):
    from clinometer.models.files import read_portraits
    from clinometer.runs.plan import groups_by_prompt

    suite = load_suite("downstream/editing")
    prompts = groups_by_prompt(suite)
    assert set(prompts.values()) == set(suite.groups)
    assert groups_by_prompt(load_suite("downstream/classification"))
    with (tmp_path / "manifest.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["file", "prompt"])
        for number, prompt in enumerate(prompts):
            Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8)).save(tmp_path / f"{number}.png")
            writer.writerow([f"{number}.png", prompt])
    found = read_portraits(tmp_path, {name: () for name in suite.groups}, prompts=prompts)
    assert [row.group for row in found] == list(prompts.values())
