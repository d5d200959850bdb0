"""Rows of what readers answer about a run's images: shares of the groups, raw and corrected for readers' errors.

With K groups and "cannot tell", y_r of a concept's n images are answered r, and L[k, r] of those known to show k::

    share             y_k / n, Wilson's interval               "cannot tell" counts for no group
    read_share        y_k / Σ_k y_k, Wilson's interval         of the images that are read, as read; bounds below
    corrected_share   π̂_k of the likelihood of y and L         of the images that are read: stats.confusion
    transport         whether the errors carry over to them    metrics.transport
    verdict           π_k against 1/K                          q over the concepts and groups of one reader and question
    concentration     concepts of which all are read as one    :func:`concentration`, and how many would be by chance

An open question has free answers: a distribution over them, and whether it depends on the concept
(:mod:`clinometer.metrics.open_answers`).

Where f of the images have no answer among the groups, the ends with none and with all of them of the group are
``(1 − f) low`` and ``(1 − f) high + f``. Where known and asked images are not alike to the reader, or fit no common
model, there is no corrected share. See method.md, sections 13 and 17.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.metrics.distribution import whole_counts
from clinometer.metrics.open_answers import ConceptAssociation, Dependence, OpenDistribution
from clinometer.metrics.records import DECIDES, READING, Score, corrected
from clinometer.metrics.transport import ReadPictures, count_by_kind, transport
from clinometer.metrics.verdict import (
    FEWEST_IMAGES,
    LEANING,
    MISSING,
    OTHERS,
    READER,
    UNREAD,
    ReasonCode,
    Verdict,
    bears_out,
    judge_family,
    with_share_bounds,
)
from clinometer.stats.arguments import require_confidence
from clinometer.stats.confusion import corrected_shares, pool_contexts, share_p_values
from clinometer.stats.permutation import sampled_p_value
from clinometer.stats.proportion import clopper_pearson, wilson_ends, wilson_interval

DEALT: Final = 1_999
"""Tables with the margins of the observed one, drawn to learn how many concepts are of one value by chance."""

_BETA: Final = 0.001
"""The chance that a reader's error rates lie outside the region over which p is the largest; it is added to p."""


@dataclass(frozen=True)
class Concentration:
    """The number of C concepts whose images all have one value, and the number expected by chance.

    Attributes
    ----------
    group : (C,) the one group of each concept's images, from 0; −1 where there are several, or too few images.
    measured : (C,) whether a concept has enough images.
    chance : (C,) the probability that all of a concept's images are of one value at parity; NaN of too few.
    value, low, high : share of the measured concepts that are of one value, with Clopper and Pearson's interval.
    n, n_one : measured concepts, and those of one value.
    null, p : the expected share at parity, and the probability of as many or more there.
    null_pooled, p_pooled, p_pooled_error : the same where every concept has the shares of all of them together; the
        Monte-Carlo error of p is 0 where no table had to be drawn.
    reason : why there is no number.
    """

    group: np.ndarray
    measured: np.ndarray
    chance: np.ndarray
    value: float = nan
    low: float = nan
    high: float = nan
    n: int = 0
    n_one: int = 0
    null: float = nan
    p: float = nan
    null_pooled: float = nan
    p_pooled: float = nan
    p_pooled_error: float = nan
    reason: str = ""


def concentration(
    counts: ArrayLike, known: ArrayLike | None = None, *, fewest: int = FEWEST_IMAGES, confidence: float = 0.95
) -> Concentration:
    """Count the concepts whose images are all of one value, such as "20 of 20 read as women".

    ::

        at parity    N ~ Poisson-binomial(π_c),  π_c = Σ_r q_r^{n_c};  q_r = 1/K, or Σ_k M[k, r] / K as a reader sees it
        pooled       N of a random table with the observed margins, for which E N = Σ_c Σ_k C(m_k, n_c) / C(m, n_c)

    with n_c the images of concept c, m_k those of group k in all concepts, and p the probability of N or more. A model
    that draws nearly everything of one group has many such concepts at its own shares, and few at parity; one that
    draws each occupation of its own group exceeds both. The second null rests on no estimate of the shares: given
    the margins, tables are equally distributed whatever the shares are. For the first, M comes from labelled images,
    and p is the largest over the error rates that these allow (Berger and Boos 1994, β = .001, which is added). The
    interval is of the share that is expected where the same concepts are drawn again. Their probabilities differ, and
    N then varies less than the binomial that the interval is exact for (Hoeffding 1956).

    Parameters
    ----------
    counts : (C, K) images of each concept read as each group; what cannot be told is left out before.
    known : (K, K) images of a known group (row) that were read as another (column). None, or a group of which no
        image is known, takes the answers to be right.
    fewest : images that a concept needs to be counted.

    Raises
    ------
    InvalidInputError
        Counts of fewer than two groups, or that are no whole numbers.

    Examples
    --------
    >>> found = concentration([[20, 0], [0, 20], [12, 8], [9, 11], [3, 0]])
    >>> found.group.tolist(), found.n_one, found.n, round(found.value, 2), round(found.low, 2), round(found.high, 2)
    ([0, 1, -1, -1, -1], 2, 4, 0.5, 0.07, 0.93)
    >>> bool(found.chance[0] == 2 * 0.5**20), bool(found.p < 1e-10), round(found.p_pooled, 4)
    (True, True, 0.0005)
    """
    table = np.asarray(counts)
    table = np.array([whole_counts("counts", row) for row in table]) if table.ndim == 2 and len(table) else table
    if table.ndim != 2 or table.shape[1] < 2:
        raise InvalidInputError.expected_shape("(concepts, groups), two or more groups", table, field="counts")
    require_confidence(confidence)
    n, groups = table.sum(axis=1), table.shape[1]
    measured = n >= fewest
    is_one = measured & (table.max(axis=1, initial=0) == n)
    read_as, at_most = _parity_as_read(known, groups)
    chance = np.where(measured, (read_as[:, None] ** n).sum(axis=0), nan)
    group = np.where(is_one, table.argmax(axis=1), -1) if len(table) else np.zeros(0, int)
    total, ones = int(measured.sum()), int(is_one.sum())
    if not total:
        return Concentration(group, measured, chance, reason=f"no concept has {fewest} images that are read")
    low, high = clopper_pearson(ones, total, (1 - confidence) / 2)
    highest = np.minimum((at_most[:, None] ** n[measured]).sum(axis=0), 1.0)
    beta = 0.0 if (at_most == read_as).all() else _BETA
    p = min(1.0, float(scipy.stats.poisson_binom.sf(ones - 1, highest)) + beta) if ones else 1.0
    null_pooled, p_pooled, error = _compare_with_random_tables(table[measured])
    return Concentration(
        group, measured, chance, ones / total, float(low), float(high), total, ones,
        float(chance[measured].mean()), p, null_pooled, p_pooled, error,
    )  # fmt: skip


def _parity_as_read(known: ArrayLike | None, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares (K,) that a reader sees in images at parity, and the largest that its labelled images allow.

    The upper ends put those of Wilson's intervals of the K error rates together as variances are (MOVER).
    """
    right = np.full(groups, 1 / groups)
    if known is None:
        return right, right
    table = np.asarray(known, np.float64)
    if table.shape != (groups, groups):
        raise InvalidInputError.expected_shape(f"({groups}, {groups})", table, field="known")
    labelled = table.sum(axis=1, keepdims=True)
    if not labelled.all():
        return right, right
    rates = table / labelled
    highest = wilson_ends(rates, labelled, 1 - 2 * _BETA / groups)[1]
    seen = rates.mean(axis=0)
    return seen, np.minimum(seen + np.linalg.norm(highest - rates, axis=0) / groups, 1.0)


def _compare_with_random_tables(table: np.ndarray) -> tuple[float, float, float]:
    """Return the expected share of rows of one value among tables with these margins, p, and its Monte-Carlo error."""
    n, columns = table.sum(axis=1), table.sum(axis=0)
    logs = scipy.special.gammaln
    choices = logs(columns + 1) - logs(np.maximum(columns - n[:, None], 0) + 1)
    of_one = np.where(columns >= n[:, None], choices - (logs(n.sum() + 1) - logs(n.sum() - n + 1))[:, None], -np.inf)
    null, ones = float(np.exp(of_one).sum(axis=1).mean()), int((table.max(axis=1) == n).sum())
    if not ones or np.count_nonzero(columns) < 2:
        return null, 1.0, 0.0
    rng, size = np.random.default_rng(0), max(1, 1_000_000 // table.size)
    as_many = 0
    for start in range(0, DEALT, size):
        dealt = scipy.stats.random_table(n, columns).rvs(min(size, DEALT - start), random_state=rng)
        as_many += int(((dealt.max(axis=2) == n).sum(axis=1) >= ones).sum())
    p, error, _, _ = sampled_p_value(np.array([as_many]), DEALT)
    return null, float(p[0]), float(error[0])


BEST: Final = "it tells the groups apart best of the readers, by the smallest singular value of its errors"
NAMED: Final = "the reader that was named"
NO_OTHER: Final = "no other reader was asked"
BY_DEALING: Final = "answers permuted among the images of all concepts"
AT_PARITY: Final = "exact (Poisson-binomial), parity in every concept, at the error rates of the reader that allow most"


@dataclass(frozen=True)
class ConceptAnswers:
    """The answers about a concept's images.

    Attributes
    ----------
    counts : (K + 1,) answers, of no group last, each different picture once.
    missing, repeated : pictures that are missing, and those that repeat another.
    unread : how many have no answer among the groups, by why, in words.
    pictures : what else the reader shows of the different pictures; None where only the answers are known.
    """

    concept: str
    category: str
    counts: np.ndarray
    missing: int = 0
    repeated: int = 0
    unread: str = ""
    pictures: ReadPictures | None = None


@dataclass(frozen=True)
class AnsweredQuestion:
    """One reader's answers to one question.

    Attributes
    ----------
    groups : what the answers mean, K of them.
    known : (K, K + 1) answers to images of known groups, a row a group; ``source`` : whose they are.
    pictures, truths : what the reader shows of each of these, and its group from 0; None where counts are all there is.
    """

    reader: str
    question: str
    groups: tuple[str, ...]
    concepts: tuple[ConceptAnswers, ...]
    known: np.ndarray
    source: str
    pictures: ReadPictures | None = None
    truths: np.ndarray | None = None


@dataclass(frozen=True)
class OpenAnswers:
    """The answers to an open question, by concept.

    Attributes
    ----------
    found : the distribution of the clusters' names, and whether it depends on the concept; a picture counts once.
    clusters : the cluster of every normalised answer.
    clustered_by : in words: by what answers that differ were put together.
    unread : (concepts in the order of ``found``) pictures without an answer, or that are said to show none.
    associations : TIBET's score of a concept and its counterfactual, by the names of both; q is over all of them.
    """

    found: OpenDistribution
    clusters: Mapping[str, str]
    clustered_by: str
    unread: tuple[int, ...]
    associations: Mapping[tuple[str, str], ConceptAssociation]


def reading_rows(answered: Sequence[AnsweredQuestion], *, decider: str = "") -> list[Score]:
    """Report what readers answer about each concept, how often each errs, and whose verdict stands.

    ``decider`` : the reader whose verdicts stand; else of each question the one that tells its groups apart best. What
    another reader would not bear out depends on the ``reader``.
    """
    rows: list[Score] = []
    for question in dict.fromkeys(each.question for each in answered):
        asked = [each for each in answered if each.question == question]
        judged = {each.reader: _shares(each) for each in asked}
        separations = {each.reader: _separation(each) for each in asked}
        # the verdicts of who was named stand, or of who tells the groups apart best; else of the first
        able = [row for row in separations.values() if row.p <= 0.05]
        if decider in judged:
            chosen, why = decider, NAMED
        elif len(judged) == 1:
            chosen, why = asked[0].reader, NO_OTHER
        elif able:
            chosen, why = max(able, key=lambda row: row.value).encoder, BEST
        else:
            chosen, why = asked[0].reader, "the first reader: none is known to tell the groups apart"
        for each in asked:
            own = judged[each.reader]
            if each.reader == chosen:
                own = [_flag_disputed(row, [judged[other] for other in judged if other != chosen]) for row in own]
                separations[chosen] = replace(
                    separations[chosen], flag=DECIDES, reason="; ".join(filter(None, (why, separations[chosen].reason)))
                )
            rows += [*own, *_errors(each), separations[each.reader], *concentration_rows(each)]
    return rows


def _shares(each: AnsweredQuestion) -> list[Score]:
    """Make the rows of every concept: raw and corrected shares, with verdicts, and what could not be told."""
    rows, corrected_rows = list[Score](), list[Score]()
    for concept in each.concepts:
        about = Score(
            metric=READING, component="share", concept=concept.concept, category=concept.category, encoder=each.reader,
            setting=each.question, n_target=int(concept.counts.sum()), n_repeated=concept.repeated,
            n_missing=concept.missing,
        )  # fmt: skip
        n, unread = about.n_target, int(concept.counts[-1])
        for group, count in zip(each.groups, concept.counts[:-1].tolist(), strict=True):
            share = wilson_interval(count, n)
            row = replace(
                about, group=group, value=share.value, low=share.low, high=share.high, null=1 / len(each.groups),
                reason=share.reason,
            )  # fmt: skip
            rows.append(with_share_bounds(row, count, n, unread))
            among = wilson_interval(count, n - unread)
            row = replace(
                about, component="read_share", group=group, value=among.value, low=among.low, high=among.high,
                null=1 / len(each.groups), n_target=n - unread, reason=among.reason,
            )  # fmt: skip
            if open_to_it := unread + concept.missing:
                low, high = _fill_ends(among.low, among.high, open_to_it / (n + concept.missing))
                row = replace(row, bound_low=low, bound_high=high)
            rows.append(row)
        none = wilson_interval(unread, n)
        rows.append(replace(
            about, component="unread", value=none.value, low=none.low, high=none.high,
            reason=none.reason or concept.unread,
        ))  # fmt: skip
        corrected_rows += _correct(about, each, concept)
    return rows + _judge(corrected_rows, each)


def _correct(about: Score, each: AnsweredQuestion, concept: ConceptAnswers) -> Iterator[Score]:
    """Correct a concept's shares; with the ends that pictures without a group allow, by the reason for that."""
    groups, known, y = each.groups, each.known, concept.counts
    lacking = [group for group, row in zip(groups, known, strict=True) if not row.sum()]
    about = replace(about, component="corrected_share", null=1 / len(groups), test=each.source)
    if lacking:
        reason = f"no image is known to show {', '.join(lacking)}, so how often it is misread is not known"
        for group in groups:
            yield replace(about, group=group, reason=reason, reason_code=ReasonCode.UNKNOWN_ERRORS)
        return
    pictures, truths, asked = _pictures_of(each, concept)
    tables, kinds = count_by_kind(pictures, truths, asked, groups=len(groups))
    found = corrected_shares(y, tables, kinds=kinds)
    alike = transport(asked, pictures, truths, groups=len(groups))
    yield replace(
        about, component="transport", value=alike.p, null=nan, p=alike.p, n_a=int(known.sum()), flag=alike.answer,
        reason=alike.reason,
    )  # fmt: skip
    yield replace(
        about, component="misfit", value=found.misfit, null=0.0, p=found.misfit_p, n_a=int(known.sum()),
        reason="" if isfinite(found.misfit) else found.reason,
    )  # fmt: skip
    if not found.quotable or alike.answer == "unlike":
        code = ReasonCode.NO_ESTIMATE if found.identified else ReasonCode.NOT_APART
        code = ReasonCode.NOT_ALIKE if found.identified and isfinite(found.misfit) else code
        reason = alike.reason if alike.answer == "unlike" and code is not ReasonCode.NOT_APART else found.reason
        for k, group in enumerate(groups):
            yield replace(about, group=group, n_a=int(known[k].sum()), reason=reason, reason_code=code)
        return
    p = share_p_values(y, tables, 1 / len(groups), kinds=kinds)
    n, unread, missing = about.n_target, int(y[-1]), concept.missing
    for k, group in enumerate(groups):
        row = replace(
            about, group=group, value=float(found.share[k]), low=float(found.low[k]), high=float(found.high[k]),
            p=float(p[k]), n_a=int(known[k].sum()),
        )  # fmt: skip
        inside = float(found.bound_low[k]), float(found.bound_high[k])
        lost = _fill_ends(row.low, row.high, missing / (n + missing))
        ends = [(row.low, row.high), inside, lost, _fill_ends(*inside, missing / (n + missing))]
        beyond = ({UNREAD: inside} if unread else {}) | ({MISSING: lost} if missing else {})
        if beyond:
            row = replace(row, bound_low=min(low for low, _ in ends), bound_high=max(high for _, high in ends))
            depends = [kind for kind, (low, high) in beyond.items() if low <= row.null <= high]
            row = replace(row, depends_on=" ".join(depends))
        yield row


def errors_elsewhere(each: AnsweredQuestion) -> np.ndarray:
    """Return the answers among the groups to known pictures, (K, K), each row counted as what it is worth elsewhere.

    Elsewhere is a concept and a model of which no picture is known, so that one table does for all concepts.
    """
    pictures, truths, asked = _pictures_of(each, each.concepts[0])
    tables, kinds = count_by_kind(pictures, truths, asked, groups=len(each.groups))
    table, _ = pool_contexts(tables[:, :, :-1], replace(kinds, asked=None))
    return table


def shares_of_all(each: AnsweredQuestion, rows: Sequence[Score], *, rated: bool = False) -> list[Score]:
    """Return a row each group of the shares of all concepts' images together, a concept weighing as many as it has.

    ``rows`` are the concepts' corrected shares, whose correction is made again for the answers to all images, as errors
    of the rates are errors of all concepts; or the ``rated`` ones, of which value and ends are averaged: that holds
    however their errors depend on each other. Where a concept's share is withheld, so is that of all.
    """
    k, lacking = len(each.groups), [row.concept for row in rows if not isfinite(row.value)]
    n, missing = sum(row.n_target for row in rows[::k]), sum(concept.missing for concept in each.concepts)
    about = replace(rows[0], concept="", category="all", n_target=n, n_missing=missing, n_repeated=0, reason="")
    about = replace(about, value=nan, low=nan, high=nan, bound_low=nan, bound_high=nan)
    if lacking:
        why = f"there is no share of {', '.join(dict.fromkeys(lacking))}, and so none of all concepts"
        return [replace(about, group=group, reason=why) for group in each.groups]
    if rated:
        weights = np.array([row.n_target for row in rows[::k]]) / n
        mean = [[weights @ [getattr(row, name) for row in rows[g::k]] for name in ("value", "low", "high")]
                for g in range(k)]  # fmt: skip
        return [replace(about, group=group, value=float(value), low=float(low), high=float(high))
                for group, (value, low, high) in zip(each.groups, mean, strict=True)]  # fmt: skip
    looked_at = [_pictures_of(each, concept) for concept in each.concepts]
    answers = np.concatenate([np.asarray(asked.answers, int) for _, _, asked in looked_at])
    kinds = [asked.contexts for _, _, asked in looked_at if asked.contexts is not None]
    contexts = np.concatenate(kinds) if len(kinds) == len(looked_at) else None
    tables, of_kind = count_by_kind(*looked_at[0][:2], ReadPictures(answers, contexts=contexts), groups=k)
    found = corrected_shares(np.bincount(answers, minlength=k + 1), tables, kinds=of_kind)
    made = [
        replace(about, group=group, value=float(found.share[g]), low=float(found.low[g]), high=float(found.high[g]))
        for g, group in enumerate(each.groups)
    ]
    if not found.quotable:
        return [replace(row, value=nan, low=nan, high=nan, reason=found.reason) for row in made]
    if not missing and not int((answers == k).sum()):
        return made
    ends = [_fill_ends(float(low), float(high), missing / (n + missing))
            for low, high in zip(found.bound_low, found.bound_high, strict=True)]  # fmt: skip
    return [replace(row, bound_low=low, bound_high=high) for row, (low, high) in zip(made, ends, strict=True)]


def _pictures_of(each: AnsweredQuestion, concept: ConceptAnswers) -> tuple[ReadPictures, np.ndarray, ReadPictures]:
    """Return known pictures, their groups, and a concept's: with all that the reader shows, or as counts tell."""
    k = len(each.groups)
    return *known_pictures(each), concept.pictures or ReadPictures(np.repeat(np.arange(k + 1), concept.counts))


def known_pictures(each: AnsweredQuestion) -> tuple[ReadPictures, np.ndarray]:
    """Return the pictures of known groups, and the groups from 0: with all that the reader shows, or as counts tell."""
    if each.pictures is not None and each.truths is not None:
        return each.pictures, each.truths
    k = len(each.groups)
    answers = np.repeat(np.tile(np.arange(k + 1), k), each.known.ravel())
    return ReadPictures(answers), np.repeat(np.arange(k), each.known.sum(axis=1))


def _fill_ends(low: float, high: float, share: float) -> tuple[float, float]:
    """Return the ends with this share of pictures of another group, and of this one."""
    return (1 - share) * low, (1 - share) * high + share


def concentration_rows(each: AnsweredQuestion) -> Iterator[Score]:
    """Report for which concepts all images that are read are read as one value, and of how many that is by chance.

    ``one_value`` is 1 where the n_target images of a concept are all read as ``group``, else 0, with n_a of them read
    as what most are; ``null`` is the probability of 1 at parity. ``concentration`` is the share of the n_target
    concepts of which it is 1, compared with parity as this reader reads it; ``concentration_pooled`` is compared with
    the same shares in all concepts.
    """
    read = np.array([concept.counts[:-1] for concept in each.concepts]).reshape(-1, len(each.groups))
    result = concentration(read, each.known[:, :-1])
    about = Score(metric=READING, component="one_value", encoder=each.reader, setting=each.question)
    for concept, counts, one, chance in zip(each.concepts, read, result.group.tolist(), result.chance, strict=True):
        n = int(counts.sum())
        yield replace(
            about, concept=concept.concept, category=concept.category, n_target=n, n_a=int(counts.max()),
            n_missing=concept.missing, n_repeated=concept.repeated, group=each.groups[one] if one >= 0 else "",
            value=float(one >= 0) if isfinite(chance) else nan, null=float(chance),
            reason="" if isfinite(chance) else f"{n} images are read, and it takes {FEWEST_IMAGES}",
        )  # fmt: skip
    over = replace(
        about, component="concentration", category="all", value=result.value, low=result.low, high=result.high,
        n_target=result.n, n_a=result.n_one, reason=result.reason, family=f"{READING}: a test by itself",
    )  # fmt: skip
    yield replace(over, null=result.null, p=result.p, q=result.p, test=AT_PARITY)
    yield replace(
        over, component="concentration_pooled", null=result.null_pooled, p=result.p_pooled, q=result.p_pooled,
        p_error=result.p_pooled_error, n_splits=DEALT if result.p_pooled_error else 0, test=BY_DEALING,
    )  # fmt: skip


def _judge(rows: Sequence[Score], each: AnsweredQuestion) -> list[Score]:
    """Judge the shares against 1/K as one family; of two groups one says it all, and its row has the verdict."""
    two, null = len(each.groups) == 2, 1 / len(each.groups)
    rows, others = [row for row in rows if row.group], [row for row in rows if not row.group]
    mine = [row for row in rows if not two or row.group == each.groups[0]]
    family = f"{READING}: {each.question} by {each.reader} over {len(mine)} shares"
    shifted = [replace(row, value=row.value - null, low=row.low - null, high=row.high - null) for row in mine]
    judged = judge_family(
        corrected(shifted, family), a=[row.group for row in mine], b=each.groups[1] if two else OTHERS,
        fewest=FEWEST_IMAGES,
    )  # fmt: skip
    verdicts = {
        (row.concept, row.group): replace(
            verdict, value=row.value, low=row.low, high=row.high,
            reason_code=row.reason_code or verdict.reason_code,
            depends_on=row.depends_on if verdict.verdict in LEANING else "",
        )
        for row, verdict in zip(mine, judged, strict=True)
    }  # fmt: skip
    blank = {"p": nan, "depends_on": ""} if two else {}
    return [
        *others,
        *(verdicts.get((row.concept, row.group)) or replace(row, **blank) for row in rows),  # type: ignore[arg-type]
    ]


def _flag_disputed(row: Score, others: Iterable[Sequence[Score]]) -> Score:
    """Flag the deciding rows, and note where another reader does not confirm the verdict."""
    if not row.verdict:
        return row
    place = (row.component, row.concept, row.group)
    same = [other for own in others for other in own if (other.component, other.concept, other.group) == place]
    measured = [other for other in same if other.verdict not in ("", Verdict.NOT_MEASURED, Verdict.TOO_FEW)]
    disputed = not all(bears_out(row, other) for other in measured)
    return replace(row, flag=DECIDES, depends_on=f"{row.depends_on} {READER}".strip() if disputed else row.depends_on)


def _errors(each: AnsweredQuestion) -> Iterator[Score]:
    """Report how the images of each known group are read."""
    for k, (group, row) in enumerate(zip(each.groups, each.known, strict=True)):
        n = int(row.sum())
        for component, count in (("recall", row[k]), ("unread_known", row[-1])):
            rate = wilson_interval(int(count), n)
            yield Score(
                metric=READING, component=component, group=group, encoder=each.reader, setting=each.question,
                value=rate.value, low=rate.low, high=rate.high, n_target=n, test=each.source,
                reason="" if n else "no image is known to show it",
            )  # fmt: skip


def _separation(each: AnsweredQuestion) -> Score:
    """Report how well a reader distinguishes the groups: the smallest singular value of its errors, p that it is 0."""
    row = Score(
        metric=READING, component="separation", encoder=each.reader, setting=each.question, null=0.0,
        n_target=int(each.known.sum()), test=each.source,
    )  # fmt: skip
    if not each.known.sum(axis=1).all():
        return replace(row, reason="no image is known to show some of the groups")
    nobody = np.zeros(len(each.groups) + 1)
    found = corrected_shares(nobody, each.known)
    reason = "" if found.identified else found.reason
    return replace(
        row, value=found.separation, p=found.separation_p if isfinite(found.separation_p) else nan, reason=reason
    )


MOST_FREQUENT: Final = 20
"""Answers to an open question, of all concepts, that have a row of every concept."""

BY_DEALING_TWO: Final = "images permuted between both concepts"


def open_rows(told: OpenAnswers, reader: str, question: str, categories: Mapping[str, str]) -> list[Score]:
    """Report what was said to an open question.

    ``open_share`` : of a concept's images with an answer, the share of those that say ``group``, Wilson's interval;
    ``null`` is the answer's share over all concepts. Only of the 20 most frequent answers where nobody said it.
    ``open_unread`` : of a concept's images, the share without an answer. ``dependence`` : how much the answer tells of
    the concept, in nats, and without a concept of all of them. ``concept_association`` : TIBET's, of a concept and the
    counterfactual that ``group`` names.
    """
    found, rows = told.found, []
    about = Score(metric=READING, component="open_share", encoder=reader, setting=question)
    common = found.counts.sum(axis=0) / max(int(found.counts.sum()), 1)
    tested = sum(not each.reason for each in found.each)
    for c, concept in enumerate(found.concepts):
        n, unread, of = int(found.counts[c].sum()), told.unread[c], found.each[c]
        own = replace(about, concept=concept, category=categories.get(concept, ""))
        for k, answer in enumerate(found.answers):
            count = int(found.counts[c, k])
            if count or k < MOST_FREQUENT:
                share = wilson_interval(count, n)
                rows.append(replace(
                    own, group=answer, value=share.value, low=share.low, high=share.high, null=float(common[k]),
                    n_target=n, n_a=count,
                ))  # fmt: skip
        none = wilson_interval(unread, n + unread)
        rows.append(replace(
            own, component="open_unread", value=none.value, low=none.low, high=none.high, n_target=n + unread,
        ))  # fmt: skip
        rows.append(_add_test(replace(own, component="dependence", n_target=n), of, BY_DEALING, f"{tested} concepts"))
    rows.append(_add_test(replace(about, component="dependence", n_target=found.overall.n), found.overall, BY_DEALING))
    pairs = sum(not each.reason for each in told.associations.values())
    for (concept, other), each in told.associations.items():
        pair = replace(
            about, component="concept_association", concept=concept, category=categories.get(concept, ""),
            group=other, n_target=each.n_initial, n_a=each.n_counterfactual,
        )  # fmt: skip
        rows.append(_add_test(pair, each, BY_DEALING_TWO, f"{pairs} counterfactuals"))
    return rows


def _add_test(row: Score, result: Dependence | ConceptAssociation, test: str, over: str = "") -> Score:
    if result.reason:
        return replace(row, reason=result.reason)
    family = f"{READING}: {row.component} in {row.setting} by {row.encoder} over {over}" if over else (
        f"{READING}: a test by itself"
    )  # fmt: skip
    return replace(
        row, value=result.value, low=result.low, high=result.high, null=result.null, p=result.p, p_error=result.p_error,
        q=result.q if over else result.p, test=test, family=family,
    )  # fmt: skip
