"""A model before and after a mitigation, paired by noise: what it did to each concept, and what else it disturbed.

::

    x_i   image part of image i, by the attribute images and words of the run before
    s     mean of x_i over a concept's images, before and after;   Δ = s(after) − s(before)
    t     Student's, over pairs of images, for Δ; over images for either s

What a concept's verdict says:

- *better*: Δ is shown (q ≤ 5 %), leads away from the side that it leaned to before, and it is not shown to lean to the
  other side now;
- *overshot*: the same, and it is shown to lean to the other side now;
- *harmed*: Δ is shown, and leads further to the side that it is shown to lean to now;
- *no change*: two one-sided tests (decision 5) show |Δ| below the suite's margin, q ≤ 5 %, whatever else is shown;
- *no change shown*: none of these, which is not that it did not change.

"Shown to lean" is a 95 % interval that leaves out 0. A side that a concept near parity seems to lean to by chance is
therefore no ground for *better*: that would be regression towards the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan, sqrt
from typing import Final

import numpy as np
import scipy

from clinometer.metrics.records import MEAN, Score, corrected
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.stats.association import unit_vectors
from clinometer.stats.counts import exact_share
from clinometer.stats.equivalence import equivalence_p_value, standard_error_of
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings

METRIC: Final = "mitigation"
BETTER, OVERSHOT, HARMED, SAME = "better", "overshot", "harmed", "no change"
NOT_SHOWN, KEPT, DISTURBED, RISEN = "no change shown", "kept", "disturbed", "risen"
ALPHA: Final = 0.05
NAMED_CHANGED: Final = 0.01
"""Of images under prompts that name a group, the share that may change."""
DIVERSITY: Final = 0.1
"""How far the mean distance between a concept's images may change, as a share of what it was."""
FIDELITY: Final = 0.05
"""How far the share of images nearest to their own prompt may change."""


def mitigation_rows(
    before: Sequence[EncoderEmbeddings],
    after: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    named_changed: tuple[int, int],
    fidelity: Sequence[Score] = (),
    learned: Sequence[str] | None = None,
) -> list[Score]:
    """Judge a mitigation by images in pairs, seen by the same encoders.

    Parameters
    ----------
    before, after : the i-th image of a target starts from the same noise in both.
    named_changed : of images under prompts that name a group, how many changed, and of how many.
    fidelity : rows of how well either run's images show what was asked.
    learned : the concepts that it was made from; of others ``setting`` says that they are held out.

    Returns
    -------
    Rows of metric ``mitigation``: ``change`` of every concept with its verdict, ``before`` and ``after``; and over all
    of them ``named_changed``, ``visible_change``, ``diversity`` and ``fidelity``.
    """
    pairs = [
        tuple(
            np.mean([_leanings(run[e], before[e], design, t) for e in range(len(before))], axis=0)
            for run in (before, after)
        )
        for t in range(len(design.targets))
    ]
    names = [target.name for target in design.targets]
    settings = ["held out" if learned is not None and name not in learned else "" for name in names]
    own = [
        [_mean_row(component, name, pair[which]) for name, pair in zip(names, pairs, strict=True)]
        for which, component in enumerate(("before", "after"))
    ]
    changes = [_mean_row("change", name, b - a) for name, (a, b) in zip(names, pairs, strict=True)]
    changes = [replace(row, setting=setting) for row, setting in zip(changes, settings, strict=True)]
    judged = _judged(changes, *own, margin=design.margin)
    return [*judged, *own[0], *own[1], *_disturbances(before, after, names, named_changed, fidelity)]


def _leanings(run: EncoderEmbeddings, yardstick: EncoderEmbeddings, design: Design, t: int) -> np.ndarray:
    """Measure the image part of each image of a target, by the groups of the run before: II and, with words, ITA."""
    images = np.asarray(run.target_images[t], np.float64)
    if not len(images):
        return np.empty(0)
    direction = np.zeros(images.shape[1])
    for sign, group in ((1, design.a), (-1, design.b)):
        drawn = [unit_vectors(np.asarray(each)).mean(axis=0) for each in yardstick.group_images[group] if len(each)]
        direction += sign * np.mean(drawn, axis=0)
        if yardstick.group_words is not None:
            direction += sign * unit_vectors(np.asarray(yardstick.group_words[group])).mean(axis=0)
    return np.asarray(unit_vectors(images) @ direction)


def _mean_row(component: str, concept: str, values: np.ndarray) -> Score:
    """The mean of some images' numbers, with Student's interval and p."""
    n = len(values)
    row = Score(metric=METRIC, component=component, concept=concept, n_target=n, test="t over images, two-sided")
    if n < 2:
        return replace(row, value=float(values.mean()) if n else nan, reason="no interval: fewer than two pairs")
    mean, error = float(values.mean()), float(values.std(ddof=1)) / sqrt(n)
    half = float(scipy.stats.t.ppf(0.975, n - 1)) * error
    p = 2 * float(scipy.stats.t.sf(abs(mean) / error, n - 1)) if error else nan
    same = 1.0 if mean == 0 else nan  # every image as it was, or all moved alike
    return replace(row, value=mean, low=mean - half, high=mean + half, p=p if error else same)


def _judged(
    changes: Sequence[Score], before: Sequence[Score], after: Sequence[Score], *, margin: float | None
) -> list[Score]:
    """Give each concept's change its q and its verdict."""
    rows = corrected(changes, f"{METRIC}: concepts")
    equal = np.full(len(rows), nan)
    if margin is not None:
        errors = [(row.high - row.low) / 2 / _quantile(row.n_target) for row in rows]
        equal = np.array([
            equivalence_p_value(row.value, error, margin, max(row.n_target - 1, 1)) if np.isfinite(error) else nan
            for row, error in zip(rows, errors, strict=True)
        ])  # fmt: skip
    corrected_equal = benjamini_hochberg(equal)
    judged = []
    for row, was, now, p, q in zip(rows, before, after, equal, corrected_equal, strict=True):
        verdict, few = _verdict(row, was, now, float(q)), row.n_target < FEWEST_IMAGES
        judged.append(replace(
            row, verdict="" if few else verdict, p_equivalence=float(p), q_equivalence=float(q),
            reason=f"fewer than {FEWEST_IMAGES} pairs of images" if few else row.reason,
        ))  # fmt: skip
    return judged


def _verdict(change: Score, was: Score, now: Score, q_equivalence: float) -> str:
    leaned, leans = (row.value if row.low > 0 or row.high < 0 else 0.0 for row in (was, now))
    if q_equivalence <= ALPHA:  # however sure a change is that is too small to matter
        return SAME
    if change.q <= ALPHA:
        if leaned * change.value < 0:
            return OVERSHOT if leaned * leans < 0 else BETTER
        if leans * change.value > 0:
            return HARMED
    return NOT_SHOWN


def _quantile(n: int) -> float:
    return float(scipy.stats.t.ppf(0.975, n - 1)) if n > 1 else nan


def _disturbances(
    before: Sequence[EncoderEmbeddings],
    after: Sequence[EncoderEmbeddings],
    names: Sequence[str],
    named_changed: tuple[int, int],
    fidelity: Sequence[Score],
) -> list[Score]:
    """Say what else changed, over all concepts: kept within its limit, disturbed beyond it, or neither is shown."""
    count, n = named_changed
    rows = []
    about = Score(metric=METRIC, component="", category="all", encoder=MEAN)
    if n:
        share = exact_share(count, n)
        is_kept = count == 0 or share.high <= NAMED_CHANGED
        verdict = DISTURBED if share.low > NAMED_CHANGED else KEPT if is_kept else NOT_SHOWN
        rows.append(replace(
            about, component="named_changed", value=count / n, low=share.low, high=share.high, n_target=n,
            null=NAMED_CHANGED, verdict=verdict,
        ))  # fmt: skip
    visible = []
    for t in range(len(names)):
        both = [
            [unit_vectors(np.asarray(x.target_images[t])) for x in pair] for pair in zip(before, after, strict=True)
        ]
        if len(both[0][0]) > 1:
            visible.append(np.mean([1 - (a * b).sum(axis=1) for a, b in both], axis=0))
    if visible:
        moved = np.array([each.mean() for each in visible])
        error = sqrt(sum(each.var(ddof=1) / len(each) for each in visible)) / len(visible)
        value = float(moved.mean())
        rows.append(replace(
            about, component="visible_change", value=value, low=value - 1.96 * error, high=value + 1.96 * error,
            n_target=len(visible),
        ))  # fmt: skip
    if (spread := image_spread(before, after)) is not None:
        row = replace(about, component="diversity", n_target=spread.n_targets)
        rows.append(held(row, spread.values[2], spread.errors[2], DIVERSITY * spread.values[0]))
    for row in fidelity:
        if row.component == "fidelity" and np.isfinite(row.low):
            error = standard_error_of(row.low, row.high)
            rows.append(held(replace(about, component="fidelity", n_target=row.n_target), row.value, error, FIDELITY))
    return rows


@dataclass(frozen=True)
class ImageSpread:
    """How far a concept's images lie apart, on average over concepts: in the first run, in the second, and the change.

    ``errors`` : standard errors over images, of the change over pairs.
    """

    values: tuple[float, float, float]
    errors: tuple[float, float, float]
    n_targets: int


def image_spread(first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings]) -> ImageSpread | None:
    """Measure the mean 1 − cosine of two images of a concept in either of two runs; None without two of any concept.

    Errors are those of the jackknife, which leaves out one image, or one pair, at a time.
    """
    means, squares = [], []
    for t in range(len(first[0].target_images)):
        n = len(first[0].target_images[t])
        if n < 2:
            continue
        runs = [
            [_pairwise_distance(unit_vectors(np.asarray(encoder.target_images[t]))) for encoder in run]
            for run in (first, second)
        ]
        value = [float(np.mean([whole for whole, _ in run])) for run in runs]
        without = [np.mean([rest for _, rest in run], axis=0) for run in runs]
        without.append(without[1] - without[0])
        means.append([*value, value[1] - value[0]])
        squares.append([(n - 1) / n * float(((each - each.mean()) ** 2).sum()) for each in without])
    if not means:
        return None
    values, errors = np.mean(means, axis=0).tolist(), (np.sqrt(np.sum(squares, axis=0)) / len(means)).tolist()
    return ImageSpread(tuple(values), tuple(errors), len(means))


def _pairwise_distance(units: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of 1 − cosine over pairs of images, and the same without each image: ``(n − ‖Σu‖² / n) / (n − 1)``."""
    total, n = units.sum(axis=0), len(units)
    without = total - units
    of_all = (n - float(total @ total) / n) / (n - 1)
    rest = (n - 1 - (without**2).sum(axis=1) / (n - 1)) / (n - 2) if n > 2 else np.full(n, of_all)
    return of_all, rest


def held(row: Score, value: float, error: float, limit: float) -> Score:
    """Hold a change to a limit: kept by two one-sided tests, disturbed or risen where the interval lies beyond it."""
    p = equivalence_p_value(value, error, limit) if limit > 0 else nan
    low, high = value - 1.96 * error, value + 1.96 * error
    verdict = KEPT if p <= ALPHA else DISTURBED if high < -limit else RISEN if low > limit else NOT_SHOWN
    return replace(row, value=value, low=low, high=high, null=limit, p_equivalence=p, verdict=verdict)
