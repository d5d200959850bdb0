"""The server: what it is made of, in order from the network inwards, and the connections that it holds.

uvicorn counts the connections of everybody together, and waits for a request's head and body, and for an answer to be
taken, as long as the other side likes. Here a connection that waits for its other side has a time limit, one address
has its share, and where the server is full the address that holds most gives way. See decision 44.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Any, Final
from urllib.parse import quote

import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from clinometer._messages import printable
from clinometer.errors import ClinometerError, InvalidInputError, RunNotFoundError
from clinometer.web import explorer, pages, pictures, runs_index, security
from clinometer.web.pages import Building, problem, render
from clinometer.web.ratings import organiser_pages, raters, room
from clinometer.web.ratings.room import Room
from clinometer.web.sample_index import RunIndices


def create_app(settings: security.ServerSettings) -> FastAPI:
    """Create the app that serves some runs. ``app.state`` holds the settings, the gate and the index of runs."""
    app = FastAPI(
        title="clinometer",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(security.require_csrf)],
        middleware=[
            Middleware(security.SecurityHeaders),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(settings.hosts), www_redirect=False),
            Middleware(security.RateLimit, a_second=settings.requests_a_second),
            Middleware(security.BodyLimit),
            Middleware(
                SessionMiddleware, secret_key=settings.session_key, session_cookie="clinometer",
                max_age=security.SESSION_SECONDS, same_site="lax", https_only=settings.behind_https,
            ),
        ],
    )  # fmt: skip
    app.state.settings = settings
    app.state.gate = security.Gate(settings)
    app.state.runs = runs_index.RunsIndex(settings.runs)
    app.state.shelf = RunIndices(settings.cache / "samples")
    app.state.comparing = runs_index.Comparing()
    app.state.album = pictures.Album(settings.cache)
    app.state.ratings = Room(settings, app.state.album)
    organiser = [Depends(security.require_organiser)]
    app.include_router(pages.router)
    app.include_router(raters.router)
    for pages_with_routes in (runs_index, explorer, room, pictures, organiser_pages):
        app.include_router(pages_with_routes.router, dependencies=organiser)
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _wrong_address)
    app.add_exception_handler(ClinometerError, _run_problem)
    app.add_exception_handler(Building, _still_reading)
    app.add_exception_handler(Exception, _own_error)
    return app


def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 401 and request.method in security.READING:
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(address)}", 303)
    page = problem(request, error.status_code, str(error.detail))
    page.headers.update(error.headers or {})
    return page


def _wrong_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    message = f"{first['loc'][-1]}: {first['msg']}"
    return problem(request, 400, f"{message}. Correct the address, or start from the list of runs.")


def _run_problem(request: Request, error: Exception) -> Response:
    if request.url.path.startswith(("/join/", "/rate/")):  # a rater need not know where on the server things lie
        logging.getLogger("uvicorn.error").error("%s: %s", type(error).__name__, printable(str(error)))
        return problem(request, 503, "Pictures or answers cannot be read now. Please tell whoever sent you here.")
    statuses = {RunNotFoundError: 404, InvalidInputError: 400}
    return problem(request, next((s for kind, s in statuses.items() if isinstance(error, kind)), 409), str(error))


def _still_reading(request: Request, building: Exception) -> Response:
    """Return a page that asks again in a second: what it shows is being made."""
    assert isinstance(building, Building)
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    page = render(request, "building.html", 202, building=building, address=address)
    if "HX-Target" in request.headers:  # it is no part of another page
        page.headers["HX-Redirect"] = address
    return page


def _own_error(request: Request, error: Exception) -> Response:
    page = problem(request, 500, "The server's terminal shows what happened.")
    page.headers.update(security.HEADERS)  # it is made outside of what adds them to other pages
    return page


MOST_HEAD: Final = 2**18
"""Bytes between an answer and the next request's body: a head, or the rest of a body that was refused."""
BACKLOG: Final = 128
"""Connections that are taken at a time, each with a file descriptor, before any can be refused."""


def server_over(app: FastAPI, **config: Any) -> uvicorn.Server:
    """Create the server of an app, with the limits of its settings."""
    settings: security.ServerSettings = app.state.settings
    options: dict[str, Any] = {
        "http": _protocol(settings),
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": settings.behind_https,
        "backlog": BACKLOG,
        "timeout_graceful_shutdown": 3,
    }
    return uvicorn.Server(uvicorn.Config(app, **options | config))


def _protocol(settings: security.ServerSettings) -> type[asyncio.Protocol]:
    connections = _Connections(settings)

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """uvicorn's own protocol, which tells what it waits for."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._head = 0
            self.party = security.neighbours(self.client[0] if self.client else "")
            if not connections.admit(self):
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
            connections.parties[self.party].discard(self)

        def waits_for(self) -> object:
            """Return what we wait for from the client, as a value that changes once it came; None if it is our turn."""
            unsent = self.transport.get_write_buffer_size()
            cycle = self.cycle
            if unsent:
                return ("take", unsent)
            is_asked = cycle is not None and not (cycle.response_complete or cycle.more_body)
            return None if is_asked else ("ask", cycle, cycle is not None and cycle.response_complete)

    return Bounded


class _Connections:
    """The connections of a server by the address that they come from."""

    def __init__(self, settings: security.ServerSettings) -> None:
        self.parties: defaultdict[str, set[Any]] = defaultdict(set)
        self._settings = settings
        self._looked: dict[Any, tuple[object, float]] = {}
        self._looks = False

    def admit(self, connection: Any) -> bool:
        """Accept a connection, unless its address has its share; where there is no room, another one is closed.

        The connection that has waited longest, of the address that holds most, is ended for it.
        """
        settings = self._settings
        is_proxy = settings.behind_https and security.is_local(connection.party)
        if len(self.parties[connection.party]) >= settings.connections_each and not is_proxy:
            return False
        if sum(map(len, self.parties.values())) >= settings.connections:
            most = max(self.parties.values(), key=len)
            waiting = [connected for connected in most if connected.waits_for() is not None]
            if not waiting:
                return False
            now = connection.loop.time()
            oldest = min(waiting, key=lambda connected: self._looked.get(connected, (None, now))[1])
            most.discard(oldest)
            oldest.transport.abort()
        self.parties[connection.party].add(connection)
        self._look_on(connection.loop)
        return True

    def _look_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._looks:
            self._looks = True
            loop.call_later(min(1.0, self._settings.patience / 4), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that have waited too long for the same step, and check again in a second."""
        self._looks, now, before = False, loop.time(), self._looked
        self._looked = {}
        self.parties = defaultdict(set, {party: members for party, members in self.parties.items() if members})
        for connection in [each for members in self.parties.values() for each in members]:
            what = connection.waits_for()
            if what is None:
                continue
            same, since = before.get(connection, (None, now))
            self._looked[connection] = (what, since if same == what else now)
            if same == what and now - since > self._settings.patience:
                connection.transport.abort()
        if self.parties:
            self._look_on(loop)
