"""Models behind OpenAI's protocol, and what their adapters share: terms, connection, pace, and which errors end it all.

Address and key are checked before anything is sent, and what a server may do is bounded.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import os
import re
import socket
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from clinometer._secrets import masked, masked_address, remember
from clinometer.errors import ModelError
from clinometer.models.weights import describe, in_one_line

T = TypeVar("T")

KEY = "OPENAI_API_KEY"
OPENAI = "api.openai.com"

ENDS_ALL: Final = (402, 405, 410)
"""Statuses that no request gets past: an empty account, an address that answers nothing, a model that is gone."""


def require_terms(
    source: str, *, like: str, price: float | None, of: str, concurrency: int = 1, retries: int = 0,
    timeout: float | None = None, requests_per_minute: float | None = None,
) -> float:  # fmt: skip
    """Check what an adapter was asked for, before a cent is spent; return the price.

    ``like`` is a spec for an example, and ``of`` what the price is of: "one image".

    Raises
    ------
    ModelError
        No model or no price, or a number that cannot be.
    """
    if not source:
        adapter = like.partition(":")[0]
        raise ModelError.missing(f"{adapter}: no model named; write {adapter}:MODEL, such as {like}")
    if price is None or not 0 <= price < inf:
        raise ModelError.missing(
            f"found {'none' if price is None else price}, expected what {of} costs at these settings; look it up in "
            "the server's price list and give --price (0 for a server of your own)",
            field="price",
        )
    for key, number, least in (("concurrency", concurrency, 1), ("retries", retries, 0)):
        if number < least:
            raise ModelError.out_of_range(f"found {number}, expected {least} or more", field=key)
    for key, amount in (("timeout", timeout), ("requests_per_minute", requests_per_minute)):
        if amount is not None and not amount > 0:
            raise ModelError.out_of_range(f"found {amount}, expected a positive number", field=key)
    return price


class Pace:
    """Spaces calls evenly over threads: each takes the next free moment and sleeps until it comes."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds = 60 / per_minute if per_minute else 0.0
        self._next = monotonic()
        self._lock = threading.Lock()

    def wait(self, stopped: threading.Event | None = None) -> bool:
        """Sleep until it is this call's turn, or until nobody waits for it any more; return whether that was so."""
        with self._lock:
            moment = max(self._next, monotonic())
            self._next = moment + self._seconds
        return (stopped or threading.Event()).wait(max(0.0, moment - monotonic()))


ROOM_TO_THINK: Final = 4_000
"""Tokens added to a limit where thoughts count, too."""

MAY_GO: Final = {
    "response_format": re.compile("response_format|schema|structured|guided"),
    "max_tokens": re.compile("(?<![a-z_])max_tokens"),
    "max_completion_tokens": re.compile("max_completion_tokens"),
    "maxOutputTokens": re.compile("max_?output_?tokens"),
    "temperature": re.compile("temperature"),
    "modalities": re.compile("modalit(?:y|ies)"),
}
"""Arguments that a server may refuse to be asked with, and how it names them in small letters."""


class Arguments:
    """The further arguments of every request, without those that the server turns out to refuse.

    Newer models take no temperature but their own and call ``max_tokens`` ``max_completion_tokens``; many servers have
    no schemas. A request that is refused for such an argument is sent again without it, and so are those that follow.
    What else is asked for, such as a size, is never left out: the image would be another one than its card says.
    """

    def __init__(self) -> None:
        self._refused: frozenset[str] = frozenset()

    @property
    def note(self) -> str:
        """A note on the arguments left out, except those that only affect how an answer is sent."""
        names = sorted(self._refused - {"response_format"})
        return f"asked without {', '.join(names)}, which the server does not take" if names else ""

    def ask(self, arguments: Mapping[str, Any], send: Callable[[dict[str, Any]], T]) -> T:
        """Send a request with those of the given arguments that the server takes."""
        import openai

        refused = self._refused
        while True:
            taken = {name: value for name, value in arguments.items() if name not in refused}
            if "max_tokens" in refused.intersection(arguments) and "max_completion_tokens" not in refused:
                taken["max_completion_tokens"] = arguments["max_tokens"] + ROOM_TO_THINK
            try:
                answer = send(taken)
            except openai.APIStatusError as error:
                said = f"{error} {text_of(error.body)}".lower()
                named = next((name for name, words in MAY_GO.items() if name in taken and words.search(said)), None)
                if named is None or is_refusal(error):
                    raise
                refused |= {named}
            else:  # only now is it remembered: what one picture is refused for is not refused of all
                self._refused |= refused
                return answer


def error_line(error: Any) -> str:
    """Describe an error in one line: in the server's words, whatever shape they have, or where it redirects to."""
    place = getattr(getattr(error, "response", None), "extensions", {}).get("leads_to")
    if place:
        return in_one_line(f"its server sends requests on to {masked(led_to(*place))}", 300)
    body, code = getattr(error, "body", None), getattr(error, "code", None)
    message = body.get("message") if isinstance(body, dict) else None
    if message:
        return in_one_line(f"{code}: {message}" if code else str(message), 300)
    described = describe(error)
    return in_one_line(f"{described}: {text_of(body)}" if body else described, 300)


def raise_if_final(error: Any, name: str, key: str = KEY) -> None:
    """Raise a ModelError where no request gets past an error: the key, the model's name, the account, the address."""
    import openai

    line = f"{name}: {error_line(error)}"
    if isinstance(error, openai.AuthenticationError | openai.NotFoundError):
        raise ModelError.refused(f"{line}; check {key} and the model's name") from None
    if error.status_code == 402 or "insufficient_quota" in (error.code, error.type):
        raise ModelError.refused(f"{line}; add credit and run it again") from None
    if error.status_code in ENDS_ALL:
        raise ModelError.unreachable(f"{line}; check the server's address") from None


def connect(
    base_url: str | None, retries: int, timeout: float, trusted: Sequence[str], *, key_name: str = KEY,
    home: str | None = None,
) -> tuple[Any, Callable[..., bytes]]:  # fmt: skip
    """Make the official client, with the key, and what fetches images by address, both within bounds.

    ``key_name`` is the variable that holds the key, and ``home`` the server of its owner, where it is not OpenAI.
    """
    try:
        import openai
        import tenacity  # noqa: F401  (else missed only once there is a client)
    except ImportError as error:
        raise ModelError.lacks_package(str(error.name), "clinometer[openai]") from error
    own_server = base_url or (os.environ.get("OPENAI_BASE_URL") if home is None else None)
    key = os.environ.get(key_name, "").strip()  # a secret that is mounted as a file ends with a line's end
    if not (key.isascii() and key.isprintable()):
        raise ModelError.malformed(f"{key_name}: it contains characters that a key cannot have; set it again")
    if not key and not own_server:
        raise ModelError.missing(
            f"no key: set {key_name} in the environment; it is read from nowhere else and written nowhere"
        )
    remember(key)
    try:
        address = urlsplit(own_server or f"https://{OPENAI}")
        fits = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # brackets that do not close, a port that is not a number
        fits = False
    if not fits:  # every request would fail, one after another; an address may hold a password, so it is not shown
        raise ModelError.malformed("not a web address; expected one such as http://localhost:8000/v1", field="base_url")
    hosts = frozenset({host_of(own_server or home or f"https://{OPENAI}"), *(_host(host) for host in trusted)})
    client = openai.OpenAI(
        api_key=key or "none",
        base_url=base_url or home,
        max_retries=retries,
        timeout=timeout,
        http_client=guarded_client(Bounds(MOST_ANSWER_BYTES, timeout, hosts, json=True)),
    )
    fetch = downloads(guarded_client(Bounds(MOST_BYTES, timeout, hosts)), retries, timeout)
    return client, fetch


def _host(name: str) -> str:
    """Return a host as a user names it: without scheme, port and path."""
    try:
        host = host_of(f"http://{name}")
    except Exception as error:
        raise ModelError.malformed(
            f"{name!r} is not a host; expected one such as images.example.org", field="trusted_host"
        ) from error
    if not name or host != name.lower().strip("[]"):
        raise ModelError.malformed(
            f"found {name!r}, expected a host alone, such as images.example.org", field="trusted_host"
        )
    return host


def server_of(url: str) -> str:
    """Return a server's address for its card, with port and path but without user, password or key."""
    address = urlsplit(masked_address(url, keys_in_path=True))
    port = f":{address.port}" if address.port else ""
    is_openai = address.hostname == OPENAI
    return str(address.hostname) if is_openai else f"{address.hostname}{port}{address.path.rstrip('/')}"


REFUSAL_CODES = ("moderationblocked", "safety", "datainspection")
"""Letters in the code or type of an error that mean: the prompt or the picture is not allowed."""

REFUSALS = (
    "contentpolicy", "contentfilter", "contentmoderation", "flaggedinput", "nsfw", "responsibleai", "safetysystem",
)  # fmt: skip
"""The same, anywhere in what a server says: many have no code for it, or one that they share with other errors."""

REFUSALS_IN_CHINESE = ("敏感", "违规", "不合规")
"""Sensitive, against the rules, not compliant: what servers that answer in Chinese say instead."""

MOST_BYTES = 64_000_000
"""The largest file of an image that is taken from a server."""

MOST_ANSWER_BYTES = MOST_BYTES * 4 // 3 + 1_000_000
"""The largest answer: such a file as base64, with some text."""

HEARD = 20_000
"""Characters of what a server says that are searched for a refusal."""


class ErrorInAnswer(Exception):  # noqa: N818 - the answer's, in the shape of the client's own errors
    """An error that came in an answer of status 200."""

    def __init__(self, body: Any) -> None:
        super().__init__("the answer holds an error")
        self.body = body
        self.code, self.type = (body.get(key) if isinstance(body, dict) else None for key in ("code", "type"))


def is_refusal(error: Any) -> bool:
    """Return whether it is the model that says no. A page of HTML is a proxy's, and says no to everything."""
    if isinstance(error.body, str) and error.body.lstrip().startswith("<"):
        return False
    code, message = letters_of(f"{error.code} {error.type}"), letters_of(text_of(error.body))
    is_told = any(word in code for word in REFUSAL_CODES) or any(word in message for word in REFUSALS)
    return is_told or any(word in text_of(error.body) for word in REFUSALS_IN_CHINESE)


def text_of(body: Any) -> str:
    """Return what a server said, as it said it."""
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str))[:HEARD]


def letters_of(text: str) -> str:
    """``content_policy_violation``, ``contentFilter`` and "Content policy" have their letters in common."""
    return re.sub("[^a-z]", "", text.lower())


def bytes_of(picture: str, fetch: Callable[..., bytes]) -> bytes:
    """Return the file of an image that came as base64, in lines or in a ``data:`` URI too, or as its address."""
    if picture.startswith("data:") or not urlsplit(picture[:2000]).scheme:
        coded = picture.rpartition(",")[2]
        letters = "".join((unquote(coded) if "%" in coded else coded).split()).replace("-", "+").replace("_", "/")
        try:
            return base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
        except binascii.Error as error:
            raise ValueError(f"malformed answer: {error}") from error
    if urlsplit(picture).scheme not in ("http", "https"):
        raise ValueError("malformed answer: neither an image nor its address")
    return fetch(picture)


class DownloadError(Exception):
    """An image that is not where the server said."""

    def __init__(self, status: int, phrase: str) -> None:
        super().__init__(f"HTTP Error {status}: {phrase}")
        self.status = status


def led_to(place: str, too_often: bool) -> str:
    """Return where a redirect leads, and the way out."""
    address = urlsplit(place)
    destination = f"{address.scheme}://{address.netloc.rpartition('@')[2]}" if address.netloc else place
    if too_often:
        return f"{destination} again and again, which is not followed; check the server's address"
    return f"{destination}, which is not followed; give --trusted-host {address.hostname or 'HOST'} if you trust it"


def downloads(client: Any, retries: int, seconds: float) -> Callable[..., bytes]:
    """Make what fetches a file. The image is paid for by then, so it is asked for as often as the model is.

    What may be an image, or any page that a model mentions, is asked for ``once``.

    Parameters
    ----------
    client : of `clinometer.models.openai`; it knows no key.
    retries : attempts after the first.
    seconds : after which there is no further attempt.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

    def may_pass(error: BaseException) -> bool:
        if isinstance(error, DownloadError):  # a busy server; else a connection that failed or broke off
            return error.status in (408, 429) or error.status >= 500
        return isinstance(error, http_library().TransportError)

    def fetched(url: str) -> bytes:
        answer = client.get(url)
        if place := answer.extensions.get("leads_to"):
            raise AnswerRefusedError(f"its address leads on to {led_to(*place)}")
        if not answer.is_success:
            raise DownloadError(answer.status_code, answer.reason_phrase)
        return bytes(answer.content)

    def fetch(url: str, *, once: bool = False) -> bytes:
        attempts = Retrying(
            stop=stop_after_attempt(1 if once else retries + 1) | stop_after_delay(seconds),
            wait=wait_random_exponential(multiplier=0.5, max=8),
            retry=retry_if_exception(may_pass),
            reraise=True,
        )
        return attempts(fetched, url)

    return fetch


# --- An HTTP client that no server can fill, hold up, or send to another place ---------------------------------------
#
# It is the client that the package ``openai`` uses, with its proxies and certificates. What is added are hooks of that
# client and of the connections below it:
#
# * a request as a whole has a deadline, from its connection to the last byte, however slowly the bytes drip;
# * an answer has a limit to its bytes, counted once they are decompressed;
# * a redirect is followed on the same host only, and a few times;
# * a connection to an address that is not public is closed before anything is sent, unless the user named the host.
#
# The address is looked at once the connection is there, so a name that resolves to another address every time gains
# nothing. See decision 42.


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
