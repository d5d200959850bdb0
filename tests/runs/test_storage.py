"""Files are whole or absent, and a directory belongs to one process."""

import hashlib
import multiprocessing
import os
import resource
import tempfile
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from clinometer.errors import Code, RunCorruptError, RunLockedError, RunNotFoundError, RunStorageError
from clinometer.runs import files
from clinometer.runs.files import Files
from clinometer.runs.record import new_record, require_whole
from clinometer.runs.run import Run, create_run
from clinometer.runs.storage import Directory
from tests.raising import raises
from tests.toys import Painter, toy_suite


def test_a_file_reads_back(tmp_path):
    directory = Directory(tmp_path / "run")
    content = {"x": "ä", "name of a folder that is not UTF-8": "\udcff"}
    directory.write_json("a/b.json", content)
    assert directory.read_json("a/b.json") == content
    assert directory.names("a", ".json") == ["a/b.json"]
    assert directory.names("nothing", ".json") == []


@pytest.mark.parametrize("resamples", [[1], "9", -1, 10**18])
def test_a_record_of_resamples_that_nobody_can_ask_for_is_refused(resamples):
    said = new_record(toy_suite(), Painter().card, seed=0, origin="generated", options={"resamples": resamples})
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"^run\.json: options\.resamples: expected [^\n]+$"):
        require_whole(said, "run.json")


def test_colons_in_a_path_are_no_chain_of_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for written in ("runs/a::b", "~/runs/a::b", "./runs/a::b/", tmp_path / "runs" / "a::b"):
        directory = Directory(written)
        assert directory.root == str(tmp_path / "runs" / "a::b")
        assert directory.is_local


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
        with raises(RunStorageError, code=Code.STORAGE, match=r"x: .*give the same command again"):
            directory.write_bytes("x", b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert directory.read_bytes("x") == b"old"
    assert os.listdir(tmp_path) == ["x"]


class Watched:
    """A file that notes which threads read it."""

    def __init__(self, file, readers):
        self.file, self.readers = file, readers

    def read(self, *size):
        self.readers.add(threading.get_ident())
        return self.file.read(*size)

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_table_is_read_in_the_thread_that_asks_for_it(tmp_path, monkeypatch):
    """A thread of Arrow's that still holds the file when the interpreter ends would abort the process."""
    directory, readers = Directory(tmp_path), set()
    table = pa.table({name: np.arange(1_000) for name in "abc"})
    directory.write_table("t.parquet", table)
    own = directory.fs.open

    @contextmanager
    def watched(*arguments):
        with own(*arguments) as file:
            yield Watched(file, readers)

    monkeypatch.setattr(directory, "fs", SimpleNamespace(open=watched))
    assert directory.read_table("t.parquet") == table
    assert directory.read_table("t.parquet", ["c", "a"]).equals(table.select(["c", "a"]))
    assert readers == {threading.get_ident()}


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"no parquet at all, but long enough to have a footer"])
def test_a_damaged_table_is_named_with_the_way_out(tmp_path, damage):
    (tmp_path / "part.parquet").write_bytes(damage)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"part.parquet: cannot be read.*Delete the file"):
        Directory(tmp_path).read_table("part.parquet")


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8])
def test_a_byte_that_has_changed_is_noticed(tmp_path, place):
    directory = Directory(tmp_path)
    directory.write_table("part.parquet", pa.table({"vector": np.random.default_rng(0).standard_normal(1_000)}))
    content = bytearray((tmp_path / "part.parquet").read_bytes())
    content[int(place * len(content))] ^= 1
    (tmp_path / "part.parquet").write_bytes(content)
    with raises(
        RunCorruptError, code=Code.CORRUPT, match=r"part.parquet: (cannot be read|it is not what was).*Delete the file"
    ):
        directory.read_table("part.parquet")


def test_damaged_json_is_named(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"run\.json: not JSON"):
        Directory(tmp_path).read_json("run.json")
    (tmp_path / "run.json").write_text("[" * 5000 + "]" * 5000)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"run\.json: .*\(nested too deeply\)"):
        Directory(tmp_path).read_json("run.json")
    (tmp_path / "run.json").write_text("9" * 6000)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"run\.json: .*\(Exceeds the limit"):
        Directory(tmp_path).read_json("run.json")
    for content, found in (("null", "NoneType"), ("[[1, 2]]", "list")):
        (tmp_path / "run.json").write_text(content)
        with raises(RunCorruptError, code=Code.CORRUPT, match=f"run.json: found {found}, expected a mapping"):
            Directory(tmp_path).read_json("run.json")


@pytest.mark.parametrize("url", ["zip://a::b", "zip://", "ftp://nowhere.invalid/run"])
def test_a_url_that_leads_nowhere_is_named(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with raises(RunStorageError, code=Code.UNREADABLE, match=f"^{url}: .*; fix the URL, or give a path"):
        Directory(url)


@pytest.mark.parametrize("place", ["loop", "x" * 5000, "x\0y"])
def test_a_place_that_is_none_is_named(tmp_path, place):
    (tmp_path / "loop").symlink_to("loop")
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"run.json: cannot be read: .*fix that"):
        Run(f"{tmp_path}/{place}")


def test_leftovers_are_removed_and_what_is_somebody_elses_stays(tmp_path):
    (tmp_path / ".x.tmp").mkdir()
    (tmp_path / ".y.12.tmp").mkdir()
    for name in (".notes.tmp", ".part-00000.parquet.123.tmp"):
        (tmp_path / name).write_text("")
    Directory(tmp_path).remove_leftovers()
    assert sorted(os.listdir(tmp_path)) == [".notes.tmp", ".x.tmp", ".y.12.tmp"]


def test_the_folder_is_settled_after_a_file_is_renamed(tmp_path, monkeypatch):
    """Else a power cut may take the name back of a part that is listed."""
    order = []
    rename, settle = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda *names: (rename(*names), order.append("renamed")))
    monkeypatch.setattr(os, "fsync", lambda file: (settle(file), order.append(os.path.isdir(f"/proc/self/fd/{file}"))))
    Directory(tmp_path).write_bytes("part", b"x")
    assert order == [False, "renamed", True]


def test_names_are_in_the_order_of_their_numbers(tmp_path):
    for number in (99_999, 100_000, 7):
        Directory(tmp_path).write_bytes(f"samples/part-{number:05d}.parquet", b"")
    numbers = [name[13:-8] for name in Directory(tmp_path).names("samples", ".parquet")]
    assert numbers == ["00007", "99999", "100000"]


def test_a_missing_file_is_named(tmp_path):
    with raises(RunNotFoundError, code=Code.NOT_FOUND):
        Directory(tmp_path).read_json("run.json")


def _hold(path, held, release):
    with Directory(path).locked():
        held.set()
        release.wait(600)


def test_a_second_process_is_told_who_holds_the_directory(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held, release))
    process.start()
    try:
        assert held.wait(600)
        with raises(RunLockedError, code=Code.LOCKED, match=f"process {process.pid} on "), Directory(tmp_path).locked():
            pass
    finally:
        release.set()
        process.join(600)
    with Directory(tmp_path).locked():  # the lock goes with the process
        pass


@pytest.mark.parametrize("place", ["file", "file/run", "dangling"])
def test_a_place_where_no_directory_can_be_is_named(tmp_path, place):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    directory = Directory(tmp_path / place)
    with (
        raises(RunStorageError, code=Code.STORAGE, match=f"{place}: cannot be written: .*another --out"),
        directory.locked(),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_link_that_leads_nowhere_is_no_file(tmp_path):
    (tmp_path / "part").symlink_to("fetched later")
    directory = Directory(tmp_path)
    assert not directory.exists("part")
    directory.write_json("part", {"here": 1})
    assert directory.read_json("part") == {"here": 1}


def test_a_filesystem_that_is_not_at_hand_is_named(monkeypatch):
    with raises(RunStorageError, code=Code.NOT_INSTALLED):
        Directory("nothing://bucket/run")

    def lack(url, **options):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("clinometer.runs.files.url_to_fs", lack)
    with raises(RunStorageError, code=Code.NOT_INSTALLED, match="Install s3fs"):
        Directory("s3://bucket/run")


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), TimeoutError("too slow")])
def test_an_error_under_the_lock_is_not_the_locks(tmp_path, error):
    with pytest.raises(type(error)) as raised, Directory(tmp_path).locked():
        raise error
    assert raised.value is error
    with Directory(tmp_path).locked():  # and the lock is given back
        pass


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    directory = Directory(tmp_path)
    directory.write_table("part.parquet", pa.table({"x": [1]}))
    directory.write_json("run.json", {})

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(directory.fs, "open", refuse)
    monkeypatch.setattr(directory.fs, "cat_file", refuse)
    for read in (lambda: directory.read_table("part.parquet"), lambda: directory.read_json("run.json")):
        with raises(RunCorruptError, code=Code.CORRUPT, match=r"cannot be read: Permission denied; fix that") as said:
            read()
        assert "Delete" not in str(said.value)


@contextmanager
def unprivileged():
    """As a user to whom permissions apply; the superuser may do everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def closed():
    """A run directory with two folders: "hidden" may not be looked into, and nothing in "fixed" be removed."""
    with tempfile.TemporaryDirectory() as root:  # the folders of tmp_path are their owner's alone
        directory = Directory(root)
        for folder in ("hidden", "fixed"):
            directory.write_bytes(f"{folder}/part.parquet", b"")
        os.chmod(root, 0o755)
        os.chmod(f"{root}/hidden", 0)
        os.chmod(f"{root}/fixed", 0o555)
        yield directory
        os.chmod(f"{root}/hidden", 0o755)
        os.chmod(f"{root}/fixed", 0o755)


def test_what_may_not_be_seen_is_not_taken_for_missing(closed):
    """It would be drawn again."""
    with unprivileged():
        for look in (lambda: closed.exists("hidden/part.parquet"), lambda: closed.names("hidden", ".parquet"),
                     Directory(closed.path("hidden")).contents):  # fmt: skip
            with raises(
                RunCorruptError, code=Code.CORRUPT, match=r"/hidden.*: cannot be read: Permission denied; fix that"
            ):
                look()
        with raises(
            RunStorageError, code=Code.STORAGE, match=r"/fixed/part.parquet: cannot be removed: Permission denied; fix"
        ):
            closed.remove("fixed/part.parquet")
    assert closed.exists("fixed/part.parquet")
    closed.remove("nothing")
    assert not closed.exists("fixed/part.parquet/inner")  # below a file there is none


def test_a_damaged_plan_is_not_to_be_deleted(tmp_path):
    run = create_run(tmp_path, new_record(toy_suite(), Painter().card, seed=0, origin="generated"), [])
    run.directory.write_bytes("plan.parquet", b"")
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"plan\.parquet: .*no checksum.*Restore it, or start a new"):
        _ = Run(tmp_path).plan


def test_a_page_larger_than_the_limit_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1_000)
    monkeypatch.setattr(files, "_BLOCK", 600)
    for name in ("page.html", "table.parquet"):
        (tmp_path / name).write_bytes(bytes(5_000))
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"page\.html: more than 1,000 bytes"):
        Files(tmp_path).sha256("page.html")
    assert Files(tmp_path).sha256("table.parquet") == hashlib.sha256(bytes(5_000)).hexdigest()


def test_a_path_with_a_nul_is_a_line():
    with raises(RunStorageError, code=Code.STORAGE, match="NUL"):
        Files("a").write_bytes("b\0c", b"")
