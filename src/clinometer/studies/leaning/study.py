"""The leaning study: MCAS, internal bias and xMCAS from the embeddings of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from clinometer._scratch import Scratch
from clinometer.metrics import Score, delta_alpha_curve
from clinometer.metrics.mcas import IMAGE_PART, TEXT_PART
from clinometer.metrics.records import DECIDES, MEAN
from clinometer.metrics.verdict import Source, source_of, withheld_by_shares
from clinometer.ratings.store import Rated
from clinometer.report.differences import RunsCompared
from clinometer.report.page import Page
from clinometer.report.rows import Row, Scores, scores_table
from clinometer.runs.run import Run
from clinometer.runs.tracing import parts_without_trace, trace_parts
from clinometer.stats.association import association_scores
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
from clinometer.studies.leaning.compare import compare_leanings, split_rows
from clinometer.studies.leaning.embeddings import (
    design_of_suite,
    draw_prior_embeddings,
    embed_own_texts,
    embeddings_of_two,
    encoder_embeddings,
    lacks_own_texts,
    lazy_embeddings,
    missing_pictures,
    names_of_copies,
    own_embeddings,
    parts_without_prior,
    prior_embeddings,
    target_sizes,
    traced_embeddings,
    with_missing,
)
from clinometer.studies.leaning.page import AXES_PAGE, PAGE
from clinometer.studies.leaning.pair_rows import (
    compare_fidelity,
    explain_untraced,
    judge_mitigation,
    rows_of_ablations,
    rows_of_wordings,
    trace_differences,
)
from clinometer.studies.leaning.planning import plan_concepts, plan_shares
from clinometer.studies.leaning.printed import PRINTED
from clinometer.studies.leaning.scores import MeasuredTarget, measurer_of
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings
from clinometer.studies.leaning.scores.differences import compare_intersections
from clinometer.studies.leaning.scores.encoder_check import reader_checks, withheld
from clinometer.studies.leaning.scores.measuring import CountedPictures, pairs_counted_once, pictures_that_count
from clinometer.studies.leaning.scores.tracing import trace_rows
from clinometer.studies.leaning.side_by_side import AXES_COMPARED, PAIR_COMPARED
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
from clinometer.suites.leaning import CrossedAxis

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
    found = pictures_that_count(lazy_embeddings(run, suite, encoders, sizes), design)
    work = Measuring(run.directory.place, encoders, sizes, found, resamples)
    of_a_view = shape_of(suite).bytes_per_group(max(sizes, default=0), resamples)
    of_a_target = of_a_view * len(suite.groups) * (len(encoders) + 1)
    names = [f"target {target.name!r}" for target in suite.targets]
    measured = map_units(work, run, range(len(sizes)), names, pool, size=of_a_target)
    lazy = lazy_embeddings(run, suite, encoders, sizes)
    return design, counted_once(lazy, design, found), chain.from_iterable(measured)


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


@dataclass(frozen=True)
class PairOfGroups:
    """What a study does with a suite that compares two groups: positive leans to its ``a``."""

    suite: LeaningSuite

    page: ClassVar[Page[Any]] = PAGE
    comparison: ClassVar[RunsCompared[LeaningSuite]] = PAIR_COMPARED
    judged_components: ClassVar[Sequence[str]] = (IMAGE_PART,)

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
        own = own_embeddings(run, suite)
        scores += own_text_rows(own, design, n_resamples=resamples, seed=seed)
        finished, steps = traced_embeddings(run, suite, embeddings)
        if steps:
            scores += trace_rows(finished, steps, design, total=run.traces.record["total"], before=scores, seed=seed)
        elif apart := run.traces.record.get("apart"):
            scores += explain_untraced(suite, apart)
        table = scores_table(scores)
        return Scored(table, _curves(table))

    def compare(
        self, runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
    ) -> list[Score]:
        """Compare leanings, fidelity and traces, and judge the second run if it is a mitigation of the first."""
        suite, paired = self.suite, keep is not None
        embeddings = embeddings_of_two(runs, encoders, keep)
        until_decided = any(run.record.get("until") is not None for run in runs)
        rows = compare_leanings(
            *embeddings,
            design_of_suite(suite),
            paired=paired,
            until_decided=until_decided,
            n_resamples=resamples,
            seed=runs[0].record["seed"],
            missing=missing_pictures(runs, suite, encoders, keep),
            store=Scratch,
        )
        if until_decided:  # intervals over numbers of images that the images have set are not tested
            return rows
        fidelity = compare_fidelity(runs, encoders)
        mitigated = judge_mitigation(runs, suite, embeddings, fidelity) if paired else ()
        return [*rows, *fidelity, *mitigated, *trace_differences(runs, embeddings, keep)]


@dataclass(frozen=True)
class CrossedAxes:
    """What a study does with a suite whose groups are cells of axes: each axis is measured by itself."""

    suite: LeaningSuite
    axes: Mapping[str, CrossedAxis]

    page: ClassVar[Page[Any]] = AXES_PAGE
    comparison: ClassVar[RunsCompared[LeaningSuite]] = AXES_COMPARED

    @property
    def judged_components(self) -> Sequence[str]:
        """The components that have a verdict on every concept."""
        return [f"axis:{name}" for name in self.axes]

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

    def compare(
        self, runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
    ) -> list[Score]:
        """Compare along every axis and in every cell."""
        return compare_intersections(
            *embeddings_of_two(runs, encoders, keep),
            design_of_suite(self.suite),
            paired=keep is not None,
            missing=missing_pictures(runs, self.suite, encoders, keep),
        )


def shape_of(suite: LeaningSuite) -> PairOfGroups | CrossedAxes:
    """Return what a study does with this suite, by whether its groups are cells of axes."""
    return PairOfGroups(suite) if suite.axes is None else CrossedAxes(suite, suite.axes)


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
    text_components = (TEXT_PART,)

    def page(self, suite: LeaningSuite) -> Page[Any]:
        """Return the page of a pair of groups, or that of axes and cells."""
        return shape_of(suite).page

    def comparison(self, suite: LeaningSuite) -> RunsCompared[LeaningSuite]:
        """Return the page that compares leanings to one of a pair of groups, or along axes."""
        return shape_of(suite).comparison

    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Score a pair of groups by the MCAS family, or the cells of axes; a ``pool`` measures the targets."""
        return shape_of(suite_of(run, LeaningSuite)).score(run, resamples, pool)

    def compare(
        self, runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
    ) -> list[Score]:
        """Compare two runs, second minus first; with ``keep``, by pairs of images with these seeds."""
        return shape_of(suite_of(runs[0], LeaningSuite)).compare(runs, encoders, keep, resamples)

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
        pairs = pairs_counted_once(*embeddings_of_two(runs, encoders, keep))
        stands = paired_evidence(*pairs, design_of_suite(suite))
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
        return split_rows(first, second, design, missing=missing, fidelity=compare_fidelity(runs, encoders))

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
        """Return the two groups, or the levels of each axis, and which prompts match."""
        pairs = {prompt.prompt: prompt.pair or "" for group in suite.groups.values() for prompt in group.prompts}
        return shape_of(suite).compared_groups(pairs)

    def counts_images(self, row: Row) -> bool:
        """Return whether a row counts all images of its concept: one of an MCAS, or of an axis."""
        return row.metric in ("mcas", "intersections")

    def restates(self, row: Row) -> bool:
        """Return whether the verdict is on the whole MCAS, which is judged by its image part, or on a profile."""
        return row.metric == "profile" or (row.metric, row.component) == ("mcas", "mcas")

    def rated(self, suite: LeaningSuite) -> Rated:
        """Return how images of targets are rated and, with a pair of groups, read by its words."""
        return shape_of(suite).rated()

    def judged(self, suite: LeaningSuite) -> list[tuple[str, str]]:
        """Return the image part of every concept, or its score along every axis."""
        components = shape_of(suite).judged_components
        return [(component, target.name) for component in components for target in suite.targets]

    def withhold_by_readers(self, scores: pd.DataFrame, judged: Sequence[Score]) -> pd.DataFrame:
        """Withhold verdicts on image parts that the share of the reader whose verdicts stand contradicts.

        It counts where the reader was asked for the two groups between which the image part lies, by their names.
        """
        deciding = {(row.encoder, row.setting) for row in judged if row.flag == DECIDES}
        shares = [row for row in judged if (row.encoder, row.setting) in deciding and row.component.endswith("share")]
        is_image_part = (scores.metric == "mcas") & (scores.component == IMAGE_PART) & (scores.encoder == MEAN)
        of_pair = scores[(scores.metric == "share") & (scores.component == "share") & (scores.encoder == MEAN)]
        if not (shares and is_image_part.any() and len(of_pair)):
            return scores
        before = list(Scores.from_frame(scores[is_image_part]))
        after = withheld_by_shares(before, shares, a=of_pair.group.iloc[0])
        changed = scores.copy()
        for name in ("verdict", "side", "reason_code", "reason", "n_decide"):
            changed.loc[is_image_part, name] = [getattr(row, name) for row in after]
        return changed

    def carried_by(self, scores: pd.DataFrame, rows: pd.DataFrame, limits: tuple[float, float]) -> list[Source]:
        """Return for every MCAS which of its parts, pictures or text, puts its interval where it is."""
        keys = ["metric", "concept", "category", "group", "setting", "encoder"]
        image_parts = scores[scores.component == IMAGE_PART].set_index(keys).value
        parts = image_parts.reindex(pd.MultiIndex.from_frame(rows[keys]))
        return [
            source_of(
                Score(metric="", component="mcas", value=value, low=low, high=high),
                Score(metric="", component=IMAGE_PART, value=part),
                limits,
            )
            if component == "mcas"
            else Source.NONE
            for component, value, part, low, high in zip(
                rows.component, rows.value, parts, rows.low, rows.high, strict=True
            )
        ]

    def reading_words(self, suite: LeaningSuite) -> Mapping[str, Sequence[str]]:
        """Return the words of the pair; with axes, of every cell."""
        return {name: suite.groups[name].words for name in shape_of(suite).read_groups}


LEANING: Final = Leaning()
