"""Rows that only a run with a pair of groups has: its wordings, left-out words and traces, and mitigations of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from clinometer.metrics import Score
from clinometer.metrics.records import TRACE
from clinometer.report.rows import MEAN, Scores
from clinometer.runs.run import Run
from clinometer.runs.several import PooledRun
from clinometer.stats.skin import skin_tone
from clinometer.studies.leaning import counted_once
from clinometer.studies.leaning.embeddings import (
    design_of_suite,
    embeddings_of_ablations,
    readings_of_wordings,
    traced_embeddings,
    traced_seeds,
)
from clinometer.studies.leaning.scores.ablation import LeftOutWord, ablation_rows
from clinometer.studies.leaning.scores.components import image_part_direction, wording_rows
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TwoRuns
from clinometer.studies.leaning.scores.encoder_check import reader_checks
from clinometer.studies.leaning.scores.measuring import pairs_counted_once
from clinometer.studies.leaning.scores.mitigated import mitigation_rows
from clinometer.studies.leaning.scores.shares import FIDELITY, fidelity_differences
from clinometer.studies.leaning.scores.tracing import HALF, ONSET, compare_traces, trace_rows
from clinometer.studies.study import suite_of
from clinometer.suites import LeaningSuite


def rows_of_wordings(
    run: Run, suite: LeaningSuite, encoders: Sequence[EncoderEmbeddings], design: Design, resamples: int
) -> list[Score]:
    """Report what wordings do to the images of a run; nothing where no concept has several."""
    if not suite.wordings:
        return []
    readings = {}
    for embeddings in counted_once(encoders, design):
        direction = image_part_direction(embeddings, design)
        if direction is not None:
            readings[embeddings.encoder] = readings_of_wordings(run, suite, embeddings.encoder, direction)
    checks = reader_checks(encoders, design)
    return wording_rows(readings, encoders, checks, n_permutations=resamples, seed=run.record["seed"])


def rows_of_ablations(run: Run, suite: LeaningSuite) -> list[Score]:
    """Report what single words do to the images of a run; nothing where none was left out."""
    if not suite.ablations:
        return []
    words = [LeftOutWord(name, each.word) for name, left_out in suite.ablations.items() for each in left_out]
    whole, without, missing = embeddings_of_ablations(run, suite)
    return ablation_rows(whole, without, design_of_suite(suite.of_ablations()), words, missing=missing)


def explain_untraced(suite: LeaningSuite, reason: str) -> Iterator[Score]:
    """Report for every target, and for the middle of all, why no step is known from which it leans."""
    yield Score(metric=TRACE, component=ONSET, category="all", reason=reason)
    for category, target in suite.categorised_targets():
        for component in (ONSET, HALF):
            yield Score(metric=TRACE, component=component, concept=target.name, category=category, reason=reason)


def trace_differences(runs: tuple[Run, Run], embeddings: TwoRuns, keep: Collection[int] | None) -> list[Score]:
    """Compare two runs that were both traced, step by step; return nothing unless both were."""
    suite, records = suite_of(runs[0], LeaningSuite), [run.traces.record for run in runs]
    if not all(records):
        return []
    apart = [record["apart"] for record in records if record.get("apart")]
    if records[0]["total"] != records[1]["total"]:
        apart.append("one draws in {} steps and the other in {}".format(*(record["total"] for record in records)))
    elif records[0]["decoder"] != records[1]["decoder"]:
        apart.append("their estimates were decoded by different decoders")
    names = [own.encoder for own in embeddings[0] if not any(run.traces.missing([own.encoder]) for run in runs)]
    if apart or not names:
        return list(explain_untraced(suite, apart[0] if apart else "no encoder has seen the estimates of both runs"))
    design, seed = design_of_suite(suite), runs[0].record["seed"]
    shown = [[own for own in of_run if own.encoder in names] for of_run in embeddings]
    pairs = None if keep is None else traced_seeds(runs[0], names) & traced_seeds(runs[1], names) & set(keep)
    one, other = (traced_embeddings(run, suite, own, pairs)[1] for run, own in zip(runs, shown, strict=True))
    whole = [traced_embeddings(run, suite, own) for run, own in zip(runs, shown, strict=True)]
    total = records[0]["total"]
    first, second = (trace_rows(*each, design, total=total, seed=seed) for each in whole)
    return compare_traces(one, other, design, paired=keep is not None, own=(first, second), total=total, seed=seed)


def mitigation_of(run: Run) -> Mapping[str, Any] | None:
    """Return what was done to a run's model, as its card says it; None where nothing was."""
    settings = run.model_card["settings"]
    found = settings.get("mitigation") or (settings.get("lora") or {}).get("mitigation")
    return found if isinstance(found, Mapping) else None


def _aimed_elsewhere(run: Run, suite: LeaningSuite) -> list[str]:
    """Return the concepts whose target, as a mitigated run's card declares it, is not parity.

    The groups that the suite compares count, or all of the target where it names them otherwise.
    """
    made, compared = mitigation_of(run) or {}, (suite.compared.a, suite.compared.b)
    found = []
    for each in suite.targets:
        target = made.get("targets", {}).get(each.prompt, made.get("target", {}))
        shares = [target.get(group, 0.0) for group in compared] if set(compared) & set(target) else target.values()
        if len(set(shares)) > 1:
            found.append(each.name)
    return found


def judge_mitigation(
    runs: tuple[Run, Run], suite: LeaningSuite, embeddings: TwoRuns, fidelity: Sequence[Score]
) -> list[Score]:
    """Judge the second run as a mitigation of the first; return nothing unless its card alone says that it is one."""
    if mitigation_of(runs[1]) is None or mitigation_of(runs[0]) is not None:
        return []
    hashes = []
    for run in runs:
        named = {sample.id: (sample.seed, sample.prompt) for sample in run.plan if sample.role == "attribute"}
        there = run.samples[run.samples.id.isin(named) & (run.samples.status == "ok")]
        hashes.append({named[id_]: image for id_, image in zip(there.id, there.sha256, strict=True)})
    both = hashes[0].keys() & hashes[1].keys()
    changed = sum(hashes[0][start] != hashes[1][start] for start in both)
    first, second = (_skin_tones(run) for run in runs)
    lighter = dict[str, dict[tuple[int, int], float]]()  # by how many degrees, of pairs that differ from others
    for start in sorted(first.keys() & second.keys()):
        (before, was), (after, now) = first[start], second[start]
        lighter.setdefault(start[0], {})[before, after] = now - was
    return mitigation_rows(
        *pairs_counted_once(*embeddings), design_of_suite(suite), named_changed=(changed, len(both)), fidelity=fidelity,
        skin=[np.array(list(lighter.get(target.name, {}).values())) for target in suite.targets],
        learned=(mitigation_of(runs[1]) or {}).get("learned") or None,
        elsewhere=_aimed_elsewhere(runs[1], suite),
    )  # fmt: skip


def _skin_tones(run: Run) -> dict[tuple[str, str, int], tuple[int, float]]:
    """Measure the skin of every target image: of its concept, prompt and seed, the image's hash and the angle."""
    targets = {each.id: (each.concept, each.prompt, each.seed) for each in run.plan if each.role == "target"}
    tones = {}
    for identifier, content in run.images(targets):
        if content is not None:
            picture = run.drawn.decode(identifier, content).convert("RGB")
            picture.thumbnail((128, 128))  # a mean colour needs no more
            tones[targets[identifier]] = hash(content), skin_tone(np.asarray(picture)).angle
    return tones


def compare_fidelity(runs: tuple[Run, Run], encoders: Sequence[str]) -> list[Score]:
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
