"""The pictures of a page: the first of each prompt, what is missing, and runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Samples, Tile, View, by_owner, text_of

FOREMOST: Final = 12
"""Pictures of each concept that comes first."""


@dataclass
class Strip:
    """The images of one prompt or group."""

    label: str
    tiles: list[Tile] = field(default_factory=list)
    left_out: int = 0


def counts_in_words(*samples: Samples) -> str:
    """Return ``"20 images, 2 refused"``."""
    statuses = Counter[str]()
    for each in samples:
        statuses.update(each.counts("status"))
    drawn = statuses.pop("ok", 0)
    return ", ".join([wording.count(drawn, "image"), *(f"{n} {status}" for status, n in statuses.items())])


def all_there(n: int) -> str:
    """State that no image was lost."""
    return "the one image is there" if n == 1 else f"all {n:,} images are there"


def losses(view: View, samples: Samples) -> list[dict[str, Any]]:
    """List concepts and groups that lost images: asked, drawn, refused, failed, blank, and the reasons."""
    table = []
    for (role, owner), owner_samples in by_owner(samples).items():
        statuses = owner_samples.counts("status")
        if statuses["ok"] == len(owner_samples):
            continue
        reasons = owner_samples.counts("reason")
        del reasons[""]
        table.append(
            {
                "name": owner if role == "target" else f"images of {view.label(owner)}",
                "asked": len(owner_samples),
                **{status: statuses[status] for status in ("ok", "refused", "failed", "blank")},
                "reasons": [f"{reason} ({n}\N{MULTIPLICATION SIGN})" for reason, n in reasons.most_common(3)],
            }
        )
    return table


def foremost_pictures(
    view: View, judged: Sequence[Verdicts], most: int, pictures: int = FOREMOST
) -> list[dict[str, Any]]:
    """Lay out the first pictures of what leans most, to either side first; of groups where no concept is drawn.

    Flagged pictures and those that are not there are left out. ``most`` : concepts; ``pictures`` : of each.
    """
    album, rows = view.album, judged[0].rows if judged else ()
    ranked = sorted(rows, key=lambda row: (not wording.leans(row), -abs(row.value) if row.defined else 0.0))
    sides = [next((row for row in ranked if wording.verdict_group_of(row) == side), None) for side in ("a", "b")]
    by_concept = {row.concept: row for row in (*filter(None, sides), *ranked) if ("target", row.concept) in album.owned}
    owners = [("target", name) for name in by_concept] or [(role, owner) for role, owner in album.owned]
    strips = []
    for role, owner in owners[: most if by_concept else most + 1]:
        row = by_concept.get(owner) if role == "target" else None
        label = owner if role == "target" else f"{view.label(owner)}, {role}"
        said = "; ".join([judged[0].verdict(row), *judged[0].notes_of(row)[:1]]) if row else ""
        strips.append(
            {
                "label": wording.shortened(wording.capitalised(label), 60),
                "name": wording.shortened(owner, 60),
                "said": wording.shortened(said, 90),
                "lean": wording.verdict_group_of(row) if row else "",
                "verdict": judged[0].verdict(row) if row else "",
                "counted": judged[0].counted(row) if row and judged[0].counted else None,
                "score": f"{judged[0].symbol} {judged[0].value(row)} {judged[0].interval(row)}" if row else "",
                "tiles": album.first(role, owner, pictures),
                "of": len(album.owned[role, owner]),
            }
        )
    return [strip for strip in strips if strip["tiles"]]


MOST_OWNERS: Final = 12
MOST_NOISES: Final = 8
"""Concepts, or groups, of which runs are shown side by side, and pictures of each."""


def beside_each_other(views: Mapping[str, View], first: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Lay out pictures of several runs, a row a run and a column a noise that all of them started from.

    ``first`` are the concepts that come first; those without follow in the order of the plan. Where runs share no
    noise, each shows its own first pictures.
    """
    owned = {model: _by_owner(view) for model, view in views.items()}
    owners = [name for name in next(iter(owned.values())) if all(name in of for of in owned.values())]
    ranked = sorted(owners, key=lambda name: first.index(name) if name in first else len(first))
    beside = []
    for name in ranked[:MOST_OWNERS]:
        by_start = {
            model: {tuple(text_of(sample.get(key)) for key in ("prompt", "strength", "seed")): sample
                    for sample in of[name]}
            for model, of in owned.items()
        }  # fmt: skip
        shared = [start for start in next(iter(by_start.values())) if all(start in of for of in by_start.values())]
        rows = [
            {
                "model": model,
                "tiles": [
                    views[model].album.tile(of[start], f"{start[0]}, {model}, picture {order}")
                    for order, start in enumerate((shared or list(of))[:MOST_NOISES], 1)
                ],
            }
            for model, of in by_start.items()
        ]
        left_out = max(0, len(shared) - MOST_NOISES)
        beside.append({"name": name, "rows": rows, "same_noise": bool(shared), "left_out": left_out})
    return beside


def _by_owner(view: View) -> dict[str, Samples]:
    """Find the samples of each concept, or of each group where the suite has no concept of its own."""
    found = by_owner(Samples(view.report.samples))
    targets = {owner: samples for (role, owner), samples in found.items() if role == "target"}
    return targets or {view.label(owner): samples for (_, owner), samples in found.items()}
