"""How often an onset's interval holds the step that was planted: ``python -m benchmarks.trace_simulations``.

Made-up estimates of eight steps, from embeddings to the interval. At each step a concept shows group a with the chance
(1 + L) / 2, by one uniform number an image, so that steps hang together as those of a model do; half of its noise is
the same at all steps. The planted onset is the first step from which on L > 0. Groups lie further apart from step to
step, as estimates sharpen. In "groups late" they do not differ at all in steps 1 to 3, so no reader could tell them
apart there. Half way is planted where
the image part of 200,000 images passes half of the last one's.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import isnan, nan
from typing import Final

import numpy as np

from clinometer.metrics.records import Score
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.tracing import HALF, ONSET, trace_rows

STEPS, TARGETS, DIMENSIONS, PROMPTS, ATTRIBUTES = 8, 30, 8, 2, 16
SIZES: Final = (10, 20, 60)
SHAPES: Final[Mapping[str, Sequence[float]]] = {
    "step": (0, 0, 0, 0, 0.7, 0.7, 0.7, 0.7),
    "slow rise": (0, 0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.7),
    "from the start": (0.7,) * 8,
    "turns": (-0.6, -0.6, -0.3, 0, 0.3, 0.7, 0.7, 0.7),
    "dips": (0.7, 0.7, 0.7, 0, 0, 0.7, 0.7, 0.7),
    "groups late": (0.7,) * 8,
    "never": (0,) * 8,
    "step, to little": (0, 0, 0, 0, 0.3, 0.3, 0.3, 0.3),
}
"""L at each step."""

APART: Final = (0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)
WORDS: Final = np.eye(DIMENSIONS)[1] + np.outer((-0.3, 0, 0.3), np.eye(DIMENSIONS)[2])
"""What the words of both groups share; nothing of it lies along the line between the groups."""

DESIGN: Final = Design(
    targets=tuple(TargetDesign(f"concept {t}", "all") for t in range(TARGETS)), groups=("a", "b"), a="a", b="b",
    pairs={"a": ("x", "y"), "b": ("x", "y")}, margin=0.1,
)  # fmt: skip


def apart_of(shape: str) -> Sequence[float]:
    """How far groups lie apart at each step."""
    return (0.0, 0.0, 0.0, *APART[3:]) if shape == "groups late" else APART


def _from_on(holds: Sequence[bool]) -> float:
    """Return the first step from which on it holds at all; NaN where it does not at the last."""
    return float(STEPS + 1 - np.cumprod(holds[::-1]).sum()) if holds[-1] else nan


def planted(shape: str) -> float:
    """Return the first step from which on it leans; NaN where it does not in the end."""
    return _from_on([lean > 0 and apart > 0 for lean, apart in zip(SHAPES[shape], apart_of(shape), strict=True)])


def rows_of(shape: str, images: int, rng: np.random.Generator) -> list[Score]:
    """Return the rows of one study."""
    uniform = rng.random((TARGETS, images))
    kept = {
        "t": rng.normal(size=(TARGETS, images, DIMENSIONS)),
        "g": rng.normal(size=(2, PROMPTS, ATTRIBUTES, DIMENSIONS)),
    }
    side = np.eye(DIMENSIONS)[0]

    def drawn(step: int) -> list[EncoderEmbeddings]:
        lean, apart = SHAPES[shape][step], apart_of(shape)[step]

        def noisy(own: np.ndarray, side: np.ndarray) -> np.ndarray:
            x = 0.3 * (np.sqrt(0.5) * own + np.sqrt(0.5) * rng.normal(size=own.shape))
            x[..., 0] += apart * side
            x[..., 1] += 1.5  # what all images have in common
            return x

        targets = noisy(kept["t"], np.where(uniform < (1 + lean) / 2, 1.0, -1.0))
        groups = noisy(kept["g"], np.array([1.0, -1.0])[:, None, None])
        return [
            EncoderEmbeddings(
                "toy", tuple(targets), np.tile(WORDS[1], (TARGETS, 1)),
                {name: tuple(own) for name, own in zip("ab", groups, strict=True)},
                {"a": WORDS + side, "b": WORDS - side}, all_differ=True,
            )
        ]  # fmt: skip

    seen = {step + 1: drawn(step) for step in range(STEPS)}
    return trace_rows(seen[STEPS], {step: partial(seen.get, step) for step in seen}, DESIGN, total=STEPS)  # type: ignore[misc]


def half_planted(shape: str) -> float:
    """Find the step from which on half of the leaning is there, on so many images that chance is small."""
    rng, parts = np.random.default_rng(1), []
    for lean, apart in zip(SHAPES[shape], apart_of(shape), strict=True):
        x = 0.3 * rng.normal(size=(3, 200_000, DIMENSIONS))
        x[..., 1] += 1.5
        x[1:, :, 0] += np.array([[apart], [-apart]])
        x[0, :, 0] += np.where(rng.random(x.shape[1]) < (1 + lean) / 2, apart, -apart)
        target, a, b = (x / np.linalg.norm(x, axis=-1, keepdims=True)).mean(axis=1)
        words = WORDS[:, None] + np.eye(DIMENSIONS)[0] * np.array([[[1.0]], [[-1.0]]]).swapaxes(0, 1)
        of_a, of_b = (words / np.linalg.norm(words, axis=-1, keepdims=True)).mean(axis=0)
        parts.append(target @ (a - b + of_a - of_b))
    return _from_on([part >= parts[-1] / 2 for part in parts])


FALSE: Final = "share of a study's told onsets that are wrong, summed over studies"


def outcomes(shape: str, images: int, studies: int, seed: int) -> Counter[str]:
    """Count what became of the onsets of all concepts of some studies, and of half way."""
    counts, onset = Counter[str](), planted(shape)
    half = nan if isnan(onset) else half_planted(shape)
    for study in range(studies):
        rng = np.random.default_rng([seed, images, list(SHAPES).index(shape), study])
        before = Counter(counts)
        for row in rows_of(shape, images, rng):
            if row.component not in (ONSET, HALF) or not row.concept:
                continue
            name, truth = row.component, onset if row.component == ONSET else half
            counts[f"{name}, asked"] += 1
            if isnan(row.value):
                continue
            counts[f"{name}, told"] += 1
            if row.group != "a" or isnan(truth):
                counts[f"{name}, to the wrong side"] += 1
            elif row.high < truth:
                counts[f"{name}, too early"] += 1
            elif row.low > truth:
                counts[f"{name}, too late"] += 1
            else:
                counts[f"{name}, holds"] += 1
        told, held = (counts[f"{ONSET}, {what}"] - before[f"{ONSET}, {what}"] for what in ("told", "holds"))
        counts[FALSE] += (told - held) / max(told, 1)
    return counts


def main() -> None:
    """Print a row a shape and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=12)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES)
    options = parser.parse_args()
    print("| planted | onset | images | told, of concepts | of these held | too early | too late | "
          "wrong in a study, on average | half way held |")  # fmt: skip
    print("|---|" + "---:|" * 8)
    for shape in options.shapes:
        for images in SIZES:
            n = outcomes(shape, images, options.studies, 0)
            told, halves = (max(n[f"{name}, told"], 1) for name in (ONSET, HALF))
            shares = [n[f"{ONSET}, told"] / n[f"{ONSET}, asked"]]
            shares += [n[f"{ONSET}, {what}"] / told for what in ("holds", "too early", "too late")]
            shares += [n[FALSE] / options.studies, n[f"{HALF}, holds"] / halves]
            words = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {shape} | {planted(shape):g} | {images} | {words} |", flush=True)


if __name__ == "__main__":
    main()
