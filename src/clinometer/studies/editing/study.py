"""The record of the editing study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from clinometer.report import wording
from clinometer.report.comparison import Quantity, RunsCompared
from clinometer.report.rows import Row
from clinometer.runs import Run
from clinometer.runs.ratings.store import Rated
from clinometer.runs.vectors import embedded
from clinometer.stats.association import association_scores
from clinometer.studies.editing.figures import PIXELS, EditingView
from clinometer.studies.editing.page import EDITING as PAGE
from clinometer.studies.editing.page import side_by_side
from clinometer.studies.editing.scoring import compare_editing, edit, plan_edits, require_editor, score_editing
from clinometer.studies.study import ComparedGroups, PartStage, Study
from clinometer.suites import EditingSuite, Suite
from clinometer.suites.editing import EDIT, PORTRAIT

TO_DECIDE: Final = "portraits, of all groups"


def edit_name(suite: Suite, row: Row) -> str:
    """Return an edit by its group, its profession or class, and its strength."""
    into = f"into {row.concept or f'“{row.category}”'}, {row.setting}"
    return f"{suite.label_of(row.group)} {into}" if row.group else wording.capitalised(into)


QUANTITIES: Final = (
    Quantity(
        component="flip_asymmetry",
        symbol="flip asymmetry",
        unit="edit",
        column="difference",
        to_decide=TO_DECIDE,
        counted="portrait",
        positive="edits move more to {a} than in {first}",
        over="portraits",
        name=edit_name,
        short_name=edit_name,
    ),
    Quantity(
        component="ita_contrast",
        symbol="contrast of skin",
        unit="edit",
        column="difference, °",
        to_decide=TO_DECIDE,
        counted="portrait",
        positive="the darker tone, against the lighter one, is lightened more than in {first}",
        over="portraits",
        encoder=PIXELS,
        name=edit_name,
        short_name=edit_name,
    ),
    Quantity(
        component="ita_change",
        symbol="change of skin",
        unit="edit",
        column="difference, °",
        to_decide="portraits, of the group",
        counted="portrait",
        positive="skin is lightened more than in {first}",
        over="portraits",
        encoder=PIXELS,
        name=edit_name,
        short_name=edit_name,
    ),
)

ERASURE: Final = (
    Quantity(
        component="erasure_contrast",
        symbol="soft erasure by tone",
        unit="edit",
        column="difference",
        to_decide=TO_DECIDE,
        counted="portrait",
        positive="instructions are left out more often for the tone, against the first, than in {first}",
        over="portraits",
        name=edit_name,
        short_name=edit_name,
    ),
    Quantity(
        component="soft_erasure",
        symbol="soft erasure",
        unit="edit",
        column="difference",
        to_decide="portraits, of the group",
        counted="portrait",
        positive="instructions are left out more often than in {first}",
        over="portraits",
        name=edit_name,
        short_name=edit_name,
    ),
)
"""Of suites that say what an edit shows."""


def quantities(suite: Suite) -> Sequence[Quantity]:
    """List flips and skin, and soft erasure where the suite says what an edit shows."""
    editing = _editing(suite)
    erasure = ERASURE if editing.tones else ERASURE[1:]
    return (*QUANTITIES, *(erasure if any(each.shows for each in editing.professions.values()) else ()))


def compared_groups(suite: Suite) -> Sequence[ComparedGroups]:
    """Return the two genders, matched within tones of skin."""
    editing = _editing(suite)
    sides = {name: (group.gender, group.tone or "") for name, group in editing.groups.items()}
    return (ComparedGroups(editing.genders.a, editing.genders.b, lambda group, prompt: sides.get(group, ("", ""))),)


def rated(suite: Suite) -> Rated:
    """Edits are rated; portraits of a gender show it."""
    editing = _editing(suite)
    pair = (editing.genders.a, editing.genders.b)
    shown_by = {gender: [name for name, own in editing.groups.items() if own.gender == gender] for gender in pair}
    return Rated(
        suite.name, pair, "", {name.lower(): name for name in pair}, (EDIT,), (PORTRAIT,), shown_by,
        read=read_by_wordings,
    )  # fmt: skip


def read_by_wordings(run: Run, encoder: str) -> dict[str, float]:
    """By how much each edit is nearer to a than to b, by its id.

    That is the mean over the wordings, where the study's own reader abstains if they disagree.
    """
    vectors, texts = embedded(run, encoder)
    ids = [sample.id for sample in run.plan if sample.role == EDIT and sample.id in vectors]
    if not texts or not ids:
        return {}
    wordings = _editing(run.suite).wordings
    a, b = (np.stack([texts[getattr(each, side)] for each in wordings]) for side in ("a", "b"))
    return dict(zip(ids, association_scores(np.stack([vectors[i] for i in ids]), a, b).tolist(), strict=True))


def _editing(suite: Suite) -> EditingSuite:
    assert isinstance(suite, EditingSuite)
    return suite


COMPARED: Final = RunsCompared(
    quantities, lambda suite: _editing(suite).genders.a, EditingView, side_by_side, averaged=False
)

EDITING: Final = Study(
    key="editing",
    suite=EditingSuite,
    score=score_editing,
    score_by=score_editing,
    compare=compare_editing,
    page=lambda suite: PAGE,
    comparison=lambda suite: COMPARED,
    stages=(PartStage(edit, "editing"),),
    reads_pixels=True,
    texts_needed=True,
    extend_plan=plan_edits,
    check=require_editor,
    compared_groups=compared_groups,
    rated=rated,
)
