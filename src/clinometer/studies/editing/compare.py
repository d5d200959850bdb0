"""Two models as editors, or one at two settings: whom the second flips or lightens otherwise than the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.metrics.portrait_differences import PortraitPair, difference_row, portrait_magnitude
from clinometer.metrics.records import Score
from clinometer.metrics.skin import without_wide_interval
from clinometer.metrics.two_runs import Family, judged_families
from clinometer.studies.editing.design import EditingDesign, GenderReadings, PortraitGroup
from clinometer.studies.editing.scores import PIXELS, flips, portrait_means, read_gender


@dataclass(frozen=True)
class EditedPortraits:
    """One run's n portraits and their edits.

    Attributes
    ----------
    groups : (n,) each portrait's position in the design's groups.
    readings : of every encoder, the same in both runs.
    tone_change : (n, P, S) change of the individual typology angle, degrees; NaN where a tone is unknown.
    """

    groups: np.ndarray
    readings: Sequence[GenderReadings]
    tone_change: np.ndarray


def compare_edits(
    first: EditedPortraits,
    second: EditedPortraits,
    design: EditingDesign,
    *,
    paired: bool,
    n_permutations: int = 19_999,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Score]:
    """Differences between two editing runs, second minus first, for classes and for single professions.

    =================== ========================================================================================
    component           what
    =================== ========================================================================================
    ``flip_rate``       of the flip rate of each group
    ``flip_asymmetry``  of the flip rate of b's portraits − that of a's, mean over tones; positive: the second
                        moves more to a
    ``ita_change``      of the mean change of the angle of each group, degrees; positive: the second lightens more
    ``ita_contrast``    of that of the darker tone − that of the lighter one, mean over genders
    ``magnitude``       of mean |flip asymmetry| over classes and strengths
    =================== ========================================================================================

    Flips are those of every encoder, and with encoder ``mean`` each portrait's mean over encoders; verdicts are on
    those. ``paired``: the i-th portraits of a group belong together (:mod:`clinometer.metrics.portrait_differences`).
    """
    study = _EditComparison(first, second, design, paired, n_permutations, seed, confidence)
    flipped = [
        {reading.encoder: flips(read_gender(reading.before), read_gender(reading.after))[0] for reading in run.readings}
        for run in (first, second)
    ]
    rows: list[Score] = []
    for encoder in flipped[0]:
        rows += study.flip_rows(flipped[0][encoder], flipped[1][encoder], encoder)
    means = [np.mean(list(run.values()), axis=0) for run in flipped]
    rows += study.flip_rows(means[0], means[1], "mean")
    return [*rows, *study.tone_rows(), study.magnitude(means[0], means[1])]


Named = Callable[[PortraitGroup], str]


@dataclass(frozen=True)
class _EditComparison:
    first: EditedPortraits
    second: EditedPortraits
    design: EditingDesign
    paired: bool
    n_permutations: int
    seed: int
    confidence: float

    def flip_rows(self, first: np.ndarray, second: np.ndarray, encoder: str) -> list[Score]:
        """Rates of every group, then the asymmetry, judged for the mean over encoders."""
        rates = self.group_rows(first, second, "flip_rate", shares=True, encoder=encoder)
        pair = self.pair(first, second, _side)
        rows = self.rows(pair, self.asymmetry(), "flip_asymmetry", shares=True, encoder=encoder)
        sides = (self.design.a, self.design.b) if encoder == "mean" else None
        return [*rates, *_judged(rows, "flip asymmetry", sides)]

    def tone_rows(self) -> list[Score]:
        """Changes of skin tone of every group, then the contrast between the two tones, where the design has some."""
        changes = self.first.tone_change, self.second.tone_change
        rows = [
            without_wide_interval(row) for row in self.group_rows(*changes, "ita_change", shares=False, encoder=PIXELS)
        ]
        if len(self.design.tones) != 2:
            return rows
        lighter, darker = self.design.tones
        contrasts = self.rows(
            self.pair(*changes, _side), self.tone_contrast(lighter, darker), "ita_contrast", shares=False,
            encoder=PIXELS,
        )  # fmt: skip
        contrasts = [without_wide_interval(row) for row in contrasts]
        sides = (f"lightening {darker} skin", f"lightening {lighter} skin")
        return [*rows, *_judged(contrasts, "skin tone contrast", sides)]

    def magnitude(self, first: np.ndarray, second: np.ndarray) -> Score:
        """The asymmetry's size over classes and strengths."""
        pair = self.pair(first, second, _side, classes_only=True)
        columns = next(iter(pair.first.values())).shape[1]
        return portrait_magnitude(
            pair, {side: np.full(columns, weight) for side, weight in self.asymmetry().items()},
            n_permutations=self.n_permutations, confidence=self.confidence, rng=np.random.default_rng([self.seed, 1]),
        )  # fmt: skip

    def asymmetry(self) -> dict[str, float]:
        """Weights of the sides in the flip asymmetry: b's − a's, mean over the tones that both genders have."""
        return self._weights(
            [group.tone for group in self.design.groups],
            lambda tone: (PortraitGroup("", self.design.b, tone), PortraitGroup("", self.design.a, tone)),
        )

    def tone_contrast(self, lighter: str, darker: str) -> dict[str, float]:
        """Weights of the sides in the contrast of tones: the darker − the lighter, mean over genders that have both."""
        return self._weights(
            [group.gender for group in self.design.groups],
            lambda gender: (PortraitGroup("", gender, darker), PortraitGroup("", gender, lighter)),
        )

    def _weights(
        self, strata: Sequence[str], sides: Callable[[str], tuple[PortraitGroup, PortraitGroup]]
    ) -> dict[str, float]:
        names = {_side(group) for group in self.design.groups}
        pairs = [tuple(map(_side, sides(stratum))) for stratum in dict.fromkeys(strata)]
        pairs = [pair for pair in pairs if set(pair) <= names]
        return {side: sign / len(pairs) for pair in pairs for side, sign in zip(pair, (1, -1), strict=True)}

    def group_rows(
        self, first: np.ndarray, second: np.ndarray, component: str, *, shares: bool, encoder: str
    ) -> list[Score]:
        """A row for each group and cell, one family."""
        pair = self.pair(first, second, _name)
        rows = [
            row
            for group in self.design.groups
            for row in self.rows(pair, {group.name: 1.0}, component, shares=shares, encoder=encoder, group=group.name)
        ]
        sides = ("lighter skin", "darker skin") if component == "ita_change" else None
        return _judged(rows, component.replace("_", " "), sides)

    def pair(self, first: np.ndarray, second: np.ndarray, named: Named, *, classes_only: bool = False) -> PortraitPair:
        """Each portrait's mean over the professions of every cell, by whatever the groups are called."""
        cells = [cell for cell in self.design.cells() if not (classes_only and "concept" in cell[2])]
        names = np.array([named(group) for group in self.design.groups])
        originals = (first, second)
        first, second = self._shared(first, second)
        numbers = []
        for run, values in ((self.first, first), (self.second, second)):
            columns = np.stack([portrait_means(values, positions, s) for positions, s, _ in cells], axis=1)
            numbers.append({name: columns[names[run.groups] == name] for name in dict.fromkeys(names.tolist())})
        lost: dict[str, list[list[str]]] = {}
        for name, here in zip(names.tolist(), self._lost_edits(originals, (first, second)), strict=True):
            by_cell = lost.setdefault(name, [[] for _ in cells])
            for order, (positions, s, _) in enumerate(cells):
                by_cell[order] += [list(self.design.professions)[p] for p in positions if here[p, s]]
        return PortraitPair(numbers[0], numbers[1], self.paired, lost)

    def _shared(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both runs' values without the edits that one of them could not measure: a mean would be of other edits.

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

    def _lost_edits(
        self, before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Of every group, the (professions × strengths) that one run at least measured and that were left out."""
        for group in range(len(self.design.groups)):
            had, has = (
                [
                    np.isfinite(values[run.groups == group]).any(axis=0)
                    for run, values in zip((self.first, self.second), both, strict=True)
                ]
                for both in (before, after)
            )
            yield (had[0] | had[1]) & ~(has[0] & has[1])

    def rows(
        self, pair: PortraitPair, weights: Mapping[str, float], component: str, *, shares: bool, **named: str
    ) -> list[Score]:
        """A row for each cell; none where no group has a counterpart."""
        if not weights:
            return []
        return [
            difference_row(
                pair.columns(order), weights, component, answers=len(positions) if shares else None,
                n_permutations=self.n_permutations, confidence=self.confidence,
                rng=np.random.default_rng([self.seed, order]), **cell, **named,
            )
            for order, (positions, _, cell) in enumerate(self.design.cells())
        ]  # fmt: skip


def _name(group: PortraitGroup) -> str:
    return group.name


def _side(group: PortraitGroup) -> str:
    """What groups of one gender and tone share."""
    return f"{group.gender}, {group.tone}"


def _judged(rows: Sequence[Score], subject: str, sides: tuple[str, str] | None = None) -> list[Score]:
    """Correct and judge classes and single professions apart: the second family repeats the first in detail."""
    of_classes = [row for row in rows if not row.concept]
    of_professions = [row for row in rows if row.concept]
    return judged_families(
        Family(rows=family, name=f"{subject} of {len(family)} {units} × strengths × groups", sides=sides)
        for family, units in ((of_classes, "classes"), (of_professions, "professions"))
    )
