"""From the store to the scores: gather each encoder's embeddings as the metrics want them, and write the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

import numpy as np
import pandas as pd

from clinometer.errors import RunNotFoundError
from clinometer.metrics import Design, EncoderEmbeddings, Score, TargetDesign, delta_alpha_curve, mcas_study
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.suites import Suite

RESAMPLES = 10_000


def score(run: Run, progress: Progress, *, resamples: int = RESAMPLES) -> pd.DataFrame:
    """Compute every number from the embeddings on disk and write them. Draws and embeds nothing.

    Raises
    ------
    RunNotFoundError
        No encoder has embedded the run, or its embeddings are not complete.
    """
    progress.start("scoring", len(run.encoder_cards), 0)
    embeddings = [_encoder_embeddings(run, encoder) for encoder in run.encoder_cards]
    if not embeddings:
        raise RunNotFoundError(f"{run.url}: no embeddings yet; give: clinometer score {run.url} --encoder reference")
    scores = mcas_study(embeddings, study_design(run.suite), n_resamples=resamples, seed=run.record["seed"])
    table = pd.DataFrame([asdict(row) for row in scores], columns=[field.name for field in fields(Score)])
    run.write_scores(table, _curves(table))
    progress.advance(len(embeddings))
    progress.finish()
    return table


def study_design(suite: Suite) -> Design:
    """The suite as the metrics see it: names and matches, no prompts' texts."""
    return Design(
        targets=tuple(
            TargetDesign(name=target.name, category=category, stereotype=target.stereotype)
            for category, target in suite.categorised_targets()
        ),
        groups=tuple(suite.groups),
        a=suite.axis.a,
        b=suite.axis.b,
        third=suite.axis.third,
        prompts={name: tuple(p.prompt for p in group.prompts) for name, group in suite.groups.items()},
        pairs={name: tuple(p.pair for p in group.prompts) for name, group in suite.groups.items()},
        margin=suite.margin,
    )


def _encoder_embeddings(run: Run, encoder: str) -> EncoderEmbeddings:
    unfinished = [part for part in run.parts if not run.has_embeddings(encoder, part)]
    if unfinished or not run.has_texts(encoder):
        raise RunNotFoundError(
            f"{run.url}: encoder {encoder} has not finished ({len(unfinished)} parts to go); give: clinometer score "
            f"{run.url} --encoder {encoder}"
        )
    vectors, texts, suite = run.embeddings(encoder), run.texts(encoder), run.suite
    width = next(iter(vectors.values())).shape[0] if vectors else next(iter(texts.values())).shape[0]

    def stack(samples: Sequence[Sample]) -> np.ndarray:
        rows = [vectors[sample.id] for sample in samples if sample.id in vectors]
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    by_concept = _grouped(run.plan, lambda sample: sample.concept)
    by_prompt = _grouped(run.plan, lambda sample: (sample.group, sample.prompt))
    return EncoderEmbeddings(
        encoder=encoder,
        target_images=tuple(stack(by_concept.get(target.name, [])) for target in suite.targets),
        target_texts=np.stack([texts[suite.text_of(target)] for target in suite.targets]),
        group_images={
            name: tuple(stack(by_prompt.get((name, p.prompt), [])) for p in group.prompts)
            for name, group in suite.groups.items()
        },
        group_words={name: np.stack([texts[word] for word in group.words]) for name, group in suite.groups.items()},
        group_texts={name: np.stack([texts[p.prompt] for p in group.prompts]) for name, group in suite.groups.items()},
    )


def _grouped(plan: Sequence[Sample], key: object) -> Mapping[object, list[Sample]]:
    grouped: dict[object, list[Sample]] = {}
    for sample in plan:
        grouped.setdefault(key(sample), []).append(sample)  # type: ignore[operator]
    return grouped


def _curves(scores: pd.DataFrame) -> pd.DataFrame:
    """The relation of α to δ over the concepts, as the internal-bias paper draws it."""
    rows = scores[(scores.metric == "internal_bias") & (scores.encoder == "mean")]
    wide = rows.pivot(index="concept", columns="component", values="value")
    curve = delta_alpha_curve(
        wide["diffusion_bias"].to_numpy(dtype=float), wide["bias_amplification"].to_numpy(dtype=float)
    )
    return pd.DataFrame({"curve": "delta_alpha", "x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high})
