"""The pictures themselves: a concept's neutral images beside the images drawn for each group by name."""

from __future__ import annotations

from collections import Counter
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
