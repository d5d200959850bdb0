"""WEAT, SEAT and iEAT on words, sentences, pictures and files: one path for all of them."""

from math import comb

import numpy as np
import pytest
import yaml
from PIL import Image

import clinometer as cm
from clinometer.errors import Code, InvalidInputError, ModelError, SuiteError
from clinometer.metrics import weat
from clinometer.models.protocols import Card
from clinometer.suites import suite_from_mapping
from tests import quick
from tests.raising import raises
from tests.toys import toy_suite

SETS = {role: [f"{role}{i}" for i in range(5)] for role in "xyab"}
RNG = np.random.default_rng(0)
VECTORS = {word: RNG.normal(size=6) + (role in "xa") for role, words in SETS.items() for word in words}


class Reader:
    """Embeds a text by the known word in it, turned a little by the rest of it."""

    def __init__(self, unknown=()):
        self.card = Card(kind="encoder", name="reader", family="toy")
        self.unknown = set(unknown)

    def missing(self, texts):
        return [text for text in texts if text in self.unknown]

    def encode_texts(self, texts):
        return np.array([self._vector(text) for text in texts], np.float32)

    def _vector(self, text):
        word = next(word for word in VECTORS if word.lower() in text.lower())
        return VECTORS[word] + 0.01 * (len(text) - len(word))


class Viewer(Reader):
    """Sees a picture's mean colour as well."""

    def encode_images(self, images):
        means = np.array([np.asarray(image, float).mean(axis=(0, 1)) / 255 for image in images])
        return np.concatenate([means, np.ones_like(means)], axis=1).astype(np.float32)


def suite(name="mine", **changes):
    sets = {role: {"label": f"set {role}", "words": words, "folder": role} for role, words in SETS.items()}
    base = {"study": "weat", "name": name, "title": "Mine", "description": "Mine."}
    return suite_from_mapping(base | sets | changes, source=name)


def run(*tests, encoder=None, **options):
    return cm.association_test(list(tests) or suite(), encoder=encoder or Reader(), **({"resamples": 199} | options))


def by_hand(**options):
    return weat(*(np.array([VECTORS[word] for word in SETS[role]], np.float32) for role in "xyab"), **options)


@pytest.mark.parametrize("options", [{}, {"ddof": 0}, {"spread": "pooled"}, {"alternative": "two-sided"}])
def test_words_are_weat_of_their_vectors(options):
    row, expected = run(**options).iloc[0], by_hand(**options)
    assert row.statistic == pytest.approx(expected.statistic)
    assert row.effect_size == pytest.approx(expected.effect_size)
    assert row.p == pytest.approx(expected.p_value)
    assert (row.n_x, row.n_b, row.exact, row.unit, row.reason) == (5, 5, True, "word", "")
    assert row.effect_size_low < row.effect_size < row.effect_size_high


def test_a_file_of_vectors_gives_what_an_encoder_gives(tmp_path):
    lines = [" ".join([word, *map(repr, map(float, np.float32(vector)))]) for word, vector in VECTORS.items()]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    ours, theirs = run(encoder=str(tmp_path / "vectors.txt")).iloc[0], run().iloc[0]
    assert (ours.statistic, ours.effect_size_low, ours.p) == pytest.approx(
        (theirs.statistic, theirs.effect_size_low, theirs.p)
    )
    assert ours.encoder == "vectors.txt"


def test_sentences_of_a_word_count_once_by_default_and_each_on_demand():
    by_word, by_sentence = run(sentences=True).iloc[0], run(sentences=True, unit="sentence").iloc[0]
    assert (by_word.test, by_word.unit, by_word.n_x) == ("mine in sentences", "word", 5)
    assert (by_sentence.unit, by_sentence.n_x, by_sentence.n_splits) == ("sentence", 25, comb(50, 25))
    assert by_sentence.p < by_word.p
    assert by_sentence.statistic == pytest.approx(by_word.statistic)


def paint(folder, red, count=4):
    folder.mkdir(parents=True)
    for i in range(count):
        pixels = np.clip(RNG.normal((255 * red, 255 * (1 - red), 60), 30, (6, 6, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")


def test_pictures_stand_for_the_sets_that_have_a_folder(tmp_path):
    for role, red in zip("xyab", (0.8, 0.2, 0.9, 0.1), strict=True):
        paint(tmp_path / role, red)
    row = run(encoder=Viewer(), images=tmp_path).iloc[0]
    assert (row.unit, row.n_x, row.n_y, row.n_a, row.n_b) == ("image", 4, 4, 4, 4)
    assert row.effect_size > 1.5
    assert row.p == pytest.approx(1 / 70)


def test_pictures_and_words_meet_in_one_space_and_a_broken_picture_is_named(tmp_path):
    paint(tmp_path / "x", 0.8, count=9)
    paint(tmp_path / "y", 0.2)
    (tmp_path / "x" / "broken.png").write_bytes(b"no picture")
    row = run(encoder=Viewer(), images=tmp_path).iloc[0]
    assert (row.unit, row.n_x, row.n_a, row.missing, row.reason) == ("image and word", 9, 5, "broken.png", "")
    assert np.isfinite(row.p)
    strict = run(encoder=Viewer(), images=tmp_path, max_missing=0.05).iloc[0]
    assert strict.reason == "set x: 1 of 10 are missing (broken.png); at most 5% may be"
    assert np.isnan(strict.p)


def test_missing_words_are_named_and_too_many_undo_the_test():
    few = run(encoder=Reader({"x1"})).iloc[0]
    assert (few.n_x, few.missing, few.reason) == (4, "x1", "")
    many = run(encoder=Reader({"x1", "x2", "b0"})).iloc[0]
    assert many.reason == "set x: 2 of 5 are missing (x1, x2); at most 20% may be"
    assert np.isnan([many.statistic, many.effect_size, many.p, many.q]).all()
    assert run(encoder=Reader({"x1", "x2"}), max_missing=0.5).iloc[0].n_x == 3


def test_one_test_undone_leaves_the_others_and_their_family():
    other = suite("other", x={"label": "none", "folder": "nowhere"})
    table = run(suite(), other, suite("third"))
    assert list(table.test) == ["mine", "other", "third"]
    assert table.reason[1] == "none: no words and no pictures; give pictures with --images, in a folder nowhere"
    assert table.q[0] == pytest.approx(table.p[0])  # of two equal p-values; the undone one is no test
    assert table.p_holm[0] == pytest.approx(min(1, 2 * table.p[0]))
    assert np.isnan(table.p_holm[1])
    assert set(table.family) == {"3 tests on reader"}


def test_vectors_that_no_cosine_takes_are_a_reason():
    class Broken(Reader):
        def _vector(self, text):
            return np.full(6, np.nan) if text == "a2" else super()._vector(text)

    assert "a[2]: row 0 holds NaN" in run(encoder=Broken()).iloc[0].reason


def test_what_an_encoders_own_code_raises_is_one_line_with_its_name(tmp_path):
    class Stopping(Viewer):
        def _vector(self, text):
            raise RuntimeError("out of words")

        def encode_images(self, images):
            raise RuntimeError("out of sight")

    class Short(Viewer):
        def encode_texts(self, texts):
            return super().encode_texts(texts)[:-1]

        def encode_images(self, images):
            return super().encode_images(images)[0]

    (tmp_path / "x").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "x" / "a.png")
    with raises(ModelError, code=Code.FAILED, match="^encoder reader: .*RuntimeError: out of words$"):
        run(encoder=Stopping())
    with raises(ModelError, code=Code.FAILED, match="^encoder reader: .*RuntimeError: out of sight$"):
        run(encoder=Stopping(), images=tmp_path)
    for options in ({}, {"images": tmp_path}):
        with raises(ModelError, code=Code.WRONG_SHAPE, match="^encoder reader: found ndarray "):
            run(encoder=Short(), **options)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None])
def test_a_seed_that_is_none_is_named(seed):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="seed", match=f"found {seed!r}"):
        run(seed=seed)


def test_the_same_call_gives_the_same_table():
    first, again, other = run(sentences=True), run(sentences=True), run(sentences=True, seed=1)
    assert first.equals(again)
    assert first.effect_size[0] == other.effect_size[0]
    assert first.effect_size_low[0] != other.effect_size_low[0]


def test_a_folder_of_tests_and_its_sentences_are_found_by_name():
    class Anything(Reader):
        def _vector(self, text):
            return np.random.default_rng(list(text.encode())).normal(size=6)

    names = [f"weat/{i}" for i in range(1, 11)]
    assert list(cm.association_test(encoder=Anything(), resamples=9, permutations=9).test) == names
    seat = cm.association_test("seat/6", encoder=Anything(), resamples=9)
    assert list(seat.test) == ["weat/6 in sentences"]


def test_what_cannot_be_tested_is_refused(tmp_path):
    with raises(SuiteError, code=Code.UNSUPPORTED, match="give: clinometer audit --suite toy"):
        run(toy_suite())
    with raises(SuiteError, code=Code.UNSUPPORTED, match="weat/6: .*give: clinometer test weat/6"):
        quick.audit("reference", "weat/6", tmp_path / "run")
    file = tmp_path / "mine.yaml"  # a suite of one's own is known by its file, not by its name
    file.write_text(yaml.safe_dump(toy_suite().model_dump(mode="json", exclude_none=True)))
    with raises(SuiteError, code=Code.UNSUPPORTED, match=rf"give: clinometer audit --suite {file}"):
        run(file)
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match="waet/6.*did you mean"):
        run("waet/6")
    with raises(ModelError, code=Code.UNSUPPORTED, match="texts only"):
        run(images=tmp_path)
    with raises(ModelError, code=Code.NOT_FOUND, match="one of a, b, x, y"):
        run(encoder=Viewer(), images=tmp_path)
    with raises(ModelError, code=Code.NOT_FOUND, match="no such folder"):
        run(encoder=Viewer(), images=tmp_path / "nowhere")
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="seed"):
        run(seed=-1)
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="max_missing"):
        run(max_missing=1.0)
    for name, number in (("permutations", 0), ("resamples", 0), ("ddof", -1)):
        with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field=name, match=f"found {number}"):
            run(**{name: number})
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="unit"):
        run(unit="letter")
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="alternative"):
        run(alternative="larger")
