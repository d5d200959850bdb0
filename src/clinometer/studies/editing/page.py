"""The page of an editing study: who is flipped, whose skin changes, before and after, and its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import isfinite
from typing import Any, Final, NamedTuple

from clinometer.report import figures, wording
from clinometer.report.page import Page, Section
from clinometer.report.sections import masthead
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Row, StudyView, Thumbnail, is_empty, is_flagged, thumbnail
from clinometer.report.wording import leans, needed, not_measured, reason_words, verdict_group_of, withheld
from clinometer.studies.editing.scores import PIXELS
from clinometer.suites import EditingSuite

CELL = 64

LABEL = 190


class EditingView(StudyView[EditingSuite]):
    """The run of an editing study."""

    unit = "portraits"

    @property
    def label_a(self) -> str:
        """The gender that a positive asymmetry moves to."""
        return self.suite.genders.a

    @property
    def label_b(self) -> str:
        """The other gender."""
        return self.suite.genders.b

    @cached_property
    def readers(self) -> list[str]:
        """The encoders that read genders."""
        return [name for name in self.encoders if name != PIXELS]

    @property
    def reader(self) -> str:
        """The encoder whose readings lead the page: the first."""
        return self.readers[0] if self.readers else ""

    @cached_property
    def kinds(self) -> list[str]:
        """The classes of professions, in the suite's order."""
        return list(dict.fromkeys(profession.kind for profession in self.suite.professions.values()))

    @cached_property
    def settings(self) -> list[str]:
        """The strengths as rows name them."""
        return list(self.suite.settings.values())

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Every (class, strength)."""
        return [(kind, setting) for kind in self.kinds for setting in self.settings]

    def class_rows(self, component: str, encoder: str = PIXELS) -> list[Row]:
        """Return rows about whole classes, measured on pixels unless an encoder is named."""
        return [row for row in self.scores.select("editing", component, encoder=encoder) if not row.concept]

    def by_cell(self, component: str, encoder: str = PIXELS) -> dict[tuple[str, str, str], Row]:
        """Return rows about whole classes by group, class and strength."""
        return {(row.group, row.category, row.setting): row for row in self.class_rows(component, encoder)}


def flip_matrix(view: EditingView, encoder: str, name: str, component: str = "flip_rate") -> figures.Figure | None:
    """Draw the share of flipped edits: a row a group, a column a class and strength."""
    groups, columns = list(view.suite.groups), view.columns
    cells = {(row.group, row.category, row.setting): row for row in view.class_rows(component, encoder) if row.defined}
    if not cells:
        return None
    with figures.canvas(LABEL + CELL * len(columns) + 10, 62 + CELL * 0.72 * len(groups)) as figure:
        axes = figures.place(figure, LABEL, 8, 10, 54)
        for y, group in enumerate(groups):
            for x, (kind, setting) in enumerate(columns):
                row = cells.get((group, kind, setting))
                if row is None:
                    axes.text(x, y, wording.MISSING, ha="center", va="center", color=figures.Ink.MUTED)
                    continue
                ends = f"{100 * row.low:.0f}{wording.DASH}{100 * row.high:.0f}" if row.has_interval else ""
                figures.draw_cell(axes, x, y, figures.Ink.ACCENT, row.value, wording.percent(row.value), ends)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        figures.label_rows(axes, [wording.capitalised(view.label(group)) for group in groups], 26)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(columns)), [setting.removeprefix("strength ") for _, setting in columns])
        for order, kind in enumerate(view.kinds):
            start = (order * len(view.settings) - 0.45, -0.5)
            beside = {"textcoords": "offset points", "annotation_clip": False, "color": figures.Ink.MUTED}
            axes.annotate(figures.drawable(kind, 30), start, (0, 30), **beside)
        figures.tidy(axes)
        axes.grid(visible=False)
        return figures.finish(
            figure, name=name, title="Share of edits that read as a different gender than before",
            description="A row for each group of portraits, a column for each class of professions and strength. "
            "The same numbers are in the full table.",
        )  # fmt: skip


def skin_arrows(view: EditingView, kind: str, number: int) -> figures.Figure | None:
    """Draw an arrow for each group and strength: from the portraits' mean angle to the edits'."""
    rows = [row for row in view.scores.select("editing", "ita", encoder=PIXELS) if row.defined]
    before = {row.group: row for row in rows if row.setting == "before"}
    after = {(row.group, row.setting): row for row in rows if row.category == kind}
    lines = [(group, setting) for group in view.suite.groups for setting in view.settings if (group, setting) in after]
    if not lines or not before:
        return None
    with figures.canvas(460, 64 + 19 * len(lines)) as figure:
        axes = figures.place(figure, 210, 46, 14, 10)
        labels, named = [], set[str]()
        for y, (group, setting) in enumerate(lines):
            start, end = before.get(group), after[group, setting]
            if end.has_interval:
                axes.plot([end.low, end.high], [y, y], color=figures.Ink.ACCENT, linewidth=3.6, alpha=0.3, zorder=2)
            if start is not None:
                arrow = {"arrowstyle": "->", "color": figures.Ink.MUTED, "lw": 1.2}
                axes.annotate("", (end.value, y), (start.value, y), arrowprops=arrow, zorder=3)
                figures.draw_mark(axes, start.value, y, figures.Mark("o", figures.Ink.MUTED, filled=False), size=4.5)
            figures.draw_mark(axes, end.value, y, figures.Mark("o", figures.Ink.ACCENT), size=4.5)
            group_label = "" if group in named else f"{figures.drawable(view.label(group), 24)}  "
            labels.append(f"{group_label}{setting.removeprefix('strength ')}")
            named.add(group)
        figures.label_rows(axes, labels, 30)
        figures.tidy(axes)
        axes.set_xlim(*figures.span([*before.values(), *after.values()], include=(), stimulus=False))
        axes.set_xlabel("individual typology angle, degrees: lighter \N{RIGHTWARDS ARROW}")
        return figures.finish(
            figure, name=f"skin{number}", title=f"Skin tone before and after editing into {kind} professions",
            description="Each arrow leads from the mean angle of a group's portraits to that of their edits.",
        )  # fmt: skip


class PlantedCell(NamedTuple):
    """A group edited into a profession: what was planted for the other gender, and how often it flipped."""

    group: str
    profession: str
    planted: float
    row: Row


def known_cells(view: EditingView, setting: str) -> list[PlantedCell]:
    """Return every group and profession whose leaning is known, at one strength."""
    planted = view.report.planted or {}
    suite = view.suite
    other = {suite.genders.a: suite.genders.b, suite.genders.b: suite.genders.a}
    rows = view.scores.select("editing", "flip_rate", encoder=view.reader, setting=setting)
    return [
        PlantedCell(row.group, row.concept, float(planted[row.concept][gender]), row)
        for row in rows
        if row.concept and (gender := other[suite.groups[row.group].gender]) in planted.get(row.concept, {})
    ]


def flips_figure(view: EditingView, setting: str, number: int) -> figures.Figure | None:
    """Draw the planted probability of the other gender across and the flip rate up; colour and shape are genders."""
    cells = [cell for cell in known_cells(view, setting) if cell.row.defined]
    if not cells:
        return None
    with figures.canvas(330, 300) as figure:
        axes = figures.place(figure, 58, 50, 12, 12)
        figures.tidy(axes, grid="both")
        tips = {}
        for order, cell in enumerate(cells):
            is_a = view.suite.groups[cell.group].gender == view.suite.genders.a
            mark = figures.Mark("o", figures.Ink.A) if is_a else figures.Mark("s", figures.Ink.B)
            if cell.row.has_interval:
                ends = [cell.row.low, cell.row.high]
                axes.plot([cell.planted] * 2, ends, color=mark.colour, linewidth=2.2, alpha=0.3)
            figures.draw_mark(axes, cell.planted, cell.row.value, mark, size=6, gid=f"f{number}-{order}")
            numbers = f"planted {wording.number(cell.planted)}, flipped {wording.number(cell.row.value)}"
            tips[f"f{number}-{order}"] = figures.drawable(
                f"{view.label(cell.group)} as {cell.profession}: {numbers}", 120
            )
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("planted probability of the other gender")
        axes.set_ylabel("flip rate")
        axes.tick_params(axis="y", labelcolor=figures.Ink.MUTED)
        return figures.finish(
            figure, name=f"planted-flips{number}", description="; ".join(tips.values()), tips=tips,
            title=f"Flip rate over the planted probability of the other gender, {setting}",
        )  # fmt: skip


SHOWN: Final = 3
"""Portraits of each group that are shown with all their edits."""


# --- the finding and the verdicts ------------------------------------------------------------------------------------


def note(row: Row) -> str:
    """Explain why there is no verdict, or how many portraits would decide."""
    return reason_words(row) if not_measured(row) else row.reason or needed(row, "portraits")


def resting(view: EditingView) -> str:
    """State the numbers behind the finding: size, side, q and number of portraits."""
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
    """Return the largest asymmetry of a class that leans, else the largest there is."""
    rows = [row for row in view.class_rows("flip_asymmetry", view.reader) if verdict_group_of(row) != "unmeasured"]
    return max(rows, key=lambda row: (leans(row), abs(row.value)), default=None)


def skin_finding(view: EditingView) -> str:
    """Word the difference between the tones that stands out most, and the largest change of a group that does."""

    def largest(rows: Sequence[Row]) -> Row | None:
        return max(filter(leans, rows), key=lambda row: abs(row.value), default=None)

    def changed(row: Row) -> str:
        word = "lighter" if row.value > 0 else "darker"
        change = wording.estimate(row, 1, unit="\N{DEGREE SIGN}")
        return f"{word} ({change}) when edited into \u201c{row.category}\u201d at {row.setting}"

    sentences = []
    if (contrast := largest(view.class_rows("ita_contrast"))) is not None:
        assert view.suite.tones is not None
        darker = contrast.group or view.suite.tones[1]  # whichever way either changes: it is worded as relative
        sentences.append(f"Compared with {view.suite.tones[0]} skin, {darker} skin becomes {changed(contrast)}.")
    changes = view.class_rows("ita_change")
    if (change := largest(changes)) is not None:
        sentences.append(f"The largest change of skin tone: {view.label(change.group)} become {changed(change)}.")
    elif any(verdict_group_of(row) != "unmeasured" for row in changes):
        few = all(verdict_group_of(row) in ("few", "unmeasured") for row in changes)
        tell = f"there are too few images to tell{_too_few(changes)}" if few else "the images cannot tell"
        sentences.append(f"It is undecided whether the skin of any single group changes: {tell}.")
    elif not sentences:
        sentences.append("No change of skin tone could be judged: too few images show skin.")
    return " ".join(sentences)


def _too_few(rows: Sequence[Row]) -> str:
    """Return a warning where no p can reach 0.05."""
    least = min((row.least_exchange_p for row in rows if isfinite(row.p)), default=0.0)
    return f"; with so few portraits of a group no p can fall below {least:.3g}" if least > 0.05 else ""


# --- numbers and pictures --------------------------------------------------------------------------------------------


def flips(view: EditingView) -> dict[str, Any]:
    """Gather a matrix for each encoder, and how often it abstains."""
    drawn = []
    for number, encoder in enumerate(view.readers):
        figure = flip_matrix(view, encoder, f"flips{number}")
        if figure is not None:
            rows = [row.value for row in view.class_rows("uncertain_rate", encoder) if row.defined]
            shares = list(dict.fromkeys(wording.percent(share) for share in (min(rows), max(rows)))) if rows else []
            single = flip_matrix(view, encoder, f"flips-single{number}", "flip_rate_single_wording")
            drawn.append({"encoder": encoder, "figure": figure, "single": single, "abstains": " to ".join(shares)})
    return {
        "figures": drawn, "first": view.suite.wordings[0], "identity": view.by_cell("identity", view.reader),
        "erasure": view.by_cell("soft_erasure", view.reader),
    }  # fmt: skip


def planted(view: EditingView) -> dict[str, Any] | None:
    """Compare the order of flips at each strength with what was planted; return None where nothing was."""
    orders = view.scores.select("editing", "planted_order", encoder=view.reader)
    if not orders:
        return None
    settings = [row.setting for row in orders]
    by_setting = [{cell[:2]: cell for cell in known_cells(view, setting)} for setting in settings]
    first = sorted(by_setting[0].values(), key=lambda cell: -cell.planted)
    return {
        "orders": [(row, flips_figure(view, row.setting, number)) for number, row in enumerate(orders)],
        "cells": [
            (cell, [cells[cell[:2]].row if cell[:2] in cells else None for cells in by_setting]) for cell in first
        ],
    }


def skin(view: EditingView) -> dict[str, Any] | None:
    """Gather arrows of the angle by class, and average faces."""
    arrows = [(wording.capitalised(kind), skin_arrows(view, kind, number)) for number, kind in enumerate(view.kinds)]
    unknown = [row for row in view.class_rows("unknown_tone") if row.defined and row.value > 0]
    curves, alignment = view.report.curves, None
    if curves is not None and "alignment" in curves:
        # how faces were laid over each other, and how many of the images had one
        averages = curves[curves.curve == "average_face"]
        lost = []
        for row in averages[averages.faces < averages.drawn].to_dict("records"):
            cell = ", ".join(filter(None, (view.label(row["group"]), row["category"], row["setting"])))
            lost.append(f"{cell}: {row['drawn'] - row['faces']} of {row['drawn']}")
        alignment = {
            "words": averages.alignment.iloc[0], "faces": int(averages.faces.sum()), "drawn": int(averages.drawn.sum()),
            "lost": lost,
        }  # fmt: skip
    return {
        "figures": [entry for entry in arrows if entry[1] is not None],
        "unknown": wording.count(len(unknown), "cell") if unknown else "",
        "faces": faces_by_group(view),
        "alignment": alignment,
    }


def faces_by_group(view: EditingView) -> list[dict[str, Any]]:
    """Return the average face of each group before, and of each class and strength after."""
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
    """Return the first portraits of each group with their edits, and what could not be made."""
    samples = view.report.samples
    portraits = samples[samples.role == "portrait"]
    shown = {group: portraits[portraits.group == group].head(SHOWN) for group in view.suite.groups}
    edited = samples[(samples.role == "edit") & samples.source.isin([i for each in shown.values() for i in each.id])]
    edits = {(e["source"], e["concept"], e["strength"]): e for e in edited.to_dict("records")}
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
    reasons = Counter(reason for reason in samples.reason if not is_empty(reason)).most_common(5)
    return {
        "groups": groups,
        "strengths": [f"{strength:g}" for strength in view.suite.strengths],
        "losses": ", ".join(f"{n} {status}" for status, n in statuses.items()),
        "reasons": [f"{reason} ({n}\N{MULTIPLICATION SIGN})" for reason, n in reasons],
    }


def _tile(view: EditingView, sample: dict[Any, Any] | None, alt: str) -> dict[str, Any]:
    status = str(sample["status"]) if sample is not None else "missing"
    if sample is not None and is_flagged(sample):
        status = "flagged"
    picture = thumbnail(view.report.image(str(sample["id"]))) if sample is not None and status == "ok" else None
    return {"alt": alt, "status": "unreadable" if status == "ok" and picture is None else status, "picture": picture}


class EditingPage(Page[EditingView]):
    """The page of an editing study."""

    view = EditingView
    package = "clinometer.studies.editing"

    def finding(self, view: EditingView) -> str:
        """Word the strongest asymmetry between the genders in one sentence."""
        row = _leading(view)
        if row is None and (why := withheld(view.class_rows("flip_asymmetry", view.reader))):
            return f"Whom editing flips could not be judged: {why}."
        if row is None:
            return "Whom editing flips could not be judged: no class of professions has enough edits of both genders."
        if not leans(row):
            groups = {verdict_group_of(each) for each in view.class_rows("flip_asymmetry", view.reader)}
            few = groups - {"unmeasured"} == {"few"}
            tell = "There are too few images to tell" if few else "The images cannot tell"
            return f"{tell} whether editing turns one gender into the other more often than the other way round."
        more, fewer = (view.label_b, view.label_a) if row.value > 0 else (view.label_a, view.label_b)
        return (
            f"Edited into the professions \u201c{row.category}\u201d at {row.setting}, a portrait of a {more} comes to "
            f"read as a {fewer} {abs(100 * row.value):.0f} percentage points more often than the other way round."
        )

    def strongest(self, view: EditingView) -> str:
        """State what the finding rests on, then whose skin changes."""
        return " ".join(part for part in (resting(view), skin_finding(view)) if part)

    def meaning(self, view: EditingView) -> str:
        """Explain in one sentence what a difference means."""
        return (
            "Where a side is named, the same edits change portraits of one group more often, or further, than those of "
            "the other, as read by the encoder and from the colour of the pixels, and by more than chance explains."
        )

    def verdicts(self, view: EditingView) -> list[Verdicts]:
        """Judge both contrasts of every class and strength: between the genders, and between the tones."""
        a, b = view.label_a, view.label_b

        def judge(
            symbol: str, meaning: str, rows: Sequence[Row], scale: float, suffix: str,
            reach: tuple[float, float] | None = None,
        ) -> Verdicts:  # fmt: skip
            return Verdicts(
                "edit", symbol, meaning, rows, drawn="portraits", digits=1,
                scale=scale, suffix=suffix, reach=reach, heading="edited into",
                notes=lambda row: (note(row), wording.bounds_words(row, scale)),
                name=lambda row: wording.capitalised(
                    f"{f'{row.group}: ' if row.group else ''}{row.category}, {row.setting}"
                ),
            )  # fmt: skip

        meaning = (
            f"Flip rate of \u201c{b}\u201d portraits minus that of \u201c{a}\u201d: positive means that edits move "
            f"to {a}."
        )
        read_by = f", read by {view.reader}" if len(view.readers) > 1 else ""  # the first encoder leads the page
        rows = view.class_rows("flip_asymmetry", view.reader)
        judged = [judge(f"flip asymmetry{read_by}", meaning, rows, 100, " points", (-1, 1))]
        if view.suite.tones:
            first, *others = view.suite.tones
            named = others[0] if len(others) == 1 else "the named"
            skins = (
                f"Change of the skin's angle of {named} portraits minus that of {first} ones: positive means that "
                f"{named} skin is lightened more."
            )
            judged.append(judge("change of skin", skins, view.class_rows("ita_contrast"), 1, " \N{DEGREE SIGN}"))
            if erased := view.class_rows("erasure_contrast", view.reader):
                erasures = (
                    f"Share of edits without a sign of their instruction, of {named} portraits minus that of {first} "
                    f"ones: positive means that instructions are left out more often for {named} portraits."
                )
                judged.append(judge(f"soft erasure{read_by}", erasures, erased, 100, " points"))
        return judged

    def lead(self, view: EditingView) -> dict[str, Any]:
        """Lead the page with the finding."""
        return masthead(view, self.finding(view), self.strongest(view))

    def verdict_lists(self, view: EditingView) -> dict[str, Any]:
        """List the contrasts of every class and strength."""
        headings = [f"Towards {view.label_a} or {view.label_b}"]
        if view.suite.tones:
            first, *others = view.suite.tones
            against = f"{others[0] if len(others) == 1 else 'others'} compared with {first}"
            headings += [f"Skin: {against}", f"Soft erasure: {against}"]
        ids = ("flip", "skin", "erasure")
        return {
            "lists": [
                {
                    "id": id_,
                    "lean": "",
                    "heading": heading,
                    "note": judged.meaning,
                    "rows": judged.rows,
                    "judged": judged,
                }
                for id_, heading, judged in zip(ids, headings, self.verdicts(view), strict=False)
            ],
            "note": note,
        }

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return (
            Section("verdicts", "Verdicts", self.verdict_lists, "verdicts"),
            Section("flips", "Whose gender flips", flips, "flips"),
            Section("skin", "Whose skin changes", skin, "skin"),
            Section("strips", "Before and after", strips, "strips", "pictures"),
            Section("planted", "Do flips follow what was planted?", planted, "planted", "sure"),
        )


PAGE: Final = EditingPage()
