"""May a reader's errors be carried over, and do shares that are quoted hold? Few labels, other kinds, contexts.

Experiments for benchmarks/simulations.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import expit, logit, xlogy

from benchmarks.rates import Experiment, Found
from clinometer.metrics.transport import ReadPictures, transport
from clinometer.stats.confusion import (
    MISFIT_LEVEL,
    Kinds,
    _raised,
    corrected_shares,
    mixture_deviance,
    share_p_values,
)


def few_labelled(n: int, labelled: tuple[int, int], reads: tuple[float, float]) -> list[Found]:
    """Coverage of two groups' share among the studies that give an interval, exactly: the least over what is asked.

    Every table of labelled images and every count of answers is enumerated, with its chance.
    """
    m, right = np.array(labelled, float), np.array([reads[0], 1 - reads[1]])
    first, second = (axis.ravel() for axis in np.meshgrid(*(np.arange(size + 1) for size in labelled), indexing="ij"))
    chance = stats.binom.pmf(first, m[0], right[0]) * stats.binom.pmf(second, m[1], right[1])
    tables = np.stack([np.stack([first, m[0] - first], 1), np.stack([second, m[1] - second], 1)], axis=1)
    able = np.array(
        [w > 1e-8 and _gives_shares(np.pad(t, ((0, 0), (0, 1)))) for w, t in zip(chance, tables, strict=True)]
    )
    first, second, chance, tables = (each[able] for each in (first, second, chance, tables))
    held = []
    for size in SIZES:
        most = stats.chi2.ppf(0.95, 1) * np.array([_raised(t, size, 0.95) for t in tables])
        answers = np.arange(size + 1.0)
        for share in SHARES:
            fallen = two_group_ratio(answers, size, first[:, None], m[0], second[:, None], m[1], share)
            read = stats.binom.pmf(answers, size, share * right[0] + (1 - share) * right[1])
            held.append(float(chance @ (fallen <= most[:, None]) @ read / chance.sum()))
    setting = f"{labelled[0]}, {labelled[1]} labelled; {reads[0]:.0%}, {reads[1]:.0%} read right"
    return [
        Found("transport-few", "holds the share, least over shares and sizes", setting, 0.94, min(held), 0),
        Found("transport-few", "has an interval", setting, nan, float(chance.sum()), 0),
    ]


SHARES: Final = (0.1, 0.2, 0.5, 0.8, 0.9)
SIZES: Final = (20, 60, 200)


def two_group_ratio(
    y: ArrayLike, n: ArrayLike, x1: ArrayLike, m1: ArrayLike, x2: ArrayLike, m2: ArrayLike, share: ArrayLike
) -> np.ndarray:
    """2 (ℓ(π̂, M̂) − max ℓ(π, M)) of two groups, ``y`` of ``n`` answered as the first and x of m of each; all read.

    The greatest ℓ is known in closed form: rates as counted where the answers lie between them, else one group alone.
    At a given π it is found by its Lagrange multiplier λ: with rates a and b, y/p − (n − y)/(1 − p) = −λ at
    p = π a + (1 − π) b, and x₁/a − (m₁ − x₁)/(1 − a) = π λ, b alike. So it does without the likelihood's maximisers.
    """
    y, n, x1, m1, x2, m2, share = np.broadcast_arrays(*(np.asarray(v, float) for v in (y, n, x1, m1, x2, m2, share)))

    def likelihood(*rates: np.ndarray) -> np.ndarray:
        counts = ((y, n), (x1, m1), (x2, m2))
        return sum(xlogy(x, rate) + xlogy(m - x, 1 - rate) for (x, m), rate in zip(counts, rates, strict=True))

    def rate(x: np.ndarray, m: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Solve x/a − (m − x)/(1 − a) = slope for a."""
        plus = slope + m
        root = np.sqrt(np.maximum(plus**2 - 4 * slope * x, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            solved = np.where(plus > 0, 2 * x / (plus + root), (plus - root) / (2 * slope))
        return np.clip(solved, 0, 1)

    p, a, b = y / n, x1 / m1, x2 / m2
    alone = [(y + x1) / (n + m1), (y + x2) / (n + m2)]
    at_ends = np.maximum(likelihood(alone[0], alone[0], b), likelihood(alone[1], a, alone[1]))
    between = (np.minimum(a, b) <= p) & (p <= np.maximum(a, b))
    best = np.where(between, likelihood(p, a, b), at_ends)
    low, high = np.full(p.shape, -1e7), np.full(p.shape, 1e7)
    for _ in range(80):
        middle = (low + high) / 2
        a, b = rate(x1, m1, middle * share), rate(x2, m2, middle * (1 - share))
        below = rate(y, n, -middle) < share * a + (1 - share) * b
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.maximum(2 * (best - likelihood(share * a + (1 - share) * b, a, b)), 0.0)


def three_groups(n: int, labelled: int, size: int) -> list[Found]:
    """The same of three groups, drawn: 90, 80 and 80 of 100 are read right."""
    rng = np.random.default_rng([24, labelled, size])
    rows = np.array([np.insert(np.full(2, (1 - right) / 2), g, right) for g, right in enumerate((0.9, 0.8, 0.8))])
    held, given = [], []
    for share in (0.2, 0.5, 0.8):
        shares = np.array([share, (1 - share) / 2, (1 - share) / 2])
        mine = []
        for _ in range(n):
            known = [[*rng.multinomial(labelled, row), 0] for row in rows]
            answers = [*rng.multinomial(size, shares @ rows), 0]
            if _gives_shares(known):
                mine.append(_holds(answers, known, share))
        held.append(float(np.mean(mine)))
        given.append(len(mine) / n)
    setting = f"three groups, {labelled} labelled each; {size} images"
    return [
        Found("transport-few", "holds the share, least over shares", setting, 0.95, min(held), n),
        Found("transport-few", "has an interval", setting, nan, float(np.mean(given)), n, 0.5),
    ]


def _gives_shares(known: ArrayLike) -> bool:
    """Tell whether labelled images allow a corrected share, without computing one."""
    nobody = np.zeros(np.shape(known)[-1])
    return corrected_shares(nobody, known).reason == "no image was read"


def _holds(answers: ArrayLike, known: ArrayLike, share: float, kinds: Kinds | None = None) -> bool:
    """Tell whether the interval of the first group holds a share: the test of it is dual to the interval."""
    return bool(share_p_values(answers, known, share, kinds=kinds)[0] >= 0.05)


@dataclass(frozen=True)
class Kind:
    """Pictures of one kind: rates at which groups are read right and unread, how sure the reader, how large a face."""

    right: np.ndarray
    unread: np.ndarray
    sure: float = 2.0
    size: float = 0.0

    def vary(self, rng: np.random.Generator, sd: float) -> Kind:
        """Draw another context: rates move in logits, sizes in logarithms."""
        moved = (expit(logit(rates) + sd * rng.normal(size=len(rates))) for rates in (self.right, self.unread))
        return Kind(*moved, self.sure + sd * rng.normal() / 2, self.size + sd * rng.normal() / 2)

    def draw(self, rng: np.random.Generator, truths: np.ndarray, context: str = "") -> ReadPictures:
        """Read pictures of these groups; the reader is less sure where it errs."""
        wrong = rng.random(len(truths)) > self.right[truths]
        unread = rng.random(len(truths)) < self.unread[truths]
        sure = expit(self.sure + rng.normal(size=len(truths)) - 1.5 * wrong)
        face = np.exp(self.size + 0.5 * rng.normal(size=len(truths)))
        answers = np.where(unread, 2, np.where(wrong, 1 - truths, truths))
        return ReadPictures(
            answers, np.where(unread, nan, 0.5 + sure / 2), np.where(unread, nan, face),
            contexts=np.full(len(truths), context),
        )  # fmt: skip


USUAL: Final = Kind(np.array([0.95, 0.8]), np.array([0.3, 0.2]))

OTHER_KINDS: Final = {
    "alike": USUAL,
    "faces half as large": replace(USUAL, size=-np.log(2)),
    "less sure, by one standard deviation": replace(USUAL, sure=1.0),
    "unread twice as often": replace(USUAL, unread=2 * USUAL.unread),
    "group two read right in 60 %, else alike": replace(USUAL, right=np.array([0.95, 0.6])),
}
"""What is known, of which the asked are the usual kind: portraits of another world, say."""


def _join(parts: list[ReadPictures]) -> ReadPictures:
    return ReadPictures(*(
        np.concatenate([getattr(each, name) for each in parts]) for name in ("answers", "confidence", "size")
    ), contexts=np.concatenate([each.contexts for each in parts]))  # fmt: skip


def transport_called(n: int, kind: str, known: int, asked: int) -> list[Found]:
    """How often pictures are called unlike, and like; the composition differs (half known, .8 asked)."""
    rng = np.random.default_rng([25, len(kind), known, asked])
    called = []
    for _ in range(n):
        truths, own = np.repeat([0, 1], known), (rng.random(asked) > 0.8).astype(int)
        pictures = OTHER_KINDS[kind].draw(rng, truths)
        called.append(transport(USUAL.draw(rng, own), pictures, truths, groups=2).answer)
    setting = f"{kind}; {known} known a group, {asked} asked"
    return [
        Found("transport-called", f"called {answer}", setting, 0.01 if (kind, answer) == ("alike", "unlike") else nan,
              called.count(answer) / n, n, None if (kind, answer) == ("alike", "unlike") else 0.5)
        for answer in ("unlike", "like")
    ]  # fmt: skip


LOOKS: Final = {
    "look alike": (0.3, 0.3, (0.95, 0.8), (0.95, 0.8)),
    "look alike, one look misread": (0.3, 0.3, (0.98, 0.9), (0.85, 0.5)),
    "look different, read alike": (0.2, 0.8, (0.95, 0.8), (0.95, 0.8)),
    "look different, one look misread": (0.2, 0.8, (0.98, 0.9), (0.85, 0.5)),
    "of a look that no known one has, read alike": (0.0, 1.0, (0.95, 0.8), (0.95, 0.8)),
}
"""Share of the second of two looks among the known and the asked, and how often the groups are read right in each."""


def looks_called(n: int, kind: str, known: tuple[int, int], asked: int, dim: int = 64) -> list[Found]:
    """How often pictures are called unlike by vectors: of two looks, and groups that look different, too.

    The reader shows nothing besides its answers, and leaves one in five unread. Of the asked .8 are of the first group,
    and ``known`` of each.
    """
    rng = np.random.default_rng([28, list(LOOKS).index(kind), *known, asked])
    of_known, of_asked, *right = LOOKS[kind]
    towards, called = rng.normal(size=(2, dim)) / np.sqrt(dim), []

    def draw(truths: np.ndarray, share: float) -> ReadPictures:
        look = (rng.random(len(truths)) < share).astype(int)
        wrong = rng.random(len(truths)) > np.array(right)[look, truths]
        unread = rng.random(len(truths)) < 0.2
        own = 3 * towards[0] * look[:, None] + 2 * towards[1] * truths[:, None]
        vectors = 1 + own + rng.normal(size=(len(truths), dim)) / np.sqrt(dim) * 2
        return ReadPictures(np.where(unread, 2, np.where(wrong, 1 - truths, truths)), vectors=vectors)

    truths = np.repeat([0, 1], known)
    for _ in range(n):
        pictures = draw((rng.random(asked) > 0.8).astype(int), of_asked)
        called.append(transport(pictures, draw(truths, of_known), truths, groups=2).answer)
    setting = f"{kind}; {known[0]} and {known[1]} known, {asked} asked"
    alike = kind != "look different, one look misread"
    return [
        Found("transport-looks", "called unlike", setting, 0.01 if alike else nan, called.count("unlike") / n, n,
              None if alike else 0.5),
        Found("transport-looks", "called like", setting, nan, called.count("like") / n, n, 0.5),
    ]  # fmt: skip


def shares_over_contexts(n: int, sd: float, contexts: int, known: int, asked: int) -> list[Found]:
    """Coverage of the share among the read where errors vary by context, carried and not, and how much is withheld."""
    rng = np.random.default_rng([26, round(10 * sd), contexts, known, asked])
    held, pooled, quoted = [], [], 0
    for _ in range(n):
        truths = np.repeat([0, 1], known)
        parts = [USUAL.vary(rng, sd).draw(rng, truths, str(c)) for c in range(contexts)]
        here, own = USUAL.vary(rng, sd), (rng.random(asked) > 0.7).astype(int)
        read = np.array([0.7, 0.3]) * (1 - here.unread)
        truth = float(read[0] / read.sum())
        pictures, every = here.draw(rng, own), np.tile(truths, contexts)
        tables = np.zeros((contexts, 2, 3), int)
        for table, part in zip(tables, parts, strict=True):
            np.add.at(table, (truths, part.answers), 1)
        if not _gives_shares(tables):
            continue
        answers = pictures.counts(2)
        pooled.append(_holds(answers, tables.sum(axis=0), truth))
        misfit = stats.chi2.sf(mixture_deviance(answers, tables)[0], 2)
        if misfit >= MISFIT_LEVEL and transport(pictures, _join(parts), every, groups=2).answer != "unlike":
            quoted += 1
            held.append(_holds(answers, tables, truth))
    setting = f"logits vary by {sd:g}; {contexts} contexts of {known} a group, {asked} asked"
    return [
        Found("transport-contexts", "quoted, holds the share", setting, 0.95, float(np.mean(held)), quoted),
        Found(
            "transport-contexts",
            "as if of one kind, holds the share",
            setting,
            0.95,
            float(np.mean(pooled)),
            len(pooled),
        ),
        Found("transport-contexts", "is quoted", setting, nan, quoted / n, n, 0.5),
    ]


def shares_over_respects(n: int, models: int, spreads: tuple[float, float, float], asked: str) -> list[Found]:
    """Coverage of a share where errors vary by model, by concept and by both: another model, known concepts.

    Of the known models every concept has five pictures a group; ``asked`` are 20 pictures of one concept or 20 of each.
    """
    rng = np.random.default_rng([27, models, *(round(10 * sd) for sd in spreads), len(asked)])
    concepts, known = 5, 5
    held, as_cells, share = [], [], 0.7
    names = np.array([(f"model {m}", f"concept {c}") for m in range(models) for c in range(concepts)])
    own = names[: 1 if asked == "one concept" else concepts].copy()
    own[:, 0] = "another model"
    for _ in range(n):
        by_model, by_concept, by_both = (
            sd * rng.normal(size=shape)
            for sd, shape in zip(
                spreads, ((models + 1, 1, 2), (1, concepts, 2), (models + 1, concepts, 2)), strict=True
            )
        )
        right = expit(logit(USUAL.right) + by_model + by_concept + by_both)
        as_first = np.stack([right[..., 0], 1 - right[..., 1]], axis=-1)
        counts = rng.binomial(known, as_first[:models].reshape(-1, 2))
        tables = np.stack([counts, known - counts, np.zeros_like(counts)], axis=-1)
        first = rng.binomial(20, as_first[models, : len(own)] @ [share, 1 - share])
        answers = [first.sum(), 20 * len(own) - first.sum(), 0]
        if not _gives_shares(tables):
            continue
        held.append(_holds(answers, tables, share, Kinds(names, np.repeat(own, 20, axis=0))))
        as_cells.append(_holds(answers, tables, share))
    varies = ", ".join(
        f"{sd:g} by {what}" for sd, what in zip(spreads, ("model", "concept", "both"), strict=True) if sd
    )
    setting = f"logits vary by {varies or '0'}; {models} known models, {asked} asked of another"
    return [
        Found("transport-respects", "holds the share", setting, 0.95, float(np.mean(held)), len(held)),
        Found("transport-respects", "as if of one respect, holds the share", setting, 0.95, float(np.mean(as_cells)),
              len(held)),
    ]  # fmt: skip


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((few_labelled, 1, {"labelled": labelled, "reads": reads})
          for labelled in ((5, 5), (8, 8), (16, 16), (32, 32), (8, 32), (16, 64))
          for reads in ((0.95, 0.95), (0.8, 0.8), (0.7, 0.7), (0.6, 0.6), (0.5, 0.55), (0.95, 0.75), (0.98, 0.67),
                        (0.2, 0.9))),
        *((three_groups, 400, {"labelled": m, "size": size}) for m in (8, 16) for size in (20, 100)),
        *((shares_over_respects, 400, {"models": models, "spreads": spreads, "asked": asked})
          for spreads in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.5, 0.5)) for models in (2, 4)
          for asked in ("one concept", "all concepts")),
        *((transport_called, 400, {"kind": kind, "known": known, "asked": asked})
          for kind in OTHER_KINDS for known, asked in ((20, 20), (100, 20), (100, 100))),
        *((looks_called, 400, {"kind": kind, "known": known, "asked": asked})
          for kind in LOOKS for known, asked in (((20, 20), 20), ((100, 30), 30), ((100, 100), 100))),
        *((shares_over_contexts, 400, {"sd": sd, "contexts": contexts, "known": 20, "asked": asked})
          for sd in (0.0, 0.5, 1.0) for contexts in (2, 4, 8) for asked in (30, 100)),
    ]  # fmt: skip
