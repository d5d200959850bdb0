"""An HTTP client that no server can fill, hold up, or send to another place.

It is the client that the package ``openai`` uses, with its proxies and certificates. What is added are hooks of that
client and of the connections below it:

* a request as a whole has a deadline, from its connection to the last byte, however slowly the bytes drip;
* an answer has a limit to its bytes, counted once they are decompressed;
* a redirect is followed on the same host only, and a few times;
* a connection to an address that is not public is closed before anything is sent, unless the user named the host.

The address is looked at once the connection is there, so a name that resolves to another address every time gains
nothing. See decision 42.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import inf
from time import monotonic
from typing import Any, Final

MOST_REDIRECTS: Final = 3
"""Redirects of one request on its own host, such as to an address with a slash at its end."""

MOST_ERROR_BYTES: Final = 1_000_000
"""The most bytes of an answer that reports an error, and so holds no image."""

MOST_PIECES: Final = 200_000
"""Lists, mappings and further items in an answer in JSON: each takes some thirty times its bytes once it is read."""

_UNZIPPED: Final = 2**16
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_UNICAST: Final = ipaddress.ip_network("2000::/3")
"""The IPv6 block that IANA allocates to global unicast; site-local addresses and local NAT64 lie outside it."""


class AnswerRefusedError(Exception):
    """An answer that is not taken, or a place that is not asked. The message is a sentence."""


@dataclass(frozen=True)
class Bounds:
    """Limits on what a server may do.

    Attributes
    ----------
    most_bytes : of an answer, decompressed.
    seconds : of a request, with its redirects and the whole answer.
    own_hosts : hosts that the user named. They may lie anywhere, and a redirect may lead to them.
    json : whether answers are JSON, which holds at most `MOST_PIECES`.
    """

    most_bytes: int
    seconds: float
    own_hosts: frozenset[str]
    json: bool = False


def guarded_client(bounds: Bounds) -> Any:
    """Make a client of the kind that ``openai`` takes, within bounds.

    Connections are not kept for a further request: each belongs to one deadline.
    """
    import openai

    library = http_library()

    def begin(request: Any) -> None:
        watch = request.extensions.get("trace")
        if isinstance(watch, _Watch):
            watch.redirects += 1
        else:
            watch = _Watch(bounds)
        watch.start(request.url.raw_host.decode("ascii"))
        request.extensions["trace"] = watch

    def receive(response: Any) -> None:
        _stay(response, bounds)
        coding = response.headers.pop("content-encoding", "identity").strip().lower()
        if coding not in ("identity", "gzip"):
            raise AnswerRefusedError(f"the answer is compressed as {coding[:30]!r}; plain or gzip was asked for")
        most = bounds.most_bytes if response.is_success else MOST_ERROR_BYTES
        if int(response.headers.get("content-length", 0)) > most:
            raise _too_large(most)
        chunks = _bound(_plain(iter(response.stream), coding), most, MOST_PIECES if bounds.json else None)
        response.stream = _stream_class(library)(chunks, response.stream)

    return openai.DefaultHttpxClient(
        verify=_certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        event_hooks={"request": [begin], "response": [receive]},
        headers={"Accept-Encoding": "gzip"},
        limits=library.Limits(max_connections=1000, max_keepalive_connections=0),
        timeout=bounds.seconds,
        follow_redirects=True,
        max_redirects=MOST_REDIRECTS + 1,
    )


@cache
def _certificates(file: str | None, folder: str | None) -> Any:
    """Read the certificates that are trusted once for all clients: it takes 30 ms, far more than the rest of a client.

    ``file``, ``folder`` : what the environment names instead of the system's own.
    """
    return http_library().create_ssl_context()


def http_library() -> Any:
    """Return the HTTP library below ``openai``: httpx, or its successor in later versions."""
    import openai

    return import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])


def deadline_of(response: Any) -> float:
    """Return the moment, by the monotonic clock, at which a response should be read; infinity of an unguarded one."""
    return float(getattr(response.request.extensions.get("trace"), "deadline", inf))


def host_of(url: str) -> str:
    """Return the host of an address as connections name it: in lower case, ASCII, without brackets."""
    return str(http_library().URL(url).raw_host.decode("ascii"))


def is_public(address: str) -> bool:
    """Return whether an IP address is public: not private, loopback, link-local or multicast."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is None and ip not in _UNICAST:
            return False
        ip = inner or ip
    return ip.is_global and not ip.is_multicast


def _stay(response: Any, bounds: Bounds) -> None:
    """Remove a redirect that leads elsewhere, or one too many, from an answer, and note it in its ``extensions``."""
    if not response.has_redirect_location:
        return
    here, location = response.request.url, response.headers["location"]
    try:
        there = here.join(location)
        host = there.raw_host.decode("ascii")
        follows = host == here.raw_host.decode("ascii") or host in bounds.own_hosts
        follows &= there.scheme in (here.scheme, "https")
    except Exception:  # no address at all, in many ways
        there, follows = location[:100], False
    redirects = getattr(response.request.extensions.get("trace"), "redirects", 0)
    if not follows or redirects >= MOST_REDIRECTS:
        del response.headers["location"]
        response.extensions["leads_to"] = (str(there), follows)


class _Watch:
    """One request under its deadline; the connection below calls it for all that happens, as its ``trace``."""

    def __init__(self, bounds: Bounds) -> None:
        self.redirects = 0
        self._bounds = bounds
        self.deadline = monotonic() + bounds.seconds
        self._expired = False
        self._socket: socket.socket | None = None

    def start(self, host: str) -> None:
        """Begin a request, or what a redirect makes of it: the deadline stays."""
        self._host = host
        self._timer = threading.Timer(max(0.0, self.deadline - monotonic()), self._expire)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, event: str, info: dict[str, Any]) -> None:
        _, _, what = event.partition(".")
        if what == "connect_tcp.started":
            self._connecting = info["host"]
            with suppress(OSError):  # which the connection meets, too
                for *_, place in socket.getaddrinfo(info["host"], info["port"], type=socket.SOCK_STREAM):
                    self._require_public(str(place[0]))  # before anything is sent there
        elif what in ("connect_tcp.complete", "start_tls.complete"):
            stream = info["return_value"]
            self._socket = stream.get_extra_info("socket")
            try:
                self._require_public(str(stream.get_extra_info("server_addr")[0]))
            except AnswerRefusedError:
                stream.close()
                raise
            if self._expired:
                self._expire()
        elif what in ("connect_tcp.failed", "start_tls.failed", "response_closed.complete"):
            self._timer.cancel()
        elif self._expired and what.endswith((".complete", ".failed")):
            raise http_library().ReadTimeout(f"no whole answer within {self._bounds.seconds:g} s")

    def _require_public(self, address: str) -> None:
        host = self._connecting
        # Another host than was asked for is a proxy, which the user set and which has rules of its own.
        if host != self._host or host in self._bounds.own_hosts or is_public(address):
            return
        self._timer.cancel()
        place = host if host == address else f"{host} ({address})"
        raise AnswerRefusedError(f"{place} is not a public address; give --trusted-host {host} if you trust it")

    def _expire(self) -> None:
        """Close the socket while another thread reads from it."""
        self._expired = True
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # and not as TLS would, which may wait


def _plain(chunks: Iterator[bytes], coding: str) -> Iterator[bytes]:
    """Decompress a little at a time: a small chunk may unfold to gigabytes."""
    if coding == "identity":
        yield from chunks
        return
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for chunk in chunks:
        rest = chunk
        while rest and not unzip.eof:
            yield unzip.decompress(rest, _UNZIPPED)
            rest = unzip.unconsumed_tail


def _bound(chunks: Iterator[bytes], most_bytes: int, most_pieces: int | None) -> Iterator[bytes]:
    size = pieces = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most_bytes:
            raise _too_large(most_bytes)
        if most_pieces is not None:
            pieces += sum(chunk.count(mark) for mark in (b",", b"[", b"{"))
            if pieces > most_pieces:
                raise AnswerRefusedError(f"the answer has more than {most_pieces:,} parts; no image has")
        yield chunk


def _too_large(most: int) -> AnswerRefusedError:
    return AnswerRefusedError(f"the answer has more than {most:,} bytes, which is the limit")


@cache
def _stream_class(library: Any) -> Any:
    """Make the class that shows chunks as a stream of the library's own kind, which its client insists on."""

    class Stream(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, chunks: Iterator[bytes], below: Any) -> None:
            self._chunks, self._below = chunks, below

        def __iter__(self) -> Iterator[bytes]:
            return self._chunks

        def close(self) -> None:
            self._below.close()

    return Stream
