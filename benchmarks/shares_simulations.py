"""What is asked of shares as such: how many concepts have pictures of one value only, and ratios of shares."""

from __future__ import annotations

import numpy as np

from benchmarks.rates import Experiment, Found
from clinometer.metrics import concentration, corrected_shares
from clinometer.metrics.standard import SelectionRatios, selection_ratios
from clinometer.stats.power import hold_to_limits
from clinometer.stats.proportion import wilson_ends

CONCEPTS = 28
READERS = {"without error": (1.0, 1.0), "reader .75/.97": (0.75, 0.97), "reader .6/.99": (0.6, 0.99)}
"""How often pictures of either group are read right."""


def concentration_at_parity(n: int, images: int, labelled: int, reader: str) -> list[Found]:
    """Every concept at parity, answered by a reader whose errors are known from so many pictures of each group."""
    rng, called = np.random.default_rng([201, images, labelled, len(reader)]), []
    first, second = READERS[reader]
    errors = np.array([[first, 1 - first], [1 - second, second]])
    for _ in range(n):
        known = np.array([rng.multinomial(labelled, row) for row in errors])
        answers = rng.multinomial(images, errors.mean(axis=0), CONCEPTS)
        called.append(concentration(answers, known).p <= 0.05)
    setting = f"{CONCEPTS} concepts, {images} images, {reader}, {labelled} labelled a group"
    return [Found("concentration-level", "from parity", setting, 0.05, float(np.mean(called)), n)]


def concentration_of_equals(n: int, images: int, shares: tuple[float, ...]) -> list[Found]:
    """The same shares in every concept: is any difference called, and does the interval hold the expected share?"""
    rng, called, held = np.random.default_rng([202, images, *(round(100 * share) for share in shares)]), [], []
    truth = float((np.array(shares) ** images).sum())
    for _ in range(n):
        found = concentration(rng.multinomial(images, shares, CONCEPTS))
        called.append(found.p_pooled <= 0.05)
        held.append(found.low <= truth <= found.high)
    setting = f"{CONCEPTS} concepts, {images} images, shares {' : '.join(f'{share:g}' for share in shares)}"
    return [
        Found("concentration-level", "from the shares of all", setting, 0.05, float(np.mean(called)), n),
        Found("concentration-coverage", "expected share of concepts", setting, 0.95, float(np.mean(held)), n),
    ]


def concentration_of_unequals(n: int, images: int, spread: float) -> list[Found]:
    """Concepts whose shares scatter (a beta distribution around a half): coverage, and whether that is found."""
    rng, called, held = np.random.default_rng([203, images, round(100 * spread)]), [], []
    shares = rng.beta(spread, spread, CONCEPTS)
    truth = float((shares**images + (1 - shares) ** images).mean())
    for _ in range(n):
        first = rng.binomial(images, shares)
        found = concentration(np.column_stack([first, images - first]))
        called.append(found.p_pooled <= 0.05)
        held.append(found.low <= truth <= found.high)
    setting = f"{CONCEPTS} concepts, {images} images, shares of beta({spread:g}, {spread:g})"
    return [
        Found("concentration-power", "from the shares of all", setting, float("nan"), float(np.mean(called)), n, 0.5),
        Found("concentration-coverage", "expected share of concepts", setting, 0.95, float(np.mean(held)), n),
    ]


def counted_ratios(rng: np.random.Generator, n: int, images: int, shares: tuple[float, ...]) -> SelectionRatios:
    """Draw images of groups with these shares n times, and divide the shares of each."""
    drawn = rng.multinomial(images, shares, n) / images
    return selection_ratios(drawn, *wilson_ends(drawn, images, 0.95), worth=np.full(n, images))


def ratios(n: int, images: int, shares: tuple[float, ...]) -> list[Found]:
    """Smallest over largest share, and of each group over the largest; counted."""
    rng = np.random.default_rng([204, images, *(round(1000 * share) for share in shares)])
    found, true = counted_ratios(rng, n, images, shares), np.array(shares) / max(shares)
    held = (found.smallest_low <= true.min() + 1e-12) & (true.min() - 1e-12 <= found.smallest_high)
    each = ((found.low <= true + 1e-12) & (true - 1e-12 <= found.high)).mean(axis=0)
    setting = f"{images} images, shares {' : '.join(f'{share:g}' for share in shares)}"
    return [
        Found("ratio-coverage", "smallest over largest", setting, 0.95, float(held.mean()), n),
        Found("ratio-coverage", "a group over the largest, the worst group", setting, 0.95, float(each.min()), n),
    ]


def ratios_by_a_reader(n: int, images: int, shares: tuple[float, ...]) -> list[Found]:
    """The same of a reader that errs in a tenth and more, known from 60 pictures of each group."""
    rng, held = np.random.default_rng([205, images, len(shares)]), []
    errors = np.array([[0.9, 0.06, 0.04], [0.05, 0.85, 0.1], [0.08, 0.12, 0.8]])[: len(shares), : len(shares)]
    errors /= errors.sum(axis=1, keepdims=True)
    for _ in range(n):
        known = np.array([rng.multinomial(60, row) for row in errors])
        answers = rng.multinomial(images, np.array(shares) @ errors)
        found = corrected_shares(np.append(answers, 0), np.hstack([known, np.zeros((len(shares), 1), int)]))
        ratio = selection_ratios(found.share, found.low, found.high)
        held.append(ratio.smallest_low <= min(shares) / max(shares) <= ratio.smallest_high)
    setting = f"{images} images, shares {' : '.join(f'{share:g}' for share in shares)}, a reader with 60 labelled"
    return [Found("ratio-coverage", "of a reader", setting, 0.95, float(np.mean(held)), n)]


def four_fifths_gates(n: int, images: int, concepts: int) -> list[Found]:
    """A gate at .8 over concepts whose ratio is .8: called broken, and passed; and broken where each ratio is 1/4."""
    rng, rates = np.random.default_rng([206, images, concepts]), []
    for share in (4 / 9, 0.2):
        broken, held = [], []
        for _ in range(n):
            found = counted_ratios(rng, concepts, images, (share, 1 - share))
            of = hold_to_limits(
                found.smallest, found.smallest_low, found.smallest_high, np.full(concepts, images),
                np.full(concepts, min(images - 1, 20)), at_least=np.full(concepts, 0.8),
                at_most=np.full(concepts, np.inf),
            )  # fmt: skip
            broken.append(of.beyond.any())
            held.append(of.within.all())
        rates.append((np.mean(broken), np.mean(held)))
    setting = f"{concepts} concepts, {images} images"
    return [
        Found("ratio-gate", "broken where every ratio is .8", setting, 0.05, float(rates[0][0]), n),
        Found("ratio-gate", "holds where every ratio is .8", setting, 0.025, float(rates[0][1]), n),
        Found("ratio-gate-power", "broken where every ratio is .25", setting, float("nan"), float(rates[1][0]), n, 0.5),
    ]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    sets = ((0.5, 0.5), (0.85, 0.15), (0.95, 0.05), (0.6, 0.3, 0.1), (0.9, 0.05, 0.05))
    return [
        *((concentration_at_parity, 1_000, {"images": images, "labelled": labelled, "reader": reader})
          for images in (10, 20) for labelled in (16, 64) for reader in READERS),
        *((concentration_of_equals, 500, {"images": images, "shares": shares}) for images in (10, 20)
          for shares in sets),
        *((concentration_of_unequals, 500, {"images": images, "spread": spread}) for images in (10, 20)
          for spread in (0.3, 2.0)),
        *((ratios, 20_000, {"images": images, "shares": shares}) for images in (10, 20, 100)
          for shares in (*sets, (0, 1), (4 / 9, 5 / 9), (0.5, 0.45, 0.05), (0.5, 0.5, 0), (0.2,) * 5)),
        *((ratios_by_a_reader, 300, {"images": images, "shares": shares}) for images in (20, 100)
          for shares in ((0.6, 0.4), (0.95, 0.05), (0.5, 0.4, 0.1))),
        *((four_fifths_gates, 1_000, {"images": images, "concepts": concepts}) for images in (20, 100, 400)
          for concepts in (1, 28)),
    ]  # fmt: skip
