"""How many images a concept takes: of a pilot's concepts, and without a pilot by the share of images on one side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, nan
from typing import Any, Final

import pandas as pd

from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.records import DECIDES, READING
from clinometer.runs.run import Run
from clinometer.stats.equivalence import standard_error_of
from clinometer.stats.power import images_for_share
from clinometer.studies.leaning.embeddings import design_of_suite, encoder_embeddings, with_missing
from clinometer.studies.leaning.scores import counted_once
from clinometer.studies.leaning.scores.needed import images_needed
from clinometer.studies.study import suite_of
from clinometer.suites import LeaningSuite

SHARES: Final = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
"""Shares of images on one side that an audit may want to find."""


def plan_shares(suite: LeaningSuite, power: float, alpha: float) -> pd.DataFrame:
    """Count the images that find a share of images on one side, a row a share, without a pilot."""
    axis = suite.pair_for("plan")
    prompts = (len(suite.groups[name].prompts) for name in (axis.a, axis.b))
    a, b = (suite.images.attribute * n / suite.images.target for n in prompts)  # of groups, for each of a concept
    found = [images_for_share(share, power=power, alpha=alpha, attribute_images=(a, b)) for share in SHARES]
    return pd.DataFrame({"share": SHARES, "to_detect": found})


def plan_concepts(pilot: Run, effect: float | None, margin: float | None, power: float, alpha: float) -> pd.DataFrame:
    """Count the images that every concept takes by a pilot, whose pictures are read as the scores read them."""
    suite = suite_of(pilot, LeaningSuite)
    suite.pair_for("plan")
    design = replace(with_missing(design_of_suite(suite), pilot), margin=margin)
    embeddings = counted_once([encoder_embeddings(pilot, suite, encoder) for encoder in pilot.encoder_cards], design)
    needed = vars(images_needed(embeddings, design, effect=effect, power=power, alpha=alpha))
    by_concept = pd.DataFrame(needed, index=[target.name for target in design.targets])
    scores = pilot.scores
    read = scores[scores.metric == READING]
    decides = read[(read.component == "separation") & (read.flag == DECIDES)].head(1)
    read = read[read.encoder.isin(decides.encoder) & read.setting.isin(decides.setting)]
    read = read[read.component == "ratings_to_decide"]
    ratings = dict(zip(read.concept, read.value, strict=True))
    concepts = []
    rows = scores[(scores.metric == "mcas") & (scores.component == IMAGE_PART) & (scores.encoder == "mean")]
    for row in rows.to_dict("records"):
        concept, error = str(row["concept"]), standard_error_of(float(row["low"]), float(row["high"]))
        reason = _why_no_number(row, error)
        known: dict[Any, Any] = dict.fromkeys(needed, nan) if reason else by_concept.loc[concept].to_dict()
        concepts.append({
            "concept": concept, "estimate": float(row["value"]), "standard_error": error,
            "images": int(row["n_target"]), **known, "ratings": float(ratings.get(row["concept"], nan)),
            "reason": reason,
        })  # fmt: skip
    return pd.DataFrame(concepts)


def _why_no_number(row: Mapping[Any, Any], error: float) -> str:
    """Explain why the pilot does not tell how many images a concept takes; empty where it does."""
    different, repeated = int(row["n_target"]), int(row.get("n_repeated") or 0)
    if different == 1 and repeated:
        return f"its {1 + repeated} pictures are one and the same"
    if not isfinite(error):
        return str(row["reason"] or "the pilot has no interval for it")
    return "its pictures do not differ, so their spread is not known" if error == 0 else ""
