"""planted.yaml: how often a neutral caption of each concept draws a man or a woman, and which skin tone."""

from __future__ import annotations

from functools import cache

import numpy as np
import yaml

from reference import art
from reference.paths import PLANTED


@cache
def probabilities() -> tuple[np.ndarray, np.ndarray]:
    """(p(man) of each concept, p(tone) of each concept and tone), in the order of art.concepts()."""
    table = yaml.safe_load(PLANTED.read_text(encoding="utf-8"))
    rows = [table[concept.name] for concept in art.concepts()]
    man = np.array([row["man"] for row in rows])
    tones = np.array([[row[tone] for tone in art.TONES] for row in rows])
    return man, tones
