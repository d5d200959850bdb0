"""A third group: the xMCAS plane and the association profile."""

from __future__ import annotations

from math import degrees, pi
from typing import Any

from clinometer.report import wording
from clinometer.report.figures.marks import SHAPE_CHARACTERS
from clinometer.report.rows import Row
from clinometer.studies.leaning.figures import plane_figure, profile_figure
from clinometer.studies.leaning.figures.plane import group_mark, group_places, profile_of, prompt_places
from clinometer.studies.leaning.view import LeaningView


def plane(view: LeaningView) -> dict[str, Any]:
    """Gather the plane, its numbers and the profile; say why when the suite has no third group."""
    figure = plane_figure(view, close=False)
    return {
        "reason": "" if figure else _why_no_plane(view),
        "figure": figure,
        "few": view.holds_few,
        "close": plane_figure(view, close=True),
        "profile": profile_figure(view),
        "group_keys": _group_keys(view),
        "places": _places(view),
        "profiles": _profiles(view),
        "prompts": bool(prompt_places(view)),
        "concepts": _concepts(view),
        "offset": _offset(view),
        "label_a": view.label_a,
        "label_b": view.label_b,
        "label_third": view.label_third,
    }


def _why_no_plane(view: LeaningView) -> str:
    if view.third is None:
        return "The suite has no third axis. With one (axis.third) this section shows the xMCAS plane."
    return "No concept has a similarity to the third group."


def _group_keys(view: LeaningView) -> list[tuple[str, str, str]]:
    """Class, shape and label of each group."""
    classes = {view.group_a: "a", view.group_b: "b", view.third: "third"}
    return [
        (
            classes.get(group, "balanced"),
            SHAPE_CHARACTERS.get(group_mark(view, group).shape, "●"),
            view.label(group),
        )
        for group in view.suite.groups
    ]


def _places(view: LeaningView) -> list[dict[str, str]]:
    angle, distance = (
        {row.group: row for row in view.scores.select("xmcas_group", name) if not row.concept}
        for name in ("angle", "distance")
    )
    return [
        {
            "label": view.label(group),
            "similarity": wording.number(x, 3),
            "mcas": wording.signed(y, view.digits),
            "angle": _angle(angle.get(group)),
            "distance": _with_interval(distance.get(group), 3),
        }
        for group, (x, y) in group_places(view).items()
    ]


def _profiles(view: LeaningView) -> list[dict[str, Any]]:
    """List the profile of every concept, its length beside what would be expected if nothing leaned."""
    groups = list(view.suite.groups)
    profiles = {group: profile_of(view, group) for group in groups}
    norm = view.scores.by_concept("profile", "norm")
    return [
        {
            "name": concept.name,
            "values": [_signed(profiles[group].get(concept.name)) for group in groups],
            "norm": _with_interval(norm.get(concept.name), 3),
            "null": wording.number(norm[concept.name].null, 3) if concept.name in norm else wording.MISSING,
            "q": wording.probability(norm[concept.name].q, "q") if concept.name in norm else "",
        }
        for concept in view.ranked()
        if any(concept.name in rows for rows in profiles.values())
    ]


def _signed(row: Row | None) -> str:
    return wording.signed(row.value, 3) if row is not None else wording.MISSING


def _offset(view: LeaningView) -> str:
    row = view.scores.first("xmcas", "offset")
    return wording.signed(row.value, 4) if row is not None and row.defined else ""


def _concepts(view: LeaningView) -> list[dict[str, str]]:
    names = ("similarity", "angle", "distance")
    similarity, angle, distance = (view.scores.by_concept("xmcas", name) for name in names)
    return [
        {
            "name": concept.name,
            "mcas": wording.signed(view.mcas[concept.name].value, view.digits),
            "similarity": _with_interval(similarity.get(concept.name), 3),
            "angle": _angle(angle.get(concept.name)),
            "distance": _with_interval(distance.get(concept.name), 3),
            "null": wording.number(distance[concept.name].null, 3) if concept.name in distance else wording.MISSING,
        }
        for concept in view.ranked()
        if concept.name in similarity
    ]


def _angle(row: Row | None) -> str:
    if row is None or not row.defined:
        return wording.MISSING
    return f"{wording.number(degrees(row.value), 1)}°{_angle_ends(row)} ({wording.number(row.value, 3)})"


def _angle_ends(row: Row) -> str:
    """The interval of an angle in degrees; no angle is beyond a half turn, so wider ends say nothing of a direction."""
    if row.has_interval and max(abs(row.low), abs(row.high)) <= pi:
        return f" {wording.interval(degrees(row.low), degrees(row.high), 1)}"
    return ", no interval: too few images"


def _with_interval(row: Row | None, digits: int) -> str:
    if row is None:
        return wording.MISSING
    return f"{wording.number(row.value, digits)} {wording.interval(row.low, row.high, digits)}".strip()
