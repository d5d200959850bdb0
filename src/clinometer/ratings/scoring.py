"""From the ratings of a run to rows of its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd

from clinometer.metrics.human import (
    HUMAN,
    SIMULATED,
    HumanStudy,
    MachineScores,
    PairedStudy,
    RatedConcept,
    human_rows,
    paired_rows,
)
from clinometer.metrics.records import MEAN
from clinometer.ratings.store import OF_CONCEPT, PAIR, PAIR_ANSWERS, Rated, has_ratings, ratings_of, readings_of
from clinometer.runs.run import Run
from clinometer.stats.agreement import Agreement, krippendorff_alpha


def machine_scores(scores: pd.DataFrame, rated: Rated) -> tuple[MachineScores, ...]:
    """Return what people's fractions are held against: every signed score of the concepts, by encoder."""
    concept_scores = scores[(scores.setting == "") & scores.group.isin(["", rated.groups[0]])]
    machine = []
    for metric, component in rated.machine:
        rows = concept_scores[(concept_scores.metric == metric) & (concept_scores.component == component)]
        for encoder, of_encoder in rows.groupby("encoder", sort=False):
            names = of_encoder.concept.where(of_encoder.concept != "", of_encoder.category)
            values = {str(n): float(v) for n, v in zip(names, of_encoder.value, strict=True)}
            machine.append(MachineScores(metric, component, str(encoder), values))
    return tuple(machine)


def with_ratings(run: Run, rated: Rated, scores: pd.DataFrame) -> pd.DataFrame:
    """Append to scores what people's ratings say and, apart from them, what simulated ones do, where there are any."""
    if not has_ratings(run):
        return scores
    scores_by_metric = {
        metric: [
            *human_rows(human_study(run, rated, scores, simulated=metric == SIMULATED)),
            *(row for study in paired_studies(run, simulated=metric == SIMULATED) for row in paired_rows(study)),
        ]
        for metric in (HUMAN, SIMULATED)
    }
    rows = [vars(score) | {"metric": metric} for metric, scored in scores_by_metric.items() for score in scored]
    return pd.concat([scores, pd.DataFrame(rows, columns=scores.columns)], ignore_index=True) if rows else scores


def mixed_raters(run: Run) -> str:
    """Return a warning where scores of an earlier version count simulated raters among people; else an empty text."""
    if not has_ratings(run) or not ratings_of(run).simulated.any():
        return ""
    metrics = set(run.scores.metric)
    if HUMAN not in metrics or SIMULATED in metrics:
        return ""
    return (
        "what people said was scored by a version that counted simulated raters among them; give: clinometer score RUN"
    )


def human_study(run: Run, rated: Rated, scores: pd.DataFrame, *, simulated: bool = False) -> HumanStudy:
    """Return the ratings of a run by people as the metrics see them, or those by simulated raters.

    Raises
    ------
    RunMismatchError
        The suite compares no two groups.
    """
    ratings = ratings_of(run)
    ratings = ratings[(ratings.simulated == simulated) & ~ratings["item"].str.startswith(PAIR)]
    if ratings.empty:
        return HumanStudy((), 0, 1, ())
    a, b = rated.groups
    estimated = ratings[(ratings.attention == "") & ~ratings["repeat"]]
    answers = tuple(dict.fromkeys([a, b, *([rated.third] if rated.third else []), *sorted(estimated.answer.unique())]))
    checks = ratings[ratings.attention != ""]
    keys = ["source", "rater", "item"]
    first, again = (ratings[ratings["repeat"] == is_repeat][[*keys, "answer"]] for is_repeat in (False, True))
    asked_twice = again.merge(first, on=keys, suffixes=("", "_first"))
    return HumanStudy(
        answers=answers,
        a=0,
        b=1,
        concepts=tuple(_concepts(run, rated, estimated, answers)),
        same=int((asked_twice.answer == asked_twice.answer_first).sum()),
        repeats=len(asked_twice),
        right=int((checks.answer == checks.attention).sum()),
        checks=len(checks),
        machine=machine_scores(scores, rated),
    )


def paired_studies(run: Run, *, simulated: bool = False) -> Iterator[PairedStudy]:
    """Yield the comparisons of two pictures, question by question; what was asked again does not count.

    A picture stands for the concept that it was drawn for, or else for its group.
    """
    ratings = ratings_of(run)
    ratings = ratings[(ratings.simulated == simulated) & ratings["item"].str.startswith(PAIR) & ~ratings["repeat"]]
    if ratings.empty:
        return
    ids = ratings["item"].str.removeprefix(PAIR).str.split(" ", expand=True).to_numpy(str)
    samples = run.samples.fillna({"concept": "", "category": "", "group": ""}).set_index("id")
    drawn_for = [
        (concept, category, "" if concept else group)
        for concept, category, group in samples.loc[
            np.unique(ids), ["concept", "category", "group"]
        ].itertuples(index=False)
    ]  # fmt: skip
    of_sample = dict(zip(np.unique(ids), drawn_for, strict=True))
    for question, rows in ratings.reset_index(drop=True).groupby("question", sort=False):
        ids_of_pairs = ids[rows.index]
        names, pictures = np.unique(ids_of_pairs, return_inverse=True)
        units = tuple(dict.fromkeys(of_sample[name] for name in names))
        left, right = np.array([[units.index(of_sample[name]) for name in pair] for pair in ids_of_pairs]).T
        yield PairedStudy(
            str(question), units, left, right, rows.answer.map(PAIR_ANSWERS.index).to_numpy(),
            pictures.reshape(ids_of_pairs.shape), pd.factorize(rows.rater)[0],
        )  # fmt: skip


def _concepts(run: Run, rated: Rated, ratings: pd.DataFrame, answers: Sequence[str]) -> Iterator[RatedConcept]:
    codes, raters = {answer: k for k, answer in enumerate(answers)}, sorted(ratings.rater.unique())
    table = ratings.assign(code=ratings.answer.map(codes).astype(float))
    # several tasks may have asked a rater about an item; the first answer counts
    answered = table.drop_duplicates(["rater", "item"]).pivot(index="rater", columns="item", values="code")
    answered = answered.reindex(raters)
    drawn = ratings.drop_duplicates("item").set_index("item")
    readings = readings_of(run, rated)
    there = run.samples
    images = there[(there.status == "ok") & there.role.isin(rated.roles)]
    for (concept, category), images_of_concept in images.groupby(["concept", "category"], sort=False):
        ids = images_of_concept.id.tolist()
        seen = [identifier for identifier in ids if identifier in answered.columns]
        if seen:
            others = [identifier for identifier in ids if identifier not in answered.columns]
            whole = {name: by_id for name, by_id in readings.items() if by_id.keys() >= set(ids)}
            yield RatedConcept(
                str(concept),
                str(category),
                answered[seen].to_numpy(),
                {name: np.array([by_id[each] for each in seen], np.float64) for name, by_id in whole.items()},
                {name: np.array([by_id[each] for each in others], np.float64) for name, by_id in whole.items()},
                *_strata(drawn.loc[seen], readings.get(MEAN, {}), ids),
            )
    for item in (item for item in answered.columns if item.startswith(OF_CONCEPT)):
        name = item.removeprefix(OF_CONCEPT)
        yield RatedConcept(name, name, answered[[item]].to_numpy(), whole=True)


def _strata(
    drawn: pd.DataFrame, read: Mapping[str, float], ids: Sequence[str]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return strata of the rated items and their sizes; None where all were drawn from the whole concept.

    Items of several tasks may have been drawn either way. Then all are put into the strata that the readings make: an
    item drawn from the whole concept is a random one of its stratum, too.
    """
    within = drawn.stratum != ""
    if not within.any():
        return None, None
    if within.all():
        names = list(dict.fromkeys(drawn.stratum))
        sizes = drawn.drop_duplicates("stratum").set_index("stratum").stratum_size
        return np.array([names.index(stratum) for stratum in drawn.stratum]), sizes.loc[names].to_numpy(dtype=int)
    labels = np.array([int(read[identifier]) for identifier in drawn.index])
    sides = np.array([int(read[identifier]) for identifier in ids])
    kinds = np.unique(labels)
    return np.searchsorted(kinds, labels), np.array([int((sides == kind).sum()) for kind in kinds])


# --- What an organiser sees while ratings come in: how far each rater and concept is, and how far raters agree -------


RESAMPLES = 999


@dataclass(frozen=True)
class RaterSummary:
    """One rater's answers: how many, the median of their seconds, and the counts that tell care."""

    name: str
    answers: int
    seconds: float
    right: int
    checks: int
    same: int
    repeats: int


def agreement_so_far(answers: pd.DataFrame) -> Agreement:
    """Return Krippendorff's α of the answers so far, without repeats and without those whose answer is known."""
    ratings = answers[~answers["repeat"].astype(bool) & (answers.attention == "")]
    if ratings.empty:
        return Agreement(nan, nan, nan, 0, reason="no answer yet")
    codes = ratings.assign(code=pd.factorize(ratings.answer)[0].astype(float), key=ratings.run + "\0" + ratings.item)
    table = codes.pivot_table(index="rater", columns="key", values="code", aggfunc="first")
    return krippendorff_alpha(table.to_numpy(np.float64), n_resamples=RESAMPLES)


def rater_summaries(answers: pd.DataFrame) -> dict[str, RaterSummary]:
    """Return each rater's answers so far, by pseudonym."""
    summaries = {}
    for name, answers_of_rater in answers.groupby("rater", sort=False):
        checks, is_repeat = answers_of_rater[answers_of_rater.attention != ""], answers_of_rater["repeat"].astype(bool)
        again = answers_of_rater[is_repeat].merge(
            answers_of_rater[~is_repeat], on=["run", "item"], suffixes=("", "_first")
        )
        summaries[str(name)] = RaterSummary(
            name=str(name),
            answers=len(answers_of_rater),
            seconds=float(answers_of_rater.seconds.astype(float).median()),
            right=int((checks.answer == checks.attention).sum()),
            checks=len(checks),
            same=int((again.answer == again.answer_first).sum()),
            repeats=len(again),
        )
    return summaries
