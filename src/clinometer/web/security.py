"""A server's settings, and what stands between requests and pages: limits, headers, the organiser, CSRF tokens.

Every response has the headers of ``HEADERS`` unless its page sets others. Every write needs the token of its session,
in the field ``csrf_token`` or the header ``X-CSRF-Token``; an app-wide dependency asks for it, so no route can forget.
See decision 44.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import Request
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

from clinometer.errors import InvalidInputError
from clinometer.web.database import default_cache, default_data

PASSWORD_VARIABLE: Final = "CLINOMETER_PASSWORD"
LEAST_PASSWORD: Final = 12
"""Characters of the shortest password: whoever finds the address may guess."""
LEAST_KEY: Final = 32
"""Bytes of what signs sessions."""
LOCAL_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


def kept_key(folder: Path) -> str:
    """Return the key that signs sessions, kept in its owner's folder so that raters go on after a restart.

    Where it cannot be kept, sessions end with the server. A key that others could read is replaced.
    """
    file = folder / "session.key"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.exists() and (file.stat().st_mode & 0o077 or len(file.read_bytes()) < LEAST_KEY):
            file.unlink()
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new,
        ):
            new.write(secrets.token_urlsafe(LEAST_KEY))
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return secrets.token_urlsafe(LEAST_KEY)


@dataclass(frozen=True)
class ServerSettings:
    """How a server runs.

    Attributes
    ----------
    runs : run directories, or folders of them; paths or URLs.
    cache : a folder of this machine for what is made of runs: files that find samples, small pictures.
    data : a folder of this machine for what nothing makes again: the database of ratings, the key of sessions.
    database : SQLAlchemy's URL of the ratings; empty for a file in ``data``.
    host, port : where it listens.
    password_hash : argon2 hash of the organiser's password; empty where none is asked, on this machine alone.
    hosts : names that a request may ask for, so that no other site's name can be pointed here; ``"*"`` for any.
    behind_https : whether browsers use HTTPS, so that cookies are for HTTPS alone.
    session_key : what signs sessions; a new one at each start, unless one is given.
    requests_a_second : of one address.
    connections, connections_each : held at a time, by everybody and by one address.
    patience : seconds that a head, a body or the taking of an answer may last.
    """

    runs: tuple[str, ...] = ("runs",)
    cache: Path = field(default_factory=default_cache)
    data: Path = field(default_factory=default_data)
    database: str = ""
    host: str = "127.0.0.1"
    port: int = 8765
    password_hash: str = field(default="", repr=False)
    hosts: tuple[str, ...] = LOCAL_HOSTS
    behind_https: bool = False
    session_key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    requests_a_second: int = 500
    connections: int = 512
    connections_each: int = 256
    patience: float = 30.0


def is_local(host: str) -> bool:
    """Return whether only this machine reaches what listens there."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def password_given(file: Path | None) -> str:
    """Return the organiser's password: the first line of a file, else the environment's; empty for none.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or the password is too short.
    """
    source = PASSWORD_VARIABLE if file is None else f"--password-file {file}"
    try:
        lines = os.environ.get(PASSWORD_VARIABLE, "") if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInputError.cannot_read(source, reason, "give another file") from error
    password = lines if file is None else lines.partition("\n")[0].strip()
    if (file is not None or password) and len(password) < LEAST_PASSWORD:
        raise InvalidInputError.out_of_range(
            f"{source}: the password has {len(password)} characters, expected {LEAST_PASSWORD} or more"
        )
    return password


def guarded(host: str, password: str) -> str:
    """Return the hash of a password, or nothing where none is needed.

    Raises
    ------
    InvalidInputError
        Other machines reach the host, and there is no password.
    """
    if password:
        return PasswordHasher().hash(password)
    if not is_local(host):
        raise InvalidInputError.missing(
            f"--host {host}: other machines can reach it, so it needs a password; give --password-file FILE, or set "
            f"{PASSWORD_VARIABLE}"
        )
    return ""


def hosts_asked_for(host: str, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return names that a request may ask for: this machine's own, and those that were given."""
    if named:
        return (*LOCAL_HOSTS, *named)
    return LOCAL_HOSTS if is_local(host) else ("*",)


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
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
                raise HTTPException(413, f"The request is larger than {most_bytes:,} bytes, which is the limit.")
            if separators >= most_fields:
                raise HTTPException(413, f"The request has more than {most_fields:,} fields, which is the limit.")
            return message

        if length.isdigit() and int(length[:20]) <= most_bytes:
            await self.app(scope, counted, send)
        else:
            refusal = f"The request is larger than {most_bytes:,} bytes, which is the limit."
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


def neighbours(host: str) -> str:
    """Return the key that clients at one address share: the network for IPv6, as one host has 2^64 addresses.

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


def address_of(scope: Scope) -> str:
    """Return the address that a request comes from."""
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
        """End the session, even where its cookie was copied to."""
        self._sessions.pop(str(request.session.pop("organiser", "")), None)
        request.session.pop("csrf", None)

    def has_session(self, request: Request) -> bool:
        """Return whether a request belongs to a session that is open."""
        return self._sessions.get(str(request.session.get("organiser", "")), 0.0) > monotonic()

    def opens(self, password: str) -> bool:
        """Check the password. The right one is hashed slowly once and then remembered by a keyed digest."""
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
        """Return whether a request is the organiser's: by its session, or by the password as a bearer token."""
        return not self.is_closed or self.has_session(request) or await self.is_token(request)

    async def is_token(self, request: Request) -> bool:
        """Return whether a request bears the password itself.

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
    """Require the organiser, as a dependency of pages.

    Raises
    ------
    HTTPException
        401; its page leads to the password.
    """
    if not await request.app.state.gate.admits(request):
        raise HTTPException(401, "Sign in to see this page.")


async def require_csrf(request: Request) -> None:
    """Require the session's token of requests that write, as a dependency of the whole app.

    A request that bears the password needs none: no other site can have a browser send it.

    Raises
    ------
    HTTPException
        403.
    """
    if request.method in READING or await request.app.state.gate.is_token(request):
        return
    session_token = str(request.session.get("csrf", ""))
    request_token = request.headers.get(TOKEN_HEADER, "")
    kind = request.headers.get("Content-Type", "")
    if not request_token and kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data")):
        request_token = str((await request.form()).get(TOKEN_FIELD, ""))
    if not session_token or not hmac.compare_digest(session_token.encode(), request_token.encode("utf-8", "replace")):
        raise HTTPException(403, "The form is too old or comes from another site. Open its page again and resubmit it.")


def csrf_token(request: Request) -> str:
    """Return the token of a session, made when it is first needed."""
    session: dict[str, Any] = request.session
    return str(session.setdefault("csrf", secrets.token_urlsafe(24)))


def csrf_field(request: Request) -> Markup:
    """Return the token as a hidden field, for the forms of templates."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(TOKEN_FIELD, csrf_token(request))
