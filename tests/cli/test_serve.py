"""``clinometer serve`` as a user starts it."""

import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

from clinometer.cli import serve as module
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError, RunNotFoundError
from clinometer.web.app import create_app
from clinometer.web.database import reading
from clinometer.web.ratings.tasks import listed_tasks
from clinometer.web.security import ServerSettings
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    quick.audit(Painter(), toy_suite(concepts=2), place / "run", encoder=Eye())
    return place


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Nobody's own database of ratings is used, or moved."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def served(runs, tmp_path):
    """Start the command; give its process and address."""
    processes = []

    def started(*options, **environment):
        words = [sys.executable, "-m", "clinometer", "serve", str(runs), "--port", "0", *options]
        process = subprocess.Popen(
            [*words, "--cache", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )  # fmt: skip
        processes.append(process)
        return process, re.search(r"http://\S+", process.stdout.readline())[0]

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def serve(*words, **environment):
    """Serve within this process, which ends by the error that the test expects."""
    CliRunner(env=environment).invoke(app, ["serve", *map(str, words)], catch_exceptions=False)


def test_a_demonstration_is_added_to_what_is_served(runs, tmp_path):
    served = create_app(ServerSettings(runs=(str(runs),), cache=tmp_path, data=tmp_path))
    module._add_demo(served)
    with reading(served.state.ratings.engine) as session:
        (listed,) = listed_tasks(session)
    assert (listed.raters, listed.answers) == (0, 0)
    assert listed.simulated_answers > listed.simulated_raters > 1


@pytest.mark.thorough
@pytest.mark.slow
def test_it_serves_until_it_is_stopped(served):
    process, address = served()
    page = httpx.get(address, timeout=600, follow_redirects=True)
    assert page.status_code == 200
    assert str(page.url).startswith(f"{address}/explore?run=")
    assert "painter" in httpx.get(f"{address}/runs", timeout=600).text
    assert "server" not in page.headers
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=600) in (
        0,
        130,
    )  # the server may have ended by itself before the signal is raised again
    assert "Traceback" not in process.stderr.read()


@pytest.mark.thorough
@pytest.mark.slow
def test_the_demonstration_is_there_to_rate(served):
    process, address = served("--demo")
    assert f"{address}/runs" in process.stdout.readline()
    assert "data/clinometer/ratings.sqlite (none yet)" in process.stdout.readline()
    page = httpx.get(f"{address}/ratings", timeout=600).text
    assert "Demonstration: simulated raters" in page
    shown = httpx.get(f"{address}/explore", timeout=600, follow_redirects=True)
    assert str(shown.url).startswith(f"{address}/explore?run=")
    assert "people-say" in shown.text


@pytest.mark.thorough
@pytest.mark.slow
def test_with_a_password_nothing_is_shown_without_it(served):
    _, address = served("--host", "0.0.0.0", CLINOMETER_PASSWORD="correct horse battery")
    address = address.replace("0.0.0.0", "127.0.0.1")
    assert httpx.get(f"{address}/runs", timeout=600).status_code == 303
    token = {"Authorization": "Bearer correct horse battery"}
    assert "painter" in httpx.get(f"{address}/runs", headers=token, timeout=600).text


def test_another_host_needs_a_password(runs):
    with raises(InvalidInputError, code=Code.MISSING, match="--password-file"):
        serve(runs, "--host", "0.0.0.0", CLINOMETER_PASSWORD="")


def test_a_place_that_is_not_there_is_told(tmp_path, monkeypatch):
    with raises(RunNotFoundError, code=Code.NOT_FOUND, match="nowhere: "):
        serve(tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)
    with raises(RunNotFoundError, code=Code.NOT_FOUND, match="^runs: "):
        serve()


def test_a_port_that_is_taken_is_told(runs, tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        raises(InvalidInputError, code=Code.FAILED, match="--port"),
    ):
        serve(runs, "--port", taken.getsockname()[1], "--cache", tmp_path)


def test_without_the_extra_it_says_what_to_install(runs, monkeypatch):
    monkeypatch.setattr(module, "NEEDED", ("no_such_module",))
    with raises(InvalidInputError, code=Code.NOT_INSTALLED, match=r"clinometer\[web\]"):
        serve(runs)
