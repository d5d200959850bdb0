"""Differences of two models as editors, or of one at two settings: whom the second flips or lightens more.

See decision 21.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.metrics.differences import (
    Family,
    PortraitPair,
    bounded_magnitude,
    difference_row,
    judged_families,
    portrait_magnitude,
)
from clinometer.metrics.records import Score
from clinometer.stats.dependence import batch_means, linked, within_groups
from clinometer.studies.editing import scores
from clinometer.studies.editing.design import EditingDesign, GenderReadings, PortraitGroup, mean_of_known


@dataclass(frozen=True)
class EditedPortraits:
    """One run's n portraits and their edits.

    Attributes
    ----------
    groups : (n,) each portrait's position in the design's groups.
    readings : of every encoder, the same in both runs.
    tone_change : (n, P, S) change of the individual typology angle, degrees; NaN where a tone is unknown.
    missing : (n, P, S) edits that were asked for and are not there; None where all are.
    batches : (n,) the batch that each portrait came in; None where each is one by itself.
    """

    groups: np.ndarray
    readings: Sequence[GenderReadings]
    tone_change: np.ndarray
    missing: np.ndarray | None = None
    batches: np.ndarray | None = None

    def lost(self, chosen: np.ndarray, positions: Sequence[int], s: int) -> int:
        """Count what is missing of some portraits, of these professions at one strength."""
        return 0 if self.missing is None else int(self.missing[chosen][:, positions, s].sum())


def compare_edits(
    first: EditedPortraits,
    second: EditedPortraits,
    design: EditingDesign,
    *,
    paired: bool,
    n_permutations: int = 19_999,
    seed: int = 0,
) -> list[Score]:
    """Return differences between two editing runs, second minus first, for classes and for single professions.

    =================== ========================================================================================
    component           what
    =================== ========================================================================================
    ``flip_rate``       of the flip rate of each group
    ``flip_asymmetry``  of the flip rate of b's portraits − that of a's, mean over tones; positive: the second
                        moves more to a
    ``ita_change``      of the mean change of the angle of each group, degrees; positive: the second lightens more
    ``ita_contrast``    of that of the darker tone − that of the lighter one, mean over genders
    ``soft_erasure``    of the share of each group's edits that show no sign of their instruction; positive: the
                        second leaves out more
    ``erasure_contrast`` of that of each tone − that of the first, mean over genders
    ``magnitude``       of mean |flip asymmetry| over classes and strengths
    =================== ========================================================================================

    Soft erasure is there where both runs' suites say what an edit shows. Contrasts name their tone among several.

    Flips are those of every encoder, and with encoder ``mean`` each portrait's mean over encoders; verdicts are on
    those. ``paired``: the i-th portraits of a group belong together (:mod:`clinometer.metrics.differences`). Portraits
    that came in batches are compared by these: a batch counts once, by the mean of its portraits, and ``n_target``
    counts batches. Pairs are of one batch where either of their portraits are.
    """
    runs, units = (first, second), _units(first, second, paired)
    one, two = map(_by_unit, runs, units)
    study = _EditComparison(one, two, design, paired, n_permutations, seed)
    flipped = [
        {
            reading.encoder: batch_means(
                scores.flips(scores.read_gender(reading.before), scores.read_gender(reading.after))[0], labels
            )
            for reading in run.readings
        }
        for run, labels in zip(runs, units, strict=True)
    ]
    rows: list[Score] = []
    for encoder in flipped[0]:
        rows += study.flip_rows(flipped[0][encoder], flipped[1][encoder], encoder)
    means = [np.mean(list(run.values()), axis=0) for run in flipped]
    rows += study.flip_rows(means[0], means[1], "mean")
    followed = [[reading.followed for reading in run.readings if reading.followed is not None] for run in runs]
    if all(len(run) == len(flipped[0]) for run in followed):
        erased = [
            [batch_means(np.where(np.isnan(gain), np.nan, gain <= 0), labels) for gain in run]
            for run, labels in zip(followed, units, strict=True)
        ]
        for encoder, first_erased, second_erased in zip(flipped[0], *erased, strict=True):
            rows += study.erasure_rows(first_erased, second_erased, encoder)
        rows += study.erasure_rows(np.mean(erased[0], axis=0), np.mean(erased[1], axis=0), "mean")
    return [*rows, *study.tone_rows(), study.magnitude(means[0], means[1])]


def _units(first: EditedPortraits, second: EditedPortraits, paired: bool) -> tuple[np.ndarray | None, ...]:
    """Number the batches of both runs' portraits, within their groups; of pairs the same of both."""
    units = [None if run.batches is None else within_groups(run.groups, run.batches) for run in (first, second)]
    known = [labels for labels in units if labels is not None]
    return (linked(known),) * 2 if paired and known else tuple(units)


def _by_unit(run: EditedPortraits, units: np.ndarray | None) -> EditedPortraits:
    """Replace portraits by their batches; an edit is missing where that of any of its portraits is."""
    if units is None:
        return run
    missing = None if run.missing is None else batch_means(run.missing.astype(float), units) > 0
    groups = run.groups[np.unique(units, return_index=True)[1]]
    return EditedPortraits(groups, (), batch_means(run.tone_change, units), missing)


Named = Callable[[PortraitGroup], str]


@dataclass(frozen=True)
class _EditComparison:
    first: EditedPortraits
    second: EditedPortraits
    design: EditingDesign
    paired: bool
    n_permutations: int
    seed: int

    def flip_rows(self, first: np.ndarray, second: np.ndarray, encoder: str) -> list[Score]:
        """Return the rates of every group, then the asymmetry, judged for the mean over encoders."""
        rates = self.group_rows(first, second, "flip_rate", shares=True, encoder=encoder)

        def rows(side: int | None = None) -> list[Score]:
            values = self.filled((first, second), self.asymmetry(), _side, side)
            pair = self.pair(*values, _side)
            return self.rows(pair, self.asymmetry(), _side, "flip_asymmetry", shares=True, encoder=encoder)

        sides = (self.design.a, self.design.b) if encoder == "mean" else None
        return [*rates, *self.judged(rows, "flip asymmetry", sides)]

    def tone_rows(self) -> list[Score]:
        """Report changes of skin tone of every group, then the contrast of the two tones, where the design has some."""
        changes = self.first.tone_change, self.second.tone_change
        rows = [
            scores.without_bounds(scores.without_wide_interval(row))
            for row in self.group_rows(
                *changes, "ita_change", shares=False, encoder=scores.PIXELS, sides=(scores.LIGHTER, scores.DARKER)
            )
        ]
        if len(self.design.tones) != 2:
            return rows
        lighter, darker = self.design.tones
        pair, weights = self.pair(*changes, _side), self.tone_contrast(lighter, darker)
        contrasts = self.rows(pair, weights, _side, "ita_contrast", shares=False, encoder=scores.PIXELS)
        contrasts = [scores.without_bounds(scores.without_wide_interval(row)) for row in contrasts]
        sides = (f"lightening {darker} skin", f"lightening {lighter} skin")
        return [*rows, *_judge(contrasts, "skin tone contrast", sides)]

    def erasure_rows(self, first: np.ndarray, second: np.ndarray, encoder: str) -> list[Score]:
        """Report soft erasure of every group, then of each tone less the first, judged for the mean over encoders."""
        sides = ("leaving instructions out", "following instructions") if encoder == "mean" else None
        rates = self.group_rows(first, second, "soft_erasure", shares=True, encoder=encoder, sides=sides)
        if not self.design.tones:
            return rates
        lightest, *others = self.design.tones

        def rows(side: int | None = None) -> list[Score]:
            contrasts = []
            for tone in others:
                weights = self.tone_contrast(lightest, tone)
                pair = self.pair(*self.filled((first, second), weights, _side, side), _side)
                named = {"group": tone} if len(others) > 1 else {}
                contrasts += self.rows(pair, weights, _side, "erasure_contrast", shares=True, encoder=encoder, **named)
            return contrasts

        whose = f"{others[0]} portraits" if len(others) == 1 else "the tone"
        asked = "leaving out what is asked of"
        between = (f"{asked} {whose}", f"{asked} {lightest} portraits") if sides else None
        return [*rates, *self.judged(rows, "soft erasure by tone", between)]

    def magnitude(self, first: np.ndarray, second: np.ndarray) -> Score:
        """Return the asymmetry's size over classes and strengths."""
        pair = self.pair(first, second, _side, classes_only=True)
        columns = next(iter(pair.first.values())).shape[1]
        weights = self.asymmetry()
        row = portrait_magnitude(
            pair, {side: np.full(columns, weight) for side, weight in weights.items()},
            n_permutations=self.n_permutations, rng=np.random.default_rng([self.seed, 1]),
        )  # fmt: skip
        if not self.ways or not weights:
            return row

        def values(side: int | None) -> np.ndarray:
            both = self.pair(*self.filled((first, second), weights, _side, side), _side, classes_only=True)
            return np.array([
                sum(weight * mean_of_known(run[name], axis=0) for name, weight in weights.items())
                for run in (both.first, both.second)
            ])  # fmt: skip

        missing = sum(int(run.missing.sum()) for run in (self.first, self.second) if run.missing is not None)
        return bounded_magnitude(row, values(None), np.stack([values(side) for side in self.ways], axis=1), missing)

    def asymmetry(self) -> dict[str, float]:
        """Return weights of the sides in the flip asymmetry: b's − a's, mean over the tones that both genders have."""
        tones = dict.fromkeys(group.tone for group in self.design.groups)
        return self._weights([(_place(self.design.b, tone), _place(self.design.a, tone)) for tone in tones])

    def tone_contrast(self, lighter: str, darker: str) -> dict[str, float]:
        """Return the sides' weights in the contrast of tones: darker − lighter, mean over genders that have both."""
        genders = dict.fromkeys(group.gender for group in self.design.groups)
        return self._weights([(_place(gender, darker), _place(gender, lighter)) for gender in genders])

    def _weights(self, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
        names = {_side(group) for group in self.design.groups}
        pairs = [pair for pair in pairs if set(pair) <= names]
        return {side: sign / len(pairs) for pair in pairs for side, sign in zip(pair, (1, -1), strict=True)}

    def group_rows(
        self, first: np.ndarray, second: np.ndarray, component: str, *, shares: bool, encoder: str,
        sides: tuple[str, str] | None = None,
    ) -> list[Score]:  # fmt: skip
        """Return a row for each group and cell, one family."""

        def rows(side: int | None = None) -> list[Score]:
            names = [group.name for group in self.design.groups]
            pair = self.pair(*self.filled((first, second), dict.fromkeys(names, 1.0), _name, side), _name)
            by_group = (
                self.rows(pair, {name: 1.0}, _name, component, shares=shares, encoder=encoder, group=name)
                for name in names
            )
            return [row for group_rows in by_group for row in group_rows]

        subject = component.replace("_", " ")
        return self.judged(rows, subject, sides) if shares else _judge(rows(), subject, sides)

    def judged(
        self, rows: Callable[[int | None], list[Score]], subject: str, sides: tuple[str, str] | None
    ) -> list[Score]:
        """Judge rows, with their bounds for what is missing; ``rows`` : computes them with a filling, or without."""
        return _judge(rows(None), subject, sides, [rows(side) for side in self.ways])

    @property
    def ways(self) -> tuple[int, ...]:
        """How missing edits are filled in: so that a difference is least (0), and most; empty where none is missing."""
        lost = [run.missing is not None and run.missing.any() for run in (self.first, self.second)]
        return (0, 1) if any(lost) else ()

    def filled(
        self, values: tuple[np.ndarray, np.ndarray], weights: Mapping[str, float], named: Named, side: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return both runs' flips with missing edits assumed flipped, or not; as they are for ``side`` None."""
        if side is None:
            return values
        up = np.array([weights.get(named(group), 0.0) > 0 for group in self.design.groups])
        first, second = (
            flipped if run.missing is None else np.where(run.missing, (up[run.groups] == most)[:, None, None], flipped)
            for run, flipped, most in zip((self.first, self.second), values, (not side, bool(side)), strict=True)
        )
        return first, second

    def pair(self, first: np.ndarray, second: np.ndarray, named: Named, *, classes_only: bool = False) -> PortraitPair:
        """Return each portrait's mean over the professions of every cell, by the names of groups from ``named``."""
        cells = [cell for cell in self.design.cells() if not (classes_only and "concept" in cell[2])]
        names = np.array([named(group) for group in self.design.groups])
        runs, originals, shared = (self.first, self.second), (first, second), self._keep_shared(first, second)
        numbers = []
        for run, values in zip(runs, shared, strict=True):
            columns = np.stack([scores.portrait_means(values, positions, s) for positions, s, _ in cells], axis=1)
            numbers.append({name: columns[names[run.groups] == name] for name in dict.fromkeys(names.tolist())})
        lost: dict[str, list[list[str]]] = {}
        for group, name in enumerate(names.tolist()):
            # edits that at least one run measured, (professions × strengths), and that were left out
            had, has = (
                [np.isfinite(values[run.groups == group]).any(axis=0) for run, values in zip(runs, both, strict=True)]
                for both in (originals, shared)
            )
            left_out = (had[0] | had[1]) & ~(has[0] & has[1])
            by_cell = lost.setdefault(name, [[] for _ in cells])
            for order, (positions, s, _) in enumerate(cells):
                by_cell[order] += [list(self.design.professions)[p] for p in positions if left_out[p, s]]
        return PortraitPair(numbers[0], numbers[1], self.paired, lost)

    def _keep_shared(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Drop the edits that one run could not measure from both, so that their means are of the same edits.

        Of pairs, edit by edit; else whole professions of a group, at a strength.
        """
        first, second = first.copy(), second.copy()
        for group in range(len(self.design.groups)):
            one, two = self.first.groups == group, self.second.groups == group
            missing = [np.isnan(first[one]), np.isnan(second[two])]
            if not self.paired:
                missing = [run.all(axis=0, keepdims=True) for run in missing]
            alone = missing[0] | missing[1]
            first[one], second[two] = (np.where(alone, np.nan, values) for values in (first[one], second[two]))
        return first, second

    def rows(
        self, pair: PortraitPair, weights: Mapping[str, float], naming: Named, component: str, *, shares: bool,
        **named: str,
    ) -> list[Score]:  # fmt: skip
        """Return a row for each cell; none where no group has a counterpart."""
        if not weights:
            return []
        uses = np.array([naming(group) in weights for group in self.design.groups])
        runs = (self.first, self.second)
        return [
            difference_row(
                pair.columns(order), weights, component, answers=len(positions) if shares else None,
                n_permutations=self.n_permutations,
                rng=np.random.default_rng([self.seed, order]),
                n_missing=sum(run.lost(uses[run.groups], positions, s) for run in runs), **cell, **named,
            )
            for order, (positions, s, cell) in enumerate(self.design.cells())
        ]  # fmt: skip


def _name(group: PortraitGroup) -> str:
    return group.name


def _side(group: PortraitGroup) -> str:
    return _place(group.gender, group.tone)


def _place(gender: str, tone: str) -> str:
    """Return the name of all groups of one gender and tone."""
    return f"{gender}, {tone}"


def _judge(
    rows: Sequence[Score],
    subject: str,
    sides: tuple[str, str] | None = None,
    fillings: Sequence[Sequence[Score]] = (),
) -> list[Score]:
    """Correct and judge classes and single professions apart: the second family repeats the first in detail."""

    def family(units: str, *, detail: bool) -> Family:
        chosen, *filled = [[row for row in some if bool(row.concept) == detail] for some in (rows, *fillings)]
        name = f"{subject} of {len(chosen)} {units} × strengths × groups"
        return Family(rows=chosen, name=name, sides=sides, fillings=filled)

    return judged_families([family("classes", detail=False), family("professions", detail=True)])
