"""The suites of WEAT and its kin: the lists of the paper, sentences, what is refused."""

import pytest

from clinometer.errors import Code, SuiteError
from clinometer.suites import load_suite, suite_from_mapping, suite_names
from clinometer.suites.undrawn import SENTENCES, Stimuli
from tests.raising import raises

SIZES = {
    1: (25, 25, 25, 25), 2: (25, 25, 25, 25), 3: (32, 32, 25, 25), 4: (18, 18, 25, 25), 5: (18, 18, 8, 8),
    6: (8, 8, 8, 8), 7: (8, 8, 8, 8), 8: (8, 8, 8, 8), 9: (6, 6, 7, 7), 10: (8, 8, 8, 8),
}  # fmt: skip


def mapping(**changes):
    sets = {role: {"label": role, "words": [f"{role}{i}" for i in range(3)]} for role in "xyab"}
    return {"study": "weat", "name": "mine", "title": "Mine", "description": "Mine."} | sets | changes


@pytest.mark.parametrize(("number", "sizes"), SIZES.items())
def test_the_ten_tests_have_the_papers_sizes(number, sizes):
    suite = load_suite(f"weat/{number}")
    assert tuple(len(each.words) for each in suite.sets.values()) == sizes
    assert suite.alternative == "greater"
    assert "Caliskan" in suite.source


def test_the_lists_are_the_papers_where_they_are_known_best():
    six, seven = load_suite("weat/6"), load_suite("weat/7")
    assert six.x.words[:3] == ("John", "Paul", "Mike")
    assert six.a.words[-1] == "career"
    assert seven.a.words == ("male", "man", "boy", "brother", "he", "him", "his", "son")
    assert load_suite("weat/4").x.words == load_suite("weat/5").x.words


def test_the_image_tests_name_a_folder_for_each_set():
    names = [name for name in suite_names() if name.startswith("ieat/")]
    assert len(names) == 15
    for name in names:
        suite = load_suite(name)
        assert len({each.folder for each in suite.sets.values()}) == 4
        assert suite.texts() == []


def test_sentences_take_articles_and_capitals():
    thing = Stimuli(label="things", words=("oboe", "drum"), form="thing")
    assert thing.sentences_of("oboe")[0] == "This is an oboe."
    assert thing.sentences_of("drum")[0] == "This is a drum."
    name = Stimuli(label="names", words=("Ann",), form="name")
    assert "Ann is a person." in name.sentences_of("Ann")
    other = Stimuli(label="o", words=("joy",), sentences=("{word} matters.", "It is {a word}."))
    assert other.sentences_of("joy") == ("Joy matters.", "It is a joy.")
    assert all(sentence.count("{") == 1 for form in SENTENCES.values() for sentence in form)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"x": {"label": "x"}}, Code.WRONG_TYPE, "x: "),
        ({"x": {"label": "x", "words": ["y0", "x1"]}}, Code.DUPLICATE, "x and y .*'y0'"),
        ({"x": {"label": "x", "words": ["x", "x"]}}, Code.DUPLICATE, "x: words: .*: x"),
        ({"x": {"label": "y", "words": ["x"]}}, Code.DUPLICATE, "x, y, a, b: label .*: y"),
        (
            {"b": {"label": "b", "words": ["b"], "sentences": ["no hole"]}},
            Code.MALFORMED,
            r"b\.sentences: .*{word}.*'no hole'",
        ),
        ({"alternative": "larger"}, Code.UNKNOWN_NAME, "alternative: "),
    ],
)
def test_what_is_no_test_is_named(changes, code, words):
    with raises(SuiteError, code=code, match=f"^mine: {words}"):
        suite_from_mapping(mapping(**changes), source="mine")


def test_it_draws_nothing_and_shows_its_sets():
    suite = suite_from_mapping(mapping(), source="mine")
    assert suite.image_count == 0
    assert not suite.draws
    assert [row[0] for row in suite.sheets()[0].rows] == ["X", "Y", "A", "B"]
    assert suite.label_of("x") == "x"
