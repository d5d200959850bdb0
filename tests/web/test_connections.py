"""What holds connections open, or sends and reads slowly, keeps nobody else out: real sockets of this machine."""

import selectors
import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest

from clinometer.web.app import MOST_HEAD, create_app, server_over
from clinometer.web.security import LOCAL_HOSTS, ServerSettings

HEAD = b"GET /login HTTP/1.1\r\nHost: localhost\r\n"
HELD = 1_000
FORM = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 9\r\n\r\nx"
)
FOREVER = 3_600.0
LARGE = "x" * 50_000_000


@contextmanager
def serving(tmp_path, **settings):
    """A server in a thread; give its port."""
    app = create_app(ServerSettings(runs=(str(tmp_path),), cache=tmp_path, hosts=LOCAL_HOSTS, **settings))

    @app.get("/large")
    def large() -> str:
        return LARGE

    with socket.create_server(("0.0.0.0", 0), backlog=HELD) as listening:
        server = server_over(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def connected(port, source="127.0.0.1", sent=b""):
    one = socket.create_connection(("127.0.0.1", port), timeout=600, source_address=(source, 0))
    if sent:
        one.sendall(sent)
    return one


def answer(port, source):
    """Ask for a page, and read until the server closes."""
    with connected(port, source, HEAD + b"Connection: close\r\n\r\n") as one:
        return b"".join(iter(lambda: one.recv(65_536), b""))


def is_ended(one):
    """Wait until the server ends a connection."""
    try:
        while one.recv(65_536):
            pass
    except ConnectionError:
        pass
    return True


def ended(held, wanted):
    """Wait until the server has ended so many of some connections; give these."""
    found = []
    with selectors.DefaultSelector() as selector:
        for one in held:
            selector.register(one, selectors.EVENT_READ)
        while len(found) < wanted:
            for key, _ in selector.select():
                selector.unregister(key.fileobj)
                found.append(key.fileobj)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("begun", [b"", HEAD, FORM], ids=["nothing", "half a head", "half a body"])
def test_a_thousand_held_connections_shut_nobody_out(tmp_path, begun):
    settings = ServerSettings()
    with serving(tmp_path, patience=FOREVER) as port, ExitStack() as stack:
        held = [stack.enter_context(connected(port)) for _ in range(HELD)]
        refused = ended(held, HELD - settings.connections_each)
        for one in set(held) - set(refused):
            one.sendall(begun)
        assert answer(port, "127.0.0.2").startswith(b"HTTP/1.1 200")
        with selectors.DefaultSelector() as selector:  # those within the share of their address are left alone
            for one in set(held) - set(refused):
                selector.register(one, selectors.EVENT_READ)
            assert not selector.select(0)
        assert len(held) - len(refused) == settings.connections_each


def test_a_full_server_takes_from_the_address_that_holds_most(tmp_path):
    with serving(tmp_path, patience=FOREVER, connections=6, connections_each=4) as port, ExitStack() as stack:
        many = [stack.enter_context(connected(port, "127.0.0.1", HEAD)) for _ in range(4)]
        few = [stack.enter_context(connected(port, "127.0.0.2", HEAD)) for _ in range(2)]
        assert answer(port, "127.0.0.3").startswith(b"HTTP/1.1 200")
        assert len(ended(many, 1)) == 1
        for one in few:
            one.sendall(b"\r\n")
            assert one.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        HEAD,
        FORM,
        HEAD + b"\r\n" + HEAD,
        b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "half a second head", "an answer that is not taken"],
)
def test_what_waits_for_its_other_side_ends(tmp_path, begun):
    with serving(tmp_path, patience=0.2) as port, connected(port, sent=begun) as one:
        assert sent_until_reset(one, HEAD + b"\r\n") if b"large" in begun else is_ended(one)


def sent_until_reset(one, piece, most=100 * MOST_HEAD):
    """Send a piece over and over, and take nothing, until the server ends the connection."""
    sent = 0
    try:
        while sent < most:
            one.sendall(piece)
            sent += len(piece)
    except ConnectionError:
        return True
    return False


def test_a_head_that_drips_ends_too(tmp_path):
    with serving(tmp_path, patience=0.2) as port, connected(port, sent=HEAD + b"X: ") as one:
        for _ in range(10):
            one.sendall(b"x")
        assert is_ended(one)


def test_a_head_without_end_is_not_kept(tmp_path):
    with serving(tmp_path, patience=FOREVER) as port, connected(port, sent=HEAD) as one:
        assert sent_until_reset(one, b"X-Filler: " + b"x" * 10_000 + b"\r\n")


def test_a_body_that_is_too_large_is_refused_before_it_comes(tmp_path):
    head = FORM.replace(b"Content-Length: 9\r\n\r\nx", b"")
    with serving(tmp_path, patience=FOREVER) as port:
        for rest in (
            b"Content-Length: 9900000\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n40\r\n" + b"&" * 64 + b"\r\n",
        ):
            with connected(port, sent=head + rest) as one:
                assert one.recv(12) == b"HTTP/1.1 413"
