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
from scipy.special import expit, logit

from benchmarks.rates import Experiment, Found
from clinometer.metrics.transport import ReadPictures, transport
from clinometer.stats.confusion import MISFIT_LEVEL, corrected_shares, mixture_deviance, share_p_values


def few_labelled(n: int, labelled: tuple[int, ...], reads: tuple[float, ...], size: int) -> list[Found]:
    """Coverage among the studies that give an interval, by how many labelled images; the least over shares."""
    rng = np.random.default_rng([24, *labelled, size])
    k = len(reads)
    held, given = [], []
    for share in (0.2, 0.5, 0.8):
        shares = np.append(share, np.full(k - 1, (1 - share) / (k - 1)))
        rows = np.array([np.insert(np.full(k - 1, (1 - right) / (k - 1)), g, right) for g, right in enumerate(reads)])
        mine = []
        for _ in range(n):
            known = [[*rng.multinomial(m, row), 0] for m, row in zip(labelled, rows, strict=True)]
            answers = [*rng.multinomial(size, shares @ rows), 0]
            if _gives_shares(known):
                mine.append(_holds(answers, known, share))
        held.append(float(np.mean(mine)))
        given.append(len(mine) / n)
    right = ", ".join(f"{rate:.0%}" for rate in reads)
    setting = f"{size} images; {', '.join(map(str, labelled))} labelled; {right} read right"
    return [
        Found("transport-few", "holds the share, least over shares", setting, 0.95, min(held), n),
        Found("transport-few", "has an interval", setting, nan, float(np.mean(given)), n, 0.5),
    ]


def _gives_shares(known: ArrayLike) -> bool:
    """Tell whether labelled images allow a corrected share, without computing one."""
    nobody = np.zeros(np.shape(known)[-1])
    return corrected_shares(nobody, known).reason == "no image was read"


def _holds(answers: ArrayLike, known: ArrayLike, share: float) -> bool:
    """Tell whether the interval of the first group holds a share: the test of it is dual to the interval."""
    return bool(share_p_values(answers, known, share)[0] >= 0.05)


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


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((few_labelled, 400, {"labelled": labelled, "reads": reads, "size": size})
          for labelled, reads in (
              ((8, 8), (0.95, 0.75)), ((8, 8), (0.7, 0.7)), ((8, 30), (0.6, 0.9)), ((16, 16), (0.95, 0.75)),
              ((16, 16), (0.7, 0.7)), ((3, 20), (0.95, 0.75)), ((8, 8, 8), (0.9, 0.8, 0.8)),
              ((16, 16, 16), (0.9, 0.8, 0.8)))
          for size in (20, 100)),
        *((transport_called, 400, {"kind": kind, "known": known, "asked": asked})
          for kind in OTHER_KINDS for known, asked in ((20, 20), (100, 20), (100, 100))),
        *((shares_over_contexts, 400, {"sd": sd, "contexts": contexts, "known": 20, "asked": asked})
          for sd in (0.0, 0.5, 1.0) for contexts in (2, 4, 8) for asked in (30, 100)),
    ]  # fmt: skip
