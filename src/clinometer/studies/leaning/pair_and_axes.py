"""What the study does with a suite that compares a pair of groups, and with one whose groups are cells of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from clinometer._scratch import Scratch
from clinometer.metrics import Score, delta_alpha_curve
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.records import MEAN, TRACE
from clinometer.ratings import Rated
from clinometer.report.differences import RunsCompared
from clinometer.report.page import Page
from clinometer.report.view import Scores, scores_table
from clinometer.runs.run import Run
from clinometer.runs.several import PooledRun
from clinometer.stats.association import association_scores
from clinometer.stats.skin import skin_tone
from clinometer.studies.leaning import (
    counted_once,
    crossed_study,
    evidence_of,
    mcas_study,
    own_text_rows,
    prior_rows,
    rows_when_stopped,
)
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.embeddings import (
    design_of_suite,
    embeddings_of_ablations,
    embeddings_of_two,
    encoder_embeddings,
    lazy_embeddings,
    missing_pictures,
    names_of_copies,
    own_embeddings,
    prior_embeddings,
    readings_of_wordings,
    target_sizes,
    traced_embeddings,
    traced_seeds,
    with_missing,
)
from clinometer.studies.leaning.page import AXES_PAGE, PAGE
from clinometer.studies.leaning.scores.ablation import LeftOutWord, ablation_rows
from clinometer.studies.leaning.scores.components import image_part_direction, wording_rows
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TwoRuns
from clinometer.studies.leaning.scores.differences import compare_intersections
from clinometer.studies.leaning.scores.encoder_check import reader_checks, withheld
from clinometer.studies.leaning.scores.measuring import (
    CountedPictures,
    MeasuredTarget,
    pairs_counted_once,
    pictures_that_count,
)
from clinometer.studies.leaning.scores.mitigated import mitigation_rows
from clinometer.studies.leaning.scores.shares import FIDELITY, fidelity_differences
from clinometer.studies.leaning.scores.study_rows import measurer_of
from clinometer.studies.leaning.scores.tracing import HALF, ONSET, compare_traces, trace_rows
from clinometer.studies.leaning.side_by_side import AXES_COMPARED, PAIR_COMPARED
from clinometer.studies.study import (
    ComparedGroups,
    Pairing,
    Pool,
    RunWork,
    Scored,
    Unit,
    in_shape,
    map_units,
    named_answers,
    suite_of,
)
from clinometer.suites import LeaningSuite
from clinometer.suites.leaning import CrossedAxis


def curves_of(scores: pd.DataFrame) -> pd.DataFrame:
    """Relate α to δ over the concepts, as the internal-bias paper draws it; nothing where every α is unstable."""
    rows = scores[(scores.metric == "internal_bias") & (scores.encoder == "mean")]
    if (rows.flag[rows.component == "bias_amplification"] == "unstable").all():
        rows = rows[:0]
    names = ("diffusion_bias", "bias_amplification")
    wide = pd.DataFrame({name: rows[rows.component == name].set_index("concept").value for name in names}, dtype=float)
    curve = delta_alpha_curve(*(wide[name].to_numpy() for name in names))
    return pd.DataFrame({"curve": "delta_alpha", "x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high})


@dataclass(frozen=True)
class Measuring(RunWork):
    """The measuring of a run's targets as work: a unit is some of their numbers.

    Attributes
    ----------
    sizes : how many images each target has.
    counted : which of them count, and how often each was drawn.
    """

    encoders: tuple[str, ...]
    sizes: tuple[int, ...]
    counted: CountedPictures
    resamples: int

    def on(self, run: Run) -> Callable[[Unit], list[tuple[int, MeasuredTarget]]]:
        """Read what all targets need, and return what measures some."""
        suite = suite_of(run, LeaningSuite)
        design = design_of_suite(suite)
        embeddings = counted_once(lazy_embeddings(run, suite, self.encoders, self.sizes), design, self.counted)
        measure = measurer_of(embeddings, design, n_resamples=self.resamples, seed=run.record["seed"])
        return lambda unit: [(target, measure(target)) for target in unit]


def read_run(
    run: Run, suite: LeaningSuite, resamples: int, pool: Pool | None
) -> tuple[Design, list[EncoderEmbeddings], Iterator[tuple[int, MeasuredTarget]] | None]:
    """Return a run's design, its embeddings and, with a ``pool``, the targets that it measures.

    With a pool, no vector of a target is read here.
    """
    design = with_missing(design_of_suite(suite), run)
    if pool is None:
        read = [encoder_embeddings(run, suite, encoder) for encoder in run.encoder_cards]
        return design, counted_once(read, design), None
    encoders, sizes = tuple(run.encoder_cards), target_sizes(run, suite, run.drawn.repeats())
    for encoder in encoders:
        run.vectors.require_finished(encoder)
    counted = pictures_that_count(lazy_embeddings(run, suite, encoders, sizes), design)
    work = Measuring(run.directory.place, encoders, sizes, counted, resamples)
    of_a_view = shape_of(suite).bytes_per_group(max(sizes, default=0), resamples)
    of_a_target = of_a_view * len(suite.groups) * (len(encoders) + 1)
    names = [f"target {target.name!r}" for target in suite.targets]
    measured = map_units(work, run, range(len(sizes)), names, pool, size=of_a_target)
    lazy = lazy_embeddings(run, suite, encoders, sizes)
    return design, counted_once(lazy, design, counted), chain.from_iterable(measured)


def read_by_words(run: Run, encoder: str) -> dict[str, float]:
    """Return by how much each image of a target is nearer to the words of a than to those of b, by its id."""
    vectors, texts = run.embedded(encoder)
    suite = in_shape(run.suite, LeaningSuite)
    words = [suite.groups[name].words for name in (suite.compared.a, suite.compared.b)]
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


@dataclass(frozen=True)
class PairOfGroups:
    """What a study does with a suite that compares two groups: positive leans to its ``a``."""

    suite: LeaningSuite

    page: ClassVar[Page[Any]] = PAGE
    comparison: ClassVar[RunsCompared[LeaningSuite]] = PAIR_COMPARED

    @property
    def read_groups(self) -> Sequence[str]:
        """The groups whose words an image is read by."""
        return self.suite.compared.a, self.suite.compared.b

    def bytes_per_group(self, images: int, resamples: int) -> int:
        """Return the size of a target in one view, for each group: replicates outweigh its images."""
        return 20 * resamples

    def compared_groups(self, pairs: Mapping[str, str]) -> Sequence[ComparedGroups]:
        """Return the two groups; prompts of one name in ``pairs`` match."""
        a, b = self.read_groups
        return (ComparedGroups(a, b, lambda group, prompt: ("", pairs.get(prompt, ""))),)

    def rated(self) -> Rated:
        """Return how images are rated, and read by the words of the pair as ``share`` reads them."""
        pair, answers = self.suite.compared, named_answers(self.suite)
        return Rated(
            self.suite.name, (pair.a, pair.b), pair.third or "", answers, machine=LARGER_TOWARDS_A, read=read_by_words
        )

    def score(self, run: Run, resamples: int, pool: Pool | None) -> Scored:
        """Score the MCAS family, what the run drew besides, and the curve of α on δ."""
        suite, seed = self.suite, run.record["seed"]
        design, embeddings, measured = read_run(run, suite, resamples, pool)
        scores = mcas_study(embeddings, design, n_resamples=resamples, seed=seed, measured=measured, store=Scratch)
        scores += names_of_copies(run, suite, embeddings[0])
        scores += rows_of_wordings(run, suite, embeddings, design, resamples)
        scores += rows_of_ablations(run, suite)
        scores += prior_rows(prior_embeddings(run, suite), design, n_resamples=resamples, seed=seed)
        if run.record.get("until") is not None:
            stands = {
                name: evidence_of(embeddings, design, component=name, ahead=True) for name in (IMAGE_PART, "mcas")
            }
            scores = rows_when_stopped(scores, stands, design)
            scores = withheld(scores, reader_checks(embeddings, design))
        own_texts = own_embeddings(run, suite)
        scores += own_text_rows(own_texts, design, n_resamples=resamples, seed=seed)
        finished, steps = traced_embeddings(run, suite, embeddings)
        if steps:
            scores += trace_rows(finished, steps, design, total=run.traces.record["total"], before=scores)
        elif apart := run.traces.record.get("apart"):
            scores += explain_untraced(suite, apart)
        table = scores_table(scores)
        return Scored(table, curves_of(table))

    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare leanings, fidelity and traces, and judge the second run if it is a mitigation of the first."""
        suite = self.suite
        embeddings = embeddings_of_two(pairing)
        until_decided = any(run.record.get("until") is not None for run in pairing.runs)
        rows = compare_leanings(
            *embeddings,
            design_of_suite(suite),
            paired=pairing.paired,
            until_decided=until_decided,
            n_resamples=pairing.resamples,
            seed=pairing.seed,
            missing=missing_pictures(pairing, suite),
            store=Scratch,
        )
        if until_decided:  # intervals over numbers of images that the images have set are not tested
            return rows
        fidelity = compare_fidelity(pairing)
        mitigated = judge_mitigation(pairing.runs, suite, embeddings, fidelity) if pairing.paired else ()
        return [*rows, *fidelity, *mitigated, *trace_differences(pairing, embeddings)]


@dataclass(frozen=True)
class CrossedAxes:
    """What a study does with a suite whose groups are cells of axes: each axis is measured by itself."""

    suite: LeaningSuite
    axes: Mapping[str, CrossedAxis]

    page: ClassVar[Page[Any]] = AXES_PAGE
    comparison: ClassVar[RunsCompared[LeaningSuite]] = AXES_COMPARED

    @property
    def read_groups(self) -> Sequence[str]:
        """The groups whose words an image is read by: all cells."""
        return tuple(self.suite.groups)

    def bytes_per_group(self, images: int, resamples: int) -> int:
        """Return the size of a target in one view, for each group: no replicates are drawn."""
        return 16 * images

    def compared_groups(self, pairs: Mapping[str, str]) -> Sequence[ComparedGroups]:
        """Return the levels of each axis; prompts of one name in ``pairs`` match if the other axes' levels do."""

        def on_axis(axis: str, group: str, prompt: str) -> tuple[str, str]:
            """Return the level of a group on the axis, and what its prompt is matched by."""
            if not group:
                return "", ""
            cell, pair = self.suite.groups[group].cell or {}, pairs.get(prompt, "")
            others = [level for name, level in cell.items() if name != axis]
            return cell[axis], " ".join([pair, *others]) if pair else ""

        return [
            ComparedGroups(first, others[0] if len(others) == 1 else "no level", partial(on_axis, name))
            for name, (first, *others) in ((name, tuple(axis.levels)) for name, axis in self.axes.items())
        ]

    def rated(self) -> Rated:
        """Return how images are rated: no two groups are sides, and no image is read by words."""
        return Rated(self.suite.name, answers=named_answers(self.suite))

    def score(self, run: Run, resamples: int, pool: Pool | None) -> Scored:
        """Score axes, interactions and cells; there are no curves."""
        design, embeddings, measured = read_run(run, self.suite, resamples, pool)
        scores = crossed_study(embeddings, design, measured=measured)
        scores += names_of_copies(run, self.suite, embeddings[0])
        return Scored(scores_table(scores), pd.DataFrame({name: [] for name in ("curve", "x", "y", "low", "high")}))

    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare along every axis and in every cell."""
        return compare_intersections(
            *embeddings_of_two(pairing),
            design_of_suite(self.suite),
            paired=pairing.paired,
            missing=missing_pictures(pairing, self.suite),
        )


def shape_of(suite: LeaningSuite) -> PairOfGroups | CrossedAxes:
    """Return what a study does with this suite, by whether its groups are cells of axes."""
    return PairOfGroups(suite) if suite.axes is None else CrossedAxes(suite, suite.axes)


# --- rows that only a pair of groups has ----------------------------------------------------------------------------


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


def trace_differences(pairing: Pairing, embeddings: TwoRuns) -> list[Score]:
    """Compare two runs that were both traced, step by step; return nothing unless both were."""
    runs = pairing.runs
    suite, records = suite_of(runs[0], LeaningSuite), [run.traces.record for run in runs]
    if not all(records):
        return []
    apart = [record["apart"] for record in records if record.get("apart")]
    if records[0]["total"] != records[1]["total"]:
        apart.append("one draws in {} steps and the other in {}".format(*(record["total"] for record in records)))
    elif records[0]["decoder"] != records[1]["decoder"]:
        apart.append("their estimates were decoded by different decoders")
    names = [seen.encoder for seen in embeddings[0] if not any(run.traces.missing([seen.encoder]) for run in runs)]
    if apart or not names:
        return list(explain_untraced(suite, apart[0] if apart else "no encoder has seen the estimates of both runs"))
    design = design_of_suite(suite)
    shown = [[seen for seen in of_run if seen.encoder in names] for of_run in embeddings]
    pairs = pairing.seeds
    if pairs is not None:
        pairs = pairs & traced_seeds(runs[0], names) & traced_seeds(runs[1], names)
    one, other = (traced_embeddings(run, suite, seen, pairs)[1] for run, seen in zip(runs, shown, strict=True))
    whole = [traced_embeddings(run, suite, seen) for run, seen in zip(runs, shown, strict=True)]
    total = records[0]["total"]
    first, second = (trace_rows(*each, design, total=total) for each in whole)
    return compare_traces(one, other, design, paired=pairing.paired, by_run=(first, second), total=total)


def mitigation_of(run: Run) -> Mapping[str, Any] | None:
    """Return what was done to a run's model, as its card says it; None where nothing was."""
    settings = run.model_card["settings"]
    mitigation = settings.get("mitigation") or (settings.get("lora") or {}).get("mitigation")
    return mitigation if isinstance(mitigation, Mapping) else None


def _aimed_elsewhere(run: Run, suite: LeaningSuite) -> list[str]:
    """Return the concepts whose target, as a mitigated run's card declares it, is not parity.

    The groups that the suite compares count, or all of the target where it names them otherwise.
    """
    mitigation, compared = mitigation_of(run) or {}, (suite.compared.a, suite.compared.b)
    names = []
    for each in suite.targets:
        target = mitigation.get("targets", {}).get(each.prompt, mitigation.get("target", {}))
        shares = [target.get(group, 0.0) for group in compared] if set(compared) & set(target) else target.values()
        if len(set(shares)) > 1:
            names.append(each.name)
    return names


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


def compare_fidelity(pairing: Pairing) -> list[Score]:
    """Compare how well images show what was asked, by the average over encoders, or the first that both have."""
    runs, encoders = pairing.runs, pairing.encoders
    each_seed = [run.runs if isinstance(run, PooledRun) else (run,) for run in runs]
    if not all(run.is_scored for of_run in each_seed for run in of_run):
        return []
    alike = all(set(run.encoder_cards) == set(encoders) for run in runs)
    first, second = (
        [row for run in of_run for row in Scores.from_frame(run.scores[run.scores.metric == FIDELITY])]
        for of_run in each_seed
    )
    return fidelity_differences(first, second, MEAN if alike else encoders[0])
