"""A declared standard: differences from it, and the line of shares over it, where the truth is known.

Concepts have a true reference share ρ (log odds scattered by 1.2, or in two heaps), of which people are counted, and a
model has the share π with logit π = α + β logit ρ + N(0, σ²). Pictures are drawn from π and counted, or answered by a
reader whose errors are known from labelled pictures; everything is asked of the rows that a run has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nan

import numpy as np
from scipy.special import expit, softmax

from benchmarks.rates import Experiment, Found
from clinometer.metrics import Score
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, reading_rows
from clinometer.metrics.standard import ReferenceShare, SourceShares, difference_rows, line_rows
from clinometer.metrics.verdict import LEANING
from clinometer.stats.proportion import exact_share

GROUPS = ("a", "b", "c")
READERS = {
    "counted": None,
    "reader .95/.85": ((0.95, 0.05), (0.15, 0.85)),
    "reader .9/.8": ((0.9, 0.1), (0.2, 0.8)),
    "reader of three": ((0.9, 0.06, 0.04), (0.05, 0.85, 0.1), (0.08, 0.12, 0.8)),
}
"""What each reader answers to pictures of each group."""

Study = tuple[SourceShares, dict[tuple[str, str], ReferenceShare]]
"""The shares of a study, and the standard."""


@dataclass(frozen=True)
class World:
    """What is drawn: ``people`` counted for each reference share, ``labelled`` pictures of each group."""

    concepts: int
    images: int
    people: float
    slope: float = 1.0
    tilt: float = 0.0
    scatter: float = 0.5
    reader: str = "counted"
    groups: int = 2
    heaps: bool = False
    labelled: int = 60

    def __str__(self) -> str:
        exact = "exact" if self.people == inf else f"of {self.people:,.0f}"
        read = self.reader + (f", {self.labelled} labelled a group" if self.reader != "counted" else "")
        return (
            f"{self.concepts} concepts, {self.images} images, {self.groups} groups, reference {exact}, "
            f"β {self.slope:g}, α {self.tilt:g}, σ {self.scatter:g}{', two heaps' if self.heaps else ''}; {read}"
        )

    def draw(self, rng: np.random.Generator) -> tuple[Study, np.ndarray, np.ndarray, np.ndarray]:
        """Draw a study: what is known, the true references and shares (concepts × groups), and the shares as drawn."""
        k = self.groups
        if k == 2:
            heap = rng.random(self.concepts) < 0.4
            spread = np.where(heap, rng.normal(-2, 0.5, self.concepts), rng.normal(1.2, 0.7, self.concepts))
            odds = spread if self.heaps else rng.normal(0, 1.2, self.concepts)
            rho = np.column_stack([expit(odds), expit(-odds)])
            own = expit(self.tilt + self.slope * odds + rng.normal(0, self.scatter, self.concepts))
            pi = np.column_stack([own, 1 - own])
        else:
            odds = rng.normal(0, 1, (self.concepts, k))
            rho = softmax(odds, axis=1)
            pi = softmax(self.slope * odds + rng.normal(0, self.scatter, (self.concepts, k)), axis=1)
        people = rho if self.people == inf else np.array([rng.multinomial(int(self.people), r) for r in rho])
        reference = people / people.sum(axis=1, keepdims=True)
        standard = {
            (f"concept {c}", GROUPS[g]): ReferenceShare(float(reference[c, g]), self.people)
            for c in range(self.concepts)
            for g in range(k)
        }
        shown = np.array([rng.multinomial(self.images, p) for p in pi])
        errors = READERS[self.reader]
        held = self._counted(shown) if errors is None else self._read(rng, shown, np.array(errors))
        return (held, standard), rho, pi, shown / self.images

    def _counted(self, shown: np.ndarray) -> SourceShares:
        rows = []
        for (c, g), count in np.ndenumerate(shown):
            found = exact_share(int(count), self.images, 1 / self.groups)
            rows.append(
                Score(metric="share", component="share", concept=f"concept {c}", group=GROUPS[g], encoder="",
                      value=found.value, low=found.low, high=found.high, n_target=self.images)
            )  # fmt: skip
        counts = {(f"concept {c}", ""): each for c, each in enumerate(shown)}
        return SourceShares(rows, GROUPS[: self.groups], counts)

    def _read(self, rng: np.random.Generator, shown: np.ndarray, errors: np.ndarray) -> SourceShares:
        known = np.array([rng.multinomial(self.labelled, row) for row in errors])
        answers = np.array(
            [sum(rng.multinomial(n, row) for n, row in zip(each, errors, strict=True)) for each in shown]
        )
        nobody = np.zeros((self.groups, 1), int)
        asked = AnsweredQuestion(
            "r", "q", GROUPS[: self.groups],
            tuple(ConceptAnswers(f"concept {c}", "", np.append(each, 0)) for c, each in enumerate(answers)),
            np.hstack([known, nobody]), "labelled",
        )  # fmt: skip
        rows = [row for row in reading_rows([asked]) if row.component == "corrected_share"]
        counts = {(f"concept {c}", "q"): each for c, each in enumerate(answers)}
        return SourceShares(rows, asked.groups, counts, known)


def differences(n: int, world: World) -> list[Found]:
    """Intervals of differences that hold the truth; and where shares are the reference, whether any is called."""
    held, called = [], []
    same = world.slope == 1 and not (world.tilt or world.scatter)
    for study in range(n):
        rng = np.random.default_rng([191, study, world.images, world.concepts])
        known, rho, pi, _ = world.draw(rng)
        own = [row for row in difference_rows(*known) if row.component == "difference"]
        true = {(f"concept {c}", GROUPS[g]): pi[c, g] - rho[c, g] for c, g in np.ndindex(*pi.shape)}
        inside = [row.low <= true[row.concept, row.group] <= row.high for row in own if isfinite(row.value)]
        held.append(np.mean(inside) if inside else nan)
        called.append(any(row.verdict in LEANING for row in own))
    found = [
        Found("standard-coverage", "difference from the standard", str(world), 0.95, float(np.nanmean(held)), n,
              float(np.nanstd(held, ddof=1)))
    ]  # fmt: skip
    if same:
        what = "any concept called where shares are the standard"
        found.append(Found("standard-level", what, str(world), 0.05, float(np.mean(called)), n))
    elif np.mean(called) < 1 or world.slope == 1:
        found.append(Found("standard-power", "any concept called", str(world), nan, float(np.mean(called)), n, 0.5))
    return found


def lines(n: int, world: World) -> list[Found]:
    """Intervals of slope and tilt that hold the truth, the slope's bias, and the correlation that noise attenuates."""
    held, slopes, wrong, r, r_true = [], [], [], [], []
    for study in range(n):
        rng = np.random.default_rng([193, study, world.images, world.concepts])
        known, rho, pi, seen = world.draw(rng)
        by = {(row.component, row.group): row for row in line_rows(*known)}
        slope, tilt = by["slope", "a"], by["tilt", "a"]
        r.append(np.corrcoef(rho[:, 0], seen[:, 0])[0, 1])
        r_true.append(np.corrcoef(rho[:, 0], pi[:, 0])[0, 1])
        if not isfinite(slope.value):
            continue
        held.append((slope.low <= world.slope <= slope.high, tilt.low <= world.tilt <= tilt.high))
        slopes.append(slope.value - world.slope)
        wrong.append(slope.p <= 0.05)
    counted, setting = len(held), str(world)
    return [
        Found("standard-line-coverage", "slope", setting, 0.95, float(np.mean([one for one, _ in held])), counted),
        Found("standard-line-coverage", "tilt", setting, 0.95, float(np.mean([two for _, two in held])), counted),
        Found("standard-line-bias", "mean of the slope less the truth", setting, nan, float(np.mean(slopes)), counted,
              float(np.std(slopes, ddof=1))),
        Found("standard-line-r", "correlation of shares as drawn, less that of the true shares", setting, nan,
              float(np.mean(r) - np.mean(r_true)), n, float(np.std(np.array(r) - r_true, ddof=1))),
        Found("standard-line-level" if world.slope == 1 else "standard-line-power", "slope called other than 1",
              setting, 0.05 if world.slope == 1 else nan, float(np.mean(wrong)), counted,
              None if world.slope == 1 else 0.5),
    ]  # fmt: skip


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    same = {"scatter": 0.0}
    return [
        *((differences, 400, {"world": World(12, images, people, reader="counted", **kind)})
          for images in (10, 20, 60, 200) for people in (500, 50_000, inf) for kind in (same, {})),
        *((differences, 60, {"world": World(8, images, people, reader=reader, **kind)})
          for images in (20, 60) for people in (500, 50_000) for reader in ("reader .95/.85", "reader .9/.8")
          for kind in (same, {})),
        *((differences, 40, {"world": World(6, 60, people, reader=reader, groups=3, **kind)})
          for people in (500, 50_000) for reader in ("counted", "reader of three") for kind in (same, {})),
        *((lines, 120, {"world": World(concepts, images, people, slope=slope, tilt=tilt, heaps=heaps)})
          for concepts, sizes in ((8, (20, 60)), (30, (20,))) for images in sizes for people in (500, 50_000)
          for slope, tilt, heaps in ((1.0, 0.0, False), (1.6, 0.4, True))),
        *((lines, 120, {"world": World(30, 20, 20, slope=slope)}) for slope in (0.0, 1.0)),
        *((lines, 40, {"world": World(20, images, 500, slope=slope, reader="reader .9/.8")})
          for images in (20, 60) for slope in (1.0, 1.6)),
        (lines, 20, {"world": World(16, 60, 500, slope=1.5, reader="reader of three", groups=3)}),
    ]  # fmt: skip
