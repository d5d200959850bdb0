"""What do pictures that are not there, twice, or of a third kind do to verdicts? For benchmarks/simulations.py.

The populations are those of verdict_simulations.py. *A filter* refuses each picture of the first group with a
probability, so that concepts at parity seem to lean to the second. *A cache* answers each request with one of a few
pictures; *a model that knows few* draws each picture at random from a library of some of either group, which may hold
more of one. *Three kinds*: some pictures lie halfway between the groups.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import POPULATIONS, Population, design_of, rate_over_studies
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import LEANING
from clinometer.studies.leaning import Design, EncoderEmbeddings, counted_once
from clinometer.studies.leaning.scores.components import mcas_rows
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.shares import BETWEEN, between_rows
from clinometer.studies.leaning.scores.views import views_of

KIND = "pictures"
LEVEL = 0.05


def picture_rows(embeddings: EncoderEmbeddings, design: Design) -> list[Score]:
    """The rows of the image part and of what lies between, as ``mcas_study`` makes them of counted pictures."""
    layout = layout_of([embeddings], design)
    study = StudySetup(design, layout, ResamplingSettings(1, 0, 0, 0.95))
    view = views_of([embeddings], study).mean
    rows = [row for row in mcas_rows(study, view, [IMAGE_PART]) if row.encoder == MEAN]
    return [*rows, *between_rows(study, view)]


def leans(rows: list[Score], *, unqualified: bool = False) -> np.ndarray:
    """Whether each concept's verdict names a side; ``unqualified``: and depends on nothing."""
    judged = [row for row in rows if row.component == IMAGE_PART]
    return np.array([row.verdict in LEANING and not (unqualified and row.depends_on) for row in judged])


def a_filter(n: int, refused: float, concepts: int, images: int) -> list[Found]:
    """Concepts at parity, of whose pictures of the first group a share is refused."""
    population, held = POPULATIONS[0], []
    for study in range(n):
        rng = np.random.default_rng([41, images, concepts, study])
        shown_a = rng.random((concepts, images)) < 0.5
        there = ~(shown_a & (rng.random((concepts, images)) < refused))
        drawn = drawn_pictures(population, rng, [kinds[own] for kinds, own in zip(shown_a, there, strict=True)])
        design = design_of(concepts)
        lost = [replace(t, missing=int((~own).sum())) for t, own in zip(design.targets, there, strict=True)]
        rows = picture_rows(drawn, replace(design, targets=tuple(lost)))
        held.append([leans(rows).any(), leans(rows, unqualified=True).any()])
    setting = f"{refused:.0%} of one group refused, {concepts} concepts of {images} asked for"
    whats = ("any concept leans", "any leans, and says of nothing that it depends on it")
    return _found(whats, setting, np.array(held, float))


def a_filter_of_attributes(n: int, refused: float, images: int, kind: str, concepts: int = 12) -> list[Found]:
    """Concepts at parity; of the first group's own pictures a share is refused, whose pictures are unlike the others.

    What is unlike lies towards four of the concepts. ``kind`` : both groups have such pictures, and all of the first
    group's are refused (``"of both"``); each has some of its own, as near to the concepts (``"of each"``); or those are
    refused that lie farthest that way by chance (``"by chance"``).
    """
    population, design, held = POPULATIONS[0], design_of(concepts), []
    towards = population.fixed["offsets"][:4].sum(axis=0)
    towards /= np.linalg.norm(towards)
    sides = np.random.default_rng(44).normal(size=(2, len(towards)))
    sides[:, 0] = 0.0
    sides -= (sides @ towards)[:, None] * towards + (sides @ population.fixed["base"])[:, None] * population.fixed[
        "base"
    ]
    for study in range(n):
        rng = np.random.default_rng([45, images, int(100 * refused), sum(map(ord, kind)), study])
        drawn = population.draw(rng, np.full(concepts, 0.5), images)
        groups, lost = {}, {}
        for side, (group, own_images) in enumerate(drawn.group_images.items()):
            unlike, prompts = [rng.random(len(x)) < refused for x in own_images], list(own_images)
            if kind == "by chance":
                unlike = [x @ towards > np.quantile(x @ towards, 1 - refused) for x in prompts]
            else:
                far = towards + (0.3 * sides[side] / np.linalg.norm(sides[side]) if kind == "of each" else 0.0)
                prompts = [x + own[:, None] * far for x, own in zip(prompts, unlike, strict=True)]
            keep = [~own | (group != "a") for own in unlike]
            groups[group] = tuple(x[own] for x, own in zip(prompts, keep, strict=True))
            lost[group] = sum(int((~own).sum()) for own in keep)
        rows = picture_rows(replace(drawn, group_images=groups), replace(design, missing_attributes=lost))
        held.append([leans(rows).any(), leans(rows, unqualified=True).any()])
    setting = f"{refused:.0%} of one group's own pictures refused, {kind}, {concepts} concepts of {images}"
    whats = ("any concept leans", "any leans, and says of nothing that it depends on it")
    return _found(whats, setting, np.array(held, float))


def a_cache(n: int, different: int, images: int, concepts: int = 12) -> list[Found]:
    """Concepts at parity, of whose pictures only some differ, each as often as the others."""

    def order(rng: np.random.Generator) -> np.ndarray:
        return np.arange(images) % different

    return _repeated(n, f"{images} pictures of which {different} differ", 0.5, concepts, (different, None), order)


def few_known(n: int, known: tuple[int, int], share: float, images: int, concepts: int = 12) -> list[Found]:
    """Concepts whose pictures are drawn at random from so many of the first and of the second group."""

    def order(rng: np.random.Generator) -> np.ndarray:
        of_a = rng.random(images) < share
        return np.where(of_a, rng.integers(known[0], size=images), known[0] + rng.integers(known[1], size=images))

    setting = f"{images} pictures at {share:.0%} from {known[0]} + {known[1]} that are known"
    return _repeated(n, setting, share, concepts, known, order)


def _repeated(n, setting, share, concepts, known, order) -> list[Found]:
    population, design, held = POPULATIONS[0], design_of(concepts), []
    for study in range(n):
        rng = np.random.default_rng([42, sum(map(ord, setting)), study])
        kinds = [
            rng.random(known[0]) < share if known[1] is None else np.arange(sum(known)) < known[0]
            for _ in range(concepts)
        ]
        pictures = drawn_pictures(population, rng, kinds)
        drawn = replace(pictures, target_images=tuple(x[order(rng)] for x in pictures.target_images))
        once = picture_rows(counted_once([drawn], design)[0], design)
        held.append([leans(picture_rows(drawn, design)).any(), leans(once).any(), leans(once, unqualified=True).any()])
    whats = (
        "any concept leans, every picture counted",
        "any concept leans, each counted once",
        "the same, and says of nothing that it depends on it",
    )
    return _found(whats, setting, np.array(held, float))


def third_kind(n: int, between: float, population: int, images: int, concepts: int = 12) -> list[Found]:
    """Concepts at parity, some of whose pictures lie halfway between the groups."""
    chosen, design, held = POPULATIONS[population], design_of(concepts), []
    narrow = replace(chosen, gap=0.0)
    for study in range(n):
        rng = np.random.default_rng([43, population, images, int(100 * between), study])
        drawn = chosen.draw(rng, np.full(concepts, 0.5), images)
        halfway = narrow.draw(rng, np.full(concepts, 0.5), images).target_images
        own = [rng.random(images) < between for _ in range(concepts)]
        mixed = [np.where(x[:, None], y, z) for x, y, z in zip(own, halfway, drawn.target_images, strict=True)]
        rows = picture_rows(replace(drawn, target_images=tuple(mixed)), design)
        flags = np.array([row.flag == BETWEEN for row in rows if row.component == "between"])
        held.append([flags.mean(), flags.any()])
    setting = f"{chosen.name}, {between:.0%} halfway, {images} images"
    return _found(("a concept is said to hold some between", "any of 12 is"), setting, np.array(held, float))


def drawn_pictures(population: Population, rng: np.random.Generator, kinds: list[np.ndarray]) -> EncoderEmbeddings:
    """A study whose pictures are of these groups, (n,) of each concept."""
    study = population.draw(rng, np.full(len(kinds), 1.0), 1)
    both = {share: population.draw(rng, np.full(len(kinds), share), max(map(len, kinds))) for share in (1.0, 0.0)}
    images = [
        np.where(own[:, None], *(both[share].target_images[t][: len(own)] for share in (1.0, 0.0)))
        for t, own in enumerate(kinds)
    ]
    return replace(study, target_images=tuple(images))


def _found(whats: tuple[str, ...], setting: str, held: np.ndarray) -> list[Found]:
    return [rate_over_studies(KIND, what, setting, LEVEL, column) for what, column in zip(whats, held.T, strict=True)]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((a_filter, 100, {"refused": refused, "concepts": 12, "images": images})
          for images in (20, 60) for refused in (0.0, 0.4)),
        *((a_filter_of_attributes, 50, {"refused": refused, "images": images, "kind": kind})
          for images, kind, refused in ((20, "of both", 0.0), (20, "of both", 0.4), (60, "of both", 0.4),
                                        (60, "of each", 0.4), (60, "by chance", 0.4), (200, "by chance", 0.4))),
        *((a_cache, 66, {"different": k, "images": n}) for k, n in ((4, 20), (20, 40), (40, 200))),
        *((few_known, 50, {"known": known, "share": share, "images": n})
          for known, share, n in (((20, 20), 0.5, 60), ((50, 5), 0.5, 60), ((100, 3), 0.5, 200), ((20, 20), 0.9, 200))),
        *((third_kind, 50, {"between": share, "population": p, "images": 20})
          for p in (0, 2, 3) for share in (0.0, 0.4)),
    ]  # fmt: skip
