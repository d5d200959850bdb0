"""Rows of what each image is read as: shares of groups, other audits' numbers, and whether it shows the concept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Final, TypeAlias

import numpy as np
import scipy

from clinometer.metrics.differences import METRIC, RUNS
from clinometer.metrics.distribution import (
    DistributionScore,
    distribution_bias,
    entropy_bias,
    gender_gap,
    generative_miss_rate,
    mean_absolute_deviation,
)
from clinometer.metrics.records import BATCHES_KNOWN, PICTURES, Score, corrected
from clinometer.metrics.verdict import FEWEST_IMAGES, with_share_bounds
from clinometer.stats.association import nearest_group
from clinometer.stats.clusters import cluster_mean, contrast, share_difference
from clinometer.stats.dependence import DrawOrder, batch_correlation, independent_answers
from clinometer.stats.permutation import rank_sum_p
from clinometer.stats.proportion import wilson_at, wilson_interval
from clinometer.studies.leaning.scores.cosines import Estimate, by_view
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, StudySetup
from clinometer.studies.leaning.scores.measuring import texts_of
from clinometer.studies.leaning.scores.rows import FIXED, Basis, bare, target_row, with_reason
from clinometer.studies.leaning.scores.views import EncoderView, TextMatches, count_nearest

BETWEEN = "some lie between"
BETWEEN_BY_CHANCE = 0.05
BETWEEN_LEVEL = 0.01
BETWEEN_TEST = "binomial, against one of 20 images of a group beyond its own spread, one-sided"
ROUNDING = 1e-9
BY_ORDER: Final = "neighbours are alike"
"""The flag where nobody knows of batches, and neighbours are so much alike that runs of them count as batches."""
LISTED: Final = "sorted by what is shown"
"""The flag where the order has one change and none besides: that of a list, in which each picture counts by itself."""
ORDER_TEST: Final = "order of each target's pictures permuted: neighbours more alike than others"
UNTOLD: Final = "too few pictures whose order could tell, or all alike, or there more than once"
NO_INTERVAL: Final = "no interval: it says whether order matters"
NO_GAP = "the groups' own images do not lie apart enough for any to lie between"
Matches: TypeAlias = tuple[np.ndarray, np.ndarray]
"""The cosines of each image of a target with the text of its target, and with the blank prompt."""
NO_BLANK = "no encoder has embedded the blank prompt; encode the run again"
FIDELITY: Final = "fidelity"
OWN_FIDELITY: Final = "own_fidelity"
OWN_UNSHOWN: Final = "own_unshown"
"""Components of a comparison that are a run's own; ``setting`` says whose."""
NOT_SHOWN: Final = "not shown"
"""The flag of a target whose images are not shown to match its text better than chance would, and of its shares."""
HELD: Final = 2**20
"""Cosines of images with texts that are read at once, 8 MB; twice as much while they are put together."""
LEVEL: Final = 0.05
TEST: Final = "own images against those of the other targets, by the cosine with this prompt (Mann-Whitney), one-sided"
UNSHOWN: Final = "its images are not shown to match their own prompt better than chance would"
_NO_STIMULUS = "no stimulus interval: prompts and encoder are fixed"


def share_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report the share of images that the reader ``clip`` reads as a, with its Wilson interval, and its gap from ½.

    Where images are missing, its bounds are Wilson's ends with all of them read as b, and as a.

    The gap |share − ½| is HEIM's gender measure; under exact parity it is not 0 on average but its null,
    0.137 in 8 images. Words and encoder are fixed: no stimulus interval.
    """
    confidence = setup.settings.confidence
    read = [count_nearest(cosines, setup.pair).tolist() for cosines in view.each_image]
    counts = [(of_a, of_a + of_b) for of_a, of_b in read]
    shares = [wilson_interval(*count, confidence) for count in counts]
    gaps = [gender_gap(*count, confidence=confidence) for count in counts]
    for t, (share, cosines) in enumerate(zip(shares, view.each_image, strict=True)):
        if setup.layout.batch_count(t) and isfinite(share.value):
            is_a = nearest_group(cosines[:, 1, list(setup.pair)]) == 0
            effective = independent_answers(is_a, setup.layout.batches(t))
            low, high = wilson_at(share.value, effective, confidence)
            shares[t] = replace(share, low=low, high=high)
            gap = gender_gap(round(share.value * effective), round(effective), confidence=confidence)
            gaps[t] = replace(gap, value=gaps[t].value, low=min(gap.low, gaps[t].low), high=max(gap.high, gaps[t].high))
    rows = []
    for component, numbers, group in (
        ("share", _columns(shares, "value", "low", "high"), setup.design.a),
        ("parity_gap", _columns(gaps, "value", "low", "high", "null"), ""),
    ):
        names = {"metric": "share", "component": component, "group": group}
        for t, (near, n) in enumerate(counts):
            row = with_reason(target_row(setup, view, t, Basis(("ita",), setup.pair), numbers, **names), FIXED)
            rows.append(with_share_bounds(row, near, n, confidence=confidence) if component == "share" else row)
    return rows


def batch_rows(setup: StudySetup, view: EncoderView, order: DrawOrder | None) -> list[Score]:
    """Report how alike pictures of one batch are, where batches are known, or what the order of pictures says of them.

    One row over all targets: metric ``pictures``, component ``batches``. ``value`` is the correlation of two pictures
    of a batch, in what the verdicts are about; ``setting`` the size of batches that the order shows, with its p.
    ``flag`` says what came of it: see :data:`BATCHES_KNOWN`, :data:`BY_ORDER` and :data:`LISTED`. No row where every
    picture is known to be a batch of its own.
    """
    layout, total = setup.layout, sum(setup.layout.target_sizes)
    about = Score(
        metric=PICTURES, component="batches", category="all", encoder="", n_target=total,
        n_batches=sum(map(layout.batch_count, setup.target_numbers)),
    )  # fmt: skip
    if order is None:
        if not layout.target_batches:
            return []
        shown = [np.nan_to_num(x).sum(axis=1) for x in view.each_image]
        value = batch_correlation([x - x.mean(axis=1)[:, None] for x in shown], layout.target_batches)
        return [replace(about, value=value, flag=BATCHES_KNOWN, reason="batches are known: nothing is tested")]
    if not isfinite(order.p):
        return [replace(about, reason=UNTOLD)]
    flag = BY_ORDER if order.in_batches else LISTED if order.is_listed else ""
    tested = replace(
        about, value=order.correlation, setting=f"batches of {order.size}", p=order.p, test=ORDER_TEST, p_error=0.0,
        flag=flag, reason=NO_INTERVAL,
    )  # fmt: skip
    return corrected([tested], f"{PICTURES}: a test by itself")


def between_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report the share of images that lie between the groups, by the spread of the groups' own attribute images.

    ::

        y(x) = image part of x       limit_A = ȳ_A − t s_A √(1 + 1/n_A),  limit_B = ȳ_B + t s_B √(1 + 1/n_B)
        between: limit_B < y(x) < limit_A                  t: the 95 % quantile of Student's t with n − 1

    ȳ and s are of the attribute images of a group, none compared with itself. Beyond a limit, towards the other group,
    lies one of 20 images that are of the group; so ``null`` is 0.05, p asks whether so many lie there by chance, and
    ``flag`` says where q is at most 0.01. Where the limits leave no gap, no image is said to lie in it.
    """
    modalities = [m for m in (0, 1) if m == 0 or view.reads_text]
    a, b = setup.pair

    def scores(cosines: np.ndarray) -> np.ndarray:
        return np.asarray((cosines[:, modalities, a] - cosines[:, modalities, b]).sum(axis=1))

    limit_a, limit_b = _limit(scores(view.group_image_scores[a]), -1), _limit(scores(view.group_image_scores[b]), 1)
    has_gap = bool(limit_b < limit_a)
    of_targets = [scores(cosines) for cosines in view.each_image]
    inside = [int(((limit_b < y) & (y < limit_a)).sum()) for y in of_targets]
    shares = [
        wilson_interval(k, len(y) if has_gap else 0, setup.settings.confidence)
        for k, y in zip(inside, of_targets, strict=True)
    ]
    numbers = _columns(shares, "value", "low", "high")
    numbers = replace(numbers, null=np.where(np.isfinite(numbers.value), BETWEEN_BY_CHANCE, np.nan))
    basis = Basis(("ii", "ita") if view.reads_text else ("ii",), setup.pair)
    rows = []
    for t in setup.target_numbers:
        row = target_row(setup, view, t, basis, numbers, metric="share", component="between")
        if not isfinite(row.value):
            rows.append(with_reason(row, NO_GAP))
            continue
        is_between = (limit_b < of_targets[t]) & (of_targets[t] < limit_a)
        n = independent_answers(is_between, setup.layout.batches(t))
        p = float(
            scipy.stats.binom.sf(np.ceil(row.value * n - ROUNDING) - 1, np.floor(n + ROUNDING), BETWEEN_BY_CHANCE)
        )
        rows.append(with_reason(replace(row, p=p, test=BETWEEN_TEST), FIXED))
    rows = corrected(rows, f"share: between over {len(rows)} targets")
    return [replace(row, flag=BETWEEN) if row.q <= BETWEEN_LEVEL else row for row in rows]


def _limit(y: np.ndarray, sign: int) -> float:
    """Find the limit that one of 20 images of a group lies beyond, towards the other group; NaN from one image."""
    n = len(y)
    if n < 2:
        return np.nan
    return float(y.mean() + sign * scipy.special.stdtrit(n - 1, 0.95) * y.std(ddof=1) * np.sqrt(1 + 1 / n))


def _columns(estimates: Sequence[object], *names: str) -> Estimate:
    return bare(*(np.array([getattr(estimate, name) for estimate in estimates]) for name in names))


def other_audit_rows(setup: StudySetup, view: EncoderView, blanks: Sequence[Matches]) -> list[Score]:
    """Report scores of other audits for each target, from the zero-shot reading of its images.

    An image counts for the group whose words it is nearest to on average: ``gender_gap`` over a and b, the others over
    all groups. ``miss_rate`` compares its cosine with its target's text and with the blank prompt, averaged over the
    encoders that read text (``blanks``, of each target).
    """
    confidence, rows = setup.settings.confidence, []
    for t in setup.target_numbers:
        pair, everyone = (count_nearest(view.each_image[t], groups) for groups in (setup.pair, setup.everyone))
        scores = {
            "gender_gap": gender_gap(int(pair[0]), int(pair.sum()), confidence=confidence),
            "mean_absolute_deviation": mean_absolute_deviation(everyone, confidence=confidence),
            "entropy_bias": entropy_bias(everyone, confidence=confidence),
            "distribution_bias": distribution_bias(everyone, confidence=confidence),
            "miss_rate": generative_miss_rate(*blanks[t], confidence=confidence),
        }
        for component, score in scores.items():
            fields = {name: getattr(score, name) for name in ("value", "low", "high", "null")}
            fields["reason"] = FIXED if isfinite(score.value) else _reason(setup, view, t, component, score)
            fields |= {"metric": "other_audits", "component": component, "n_missing": 0}
            rows.append(target_row(setup, view, t, Basis(("ita",), setup.pair), None, **fields))
    return rows


def _reason(setup: StudySetup, view: EncoderView, t: int, component: str, score: DistributionScore) -> str:
    if not view.reads_text:
        return "the encoder reads no text"
    if not setup.layout.target_sizes[t]:
        return "no image of the target"
    if component == "miss_rate":
        return NO_BLANK
    empty = [g for g in setup.everyone if not setup.layout.word_counts[g]]
    return f"no word of group {setup.layout.groups[empty[0]]!r}" if empty else score.reason


@dataclass(frozen=True)
class _Match:
    """How the images of one target match the prompts: the rank of its own prompt for each image (1 is the nearest)."""

    ranks: np.ndarray
    n_prompts: int
    p: float
    reason: str = ""


def fidelity_rows(
    setup: StudySetup, encoders: Sequence[EncoderEmbeddings], views: Sequence[EncoderView]
) -> list[Score]:
    """Report for every view and target how its images rank its own text among the texts of all targets, by cosine.

    ``own_prompt_first``: share of images whose own text is the nearest, Wilson interval, null 1/T over T different
    texts. ``own_prompt_upper_half``: share of those with a rank of T/2 or better. ``own_prompt_rank``: mean rank, t
    interval, null (T+1)/2. An image's cosines are less their mean over the texts, and p is Mann and Whitney's: are they
    higher for this text than those of the other targets' images are? So a text that everything is near to helps nobody.
    q corrects over the targets; where it is above 0.05 the target is flagged ``not shown``. ``blank prompt``: see
    ``miss_rate`` of the other audits.
    """
    matches: dict[int, list[_Match]] = {}  # the average of one encoder is that one
    rows = []
    for (name, encoder), view in zip(by_view(encoders).items(), views, strict=True):
        if id(encoder) not in matches:
            matches[id(encoder)] = _matches(encoder, view.matches, setup.layout.target_sizes)
        rows += _rows(setup, name, matches[id(encoder)])
    return rows


def mark_unshown(rows: Sequence[Score], fidelity: Sequence[Score]) -> list[Score]:
    """Flag the shares of targets whose images do not show them, view by view; every other row stays as it is."""
    unshown = {(row.encoder, row.concept) for row in fidelity if row.flag == NOT_SHOWN}
    return [
        replace(row, flag=NOT_SHOWN, reason=f"{UNSHOWN}; {row.reason}" if row.reason else UNSHOWN)
        if row.metric == "share" and (row.encoder, row.concept) in unshown
        else row
        for row in rows
    ]


def fidelity_differences(first: Iterable[Score], second: Iterable[Score], view: str) -> list[Score]:
    """Compare how well two runs' images show what was asked, from each run's own scores: metric ``comparison``.

    ::

        Δ = mean_t (f_t(second) − f_t(first))     in [−1, 1]; f_t: own_prompt_first, the share of images nearest to
                                                  their own prompt; t: the targets that both runs have it of

    ``fidelity`` is Δ, its interval recovered from those of the targets' two shares (MOVER), as if no image had a
    partner in the other run, which is wider than pairs would need. Targets of fewer than ten images in either run are
    left out; where all are, there is no interval: of runs of 28 such targets 5 % were said to have fallen that had not.
    ``own_fidelity`` is the mean of f_t, and ``own_unshown`` the share of targets that are not shown better than chance,
    of each run. Nothing where either run has no such share.
    """
    by_run = [_shares(rows, view) for rows in (first, second)]
    names = [name for name in by_run[0] if name in by_run[1]]
    fewest = {name: min(sum(row.n_target for row in run[name]) for run in by_run) for name in names}
    enough = [name for name in names if fewest[name] >= FEWEST_IMAGES]
    names = enough or names
    if not names:
        return []
    of_both = [[by_name[name] for name in names] for by_name in by_run]
    answers = [  # of each image of a target, whether its own prompt is the nearest
        [np.concatenate([np.arange(row.n_target) < round(row.value * row.n_target) for row in rows]) for rows in run]
        for run in of_both
    ]
    parts = [share_difference(*both, paired=False) for both in zip(*answers, strict=True)]
    mean = contrast(parts, [1 / len(parts)] * len(parts))
    about = Score(metric=METRIC, component=FIDELITY, category="all", encoder=view)
    ends = (mean.low, mean.high) if enough else (nan, nan)
    reason = "" if enough else f"no interval: fewer than {FEWEST_IMAGES} images of every concept in one of the runs"
    rows = [replace(about, value=mean.value, low=ends[0], high=ends[1], n_target=len(names), reason=reason)]
    for setting, run, of_run in zip(RUNS, of_both, answers, strict=True):
        share = float(np.mean([nearest.mean() for nearest in of_run]))
        unshown = float(np.mean([all(row.flag == NOT_SHOWN for row in targets) for targets in run]))
        rows += [
            replace(about, component=OWN_FIDELITY, setting=setting, value=share, n_target=sum(map(len, of_run))),
            replace(about, component=OWN_UNSHOWN, setting=setting, value=unshown, n_target=len(run)),
        ]
    return rows


def _shares(rows: Iterable[Score], view: str) -> dict[str, list[Score]]:
    """Collect the shares of each target; a run that is several seeds put together has as many as these."""
    by_name: dict[str, list[Score]] = {}
    for row in rows:
        if (row.metric, row.component, row.encoder) == (FIDELITY, "own_prompt_first", view) and isfinite(row.value):
            by_name.setdefault(row.concept, []).append(row)
    return by_name


def _rows(setup: StudySetup, view: str, matches: Sequence[_Match]) -> list[Score]:
    """Make the rows of one view: how many images rank their text first, tested; then the upper half, and the rank."""
    confidence, first, others = setup.settings.confidence, list[Score](), list[Score]()
    for target, match in zip(setup.design.targets, matches, strict=True):
        ranks, n = match.ranks, match.n_prompts
        about = Score(
            metric=FIDELITY, component="own_prompt_first", concept=target.name, category=target.category, encoder=view,
            n_target=len(ranks), reason=match.reason or _NO_STIMULUS,
        )  # fmt: skip
        shares = []
        for at_most in (1, n // 2):
            share = wilson_interval(int((ranks <= at_most).sum()), len(ranks), confidence)
            null = at_most / n if n and isfinite(share.value) else nan
            shares.append(replace(about, value=share.value, low=share.low, high=share.high, null=null))
        first.append(replace(shares[0], p=match.p, test=TEST if isfinite(match.p) else ""))
        rank = replace(about, component="own_prompt_rank")
        if len(ranks):
            rank = replace(rank, value=float(ranks.mean()), null=(n + 1) / 2)
        if len(ranks) > 1:
            mean = cluster_mean(ranks, confidence)
            rank = replace(rank, low=max(mean.low, 1.0), high=min(mean.high, float(n)))
        others += [replace(shares[1], component="own_prompt_upper_half"), rank]
    family = corrected(first, f"{FIDELITY} over {len(first)} targets")
    first = [replace(row, flag=NOT_SHOWN) if row.q > LEVEL else row for row in family]
    flags = {row.concept: row.flag for row in first}
    return [*first, *(replace(row, flag=flags[row.concept]) for row in others)]


def _matches(encoder: EncoderEmbeddings, matches: TextMatches | None, sizes: Sequence[int]) -> list[_Match]:
    if encoder.target_texts is None:
        return [_Match(np.empty(0), 0, nan, "the encoder reads no text")] * len(sizes)
    texts = texts_of(encoder)
    if texts is None or matches is None:
        return [_Match(np.empty(0), 1, nan, "one text: there is no other to compare with")] * len(sizes)
    results, owners, starts = list[_Match](), np.repeat(texts.positions, sizes), np.cumsum([0, *sizes])
    at_once = max(HELD // max(len(owners), 1), 1)
    for first in range(0, len(texts.positions), at_once):
        by_target = np.concatenate([gains.read(first, first + at_once) for gains in matches.gains], axis=1)
        for k, gains in enumerate(by_target, start=first):
            mine, others = gains[starts[k] : starts[k + 1]], gains[owners != texts.positions[k]]
            p = rank_sum_p(mine, others) if len(mine) and len(others) else nan
            n_prompts, reason = (len(texts.units), "") if len(mine) else (0, "no image of the target")
            results.append(_Match(matches.ranks[k], n_prompts, p, reason))
    return results
