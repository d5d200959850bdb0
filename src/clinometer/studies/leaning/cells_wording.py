"""Verdicts of crossed axes in words: each axis by its levels, then what goes together; never one cell against another.

Undecided is worded as undecided. "No interaction" would be a finding, and no test here makes it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.report.wording import verdict_group_of

if TYPE_CHECKING:
    from clinometer.studies.leaning.cells_view import CellsView


def verdict_words(view: CellsView, concept: str) -> str:
    """``leans to women and to light skin; interaction undecided``, to stand after the concept."""
    leans = [f"to {wording.listed(levels)}" for axis in view.axes if (levels := view.leaned_to(axis, concept))]
    parts = [f"leans {wording.listed(leans)}"] if leans else []
    parts += [
        f"by {view.suite.axis_label(axis)} {_VERDICT_WORDS[lean]}"
        for axis in view.axes
        if (lean := view.axis_lean(axis, concept)) not in ("a", "b")
    ]
    if not leans and len({view.axis_lean(axis, concept) for axis in view.axes}) == 1:
        labels = wording.listed([view.suite.axis_label(axis) for axis in view.axes])
        parts = [f"by {labels} {_VERDICT_WORDS[view.axis_lean(next(iter(view.axes)), concept)]}"]
    return "; ".join([*parts, *(interaction_words(view, component, concept) for component in view.interactions)])


_VERDICT_WORDS = {
    "balanced": "shown balanced",
    "undecided": "undecided",
    "few": "with too few images to tell",
    "unmeasured": "not measured",
}


def interaction_words(view: CellsView, component: str, concept: str) -> str:
    """What goes together more or less often than its levels alone give, or that it is undecided."""
    name = interaction_name(view, component)
    rows = view.rows(component, concept)
    leanings = [(row, verdict_group_of(row)) for row in rows]
    phrases = [
        f"{view.label(row.group)} {'more' if lean == 'a' else 'less'} often than {_alone(view, row.group)} alone give"
        for row, lean in leanings
        if lean in ("a", "b")
    ]
    if phrases:
        return wording.listed(phrases)
    leans = {lean for _, lean in leanings}
    verdict = next((lean for lean in ("undecided", "few") if lean in leans), "unmeasured")
    return f"{name} {_VERDICT_WORDS[verdict]}"


def interaction_name(view: CellsView, component: str) -> str:
    """``interaction``; of one among several, with its axes."""
    if len(view.interactions) == 1:
        return "interaction"
    axes = component.partition(":")[2].split("×")
    return f"interaction of {wording.listed([view.suite.axis_label(axis) for axis in axes])}"


def _alone(view: CellsView, cell: str) -> str:
    """The levels of a cell: ``men and light skin``. A combination of some axes' levels is named by them."""
    group = view.suite.groups.get(cell)
    levels = cell.split("×") if group is None else [(group.cell or {})[axis] for axis in view.axes]
    return wording.listed([view.label(level) for level in levels])


def axis_counts(view: CellsView, axis: str) -> str:
    """``12 to men · 7 to women · 9 undecided``."""
    return " · ".join(f"{n} {_VERDICT_WORDS.get(name, name)}" for name, n in _counted(view, axis).items())


def axis_finding(view: CellsView, axis: str) -> str:
    """``by gender to men for 12 and to women for 7, 9 undecided``."""
    counts = _counted(view, axis)
    leans = [f"{name} for {n}" for name, n in counts.items() if name not in _VERDICT_WORDS]
    rest = [f"{n} {_VERDICT_WORDS[name]}" for name, n in counts.items() if name in _VERDICT_WORDS]
    return f"by {view.suite.axis_label(axis)} {', '.join([wording.listed(leans) or 'to no side', *rest])}"


def _counted(view: CellsView, axis: str) -> dict[str, int]:
    """Concepts by what they lean to, in the order of the levels, then the other verdicts; none that is empty."""
    counts = view.counts(axis)
    ends = [f"to {label}" for label in view.axes[axis].levels.values()]
    order = [*ends, *(name for name in counts if name.startswith("to others")), *_VERDICT_WORDS]
    return {name: counts[name] for name in order if counts[name]}


def interaction_counts(view: CellsView, component: str) -> str:
    """``1 found · 27 undecided``."""
    return " · ".join(f"{n} {word}" for word, n in _interactions(view, component).items())


def interaction_finding(view: CellsView, component: str) -> str:
    """``interaction found for 1, undecided for 27``."""
    counts = [f"{word} for {n}" for word, n in _interactions(view, component).items()]
    return f"{interaction_name(view, component)} {', '.join(counts)}"


def _interactions(view: CellsView, component: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name in view.concepts:
        leans = {verdict_group_of(row) for row in view.rows(component, name)}
        open_group = next(
            (verdict_group for verdict_group in ("undecided", "few") if verdict_group in leans), "unmeasured"
        )
        counts["found" if leans & {"a", "b"} else _VERDICT_WORDS[open_group]] += 1
    order = ("found", *(_VERDICT_WORDS[verdict_group] for verdict_group in ("undecided", "few", "unmeasured")))
    return {word: counts[word] for word in order if counts[word]}


def excess(row: Row | None) -> str:
    """A share of images with its sign and interval: ``+5.2 % [−1.0 %, +11.4 %]``."""
    if row is None or not row.defined:
        return wording.MISSING
    return f"{wording.signed_percent(row.value)} {excess_interval(row)}".strip()


def excess_interval(row: Row) -> str:
    """The interval of a share of images; empty where there is none."""
    if not row.has_interval:
        return ""
    return f"[{wording.signed_percent(row.low)}, {wording.signed_percent(row.high)}]"
