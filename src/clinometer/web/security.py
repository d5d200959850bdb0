"""What stands between the network and the pages: limits, headers, the organiser's session, CSRF tokens.

Every response has the headers of ``HEADERS`` unless its page sets others. Every write needs the token of its session,
in the field ``csrf_token`` or the header ``X-CSRF-Token``; an app-wide dependency asks for it, so no route can forget.

uvicorn counts the connections of everybody together, and waits for a request's head and body, and for an answer to be
taken, as long as the other side likes. Here a connection that waits for its other side has a time limit, one address
has its share, and where the server is full the address that holds most gives way. See decision 44.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
from collections import defaultdict
from time import monotonic
from typing import Any, Final

import uvicorn
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import FastAPI, Request
from limits import parse
from limits.aio.storage import MemoryStorage as AsyncMemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter as AsyncFixedWindowRateLimiter
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from clinometer.web.settings import ServerSettings, is_local

MOST_HEAD: Final = 2**18
"""Bytes between an answer and the next request's body: a head, or the rest of a body that was refused."""
BACKLOG: Final = 128
"""Connections that are taken at a time, each with a file descriptor, before any can be refused."""


def server_over(app: FastAPI, **config: Any) -> uvicorn.Server:
    """Make the server of an app, with the limits of its settings."""
    settings: ServerSettings = app.state.settings
    given: dict[str, Any] = {
        "http": _protocol(settings),
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": settings.behind_https,
        "backlog": BACKLOG,
        "timeout_graceful_shutdown": 3,
    }
    return uvicorn.Server(uvicorn.Config(app, **given | config))


def neighbours(host: str) -> str:
    """Name whoever shares an address: an IPv6 host has 2^64 of them to itself, so there it is the network.

    >>> neighbours("192.0.2.7"), neighbours("::ffff:192.0.2.7"), neighbours("2001:db8::7")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    inner = address.ipv4_mapped
    return str(inner or ipaddress.ip_network((int(address), 64), strict=False))


def _protocol(settings: ServerSettings) -> type[asyncio.Protocol]:
    held = _Held(settings)

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """uvicorn's own protocol, which tells what it waits for."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._head = 0
            self.party = neighbours(self.client[0] if self.client else "")
            if not held.admit(self):
                transport.abort()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            awaits_head = self.cycle is before and (before is None or before.response_complete)
            self._head = self._head + len(data) if awaits_head else 0
            if self._head > MOST_HEAD:
                self.transport.abort()

        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            held.parties[self.party].discard(self)

        def waits_for(self) -> object:
            """Say what the other side is to do next, as a value that changes when it has; None if it is our turn."""
            unsent = self.transport.get_write_buffer_size()
            cycle = self.cycle
            if unsent:
                return ("take", unsent)
            is_asked = cycle is not None and not (cycle.response_complete or cycle.more_body)
            return None if is_asked else ("ask", cycle, cycle is not None and cycle.response_complete)

    return Bounded


class _Held:
    """The connections of a server by the address that they come from."""

    def __init__(self, settings: ServerSettings) -> None:
        self.parties: defaultdict[str, set[Any]] = defaultdict(set)
        self._settings = settings
        self._looked: dict[Any, tuple[object, float]] = {}
        self._looks = False

    def admit(self, connection: Any) -> bool:
        """Take a connection in, if its address has not its share yet and somebody makes room where there is none."""
        settings = self._settings
        is_proxy = settings.behind_https and is_local(connection.party)
        if len(self.parties[connection.party]) >= settings.connections_each and not is_proxy:
            return False
        if sum(map(len, self.parties.values())) >= settings.connections and not self._has_made_room():
            return False
        self.parties[connection.party].add(connection)
        self._look_on(connection.loop)
        return True

    def _has_made_room(self) -> bool:
        """End the connection that has waited longest, of the address that holds most."""
        most = max(self.parties.values(), key=len)
        waiting = [connection for connection in most if connection.waits_for() is not None]
        if not waiting:
            return False
        now = waiting[0].loop.time()
        oldest = min(waiting, key=lambda connection: self._looked.get(connection, (None, now))[1])
        most.discard(oldest)
        oldest.transport.abort()
        return True

    def _look_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._looks:
            self._looks = True
            loop.call_later(min(1.0, self._settings.patience / 4), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what has waited for one and the same thing too long, and look again in a second."""
        self._looks, now, before = False, loop.time(), self._looked
        self._looked = {}
        self.parties = defaultdict(set, {party: of for party, of in self.parties.items() if of})
        for connection in [each for of in self.parties.values() for each in of]:
            what = connection.waits_for()
            if what is None:
                continue
            same, since = before.get(connection, (None, now))
            self._looked[connection] = (what, since if same == what else now)
            if same == what and now - since > self._settings.patience:
                connection.transport.abort()
        if self.parties:
            self._look_on(loop)


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
TOKEN_FIELD: Final = "csrf_token"
TOKEN_HEADER: Final = "X-CSRF-Token"
SESSION_SECONDS: Final = 12 * 3600
LOGINS: Final = "10/minute"
"""Passwords tried from one address, right or wrong."""
HASHED_AT_ONCE: Final = 2
"""Passwords; each takes a tenth of a second and 64 MB."""
BODY: Final = (65_536, 64)
"""Bytes and fields of a form, at most."""
BODIES: Final = {"/ratings/new": (500_000, 1_000)}
"""The same, of forms that hold more: long texts and a field for each run."""


class SecurityHeaders:
    """Adds ``HEADERS`` to every response that does not set them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)


class BodyLimit:
    """Refuses bodies of more bytes or fields than a route's form has: by their declared length, else as they come."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most_bytes, most_fields = BODIES.get(scope["path"], BODY)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        size = separators = 0

        async def counted() -> Message:
            nonlocal size, separators
            message = await receive()
            body = message.get("body", b"")
            size, separators = size + len(body), separators + body.count(b"&")
            if size > most_bytes:
                raise HTTPException(413, f"The request is larger than {most_bytes:,} bytes, the most that is taken.")
            if separators >= most_fields:
                raise HTTPException(413, f"The request has more than {most_fields:,} fields, the most that are taken.")
            return message

        if length.isdigit() and int(length[:20]) <= most_bytes:
            await self.app(scope, counted, send)
        else:
            refusal = f"The request is larger than {most_bytes:,} bytes, the most that is taken."
            await PlainTextResponse(refusal, 413)(scope, receive, send)


class RateLimit:
    """Refuses what one address asks beyond so many requests a second."""

    def __init__(self, app: ASGIApp, a_second: int) -> None:
        self.app = app
        self._limit = parse(f"{a_second}/second")
        self._limiter = AsyncFixedWindowRateLimiter(AsyncMemoryStorage())  # the other one starts threads all the time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and not await self._limiter.hit(self._limit, address_of(scope)):
            refusal = PlainTextResponse("Too many requests; try again in a second.", 429, {"Retry-After": "1"})
            await refusal(scope, receive, send)
            return
        await self.app(scope, receive, send)


def address_of(scope: Scope) -> str:
    """Name who a request comes from, by its address."""
    client = scope.get("client")
    return neighbours(client[0]) if client else "unknown"


class Gate:
    """Who may see the runs: everybody who reaches the server, or those with the organiser's password.

    A session is open as long as the server knows it, so signing out ends it for every copy of its cookie. Passwords are
    tried so often from one address; who signed in before has a name in the cookie and tries of their own, so that
    nobody at the same address can keep them out.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._hash = settings.password_hash
        self._key = settings.session_key.encode()
        self._right = b""
        self._limit = parse(LOGINS)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._hashing = asyncio.Semaphore(HASHED_AT_ONCE)
        self._sessions: dict[str, float] = {}

    @property
    def is_closed(self) -> bool:
        """Whether a password is asked."""
        return bool(self._hash)

    async def sign_in(self, request: Request, password: str) -> bool:
        """Open a session if this is the password.

        Raises
        ------
        HTTPException
            429: too many were tried.
        """
        person = str(request.session.get("person", ""))
        if not self._limiter.hit(self._limit, person or address_of(request.scope)):
            raise _too_many_tries()
        if self.is_closed and not await self._opens(password):
            return False
        now = monotonic()
        self._sessions = {name: end for name, end in self._sessions.items() if end > now}
        name = secrets.token_urlsafe(24)
        self._sessions[name] = now + SESSION_SECONDS
        request.session.clear()  # a session that somebody else began must not become the organiser's
        request.session.update(organiser=name, person=person or secrets.token_urlsafe(24))
        return True

    def sign_out(self, request: Request) -> None:
        """End the session, wherever its cookie is."""
        self._sessions.pop(str(request.session.pop("organiser", "")), None)
        request.session.pop("csrf", None)

    def has_session(self, request: Request) -> bool:
        """Tell whether a request belongs to a session that is open."""
        return self._sessions.get(str(request.session.get("organiser", "")), 0.0) > monotonic()

    def opens(self, password: str) -> bool:
        """Whether this is the password. The right one is hashed slowly once and then remembered by a keyed digest."""
        if self._remembers(password):
            return True
        try:
            PasswordHasher().verify(self._hash, password)
        except (VerificationError, InvalidHashError):
            return False
        self._right = self._digest(password)
        return True

    async def _opens(self, password: str) -> bool:
        async with self._hashing:
            return await run_in_threadpool(self.opens, password)

    def _remembers(self, password: str) -> bool:
        return bool(self._right) and hmac.compare_digest(self._digest(password), self._right)

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "replace"), hashlib.sha256)

    async def admits(self, request: Request) -> bool:
        """Tell whether a request is the organiser's: by its session, or by the password as a bearer token."""
        return not self.is_closed or self.has_session(request) or await self.is_token(request)

    async def is_token(self, request: Request) -> bool:
        """Tell whether a request bears the password itself.

        Raises
        ------
        HTTPException
            429: too many were tried from its address, so that the right one is no longer told from a wrong one.
        """
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if not self.is_closed or kind.lower() != "bearer":
            return False
        token, address = token.strip(), address_of(request.scope)
        may_try = self._limiter.test if self._remembers(token) else self._limiter.hit
        if not may_try(self._limit, address):
            raise _too_many_tries()
        return await self._opens(token)


def _too_many_tries() -> HTTPException:
    return HTTPException(429, "Too many passwords were tried. Wait a minute.", {"Retry-After": "60"})


async def require_organiser(request: Request) -> None:
    """A dependency of pages for the organiser alone.

    Raises
    ------
    HTTPException
        401; its page leads to the password.
    """
    if not await request.app.state.gate.admits(request):
        raise HTTPException(401, "Sign in to see this page.")


async def require_csrf(request: Request) -> None:
    """A dependency of the whole app: what writes must bear its session's token.

    A request that bears the password needs none: no other site can have a browser send it.

    Raises
    ------
    HTTPException
        403.
    """
    if request.method in READING or await request.app.state.gate.is_token(request):
        return
    session_token = str(request.session.get("csrf", ""))
    request_token = request.headers.get(TOKEN_HEADER) or await _field(request)
    if not session_token or not hmac.compare_digest(session_token.encode(), request_token.encode("utf-8", "replace")):
        raise HTTPException(403, "The form is too old or comes from elsewhere. Open its page again and repeat.")


async def _field(request: Request) -> str:
    kind = request.headers.get("Content-Type", "")
    if not kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data")):
        return ""
    return str((await request.form()).get(TOKEN_FIELD, ""))


def csrf_token(request: Request) -> str:
    """Return the token of a session, made when it is first needed."""
    session: dict[str, Any] = request.session
    return str(session.setdefault("csrf", secrets.token_urlsafe(24)))


def csrf_field(request: Request) -> Markup:
    """Return the token as a hidden field, for the forms of templates."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(TOKEN_FIELD, csrf_token(request))
