"""Runs on an object store: a real S3 endpoint over HTTP, and what networks and stores do to requests."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import Code, RunLockedError, RunStorageError
from clinometer.pipeline.results import write_report
from clinometer.runs.leases import Lease
from clinometer.runs.storage import Directory
from clinometer.web.runs_index import RunsIndex
from tests import quick
from tests.raising import raises
from tests.runs.s3_server import KEY, SECRET, bucket
from tests.toys import Eye, Painter, toy_suite
from tests.web.serving import client, pictures

pytest.importorskip("s3fs")

SUITE = toy_suite(target=3, attribute=2, concepts=2)


@pytest.fixture(scope="module")
def store():
    """The proxy, a bucket behind it, and an environment that leads there."""
    with bucket() as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _no_faults(store):
    store.fault = lambda method, path, number: ""
    store.requests.clear()
    yield
    store.fault = lambda method, path, number: ""


@pytest.fixture(scope="module")
def runs(store, tmp_path_factory):
    """The same audit here and there."""
    here = tmp_path_factory.mktemp("here") / "run"
    places = (here, "s3://bucket/runs/there")
    return tuple(quick.audit(Painter(), SUITE, out, encoder=Eye(), report=True) for out in places)


def every(period, kind, methods=("GET", "PUT", "HEAD", "POST", "DELETE")):
    """A fault of every so many requests, never of two in a row."""
    return lambda method, path, number: kind if number % period == period - 1 and method in methods else ""


def hidden(run):
    """Hidden files of a run, leases and what was half written among them."""
    found = run.directory.fs.find(run.directory.root)
    return [name.removeprefix(f"{run.directory.root}/") for name in found if "/." in name]


def parts(run):
    names = [name for folder in ("samples", "embeddings/eye") for name in run.directory.names(folder, ".parquet")]
    return {name: run.directory.read_bytes(name) for name in names}


def test_runs_on_a_store_are_served(runs, tmp_path):
    browser = client(runs[1].url, cache=tmp_path)
    page = browser.get(f"{browser.get('/').headers['location']}&per=96").text
    shown = pictures(page)
    assert len(shown) == len(runs[1].samples)
    assert browser.get(shown[0]).status_code == 200
    assert browser.get(re.search(r"/runs/\w+", page)[0] + "/report").status_code == 200


def test_a_run_on_a_store_is_the_run_on_a_disk(runs):
    here, there = runs
    assert parts(here) == parts(there)
    assert here.directory.read_bytes("scores.csv") == there.directory.read_bytes("scores.csv")
    assert here.plan == there.plan
    assert verify_run(there.url) == verify_run(here.url)
    assert there.directory.contents() == [name for name in here.directory.contents() if not name.startswith(".")]


def test_nothing_is_left_behind(runs):
    assert hidden(runs[1]) == [".file-stamps.json"]


@pytest.mark.thorough
@pytest.mark.slow
def test_every_command_takes_a_url(runs, store, tmp_path):
    here, there = runs
    other = quick.audit(Painter(name="other"), SUITE, "s3://bucket/runs/other", encoder=Eye())
    (compared,) = cm.compare(there.url, other.url, out="s3://bucket/compared")
    assert compared.paired
    assert {"comparison.html", "comparison.csv"} <= set(Directory("s3://bucket/compared").contents())
    cm.score_run(other.url, encoder=Eye("second"))
    assert set(cm.open_run(other.url).encoder_cards) == {"eye", "second"}
    assert write_report(cm.open_run(other.url)) == []
    folder = tmp_path / "images"
    folder.mkdir()
    rows = ["file,prompt,concept,group"]
    for sample in here.plan:
        (content,) = (content for _, content in here.images([sample.id]))
        (folder / f"{sample.id}.png").write_bytes(content)
        rows.append(f"{sample.id}.png,{sample.prompt},{sample.concept},{sample.group}")
    (folder / "manifest.csv").write_text("\n".join(rows))
    imported = quick.import_images(folder, "s3://bucket/imported", suite=SUITE, encoder=Eye())
    assert len(imported.samples) == len(here.plan)
    index = RunsIndex(["s3://bucket"])
    assert {run.name for run in index.listed()} == {"there", "other", "imported"}
    assert not [run.error for run in index.listed() if run.error]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "period"),
    [
        ("busy", 3),
        pytest.param("drop", 4, marks=pytest.mark.thorough),
        pytest.param("lost answer", 4, marks=pytest.mark.thorough),
        ("half", 5),
    ],
)
def test_what_a_network_does_to_requests_changes_nothing(runs, store, kind, period):
    store.fault = every(period, kind)
    out = f"s3://bucket/faults/{kind.replace(' ', '-')}"
    run = quick.audit(Painter(), SUITE, out, encoder=Eye())
    assert sum(befallen == kind for _, _, befallen in store.requests) > 10
    store.fault = lambda method, path, number: ""
    assert parts(run) == parts(runs[0])
    assert run.directory.read_bytes("scores.csv") == runs[0].directory.read_bytes("scores.csv")
    assert hidden(run) == [".file-stamps.json"]
    verify_run(out)


def test_throttling_is_met_with_patience(store):
    asked = []

    def busy(method, path, number):
        if method == "PUT":
            asked.append(time.monotonic())
            return "busy" if len(asked) <= 3 else ""
        return ""

    store.fault = busy
    Directory("s3://bucket/patience").write_bytes("x", b"content")
    waits = [later - sooner for sooner, later in pairwise(asked)]
    assert len(asked) == 4
    assert waits[-1] > waits[0] > 0.05  # longer each time
    assert Directory("s3://bucket/patience").read_bytes("x") == b"content"


@pytest.mark.thorough
@pytest.mark.slow
def test_a_store_that_never_answers_is_told_in_a_line_and_nothing_is_half_written(store):
    directory = Directory("s3://bucket/dead")
    directory.write_bytes("x", b"old")
    store.fault = lambda method, path, number: "drop" if method == "PUT" else ""
    with raises(RunStorageError, code=Code.STORAGE, match=r"x: .*give the same command again") as said:
        directory.write_bytes("x", b"new")
    assert "\n" not in str(said.value)
    assert SECRET not in str(said.value)
    store.fault = lambda method, path, number: ""
    assert directory.read_bytes("x") == b"old"
    directory.write_table("part.parquet", pa.table({"x": [1]}))
    store.fault = lambda method, path, number: "drop" if method == "GET" else ""
    with raises(RunStorageError, code=Code.STORAGE, match="the store does not answer") as said:
        directory.read_table("part.parquet")
    assert "Delete" not in str(said.value)  # nothing is known against the file


@pytest.mark.slow
def test_a_file_in_several_pieces_is_seen_when_the_last_is_in(store, monkeypatch):
    directory = Directory("s3://bucket/pieces")
    whole = os.urandom(12 * 2**20)
    pieces = partial(directory.fs.pipe_file, chunksize=5 * 2**20)
    monkeypatch.setattr(directory.fs, "pipe_file", pieces)
    seen = []

    def second_piece(method, path, number):
        if "partNumber=2" in path:
            seen.append(path)
            return "drop" if len(seen) < 3 else ""
        return ""

    store.fault = second_piece
    directory.write_bytes("x", whole)
    assert len(seen) == 3
    assert directory.read_bytes("x") == whole
    store.fault = lambda method, path, number: "drop" if "partNumber=3" in path else ""
    with raises(RunStorageError, code=Code.STORAGE):
        directory.write_bytes("y", whole)
    store.fault = lambda method, path, number: ""
    assert not directory.exists("y")
    directory.write_bytes("y", whole)
    assert directory.read_bytes("y") == whole


def test_of_two_writers_of_a_file_the_first_wins_also_where_its_answer_is_lost(store):
    directory = Directory("s3://bucket/claims")
    lost = []

    def lose_first(method, path, number):
        if method == "PUT" and not lost:
            lost.append(path)
            return "lost answer"
        return ""

    store.fault = lose_first
    assert directory.create_bytes("claim", b"mine")
    assert lost
    assert not directory.create_bytes("claim", b"theirs")
    assert directory.read_bytes("claim") == b"mine"


def test_what_another_process_writes_is_seen_at_once(store):
    """A client that remembers what it listed would overlook the parts of workers, and the claims of other drivers."""
    directory, other = Directory("s3://bucket/shared"), Directory("s3://bucket/shared")
    directory.write_bytes("samples/part-00000.parquet", b"x")
    assert directory.names("samples", ".parquet") == ["samples/part-00000.parquet"]
    import boto3

    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    client.put_object(Bucket="bucket", Key="shared/samples/part-00001.parquet", Body=b"y")
    for each in (directory, other):
        assert len(each.names("samples", ".parquet")) == 2
        assert each.exists("samples/part-00001.parquet")
    client.delete_object(Bucket="bucket", Key="shared/samples/part-00000.parquet")
    assert not directory.exists("samples/part-00000.parquet")


@pytest.mark.slow
def test_a_second_driver_is_told(store):
    with Directory("s3://bucket/driven").locked():
        said = f"another process is working on this run .process {os.getpid()} on "
        with raises(RunLockedError, code=Code.LOCKED, match=said):
            quick.audit(Painter(), SUITE, "s3://bucket/driven", encoder=Eye())
        lease = Lease(Directory("s3://bucket/driven"), "driver")
        with raises(RunLockedError, code=Code.LOCKED):
            lease.acquire()
    quick.audit(Painter(), SUITE, "s3://bucket/driven", encoder=Eye())


def test_credentials_are_written_nowhere(runs, store):
    fs = runs[1].directory.fs
    for name in fs.find("bucket"):
        content = fs.cat_file(name)
        assert SECRET.encode() not in content, name
        assert KEY.encode() not in content, name
    assert KEY not in json.dumps(runs[1].record)
    assert SECRET not in repr(runs[1])


def test_without_credentials_it_is_said_in_a_line(store, monkeypatch, tmp_path):
    import s3fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        with raises(RunStorageError, code=Code.STORAGE, match=r"credentials") as said:
            quick.audit(Painter(), SUITE, "s3://bucket/none", encoder=Eye())
        assert "\n" not in str(said.value)
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


def test_a_bucket_that_is_not_there_is_named_and_not_made(store):
    with raises(RunStorageError, code=Code.STORAGE, match=r"mistyped/run.*cannot be written"):
        quick.audit(Painter(), SUITE, "s3://mistyped/run", encoder=Eye())
    fs = Directory("s3://bucket/x").fs
    assert [name for name in fs.ls("") if "mistyped" in name] == []


SCRIPT = """
    from tests import quick
    from tests.toys import Eye, Painter, toy_suite
    suite = toy_suite(target=3, attribute=2, concepts=2)
    quick.audit(Painter(halt=9), suite, "s3://bucket/killed", encoder=Eye())  # in the second part of eight
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_whole_parts_and_the_same_command_goes_on(runs, store):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    script = textwrap.dedent(SCRIPT)
    directory = Directory("s3://bucket/killed")
    for least in (1, 2):
        process = subprocess.Popen([sys.executable, "-c", script], env=environment, cwd=Path(__file__).parents[2])
        while len(directory.names("samples", ".parquet")) < least:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert directory.names("samples", ".parquet")
    begun = set(directory.names("samples", ".parquet"))
    painter = Painter()
    run = quick.audit(painter, SUITE, "s3://bucket/killed", encoder=Eye())
    assert painter.drawn == len(run.plan) - 8 * len(begun)
    assert parts(run) == parts(runs[0])
    assert re.fullmatch(r"s3://bucket/killed", run.url)
