"""Do shares corrected by people cover, and are they ever worse than people alone? Measured on made-up encoders.

Experiments for benchmarks/simulations.py: images of which people see a share as a, an encoder that misreads some of
them, and people who rate some, drawn at random, within the encoder's readings, or several raters an image.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import stats

from benchmarks.rates import Experiment, Found
from clinometer.stats.paired_comparisons import paired_strengths
from clinometer.stats.prediction_powered import RatedShare, more_items_to_reach, rated_share

IMAGES: Final = {30: 300, 100: 1_000, 300: 3_000, 1_000: 10_000}
"""Images of a concept, by the number of them that people rate."""

ENCODERS: Final = {
    "never wrong": (0.0, 0.0),
    "wrong in 5 %": (0.05, 0.05),
    "wrong in 20 %": (0.2, 0.2),
    "wrong in 30 % of b": (0.0, 0.3),
    "useless": (0.5, 0.5),
}
"""How often an image that people see as a, and as b, is misread."""

SLIPS: Final = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1)
"""How often an encoder that reads every a right misreads a b."""


def _seen_and_read(rng: np.random.Generator, n: int, share: float, wrong: tuple[float, float]) -> np.ndarray:
    """(2, n) what people see and what the encoder reads."""
    seen = rng.random(n) < share
    missed = rng.random(n) < np.where(seen, *wrong)
    return np.stack([seen, seen ^ missed]).astype(np.float64)


def _found(what: str, setting: str, share: float, found: list[RatedShare], alone: list[RatedShare]) -> list[Found]:
    held = [each.low <= share <= each.high for each in found]
    widths = np.array(
        [(each.high - each.low) / (people.high - people.low) for each, people in zip(found, alone, strict=True)]
    )
    n = len(found)
    return [
        Found("ratings-coverage", what, setting, 0.95, float(np.mean(held)), n),
        Found("ratings-width", what, setting, 1.05, float(widths.mean()), n, float(widths.std())),
    ]  # fmt: skip


def corrected_shares(n: int, encoder: str, rated: int, share: float) -> list[Found]:
    """A simple random sample of the images is rated, each once."""
    rng, pairs = np.random.default_rng([41, len(encoder), rated, round(100 * share)]), []
    for _ in range(n):
        seen, read = _seen_and_read(rng, IMAGES[rated], share, ENCODERS[encoder])
        pairs.append((rated_share(seen[:rated], read[:rated], read[rated:]), rated_share(seen[:rated])))
    setting = f"{rated} of {IMAGES[rated]} images, share {share:g}"
    return _found(f"encoder {encoder}", setting, share, *map(list, zip(*pairs, strict=True)))


def shares_of_either(n: int, rated: int, neither: float) -> list[Found]:
    """Of so many images people say neither; the encoder takes them for either group alike."""
    rng, encoder, share, pairs = np.random.default_rng([45, rated, round(100 * neither)]), "wrong in 20 %", 0.3, []
    for _ in range(n):
        seen, read = _seen_and_read(rng, IMAGES[rated], share, ENCODERS[encoder])
        outside = rng.random(IMAGES[rated]) < neither
        read = np.where(outside, rng.random(IMAGES[rated]) < 0.5, read)
        found = rated_share(seen[:rated], read[:rated], read[rated:], outside=outside[:rated])
        pairs.append((found, rated_share(seen[:rated], outside=outside[:rated])))
    setting = f"{rated} of {IMAGES[rated]} images, {neither:.0%} neither, share {share:g} of the others"
    return _found(f"encoder {encoder}", setting, share, *map(list, zip(*pairs, strict=True)))


def stratified_shares(n: int, encoder: str, rated: int, share: float) -> list[Found]:
    """As many images are rated of those read as a as of those read as b."""
    rng, pairs = np.random.default_rng([42, len(encoder), rated, round(100 * share)]), []
    for _ in range(n):
        seen, read = _seen_and_read(rng, IMAGES[rated], share, ENCODERS[encoder])
        drawn = np.concatenate([np.flatnonzero(read == k)[: rated // 2] for k in (0, 1)])
        others = np.setdiff1d(np.arange(len(read)), drawn)
        sizes = [int((read == k).sum()) for k in (0, 1)]
        found = rated_share(seen[drawn], read[drawn], read[others], strata=read[drawn].astype(int), sizes=sizes)
        pairs.append((found, rated_share(seen[:rated])))
    setting = f"{rated} of {IMAGES[rated]} images, half of either reading, share {share:g}"
    return _found(f"encoder {encoder}", setting, share, *map(list, zip(*pairs, strict=True)))


def shares_of_many_raters(n: int, raters: int, rated: int, differ: float) -> list[Found]:
    """Three raters an image, or two; raters differ in how readily they choose a, by so many probits (sd)."""
    rng, encoder, pairs = np.random.default_rng([43, raters, rated, round(100 * differ)]), "wrong in 20 %", []
    cut, each = 0.3 * np.sqrt(1 + differ**2), min(3, raters)
    share = float(_chance_of_a(cut, differ))
    for _ in range(n):
        clear, readily = rng.normal(size=IMAGES[rated]), differ * rng.normal(size=raters)
        read = np.where(rng.random(IMAGES[rated]) < 0.2, clear < cut, clear > cut).astype(np.float64)
        answers = (clear[None, :rated] + readily[:, None] > cut).astype(np.float64)
        asked = rng.random((raters, rated)).argsort(axis=0) < each
        table = np.where(asked, answers, np.nan)
        pairs.append((rated_share(table, read[:rated], read[rated:]), rated_share(table)))
    setting = f"{rated} of {IMAGES[rated]} images, {each} of {raters} raters each, who differ by {differ:g}"
    return _found(f"encoder {encoder}", setting, share, *map(list, zip(*pairs, strict=True)))


def _chance_of_a(cut: float, differ: float) -> float:
    """P(image + rater > cut), both normal."""
    return float(stats.norm.sf(cut / np.sqrt(1 + differ**2)))


def shares_of_slight_errors(n: int, rated: int, share: float) -> list[Found]:
    """Encoders that slip now and then, to one side: our interval beside PPI++'s own, which is normal and unguarded."""
    from ppi_py import ppi_mean_ci

    found, setting = [], f"{rated} of {IMAGES[rated]} images, share {share:g}"
    for slip in SLIPS:
        rng, held = np.random.default_rng([46, rated, round(100 * share), round(100 * slip)]), []
        for _ in range(n):
            seen, read = _seen_and_read(rng, IMAGES[rated], share, (0.0, slip))
            ours = rated_share(seen[:rated], read[:rated], read[rated:])
            low, high = ppi_mean_ci(seen[:rated], read[:rated], read[rated:], alpha=0.05)
            held.append((ours.low <= share <= ours.high, low[0] <= share <= high[0]))
        for name, rate in zip(("ours", "PPI++'s own"), np.mean(held, axis=0), strict=True):
            found.append(Found("ratings-slips", f"wrong in {slip:.0%} of b, {name}", setting, 0.95, float(rate), n))
    return found


def least_coverage(n: int, rated: int, share: float, held: float) -> list[Found]:
    """What an interval covers with an encoder that never errs, at least, if it covers ``held`` with all that slip.

    Exact, for any interval whose ends rise with the number k of images read as a, where no rated image was misread.
    With an encoder that takes b for a in so many images, q, nobody notices in (1 − q)^n of the studies. Of these, the
    lower end may lie above the share in (1 − held) / (1 − q)^n at most, so from some k on. With an encoder that never
    errs such a k comes up more seldom: that bounds what it misses from below, and taking a for b what from above.
    """
    missed = sum(_most_missed(each, rated, IMAGES[rated], 1 - held) for each in (share, 1 - share))
    setting = f"{rated} of {IMAGES[rated]} images, share {share:g}"
    return [Found("ratings-bound", "at least", setting, held, 1 - missed, 0)]


def _most_missed(share: float, rated: int, images: int, missed: float) -> float:
    """The least over q of P(k ≥ the first k that may be missed), with an encoder that never errs."""
    return min(_missed_by(share, q, rated, images, missed) for q in np.arange(0.002, min(0.25, 1 - share), 0.002))


def _missed_by(share: float, q: float, rated: int, images: int, missed: float) -> float:
    in_rated = stats.binom.pmf(np.arange(rated + 1), rated, share / (1 - q))
    in_others = stats.binom.pmf(np.arange(images - rated + 1), images - rated, share + q)
    at_least = np.append(np.cumsum(np.convolve(in_rated, in_others)[::-1])[::-1], 0.0)
    first = int(np.argmax(at_least <= missed / (1 - q) ** rated))
    return float(stats.binom.sf(first - 1, images, share))


def ratings_planned(n: int, encoder: str) -> list[Found]:
    """Of a pilot of 50 ratings, as many more as it names: does the interval then reach ± 0.05?"""
    rng, reaches = np.random.default_rng([44, len(encoder)]), []
    for _ in range(n):
        seen, read = _seen_and_read(rng, 5_000, 0.3, ENCODERS[encoder])
        more = more_items_to_reach(0.05, rated_share(seen[:50], read[:50], read[50:]))
        k = 50 + int(more)
        found = rated_share(seen[:k], read[:k], read[k:])
        reaches.append(max(found.high - found.value, found.value - found.low))
    reached = np.array(reaches) / 0.05
    what, setting = f"encoder {encoder}", "pilot of 50 of 5000 images, share 0.3"
    return [Found("ratings-planned", what, setting, 1.0, float(reached.mean()), n, float(reached.std()))]


UNITS: Final = {"alike": np.zeros(6), "apart": np.array([-1.0, -0.5, -0.2, 0.2, 0.5, 1.0])}
"""Strengths of six concepts whose pictures are compared."""


def _compared(
    rng: np.random.Generator, strengths: np.ndarray, raters: int, each: int, pictures: int, differ: float
) -> tuple[np.ndarray, ...]:
    """Let raters compare pictures drawn at random, whose strengths scatter by ``differ``, as those that a rater sees.

    The left one has .2 more on average, and .3 (sd) more or less for a rater; about 16 % are ties.
    """
    k, n, rater = len(strengths), raters * each, np.repeat(np.arange(raters), each)
    own, seen = strengths[:, None] + differ * rng.normal(size=(k, pictures)), differ * rng.normal(size=(raters, k))
    left = rng.integers(k, size=n)
    right, (a, b) = (left + rng.integers(1, k, n)) % k, rng.integers(pictures, size=(2, n))
    u = own[left, a] + seen[rater, left] + (0.2 + 0.3 * rng.normal(size=raters))[rater]
    v = own[right, b] + seen[rater, right]
    weights = np.exp([u, v, np.log(0.5) + (u + v) / 2])
    answers = (rng.random(n) > np.cumsum(weights / weights.sum(axis=0), axis=0)).sum(axis=0)
    return left, right, answers, rater, left * pictures + a, right * pictures + b


def pairs_of_many_raters(n: int, raters: int, pictures: int, differ: float, strengths: str) -> list[Found]:
    """How often each is preferred: coverage of the mean over all raters and pictures, by quadrature."""
    rng, called, held = np.random.default_rng([207, raters, pictures, round(10 * differ), len(strengths)]), [], []
    truth = _preferred_by_all(UNITS[strengths], differ)
    for _ in range(n):
        left, right, answers, rater, a, b = _compared(rng, UNITS[strengths], raters, 40, pictures, differ)
        each = paired_strengths(
            left, right, answers, names=tuple("abcdef"), raters=rater, left_pictures=a, right_pictures=b
        ).preferred
        held.append(np.mean((each.low <= truth) & (truth <= each.high)))
        called.append(np.mean(each.p <= 0.05))
    setting = f"{raters} raters, 40 comparisons each, {pictures} pictures of 6 concepts {strengths}, sd {differ}"
    alike = strengths == "alike"
    return [
        Found("pairs-coverage", "preferred", setting, 0.95, float(np.mean(held)), n, float(np.std(held, ddof=1))),
        Found("pairs-level" if alike else "pairs-power", "a concept called other than ½", setting,
              0.05 if alike else float("nan"), float(np.mean(called)), n, float(np.std(called, ddof=1))),
    ]  # fmt: skip


def _preferred_by_all(strengths: np.ndarray, differ: float) -> np.ndarray:
    """Return the probability of being preferred to another, ties half: strengths of two differ by 2 · differ (sd)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    d = strengths[:, None, None] - strengths[None, :, None] + 2 * differ * nodes
    tie = 0.5 * np.exp(d / 2)
    over = ((np.exp(d) + tie / 2) / (np.exp(d) + 1 + tie)) @ (weights / weights.sum())
    return np.asarray((over.sum(axis=1) - 0.5) / (len(strengths) - 1))


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((corrected_shares, 4_000, {"encoder": encoder, "rated": rated, "share": share})
          for encoder in ENCODERS for rated in IMAGES for share in (0.3, 0.5)),
        *((corrected_shares, 4_000, {"encoder": encoder, "rated": rated, "share": 0.05})
          for encoder in ENCODERS for rated in (30, 100, 300)),
        *((shares_of_slight_errors, 4_000, {"rated": rated, "share": 0.3}) for rated in (30, 100, 300)),
        *((least_coverage, 0, {"rated": rated, "share": share, "held": 0.94})
          for rated in (30, 100) for share in (0.05, 0.3, 0.5)),
        *((stratified_shares, 4_000, {"encoder": encoder, "rated": rated, "share": 0.3})
          for encoder in ("wrong in 5 %", "wrong in 20 %", "useless") for rated in (30, 100, 300)),
        *((shares_of_either, 4_000, {"rated": rated, "neither": 0.2}) for rated in (30, 100, 300)),
        *((shares_of_many_raters, 2_000, {"raters": raters, "rated": 100, "differ": differ})
          for raters in (2, 3, 5, 10, 30) for differ in (0.0, 0.3, 0.6)),
        *((ratings_planned, 1_000, {"encoder": encoder}) for encoder in ENCODERS),
        *((pairs_of_many_raters, 200, {"raters": raters, "pictures": pictures, "differ": differ, "strengths": each})
          for raters in (3, 5, 10, 20) for pictures, differ in ((10, 0.0), (10, 0.5), (4, 1.0)) for each in UNITS),
    ]  # fmt: skip
