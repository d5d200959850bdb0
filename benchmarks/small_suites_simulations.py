"""Suites of one to a hundred concepts, skewed scores, and numbers made of others: do rates hold, do intervals cover?

Experiments for benchmarks/simulations.py, from made-up embeddings to tests and rows. Vectors have unit length and an
exact component along the direction between two groups (and along one towards a third), plus little noise, so the truth
is known without drawing it. Of a study's concepts every family of one, three, … is judged by itself, as a suite of that
size would be: a sample's test does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from benchmarks.rates import Experiment, Found
from clinometer.metrics.mcas import components, composite, group_similarity, xmcas
from clinometer.metrics.verdict import LEVEL
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.contrasts import contrast_tests, pair_weights
from clinometer.studies.leaning.scores.derived import internal_bias_rows
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.plane import xmcas_rows
from clinometer.studies.leaning.scores.views import views_of
from clinometer.studies.t2iat.scores import stimulus_tests
from clinometer.studies.t2iat.scores.stimuli import StimulusCosines, T2iatDesign, image_estimate

DIM, GAP, CONCEPTS = 24, 0.25, 100
SIZES: Final = (1, 3, 7, 12, 28, 100)
"""Concepts of a suite."""
PAIRS: Final = tuple(f"pair {i}" for i in range(4))

Scores = Callable[[np.random.Generator, int], np.ndarray]


def _exponential(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw from the unit exponential, cut at 15: one in three million lies beyond, where no unit vector reaches."""
    return np.minimum(rng.exponential(1, n), 15)


SCORES: Final[dict[str, tuple[Scores, float]]] = {
    "two kinds": (lambda rng, n: rng.choice([-1.0, 1.0], n), 0.0),
    "three kinds": (lambda rng, n: rng.choice([0.9, -0.3, 0.0], n, p=[0.2, 0.6, 0.2]), 0.0),
    "a rare kind": (lambda rng, n: rng.choice([0.9, -0.1], n, p=[0.1, 0.9]), 0.0),
    "exponential": (lambda rng, n: 0.25 * (_exponential(rng, n) - 1), 0.0),
    "continuous": (lambda rng, n: 0.6 * rng.normal(size=n), 0.0),
    "three kinds, leaning": (lambda rng, n: rng.choice([1.2, 0.0, 0.3], n, p=[0.2, 0.6, 0.2]), 0.3),
    "a rare kind, leaning": (lambda rng, n: rng.choice([0.9, 0.2], n, p=[0.1, 0.9]), 0.27),
    "exponential, leaning": (lambda rng, n: 0.25 * (_exponential(rng, n) - 1) + 0.3, 0.3),
    "continuous, leaning": (lambda rng, n: 0.6 * rng.normal(size=n) + 0.3, 0.3),
    "two kinds, 75 %": (lambda rng, n: rng.choice([-1.0, 1.0], n, p=[0.25, 0.75]), 0.5),
    "two kinds, 95 %": (lambda rng, n: rng.choice([-1.0, 1.0], n, p=[0.05, 0.95]), 0.9),
}
"""How far an image leans, in units of what the groups' own images do (±1), and the mean of that."""


class _Space:
    """What does not change between studies: a base, attribute prompts, concepts, texts, and the directions."""

    def __init__(self, seed: int, groups: int, concepts: int) -> None:
        self._rng, self._groups = np.random.default_rng(seed), groups
        self.base, self.ages, self.word = self._aside(1, 0.9)[0], self._aside(4, 0.25), self._aside(1, 0.8)[0]
        self.offsets = self._aside(concepts, 0.35)
        self.texts = self.base + self.offsets + self._aside(concepts, 0.2)

    def _aside(self, n: int, size: float) -> np.ndarray:
        x = self._rng.normal(size=(n, DIM))
        x[:, : self._groups - 1] = 0
        return size * x / np.linalg.norm(x, axis=1, keepdims=True)

    def images(self, rng: np.random.Generator, centre: np.ndarray, along: np.ndarray, noise: float) -> np.ndarray:
        """Unit vectors (n × DIM) that lean by ``along`` (n × directions), with noise around a centre."""
        n, directions = along.shape
        x = centre + noise * rng.normal(size=(n, DIM))
        x[:, :directions] = 0
        own = GAP * along + 0.5 * noise * rng.normal(size=along.shape)
        x *= (np.sqrt(1 - np.square(own).sum(axis=1)) / np.linalg.norm(x, axis=1))[:, None]
        x[:, :directions] = own
        return x

    def words(self, rng: np.random.Generator, n: int, along: np.ndarray) -> np.ndarray:
        """Words of a group: around one centre, leaning along the directions."""
        x = self.word + 0.12 * rng.normal(size=(n, DIM))
        x[:, : len(along)] += 0.15 * along
        return _unit(x)


def _unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


# --- families of concepts --------------------------------------------------------------------------------------------

TWO: Final = {"a": np.array([1.0]), "b": np.array([-1.0])}


@lru_cache(maxsize=1)
def _two_groups() -> tuple[_Space, dict[str, np.ndarray]]:
    space = _Space(5, 2, CONCEPTS)
    words = space.words(np.random.default_rng(6), 10, TWO["a"])
    return space, {"a": words, "b": words * np.where(np.arange(DIM) == 0, -1, 1)}


def families(n: int, scores: str, images: int, noise: float = 0.02) -> list[Found]:
    """The image part of a hundred concepts alike: families that call any leaning, and what the intervals leave out.

    An end of a 95 % interval beyond the truth is a gate that says "kept" of a limit at the truth; an end of a 90 %
    interval, a "balanced" of a margin there.
    """
    space, words = _two_groups()
    draw, mean = SCORES[scores]
    truth = GAP * mean * 2 * (GAP + words["a"][:, 0].mean())
    design = Design(
        targets=tuple(TargetDesign(f"concept {t}", "c") for t in range(CONCEPTS)), groups=("a", "b"), a="a", b="b",
        pairs={"a": PAIRS, "b": PAIRS},
    )  # fmt: skip
    beyond, p_values = [], []
    for study in range(n):
        rng = np.random.default_rng([81, *scores.encode(), images, round(1000 * noise), study])
        embeddings = EncoderEmbeddings(
            encoder="e", target_texts=space.texts, group_words=words,
            target_images=tuple(
                space.images(rng, space.base + offset, draw(rng, images)[:, None], noise) for offset in space.offsets
            ),
            group_images={g: tuple(space.images(rng, space.base + age, np.tile(along, (16, 1)), noise)
                                   for age in space.ages) for g, along in TWO.items()},
        )  # fmt: skip
        layout = layout_of([embeddings], design)
        of = StudySetup(design, layout, ResamplingSettings(1, 0, 0, 0.95))
        view = views_of([embeddings], of).mean
        tests = contrast_tests(of, view, pair_weights(of, ("ii", "ita"), *of.pair)).images
        at_truth = replace(tests, offset=tests.offset - truth)
        beyond.append(np.where(at_truth.value < 0, -1, 1) * (1 - at_truth.p_value))
        p_values.append(tests.p_value)
    setting = f"{scores}, {images} images{'' if noise == 0.02 else ', more noise'}"
    return _tails(np.array(beyond), setting) + (_any_leans(np.array(p_values), setting) if mean == 0 else [])


def _any_leans(p: np.ndarray, setting: str) -> list[Found]:
    """Of (studies × concepts) p-values: families of each size in which Benjamini and Hochberg call any."""
    found = []
    for size in SIZES:
        called = [
            [(benjamini_hochberg(row[i : i + size]) <= LEVEL).any() for i in range(0, p.shape[1] - size + 1, size)]
            for row in p
        ]
        own = np.mean(called, axis=1)
        said = f"any of {size} concepts leans" if size > 1 else "a single concept leans"
        found.append(Found("families-level", said, setting, 0.07, float(own.mean()), len(own), float(own.std(ddof=1))))
    return found


def _tails(beyond: np.ndarray, setting: str) -> list[Found]:
    """Of (studies × concepts) confidences at which the interval leaves the truth out, signed by its side."""

    def rate(said: str, nominal: float, held: np.ndarray) -> Found:
        own = held.mean(axis=1)
        return Found("families-away", said, setting, nominal, float(own.mean()), len(own), float(own.std(ddof=1)))

    return [
        rate("95 % interval covers", 0.95, np.abs(beyond) <= 0.95),
        *(max((rate(said, nominal, sign * beyond > confidence) for sign in (-1, 1)), key=lambda found: found.rate)
          for said, nominal, confidence in (("“kept” at the limit, on the worse side", 0.025, 0.95),
                                            ("“balanced” at the margin, on the worse side", 0.05, 0.90))),
    ]  # fmt: skip


def stimuli(n: int, scores: str, images: int) -> list[Found]:
    """The same of T2IAT's single stimuli, whose attribute images are their own: sixteen of each kind."""
    draw, mean = SCORES[scores]
    design, beyond, p_values = T2iatDesign({}, (), "a", "b"), [], []
    for study in range(n):
        rng = np.random.default_rng([82, *scores.encode(), images, study])
        cosines = {}
        for order in range(28):
            kind, own = draw(rng, images)[:, None], 0.01 * rng.normal(size=(images, 1))
            a, b = 0.6 + 0.01 * rng.normal(size=(2, 1, 16))
            poles = np.array([0.1, -0.1]) + float(a.mean() - b.mean())
            nothing = np.zeros((1, 0))
            cosines[str(order)] = StimulusCosines(a + 0.05 * kind + own, b - 0.05 * kind + own, nothing, nothing, poles)
        tests = stimulus_tests(cosines, {name: image_estimate(each, design) for name, each in cosines.items()})
        p_values.append([tests[name].p for name in cosines])
        beyond.append([0.96 * (np.sign(tests[name].low - 0.1 * mean) if tests[name].low > 0.1 * mean
                               else -(tests[name].high < 0.1 * mean)) for name in cosines])  # fmt: skip
    setting = f"T2IAT’s stimuli, {scores}, {images} images"
    covered = _tails(np.array(beyond, float), setting)[:1]
    return covered + ([each for each in _any_leans(np.array(p_values), setting) if "100" not in each.what]
                      if mean == 0 else [])  # fmt: skip


# --- numbers made of others ------------------------------------------------------------------------------------------

THREE: Final = {"a": np.array([1.0, 0.0]), "b": np.array([-1.0, 0.0]), "n": np.array([0.0, 1.0])}
PLACES: Final = 12
"""Concepts of a study with a third group."""


@lru_cache(maxsize=1)
def _three_groups() -> tuple[_Space, dict[str, np.ndarray]]:
    space, rng = _Space(7, 3, PLACES), np.random.default_rng(11)
    return space, {g: space.words(rng, 10, along) for g, along in THREE.items()}


@lru_cache(maxsize=4)
def _true_numbers(shares: tuple[float, ...], tilt: float, noise: float, *, words_drawn: bool) -> dict[str, np.ndarray]:
    """θ, distance, signed δ and α of each concept, of many images (and words); what lies along directions is exact."""
    space, words = _three_groups()
    rng, many, directions = np.random.default_rng(3), 40_000, len(THREE) - 1

    def mean_image(centre: np.ndarray, along: np.ndarray) -> np.ndarray:
        mean = space.images(rng, centre, np.tile(along, (many, 1)), noise).mean(axis=0)
        mean[:directions] = GAP * along
        return mean

    def alike(a: np.ndarray, b: np.ndarray) -> None:
        """Mirror images of each other, but for what the drawing left."""
        a[directions:] = b[directions:] = (a[directions:] + b[directions:]) / 2

    if words_drawn:
        of_words = [space.words(rng, 10 * many, along).mean(axis=0) for along in THREE.values()]
        alike(*of_words[:2])
        of_words[0][0] = -of_words[1][0]
        of_words[0][1] = of_words[1][1] = of_words[2][0] = 0
    else:
        of_words = [words[g].mean(axis=0) for g in THREE]
    of_images = [np.mean([mean_image(space.base + age, along) for age in space.ages], axis=0)
                 for along in THREE.values()]  # fmt: skip
    texts, tensor = _texts(space, tilt), np.zeros((PLACES, 4, 3))
    for t in range(PLACES):
        kinds = [mean_image(space.base + space.offsets[t], along) for along in THREE.values()]
        alike(*kinds[:2])
        own = np.average(kinds, axis=0, weights=shares)
        tensor[t] = _mean_cosines(own, texts[t], of_images, of_words)
    thirds = np.array([
        _mean_cosines(mean_image(space.base + age, THREE["n"]), text, of_images, of_words)
        for age, text in zip(space.ages, _group_texts(space)["n"], strict=True)
    ])  # fmt: skip
    ii, itp, ita, tt = np.moveaxis(components(tensor, 0, 1), -1, 0)
    place = xmcas(mcas=composite(tensor, 0, 1), similarity=group_similarity(tensor)[..., 2],
                  offset=-composite(thirds, 0, 1).mean())  # fmt: skip
    with np.errstate(divide="ignore"):
        return {
            "similarity": np.asarray(place.similarity), "angle": np.asarray(place.angle),
            "distance": np.asarray(place.distance), "signed_diffusion_bias": np.abs(ii) - np.abs(tt),
            "signed_bias_amplification": (itp + ita) / (2 * tt),
        }  # fmt: skip


def _texts(space: _Space, tilt: float) -> np.ndarray:
    return _unit(space.texts + tilt * np.eye(DIM)[0])


def _group_texts(space: _Space) -> dict[str, np.ndarray]:
    towards = {g: 0.1 * np.pad(along, (0, DIM - len(along))) for g, along in THREE.items()}
    return {g: _unit(space.base + space.ages + towards[g]) for g in THREE}


def _mean_cosines(image: np.ndarray, text: np.ndarray, of_images: list[np.ndarray], of_words: list[np.ndarray]) -> list:
    return [[own @ their for their in others] for others in (of_images, of_words) for own in (image, text)]


NAMES: Final = {
    "similarity": "similarity",
    "angle": "θ",
    "distance": "distance",
    "signed_diffusion_bias": "signed δ",
    "signed_bias_amplification": "signed α",
}


def derived(n: int, shares: tuple[float, float, float], tilt: float, images: int, words_drawn: bool = False) -> list:
    """xMCAS and internal bias of concepts that show a, b and a third group in these shares; texts lean by ``tilt``.

    Intervals over images where the words are held, over stimuli where they are drawn again.
    """
    space, words = _three_groups()
    truth, noise = _true_numbers(shares, tilt, 0.03, words_drawn=words_drawn), 0.03
    design = Design(
        targets=tuple(TargetDesign(f"concept {t}", "c") for t in range(PLACES)), groups=tuple(THREE), a="a", b="b",
        third="n", pairs={"a": PAIRS, "b": PAIRS},
    )  # fmt: skip
    held: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    for study in range(n):
        rng = np.random.default_rng([83, *(round(100 * x) for x in shares), round(1000 * tilt) + 1000, images, study])
        kinds = np.stack(list(THREE.values()))
        embeddings = EncoderEmbeddings(
            encoder="e", target_texts=_texts(space, tilt), group_texts=_group_texts(space),
            target_images=tuple(
                space.images(rng, space.base + offset, kinds[rng.choice(3, images, p=shares)], noise)
                for offset in space.offsets
            ),
            group_images={g: tuple(space.images(rng, space.base + age, np.tile(along, (16, 1)), noise)
                                   for age in space.ages) for g, along in THREE.items()},
            group_words={g: space.words(rng, 10, along) for g, along in THREE.items()} if words_drawn else words,
        )  # fmt: skip
        layout = layout_of([embeddings], design)
        of = StudySetup(design, layout, ResamplingSettings(400, 0, study, 0.95))
        view = views_of([embeddings], of).mean
        rows = [row for row in xmcas_rows(of, view) + internal_bias_rows(of, view) if row.concept]
        for name, true in truth.items():
            ends = [(r.stimulus_low, r.stimulus_high) if words_drawn else (r.low, r.high)
                    for r in rows if r.component == name]  # fmt: skip
            unbounded = "amplification" in name and words_drawn
            held[name].append([low <= value <= high or (unbounded and not np.isfinite(low))
                               for (low, high), value in zip(ends, true, strict=True)])  # fmt: skip
    told = " : ".join(f"{100 * share:g}" for share in shares)
    setting = f"{told}, {'tilted' if tilt else 'level'} texts, {images} images{', words drawn' if words_drawn else ''}"
    found = []
    for name, said in NAMES.items():
        if tilt or "amplification" not in name:  # α of level texts is not defined
            own = np.mean(held[name], axis=1)
            found.append(Found("derived-coverage", said, setting, 0.95, float(own.mean()), n, float(own.std(ddof=1))))
    return found


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        # A hundred concepts are one suite: whether it calls any is counted in many studies, what a concept's interval
        # holds in few.
        *((families, 300 if mean == 0 else 30, {"scores": scores, "images": images})
          for scores, (_, mean) in SCORES.items() for images in (10, 20, 60, 200)),
        *((stimuli, 1000, {"scores": scores, "images": images})
          for scores in list(SCORES)[:5] for images in (10, 20, 60, 200)),
        *((derived, 8, {"shares": shares, "tilt": tilt, "images": images})
          for shares, tilt in (((0.5, 0.5, 0.0), 0.0), ((0.5, 0.5, 0.0), 0.15), ((0.4, 0.4, 0.2), 0.0),
                               ((0.75, 0.25, 0.0), 0.15), ((0.95, 0.05, 0.0), 0.15))
          for images in (10, 20, 60, 200)),
        *((derived, 8, {"shares": shares, "tilt": 0.15, "images": images, "words_drawn": True})
          for shares in ((0.5, 0.5, 0.0), (0.95, 0.05, 0.0)) for images in (10, 60)),
    ]  # fmt: skip
