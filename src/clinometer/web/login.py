"""Signing in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from clinometer.web.pages import render

router = APIRouter()


@router.get("/login")
def login_page(request: Request, next: str = "/") -> Response:
    """The form."""
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
    r"""A path of this server; anything else leads to the index.

    >>> local_path("/explore?run=a"), local_path("//evil.example"), local_path("/\\evil.example")
    ('/explore?run=a', '/', '/')
    """
    is_path = target.startswith("/") and target[1:2] not in ("/", "\\") and target.isprintable()
    return target if is_path else "/"
