"""The classification study: every number of one run, from the denoising errors of its images, and of two compared.

See decision 21 for comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.classification import decide, image_associations
from clinometer.metrics.differences import (
    Family,
    PortraitPair,
    bounded_magnitude,
    difference_row,
    judged_families,
    portrait_magnitude,
)
from clinometer.metrics.records import Score, corrected, permuted
from clinometer.metrics.verdict import MISSING, judge_family, with_bounds
from clinometer.stats.clusters import cluster_mean, cluster_share
from clinometer.stats.clusters import contrast as contrast_estimate
from clinometer.stats.permutation import PermutationTest, permute_labels
from clinometer.stats.proportion import Estimate

METRIC = "classification"
DENOISER = "denoiser"
"""In place of an encoder's name: the numbers are read from the model's own errors."""

TEST = "two-sided permutation of portraits within matched groups"


@dataclass(frozen=True)
class Contrast:
    """Two sets of groups that are compared; ``x[i]`` is matched with ``y[i]``, and positive leans to ``name_x``."""

    name: str
    name_x: str
    name_y: str
    x: tuple[str, ...]
    y: tuple[str, ...]


@dataclass(frozen=True)
class ClassificationDesign:
    """Who was put before which classes.

    Attributes
    ----------
    groups : the groups of portraits.
    a, b : the two sets of classes; an association above ½ goes to a.
    contrasts : the comparisons between groups.
    noise_samples : the numbers of trials that are reported, rising.
    margin : the |ΔS| below which a difference counts as none.
    """

    groups: tuple[str, ...]
    a: tuple[str, ...]
    b: tuple[str, ...]
    contrasts: tuple[Contrast, ...]
    noise_samples: tuple[int, ...]
    margin: float | None = None


@dataclass(frozen=True)
class CurvePoint:
    """A point of a curve over the number of noise samples: S of a group, or ΔS of a contrast."""

    curve: str
    name: str
    x: int
    y: float
    low: float
    high: float


def wins_at(errors: np.ndarray, n_a: int, n: int, tolerance: float) -> np.ndarray:
    """Decide all pairs from the first ``n`` trials: (images × classes × trials) → (images × |A| × |B|).

    The first ``n_a`` classes are A. Where a class was eliminated, a pair is decided by the trials that both classes
    have, which settled the pair.
    """
    counts = np.minimum(np.isfinite(errors).sum(axis=-1), n)
    totals = np.nancumsum(errors, axis=-1, dtype=np.float64)
    shared = np.minimum(counts[:, :n_a, None], counts[:, None, n_a:])
    image, a, b = np.ogrid[: len(errors), :n_a, n_a : errors.shape[1]]
    last = np.maximum(shared, 1) - 1
    decided = decide(totals[image, a, last] / (last + 1), totals[image, b, last] / (last + 1), tolerance)
    return np.where(shared > 0, decided, nan)


def classification_study(
    errors: Mapping[str, np.ndarray],
    design: ClassificationDesign,
    *,
    tolerance: float,
    n_permutations: int = 9_999,
    seed: int = 0,
    missing: Mapping[str, np.ndarray] | None = None,
) -> list[Score]:
    """Return every number of a classification run.

    ========================== ======================================================== =============================
    component                  what                                                     concept, category, group
    ========================== ======================================================== =============================
    ``association``            S of a group                                             –, –, group
    ``differential``           ΔS of a contrast, with p, q and verdict                  –, –, contrast
    ``amplification``          ΔS at the most minus ΔS at the fewest noise samples      –, –, contrast
    ``pair_association``       share of a group's images that choose a before b         a, b, group
    ``pair_differential``      difference of those shares, with p, q                    a, b, contrast
    ``choice``                 share of a group's images that choose a class of all     class, –, group
    ``tie_share``              share of a group's pairs within the tolerance            –, –, group
    ``evaluations``            rows of the network an image took, on average            –, –, group
    ========================== ======================================================== =============================

    ``setting`` names the number of noise samples. Intervals and tests take an image for one draw: its pairs depend on
    each other. A test permutes images between the groups that a contrast matches.

    Parameters
    ----------
    errors : by group, (images × (|A| + |B|) × trials), A first; NaN once a class was eliminated, and for a whole image
        that could not be made or measured.
    tolerance : relative difference of two mean errors that is a tie.
    missing : by group, (images,) whether each was asked for and is not there; repeats are there. S and ΔS then have
        bounds, with all of these assumed to choose b, and to choose a; a group without any image has none.

    Raises
    ------
    InvalidInputError
        Groups or shapes that do not match the design.
    """
    errors = validated_errors(errors, design)
    nothing = {group: np.zeros(len(values), bool) for group, values in errors.items()}
    lost = nothing | dict(missing or {})
    study = _ClassificationStudy(errors, design, tolerance, n_permutations, seed, lost)
    rows = [*study.associations(), *study.differentials(), *study.amplifications()]
    return [*rows, *study.pairs(), *study.choices(), *study.costs()]


def association_curves(
    errors: Mapping[str, np.ndarray], design: ClassificationDesign, *, tolerance: float
) -> list[CurvePoint]:
    """Return S of groups and ΔS of contrasts, with intervals, at 1, 2, 3, 5, 10, 20, 30, 50, … noise samples."""
    errors = validated_errors(errors, design)
    nothing = {group: np.zeros(len(values), bool) for group, values in errors.items()}
    study = _ClassificationStudy(errors, design, tolerance, 1, 0, nothing)
    points = []
    steps = {digit * 10**power for power in range(7) for digit in (1, 2, 3, 5)}
    for n in sorted({n for n in steps if n <= design.noise_samples[-1]} | set(design.noise_samples)):
        estimates = [("association", group, study.association(group, n)) for group in design.groups]
        estimates += [("differential", contrast.name, study.differential(contrast, n)) for contrast in design.contrasts]
        points += [CurvePoint(curve, name, n, each.value, each.low, each.high) for curve, name, each in estimates]
    return points


def setting_name(noise_samples: int) -> str:
    """Return how rows name a number of noise samples: ``"10 noise samples"``."""
    return f"{noise_samples} noise sample{'' if noise_samples == 1 else 's'}"


@dataclass(frozen=True)
class _ClassificationStudy:
    errors: Mapping[str, np.ndarray]
    design: ClassificationDesign
    tolerance: float
    n_permutations: int
    seed: int
    missing: Mapping[str, np.ndarray]

    def wins(self, group: str, n: int) -> np.ndarray:
        return wins_at(self.errors[group], len(self.design.a), n, self.tolerance)

    def choices_of(self, group: str, n: int, filling: float = nan) -> np.ndarray:
        """Return each portrait's association, (images,), with ``filling`` for missing ones of a group that has some."""
        values = image_associations(self.wins(group, n))
        return np.where(self.missing[group] & np.isfinite(values).any(), filling, values)

    def association(self, group: str, n: int, filling: float = nan) -> Estimate:
        per_cluster = len(self.design.a) * len(self.design.b)
        estimate = cluster_share(self.choices_of(group, n, filling), per_cluster)
        if estimate.n == 0:
            return replace(estimate, reason=f"no portrait of group {group!r} was measured")
        if estimate.n == 1:
            return replace(estimate, low=nan, high=nan, reason=f"group {group!r} has one portrait: no interval")
        return estimate

    def differential(self, contrast: Contrast, n: int, fillings: tuple[float, float] = (nan, nan)) -> Estimate:
        sides = zip((contrast.x, contrast.y), fillings, strict=True)
        return _difference(*([self.association(g, n, filling) for g in groups] for groups, filling in sides))

    def associations(self) -> Iterator[Score]:
        def rows(n: int, filling: float = nan) -> list[Score]:
            estimates = {group: self.association(group, n, filling) for group in self.design.groups}
            return [
                self._row("association", n, estimate, group=group, n_missing=int(self.missing[group].sum()))
                for group, estimate in estimates.items()
            ]

        for n in self.design.noise_samples:
            yield from with_bounds(rows(n), {MISSING: [rows(n, 0.0), rows(n, 1.0)]})

    def differentials(self) -> Iterator[Score]:
        any_missing = any(lost.any() for lost in self.missing.values())
        for n in self.design.noise_samples:
            filled = [self._differentials(n, *ends) for ends in ((0.0, 1.0), (1.0, 0.0))] if any_missing else []
            yield from with_bounds(self._differentials(n), {MISSING: filled})

    def _differentials(self, n: int, x: float = nan, y: float = nan) -> list[Score]:
        """Return ΔS of every contrast, judged, with ``x`` and ``y`` for missing choices of its sides."""
        rows = []
        for contrast in self.design.contrasts:
            values = {g: self.choices_of(g, n, x if g in contrast.x else y) for g in self.errors}
            estimate = self.differential(contrast, n, (x, y))
            row = self._add_test("differential", n, contrast, estimate, self._test(contrast, values))
            lost = sum(int(self.missing[g].sum()) for g in (*contrast.x, *contrast.y))
            rows.append(replace(row, n_missing=lost))
        a, b = ([getattr(each, side) for each in self.design.contrasts] for side in ("name_x", "name_y"))
        return judge_family(corrected(rows, f"contrasts at {n}"), a=a, b=b, margin=self.design.margin)

    def amplifications(self) -> Iterator[Score]:
        fewest, most = self.design.noise_samples[0], self.design.noise_samples[-1]
        if fewest == most:
            return
        gains = {
            group: image_associations(self.wins(group, most)) - image_associations(self.wins(group, fewest))
            for group in self.errors
        }
        rows = []
        for contrast in self.design.contrasts:
            sides = ([cluster_mean(gains[g]) for g in side] for side in (contrast.x, contrast.y))
            row = self._add_test("amplification", most, contrast, _difference(*sides), self._test(contrast, gains))
            rows.append(replace(row, setting=f"{fewest} to {setting_name(most)}"))
        yield from corrected(rows, "amplification")

    def pairs(self) -> Iterator[Score]:
        most = self.design.noise_samples[-1]
        wins = {group: self.wins(group, most) for group in self.errors}
        shares = {
            (group, i, j): cluster_share(wins[group][:, i, j], 1)
            for group in self.design.groups
            for i in range(len(self.design.a))
            for j in range(len(self.design.b))
        }
        for (group, i, j), share in shares.items():
            named = {"concept": self.design.a[i], "category": self.design.b[j], "group": group}
            yield self._row("pair_association", most, share, **named)
        for contrast in self.design.contrasts:
            columns = len(self.design.a) * len(self.design.b)
            test = self._test(contrast, {group: values.reshape(len(values), columns) for group, values in wins.items()})
            rows = []
            for order, (a, b) in enumerate((a, b) for a in self.design.a for b in self.design.b):
                i, j = divmod(order, len(self.design.b))
                sides = ([shares[group, i, j] for group in side] for side in (contrast.x, contrast.y))
                row = self._add_test("pair_differential", most, contrast, _difference(*sides), test, order)
                rows.append(replace(row, concept=a, category=b))
            yield from corrected(rows, f"pairs of {contrast.name}")

    def choices(self) -> Iterator[Score]:
        most = self.design.noise_samples[-1]
        for group in self.design.groups:
            # the class of the smallest mean over the trials that all classes of an image have; −1 without one
            errors = self.errors[group]
            shared = np.isfinite(errors).all(axis=1)
            counts = shared.sum(axis=-1)
            means = np.where(shared[:, None, :], errors, 0.0).sum(axis=-1, dtype=np.float64)
            chosen = np.where(counts > 0, means.argmin(axis=1), -1)
            for order, name in enumerate((*self.design.a, *self.design.b)):
                picked = np.where(chosen < 0, nan, chosen == order)
                share = cluster_share(picked, 1)
                yield self._row("choice", most, share, concept=name, group=group)

    def costs(self) -> Iterator[Score]:
        most = self.design.noise_samples[-1]
        for group in self.design.groups:
            wins, measured = self.wins(group, most), np.isfinite(self.errors[group]).sum(axis=(1, 2))
            ties = np.where(np.isnan(wins), nan, wins == 0.5).mean(axis=(1, 2))
            yield self._row("tie_share", most, cluster_share(ties, wins[0].size if len(wins) else 1), group=group)
            evaluations = cluster_mean(measured[measured > 0])
            yield self._row("evaluations", most, evaluations, group=group)

    def _test(self, contrast: Contrast, values: Mapping[str, np.ndarray]) -> PermutationTest | None:
        """Permute images between matched groups; values by group are (images,) or (images × rows)."""
        items, labels, strata = [], [], []
        for stratum, pair in enumerate(zip(contrast.x, contrast.y, strict=True)):
            for is_x, group in zip((True, False), pair, strict=True):
                group_values = np.asarray(values[group], np.float64)
                group_values = group_values[:, None] if group_values.ndim == 1 else group_values
                group_values = group_values[np.isfinite(group_values).all(axis=1)]
                if not len(group_values):
                    return None
                items.append(group_values)
                labels += [is_x] * len(group_values)
                strata += [stratum] * len(group_values)
        rng = np.random.default_rng([self.seed, *contrast.name.encode()])
        matched = np.array(strata)
        return permute_labels(
            np.concatenate(items).T, np.array(labels), strata=matched, blocks=matched,
            n_permutations=self.n_permutations, rng=rng,
        )  # fmt: skip

    def _add_test(
        self, component: str, n: int, contrast: Contrast, estimate: Estimate, test: PermutationTest | None, at: int = 0
    ) -> Score:
        row = self._row(component, n, estimate, group=contrast.name)
        if test is None:
            return row
        n_a, n_b = (
            sum(np.isfinite(self.errors[g]).any(axis=(1, 2)).sum() for g in side) for side in (contrast.x, contrast.y)
        )
        return replace(row, test=TEST, **permuted(test, at), n_a=n_a, n_b=n_b)

    def _row(self, component: str, n: int, estimate: Estimate, **named: Any) -> Score:
        return Score(
            metric=METRIC, component=component, setting=setting_name(n), encoder=DENOISER, value=estimate.value,
            low=estimate.low, high=estimate.high, n_target=estimate.n, reason=estimate.reason, **named,
        )  # fmt: skip


def _difference(x: Sequence[Estimate], y: Sequence[Estimate]) -> Estimate:
    """Return the mean over matched groups of x minus y."""
    weights = [1 / len(x)] * len(x) + [-1 / len(y)] * len(y)
    return contrast_estimate([*x, *y], weights)


def validated_errors(errors: Mapping[str, np.ndarray], design: ClassificationDesign) -> dict[str, np.ndarray]:
    """Check shapes, and return the errors of each group, of the trials that the design reports."""
    classes = len(design.a) + len(design.b)
    if list(design.noise_samples) != sorted(set(design.noise_samples)) or not design.noise_samples:
        raise InvalidInputError.out_of_range(f"noise_samples: expected rising numbers, found {design.noise_samples}")
    by_group = {}
    for group in design.groups:
        values = np.asarray(errors.get(group, np.empty((0, classes, design.noise_samples[-1]))))
        if values.ndim != 3 or values.shape[1] != classes or values.shape[2] < design.noise_samples[-1]:
            raise InvalidInputError.wrong_shape(
                f"errors of group {group!r}: expected (images × {classes} classes × at least "
                f"{design.noise_samples[-1]} trials), found {values.shape}"
            )
        by_group[group] = values[:, :, : design.noise_samples[-1]]
    return by_group


@dataclass(frozen=True)
class ClassifiedPortraits:
    """One run's denoising errors: by group, (images × classes × trials), what counts as a tie, and what is missing.

    ``missing`` : by group, (images,) whether each was asked for and is not there.
    """

    errors: Mapping[str, np.ndarray]
    tolerance: float
    missing: Mapping[str, np.ndarray] = field(default_factory=dict)


def compare_classifications(
    first: ClassifiedPortraits,
    second: ClassifiedPortraits,
    design: ClassificationDesign,
    *,
    paired: bool,
    n_permutations: int = 19_999,
    seed: int = 0,
) -> list[Score]:
    """Return differences between two classification runs, second minus first, at the most noise samples.

    ================= ========================================================================================
    component         what
    ================= ========================================================================================
    ``association``   of S of each group, in [−1, 1]
    ``differential``  of ΔS of each contrast, in [−2, 2], with a verdict; positive: the second leans more to its x
    ``magnitude``     of mean |ΔS| over the contrasts, with a verdict
    ================= ========================================================================================

    ``paired``: the i-th portraits of a group belong together (:mod:`clinometer.metrics.differences`).
    """
    runs = (first, second)
    values = of_first, of_second = [
        {
            group: image_associations(wins_at(errors, len(design.a), design.noise_samples[-1], run.tolerance))[:, None]
            for group, errors in validated_errors(run.errors, design).items()
        }
        for run in runs
    ]
    missing = [
        {group: run.missing.get(group, np.zeros(len(x), bool))[:, None] for group, x in by_group.items()}
        for run, by_group in zip(runs, values, strict=True)
    ]
    comparison = _PortraitComparison((of_first, of_second), missing, design, paired, n_permutations, seed)
    groups = comparison.family(
        "association", {group: {group: 1.0} for group in design.groups},
        name=f"association of {len(design.groups)} groups",
    )  # fmt: skip
    sides = [contrast.name_x for contrast in design.contrasts], [contrast.name_y for contrast in design.contrasts]
    contrasts = comparison.family(
        "differential", {contrast.name: contrast_weights(contrast) for contrast in design.contrasts},
        name=f"{len(design.contrasts)} contrasts", sides=sides, margin=design.margin,
    )  # fmt: skip
    return [*judged_families([groups, contrasts]), comparison.magnitude()]


Values = dict[str, np.ndarray]
"""By group, (images × 1)."""


@dataclass(frozen=True)
class _PortraitComparison:
    """Each portrait's association in both runs, and whether it is missing there."""

    values: tuple[Values, Values]
    missing: Sequence[Values]
    design: ClassificationDesign
    paired: bool
    n_permutations: int
    seed: int

    @property
    def ways(self) -> tuple[int, ...]:
        """How missing portraits are filled in: so that a difference is least (0), and most; empty without any."""
        return (0, 1) if any(lost.any() for by_group in self.missing for lost in by_group.values()) else ()

    def filled(self, weights: Mapping[str, float], side: int) -> tuple[Values, Values]:
        """Return values with missing ones such that a difference is least (``side`` 0) or most.

        A group without any image stays as it is.
        """
        first, second = (
            {
                group: np.where(lost[group] & np.isfinite(values[group]).any(), (weight > 0) == up, values[group])
                for group, weight in weights.items()
            }
            for values, lost, up in zip(self.values, self.missing, (not side, bool(side)), strict=True)
        )
        return first, second

    def family(self, component: str, weights_by_name: Mapping[str, Mapping[str, float]], **judged: Any) -> Family:
        """Return differences of weighted sums of the groups' S, with missing portraits filled in either way."""

        def rows(side: int | None = None) -> list[Score]:
            return [
                difference_row(
                    PortraitPair(*(self.values if side is None else self.filled(weights, side)), self.paired), weights,
                    component, answers=len(self.design.a) * len(self.design.b), n_permutations=self.n_permutations,
                    rng=np.random.default_rng([self.seed, *name.encode()]), group=name,
                    setting=setting_name(self.design.noise_samples[-1]), encoder=DENOISER,
                    n_missing=sum(int(lost[group].sum()) for lost in self.missing for group in weights),
                )
                for name, weights in weights_by_name.items()
            ]  # fmt: skip

        return Family(rows=rows(), fillings=[rows(way) for way in self.ways], **judged)

    def magnitude(self) -> Score:
        """Return the mean size of ΔS over the contrasts."""
        weights = [contrast_weights(contrast) for contrast in self.design.contrasts]
        first, second = (
            {group: np.repeat(column, len(weights), axis=1) for group, column in values.items()}
            for values in self.values
        )
        row = portrait_magnitude(
            PortraitPair(first, second, self.paired),
            {
                group: np.array([each.get(group, 0.0) for each in weights])
                for group in self.design.groups
                if any(group in each for each in weights)
            },
            n_permutations=self.n_permutations, rng=np.random.default_rng([self.seed, 1]),
        )  # fmt: skip
        if not self.ways:
            return row
        values = [[_value(run, each) for each in weights] for run in self.values]
        ends = [[[_value(self.filled(each, side)[i], each) for each in weights] for side in self.ways] for i in (0, 1)]
        n_missing = sum(int(lost.sum()) for by_group in self.missing for lost in by_group.values())
        return bounded_magnitude(row, np.array(values), np.array(ends), n_missing)


def _value(values: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> float:
    """Return ΔS of one run."""
    known = {group: values[group][np.isfinite(values[group])] for group in weights}
    return sum(weight * float(known[g].mean()) if len(known[g]) else nan for g, weight in weights.items())


def contrast_weights(contrast: Contrast) -> dict[str, float]:
    """Return the weights of ΔS as a sum of the groups' S."""
    x, y = contrast.x, contrast.y
    return dict.fromkeys(x, 1 / len(x)) | dict.fromkeys(y, -1 / len(y))
