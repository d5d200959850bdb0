"""Pages of the organiser: make a task of runs of the index, follow it, invite raters, take its answers out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException

from clinometer import api
from clinometer._csv import csv_text
from clinometer.errors import ClinometerError, RatingsError
from clinometer.ratings import SHOWN, Strata, agreement_so_far, rater_summaries
from clinometer.web.database import Answer, Invitation, Item, Rater, Task, Turn, now, reading, writing
from clinometer.web.pages import render
from clinometer.web.ratings import tasks

router = APIRouter(prefix="/ratings")


class TaskForm(BaseModel):
    """The fields of the form, as they were typed."""

    title: Annotated[str, Field(max_length=200)]
    question: Annotated[str, Field(max_length=500)]
    consent: Annotated[str, Field(max_length=20_000)]
    run: list[str] = []
    images: Annotated[int, Field(ge=0, le=10_000)] = 10
    shown: Annotated[int, Field(ge=1, le=100)] = SHOWN
    strata: Strata = "concept"
    raters: Annotated[int, Field(ge=1, le=1_000)] = 3
    items: Annotated[int, Field(ge=0, le=100_000)] = 0
    repeats: Annotated[int, Field(ge=0, le=100)] = 5
    attention: Annotated[int, Field(ge=0, le=1_000)] = 4
    other: Annotated[str, Field(max_length=2_000)] = ""
    warning: Annotated[str, Field(max_length=2_000)] = ""
    blur: bool = False


@router.get("/new")
def new_task_page(request: Request, run: str = "") -> Response:
    """Show the form."""
    form = TaskForm(
        title="What do these pictures show?", question="Whom does the picture show?", consent=tasks.CONSENT,
        run=[run] if run else [], other="\n".join(tasks.OTHER_ANSWERS),
    )  # fmt: skip
    return _form(request, form)


@router.post("/new")
def new_task(request: Request, form: Annotated[TaskForm, Form()]) -> Response:
    """Create the task, or show the form again with its errors."""
    try:
        identifier = _make(request, form)
    except ClinometerError as error:
        return _form(request, form, str(error), 400)
    return RedirectResponse(f"/ratings/{identifier}", 303)


def _make(request: Request, form: TaskForm) -> str:
    runs: list[api.Run] = [request.app.state.runs.get(identifier).run for identifier in form.run]
    if not runs:
        raise RatingsError.too_few("Choose at least one run.")
    others = tuple(dict.fromkeys(line.strip() for line in form.other.splitlines() if line.strip()))
    spec = tasks.TaskSpec(
        form.title, form.question, tasks.answers_for(runs, others), form.raters, form.items, form.repeats / 100,
        form.consent, form.warning, form.blur,
    )  # fmt: skip
    drawn_items = tasks.draw_from(runs, form.images, strata=form.strata, attention=form.attention, shown=form.shown)
    with writing(request.app.state.ratings.engine) as session:
        return tasks.make_task(session, spec, drawn_items).id


def _form(request: Request, form: TaskForm, message: str = "", status: int = 200) -> Response:
    listed: list[Any] = [run for run in request.app.state.runs.listed() if not run.error]
    return render(request, "ratings/new.html", status, form=form, runs=listed, message=message)


Identifier = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.ratings.engine
    return engine


def _task(session: Session, identifier: str) -> Task:
    task = session.get(Task, identifier)
    if task is None:
        raise HTTPException(404, "There is no such task.")
    return task


@router.get("")
def index(request: Request) -> Response:
    """Show every task."""
    with reading(_engine(request)) as session:
        return render(request, "ratings/index.html", tasks=tasks.listed_tasks(session))


@router.get("/{identifier}")
def task_page(request: Request, identifier: Identifier) -> Response:
    """Return one task: what was asked, who is how far, and how far they agree."""
    return _task_page(request, identifier)


@router.post("/{identifier}/invite")
def new_invitation(
    request: Request,
    identifier: Identifier,
    days: Annotated[float, Form(gt=0, le=3650)] = 30,
    raters: Annotated[int, Form(ge=0, le=100_000)] = 0,
) -> Response:
    """Create an invitation link. It is shown only once: the database keeps its hash."""
    with writing(_engine(request)) as session:
        token = tasks.invite(session, _task(session, identifier), days=days, raters_most=raters)
    return _task_page(request, identifier, link=f"{str(request.base_url).rstrip('/')}/join/{token}")


def _invitation(session: Session, identifier: str, number: int) -> Invitation:
    invitation = session.get(Invitation, number)
    if invitation is None or invitation.task_id != identifier:
        raise HTTPException(404, "There is no such invitation.")
    return invitation


@router.get("/{identifier}/invitations/{number}/revoke")
def ask_before_revoking(request: Request, identifier: Identifier, number: int) -> Response:
    """Ask once more: nobody can give the invitation back."""
    with reading(_engine(request)) as session:
        invitation = _invitation(session, identifier, number)
        n = session.scalar(select(func.count()).where(Rater.invitation_id == number, Rater.withdrawn.is_(None)))
        return render(
            request,
            "ratings/sure.html",
            task=invitation.task,
            question=f"Withdraw the invitation of {invitation.created:%Y-%m-%d %H:%M}?",
            consequence=f"Nobody can join with it any more, and the raters who joined with it ({n}) cannot "
            "continue. Their answers are kept. This cannot be undone, but a new invitation can be made.",
            action="Withdraw the invitation",
        )


@router.post("/{identifier}/invitations/{number}/revoke")
def revoke(request: Request, identifier: Identifier, number: int) -> Response:
    """Revoke an invitation: it no longer lets anybody in, and who came by it cannot go on."""
    with writing(_engine(request)) as session:
        invitation = _invitation(session, identifier, number)
        invitation.revoked = invitation.revoked or now()
    return _back(identifier)


def _rater(session: Session, identifier: str, name: str) -> Rater:
    rater = session.scalar(select(Rater).where(Rater.task_id == identifier, Rater.name == name))
    if rater is None:
        raise HTTPException(404, "There is no such rater.")
    return rater


@router.get("/{identifier}/raters/{name}/withdraw")
def ask_before_withdrawing(request: Request, identifier: Identifier, name: str) -> Response:
    """Ask once more: nobody can give the answers back."""
    with reading(_engine(request)) as session:
        rater = _rater(session, identifier, name)
        n = session.scalar(select(func.count(Answer.turn_id)).join(Turn).where(Turn.rater_id == rater.id))
        return render(
            request,
            "ratings/sure.html",
            task=rater.task,
            question=f"Withdraw the {n} answers of {name}?",
            consequence="They no longer count, and the rater cannot continue. Pictures that lack an answer are given "
            "to other raters. What was exported stays until the task is exported again. This cannot be undone.",
            action=f"Withdraw {n} answers",
        )


@router.post("/{identifier}/raters/{name}/withdraw")
def withdraw(request: Request, identifier: Identifier, name: str) -> Response:
    """Exclude a rater's answers from now on. They stay in the database and count nowhere."""
    with writing(_engine(request)) as session:
        rater = _rater(session, identifier, name)
        rater.withdrawn = rater.withdrawn or now()
    return _back(identifier)


@router.post("/{identifier}/close")
def close(request: Request, identifier: Identifier) -> Response:
    """Close a task: it takes no further answers."""
    with writing(_engine(request)) as session:
        task = _task(session, identifier)
        task.closed = task.closed or now()
    return _back(identifier)


@router.post("/{identifier}/open")
def open_again(request: Request, identifier: Identifier) -> Response:
    """Reopen the task for answers."""
    with writing(_engine(request)) as session:
        _task(session, identifier).closed = None
    return _back(identifier)


@router.post("/{identifier}/export")
def export(request: Request, identifier: Identifier) -> Response:
    """Write the answers into the runs, and score and report these again."""
    return _task_page(request, identifier, exported=tasks.export_task(_engine(request), identifier))


@router.get("/{identifier}/answers.csv")
def answers_csv(request: Request, identifier: Identifier) -> Response:
    """Show every answer that counts, as a table."""
    with reading(_engine(request)) as session:
        table = tasks.answers_of(session, _task(session, identifier))
    name = f'attachment; filename="ratings-{identifier}.csv"'
    return Response(
        csv_text(table).encode("utf-8", "backslashreplace"),
        media_type="text/csv",
        headers={"Content-Disposition": name},
    )


def _back(identifier: str) -> Response:
    return RedirectResponse(f"/ratings/{identifier}", 303)


def _task_page(request: Request, identifier: str, **extra: Any) -> Response:
    with reading(_engine(request)) as session:
        task = _task(session, identifier)
        answers = tasks.answers_of(session, task)
        by_kind = answers[~answers.simulated], answers[answers.simulated]
        # every rater, with the length of their order and what they answered
        summaries = rater_summaries(answers)
        rows = session.execute(
            select(Rater, func.count(Turn.id))
            .outerjoin(Turn, Turn.rater_id == Rater.id)
            .where(Rater.task_id == identifier)
            .group_by(Rater.id)
            .order_by(Rater.id)
        ).all()
        counts = _counts(session, identifier)
        by_concept: dict[str, dict[str, Any]] = {}  # its items, and its answers of those wanted
        for item, n in counts:
            nothing = {"name": item.concept, "items_count": 0, "answers": 0, "wanted": 0}
            of_concept = by_concept.setdefault(item.concept, nothing)
            of_concept["items_count"] += 1
            of_concept["answers"] += n
            of_concept["wanted"] += task.raters_each
        values = {
            "task": task,
            "told": [
                (who, len(answers_of_kind), agreement_so_far(answers_of_kind))
                for who, answers_of_kind in zip(("people", "simulated raters"), by_kind, strict=True)
                if len(answers_of_kind) or who == "people"
            ],
            "raters": [{"rater": rater, "total": total, "summary": summaries.get(rater.name)} for rater, total in rows],
            "concepts": list(by_concept.values()),
            "items": sorted(counts, key=lambda pair: pair[1])[:50],
            "invitations": session.scalars(select(Invitation).where(Invitation.task_id == identifier)).all(),
            "moment": now(),
        }
        return render(request, "ratings/task.html", **{"link": "", "exported": None, **values, **extra})


def _counts(session: Session, identifier: str) -> list[tuple[Item, int]]:
    """Return every item that is rated, with the people who did."""
    answered = (
        select(Turn.item_id, func.count().label("n"))
        .join(Answer, Answer.turn_id == Turn.id)
        .join(Rater, Rater.id == Turn.rater_id)
        .where(Rater.task_id == identifier, Rater.withdrawn.is_(None), ~Rater.simulated, ~Turn.repeat)
        .group_by(Turn.item_id)
        .subquery()
    )
    rows = session.execute(
        select(Item, func.coalesce(answered.c.n, 0))
        .outerjoin(answered, answered.c.item_id == Item.id)
        .where(Item.task_id == identifier, Item.attention == "")
        .order_by(Item.id)
    )
    return [(item, n) for item, n in rows]
