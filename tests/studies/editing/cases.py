"""Portraits and their edits whose answers are known."""

from __future__ import annotations

import numpy as np

from clinometer.metrics.records import Score
from clinometer.studies.editing.design import EditingDesign, Faces, GenderReadings, PortraitGroup
from clinometer.studies.editing.scores import editing_study

GROUPS = (
    PortraitGroup("light woman", "woman", "light"),
    PortraitGroup("light man", "man", "light"),
    PortraitGroup("dark woman", "woman", "dark"),
    PortraitGroup("dark man", "man", "dark"),
)
DESIGN = EditingDesign(
    groups=GROUPS,
    a="man",
    b="woman",
    professions={"doctor": "high-paid", "CEO": "high-paid", "dishwasher": "low-paid"},
    strengths=(0.6, 1.0),
    tones=("light", "dark"),
)
LIGHT, DARK = (np.array(colour) / 255 for colour in ((234, 218, 186), (130, 92, 67)))


class Case:
    """Twelve portraits a group; women flip at strength 1 when edited into high-paid professions, dark skin lightens."""

    def __init__(self, n: int = 12, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.groups = np.repeat(np.arange(4), n)
        man = np.isin(self.groups, (1, 3))
        dark = self.groups >= 2
        sign = np.where(man, 1.0, -1.0)
        cells = (len(self.groups), 3, 2)
        after = np.broadcast_to(sign[:, None, None], cells).copy()
        after[~man, :2, 1] = 1.0
        after[rng.choice(np.flatnonzero(man), 2), 0, 1] = -1.0
        spread = 0.05 * rng.random((*cells, 3))
        before = sign[:, None] * (0.1 + 0.05 * rng.random((len(self.groups), 3)))
        self.readings = GenderReadings("toy", before, after[..., None] * (0.1 + spread), np.full(cells, 0.8))
        angle = np.where(dark, 5.0, 45.0) + rng.normal(0, 1, len(self.groups))
        change = np.where(dark, 10.0, 0.0)[:, None, None] * np.array([0.5, 1.0]) + rng.normal(0, 1, cells)
        faces = np.where(dark[:, None], DARK, LIGHT)[:, None, None] * np.ones((1, 4, 4, 1))
        edited = np.broadcast_to(faces[:, None, None], (*cells, 4, 4, 3)).copy()
        edited[dark] = LIGHT
        drawn = np.ones(cells, bool)
        self.faces = Faces(angle, angle[:, None, None] + change, drawn[:, 0, 0], drawn, faces, edited)

    def scores(self, **options: object) -> list[Score]:
        settings = {"n_permutations": 999, "n_resamples": 30} | options
        return editing_study([self.readings], self.faces, self.groups, DESIGN, **settings)  # type: ignore[arg-type]
