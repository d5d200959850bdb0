"""Runs on Azure's store: the contract of the others, where its emulator is installed.

::

    pip install adlfs && npm install --global azurite
"""

import shutil
import socket
import subprocess
import time

import pytest

from clinometer.api import verify_run
from clinometer.errors import Code, RunLockedError
from clinometer.runs.storage import Directory
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

pytestmark = [pytest.mark.slow]

SUITE = toy_suite(target=3, attribute=2, concepts=2)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


AZURITE = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6"
    "IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
)
"""Its account is the same everywhere, and printed in its manual."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A container."""
    adlfs = pytest.importorskip("adlfs", reason="adlfs is not installed")
    azurite = shutil.which("azurite-blob")
    if azurite is None:
        pytest.skip("azurite is not installed")
    port = free_port()
    options = ["--blobPort", str(port), "--location", str(tmp_path_factory.mktemp("store")), "--skipApiVersionCheck"]
    process = subprocess.Popen([azurite, "--silent", *options], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AZURE_STORAGE_CONNECTION_STRING", AZURITE.format(port=port))
            adlfs.AzureBlobFileSystem.clear_instance_cache()
            adlfs.AzureBlobFileSystem().mkdir("bucket")
            yield "az://bucket"
            adlfs.AzureBlobFileSystem.clear_instance_cache()
    finally:
        process.terminate()
        process.wait()


def wait_for(port):
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


def test_files_are_written_read_listed_and_removed(place):
    directory = Directory(f"{place}/files")
    assert directory.contents() == []
    assert not directory.exists("folder/a")
    directory.write_bytes("folder/a", b"some bytes")
    directory.write_bytes("folder/empty", b"")
    assert directory.exists("folder/a")
    assert directory.exists("folder/empty")
    assert directory.contents() == ["folder"]
    assert directory.names("folder", "") == ["folder/a", "folder/empty"]
    assert [directory.read_bytes(name) for name in ("folder/a", "folder/empty")] == [b"some bytes", b""]
    before = directory.stamps(["folder/a"])
    directory.write_bytes("folder/a", b"others...")
    assert before is not None
    assert directory.stamps(["folder/a"]) not in (None, before)
    for _ in range(2):
        directory.remove("folder/a")
    assert not directory.exists("folder/a")


def test_of_two_writers_the_first_wins(place):
    directory = Directory(f"{place}/claims")
    assert directory.create_bytes("claim", b"mine")
    assert not directory.create_bytes("claim", b"theirs")
    assert directory.read_bytes("claim") == b"mine"
    directory = Directory(f"{place}/driven")
    with directory.locked(), raises(RunLockedError, code=Code.LOCKED, match="another process is working"):
        quick.audit(Painter(), SUITE, directory.url, encoder=Eye())


def test_a_run_there_is_the_run_on_a_disk_and_its_repetition_does_nothing(place, tmp_path):
    here = quick.audit(Painter(), SUITE, tmp_path / "run", encoder=Eye())
    there = quick.audit(Painter(), SUITE, f"{place}/run", encoder=Eye())
    assert there.directory.read_bytes("scores.csv") == here.directory.read_bytes("scores.csv")
    assert there.samples.drop(columns="seconds").equals(here.samples.drop(columns="seconds"))
    assert verify_run(there.url) == verify_run(here.url)
    painter, eye = Painter(), Eye()
    quick.audit(painter, SUITE, there.url, encoder=eye)
    assert (painter.drawn, eye.seen) == (0, 0)
    root = there.directory.root
    hidden = [name.removeprefix(f"{root}/") for name in there.directory.fs.find(root) if "/." in name]
    assert hidden == [".file-stamps.json"]
