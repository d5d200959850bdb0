"""A folder of pictures read by a reader: kept by parts, compared with the truth, and shares corrected by it."""

import csv

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.errors import Code, ImportManifestError, InvalidInputError, ModelError, RunCorruptError, SuiteError
from clinometer.metrics import confusion_matrix, corrected_shares
from clinometer.models import Card, Reading
from clinometer.suites.question import load_question, question_names
from tests.raising import raises
from tests.toys import Eye, paint


class Gaze:
    """Reads the brightness of the first pixel, and stops, fails or refuses as it is told."""

    def __init__(self, stop_after=None, fails=()):
        self.card = Card(kind="reader", name="gaze", family="toy/gaze")
        self.batch_size, self.stop_after, self.fails, self.asked = 3, stop_after, set(fails), 0

    def possible_answers(self, question):
        return question.groups

    def read(self, images, question):
        readings = []
        for image in images:
            if self.asked == self.stop_after:
                raise ModelError("gaze: it is tired")
            self.asked += 1
            level = sum(image.getpixel((0, 0)))
            if self.asked in self.fails:
                readings.append(Reading(None, reason="failed: it blinked"))
            elif level % 7 == 0:
                readings.append(Reading("unclear", words="dark"))
            else:
                readings.append(Reading(question.groups[level % 2], (1 - level % 2, level % 2, 0, 0, 0)))
        return readings


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures/more").mkdir(parents=True)
    for number in range(20):
        place = "more/" if number % 3 == 0 else ""
        paint(f"picture {number}", number).save(tmp_path / f"pictures/{place}{number:02}.png")
    return tmp_path / "pictures"


@pytest.fixture
def truth(folder, tmp_path):
    """The groups of the first fourteen pictures by name."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))[:14]
    with (tmp_path / "labels.csv").open("w", newline="") as stream:
        labelled = ((name, ("woman", "man")[index % 2]) for index, name in enumerate(names))
        csv.writer(stream).writerows([("file", "group"), *labelled])
    return tmp_path / "labels.csv"


def read(folder, reader=None, **options):
    return cm.read_images(folder, reader=reader or Gaze(), out=folder.parent / "out", **options)


def test_shares_of_the_unknown_are_corrected_by_the_errors_on_the_known(folder, truth):
    found = read(folder, truth=truth)
    known = found.table[found.table.truth.notna()]
    of = {"woman": 0, "man": 1}
    expected = confusion_matrix(known.truth.map(of), known.answer.map(lambda each: of.get(each, 2)), 2)
    np.testing.assert_array_equal(found.confusion.counts, expected.counts)
    others = found.table[found.table.truth.isna()].answer.map(lambda each: of.get(each, 2))
    np.testing.assert_array_equal(found.answers, np.bincount(others, minlength=3))
    np.testing.assert_equal(vars(found.shares), vars(corrected_shares(found.answers, expected.counts)))
    assert found.answers.sum() + found.confusion.counts.sum() == len(found.table) == 20


def test_an_encoder_compares_known_pictures_with_the_others_and_embeds_none_twice(folder, truth):
    eye = Eye()
    found = read(folder, truth=truth, encoder=eye)
    assert eye.seen == len(found.table) == len(found.vectors) == 20
    (row,) = (each for each in found.quoted.transport.tests if each.measure == "vectors")
    assert (row.n_asked, row.n_known) == (6, 14)
    image = cm.read_images(folder, reader=Gaze(), truth=truth, out=folder.parent / "out", encoder=eye)
    assert eye.seen == 20
    np.testing.assert_array_equal(image.vectors, found.vectors)
    plain = read(folder, truth=truth)
    assert plain.vectors is None
    assert "vectors" not in {each.measure for each in plain.quoted.transport.tests}


def test_an_encoder_with_nothing_to_compare_is_refused(folder, truth):
    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="encoder"):
        read(folder, encoder=Eye())

    class Words:
        card = Card(kind="encoder", name="words", family="toy/words")

        def encode_texts(self, texts):
            raise AssertionError

    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="encoder"):
        read(folder, truth=truth, encoder=Words())


def test_without_a_truth_nothing_is_corrected(folder):
    found = read(folder)
    assert found.confusion is None
    assert found.shares is None
    assert found.answers.sum() == 20


@pytest.mark.parametrize("after", [1, 4, 9, 19])
def test_a_reading_that_was_stopped_goes_on_and_ends_the_same(folder, tmp_path, after):
    whole = cm.read_images(folder, reader=Gaze(), out=tmp_path / "whole").table
    with raises(ModelError, code=Code.INVALID, match="tired"):
        read(folder, Gaze(stop_after=after))
    rest = Gaze()
    found = read(folder, rest).table
    assert rest.asked == 20 - after // 3 * 3
    pd.testing.assert_frame_equal(found, whole)


def test_what_is_there_is_not_read_again_even_by_another_name(folder):
    first = read(folder).table
    (folder / "00.png").unlink(missing_ok=True)
    (folder / "more/00.png").rename(folder / "zz.png")
    again = Gaze()
    found = read(folder, again).table
    assert again.asked == 0
    assert set(found.sha256) == set(first.sha256)
    assert found.set_index("sha256").answer.to_dict() == first.set_index("sha256").answer.to_dict()


def test_what_failed_is_asked_again(folder):
    failed = read(folder, Gaze(fails=[2, 5])).table
    assert (failed.reason == "failed: it blinked").sum() == 2
    again = Gaze()
    found = read(folder, again).table
    assert again.asked == 2
    assert found.reason.isna().all()


@pytest.mark.parametrize(
    ("says", "code", "message"),
    [
        (lambda images: [Reading("man")] * (len(images) + 1), Code.WRONG_TYPE, "^reader gaze: .*4 answers to 3 images"),
        (lambda images: None, Code.WRONG_TYPE, "^reader gaze: found NoneType to 3 images"),
        (lambda images: [Reading("a cat")] * len(images), Code.UNKNOWN_NAME, "found the answer 'a cat'"),
        (lambda images: next(iter([])), Code.FAILED, "reader gaze: it stopped with StopIteration"),
    ],
)
def test_what_a_reader_of_a_folder_may_not_do(folder, tmp_path, says, code, message):
    gaze = Gaze()
    gaze.read = lambda images, question: says(images)
    with raises(ModelError, code=code, match=message):
        cm.read_images(folder, reader=gaze, out=tmp_path / "kept")
    assert not list((tmp_path / "kept").rglob("*.parquet"))


def test_another_question_is_another_reading(folder, tmp_path):
    read(folder)
    (tmp_path / "else.yaml").write_text("name: gender\ntext: Who?\nanswers: {woman: {text: she}, man: {text: he}}\n")
    other = Gaze()
    read(folder, other, question=tmp_path / "else.yaml")
    assert other.asked == 20
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_a_picture_that_cannot_be_read_has_a_reason(folder):
    (folder / "broken.png").write_bytes(b"\x89PNG no more")
    table = read(folder).table.set_index("file")
    assert pd.isna(table.answer.loc["broken.png"])
    assert table.reason.loc["broken.png"]
    assert table.reason.notna().sum() == 1


def test_a_damaged_part_is_named_and_the_way_out(folder, tmp_path):
    read(folder)
    part = min((tmp_path / "out").rglob("part-*.parquet"))
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    with raises(
        RunCorruptError, code=Code.CORRUPT, match=r"part-00000\.parquet: .*emove it, and its pictures are read again"
    ):
        read(folder)
    part.unlink()
    again = Gaze()
    assert len(read(folder, again).table) == 20
    assert again.asked == 3


def test_parts_hold_the_card_and_the_question(folder, tmp_path):
    read(folder)
    for part in (tmp_path / "out").rglob("part-*.parquet"):
        assert b'"toy/gaze"' in pq.read_schema(part).metadata[b"card"]
        assert b"How does the person" in pq.read_schema(part).metadata[b"question"]


def test_answers_that_cost_too_much_are_not_asked_for(folder):
    reader = Gaze()
    reader.price_per_image = 0.25
    with raises(
        InvalidInputError,
        code=Code.OVER_BUDGET,
        field="budget",
        match=r"budget: 20 answers at 0\.25 each cost 5\.00, .* more than 4\.00",
    ):
        read(folder, reader, budget=4)
    assert reader.asked == 0
    read(folder, reader, budget=5)
    read(folder, reader, budget=0)  # nothing is missing


@pytest.mark.parametrize(
    ("text", "error", "code", "words"),
    [
        ("", ImportManifestError, Code.MISSING, "line 1: .*file"),
        ("name,group\n01.png,man\n", ImportManifestError, Code.MISSING, "line 1: .*name, group; expected file"),
        ("file,group\nnot-there.png,man\n", ImportManifestError, Code.NOT_FOUND, r"line 2, file: .*'not-there\.png'"),
        ("file,group\n01.png,man\n01.png,man\n", ImportManifestError, Code.DUPLICATE, r"line 3, file: '01\.png'.* 2 "),
        ("file,group\n01.png,dog\n", InvalidInputError, Code.UNKNOWN_NAME, "line 2, group: .*'dog', .*woman, man"),
        ("file,concept,group\n01.png,cook,\n", InvalidInputError, Code.UNKNOWN_NAME, "line 2, group: .*woman, man"),
    ],
)  # fmt: skip
def test_a_truth_that_does_not_fit_is_refused(folder, tmp_path, text, error, code, words):
    (tmp_path / "truth.csv").write_text(text)
    reader = Gaze()
    with raises(error, code=code, match=words) as raised:
        read(folder, reader, truth=tmp_path / "truth.csv")
    assert "\n" not in str(raised.value)
    assert reader.asked == 0


def test_a_truth_that_is_no_text_is_refused(folder, tmp_path):
    for content, found in ((b"\xff\x00", "byte 0 is not UTF-8"), (b"\xff\xfe\x00", "byte 2 is not UTF-16-LE")):
        (tmp_path / "truth.csv").write_bytes(content)
        with raises(ImportManifestError, code=Code.NOT_TEXT, match=rf"truth\.csv: {found}"):
            read(folder, truth=tmp_path / "truth.csv")


def test_built_in_questions_are_read_and_others_are_named(tmp_path):
    assert question_names() == ["age", "gender", "monk"]
    assert {name for each in question_names() for name in load_question(each).answers} > {"man", "woman", "old"}
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match=r"'gendre': .*did you mean gender\?"):
        load_question("gendre")
    (tmp_path / "q.yaml").write_text("name: x\ntext: y\nanswers: {a: {text: one}}\nmore: 1\n")
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match=r"q\.yaml: more: "):
        load_question(tmp_path / "q.yaml")
    (tmp_path / "q.yaml").write_text("name: x\ntext: y\nanswers: {a: {text: one}}\n")
    with raises(SuiteError, code=Code.TOO_FEW, match=r"q\.yaml: answers: "):
        load_question(tmp_path / "q.yaml")


# --- open questions ---------------------------------------------------------------------------------------------------


class Talker:
    """Names what a picture's file was painted as, in changing words; it stops, fails or knows nothing as it is told."""

    batch_size = 4

    def __init__(self, words, failing=()):
        self.card, self.words, self.failing = (
            Card(kind="reader", name="talker", family="toy/talker"),
            words,
            set(failing),
        )
        self.asked = 0

    def possible_answers(self, question):
        assert question.is_open
        return ()

    def read(self, images, question):
        readings = []
        for image in images:
            self.asked += 1
            word = self.words[sum(image.getpixel((0, 0))) % len(self.words)]
            readings.append(
                Reading(None, reason="failed: tired") if self.asked in self.failing else Reading(word, words=word)
            )
        return readings


class Thesaurus:
    """Embeds words so that hats are near caps."""

    card = Card(kind="encoder", name="thesaurus", family="toy/thesaurus")

    def encode_images(self, images):
        return np.eye(3)[[0] * len(images)]

    def encode_texts(self, texts):
        places = {"hat": [1, 0, 0], "cap": [0.97, 0.2, 0], "scarf": [0, 1, 0], "bare": [0, 0, 1]}
        return np.array([places[text] for text in texts], np.float32)


@pytest.fixture
def concepts(tmp_path):
    for number in range(36):
        concept = ("cook", "guard", "nurse")[number % 3]
        (tmp_path / "drawn" / concept).mkdir(parents=True, exist_ok=True)
        paint(f"{concept} {number}", number).save(tmp_path / f"drawn/{concept}/{number:02}.png")
    return tmp_path / "drawn"


@pytest.fixture
def hat(tmp_path):
    (tmp_path / "hat.yaml").write_text(
        "name: hat\nkind: open\ntext: What is on the head?\ncounterfactuals: {cook: [guard, nurse]}\n"
    )
    return tmp_path / "hat.yaml"


def test_open_answers_are_held_against_the_folders_they_lie_in(concepts, hat, tmp_path):
    talker = Talker(["A hat.", "the CAP", "scarf", "Unknown"])
    found = cm.read_images(concepts, reader=talker, question=hat, out=tmp_path / "out", encoder=Thesaurus())
    told, table = found.opened, found.table
    assert set(told.clusters.values()) <= {"hat", "cap", "scarf"}
    assert told.clusters["hat"] == told.clusters["cap"]
    assert told.found.counts.sum() + sum(told.unread) == 36
    for row, concept in enumerate(told.found.concepts):
        own = table[table.concept == concept]
        for column, answer in enumerate(told.found.answers):
            assert told.found.counts[row, column] == (own.cluster == answer).sum()
    assert "thesaurus" in told.clustered_by
    assert list(told.associations) == [("cook", "guard"), ("cook", "nurse")]
    assert all(each.p <= each.q <= 1 for each in told.associations.values())
    plain = cm.read_images(concepts, reader=talker, question=hat, out=tmp_path / "out").opened
    assert plain.clusters == {name: name for name in ("cap", "hat", "scarf")}
    assert talker.asked == 36


def test_concepts_come_from_a_manifest_and_what_failed_is_asked_again(folder, hat, tmp_path):
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    (tmp_path / "drawn.csv").write_text(
        "file,concept\n" + "".join(f"{name},{('cook', 'guard', 'nurse')[k % 3]}\n" for k, name in enumerate(names))
    )
    talker = Talker(["hat", "bare"], failing={2, 3})
    first = cm.read_images(folder, reader=talker, question=hat, truth=tmp_path / "drawn.csv", out=tmp_path / "out")
    assert sum(first.opened.unread) == 2
    second = cm.read_images(folder, reader=talker, question=hat, truth=tmp_path / "drawn.csv", out=tmp_path / "out")
    assert (sum(second.opened.unread), talker.asked) == (0, 22)
    assert second.opened.found.counts.sum() == 20


@pytest.mark.parametrize(
    ("written", "error", "code", "words"),
    [
        ("name: x\nkind: open\ntext: X\nanswers: {a: {text: a}, b: {text: b}}", SuiteError, Code.CONFLICT, "answers: "),
        ("name: x\ntext: X", SuiteError, Code.TOO_FEW, "answers: .*2; .*kind: open"),
        ("name: x\ntext: X\ncounterfactuals: {a: [b]}\nanswers: {a: {text: a}, b: {text: b}}", SuiteError,
         Code.CONFLICT, "counterfactuals: "),
        ("readings:\n- {name: x, kind: open, text: X}\n- {name: y, kind: open, text: Y}", SuiteError,
         Code.TOO_MANY, "found 2 "),
        ("name: x\nkind: open\ntext: X\ncounterfactuals: {cook: [astronaut]}", InvalidInputError,
         Code.UNKNOWN_NAME, "counterfactuals: .*'astronaut'"),
    ],
)  # fmt: skip
def test_an_open_question_that_does_not_fit_is_refused(concepts, tmp_path, written, error, code, words):
    (tmp_path / "q.yaml").write_text(written)
    talker = Talker(["hat"])
    with raises(error, code=code, match=words) as raised:
        cm.read_images(concepts, reader=talker, question=tmp_path / "q.yaml", out=tmp_path / "out")
    assert str(raised.value).count("\n") <= 1
    assert talker.asked == 0


def test_one_question_of_several_is_named_behind_a_hash(tmp_path):
    (tmp_path / "q.yaml").write_text("readings:\n- {name: x, kind: open, text: X}\n- {name: y, kind: open, text: Y}")
    assert load_question(f"{tmp_path}/q.yaml#y").text == "Y"
    with raises(SuiteError, code=Code.TOO_MANY, match="expected one by its name"):
        load_question(f"{tmp_path}/q.yaml#z")


def test_answers_need_words_to_be_clustered(concepts, hat, tmp_path):
    class Blind(Thesaurus):
        encode_texts = property()

    with raises(ModelError, code=Code.UNSUPPORTED):
        cm.read_images(concepts, reader=Talker(["hat"]), question=hat, out=tmp_path / "out", encoder=Blind())
