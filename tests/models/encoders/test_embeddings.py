"""Files of embeddings behind the encoder's protocol: every format, what is missing, what is no such file."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clinometer.errors import Code, ModelError, ModelNotFoundError
from clinometer.models import load_encoder
from clinometer.models.encoders.embeddings import load
from tests.raising import raises

WORDS = ["he", "she", "New York", "éclair", "nurse"]
VECTORS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


def line(word, vector):
    return " ".join([word, *(repr(float(x)) for x in vector)])


def word2vec(path):
    rows = [line(*pair) for pair in zip(WORDS, VECTORS, strict=True)]
    path.write_text("\n".join(["5 4", *rows, ""]), encoding="utf-8")


def glove(path):
    path.write_text("\n".join(line(*pair) for pair in zip(WORDS, VECTORS, strict=True)) + "\n", encoding="utf-8")


def csv_with_header(path):
    rows = [",".join([w, *map(str, v.tolist())]) for w, v in zip(WORDS, VECTORS, strict=True)]
    path.write_text("\n".join(["word,0,1,2,3", *rows]), encoding="utf-8")


def csv_without_header(path):
    rows = ["\t".join([w, *map(str, v.tolist())]) for w, v in zip(WORDS, VECTORS, strict=True)]
    path.write_text("\n".join(rows), encoding="utf-8")


def parquet_of_lists(path):
    kind = pa.list_(pa.float32(), 4)
    pq.write_table(pa.table({"id": WORDS, "vector": pa.array(VECTORS.tolist(), kind)}), path)


def parquet_of_columns(path):
    pq.write_table(pa.table({"token": WORDS} | {str(i): VECTORS[:, i] for i in range(4)}), path)


def npy(path):
    np.save(path, VECTORS)
    path.with_suffix(".txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")


def npz(path):
    np.savez(path, labels=np.array(WORDS), vectors=VECTORS)


FILES = [
    ("a.txt", word2vec),
    ("b.vec", glove),
    ("c.csv", csv_with_header),
    ("d.tsv", csv_without_header),
    ("e.parquet", parquet_of_lists),
    ("f.parquet", parquet_of_columns),
    ("g.npy", npy),
    ("h.npz", npz),
]


@pytest.mark.parametrize(("name", "write"), FILES, ids=lambda each: getattr(each, "__name__", each))
def test_a_text_is_looked_up_in_every_format(tmp_path, name, write):
    write(tmp_path / name)
    encoder = load_encoder(str(tmp_path / name))
    assert np.allclose(encoder.encode_texts(WORDS[::-1]), VECTORS[::-1], atol=1e-6)
    assert encoder.encode_texts(WORDS[:2]).dtype == np.float32
    assert encoder.missing([*WORDS, "them", "them"]) == ["them"]
    assert encoder.card.name == name
    assert str(tmp_path) not in json.dumps(encoder.card.settings)


def test_spelling_counts_first_and_lower_case_second(tmp_path):
    (tmp_path / "v.txt").write_text("Rose 1 0\nrose 0 1\nmark 1 1\n")
    encoder = load(str(tmp_path / "v.txt"))
    assert encoder.encode_texts(["Rose", "rose", "ROSE", "Mark"]).tolist() == [[1, 0], [0, 1], [0, 1], [1, 1]]


def test_what_is_missing_is_named(tmp_path):
    glove(tmp_path / "v.txt")
    encoder = load(str(tmp_path / "v.txt"))
    with raises(ModelError, code=Code.UNKNOWN_NAME, match=r"v.txt: no vector for 'them' and 1 more"):
        encoder.encode_texts(["he", "them", "us"])
    assert not hasattr(encoder, "encode_images")
    assert encoder.encode_texts([]).shape[0] == 0


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("v.txt", "he 1 0\nshe 1 x\n", Code.WRONG_TYPE, r"v\.txt, line 2: .*'x'"),
        ("v.txt", "he 1 0\nshe 1 nan\n", Code.WRONG_SHAPE, "'she': .*2, not all finite"),
        ("v.csv", "he,1,0\nshe,1\n", Code.WRONG_SHAPE, r"v\.csv, 'she': .*2 .*1"),
        ("v.txt", "nothing\n", Code.MALFORMED, r"v\.txt, line 1"),
        ("v.txt", "he 1 0\nhers 2 1\nshe 1\n", Code.WRONG_SHAPE, "line 3, 'she': .*1 .*2"),
        ("v.txt", "2 9\nhe 1 0\nshe 1 2\n", Code.WRONG_SHAPE, r"v\.txt, line 2: .*2 .*9"),
        ("v.vec", "2 2\nhe \x7f\x01\x05\nshe \x01\n", Code.WRONG_SHAPE, r"v\.vec, line 2: .*0 .*2"),
        ("v.parquet", "no parquet", Code.UNREADABLE, r"v\.parquet"),
        ("v.npz", "no array", Code.UNTRUSTED, r"v\.npz"),
        ("v.npy", "no array", Code.NOT_FOUND, r"v\.txt"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, code, message):
    (tmp_path / name).write_text(content)
    with raises(ModelError, code=code, match=message):
        load(str(tmp_path / name)).encode_texts(["he", "she"])


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "v.npy", np.array([{"he": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "v.txt").write_text("he\n")
    with raises(ModelError, code=Code.UNTRUSTED, match=r"v\.npy"):
        load(str(tmp_path / "v.npy")).encode_texts(["he"])
    (tmp_path / "v.kv").write_bytes(b"\x80\x04.")
    with raises(ModelError, code=Code.UNTRUSTED, match=r"v\.kv"):
        load(str(tmp_path / "v.kv"))


def test_labels_may_lie_elsewhere_and_must_match(tmp_path):
    np.save(tmp_path / "v.npy", VECTORS)
    (tmp_path / "labels").write_text("\n".join(WORDS))
    encoder = load(str(tmp_path / "v.npy"), labels=str(tmp_path / "labels"))
    assert np.array_equal(encoder.encode_texts(["nurse"]), VECTORS[4:])
    fingerprint = encoder.card.fingerprint
    (tmp_path / "labels").write_text("\n".join(WORDS[::-1]))
    assert load(str(tmp_path / "v.npy"), labels=str(tmp_path / "labels")).card.fingerprint != fingerprint
    (tmp_path / "labels").write_text("he\nshe")
    with raises(ModelError, code=Code.WRONG_SHAPE, match=r"v\.npy: 2 .*\(5, 4\)"):
        load(str(tmp_path / "v.npy"), labels=str(tmp_path / "labels")).missing(["he"])
    glove(tmp_path / "w.txt")
    with raises(ModelError, code=Code.CONFLICT):
        load(str(tmp_path / "w.txt"), labels="labels")


def test_a_file_that_is_not_there(tmp_path):
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, match=r"nowhere\.txt"):
        load(str(tmp_path / "nowhere.txt"))


def test_a_byte_order_mark_and_a_line_break_within_a_word_lose_no_word(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"\xef\xbb\xbfhe 1 0\nshe 0 1\n")
    assert load(str(tmp_path / "v.txt")).missing(["he", "she"]) == []
    np.save(tmp_path / "v.npy", np.eye(3))
    (tmp_path / "v.txt").write_bytes(b"\xef\xbb\xbfhe\na\xc2\x85b\nshe\n")
    assert load(str(tmp_path / "v.npy")).encode_texts(["he", "she"]).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_damaged_file_is_named_in_one_line(tmp_path):
    (tmp_path / "v.csv").write_text("he,1,0\nshe,0," + "1" * 200_000 + "\n")
    np.savez(tmp_path / "whole.npz", labels=np.array(["he"]), vectors=np.eye(1))
    (tmp_path / "v.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:60])
    np.savez(tmp_path / "w.npz", labels=np.array(["he"]), vectors=np.array([["a", "b"]]))
    vectors = pa.array([None, [1.0, 2.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"label": ["he", "she"], "vector": vectors}), tmp_path / "v.parquet")
    for name, code, words in (
        ("v.csv", Code.UNREADABLE, "Error: "),
        ("v.npz", Code.UNREADABLE, "BadZipFile"),
        ("w.npz", Code.WRONG_TYPE, "'he': .*<U1"),
        ("v.parquet", Code.WRONG_TYPE, "'he': .*float64"),
    ):
        with raises(ModelError, code=code, match=f"^{name}.*{words}"):
            load(str(tmp_path / name)).encode_texts(["he"])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("tabs.txt", ["chief executive officer\t0.1\t0.2", "nurse\t0.3\t0.4"]),
        ("a tab.txt", ["chief executive officer\t0.1 0.2", "nurse\t0.3 0.4"]),
        ("blanks.txt", ["chief executive officer  0.1  0.2", "nurse   0.3 0.4 "]),
        ("quotes.txt", ['"chief executive officer" 0.1 0.2', '"nurse" 0.3 0.4']),
        ("plain.vec", ["chief executive officer 0.1 0.2", "nurse 0.3 0.4"]),
        ("semicolons.csv", ["chief executive officer;0,1;0,2", "nurse;0,3;0,4"]),
        ("semicolons.tsv", ["label;x;y", "chief executive officer;0.1;0.2", "nurse;0.3;0.4"]),
        ("colons.txt", ["chief executive officer:0.1:0.2", "nurse:0.3:0.4"]),
        ("a colon.txt", ["chief executive officer: 0.1 0.2", "nurse: 0.3 0.4"]),
        ("commas.txt", ["chief executive officer,0.1,0.2", "nurse,0.3,0.4"]),
        ("decimals.txt", ["chief executive officer 0,1 0,2", "nurse 0,3 0,4"]),
        ("brackets.txt", ["chief executive officer [0.1, 0.2]", "nurse [0.3, 0.4]"]),
        ("single.vec", ["2 2", "'chief executive officer' 0.1 0.2", "'nurse' 0.3 0.4"]),
        ("phrases.vec", ["2 2", "chief_executive_officer 0.1 0.2", "nurse 0.3 0.4"]),
        ("pipes.csv", ["chief executive officer|0.1|0.2", "nurse|0.3|0.4"]),
        ("ids.csv", ["id,word,x,y", "0,chief executive officer,0.1,0.2", "1,nurse,0.3,0.4"]),
        ("lists.csv", ["word,vector", 'chief executive officer,"[0.1, 0.2]"', 'nurse,"[0.3, 0.4]"']),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_labels_with_spaces_are_found_whatever_stands_between_the_numbers(tmp_path, name, lines, end):
    (tmp_path / name).write_bytes(("\ufeff" + end.join(lines) + end).encode())
    found = load_encoder(str(tmp_path / name)).encode_texts(["chief executive officer", "nurse"])
    assert found == pytest.approx(np.array([[0.1, 0.2], [0.3, 0.4]]))


def test_accents_apart_from_their_letters_are_the_same_word(tmp_path):
    for written, asked in (("infirmie\u0300re", "infirmi\u00e8re"), ("infirmi\u00e8re", "infirmie\u0300re")):
        (tmp_path / "words.txt").write_text(f"{written} 0.1 0.2\nnurse 0.3 0.4\n", encoding="utf-8")
        assert load_encoder(str(tmp_path / "words.txt")).missing([asked]) == []


def test_numbers_that_are_numbered_are_no_vector(tmp_path):
    (tmp_path / "v.txt").write_text("he 1:0.1 2:0.2\nshe 1:0.3 2:0.4\n")
    with raises(ModelError, code=Code.MALFORMED):
        load(str(tmp_path / "v.txt")).encode_texts(["he"])


@pytest.mark.parametrize("name", ["v.vec", "v.vec.gz", "v.csv"])
def test_a_text_is_known_by_its_first_bytes(tmp_path, name):
    text = "he,1,0\nshe,0,1\n" if name == "v.csv" else "he 1 0\nshe 0 1\n"
    for content in (text.encode(), gzip.compress(text.encode()), text.encode("utf-16")):
        (tmp_path / name).write_bytes(content)
        assert load(str(tmp_path / name)).encode_texts(["she", "he"]).tolist() == [[0, 1], [1, 0]]
