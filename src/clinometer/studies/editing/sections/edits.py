"""The page of an editing study: the finding, the verdicts, who is flipped, whose skin changes, before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.gallery import Thumbnail, is_flagged, thumbnail
from clinometer.report.page import Judged, Told, Verdicts, judged
from clinometer.report.rows import Row, is_empty
from clinometer.report.sections import facts
from clinometer.report.wording import leans, needed, verdict_group_of, verdict_words
from clinometer.studies.editing.figures.edits import flip_matrix, skin_arrows
from clinometer.studies.editing.view import EditingView

SHOWN: Final = 3
"""Portraits of each group that are shown with all their edits."""


def editing_masthead(view: EditingView) -> dict[str, Any]:
    """Title, finding and facts."""
    return {
        "title": view.report.title,
        "finding": finding(view),
        "strongest": " ".join(part for part in (resting(view), skin_finding(view)) if part),
        "facts": facts(view),
        "figure": None,
        "rings": [],
        "verdict_groups": [],
    }


def finding(view: EditingView) -> str:
    """Word the strongest asymmetry between the genders in one sentence."""
    row = _leading(view)
    if row is None:
        return "Whom editing flips could not be judged: no class of professions has enough edits of both genders."
    if not leans(row):
        verdict_groups = {
            verdict_group_of(class_row) for class_row in view.class_rows("flip_asymmetry", view.reader)
        } - {"unmeasured"}
        tell = "There are too few images to tell" if verdict_groups == {"few"} else "The images do not tell"
        return f"{tell} whether editing turns one gender into the other more often than the other way round."
    more, fewer = (view.label_b, view.label_a) if row.value > 0 else (view.label_a, view.label_b)
    points = f"{abs(100 * row.value):.0f} percentage points"
    return (
        f"Edited into the professions \u201c{row.category}\u201d at {row.setting}, a portrait of a {more} comes to "
        f"read as a {fewer} {points} more often than the other way round."
    )


def resting(view: EditingView) -> str:
    """What the finding rests on: how far, to which side, how sure and from how many portraits."""
    row = _leading(view)
    if row is None:
        return ""
    points = f"{wording.signed(100 * row.value, 0)} points {wording.interval(100 * row.low, 100 * row.high, 0)}".strip()
    side = f"towards {view.label_a if row.value > 0 else view.label_b}"
    portraits = f"from {wording.count(row.n_target, 'portrait')}" if row.n_target else ""
    numbers = ", ".join(part for part in (points, side, wording.probability(row.q, "q"), portraits) if part)
    if leans(row):
        return f"That is {numbers}."
    few = _too_few([row]) if verdict_group_of(row) == "few" else ""
    return f"The largest difference, into \u201c{row.category}\u201d at {row.setting}: {numbers}{few}."


def _leading(view: EditingView) -> Row | None:
    """The largest asymmetry of a class that leans, else the largest there is."""
    rows = [row for row in view.class_rows("flip_asymmetry", view.reader) if verdict_group_of(row) != "unmeasured"]
    return max(rows, key=lambda row: (leans(row), abs(row.value)), default=None)


def skin_finding(view: EditingView) -> str:
    """Word the difference between the tones that stands out most, and the largest change of a group that does."""
    contrast = _largest([row for row in view.pixel_rows("ita_contrast") if not row.concept])
    changes = [row for row in view.pixel_rows("ita_change") if not row.concept]
    sentences = [_contrast_words(view, contrast)] if contrast is not None else []
    if (change := _largest(changes)) is not None:
        sentences.append(f"The largest change of skin: {view.label(change.group)} become {_changed(change)}.")
    elif any(verdict_group_of(row) != "unmeasured" for row in changes):
        few = all(verdict_group_of(row) in ("few", "unmeasured") for row in changes)
        tell = f"there are too few images to tell{_too_few(changes)}" if few else "the images do not tell"
        sentences.append(f"Whether the skin of a single group changes: {tell}.")
    elif not sentences:
        sentences.append("No change of skin tone could be judged: too few images show skin.")
    return " ".join(sentences)


def _largest(rows: Sequence[Row]) -> Row | None:
    leaning = [row for row in rows if leans(row)]
    return max(leaning, key=lambda row: abs(row.value)) if leaning else None


def _contrast_words(view: EditingView, row: Row) -> str:
    """The contrast is darker less lighter, whichever way either of them changes: it is worded as relative."""
    assert view.suite.tones is not None
    lighter, darker = view.suite.tones
    return f"Held against {lighter} skin, {darker} skin becomes {_changed(row)}."


def _changed(row: Row) -> str:
    word = "lighter" if row.value > 0 else "darker"
    change = f"{wording.signed(row.value, 1)}\N{DEGREE SIGN} {wording.interval(row.low, row.high, 1)}"
    return f"{word} ({change}) when edited into \u201c{row.category}\u201d at {row.setting}"


def _too_few(rows: Sequence[Row]) -> str:
    """Say so where no p can reach 0.05."""
    least = min((row.least_exchange_p for row in rows if isfinite(row.p)), default=0.0)
    return f"; with so few portraits of a group no p can fall below {least:.3g}" if least > 0.05 else ""


def editing_verdicts(view: EditingView) -> dict[str, Any]:
    """The two contrasts of every class and strength, judged."""
    tones = view.suite.tones
    verdict_groups = [
        {
            "id": "flip",
            "lean": "",
            "heading": f"Towards {view.label_a} or {view.label_b}",
            "note": _flip_note(view),
            "items": [_item(row, 100, "points") for row in view.class_rows("flip_asymmetry", view.reader)],
        }
    ]
    if tones:
        verdict_groups.append(
            {
                "id": "skin",
                "lean": "",
                "heading": f"Skin: {tones[1]} against {tones[0]}",
                "note": _skin_note(*tones),
                "items": [
                    _item(row, 1, "\N{DEGREE SIGN}") for row in view.pixel_rows("ita_contrast") if not row.concept
                ],
            }
        )
    return {"verdict_groups": verdict_groups}


def editing_told(view: EditingView) -> Told:
    """The finding, and the contrasts of every class and strength."""
    strongest = " ".join(part for part in (resting(view), skin_finding(view)) if part)
    flips = _judged(view.class_rows("flip_asymmetry", view.reader), 100, "points")
    verdicts = [Verdicts("edited into", "Flip asymmetry", _flip_note(view), flips)]
    if view.suite.tones:
        skins = _judged([row for row in view.pixel_rows("ita_contrast") if not row.concept], 1, "\N{DEGREE SIGN}")
        verdicts.append(Verdicts("edited into", "Change of skin", _skin_note(*view.suite.tones), skins))
    return Told(finding(view), strongest, tuple(verdicts))


def _judged(rows: Sequence[Row], scale: float, unit: str) -> tuple[Judged, ...]:
    items = [(row, _item(row, scale, unit)) for row in rows]
    return tuple(
        judged(row, item["subject"], str, item["value"], item["interval"], ends=(row.low, row.high),
               notes=(item["reason"],))
        for row, item in items
    )  # fmt: skip


def _flip_note(view: EditingView) -> str:
    return (
        f"Flip rate of \u201c{view.label_b}\u201d portraits minus that of \u201c{view.label_a}\u201d: "
        f"positive means that edits move to {view.label_a}."
    )


def _skin_note(lighter: str, darker: str) -> str:
    return (
        f"Change of the skin's angle of {darker} portraits minus that of {lighter} ones: positive means that {darker} "
        "skin is lightened more."
    )


def _item(row: Row, scale: float, unit: str) -> dict[str, str]:
    return {
        "subject": f"{wording.capitalised(row.category)}, {row.setting}",
        "verdict": verdict_words(row) or "not measured",
        "value": f"{wording.signed(scale * row.value, 1)} {unit}" if row.defined else "",
        "interval": wording.interval(scale * row.low, scale * row.high, 1),
        "q": wording.probability(row.q, "q"),
        "reason": row.reason or needed(row, "portraits"),
    }


def flipped(view: EditingView) -> dict[str, Any]:
    """A matrix for each encoder, and how often it abstains."""
    figures = []
    for number, encoder in enumerate(view.readers):
        figure = flip_matrix(view, encoder, f"flips{number}")
        if figure is not None:
            single = flip_matrix(view, encoder, f"flips-single{number}", "flip_rate_single_wording")
            abstains = _abstains(view, encoder)
            figures.append({"encoder": encoder, "figure": figure, "single": single, "abstains": abstains})
    return {
        "figures": figures,
        "wordings": view.suite.wordings,
        "first": view.suite.wordings[0],
        "identity": _identity(view),
        "kinds": view.kinds,
        "settings": view.settings,
    }


def _abstains(view: EditingView, encoder: str) -> str:
    rows = [row.value for row in view.class_rows("uncertain_rate", encoder) if row.defined]
    shares = list(dict.fromkeys(wording.percent(share) for share in (min(rows), max(rows)))) if rows else []
    return " to ".join(shares)


def _identity(view: EditingView) -> list[dict[str, Any]]:
    """Mean cosine of portrait and edit, a row a group, a cell a class and strength."""
    by_cell = {(row.group, row.category, row.setting): row for row in view.class_rows("identity", view.reader)}
    return [
        {"label": view.label(group),
         "cells": [wording.number(by_cell[group, *column].value) if (group, *column) in by_cell else wording.MISSING
                   for column in view.columns]}
        for group in view.suite.groups
    ]  # fmt: skip


def skin(view: EditingView) -> dict[str, Any] | None:
    """Arrows of the angle by class, and average faces."""
    figures = [
        {"heading": wording.capitalised(kind), "figure": figure}
        for number, kind in enumerate(view.kinds)
        if (figure := skin_arrows(view, kind, number)) is not None
    ]
    unknown = [row for row in view.pixel_rows("unknown_tone") if not row.concept and row.defined and row.value > 0]
    return {
        "figures": figures,
        "unknown": wording.count(len(unknown), "cell") if unknown else "",
        "faces": average_faces(view),
        "columns": view.columns,
        "alignment": _alignment(view),
    }


def _alignment(view: EditingView) -> dict[str, Any] | None:
    """How faces were laid over each other, and how many of the images had one."""
    curves = view.report.curves
    if curves is None or "alignment" not in curves:
        return None
    averages = curves[curves.curve == "average_face"]
    lost = averages[averages.faces < averages.drawn]
    return {
        "words": averages.alignment.iloc[0],
        "warped": averages.alignment.iloc[0].startswith("warped"),
        "faces": int(averages.faces.sum()),
        "drawn": int(averages.drawn.sum()),
        "lost": [_without_face(view, row) for row in lost.to_dict("records")],
    }


def _without_face(view: EditingView, row: dict[Any, Any]) -> str:
    cell = [view.label(row["group"]), row["category"], row["setting"]]
    return f"{', '.join(part for part in cell if part)}: {row['drawn'] - row['faces']} of {row['drawn']}"


def average_faces(view: EditingView) -> list[dict[str, Any]]:
    """The average face of each group before, and of each class and strength after."""
    curves = view.report.curves
    if curves is None or "image" not in curves:
        return []
    thumbnails: dict[tuple[str, str, str], Thumbnail | None] = {
        (str(row["group"]), str(row["category"]), str(row["setting"])): thumbnail(row["image"])
        for row in curves.to_dict("records")
        if not is_empty(row["image"])
    }
    return [
        {
            "label": view.label(group),
            "before": thumbnails.get((group, "", "before")),
            "after": [thumbnails.get((group, *column)) for column in view.columns],
        }
        for group in view.suite.groups
    ]


def strips(view: EditingView) -> dict[str, Any]:
    """The first portraits of each group, each beside its edits; and what could not be made."""
    samples = view.report.samples
    portraits = samples[samples.role == "portrait"]
    shown = {group: portraits[portraits.group == group].head(SHOWN) for group in view.suite.groups}
    made = samples[(samples.role == "edit") & samples.source.isin([key for each in shown.values() for key in each.id])]
    edits = {(e["source"], e["concept"], e["strength"]): e for e in made.to_dict("records")}
    groups = []
    for group in view.suite.groups:
        rows = []
        for portrait in shown[group].to_dict("records"):
            cells = [
                {"profession": name, "tiles": [
                    _tile(view, edits.get((portrait["id"], name, strength)), f"{name}, strength {strength:g}")
                    for strength in view.suite.strengths]}
                for name in view.suite.professions
            ]  # fmt: skip
            rows.append({"before": _tile(view, portrait, f"{view.label(group)}, portrait"), "cells": cells})
        groups.append({"label": view.label(group), "rows": rows})
    statuses = Counter(status for status in samples.status if status != "ok")
    return {
        "groups": groups,
        "strengths": [f"{strength:g}" for strength in view.suite.strengths],
        "losses": ", ".join(f"{n} {status}" for status, n in statuses.items()),
        "reasons": [f"{reason} ({n}\N{MULTIPLICATION SIGN})" for reason, n in
                    Counter(r for r in samples.reason if not is_empty(r)).most_common(5)],
    }  # fmt: skip


def _tile(view: EditingView, sample: dict[Any, Any] | None, alt: str) -> dict[str, Any]:
    status = str(sample["status"]) if sample is not None else "missing"
    if sample is not None and is_flagged(sample):
        status = "flagged"
    picture = thumbnail(view.report.image(str(sample["id"]))) if sample is not None and status == "ok" else None
    return {"alt": alt, "status": "unreadable" if status == "ok" and picture is None else status, "picture": picture}
