"""As what each encoder reads each neutral image of a run, and what the machine says of each concept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from clinometer.metrics.human import MachineScores
from clinometer.metrics.records import MEAN
from clinometer.runs.store import Run
from clinometer.runs.vectors import embedded
from clinometer.stats.association import association_scores
from clinometer.suites import EditingSuite, LeaningSuite, T2iatSuite
from clinometer.suites.editing import EDIT

SIGNED: Final = (
    ("mcas", "image_part"), ("mcas", "mcas"), ("mcas", "ii"), ("mcas", "itp"), ("mcas", "ita"), ("mcas", "tt"),
    ("share", "share"), ("share", "corrected_share"), ("association", "mean"),
)  # fmt: skip
"""Scores of a concept that are larger the more it leans to a."""

RATED: Final = ("target", EDIT)
"""Roles of the images that people rate: those of concepts that name no group, and edits into a profession."""

Readings = Mapping[str, Mapping[str, float]]
"""Encoder → sample id → 1 where it reads the image as a, else 0."""


def readings_of(run: Run) -> Readings:
    """Readings of the rated images by the rule of the study's own numbers; none of a study that has no such rule.

    A leaning study reads by the words of a and b, as ``share`` does; a T2IAT study by the attribute images of
    the stimulus; an editing study by the mean over its wordings, where its own reader abstains if they disagree.
    ``"mean"`` averages over the encoders.
    """
    margins = {name: margins for name in run.encoder_cards if (margins := _margins(run, name))}
    if not margins:
        return {}
    ids = list(next(iter(margins.values())))
    mean = {i: float(np.mean([by_id[i] for by_id in margins.values()])) for i in ids}
    return {name: {i: float(m > 0) for i, m in by_id.items()} for name, by_id in ({MEAN: mean} | margins).items()}


def machine_scores(scores: pd.DataFrame, group: str) -> tuple[MachineScores, ...]:
    """What people's fractions are held against: every signed score of the concepts, by encoder."""
    concept_scores = scores[(scores.setting == "") & scores.group.isin(["", group])]
    machine = []
    for metric, component in SIGNED:
        rows = concept_scores[(concept_scores.metric == metric) & (concept_scores.component == component)]
        for encoder, of_encoder in rows.groupby("encoder", sort=False):
            names = of_encoder.concept.where(of_encoder.concept != "", of_encoder.category)
            values = {str(n): float(v) for n, v in zip(names, of_encoder.value, strict=True)}
            machine.append(MachineScores(metric, component, str(encoder), values))
    return tuple(machine)


def _margins(run: Run, encoder: str) -> dict[str, float]:
    """By how much each neutral image is nearer to a than to b; empty where the encoder cannot say."""
    if isinstance(run.suite, LeaningSuite) and not run.suite.axes:
        return _by_words(run, run.suite, encoder)
    if isinstance(run.suite, T2iatSuite):
        return _by_attribute_images(run, run.suite, encoder)
    if isinstance(run.suite, EditingSuite):
        return _by_wordings(run, run.suite, encoder)
    return {}


def _by_wordings(run: Run, suite: EditingSuite, encoder: str) -> dict[str, float]:
    vectors, texts = embedded(run, encoder)
    ids = [sample.id for sample in run.plan if sample.role == EDIT and sample.id in vectors]
    if not texts or not ids:
        return {}
    a, b = (np.stack([texts[getattr(wording, side)] for wording in suite.wordings]) for side in ("a", "b"))
    return dict(zip(ids, association_scores(np.stack([vectors[i] for i in ids]), a, b).tolist(), strict=True))


def _by_words(run: Run, suite: LeaningSuite, encoder: str) -> dict[str, float]:
    vectors, texts = embedded(run, encoder)
    words = [suite.groups[name].words for name in (suite.compared.a, suite.compared.b)]
    ids = [sample.id for sample in run.plan if sample.role == "target" and sample.id in vectors]
    if not texts or not all(words) or not ids:
        return {}
    a, b = (np.stack([texts[word] for word in side_words]) for side_words in words)
    return dict(zip(ids, association_scores(np.stack([vectors[i] for i in ids]), a, b).tolist(), strict=True))


def _by_attribute_images(run: Run, suite: T2iatSuite, encoder: str) -> dict[str, float]:
    vectors, _ = embedded(run, encoder)
    margins: dict[str, float] = {}
    drawn: dict[tuple[str, str], list[str]] = {}
    for sample in run.plan:
        if sample.id in vectors:
            drawn.setdefault((sample.concept, sample.group), []).append(sample.id)
    for _, stimulus in suite.stimuli():
        ids = [drawn.get((stimulus.name, group), []) for group in ("", *suite.pair)]
        if all(ids):
            images, a, b = (np.stack([vectors[i] for i in group_ids]) for group_ids in ids)
            margins |= dict(zip(ids[0], association_scores(images, a, b).tolist(), strict=True))
    return margins
