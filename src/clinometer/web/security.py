"""What stands between the network and the pages: limits, headers, the organiser's session, CSRF tokens.

Every response has the headers of ``HEADERS`` unless its page sets others. Every write needs the token of its session,
in the field ``csrf_token`` or the header ``X-CSRF-Token``; an app-wide dependency asks for it, so no route can forget.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
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
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clinometer.web.settings import ServerSettings

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
    """Refuses bodies of more than so many bytes: by their declared length, else as they arrive."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.most:
            await PlainTextResponse(self._refusal, 413)(scope, receive, send)
            return
        await self.app(scope, self._counted(receive), send)

    @property
    def _refusal(self) -> str:
        return f"The request is larger than {self.most:,} bytes, the most that is taken."

    def _counted(self, receive: Receive) -> Receive:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.most:
                raise HTTPException(413, self._refusal)
            return message

        return counted


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
    """The address that a request comes from."""
    client = scope.get("client")
    return client[0] if client else "unknown"


class Gate:
    """Who may see the runs: everybody who reaches the server, or those with the organiser's password."""

    def __init__(self, settings: ServerSettings) -> None:
        self._hash = settings.password_hash
        self._key = settings.session_key.encode()
        self._right = b""
        self._limit = parse(LOGINS)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    @property
    def is_closed(self) -> bool:
        """Whether a password is asked."""
        return bool(self._hash)

    def may_try(self, address: str) -> bool:
        """Whether an address has tries left; this is one."""
        return self._limiter.hit(self._limit, address)

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

    def _remembers(self, password: str) -> bool:
        return bool(self._right) and hmac.compare_digest(self._digest(password), self._right)

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "replace"), hashlib.sha256)

    def admits(self, request: Request) -> bool:
        """Whether a request is the organiser's: by its session, or by the password as a bearer token."""
        return not self.is_closed or bool(request.session.get("organiser")) or self.is_token(request)

    def is_token(self, request: Request) -> bool:
        """Whether a request bears the password itself."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if not self.is_closed or kind.lower() != "bearer":
            return False
        token = token.strip()
        if not self._remembers(token) and not self.may_try(address_of(request.scope)):
            raise HTTPException(429, "Too many tries; wait a minute.")
        return self.opens(token)


def require_organiser(request: Request) -> None:
    """A dependency of pages for the organiser alone.

    Raises
    ------
    HTTPException
        401; its page leads to the password.
    """
    if not request.app.state.gate.admits(request):
        raise HTTPException(401, "Sign in to see this page.")


async def require_csrf(request: Request) -> None:
    """A dependency of the whole app: what writes must bear its session's token.

    A request that bears the password needs none: no other site can have a browser send it.

    Raises
    ------
    HTTPException
        403.
    """
    if request.method in READING or request.app.state.gate.is_token(request):
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
    """The token of a session, made when it is first needed."""
    session: dict[str, Any] = request.session
    return str(session.setdefault("csrf", secrets.token_urlsafe(24)))


def csrf_field(request: Request) -> Markup:
    """The token as a hidden field, for the forms of templates."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(TOKEN_FIELD, csrf_token(request))
