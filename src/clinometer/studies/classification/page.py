"""The page of a classification study: verdicts, noise samples, pairs, choices, portraits, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import Any, Final

from clinometer.report import figures, wording
from clinometer.report.gallery import Strip, all_there, counts_in_words, losses
from clinometer.report.page import Page, Section
from clinometer.report.sections import masthead, measured_how, nothing_judged
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import MOST_PER_PROMPT, Row, Samples, StudyView
from clinometer.suites import ClassificationSuite

CELL: Final = 100
CELL_HEIGHT: Final = 54
LABEL: Final = 150
LINE_WIDTH: Final = 1.8
LINES: Final = ("-", (0, (5, 2)), (0, (1, 1.6)), (0, (5, 2, 1, 2)))
SHAPES: Final = ("o", "s", "^", "D", "v", "P")


def association_figure(view: ClassificationView) -> figures.Figure | None:
    """Draw S of every group with its interval; ½ means no preference between the two sets."""
    rows = [row for row in view.associations.values() if row.defined]
    if not rows:
        return None
    with figures.canvas(470, 78 + 30 * len(rows)) as figure:
        axes = figures.place(figure, 190, 58, 18, 10)
        figures.tidy(axes)
        axes.axvline(0.5, color=figures.Ink.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        for y, row in enumerate(rows):
            mark = group_mark(view, row.group)
            figures.draw_intervals(axes, row, y, mark.colour)
            figures.draw_mark(axes, row.value, y, mark)
        figures.label_rows(axes, [wording.capitalised(view.label(row.group)) for row in rows], 26)
        axes.set_xlim(*figures.span(rows, include=(0.5,), stimulus=False))
        axes.xaxis.set_major_formatter(lambda value, _: wording.percent(value))
        axes.set_xlabel(figures.drawable(f"choices that go to professions {view.label_a}", 60), loc="right")
        return figures.finish(
            figure,
            name="association",
            title=f"Share of choices between a profession {view.label_a} and one {view.label_b} that go to the former",
            description="; ".join(_mark_title(view.label(row.group), row) for row in rows),
        )


def group_mark(view: ClassificationView, group: str) -> figures.Mark:
    """Return a mark: colour by the side of the first contrast, shape by the place on that side."""
    contrast = next(iter(view.suite.contrasts.values()))
    for colour, side in ((figures.Ink.A, contrast.x), (figures.Ink.B, contrast.y)):
        if group in side.groups:
            return figures.Mark(SHAPES[side.groups.index(group) % len(SHAPES)], colour)
    return figures.Mark("X", figures.Ink.THIRD)


def noise_figure(view: ClassificationView, curve: str) -> figures.Figure | None:
    """Draw S of the groups or ΔS of the contrasts over the number of noise samples, with their intervals."""
    points = _points(view, curve)
    if not points:
        return None
    half = curve == "association"
    with figures.canvas(470, 330) as figure:
        axes = figures.place(figure, 62, 52, 18, 14)
        figures.tidy(axes, grid="both")
        axes.set_xscale("log")
        axes.axhline(0.5 if half else 0.0, color=figures.Ink.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        descriptions = []
        for order, (name, line) in enumerate(points.items()):
            mark = group_mark(view, name) if half else contrast_mark(order)
            x, y, low, high = zip(*line, strict=True)
            label = view.label(name) if half else name
            descriptions.append(f"{label} from {wording.number(y[0])} to {wording.number(y[-1])}")
            axes.fill_between(x, low, high, color=mark.colour, alpha=0.09, linewidth=0)
            axes.plot(x, y, color=mark.colour, linewidth=LINE_WIDTH, linestyle=line_style(order), zorder=3)
            for at, value in zip(x, y, strict=True):
                figures.draw_mark(axes, at, value, mark, size=7 if at == x[-1] else 4)
        ticks = list(view.suite.noise_samples)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("noise samples (log scale)")
        axes.set_ylabel("association  S" if half else "differential  ΔS")
        axes.tick_params(axis="y", labelcolor=figures.Ink.MUTED)
        title = "Association of each group" if half else "Difference between groups"
        return figures.finish(
            figure, name=f"noise-{curve}", title=f"{title} by the number of noise samples",
            description="; ".join(descriptions),
        )  # fmt: skip


def line_style(order: int) -> Any:
    """Return the dashes of a line by its place."""
    return LINES[order % len(LINES)]


def contrast_mark(order: int) -> figures.Mark:
    """Return the shape and colour of a contrast by its place in the suite."""
    colours = (figures.Ink.ACCENT, figures.Ink.THIRD, figures.Ink.BALANCED, figures.Ink.UNDECIDED)
    return figures.Mark(SHAPES[order % len(SHAPES)], colours[order % len(colours)])


def _points(view: ClassificationView, curve: str) -> Mapping[str, Sequence[tuple[float, float, float, float]]]:
    """Return the stored points of each line, in the suite's order; those without a value are left out."""
    frame = view.report.curves
    if frame is None or "curve" not in frame or not len(frame):
        return {}
    points: dict[str, list[tuple[float, float, float, float]]] = {}
    for record in frame[frame.curve == curve].to_dict("records"):
        if isfinite(record["y"]):
            points.setdefault(record["name"], []).append((record["x"], record["y"], record["low"], record["high"]))
    return points


def pair_figure(view: ClassificationView, contrast: str, number: int) -> figures.Figure | None:
    """Draw the difference between two sides for every pair of classes: a row a class of A, a column one of B."""
    cells = {(row.concept, row.category): row for row in view.rows("pair_differential", group=contrast) if row.defined}
    if not cells:
        return None
    rows, columns = list(view.suite.a.classes), list(view.suite.b.classes)
    with figures.canvas(LABEL + CELL * len(columns) + 10, 58 + CELL_HEIGHT * len(rows)) as figure:
        axes = figures.place(figure, LABEL, 8, 10, 50)
        for y, a in enumerate(rows):
            for x, b in enumerate(columns):
                row = cells.get((a, b))
                if row is None:
                    axes.text(x, y, wording.MISSING, ha="center", va="center", color=figures.Ink.MUTED)
                    continue
                ends = f"{wording.number(row.low)} to {wording.number(row.high)}" if row.has_interval else ""
                colour, number_text = figures.Ink.A if row.value > 0 else figures.Ink.B, wording.signed(row.value)
                figures.draw_cell(axes, x, y, colour, abs(row.value), number_text, ends, bold=row.q <= 0.05)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        figures.label_rows(axes, rows, 20)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(columns)), [figures.folded(name, 14, 2) for name in columns])
        figures.tidy(axes)
        axes.grid(visible=False)
        x_label, y_label = view.side_labels(contrast)
        return figures.finish(
            figure,
            name=f"pairs{number}",
            title=f"How much more often {x_label} than {y_label} are taken for the profession of the row",
            description=f"One row a profession {view.label_a}, one column one {view.label_b}. The same numbers are in "
            "the full table.",
        )


def differential_figure(view: ClassificationView) -> figures.Figure | None:
    """Draw ΔS of every contrast with its interval and verdict."""
    rows = [row for row in view.differentials.values() if row.defined]
    if not rows:
        return None
    with figures.canvas(470, 66 + 30 * len(rows)) as figure:
        axes = figures.place(figure, 170, 46, 18, 10)
        figures.tidy(axes)
        axes.axvline(0, color=figures.Ink.MUTED, linewidth=1, zorder=1)
        for y, row in enumerate(rows):
            mark = figures.MARKS[wording.verdict_group_of(row)]
            figures.draw_intervals(axes, row, y, mark.colour)
            figures.draw_mark(axes, row.value, y, mark)
        figures.label_rows(axes, [wording.capitalised(row.group) for row in rows], 24)
        axes.set_xlim(*figures.span(rows, stimulus=False))
        axes.set_xlabel("differential association  ΔS")
        return figures.finish(
            figure,
            name="differential",
            title="Difference between groups in how often they are taken for the first set of professions",
            description="; ".join(_mark_title(row.group, row) for row in rows),
        )


def _mark_title(name: str, row: Row) -> str:
    return figures.drawable(f"{name}: {wording.number(row.value)} {wording.interval(row.low, row.high)}".strip(), 120)


def differential_models_figure(views: Mapping[str, ClassificationView]) -> figures.Figure | None:
    """Draw ΔS of every contrast, models side by side."""
    first = next(iter(views.values()))
    differentials = {model: view.differentials for model, view in views.items()}
    return figures.rows_figure(
        differentials, list(first.suite.contrasts), "ΔS", ("", f"more often {first.label_a}"), name="differentials",
        title="Difference between groups in every model", margin=first.suite.margin,
    )  # fmt: skip


METRIC = "classification"
DENOISER = "denoiser"
"""In place of an encoder's name: the numbers are read from the model's own errors."""


class ClassificationView(StudyView[ClassificationSuite]):
    """Rows by component at the largest number of noise samples, and the suite's names."""

    unit = "portraits"

    @property
    def label_a(self) -> str:
        """The label of the first set of classes."""
        return self.suite.a.label

    @property
    def label_b(self) -> str:
        """The label of the second set of classes."""
        return self.suite.b.label

    @property
    def setting(self) -> str:
        """The largest number of noise samples, as rows name it."""
        return self.suite.settings[self.suite.noise_samples[-1]]

    def rows(self, component: str, **equal: str) -> list[Row]:
        """Select the rows of a component at the largest number of noise samples, unless another setting is named."""
        conditions = {"encoder": DENOISER, "setting": self.setting, **equal}
        return self.scores.select(METRIC, component, **conditions)

    @cached_property
    def associations(self) -> dict[str, Row]:
        """S of each group."""
        return {row.group: row for row in self.rows("association")}

    @cached_property
    def differentials(self) -> dict[str, Row]:
        """ΔS of each contrast."""
        return {row.group: row for row in self.rows("differential")}

    @cached_property
    def amplifications(self) -> dict[str, Row]:
        """What more noise samples add to ΔS, by contrast."""
        return {row.group: row for row in self.rows("amplification", setting="*")}

    @property
    def given(self) -> str:
        """Where the portraits came from; empty if the model drew them."""
        portraits = self.report.model_card.get("settings", {}).get("portraits")
        return str(portraits["name"]) if portraits else ""

    def side_labels(self, contrast: str) -> tuple[str, str]:
        """Return the two sides of a contrast, for people."""
        sides = self.suite.contrasts[contrast]
        return sides.x.label, sides.y.label


def contrast_in_words(suite: ClassificationSuite, contrast: str) -> str:
    """Return a contrast with its sides: ``"Gender: men minus women"``."""
    sides = suite.contrasts[contrast]
    return f"{wording.capitalised(contrast)}: {sides.x.label} minus {sides.y.label}"


_GLYPHS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
_INKS = {"A": "lean-a", "B": "lean-b", "THIRD": "lean-third", "ACCENT": "accent", "BALANCED": "lean-balanced",
         "UNDECIDED": "lean-undecided"}  # fmt: skip


# --- the finding and the verdicts ------------------------------------------------------------------------------------


def portraits(row: Row) -> str:
    """State how many portraits of either side a row is computed from."""
    return f"{row.n_a} and {row.n_b} portraits" if row.n_a else ""


def note(row: Row) -> str:
    """Explain why there is no verdict, or how many portraits would decide."""
    return wording.reason_words(row) if wording.not_measured(row) else row.reason or wording.needed(row, "portraits")


def resting(view: ClassificationView) -> str:
    """State the numbers behind the finding: the largest difference, its q, and the number of portraits."""
    row = _leading(view)
    if row is None:
        return ""
    number = f"from {portraits(row)}" if row.n_a else ""
    parts = (f"ΔS {wording.estimate(row)}", wording.probability(row.q, "q"), number)
    numbers = ", ".join(part for part in parts if part)
    return f"That is {numbers}." if wording.leans(row) else f"The largest difference, by {row.group}: {numbers}."


def _leading(view: ClassificationView) -> Row | None:
    """Return the largest difference that leans, else the largest there is."""
    rows = [row for row in view.differentials.values() if wording.verdict_group_of(row) != "unmeasured"]
    return max(rows, key=lambda row: (wording.leans(row), abs(row.value)), default=None)


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


def _key(order: int, mark: figures.Mark, label: str) -> dict[str, str]:
    """Return the legend of a line: shape, colour and dashes, as two of the colours are greys."""
    ink = next(name for name, value in vars(figures.Ink).items() if value == mark.colour)
    style = line_style(order)
    dashes = "" if style == "-" else " ".join(f"{LINE_WIDTH * length:g}" for length in style[1])
    return {"glyph": _GLYPHS[mark.shape], "ink": _INKS[ink], "dashes": dashes, "label": wording.capitalised(label)}


def pairs(view: ClassificationView) -> dict[str, Any] | None:
    """Gather a matrix of pairs for each contrast."""
    pairs = [(name, pair_figure(view, name, number)) for number, name in enumerate(view.suite.contrasts)]
    drawn = [(contrast_in_words(view.suite, name), figure) for name, figure in pairs if figure is not None]
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
        """Word the strongest contrast in one sentence; or that the portraits cannot tell, or none could be judged."""
        row = _leading(view)
        if row is not None and wording.leans(row):
            x, y = view.side_labels(row.group)
            more, fewer = (x, y) if row.value > 0 else (y, x)
            return (
                f"Between a profession {view.label_a} and one {view.label_b}, {view.model} takes portraits of "
                f"{more} for the former {abs(100 * row.value):.0f} percentage points more often than those of {fewer}."
            )
        groups = {wording.verdict_group_of(each) for each in view.differentials.values()} - {"unmeasured"}
        if not groups and any(each.defined for each in view.associations.values()):
            return nothing_judged("contrast", view.model, view.differentials.values())
        if not groups:
            return "Nothing could be measured: no group of portraits was classified."
        if groups == {"balanced"}:
            return (
                f"{view.model} is shown to take portraits of all groups for professions {view.label_a} about equally "
                f"often: no difference is larger than {view.suite.margin:g}."
            )
        tell = "There are too few images to tell" if groups == {"few"} else "The images cannot tell"
        question = f"takes portraits of one group for professions {view.label_a} more often than those of another"
        return f"{tell} whether {view.model}, as a classifier, {question}."

    def strongest(self, view: ClassificationView) -> str:
        """State what the finding rests on, then what more noise samples add."""
        return " ".join(part for part in (resting(view), amplification_words(view)) if part)

    def meaning(self, view: ClassificationView) -> str:
        """Explain in one sentence what a difference means."""
        return (
            f"Where a side is named, the model, made to choose, takes portraits of one group for professions "
            f"{view.label_a} more often than those of the other, and by more than chance explains."
        )

    def verdicts(self, view: ClassificationView) -> tuple[Verdicts]:
        """Judge every contrast at the most noise samples."""
        return (
            Verdicts(
                "contrast", "\N{GREEK CAPITAL LETTER DELTA}S",
                f"at {view.setting}: + means that the first side goes more often to professions {view.label_a}",
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
            "sides": lambda row: " minus ".join(view.side_labels(row.group)),
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
