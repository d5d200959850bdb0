"""Embeddings that are there already, as an encoder: a text is looked up instead of computed.

=================================== ==============================================================================
``.txt``, ``.vec``                  word2vec's text format, with or without its first line (GloVe has none): a word
                                    and its numbers a line, whatever stands between them. Read as a stream, so a
                                    large file needs little memory.
``.csv``, ``.tsv``                  a label and its numbers a row; a header is known by its words, and row numbers
                                    before the labels by the name that they lack
these, and ``.gz``                  the same, compressed
``.parquet``                        a column of labels, and a column of lists or a column a number
``.npy``                            (n × dim), with its labels in a file of a label a line
``.npz``                            arrays ``labels`` and ``vectors``
=================================== ==============================================================================

Nothing is unpickled.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Final, TextIO, cast

import numpy as np

from clinometer._messages import first_and_more
from clinometer.errors import ModelError, ModelNotFoundError
from clinometer.models.protocols import Card
from clinometer.models.weights import describe, hash_files, user_path

Rows = Iterator[tuple[str, np.ndarray]]

LABEL_COLUMNS = ("label", "word", "text", "token", "id")
VECTOR_COLUMNS = ("vector", "embedding", "embeddings")


class EmbeddingsFile:
    """Looks texts up in a file of embeddings.

    A text is found in its own spelling first, then in lower case, then with underscores between its words: many
    published vectors know only one of these.
    """

    def __init__(self, path: Path, labels: Path | None = None) -> None:
        self._path = path
        self._labels = labels
        self._vectors: dict[str, np.ndarray] = {}
        self._queries: set[str] = set()
        settings = {"lookup": "as spelled, else in lower case, else with underscores"}
        if labels is not None and labels.is_file():  # they name each vector; missing labels are reported when read
            settings["labels_sha256"] = hash_files([labels], labels.parent)
        self.card = Card(
            kind="encoder",
            name=path.name,
            family=f"embeddings/{path.suffix.lstrip('.')}",
            weights_sha256=hash_files([path], path.parent),
            settings=settings,
        )

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Read vectors of texts that were not sought before, and list those that have none, in their order, once."""
        texts = list(dict.fromkeys(texts))
        sought = {spelling for text in texts for spelling in _spellings(text)} - self._queries
        width: int | None = next((len(vector) for vector in self._vectors.values()), None)
        for label, vector in self._read(sought) if sought else ():
            if vector.ndim != 1 or vector.dtype.kind not in "fiu":
                raise ModelError.wrong_type(
                    f"{self.card.name}, {label!r}: found {vector.dtype} of shape {vector.shape}, expected numbers"
                )
            width = width or len(vector)
            if len(vector) != width or not np.isfinite(vector).all():
                raise ModelError.wrong_shape(
                    f"{self.card.name}, {label!r}: expected {width} finite numbers, found {len(vector)}"
                    f"{'' if np.isfinite(vector).all() else ', not all finite'}"
                )
            self._vectors.setdefault(label, vector.astype(np.float32))
        self._queries |= sought
        return [text for text in texts if self._spelling(text) is None]

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Look texts up: (n, d) float32.

        Raises
        ------
        ModelError
            The file has no vector for one of them.
        """
        missing = self.missing(texts)
        if missing:
            quotes = first_and_more(list(map(repr, missing)))
            raise ModelError.unknown_name(
                f"{self.card.name}: no vector for {quotes}; leave the text out or add its vector"
            )
        if not len(texts):
            return np.empty((0, 0), np.float32)
        return np.stack([self._vectors[str(self._spelling(text))] for text in texts])

    def _spelling(self, text: str) -> str | None:
        return next((spelling for spelling in _spellings(text) if spelling in self._vectors), None)

    def _read(self, spellings: Collection[str]) -> Rows:
        try:
            yield from READERS[kind_of(self._path)](self._path, self._labels, spellings)
        except ModelError:
            raise
        except Exception as error:  # not UTF-8, an archive cut short, a value that is no number: many kinds
            raise ModelError.unreadable(f"{self.card.name}: it cannot be read: {describe(error)}") from error


def _spellings(text: str) -> Iterator[str]:
    """Yield how a file may spell a text: as it is, in lower case, with accents apart from their letters, or not.

    And with underscores between its words, as word2vec writes phrases.
    """
    for spaced in (text, text.replace(" ", "_")):
        for spelling in (spaced, spaced.lower()):
            yield spelling
            yield from (unicodedata.normalize(form, spelling) for form in ("NFC", "NFD"))


def load(source: str, *, labels: str | None = None) -> EmbeddingsFile:
    """Open a file of embeddings.

    Parameters
    ----------
    source : the file.
    labels : for ``.npy``, the text file with a label a line; by default the one next to it with the suffix ``.txt``.

    Raises
    ------
    ModelNotFoundError, ModelError
        There is no such file, or it is of no known kind.
    """
    path = user_path(source)
    if not path.is_file():
        raise ModelNotFoundError(f"no file of embeddings at {source!r}")
    if kind_of(path) not in READERS:
        raise ModelError.untrusted(
            f"{path.name}: embeddings are read from {', '.join(READERS)}; save them as one of these "
            "(a pickle, as of gensim, can run code when loaded: use save_word2vec_format there)"
        )
    if labels is not None and path.suffix.lower() != ".npy":
        raise ModelError.conflict(f"{path.name}: labels belong to .npy only; this file has its own")
    beside = path.with_suffix(".txt") if path.suffix.lower() == ".npy" else None
    return EmbeddingsFile(path, beside if labels is None else user_path(labels))


def _read_text(path: Path, _labels: Path | None, spellings: Collection[str]) -> Rows:
    """Stream a word2vec text file. A word may hold spaces: the numbers are the last of its line.

    Between them stand spaces or tabs, any number of them, or what the first lines show; a word may be in quotes, and a
    colon may follow it.
    """
    with _opened(path) as stream:
        head = stream.readline(LONGEST_LINE)
        early, first = list(islice(_lines(stream), EARLY)), _BLANKS.split(head.strip(" \t\r\n"))
        counted = len(first) == 2 and all(part.isdigit() for part in first)
        shown = early if counted else [head, *early]
        parts_of = _cut_by(shown)
        # Without a first line that says it, the width is the commonest count of numbers at a line's end, the least of
        # several: a word may end with a number.
        ends = Counter(filter(None, map(_trailing, map(parts_of, shown))))
        width = int(first[1]) if counted else min((n for n in ends if ends[n] == max(ends.values())), default=0)
        if width < 1:
            raise ModelError.malformed(f"{path.name}, line 1: expected a word and its numbers, or the counts of both")
        if counted and shown and max(ends, default=0) < width:
            raise ModelError.wrong_shape(
                f"{path.name}, line 2: found {max(ends, default=0)} numbers, and the first line says {width}; it is "
                "cut short, or of word2vec's binary kind: save it as text"
            )
        starts = tuple({re.split("[ \t,;|:]", spelling, maxsplit=1)[0] for spelling in spellings})
        for number, line in enumerate(chain(shown, _lines(stream)), start=2 if counted else 1):
            if line.lstrip(_QUOTES + " \t").startswith(starts):
                parts = parts_of(line)
                if len(parts) <= width and parts[0] in spellings and _trailing(parts) == len(parts) - 1:
                    raise ModelError.wrong_shape(
                        f"{path.name}, line {number}, {parts[0]!r}: found {len(parts) - 1} numbers, expected {width}, "
                        "as in other lines"
                    )
                label = " ".join(parts[:-width])
                if label not in spellings:
                    label = label.removesuffix(":").rstrip()
                if label not in spellings and len(label) > 2 and label[0] == label[-1] and label[0] in _QUOTES:
                    label = label[1:-1]
                if label in spellings:
                    yield label, _numbers(path, number, parts[-width:])


def _cut_by(lines: Sequence[str]) -> Callable[[str], list[str]]:
    """Choose how lines are cut into a word and its numbers: at blanks, unless these leave no numbers at their ends."""

    def at(pattern: re.Pattern[str], decimal: str = ".", end: str = " \t\r\n") -> Callable[[str], list[str]]:
        return lambda line: pattern.split(line.strip(end).replace(decimal, "."))

    if not any(_trailing(at(_BLANKS)(line)) for line in lines):
        decimal_comma, separated = at(_BLANKS, ","), at(_COMMAS, end=" \t\r\n]")
        for cut in (decimal_comma, separated):
            if any(_trailing(cut(line)) for line in lines):
                return cut
    if all(_COLONS.fullmatch(line.strip(" \t\r\n")) for line in lines):
        return at(_COLON)
    return at(_BLANKS)


_QUOTES: Final = "\"'`"
_BLANKS: Final = re.compile("[ \t]+")
_COMMAS: Final = re.compile(r"[ \t]*[,;|\[][ \t\[]*|[ \t]+")
_COLON: Final = re.compile("[ \t]*:[ \t]*|[ \t]+")
_NUMBER: Final = r"[-+]?+[\d.]++(?:[eE][-+]?+\d++)?+"
_COLONS: Final = re.compile(rf"[^:]++:[ \t]*+{_NUMBER}(?:(?::{_NUMBER})++|(?:[ \t]++{_NUMBER})*+)")
"""``a word:0.1:0.2`` or ``a word: 0.1 0.2``; not ``1:0.1 2:0.2``, where numbers are numbered."""


def kind_of(path: Path) -> str:
    """Return the suffix that says how a file is read: of text that is compressed by gzip, the one before."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    return suffixes[0] if suffixes[1:] == [".gz"] and suffixes[0] in TEXTS else "".join(suffixes[-1:])


def _opened(path: Path, newline: str | None = None) -> TextIO:
    """Open a text, compressed or not whatever its name says: UTF-8, or UTF-16 with the mark of that."""
    with path.open("rb") as stream:
        is_compressed = stream.read(2) == b"\x1f\x8b"
    opener = gzip.open if is_compressed else open
    with opener(path, "rb") as binary:
        is_wide = binary.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if is_wide else "utf-8-sig"
    return cast(TextIO, opener(path, "rt", encoding=encoding, errors="replace", newline=newline))


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield lines, of which none fills the memory: a small archive may unfold to one of gigabytes."""
    return iter(lambda: stream.readline(LONGEST_LINE), "")


def _trailing(parts: Sequence[str]) -> int:
    """Count the numbers at the end of a line, but for its first part, which is a label whatever it is."""
    return sum(1 for _ in takewhile(_is_number, reversed(parts[1:])))


def _read_csv(path: Path, _labels: Path | None, spellings: Collection[str]) -> Rows:
    has_index = False
    with _opened(path, "") as stream:
        first = stream.readline(LONGEST_LINE)
        # of spreadsheets in many languages a semicolon stands between the columns, and a comma before the decimals
        delimiter = max(";", "|", "\t" if kind_of(path) == ".tsv" else ",", key=first.count)
        rows: Iterator[list[str]] = csv.reader(chain([first], _lines(stream)), delimiter=delimiter)
        if delimiter == ";":
            rows = ([*row[:1], *(entry.replace(",", ".") for entry in row[1:])] for row in rows)
        for number, entries in enumerate(rows, start=1):
            if number == 1:  # row numbers before the labels, as pandas writes them
                named = [entry.strip().lower() for entry in entries[:2]]
                has_index = len(entries) > 1 and not _is_number(entries[1])
                has_index &= named[0] in ("", "unnamed: 0") or (
                    named[0] in ("id", "index") and named[1] in LABEL_COLUMNS
                )
            row = entries[has_index:]
            header = number == 1 and len(row) > 1 and not _is_number(row[1])
            column_names = header or (number == 1 and row and row[0].strip().lower() in LABEL_COLUMNS)
            if not column_names and row and row[0] in spellings:
                listed = len(row) == 2 and row[1].lstrip().startswith("[")  # a list in one column
                yield row[0], _numbers(path, number, re.split("[ ,]+", row[1].strip(" []")) if listed else row[1:])


def _read_parquet(path: Path, _labels: Path | None, spellings: Collection[str]) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from clinometer._parquet import require_bounded

    try:
        with path.open("rb") as source, pq.ParquetFile(source) as opened:
            require_bounded(opened, source)
            table = opened.read()
    except pa.ArrowException as error:
        raise ModelError.unreadable(f"{path.name}: not a Parquet file: {error}") from error
    kinds = {name: table.schema.field(name).type for name in table.column_names}
    texts = [name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
    are_lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    lists = [name for name, kind in kinds.items() if any(is_kind(kind) for is_kind in are_lists)]
    numbers = [name for name, kind in kinds.items() if pa.types.is_floating(kind)]
    label = next((name for name in LABEL_COLUMNS if name in texts), texts[0] if texts else None)
    vector = next((name for name in VECTOR_COLUMNS if name in lists), lists[0] if lists else None)
    if label is None or (vector is None and not numbers):
        raise ModelError.missing(
            f"{path.name}: found the columns {', '.join(kinds)}; expected one of labels (text) and one of vectors "
            "(lists of numbers), or a column for each number"
        )
    labels = table.column(label).to_pylist()
    for i in (i for i, text in enumerate(labels) if text in spellings):
        row = table.slice(i, 1)
        coordinates = row.column(vector)[0].as_py() if vector else [row.column(name)[0].as_py() for name in numbers]
        yield labels[i], np.asarray(coordinates, np.float64)


def _read_npy(path: Path, labels: Path | None, spellings: Collection[str]) -> Rows:
    if labels is None or not labels.is_file():
        place = labels.name if labels else path.with_suffix(".txt").name
        raise ModelError.not_found(f"{path.name}: no labels in {place}; give a text file with a label for each row")
    # not splitlines: some vocabularies have words with a line break that is none in a text file (U+0085)
    names = labels.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    yield from _rows_of(path, names, _array(path, None), spellings)


def _read_npz(path: Path, _labels: Path | None, spellings: Collection[str]) -> Rows:
    yield from _rows_of(path, [str(label) for label in _array(path, "labels")], _array(path, "vectors"), spellings)


def _array(path: Path, name: str | None) -> np.ndarray:
    try:
        loaded = np.load(path, allow_pickle=False)
        return np.asarray(loaded if name is None else loaded[name])
    except (ValueError, OSError, KeyError) as error:
        raise ModelError.untrusted(
            f"{path.name}: numpy cannot read {name or 'an array'} from it without a pickle: {error}"
        ) from error


def _rows_of(path: Path, labels: Sequence[str], vectors: np.ndarray, spellings: Collection[str]) -> Rows:
    if vectors.ndim != 2 or len(labels) != len(vectors):
        raise ModelError.wrong_shape(
            f"{path.name}: {len(labels)} labels for an array of shape {vectors.shape}; expected one label for each row"
        )
    return ((label, vectors[i]) for i, label in enumerate(labels) if label in spellings)


def _numbers(path: Path, line: int, parts: Sequence[str]) -> np.ndarray:
    try:
        return np.array([float(part) for part in parts])
    except ValueError as error:
        raise ModelError.wrong_type(f"{path.name}, line {line}: expected numbers after the label: {error}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


TEXTS: Final = (".txt", ".vec", ".csv", ".tsv")
"""Kinds that are read compressed by gzip, too, as ``.vec.gz``."""

LONGEST_LINE: Final = 2**20
"""Characters of a line."""

EARLY: Final = 64
"""Lines by which the width is known of a file that does not say it."""

READERS: Final[dict[str, Callable[[Path, Path | None, Collection[str]], Rows]]] = {
    ".txt": _read_text,
    ".vec": _read_text,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
    ".npz": _read_npz,
}
"""How a file is read, by its suffix."""
