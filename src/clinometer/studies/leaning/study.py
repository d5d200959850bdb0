"""The leaning study: MCAS, internal bias and xMCAS from the embeddings of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer.metrics import Score, delta_alpha_curve
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.records import TRACE
from clinometer.report.comparison import RunsCompared
from clinometer.report.page import Page
from clinometer.report.rows import MEAN, Scores, scores_table
from clinometer.runs.pooled import PooledRun
from clinometer.runs.ratings.store import Rated
from clinometer.runs.run import Run
from clinometer.runs.scratch import Scratch
from clinometer.runs.tracing import parts_without_trace, trace_parts
from clinometer.stats.association import association_scores
from clinometer.stats.skin import skin_tone
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
from clinometer.studies.leaning.cells import CELLS, CrossedCompared
from clinometer.studies.leaning.compare import compare_leanings, split_rows
from clinometer.studies.leaning.embeddings import (
    design_of_suite,
    draw_prior_embeddings,
    embed_own_texts,
    embeddings_of_ablations,
    encoder_embeddings,
    lacks_own_texts,
    lazy_embeddings,
    missing_pictures,
    names_of_copies,
    own_embeddings,
    parts_without_prior,
    prior_embeddings,
    readings_of_wordings,
    target_sizes,
    traced_embeddings,
    traced_seeds,
    with_missing,
)
from clinometer.studies.leaning.page import PAGE
from clinometer.studies.leaning.planning import plan_concepts, plan_shares
from clinometer.studies.leaning.printed import PRINTED
from clinometer.studies.leaning.scores import MeasuredTarget, measurer_of
from clinometer.studies.leaning.scores.ablation import LeftOutWord, ablation_rows
from clinometer.studies.leaning.scores.components import image_part_direction, wording_rows
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings
from clinometer.studies.leaning.scores.differences import compare_intersections
from clinometer.studies.leaning.scores.encoder_check import reader_checks, withheld
from clinometer.studies.leaning.scores.measuring import CountedPictures, pairs_counted_once, pictures_that_count
from clinometer.studies.leaning.scores.mitigated import mitigation_rows
from clinometer.studies.leaning.scores.shares import FIDELITY, fidelity_differences
from clinometer.studies.leaning.scores.tracing import HALF, ONSET, compare_traces, trace_rows
from clinometer.studies.leaning.side_by_side import LeaningsCompared
from clinometer.studies.study import (
    ComparedGroups,
    PartStage,
    Pool,
    RunWork,
    Scored,
    Study,
    Unit,
    WholeStage,
    in_shape,
    map_units,
    named_answers,
    suite_of,
)
from clinometer.suites import LeaningSuite


def _rows_of_wordings(
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


def _rows_of_ablations(run: Run, suite: LeaningSuite) -> list[Score]:
    """Report what single words do to the images of a run; nothing where none was left out."""
    if not suite.ablations:
        return []
    words = [LeftOutWord(name, each.word) for name, left_out in suite.ablations.items() for each in left_out]
    whole, without, missing = embeddings_of_ablations(run, suite)
    return ablation_rows(whole, without, design_of_suite(suite.of_ablations()), words, missing=missing)


def _explain_untraced(suite: LeaningSuite, reason: str) -> Iterator[Score]:
    """Report for every target, and for the middle of all, why no step is known from which it leans."""
    yield Score(metric=TRACE, component=ONSET, category="all", reason=reason)
    for category, target in suite.categorised_targets():
        for component in (ONSET, HALF):
            yield Score(metric=TRACE, component=component, concept=target.name, category=category, reason=reason)


def _trace_differences(
    runs: tuple[Run, Run],
    embeddings: tuple[Sequence[EncoderEmbeddings], Sequence[EncoderEmbeddings]],
    keep: Collection[int] | None,
) -> list[Score]:
    """Compare two runs that were both traced, step by step; of runs of which one was not, there is nothing to tell."""
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
        return list(_explain_untraced(suite, apart[0] if apart else "no encoder has seen the estimates of both runs"))
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


@dataclass(frozen=True)
class Measuring(RunWork):
    """The measuring of a run's targets as work: a unit is some of their numbers.

    Attributes
    ----------
    sizes : how many images each target has.
    found : which of them count, and how often each was drawn.
    """

    encoders: tuple[str, ...]
    sizes: tuple[int, ...]
    found: CountedPictures
    resamples: int

    def on(self, run: Run) -> Callable[[Unit], list[tuple[int, MeasuredTarget]]]:
        """Read what all targets need, and return what measures some."""
        suite = suite_of(run, LeaningSuite)
        design = design_of_suite(suite)
        embeddings = counted_once(lazy_embeddings(run, suite, self.encoders, self.sizes), design, self.found)
        measure = measurer_of(embeddings, design, n_resamples=self.resamples, seed=run.record["seed"])
        return lambda unit: [(target, measure(target)) for target in unit]


def measure_in_pool(
    pool: Pool, run: Run, suite: LeaningSuite, resamples: int
) -> tuple[list[EncoderEmbeddings], Iterator[tuple[int, MeasuredTarget]]]:
    """Return a run's embeddings, no vector of a target among them read yet, and its targets as a pool measures them."""
    encoders, sizes = tuple(run.encoder_cards), target_sizes(run, suite, run.drawn.repeats())
    for encoder in encoders:
        run.vectors.require_finished(encoder)
    found = pictures_that_count(lazy_embeddings(run, suite, encoders, sizes), design_of_suite(suite))
    work = Measuring(run.directory.place, encoders, sizes, found, resamples)
    of_a_view = 16 * max(sizes, default=0) if suite.axes else 20 * resamples
    of_a_target = of_a_view * len(suite.groups) * (len(encoders) + 1)
    names = [f"target {target.name!r}" for target in suite.targets]
    measured = map_units(work, run, range(len(sizes)), names, pool, size=of_a_target)
    lazy = lazy_embeddings(run, suite, encoders, sizes)
    return counted_once(lazy, design_of_suite(suite), found), chain.from_iterable(measured)


def read_by_words(run: Run, encoder: str) -> dict[str, float]:
    """Return by how much each image of a target is nearer to the words of a than to those of b, by its id."""
    vectors, texts = run.embedded(encoder)
    words = list(LEANING.reading_words(in_shape(run.suite, LeaningSuite)).values())
    ids = [sample.id for sample in run.plan if sample.role == "target" and sample.id in vectors]
    if not texts or not all(words) or not ids:
        return {}
    a, b = (np.stack([texts[word] for word in side_words]) for side_words in words)
    return dict(zip(ids, association_scores(np.stack([vectors[i] for i in ids]), a, b).tolist(), strict=True))


LARGER_TOWARDS_A: Final = (
    ("mcas", IMAGE_PART), ("mcas", "mcas"), ("mcas", "ii"), ("mcas", "itp"), ("mcas", "ita"), ("mcas", "tt"),
    ("share", "share"), ("share", "corrected_share"),
)  # fmt: skip
"""Scores of a target that are larger the more it leans to a."""


class Leaning(Study[LeaningSuite]):
    """How far the pictures of concepts lie to one of two groups, or of the groups of axes (MCAS, xMCAS)."""

    key = "leaning"
    suite = LeaningSuite
    printed_tables = PRINTED
    stages = (
        WholeStage(embed_own_texts, "texts in the model's own encoders", lacks_own_texts),
        PartStage(draw_prior_embeddings, "the prior's embeddings", parts_without_prior),
        PartStage(trace_parts, "tracing", parts_without_trace),
    )
    groups_grow = True

    def page(self, suite: LeaningSuite) -> Page[Any]:
        """Show a pair of groups, or all groups where there are axes and so no pair."""
        return CELLS if suite.axes else PAGE

    def comparison(self, suite: LeaningSuite) -> RunsCompared[LeaningSuite]:
        """Compare leanings to one of a pair of groups, or of all groups of axes."""
        return CrossedCompared() if suite.axes else LeaningsCompared()

    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Score every number of the MCAS family, and the curve of α on δ; with a ``pool``, it measures the targets."""
        suite = suite_of(run, LeaningSuite)
        design, seed, measured = with_missing(design_of_suite(suite), run), run.record["seed"], None
        if pool is None:
            embeddings = counted_once(
                [encoder_embeddings(run, suite, encoder) for encoder in run.encoder_cards], design
            )
        else:
            embeddings, measured = measure_in_pool(pool, run, suite, resamples)
        if design.axes:
            scores = crossed_study(embeddings, design, measured=measured)
            scores += names_of_copies(run, suite, embeddings[0])
            return Scored(scores_table(scores), pd.DataFrame({name: [] for name in ("curve", "x", "y", "low", "high")}))
        scores = mcas_study(embeddings, design, n_resamples=resamples, seed=seed, measured=measured, store=Scratch)
        scores += names_of_copies(run, suite, embeddings[0])
        scores += _rows_of_wordings(run, suite, embeddings, design, resamples)
        scores += _rows_of_ablations(run, suite)
        scores += prior_rows(prior_embeddings(run, suite), design, n_resamples=resamples, seed=seed)
        if run.record.get("until") is not None:
            stands = {
                name: evidence_of(embeddings, design, component=name, ahead=True) for name in (IMAGE_PART, "mcas")
            }
            scores = rows_when_stopped(scores, stands, design)
            scores = withheld(scores, reader_checks(embeddings, design))
        own = own_embeddings(run, suite)
        scores += own_text_rows(own, design, n_resamples=resamples, seed=seed)
        finished, steps = traced_embeddings(run, suite, embeddings)
        if steps:
            scores += trace_rows(finished, steps, design, total=run.traces.record["total"], before=scores, seed=seed)
        elif apart := run.traces.record.get("apart"):
            scores += _explain_untraced(suite, apart)
        table = scores_table(scores)
        return Scored(table, _curves(table))

    def compare(
        self, runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
    ) -> list[Score]:
        """Compare two runs, second minus first; with ``keep``, by pairs of images with these seeds."""
        suite, paired = suite_of(runs[0], LeaningSuite), keep is not None
        of_first, of_second = (
            [encoder_embeddings(run, suite_of(run, LeaningSuite), name, keep) for name in encoders] for run in runs
        )
        missing = missing_pictures(runs, suite, encoders, keep)
        if suite.axes:
            return compare_intersections(of_first, of_second, design_of_suite(suite), paired=paired, missing=missing)
        until_decided = any(run.record.get("until") is not None for run in runs)
        rows = compare_leanings(
            of_first,
            of_second,
            design_of_suite(suite),
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
        mitigated = _mitigation_rows(runs, suite, (of_first, of_second), fidelity) if paired else ()
        return [*rows, *fidelity, *mitigated, *_trace_differences(runs, (of_first, of_second), keep)]

    def open_concepts(self, run: Run, rule: StoppingRule, encoders: Sequence[str]) -> list[str]:
        """List the targets that the images so far do not decide, by these encoders."""
        suite = suite_of(run, LeaningSuite)
        design = design_of_suite(suite)
        embeddings = counted_once([encoder_embeddings(run, suite, encoder) for encoder in encoders], design)
        stands = evidence_of(embeddings, design)
        return [target.name for target, stand in zip(suite.targets, stands, strict=True) if not stand.stops(rule)]

    def paired_evidence_of(
        self, runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int]
    ) -> dict[str, Evidence]:
        """Judge each target's difference, second minus first, by the pairs of images with these seeds."""
        suite = suite_of(runs[0], LeaningSuite)
        first, second = (
            [encoder_embeddings(run, suite_of(run, LeaningSuite), name, keep) for name in encoders] for run in runs
        )
        stands = paired_evidence(*pairs_counted_once(first, second), design_of_suite(suite))
        return {target.name: stand for target, stand in zip(suite.targets, stands, strict=True)}

    def split(self, runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int]) -> list[Score]:
        """Split the leaning of the second run into that of the first, at guidance 1, and what guidance adds.

        ``keep`` : seeds of the images that are pairs. Attribute images are the first run's, all of them.

        Raises
        ------
        SuiteError
            The suite has axes, and no one pair of groups.
        """
        suite = suite_of(runs[0], LeaningSuite)
        suite.pair_for("the split by guidance")
        own = {sample.seed for sample in runs[0].plan if sample.role == "attribute"}
        first = [encoder_embeddings(runs[0], suite, name, {*keep, *own}) for name in encoders]
        second = [encoder_embeddings(runs[1], suite_of(runs[1], LeaningSuite), name, keep) for name in encoders]
        missing, design = missing_pictures(runs, suite, encoders, keep), with_missing(design_of_suite(suite), runs[0])
        if missing is not None:  # a pair that lacks either of its pictures
            pairs = Counter(sample.concept for sample in runs[0].plan if sample.concept and sample.seed not in keep)
            targets = tuple(replace(target, missing=pairs[target.name]) for target in design.targets)
            design, lost = replace(design, targets=targets), design.missing_attributes
            missing = replace(missing, attributes=(lost, lost))
        return split_rows(first, second, design, missing=missing, fidelity=_fidelity_differences(runs, encoders))

    def plan(self, pilot: Run, effect: float | None, margin: float | None, power: float, alpha: float) -> pd.DataFrame:
        """Count the images that every concept takes by a pilot, whose pictures are read as ``score`` reads them."""
        return plan_concepts(pilot, effect, margin, power, alpha)

    def plan_unseen(self, suite: LeaningSuite, power: float, alpha: float) -> pd.DataFrame:
        """Count the images that find a share of images on one side, a row a share."""
        return plan_shares(suite, power, alpha)

    def check_rounds(self, suite: LeaningSuite, labelled: bool) -> None:
        """Refuse axes: rounds follow one pair of groups, whether or not anything is labelled."""
        suite.pair_for("--until")

    def check_trace(self, suite: LeaningSuite) -> None:
        """Refuse axes: a trace follows one pair of groups."""
        suite.pair_for("--trace")

    def compared_groups(self, suite: LeaningSuite) -> Sequence[ComparedGroups]:
        """Return the two groups, prompts matched by the name of their pair; with axes, the levels of each."""
        pairs = {prompt.prompt: prompt.pair or "" for group in suite.groups.values() for prompt in group.prompts}
        if suite.axes is None:
            return (
                ComparedGroups(suite.compared.a, suite.compared.b, lambda group, prompt: ("", pairs.get(prompt, ""))),
            )

        def on_axis(axis: str, group: str, prompt: str) -> tuple[str, str]:
            """Return the level of a group on the axis; prompts are matched within the levels of the other axes."""
            if not group:
                return "", ""
            cell, pair = suite.groups[group].cell or {}, pairs.get(prompt, "")
            others = [level for name, level in cell.items() if name != axis]
            return cell[axis], " ".join([pair, *others]) if pair else ""

        return [
            ComparedGroups(first, others[0] if len(others) == 1 else "no level", partial(on_axis, name))
            for name, (first, *others) in ((name, tuple(axis.levels)) for name, axis in suite.axes.items())
        ]

    def rated(self, suite: LeaningSuite) -> Rated:
        """Return how images of targets are rated, and read by the words of the pair as ``share`` reads them."""
        leaning, answers = suite, named_answers(suite)
        if leaning.axes:
            return Rated(suite.name, answers=answers)
        pair = leaning.compared
        return Rated(
            suite.name, (pair.a, pair.b), pair.third or "", answers, machine=LARGER_TOWARDS_A, read=read_by_words
        )

    def judged(self, suite: LeaningSuite) -> list[tuple[str, str]]:
        """Return the image part of every concept, or its score along every axis."""
        components = [f"axis:{name}" for name in suite.axes] if suite.axes else [IMAGE_PART]
        return [(component, target.name) for component in components for target in suite.targets]

    def reading_words(self, suite: LeaningSuite) -> Mapping[str, Sequence[str]]:
        """Return the words of the pair; with axes, of every cell."""
        names = (suite.compared.a, suite.compared.b) if suite.axes is None else tuple(suite.groups)
        return {name: suite.groups[name].words for name in names}


LEANING: Final = Leaning()
