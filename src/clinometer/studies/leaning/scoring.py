"""The leaning study: MCAS, internal bias and xMCAS from the embeddings of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from clinometer.metrics import Score, delta_alpha_curve
from clinometer.runs.embedded import require_finished
from clinometer.runs.store import Run
from clinometer.studies.common import scores_table, suite_of
from clinometer.studies.leaning import (
    Design,
    EncoderEmbeddings,
    Evidence,
    StoppingRule,
    TargetDesign,
    evidence_of,
    mcas_study,
    own_text_rows,
    paired_evidence,
    prior_rows,
    rows_when_stopped,
)
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.fit import unfit
from clinometer.studies.leaning.own_text import own_embeddings
from clinometer.studies.leaning.prior import prior_embeddings
from clinometer.studies.leaning.scores.crossed_comparison import compare_intersections
from clinometer.studies.leaning.scores.reader import reader_checks, withheld
from clinometer.studies.leaning.stacks import read_images
from clinometer.studies.study import Scored
from clinometer.suites import Group, LeaningSuite
from clinometer.suites.leaning import BLANK_PROMPT


def score_leaning(run: Run, resamples: int) -> Scored:
    """Every number of the MCAS family, and the curve of α on δ."""
    suite = suite_of(run, LeaningSuite)
    embeddings = [encoder_embeddings(run, suite, encoder) for encoder in run.encoder_cards]
    design = study_design(suite)
    scores = mcas_study(embeddings, design, n_resamples=resamples, seed=run.record["seed"])
    if design.axes:
        return Scored(scores_table(scores), pd.DataFrame({name: [] for name in ("curve", "x", "y", "low", "high")}))
    scores += prior_rows(prior_embeddings(run, suite), design, n_resamples=resamples, seed=run.record["seed"])
    if run.record.get("until") is not None:
        scores = rows_when_stopped(scores, evidence_of(embeddings, design, ahead=True), design)
        scores = withheld(scores, reader_checks(embeddings, design))
    own = own_embeddings(run, suite)
    scores += own_text_rows(own, design, n_resamples=resamples, seed=run.record["seed"])
    table = scores_table(scores)
    return Scored(table, _curves(table))


def open_concepts(run: Run, rule: StoppingRule, encoders: Sequence[str]) -> list[str]:
    """The targets that the images so far do not decide, by these encoders."""
    suite = suite_of(run, LeaningSuite)
    embeddings = [encoder_embeddings(run, suite, encoder) for encoder in encoders]
    stands = evidence_of(embeddings, study_design(suite))
    return [target.name for target, stand in zip(suite.targets, stands, strict=True) if not stand.stops(rule)]


def compare_leaning(
    runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
) -> list[Score]:
    """Differences between two runs, second minus first; with ``keep``, of pairs of images with these seeds."""
    suite, paired = suite_of(runs[0], LeaningSuite), keep is not None
    of_first, of_second = ([encoder_embeddings(run, suite, name, keep) for name in encoders] for run in runs)
    if suite.axes:
        return compare_intersections(of_first, of_second, study_design(suite), paired=paired)
    return compare_leanings(
        of_first,
        of_second,
        study_design(suite),
        paired=paired,
        until_decided=any(run.record.get("until") is not None for run in runs),
        n_resamples=resamples,
        seed=runs[0].record["seed"],
    )


def paired_evidence_of(runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int]) -> dict[str, Evidence]:
    """What the pairs of images with these seeds tell of each target's difference, second minus first."""
    suite = suite_of(runs[0], LeaningSuite)
    first, second = ([encoder_embeddings(run, suite, name, keep) for name in encoders] for run in runs)
    stands = paired_evidence(first, second, study_design(suite))
    return {target.name: stand for target, stand in zip(suite.targets, stands, strict=True)}


def study_design(suite: LeaningSuite) -> Design:
    """The suite as the metrics see it: names and matches, no prompts' texts."""
    return Design(
        targets=tuple(
            TargetDesign(name=target.name, category=category, stereotype=target.stereotype)
            for category, target in suite.categorised_targets()
        ),
        groups=tuple(suite.groups),
        **_compared(suite),
        prompts={name: tuple(p.prompt for p in group.prompts) for name, group in suite.groups.items()},
        pairs={name: tuple(p.pair for p in group.prompts) for name, group in suite.groups.items()},
        margin=suite.margin,
    )


def _compared(suite: LeaningSuite) -> dict[str, Any]:
    """The pair of groups and the third, or the axes and the cells."""
    if suite.axes is None:
        return {"a": suite.compared.a, "b": suite.compared.b, "third": suite.compared.third}
    axes = {name: tuple(axis.levels) for name, axis in suite.axes.items()}
    cells = {name: tuple((group.cell or {})[axis] for axis in axes) for name, group in suite.groups.items()}
    return {"axes": axes, "cells": cells}


def encoder_embeddings(
    run: Run, suite: LeaningSuite, encoder: str, keep: Collection[int] | None = None
) -> EncoderEmbeddings:
    """One encoder's vectors as the metrics see them; with ``keep``, those of images with these seeds alone."""
    require_finished(run, encoder)
    texts = run.texts(encoder)
    targets, groups = read_images(run, suite, encoder, keep)
    width = targets.width or len(next(iter(chain(chain.from_iterable(groups.values()), texts.values())), np.zeros(1)))
    return EncoderEmbeddings(
        encoder=encoder,
        target_images=targets.blocks((target.name for target in suite.targets), width),
        target_texts=np.stack([texts[suite.text_of(target)] for target in suite.targets]) if texts else None,
        group_images={
            name: tuple(_stacked(groups.get((name, p.prompt), ()), width) for p in group.prompts)
            for name, group in suite.groups.items()
        },
        group_words=_by_group(suite, texts, lambda group: group.words),
        group_texts=_by_group(suite, texts, lambda group: [p.prompt for p in group.prompts]),
        blank_text=_unless_zero(texts.get(BLANK_PROMPT)),
        unfit=unfit(run.encoder_cards[encoder], run.model_card, suite) if encoder in run.encoder_cards else {},
    )


def _stacked(vectors: Sequence[np.ndarray], width: int) -> np.ndarray:
    return np.stack(vectors) if len(vectors) else np.zeros((0, width), np.float32)


def _unless_zero(vector: np.ndarray | None) -> np.ndarray | None:
    """A blank prompt's vector, unless the encoder makes nothing of it: no cosine takes a zero vector."""
    return vector if vector is not None and vector.any() else None


def _by_group(
    suite: LeaningSuite, texts: Mapping[str, np.ndarray], chosen: Callable[[Group], Sequence[str]]
) -> dict[str, np.ndarray] | None:
    """The vectors of a few texts of each group; None from an encoder that reads none."""
    if not texts:
        return None
    return {name: np.stack([texts[text] for text in chosen(group)]) for name, group in suite.groups.items()}


def _curves(scores: pd.DataFrame) -> pd.DataFrame:
    """The relation of α to δ over the concepts, as the internal-bias paper draws it."""
    rows = scores[(scores.metric == "internal_bias") & (scores.encoder == "mean")]
    wide = rows.pivot(index="concept", columns="component", values="value")
    curve = delta_alpha_curve(
        wide["diffusion_bias"].to_numpy(dtype=float), wide["bias_amplification"].to_numpy(dtype=float)
    )
    return pd.DataFrame({"curve": "delta_alpha", "x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high})
