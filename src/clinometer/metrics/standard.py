"""Shares compared with a declared standard: how far each lies from it, and whether shares follow it over concepts.

Parity is one standard. Another is declared: labour statistics, a population, a target of one's own. Two verdicts stand
apart, from parity and from the standard, and nothing here says that a standard is fair. See method.md, section 19.

With s a share and ρ the standard's, of K groups, each with its 95 % interval::

    reference   ρ                          exact, or Wilson's interval of the people it was counted from
    difference  s − ρ                      positive: more of the group than the standard has
    further     |s − 1/K| − |ρ − 1/K|      positive: further from parity than the standard, to either side
    slope       β of logit s on logit ρ    1 follows, above exaggerates, 0 ignores (stats.share_line)
    tilt        α of the same line         the same shift of the log odds in all concepts, towards the group

The four-fifths ratio is a group's share over the largest, of shares of the same images.

With π_g the shares of K groups and ρ_gh = π_g / π_h::

    to_largest  min_h ρ_gh           of group g, in [0, 1]; 1: no group has a larger share
    smallest    min_g min_h ρ_gh     smallest share over largest; 1: all shares are equal

Shares of the same n images add up to 1, so they are not independent binomials. Given the x_g + x_h images of two
groups, x_g is binomial with the probability ρ / (1 + ρ), whatever the other shares are, so Wilson's interval of it is
one of ρ, also where x_g = 0. The rule is a convention here: 29 CFR 1607.4(D) is about rates at which applicants are
selected, and images are not applicants.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root

from clinometer.errors import InvalidInputError
from clinometer.metrics.records import SELECTION, STANDARD, Score, corrected
from clinometer.metrics.verdict import FEWEST_IMAGES, LEANING, MISSING, OTHERS, UNREAD, judge_family
from clinometer.stats.arguments import require_confidence
from clinometer.stats.proportion import score_ends, wilson_interval, wilson_worth
from clinometer.stats.share_line import Coefficient, Labelled, ShareLine, share_line

NO_MATCH: Final = "the standard has no match for this concept"
TEST: Final = "the interval of the difference, of both shares' intervals (MOVER), at the level at which it touches 0"
LINE_TEST: Final = "likelihood ratio of a line with errors in both shares and scatter around it"
Z: Final = float(scipy.special.ndtri(0.975))
_MOST_Z: Final = 40.0


@dataclass(frozen=True)
class ReferenceShare:
    """A standard's share of a group, with how many people it was counted from: ``inf`` where it is exact."""

    share: float
    n: float = inf


@dataclass(frozen=True)
class Difference:
    """Shares less a standard's, each with its interval and p: (n,)."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray


def differences_from_standard(
    share: ArrayLike, low: ArrayLike, high: ArrayLike, reference: ArrayLike, reference_n: ArrayLike
) -> Difference:
    """Subtract a standard's shares from shares that have 95 % intervals, with the errors of both.

    ::

        low  = s − ρ − √((s − l_s)² + (u_ρ − ρ)²)         high = s − ρ + √((u_s − s)² + (ρ − l_ρ)²)

    (Donner & Zou 2012; Newcombe's tenth method where both are Wilson's). ``[l_ρ, u_ρ]`` is Wilson's interval of
    ``reference_n`` people, or ρ itself where that is infinite. p is the level at which this interval touches 0: the
    side of the share's interval that faces the standard is worth as many pictures as Wilson's interval of that reach
    would be of, so that it widens with the level as Wilson's does; for a count and an exact standard it is the p of the
    score test.

    Parameters
    ----------
    share, low, high : (n,) shares with their intervals, NaN for none.
    reference, reference_n : (n,) the standard's shares and how many people each is of.

    Examples
    --------
    70 of 100 pictures against a half, as it is and as it was counted among 50 people:

    >>> found = differences_from_standard([0.7, 0.7], [0.604, 0.604], [0.781, 0.781], [0.5, 0.5], [np.inf, 50])
    >>> found.low.round(2).tolist(), found.p.round(4).tolist()
    ([0.1, 0.04], [0.0001, 0.0162])
    """
    s, low_s, high_s, rho, people = np.broadcast_arrays(
        *(np.asarray(each, np.float64) for each in (share, low, high, reference, reference_n))
    )
    low_rho, high_rho = score_ends(rho, people, Z)
    value = s - rho
    ends = value - np.hypot(s - low_s, high_rho - rho), value + np.hypot(high_s - s, rho - low_rho)
    # every share is turned so that it lies above its standard; then its lower end faces it
    above = value >= 0
    s, facing, rho = (np.where(above, each, 1 - turned) for each, turned in ((s, s), (low_s, high_s), (rho, rho)))
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = Z**2 * facing * (1 - facing) / (s - facing) ** 2
    worth = np.where(np.isfinite(worth), np.maximum(worth, 1e-9), np.inf)

    edge = np.full(s.shape, _MOST_Z)
    reaches = (s > rho) & (_beyond(edge, s, worth, rho, people) < 0)
    z = np.where(s > rho, edge, 0.0)
    z[reaches] = find_root(
        _beyond, (np.zeros(reaches.sum()), edge[reaches]),
        args=tuple(each[reaches] for each in (s, worth, rho, people)),
    ).x  # fmt: skip
    p = 2 * scipy.special.ndtr(-z)
    return Difference(value, *ends, np.where(np.isfinite(value + low_s + high_s), p, nan))


def _beyond(z: np.ndarray, share: np.ndarray, worth: np.ndarray, rho: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Return how far the interval at z standard errors stays above 0, of shares that lie above their standard."""
    down, up = score_ends(share, worth, z)[0], score_ends(rho, people, z)[1]
    return np.asarray((share - rho) - np.hypot(share - down, up - rho))


@dataclass(frozen=True)
class SourceShares:
    """The shares of one source: a reader's corrected ones, people's, or those of a table of counts.

    Attributes
    ----------
    rows : a row each concept, setting and group, with its interval.
    groups : K of them, in order.
    counts : of each concept and setting, (K,) answers among the pictures that are read; None where only intervals are
        known.
    known : (K, K) labelled pictures of a group (row) that were read as another (column); None where nothing is misread.
    overall : a row each group of the shares of all concepts together; empty where these are counts, or not known.
    """

    rows: Sequence[Score]
    groups: tuple[str, ...]
    counts: Mapping[tuple[str, str], np.ndarray] | None = None
    known: np.ndarray | None = None
    overall: Sequence[Score] = ()


def standard_rows(
    held: SourceShares, standard: Mapping[tuple[str, str], ReferenceShare], *, margin: float | None = None
) -> list[Score]:
    """Compare one source's shares with a standard: the rows of the module docstring; none where no row matches.

    ``standard`` : by concept and group; of two groups it may give either.
    """
    if not any(_matched(standard, row, held.groups) for row in held.rows):
        return []
    return [*difference_rows(held, standard, margin=margin), *line_rows(held, standard)]


def difference_rows(
    held: SourceShares, standard: Mapping[tuple[str, str], ReferenceShare], *, margin: float | None = None
) -> list[Score]:
    """Make the rows ``reference``, ``difference`` and ``further``, q over all concepts and groups.

    Of two groups one is judged, as the other's share is the rest. A concept without a match has a row that says so.
    """
    two = len(held.groups) == 2
    rows = [row for row in held.rows if not two or row.group == held.groups[0]]
    pairs = [(row, match) for row in rows if (match := _matched(standard, row, held.groups)) is not None]
    matched = {id(row) for row, _ in pairs}
    of_reference, further = [], []
    for row, match in pairs:
        low, high = (float(end) for end in score_ends(match.share, match.n, Z))
        people = int(match.n) if isfinite(match.n) else 0
        of_reference.append(
            replace(_about(row, "reference"), value=match.share, low=low, high=high, n_target=people, n_missing=0)
        )
        further.append(_further(row, match, (low, high), len(held.groups)))
    unmatched = [replace(_about(row, "unmatched"), reason=NO_MATCH) for row in rows if id(row) not in matched]
    return [*of_reference, *_judged(pairs, held.groups, margin), *further, *unmatched]


def _matched(
    standard: Mapping[tuple[str, str], ReferenceShare], row: Score, groups: Sequence[str]
) -> ReferenceShare | None:
    """Return the standard's share of a row's concept and group; of two groups what the other leaves."""
    found = standard.get((row.concept, row.group))
    if found is None and len(groups) == 2:
        other = standard.get((row.concept, next(group for group in groups if group != row.group)))
        found = None if other is None else ReferenceShare(1 - other.share, other.n)
    return found


def _about(row: Score, component: str) -> Score:
    """Return the labels of a row of the standard, those of its share."""
    return Score(
        metric=STANDARD, component=component, concept=row.concept, category=row.category, group=row.group,
        setting=row.setting, encoder=row.encoder, n_target=row.n_target, n_missing=row.n_missing,
        n_repeated=row.n_repeated, n_a=row.n_a, flag=row.flag,
    )  # fmt: skip


def _judged(pairs: Sequence[tuple[Score, ReferenceShare]], groups: Sequence[str], margin: float | None) -> list[Score]:
    """Judge every share against the standard; a verdict that the pictures nobody could count may change says so."""
    if not pairs:
        return []
    rho, people = (np.array([getattr(match, name) for _, match in pairs]) for name in ("share", "n"))
    value, low, high, bound_low, bound_high = (
        np.array([getattr(row, name) for row, _ in pairs])
        for name in ("value", "low", "high", "bound_low", "bound_high")
    )
    found = differences_from_standard(value, low, high, rho, people)
    bounds = differences_from_standard(value, bound_low, bound_high, rho, people)
    made = [
        replace(
            _about(row, "difference"), test=TEST, reason=row.reason, reason_code=row.reason_code,
            value=float(found.value[at]), low=float(found.low[at]), high=float(found.high[at]), p=float(found.p[at]),
            bound_low=float(bounds.low[at]), bound_high=float(bounds.high[at]),
        )
        for at, (row, _) in enumerate(pairs)
    ]  # fmt: skip
    judged = judge_family(
        corrected(made, f"{STANDARD}: {len(made)} shares of {made[0].setting or 'all concepts'}"),
        a=[row.group for row in made], b=groups[1] if len(groups) == 2 else OTHERS, margin=margin, fewest=FEWEST_IMAGES,
        decide=lambda _: [0] * len(made),  # more images leave the standard's own error as it is
    )  # fmt: skip
    return [
        replace(row, depends_on=_depends(row), reason_code=source.reason_code or row.reason_code)
        for row, source in zip(judged, made, strict=True)
    ]


def _depends(row: Score) -> str:
    """Return whether pictures that are missing or unread might take a verdict back: the bounds hold all of both."""
    if row.verdict not in LEANING or not row.bound_low <= 0 <= row.bound_high:
        return ""
    return MISSING if row.n_missing else UNREAD


def _further(row: Score, match: ReferenceShare, ends: tuple[float, float], groups: int) -> Score:
    """Compare a share's distance from parity with the standard's, each distance with the range of its interval."""
    about, parity = _about(row, "further"), 1 / groups
    if not isfinite(row.value + row.low + row.high):
        return replace(about, reason=row.reason)

    def distance(value: float, low: float, high: float) -> tuple[float, float, float]:
        least = 0.0 if low <= parity <= high else min(abs(low - parity), abs(high - parity))
        return abs(value - parity), least, max(abs(low - parity), abs(high - parity))

    own, own_low, own_high = distance(row.value, row.low, row.high)
    its, its_low, its_high = distance(match.share, *ends)
    value = own - its
    return replace(
        about, value=value, low=value - float(np.hypot(own - own_low, its_high - its)),
        high=value + float(np.hypot(own_high - own, its - its_low)),
    )  # fmt: skip


def line_rows(held: SourceShares, standard: Mapping[tuple[str, str], ReferenceShare]) -> Iterator[Score]:
    """Make the rows ``slope``, ``tilt`` and ``scatter`` of each setting and group; of two groups of the first."""
    for setting in dict.fromkeys(row.setting for row in held.rows):
        for group in held.groups[: 1 if len(held.groups) == 2 else None]:
            rows = [row for row in held.rows if (row.setting, row.group) == (setting, group)]
            pairs = [(row, match) for row in rows if (match := _matched(standard, row, held.groups)) is not None]
            usable = [
                (row, match) for row, match in pairs if isfinite(row.value + row.low + row.high) and 0 < match.share < 1
            ]
            yield from _line_rows(_line_of(held, group, usable), _about(rows[0], "slope"), usable)


def _line_of(held: SourceShares, group: str, usable: Sequence[tuple[Score, ReferenceShare]]) -> ShareLine:
    own = held.groups.index(group)
    order = [own, *(at for at in range(len(held.groups)) if at != own)]
    if held.counts is not None:
        counts = np.array([held.counts[row.concept, row.setting] for row, _ in usable]).reshape(
            len(usable), len(held.groups)
        )
        k, n = counts[:, own], counts.sum(axis=1)
    else:
        value, low, high = (np.array([getattr(row, name) for row, _ in usable]) for name in ("value", "low", "high"))
        n = wilson_worth(value, high - low)
        k = n * value
    labelled = None
    if held.known is not None:
        shares = {(row.concept, row.group): row.value for row in held.rows}
        among = np.array([
            [max(shares.get((row.concept, held.groups[at]), nan), 1e-6) for at in order[1:]] for row, _ in usable
        ]).reshape(len(usable), len(order) - 1)  # fmt: skip
        among /= among.sum(axis=1, keepdims=True)
        labelled = Labelled(held.known[order, own].astype(float), held.known[order].sum(axis=1).astype(float), among)
    rho, people = ([getattr(match, name) for _, match in usable] for name in ("share", "n"))
    return share_line(rho, people, k, n, labelled)


def _line_rows(line: ShareLine, about: Score, usable: Iterable[tuple[Score, ReferenceShare]]) -> Iterator[Score]:
    images = sum(row.n_target for row, _ in usable)
    about = replace(about, concept="", category="all", n_target=images, n_a=line.n, n_missing=0, n_repeated=0)

    def row(component: str, of: Coefficient) -> Score:
        return replace(
            about, component=component, value=of.value, low=of.low, high=of.high, p=of.p, null=of.null,
            test="" if line.reason else LINE_TEST, reason=line.reason,
        )  # fmt: skip

    yield row("slope", line.slope)
    yield row("tilt", line.tilt)
    yield replace(about, component="scatter", value=line.scatter, reason=line.reason)


SMALLEST: Final = "smallest"
TO_LARGEST: Final = "to_largest"
RATIO_TEST: Final = "score test that the smallest and the largest share are equal, given the images of both groups"
MOST_GROUPS: Final = 10
"""Groups of which each has a row of its own; of more, the smallest share alone is compared with the largest."""


@dataclass(frozen=True)
class SelectionRatios:
    """Ratios of shares with their intervals, and p that all shares are equal.

    Attributes
    ----------
    value, low, high : (…, K) share of a group over the largest.
    smallest, smallest_low, smallest_high : (…,) smallest share over largest.
    group : (…,) which group is the smallest, from 0.
    p : (…,) of the score test that smallest and largest are equal; of three groups or more times the number of pairs.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    smallest: np.ndarray
    smallest_low: np.ndarray
    smallest_high: np.ndarray
    group: np.ndarray
    p: np.ndarray


def selection_ratios(
    share: ArrayLike, low: ArrayLike, high: ArrayLike, *, worth: ArrayLike | None = None, confidence: float = 0.95
) -> SelectionRatios:
    """Divide shares of the same images by the largest of them, with intervals.

    Of two groups the interval is that of the share, whose errors it keeps: [l / (1 − l), u / (1 − u)] for the ratio of
    one group to the other, up to 1. Of more groups the shares count as ``worth · π`` images, and Wilson's interval of
    π_g / (π_g + π_h) becomes one of π_g / π_h. The lower end is that against the largest other share, which holds
    whichever is the largest (intersection–union); the upper one is corrected for the choice of the pair (Bonferroni).

    Parameters
    ----------
    share, low, high : (…, K) shares of K groups with intervals at ``confidence``; NaN for none.
    worth : (…,) images that the shares of three groups or more are worth: their number where they were counted. By
        default that of which the least sure share has a Wilson's interval as wide as [low, high].

    Raises
    ------
    InvalidInputError
        Fewer than two groups, or arrays of other shapes.

    Examples
    --------
    14 of 20 images of one group and 6 of the other; then 100 images of three groups:

    >>> found = selection_ratios([0.7, 0.3], [0.481, 0.145], [0.855, 0.519])
    >>> [round(float(each), 2) for each in (found.smallest, found.smallest_low, found.smallest_high)]
    [0.43, 0.17, 1.0]
    >>> found = selection_ratios([0.6, 0.4, 0.0], [0.5, 0.31, 0.0], [0.69, 0.5, 0.04], worth=100)
    >>> found.value.round(2).tolist(), found.low.round(2).tolist(), found.high.round(2).tolist()
    ([1.0, 0.67, 0.0], [1.0, 0.45, 0.0], [1.0, 1.0, 0.08])
    """
    require_confidence(confidence)
    s, lower, upper = (np.asarray(each, np.float64) for each in (share, low, high))
    if s.ndim < 1 or s.shape[-1] < 2 or not s.shape == lower.shape == upper.shape:
        raise InvalidInputError.wrong_shape(
            f"expected (…, K) of two groups or more, found {s.shape}, {lower.shape}, {upper.shape}",
            field=("share", "low", "high"),
        )
    groups = s.shape[-1]
    pairs = groups * (groups - 1) // 2
    if worth is None:
        worth = wilson_worth(s, upper - lower, confidence).min(axis=-1)
    other = _largest_other(s)
    images = np.asarray(worth, np.float64)[..., None] * (s + other)
    with np.errstate(divide="ignore", invalid="ignore"):
        among = s / (s + other)
        p = np.minimum(2 * pairs * scipy.special.ndtr(-np.abs(2 * among - 1) * np.sqrt(images)), 1.0)
        if groups == 2:
            least, most = _ratios_within(lower, upper)
            most_of_smallest = most
        else:
            tails = (1 - confidence) / 2 / np.array([1, groups - 1, pairs])
            within = [score_ends(among, images, z) for z in -scipy.special.ndtri(tails)]
            sides = (within[0][0], within[1][1], within[2][1])
            least, most, most_of_smallest = (np.minimum(side / (1 - side), 1.0) for side in sides)
        value = np.minimum(s / other, 1.0)
    group = np.nan_to_num(s).argmin(axis=-1)
    return SelectionRatios(
        value, least, most, value.min(axis=-1), least.min(axis=-1), most_of_smallest.min(axis=-1), group,
        np.take_along_axis(p, group[..., None], -1)[..., 0],
    )  # fmt: skip


def _largest_other(values: np.ndarray) -> np.ndarray:
    """Return of every group the largest value of another one."""
    ordered = np.sort(values, axis=-1)
    second, first = ordered[..., -2:-1], ordered[..., -1:]
    return np.where(values == first, np.where(second == first, first, second), first)


def _ratios_within(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest share over the largest other one, where shares lie within [low, high]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.minimum(low / _largest_other(high), 1.0), np.minimum(high / _largest_other(low), 1.0)


def selection_rows(held: SourceShares) -> list[Score]:
    """Make the rows ``smallest``, and of three groups or more ``to_largest``, of each concept and of all together.

    Those of all concepts are of the shares of all their images (``held.overall``, or counted here). q corrects over the
    concepts and settings of one source.
    """
    k = len(held.groups)
    by_concept = [list(held.rows[at : at + k]) for at in range(0, len(held.rows), k)]
    counted = held.known is None and held.counts is not None
    by_concept += [list(held.overall)] if held.overall else list(_pooled(held)) if counted else []
    if not by_concept:
        return []
    share, low, high, bound_low, bound_high = (
        np.array([[getattr(row, name) for row in rows] for rows in by_concept])
        for name in ("value", "low", "high", "bound_low", "bound_high")
    )
    worth = np.array([rows[0].n_target for rows in by_concept]) if counted else None
    ratios = selection_ratios(share, low, high, worth=worth)
    bounds = _ratios_within(bound_low, bound_high)
    scores = list[Score]()
    for at, rows in enumerate(by_concept):
        first = rows[0]
        about = Score(
            metric=SELECTION, component=SMALLEST, concept=first.concept, category=first.category, setting=first.setting,
            encoder=first.encoder, n_target=first.n_target, n_missing=first.n_missing, n_repeated=first.n_repeated,
            n_a=first.n_a, flag=first.flag, null=1.0, reason=first.reason, reason_code=first.reason_code,
        )  # fmt: skip
        smallest = replace(
            about, group=held.groups[int(ratios.group[at])] if isfinite(ratios.smallest[at]) else "",
            value=float(ratios.smallest[at]), low=float(ratios.smallest_low[at]), high=float(ratios.smallest_high[at]),
            bound_low=float(bounds[0][at].min()), bound_high=float(bounds[1][at].min()), p=float(ratios.p[at]),
            test=RATIO_TEST,
        )  # fmt: skip
        scores.append(smallest)
        scores += [
            replace(
                about, component=TO_LARGEST, group=group, value=float(ratios.value[at, g]),
                low=float(ratios.low[at, g]), high=float(ratios.high[at, g]), bound_low=float(bounds[0][at, g]),
                bound_high=float(bounds[1][at, g]),
            )
            for g, group in enumerate(held.groups if 2 < k <= MOST_GROUPS else ())
        ]  # fmt: skip
    return corrected(scores, f"{SELECTION}: {len(by_concept)} ratios of {scores[0].setting or 'all concepts'}")


def _pooled(held: SourceShares) -> Iterator[list[Score]]:
    """Count all concepts of a setting together: the shares of each group, with Wilson's intervals."""
    counts: dict[str, np.ndarray] = {}
    for (_, setting), own in (held.counts or {}).items():
        counts[setting] = counts.get(setting, 0) + np.asarray(own)
    missing = {setting: 0 for setting in counts}
    for row in held.rows[:: len(held.groups)]:
        missing[row.setting] += row.n_missing
    for setting, own in counts.items():
        n, lost = int(own.sum()), missing[setting]
        shares = [wilson_interval(int(count), n) for count in own]
        yield [
            Score(
                metric=SELECTION, component=SMALLEST, category="all", setting=setting, encoder=held.rows[0].encoder,
                value=share.value, low=share.low, high=share.high, n_target=n, n_missing=lost, reason=share.reason,
                bound_low=share.low * n / (n + lost) if lost else nan,
                bound_high=(share.high * n + lost) / (n + lost) if lost else nan,
            )
            for share in shares
        ]  # fmt: skip
