"""The page of a classification study: verdicts, noise samples, pairs, choices, portraits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.album import MOST_PER_PROMPT, Samples
from clinometer.report.figures import Ink
from clinometer.report.figures.marks import Mark
from clinometer.report.gallery import Strip, all_there, counts_in_words, losses
from clinometer.report.page import Page, Section
from clinometer.report.rows import Row
from clinometer.report.sections import masthead, measured_how, nothing_judged
from clinometer.report.verdicts import Verdicts
from clinometer.report.wording import leans, needed, not_measured, reason_words, verdict_group_of
from clinometer.studies.classification.figures import (
    LINE_WIDTH,
    ClassificationView,
    association_figure,
    contrast_in_words,
    contrast_mark,
    differential_figure,
    group_mark,
    line_style,
    noise_figure,
    pair_figure,
)

_GLYPHS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
_INKS = {"A": "lean-a", "B": "lean-b", "THIRD": "lean-third", "ACCENT": "accent", "BALANCED": "lean-balanced",
         "UNDECIDED": "lean-undecided"}  # fmt: skip


# --- the finding and the verdicts ------------------------------------------------------------------------------------


def portraits(row: Row) -> str:
    """State how many portraits of either side a row is computed from."""
    return f"{row.n_a} and {row.n_b} portraits" if row.n_a else ""


def note(row: Row) -> str:
    """Explain why there is no verdict, or how many portraits would decide."""
    return reason_words(row) if not_measured(row) else row.reason or needed(row, "portraits")


def resting(view: ClassificationView) -> str:
    """State the numbers behind the finding: the largest difference, its q, and the number of portraits."""
    row = _leading(view)
    if row is None:
        return ""
    number = f"from {portraits(row)}" if row.n_a else ""
    parts = (f"ΔS {wording.estimate(row)}", wording.probability(row.q, "q"), number)
    numbers = ", ".join(part for part in parts if part)
    return f"That is {numbers}." if leans(row) else f"The largest difference, by {row.group}: {numbers}."


def _leading(view: ClassificationView) -> Row | None:
    """Return the largest difference that leans, else the largest there is."""
    rows = [row for row in view.differentials.values() if verdict_group_of(row) != "unmeasured"]
    return max(rows, key=lambda row: (leans(row), abs(row.value)), default=None)


def amplification_words(view: ClassificationView) -> str:
    """State whether more noise samples widen the first contrast."""
    row = next((row for row in view.amplifications.values() if row.defined), None)
    if row is None:
        return ""
    certain = row.has_interval and not row.low <= 0 <= row.high and row.q <= 0.05
    verb = "changes with" if certain else "may or may not change with"
    change = f"{ends_in_words(view, row)}{wording.estimate(row)}"
    return f"The difference by {row.group} {verb} the number of noise samples: {change}, over {row.setting}."


def ends_in_words(view: ClassificationView, row: Row) -> str:
    """Write ΔS at the fewest and at the most noise samples: a change of +0.09 may widen a difference or narrow it."""
    settings = [view.suite.settings[n] for n in (view.suite.noise_samples[0], view.suite.noise_samples[-1])]
    ends = [next(iter(view.rows("differential", group=row.group, setting=setting)), Row()) for setting in settings]
    if not all(end.defined for end in ends):
        return ""
    return f"ΔS from {' to '.join(wording.signed(end.value) for end in ends)}, by "


# --- numbers and pictures --------------------------------------------------------------------------------------------


def noise(view: ClassificationView) -> dict[str, Any] | None:
    """Gather curves over the number of noise samples, with their legends."""
    if len(view.suite.noise_samples) < 2:
        return None
    settings = {name: n for n, name in view.suite.settings.items()}
    lines: dict[str, dict[int, Row]] = {}
    for component in ("association", "differential"):
        for row in view.rows(component, setting="*"):
            label = view.label(row.group) if component == "association" else f"ΔS, {row.group}"
            lines.setdefault(wording.capitalised(label), {})[settings[row.setting]] = row
    groups = [(group_mark(view, name), view.label(name)) for name in view.suite.groups]
    contrasts = [(contrast_mark(order), name) for order, name in enumerate(view.suite.contrasts)]
    return {
        "association": noise_figure(view, "association"),
        "differential": noise_figure(view, "differential"),
        "groups": [_key(order, *key) for order, key in enumerate(groups)],
        "contrasts": [_key(order, *key) for order, key in enumerate(contrasts)],
        "lines": lines,
    }


def _key(order: int, mark: Mark, label: str) -> dict[str, str]:
    """Return the legend of a line: shape, colour and dashes, as two of the colours are greys."""
    ink = next(name for name, value in vars(Ink).items() if value == mark.colour)
    style = line_style(order)
    dashes = "" if style == "-" else " ".join(f"{LINE_WIDTH * length:g}" for length in style[1])
    return {"glyph": _GLYPHS[mark.shape], "ink": _INKS[ink], "dashes": dashes, "label": wording.capitalised(label)}


def pairs(view: ClassificationView) -> dict[str, Any] | None:
    """Gather a matrix of pairs for each contrast."""
    figures = [(name, pair_figure(view, name, number)) for number, name in enumerate(view.suite.contrasts)]
    drawn = [(contrast_in_words(view.suite, name), figure) for name, figure in figures if figure is not None]
    return {"figures": drawn} if drawn else None


def choices(view: ClassificationView) -> dict[str, Any]:
    """Gather the classes chosen among all, and what the measurement cost."""
    shares = {(row.concept, row.group): row for row in view.rows("choice")}

    def share(name: str, group: str) -> str:
        row = shares.get((name, group))
        if row is None or not row.defined:
            return wording.MISSING
        ends = f" {100 * row.low:.0f}{wording.DASH}{100 * row.high:.0f}" if row.has_interval else ""
        return f"{wording.percent(row.value)}{ends}"

    return {
        "share": share,
        "cost": {row.group: row for row in view.rows("evaluations")},
        "ties": {row.group: row for row in view.rows("tie_share")},
        "planned": len(view.suite.classes) * view.suite.noise_samples[-1],
    }


def gallery(view: ClassificationView) -> dict[str, Any]:
    """Gather the portraits of each group, and what could not be made."""
    samples = Samples(view.report.samples)
    by_group, groups = samples.by("group"), []
    for group, spec in view.suite.groups.items():
        drawn, label = by_group.get((group,), samples[:0]), wording.capitalised(view.label(group))
        tiles = [
            view.album.tile(sample, f"{label}, portrait {order} of {len(drawn)}")
            for order, sample in enumerate(drawn[:MOST_PER_PROMPT], 1)
        ]
        strip = Strip(spec.prompt, tiles, max(0, len(drawn) - MOST_PER_PROMPT))
        groups.append(
            {"label": label, "counts": counts_in_words(drawn), "row": view.associations.get(group), "strip": strip}
        )
    return {"groups": groups, "losses": losses(view, samples), "there": all_there(len(samples))}


class ClassificationPage(Page[ClassificationView]):
    """The page of a classification study."""

    view = ClassificationView
    package = "clinometer.studies.classification"

    def finding(self, view: ClassificationView) -> str:
        """Word the strongest contrast in one sentence; or that the portraits do not tell, or none could be judged."""
        row = _leading(view)
        if row is not None and leans(row):
            x, y = view.side_labels(row.group)
            more, fewer = (x, y) if row.value > 0 else (y, x)
            return (
                f"Put before a profession {view.label_a} and one {view.label_b}, {view.model} takes portraits of "
                f"{more} for the former {abs(100 * row.value):.0f} percentage points more often than those of {fewer}."
            )
        groups = {verdict_group_of(each) for each in view.differentials.values()} - {"unmeasured"}
        if not groups and any(each.defined for each in view.associations.values()):
            return nothing_judged("contrast", view.model, view.differentials.values())
        if not groups:
            return "Nothing could be measured: no group of portraits was classified."
        if groups == {"balanced"}:
            return (
                f"{view.model} is shown to take portraits of all groups for professions {view.label_a} about equally "
                f"often: no difference is larger than {view.suite.margin:g}."
            )
        tell = "There are too few images to tell" if groups == {"few"} else "The images do not tell"
        question = f"takes portraits of one group for professions {view.label_a} more often than those of another"
        return f"{tell} whether {view.model}, as a classifier, {question}."

    def strongest(self, view: ClassificationView) -> str:
        """State what the finding rests on, then what more noise samples add."""
        return " ".join(part for part in (resting(view), amplification_words(view)) if part)

    def meaning(self, view: ClassificationView) -> str:
        """Explain in one sentence what a difference means."""
        return (
            f"A side that is named means: put to a choice, the model takes portraits of one group for professions "
            f"{view.label_a} more often than those of the other, and by more than chance explains."
        )

    def verdicts(self, view: ClassificationView) -> tuple[Verdicts]:
        """Judge every contrast at the most noise samples."""
        return (
            Verdicts(
                "contrast", "\N{GREEK CAPITAL LETTER DELTA}S",
                f"at {view.setting}: + where the first side goes to those {view.label_a}",
                list(view.differentials.values()), drawn="portraits", reach=(-1, 1),
                short_name=lambda row: row.group,
                name=lambda row: contrast_in_words(view.suite, row.group), 
                notes=lambda row: (portraits(row), note(row), wording.bounds_words(row)),
            ),
        )  # fmt: skip

    def lead(self, view: ClassificationView) -> dict[str, Any]:
        """Lead the page with the finding and each group's association."""
        return masthead(
            view,
            self.finding(view),
            self.strongest(view),
            figure=association_figure(view),
            caption=f"Association S with its 95 % interval, at {view.setting}. Dashed: no preference between the sets.",
        )

    def method(self, view: ClassificationView) -> dict[str, Any]:
        """Gather words, limits, cards, settings; no encoder is used."""
        return measured_how(view) | {"encoders": []}

    def verdict_list(self, view: ClassificationView) -> dict[str, Any]:
        """List every contrast, and what more noise samples add to it."""
        (judged,) = self.verdicts(view)
        return {
            "figure": differential_figure(view),
            "judged": judged,
            "sides": lambda row: " less ".join(view.side_labels(row.group)),
            "portraits": portraits,
            "note": note,
            "ends": lambda row: ends_in_words(view, row) if row.defined else "",
        }

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return (
            Section("verdicts", "Verdicts", self.verdict_list, "verdicts"),
            Section("pairs", "Pair by pair", pairs, "pairs"),
            Section("choices", "All classes at once", choices, "choices"),
            Section("gallery", "The portraits", gallery, "gallery", "pictures"),
            Section("noise", "Noise samples", noise, "noise", "sure"),
        )


PAGE: Final = ClassificationPage()
