"""What a rater sees: consent, one item after the other, the end. Nothing of the machine's answer is on any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException

from clinometer.web.database import reading
from clinometer.web.pages import render
from clinometer.web.ratings import answers
from clinometer.web.ratings.room import Room
from clinometer.web.ratings.tables import Rater
from clinometer.web.ratings.tasks import blurred_of, invitation_of, rater_of, rater_refusal, refusal_of

router = APIRouter()

Found = TypeVar("Found")
Token = Annotated[str, Path(pattern=r"^[0-9A-Za-z_-]{16,64}$")]
Place = Annotated[int, Form(ge=1, le=1_000_000)]
UNKNOWN = "This address leads to no task. Ask for it again where you were given it."


def _room(request: Request) -> Room:
    room: Room = request.app.state.ratings
    return room


def _known(found: Found | None) -> Found:
    if found is None:
        raise HTTPException(404, UNKNOWN)
    return found


@router.get("/join/{token}")
def consent_page(request: Request, token: Token) -> Response:
    """Return what is asked and what is kept, before anything is shown."""
    with reading(_room(request).engine) as session:
        invitation = _known(invitation_of(session, token))
        refusal = refusal_of(session, invitation)
        if refusal:
            return _end(request, refusal, 403)
        _room(request).make_ready(invitation.task_id)
        blurred = blurred_of(session, invitation.task_id)
        return render(request, "ratings/consent.html", task=invitation.task, token=token, blurred=blurred)


@router.post("/join/{token}")
def join(request: Request, token: Token) -> Response:
    """Consent: from here on there is a rater, with an order of items."""

    def joined(session: Session) -> tuple[str, str, int]:
        invitation = _known(invitation_of(session, token))
        refusal = refusal_of(session, invitation)
        return ("", refusal, 403) if refusal else (*answers.join(session, invitation), 200)

    own, reason, status = _room(request).write(joined)
    if not own:
        return _end(request, reason, status)
    return RedirectResponse(f"/rate/{own}", 303)


@dataclass(frozen=True)
class Standing:
    """A rater, and where they are; or why they cannot go on."""

    rater: Rater
    refusal: str
    progress: answers.RaterProgress | None


def _standing(session: Session, rater: Rater) -> Standing:
    refusal = rater_refusal(rater)
    return Standing(rater, refusal, None if refusal else answers.progress_of(session, rater))


@router.get("/rate/{token}")
def turn_page(request: Request, token: Token) -> Response:
    """Show the item that is next, or the end."""
    with reading(_room(request).engine) as session:
        standing = _standing(session, _known(rater_of(session, token)))
    return _turn_page(request, token, standing)


@router.post("/rate/{token}")
def answer(
    request: Request,
    token: Token,
    place: Place,
    answer: Annotated[str, Form(max_length=300)],
    seconds: Annotated[str, Form(max_length=30)] = "",
) -> Response:
    """Keep an answer: it is on disk when the page says so. Sent twice, it counts once."""

    def recorded(session: Session) -> Standing:
        rater = _known(rater_of(session, token))
        if not rater_refusal(rater) and not answers.record(session, rater, place, answer, _seconds(seconds)):
            raise HTTPException(400, "This answer does not belong to your picture. Open the page again.")
        return _standing(session, rater)

    return _gone_on(request, token, _room(request).write(recorded))


@router.post("/rate/{token}/undo")
def undo(request: Request, token: Token, place: Place) -> Response:
    """Take the last answer back."""

    def taken_back(session: Session) -> Standing:
        rater = _known(rater_of(session, token))
        if not rater_refusal(rater):
            answers.undo(session, rater, place)
            session.flush()
        return _standing(session, rater)

    return _gone_on(request, token, _room(request).write(taken_back))


def _gone_on(request: Request, token: str, standing: Standing) -> Response:
    """Return the next item: the page's script shows it at once, a browser without script is sent to its page."""
    if standing.refusal or _is_by_script(request):
        return _turn_page(request, token, standing)
    return RedirectResponse(f"/rate/{token}", 303)


def _turn_page(request: Request, token: str, standing: Standing) -> Response:
    """Return the page of a turn, or the part that the script exchanges; or why the rater has no turn."""
    progress = standing.progress
    if progress is None:
        return _end(request, standing.refusal, 403)
    pictures = len(_room(request).samples_of(progress.turn.item)) if progress.turn else 0
    template = "ratings/turn.html" if _is_by_script(request) else "ratings/rate.html"
    return render(request, template, task=standing.rater.task, token=token, progress=progress, pictures=pictures)


def _is_by_script(request: Request) -> bool:
    return request.headers.get("X-Part") == "turn"


@router.get("/rate/{token}/picture/{place}/{order}")
def picture(request: Request, token: Token, place: int, order: int) -> Response:
    """Show a picture of one of the rater's own turns, up to the one that is next."""
    room = _room(request)
    with reading(room.engine) as session:
        rater = _known(rater_of(session, token))
        turn = answers.turn_at(session, rater, place) if not rater_refusal(rater) else None
        following = answers.next_place(session, rater)
        if turn is None or (following is not None and place > following):
            raise HTTPException(404, "There is no such picture.")
        session.expunge_all()
    content = room.picture(turn.item, order)
    if content is None:
        raise HTTPException(404, "There is no such picture.")
    return Response(content, media_type="image/webp", headers={"Cache-Control": "private, max-age=3600"})


def _end(request: Request, message: str, status: int) -> Response:
    return render(request, "ratings/end.html", status, message=message)


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
