"""What a suite may say, and what each mistake is answered with."""

import copy

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, SuiteError
from clinometer.suites import load_suite, suite_from_mapping, suite_names
from clinometer.suites.schema import suite_from_text
from tests.raising import raises

MINIMAL = {
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


def changed(path, value):
    """MINIMAL with one place changed; ``...`` as value deletes it."""
    suite = copy.deepcopy(MINIMAL)
    place = suite
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return suite


def test_a_suite_about_something_other_than_gender_needs_yaml_only(tmp_path):
    path = tmp_path / "tone.yaml"
    path.write_text(yaml.safe_dump(MINIMAL))
    suite = load_suite(path)
    assert suite.axis.a == "light"
    assert [target.name for target in suite.targets] == ["judge"]


MISTAKES = [
    (["colour"], "red", Code.UNKNOWN_NAME, "colour: "),
    (["groups", "light", "word"], ["x"], Code.UNKNOWN_NAME, r"groups\.light\.word: "),
    (["axis", "b"], "medium", Code.UNKNOWN_NAME, r"axis\.b: .*'medium'.*light, dark"),
    (["axis", "b"], "Drak", Code.UNKNOWN_NAME, r"axis\.b: .*'Drak'.*dark"),
    (["axis", "b"], "light", Code.DUPLICATE, "axis: .*light"),
    (["axis"], ..., Code.MISSING, "axis: "),
    (["groups", "dark"], ..., Code.TOO_FEW, "groups: .*2 "),
    (["groups", "dark", "words"], [], Code.TOO_FEW, r"groups\.dark\.words: .*1 "),
    (["groups", "dark", "words"], "dark", Code.WRONG_TYPE, r"groups\.dark\.words: .*'dark'"),
    (["groups", "dark", "words"], {"dark": 1}, Code.WRONG_TYPE, r"groups\.dark\.words: "),
    (["groups", "dark", "prompts"], [], Code.TOO_FEW, r"groups\.dark\.prompts: "),
    (["groups", "dark", "words"], ["dark", "dark"], Code.DUPLICATE, r"groups\.dark\.words: .*: dark"),
    (["groups", "dark", "words"], ["  "], Code.TOO_FEW, r"groups\.dark\.words\.0: "),
    (["categories"], {}, Code.TOO_FEW, "categories: "),
    (["categories", "all"], MINIMAL["categories"]["work"], Code.CONFLICT, r"categories\.all: 'all'"),
    (["groups", "all"], MINIMAL["groups"]["dark"], Code.CONFLICT, r"groups\.all: 'all'"),
    (["categories", "work", "targets"], [], Code.TOO_FEW, r"categories\.work\.targets: "),
    (
        ["categories", "more"],
        {"targets": [{"name": "judge", "prompt": "x"}]},
        Code.DUPLICATE,
        "categories: .*: judge",
    ),
    (["categories", "work", "targets", 0, "stereotype"], "purple", Code.UNKNOWN_NAME, "stereotype: .*'purple'"),
    (["text_targets"], "keyword", Code.MISSING, "keyword: "),
    (["text_targets"], "image", Code.UNKNOWN_NAME, "text_targets: .*'image'"),
    (["images"], {"target": 0}, Code.OUT_OF_RANGE, r"images\.target: .*1, found 0"),
    (["images"], {"target": "many"}, Code.WRONG_TYPE, r"images\.target: .*'many'"),
    (["images"], {"target": True}, Code.WRONG_TYPE, r"images\.target: .*true"),
    (["margin"], True, Code.WRONG_TYPE, "margin: .*true"),
    (["margin"], -1, Code.OUT_OF_RANGE, "margin: .*-1"),
    (["margin"], float("inf"), Code.NOT_FINITE, "margin: .*inf"),
    (["name"], "a\nb", Code.MALFORMED, "name: "),
]


@pytest.mark.parametrize(("path", "value", "code", "words"), MISTAKES)
def test_a_mistake_is_named_with_its_file_and_field(path, value, code, words):
    with raises(SuiteError, code=code, match=rf"^mine\.yaml: .*{words}"):
        suite_from_mapping(changed(path, value), source="mine.yaml")


def test_pairs_must_match_between_the_two_groups():
    suite = changed(["groups", "light", "prompts"], [{"prompt": "a light child", "pair": "child"}])
    with raises(SuiteError, code=Code.MISMATCH):
        suite_from_mapping(suite, source="mine.yaml")


def test_a_group_is_not_half_paired():
    suite = copy.deepcopy(MINIMAL)
    for name in ("light", "dark"):
        prompts = [{"prompt": f"a {name} {what}", "pair": pair} for what, pair in (("child", "child"), ("one", None))]
        suite["groups"][name]["prompts"] = prompts
    with raises(SuiteError, code=Code.MISMATCH):
        suite_from_mapping(suite, source="mine.yaml")


def test_a_key_written_twice_is_refused(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text(yaml.safe_dump(MINIMAL) + "name: again\n")
    with raises(SuiteError, code=Code.DUPLICATE, match=r"twice\.yaml: line 1: .*: name"):
        load_suite(path)


def test_a_misspelt_key_is_named_before_the_key_it_leaves_out():
    suite = changed(["groups", "light", "prompt"], MINIMAL["groups"]["light"]["prompts"])
    del suite["groups"]["light"]["prompts"]
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match=r"mine\.yaml: groups\.light\.prompt: .*mean prompts\?$"):
        suite_from_mapping(suite, source="mine.yaml")


@pytest.mark.parametrize("word", ["no", "2024", "2024-05-01", "1.5"])
def test_a_word_that_yaml_takes_for_something_else_is_to_be_quoted(word):
    text = yaml.safe_dump(MINIMAL).replace("- light skin", f"- {word}")
    with raises(SuiteError, code=Code.WRONG_TYPE, match=r"mine.yaml: groups.light.words.0: .*; put it in quotes"):
        suite_from_text(text, source="mine.yaml")
    quoted = suite_from_text(text.replace(f"- {word}", f"- '{word}'"), source="mine.yaml")
    assert quoted.groups["light"].words == (word,)


def test_a_mapping_may_take_the_keys_of_another():
    text = yaml.safe_dump(MINIMAL) + "images: &few {target: 3, attribute: 2}\n"
    merged = text.replace("images: &few {target: 3, attribute: 2}", "images: {<<: &few {target: 3}, attribute: 2}")
    assert suite_from_text(merged, source="mine.yaml") == suite_from_text(text, source="mine.yaml")
    with raises(SuiteError, code=Code.DUPLICATE, match="line 23: .*target"):
        suite_from_text(merged.replace("attribute: 2", "target: 2, target: 3"), source="mine.yaml")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *[(text, Code.WRONG_TYPE) for text in ("- a list", "", "42")],
        *[(text, Code.MALFORMED) for text in ("a: [1", "name: 2024-02-30", "name: !!python/object:os.system {}")],
    ],
)
def test_what_is_not_a_suite_is_refused(tmp_path, text, code):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with raises(SuiteError, code=code, match=r"odd\.yaml"):
        load_suite(path)


@pytest.mark.parametrize("study", ["leanings", "", None, ["leaning"]])
def test_an_unknown_study_is_refused(study):
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match=r"^mine\.yaml: study: found .*one of leaning"):
        suite_from_mapping(MINIMAL | {"study": study}, source="mine.yaml")


def test_the_study_of_a_suite_without_the_key_is_leaning():
    suite = suite_from_mapping(MINIMAL, source="mine.yaml")
    assert suite.study == "leaning"
    assert suite_from_mapping(MINIMAL | {"study": "leaning"}, source="mine.yaml").fingerprint == suite.fingerprint


def test_an_option_that_the_study_does_not_have_is_refused():
    with raises(SuiteError, code=Code.UNSUPPORTED, field="strengths"):
        load_suite("mcas").with_options(strengths=3)


@pytest.mark.parametrize("name", ["mcsa", "MCAS"])
def test_an_unknown_name_suggests_a_known_one(name):
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match="mean mcas"):
        load_suite(name)


def test_a_directory_and_a_binary_file_are_refused(tmp_path):
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match=str(tmp_path)):
        load_suite(tmp_path)
    (tmp_path / "noise.yaml").write_bytes(b"\xff\xfe\x00\x80")
    with raises(SuiteError, code=Code.NOT_TEXT):
        load_suite(tmp_path / "noise.yaml")


@pytest.mark.parametrize("name", suite_names())
def test_built_in_suites_load_and_ask_something(name):
    suite = load_suite(name)
    assert suite.name == name
    assert suite.image_count > 0 or suite.study == "weat"
    assert len(suite.texts()) == len(set(suite.texts())) > 0 or suite.study == "weat"
    assert all(sheet.rows and len(sheet.rows[0]) == len(sheet.columns) for sheet in suite.sheets())


@pytest.mark.parametrize("name", ["mcas", "reference", "xmcas"])
def test_leaning_suites_are_balanced(name):
    suite = load_suite(name)
    sides = [target.stereotype for target in suite.targets]
    assert sides.count(suite.axis.a) == sides.count(suite.axis.b)


def test_the_papers_suites_have_the_papers_numbers():
    mcas, xmcas = load_suite("mcas"), load_suite("xmcas")
    assert [target.model_dump(exclude={"keyword"}) for target in mcas.targets] == [
        target.model_dump(exclude={"keyword"}) for target in xmcas.targets
    ]
    assert len(mcas.targets) == 28
    assert [len(category.targets) for category in mcas.categories.values()] == [10, 6, 6, 6]
    assert len(mcas.targets) * mcas.images.target == 560
    assert sum(len(g.prompts) for g in mcas.groups.values()) * mcas.images.attribute == 128
    assert sum(len(g.prompts) for g in xmcas.groups.values()) * xmcas.images.attribute == 192
    assert all(len(mcas.groups[name].words) == 10 for name in ("man", "woman"))


def test_the_reference_suite_has_the_same_design():
    suite = load_suite("reference")
    assert len(suite.targets) >= 24
    assert suite.axis.third is not None
    assert any(target.stereotype is None for target in suite.targets)


@given(images=st.integers(1, 100))
def test_another_number_of_images_is_another_suite(images):
    suite = load_suite("mcas")
    other = suite.with_options(images=images)
    assert other.images.target == images
    assert (other.fingerprint == suite.fingerprint) == (images == suite.images.target)


def test_keywords_can_stand_for_targets():
    suite = load_suite("mcas").with_options(text_targets="keyword")
    assert suite.text_of(suite.targets[0]) == "CEO"
    assert load_suite("mcas").text_of(suite.targets[0]) == "an image of a chief executive officer"
