"""What a table takes once it is read is asked of it beforehand; bombs are made by Arrow itself, and by hand."""

import contextlib
import resource
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinometer._parquet import require_bounded

MEGABYTE = 1_000_000


def read_bounded(path, columns=None):
    with path.open("rb") as file:
        opened = pq.ParquetFile(file, pre_buffer=False)
        require_bounded(opened, file, columns)
        return opened.read(columns, use_threads=False)


def dictionary_bomb(path, rows=7500):
    """One text of a megabyte, and thousands of rows that refer to it: some hundred bytes."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * MEGABYTE]))
    table = pa.table({"id": texts, "n": pa.array(range(rows))})
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
    return rows * MEGABYTE


def page_bomb(path, rows=6):
    """Plain pages of nothing but zeros."""
    table = pa.table({"id": pa.array([bytes(50 * MEGABYTE)] * rows, pa.binary())})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=1000)
    return rows * 50 * MEGABYTE


def lying_bomb(path):
    """The same, and its footer says that it unfolds to sixty bytes."""

    def varint(number):
        sevens = [(2 * number >> shift) & 127 for shift in range(0, 35, 7)]
        return bytes([*(seven | 128 for seven in sevens[:-1]), sevens[-1]])

    unfolded = page_bomb(path)
    said = varint(pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size)
    content = path.read_bytes()
    start = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    assert said in content[start:]
    path.write_bytes(content[:start] + content[start:].replace(said, varint(60)))
    assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 60
    return unfolded


def row_bomb(path, rows=5 * MEGABYTE):
    pq.write_table(pa.table({"n": np.zeros(rows, np.int64)}), path, compression="zstd", use_dictionary=False)
    return rows * 1000  # as objects of Python


BOMBS = {"dictionary": dictionary_bomb, "pages": page_bomb, "a footer that lies": lying_bomb, "rows": row_bomb}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_does_not_unfold(tmp_path, bomb):
    path = tmp_path / "bomb.parquet"
    unfolded = BOMBS[bomb](path)
    assert path.stat().st_size < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    words = "rows in" if bomb == "rows" else r"column 'id' it unfolds to [\d,]+ bytes"
    with pytest.raises(pa.ArrowInvalid, match=words):
        read_bounded(path)
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < unfolded / 10


def test_a_column_that_is_not_read_may_unfold_to_anything(tmp_path):
    dictionary_bomb(tmp_path / "bomb.parquet")
    assert read_bounded(tmp_path / "bomb.parquet", ["n"]).num_rows == 7500


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.none() | st.text(max_size=8), max_size=40),
    times=st.integers(1, 200),
    dictionary=st.booleans(),
    version=st.sampled_from(["1.0", "2.0"]),
    codec=st.sampled_from(["zstd", "snappy", "none"]),
)
def test_every_ordinary_table_is_let_through(tmp_path_factory, texts, times, dictionary, version, codec):
    n = len(texts) * times
    pictures = [{"bytes": str(text).encode("utf-8", "replace"), "path": text} for text in texts * times]
    table = pa.table(
        {
            "text": pa.array(texts * times, pa.string()),
            "image": pa.array(pictures, pa.struct({"bytes": pa.binary(), "path": pa.string()})),
            "vector": pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32(), 2)),
            "flag": pa.array([True] * n, pa.bool_()),
        }
    )
    path = tmp_path_factory.mktemp("tables") / "table.parquet"
    pq.write_table(table, path, use_dictionary=dictionary, data_page_version=version, compression=codec)
    assert read_bounded(path).equals(table)


def test_a_large_table_of_repeated_texts_is_counted_and_let_through(tmp_path):
    """A plan of many images: its prompts could come to far too much, and do not."""
    rows, rng = 400_000, np.random.default_rng(0)
    prompts = pa.array([f"an image of {'a very ' * 60} {number}" for number in range(400)])
    ids = [row.tobytes().hex() for row in rng.integers(0, 256, (rows, 8), np.uint8)]
    table = pa.table({"id": ids, "prompt": prompts.take(pa.array(np.arange(rows) % 400))})
    pq.write_table(table, tmp_path / "plan.parquet", compression="zstd")
    assert read_bounded(tmp_path / "plan.parquet").num_rows == rows


def test_damaged_headers_end_in_an_error_of_arrows(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"id": [str(number) for number in range(50)]}), path)
    whole = path.read_bytes()
    for place in range(4, len(whole) - 8, 5):
        content = bytearray(whole)
        content[place] ^= 0x55
        path.write_bytes(content)
        with path.open("rb") as file, contextlib.suppress(pa.ArrowException, OSError):
            require_bounded(pq.ParquetFile(file, pre_buffer=False), file)


def test_a_process_of_little_memory_survives(tmp_path):
    """The same under a limit that reading would go beyond."""
    dictionary_bomb(tmp_path / "bomb.parquet")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "import pyarrow.parquet as pq; from clinometer._parquet import require_bounded\n"
        "file = open(sys.argv[1], 'rb')\n"
        "try: require_bounded(pq.ParquetFile(file), file)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "bomb.parquet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ArrowInvalid with its column 'id'")
