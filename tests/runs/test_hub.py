"""Runs on the Hugging Face hub are read like others, and never written to."""

import shutil

import pytest

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import Code, ImportManifestError, RunCorruptError, RunNotFoundError, RunStorageError
from clinometer.pipeline.results import write_report
from tests import quick
from tests.raising import raises
from tests.runs.hub_server import REPOSITORY, hub
from tests.toys import Eye, Painter, toy_suite

pytest.importorskip("huggingface_hub")

SUITE = toy_suite(target=3, attribute=2, concepts=2)
URL = f"hf://datasets/{REPOSITORY}"


@pytest.fixture(scope="module")
def here():
    return quick.finished(Painter(), SUITE, encoder=Eye())


@pytest.fixture
def server(here, tmp_path):
    shutil.copytree(here.url, tmp_path / "run")
    with hub(tmp_path) as server:
        yield server


def test_a_run_on_the_hub_is_the_run_on_a_disk(here, server):
    there = cm.open_run(f"{URL}/run")
    assert there.plan == here.plan
    assert there.scores.equals(here.scores)
    assert there.samples.equals(here.samples)
    assert dict(there.images(there.samples.id)) == dict(here.images(here.samples.id))
    assert verify_run(there.url) == verify_run(here.url)


def test_it_is_compared_with_one_on_a_disk(here, server, tmp_path):
    (compared,) = cm.compare(f"{URL}/run", here.url, out=tmp_path / "compared")
    assert compared.paired
    assert (tmp_path / "compared" / "comparison.html").is_file()


@pytest.mark.parametrize(
    "work",
    [
        lambda: quick.audit(Painter(), SUITE, f"{URL}/run", encoder=Eye()),
        lambda: quick.audit(Painter(), SUITE, f"{URL}/new", encoder=Eye()),
        lambda: cm.score_run(f"{URL}/run"),
        lambda: write_report(cm.open_run(f"{URL}/run")),
        lambda: cm.compare(f"{URL}/run", f"{URL}/run", out=f"{URL}/compared"),
    ],
    ids=["audit", "a new audit", "score", "report", "compare"],
)
def test_nothing_is_written_there(server, work):
    with raises(RunStorageError, code=Code.STORAGE, match=r"^hf://datasets/\S+: .*disk$"):
        work()
    assert {method for method, _ in server.requests} <= {"GET", "HEAD", "POST"}
    assert not any("commit" in path or "preupload" in path for _, path in server.requests)


def test_images_are_imported_from_a_disk_alone(tmp_path):
    with raises(ImportManifestError, code=Code.UNSUPPORTED, match=rf"^{URL}/images"):
        quick.import_images(f"{URL}/images", tmp_path / "run", suite=SUITE, encoder=Eye())


@pytest.mark.parametrize("place", [f"{URL}/none", "hf://datasets/nobody/nothing"])
def test_a_run_that_is_not_there_is_named(server, place):
    with raises(RunNotFoundError, code=Code.NOT_FOUND, match=rf"^{place}: "):
        cm.open_run(place)


def test_a_damaged_part_is_named(server):
    part = server.root / "run" / "samples" / "part-00000.parquet"
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)
    with raises(
        RunCorruptError, code=Code.CORRUPT, match=r"part-00000.parquet: (it is not what was written|cannot be read)"
    ):
        verify_run(f"{URL}/run")


def test_a_hub_that_does_not_answer_is_told_in_a_line(server, monkeypatch):
    """And nothing is said against the file, which nobody has seen."""
    run = cm.open_run(f"{URL}/run")
    assert run.is_scored
    monkeypatch.setattr("huggingface_hub.hf_file_system.http_backoff", _refused)
    monkeypatch.setattr("huggingface_hub.hf_file_system.http_stream_backoff", _refused)
    with raises(RunStorageError, code=Code.STORAGE, match="the store does not answer") as said:
        run.scores  # noqa: B018  it reads
    assert "\n" not in str(said.value)


def _refused(*_, **__):
    from huggingface_hub.errors import OfflineModeIsEnabled

    raise OfflineModeIsEnabled("no network")
