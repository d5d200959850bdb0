"""A server that fills, holds up or sends elsewhere whoever asks it: each is ended soon, with its reason."""

import base64
import gzip
import itertools
import json
import socket
import time
from contextlib import suppress
from importlib.util import find_spec

import pytest

from clinometer.errors import Code, ModelError
from clinometer.models import GenerationRequest
from clinometer.models import openai as client
from clinometer.models import openai as guarded
from clinometer.models.openai.images import load
from tests.models.openai.image_server import ImageServer, drawn, png
from tests.raising import raises

pytestmark = pytest.mark.skipif(not find_spec("openai"), reason="openai is not installed")

REQUESTS = [GenerationRequest(str(number), f"lean 0.{number}0", number) for number in range(1, 7)]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def drip(pause=0.05, piece=b" "):
    while True:
        time.sleep(pause)
        yield piece


def ask(server, requests=REQUESTS[:1], **options):
    generator = load("gpt-image-1", **({"price": 0, "base_url": server.url, "retries": 0} | options))
    return list(generator.generate(requests))


def of_answer(answer, **options):
    with ImageServer(lambda number, asked: answer) as server:
        (result,) = ask(server, **options)
        return result, server


def by_address(lying, url=None, **options):
    with ImageServer() as server:
        server.lying = lying
        place = url(server) if url else f"{server.root}/a.png"
        server.behaviour = lambda number, asked: (200, {"data": [{"url": place}]}, {})
        (result,) = ask(server, **options)
        return result, server


ENDLESS = {
    "spaces": (b"", b" " * 65536),
    "one string": (b'{"data":[{"b64_json":"', b"A" * 65536),
    "lists": (b"", b"[" * 65536),
    "items": (b"[", b"{},[]," * 10000),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("status", [200, 500])
def test_an_endless_answer_ends(kind, status, monkeypatch):
    monkeypatch.setattr("clinometer.models.openai.MOST_ANSWER_BYTES", 3_000_000)
    first, rest = ENDLESS[kind]
    result, server = of_answer((status, itertools.chain([first], itertools.repeat(rest)), {}))
    assert result.status == "failed"
    assert "the answer has more than" in result.reason
    assert server.sent < 20_000_000  # what the system's buffers take


def test_a_bomb_in_an_answer_is_unpacked_up_to_the_limit(monkeypatch):
    monkeypatch.setattr("clinometer.models.openai.MOST_ANSWER_BYTES", 3_000_000)
    bomb = gzip.compress(b" " * 200_000_000)
    result, _ = of_answer((200, bomb, {"Content-Encoding": "gzip"}))
    assert "more than 3,000,000 bytes" in result.reason


def test_an_answer_that_is_packed_is_read():
    with ImageServer() as server:
        server.behaviour = lambda number, asked: (
            200, gzip.compress(json.dumps(drawn(asked)[1]).encode()), {"Content-Encoding": "gzip"}
        )  # fmt: skip
        assert ask(server)[0].status == "ok"


@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "deflate"])
def test_an_answer_that_is_packed_in_another_way_is_not_read(coding):
    result, _ = of_answer((200, b"x", {"Content-Encoding": coding}))
    assert (result.status, "compressed as" in result.reason) == ("failed", True)


def test_a_length_that_is_told_is_enough_to_refuse():
    result, server = of_answer((200, iter(()), {"Content-Length": str(10**12)}))
    assert "more than" in result.reason
    assert server.sent == 0


@pytest.mark.parametrize("head", ["open", "whole"])
@pytest.mark.parametrize("way", ["answer", "address"])
def test_an_answer_that_drips_is_given_up_in_time(head, way):
    """It drips without an end, so who does not give it up does not end either."""
    headers = {"X-Head": head}
    if way == "answer":
        result, _ = of_answer((200, drip(), headers), timeout=1.0)
    else:
        result, _ = by_address(lambda number: (200, drip(piece=b"a"), headers), timeout=1.0)
    assert result.status == "failed"
    assert "timed out" in result.reason.lower() or "no whole answer within 1 s" in result.reason


def test_a_slow_answer_in_time_is_taken():
    with ImageServer() as server:
        body = base64.b64encode(png("a", 1))
        pieces = [b'{"data":[{"b64_json":"', *(body[i : i + 40] for i in range(0, len(body), 40)), b'"}]}']
        server.behaviour = lambda number, asked: (200, (time.sleep(0.02) or each for each in pieces), {})
        (result,) = ask(server, timeout=300)
    assert result.status == "ok"


def test_attempts_to_fetch_an_image_end_with_the_time():
    result, server = by_address(lambda number: (503, {}, {}), timeout=1.0, retries=1000)
    assert server.fetched < 1000
    assert result.status == "failed"


def test_a_file_beyond_the_limit_is_not_read(monkeypatch):
    monkeypatch.setattr("clinometer.models.openai.MOST_BYTES", 1_000_000)
    result, server = by_address(lambda number: (200, itertools.repeat(b"\0" * 65536), {}))
    assert "more than 1,000,000 bytes" in result.reason
    assert server.sent < 20_000_000
    assert server.fetched == 1  # asked again it would be no smaller


def loop(server):
    return lambda number, asked: (307, {}, {"Location": "/v1/images/generations"})


def elsewhere(server):
    return lambda number, asked: (307, {}, {"Location": "http://127.0.0.2:9/v1/images/generations"})


@pytest.mark.parametrize("kind", [loop, elsewhere])
def test_a_server_that_sends_requests_on_is_asked_a_few_times_and_told(kind):
    with ImageServer() as server:
        server.behaviour = kind(server)
        with raises(ModelError, code=Code.REFUSED):
            ask(server, REQUESTS * 3, retries=6, concurrency=4)
        assert len(server.asked) <= 4 * (1 + guarded.MOST_REDIRECTS)


def test_a_redirect_on_the_same_host_is_followed():
    with ImageServer() as server:
        server.behaviour = lambda number, asked: (
            (307, {}, {"Location": f"{server.root}/v2/images"}) if number == 1 else drawn(asked)
        )
        assert ask(server)[0].status == "ok"


def test_a_redirect_to_a_trusted_host_is_followed_and_takes_no_key_along():
    with ImageServer() as other, ImageServer() as server:
        place = f"{other.root}/v1/images".replace("127.0.0.1", "localhost")
        server.behaviour = lambda number, asked: (307, {}, {"Location": place})
        with suppress(ModelError):  # the test's server stumbles over a request without a key
            ask(server, trusted_host=["localhost"], timeout=2)
        assert len(server.asked) == 1
        with raises(ModelError, code=Code.REFUSED):
            ask(server)


def names(monkeypatch, *answers, **table):
    """Let the system's resolver answer for names: from the table, or each time with the next of some answers."""
    real, left = socket.getaddrinfo, list(answers)

    def resolve(host, port, *args, **kwargs):
        name = host.decode() if isinstance(host, bytes) else host
        if name.endswith(".example"):
            name = table.get(name.removesuffix(".example")) or (left.pop(0) if len(left) > 1 else left[0])
        return real(name, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize(
    "host", ["10.1.2.3", "169.254.169.254", "192.168.0.1", "127.0.0.2", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
)
def test_no_image_is_fetched_from_a_private_address(host):
    result, server = by_address(None, lambda server: f"http://{host}:9/a.png", retries=6)
    assert (result.status, server.fetched) == ("failed", 0)
    assert "is not a public address; give --trusted-host" in result.reason


def test_nor_from_a_name_that_leads_there(monkeypatch):
    names(monkeypatch, inner="127.0.0.1", api="127.0.0.1")
    with ImageServer() as server:
        port = server.root.rpartition(":")[2]
        server.behaviour = lambda number, asked: (200, {"data": [{"url": f"http://inner.example:{port}/a.png"}]}, {})
        base = f"http://api.example:{port}/v1"
        (result,) = ask(server, base_url=base)
        assert "inner.example (127.0.0.1) is not a public address" in result.reason
        assert (len(server.asked), server.fetched) == (1, 0)
        (result,) = ask(server, base_url=base, trusted_host=["Inner.Example"])
        assert (result.status, server.fetched) == ("ok", 1)


def test_nor_from_a_name_that_leads_there_the_second_time(monkeypatch):
    names(monkeypatch, "93.184.215.14", "127.0.0.1")
    with ImageServer() as server:
        port = server.root.rpartition(":")[2]
        server.behaviour = lambda number, asked: (200, {"data": [{"url": f"http://turns.example:{port}/a.png"}]}, {})
        (result,) = ask(server)
        assert "turns.example (127.0.0.1) is not a public address" in result.reason
        assert server.fetched == 0


@pytest.mark.parametrize("host", ["127.0.0.2:9", "169.254.169.254", "example.org"])
def test_a_download_is_sent_nowhere_else(host):
    result, server = by_address(lambda number: (302, {}, {"Location": f"http://{host}/a.png"}))
    assert (result.status, server.fetched) == ("failed", 1)
    assert f"leads on to http://{host}, which is not followed" in result.reason


def test_a_download_that_turns_in_a_circle_ends():
    result, server = by_address(lambda number: (302, {}, {"Location": "/a.png"}), retries=6)
    assert result.status == "failed"
    assert "again and again, which is not followed; check" in result.reason
    assert server.fetched == 1 + guarded.MOST_REDIRECTS


@pytest.mark.parametrize("location", ["http://[", "file:///etc/passwd", "\x00", "http://" + "a" * 10_000])
def test_a_redirect_to_no_address_fails(location):
    result, server = by_address(lambda number: (302, {}, {"Location": location}))
    assert (result.status, server.fetched) == ("failed", 1)


def test_a_proxy_of_the_users_may_be_private(monkeypatch):
    with ImageServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.root)
        monkeypatch.setenv("no_proxy", "")
        (result,) = ask(proxy, base_url="http://api.example/v1")
        assert result.status == "ok"


@pytest.mark.parametrize("host", ["", "http://a.example", "a.example:80", "a.example/b", "a b"])
def test_what_is_trusted_is_a_host(host):
    with raises(ModelError, code=Code.MALFORMED, field="trusted_host", match="trusted_host: "):
        load("gpt-image-1", price=0, base_url="http://localhost:1/v1", trusted_host=[host])


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("127.0.0.1", False), ("10.0.0.1", False), ("100.64.0.1", False),
        ("169.254.169.254", False), ("224.0.0.1", False), ("::1", False), ("fe80::1", False), ("fd00::1", False),
        ("::ffff:8.8.8.8", True), ("::ffff:10.0.0.1", False), ("64:ff9b::a00:1", False), ("2002:a00:1::", False),
        ("64:ff9b::808:808", True), ("64:ff9b:1::a00:1", False), ("::ffff:0:10.0.0.1", False), ("::127.0.0.1", False),
        ("fec0::1", False),
    ],
)  # fmt: skip
def test_which_addresses_are_public(address, public):
    assert guarded.is_public(address) is public


@pytest.mark.thorough
def test_the_guard_holds_over_the_older_library_too(monkeypatch):
    import httpx
    import openai

    class Older(httpx.Client):
        pass

    monkeypatch.setattr(openai, "DefaultHttpxClient", Older)
    assert guarded.http_library() is httpx
    result, _ = by_address(lambda number: (200, drip(piece=b"a"), {"X-Head": "open"}), timeout=5.0)
    assert "no whole answer within 5 s" in result.reason
    result, _ = by_address(None, lambda server: "http://127.0.0.2:9/a.png")
    assert "is not a public address" in result.reason
    result, _ = by_address(lambda number: (302, {}, {"Location": "/a.png"}))
    assert "is not followed" in result.reason
    monkeypatch.setattr("clinometer.models.openai.MOST_ANSWER_BYTES", 3_000_000)
    result, _ = of_answer((200, itertools.repeat(b" " * 65536), {}))
    assert "the answer has more than" in result.reason


def test_what_is_heard_of_a_server_is_bounded():
    assert len(client.text_of("x" * 10**7)) == client.HEARD
