"""Does editing follow the planted leaning? Flips of portraits on the reference model, against what was planted.

    python benchmarks/editing.py [--portraits 40] [--out FOLDER]

For each profession of `downstream/editing-reference` and each strength: the share of edits that read as men, against
the planted probability of men, as a rank correlation with its bootstrap interval over portraits; and the run's own
``planted_order``, of flip rates with the planted probability of what they flip to. If editing draws on the same leaning
as drawing, both rise with the strength, because less of the portrait is kept.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
from scipy.stats import spearmanr

import clinometer as cm
from clinometer.models import reference
from clinometer.studies.editing.scores import read_gender
from clinometer.studies.editing.study import edits_of, gender_readings
from clinometer.suites import EditingSuite


def main() -> None:
    """Run the study and print a line a strength."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--portraits", type=int, default=40, help="portraits a group")
    parser.add_argument("--out", default=None, help="run directory, kept for another look")
    options = parser.parse_args()
    out = options.out or tempfile.mkdtemp()
    run = cm.audit(suite="downstream/editing-reference", images=options.portraits, out=out)
    suite = run.suite
    assert isinstance(suite, EditingSuite)
    portraits = [sample for sample in run.plan if sample.role == "portrait"]
    readings = gender_readings(run, suite, "reference", portraits, edits_of(run, suite, portraits))
    man = np.where(read_gender(readings.after) == 0, np.nan, read_gender(readings.after) > 0)
    planted = [reference.planted()[name]["man"] for name in suite.professions]
    rng = np.random.default_rng(0)
    print(f"{len(portraits)} portraits, planted p(man) {dict(zip(suite.professions, planted, strict=True))}")
    for s, strength in enumerate(suite.strengths):
        share = np.nanmean(man[:, :, s], axis=0)
        draws = [
            spearmanr(planted, np.nanmean(man[rng.integers(len(man), size=len(man)), :, s], axis=0)).statistic
            for _ in range(2000)
        ]
        low, high = np.nanquantile(draws, [0.025, 0.975])
        rho = spearmanr(planted, share).statistic
        shares = ", ".join(f"{name} {value:.2f}" for name, value in zip(suite.professions, share, strict=True))
        print(f"strength {strength:g}: rank correlation {rho:+.2f} [{low:+.2f}, {high:+.2f}]; read as men: {shares}")
    order = run.scores[run.scores.component == "planted_order"]
    for row in order.to_dict("records"):
        print(f"{row['setting']}: flips in planted order {row['value']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]")
    print(f"run: {out}")


if __name__ == "__main__":
    main()
