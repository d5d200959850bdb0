"""What a rater sees: consent, one item after the other, the end. Nothing of the machine's answer is on any of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from clinometer.web.database import reading, writing
from clinometer.web.pages import render
from clinometer.web.ratings import answers
from clinometer.web.ratings.links import invitation_of, rater_of, rater_refusal, refusal_of
from clinometer.web.ratings.room import Room
from clinometer.web.ratings.tables import Invitation, Rater

router = APIRouter()

Token = Annotated[str, Path(pattern=r"^[0-9A-Za-z_-]{16,64}$")]
Place = Annotated[int, Form(ge=1, le=1_000_000)]
UNKNOWN = "This address leads to no task. Ask for it again where you were given it."
NOTHING_LEFT = "Every picture has as many answers as were asked for. Thank you for coming."


def _room(request: Request) -> Room:
    room: Room = request.app.state.ratings
    return room


def _known_invitation(found: Invitation | None) -> Invitation:
    if found is None:
        raise HTTPException(404, UNKNOWN)
    return found


def _known_rater(found: Rater | None) -> Rater:
    if found is None:
        raise HTTPException(404, UNKNOWN)
    return found


@router.get("/join/{token}")
def consent_page(request: Request, token: Token) -> Response:
    """What is asked and what is kept, before anything is shown."""
    with reading(_room(request).engine) as session:
        invitation = _known_invitation(invitation_of(session, token))
        said = refusal_of(session, invitation)
        if said:
            return _end(request, said, 403)
        return render(request, "ratings/consent.html", task=invitation.task, token=token)


@router.post("/join/{token}")
def join(request: Request, token: Token) -> Response:
    """Consent: from here on there is a rater, with an order of items."""
    with writing(_room(request).engine) as session:
        invitation = _known_invitation(invitation_of(session, token))
        said = refusal_of(session, invitation)
        own = None if said else answers.join(session, invitation)
    if own is None:
        return _end(request, said or NOTHING_LEFT, 403 if said else 200)
    return RedirectResponse(f"/rate/{own}", 303)


@router.get("/rate/{token}")
def turn_page(request: Request, token: Token) -> Response:
    """The item that is next, or the end."""
    room = _room(request)
    with reading(room.engine) as session:
        rater = _known_rater(rater_of(session, token))
        said = rater_refusal(rater)
        if said:
            return _end(request, said, 403)
        held = answers.progress_of(session, rater)
        pictures = len(room.samples_of(held.turn.item)) if held.turn else 0
        template = "ratings/turn.html" if request.headers.get("X-Part") == "turn" else "ratings/rate.html"
        return render(request, template, task=rater.task, token=token, held=held, pictures=pictures)


@router.post("/rate/{token}")
def answer(
    request: Request,
    token: Token,
    place: Place,
    answer: Annotated[str, Form(max_length=300)],
    seconds: Annotated[str, Form(max_length=30)] = "",
) -> Response:
    """Keep an answer: it is on disk when the page says so. Sent twice, it counts once."""
    with writing(_room(request).engine) as session:
        rater = _known_rater(rater_of(session, token))
        said = rater_refusal(rater)
        if not said and not answers.record(session, rater, place, answer, _seconds(seconds)):
            raise HTTPException(400, "That is no answer to a picture of yours. Open the page again.")
    return _end(request, said, 403) if said else RedirectResponse(f"/rate/{token}", 303)


@router.post("/rate/{token}/undo")
def undo(request: Request, token: Token, place: Place) -> Response:
    """Take the last answer back."""
    with writing(_room(request).engine) as session:
        rater = _known_rater(rater_of(session, token))
        said = rater_refusal(rater)
        if not said:
            answers.undo(session, rater, place)
    return _end(request, said, 403) if said else RedirectResponse(f"/rate/{token}", 303)


@router.get("/rate/{token}/picture/{place}/{order}")
def picture(request: Request, token: Token, place: int, order: int) -> Response:
    """A picture of one of the rater's own turns, up to the one that is next."""
    room = _room(request)
    with reading(room.engine) as session:
        rater = _known_rater(rater_of(session, token))
        turn = answers.turn_at(session, rater, place) if not rater_refusal(rater) else None
        following = answers.progress_of(session, rater).turn
        if turn is None or (following is not None and place > following.place):
            raise HTTPException(404, "There is no such picture.")
        session.expunge_all()
    made = room.picture(turn.item, order)
    if made is None:
        raise HTTPException(404, "There is no such picture.")
    return Response(made, media_type="image/webp", headers={"Cache-Control": "private, max-age=3600"})


def _end(request: Request, said: str, status: int) -> Response:
    return render(request, "ratings/end.html", status, said=said)


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
