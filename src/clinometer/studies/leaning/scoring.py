"""The leaning study: MCAS, internal bias and xMCAS from the embeddings of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from clinometer.metrics import Score, delta_alpha_curve
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.report.rows import MEAN, Scores
from clinometer.runs.scratch import Scratch
from clinometer.runs.store import Run
from clinometer.runs.together import PooledRun
from clinometer.studies.leaning import (
    Evidence,
    StoppingRule,
    counted_once,
    crossed_study,
    evidence_of,
    mcas_study,
    own_text_rows,
    paired_evidence,
    prior_rows,
    rows_when_stopped,
)
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.embeddings import (
    encoder_embeddings,
    missing_pictures,
    study_design,
    traced_embeddings,
    with_missing,
)
from clinometer.studies.leaning.own_text import own_embeddings
from clinometer.studies.leaning.prior import prior_embeddings
from clinometer.studies.leaning.scores.design import EncoderEmbeddings
from clinometer.studies.leaning.scores.differences import compare_intersections
from clinometer.studies.leaning.scores.measuring import pairs_counted_once
from clinometer.studies.leaning.scores.mitigated import mitigation_rows
from clinometer.studies.leaning.scores.reader import reader_checks, withheld
from clinometer.studies.leaning.scores.shares import FIDELITY, fidelity_differences
from clinometer.studies.leaning.scores.tracing import trace_rows
from clinometer.studies.leaning.shared import measured_by
from clinometer.studies.leaning.wordings import rows_of_wordings
from clinometer.studies.study import Pool, Scored, scores_table, suite_of
from clinometer.suites import LeaningSuite


def score_leaning(run: Run, resamples: int, pool: Pool | None = None) -> Scored:
    """Score every number of the MCAS family, and the curve of α on δ; with a ``pool``, it measures the targets."""
    suite = suite_of(run, LeaningSuite)
    design, seed, measured = with_missing(study_design(suite), run), run.record["seed"], None
    if pool is None:
        embeddings = counted_once([encoder_embeddings(run, suite, encoder) for encoder in run.encoder_cards], design)
    else:
        embeddings, measured = measured_by(pool, run, suite, resamples)
    if design.axes:
        scores = crossed_study(embeddings, design, measured=measured)
        return Scored(scores_table(scores), pd.DataFrame({name: [] for name in ("curve", "x", "y", "low", "high")}))
    scores = mcas_study(embeddings, design, n_resamples=resamples, seed=seed, measured=measured, store=Scratch)
    scores += rows_of_wordings(run, suite, embeddings, design, resamples)
    scores += prior_rows(prior_embeddings(run, suite), design, n_resamples=resamples, seed=seed)
    if run.record.get("until") is not None:
        stands = {name: evidence_of(embeddings, design, component=name, ahead=True) for name in (IMAGE_PART, "mcas")}
        scores = rows_when_stopped(scores, stands, design)
        scores = withheld(scores, reader_checks(embeddings, design))
    own = own_embeddings(run, suite)
    scores += own_text_rows(own, design, n_resamples=resamples, seed=seed)
    finished, steps = traced_embeddings(run, suite, embeddings)
    if steps:
        scores += trace_rows(finished, steps, design, total=run.traces.record["total"], before=scores, seed=seed)
    table = scores_table(scores)
    return Scored(table, _curves(table))


def open_concepts(run: Run, rule: StoppingRule, encoders: Sequence[str]) -> list[str]:
    """List the targets that the images so far do not decide, by these encoders."""
    suite = suite_of(run, LeaningSuite)
    design = study_design(suite)
    embeddings = counted_once([encoder_embeddings(run, suite, encoder) for encoder in encoders], design)
    stands = evidence_of(embeddings, design)
    return [target.name for target, stand in zip(suite.targets, stands, strict=True) if not stand.stops(rule)]


def compare_leaning(
    runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
) -> list[Score]:
    """Compare two runs, second minus first; with ``keep``, by pairs of images with these seeds."""
    suite, paired = suite_of(runs[0], LeaningSuite), keep is not None
    of_first, of_second = (
        [encoder_embeddings(run, suite_of(run, LeaningSuite), name, keep) for name in encoders] for run in runs
    )
    missing = missing_pictures(runs, suite, encoders, keep)
    if suite.axes:
        return compare_intersections(of_first, of_second, study_design(suite), paired=paired, missing=missing)
    until_decided = any(run.record.get("until") is not None for run in runs)
    rows = compare_leanings(
        of_first,
        of_second,
        study_design(suite),
        paired=paired,
        until_decided=until_decided,
        n_resamples=resamples,
        seed=runs[0].record["seed"],
        missing=missing,
        store=Scratch,
    )
    if until_decided:  # intervals over numbers of images that the images have set are not tested
        return rows
    fidelity = _fidelity_differences(runs, encoders)
    return [*rows, *fidelity, *(_mitigation_rows(runs, suite, (of_first, of_second), fidelity) if paired else ())]


def mitigation_of(run: Run) -> Mapping[str, Any] | None:
    """What was done to a run's model, as its card says it; None where nothing was."""
    settings = run.model_card["settings"]
    found = settings.get("mitigation") or (settings.get("lora") or {}).get("mitigation")
    return found if isinstance(found, Mapping) else None


def _mitigation_rows(
    runs: tuple[Run, Run],
    suite: LeaningSuite,
    embeddings: tuple[Sequence[EncoderEmbeddings], Sequence[EncoderEmbeddings]],
    fidelity: Sequence[Score],
) -> list[Score]:
    """Judge the second run as a mitigation of the first, where its card says that it is one, and the first's none."""
    if mitigation_of(runs[1]) is None or mitigation_of(runs[0]) is not None:
        return []
    hashes = []
    for run in runs:
        named = {sample.id: (sample.seed, sample.prompt) for sample in run.plan if sample.role == "attribute"}
        there = run.samples[run.samples.id.isin(named) & (run.samples.status == "ok")]
        hashes.append({named[id_]: image for id_, image in zip(there.id, there.sha256, strict=True)})
    both = hashes[0].keys() & hashes[1].keys()
    changed = sum(hashes[0][start] != hashes[1][start] for start in both)
    learned = (mitigation_of(runs[1]) or {}).get("learned") or None
    return mitigation_rows(
        *pairs_counted_once(*embeddings), study_design(suite), named_changed=(changed, len(both)), fidelity=fidelity,
        learned=learned,
    )  # fmt: skip


def _fidelity_differences(runs: tuple[Run, Run], encoders: Sequence[str]) -> list[Score]:
    """Compare how well images show what was asked, by the average over encoders, or the first that both have."""
    seeds = [run.runs if isinstance(run, PooledRun) else (run,) for run in runs]
    if not all(run.is_scored for of_run in seeds for run in of_run):
        return []
    alike = all(set(run.encoder_cards) == set(encoders) for run in runs)
    first, second = (
        [row for run in of_run for row in Scores.from_frame(run.scores[run.scores.metric == FIDELITY])]
        for of_run in seeds
    )
    return fidelity_differences(first, second, MEAN if alike else encoders[0])


def paired_evidence_of(runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int]) -> dict[str, Evidence]:
    """Judge each target's difference, second minus first, by the pairs of images with these seeds."""
    suite = suite_of(runs[0], LeaningSuite)
    first, second = (
        [encoder_embeddings(run, suite_of(run, LeaningSuite), name, keep) for name in encoders] for run in runs
    )
    stands = paired_evidence(*pairs_counted_once(first, second), study_design(suite))
    return {target.name: stand for target, stand in zip(suite.targets, stands, strict=True)}


_CURVE = ("diffusion_bias", "bias_amplification")


def _curves(scores: pd.DataFrame) -> pd.DataFrame:
    """Relate α to δ over the concepts, as the internal-bias paper draws it; nothing where every α is unstable."""
    rows = scores[(scores.metric == "internal_bias") & (scores.encoder == "mean")]
    if (rows.flag[rows.component == "bias_amplification"] == "unstable").all():
        rows = rows[:0]
    of = {name: rows[rows.component == name].set_index("concept").value for name in _CURVE}
    wide = pd.DataFrame(of, dtype=float)
    curve = delta_alpha_curve(*(wide[name].to_numpy() for name in _CURVE))
    return pd.DataFrame({"curve": "delta_alpha", "x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high})
