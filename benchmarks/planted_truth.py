"""Is the ruler straight? Audits of the reference model under many seeds, against what was planted.

    python benchmarks/planted_truth.py [--seeds 20] [--suite t2iat/reference] [--images N] [--out FOLDER]

`t2iat/reference`: the tests whose sets were planted on opposite sides must be found with the right sign, and the one at
parity must be called leaning at the nominal rate; and the same of its single prompts, by their association: those
planted 0.25 or more from parity, and those at exact parity. `reference`: the same of concepts, by MCAS. A rate has its
Wilson interval over seeds (and concepts, which share the seed's attribute images). Finished audits in FOLDER are not
drawn again; those of `stopping.py` serve `--suite reference --images 180`.
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
    """The tests of a T2IAT run, with the side each was planted on (0 for parity)."""
    rows = averaged(run, "t2iat", "differential_association")
    return rows.assign(planted=[0 if "parity" in name else 1 for name in rows.concept])


def prompts_of(run: cm.Run) -> pd.DataFrame:
    """The prompts of a T2IAT run that were planted far from parity or at it."""
    return with_side(averaged(run, "association", "mean"))


def concepts_of(run: cm.Run) -> pd.DataFrame:
    """The concepts of a leaning run that were planted far from parity or at it."""
    return with_side(averaged(run, "mcas", "mcas"))


def averaged(run: cm.Run, metric: str, component: str) -> pd.DataFrame:
    """Rows of one number, of the mean over encoders."""
    rows = run.scores
    return rows[(rows.metric == metric) & (rows.component == component) & (rows.encoder == "mean")]


def with_side(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows about what was planted far from parity or at it, with the side."""
    rows = rows[rows.concept.isin(set(reference.planted()))]
    man = pd.Series([reference.planted()[name]["man"] for name in rows.concept], rows.index)
    side = (man - 0.5).round(6)
    kept = (side == 0) | (side.abs() >= FAR)
    return rows.assign(planted=side.apply(lambda x: int(x > 0) - int(x < 0)))[kept]


KINDS = {"t2iat/reference": {"tests": tests_of, "prompts": prompts_of}, "reference": {"concepts": concepts_of}}


def rate(name: str, hits: pd.Series) -> None:
    """Print a share with its interval."""
    share = wilson_interval(int(hits.sum()), len(hits))
    print(f"{name}: {int(hits.sum())} of {len(hits)} = {share.value:.3f} [{share.low:.3f}, {share.high:.3f}]")


def report(kind: str, table: pd.DataFrame) -> None:
    """Print the rates of one kind, and each of its members."""
    planted, parity = table[table.planted != 0], table[table.planted == 0]
    print(kind)
    rate("  planted, estimate on the right side", planted.right)
    rate("  planted, called leaning to the right side", planted.called & planted.right)
    rate("  planted, called leaning to the wrong side", planted.called & ~planted.right)
    rate("  at parity, called leaning", parity.called)
    for name, rows in table.groupby("concept"):
        print(f"    {name}: mean {rows.value.mean():+.3f}, called leaning {rows.called.sum()} of {len(rows)}")


def main() -> None:
    """Audit under each seed; print what was found and the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--suite", default="t2iat/reference", choices=KINDS)
    parser.add_argument("--images", type=int, help="of a concept; by default as many as the suite says")
    parser.add_argument(
        "--dtype", default="auto", help="bfloat16 draws nearly twice as fast on a processor that has it"
    )
    parser.add_argument("--out", default=None, help="folder for the runs, kept for another look")
    options = parser.parse_args()
    out = Path(options.out or tempfile.mkdtemp())
    found: dict[str, list[pd.DataFrame]] = {kind: [] for kind in KINDS[options.suite]}
    for seed in range(options.seeds):
        parts = [options.suite.replace("/", "-"), options.images, seed]
        folder = out / "-".join(str(part) for part in parts if part is not None)
        run = cm.audit(suite=options.suite, images=options.images, seed=seed, dtype=options.dtype, out=folder)
        for kind, read in KINDS[options.suite].items():
            rows = read(run)
            told = rows.verdict.str.startswith("leans")
            found[kind].append(rows.assign(called=told, right=rows.value * rows.planted > 0))
            print(f"seed {seed}: {told.sum()} of {len(rows)} {kind} called leaning", flush=True)
    for kind, tables in found.items():
        report(kind, pd.concat(tables))
    print(f"runs: {out}")


if __name__ == "__main__":
    main()
