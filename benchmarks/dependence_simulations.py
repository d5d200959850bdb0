"""What do pictures that were saved again, or came in batches, do to verdicts? For benchmarks/simulations.py.

The populations are those of verdict_simulations.py, from embeddings to the verdict. *Saved again*: each of a few
pictures is there several times, its vector moved a little each time. *Batches*: runs of pictures are of one kind, or a
share of them is. The rows stand in the order in which they were drawn. Each study is judged three times: with every
picture by itself, as nobody knows of batches, and with the batches known.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from benchmarks.picture_simulations import drawn_pictures, leans, picture_rows
from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import POPULATIONS, design_of, rate_over_studies
from clinometer.metrics.verdict import FEWEST_IMAGES, LEANING
from clinometer.stats.dependence import drawn_once, sketches
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.studies.editing.design import EditingDesign, Faces, GenderReadings, PortraitGroup
from clinometer.studies.editing.scores import editing_study
from clinometer.studies.leaning import EncoderEmbeddings, counted_once
from clinometer.studies.t2iat.scores import stimulus_tests
from clinometer.studies.t2iat.scores.stimuli import StimulusCosines, T2iatDesign, image_estimate

LEVEL, MOST = "dependence-level", 0.07
POWER, JOINED = "dependence-power", "dependence-joined"


def judged(drawn: EncoderEmbeddings, concepts: int, batches: np.ndarray | None) -> np.ndarray:
    """Which concepts are called leaning; ``batches`` : of each picture, None where nobody knows."""
    design = design_of(concepts)
    labels = None if batches is None else (batches,) * concepts
    return leans(picture_rows(counted_once([replace(drawn, target_batches=labels)], design)[0], design))


def saved_again(n: int, different: int, images: int, moved: float, concepts: int = 1) -> list[Found]:
    """Concepts at parity whose pictures are a few, each saved again and again."""
    held, order = [], np.arange(images) % different
    for study in range(n):
        rng = np.random.default_rng([61, images, different, concepts, round(1e5 * moved), study])
        pictures = drawn_pictures(POPULATIONS[0], rng, list(rng.random((concepts, different)) < 0.5))
        again = [x[order] for x in pictures.target_images]
        length = moved / np.sqrt(2 * again[0].shape[1])
        again = [x + np.linalg.norm(x, axis=1, keepdims=True) * length * rng.normal(size=x.shape) for x in again]
        drawn, apart = replace(pictures, target_images=tuple(again)), np.arange(images)
        ignored = replace(drawn, saved_again=1e-9)
        held.append([judged(ignored, concepts, apart).any(), judged(drawn, concepts, None).any()])
    setting = f"{different} different of {images}, copies {moved:g} apart, {concepts} concepts"
    return _found(("any leans, every picture counted", "any leans, each counted once"), setting, held)


def in_batches(
    n: int, size: int, images: int, concepts: int = 1, together: float = 1.0, population: int = 0
) -> list[Found]:
    """Concepts at parity whose pictures come in batches; ``together`` : the share of a batch that is of one kind."""
    held, batches = [], np.arange(images) // size
    for study in range(n):
        rng = np.random.default_rng([62, images, size, concepts, round(100 * together), population, study])
        kinds = rng.random((concepts, batches[-1] + 1))[:, batches] < 0.5
        alone = rng.random((concepts, images)) >= together
        kinds = np.where(alone, rng.random((concepts, images)) < 0.5, kinds)
        drawn = drawn_pictures(POPULATIONS[population], rng, list(kinds))
        held.append([judged(drawn, concepts, own).any() for own in (np.arange(images), None, batches)])
    blurred = "" if not population else f", {POPULATIONS[population].name}"
    of_kind = "" if together == 1 else f", {together:.0%} of one kind"
    setting = f"batches of {size}{of_kind}, {concepts} concepts of {images}{blurred}"
    return _found(("any leans, by pictures", "any leans, nobody knows", "any leans, batches known"), setting, held)


def in_few_batches(n: int, size: int, images: int) -> list[Found]:
    """Leanings of a concept at parity in a few batches of one kind each, by how many of these are of the first kind.

    That number k of m batches has the chance C(m, k) / 2^m, so the rate is Σ_k of it times the rate at k, and its error
    √(Σ_k chance² rate (1 − rate) / n) with ``n`` studies each, a rate of 0 or 1 by one half of a study. At k and at
    m − k the population mirrors itself. Batches all of one kind leave no trace in an order.
    """
    batches = images // size
    rates, variance = np.zeros(2), np.zeros(2)
    for k in range(batches // 2 + 1):
        chance = stats.binom.pmf(k, batches, 0.5) * (1 if 2 * k == batches else 2)
        held = []
        for study in range(n):
            rng = np.random.default_rng([65, images, size, k, study])
            kinds = np.repeat(rng.permuted(np.arange(batches) < k), size)
            drawn = drawn_pictures(POPULATIONS[0], rng, [kinds])
            held.append([judged(drawn, 1, None).any(), judged(drawn, 1, np.arange(images) // size).any()])
        seen = np.sum(held, axis=0)
        smoothed = np.clip(seen, 0.5, n - 0.5) / n
        rates += chance * seen / n
        variance += chance**2 * smoothed * (1 - smoothed) / n
    setting = f"batches of {size}, 1 concept of {images}, by the kinds of the batches"
    total = n * (batches // 2 + 1)
    return [
        Found(LEVEL, what, setting, MOST, float(rate), total, float(np.sqrt(own * total)))
        for what, rate, own in zip(
            ("any leans, nobody knows", "any leans, batches known"), rates, variance, strict=True
        )
    ]


def independent(n: int, images: int, share: float, concepts: int = 1, *, listed: bool = False) -> list[Found]:
    """Concepts whose pictures are independent: leanings found, by pictures, as nobody knows, and in labelled pairs."""
    held = []
    for study in range(n):
        rng = np.random.default_rng([63, images, concepts, round(100 * share), study])
        kinds = rng.random((concepts, images)) < share
        drawn = drawn_pictures(POPULATIONS[0], rng, list(np.sort(kinds, axis=1) if listed else kinds))
        labels = (np.arange(images), None, np.arange(images) // 2)
        held.append([judged(drawn, concepts, own).mean() for own in labels])
    setting = f"{share:.0%}, {concepts} concepts of {images}{', sorted by what they show' if listed else ''}"
    whats = ("leanings found, by pictures", "leanings found, nobody knows", "leanings found, called pairs")
    return _found(whats, setting, held, POWER, 0.0)


def stimuli_in_batches(n: int, size: int, images: int) -> list[Found]:
    """Stimuli of T2IAT at parity, whose neutral pictures come in batches of one kind: any of twelve leans (q ≤ .05)."""
    design, held = T2iatDesign({}, (), "a", "b"), []
    nothing, batches = np.zeros((1, 0)), np.arange(images) // size
    for study in range(n):
        rng, cosines = np.random.default_rng([66, images, size, study]), {}
        for name in map(str, range(12)):
            kind = rng.choice([-1.0, 1.0], batches[-1] + 1)[batches, None]
            own = 0.01 * rng.normal(size=(images, 1))
            a, b = 0.6 + 0.01 * rng.normal(size=(2, 1, 16))
            poles = np.array([0.1, -0.1]) + float(a.mean() - b.mean())
            cosines[name] = StimulusCosines(a + 0.05 * kind + own, b - 0.05 * kind + own, nothing, nothing, poles)
        known = {name: replace(each, batches=(batches, None, None)) for name, each in cosines.items()}
        enough = (images, batches[-1] + 1)
        held.append([
            units >= FEWEST_IMAGES and benjamini_hochberg(np.array([
                test.p
                for test in stimulus_tests(own, {k: image_estimate(each, design) for k, each in own.items()}).values()
            ])).min() <= 0.05
            for own, units in zip((cosines, known), enough, strict=True)
        ])  # fmt: skip
    setting = f"batches of {size}, 12 of T2IAT's stimuli of {images}"
    return _found(("any leans, by pictures", "any leans, batches known"), setting, held)


def portraits_in_batches(n: int, size: int, portraits: int) -> list[Found]:
    """Edits of two groups alike, whose portraits come in batches of one kind: any of twelve professions is called.

    Kinds flip in two or in eight of ten edits, and their skin is made darker or lighter by five degrees.
    """
    groups = (PortraitGroup("men", "man"), PortraitGroup("women", "woman"))
    professions = {f"profession {k}": "all" for k in range(12)}
    design = EditingDesign(groups, "man", "woman", professions, (1.0,))
    owners = np.repeat([0, 1], portraits)
    batches = np.concatenate([np.arange(portraits) // size, -1 - np.arange(portraits) // size])
    nothing = np.full((2 * portraits, 1, 1, 3), np.nan), np.full((2 * portraits, 12, 1, 1, 1, 3), np.nan)
    held = []
    for study in range(n):
        rng = np.random.default_rng([67, portraits, size, study])
        kind = rng.choice([-1.0, 1.0], len(batches))[np.unique(batches, return_inverse=True)[1]][:, None, None]
        sign = np.where(owners == 0, 1.0, -1.0)
        flipped = rng.random((2 * portraits, 12, 1)) < 0.5 + 0.3 * kind
        after = np.where(flipped, -1.0, 1.0) * sign[:, None, None]
        reading = GenderReadings("e", sign[:, None], after[..., None], np.ones(after.shape))
        change = 5 * kind + rng.normal(size=after.shape)
        there = np.ones(2 * portraits, bool), np.ones(after.shape, bool)
        faces = Faces(np.zeros(2 * portraits), change, *there, *nothing)
        called = []
        for known in (None, batches):
            rows = editing_study([reading], faces, owners, design, n_permutations=499, n_resamples=2, batches=known)
            own = [row for row in rows if row.concept and row.verdict in LEANING]
            called.append([any(row.component == name for row in own) for name in ("flip_asymmetry", "ita_change")])
        held.append(np.transpose(called).ravel())
    setting = f"batches of {size}, 12 professions, {portraits} portraits a group"
    whats = ("any flip asymmetry, by pictures", "any flip asymmetry, batches known",
             "any change of skin, by pictures", "any change of skin, batches known")  # fmt: skip
    return _found(whats, setting, held)


def alike(n: int, cosine: float, images: int, dim: int, kinds: int = 1) -> list[Found]:
    """Pictures of a model that draws alike ones, in one or two kinds: the share that is taken for another again."""
    held = []
    for study in range(n):
        rng = np.random.default_rng([64, round(1e5 * cosine), images, dim, kinds, study])
        base, towards = np.linalg.qr(rng.normal(size=(dim, 2)))[0].T
        x = base + np.sqrt((1 / cosine - 1) / dim) * rng.normal(size=(images, dim))
        x += np.where(rng.random(images) < 0.5, 0.3, -0.3)[:, None] * towards * (kinds - 1)
        held.append([1 - len(drawn_once([sketches(x)])[0]) / images])
    setting = f"mean cosine {cosine:g} in {dim} dimensions, {kinds} kind{'s' * (kinds - 1)}, {images} pictures"
    return _found(("different pictures taken for one again",), setting, held, JOINED, 0.0)


def _found(
    whats: tuple[str, ...], setting: str, held: list[list[float]], kind: str = LEVEL, nominal: float = MOST
) -> list[Found]:
    columns = np.array(held, float).T
    found = [rate_over_studies(kind, what, setting, nominal, own) for what, own in zip(whats, columns, strict=True)]
    return [replace(each, spread=_spread_at_ends(each)) for each in found]


def _spread_at_ends(found: Found) -> float | None:
    """Return the spread over studies; where none differs from another, that of half a study of the other kind."""
    if found.rate not in (0, 1):
        return found.spread
    half = 0.5 / found.n
    return float(np.sqrt(half * (1 - half)))


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((alike, 20, {"cosine": c, "images": n, "dim": d, "kinds": k})
          for c in (0.9, 0.99, 0.999, 0.9999) for n, d in ((20, 512), (200, 16)) for k in (1, 2)),
        (in_few_batches, 300, {"size": 4, "images": 20}),
        (in_few_batches, 100, {"size": 2, "images": 20}),
        *((saved_again, 100, {"different": 4, "images": 20, "moved": m}) for m in (1e-3, 0.02)),
        *((in_batches, 60, {"size": b, "images": n}) for n in (20, 60) for b in (1, 2, 4)),
        *((independent, 60, {"images": n, "share": s}) for n, s in ((20, 0.85), (40, 0.85), (60, 0.75))),
        *((in_batches, 15, {"size": b, "images": n, "concepts": 12}) for n in (20, 60) for b in (2, 4)),
        *((in_batches, 60, {"size": b, "images": 20, "together": 0.7}) for b in (2, 4)),
        *((stimuli_in_batches, 600, {"size": b, "images": n}) for n in (20, 60) for b in (1, 2, 4)),
        *((portraits_in_batches, 120, {"size": b, "portraits": n}) for n in (20, 60) for b in (1, 2, 4)),
        (independent, 30, {"images": 40, "share": 0.85, "listed": True}),
        (saved_again, 20, {"different": 4, "images": 20, "moved": 0.02, "concepts": 12}),
    ]  # fmt: skip
