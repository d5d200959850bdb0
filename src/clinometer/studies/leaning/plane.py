"""A third group: the xMCAS plane, the association profile, their figures and their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import degrees, pi
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures import (
    MARKS,
    ROW_HEIGHT,
    SHAPE_CHARACTERS,
    Figure,
    Ink,
    Mark,
    canvas,
    draw_mark,
    drawable,
    finish,
    label_rows,
    model_mark,
    place,
    span,
    tidy,
)
from clinometer.report.view import Row
from clinometer.studies.leaning.view import LeaningView

CENTROID: Final = (1 / 3, 0.0)
GROUP_SHAPES: Final = ("^", "v", "D", "P", "X", "p", "h", "*")
_HALO: Final = {"facecolor": Ink.PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 1.0}
_GROUP_COLOURS: Final = (Ink.A, Ink.B, Ink.THIRD)


def plane(view: LeaningView) -> dict[str, Any]:
    """Gather the plane, its numbers and the profile; say why when the suite has no third group."""
    figure = plane_figure(view, close=False)
    classes = {view.group_a: "a", view.group_b: "b", view.third: "third"}
    of_groups = {
        name: {row.group: row for row in view.scores.select("xmcas_group", name) if not row.concept}
        for name in ("similarity", "mcas", "angle", "distance")
    }
    offset = view.scores.first("xmcas", "offset")
    profiles = [profile_of(view, group) for group in view.suite.groups]
    reason = "No concept has a similarity to the third group."
    if view.third is None:
        reason = "The suite names no third group. With one (axis.third) this section shows the xMCAS plane."
    return {
        "reason": "" if figure else reason,
        "figure": figure,
        "few": view.holds_few,
        "close": plane_figure(view, close=True),
        "profile": profile_figure(view),
        "group_keys": [
            (
                classes.get(group, "balanced"),
                SHAPE_CHARACTERS.get(group_mark(view, group).shape, "●"),
                view.label(group),
            )
            for group in view.suite.groups
        ],
        "places": {group: {name: rows.get(group) for name, rows in of_groups.items()} for group in group_places(view)},
        "concepts": {name: view.scores.by_concept("xmcas", name) for name in ("similarity", "angle", "distance")},
        "angle": angle_in_words,
        "profiles": profiles,
        "norm": view.scores.by_concept("profile", "norm"),
        "profiled": [c.name for c in view.ranked() if any(c.name in rows for rows in profiles)],
        "prompts": bool(prompt_places(view)),
        "fair": fair_place(view),
        "offset": wording.signed(offset.value, 4) if offset is not None and offset.defined else "",
    }


def angle_in_words(row: Row | None) -> str:
    """Write an angle in degrees with its interval, and in radians."""
    if row is None or not row.defined:
        return wording.MISSING
    ends = ", no interval: too few images"  # no angle is beyond a half turn, so wider ends say nothing of a direction
    if row.has_interval and max(abs(row.low), abs(row.high)) <= pi:
        ends = f" {wording.interval(degrees(row.low), degrees(row.high), 1)}"
    return f"{wording.number(degrees(row.value), 1)}°{ends} ({wording.number(row.value, 3)})"


def plane_figure(view: LeaningView, *, close: bool) -> Figure | None:
    """Draw similarity to the third group across and MCAS up.

    Parameters
    ----------
    close : only where the marks lie, with the groups' own places named; else the whole plane.
    """
    similarity = view.scores.by_concept("xmcas", "similarity")
    places = group_places(view)
    concepts = [c for c in view.ranked() if c.name in similarity and similarity[c.name].defined]
    if view.third is None or not (concepts or places):
        return None
    with canvas(460, 420) as figure:
        axes = place(figure, 62, 52, 18, 16)
        tidy(axes, grid="both")
        if not close:
            axes.plot([0, 1, 0, 0], [1, 0, -1, 1], color=Ink.GRID, linewidth=1.4, zorder=1)
            corner = dict(color=Ink.MUTED, fontsize=11.5, bbox=_HALO, zorder=1.5)
            axes.text(0.03, 1.0, drawable(f"only {view.label_a}", 28), ha="left", va="bottom", **corner)
            axes.text(0.03, -1.0, drawable(f"only {view.label_b}", 28), ha="left", va="top", **corner)
            axes.text(1.0, 0.05, drawable(f"only {view.label_third}", 28), ha="right", va="bottom", **corner)
        axes.axhline(0, color=Ink.MUTED, linewidth=1.1, zorder=1)
        tips = {}
        for order, concept in enumerate(concepts):
            row, mcas = similarity[concept.name], view.mcas[concept.name].value
            numbers = f"similarity {wording.number(row.value, 3)}, MCAS {wording.signed(mcas, view.digits)}"
            draw_mark(
                axes, row.value, mcas, MARKS[view.verdict_group(concept.name)], size=7 if close else 5, gid=f"p{order}"
            )
            tips[f"p{order}"] = drawable(f"{concept.name}: {numbers}", 120)
        _draw_groups(axes, view, places, close=close)
        group_points = [*places.values(), *((x, y) for _, _, x, y in prompt_places(view))]
        xs = [similarity[c.name].value for c in concepts] + [x for x, _ in group_points]
        ys = [view.mcas[c.name].value for c in concepts] + [y for _, y in group_points]
        fair = fair_place(view)
        if fair is not None:
            axes.plot(
                *([at] for at in fair), marker="x", markersize=11, markeredgewidth=2.2, color=Ink.ACCENT, zorder=5
            )
            xs, ys = [*xs, fair[0]], [*ys, fair[1]]
        _frame(axes, view, close, xs, ys)
        return finish(
            figure,
            name="plane-close" if close else "plane",
            title="The xMCAS plane, close up" if close else "The xMCAS plane",
            description=_words(view, places, len(concepts)),
            tips=tips,
        )


def fair_place(view: LeaningView) -> tuple[float, float] | None:
    """Find where equal parts of all groups' own pictures lie: (similarity to the third group, MCAS)."""
    across, up = view.middle("similarity", "plane"), view.middle("mcas", "plane")
    return None if across is None or up is None else (across, up)


def group_places(view: LeaningView) -> dict[str, tuple[float, float]]:
    """Find where each group's own held-out images lie: (similarity to the third group, MCAS)."""
    across = {row.group: row for row in view.scores.select("xmcas_group", "similarity") if not row.concept}
    up = {row.group: row for row in view.scores.select("xmcas_group", "mcas") if not row.concept}
    return {
        group: (row.value, up[group].value)
        for group, row in across.items()
        if group in up and row.defined and up[group].defined
    }


def prompt_places(view: LeaningView) -> list[tuple[str, str, float, float]]:
    """Find where each attribute prompt's own images lie: group, prompt, similarity, MCAS."""
    up = {(row.group, row.concept): row for row in view.scores.select("xmcas_group", "mcas") if row.concept}
    return [
        (row.group, row.concept, row.value, up[row.group, row.concept].value)
        for row in view.scores.select("xmcas_group", "similarity")
        if row.concept and row.defined and (row.group, row.concept) in up
    ]


def group_mark(view: LeaningView, group: str) -> Mark:
    """Return the shape and colour of a group: A, B and the third have their own, the others share one colour."""
    names = list(view.suite.groups)
    colours = dict(zip((view.group_a, view.group_b, view.third), _GROUP_COLOURS, strict=True))
    order = names.index(group) if group in names else 0
    return Mark(GROUP_SHAPES[order % len(GROUP_SHAPES)], colours.get(group, Ink.BALANCED))


def _draw_groups(axes: Any, view: LeaningView, places: dict[str, tuple[float, float]], *, close: bool) -> None:
    """Draw each group where it lies; ``close``, with its name and where its prompts lie."""
    for group, _, x, y in prompt_places(view) if close else ():
        _draw_faint(axes, x, y, group_mark(view, group), markersize=6, alpha=0.4)
    for group, (x, y) in places.items():
        mark = group_mark(view, group)
        _draw_faint(axes, x, y, mark, markersize=15, alpha=0.28)
        draw_mark(axes, x, y, mark, size=9)
        if close:
            to_left = x > min(p[0] for p in places.values())
            _name_beside(axes, drawable(view.label(group), 22), (x, y), to_left, color=mark.colour, fontweight="bold")


def _draw_faint(axes: Any, x: float, y: float, mark: Mark, **size: float) -> None:
    axes.plot([x], [y], marker=mark.shape, color=mark.colour, zorder=2, linestyle="none", **size)


def _name_beside(axes: Any, name: str, at: tuple[float, float], to_left: bool, **text: Any) -> None:
    """Name a group above its mark, or below where it lies in the lower half: beside it other marks lie."""
    side, below = "right" if to_left else "left", at[1] < 0
    shift = (9 if to_left else -9, -11 if below else 11)
    vertical = "top" if below else "bottom"
    axes.annotate(name, at, shift, textcoords="offset points", ha=side, va=vertical, bbox=_HALO, zorder=6, **text)


def _frame(axes: Any, view: LeaningView, close: bool, xs: Sequence[float], ys: Sequence[float]) -> None:
    """Draw the limits, the centroid and the unbiased direction."""
    if close:
        low, high = span([], include=xs)
        axes.set_xlim(low, high)
        reach = max(abs(edge) for edge in span([], include=[0.0, *ys]))
        axes.set_ylim(-reach, reach)
    else:
        axes.set_xlim(min(-0.04, *xs), max(1.06, *xs))
        reach = max(1.16, *(1.08 * abs(y) for y in ys))
        axes.set_ylim(-reach, reach)
    x, y = CENTROID
    left, right = axes.get_xlim()
    if left <= x <= right:
        axes.plot([x], [y], marker="+", markersize=15, markeredgewidth=2.4, color=Ink.ACCENT, zorder=5)
        axes.annotate(
            "(⅓, 0)",
            (x, y),
            (0, -20),  # below: groups that lean to neither A nor B have their labels on the line itself
            textcoords="offset points",
            ha="center",
            color=Ink.ACCENT,
            fontsize=11.5,
            bbox=_HALO,
        )
    _label_axes(axes, view)


def _label_axes(axes: Any, view: LeaningView) -> None:
    axes.set_xlabel(f"similarity to {drawable(view.label_third, 34)}")
    axes.set_ylabel(f"\u25c2 {drawable(view.label_b, 16)}    MCAS    {drawable(view.label_a, 16)} \u25b8")
    axes.tick_params(axis="y", labelcolor=Ink.MUTED)


def _words(view: LeaningView, places: dict[str, tuple[float, float]], concepts: int) -> str:
    phrases = [
        f"{view.label(group)} at similarity {wording.number(x)}, MCAS {wording.signed(y)}"
        for group, (x, y) in places.items()
    ]
    middle = ""
    if (fair := fair_place(view)) is not None:
        at = f"{wording.number(fair[0])}, MCAS {wording.signed(fair[1])}"
        middle = f"Equal parts of the groups' own pictures lie at {at}. "
    return (
        f"Similarity to {view.label_third} across, MCAS up. {wording.count(concepts, 'concept')}; "
        "the paper's point of no leaning is at similarity 0.33, MCAS 0. "
        + middle
        + ("The groups' own places: " + "; ".join(phrases) + "." if phrases else "")
    )


def profile_figure(view: LeaningView) -> Figure | None:
    """Draw, one row a concept, how much nearer than average it is to each group."""
    groups = list(view.suite.groups)
    profiles = {group: profile_of(view, group) for group in groups}
    rows = [row for by_concept in profiles.values() for row in by_concept.values() if row.defined]
    concepts = [c for c in view.ranked() if any(c.name in by_concept for by_concept in profiles.values())]
    if not rows or not concepts:
        return None
    with canvas(440, 60 + ROW_HEIGHT * len(concepts)) as figure:
        axes = place(figure, 156, 48, 14, 12)
        tidy(axes)
        axes.set_xlim(*span(rows, stimulus=False))
        axes.axvline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        for y, concept in enumerate(concepts):
            for group in groups:
                row, mark = profiles[group].get(concept.name), group_mark(view, group)
                if row is not None and row.defined:
                    if row.has_interval:
                        axes.plot([row.low, row.high], [y, y], color=mark.colour, linewidth=3, alpha=0.45, zorder=2)
                    draw_mark(axes, row.value, y, mark, size=5.5)
        label_rows(axes, [concept.name for concept in concepts])
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("farther than average  \u25c2   \u25b8  nearer")
        labels = wording.listed([view.label(group) for group in groups])
        return finish(
            figure,
            name="profile",
            title="Group association profile",
            description=f"One row per concept, one shape per group: {labels}. Right is nearer than average.",
        )


def profile_of(view: LeaningView, group: str) -> dict[str, Row]:
    """Look up the profile row of each concept for a group."""
    return view.scores.by_concept("profile", "association", group=group)


def plane_models_figure(views: Mapping[str, LeaningView]) -> Figure | None:
    """Draw the groups' own places on the xMCAS plane, model by model: the xMCAS paper's figure 3."""
    places = {model: group_places(view) for model, view in views.items()}
    first = next(iter(views.values()))
    groups = [group for group in first.suite.groups if any(group in by_group for by_group in places.values())]
    if first.third is None or not groups:
        return None
    with canvas(460, 420) as figure:
        axes = place(figure, 62, 52, 18, 16)
        tidy(axes, grid="both")
        axes.axhline(0, color=Ink.MUTED, linewidth=1.1, zorder=1)
        tips = {}
        for order, (model, by_group) in enumerate(places.items()):
            mark = model_mark(order)
            for group, (x, y) in by_group.items():
                gid = f"g{order}x{groups.index(group)}"
                draw_mark(axes, x, y, mark, size=8 + 4 * (len(places) - 1 - order), gid=gid)  # none hides another
                numbers = f"similarity {wording.number(x, 3)}, MCAS {wording.signed(y, 3)}"
                tips[gid] = drawable(f"{first.label(group)}, {model}: {numbers}", 140)
        points = [point for by_group in places.values() for point in by_group.values()]
        axes.set_xlim(*span([], include=[CENTROID[0], *(x for x, _ in points)]))
        reach = max(map(abs, span([], include=[0.0, *(y for _, y in points)])))
        axes.set_ylim(-reach, reach)
        axes.plot(*([at] for at in CENTROID), marker="+", markersize=15, markeredgewidth=2.4, color=Ink.TEXT, zorder=5)
        _label_axes(axes, first)
        middle = sum(axes.get_xlim()) / 2
        for group in groups:  # a group's places are joined by a line, and named beside the outermost of them
            group_points = [by_group[group] for by_group in places.values() if group in by_group]
            axes.plot(*zip(*group_points, strict=True), color=Ink.GRID, linewidth=2, zorder=1)
            to_left = max(group_points)[0] > middle
            outermost = min(group_points) if to_left else max(group_points)
            _name_beside(axes, drawable(first.label(group), 20), outermost, to_left, fontsize=11.5)
        return finish(
            figure,
            name="models-plane",
            title="The groups' own places on the xMCAS plane",
            description="; ".join(tips.values()),
            tips=tips,
        )
