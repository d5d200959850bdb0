"""Classification suites: the paper's numbers, the reference model's world, and what a file must not say."""

import pytest
import yaml

from clinometer.errors import Code, SuiteError
from clinometer.models import reference
from clinometer.models.files import read_portraits
from clinometer.studies.classification.scores import setting_name
from clinometer.suites import load_suite, suite_from_mapping
from tests.raising import raises
from tests.toy_denoisers import toy_classification


def sides(x, y):
    return {"x": {"label": "x", "groups": x}, "y": {"label": "y", "groups": y}}


def test_the_papers_suite_has_the_papers_numbers():
    suite = load_suite("downstream/classification")
    assert len(suite.groups) == 4
    assert suite.images.group == 256
    assert suite.noise_samples == (1, 10, 100)
    assert list(suite.a.classes) == ["carpenter", "plumber", "truck driver", "mechanic", "construction worker"]
    assert list(suite.b.classes) == ["babysitter", "secretary", "housekeeper", "nurse", "receptionist"]
    assert suite.prompts["nurse"] == "A portrait of a nurse."
    assert suite.elimination is None
    assert suite.image_count == 1024


def test_the_reference_suite_speaks_the_models_words():
    suite = load_suite("downstream/classification-reference")
    vocabulary, planted = reference.vocabulary(), reference.planted()
    assert suite.template in vocabulary["templates"]
    for name, text in suite.classes.items():
        assert vocabulary["concepts"][name]["neutral"] == text
    assert all(planted[name]["man"] >= 0.8 for name in suite.a.classes)
    assert all(planted[name]["man"] <= 0.3 for name in suite.b.classes)
    for group in suite.groups.values():
        assert any(group.prompt.endswith(tone) for tone in vocabulary["tones"].values())
    assert suite.image_count * len(suite.classes) * suite.noise_samples[-1] <= 30_000  # a few minutes on two cores


def test_finished_portraits_have_groups_to_go_to():
    codes = [group.codes for group in load_suite("downstream/classification").groups.values()]
    assert codes == [("WM",), ("WF",), ("BM",), ("BF",)]
    shipped = {row.group for row in read_portraits(reference.portraits_path(), {})}
    assert shipped == set(load_suite("downstream/classification-reference").groups)


def test_numbers_of_noise_samples_are_named_as_the_scores_name_them():
    for suite in (toy_classification(), load_suite("downstream/classification")):
        assert suite.settings == {n: setting_name(n) for n in suite.noise_samples}


def test_contrasts_match_groups_that_differ_in_one_thing():
    for name in ("downstream/classification", "downstream/classification-reference"):
        suite = load_suite(name)
        for contrast in suite.contrasts.values():
            for x, y in zip(contrast.x.groups, contrast.y.groups, strict=True):
                assert len(set(x.split()) & set(y.split())) == 1


def test_what_a_suite_asks():
    suite = toy_classification()
    assert next((q.prompt, q.role, q.group, q.images) for q in suite.prompt_specs()) == (
        "young men", "portrait", "young man", 6
    )  # fmt: skip
    assert suite.texts() == [
        "a portrait of a pilot", "a portrait of a mechanic", "a portrait of a cook", "a portrait of a singer"
    ]  # fmt: skip
    assert suite.label_of("old man") == "old men"
    assert suite.label_of("nobody") == "nobody"
    assert suite.with_options(images=3).image_count == 12
    assert suite.images_in_words() == "6 portraits per group, 20 noise samples per image"
    assert len(suite.sheets()) == 3
    assert suite_from_mapping(yaml.safe_load(yaml.safe_dump(suite.model_dump(mode="json"))), source="x") == suite


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"template": "a portrait"}, Code.MALFORMED, "template: .*'a portrait'"),
        ({"noise_samples": [10, 1]}, Code.OUT_OF_RANGE, "noise_samples: found 10, 1"),
        ({"noise_samples": [0, 1]}, Code.OUT_OF_RANGE, r"noise_samples\.0"),
        ({"elimination": 1.0}, Code.OUT_OF_RANGE, "elimination"),
        ({"b": {"label": "green", "classes": {"pilot": "x"}}}, Code.DUPLICATE, "class .*: pilot"),
        ({"b": {"label": "green", "classes": {"flier": "a pilot"}}}, Code.DUPLICATE, "text .*: a pilot"),
        ({"b": {"label": "green", "classes": {}}}, Code.TOO_FEW, r"b\.classes"),
        (
            {"contrasts": {"g": sides(["nobody"], ["old man"])}},
            Code.UNKNOWN_NAME, r"contrasts\.g: .*'nobody'",
        ),
        (
            {"contrasts": {"g": sides(["old man"], ["old man"])}},
            Code.DUPLICATE, r"contrasts\.g: .*old man",
        ),
        (
            {"contrasts": {"g": sides(["old man", "young man"], ["old woman"])}},
            Code.WRONG_SHAPE, r"contrasts\.g",
        ),
        ({"contrasts": {}}, Code.TOO_FEW, "contrasts"),
        ({"groups": {"one": {"prompt": "p"}, "two": {"prompt": "p"}}}, Code.DUPLICATE, "groups: prompt"),
        (
            {"groups": {"one": {"prompt": "p", "codes": ["WF"]}, "two": {"prompt": "q", "codes": ["WF"]}}},
            Code.DUPLICATE, "groups: code .*WF",
        ),
        ({"images": {"group": 0}}, Code.OUT_OF_RANGE, r"images\.group"),
        ({"strengths": [1]}, Code.UNKNOWN_NAME, "strengths"),
    ],
)  # fmt: skip
def test_what_a_suite_must_not_say(changes, code, message):
    with raises(SuiteError, code=code, match=message):
        toy_classification(**changes)
