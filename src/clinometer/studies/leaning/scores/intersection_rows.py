"""Rows of a study whose groups are cells of axes: each axis, the cells, the interactions, for every target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any, Final

import numpy as np

from clinometer.metrics.bounds import with_bounds
from clinometer.metrics.families import corrected
from clinometer.metrics.mcas import COMPONENTS, MODALITIES, TEXT_PART
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import FEWEST_IMAGES, OTHERS, judge_family
from clinometer.stats.bounded_means import TEST
from clinometer.studies.leaning.scores.contrasts import (
    IMAGED,
    Inference,
    JointInference,
    contrast_inference,
    filled_inferences,
    joint_contrast_inference,
)
from clinometer.studies.leaning.scores.cooccurrence import Readings, excess_inference, readings_of
from clinometer.studies.leaning.scores.cosines import Cosines, average_cosines, group_cosines, group_poles, text_cosines
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, Layout, layout_of
from clinometer.studies.leaning.scores.effects import Effect, effects_of
from clinometer.studies.leaning.scores.measured_cells import CellMeasurer, MeasuredCells, gathered_cells
from clinometer.studies.leaning.scores.measuring import pooled_encoders
from clinometer.studies.leaning.scores.moments import CellMeans, CellView, means_of
from clinometer.studies.leaning.scores.reasons import TEXT_ONLY, interval_reason, stimulus_reason, value_reason

METRIC: Final = "intersections"
T_TEST = "Student's t over images, moderated over the targets, two-sided"
F_TEST = "Hotelling's F over images, moderated over the targets"
FIXED = "no stimulus interval: words and encoder are fixed"
NOT_READ = "no image of a level to read the others by"
TOO_FEW = "no interval from so few images of the target"


def intersection_study(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    confidence: float = 0.95,
    measured: Iterable[tuple[int, MeasuredCells]] | None = None,
) -> list[Score]:
    """Every number of a study with axes.

    All rows are of metric ``intersections``. Values are image parts, II + ITA, but for interactions, which are shares
    of images; ``setting`` names another component of MCAS, or ``"mcas"`` itself, where a row is of that.

    ============================ ======================================================================
    component                    value
    ============================ ======================================================================
    ``axis:A``                   of two levels, the image part along the axis, every cell of a level weighing
                                 alike; ``group`` is the level that positive leans to, ``setting`` see above
    ``axis:A``, ``group`` a      of more levels, the deviation of each from their mean; without ``group`` the
    level                        length of all deviations, tested against uniform
    ``cells``                    length of the cells' deviations, tested against all cells being as near
    ``cell:C``                   deviation of a cell from the mean of all; sums to 0 over the cells
    ``interaction:A×B``          share of images at the cell ``group`` beyond what its levels alone give; with
                                 more than one free cell, one row each, and their length without ``group``
    ``residual:A×B``             the double-centred cosine of the cell ``group``: not neutral, carries no verdict
    ============================ ======================================================================

    Tests are corrected over the targets, those of cells and levels over both. Verdicts stand in the rows of single
    axes, cells and interactions, averaged over encoders.

    ``measured`` : of each target, what :func:`cell_measurer_of` says of it in whatever process and order; then no image
    of a target is read here.
    """
    layout = layout_of(encoders, design, targets=measured is None)
    if measured is None:
        measured = enumerate(map(CellMeasurer(encoders, layout), range(len(layout.targets))))
    views = _views(encoders, design, layout, gathered_cells(layout, measured))
    mean, *others = (_Maker(design, layout, *view, confidence) for view in views)
    rows = mean.rows()
    if len(others) == 1:  # the average of one is that one
        return rows + [replace(row, encoder=others[0].view.encoder, **_NO_VERDICT) for row in rows]
    return rows + [row for other in others for row in other.rows()]


def cell_measurer_of(encoders: Sequence[EncoderEmbeddings], design: Design) -> CellMeasurer:
    """What measures the targets of a study with axes, one at a time; raises as :func:`intersection_study`.

    The images of a target are looked at when it is measured.
    """
    return CellMeasurer(encoders, layout_of(encoders, design, targets=False), check=design)


def _views(
    encoders: Sequence[EncoderEmbeddings], design: Design, layout: Layout, means: Sequence[CellMeans]
) -> list[tuple[CellView, tuple[Readings, Readings]]]:
    """The average over the encoders that read text (over all, if none does) first, then each.

    ``means`` : of each encoder, and then of the average of several.
    """
    pooled = pooled_encoders(encoders)
    texts = [text_cosines(e, layout) for e in encoders]
    groups = [group_cosines(e, layout) for e in encoders]
    single = [
        CellView(e.encoder, e.reads_text, cosines, layout, measured=own, poles=group_poles(e, layout))
        for e, cosines, own in zip(encoders, texts, means, strict=False)
    ]
    views = [(view, _readings(design, view, of_prompts)) for view, of_prompts in zip(single, groups, strict=True)]
    view, readings = views[pooled[0]]
    if len(pooled) > 1:
        of_texts, of_prompts = (average_cosines([kind[i] for i in pooled]) for kind in (texts, groups))
        members = tuple(single[i] for i in pooled)
        poles = np.mean([group_poles(encoders[i], layout) for i in pooled], axis=0)
        view = CellView("mean", view.reads_text, of_texts, layout, members, measured=means[-1], poles=poles)
        readings = _readings(design, view, of_prompts)
    return [(replace(view, encoder="mean"), readings), *views]


def _readings(design: Design, view: CellView, prompts: Cosines) -> tuple[Readings, Readings]:
    """Of the targets' images and of those of the attribute prompts."""
    means = means_of(prompts, view.layout)
    return readings_of(design, view.layout, view.means, means, reads_text=view.reads_text)


class _Maker:
    """Makes the rows of one view, family by family."""

    def __init__(
        self, design: Design, layout: Layout, view: CellView, readings: tuple[Readings, Readings], confidence: float
    ) -> None:
        self.design, self.layout, self.view = design, layout, view
        self.readings, self.confidence = readings, confidence

    def rows(self) -> list[Score]:
        """All rows of the view."""
        return [row for effect in effects_of(self.design) for family in self.families(effect) for row in family]

    def families(self, effect: Effect) -> Iterator[list[Score]]:
        """Rows that are corrected together, each list a family."""
        if effect.kind == "interaction":
            yield from self._interaction(effect)
            return
        if effect.rank > 1:
            joint = joint_contrast_inference(self.view, effect.basis, confidence=self.confidence)
            yield self._joint(effect, joint, IMAGED)
        inferences = [contrast_inference(self.view, w, confidence=self.confidence) for w in effect.weights]
        judged = self._judged(effect, self._rows(effect, inferences, IMAGED), self.design.margin)
        yield with_bounds(judged, self._fillings(effect))
        if effect.kind == "axis":
            for name in (*(MODALITIES if effect.rank == 1 else ()), TEXT_PART, "mcas"):
                modalities = COMPONENTS[name]
                inferences = [
                    contrast_inference(self.view, w, confidence=self.confidence, modalities=modalities)
                    for w in effect.weights
                ]
                rows = [replace(row, setting=name) for row in self._rows(effect, inferences, modalities)]
                yield corrected(rows, self._family(f"{effect.component} {name}"))

    def _interaction(self, effect: Effect) -> Iterator[list[Score]]:
        cells, joint = excess_inference(effect, self.design, self.layout, *self.readings, self.confidence)
        parts = ("ii", "ita") if self.view.reads_text else ("ii",)
        if effect.rank > 1:
            yield self._joint(effect, joint, parts)
        rows = [
            replace(row, stimulus_low=nan, stimulus_high=nan, test=T_TEST if row.test else "")
            for row in self._rows(effect, cells, parts)
        ]
        rows = [replace(row, reason=row.reason if not isfinite(row.low) else FIXED) for row in rows]
        yield self._judged(effect, rows, None)
        inference = contrast_inference(
            self.view, effect.residual, confidence=self.confidence, modalities=MODALITIES
        )  # fmt: skip
        name = effect.component.replace("interaction", "residual")
        residuals = [replace(row, component=name) for row in self._rows(effect, [inference], MODALITIES)]
        yield corrected(residuals, self._family(name))

    def _joint(self, effect: Effect, joint: JointInference, modalities: Collection[str]) -> list[Score]:
        rows = [
            self._explained(
                t, modalities,
                Score(
                    metric=METRIC, component=effect.component, **self._target(t, np.ones(len(self.design.groups))),
                    value=float(joint.size[t]), low=float(joint.low[t]), high=float(joint.high[t]),
                    null=float(joint.null[t]), p=float(joint.p[t]), test=F_TEST if isfinite(joint.p[t]) else "",
                ),
            )
            for t in range(len(self.design.targets))
        ]  # fmt: skip
        rows = [row if row.reason else replace(row, reason=FIXED) for row in rows]
        return corrected(rows, self._family(effect.component))

    def _rows(self, effect: Effect, inferences: Sequence[Inference], modalities: Collection[str]) -> list[Score]:
        """A row a target and contrast."""
        test = TEST if {"ii", "ita"} & set(modalities) else T_TEST
        return [
            self._explained(
                t, modalities,
                Score(
                    metric=METRIC,
                    component=f"cell:{name}" if effect.kind == "cell" else effect.component,
                    group=name,
                    **self._target(t, weights),
                    value=float(one.value[t]), low=float(one.low[t]), high=float(one.high[t]), p=float(one.p[t]),
                    stimulus_low=float(one.stimulus_low[t]), stimulus_high=float(one.stimulus_high[t]),
                    test=test if isfinite(one.p[t]) else "",
                ),
            )
            for one, name, weights in zip(inferences, effect.names, effect.weights, strict=False)
            for t in range(len(self.design.targets))
        ]  # fmt: skip

    def _judged(self, effect: Effect, rows: Sequence[Score], margin: float | None) -> list[Score]:
        """One family, with verdicts where it is the average over encoders."""
        many = f" and {len(effect.names)} {'cells' if effect.kind != 'axis' else 'levels'}" if effect.rank > 1 else ""
        family = corrected(rows, self._family("cell" if effect.kind == "cell" else effect.component) + many)
        if self.view.encoder != "mean":
            return family
        others = dict(zip(effect.names, effect.others, strict=True))
        sides = [others[row.group] or OTHERS for row in family]
        reach = margin / 2 if margin is not None and effect.of_halves else margin

        return judge_family(
            family, a=[row.group for row in family], b=sides, margin=reach, fewest=FEWEST_IMAGES
        )  # fmt: skip

    def _fillings(self, effect: Effect) -> dict[str, list[list[Score]]]:
        """The rows of a family with the images filled in that are not there, by what and in every way."""
        missing = [target.missing for target in self.design.targets]
        by_weights = [filled_inferences(self.view, w, missing, confidence=self.confidence) for w in effect.weights]
        return {
            kind: [
                self._judged(effect, self._rows(effect, inferences, IMAGED), self.design.margin)
                for inferences in zip(*(fillings[kind] for fillings in by_weights), strict=True)
            ]
            for kind in by_weights[0]
            if all(kind in fillings for fillings in by_weights)
        }

    def _family(self, name: str) -> str:
        return f"{METRIC}: {name} over {len(self.design.targets)} targets"

    def _target(self, t: int, weights: np.ndarray) -> dict[str, Any]:
        target, counts = self.design.targets[t], np.array(self.layout.image_counts)
        return {
            "concept": target.name, "category": target.category, "encoder": self.view.encoder,
            "n_target": self.layout.target_sizes[t], "n_repeated": self.layout.repeated(t),
            "n_missing": target.missing,
            "n_a": int(counts[weights > 1e-12].sum()), "n_b": int(counts[weights < -1e-12].sum()),
        }  # fmt: skip

    def _explained(self, t: int, modalities: Collection[str], row: Score) -> Score:
        """The row with the reason of the first thing it lacks, and nothing beside a number that is not there."""
        groups = range(len(self.design.groups))
        if not isfinite(row.value):
            reason = value_reason(self.layout, self.view.reads_text, t, modalities, groups) or NOT_READ
            return replace(
                row, value=nan, low=nan, high=nan, stimulus_low=nan, stimulus_high=nan, p=nan, null=nan, test="",
                reason=reason,
            )  # fmt: skip
        if not isfinite(row.low):
            reason = interval_reason(self.layout, t, modalities, groups) or TOO_FEW
            return replace(row, reason=TEXT_ONLY if set(modalities) == {"tt"} else reason)
        if not isfinite(row.stimulus_low):
            return replace(row, reason=stimulus_reason(self.layout, modalities, groups))
        return row


_NO_VERDICT: dict[str, Any] = {
    "verdict": "", "side": "", "reason_code": "", "p_equivalence": nan, "q_equivalence": nan, "n_decide": 0,
    "depends_on": "",
}  # fmt: skip
