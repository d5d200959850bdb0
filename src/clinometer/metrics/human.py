"""What people see in the images, next to what the encoders read: shares, agreement, and the encoders' errors.

``HumanStudy`` is what was rated, as arrays: answers by rater and item, readings by item. ``PairedStudy`` is what was
compared, two pictures at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Final

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.records import Score, corrected
from clinometer.metrics.verdict import ReasonCode
from clinometer.stats.agreement import kendall_tau_b, krippendorff_alpha
from clinometer.stats.paired_comparisons import Coefficients, paired_strengths
from clinometer.stats.prediction_powered import more_items_to_reach, rated_share
from clinometer.stats.proportion import wilson_at, wilson_interval

__all__ = [
    "HUMAN", "SIMULATED", "HumanStudy", "MachineScores", "PairedStudy", "RatedConcept", "human_rows", "paired_rows",
]  # fmt: skip

RESAMPLES = 4_999

NO_MORE = "a rating of every image would not reach it: more images or more raters are needed"


def human_rows(study: HumanStudy) -> list[Score]:
    """Return fractions, shares corrected by people, agreement of people with each other and with the machine.

    Rows that no encoder took part in name none. Of every concept: ``fraction`` of each answer, ``share`` of a among the
    answers a and b, and by encoder ``corrected_share`` and ``more_ratings``. Of all: ``alpha``, ``self_consistency``,
    ``attention``, by encoder ``sensitivity``, ``specificity`` and ``confusion``, and ``tau`` against each score.
    """
    if not study.concepts:
        return []
    shares = [
        _people(study, concept, study.a, concept.other_than(study.a, study.b), "share") for concept in study.concepts
    ]
    return [
        *(
            _people(study, concept, number, None, "fraction")
            for concept in study.concepts
            for number in range(len(study.answers))
        ),
        *shares,
        *(
            row
            for concept in study.concepts
            if not concept.whole
            for encoder in concept.readings
            for row in _correct(study, concept, encoder)
        ),
        *agreement_rows(study),
        *encoder_rows(study),
        *correlation_rows(study, {row.concept: row.value for row in shares}),
    ]


def _people(study: HumanStudy, concept: RatedConcept, answer: int, outside: np.ndarray | None, component: str) -> Score:
    chosen = concept.chosen(answer)
    if concept.whole:  # raters are the units: each saw all images of the concept at once
        share = rated_share(chosen.T, outside=None if outside is None else outside.T)
    else:
        strata, sizes = concept.strata, concept.sizes
        share = rated_share(chosen, outside=outside, strata=strata, sizes=sizes)
    return Score(
        metric=HUMAN, component=component, concept=concept.name, category=concept.category,
        group=study.answers[answer], encoder="", value=share.value, low=share.low, high=share.high, n_target=share.n,
        n_a=int(np.isfinite(chosen).sum()), **{"reason": share.reason} | caution(chosen, share.value),  # type: ignore[arg-type]
    )  # fmt: skip


def _correct(study: HumanStudy, concept: RatedConcept, encoder: str) -> list[Score]:
    """``corrected_share``: of the images that people would see as a or b, the share that they would see as a.

    By :func:`clinometer.stats.prediction_powered.rated_share` of the encoder's readings of all images and people's
    answers to some. ``n_target`` are all images, ``n_a`` the rated ones. ``more_ratings``: rated images still needed
    for the margin.
    """
    chosen = concept.chosen(study.a)
    estimate = rated_share(
        chosen, concept.readings[encoder], concept.unrated[encoder], outside=concept.other_than(study.a, study.b),
        strata=concept.strata, sizes=concept.sizes,
    )  # fmt: skip
    more = more_items_to_reach(study.margin, estimate)
    about = {
        "metric": HUMAN, "concept": concept.name, "category": concept.category, "group": study.answers[study.a],
        "encoder": encoder, "n_target": estimate.n_all, "n_a": rated_items(chosen),
    }  # fmt: skip
    share = Score(
        component="corrected_share", value=estimate.value, low=estimate.low, high=estimate.high,
        **{"reason": estimate.reason} | caution(chosen, estimate.value), **about,  # type: ignore[arg-type]
    )  # fmt: skip
    needed = Score(
        component="more_ratings", setting=f"± {study.margin:g}", value=more,
        reason=estimate.reason or ("" if isfinite(more) else NO_MORE), **about,  # type: ignore[arg-type]
    )  # fmt: skip
    return [share, needed]


def agreement_rows(study: HumanStudy) -> list[Score]:
    """``alpha`` (Krippendorff's, nominal, bootstrap over items), ``self_consistency`` and ``attention``.

    ``n_target`` counts items that two or more rated, repeated items, and items with a known answer; ``n_a`` raters.
    """
    table = study.table
    alpha = krippendorff_alpha(table, n_resamples=RESAMPLES)
    return [
        Score(
            metric=HUMAN, component="alpha", encoder="", value=alpha.value, low=alpha.low, high=alpha.high,
            n_target=alpha.n, n_a=raters_of(table), n_b=rated_items(table), reason=alpha.reason,
        ),
        _rate("self_consistency", study.same, study.repeats, "no item was asked twice", study),
        _rate("attention", study.right, study.checks, "no item had a known answer", study),
    ]  # fmt: skip


def correlation_rows(study: HumanStudy, shares: Mapping[str, float]) -> list[Score]:
    """``tau``: Kendall's τ-b over concepts of people's share of a against each score of the machine.

    Interval by the jackknife over concepts; the scores' and the shares' own sampling error is part of what scatters.
    """
    rows = []
    for machine in study.machine:
        # fractions and scores of the concepts that have both
        pairs = [(value, machine.values.get(name, nan)) for name, value in shares.items()]
        both = [pair for pair in pairs if isfinite(pair[0]) and isfinite(pair[1])]
        people, scores = np.array(both).reshape(-1, 2).T
        tau = kendall_tau_b(people, scores)
        rows.append(Score(
            metric=HUMAN, component="tau", setting=machine.name, encoder=machine.encoder, value=tau.value, low=tau.low,
            high=tau.high, p=tau.p, test="τ = 0, two-sided", n_target=tau.n, reason=tau.reason,
            family="human: a test by itself", q=tau.p, p_holm=tau.p,
        ))  # fmt: skip
    return rows


def _rate(component: str, count: int, n: int, nothing: str, study: HumanStudy) -> Score:
    rate = wilson_interval(count, n)
    return Score(
        metric=HUMAN, component=component, encoder="", value=rate.value, low=rate.low, high=rate.high, n_target=n,
        n_a=raters_of(study.table), reason=nothing if n == 0 else "",
    )  # fmt: skip


def encoder_rows(study: HumanStudy) -> list[Score]:
    """``confusion`` of every answer and reading, and with it ``sensitivity`` (a read as a), ``specificity`` (b as b).

    An item counts for the answer that most of its raters gave; ties count for none. Items drawn within strata are
    weighed by what they stand for; the interval is Wilson's at the effective number of items, (Σw)²/Σw² (Kish 1965).
    """
    rows = []
    for encoder in dict.fromkeys(name for concept in study.concepts for name in concept.readings):
        concepts = [concept for concept in study.concepts if encoder in concept.readings and not concept.whole]
        majorities = np.concatenate([majority(concept.answers, len(study.answers)) for concept in concepts])
        read = np.concatenate([concept.readings[encoder] for concept in concepts])
        weights = np.concatenate([item_weights(concept) for concept in concepts])
        sides = ((study.a, read), (study.b, 1 - read))
        asked = [
            ("confusion", number, f"read as {study.answers[side]}", as_read)
            for number in range(len(study.answers))
            for side, as_read in sides
        ]
        asked += [
            (component, side, "", as_read)
            for component, (side, as_read) in zip(("sensitivity", "specificity"), sides, strict=True)
        ]
        for component, number, setting, as_read in asked:
            yes, w, group = as_read[majorities == number], weights[majorities == number], study.answers[number]
            row = Score(
                metric=HUMAN, component=component, group=group, setting=setting, encoder=encoder, n_target=len(yes),
                reason="" if len(yes) else f"people saw no image as {group}",
            )  # fmt: skip
            if len(yes):
                share = float(w @ yes / w.sum())
                low, high = wilson_at(share, float(w.sum() ** 2 / (w @ w)))
                row = replace(row, value=share, low=low, high=high)
            rows.append(row)
    return rows


def majority(answers: np.ndarray, number: int) -> np.ndarray:
    """(items,) the answer that most raters gave, −1 where two answers tie or there is none."""
    counts = np.stack([(answers == k).sum(axis=0) for k in range(number)])
    most = counts.max(axis=0)
    alone = (counts == most).sum(axis=0) == 1
    return np.where(alone & (most > 0), counts.argmax(axis=0), -1)


def item_weights(concept: RatedConcept) -> np.ndarray:
    """(items,) how many images of the concept each rated item represents."""
    rated = np.isfinite(concept.answers).any(axis=0)
    if concept.strata is None or concept.sizes is None:
        others = len(next(iter(concept.unrated.values()), ()))
        return np.full(len(rated), (rated.sum() + others) / max(rated.sum(), 1))
    drawn = np.bincount(concept.strata[rated], minlength=len(concept.sizes))
    return np.asarray((concept.sizes / np.maximum(drawn, 1))[concept.strata])


HUMAN: Final = "human"
"""The metric of numbers that rest on answers of people."""
SIMULATED: Final = "simulated"
"""The metric of the same numbers where they rest on simulated raters, who are never pooled with people."""

ONE_RATER: Final = "one rater: how raters differ is not known, so it is not in the interval"


@dataclass(frozen=True)
class RatedConcept:
    """The rated images of one concept.

    Attributes
    ----------
    name, category : of the concept.
    answers : (raters, n) the number of each rater's answer to each item, NaN where there is none.
    readings : of each encoder, (n,) 1 where it reads the item as a, else 0.
    unrated : of each encoder, the same of the concept's other images.
    strata, sizes : (n,) from 0 and (H,): where items were drawn within strata, the stratum of each, and the images that
        each stratum holds; empty for a simple random sample.
    whole : whether the item is all images of the concept at once; then raters, not items, are the units.
    """

    name: str
    category: str
    answers: np.ndarray
    readings: Mapping[str, np.ndarray] = field(default_factory=dict)
    unrated: Mapping[str, np.ndarray] = field(default_factory=dict)
    strata: np.ndarray | None = None
    sizes: np.ndarray | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        n = self.answers.shape[1]
        for encoder, readings in self.readings.items():
            if len(readings) != n:
                raise InvalidInputError.wrong_shape(
                    f"readings of {encoder}: expected one for each of {n} items of {self.name}, found {len(readings)}"
                )

    def chosen(self, answer: int) -> np.ndarray:
        """(raters, n) 1 where an answer is this one, 0 where it is another, NaN where there is none."""
        return np.where(np.isfinite(self.answers), self.answers == answer, np.nan).astype(np.float64)

    def other_than(self, first: int, second: int) -> np.ndarray:
        """(raters, n) where an answer is neither of the two."""
        return np.asarray(np.isfinite(self.answers) & (self.answers != first) & (self.answers != second))


@dataclass(frozen=True)
class MachineScores:
    """A number of the machine for each concept, positive where it leans to a."""

    metric: str
    component: str
    encoder: str
    values: Mapping[str, float]

    @property
    def name(self) -> str:
        """``"mcas ii"``; the metric alone where its component has the same name."""
        return self.metric if self.metric == self.component else f"{self.metric} {self.component}"


@dataclass(frozen=True)
class HumanStudy:
    """The ratings of a run.

    Attributes
    ----------
    answers : every answer that could be given, by number.
    a, b : numbers of the answers of the two groups compared.
    concepts : what was rated of each concept; all hold the same raters in the same order.
    same, repeats : repeated items that got the same answer again, and all of them.
    right, checks : items with a known answer that were answered so, and all of them.
    machine : scores that the fractions are compared with.
    margin : the margin for which the ratings still needed are counted.
    """

    answers: tuple[str, ...]
    a: int
    b: int
    concepts: tuple[RatedConcept, ...]
    same: int = 0
    repeats: int = 0
    right: int = 0
    checks: int = 0
    machine: tuple[MachineScores, ...] = ()
    margin: float = 0.05

    def __post_init__(self) -> None:
        raters = {len(concept.answers) for concept in self.concepts}
        if len(raters) > 1:
            raise InvalidInputError.wrong_shape(
                f"expected as many raters of each concept, found {sorted(raters)}", field="answers"
            )

    @property
    def table(self) -> np.ndarray:
        """(raters, items) all answers, concept by concept."""
        return np.concatenate([concept.answers for concept in self.concepts], axis=1)


def raters_of(answers: np.ndarray) -> int:
    """Count the raters with at least one answer."""
    return int(np.isfinite(answers).any(axis=1).sum())


def rated_items(answers: np.ndarray) -> int:
    """Count the items with at least one answer."""
    return int(np.isfinite(answers).any(axis=0).sum())


def caution(answers: np.ndarray, value: float) -> dict[str, str]:
    """Return what the interval of an estimate does not hold, as the fields of a row that say so."""
    alone = isfinite(value) and raters_of(answers) == 1
    return {"reason": ONE_RATER, "reason_code": ReasonCode.ONE_RATER} if alone else {}


@dataclass(frozen=True)
class PairedStudy:
    """Comparisons of two pictures, of one question.

    Attributes
    ----------
    question : what raters were asked.
    units : what the pictures were drawn for, each a concept, its category and a group, of which one is empty.
    left, right : (n,) the unit of the picture on either side; ``pictures``, ``raters`` : (n, 2) and (n,) numbers.
    answers : (n,) 0 the left one was preferred, 1 the right one, 2 neither.
    """

    question: str
    units: tuple[tuple[str, str, str], ...]
    left: np.ndarray
    right: np.ndarray
    answers: np.ndarray
    pictures: np.ndarray
    raters: np.ndarray


def paired_rows(study: PairedStudy) -> list[Score]:
    """Report which concepts' and groups' pictures are preferred (:mod:`clinometer.stats.paired_comparisons`).

    ``strength`` and ``preferred`` of each, q over all of them, with n_target comparisons by n_a raters. ``left``: how
    often the left one of two equals is preferred. ``tied``: share of comparisons in which neither was.
    """
    found = paired_strengths(
        study.left, study.right, study.answers, names=tuple(concept or group for concept, _, group in study.units),
        raters=study.raters, left_pictures=study.pictures[:, 0], right_pictures=study.pictures[:, 1],
    )  # fmt: skip
    about = Score(
        metric=HUMAN, component="strength", setting=study.question, encoder="", n_target=found.n, n_a=found.n_raters,
        n_b=found.n_pictures, reason=found.reason,
    )  # fmt: skip
    if not found.defined:
        return [replace(about, category="all")]

    def rows(component: str, of: Coefficients, null: float) -> list[Score]:
        made = [
            replace(
                about, component=component, concept=concept, category=category, group=group, null=null,
                value=float(of.value[at]), low=float(of.low[at]), high=float(of.high[at]), p=float(of.p[at]),
                n_target=int(found.compared[at]), test="Student's t, over raters and pictures",
            )
            for at, (concept, category, group) in enumerate(study.units)
        ]  # fmt: skip
        return corrected(made, f"{HUMAN}: {component} of {len(made)}")

    left = found.left
    position = replace(
        about, component="left", category="all", null=0.5, value=float(left.value[0]), low=float(left.low[0]),
        high=float(left.high[0]), p=float(left.p[0]), q=float(left.p[0]), family=f"{HUMAN}: a test by itself",
        test="Student's t, over raters and pictures",
    )  # fmt: skip
    ties = wilson_interval(int((study.answers == 2).sum()), found.n)
    tied = replace(about, component="tied", category="all", value=ties.value, low=ties.low, high=ties.high)
    return [*rows("strength", found.strength, 0.0), *rows("preferred", found.preferred, 0.5), position, tied]
