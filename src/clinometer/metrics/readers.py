"""Answers of several readers and people about the same images: how far they agree, and shares that rest on both.

Of a question with K groups an answer is a number from 0: a group, or K for "cannot tell" (none of them, several, not
readable), which is an answer like any other. NaN is no answer: not asked, failed or refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, isfinite, nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.metrics.distribution import peer_scores
from clinometer.metrics.human import majority
from clinometer.metrics.reading import AnsweredQuestion
from clinometer.metrics.records import CHANGED_READER, READING, Score
from clinometer.metrics.transport import ReadPictures, Transport, count_by_kind, transport
from clinometer.metrics.verdict import DRIFT, FEWEST_IMAGES, LEVEL, ReasonCode
from clinometer.stats.agreement import Agreement, krippendorff_alpha
from clinometer.stats.arguments import require_confidence
from clinometer.stats.change import answer_drift
from clinometer.stats.confusion import CorrectedShares, corrected_shares
from clinometer.stats.prediction_powered import RatedShare, more_items_until, rated_share
from clinometer.stats.proportion import wilson_interval

PEOPLE: Final = "people"
"""The name under which those who rated stand among readers."""

CANNOT_TELL: Final = "cannot tell"
"""The answer that is none of the groups, as the setting of a row names it."""

UNDECIDABLE: Final = "a rating of every image would not decide: more images are needed"

RESAMPLES: Final = 1_999


@dataclass(frozen=True)
class ReadImages:
    """The answers to one question, image by image.

    Attributes
    ----------
    question, groups : its name, and what its K answers mean, in order.
    concepts : name and category of each concept, and its images as numbers from 0 to n − 1.
    answers : of each reader, (n,) answers.
    people : (raters, n) answers of people to this question; no rater where nobody rated.
    """

    question: str
    groups: tuple[str, ...]
    concepts: tuple[tuple[str, str, np.ndarray], ...]
    answers: Mapping[str, np.ndarray]
    people: np.ndarray


@dataclass(frozen=True)
class GroupShares:
    """Shares of K groups by people's ratings of some images and a reader's answers to all.

    Attributes
    ----------
    shares : of each group, among the images in which people see one of the groups. Their intervals hold together.
    unread : share of the images in which people see none of the groups, or cannot tell.
    decided : (K,) 1 where a group has more than 1/K, −1 where less, 0 where the ratings do not tell.
    more : images that must still be rated to decide on one group at least, if the shares and the reader's errors stay
        what they are; 0 where one is decided, NaN where a rating of every image would not do.
    """

    shares: tuple[RatedShare, ...]
    unread: RatedShare
    decided: np.ndarray
    more: float


def rated_group_shares(
    ratings: ArrayLike,
    readings: ArrayLike | None = None,
    unrated: ArrayLike | None = None,
    *,
    groups: int,
    strata: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    n_all: int | None = None,
    confidence: float = 0.95,
) -> GroupShares:
    """Estimate shares of K groups, one group's indicator at a time, with intervals that hold together.

    Each share is that of :func:`clinometer.stats.prediction_powered.rated_share`, of "this group" against "another
    group", with what people call none of them outside. Each interval is at ``1 − (1 − confidence) / K`` (Bonferroni),
    so all K hold their shares at once with ``confidence``; two groups too,
    as each has a λ of its own.

    Parameters
    ----------
    ratings : (raters, n) people's answers to the rated images.
    readings, unrated : (n,) and (N − n,) the reader's answers to these and to the other images; no answer is read as
        "cannot tell".
    strata, sizes, n_all : as in ``rated_share``.

    Raises
    ------
    InvalidInputError
        Answers out of range, or lists of other lengths.

    Examples
    --------
    >>> found = rated_group_shares([0, 0, 1, 0] * 25, [0, 0, 1, 1] * 25, [0, 0, 1, 1] * 100, groups=2)
    >>> [round(share.value, 2) for share in found.shares], found.decided.tolist(), found.more
    ([0.75, 0.25], [1, -1], 0.0)
    """
    require_confidence(confidence)
    table = np.atleast_2d(np.asarray(ratings, np.float64))
    known = table[np.isfinite(table)]
    if groups < 2 or not np.isin(known, np.arange(groups + 1)).all():
        raise InvalidInputError.out_of_range(
            f"expected whole numbers from 0 to the number of groups, {groups}", field="ratings"
        )
    read, others = (None if f is None else np.asarray(f, np.float64).ravel() for f in (readings, unrated))
    each = 1 - (1 - confidence) / groups

    def share_of(answer: int, outside: np.ndarray | None, level: float) -> RatedShare:
        chosen = np.where(np.isfinite(table), table == answer, np.nan)
        as_read = (None if f is None else (np.where(np.isfinite(f), f, groups) == answer) for f in (read, others))
        return rated_share(chosen, *as_read, outside=outside, strata=strata, sizes=sizes, n_all=n_all, confidence=level)

    shares = tuple(share_of(k, table == groups, each) for k in range(groups))
    decided = np.array([int(share.low > 1 / groups) - int(share.high < 1 / groups) for share in shares])

    def leaves_parity_out(low: float, high: float) -> bool:
        return low > 1 / groups or high < 1 / groups

    needed = (more_items_until(share, leaves_parity_out, confidence=each) for share in shares)
    more = 0.0 if decided.any() else min(filter(isfinite, needed), default=nan)
    return GroupShares(shares, share_of(groups, None, confidence), decided, more)


@dataclass(frozen=True)
class ReadShare:
    """A group's share among the n pictures that are read, as read: Wilson's interval, and its ends over the unread."""

    value: float
    low: float
    high: float
    bound_low: float
    bound_high: float
    n: int


def shares_as_read(answers: ArrayLike, *, confidence: float = 0.95) -> tuple[ReadShare, ...]:
    """Return the shares of K groups among the pictures that are read, from (K + 1,) counts, "cannot tell" last.

    With u the share of the unread, the ends with none and with all of them of the group are ``(1 − u) low`` and
    ``(1 − u) high + u``. NaN where nothing is read, between 0 and 1.

    >>> [round(each, 2) for each in vars(shares_as_read([6, 2, 8])[0]).values()]
    [0.75, 0.41, 0.93, 0.2, 0.96, 8]
    """
    y = np.asarray(answers, int)
    n, read = int(y.sum()), int(y[:-1].sum())
    if not read:
        return (ReadShare(nan, nan, nan, 0.0, 1.0, 0),) * (len(y) - 1)
    unread = 1 - read / n
    intervals = (wilson_interval(int(count), read, confidence) for count in y[:-1])
    return tuple(
        ReadShare(each.value, each.low, each.high, (1 - unread) * each.low, (1 - unread) * each.high + unread, read)
        for each in intervals
    )


@dataclass(frozen=True)
class ReaderShares:
    """Shares of K groups by a reader whose errors are known from labelled pictures.

    Attributes
    ----------
    raw : of each group, the share of the asked pictures that are read which are read as it, with its bounds.
    corrected, transport : the shares without the reader's errors, and whether these carry over.
    rated : of the same pictures labelled: people's labels and the reader together.
    share, low, high, bound_low, bound_high : (K,) what may be quoted, and its ends over the unread; NaN where nothing.
    by : "corrected", "rated", or empty where nothing may be quoted, for the ``reason``.
    labels_needed : of the asked pictures, how many to label so that people and the reader decide; NaN where quoted.
    """

    raw: tuple[ReadShare, ...]
    corrected: CorrectedShares
    transport: Transport
    rated: GroupShares | None
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bound_low: np.ndarray
    bound_high: np.ndarray
    by: str
    labels_needed: float
    reason: str = ""

    @property
    def quotable(self) -> bool:
        """True if there is a share that may be quoted."""
        return bool(self.by)


def ratings_to_decide(
    share: float,
    *,
    groups: int = 2,
    images: int | None = None,
    recall: float = nan,
    others_read_so: float = nan,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Count the images that people must rate to find that a group's share is not 1/K, planned before any is rated.

    Without a reader n rated images are worth n answers. A reader whose answer correlates with people's by ρ leaves
    1 − ρ² of the variance to the rated ones, and the sampling of N images stays::

        1/n_eff = (1 − ρ²) (1/n − 1/N) + 1/N          ρ² = (π r − π f)² / (π (1 − π) f (1 − f)),  f = π r + (1 − π) q

    with π the share, r = ``recall`` and q = ``others_read_so`` how often the reader reads the group, and another group,
    as this group. n_eff is what a score test of 1/K at ``alpha / K`` needs for ``power``.

    Returns
    -------
    Whole images, ten at least and ``images`` at most; NaN where the share is 1/K, or where a rating of every image
    would not do.

    Examples
    --------
    Of 400 images, a share of .65 instead of ½; alone, and beside a reader that errs in a tenth:

    >>> ratings_to_decide(0.65, images=400), ratings_to_decide(0.65, images=400, recall=0.9, others_read_so=0.1)
    (103.0, 47.0)
    """
    if groups < 2 or not 0 < share < 1:
        raise InvalidInputError.out_of_range(
            f"expected a share between 0 and 1 of two groups or more, found {share} of {groups}"
        )
    if share == 1 / groups:
        return nan
    parity, z = 1 / groups, scipy.stats.norm.ppf([1 - alpha / groups / 2, power])
    reach = float(z @ np.sqrt([parity * (1 - parity), share * (1 - share)]))
    needed = (reach / (share - parity)) ** 2
    of_all = 0.0 if images is None else 1 / images
    read = share * recall + (1 - share) * others_read_so
    explained = share * (recall - read) ** 2 / ((1 - share) * read * (1 - read)) if 0 < read < 1 else 0.0
    room = 1 / needed - of_all
    if room < -1e-12:
        return nan
    left = max(1 - explained, 1e-12)
    rated = max(ceil(1 / (max(room, 0.0) / left + of_all) - 1e-9), FEWEST_IMAGES)
    return float(rated if images is None else min(rated, images))


def shares_by_reader(
    asked: ReadPictures,
    known: ReadPictures,
    truths: ArrayLike,
    *,
    groups: int,
    same_pictures: bool = False,
    confidence: float = 0.95,
) -> ReaderShares:
    """Find the shares of K groups in asked pictures, from a reader's answers and its errors in known ones.

    Labels of some of the same pictures, drawn at random (``same_pictures``), need no error rates: the shares are those
    of people and reader together (:func:`rated_group_shares`), of all pictures, the labelled ones too. Else the
    corrected share is quoted where :func:`clinometer.metrics.corrected_shares` may be and :func:`transport` does not
    say *unlike*.
    """
    true = np.asarray(truths, int)
    y, answers = asked.counts(groups), np.asarray(known.answers, int)
    tables, kinds = count_by_kind(known, true, asked, groups=groups)
    corrected = corrected_shares(y, tables, confidence=confidence, same_pictures=same_pictures, kinds=kinds)
    transported = transport(asked, known, true, groups=groups)
    raw = shares_as_read(y, confidence=confidence)
    share = low = high = bound_low = bound_high = np.full(groups, nan)
    rated, by, needed, reason = None, "", nan, ""
    if same_pictures and len(true):
        rated = rated_group_shares(true, answers, np.asarray(asked.answers, int), groups=groups, confidence=confidence)
        share, low, high = np.array([(each.value, each.low, each.high) for each in rated.shares]).T
        bound_low, bound_high, by = low, high, "rated"
    elif corrected.quotable and transported.answer != "unlike":
        share, low, high, by = corrected.share, corrected.low, corrected.high, "corrected"
        bound_low, bound_high = corrected.bound_low, corrected.bound_high
    else:
        needed, reason = labels_needed(y), transported.reason if transported.answer == "unlike" else corrected.reason
    return ReaderShares(
        raw, corrected, transported, rated, share, low, high, bound_low, bound_high, by, needed, reason
    )  # fmt: skip


def labels_needed(answers: ArrayLike) -> float:
    """Count the asked pictures to label so that people and reader tell a share from 1/K, if it is as it was read.

    ``answers``: (K + 1,) counts. Every picture where so many do not tell either, or none is read.
    """
    y = np.asarray(answers, int)
    n, read, groups = int(y.sum()), int(y[:-1].sum()), len(y) - 1
    shares = y[:-1] / max(read, 1)
    furthest = min(max(float(shares[np.abs(shares - 1 / groups).argmax()]), 0.05), 0.95)
    needed = ratings_to_decide(furthest, groups=groups, images=n) if read and n > FEWEST_IMAGES else nan
    return needed if isfinite(needed) else float(n)


def reader_agreement(
    answers: Mapping[str, ArrayLike], *, confidence: float = 0.95, n_resamples: int = RESAMPLES
) -> dict[tuple[str, ...], Agreement]:
    """Find how far readers agree, all of them and each pair: Krippendorff's α of nominal answers, over images.

    ``answers``: of each reader (n,) numbers, NaN for none. All stand under the names of all, in their order; a pair
    under its two. Images with fewer than two answers do not count; α and its interval are NaN where there is none, or
    where all answers are the same (:func:`clinometer.stats.agreement.krippendorff_alpha`).

    >>> found = reader_agreement({"a": [0, 1, 0, 1, 2, 0], "b": [0, 1, 0, 1, 2, 1], "c": [0, 1, 1, 1, 2, float("nan")]})
    >>> {" ".join(names): round(alpha.value, 2) for names, alpha in found.items()}
    {'a b c': 0.64, 'a b': 0.76, 'a c': 0.71, 'b c': 0.71}
    """
    names = tuple(answers)
    table = {name: np.asarray(each, np.float64).ravel() for name, each in answers.items()}
    if len({len(each) for each in table.values()}) > 1:
        raise InvalidInputError.wrong_shape("expected as many of each reader, NaN where there is none", field="answers")
    those = ([names] if len(names) > 2 else []) + list(combinations(names, 2))
    return {
        some: krippendorff_alpha(
            np.stack([table[name] for name in some]), confidence=confidence, n_resamples=n_resamples
        )
        for some in those
    }


def confusion_rows(each: AnsweredQuestion) -> list[Score]:
    """Make rows ``confusion``: how often images of a known ``group`` are read as what ``setting`` says."""
    rows = []
    for group, counts in zip(each.groups, each.known.tolist(), strict=True):
        for answer, count in zip((*each.groups, CANNOT_TELL), counts, strict=True):
            rate = wilson_interval(count, sum(counts))
            rows.append(
                Score(
                    metric=READING, component="confusion", group=group, encoder=each.reader, value=rate.value,
                    setting=f"{each.question}: read as {answer}", low=rate.low, high=rate.high, n_target=rate.n,
                    n_a=count, test=each.source, reason="" if rate.n else "no image is known to show it",
                )
            )  # fmt: skip
    return rows


def peer_rows(each: AnsweredQuestion) -> list[Score]:
    """Return what other audits would report by a reader: a row a concept and number, ``null`` its value under parity.

    ``n_target`` are the images that are read as a group; the others, ``n_a``, are dropped as those audits do.
    """
    return [
        Score(
            metric=READING, component=name, concept=concept.concept, category=concept.category, setting=each.question,
            encoder=each.reader, value=score.value, low=score.low, high=score.high, null=score.null, n_target=score.n,
            n_a=int(concept.counts[-1]), reason=score.reason,
        )
        for concept in each.concepts
        for name, score in peer_scores(concept.counts).items()
    ]  # fmt: skip


def planned_rows(each: AnsweredQuestion, rows: Iterable[Score]) -> list[Score]:
    """Make rows ``ratings_to_decide`` planned from each concept's corrected share and the reader's errors.

    Of the group that is furthest from 1/K, if its share is what it was corrected to (:func:`ratings_to_decide`); where
    the reader's errors do not carry over, what it was read as.
    ``rows`` : those of :func:`clinometer.metrics.reading.reading_rows`.
    """
    k, planned = len(each.groups), []
    mine = [
        row
        for row in rows
        if (row.component, row.encoder, row.setting) == ("corrected_share", each.reader, each.question)
    ]
    for concept in each.concepts:
        measured = [row for row in mine if row.concept == concept.concept and 0 < row.value < 1]
        images = int(concept.counts.sum())
        about = Score(
            metric=READING, component="ratings_to_decide", concept=concept.concept, category=concept.category,
            encoder=each.reader, setting=each.question, n_target=images,
        )  # fmt: skip
        withheld = [row for row in mine if row.concept == concept.concept and row.reason_code == ReasonCode.NOT_ALIKE]
        if withheld:  # people's labels of these very pictures are the way out
            planned.append(replace(about, value=labels_needed(concept.counts)))
            continue
        if not measured:
            planned.append(replace(about, reason="no corrected share between 0 and 1 to plan from"))
            continue
        furthest = max(measured, key=lambda row: abs(row.value - 1 / k))
        group, shares = each.groups.index(furthest.group), {row.group: row.value for row in measured}
        rates = each.known[:, group] / np.maximum(each.known.sum(axis=1), 1)
        others = np.array([0.0 if name == furthest.group else shares.get(name, 0.0) for name in each.groups])
        read_so = float(others @ rates / others.sum()) if others.sum() else float(np.delete(rates, group).mean())
        needed = ratings_to_decide(
            furthest.value, groups=k, images=images, recall=float(rates[group]), others_read_so=read_so
        )
        reason = "" if isfinite(needed) else UNDECIDABLE
        planned.append(replace(about, value=needed, reason=reason))
    return planned


def agreement_rows(read: ReadImages) -> list[Score]:
    """Make rows ``alpha``: of all readers and people (by what most saw), and of pairs, ``encoder`` and ``group``."""
    people = {PEOPLE: np.where((most := majority(read.people, len(read.groups) + 1)) < 0, np.nan, most)}
    alphas = reader_agreement({**read.answers, **(people if len(read.people) else {})})
    return [
        Score(
            metric=READING, component="alpha", setting=read.question, encoder=names[0] if len(names) == 2 else "",
            group=names[1] if len(names) == 2 else "", value=alpha.value, low=alpha.low, high=alpha.high,
            n_target=alpha.n, n_a=len(names), reason=alpha.reason,
        )
        for names, alpha in alphas.items()
    ]  # fmt: skip


DRIFT_TEST: Final = "answers in any order of the rounds, picture by picture; bets on the last, at any number of rounds"


def drift_row(reader: str, differs: np.ndarray, parts: Sequence[int]) -> Score:
    """Return whether a reader changed while it read: a row ``drift``, by what it answered when asked the same again.

    ``value`` is the share of answers that differ from the first ones, and p holds at any number of rounds. Where it is
    at most 5 % ``flag`` says so, ``setting`` is the part before which the change shows first, and ``value`` is of the
    rounds from there on, ``null`` of those before.

    Parameters
    ----------
    differs : (rounds × units), as in :func:`clinometer.stats.change.answer_drift`.
    parts : before which part each round was asked; -1 after all.
    """
    drift, there = answer_drift(differs), np.isfinite(differs)
    row = Score(
        metric=READING, component="drift", category="all", encoder=reader, p=drift.p_value, test=DRIFT_TEST,
        n_target=differs.shape[1], n_a=len(differs), reason="no interval: a test at every round takes its place",
    )  # fmt: skip
    if not there.any():
        return replace(row, p=nan, test="", reason="no picture was answered again")
    if drift.p_value > LEVEL:
        return replace(row, value=float(np.nanmean(differs)))
    part = parts[drift.since]
    setting = f"part {part}" if part >= 0 else "the end"
    return replace(row, value=drift.after, null=drift.before, setting=setting, flag=CHANGED_READER)


def with_changed(rows: Sequence[Score], changed: Collection[str]) -> list[Score]:
    """Flag the rows of readers that changed, where they have no other flag, and let their verdicts depend on it."""

    def flagged(row: Score) -> Score:
        depends = " ".join(filter(None, (row.depends_on, DRIFT))) if row.verdict else row.depends_on
        return replace(row, flag=row.flag or CHANGED_READER, depends_on=depends)

    return [flagged(row) if row.encoder in changed else row for row in rows]


def rated_rows(read: ReadImages) -> list[Score]:
    """Make rows ``rated_share`` and ``ratings_to_decide``: what people and a reader say together.

    The rated images count as a simple random sample of the concept's. ``n_target`` are all images, ``n_a`` the rated.
    """
    rows, k = [], len(read.groups)
    for reader, answers in read.answers.items():
        for concept, category, images in read.concepts:
            table = read.people[:, images]
            rated = np.isfinite(table).any(axis=0)
            if not rated.any():
                continue
            f = answers[images]
            rated_shares = rated_group_shares(table[:, rated], f[rated], f[~rated], groups=k)
            about = {"metric": READING, "concept": concept, "category": category, "setting": read.question,
                     "encoder": reader, "n_target": len(images), "n_a": int(rated.sum())}  # fmt: skip
            rows += [
                Score(component="rated_share", group=group, value=share.value, low=share.low, high=share.high,
                      null=1 / k, reason=share.reason, **about)  # type: ignore[arg-type]
                for group, share in zip(read.groups, rated_shares.shares, strict=True)
            ]  # fmt: skip
            why = "" if isfinite(rated_shares.more) else UNDECIDABLE
            rows.append(Score(component="ratings_to_decide", value=rated_shares.more, reason=why, **about))  # type: ignore[arg-type]
    return rows
