"""10,000 resamples of the default suite through sufficient statistics, beside recomputing the cosines each time.

    python benchmarks/resampling.py [--resamples N] [--dim D]

Both sides resample target images, attribute images and nothing else, and compute the four components of MCAS for all
targets of the suite ``reference``. The right side is the usual loop: index, normalise, multiply, average. It runs a
few resamples and is scaled up; the ratio is of times a resample. The whole study (every metric, p-value, interval)
is timed as well.
"""

import argparse
import time

import numpy as np

from clinometer.metrics import association_scores
from clinometer.studies.leaning import EncoderEmbeddings, mcas_study
from clinometer.studies.leaning.embeddings import design_of_suite
from clinometer.suites import load_suite

LOOPED = 20


def main() -> None:
    """Time the study and the loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=512)
    options = parser.parse_args()
    suite = load_suite("reference")
    rng = np.random.default_rng(0)

    def draw(rows: int) -> np.ndarray:
        return rng.standard_normal((rows, options.dim)).astype(np.float32)

    embeddings = EncoderEmbeddings(
        encoder="random",
        target_images=tuple(draw(suite.images.target) for _ in suite.targets),
        target_texts=draw(len(suite.targets)),
        group_images={n: tuple(draw(suite.images.attribute) for _ in g.prompts) for n, g in suite.groups.items()},
        group_words={n: draw(len(g.words)) for n, g in suite.groups.items()},
        group_texts={n: draw(len(g.prompts)) for n, g in suite.groups.items()},
    )
    began = time.perf_counter()
    scores = mcas_study([embeddings], design_of_suite(suite), n_resamples=options.resamples)
    study = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(LOOPED):
        recompute(embeddings, suite.axis.a, suite.axis.b, rng)
    loop = (time.perf_counter() - began) / LOOPED * options.resamples
    print(f"whole study: {len(scores)} numbers, {options.resamples} resamples each: {study:.1f} s")
    print(f"four components alone, cosines recomputed each time: {loop:.1f} s (from {LOOPED} resamples)")
    print(f"ratio: {loop / study:.1f}, although the study computes everything else too")


def recompute(embeddings: EncoderEmbeddings, a: str, b: str, rng: np.random.Generator) -> list[float]:
    """MCAS of every target from images drawn again within their prompts."""

    def redraw(images: np.ndarray) -> np.ndarray:
        return images[rng.integers(0, len(images), len(images))]

    images = [np.concatenate([redraw(x) for x in embeddings.group_images[group]]) for group in (a, b)]
    words = [embeddings.group_words[group] for group in (a, b)]
    values = []
    for t, own in enumerate(embeddings.target_images):
        drawn, text = redraw(own), embeddings.target_texts[t : t + 1]
        parts = [association_scores(x, *sets).mean() for x in (drawn, text) for sets in (images, words)]
        values.append(float(sum(parts)))
    return values


if __name__ == "__main__":
    main()
