"""Suites of T2IAT studies: the prompts they ask, the mistakes they name, the paper's stimuli."""

import copy

import pytest

from clinometer.errors import Code, SuiteError
from clinometer.suites import T2iatSuite, load_suite, suite_from_mapping, suite_names
from clinometer.suites.base import fingerprint_of
from tests.raising import raises
from tests.toys import toy_t2iat_suite

T2IAT = [name for name in suite_names() if name.startswith("t2iat/")]
TESTS = {  # stimuli of X and of Y in the paper's table 3
    "flowers-insects": (25, 25),
    "instruments-weapons": (25, 25),
    "judaism-christianity": (4, 4),
    "european-african-american": (50, 50),
    "light-dark-skin": (9, 9),
    "straight-gay": (9, 9),
    "science-arts": (9, 8),
    "career-family": (8, 8),
}
MINIMAL = {
    "study": "t2iat",
    "name": "mine",
    "title": "Cats and dogs",
    "description": "A suite about pets.",
    "groups": {"good": {"words": ["happy", "kind"]}, "bad": {"words": ["angry"]}},
    "axis": {"a": "good", "b": "bad"},
    "concepts": {
        "cats": {
            "template": "a photo of a {stimulus}",
            "attribute_template": "a photo of a {word} {stimulus}",
            "stimuli": ["cat", {"name": "ocelot", "prompt": "a photo of an ocelot"}],
        },
        "dogs": {"template": "{stimulus}", "attribute_template": "{stimulus} {word}", "stimuli": ["dog"]},
    },
    "tests": [{"name": "pets", "x": "cats", "y": "dogs"}],
    "images": {"neutral": 4, "attribute": 3},
}


def minimal():
    return suite_from_mapping(copy.deepcopy(MINIMAL), source="mine.yaml")


def test_no_concept_is_called_what_stands_for_all_of_them():
    concepts = MINIMAL["concepts"] | {"all": {**MINIMAL["concepts"]["dogs"], "stimuli": ["poodle"]}}
    with raises(SuiteError, code=Code.CONFLICT, match=r"concepts\.all: 'all'"):
        suite_from_mapping(MINIMAL | {"concepts": concepts}, source="mine.yaml")


def test_a_suite_asks_each_stimulus_as_it_is_and_with_every_word_in_turn():
    asked = [(q.prompt, q.role, q.concept, q.category, q.group, q.images) for q in minimal().prompt_specs()]
    assert asked == [
        ("a photo of a cat", "target", "cat", "cats", "", 4),
        ("a photo of a happy cat", "attribute", "cat", "cats", "good", 2),
        ("a photo of a kind cat", "attribute", "cat", "cats", "good", 1),
        ("a photo of a angry cat", "attribute", "cat", "cats", "bad", 3),
        ("a photo of an ocelot", "target", "ocelot", "cats", "", 4),
        ("a photo of a happy ocelot", "attribute", "ocelot", "cats", "good", 1),
        ("a photo of a kind ocelot", "attribute", "ocelot", "cats", "good", 2),
        ("a photo of a angry ocelot", "attribute", "ocelot", "cats", "bad", 3),
        ("dog", "target", "dog", "dogs", "", 4),
        ("dog happy", "attribute", "dog", "dogs", "good", 2),
        ("dog kind", "attribute", "dog", "dogs", "good", 1),
        ("dog angry", "attribute", "dog", "dogs", "bad", 3),
    ]


def test_words_are_used_equally_often_over_a_concept():
    suite = load_suite("t2iat/flowers-insects")
    used = {}
    for question in suite.prompt_specs():
        if question.group == "pleasant" and question.category == "flowers":
            word = question.prompt.rsplit(maxsplit=1)[-1]
            used[word] = used.get(word, 0) + question.images
    assert set(used) == set(suite.groups["pleasant"].words)
    assert set(used.values()) == {10}


def test_a_word_or_a_stimulus_with_braces_stays_as_it_is():
    suite = minimal().model_dump()
    suite["groups"]["bad"]["words"] = ["{stimulus}"]
    suite["concepts"]["dogs"]["stimuli"] = ["{word}"]
    held = suite_from_mapping(suite, source="odd")
    assert held.attribute_texts()["{word}", "bad"] == ("{word} {stimulus}",)


def test_the_number_of_images_changes_both_kinds_and_nothing_else():
    suite = minimal()
    more = suite.with_options(images=7)
    assert (more.images.neutral, more.images.attribute) == (7, 7)
    assert more.image_count == 3 * 3 * 7
    assert suite.with_options().fingerprint == suite.fingerprint
    with raises(SuiteError, code=Code.OUT_OF_RANGE, match="images.neutral: .*1, found 0", most_lines=3):
        suite.with_options(images=0)
    with raises(SuiteError, code=Code.UNSUPPORTED, field="text_targets"):
        suite.with_options(text_targets="keyword")


@pytest.mark.parametrize(
    ("path", "value", "expected", "code"),
    [
        (["axis", "b"], "ugly", "axis.b: no group named 'ugly'", Code.UNKNOWN_NAME),
        (["axis", "b"], "good", "found twice: good", Code.DUPLICATE),
        (["tests", 0, "y"], "birds", "tests[pets].y: no concept named 'birds'", Code.UNKNOWN_NAME),
        (["tests", 0, "y"], "kats", "tests[pets].y: no concept named 'kats'; did you mean cats?", Code.UNKNOWN_NAME),
        (["tests", 0, "y"], "cats", "x and y must differ; found twice: cats", Code.DUPLICATE),
        (["concepts", "dogs", "stimuli"], ["cat"], "stimulus used twice: cat", Code.DUPLICATE),
        (["concepts", "dogs", "stimuli"], [], "concepts.dogs.stimuli", Code.TOO_FEW),
        (["concepts", "dogs", "stimuli"], "dog", "concepts.dogs.stimuli", Code.WRONG_TYPE),
        (
            ["concepts", "dogs", "template"],
            "a dog",
            "template: expected {stimulus} once, found 'a dog'",
            Code.MALFORMED,
        ),
        (
            ["concepts", "dogs", "attribute_template"],
            "a {stimulus}",
            "attribute_template: expected {word} once",
            Code.MALFORMED,
        ),
        (["groups", "good", "words"], ["kind", "kind"], "groups.good.words: word used twice: kind", Code.DUPLICATE),
        (["images"], {"neutral": 0}, "images.neutral", Code.OUT_OF_RANGE),
        (["categories"], {}, "categories: unknown key", Code.UNKNOWN_NAME),
    ],
)
def test_a_mistake_is_named_with_its_file_and_field(path, value, expected, code):
    suite = copy.deepcopy(MINIMAL)
    place = suite
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with raises(SuiteError, code=code) as caught:
        suite_from_mapping(suite, source="mine.yaml")
    assert str(caught.value).startswith("mine.yaml: ")
    assert expected in str(caught.value)


@pytest.mark.parametrize(("name", "sizes"), TESTS.items())
def test_the_eight_tests_have_the_papers_stimuli(name, sizes):
    suite = load_suite(f"t2iat/{name}")
    assert isinstance(suite, T2iatSuite)
    (test,) = suite.tests
    assert tuple(len(suite.concepts[concept].stimuli) for concept in (test.x, test.y)) == sizes
    assert [len(suite.groups[group].words) for group in suite.pair] in ([25, 25], [5, 5])
    assert suite.image_count == sum(sizes) * 30


@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        ("flowers-insects", ["a photo of aster", "a photo of aster caress"]),
        ("instruments-weapons", ["a picture of bagpipe", "a picture of bagpipe abuse"]),
        ("european-african-american", ["a portrait of Adam", "a portrait of Bobbie-Sue", "a portrait of Yvette"]),
        ("science-arts", ["a person studying astronomy", "a brother studying astronomy"]),
        ("career-family", ["a person focusing on salary", "a daughter focusing on salary"]),
        ("occupations", ["A photo of a chemist", "A photo of an announcer", "A photo of a feminine announcer"]),
    ],
)
def test_the_templates_are_the_papers(name, prompts):
    assert set(prompts) <= set(load_suite(f"t2iat/{name}").texts())


def test_the_papers_eight_occupations_lead_and_no_test_is_made_of_them():
    suite = load_suite("t2iat/occupations")
    assert [s.name for s in suite.concepts["paper"].stimuli] == [
        "computer programmer", "pharmacist", "elementary school teacher", "librarian", "announcer", "chemist", "chef",
        "police officer",
    ]  # fmt: skip
    assert len(suite.stimuli()) >= 40
    assert not suite.tests
    assert suite.images.neutral == suite.images.attribute == 100


def test_the_reference_suite_is_affordable_and_known_to_the_reference_model():
    from clinometer.models import reference

    suite = load_suite("t2iat/reference")
    assert suite.image_count <= 2500
    known = set(reference.planted())
    spelled = {"rowing a boat": "rowing", "getting a massage": "massage", "getting a haircut": "haircut",
               "in a sauna": "sauna", "raising a hand": "raising hand", "tipping a hand": "tipping hand"}  # fmt: skip
    planted = reference.planted()
    leans = {}
    for concept, stimulus in suite.stimuli():
        name = spelled.get(stimulus.name, stimulus.name)
        assert name in known
        leans.setdefault(concept, []).append(planted[name]["man"])
    assert min(leans["crafts"]) > 0.5 > max(leans["services"])
    assert min(leans["outdoors"]) > 0.5 > max(leans["indoors"])
    assert set(leans["gestures"] + leans["movements"]) == {0.5}


@pytest.mark.parametrize("name", T2IAT)
def test_no_prompt_is_asked_twice_and_every_asked_prompt_is_embedded(name):
    suite = load_suite(name)
    prompts = [question.prompt for question in suite.prompt_specs()]
    assert len(prompts) == len(set(prompts))
    assert set(prompts) <= set(suite.texts())


def test_the_key_of_earlier_versions_is_read_as_the_same_suite():
    held = toy_t2iat_suite().model_dump()
    earlier = suite_from_mapping(held | {"study": "association"}, source="run.json")
    assert earlier == toy_t2iat_suite()
    assert earlier.fingerprint == fingerprint_of(held | {"study": "association"})
