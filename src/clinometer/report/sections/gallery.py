"""The pictures themselves: a concept's neutral images beside the images drawn for each group by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import is_empty
from clinometer.report.samples import Sample, Samples, by_owner, text_of
from clinometer.report.thumbnails import Thumbnail, thumbnail
from clinometer.report.view import View

MOST_IMAGES: Final = 1200
"""Images in one page, so that it stays a few megabytes; a larger run shows the first of every prompt."""

MOST_PER_PROMPT: Final = 24
FEWEST_PER_PROMPT: Final = 2


@dataclass
class Tile:
    """One image of the gallery, or what became of it."""

    alt: str
    status: str
    reason: str = ""
    picture: Thumbnail | None = None
    symbol: str = ""


@dataclass
class Strip:
    """The images of one prompt or group."""

    label: str
    tiles: list[Tile] = field(default_factory=list)
    left_out: int = 0


def is_flagged(sample: Sample) -> bool:
    """Whether a safety checker took offence at a picture: a report, which goes from hand to hand, leaves it out."""
    flag = sample.get("flagged")
    return not is_empty(flag) and bool(flag)


def sample_tile(view: View, sample: Sample, alt: str) -> Tile:
    """One sample's picture, or what became of it."""
    status, reason = text_of(sample.get("status")), text_of(sample.get("reason"))
    if status != "ok":
        return Tile(alt, status or "unknown", reason)
    if is_flagged(sample):
        return Tile(alt, "flagged", "a safety checker flagged it; clinometer serve shows it to who asks")
    picture = thumbnail(view.report.image(text_of(sample.get("id"))))
    return Tile(alt, "ok", picture=picture) if picture else Tile(alt, "unreadable", "the image file cannot be read")


def counts_in_words(*samples: Samples) -> str:
    """``"20 images, 2 refused"``."""
    statuses = Counter[str]()
    for each in samples:
        statuses.update(each.counts("status"))
    drawn = statuses.pop("ok", 0)
    return ", ".join([wording.count(drawn, "image"), *(f"{n} {status}" for status, n in statuses.items())])


def all_there(n: int) -> str:
    """That no image was lost."""
    return "the one image is there" if n == 1 else f"all {n:,} images are there"


def losses(view: View, samples: Samples) -> list[dict[str, Any]]:
    """Concepts and groups that lost images: asked, drawn, refused, failed, blank, and the reasons."""
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


MOST_OWNERS: Final = 12
MOST_NOISES: Final = 8
"""Concepts, or groups, of which runs are shown beside each other, and pictures of each."""


def beside_each_other(views: Mapping[str, View], first: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Pictures of several runs, a row a run and a column a noise that all of them started from.

    ``first`` are the concepts that come first; those without follow in the order of the plan. Where runs share no
    noise, each shows its own first pictures.
    """
    owned = {model: _by_owner(view) for model, view in views.items()}
    owners = [name for name in next(iter(owned.values())) if all(name in of for of in owned.values())]
    ranked = sorted(owners, key=lambda name: first.index(name) if name in first else len(first))
    return [
        _owner_beside(name, views, {model: of[name] for model, of in owned.items()}) for name in ranked[:MOST_OWNERS]
    ]


def _by_owner(view: View) -> dict[str, Samples]:
    """The samples of each concept, or of each group where the suite has no concept of its own."""
    found = by_owner(Samples(view.report.samples))
    targets = {owner: samples for (role, owner), samples in found.items() if role == "target"}
    return targets or {view.label(owner): samples for (_, owner), samples in found.items()}


def _owner_beside(name: str, views: Mapping[str, View], samples: Mapping[str, Samples]) -> dict[str, Any]:
    by_start = {
        model: {tuple(text_of(sample.get(key)) for key in ("prompt", "strength", "seed")): sample for sample in own}
        for model, own in samples.items()
    }
    shared = [start for start in next(iter(by_start.values())) if all(start in of for of in by_start.values())]
    rows = [
        {
            "model": model,
            "tiles": [
                sample_tile(views[model], of[start], f"{start[0]}, {model}, picture {order}")
                for order, start in enumerate((shared or list(of))[:MOST_NOISES], 1)
            ],
        }
        for model, of in by_start.items()
    ]
    return {"name": name, "rows": rows, "same_noise": bool(shared), "left_out": max(0, len(shared) - MOST_NOISES)}
