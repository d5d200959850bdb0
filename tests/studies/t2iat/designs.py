"""A small T2IAT study whose leanings are planted, for tests of its rows and of its comparison."""

from __future__ import annotations

import numpy as np

from clinometer.stats.dependence import TOLERANCE
from clinometer.studies.t2iat import DesignedTest, T2iatDesign, T2iatEmbeddings

DIM = 5

DESIGN = T2iatDesign(
    concepts={"red": ("r1", "r2", "r3"), "green": ("g1", "g2", "g3")},
    tests=(DesignedTest("red-green", "red", "green"),),
    a="man",
    b="woman",
)


def embeddings(seed=0, *, n=12, encoder="eye", lean=0.6, text_lean=0.2):
    """Red stimuli lean to A by ``lean`` in their images and by ``text_lean`` in their texts, green ones to B."""
    rng = np.random.default_rng(seed)
    axis = np.eye(DIM)[0]
    neutral, attribute, texts, words = {}, {}, {}, {}
    for concept, stimuli in DESIGN.concepts.items():
        sign = 1 if concept == "red" else -1
        for name in stimuli:
            base = np.ones(DIM) + 0.3 * rng.normal(size=DIM)
            neutral[name] = base + sign * lean * axis + 0.2 * rng.normal(size=(n, DIM))
            texts[name] = base + sign * text_lean * axis
            for group, side in (("man", 1), ("woman", -1)):
                attribute[name, group] = base + side * axis + 0.2 * rng.normal(size=(n, DIM))
                words[name, group] = base + side * axis + 0.05 * rng.normal(size=(3, DIM))
    # In five dimensions, pictures come closer by chance than saving one again moves it: all of these are different
    return T2iatEmbeddings(encoder, neutral, attribute, texts, words, saved_again=TOLERANCE)


def cosine(x, y):
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)) @ (y / np.linalg.norm(y, axis=-1, keepdims=True)).T
