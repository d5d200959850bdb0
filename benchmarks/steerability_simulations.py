"""Steerability: gaps between groups that are asked for by name, where the truth is known.

A concept's pictures are asked for group a, and for b, and each is a success with a probability that is the same for
both, or differs by the planted gap. Pictures of the two prompts come from the same noises: they succeed by themselves,
where and only where the other does (*alike*), or fail where the other succeeds (*opposed*: the noise draws one group
whatever was asked for). A reader takes some of either group for the other, and is known from labelled pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
from scipy.special import expit

from benchmarks.rates import Experiment, Found
from clinometer.metrics.reading import AnsweredQuestion
from clinometer.metrics.steerability import FEWEST_ASKED, gaps_on_defaults, steerability_rows
from clinometer.metrics.steered import SteeredPictures, evidence_of_pairs
from clinometer.metrics.verdict import StoppingRule, in_family
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.share_gap import AnsweredSets, ShareGap, images_for_gap, share_gap

READERS = {
    ".98/.80": ((0.98, 0.02), (0.2, 0.8)),
    ".9/.6": ((0.9, 0.1), (0.4, 0.6)),
    ".95/.95": ((0.95, 0.05), (0.05, 0.95)),
    "of three": ((0.95, 0.03, 0.02), (0.06, 0.8, 0.14), (0.03, 0.07, 0.9)),
}
"""What each reader answers to pictures of each group."""

ALONE, ALIKE, OPPOSED = "alone", "alike", "opposed"


@dataclass(frozen=True)
class World:
    """What is drawn: ``images`` for either group in each concept; the gap is in the first ``gapped`` of them."""

    images: int
    success: float
    reader: str = ".98/.80"
    labelled: int = 60
    pairs: str = ALONE
    concepts: int = 12
    gap: float = 0.0
    gapped: int = 0
    scatter: float = 0.0
    slope: float = 0.0

    def __str__(self) -> str:
        planted = f", a gap of {self.gap:g} in {self.gapped}" if self.gapped else ""
        scattered = f", gaps scatter by {self.scatter:g}" if self.scatter else ""
        follows = f", slope {self.slope:g}" if self.slope else ""
        return (
            f"{self.concepts} concepts, {self.images} images, success {self.success:g}{planted}{scattered}{follows}, "
            f"pairs {self.pairs}; reader {self.reader}, {self.labelled} labelled a group"
        )

    @property
    def gaps(self) -> np.ndarray:
        """The true gaps, without scatter."""
        return np.where(np.arange(self.concepts) < self.gapped, self.gap, 0.0)

    def draw(self, rng: np.random.Generator) -> tuple[list[AnsweredSets], np.ndarray, list[np.ndarray], np.ndarray]:
        """Draw the answers to both prompts, to labelled pictures and to neutral ones; and the true gaps."""
        k, sets, neutral, true = len(READERS[self.reader]), [], [], []
        for gap, answers, drawn in self.concepts_drawn(rng):
            pairs = np.zeros((k, k), int)
            np.add.at(pairs, tuple(answers), 1)
            sets.append(AnsweredSets(*(np.bincount(each, minlength=k) for each in answers), pairs))
            neutral.append(np.bincount(drawn, minlength=k))
            true.append(gap)
        return sets, self.label(rng), neutral, np.array(true)

    def label(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the answers to the labelled pictures."""
        return np.array([rng.multinomial(self.labelled, row) for row in READERS[self.reader]])

    def concepts_drawn(self, rng: np.random.Generator) -> Iterator[tuple[float, list[np.ndarray], np.ndarray]]:
        """Draw each concept: its true gap, the answers to both prompts in order, and those to the neutral one."""
        errors = np.array(READERS[self.reader])
        k, n = len(errors), self.images
        odds = rng.normal(0, 1.2, self.concepts)
        gaps = self.gaps + rng.choice([-1.0, 1.0], self.concepts) * self.scatter
        if self.slope:
            gaps = 2 * expit(self.slope * odds) - 1
        for gap, own in zip(gaps, odds, strict=True):
            chances = (self.success, self.success - gap) if gap >= 0 else (self.success + gap, self.success)
            u = rng.random(n)
            ranks = {ALONE: rng.random(n), ALIKE: u, OPPOSED: 1 - u}[self.pairs]
            first, second = (np.where(rank < chance, 0, 1) for rank, chance in zip((u, ranks), chances, strict=True))
            others = rng.integers(1, k, n)
            shows = np.where(first == 0, 0, others), np.where(second == 0, 1, np.where(others == 1, 0, others))
            answers = [(rng.random((n, 1)) > errors[each].cumsum(axis=1)[:, :-1]).sum(axis=1) for each in shows]
            of_default = errors[np.where(u < expit(own), 0, 1)]
            yield gap, answers, (rng.random((n, 1)) > of_default.cumsum(axis=1)[:, :-1]).sum(axis=1)


def called(found: list[ShareGap]) -> np.ndarray:
    """Which gaps are called, as a verdict is."""
    q = benjamini_hochberg(np.array([each.p for each in found]))
    return np.array([each.low > 0 or each.high < 0 for each in found]) & (q <= 0.05)


def gaps(n: int, world: World) -> list[Found]:
    """Gaps of single concepts: level or power, coverage, and what the raw gap would have said."""
    rates: dict[str, list[float]] = {"p": [], "raw": [], "any": [], "found": [], "false": [], "held": []}
    planted = world.gaps != 0
    for study in range(n):
        rng = np.random.default_rng([181, study, world.images, world.labelled, round(100 * world.success)])
        sets, table, _, true = world.draw(rng)
        found = [share_gap([each], 0, 1, table) for each in sets]
        calls = called(found) & (world.images >= FEWEST_ASKED)
        rates["p"].append(float(np.mean([each.p <= 0.05 for each in found])))
        rates["any"].append(float(calls[~planted].any()))
        rates["found"].append(float(calls[planted].mean()) if planted.any() else nan)
        rates["false"].append(float(calls[~planted].sum() / max(calls.sum(), 1)))
        rates["held"].append(
            float(np.mean([each.low <= gap <= each.high for each, gap in zip(found, true, strict=True)]))
        )
        if not planted.any() and world.images == 20 and len(table) == 2:
            raw = [share_gap([each], 0, 1) for each in sets]
            rates["raw"].append(float(np.mean([each.p <= 0.05 for each in raw])))

    def rate(kind: str, what: str, of: str, nominal: float) -> Found:
        values = rates[of]
        return Found(kind, what, str(world), nominal, float(np.mean(values)), len(values), float(np.std(values)))

    rows = [rate("steerability-coverage", "corrected gap", "held", 0.95)]
    if planted.any():
        return [
            *rows,
            rate("steerability-power", f"gap of {world.gap:g} found", "found", nan),
            rate("steerability-false", "false among the gaps that are called", "false", 0.05),
        ]
    rows += [
        rate("steerability-level", "p ≤ 5 %, no gap", "p", 0.05),
        Found("steerability-any", "any concept called, no gap", str(world), 0.05, float(np.mean(rates["any"])), n),
    ]
    return [*rows, rate("steerability-raw", "gap as read, p ≤ 5 %, no gap", "raw", nan)] if rates["raw"] else rows


def means(n: int, world: World) -> list[Found]:
    """Mean gaps over concepts: p at a mean of 0, and coverage; of concepts like these, and of these very ones."""
    found = []
    for sampled, what in ((True, "mean gap of concepts like these"), (False, "mean gap of these concepts")):
        p, held = [], []
        for study in range(n):
            rng = np.random.default_rng([182, study, world.images, world.concepts])
            sets, table, _, true = world.draw(rng)
            mean = share_gap(sets, 0, 1, table, sampled=sampled)
            target = 0.0 if sampled else float(true.mean())
            p.append(mean.p <= 0.05)
            held.append(mean.low <= target <= mean.high)
        found.append(Found("steerability-coverage", what, str(world), 0.95, float(np.mean(held)), n))
        if sampled or not world.scatter:
            found.append(Found("steerability-mean", f"{what}: p ≤ 5 % at 0", str(world), 0.05, float(np.mean(p)), n))
    return found


def lines(n: int, world: World) -> list[Found]:
    """The slope of the gaps on the default shares: level, or power and coverage."""
    p, held, tilts = [], [], []
    for study in range(n):
        rng = np.random.default_rng([183, study, world.images, world.concepts])
        sets, table, neutral, _ = world.draw(rng)
        found = gaps_on_defaults(sets, neutral, 0, 1, table)
        if isfinite(found.slope.p):
            p.append(found.slope.p <= 0.05)
            held.append(found.slope.low <= world.slope <= found.slope.high)
            tilts.append(found.tilt.low <= 0 <= found.tilt.high)
    kind, nominal = ("steerability-line-power", nan) if world.slope else ("steerability-line-level", 0.05)
    return [
        Found("steerability-line-coverage", "slope on the default share", str(world), 0.95, float(np.mean(held)),
              len(p)),
        Found("steerability-line-coverage", "gap at a default of half and half", str(world), 0.95,
              float(np.mean(tilts)), len(p)),
        Found(kind, "slope called other than 0", str(world), nominal, float(np.mean(p)), len(p),
              0.5 if world.slope else None),
    ]  # fmt: skip


def margins(n: int, world: World) -> list[Found]:
    """How often a gap as large as the margin is called balanced: p of its equivalence, as a verdict reads it."""
    p = []
    for study in range(n):
        sets, table, _, _ = world.draw(np.random.default_rng([186, study, world.images]))
        p.append(share_gap(sets, 0, 1, table, margin=abs(world.gap)).p_equivalence)
    what = "called balanced at a gap of the margin"
    return [Found("steerability-margin", what, str(world), 0.05, float(np.mean(np.array(p) <= 0.05)), n)]


MARGIN = 0.2


def until_decided(n: int, world: World) -> list[Found]:
    """Gaps that are looked at after 10, 15, … pictures: false and true decisions, coverage where drawing ended."""
    rates: dict[str, list[float]] = {"false": [], "found": [], "balanced": [], "held": [], "images": []}
    planted = world.gaps != 0
    for study in range(n):
        rng = np.random.default_rng([187, study, world.images, world.labelled])
        differences = [(a == 0).astype(float) - (b == 1) for _, (a, b), _ in world.concepts_drawn(rng)]
        table, drawn, growing = world.label(rng), np.full(world.concepts, 10), np.ones(world.concepts, bool)
        while growing.any():
            stands = in_family(
                [evidence_of_pairs(d[:m], table, MARGIN) for d, m in zip(differences, drawn, strict=True)]
            )
            growing = ~np.array([each.stops(StoppingRule()) for each in stands]) & (drawn < world.images)
            drawn = np.minimum(drawn + 5 * growing, world.images)
        leans, balanced = (np.array([getattr(each, name) for each in stands]) for name in ("leans", "balanced"))
        rates["false"].append(float(leans[~planted].any() or balanced[np.abs(world.gaps) >= MARGIN].any()))
        rates["found"].append(float(leans[planted].mean()) if planted.any() else nan)
        rates["balanced"].append(float(balanced[~planted].mean()))
        rates["held"].append(
            float(np.mean([each.low <= gap <= each.high for each, gap in zip(stands, world.gaps, strict=True)]))
        )
        rates["images"].append(float(drawn[planted].mean()) / world.images if planted.any() else nan)
    told = [
        ("steerability-until", "any concept decided falsely", "false", 0.05),
        ("steerability-until-coverage", "corrected gap where drawing ended", "held", 0.95),
        ("steerability-until-balanced", "no gap shown to be within the margin", "balanced", nan),
        ("steerability-until-power", f"gap of {world.gap:g} found", "found", nan),
        ("steerability-until-images", f"pictures drawn of a gap of {world.gap:g}, of all", "images", nan),
    ]
    return [
        Found(kind, what, str(world), nominal, float(np.mean(rates[name])), n, float(np.std(rates[name])))
        for kind, what, name, nominal in told
        if np.isfinite(rates[name]).all()
    ]


def excesses(n: int, world: World) -> list[Found]:
    """IRIS's max(0, ·) where no concept has a gap and the reader never errs: its mean, and that of its null."""
    values, nulls = [], []
    for study in range(n):
        rng = np.random.default_rng([184, study, world.images])
        steered = []
        for concept in range(world.concepts):
            default = expit(rng.normal(0, 1.2))
            for asked, chance in (("", default), ("a", world.success), ("b", 1 - world.success)):
                answers = (rng.random(world.images) >= chance).astype(int)
                unknown = np.full(world.images, nan)
                noise = np.arange(world.images).astype(str)
                steered.append(SteeredPictures(f"concept {concept}", "", asked, answers, noise, unknown, unknown))
        asked = AnsweredQuestion("r", "q", ("a", "b"), (), np.zeros((2, 3), int), "labelled")
        (row,) = (row for row in steerability_rows(steered, asked) if row.component == "excess_gap")
        values.append(row.value)
        nulls.append(row.null)
    setting = f"{world.concepts} concepts, {world.images} images, success {world.success:g}"
    return [
        Found("steerability-excess", what, setting, nan, float(np.mean(each)), n, float(np.std(each)))
        for what, each in (("max(0, mean gap), no gap", values), ("its null", nulls))
    ]


def plans(n: int, world: World) -> list[Found]:
    """How often the number that is planned for one gap among twelve finds it."""
    recall = tuple(row[k] for k, row in enumerate(READERS[world.reader]))
    images = images_for_gap(
        world.gap, success=world.success, recall=recall, labelled=(world.labelled,) * 2, concepts=world.concepts
    )
    drawn = World(int(images), world.success, world.reader, world.labelled, world.pairs, world.concepts, world.gap, 1)
    hits = []
    for study in range(n):
        sets, table, _, _ = drawn.draw(np.random.default_rng([185, study, drawn.images]))
        hits.append(called([share_gap([each], 0, 1, table) for each in sets])[0])
    return [Found("steerability-plan", f"gap of {world.gap:g} found with the images planned for it", str(drawn), 0.8,
                  float(np.mean(hits)), n)]  # fmt: skip


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    labels = {ALONE: 20, ALIKE: 200, OPPOSED: 60}
    return [
        *((gaps, 40, {"world": World(images, success, reader, labels[pairs], pairs)})
          for images in (5, 10, 20) for reader in (".98/.80", ".9/.6") for success in (0.95, 0.7, 0.5)
          for pairs in labels),
        *((gaps, 60, {"world": World(10, 0.7, ".95/.95", 200, pairs, concepts=1)}) for pairs in labels),
        *((gaps, 20, {"world": World(images, 0.95, reader, labelled, gap=gap, gapped=4)})
          for gap in (0.1, 0.2, 0.4) for images in (10, 20, 60)
          for reader, labelled in ((".98/.80", 60), (".95/.95", 200))),
        *((gaps, 20, {"world": World(20, 0.8, "of three", 60, pairs)}) for pairs in (ALONE, OPPOSED)),
        *((means, 300, {"world": World(10, 0.9, labelled=60, pairs=OPPOSED, concepts=concepts, scatter=scatter)})
          for concepts in (12, 30) for scatter in (0.0, 0.3)),
        *((lines, 50, {"world": World(images, 0.95, labelled=60, pairs=pairs, concepts=concepts, scatter=scatter)})
          for concepts, images in ((12, 20), (30, 10)) for pairs, scatter in ((ALONE, 0.3), (OPPOSED, 0.0))),
        (lines, 50, {"world": World(20, 0.95, labelled=60, concepts=30, slope=0.4)}),
        *((margins, 300, {"world": World(images, success, reader, labelled, concepts=1, gap=gap, gapped=1)})
          for images, success, reader, labelled, size in
          ((60, 0.95, ".95/.95", 200, 0.2), (200, 1.0, ".98/.80", 1000, 0.1))
          for gap in (size, -size)),
        *((until_decided, 100, {"world": World(100, success, reader, labelled, pairs)})
          for success, reader, labelled in ((0.95, ".95/.95", 200), (0.9, ".98/.80", 60), (0.7, ".9/.6", 60))
          for pairs in (ALONE, OPPOSED)),
        *((until_decided, 40, {"world": World(100, 0.95, reader, labelled, gap=gap, gapped=4)})
          for gap in (0.2, 0.4, 0.6) for reader, labelled in ((".98/.80", 200), (".95/.95", 200))),
        *((excesses, 30, {"world": World(images, 0.9)}) for images in (5, 10, 20)),
        (plans, 100, {"world": World(0, 0.95, ".95/.95", 200, gap=0.4)}),
        (plans, 60, {"world": World(0, 0.95, ".98/.80", 200, gap=0.3)}),
    ]  # fmt: skip
