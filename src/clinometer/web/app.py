"""The server: what it is made of, in order from the network inwards."""

from __future__ import annotations

import logging
from urllib.parse import quote

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from clinometer._messages import printable
from clinometer.errors import ClinometerError, InvalidInputError, RunNotFoundError
from clinometer.web import explorer, pages, pictures, runs_index, trends
from clinometer.web.pages import problem, render
from clinometer.web.ratings import organiser_pages, rater_pages, room
from clinometer.web.ratings.room import Room
from clinometer.web.sample_index import Building, Shelf
from clinometer.web.security import (
    HEADERS,
    READING,
    SESSION_SECONDS,
    BodyLimit,
    Gate,
    RateLimit,
    SecurityHeaders,
    require_csrf,
    require_organiser,
)
from clinometer.web.settings import ServerSettings


def create_app(settings: ServerSettings) -> FastAPI:
    """Make the server of some runs. ``app.state`` holds the settings, the gate and the index of runs."""
    app = FastAPI(
        title="clinometer",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(require_csrf)],
        middleware=_middleware(settings),
    )
    app.state.settings = settings
    app.state.gate = Gate(settings)
    app.state.runs = runs_index.RunsIndex(settings.runs)
    app.state.shelf = Shelf(settings.cache / "samples")
    app.state.album = pictures.Album(settings.cache)
    app.state.ratings = Room(settings, app.state.album)
    organiser = [Depends(require_organiser)]
    app.include_router(pages.router)
    app.include_router(rater_pages.router)
    for pages_with_routes in (runs_index, explorer, room, pictures, trends, organiser_pages):
        app.include_router(pages_with_routes.router, dependencies=organiser)
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _wrong_address)
    app.add_exception_handler(ClinometerError, _run_problem)
    app.add_exception_handler(Building, _still_reading)
    app.add_exception_handler(Exception, _own_error)
    return app


def _middleware(settings: ServerSettings) -> list[Middleware]:
    return [
        Middleware(SecurityHeaders),
        Middleware(TrustedHostMiddleware, allowed_hosts=list(settings.hosts), www_redirect=False),
        Middleware(RateLimit, a_second=settings.requests_a_second),
        Middleware(BodyLimit),
        Middleware(
            SessionMiddleware,
            secret_key=settings.session_key,
            session_cookie="clinometer",
            max_age=SESSION_SECONDS,
            same_site="lax",
            https_only=settings.behind_https,
        ),
    ]


def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 401 and request.method in READING:
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(address)}", 303)
    page = problem(request, error.status_code, str(error.detail))
    page.headers.update(error.headers or {})
    return page


def _wrong_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    message = f"{first['loc'][-1]}: {first['msg']}"
    return problem(request, 400, f"{message}. Mend the address, or begin with the runs.")


def _run_problem(request: Request, error: Exception) -> Response:
    if request.url.path.startswith(("/join/", "/rate/")):  # a rater need not know where on the server things lie
        logging.getLogger("uvicorn.error").error("%s: %s", type(error).__name__, printable(str(error)))
        return problem(request, 503, "Pictures or answers cannot be read at the moment. Tell whoever sent you here.")
    statuses = {RunNotFoundError: 404, InvalidInputError: 400}
    return problem(request, next((s for kind, s in statuses.items() if isinstance(error, kind)), 409), str(error))


def _still_reading(request: Request, building: Exception) -> Response:
    """Return a page that asks again in a second: the run is read for the first time."""
    assert isinstance(building, Building)
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    page = render(request, "building.html", 202, share=building.share, address=address)
    if "HX-Target" in request.headers:  # it is no part of another page
        page.headers["HX-Redirect"] = address
    return page


def _own_error(request: Request, error: Exception) -> Response:
    page = problem(request, 500, "The server's terminal shows what happened.")
    page.headers.update(HEADERS)  # it is made outside of what adds them to other pages
    return page
