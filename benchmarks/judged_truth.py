"""Are verdicts right, against the proportions that an independent judge counts in many images of the same model?

    python -m benchmarks.judged_truth [--seeds 20] [--truth 2000] [--sizes 20 60 180] [--jobs N] [--out FOLDER]

The *truth* of a concept is the share of men that the judge (``reference/judge.py``: the nearest of 5,472 drawings,
which knows nothing of the encoder) counts in ``--truth`` images of seeds that no audit has. A concept *leans* where the
99 % interval of that share excludes one half, and is *at parity* where it does not. Beside it stands what the encoder
reads in the same images, and MCAS of them: where it differs from the judge the encoder errs, and more images do not
fix that.

Every seed is audited once, with the most images of ``--sizes``; a smaller audit is its first images, which are those
that an audit of this size draws. Counted are the verdicts on MCAS: leanings found, on which side, and concepts at
parity that are called leaning. A rate over seeds has its Wilson interval.
``--write`` keeps what was counted in the package (``readings.yaml``): the report holds its verdicts against
it, and names the concepts that the encoder misreads. Artwork is fetched by npm, once. Finished audits in FOLDER are not
drawn again.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

import clinometer as cm
from benchmarks.reader import judged, read_as_men
from clinometer.models import reference
from clinometer.report.view import scores_table
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning import mcas_study
from clinometer.studies.leaning.embeddings import design_of_suite, encoder_embeddings

TRUTH_SEED = 1_000_000
"""The first seed of the images that are counted; audits begin at 0."""
TRUTH_PART = 250
"""Images of a concept in one run of those that are counted."""
READINGS = Path(reference.__file__).with_name("readings.yaml")
HEAD = """\
# Images of a concept (n), those that the encoder and the judge take for men, those on which they differ, and the 99 %
# interval of the judge's share. Written by: python -m benchmarks.judged_truth --write
"""
CONFIDENCE = 0.99
"""Of the interval of the counted share that has to exclude one half: of thirty concepts at parity it calls fewer than
one leaning."""


def audited(seed: int, images: int, options: argparse.Namespace) -> cm.Run:
    """The finished run of a seed."""
    return cm.audit(
        images=images, seed=seed, steps=options.steps, device=options.device, dtype=options.dtype,
        batch_size=options.batch_size, out=Path(options.out) / f"seed-{seed}-{images}",
    )  # fmt: skip


def counted(seed: int, images: int, options: argparse.Namespace) -> pd.DataFrame:
    """Men, women and pictures of neither in the images of each concept, by the judge and by the encoder."""
    run = audited(seed, images, options)
    own = encoder_embeddings(run, run.suite, "reference")
    mcas = verdicts_on(run, images, seed).set_index("concept").value
    rows = []
    for (name, men), read in zip(judged(run, options.device).items(), read_as_men(own), strict=True):
        clear = ~np.isnan(men)
        rows.append((name, len(men), int(clear.sum()), int(np.nansum(men)), int(read.sum()),
                     int((read[clear] != men[clear]).sum()), mcas[name]))  # fmt: skip
    return pd.DataFrame(rows, columns=["concept", "images", "judged", "men", "read_as_men", "differ", "mcas"])


def verdicts(seed: int, options: argparse.Namespace) -> pd.DataFrame:
    """The verdicts on MCAS of a seed's first images of each concept, for every size."""
    run = audited(seed, max(options.sizes), options)
    return pd.concat([verdicts_on(run, size, seed) for size in options.sizes])


def verdicts_on(run: cm.Run, size: int, seed: int) -> pd.DataFrame:
    """MCAS of every concept, by its first images."""
    own = encoder_embeddings(run, run.suite, "reference")
    first = replace(own, target_images=tuple(images[:size] for images in own.target_images))
    rows = scores_table(mcas_study([first], design_of_suite(run.suite), n_resamples=200, n_permutations=0, seed=seed))
    rows = rows[(rows.metric == "mcas") & (rows.component == "mcas") & (rows.encoder == "mean")]
    return rows[["concept", "value", "low", "high", "p", "q", "verdict"]].assign(seed=seed, size=size)


def truth_of(counts: pd.DataFrame) -> pd.DataFrame:
    """The counted share of every concept, its interval, and the side: 1 for men, -1 for women, 0 for parity."""
    groups = counts.groupby("concept", sort=False)
    table = groups[["images", "judged", "men", "read_as_men", "differ"]].sum().reset_index()
    intervals = [wilson_interval(int(r.men), int(r.judged), confidence=CONFIDENCE) for r in table.itertuples()]
    low, high = np.array([x.low for x in intervals]), np.array([x.high for x in intervals])
    return table.assign(
        share=[x.value for x in intervals],
        low=low,
        high=high,
        read=table.read_as_men / table.images,
        planted=[reference.planted()[name]["man"] for name in table.concept],
        mcas=groups.mcas.mean().to_numpy(),
        mcas_error=groups.mcas.sem().to_numpy(),
        side=np.where(low > 0.5, 1, np.where(high < 0.5, -1, 0)),
    )


def write(truth: pd.DataFrame) -> None:
    """Put what was counted into the package; concepts that this suite does not have keep their rows."""
    held = yaml.safe_load(READINGS.read_text(encoding="utf-8"))
    for r in truth.itertuples():
        held[r.concept] = {"n": int(r.judged), "encoder": int(r.read_as_men), "judge": int(r.men),
                           "differ": int(r.differ), "low": round(r.low, 4), "high": round(r.high, 4)}  # fmt: skip
    rows = yaml.safe_dump(held, sort_keys=False, default_flow_style=None, width=200)
    READINGS.write_text(HEAD + rows, encoding="utf-8")


def rate(hits: pd.Series) -> str:
    """A share with its interval."""
    if not len(hits):
        return "none"
    share = wilson_interval(int(hits.sum()), len(hits))
    return f"{int(hits.sum())} of {len(hits)} = {share.value:.1%} [{share.low:.1%}, {share.high:.1%}]"


def report(truth: pd.DataFrame, found: pd.DataFrame) -> None:
    """Print the truth, and what audits of every size said of it."""
    with pd.option_context("display.width", 200, "display.max_rows", 100, "display.max_columns", 20):
        print(truth.round(3).to_string(index=False))
    table = found.merge(truth[["concept", "side", "share", "read", "mcas"]], on="concept")
    table["called"] = table.verdict.str.startswith("leans")
    table["right"] = np.sign(table.value) == table.side
    for size, rows in table.groupby("size"):
        leaning, parity = rows[rows.side != 0], rows[rows.side == 0]
        print(f"\n{size} images of each of {rows.concept.nunique()} concepts, {rows.seed.nunique()} seeds")
        covered = (rows.low <= rows.mcas) & (rows.mcas <= rows.high)
        print(f"  interval holds MCAS of the counted images: {rate(covered)}")
        print(f"  called leaning, to the other side than MCAS of the counted images: "
              f"{rate(np.sign(rows.value[rows.called]) != np.sign(rows.mcas[rows.called]))}")  # fmt: skip
        print(f"  leaning by the judge, estimate on the right side: {rate(leaning.right)}")
        print(f"  leaning by the judge, found on the right side: {rate(leaning.called & leaning.right)}")
        print(f"  leaning by the judge, called leaning to the wrong side: {rate(leaning.called & ~leaning.right)}")
        print(f"  at parity by the judge, called leaning: {rate(parity.called)}")
        for far, near in ((0.4, 0.5), (0.25, 0.4), (0.1, 0.25), (0.0, 0.1)):
            distance = (leaning.share - 0.5).abs()
            band = leaning[(distance >= far) & (distance < near + 1e-9)]
            print(f"    leaning by {far:g} to {near:g}: found {rate(band.called & band.right)}")
        for name, each in parity.groupby("concept"):
            print(f"    at parity: {name}: counted {each.share.iloc[0]:.3f}, read {each['read'].iloc[0]:.3f}, "
                  f"called leaning {int(each.called.sum())} of {len(each)}")  # fmt: skip
        for name, each in leaning[leaning.called & ~leaning.right].groupby("concept"):
            print(f"    wrong side: {name}: {len(each)} times")


def main() -> None:
    """Audit and count side by side; print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--truth", type=int, default=2000, help="images of a concept that the judge counts")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 60, 180])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="audits side by side, a thread each")
    parser.add_argument("--out", default="runs/judged", help="folder of the runs and of both tables")
    parser.add_argument("--write", action="store_true", help=f"write {READINGS.name} of the package")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    part = min(TRUTH_PART, options.truth)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        counts = pool.map(
            partial(counted, images=part, options=options), [TRUTH_SEED + k for k in range(options.truth // part)]
        )
        found = pool.map(partial(verdicts, options=options), range(options.seeds))
        truth, said = truth_of(pd.concat(counts)), pd.concat(found)
    truth.to_csv(Path(options.out) / "truth.csv", index=False)
    said.to_csv(Path(options.out) / "verdicts.csv", index=False)
    report(truth, said)
    if options.write:
        write(truth)


if __name__ == "__main__":
    main()
