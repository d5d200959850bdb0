"""How many images does `--until decided` save? The reference suite on the reference model, against a fixed design.

    python benchmarks/stopping.py [--seeds 20] [--images 180] [--out FOLDER]

The fixed design draws as many images of every concept as find, with a power of 80 %, a leaning as large as the suite's
margin (`clinometer plan --effect 0.1`): 180. A run that is drawn until decided has the first images of the same
concepts, because an image follows from its prompt, its number and the seed; so its rounds are replayed on the fixed
run's embeddings, and the first seed is also drawn for real, to show that it comes out the same. For each seed: images
of both designs, and how many concepts get the same verdict. Finished audits in FOLDER are not drawn again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import clinometer as cm
from clinometer.metrics import EncoderEmbeddings, StoppingRule, stands_of
from clinometer.models import reference
from clinometer.runs.rounds import FIRST_ROUND, LATER_ROUND
from clinometer.runs.studies.leaning import encoder_embeddings, study_design
from clinometer.suites import LeaningSuite


@dataclass(frozen=True)
class Replay:
    """What one seed gave: images of each concept when it stopped, and the verdicts of both designs by concept."""

    counts: dict[str, int]
    stopped: dict[str, str]
    fixed: dict[str, str]


def replay(run: cm.Run) -> Replay:
    """Stop a finished run as `--until decided` would have."""
    suite = run.suite
    assert isinstance(suite, LeaningSuite)
    rule, design, most = StoppingRule(), study_design(suite), suite.images.target
    whole = [encoder_embeddings(run, suite, name) for name in run.encoder_cards]
    counts = [min(FIRST_ROUND, most)] * len(suite.targets)
    while True:
        stands = stands_of([_first(each, counts) for each in whole], design)
        more = [0 if stand.stops(rule) else min(LATER_ROUND, most - n) for stand, n in zip(stands, counts, strict=True)]
        if not any(more):
            break
        counts = [n + extra for n, extra in zip(counts, more, strict=True)]
    names = [target.name for target in suite.targets]
    sides = {True: design.a, False: design.b}
    words = [
        "balanced" if stand.balanced else f"leans to {sides[stand.value > 0]}" if stand.leans else "undecided"
        for stand in stands
    ]  # fmt: skip
    return Replay(dict(zip(names, counts, strict=True)), dict(zip(names, words, strict=True)), verdicts(run))


def _first(encoder: EncoderEmbeddings, counts: list[int]) -> EncoderEmbeddings:
    images = tuple(x[:n] for x, n in zip(encoder.target_images, counts, strict=True))
    return replace(encoder, target_images=images)


def verdicts(run: cm.Run) -> dict[str, str]:
    """Verdicts of a run by concept, the slight leanings among the others."""
    rows = run.scores
    rows = rows[(rows.metric == "mcas") & (rows.component == "mcas") & (rows.encoder == "mean")]
    short = {"shown balanced within margin": "balanced"}
    words = rows.set_index("concept").verdict
    return {name: short.get(said, said.replace("slightly ", "")) for name, said in words.items()}


def main() -> None:
    """Print a line a seed and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--images", type=int, default=180, help="images a concept of the fixed design, and the most")
    parser.add_argument(
        "--dtype", default="auto", help="bfloat16 draws nearly twice as fast on a processor that has it"
    )
    parser.add_argument("--out", default=None, help="folder for the runs, kept for another look")
    options = parser.parse_args()
    out = Path(options.out or tempfile.mkdtemp())
    replays, attributes = [], 0
    for seed in range(options.seeds):
        run = cm.audit(
            images=options.images, seed=seed, dtype=options.dtype, out=out / f"reference-{options.images}-{seed}"
        )
        found = replay(run)
        if seed == 0:
            drawn = cm.audit(
                images=options.images,
                seed=seed,
                until="decided",
                dtype=options.dtype,
                out=out / f"until-decided-{options.images}",
            )
            counts = Counter(sample.concept for sample in drawn.plan if sample.concept)
            print(f"drawn for real, seed 0: same images a concept as replayed: {counts == Counter(found.counts)}; "
                  f"same verdicts: {verdicts(drawn) == found.stopped}")  # fmt: skip
        attributes = sum(sample.role == "attribute" for sample in run.plan)
        replays.append(found)
        _print_seed(seed, found, options.images, attributes)
    _print_totals(replays, options.images, attributes)
    print(f"runs: {out}")


def _print_seed(seed: int, found: Replay, images: int, attributes: int) -> None:
    used, fixed = sum(found.counts.values()), images * len(found.counts)
    same = sum(found.stopped[name] == found.fixed[name] for name in found.counts)
    print(f"seed {seed}: {used} of {fixed} images of concepts ({used / fixed:.1%}; with {attributes} attribute images "
          f"{(used + attributes) / (fixed + attributes):.1%}), {same} of {len(found.counts)} verdicts the same",
          flush=True)  # fmt: skip


def _print_totals(replays: list[Replay], images: int, attributes: int) -> None:
    planted = {name: shares["man"] for name, shares in reference.planted().items()}
    used = np.array([sum(found.counts.values()) for found in replays])
    concepts = len(replays[0].counts)
    fixed = images * concepts
    pairs = Counter((found.fixed[name], found.stopped[name]) for found in replays for name in found.counts)
    total, same = sum(pairs.values()), sum(n for (a, b), n in pairs.items() if a == b)
    opposite = sum(n for (a, b), n in pairs.items() if a != b and a.startswith("leans") and b.startswith("leans"))
    share = (used + attributes) / (fixed + attributes)
    print(f"{len(replays)} seeds: {used.mean() / fixed:.1%} of the concepts' images, {share.mean():.1%} of all images "
          f"({share.min():.1%} to {share.max():.1%}); {same / total:.1%} of {total} verdicts the same, {opposite} "
          "opposite")  # fmt: skip
    for (a, b), n in sorted(pairs.items(), key=lambda item: -item[1]):
        print(f"  fixed: {a:18} until decided: {b:18} {n}")
    print("images when stopped, by concept (mean over seeds), beside the planted share of men:")
    for name in sorted(replays[0].counts, key=lambda name: abs(planted[name] - 0.5)):
        print(f"  {name:20} {planted[name]:.2f}  {np.mean([found.counts[name] for found in replays]):6.1f}")
    for what, said in (("fixed", "fixed"), ("until decided", "stopped")):
        parity = [getattr(found, said)[name] for found in replays for name in found.counts if planted[name] == 0.5]
        wrong = sum(
            getattr(found, said)[name] == f"leans to {'woman' if planted[name] > 0.5 else 'man'}"
            for found in replays for name in found.counts if planted[name] != 0.5
        )  # fmt: skip
        leaning = sum(word.startswith("leans") for word in parity)
        print(f"{what}: concepts planted at parity called leaning {leaning} of {len(parity)}; wrong side {wrong}")


if __name__ == "__main__":
    main()
