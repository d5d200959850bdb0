"""What ``clinometer plan`` and a gate promise, and what the verdict then does. For benchmarks/simulations.py.

Pictures are of two kinds, as in the verdicts' simulations (:mod:`benchmarks.verdict_simulations`). A suite has six
concepts at the shares ``SHARES``, one of them at parity, so q is over six. A pilot of it is planned by what plans every
audit, with a chance of 80 %: to find that a concept leans, to show that it lies within a margin, and to decide a gate.
Apart from that, many suites of each of ``SIZES`` images are drawn, the groups' own images in proportion, and judged
from embeddings to verdicts, by the rules of ``mcas_study``: how often a verdict names the right side is the power at so
many images, and between these sizes it is read off a line over log n. What a pilot is given is the power at the number
that it names for a concept; its average over pilots is what the promise is about. More than the largest size counts as
that size, and so does no number, which is told apart as well.

Without a pilot, the number follows from the share alone, and the verdict is that on a concept by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan

import numpy as np

from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import POPULATIONS, Population, design_of
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.metrics.verdict import LEANING, Verdict
from clinometer.stats.power import POWER, HeldToLimits, ScoredPilot, hold_to_limits, images_for_share, power_curve
from clinometer.stats.power import SIZES as PLANNED
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.studies.leaning.scores.contrasts import contrast_tests, pair_weights
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.middle import attribute_influences, from_middle
from clinometer.studies.leaning.scores.rows import (
    Basis,
    Contrast,
    contrast_rows,
    image_part_zeros,
    images_of,
    judge_contrasts,
    uncounted,
)
from clinometer.studies.leaning.scores.views import linear_views

SHARES = (0.6, 0.65, 0.75, 0.85, 0.9, 0.5)
SIZES = (10, 14, 20, 28, 40, 56, 80, 120, 200, 300, 450, 700, 1_000)
PILOTS = (10, 20, 60)
GROUPS = (16, 64)
"""Images of an attribute prompt beside a pilot; four prompts a group."""
TARGET = 20
"""Images of a concept in a suite that is planned without a pilot."""
MOST_OF_A_PROMPT = 1_000
"""More images of an attribute prompt than these are not drawn: what they are off by is next to nothing."""
MARGIN_AT, LIMIT_AT = 0.6, 0.75
"""Shares at whose image part the margin of balance and the limit of the gate lie."""
STUDIES_OF_A_SIZE = 48
PILOTS_OF_A_SIZE = 70


@dataclass(frozen=True)
class Judged:
    """What became of every concept of a suite, (concepts,): its verdict names the first group, or balance; its row."""

    leans: np.ndarray
    balanced: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    images: int

    def gated(self) -> HeldToLimits:
        """Hold all concepts to the limit, as one family, counted from 0."""
        n = np.full(len(self.value), self.images)
        none, at = np.full(len(n), -inf), np.full(len(n), image_part_at(LIMIT_AT))
        return hold_to_limits(self.value, self.low, self.high, n, n - 1, at_least=none, at_most=at)


@cache
def image_part_at(share: float) -> float:
    """The image part of a concept at a share."""
    return float(population(16).truth(np.array([share]))[0])


def judged_in(
    embeddings: EncoderEmbeddings, concepts: int, *, alone: bool = False, within: float | None = None
) -> Judged:
    """Judge every concept with q over all, or each ``alone``; balance ``within`` a margin, if there is one."""
    design = design_of(concepts)
    study = StudySetup(design, layout_of([embeddings], design), ResamplingSettings(1, 0, 0, 0.95))
    view = linear_views([embeddings], study).mean
    weights = pair_weights(study, COMPONENTS[IMAGE_PART], *study.pair)
    tests = contrast_tests(study, view, weights)
    apart = from_middle(study, view, weights, tests.images, attribute_influences(view, weights))  # type: ignore[arg-type]
    names = {"metric": "mcas", "component": IMAGE_PART}
    contrast = Contrast(weights, Basis(COMPONENTS[IMAGE_PART], study.pair), names, ("a", "b"))
    rows = contrast_rows(study, view, contrast, replace(tests, from_middle=apart), within)
    families = [[row] for row in rows] if alone else [rows]
    judged = [
        row
        for family in families
        for row in judge_contrasts([contrast], [family], "f", margin=within, judged=True, decide=uncounted)
    ]
    return Judged(
        np.array([row.verdict in LEANING and row.side == "a" for row in judged]),
        np.array([row.verdict == Verdict.BALANCED for row in judged]),
        *(np.array([getattr(row, name) for row in judged]) for name in ("value", "low", "high")),
        images=len(embeddings.target_images[0]),
    )


def population(groups: int) -> Population:
    """The population of two kinds with so many pictures an attribute prompt, four prompts a group."""
    first = POPULATIONS[0]
    return Population(first.name, attribute_images=groups)


PROMISES = ("leans", "balanced", "gated")


@cache
def power_at(size: int, groups: int, pilot: int) -> dict[str, np.ndarray]:
    """How often each concept of suites of a size is decided, (concepts,) by promise; the groups in proportion."""
    found: dict[str, list[np.ndarray]] = {promise: [] for promise in PROMISES}
    of_a_prompt = min(max(round(groups * size / pilot), 2), MOST_OF_A_PROMPT)
    for study in range(STUDIES_OF_A_SIZE):
        rng = np.random.default_rng([61, size, groups, pilot, study])
        suite = population(of_a_prompt).draw(rng, np.array(SHARES), size)
        judged = judged_in(suite, len(SHARES), within=image_part_at(MARGIN_AT))
        found["leans"].append(judged.leans)
        found["balanced"].append(judged.balanced)
        held = judged.gated()
        found["gated"].append(held.within | held.beyond)
    return {promise: np.mean(each, axis=0) for promise, each in found.items()}


def images_named(embeddings: EncoderEmbeddings) -> dict[str, np.ndarray]:
    """What a pilot names for each concept by promise: what ``images_needed`` and a gate say, and nothing else of it."""
    design = design_of(len(SHARES), image_part_at(MARGIN_AT))
    layout = layout_of([embeddings], design)
    zeros, margins = image_part_zeros([embeddings], design, layout)
    known = np.abs(zeros[0].value)
    open_to = {"leans": ScoredPilot(zeros, margins, grown=True),
               "balanced": ScoredPilot(zeros, margins, effects=known, grown=True)}  # fmt: skip
    named = {}
    for promise, pilot in open_to.items():
        curve = power_curve(pilot, PLANNED)
        named[promise] = images_of(layout, curve.sizes_for(POWER, getattr(curve, promise)))
    named["balanced"] = np.where(known < image_part_at(MARGIN_AT), named["balanced"], nan)
    held = judged_in(embeddings, len(SHARES)).gated()
    decided = held.within | held.beyond
    images = len(embeddings.target_images[0])
    named["gated"] = np.where(decided, images, np.where(held.n_decide > 0, held.n_decide, nan))
    return named


ASKED = {"leans": SHARES[:-1], "balanced": (0.5,), "gated": tuple(share for share in SHARES if share != LIMIT_AT)}
"""Of which shares each promise is asked: what is at its limit, a gate should not decide."""
TOLD = {"leans": "a leaning is found", "balanced": "balance is shown", "gated": "a gate is decided"}


def pilots(n: int, images: int, groups: int) -> list[Found]:
    """Plan by so many pilots of a size: the power of the verdict at the number of images that each of them names."""
    each = []
    for pilot in range(n):
        rng = np.random.default_rng([62, images, groups, pilot])
        each.append(images_named(population(groups).draw(rng, np.array(SHARES), images)))
    found = []
    for promise in PROMISES:
        for concept, share in enumerate(SHARES):
            if share not in ASKED[promise]:
                continue
            own = np.array([named[promise][concept] for named in each])
            found += _promised(promise, own, concept, images, groups)
    return found


def _promised(promise: str, own: np.ndarray, concept: int, images: int, groups: int) -> list[Found]:
    """Rate a promise on one concept: the average power at the numbers that pilots name, and how many name none."""
    n, sizes = len(own), np.array(SIZES)
    drawn = np.clip(np.nan_to_num(own, nan=sizes[-1]), sizes[0], sizes[-1])
    # each pilot's power lies on a line between two sizes
    weights = np.array([np.interp(np.log(drawn), np.log(sizes), unit) for unit in np.eye(len(sizes))])
    curve = np.zeros(len(sizes))
    for at in np.flatnonzero(weights.sum(axis=1)):
        curve[at] = power_at(SIZES[at], groups, images)[promise][concept]
    reached = curve @ weights
    of_sizes = (weights.mean(axis=1) ** 2 * curve * (1 - curve) / STUDIES_OF_A_SIZE).sum()
    spread = float(np.sqrt(reached.var(ddof=1) + n * of_sizes))
    setting = f"pilot of {images} images, {4 * groups} of each group, {SHARES[concept]:.0%} of a"
    none = np.isnan(own)
    middle = f"{np.median(drawn):,.0f}" if np.median(drawn) < SIZES[-1] else f"{SIZES[-1]:,} or more"
    what = f"{TOLD[promise]}, by a pilot; {middle} images in the middle"
    kind, unnamed = "power" if promise == "leans" else f"power-{promise}", f"no number is named; {TOLD[promise]}"
    found = [
        Found(kind, what, setting, POWER, float(reached.mean()), n, spread),
        Found("power-none", unnamed, setting, nan, float(none.mean()), n, float(none.std())),
    ]
    if 0 < none.sum() < n - 1:
        rest = reached[~none]
        found.append(Found("power-none", f"{TOLD[promise]}, where one is", setting, POWER, float(rest.mean()),
                           len(rest), float(rest.std(ddof=1))))  # fmt: skip
    return found


def by_share(n: int, share: float, groups: int) -> list[Found]:
    """Without a pilot: the power of the verdict on a concept by itself at the number of images that a share takes."""
    images = images_for_share(share, attribute_images=(4 * groups / TARGET, 4 * groups / TARGET))
    setting = f"{4 * groups} of each group for {TARGET} images, {share:.0%} of a"
    if not np.isfinite(images):
        return []
    found = []
    for study in range(n):
        rng = np.random.default_rng([63, int(100 * share), groups, study])
        of_a_prompt = max(round(groups * images / TARGET), 2)
        embeddings = population(of_a_prompt).draw(rng, np.full(6, share), int(images))
        found.append(judged_in(embeddings, 6, alone=True).leans.mean())
    what = f"a leaning is found, without a pilot; {images:,.0f} images"
    return [Found("power", what, setting, POWER, float(np.mean(found)), n, float(np.std(found, ddof=1)))]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((by_share, 48, {"share": share, "groups": groups}) for groups in GROUPS for share in SHARES[:-1]),
        *((pilots, PILOTS_OF_A_SIZE, {"images": images, "groups": groups}) for groups in GROUPS for images in PILOTS),
    ]
