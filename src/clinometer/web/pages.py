"""The server's own pages: templates, their style sheets and scripts, signing in and out, and what went wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, resources
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment
from starlette.exceptions import HTTPException

from clinometer.report import html
from clinometer.web.security import csrf_field, csrf_token

router = APIRouter()

Identifier = Annotated[str, Path(pattern=r"^[0-9A-Za-z_-]{1,64}$")]
"""What an address calls a run or a sample."""

_KINDS = {"css": "text/css", "js": "text/javascript"}


class Building(Exception):  # noqa: N818 - it is no error
    """What a page shows is being made; ``share`` of it is done, and ``title`` and ``why`` say what it is."""

    def __init__(self, share: float, title: str, why: str) -> None:
        super().__init__(f"{share:.0%}")
        self.share, self.title, self.why = share, title, why


@dataclass
class _Job:
    thread: threading.Thread = field(default_factory=threading.Thread)
    share: float = 0.0
    result: Any = None
    error: Exception | None = None


class BackgroundJobs:
    """Work that may take longer than a page should, each piece in a thread of its own.

    Attributes
    ----------
    title, why : what a page says of it in the meantime: see :class:`Building`.
    patience : seconds that a page waits for it.
    kept : how many results are kept.
    """

    def __init__(self, title: str, why: str, *, patience: float, kept: int = 0) -> None:
        self.title, self.why, self.patience, self.kept = title, why, patience, kept
        self._lock = threading.Lock()
        self._jobs: dict[Any, _Job] = {}

    def result(self, key: Any, work: Callable[[Callable[[float], None]], Any]) -> Any:
        """Return the result of some work, which is begun unless it is under way or done, or raise what it raised.

        ``work`` : called with a function that takes the share that is done.

        Raises
        ------
        Building
            It takes longer than a page should.
        """
        with self._lock:
            job = self._jobs.pop(key, None)
            if job is None:
                job = _Job()
                job.thread = threading.Thread(target=self._run, args=(job, work), daemon=True)
                job.thread.start()
            self._jobs[key] = job
            done = [each for each, other in self._jobs.items() if not other.thread.is_alive()]
            for oldest in done[: -self.kept] if self.kept else ():
                del self._jobs[oldest]
        job.thread.join(self.patience)
        if job.thread.is_alive():
            raise Building(job.share, self.title, self.why)
        if job.error is not None or not self.kept:
            with self._lock:
                self._jobs.pop(key, None)
        if job.error is not None:
            raise job.error
        return job.result

    @staticmethod
    def _run(job: _Job, work: Callable[[Callable[[float], None]], Any]) -> None:
        try:
            job.result = work(lambda share: setattr(job, "share", share))
        except Exception as error:  # for whoever asks for the result
            job.error = error


@cache
def environment() -> Environment:
    """Return the templates, with everything that is put into them escaped."""
    templates = html.environment("clinometer.web")
    version = metadata.version("clinometer")
    templates.globals |= {"csrf_field": csrf_field, "csrf_token": csrf_token, "version": version}
    return templates


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page. ``request`` and ``gate`` are known to every template."""
    page = environment().get_template(template)
    content = page.render(request=request, gate=request.app.state.gate, **values)
    # a name of a file need not be text
    return HTMLResponse(content.encode("utf-8", "backslashreplace"), status)


def is_partial(request: Request, target: str) -> bool:
    """Return whether htmx asks for the part of a page that has this id, and not for the page."""
    return request.headers.get("HX-Target") == target


def problem(request: Request, status: int, message: str) -> Response:
    """Return a page that says what went wrong, and the way out."""
    return render(request, "problem.html", status, title=_TITLES.get(status, "That did not work"), message=message)


_TITLES = {
    401: "Sign in",
    403: "Not allowed",
    404: "Nothing here",
    409: "The run cannot be shown",
    413: "Too large",
    429: "Too fast",
    503: "Unavailable at the moment",
    500: "An error of clinometer\N{RIGHT SINGLE QUOTATION MARK}s own",
}


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Return one file. Only names that the package has are known; none becomes a path."""
    content = files().get(name)
    if content is None:
        raise HTTPException(404, "There is no such file.")
    kind = _KINDS[name.rpartition(".")[2]]
    return Response(content, media_type=kind, headers={"Cache-Control": "public, max-age=86400"})


@cache
def files() -> dict[str, str]:
    """Return the style sheets and scripts of the pages, by name."""
    folder = resources.files("clinometer.web") / "static"
    packaged = [file for file in folder.iterdir() if file.name.rpartition(".")[2] in _KINDS]
    shared = {"report.css": html.page_style(), "page.js": html.asset("page.js")}  # with the pages of reports
    return {file.name: file.read_text(encoding="utf-8") for file in packaged} | shared


@router.get("/login")
def login_page(request: Request, next: str = "/") -> Response:
    """Show the form."""
    return render(request, "login.html", next=local_path(next), message="")


@router.post("/login")
async def login(request: Request, password: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
    """Open a session, or say that the password is another."""
    target = local_path(next)
    try:
        if await request.app.state.gate.sign_in(request, password):
            return RedirectResponse(target, 303)
    except HTTPException as error:
        page = render(request, "login.html", error.status_code, next=target, message=error.detail)
        page.headers.update(error.headers or {})
        return page
    return render(request, "login.html", 403, next=target, message="That is not the password.")


@router.post("/logout")
def logout(request: Request) -> Response:
    """End the session."""
    request.app.state.gate.sign_out(request)
    return RedirectResponse("/login", 303)


def local_path(target: str) -> str:
    r"""Return a path of this server; anything else leads to the index.

    >>> local_path("/explore?run=a"), local_path("//evil.example"), local_path("/\\evil.example")
    ('/explore?run=a', '/', '/')
    """
    is_path = target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable()
    return target if is_path else "/"
