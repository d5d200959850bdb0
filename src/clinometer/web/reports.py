"""The report of a run, as it lies there.

It is a file that somebody may have made by hand, so it is shown in a sandbox: a page of its own that has no cookies,
reaches no server, and may run the script that filters its table.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from clinometer.errors import RunNotFoundError
from clinometer.web.pictures import Identifier

router = APIRouter()

POLICY: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/runs/{run}/report")
def report(request: Request, run: Identifier) -> Response:
    """The report of a run."""
    entry = request.app.state.runs.get(run)
    try:
        content = entry.run.directory.read_bytes("report.html")
    except RunNotFoundError as error:
        raise HTTPException(404, "This run has no report yet. Write it: clinometer report RUN") from error
    return Response(content, media_type="text/html", headers={"Content-Security-Policy": POLICY})
