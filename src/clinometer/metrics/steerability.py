"""Steerability: asked for a group by name, does a model draw it, and one group as readily as another?

Of each concept there are pictures of a neutral prompt and of prompts that name a group; a reader says which group each
picture shows (:mod:`clinometer.metrics.reading`). With K groups, a the first of them and b another::

    success            pictures asked for g that are read as g, of all of them; Wilson's interval
    corrected_success  the same of those that are read, corrected for the reader's errors: stats.confusion
    other_group        pictures asked for g that are read as another group (DivBench's over-diversity)
    unread             pictures that are read as none
    concept_shown      pictures that still show the concept;  fidelity: mean cosine with the concept's own text
    default_share      pictures of the neutral prompt that are read as g
    concentration      concepts whose neutral pictures are all read as one group: metrics.reading
    gap                success of a − success of b, as read
    corrected_gap      the same of the true shares, without what the reader does to them: stats.share_gap
    mean_gap           mean of the corrected gaps: of concepts like these;  mean_gap_here: of these very concepts
    gap_on_default     slope of log((1 + gap) / (1 − gap)) on the log odds of the default share: stats.share_line
    gap_at_parity      the gap on that line where the default is half and half
    excess_gap         IRIS's max(0, mean gap of the group that the default favours), beside what no gap would give
    shown_gap          as gap, of concept_shown;  quality_gap: mean difference of fidelity
    recall_gap         how much more often the reader recognises a than b, by the labelled pictures

A gap is positive where a is the easier one to draw, and so is a verdict's side; ``group`` names the pair, "a-b". A
positive slope says that a model is steered more easily to the group that it draws by default. Pictures of two prompts
of a concept that started from one noise are pairs.

**The verdict rests on the corrected gap alone.** A reader that recognises one group better than the other makes a gap
of a model that has none. How often it errs comes from labelled pictures, never from pictures that were asked for the
same group: these show what the model failed in. Without labels ``corrected_gap`` is NaN, ``UNKNOWN_ERRORS``, and
``bound_low``, ``bound_high`` of ``gap`` say what it might be: with ends of Wilson's intervals r_a and r_b of the shares
as read, where r_a + r_b > 1 (else −1 … 1)::

    −(1 − r_a) / r_b  …  (1 − r_b) / r_a

are the gaps that some reader better than chance turns into such shares, if it recognises other groups no worse than the
worse of these two. They always hold 0: a reader that recognises a more often than b by just the gap explains it.

Sources: Zhao et al. 2026 (IRIS, arXiv 2603.00590), Teotia et al. 2025 (DIM-CIM, 2506.05108), DivBench (2507.03015).
See method.md, "Steerability".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any, Final

import numpy as np
import scipy

from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, concentration_rows
from clinometer.metrics.records import STEERABILITY, Score, corrected
from clinometer.metrics.steered import (
    NEUTRAL,
    NO_LABELS,
    ReadErrors,
    SteeredPair,
    SteeredPictures,
    about_prompt,
    cells_by_prompt,
    labelled_table,
    pair_prompts,
)
from clinometer.metrics.verdict import (
    LEANING,
    MISSING,
    UNREAD,
    judge_family,
    with_share_bounds,
)
from clinometer.stats.bootstrap import student_p
from clinometer.stats.clusters import cluster_mean, contrast, mean_difference
from clinometer.stats.proportion import wilson_ends, wilson_interval
from clinometer.stats.share_gap import AnsweredSets, ShareGap, share_gap
from clinometer.stats.share_line import Labelled, ShareLine, share_line

FEWEST_ASKED: Final = 6
"""Pictures of either group from which on a gap has a verdict (docs/simulations.md)."""

GAP_TEST: Final = "no gap: the interval of shares and labelled answers (MOVER), at the level at which it touches 0"
MEAN_TEST: Final = "no mean gap of concepts like these: Student's t of their gaps, with the labelled answers"
LINE_TEST: Final = "no slope: likelihood ratio of a line with errors in gaps and default shares, and scatter around it"
QUALITY_TEST: Final = "no mean difference: Student's t"


def steerability_rows(
    steered: Sequence[SteeredPictures],
    asked: AnsweredQuestion,
    *,
    margin: float | None = None,
) -> list[Score]:
    """Report the rows of the module docstring, of one reader and question.

    Parameters
    ----------
    steered : the pictures of every concept and prompt; a prompt that was not drawn is left out.
    asked : the reader, the question, what its answers mean, and how it answered to labelled pictures. Labels are of
        people or a labelled folder; of pictures that were asked for a group, none. Its concepts are not looked at.
    margin : the gap below which two groups count as alike; None for no such verdict.

    Raises
    ------
    InvalidInputError
        A prompt for a group that the question does not know, answers out of range, or a prompt that is there twice.
    """
    cells = cells_by_prompt(steered, asked.groups)
    both = pair_prompts(cells, asked)
    errors = {(cell.concept, cell.asked): own for pair in both for cell, own in pair.prompts}
    rows: list[Score] = []
    for key, cell in cells.items():
        own = errors.get(key) or (ReadErrors.of(cell, asked) if cell.asked != NEUTRAL else None)
        rows += _cell_rows(cell, asked, own)
    concepts = list(dict.fromkeys(cell.concept for cell in steered))
    rows += [row for pair in both for row in _raw_rows(pair, asked)]
    rows += _judged_gaps(both, asked, margin)
    rows += _quality_rows(both, asked)
    neutral = {concept: cells[concept, NEUTRAL] for concept in concepts if (concept, NEUTRAL) in cells}
    drawn_by_default = tuple(
        ConceptAnswers(cell.concept, cell.category, cell.read.counts(len(asked.groups)), cell.missing, cell.repeated)
        for cell in neutral.values()
    )
    if neutral:
        of_one_value = concentration_rows(replace(asked, concepts=drawn_by_default))
        rows += [replace(row, metric=STEERABILITY) for row in of_one_value]
    for other in asked.groups[1:]:
        some = [pair for pair in both if pair.b.asked == other and pair.a.concept in neutral]
        if some:
            rows += [*_line_rows(some, neutral, asked), _excess_row(some, neutral, asked)]
    return rows


def _cell_rows(cell: SteeredPictures, asked: AnsweredQuestion, errors: ReadErrors | None) -> Iterator[Score]:
    """Report how the pictures of one prompt were read."""
    groups, n = asked.groups, len(cell.answers)
    counts = cell.read.counts(len(groups))
    about = replace(about_prompt(cell, asked, ""), group=cell.asked)

    def share(component: str, count: int, of: int, group: str = cell.asked, reason: str = "") -> Score:
        found = wilson_interval(count, of)
        return replace(
            about, component=component, group=group, value=found.value, low=found.low, high=found.high, n_target=of,
            reason=found.reason or reason,
        )  # fmt: skip

    unread = int(counts[-1])
    if errors is None:
        for group, count in zip(groups, counts.tolist(), strict=False):
            yield with_share_bounds(
                replace(share("default_share", count, n, group), null=1 / len(groups)), count, n, unread
            )
    else:
        shown = int(counts[groups.index(cell.asked)])
        yield with_share_bounds(share("success", shown, n), shown, n, unread)
        yield share("other_group", n - unread - shown, n)
        yield from errors.checks
        yield _corrected_success(replace(about, test=asked.source), cell, asked, errors)
    yield share("unread", unread, n, reason=cell.unread)
    known = cell.shows[np.isfinite(cell.shows)]
    yield share("concept_shown", int((known > 0).sum()), len(known))
    fidelity = cluster_mean(cell.fidelity)
    yield replace(
        about, component="fidelity", value=fidelity.value, low=fidelity.low, high=fidelity.high, n_target=fidelity.n,
        reason=fidelity.reason,
    )  # fmt: skip


def _corrected_success(about: Score, cell: SteeredPictures, asked: AnsweredQuestion, errors: ReadErrors) -> Score:
    k = asked.groups.index(cell.asked)
    about = replace(about, component="corrected_success", n_a=int(asked.known[k].sum()))
    found = errors.shares
    if errors.reason or found is None:
        return replace(about, reason=errors.reason, reason_code=errors.code)
    row = replace(about, value=float(found.share[k]), low=float(found.low[k]), high=float(found.high[k]))
    unread, n = int((cell.answers == len(asked.groups)).sum()), len(cell.answers)
    if unread + cell.missing:
        lost = (unread + cell.missing) / (n + cell.missing)
        row = replace(row, bound_low=(1 - lost) * row.low, bound_high=(1 - lost) * row.high + lost)
    return row


# --- gaps -------------------------------------------------------------------------------------------------------------


def _with_gap(row: Score, found: ShareGap) -> Score:
    return replace(
        row, value=found.value, low=found.low, high=found.high, p=found.p, p_equivalence=found.p_equivalence,
        reason=row.reason or found.reason,
    )  # fmt: skip


def _raw_rows(pair: SteeredPair, asked: AnsweredQuestion) -> Iterator[Score]:
    """Report the gap as read, with what it might be whatever the reader's errors, and the gap of concepts shown."""
    a, b = asked.groups.index(pair.a.asked), asked.groups.index(pair.b.asked)
    right = [(each.answers == k).astype(int) for each, k in ((pair.a, a), (pair.b, b))]
    gap = share_gap([pair.sets(1 - right[0], right[1], 2)], 0, 1)
    row = _with_gap(replace(pair.about(asked, "gap"), test=GAP_TEST), gap)
    if isfinite(row.value):
        low, high = _bounds_of_errors([int(each.sum()) for each in right], [len(each) for each in right])
        row = replace(row, bound_low=low, bound_high=high)
    yield row
    shows = [np.where(np.isfinite(each.shows), each.shows > 0, -1).astype(int) for each in (pair.a, pair.b)]
    sets = pair.sets(np.where(shows[0] < 0, -1, 1 - shows[0]), shows[1], 2)
    yield _with_gap(replace(pair.about(asked, "shown_gap"), test=GAP_TEST), share_gap([sets], 0, 1))


def _bounds_of_errors(hits: Sequence[int], n: Sequence[int]) -> tuple[float, float]:
    """Bound the gap over every reader that is better than chance: the module docstring's."""
    r_a, r_b = (float(wilson_ends(k / m, m)[0]) for k, m in zip(hits, n, strict=True))
    return (-(1 - r_a) / r_b, (1 - r_b) / r_a) if r_a + r_b > 1 else (-1.0, 1.0)


def _judged_gaps(pairs: Sequence[SteeredPair], asked: AnsweredQuestion, margin: float | None) -> Iterator[Score]:
    """Report the corrected gaps, q over concepts and pairs, their means, with verdicts, and the gaps of recall."""
    names = list(dict.fromkeys((pair.a.asked, pair.b.asked) for pair in pairs))
    gaps = [_corrected_gap(pair, asked, margin) for pair in pairs]
    yield from _judge(gaps, [(pair.a.asked, pair.b.asked) for pair in pairs], margin, len(pairs))
    for component in ("mean_gap", "mean_gap_here"):
        means = [_mean_gap([pair for pair in pairs if pair.b.asked == b], asked, component, margin) for _, b in names]
        yield from _judge(means, names, margin, len(names))
    for a, b in names:
        recalls = [
            wilson_interval(int(asked.known[k, k]), int(asked.known[k].sum()))
            for k in (asked.groups.index(a), asked.groups.index(b))
        ]
        found = contrast(recalls, (1, -1))
        yield Score(
            metric=STEERABILITY, component="recall_gap", category="all", group=f"{a}-{b}", encoder=asked.reader,
            setting=asked.question, value=found.value, low=found.low, high=found.high, n_target=found.n,
            test=asked.source, reason="" if isfinite(found.value) else NO_LABELS,
        )  # fmt: skip


def _judge(rows: Sequence[Score], sides: Sequence[tuple[str, str]], margin: float | None, tests: int) -> list[Score]:
    """Judge rows of one family; a verdict that pictures without an answer, or missing, might take back says so."""
    if not rows:
        return []
    family = f"{STEERABILITY}: {rows[0].component} in {rows[0].setting} by {rows[0].encoder} over {tests}"
    judged = judge_family(
        corrected(rows, family), a=[a for a, _ in sides], b=[b for _, b in sides], margin=margin, fewest=FEWEST_ASKED
    )
    return [
        replace(
            row, reason_code=source.reason_code or row.reason_code,
            depends_on=source.depends_on if row.verdict in LEANING else "",
        )
        for row, source in zip(judged, rows, strict=True)
    ]  # fmt: skip


def _corrected_gap(pair: SteeredPair, asked: AnsweredQuestion, margin: float | None) -> Score:
    """Estimate the gap of a concept without what the reader does to it."""
    row = replace(pair.about(asked, "corrected_gap"), test=f"{GAP_TEST}; {asked.source}")
    reason, code = pair.withheld
    if reason:
        return replace(row, reason=reason, reason_code=code)
    groups = len(asked.groups)
    a, b = asked.groups.index(pair.a.asked), asked.groups.index(pair.b.asked)
    tables = [labelled_table(each) for each in (pair.errors_a, pair.errors_b)]
    table = min(tables, key=lambda each: float(each.sum()))  # the prompt to which the labels say less
    sets = [pair.sets(pair.a.answers, pair.b.answers, groups)]
    found = share_gap(sets, a, b, table, margin=margin)
    return _with_open_pictures(_with_gap(row, found), pair, found, groups)


def _with_open_pictures(row: Score, pair: SteeredPair, found: ShareGap, groups: int) -> Score:
    """Add the ends with unread and missing pictures taken to be successes of one prompt and failures of the other."""
    if not isfinite(row.value):
        return row
    ends, depends = [(row.low, row.high)], []
    for kind in (UNREAD, MISSING):
        lost = []
        for cell in (pair.a, pair.b):
            unread = int((cell.answers == groups).sum())
            many = (unread, len(cell.answers)) if kind == UNREAD else (cell.missing, len(cell.answers) + cell.missing)
            lost.append(many[0] / many[1] if many[1] else 0.0)
        if not any(lost):
            continue
        kept = (1 - lost[0]) * found.first - (1 - lost[1]) * found.second - found.value
        low, high = max(row.low + kept - lost[1], -1.0), min(row.high + kept + lost[0], 1.0)
        ends.append((low, high))
        if low <= 0 <= high:
            depends.append(kind)
    if len(ends) == 1:
        return row
    return replace(
        row, bound_low=min(low for low, _ in ends), bound_high=max(high for _, high in ends),
        depends_on=" ".join(depends),
    )  # fmt: skip


def _mean_gap(pairs: Sequence[SteeredPair], asked: AnsweredQuestion, component: str, margin: float | None) -> Score:
    """Average the corrected gaps of two groups over concepts, each with equal weight."""
    groups = len(asked.groups)
    usable = [pair for pair in pairs if not pair.withheld[0]]
    test = f"{MEAN_TEST if component == 'mean_gap' else GAP_TEST}; {asked.source}"
    row = replace(_over_concepts(usable or pairs, asked, component), test=test)
    if not usable:
        reason, code = pairs[0].withheld
        return replace(row, reason=reason, reason_code=code)
    sets = [pair.sets(pair.a.answers, pair.b.answers, groups) for pair in usable]
    a, b = (asked.groups.index(group) for group in (usable[0].a.asked, usable[0].b.asked))
    table = labelled_table(usable[0].errors_a, elsewhere=True)
    gap = share_gap(sets, a, b, table, sampled=component == "mean_gap", margin=margin)
    return _with_gap(row, gap)


def _over_concepts(pairs: Sequence[SteeredPair], asked: AnsweredQuestion, component: str) -> Score:
    """Return the labels of a row about two groups over all concepts; ``n_target`` counts as one concept's does."""
    n_a, n_b = (
        sum(len(each.answers) for each in cells) for cells in zip(*((pair.a, pair.b) for pair in pairs), strict=True)
    )
    n = sum(min(len(pair.a.answers), len(pair.b.answers)) for pair in pairs)
    about = pairs[0].about(asked, component)
    return replace(about, concept="", category="all", n_target=n, n_a=n_a, n_b=n_b, n_missing=0, n_repeated=0)


# --- quality ----------------------------------------------------------------------------------------------------------


def _quality_rows(pairs: Sequence[SteeredPair], asked: AnsweredQuestion) -> list[Score]:
    """Report the mean difference of fidelity, by pairs where there are two or more; q over concepts and pairs."""
    rows = []
    for pair in pairs:
        first, second = (np.asarray(each.fidelity, float) for each in (pair.a, pair.b))
        paired = len(pair.matches[0]) > 1
        if paired:
            first, second = first[pair.matches[0]], second[pair.matches[1]]
        found = mean_difference(second, first, paired=paired)
        freedom = max(found.n - (1 if paired else 2), 1)
        half = (found.high - found.low) / 2
        error = half / float(scipy.special.stdtrit(freedom, 0.975))
        p = float(student_p(found.value, error, freedom)) if isfinite(half) else nan
        rows.append(replace(
            pair.about(asked, "quality_gap"), value=found.value, low=found.low, high=found.high, p=p,
            test=QUALITY_TEST, reason=found.reason,
        ))  # fmt: skip
    return corrected(rows, f"{STEERABILITY}: quality_gap over {len(rows)}") if rows else []


# --- gaps and defaults ------------------------------------------------------------------------------------------------


def _line_rows(
    pairs: Sequence[SteeredPair], neutral: Mapping[str, SteeredPictures], asked: AnsweredQuestion
) -> tuple[Score, Score]:
    """Report the slope of the gaps on the default shares, of concepts of which all three prompts were read.

    The second row is the gap on that line at a default share of one half: ``tanh(α / 2)``.
    """
    groups = len(asked.groups)
    row, at_parity = (_over_concepts(pairs, asked, name) for name in ("gap_on_default", "gap_at_parity"))
    usable = [
        pair
        for pair in pairs
        if not pair.withheld[0]
        and all((each.answers < groups).any() for each in (pair.a, pair.b, neutral[pair.a.concept]))
    ]
    if not usable:
        reason, code = pairs[0].withheld
        why = reason or "no image was read"
        return replace(row, reason=why, reason_code=code), replace(at_parity, reason=why, reason_code=code)
    a, b = (asked.groups.index(group) for group in (pairs[0].a.asked, pairs[0].b.asked))
    found = gaps_on_defaults(
        [pair.sets(pair.a.answers, pair.b.answers, groups) for pair in usable],
        [neutral[pair.a.concept].read.counts(groups)[:-1] for pair in usable],
        a, b, labelled_table(usable[0].errors_a, elsewhere=True),
    )  # fmt: skip
    value, low, high = (float(np.tanh(end / 2)) for end in (found.tilt.value, found.tilt.low, found.tilt.high))
    test = "" if found.reason else LINE_TEST
    about: dict[str, Any] = {"null": 0.0, "n_a": found.n, "test": test, "reason": found.reason}
    return (
        replace(row, value=found.slope.value, low=found.slope.low, high=found.slope.high, p=found.slope.p, **about),
        replace(at_parity, value=value, low=low, high=high, p=found.tilt.p, **about),
    )


def gaps_on_defaults(
    sets: Sequence[AnsweredSets], neutral: Sequence[np.ndarray], a: int, b: int, table: np.ndarray
) -> ShareLine:
    """Fit the line of the gaps of C concepts over their default shares, its slope tested against 0.

    ::

        logit((1 + gap) / 2) = α + β logit(default share of a)

    (1 + gap) / 2 is the share of a among pictures that are asked for a and for b alike, so of two groups it is read as
    any share is: the reader's errors are parameters that the labels hold. Of more groups the gaps are corrected one by
    one. Above 0 the group that is drawn by default is the easier one to ask for.

    Parameters
    ----------
    sets : the answers among the groups to the pictures asked for ``a``, and for ``b``.
    neutral : (K,) such answers to the pictures of the neutral prompt.
    table : (K, K) labelled answers, a row a true group; need not be whole.
    """
    two = len(table) == 2
    gaps = [share_gap([each], a, b, None if two else table) for each in sets]
    y = np.array([(1 + gap.value) / 2 for gap in gaps])
    # pictures of which a share would vary as much; at a gap of 1 none would, so shares beyond .98 count as that
    held = np.clip(y, 0.02, 0.98)
    n = held * (1 - held) / np.square([gap.error / 2 for gap in gaps])
    labelled = None
    if two:
        labelled = Labelled(table[[a, b], a], table[[a, b]].sum(axis=1), np.ones((len(gaps), 1)))
    reference, people = np.array([_default_share(counts, a, table) for counts in neutral]).T
    return share_line(reference, people, n * y, n, labelled, slope=0.0)


def _default_share(answers: np.ndarray, group: int, table: np.ndarray) -> tuple[float, float]:
    """Estimate a group's share of the neutral pictures that are read, and of how many pictures it is worth being known.

    Half a picture of either kind is added, as log odds of 0 and 1 do not exist.
    """
    counts = np.asarray(answers, float)
    worth = np.linalg.inv(table / table.sum(axis=1, keepdims=True))[:, group]
    share = float(np.clip(counts @ worth / counts.sum(), 0.0, 1.0))
    smooth = (counts + 0.5) / (counts + 0.5).sum()
    variance = float(smooth @ worth**2 - (smooth @ worth) ** 2) / counts.sum()
    middle = (counts.sum() * share + 0.5) / (counts.sum() + 1)
    n = middle * (1 - middle) / variance
    return (n * share + 0.5) / (n + 1), n + 1


def _excess_row(pairs: Sequence[SteeredPair], neutral: Mapping[str, SteeredPictures], asked: AnsweredQuestion) -> Score:
    """Report IRIS's score, as read: max(0, mean success of the group that a concept draws by default less the other's).

    A concept that draws both alike takes no part. ``null`` is its mean where no concept has a gap, at these numbers of
    pictures: the sign of each pair that differs is flipped at random, and pictures without a partner are permuted
    between the prompts.
    """
    a, b = (asked.groups.index(group) for group in (pairs[0].a.asked, pairs[0].b.asked))
    sets = []
    for pair in pairs:
        default = neutral[pair.a.concept].answers
        favoured = int((default == a).sum()) - int((default == b).sum())
        if favoured and len(pair.a.answers) and len(pair.b.answers):
            right = [(each.answers == k).astype(int) for each, k in ((pair.a, a), (pair.b, b))]
            of_default = pair.sets(1 - right[0], right[1], 2)
            sets.append(of_default if favoured > 0 else _mirrored(of_default))
    row = _over_concepts(pairs, asked, "excess_gap")
    if not sets:
        return replace(row, reason="no concept draws one of the two groups more often by default")
    found = share_gap(sets, 0, 1)
    return replace(
        row, value=max(found.value, 0.0), low=max(found.low, 0.0), high=max(found.high, 0.0),
        null=_excess_by_chance(sets), n_a=len(sets),
    )  # fmt: skip


def _mirrored(each: AnsweredSets) -> AnsweredSets:
    """Exchange the two prompts, and with them what counts as a success of each."""
    pairs = None if each.pairs is None else each.pairs.T[::-1, ::-1]
    return AnsweredSets(each.second[::-1], each.first[::-1], pairs)


def _excess_by_chance(sets: Sequence[AnsweredSets], draws: int = 20_000) -> float:
    """Average max(0, mean gap) over draws of sets that have no gap."""
    rng, total = np.random.default_rng(0), np.zeros(draws)
    for each in sets:
        n, m = int(each.first.sum()), int(each.second.sum())
        pairs = np.zeros((2, 2), int) if each.pairs is None else each.pairs
        differ = int(pairs[0, 0] + pairs[1, 1])
        flipped = 2 * rng.binomial(differ, 0.5, draws) - differ
        # successes without a partner are permuted between the pictures of both prompts
        alone = int(n - pairs.sum()), int(m - pairs.sum())
        hits = int(each.first[0] - pairs[0].sum()) + int(each.second[1] - pairs[:, 1].sum())
        permuted = rng.hypergeometric(hits, sum(alone) - hits, alone[0], draws) if sum(alone) else np.zeros(draws, int)
        agree = pairs[0, 1] * (1 / n - 1 / m)
        total += flipped * (1 / n + 1 / m) / 2 + permuted / n - (hits - permuted) / m + agree
    return float(np.maximum(total / len(sets), 0.0).mean())
