"""Does the reference encoder read right, and does correcting its shares bring them nearer to the truth?

    python -m benchmarks.reader [--images 50] [--out RUN]

Audits the reference model, and lets the independent judge (``reference/judge.py``: the nearest of 5,472 drawings, which
knows nothing of the encoder) read the very same images. The artwork is fetched by npm, once. What is compared, over the
concepts: the share of men as the encoder reads it, the same corrected for misreading (``corrected_share``), and the
judge's. As this encoder hardly errs on the groups' own images, the same is asked of one that was made worse on purpose:
noise is added to its image vectors.
"""

from __future__ import annotations

import argparse
import io
from typing import Any, Final

import numpy as np
from PIL import Image
from scipy.stats import binomtest, false_discovery_control

import clinometer as cm
from clinometer.stats.association import unit_vectors
from clinometer.stats.confusion import ReadingCounts, corrected_share
from clinometer.studies.leaning.embeddings import design_of_suite, encoder_embeddings
from clinometer.studies.leaning.scores.design import EncoderEmbeddings
from clinometer.studies.leaning.scores.encoder_check import reader_checks
from clinometer.suites import Suite, load_suite, suite_from_mapping

FURTHER: Final = {"name": "shrugging", "prompt": "an image of a person shrugging", "keyword": "shrugging"}
"""Asked by the reference model's T2IAT tests, where it stood out."""

NOISE: Final = (0.0, 0.5, 1.0)
"""Standard deviation of the noise added to a unit vector, along the direction that tells the groups apart, in units of
half the distance between the groups' means."""


def asked(images: int) -> Suite:
    """The reference suite and one concept more."""
    suite = load_suite("reference").model_dump()
    targets = suite["categories"]["activity"]["targets"]
    suite["categories"]["activity"]["targets"] = [*targets, FURTHER]
    return suite_from_mapping(suite, source="benchmarks/reader.py").with_options(images=images)


def judged(run: cm.Run, device: str = "cpu") -> dict[str, np.ndarray]:
    """1 for a man, 0 for a woman, NaN for neither, by the judge; of each concept's images in the order of the plan."""
    from clinometer._torch import resolve_device
    from reference import art, judge  # the artwork is rendered when it is first asked for

    the_judge = judge.Judge(art.load(), resolve_device(device))
    found = {}
    for target in run.suite.targets:
        ids = [sample.id for sample in run.plan if sample.concept == target.name]
        pictures = [np.asarray(Image.open(io.BytesIO(png)).convert("RGB")) for _, png in run.images(ids) if png]
        found[target.name] = the_judge.judge(np.stack(pictures)).man()
    return found


def noisy(encoder: EncoderEmbeddings, sd: float, rng: np.random.Generator) -> EncoderEmbeddings:
    """The encoder made worse: the same noise on the images of concepts and of groups."""
    assert encoder.group_words is not None
    words = [unit_vectors(encoder.group_words[group]).mean(axis=0) for group in ("man", "woman")]
    towards = (words[0] - words[1]) / np.linalg.norm(words[0] - words[1])
    means = [np.concatenate([unit_vectors(x) for x in encoder.group_images[g]]).mean(axis=0) for g in ("man", "woman")]
    scale = sd * abs(float((means[0] - means[1]) @ towards)) / 2

    def blurred(x: np.ndarray) -> np.ndarray:
        return np.asarray(unit_vectors(x) + scale * rng.normal(size=(len(x), 1)) * towards)

    return EncoderEmbeddings(
        encoder=encoder.encoder,
        target_images=tuple(map(blurred, encoder.target_images)),
        target_texts=encoder.target_texts,
        group_images={group: tuple(map(blurred, x)) for group, x in encoder.group_images.items()},
        group_words=encoder.group_words,
    )


def read_as_men(encoder: EncoderEmbeddings) -> list[np.ndarray]:
    """Whether each image of each concept reads as a man, by the rule of ``share``."""
    assert encoder.group_words is not None
    words = [unit_vectors(encoder.group_words[group]).mean(axis=0) for group in ("man", "woman")]
    return [unit_vectors(x) @ (words[0] - words[1]) > 0 for x in encoder.target_images]


def compare(run: cm.Run, truth: dict[str, np.ndarray]) -> None:
    """Print how far both shares are from the judge's, of the encoder as it is and made worse."""
    design = design_of_suite(run.suite)
    own = encoder_embeddings(run, run.suite, "reference")
    for sd in NOISE:
        encoder = noisy(own, sd, np.random.default_rng(9)) if sd else own
        reading = reader_checks([encoder], design)["mean"].reading
        errors = [_errors(men, truth[t.name], reading) for men, t in zip(read_as_men(encoder), run.suite.targets,
                                                                        strict=True)]  # fmt: skip
        raw, corrected, held = np.array(errors).mean(axis=0)
        rates = f"{reading.right_a} of {reading.n_a} and {reading.right_b} of {reading.n_b} read right"
        print(f"noise {sd:g}: {rates}; mean |share - judge|: raw {raw:.3f}, corrected {corrected:.3f}; "
              f"the corrected interval holds the judge's share of {held:.0%} of concepts")  # fmt: skip


def _errors(men: np.ndarray, judge: np.ndarray, reading: ReadingCounts) -> tuple[float, float, float]:
    clear = ~np.isnan(judge)
    share = float(judge[clear].mean())
    found = corrected_share(int(men[clear].sum()), int(clear.sum()), reading)
    return abs(float(men[clear].mean()) - share), abs(found.value - share), float(found.low <= share <= found.high)


def differing(run: cm.Run, truth: dict[str, np.ndarray]) -> dict[str, Any]:
    """Both readers' counts of every concept on the same images, with McNemar's exact p and its q over the concepts."""
    men = read_as_men(encoder_embeddings(run, run.suite, "reference"))
    rows, p = {}, []
    for read, target in zip(men, run.suite.targets, strict=True):
        judge = truth[target.name]
        clear = ~np.isnan(judge)
        more, fewer = (int((read[clear] & (judge[clear] == 0)).sum()), int((~read[clear] & (judge[clear] == 1)).sum()))
        p.append(binomtest(more, more + fewer).pvalue if more + fewer else 1.0)
        rows[target.name] = {"n": int(clear.sum()), "encoder": int(read[clear].sum()), "judge": int(judge[clear].sum()),
                             "differ": more + fewer}  # fmt: skip
    q = false_discovery_control(p)
    return {name: row | {"q": round(float(value), 6)} for (name, row), value in zip(rows.items(), q, strict=True)}


def main() -> None:
    """Audit, judge, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50, help="of each concept")
    parser.add_argument("--out", default="runs/reader", help="the run; one that is finished is not drawn again")
    options = parser.parse_args()
    run = cm.audit(suite=asked(options.images), out=options.out)
    truth = judged(run)
    compare(run, truth)
    found = differing(run, truth)
    for name, row in sorted(found.items(), key=lambda item: item[1]["q"]):
        print(f"{name}: {row}")


if __name__ == "__main__":
    main()
