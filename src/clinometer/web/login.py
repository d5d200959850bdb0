"""Signing in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from clinometer.web.pages import render
from clinometer.web.security import address_of

router = APIRouter()


@router.get("/login")
def login_page(request: Request, next: str = "/") -> Response:
    """The form."""
    return render(request, "login.html", next=local_path(next), message="")


@router.post("/login")
async def login(request: Request, password: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
    """Open a session, or say that the password is another."""
    gate, target = request.app.state.gate, local_path(next)
    if not gate.may_try(address_of(request.scope)):
        return render(request, "login.html", 429, next=target, message="Too many tries. Wait a minute.")
    if not gate.is_closed or await run_in_threadpool(gate.opens, password):
        request.session.clear()  # a session that somebody else began must not become the organiser's
        request.session["organiser"] = True
        return RedirectResponse(target, 303)
    return render(request, "login.html", 403, next=target, message="That is not the password.")


@router.post("/logout")
def logout(request: Request) -> Response:
    """End the session."""
    request.session.clear()
    return RedirectResponse("/login", 303)


def local_path(target: str) -> str:
    r"""A path of this server; anything else leads to the index.

    >>> local_path("/explore?run=a"), local_path("//evil.example"), local_path("/\\evil.example")
    ('/explore?run=a', '/', '/')
    """
    is_path = target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable()
    return target if is_path else "/"
