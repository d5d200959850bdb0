"""Files are whole or absent, and a directory belongs to one process."""

import multiprocessing
import os
import resource

import pyarrow as pa
import pytest

from clinometer.errors import RunCorruptError, RunLockedError, RunNotFoundError, RunStorageError
from clinometer.runs.storage import Directory


def test_a_file_reads_back(tmp_path):
    directory = Directory(tmp_path / "run")
    directory.write_json("a/b.json", {"x": "ä"})
    assert directory.read_json("a/b.json") == {"x": "ä"}
    assert directory.names("a", ".json") == ["a/b.json"]
    assert directory.names("nothing", ".json") == []


def test_the_same_holds_on_another_filesystem():
    directory = Directory("memory://somewhere/run")
    table = pa.table({"x": [1, 2]})
    directory.write_table("t.parquet", table)
    assert directory.read_table("t.parquet") == table
    assert directory.names("", ".parquet") == ["/t.parquet"]
    with directory.locked():
        pass


def test_a_file_too_large_for_the_disk_leaves_what_was_there(tmp_path):
    directory = Directory(tmp_path)
    directory.write_bytes("x", b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(RunStorageError, match=r"x: cannot be written.*give the same command again"):
            directory.write_bytes("x", b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert directory.read_bytes("x") == b"old"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"no parquet at all, but long enough to have a footer"])
def test_a_damaged_table_is_named_with_the_way_out(tmp_path, damage):
    (tmp_path / "part.parquet").write_bytes(damage)
    with pytest.raises(RunCorruptError, match=r"part.parquet: cannot be read.*Delete the file"):
        Directory(tmp_path).read_table("part.parquet")


def test_damaged_json_is_named(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunCorruptError, match=r"run.json: not JSON"):
        Directory(tmp_path).read_json("run.json")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RunNotFoundError, match=r"run.json: no such file"):
        Directory(tmp_path).read_json("run.json")


def _hold(path, held, release):
    with Directory(path).locked():
        held.set()
        release.wait(30)


def test_a_second_process_is_told_who_holds_the_directory(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held, release))
    process.start()
    try:
        assert held.wait(30)
        with pytest.raises(RunLockedError, match=f"process {process.pid} on "), Directory(tmp_path).locked():
            pass
    finally:
        release.set()
        process.join(30)
    with Directory(tmp_path).locked():  # the lock goes with the process
        pass
