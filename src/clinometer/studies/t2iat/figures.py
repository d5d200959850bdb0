"""A run of a T2IAT study as its sections see it, and their figures.

Effect sizes, distributions (the paper's figure 3), arrows (its figure 4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from clinometer.report import figures, wording
from clinometer.report.view import PairView, Row
from clinometer.suites import T2iatSuite

_LEFT: Final = 168
_ROW: Final = 30
_TEST_ROW: Final = 56
_EFFECTS: Final = (0.2, 0.5, 0.8)
MOST_EFFECT: Final = 3.0
"""Cohen's d beyond it is drawn as an arrow, with its number."""

BOX: Final = ("lower_whisker", "lower_quartile", "median", "upper_quartile", "upper_whisker")


def effect_figure(view: T2IATView) -> figures.Figure | None:
    """Draw Cohen's d of every test with both intervals; the shades end where small, medium and large begin."""
    tests = [test for test in view.suite.tests if test.name in view.effect_sizes]
    rows = [view.effect_sizes[test.name] for test in tests]
    if not any(row.defined for row in rows):
        return None
    with figures.canvas(450, 78 + _TEST_ROW * len(tests)) as figure:
        axes, tips = _effect_axes(figure, rows), {}
        for effect in _EFFECTS:
            axes.axvspan(-effect, effect, color=figures.Ink.SHADE, linewidth=0, alpha=0.55, zorder=0)
        for y, (test, row) in enumerate(zip(tests, rows, strict=True)):
            mark = figures.MARKS[wording.verdict_group_of(view.statistics.get(test.name))]
            subject = f"{view.concept_label(test.x)} / {view.concept_label(test.y)}"
            axes.text(axes.get_xlim()[0], y - 0.3, figures.drawable(subject, 58), va="center", fontsize=11.5)
            if not row.defined:
                continue
            figures.draw_cut(axes, row, y, mark, MOST_EFFECT, gid=f"d{y}")
            interval = wording.interval(row.stimulus_low, row.stimulus_high)
            tips[f"d{y}"] = figures.drawable(f"{subject}: d {wording.signed(row.value)} {interval}".strip(), 120)
        axes.set_ylim(len(tests) - 0.5, -0.75)
        name_ends(axes, view)
        description = f"Cohen's d of each test. {'; '.join(tips.values())}."
        return figures.finish(figure, name="effects", title="Effect sizes", description=description, tips=tips)


def _effect_axes(figure: Any, rows: Sequence[Row]) -> Any:
    """Return axes for Cohen's d of some rows, with a line at 0."""
    axes = figures.place(figure, 12, 50, 14, 12)
    figures.tidy(axes)
    axes.set_yticks([])
    axes.set_xlim(*figures.span([figures.within(row, MOST_EFFECT) for row in rows], include=(0.0, -1.0, 1.0)))
    axes.axvline(0, color=figures.Ink.MUTED, linewidth=1.2, zorder=1)
    return axes


def distribution_figure(view: T2IATView, concept: str, limits: tuple[float, float]) -> figures.Figure | None:
    """Draw the distribution of Asc over each stimulus's images: density, box, whiskers, points beyond; by median."""
    names = view.ordered(concept)
    if not names:
        return None
    boxes = {part: view.scores.by_concept("association", part) for part in BOX}
    with figures.canvas(440, 60 + _ROW * len(names)) as figure:
        axes = figures.place(figure, _LEFT, 48, 14, 12)
        figures.tidy(axes)
        axes.set_xlim(*limits)
        draw_zero(axes, view)
        tips = {}
        for y, name in enumerate(names):
            mark = figures.MARKS[wording.verdict_group_of(view.associations.get(name))]
            five = [boxes[part][name] for part in BOX]
            draw_distribution(axes, view, name, five, y, mark.colour, f"m{y}")
            tips[f"m{y}"] = figures.drawable(f"{name}: {_quartiles(five, view.digits)}", 120)
        figures.label_rows(axes, names)
        name_ends(axes, view)
        return figures.finish(
            figure,
            name=f"distribution{list(view.suite.concepts).index(concept)}",
            title=f"Associations: {view.concept_label(concept)}",
            description="; ".join(tips.values()),
            tips=tips,
        )


def distribution_limits(*views: T2IATView) -> tuple[float, float]:
    """Return limits that all distributions of some models share."""
    ends = [Row(value=row.value) for view in views for part in BOX
            for row in view.scores.by_concept("association", part).values()]  # fmt: skip
    curves = [stored_curve(view, f"association_{kind}")[0] for view in views for kind in ("density", "outlier")]
    return figures.span([*ends, *(Row(value=float(edge)) for x in curves if len(x) for edge in (x.min(), x.max()))])


def stored_curve(view: T2IATView, curve: str, stimulus: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a stored curve."""
    curves = view.report.curves
    if curves is None or not len(curves):
        return np.zeros(0), np.zeros(0)
    rows = curves[(curves.curve == curve) & (stimulus is None or curves.concept == stimulus)]
    return rows.x.to_numpy(float), rows.y.to_numpy(float)


def draw_distribution(
    axes: Any, view: T2IATView, name: str, five: Sequence[Row], y: float, colour: str, gid: str, scale: float = 1.0
) -> None:
    """Draw a stimulus's associations, whose whiskers and quartiles are the ``five`` rows of ``BOX``.

    A violin, whose height says where images are many, within one stimulus only; whiskers, the middle half, and the
    median across them; points beyond.
    """
    x, density = stored_curve(view, "association_density", name)
    if len(x):
        height = 0.42 * scale * density / density.max()
        axes.fill_between(x, y - height, y + height, color=colour, alpha=0.18, linewidth=0, zorder=1)
    low, first, median, third, high = (row.value for row in five)
    butt = {"solid_capstyle": "butt"}
    axes.plot([low, high], [y, y], color=colour, linewidth=1.1, zorder=2)
    axes.plot([first, third], [y, y], color=colour, linewidth=8 * scale, alpha=0.6, zorder=3, **butt)
    across = [y - 0.27 * scale, y + 0.27 * scale]
    axes.plot([median, median], across, color=figures.Ink.TEXT, linewidth=2, zorder=4, gid=gid, **butt)
    outliers = stored_curve(view, "association_outlier", name)[0]
    axes.plot(outliers, [y] * len(outliers), linestyle="none", marker=".", markersize=3, color=colour)


def _quartiles(five: Sequence[Row], digits: int) -> str:
    first, median, third = (wording.signed(row.value, digits) for row in five[1:4])
    return f"median {median}, quartiles {first} to {third}"


def arrow_figure(view: T2IATView, concept: str, limits: tuple[float, float]) -> figures.Figure | None:
    """Draw an arrow from each prompt's text association to that of its images, with an interval at both ends."""
    tails, heads = (view.scores.by_concept("amplification", part) for part in ("text", "image"))
    stimuli = [s.name for s in view.suite.concepts[concept].stimuli]
    names = sorted((n for n in stimuli if n in heads and heads[n].defined), key=lambda n: -heads[n].value)
    if not names:
        return None
    with figures.canvas(440, 60 + _ROW * len(names)) as figure:
        axes = figures.place(figure, _LEFT, 48, 14, 12)
        figures.tidy(axes)
        axes.set_xlim(*limits)
        draw_zero(axes, view)
        tips = {}
        for y, name in enumerate(names):
            _draw_arrow(axes, tails.get(name), heads[name], y, f"h{y}")
            tail = wording.signed(tails[name].value, view.digits) if name in tails else wording.MISSING
            head = wording.signed(heads[name].value, view.digits)
            tips[f"h{y}"] = figures.drawable(f"{name}: text {tail}, images {head}", 120)
        figures.label_rows(axes, names)
        name_ends(axes, view)
        return figures.finish(
            figure,
            name=f"arrows{list(view.suite.concepts).index(concept)}",
            title=f"From text to images: {view.concept_label(concept)}",
            description="; ".join(tips.values()),
            tips=tips,
        )


def arrow_limits(view: T2IATView) -> tuple[float, float]:
    """Return limits that all arrows share; intervals over words may reach beyond and are cut."""
    rows = [
        *view.scores.by_concept("amplification", "text").values(),
        *view.scores.by_concept("amplification", "image").values(),
    ]
    return figures.span(rows, stimulus=False)


def _draw_arrow(axes: Any, tail: Row | None, head: Row, y: float, gid: str) -> None:
    colour = figures.Ink.A if head.value > 0 else figures.Ink.B
    if head.has_interval:
        axes.plot([head.low, head.high], [y, y], color=colour, linewidth=6, alpha=0.3, zorder=2)
    if tail is not None and tail.defined:
        if tail.has_stimulus_interval:
            ends = [tail.stimulus_low, tail.stimulus_high]
            axes.plot(ends, [y + 0.24] * 2, color=figures.Ink.THIRD, linewidth=1.1, zorder=2)
        axes.plot([tail.value], [y], linestyle="none", marker="o", markersize=5, color=figures.Ink.THIRD, zorder=4)
        axes.annotate(
            "",
            (head.value, y),
            (tail.value, y),
            arrowprops={"arrowstyle": "->", "color": figures.Ink.TEXT, "linewidth": 1.4, "shrinkA": 3, "shrinkB": 0},
            zorder=3,
        )
    axes.plot([head.value], [y], linestyle="none", marker="|", markersize=9, color=colour, zorder=4, gid=gid)


def draw_zero(axes: Any, view: T2IATView) -> None:
    """Draw zero, and the margin around it."""
    axes.axvline(0, color=figures.Ink.MUTED, linewidth=1.2, zorder=1)
    margin = view.suite.margin
    if margin:
        axes.axvspan(-margin, margin, color=figures.Ink.SHADE, linewidth=0, zorder=0)


def name_ends(axes: Any, view: T2IATView) -> None:
    """Write below the axis which attribute each end is."""
    axes.xaxis.set_major_formatter(lambda value, _: wording.signed(value, 3).rstrip("0").rstrip(".") if value else "0")
    axes.locator_params(axis="x", nbins=6)
    below = dict(transform=axes.transAxes, va="top", color=figures.Ink.MUTED, fontsize=11.5)
    drop = -27 / (axes.figure.get_size_inches()[1] * axes.figure.dpi * axes.get_position().height)
    axes.text(0, drop, f"\u25c2 to {figures.drawable(view.label_b, 20)}", ha="left", **below)
    axes.text(1, drop, f"to {figures.drawable(view.label_a, 20)} \u25b8", ha="right", **below)


def effect_models_figure(views: Mapping[str, T2IATView]) -> figures.Figure | None:
    """Draw Cohen's d of every test, models side by side: the T2IAT paper's table 1 as a figure."""
    first = next(iter(views.values()))
    tests = first.suite.tests
    rows = {model: [view.effect_sizes.get(test.name, Row()) for test in tests] for model, view in views.items()}
    drawn = [row for model_rows in rows.values() for row in model_rows if row.defined]
    if not drawn:
        return None
    height = 30 + figures.LANE * len(views)
    with figures.canvas(450, 78 + height * len(tests)) as figure:
        axes, tips = _effect_axes(figure, drawn), {}
        for y, test in enumerate(tests):
            subject = f"{first.concept_label(test.x)} / {first.concept_label(test.y)}"
            axes.text(
                axes.get_xlim()[0],
                y - 0.36,
                figures.drawable(subject, 58),
                va="center",
                fontsize=11.5,
                bbox=figures.HALO,
            )
            for order, (model, model_rows) in enumerate(rows.items()):
                if model_rows[y].defined:
                    gid = f"d{y}x{order}"
                    at = y + (0.5 + order) * figures.LANE / height
                    figures.draw_cut(axes, model_rows[y], at, figures.model_mark(order), MOST_EFFECT, gid=gid, size=6.5)
                    tips[gid] = figures.model_tip(subject, model, "d", model_rows[y], 2, stimulus=True)
        axes.set_ylim(len(tests) - 0.4, -0.75)
        name_ends(axes, first)
        description = f"Cohen's d of each test. {'; '.join(tips.values())}."
        return figures.finish(
            figure, name="models-effects", title="Effect sizes of every model", description=description, tips=tips
        )


def distribution_models_figure(views: Mapping[str, T2IATView], concept: str) -> figures.Figure | None:
    """Draw the distribution of Asc over each stimulus's images, models side by side: the paper's figure 3."""
    first = next(iter(views.values()))
    names = list(dict.fromkeys(name for view in views.values() for name in view.ordered(concept)))
    if not names:
        return None
    models, height = len(views), 12 + 18 * len(views)
    with figures.canvas(440, 60 + height * len(names)) as figure:
        axes = figures.place(figure, 168, 48, 14, 12)
        figures.tidy(axes)
        axes.set_xlim(*distribution_limits(*views.values()))
        draw_zero(axes, first)
        tips = {}
        for order, (model, view) in enumerate(views.items()):
            boxes = {part: view.scores.by_concept("association", part) for part in BOX}
            for y, name in enumerate(names):
                if not order:
                    figures.shade_alternate(axes, y)
                quartiles = [boxes[part].get(name, Row()) for part in BOX]
                if all(row.defined for row in quartiles):
                    at, gid, mark = (
                        y + (order - (models - 1) / 2) * 18 / height,
                        f"b{y}x{order}",
                        figures.model_mark(order),
                    )
                    draw_distribution(axes, view, name, quartiles, at, mark.colour, gid, 18 / height)
                    figures.draw_mark(axes, quartiles[2].value, at, mark, size=5)
                    tips[gid] = figures.drawable(f"{name}, {model}: {_quartiles(quartiles, view.digits)}", 140)
        figures.label_rows(axes, names)
        name_ends(axes, first)
        return figures.finish(
            figure,
            name=f"models-distribution{list(first.suite.concepts).index(concept)}",
            title=f"Associations in every model: {first.concept_label(concept)}",
            description="; ".join(tips.values()),
            tips=tips,
        )


class T2IATView(PairView[T2iatSuite]):
    """Rows by test and by stimulus, and the names of attributes and concepts."""

    @property
    def label_a(self) -> str:
        """Label of the attribute that a positive association leans to."""
        return self.label(self.suite.axis.a)

    def labels_of(self, side: str) -> list[str]:
        """Return the labels of the two attributes of a difference."""
        return [self.label_a, self.label_b]

    @property
    def label_b(self) -> str:
        """Label of the other attribute."""
        return self.label(self.suite.axis.b)

    def concept_label(self, concept: str) -> str:
        """Return the label of a concept; ``"all"`` is all of them."""
        return self.suite.concept_label(concept) if concept in self.suite.concepts else "All concepts"

    @cached_property
    def statistics(self) -> dict[str, Row]:
        """S of each test, averaged over encoders."""
        return self.scores.by_concept("t2iat", "differential_association")

    @cached_property
    def effect_sizes(self) -> dict[str, Row]:
        """Cohen's d of each test."""
        return self.scores.by_concept("t2iat", "effect_size")

    @cached_property
    def associations(self) -> dict[str, Row]:
        """Mean association of each stimulus's images."""
        return self.scores.by_concept("association", "mean")

    def ordered(self, concept: str) -> list[str]:
        """Return a concept's stimuli that have an association, by their median, highest first."""
        medians = self.scores.by_concept("association", "median")
        names = [s.name for s in self.suite.concepts[concept].stimuli if s.name in medians and medians[s.name].defined]
        return sorted(names, key=lambda name: -medians[name].value)

    @cached_property
    def digits(self) -> int:
        """Decimal places for associations."""
        rows = [*self.statistics.values(), *self.associations.values()]
        return wording.digits_for([row.value for row in rows])

    @property
    def judged(self) -> dict[str, Row]:
        """The rows that the verdicts are about: tests, or single stimuli where the suite has no tests."""
        if self.suite.tests:
            names, rows = [test.name for test in self.suite.tests], self.statistics
        else:
            names, rows = [stimulus.name for _, stimulus in self.suite.stimuli()], self.associations
        return {name: rows.get(name) or wording.without_estimate(concept=name) for name in names}

    @property
    def over(self) -> str:
        """What the judged interval is over: prompts of tests, images of stimuli."""
        return "stimuli" if self.suite.tests else "images"

    def effect_words(self, test: str) -> str:
        """Write an effect size with Cohen's word: ``d +1.05, large``; his thresholds are the paper's."""
        row = self.effect_sizes.get(test)
        if row is None or not row.defined:
            return ""
        return f"d {wording.signed(row.value)}, {self.magnitude(row)}"

    @staticmethod
    def magnitude(row: Row) -> str:
        """Return Cohen's word for an effect size."""
        words = (("negligible", 0.2), ("small", 0.5), ("medium", 0.8))
        return next((word for word, below in words if abs(row.value) < below), "large")

    def subject(self, name: str) -> str:
        """Return the subject of a judged row, by its concept."""
        tests = {test.name: test for test in self.suite.tests}
        return self.suite.test_label(tests[name]) if name in tests else name
