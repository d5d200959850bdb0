"""Is the reader's check right, and does the interval of the corrected share cover? Measured on made-up encoders.

Experiments for benchmarks/simulations.py. Coverage of the corrected share is
computed, not drawn: every outcome of the three samples is weighed with its probability.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from math import nan
from typing import Final
from unittest import mock

import numpy as np
from scipy import stats

import clinometer.stats.confusion
from benchmarks.rates import Experiment, Found
from clinometer.metrics.readers import rated_group_shares
from clinometer.stats.confusion import ReadingCounts, corrected_share, corrected_shares, share_p_values
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.encoder_check import reader_checks

SHARES: Final = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)
CERTAIN: Final = 1e-6
"""Outcomes rarer than this, over one sample, are left out."""

# --- the corrected share ---------------------------------------------------------------------------------------------


@cache
def _interval(count: int, size: int, right_a: int, right_b: int, known: int) -> tuple[float, float] | None:
    found = corrected_share(count, size, ReadingCounts(right_a, known, right_b, known))
    return None if found.reason else (found.low, found.high)


def corrected_intervals(n: int, size: int, known: int, reads: tuple[float, float]) -> list[Found]:
    """Coverage where the share is defined: the least and the mean over shares, computed; ``n`` is not used.

    ``size`` images of the concept, ``known`` of either group, read right with the probabilities ``reads``.
    """
    held = [_covered(share, size, known, reads) for share in SHARES]
    setting = f"{size} images; {reads[0]:.0%} and {reads[1]:.0%} read right of {known} each"
    return [
        Found("reader-coverage", "least over shares", setting, 0.95, min(held), 0),
        Found("reader-coverage", "mean over shares", setting, 0.95, float(np.mean(held)), 0),
    ]


def _likely(n: int, rate: float) -> list[tuple[int, float]]:
    chances = stats.binom.pmf(np.arange(n + 1), n, rate)
    return [(k, float(p)) for k, p in enumerate(chances) if p > CERTAIN]


def _covered(share: float, size: int, known: int, reads: tuple[float, float]) -> float:
    read = share * reads[0] + (1 - share) * (1 - reads[1])
    held = total = 0.0
    outcomes = product(_likely(size, read), _likely(known, reads[0]), _likely(known, reads[1]))
    for (count, p), (right_a, p_a), (right_b, p_b) in outcomes:
        found = _interval(count, size, right_a, right_b, known)
        if found is not None:
            weight = p * p_a * p_b
            total += weight
            held += weight * (found[0] <= share <= found[1])
    return held / total


# --- shares of several groups ----------------------------------------------------------------------------------------

RECALL: Final = {6: (0.45, 0.6, 0.7, 0.8, 0.9, 0.97), 3: (0.45, 0.8, 0.97), 2: (0.45, 0.97)}
"""How often each of so many groups is read as itself, of the images that can be read."""

POPULATIONS: Final = {
    "equal shares": (np.full(6, 1 / 6), np.full(6, 0.12)),
    "shares .50 to 0, unreadable 2 to 22 %": (np.array([0.5, 0.3, 0.1, 0.05, 0.05, 0.0]), np.linspace(0.02, 0.22, 6)),
    "one group alone": (np.eye(6)[0], np.full(6, 0.12)),
    "two groups, equal": (np.full(2, 1 / 2), np.full(2, 0.12)),
    "two groups, .75 and .25": (np.array([0.75, 0.25]), np.array([0.22, 0.02])),
    "three groups, equal": (np.full(3, 1 / 3), np.full(3, 0.12)),
    "three groups, .6, .3 and .1": (np.array([0.6, 0.3, 0.1]), np.array([0.22, 0.12, 0.02])),
}
"""True shares, and how many of each group's images cannot be read; six groups where no other number is named."""

WORDS_OF: Final = {2: "two", 3: "three", 6: "six"}


def confusion(rng: np.random.Generator, unreadable: np.ndarray) -> np.ndarray:
    """P(answer | group), "cannot tell" last: what is not read right falls on the other groups at random."""
    k = len(unreadable)
    rows = np.zeros((k, k + 1))
    for group, row in enumerate(rows):
        row[group], row[-1] = RECALL[k][group] * (1 - unreadable[group]), unreadable[group]
        row[np.delete(np.arange(k), group)] = rng.dirichlet(np.full(k - 1, 2.0)) * (1 - row.sum())
    return rows


def corrected_groups(n: int, population: str, size: int, known: int) -> list[Found]:
    """Coverage of the shares of several groups among the read, corrected and raw; every study has its reader."""
    rng = np.random.default_rng(21)
    drawn, unreadable = POPULATIONS[population]
    shares = drawn * (1 - unreadable) / (drawn @ (1 - unreadable))
    held, raw = [], []
    for _ in range(n):
        rows = confusion(rng, unreadable)
        answers = rng.multinomial(size, drawn @ rows)
        found = corrected_shares(answers, [rng.multinomial(known, row) for row in rows])
        if found.identified:
            held.append((found.low <= shares + CERTAIN) & (shares <= found.high + CERTAIN))
        wilson = [wilson_interval(int(count), max(int(answers[:-1].sum()), 1)) for count in answers[:-1]]
        raw.append([interval.low <= share <= interval.high for interval, share in zip(wilson, shares, strict=True)])
    setting = f"{population}; {size} images, {known} labelled a group"
    rates = {"corrected": np.mean(held, axis=0), "raw, unreadable images dropped": np.mean(raw, axis=0)}
    return [
        Found("reader-groups", f"{which}, {of} of {WORDS_OF[len(shares)]} groups", setting, 0.95, float(rate), n)
        for which, each in rates.items()
        for of, rate in (("least", each.min()), ("mean", each.mean()))
    ]


def few_labelled(n: int, known: int, share: float = 0.75, size: int = 60, right: float = 0.9) -> list[Found]:
    """What raising the quantile costs: intervals of a leaning share that leave out one half, without it and with it."""
    called = []
    for study in range(n):
        rng = np.random.default_rng([64, known, study])
        of_a = rng.binomial(size, share)
        read_a = rng.binomial(of_a, right) + rng.binomial(size - of_a, 1 - right)
        labelled = [rng.multinomial(known, row) for row in ([right, 1 - right, 0], [1 - right, right, 0])]
        answers = [read_a, size - read_a, 0]
        with mock.patch.object(clinometer.stats.confusion, "_raised", return_value=1.0):
            plain = corrected_shares(answers, labelled)
        both = plain, corrected_shares(answers, labelled)
        called.append([each.low[0] > 0.5 or each.high[0] < 0.5 for each in both])
    setting = f"{share:.0%} of a, {size} images, {right:.0%} read right of {known} labelled each"
    whats = ("a leaning share is found, not raised", "a leaning share is found, as raised")
    return [
        Found("reader-power", what, setting, nan, float(np.mean(own)), n, float(np.std(own)))
        for what, own in zip(whats, np.transpose(called), strict=True)
    ]


def called_at_parity(n: int, groups: int, size: int, known: int, concepts: int) -> list[Found]:
    """How many suites of concepts with equal shares have a call: by corrected shares, by raw ones, by people's too.

    The same readers throughout. Called is a share that is not 1/K at q < .05 over all concepts and groups.
    """
    rng = np.random.default_rng([23, groups, concepts])
    called: dict[str, list[bool]] = {"corrected": [], "raw, unreadable images dropped": []}
    for _ in range(n):
        rows = confusion(rng, np.full(groups, 0.12))
        labelled = [rng.multinomial(known, row) for row in rows]
        drawn = [rng.multinomial(size, rows.mean(axis=0)) for _ in range(concepts)]
        if not corrected_shares(drawn[0], labelled).identified:
            called["corrected"].append(False)
        else:
            p = np.concatenate([share_p_values(answers, labelled, 1 / groups) for answers in drawn])
            called["corrected"].append(bool((benjamini_hochberg(p) < 0.05).any()))
        read = [(int(count), int(answers[:-1].sum())) for answers in drawn for count in answers[:-1]]
        p = np.array([stats.binomtest(count, all_read, 1 / groups).pvalue for count, all_read in read])
        called["raw, unreadable images dropped"].append(bool((benjamini_hochberg(p) < 0.05).any()))
    setting = f"{WORDS_OF[groups]} groups, equal; {concepts} concepts of {size} images, {known} labelled a group"
    return [Found("reader-parity", which, setting, 0.05, float(np.mean(each)), n) for which, each in called.items()]


def shares_by_both(n: int, population: str, size: int, rated: int) -> list[Found]:
    """Coverage of shares by a reader's answers to all images and people's ratings of some, all groups at once.

    People see what is there, and in a tenth of the images none of the groups. The reader errs as everywhere here.
    """
    rng = np.random.default_rng(22)
    shares, unreadable = POPULATIONS[population]
    k = len(shares)
    together, each, called = [], [], []
    for _ in range(n):
        rows = np.vstack([confusion(rng, unreadable), np.full(k + 1, 1 / (k + 1))])
        seen = np.where(rng.random(size) < 0.1, k, rng.choice(k, size, p=shares))
        read = (rng.random(size)[:, None] > rows[seen].cumsum(axis=1)).sum(axis=1)
        found = rated_group_shares(seen[:rated], read[:rated], read[rated:], groups=k)
        held = [share.low - CERTAIN <= truth <= share.high + CERTAIN
                for share, truth in zip(found.shares, shares, strict=True)]  # fmt: skip
        together.append(all(held))
        each.append(np.mean(held))
        called.append(found.decided.any())
    setting = f"{population}; {size} images, {rated} rated"
    found_rates = [
        Found("reader-rated", "all groups hold at once", setting, 0.95, float(np.mean(together)), n),
        Found("reader-rated", "a group holds, on average", setting, 0.95, float(np.mean(each)), n),
    ]
    if np.allclose(shares, 1 / k):
        found_rates.append(Found("reader-rated", "called at parity", setting, 0.05, float(np.mean(called)), n))
    return found_rates


# --- the check of the reader -----------------------------------------------------------------------------------------

DIM: Final = 64
WORDS: Final = 10

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Images of a and of b (prompts × images × dim), words of a and of b (words × dim)."""


def _scatter(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=(*shape, DIM))


def nothing(rng: np.random.Generator, prompts: int, images: int) -> Parts:
    """Every vector is noise."""
    return (*_scatter(rng, 2, prompts, images), *_scatter(rng, 2, WORDS))


def one_group(rng: np.random.Generator, prompts: int, images: int) -> Parts:
    """Noise around one direction for all images: each reads as the same group."""
    a, b, *words = nothing(rng, prompts, images)
    shift = 2 * _scatter(rng)
    return a + shift, b + shift, words[0], words[1]


def texts_alike(rng: np.random.Generator, prompts: int, images: int) -> Parts:
    """The same, and noise around another for all texts."""
    a, b, *words = one_group(rng, prompts, images)
    shift = 2 * _scatter(rng)
    return a, b, words[0] + shift, words[1] + shift


def by_prompt(rng: np.random.Generator, prompts: int, images: int) -> Parts:
    """Images resemble those of their prompt, and a prompt's group means nothing."""
    a, b, *words = nothing(rng, prompts, images)
    return a + 2 * _scatter(rng, prompts, 1), b + 2 * _scatter(rng, prompts, 1), words[0], words[1]


def words_mean_nothing(rng: np.random.Generator, prompts: int, images: int) -> Parts:
    """The images of the groups differ clearly; the words are noise."""
    a, b, *words = nothing(rng, prompts, images)
    apart = 0.6 * _scatter(rng)
    return a + apart, b - apart, words[0], words[1]


def images_mean_nothing(rng: np.random.Generator, prompts: int, images: int) -> Parts:
    """The words of the groups differ clearly; images are noise, prompt by prompt."""
    a, b, *_ = by_prompt(rng, prompts, images)
    apart = _scatter(rng)
    return a, b, _scatter(rng, WORDS) + apart, _scatter(rng, WORDS) - apart


NOISE: Final[dict[str, Callable[..., Parts]]] = {
    "noise": nothing,
    "noise, images to one side": one_group,
    "noise, images and texts to one side": texts_alike,
    "noise by prompt": by_prompt,
    "images differ, words are noise": words_mean_nothing,
    "words differ, images are noise by prompt": images_mean_nothing,
}


def able(rng: np.random.Generator, prompts: int, images: int, rate: float, scatter: float = 0.0) -> Parts:
    """An encoder that reads an image right with the probability ``rate``; prompts scatter, in units of the images."""
    apart = _scatter(rng)
    words = _scatter(rng, 2, WORDS) + np.stack([apart, -apart])[:, None]
    towards = words[0].mean(axis=0) - words[1].mean(axis=0)
    towards /= np.linalg.norm(towards)
    within = 1 / np.sqrt(1 + scatter**2)
    a, b = within * (_scatter(rng, 2, prompts, images) + scatter * _scatter(rng, 2, prompts, 1))
    shift = stats.norm.ppf(rate) * towards
    return a + shift, b - shift, words[0], words[1]


def _reads(parts: Parts, texts: bool, paired: bool) -> bool:
    """Put one made-up encoder through the check."""
    a, b, *words = parts
    pairs = tuple(f"pair {k}" for k in range(len(a))) if paired else (None,) * len(a)
    design = Design((TargetDesign("x", "c"),), ("a", "b"), "a", "b", pairs={"a": pairs, "b": pairs})
    encoder = EncoderEmbeddings(
        encoder="made up",
        target_images=(np.ones((1, DIM)),),
        target_texts=np.ones((1, DIM)) if texts else None,
        group_images={"a": tuple(a), "b": tuple(b)},
        group_words={"a": words[0], "b": words[1]} if texts else None,
    )
    return reader_checks([encoder], design)["mean"].reads


def believed(n: int, made_up: str, prompts: int, images: int, texts: bool = True) -> list[Found]:
    """How often an encoder that knows nothing passes the check."""
    rng = np.random.default_rng([31, len(made_up), prompts, images, texts])
    passed = [_reads(NOISE[made_up](rng, prompts, images), texts, paired=True) for _ in range(n)]
    what = f"{made_up}{'' if texts else ', no text tower'}"
    return [Found("reader-believed", what, _design(prompts, images), 0.01, float(np.mean(passed)), n)]


def refused(n: int, rate: float, prompts: int, images: int, scatter: float = 0.0, texts: bool = True) -> list[Found]:
    """How often an encoder that reads right so often is refused."""
    rng = np.random.default_rng([32, round(100 * rate), prompts, images, round(10 * scatter), texts])
    passed = [_reads(able(rng, prompts, images, rate, scatter), texts, paired=True) for _ in range(n)]
    what = f"{rate:.0%} read right" + (f", prompts scatter by {scatter:g}" if scatter else "")
    what += "" if texts else ", no text tower"
    return [Found("reader-refused", what, _design(prompts, images), 0.01, 1 - float(np.mean(passed)), n)]


def _design(prompts: int, images: int) -> str:
    return f"{prompts} + {prompts} prompts of {images} image{'s' if images > 1 else ''}"


DESIGNS: Final = ((4, 2), (4, 4), (4, 16), (2, 8), (1, 16))


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((few_labelled, 300, {"known": known}) for known in (8, 16, 32, 64)),
        *((corrected_intervals, 1, {"size": size, "known": known, "reads": reads})
          for reads in ((0.7, 0.7), (0.8, 0.8), (0.9, 0.9), (0.95, 0.95), (1.0, 1.0), (0.7, 1.0))
          for known in (16, 64) for size in (8, 20, 100)),
        *((corrected_groups, 400 if len(shares) == 6 else 250, {"population": name, "size": 100, "known": 64})
          for name, (shares, _) in POPULATIONS.items()),
        *((called_at_parity, 100, {"groups": groups, "size": 100, "known": 64, "concepts": concepts})
          for groups, concepts in ((2, 1), (3, 1), (6, 1), (2, 5), (3, 5))),
        *((shares_by_both, 400, {"population": name, "size": 300, "rated": rated})
          for name in POPULATIONS for rated in (30, 100)),
        *((believed, 1_000, {"made_up": name, "prompts": prompts, "images": images})
          for name in NOISE for prompts, images in DESIGNS),
        *((believed, 1_000, {"made_up": name, "prompts": 4, "images": images, "texts": False})
          for name in ("noise", "noise, images to one side", "noise by prompt") for images in (2, 16)),
        *((refused, 500, {"rate": rate, "prompts": prompts, "images": images})
          for rate in (0.8, 0.9) for prompts, images in ((4, 2), (4, 4), (4, 8), (4, 16), (2, 16), (1, 32))),
        *((refused, 500, {"rate": rate, "prompts": 4, "images": 16, "scatter": 0.5}) for rate in (0.8, 0.9)),
        *((refused, 500, {"rate": rate, "prompts": 4, "images": 16, "texts": False}) for rate in (0.8, 0.9)),
    ]  # fmt: skip
