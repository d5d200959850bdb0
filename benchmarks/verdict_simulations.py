"""Do verdicts keep their error rate, from made-up embeddings to the verdict? Experiments for benchmarks/simulations.py.

A population has two groups in four matched pairs of prompts, sixteen images each, and ten words for either. Images of a
concept are drawn half as one group and half as the other (*mixture*), or lean by degrees (*continuous*). All is mirror
symmetric between the groups, words included, so that a concept of which half the images show either is at exact parity
whatever the directions are. Skewed populations are at parity by their mean: their images have one length and lean by
three kinds (0.2 of them by 1, 0.6 by −1/3, 0.2 by 0), by a rare kind (0.1 by 0.9, 0.9 by −0.1), or exponentially. The
truth of every other concept is that of many images. *Tilted texts* lean by themselves, whatever is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import nan, sqrt

import numpy as np
from scipy import stats

from benchmarks.rates import Experiment, Found
from clinometer.metrics import Score
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART
from clinometer.metrics.verdict import LEANING, LEVEL
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.components import mcas_rows
from clinometer.studies.leaning.scores.contrasts import contrast_tests, pair_weights
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.middle import attribute_influences, from_middle
from clinometer.studies.leaning.scores.rows import Basis, Contrast, contrast_rows, judge_contrasts, uncounted
from clinometer.studies.leaning.scores.stopping import evidence_of
from clinometer.studies.leaning.scores.views import linear_views

DIM, PAIRS, ATTRIBUTE_IMAGES, WORDS = 32, 4, 16, 10
FAMILY_LEVEL = 0.07
"""The most runs of concepts at parity that may call any of them leaning."""


@dataclass(frozen=True)
class Population:
    """What images and words are drawn from.

    Attributes
    ----------
    name : in tables.
    gap : half the distance between the kinds, in units of the direction between the groups.
    noise : of an image, in each dimension.
    words : half the distance of the groups' words: small where they are close to each other.
    continuous : images lean by degrees, not as one of two kinds.
    scatter : how far attribute prompts stray from their group, mirrored between the groups.
    skew : how a concept's images lean, where not as above; such a population is at parity only.
    text_part : ITP + TT of every concept, on average over the attribute images; 0 by symmetry unless set.
    attribute_images : of every attribute prompt.
    """

    name: str
    gap: float = 0.3
    noise: float = 0.1
    words: float = 0.15
    continuous: bool = False
    scatter: float = 0.0
    skew: str = ""
    text_part: float = 0.0
    attribute_images: int = ATTRIBUTE_IMAGES

    @cached_property
    def fixed(self) -> dict[str, np.ndarray]:
        """What does not change between studies: ages, prompts, words, concepts, texts."""
        rng = np.random.default_rng(0)

        def aside(n: int, size: float) -> np.ndarray:
            """Directions at right angles to the one between the groups."""
            x = rng.normal(size=(n, DIM - 1))
            return np.concatenate([np.zeros((n, 1)), size * x / np.linalg.norm(x, axis=1, keepdims=True)], axis=1)

        base, word = aside(2, 1.0)
        spread = rng.normal(size=(WORDS, DIM)) * 0.12
        offsets = aside(28, 0.4)
        fixed = {
            "base": base,
            "ages": aside(PAIRS, 0.3),
            "strayed": self.scatter * rng.normal(size=(PAIRS, DIM)) / sqrt(DIM),
            "words": word + spread + self.words * _axis(),
            "offsets": offsets,
            "texts": base + offsets + np.concatenate([np.zeros((28, 1)), 0.2 * rng.normal(size=(28, DIM - 1))], axis=1),
        }
        if self.text_part:
            texts = fixed["texts"] / np.linalg.norm(fixed["texts"], axis=1, keepdims=True)
            along = self.text_part / self._towards(fixed)[0]
            fixed["texts"] = sqrt(1 - along**2) * texts + along * _axis()
        return fixed

    def draw(self, rng: np.random.Generator, shares: np.ndarray, images: int) -> EncoderEmbeddings:
        """Embeddings of a study whose concepts show the first group in these shares of their images."""
        fixed, n = self.fixed, len(shares)
        return EncoderEmbeddings(
            encoder="e",
            target_images=tuple(self._images(rng, t, shares[t], images) for t in range(n)),
            target_texts=fixed["texts"][:n],
            group_images={
                name: tuple(
                    fixed["base"]
                    + age
                    + _mirrored(stray, sign)
                    + sign * self.gap * _axis()
                    + self._noise(rng, self.attribute_images)
                    for age, stray in zip(fixed["ages"], fixed["strayed"], strict=True)
                )
                for name, sign in (("a", 1), ("b", -1))
            },
            group_words={"a": fixed["words"], "b": _mirrored(fixed["words"], -1)},
        )

    def _images(self, rng: np.random.Generator, t: int, share: float, n: int) -> np.ndarray:
        if self.continuous:
            leaning = (2 * share - 1) + 0.6 * rng.normal(size=n)
        elif self.text_part:  # exactly this share
            leaning = np.where(np.arange(n) < round(share * n), 1.0, -1.0)
        else:
            leaning = np.where(rng.random(n) < share, 1.0, -1.0)
        centre = self.fixed["base"] + self.fixed["offsets"][t]
        if self.skew:
            x = centre + self.gap * SKEWED[self.skew](rng, n)[:, None] * _axis() + self._noise(rng, n)
            aside = np.linalg.norm(x[:, 1:], axis=1, keepdims=True)
            x[:, 1:] *= (
                np.sqrt(np.maximum(1 - x[:, :1] ** 2, 1e-6)) / aside
            )  # one length, so cosines are linear in the leaning
            return x
        return centre + (self.gap * leaning)[:, None] * _axis() + self._noise(rng, n)

    def _noise(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return self.noise * rng.normal(size=(n, DIM))

    def truth(self, shares: np.ndarray) -> np.ndarray:
        """The image part of these concepts under infinitely many images: 0 at parity, else from 40,000 of each kind."""
        rng = np.random.default_rng(1)
        towards = self._towards(self.fixed)
        found = np.zeros(len(shares))
        for t, share in enumerate(shares):
            if share != 0.5:
                kinds = [_mean_unit(self._images(rng, t, kind, 40_000)) @ towards for kind in self._kinds(share)]
                found[t] = np.average(kinds, weights=[share, 1 - share] if len(kinds) == 2 else None)
        return found

    def _towards(self, fixed: dict[str, np.ndarray]) -> np.ndarray:
        """Mean of the attribute images and words of the first group less that of the second.

        By symmetry only what lies along the axis is left between the groups.
        """
        rng = np.random.default_rng(2)
        images = [
            np.mean(
                [
                    _mean_unit(fixed["base"] + age + _mirrored(stray, sign) + sign * self.gap * _axis()
                               + self._noise(rng, 40_000))
                    for age, stray in zip(fixed["ages"], fixed["strayed"], strict=True)
                ],
                axis=0,
            )
            for sign in (1, -1)
        ]  # fmt: skip
        return _axis() * ((images[0] - images[1])[0] + 2 * _mean_unit(fixed["words"])[0])

    def _kinds(self, share: float) -> list[float]:
        return [share] if self.continuous else [1.0, 0.0]


SKEWED = {
    "three kinds": lambda rng, n: rng.choice([1.0, -1 / 3, 0.0], n, p=[0.2, 0.6, 0.2]),
    "a rare kind": lambda rng, n: rng.choice([0.9, -0.1], n, p=[0.1, 0.9]),
    "exponential": lambda rng, n: 0.25 * (rng.exponential(1.0, n) - 1),
}
"""Leanings of mean 0 that are far from symmetric."""

POPULATIONS = (
    Population("mixture"),
    Population("mixture, words close to each other", words=0.03),
    Population("mixture, blurred", gap=0.12),
    Population("continuous", continuous=True),
    Population("mixture, prompts that scatter", scatter=0.3),
    *(Population(name, skew=name, noise=0.03) for name in SKEWED),
)


def _axis() -> np.ndarray:
    return np.eye(DIM)[0]


def _mirrored(x: np.ndarray, sign: int) -> np.ndarray:
    return x * np.where(np.arange(DIM) == 0, sign, 1)


def _mean_unit(x: np.ndarray) -> np.ndarray:
    return np.asarray((x / np.linalg.norm(x, axis=1, keepdims=True)).mean(axis=0))


def design_of(concepts: int, margin: float | None = None) -> Design:
    """A design of so many concepts."""
    pairs = tuple(f"pair {i}" for i in range(PAIRS))
    return Design(
        targets=tuple(TargetDesign(f"concept {t}", "c") for t in range(concepts)), groups=("a", "b"), a="a", b="b",
        pairs={"a": pairs, "b": pairs}, margin=margin,
    )  # fmt: skip


def verdict_rows(embeddings: EncoderEmbeddings, design: Design, component: str = IMAGE_PART) -> list[Score]:
    """The rows of a component that carry verdicts, as ``mcas_study`` judges them, and nothing else of it.

    No image is missing, so there are no bounds, and how many images would decide is not asked: that takes ten times as
    long as the verdict.
    """
    study = StudySetup(design, layout_of([embeddings], design), ResamplingSettings(1, 0, 0, 0.95))
    view = linear_views([embeddings], study).mean
    if component == TEXT_PART:
        return mcas_rows(study, view, [component])
    weights = pair_weights(study, COMPONENTS[component], *study.pair)
    tests = contrast_tests(study, view, weights)
    apart = from_middle(study, view, weights, tests.images, attribute_influences(view, weights))  # type: ignore[arg-type]
    names = {"metric": "mcas", "component": component}
    contrast = Contrast(weights, Basis(COMPONENTS[component], study.pair), names, ("a", "b"))
    rows = contrast_rows(study, view, contrast, replace(tests, from_middle=apart), design.margin)
    return judge_contrasts([contrast], [rows], component, margin=design.margin, judged=True, decide=uncounted)


@dataclass(frozen=True)
class Studies:
    """p, ends of the interval and whether a side is named, of (studies × concepts); and what they should hold."""

    p: np.ndarray
    low: np.ndarray
    high: np.ndarray
    leans: np.ndarray
    side: np.ndarray
    truth: np.ndarray

    @property
    def covers(self) -> np.ndarray:
        """Whether the interval holds the truth."""
        return (self.low <= self.truth) & (self.truth <= self.high)


def studies(population: Population, shares: np.ndarray, images: int, n: int, *seed: int) -> Studies:
    """Draw and judge so many studies."""
    held, design = [], design_of(len(shares))
    for study in range(n):
        rng = np.random.default_rng([*seed, images, len(shares), study])
        rows = verdict_rows(population.draw(rng, shares, images), design)
        held.append([(row.p, row.low, row.high, side_of(row)) for row in rows])
    p, low, high, side = np.moveaxis(np.array(held, float), -1, 0)
    return Studies(p, low, high, side != 0, side, population.truth(shares))


def side_of(row: Score) -> int:
    """The side that a verdict names, 0 for none; below the fewest images, what it would name."""
    return int(np.sign(row.value)) if row.q <= LEVEL and not row.low <= 0 <= row.high else 0


def rate_over_studies(kind: str, what: str, setting: str, nominal: float, held: np.ndarray) -> Found:
    """The rate of (studies × concepts), or of (studies,)."""
    own = held.reshape(len(held), -1).mean(axis=1)
    return Found(kind, what, setting, nominal, float(own.mean()), len(own), float(own.std(ddof=1)))


def at_parity(n: int, population: int, concepts: int, images: int) -> list[Found]:
    """All concepts at exact parity: level of p, coverage, and runs that call any of them leaning."""
    chosen = POPULATIONS[population]
    found = studies(chosen, np.full(concepts, 0.5), images, n, 31, population)
    setting = f"{chosen.name}, {concepts} concepts of {images} images"
    return [
        rate_over_studies("verdict-level", "p ≤ 5 %", setting, 0.05, found.p <= 0.05),
        rate_over_studies("verdict-level", "p ≤ 1 %", setting, 0.01, found.p <= 0.01),
        rate_over_studies("verdict-level", "interval covers", setting, 0.95, found.covers),
        rate_over_studies("verdict-level", "any concept leans", setting, FAMILY_LEVEL, found.leans.any(axis=1)),
    ]


def leaning(n: int, population: int, shares: tuple[float, ...], concepts: int, images: int) -> list[Found]:
    """Concepts of these shares in turn: coverage of each, false discoveries, wrong sides, leanings found."""
    chosen, each = POPULATIONS[population], np.array((shares * concepts)[:concepts])
    found = studies(chosen, each, images, n, 32, population, round(1000 * sum(shares)))
    told = " and ".join(f"{share:.0%}" for share in shares)
    setting = f"{chosen.name}, {concepts} concepts of {images} images, {told}"
    rates = [
        rate_over_studies(
            "verdict-away", f"interval covers, {share:.0%}", setting, 0.95, found.covers[:, each == share]
        )
        for share in dict.fromkeys(shares)
    ]
    wrong = found.leans & (found.side != np.sign(found.truth))
    false = wrong.sum(axis=1) / np.maximum(found.leans.sum(axis=1), 1)
    leaning = each != 0.5
    rates.append(rate_over_studies("verdict-away", "false discoveries", setting, 0.05, false))
    if leaning.any():
        rates.append(rate_over_studies("verdict-power", "leanings found", setting, 0.0, found.leans[:, leaning]))
    return rates


def against_t(n: int, share: float, concepts: int = 28, images: int = 20) -> list[Found]:
    """Half of the concepts at a share, the others at parity: what p ≤ 5 % and the verdict find, beside a t-test.

    The t-test has the same scores and attribute images, its own variance, and the same correction.
    """
    chosen, each = POPULATIONS[0], np.array([share, 0.5] * (concepts // 2))
    ours, theirs, design = [], [], design_of(concepts)
    for study in range(n):
        rng = np.random.default_rng([33, round(1000 * share), study])
        embeddings = chosen.draw(rng, each, images)
        ours.append([(row.p, row.q) for row in verdict_rows(embeddings, design)])
        p = student_p_values(embeddings, design)
        theirs.append(np.stack([p, benjamini_hochberg(p)], axis=1))
    setting = f"{share:.0%} of {images} images, half of {concepts} concepts"
    rates = []
    for name, held in (("the verdict's test", np.array(ours)), ("t-test", np.array(theirs))):
        for k, said in enumerate(("p ≤ 5 %", "q ≤ 5 %")):
            found = held[:, ::2, k] <= LEVEL
            rates.append(rate_over_studies("verdict-curve", f"{name}, {said}", setting, 0.05, found))
    return rates


def student_p_values(embeddings: EncoderEmbeddings, design: Design) -> np.ndarray:
    """A t-test of every concept by its own variance, the attribute images' error added (Welch)."""
    unit = {g: [x / np.linalg.norm(x, axis=1, keepdims=True) for x in xs] for g, xs in embeddings.group_images.items()}
    words = {g: x / np.linalg.norm(x, axis=1, keepdims=True) for g, x in (embeddings.group_words or {}).items()}
    towards = np.concatenate(unit["a"]).mean(0) - np.concatenate(unit["b"]).mean(0)
    towards = towards + words["a"].mean(0) - words["b"].mean(0)
    assert embeddings.target_texts is not None
    p = []
    for images, text in zip(embeddings.target_images, embeddings.target_texts, strict=True):
        own, prompt = images / np.linalg.norm(images, axis=1, keepdims=True), text / np.linalg.norm(text)
        y, mean = own @ towards, own.mean(0) + prompt
        parts = [(y.var(ddof=1) / len(y), len(y) - 1)]
        spread = sum((x @ mean).var(ddof=1) / len(x) / PAIRS**2 for xs in unit.values() for x in xs)
        parts.append((spread, 2 * PAIRS * (ATTRIBUTE_IMAGES - 1)))
        variance = sum(v for v, _ in parts)
        freedom = variance**2 / sum(v**2 / f for v, f in parts)
        p.append(2 * stats.t.sf(abs(y.mean() + prompt @ towards) / sqrt(variance), freedom))
    return np.array(p)


def tilted_texts(n: int, images: int, text_part: float = -0.09, concepts: int = 28) -> list[Found]:
    """Pictures exactly half and half, and texts that lean: concepts called leaning by their pictures, and by MCAS."""
    chosen, design = Population("mixture", text_part=text_part), design_of(concepts)
    leans: dict[str, list[list[bool]]] = {"image_part": [], "text_part": [], "mcas": []}
    for study in range(n):
        rng = np.random.default_rng([35, images, study])
        embeddings = chosen.draw(rng, np.full(concepts, 0.5), images)
        for component, held in leans.items():
            held.append([row.verdict in LEANING for row in verdict_rows(embeddings, design, component)])
    setting = f"text part {text_part:g}, {concepts} concepts of {images} images, half of each kind"
    nominal = {"image_part": 0.02}
    return [
        rate_over_studies("verdict-texts", f"{component} leans", setting, nominal.get(component, nan), np.array(held))
        for component, held in leans.items()
    ]


def until_decided(n: int, concepts: int, share: float | None = None, most: int = 60) -> list[Found]:
    """Drawn in rounds until decided: runs that call any concept at parity leaning, or false discoveries."""
    chosen, design = POPULATIONS[0], design_of(concepts)
    each = np.full(concepts, 0.5) if share is None else np.array([share, 0.5] * (concepts // 2))
    false, discoveries = [], []
    for study in range(n):
        rng = np.random.default_rng([34, concepts, round(1000 * (share or 0)), study])
        stands = _in_rounds(chosen.draw(rng, each, most), design, most)
        leans = np.array([stand.leans for stand in stands])
        false.append((leans & (each == 0.5)).any())
        discoveries.append((leans & (each == 0.5)).sum() / max(leans.sum(), 1))
    setting = f"{concepts} concepts, {'all at parity' if share is None else f'half at {share:.0%}'}, to {most} images"
    if share is None:
        return [
            rate_over_studies(
                "verdict-level", "--until decided: any concept leans", setting, FAMILY_LEVEL, np.array(false)
            )
        ]
    return [
        rate_over_studies("verdict-away", "--until decided: false discoveries", setting, 0.05, np.array(discoveries))
    ]


def _in_rounds(embeddings: EncoderEmbeddings, design: Design, most: int) -> list:
    """Ten images of each concept, then five more of those that are not decided, as ``--until decided`` looks."""
    counts = [10] * len(design.targets)
    while True:
        images = tuple(x[:k] for x, k in zip(embeddings.target_images, counts, strict=True))
        stands = evidence_of([replace(embeddings, target_images=images)], design)
        more = [k if stand.leans else min(k + 5, most) for k, stand in zip(counts, stands, strict=True)]
        if more == counts:
            return stands
        counts = more


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies: a quarter of an hour of one processor, all together."""
    return [
        *((at_parity, n, {"population": p, "concepts": concepts, "images": images})
          for p in (0, 2, 3, 5, 6, 7) for images in (10, 20, 60) for concepts, n in ((1, 200), (7, 100), (28, 60))),
        *((at_parity, 60, {"population": p, "concepts": 28, "images": 200}) for p in (0, 5, 6)),
        *((leaning, 40, {"population": p, "shares": shares, "concepts": 28, "images": images})
          for p in (0, 3) for images in (10, 20, 100) for shares in ((0.5, 0.75, 0.95), (0.5, 0.85))),
        *((against_t, 60, {"share": share}) for share in (0.5, 0.65, 0.75, 0.85, 0.95)),
        (until_decided, 120, {"concepts": 8}),
        (until_decided, 60, {"concepts": 28}),
        (until_decided, 40, {"concepts": 28, "share": 0.85}),
        *((tilted_texts, 40, {"images": images}) for images in (20, 60, 200)),
    ]  # fmt: skip
