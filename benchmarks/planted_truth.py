"""Is the ruler straight? Audits of the reference model under many seeds, against what was planted.

    python benchmarks/planted_truth.py [--seeds 20] [--suite t2iat/reference] [--images N] [--out FOLDER]

`t2iat/reference`: the tests whose sets were planted on opposite sides must be found with the right sign, and the one at
parity must be called leaning at the nominal rate. `reference`: the same of single concepts: those planted 0.25 or more
from parity, and those at exact parity. A rate has its Wilson interval over seeds (and concepts, which share the seed's
attribute images). Finished audits in FOLDER are not drawn again; those of `stopping.py` serve `--suite reference
--images 180`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pandas as pd

import clinometer as cm
from clinometer.models import reference
from clinometer.stats.proportion import wilson_interval

FAR = 0.25
"""From parity: a leaning that has to be found."""


def tests_of(run: cm.Run) -> pd.DataFrame:
    """The tests of an association run, with the side each was planted on (0 for parity)."""
    rows = run.scores
    rows = rows[(rows.metric == "t2iat") & (rows.component == "differential_association") & (rows.encoder == "mean")]
    return rows.assign(planted=[0 if "parity" in name else 1 for name in rows.concept])


def concepts_of(run: cm.Run) -> pd.DataFrame:
    """The concepts of a leaning run that were planted far from parity or at it."""
    rows = run.scores
    rows = rows[(rows.metric == "mcas") & (rows.component == "mcas") & (rows.encoder == "mean")]
    man = pd.Series([reference.planted()[name]["man"] for name in rows.concept], rows.index)
    side = (man - 0.5).round(6)
    kept = (side == 0) | (side.abs() >= FAR)
    return rows.assign(planted=side.apply(lambda x: int(x > 0) - int(x < 0)))[kept]


def rate(name: str, hits: pd.Series) -> None:
    """Print a share with its interval."""
    share = wilson_interval(int(hits.sum()), len(hits))
    print(f"{name}: {int(hits.sum())} of {len(hits)} = {share.value:.3f} [{share.low:.3f}, {share.high:.3f}]")


def main() -> None:
    """Audit under each seed; print what was found and the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--suite", default="t2iat/reference", choices=["t2iat/reference", "reference"])
    parser.add_argument("--images", type=int, help="of a concept; by default as many as the suite says")
    parser.add_argument(
        "--dtype", default="auto", help="bfloat16 draws nearly twice as fast on a processor that has it"
    )
    parser.add_argument("--out", default=None, help="folder for the runs, kept for another look")
    options = parser.parse_args()
    out = Path(options.out or tempfile.mkdtemp())
    read = tests_of if options.suite == "t2iat/reference" else concepts_of
    found = []
    for seed in range(options.seeds):
        parts = [options.suite.replace("/", "-"), options.images, seed]
        folder = out / "-".join(str(part) for part in parts if part is not None)
        rows = read(cm.audit(suite=options.suite, images=options.images, seed=seed, dtype=options.dtype, out=folder))
        told = rows.verdict.str.startswith("leans")
        found.append(rows.assign(seed=seed, called=told, right=rows.value * rows.planted > 0))
        lines = [f"{row.concept} {row.value:+.2f} q {row.q:.3f} {row.verdict}" for row in rows.itertuples()]
        print(f"seed {seed}: " + ("; ".join(lines) if len(rows) < 10 else f"{told.sum()} called leaning"), flush=True)
    table = pd.concat(found)
    planted, parity = table[table.planted != 0], table[table.planted == 0]
    rate("planted, estimate on the right side", planted.right)
    rate("planted, called leaning to the right side", planted.called & planted.right)
    rate("planted, called leaning to the wrong side", planted.called & ~planted.right)
    rate("at parity, called leaning", parity.called)
    for name, rows in table.groupby("concept"):
        print(f"  {name}: mean {rows.value.mean():+.3f}, called leaning {rows.called.sum()} of {len(rows)}")
    print(f"runs: {out}")


if __name__ == "__main__":
    main()
