"""The page that makes a task of runs of the index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from clinometer import api
from clinometer._secrets import masked
from clinometer.errors import ClinometerError, RatingsError
from clinometer.runs.ratings.sampling import SHOWN, Strata, draw_items
from clinometer.studies import rated_of
from clinometer.web.database import writing
from clinometer.web.pages import render
from clinometer.web.ratings.tasks import CONSENT, OTHER_ANSWERS, TaskSpec, answers_for, make_task

router = APIRouter(prefix="/ratings")

QUESTION = "Whom does the picture show?"


@dataclass
class TaskForm:
    """The fields of the form, as they were typed."""

    run: list[str] = field(default_factory=list)
    title: str = "What do these pictures show?"
    question: str = QUESTION
    images: int = 10
    shown: int = SHOWN
    strata: Strata = "concept"
    raters: int = 3
    items: int = 0
    repeats: int = 5
    attention: int = 4
    other: str = "\n".join(OTHER_ANSWERS)
    consent: str = CONSENT
    warning: str = ""
    blur: bool = False


@router.get("/new")
def new_task_page(request: Request, run: str = "") -> Response:
    """The form."""
    return _form(request, TaskForm([run] if run else []))


@router.post("/new")
def new_task(
    request: Request,
    title: Annotated[str, Form(max_length=200)],
    question: Annotated[str, Form(max_length=500)],
    consent: Annotated[str, Form(max_length=20_000)],
    run: Annotated[list[str] | None, Form()] = None,
    images: Annotated[int, Form(ge=0, le=10_000)] = 10,
    shown: Annotated[int, Form(ge=1, le=100)] = SHOWN,
    strata: Annotated[Strata, Form()] = "concept",
    raters: Annotated[int, Form(ge=1, le=1_000)] = 3,
    items: Annotated[int, Form(ge=0, le=100_000)] = 0,
    repeats: Annotated[int, Form(ge=0, le=100)] = 5,
    attention: Annotated[int, Form(ge=0, le=1_000)] = 4,
    other: Annotated[str, Form(max_length=2_000)] = "",
    warning: Annotated[str, Form(max_length=2_000)] = "",
    blur: Annotated[bool, Form()] = False,
) -> Response:
    """Make the task, or show the form again with what is wrong."""
    form = TaskForm(
        run or [],
        title,
        question,
        images,
        shown,
        strata,
        raters,
        items,
        repeats,
        attention,
        other,
        consent,
        warning,
        blur,
    )
    try:
        identifier = _make(request, form)
    except ClinometerError as error:
        return _form(request, form, str(error), 400)
    return RedirectResponse(f"/ratings/{identifier}", 303)


def _make(request: Request, form: TaskForm) -> str:
    runs = [_run(request, identifier) for identifier in form.run]
    if not runs:
        raise RatingsError("Choose at least one run.")
    others = tuple(dict.fromkeys(line.strip() for line in form.other.splitlines() if line.strip()))
    spec = TaskSpec(
        form.title, form.question, answers_for(runs, others), form.raters, form.items, form.repeats / 100,
        form.consent, form.warning, form.blur,
    )  # fmt: skip
    drawn_items = [
        (masked(run.directory.place), item)
        for run in runs
        for item in draw_items(
            run,
            rated_of(run),
            form.images,
            strata=form.strata,
            attention=form.attention,
            shown=form.shown,
        )
    ]
    with writing(request.app.state.ratings.engine) as session:
        return make_task(session, spec, drawn_items).id


def _run(request: Request, identifier: str) -> api.Run:
    """A run that can be shown: ``get`` refuses every other."""
    run: api.Run = request.app.state.runs.get(identifier).run
    return run


def _form(request: Request, form: TaskForm, message: str = "", status: int = 200) -> Response:
    listed: list[Any] = [run for run in request.app.state.runs.listed() if not run.error]
    return render(request, "ratings/new.html", status, form=form, runs=listed, message=message)
