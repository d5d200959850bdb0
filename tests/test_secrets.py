"""Passwords within addresses, and keys in their paths, are nowhere in what is printed or stored."""

import base64
import io
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer import _secrets
from clinometer._secrets import MaskedStream, masked, masked_address, masked_values, recalled, remember
from clinometer.errors import ClinometerError, Code
from tests import quick
from tests.models.openai.image_server import ImageServer, drawn, error
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

PASSWORD, KEY = "hunter2-and/more", "gw0123456789abcdefKEY"
USER = f"me:{PASSWORD}@"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """Secrets of one test are no words of another."""
    monkeypatch.setattr(_secrets, "_known", {})
    monkeypatch.setattr(_secrets, "_authorities", {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:pw@host/a", "http://…@host/a"),
        ("http://me:p@w@host/a", "http://…@host/a"),
        ("see (s3://AKIA:se/cr+et@bucket/run).", "see (s3://…@bucket/run)."),
        ("postgresql+psycopg://me:1234@host/name", "postgresql+psycopg://…@host/name"),
        ("https://hf_token@host", "https://…@host"),
        ("filecache::sftp://me:pw@host/a", "filecache::sftp://…@host/a"),
        ("http://me:@host, http://me:pw@b", "http://…@host, http://…@b"),
        ("http://:@host, a: b", "http://…@host, a: b"),
        ("https://host/v1?api-version=2&api-key=abc&subscription_key=d#x", None),
        ("https://host/v1?a=1&amp;sig=abc", "https://host/v1?a=1&amp;sig=…"),
    ],
)
def test_what_an_address_holds_is_masked(text, shown):
    shown = shown or "https://host/v1?api-version=2&api-key=…&subscription_key=…#x"
    assert masked(text) == shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:8000/a@b", "http://[::1]:8000/a@b", "s3://bucket/a:b@c", "file:///a:b@c", "a: b@c.org",
        "postgresql+psycopg://me@host/name", "https://host/runs?page=2&of=target/a", "memory://run",
        "hf://datasets/me/name@main/run", "::1", "http://host:80, me@example.org", "",
    ],
)  # fmt: skip
def test_what_holds_none_stays(text):
    assert masked(text) == text


@pytest.mark.parametrize(
    "path",
    [
        "v1", "openai/v1", "v1beta1/images", "inference/v1/accounts/fireworks/models/flux-1-dev-fp8/text_to_image",
        "openai/deployments/my-deployment-2024-02-15", "models/stable-diffusion-xl-base-1.0", "FLUX.1-schnell",
        "Qwen2.5", "playground-v2.5-1024px-aesthetic", "StableDiffusion", "gpt-4o", "sd3.5", "us-central1", "@cf/model",
    ],
)  # fmt: skip
def test_names_in_a_path_tell_models_apart(path):
    assert masked_address(f"https://host:80/{path}/", keys_in_path=True) == f"https://host:80/{path}/"


@pytest.mark.parametrize(
    "key",
    [
        KEY, "sk-abc", "0123456789abcdef0123456789abcdef", "3f2a1b4c-9d8e-4f00-8a7b-001122334455", "s3cr3t",
        "my-secret", "token", "TOPSECRETKEY", "AbCdEfGhIjKl", "dGhpcyBpcyBhIGtleQ%3D%3D", "123456789012",
        "correcthorsebatterystaple",
    ],
)  # fmt: skip
def test_what_may_be_a_key_in_a_path_is_masked(key):
    assert masked_address(f"https://host/{key}/openai/v1?a=b", keys_in_path=True) == "https://host/…/openai/v1?a=b"
    if not key.isalpha() or len(key) > 11:
        assert masked(f"Max retries exceeded with url: /{key}/openai") == "Max retries exceeded with url: /…/openai"


def test_a_secret_that_was_seen_is_found_without_its_address():
    assert masked_address(f"s3://{USER}bucket/run") == "s3://…@bucket/run"
    assert masked(f"Invalid bucket name {USER}bucket, {PASSWORD}, hunter2-and%2Fmore") == (
        "Invalid bucket name …@bucket, …, …"
    )
    masked_address("http://me:password@host")
    assert masked("give --password-file") == "give --password-file"  # a word is no secret by itself


def test_a_masked_address_leads_back_as_long_as_the_process_knows_it():
    url = f"http://{USER}host/runs/one"
    for address in (url, url.replace("one", "two")):
        assert recalled(masked_address(url).replace("one", address[-3:])) == address
    for other in ("http://…@hostile/run", "http://…@other/run", "/a/…@host"):
        assert recalled(other) == other


def test_errors_and_streams_are_masked():
    remember(KEY)
    for kind in (ClinometerError, cm.errors.InvalidInputError, cm.errors.RunStorageError):
        said = kind(f"http://{USER}host: {KEY}")
        assert f"{said} {said!r} {said.args}".count("…") == 6
        assert PASSWORD not in repr(said)
    kept = io.StringIO()
    stream = MaskedStream(kept)
    print(f"http://{USER}host", KEY, file=stream)
    stream.writelines([KEY, "\n"])
    assert kept.getvalue() == "http://…@host …\n…\n"
    assert stream.closed is False


def test_a_record_holds_addresses_without_secrets():
    options = {"base_url": f"https://{USER}host/{KEY}/v1", "price": 0.1, "trusted_host": ["a"], "other": None}
    shown = masked_values({"options": options, "images": 20})
    assert shown == {"options": options | {"base_url": "https://…@host/…/v1"}, "images": 20}
    assert masked_values(shown) == shown


# --- from end to end -------------------------------------------------------------------------------------------------


def texts_of(folder):
    """Everything that a folder's files hold, tables unfolded."""
    for file in Path(folder).rglob("*"):
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            yield str(table.schema.metadata) + str(
                table.drop_columns([n for n in ("image",) if n in table.column_names]).to_pylist()
            )
        elif file.is_file():
            yield file.read_bytes().decode("utf-8", "replace")


def command(monkeypatch, *words):
    """Run a command as the user does; give what it prints and its status."""
    said = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["clinometer", *map(str, words)])
    monkeypatch.setattr(sys, "stdout", said)
    monkeypatch.setattr(sys, "stderr", said)
    from clinometer.cli import main

    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code
    return said.getvalue(), status


def is_clean(text):
    return not any(secret in text for secret in (PASSWORD, PASSWORD.replace("/", "%2F"), KEY, "hunter2"))


@pytest.mark.thorough
def test_a_server_s_address_leaves_neither_password_nor_key(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-very-secret-key")

    def behaviour(number, asked):
        if number % 5 == 0:
            return error(400, "bad", f"no route {asked['path']} at http://{USER}inner/{KEY}, key sk-a-very-secret-key")
        return drawn(asked)

    with ImageServer(behaviour) as server:
        url = server.url.replace("//", f"//{USER.replace('/', '%2F')}").replace("/v1", f"/{KEY}/v1")
        options = {"base_url": url, "price": 0.0, "retries": 0}
        run = quick.audit(
            "openai:m", toy_suite(concepts=2), tmp_path / "run", encoder=Eye(), model_options=options, report=True
        )
        assert all(KEY in asked["path"] for asked in server.asked)
    assert run.model_card["settings"]["server"].endswith("/…/v1")
    assert run.samples.reason.dropna().str.contains("…").any()
    words = [("card", run.url), ("report", run.url), ("gate", run.url), ("verify", run.url)]
    printed = [command(monkeypatch, *each)[0] for each in words]
    assert "--base-url URL" in printed[0]
    for text in (*printed, *texts_of(tmp_path)):
        assert is_clean(text)
        assert "sk-a-very-secret-key" not in text


def test_a_crash_keeps_secrets_to_itself(tmp_path, monkeypatch):
    from clinometer.cli import app as module

    def crashing():
        raise RuntimeError(f"no answer of http://{USER}host/{KEY}/v1")

    monkeypatch.setattr(module, "app", crashing)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    url = f"http://{USER}host/{KEY}/v1"
    for words in (["audit", "--base-url", url], ["--debug", "audit", f"--base-url={url}"]):
        said, status = command(monkeypatch, *words)
        assert status == 70
        assert is_clean(said)
    assert all(map(is_clean, texts_of(tmp_path)))
    assert any("RuntimeError" in text for text in texts_of(tmp_path))


def test_an_object_store_s_address_is_masked(monkeypatch):
    pytest.importorskip("s3fs")
    for words in (("report",), ("verify",), ("--debug", "score")):
        said, status = command(monkeypatch, *words, f"s3://AKIA1234:{PASSWORD}@bucket/run")
        assert status == 2
        assert "bucket" in said
        assert is_clean(said)


class _Behind(SimpleHTTPRequestHandler):
    """Files for whoever knows the password."""

    def do_GET(self):
        known = base64.b64encode(USER.removesuffix("@").encode()).decode()
        if self.headers.get("Authorization") != f"Basic {known}":
            return self.send_error(401)
        return super().do_GET()

    def do_HEAD(self):
        return self.do_GET()

    def log_message(self, *_):
        pass


@contextmanager
def behind_a_password(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Behind, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{USER.replace('/', '%2F')}127.0.0.1:{server.server_port}"
        server.shutdown()


def test_runs_behind_a_password_are_read_and_it_is_shown_nowhere(tmp_path, monkeypatch):
    pytest.importorskip("aiohttp")
    for name in ("one", "two"):
        quick.audit(Painter(), toy_suite(concepts=2), tmp_path / "runs" / name, encoder=Eye())
    with behind_a_password(tmp_path / "runs") as url:
        run = cm.open_run(f"{url}/one")
        shown = [repr(run), run._repr_html_()]
        assert "…@127.0.0.1" in shown[0]
        shown += [command(monkeypatch, "verify", f"{url}/one")[0], command(monkeypatch, "report", f"{url}/none")[0]]
        shown += [command(monkeypatch, "compare", f"{url}/one", f"{url}/two", "--out", tmp_path / "comparison")[0]]
        shown += texts_of(tmp_path / "comparison")
        assert all(map(is_clean, shown))
        assert cm.open_run(run.directory.shown).suite.name == run.suite.name  # as a database names it


def test_a_database_is_named_without_its_password(tmp_path):
    from clinometer.errors import RatingsError
    from clinometer.web.database import open_database

    with raises(RatingsError, code=Code.UNREADABLE) as caught:
        open_database("postgresql+psycopg://me:hunter2@127.0.0.1:1/ratings")
    assert is_clean(str(caught.value))
