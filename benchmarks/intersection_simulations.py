"""Do the tests of intersections hold their level, and what do they find? Experiments for benchmarks/simulations.py.

Studies of 28 concepts and four cells, gender × tone. Every image shows one cell; its embedding is the cell's centre,
the concept's own content and noise. Mirrored along either axis the population is the same, so a concept drawn evenly
has no leaning whatsoever, and whatever is found there is false.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.rates import Experiment, Found, rejections
from clinometer.metrics import Score
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign, mcas_study

CONCEPTS = 28
CELLS = {
    "light man": ("man", "light"),
    "light woman": ("woman", "light"),
    "dark man": ("man", "dark"),
    "dark woman": ("woman", "dark"),
}
DESIGN = Design(
    targets=tuple(TargetDesign(f"concept {t}", "made up") for t in range(CONCEPTS)),
    groups=tuple(CELLS),
    axes={"gender": ("man", "woman"), "tone": ("light", "dark")},
    cells=CELLS,
)
ASKED = {
    "one axis": "axis:gender",
    "all cells alike": "cells",
    "interaction": "interaction:gender×tone",
}
"""What is tested, and the component of its rows."""
RESIDUAL = "residual:gender×tone"
_DIM = 32
_SIGNS = np.array([[1, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]], np.float64)


class CellPopulation:
    """Four cells, their images and words. ``noise`` is that of an image; 0.5 blurs an axis as much as CLIP does."""

    def __init__(self, noise: float = 0.4) -> None:
        rng = np.random.default_rng(1)
        frame = np.linalg.qr(rng.normal(size=(_DIM, _DIM)))[0]
        self.noise, self.ways = noise, frame[:3] * [[1.5], [1.2], [0.5]]  # gender, tone, and what a cell alone has
        self.rest = frame[3:]
        self.base = 5 * self.rest[0]
        self.content, self.ages = self._content(rng, CONCEPTS, 2.0), self._content(rng, 2, 1.5)
        self.words = self.base + self._content(rng, 6, 2.0)

    def _content(self, rng: np.random.Generator, n: int, size: float) -> np.ndarray:
        """What lies along no axis, so that mirroring an axis leaves it as it is: (n × dim)."""
        return size * rng.normal(size=(n, len(self.rest) - 1)) / np.sqrt(len(self.rest)) @ self.rest[1:]

    def draw(self, rng: np.random.Generator, images: int, shares: np.ndarray, attribute: int = 16) -> EncoderEmbeddings:
        """One study: images of each concept in the shares (concepts × cells), of two prompts a cell, and words."""

        def around(centres: np.ndarray) -> np.ndarray:
            return centres + self.noise * rng.normal(size=centres.shape)

        drawn = [rng.choice(4, images, p=own) for own in shares]
        centres = self.base + _SIGNS @ self.ways
        return EncoderEmbeddings(
            encoder="made up",
            target_images=tuple(around(centres[c] + own) for c, own in zip(drawn, self.content, strict=True)),
            target_texts=self.base + self.content,
            group_images={
                cell: tuple(around(np.tile(centre + age, (attribute, 1))) for age in self.ages)
                for cell, centre in zip(CELLS, centres, strict=True)
            },
            group_words={cell: self.words + sign @ self.ways for cell, sign in zip(CELLS, _SIGNS, strict=True)},
        )


def shares_of(man: float, light: float, excess: float = 0.0) -> np.ndarray:
    """Shares of the four cells: independent, and ``excess`` more of light men and of dark women."""
    return (
        np.array([man * light, (1 - man) * light, man * (1 - light), (1 - man) * (1 - light)]) + excess * _SIGNS[:, 2]
    )


def study(seed: Sequence[int], images: int, shares: np.ndarray, noise: float = 0.4) -> list[Score]:
    """The rows of one made-up study, averaged over encoders."""
    embeddings = CellPopulation(noise).draw(np.random.default_rng(seed), images, shares)
    return [row for row in mcas_study([embeddings], DESIGN) if row.encoder == "mean" and not row.setting]


Tests = dict[str, tuple[list[float], list[float]]]
"""p and q of every concept, by component."""


def tests_of(rows: Sequence[Score], components: Sequence[str]) -> Tests:
    """What one study found."""
    found: Tests = {component: ([], []) for component in components}
    for row in rows:
        if row.component in found:
            found[row.component][0].append(row.p)
            found[row.component][1].append(row.q)
    return found


def level(n: int, images: int) -> list[Found]:
    """All concepts drawn evenly from the four cells: p of every test, and whether any concept of the 28 is called."""
    shares = np.tile(shares_of(0.5, 0.5), (CONCEPTS, 1))
    studies = [tests_of(study([1, images, k], images, shares), list(ASKED.values())) for k in range(n)]
    return [found for what, component in ASKED.items() for found in _level(what, component, images, studies, "evenly")]


def level_beside_leanings(n: int, images: int) -> list[Found]:
    """Interactions where both axes lean and the levels are drawn independently: of half the concepts, strongly."""
    shares = np.tile([shares_of(0.85, 0.75), shares_of(0.5, 0.5)], (CONCEPTS // 2, 1))
    what = {"interaction": ASKED["interaction"], "double-centred cosines": RESIDUAL}
    studies = [tests_of(study([2, images, k], images, shares), list(what.values())) for k in range(n)]
    return [
        found
        for name, component in what.items()
        for found in _level(name, component, images, studies, "half leaning on both axes")
    ]


def _level(what: str, component: str, images: int, studies: Sequence[Tests], how: str) -> list[Found]:
    setting = f"{images} images, {how}"
    p, q = (np.array([tests[component][field] for tests in studies]) for field in (0, 1))
    rates = [
        Found("intersections-level", f"intersections, {what}", setting, found.nominal, found.rate, len(studies))
        for found in rejections("", "", p.ravel())
    ]
    any_called = float((q <= 0.05).any(axis=1).mean())
    return [
        *rates,
        Found("intersections-level", f"intersections, {what}, any of 28", setting, 0.05, any_called, len(studies)),
    ]


def power(n: int, images: int, excess: float) -> list[Found]:
    """An interaction of ``excess`` in every fourth concept, all at parity by axis: found at q ≤ 5 % among 28."""
    shares = np.tile(shares_of(0.5, 0.5), (CONCEPTS, 1))
    planted = np.arange(0, CONCEPTS, 4)
    shares[planted] = shares_of(0.5, 0.5, excess)
    q, covered = [], []
    for k in range(n):
        rows = [r for r in study([3, images, round(100 * excess), k], images, shares)
                if r.component == ASKED["interaction"]]  # fmt: skip
        q.append([rows[t].q for t in planted])
        covered += [rows[t].low <= excess <= rows[t].high for t in planted]
    setting = f"{images} images, excess {excess:.2f}"
    return [
        Found(
            "intersections-power", "interaction found, q ≤ 5 %", setting, 0.05, float((np.array(q) <= 0.05).mean()), n
        ),
        Found("intersections-coverage", "interaction's interval", setting, 0.95, float(np.mean(covered)), n),
    ]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((level, 400, {"images": images}) for images in (8, 20, 100)),
        *((level_beside_leanings, 200, {"images": images}) for images in (8, 20, 100)),
        *((power, 40, {"images": images, "excess": excess})
          for images in (8, 20, 100) for excess in (0.05, 0.1, 0.15, 0.2)),
    ]  # fmt: skip
