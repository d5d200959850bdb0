"""Style sheets and scripts: files of the package, by name."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from clinometer.web.pages import report_style

router = APIRouter()

_KINDS = {"css": "text/css", "js": "text/javascript"}


@router.get("/static/{name}")
def static(name: str) -> Response:
    """One file. Only names that the package has are known; none becomes a path."""
    if name not in _names():
        raise HTTPException(404, "There is no such file.")
    kind = _KINDS[name.rpartition(".")[2]]
    return Response(_content(name), media_type=kind, headers={"Cache-Control": "public, max-age=86400"})


@cache
def _names() -> frozenset[str]:
    folder = resources.files("clinometer.web") / "static"
    own = {file.name for file in folder.iterdir() if file.name.rpartition(".")[2] in _KINDS}
    return frozenset(own | {"report.css"})


@cache
def _content(name: str) -> str:
    if name == "report.css":
        return report_style()
    return (resources.files("clinometer.web") / "static" / name).read_text(encoding="utf-8")
