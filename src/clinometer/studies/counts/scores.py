"""From counts to rows: shares against equal shares, other audits' numbers, slopes over a setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, nan
from typing import Any, Final, NamedTuple

import numpy as np

from clinometer.metrics.differences import METRIC as COMPARISON
from clinometer.metrics.differences import Family
from clinometer.metrics.distribution import BY_COUNTS, distribution_bias, entropy_bias, mean_absolute_deviation
from clinometer.metrics.records import Score, corrected
from clinometer.metrics.verdict import LEVEL, MISSING, OTHERS, judge_family, verdict, with_bounds
from clinometer.stats.change import exact_independence
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.proportion import ExactShare, LogisticSlope, exact_shares, logistic_slopes, share_differences

SHARE: Final = "share"
EXCESS: Final = "excess"
SLOPE: Final = "slope"
TEST: Final = "exact binomial, against equal shares, two-sided"
BY_SETTING: Final = "by_setting"
CHI_SQUARED: Final = "by_setting_chi_squared"
SETTING_TEST: Final = "exact, of all tables with the same margins (Freeman and Halton)"
SETTING_TEST_DRAWN: Final = "of tables drawn with the same margins (Freeman and Halton)"
CHI_SQUARED_TEST: Final = "Pearson's chi-squared, without a correction"
SLOPE_TEST: Final = "score test of the slope of a weighted logistic regression, two-sided"
NO_IMAGE: Final = "no image was counted"
NOT_NUMBERS: Final = "the settings are not numbers of one kind, so there is no slope over them"
FEWEST_OF_SLOPE: Final = 80
"""Images of all settings from which on the test of a slope was shown to hold its level (docs/simulations.md)."""

NO_LINE: Final = "not one slope"
"""The flag of a slope whose shares do not follow one."""

_NUMBER: Final = re.compile(r"[-+\N{MINUS SIGN}]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\Z")


@dataclass(frozen=True)
class Counts:
    """Images of every concept, setting and group.

    Attributes
    ----------
    n : (concepts × settings × groups) images of each; without settings there is one, called ``""``.
    discarded : (concepts × settings) images that were drawn and are counted for no group.
    """

    concepts: tuple[str, ...]
    groups: tuple[str, ...]
    settings: tuple[str, ...]
    n: np.ndarray
    discarded: np.ndarray

    @property
    def null(self) -> float:
        """The share of each group where all are equal."""
        return 1 / len(self.groups)

    @property
    def fewest(self) -> int:
        """The number of images below which a share can have no verdict, even if all are of one group."""
        return next(n for n in range(1, 100) if 2 * self.null**n <= LEVEL)

    @cached_property
    def numbers(self) -> np.ndarray | None:
        """Settings as numbers: ``7.5``, or ``guidance 7.5`` where all begin alike; None where they are none."""
        settings = [setting.strip() for setting in self.settings]
        texts = [number[0] for setting in settings if (number := _NUMBER.search(setting[-40:])) is not None]
        names = {setting.removesuffix(text).rstrip() for setting, text in zip(settings, texts, strict=False)}
        if len(texts) < max(2, len(settings)) or len(names) > 1:
            return None
        numbers = np.array([float(text.replace("\N{MINUS SIGN}", "-")) for text in texts])
        return numbers if len(np.unique(numbers)) == len(numbers) else None

    def filled(self, group: int) -> np.ndarray:
        """Return the counts with all discarded images assumed to be of one group."""
        n = self.n.copy()
        n[:, :, group] += self.discarded
        return n

    def filled_at_once(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the counts and their totals with all discarded images assumed of each group itself, and of another.

        For many groups: those are the two ends of each share, without a table for every group.
        """
        totals = np.repeat((self.n.sum(axis=2) + self.discarded)[:, :, None], self.n.shape[2], axis=2)
        return [(self.n + self.discarded[:, :, None], totals), (self.n, totals)]

    def cells(self) -> Iterator[tuple[int, int, int]]:
        """Return the positions of every concept, setting and group, in this order."""
        return ((c, s, g) for c, s, g in np.ndindex(*self.n.shape))

    def other(self, group: int) -> str:
        """Return the side of a group of which there are fewer than equal shares give."""
        return self.groups[1 - group] if len(self.groups) == 2 else OTHERS

    def row(self, c: int, s: int, g: int | None, n: int, **fields: Any) -> Score:
        """Return a row about a concept at a setting; ``encoder`` is empty, as none has seen an image."""
        group = "" if g is None else self.groups[g]
        return Score(
            concept=self.concepts[c], setting=self.settings[s], group=group, encoder="", n_target=n,
            n_missing=int(self.discarded[c, s]), **fields,
        )  # fmt: skip


def counts_study(counts: Counts, *, margin: float | None = None) -> Iterator[Score]:
    """Yield every number of a table of counts, of which there may be 350,000.

    ================= ==============================================================================================
    component         value
    ================= ==============================================================================================
    ``share``         share of images of ``group``, with its exact interval; p against equal shares 1/K (``null``), q
                      over all concepts, settings and groups
    ``excess``        the same less 1/K, with the verdict
    ``slope``         of the log odds of that share for each unit of the setting, where settings are numbers; positive
                      where the group has more of the images at higher settings; q over all concepts and groups
    ``by_setting``    Cramér's V of groups and settings, in [0, 1], where settings are no numbers; p of the exact test
                      that a concept's shares are the same at every setting, q over all concepts. It has no verdict:
                      0 is not expected even then. ``by_setting_chi_squared`` has p of Pearson's χ² beside it
    ================= ==============================================================================================

    All are of metric ``share``. Rows of metric ``other_audits`` are those of other audits that take counts alone.
    ``bound_low`` and ``bound_high`` : with what was discarded taken to be of one group, then of another.
    """
    judged = excess_rows(counts, counts.n, margin)
    if counts.discarded.any():
        several = len(judged) * len(counts.groups) <= MOST_FILLED
        fillings: Sequence[Any] = (
            [(counts.filled(g), None) for g in range(len(counts.groups))] if several else counts.filled_at_once()
        )
        filled: list[Any] = [_filled_shares(counts, n, margin, totals) for n, totals in fillings]
        judged = with_bounds(judged, {MISSING: filled})
    moved = ("value", "low", "high", "bound_low", "bound_high", "null")
    unjudged: dict[str, Any] = {
        "component": SHARE, "verdict": "", "side": "", "reason_code": "", "depends_on": "", "n_decide": 0,
        "p_equivalence": nan, "q_equivalence": nan,
    }  # fmt: skip
    for row in judged:
        yield replace(row, **unjudged, **{name: getattr(row, name) + counts.null for name in moved})
    yield from judged
    del judged
    yield from slope_rows(counts)
    yield from setting_rows(counts)
    yield from _other_audits(counts)


MOST_FILLED: Final = 2_000_000
"""Shares of all tables, one for each group that what was discarded is taken to be of."""


def excess_rows(counts: Counts, n: np.ndarray, margin: float | None, totals: np.ndarray | None = None) -> list[Score]:
    """Judge how far each share of some counts lies from equal shares; ``totals`` where they are not the counts' own."""
    n_settings = "" if len(counts.settings) == 1 else f", {len(counts.settings)} settings"
    family = f"share: {len(counts.concepts)} concepts{n_settings}, {len(counts.groups)} groups"
    a, b = zip(*((counts.groups[g], counts.other(g)) for *_, g in counts.cells()), strict=True)
    rows = [
        counts.row(
            c, s, g, share.n, metric=SHARE, component=EXCESS, null=0.0, value=share.value - counts.null,
            low=share.low - counts.null, high=share.high - counts.null, p=share.p_value,
            p_equivalence=share.p_equivalence, test=TEST if share.n else "", reason="" if share.n else NO_IMAGE,
        )
        for (c, s, g), share in zip(counts.cells(), _shares(counts, n, margin, totals), strict=True)
    ]  # fmt: skip
    return judge_family(corrected(rows, family), a=a, b=b, margin=margin, fewest=counts.fewest)


def _shares(counts: Counts, n: np.ndarray, margin: float | None, totals: np.ndarray | None) -> list[ExactShare]:
    images = np.repeat(n.sum(axis=2), n.shape[2]) if totals is None else totals.ravel()
    return exact_shares(n.ravel(), images, counts.null, margin=margin)


class _Filled(NamedTuple):
    """What bounds need of a share with discarded images filled in; whole rows would be 300,000."""

    low: float
    high: float
    verdict: str
    side: str


def _filled_shares(counts: Counts, n: np.ndarray, margin: float | None, totals: np.ndarray | None) -> list[_Filled]:
    """Judge shares as :func:`excess_rows` does, as one family of their own."""
    shares, fewest, filled = _shares(counts, n, margin, totals), counts.fewest, list[_Filled]()
    p = np.array([(share.p_value, share.p_equivalence) for share in shares]).T
    q = np.column_stack([benjamini_hochberg(each) for each in p]).tolist()
    for share, (q_share, q_inside), (*_, g) in zip(shares, q, counts.cells(), strict=True):
        low, high = share.low - counts.null, share.high - counts.null
        judgement = verdict(
            value=share.value - counts.null, low=low, high=high, q=q_share, q_equivalence=q_inside, margin=margin,
            a=counts.groups[g], b=counts.other(g), enough=share.n >= fewest,
        )  # fmt: skip
        filled.append(_Filled(low, high, judgement.verdict, judgement.side))
    return filled


def slope_rows(counts: Counts) -> list[Score]:
    """Judge how each share changes over settings that are numbers; rows without a number where they are none."""
    if len(counts.settings) < 2:
        return []
    x, rows = counts.numbers, []
    span = f"{counts.settings[0]} to {counts.settings[-1]}"
    of_groups, images = np.moveaxis(counts.n, 1, 2), counts.n.sum(axis=2)
    slopes: Sequence[LogisticSlope] = [LogisticSlope(nan, nan, nan, nan, reason=NOT_NUMBERS)] * of_groups[..., 0].size
    if x is not None:
        totals = np.repeat(images, len(counts.groups), axis=0)
        slopes = logistic_slopes(x, of_groups.reshape(totals.shape), totals)
    for (c, g), slope in zip(np.ndindex(of_groups.shape[:2]), slopes, strict=True):
        rows.append(
            Score(
                metric=SHARE, component=SLOPE, concept=counts.concepts[c], group=counts.groups[g], setting=span,
                encoder="", null=0.0, n_target=int(images[c].sum()), n_missing=int(counts.discarded[c].sum()),
                value=slope.value, low=slope.low, high=slope.high, p=slope.p_value, reason=slope.reason,
                test=SLOPE_TEST if isfinite(slope.p_value) else "", flag=NO_LINE if slope.p_line <= LEVEL else "",
            )
        )  # fmt: skip
    family = f"share: slopes of {len(counts.concepts)} concepts, {len(counts.groups)} groups"
    sides = [(counts.groups[g], counts.other(g)) for _ in counts.concepts for g in range(len(counts.groups))]
    judged = judge_family(
        corrected(rows, family), a=[a for a, _ in sides], b=[b for _, b in sides], fewest=FEWEST_OF_SLOPE
    )
    return [replace(row, n_decide=0) for row in judged]


MOST_TESTED: Final = 20_000
"""Counts of a table whose concepts are tested over settings that are no numbers."""

NOT_TESTED: Final = f"not tested: the table has more than {MOST_TESTED:,} counts"


def setting_rows(counts: Counts) -> list[Score]:
    """Test of each concept whether its shares are the same at every setting, where settings are no numbers.

    Discarded images are of no group and in no test.
    """
    if len(counts.settings) < 2 or counts.numbers is not None:
        return []
    exact, approximate = [], []
    for c, concept in enumerate(counts.concepts):
        common: dict[str, Any] = {
            "metric": SHARE, "concept": concept, "setting": " or ".join(counts.settings), "encoder": "",
            "n_target": int(counts.n[c].sum()), "n_missing": int(counts.discarded[c].sum()),
        }  # fmt: skip
        if counts.n.size > MOST_TESTED:
            exact.append(Score(component=BY_SETTING, value=nan, reason=NOT_TESTED, **common))
            continue
        found = exact_independence(counts.n[c])
        test = (SETTING_TEST if found.exact else SETTING_TEST_DRAWN) if found.n_tables else ""
        error = 0.0 if found.exact else (found.p_value * (1 - found.p_value) / max(found.n_tables, 1)) ** 0.5
        common |= {"value": found.cramers_v, "reason": found.reason}
        exact.append(
            Score(component=BY_SETTING, p=found.p_value, test=test, p_exact=found.exact, p_error=error,
                  n_splits=found.n_tables, **common)
        )  # fmt: skip
        test = CHI_SQUARED_TEST if found.n_tables else ""
        approximate.append(Score(component=CHI_SQUARED, p=found.p_chi_squared, test=test, **common))
    family = f"share: {len(counts.concepts)} concepts, each over {len(counts.settings)} settings"
    return [*corrected(exact, family), *approximate]


_AUDITS: Final[dict[str, Callable[..., Any]]] = {
    "mean_absolute_deviation": mean_absolute_deviation,
    "entropy_bias": entropy_bias,
    "distribution_bias": distribution_bias,
}


MOST_SEARCHED: Final = 2_000_000
"""Shares that are looked through for the intervals of other audits' numbers, of three groups or more."""

NOT_SEARCHED: Final = "no interval and no null: the table is too large to search for them"


def _other_audits(counts: Counts) -> Iterator[Score]:
    k, totals = len(counts.groups), counts.n.sum(axis=2)
    too_large = k > 2 and counts.discarded.size * k * (k + 513) > MOST_SEARCHED
    for name, score in _AUDITS.items():
        for c, s in np.ndindex(*totals.shape):
            if too_large:
                value = float(BY_COUNTS[name](counts.n[c, s][None])[0]) if totals[c, s] else nan
                fields = {"value": value, "reason": NOT_SEARCHED if totals[c, s] else NO_IMAGE}
            else:
                number = score(counts.n[c, s])
                fields = {"value": number.value, "low": number.low, "high": number.high, "null": number.null,
                          "reason": number.reason and NO_IMAGE}  # fmt: skip
            yield counts.row(c, s, None, int(totals[c, s]), metric="other_audits", component=name, **fields)


DIFFERENCE_TEST: Final = "Fisher's exact test of two shares, two-sided"


def compared_counts(first: Counts, second: Counts) -> list[Score]:
    """Compare every share of two tables of the same concepts, groups and settings, second minus first.

    The interval is Newcombe's of two shares (1998, method 10); p is Fisher's. Bounds assume the discarded images of one
    table of one group, and those of the other table of another.
    """
    groups, tables = range(len(first.groups)), (first, second)
    compared, fillings = list(_compared_cells(first)), []
    if any(table.discarded.any() for table in tables):
        for g in groups:
            other = (g + 1) % len(groups)
            for one, two in ((g, other), (other, g)):
                fillings.append(_difference_rows(first, second, (first.filled(one), second.filled(two))))
    family = Family(
        rows=_difference_rows(first, second, (first.n, second.n)),
        name=f"shares of {len(first.concepts)} concepts, {len(groups)} groups",
        sides=([first.groups[g] for *_, g in compared], [first.other(g) for *_, g in compared]),
        fillings=fillings,
    )
    return family.judged()


def _compared_cells(counts: Counts) -> Iterator[tuple[int, int, int]]:
    """Return the positions of what is compared: of two groups the first alone, as the other differs by as much."""
    return (cell for cell in counts.cells() if len(counts.groups) > 2 or cell[2] == 0)


def _difference_rows(first: Counts, second: Counts, n: tuple[np.ndarray, np.ndarray]) -> Sequence[Score]:
    cells = np.array(list(_compared_cells(first)))
    c, s, g = cells.T
    (k, m), (j, o) = ((table[c, s, g], table.sum(axis=2)[c, s]) for table in n)
    counted = (m > 0) & (o > 0)
    measured = share_differences((k[counted], m[counted]), (j[counted], o[counted]))
    numbers = iter(np.column_stack([measured.value, measured.low, measured.high, measured.p_value]).tolist())
    missing, images = (first.discarded + second.discarded)[c, s].tolist(), np.column_stack([m, o]).tolist()
    rows = []
    for (at_c, at_s, at_g), n_missing, (n_a, n_b) in zip(cells.tolist(), missing, images, strict=True):
        is_measured = bool(n_a and n_b)
        value, low, high, p = next(numbers) if is_measured else (nan, nan, nan, nan)
        row = first.row(
            at_c, at_s, at_g, n_a + n_b, metric=COMPARISON, component=SHARE, n_a=n_a, n_b=n_b, value=value, low=low,
            high=high, p=p, test=DIFFERENCE_TEST if is_measured else "", reason="" if is_measured else NO_IMAGE,
        )  # fmt: skip
        rows.append(replace(row, n_missing=n_missing) if n_missing != row.n_missing else row)
    return rows
