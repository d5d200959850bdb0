"""What ``clinometer plan`` promises, and what the verdict then does. For benchmarks/simulations.py.

Pictures are of two kinds, as in the verdicts' simulations (:mod:`benchmarks.verdict_simulations`). A suite has six
concepts at the shares ``SHARES``, one of them at parity, so q is over six. A pilot of it is planned by the function
that plans every audit, with a chance of 80 % to find that a concept leans. Apart from that, many suites of each of
``SIZES`` images are drawn and judged from embeddings to verdicts, by the rules of ``mcas_study``: how often a verdict
names the right side is the power at so many images, and between these sizes it is read off a line over log n. What a
pilot is given is the power at the number that it names for a concept; its average over pilots is what the promise is
about. "More than 10,000" counts as 10,000, and so does no number, which is told apart as well.

Without a pilot, the number follows from the share alone, and the verdict is that on a concept by itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import nan

import numpy as np

from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import POPULATIONS, Population, design_of
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.metrics.verdict import LEANING
from clinometer.stats.power import MANY, POWER, ScoredPilot, images_for_share, power_curve
from clinometer.stats.power import SIZES as PLANNED
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.studies.leaning.scores.contrasts import contrast_tests, pair_weights
from clinometer.studies.leaning.scores.design import DrawSettings, LeaningStudy, layout_of
from clinometer.studies.leaning.scores.middle import attribute_influences, from_middle
from clinometer.studies.leaning.scores.needed import image_part_zeros, images_of
from clinometer.studies.leaning.scores.rows import Basis, Contrast, contrast_rows, judge_contrasts, uncounted
from clinometer.studies.leaning.scores.views import linear_views

SHARES = (0.6, 0.65, 0.75, 0.85, 0.9, 0.5)
SIZES = (10, 14, 20, 28, 40, 56, 80, 120, 200, 300, 450, 700, 1_000, 2_000, 4_000, MANY)
PILOTS = (10, 20, 60)
STUDIES_OF_A_SIZE = 60


def found_in(embeddings: EncoderEmbeddings, concepts: int, *, alone: bool = False) -> np.ndarray:
    """Whether the verdict on each concept names the first group: with q over all, or each ``alone``."""
    design = design_of(concepts)
    study = LeaningStudy(design, layout_of([embeddings], design), DrawSettings(1, 0, 0, 0.95))
    view = linear_views([embeddings], study)[0]
    weights = pair_weights(study, COMPONENTS[IMAGE_PART], *study.pair)
    tests = contrast_tests(study, view, weights)
    apart = from_middle(study, view, weights, tests.images, attribute_influences(view, weights))  # type: ignore[arg-type]
    names = {"metric": "mcas", "component": IMAGE_PART}
    contrast = Contrast(weights, Basis(COMPONENTS[IMAGE_PART], study.pair), names, ("a", "b"))
    rows = contrast_rows(study, view, contrast, replace(tests, from_middle=apart))
    families = [[row] for row in rows] if alone else [rows]
    judged = [
        row
        for family in families
        for row in judge_contrasts([contrast], [family], "f", margin=None, judged=True, decide=uncounted)
    ]
    return np.array([row.verdict in LEANING and row.side == "a" for row in judged])


def population(groups: int) -> Population:
    """The population of two kinds with so many pictures an attribute prompt, four prompts a group."""
    first = POPULATIONS[0]
    return Population(first.name, attribute_images=groups)


@cache
def power_at(size: int, groups: int, studies: int) -> np.ndarray:
    """Whether each study of a size names the right side of each concept: (studies × concepts)."""
    found = []
    for study in range(studies):
        rng = np.random.default_rng([61, size, groups, study])
        found.append(found_in(population(groups).draw(rng, np.array(SHARES), size), len(SHARES)))
    return np.array(found)


def images_to_detect(embeddings: EncoderEmbeddings) -> np.ndarray:
    """What ``images_needed`` says of finding each concept's leaning, and nothing else of it."""
    design = design_of(len(SHARES))
    layout = layout_of([embeddings], design)
    zeros, _ = image_part_zeros([embeddings], design, layout)
    lean = np.array(SHARES) != 0.5
    curve = power_curve(ScoredPilot(zeros), PLANNED, wanted=lean)
    return images_of(layout, curve.sizes_for(POWER, curve.leans))


def pilots(n: int, images: int, groups: int) -> list[Found]:
    """Plan by so many pilots of a size: the power of the verdict at the number of images that each of them names."""
    named = []
    for pilot in range(n):
        rng = np.random.default_rng([62, images, groups, pilot])
        embeddings = population(groups).draw(rng, np.array(SHARES), images)
        named.append(images_to_detect(embeddings))
    studies = max(STUDIES_OF_A_SIZE * n // PILOTS_OF_A_SIZE, 8)
    counts = np.array([studies if size <= 1_000 else max(studies // 4, 4) for size in SIZES])
    powers = np.array([power_at(size, groups, count).mean(axis=0) for size, count in zip(SIZES, counts, strict=True)])
    found = []
    for concept, share in enumerate(SHARES[:-1]):
        own, curve = np.array(named)[:, concept], powers[:, concept]
        drawn = np.minimum(np.nan_to_num(own, nan=MANY), MANY)
        # each pilot's power lies on a line between two sizes
        weights = np.array([np.interp(np.log(drawn), np.log(SIZES), unit) for unit in np.eye(len(SIZES))])
        reached = curve @ weights
        of_sizes = (weights.mean(axis=1) ** 2 * curve * (1 - curve) / counts).sum()
        spread = float(np.sqrt(reached.var(ddof=1) + n * of_sizes))
        setting = f"pilot of {images} images, {4 * groups} of each group, {share:.0%} of a"
        middle = f"{np.median(drawn):,.0f}" if np.median(drawn) < MANY else f"{MANY:,} or more"
        what = f"by a pilot; {middle} images in the middle"
        found.append(Found("power", f"a leaning is found, {what}", setting, POWER, float(reached.mean()), n, spread))
        none = np.isnan(own)
        found.append(Found("power-none", "no number is named", setting, nan, float(none.mean()), n, float(none.std())))
        if 0 < none.sum() < n - 1:
            rest = reached[~none]
            found.append(Found("power-none", "a leaning is found, where one is", setting, POWER, float(rest.mean()),
                               len(rest), float(rest.std(ddof=1))))  # fmt: skip
    return found


def by_share(n: int, share: float, groups: int) -> list[Found]:
    """Without a pilot: the power of the verdict on a concept by itself at the number of images that a share takes."""
    images = images_for_share(share, attribute_images=(4 * groups, 4 * groups))
    setting = f"{4 * groups} of each group, {share:.0%} of a"
    if not np.isfinite(images):
        return []
    found = []
    for study in range(n):
        rng = np.random.default_rng([63, int(100 * share), groups, study])
        embeddings = population(groups).draw(rng, np.full(6, share), int(images))
        found.append(found_in(embeddings, 6, alone=True).mean())
    what = f"a leaning is found, without a pilot; {images:,.0f} images"
    return [Found("power", what, setting, POWER, float(np.mean(found)), n, float(np.std(found, ddof=1)))]


PILOTS_OF_A_SIZE = 60


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((by_share, 60, {"share": share, "groups": groups}) for groups in (16, 64) for share in SHARES[:-1]),
        *((pilots, 120, {"images": images, "groups": groups}) for groups in (16, 64) for images in PILOTS),
    ]
