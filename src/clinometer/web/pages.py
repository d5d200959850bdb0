"""Templates, and the page that says what went wrong."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from clinometer.report.html import asset, shown
from clinometer.web.security import csrf_field, csrf_token


@cache
def environment() -> Environment:
    """The templates, with everything that is put into them escaped."""
    environment = Environment(
        loader=PackageLoader("clinometer.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"csrf_field": csrf_field, "csrf_token": csrf_token, "version": _version()}
    return environment


def _version() -> str:
    return metadata.version("clinometer")


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page. ``request`` and ``gate`` are known to every template."""
    page = environment().get_template(template)
    content = page.render(request=request, gate=request.app.state.gate, **values)
    # a name of a file need not be text
    return HTMLResponse(content.encode("utf-8", "backslashreplace"), status)


def is_partial(request: Request, target: str) -> bool:
    """Whether htmx asks for the part of a page that has this id, and not for the page."""
    return request.headers.get("HX-Target") == target


def problem(request: Request, status: int, message: str) -> Response:
    """A page that says what went wrong, and the way out."""
    return render(request, "problem.html", status, title=_TITLES.get(status, "That did not work"), message=message)


_TITLES = {
    401: "Sign in",
    403: "Not allowed",
    404: "Nothing here",
    409: "The run cannot be shown",
    413: "Too large",
    429: "Too fast",
    503: "Not at the moment",
    500: "An error of clinometer\N{RIGHT SINGLE QUOTATION MARK}s own",
}


def report_style() -> str:
    """The report's style sheet, which the pages share."""
    return asset("style.css")
