"""How many images does `--until decided` save? The reference suite on the reference model, against a fixed design.

    python benchmarks/stopping.py [--seeds 20] [--images 180] [--out FOLDER]

The fixed design draws as many images of every concept as find, with a power of 80 %, a leaning as large as the suite's
margin (`clinometer plan --effect 0.1`): 180. A run that is drawn until decided has the first images of the same
concepts, because an image follows from its prompt, its number and the seed; so its rounds are replayed on the fixed
run's embeddings, and the first seed is also drawn for real, to show that it comes out the same. For each seed: images
of both designs, and how many of the concepts that the fixed design decides are decided alike.

Both verdicts ask of a leaning that labels of attributes, permuted by chance, do worse. What the images say alone is in
the fixed design's intervals: decisions stand beside those, too. Finished audits in FOLDER are not drawn again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import clinometer as cm
from clinometer.models import reference
from clinometer.pipeline.execution import FIRST_ROUND, LATER_ROUND
from clinometer.report.view import scores_table
from clinometer.studies.leaning import EncoderEmbeddings, StoppingRule, evidence_of, mcas_study, rows_when_stopped
from clinometer.studies.leaning.embeddings import design_of_suite, encoder_embeddings
from clinometer.suites import LeaningSuite


@dataclass(frozen=True)
class Replay:
    """What one seed gave by concept: images when it stopped, the decision then, and those of the fixed design."""

    counts: dict[str, int]
    stopped: dict[str, str]
    fixed: dict[str, str]
    interval: dict[str, str]


def replay(run: cm.Run) -> Replay:
    """Stop a finished run as `--until decided` would have."""
    suite = run.suite
    assert isinstance(suite, LeaningSuite)
    rule, design, most = StoppingRule(), design_of_suite(suite), suite.images.target
    whole = [encoder_embeddings(run, suite, name) for name in run.encoder_cards]
    counts = [min(FIRST_ROUND, most)] * len(suite.targets)
    while True:
        stands = evidence_of([_first(each, counts) for each in whole], design)
        more = [0 if stand.stops(rule) else min(LATER_ROUND, most - n) for stand, n in zip(stands, counts, strict=True)]
        if not any(more):
            break
        counts = [n + extra for n, extra in zip(counts, more, strict=True)]
    names = [target.name for target in suite.targets]
    seen = [_first(each, counts) for each in whole]
    rows = rows_when_stopped(mcas_study(seen, design, seed=run.record["seed"]), {"image_part": stands}, design)
    stopped = judged(scores_table(rows))
    return Replay(
        dict(zip(names, counts, strict=True)), verdicts(stopped), verdicts(judged(run.scores)), by_interval(run)
    )


def _first(encoder: EncoderEmbeddings, counts: list[int]) -> EncoderEmbeddings:
    images = tuple(x[:n] for x, n in zip(encoder.target_images, counts, strict=True))
    return replace(encoder, target_images=images)


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """The image part of the mean over encoders, by concept."""
    rows = rows[(rows.metric == "mcas") & (rows.component == "image_part") & (rows.encoder == "mean")]
    return rows.set_index("concept")


def verdicts(rows: pd.DataFrame) -> dict[str, str]:
    """Verdicts by concept, the slight leanings among the others."""
    short = {"shown balanced within margin": "balanced"}
    return {name: short.get(said, said.replace("slightly ", "")) for name, said in rows.verdict.items()}


def by_interval(run: cm.Run) -> dict[str, str]:
    """What the 95 % intervals over images say alone: within the margin, without 0, or neither."""
    suite = run.suite
    assert isinstance(suite, LeaningSuite)
    margin = suite.margin
    assert margin is not None
    return {
        name: "balanced" if -margin < row.low and row.high < margin
        else f"leans to {suite.axis.a}" if row.low > 0
        else f"leans to {suite.axis.b}" if row.high < 0
        else "undecided"
        for name, row in judged(run.scores).iterrows()
    }  # fmt: skip


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
                  f"same verdicts: {verdicts(judged(drawn.scores)) == found.stopped}")  # fmt: skip
        attributes = sum(sample.role == "attribute" for sample in run.plan)
        replays.append(found)
        _print_seed(seed, found, options.images, attributes)
    _print_totals(replays, options.images, attributes)
    print(f"runs: {out}")


def _print_seed(seed: int, found: Replay, images: int, attributes: int) -> None:
    used, fixed = sum(found.counts.values()), images * len(found.counts)
    decided = [name for name, said in found.fixed.items() if said != "undecided"]
    same = sum(found.stopped[name] == found.fixed[name] for name in decided)
    print(f"seed {seed}: {used} of {fixed} images of concepts ({used / fixed:.1%}; with {attributes} attribute images "
          f"{(used + attributes) / (fixed + attributes):.1%}), {same} of {len(decided)} decisions the same",
          flush=True)  # fmt: skip


def _print_totals(replays: list[Replay], images: int, attributes: int) -> None:
    planted = {name: shares["man"] for name, shares in reference.planted().items()}
    used = np.array([sum(found.counts.values()) for found in replays])
    fixed = images * len(replays[0].counts)
    share = (used + attributes) / (fixed + attributes)
    print(f"{len(replays)} seeds: {used.mean() / fixed:.1%} of the concepts' images, {share.mean():.1%} of all images "
          f"({share.min():.1%} to {share.max():.1%})")  # fmt: skip
    _print_decisions("verdict", [(found.fixed, found.stopped) for found in replays])
    _print_decisions("interval alone", [(found.interval, found.stopped) for found in replays])
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


def _print_decisions(name: str, both: list[tuple[dict[str, str], dict[str, str]]]) -> None:
    """How the decisions of the fixed design fare, and all pairs of words."""
    pairs = Counter((fixed[concept], stopped[concept]) for fixed, stopped in both for concept in fixed)
    decided = sum(n for (a, _), n in pairs.items() if a != "undecided")
    same = sum(n for (a, b), n in pairs.items() if a == b != "undecided")
    opposite = sum(n for (a, b), n in pairs.items() if a != b and "undecided" not in (a, b))
    print(f"by its {name} the fixed design decides {decided}; until decided, {same} of them the same "
          f"({same / decided:.1%}), {opposite} otherwise")  # fmt: skip
    for (a, b), n in sorted(pairs.items(), key=lambda item: -item[1]):
        print(f"  fixed: {a:18} until decided: {b:18} {n}")


if __name__ == "__main__":
    main()
