"""Rows of what each image is read as: shares of groups, other audits' numbers, and whether it shows the concept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan, sqrt
from typing import Final, TypeAlias

import numpy as np
import scipy

from clinometer.metrics.differences import METRIC
from clinometer.metrics.distribution import (
    DistributionScore,
    distribution_bias,
    entropy_bias,
    gender_gap,
    generative_miss_rate,
    mean_absolute_deviation,
)
from clinometer.metrics.families import corrected
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.stats.clusters import contrast, share_difference
from clinometer.stats.permutation import rank_sum_p
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.cosines import Estimate, by_view
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, LeaningStudy
from clinometer.studies.leaning.scores.measuring import Texts, texts_of
from clinometer.studies.leaning.scores.rows import FIXED, Basis, bare, target_row, with_reason
from clinometer.studies.leaning.scores.views import EncoderView, TextMatches, count_nearest

BETWEEN = "some lie between"
BETWEEN_BY_CHANCE = 0.05
BETWEEN_LEVEL = 0.01
BETWEEN_TEST = "binomial, against one of 20 images of a group beyond its own spread, one-sided"
NO_GAP = "the groups' own images do not lie apart enough for any to lie between"
Matches: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Of each image of a target, the cosine with its target's text and with the blank prompt."""
NO_BLANK = "no encoder has embedded the blank prompt; encode the run anew"
FIDELITY: Final = "fidelity"
OWN_FIDELITY: Final = "own_fidelity"
OWN_UNSHOWN: Final = "own_unshown"
"""Components of a comparison that are a run's own; ``setting`` says whose."""
RUNS: Final = ("first run", "second run")
NOT_SHOWN: Final = "not shown"
"""The flag of a target whose images do not show it better than chance, and of its shares."""
HELD: Final = 2**22
"""Cosines of images with texts that are read at once, 32 MB."""
LEVEL: Final = 0.05
TEST: Final = "own images against those of the other targets, by the cosine with this prompt (Mann-Whitney), one-sided"
UNSHOWN: Final = "its images do not show the concept better than chance would"
_NO_STIMULUS = "no stimulus interval: prompts and encoder are fixed"


def share_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """Report the share of images nearer to a's words (zero-shot), with its Wilson interval, and its gap from one half.

    Where images are missing, its bounds are Wilson's ends with all of them read as b, and as a.

    The gap |share − ½| is HEIM's gender measure; under exact parity it is not 0 on average but its null,
    0.137 in 8 images. Words and encoder are fixed: no stimulus interval.
    """
    counts, confidence = [_count(study, view, t) for t in study.target_numbers], study.settings.confidence
    basis = Basis(("ita",), study.pair)
    shares = [wilson_interval(*count, confidence) for count in counts]
    gaps = [gender_gap(*count, confidence=confidence) for count in counts]
    numbers = {
        "share": (_columns(shares, "value", "low", "high"), study.design.a),
        "parity_gap": (_columns(gaps, "value", "low", "high", "null"), ""),
    }
    rows = [
        with_reason(
            target_row(study, view, t, basis, estimates, metric="share", component=component, group=group), FIXED
        )
        for component, (estimates, group) in numbers.items()
        for t in study.target_numbers
    ]
    return [
        _with_bounds(row, counts[t], confidence) if row.component == "share" else row
        for row, t in zip(rows, [*study.target_numbers] * len(numbers), strict=True)
    ]


def between_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """Report the share of images that lie between the groups, by the spread of the groups' own attribute images.

    ::

        y(x) = image part of x       limit_A = ȳ_A − t s_A √(1 + 1/n_A),  limit_B = ȳ_B + t s_B √(1 + 1/n_B)
        between: limit_B < y(x) < limit_A                  t: the 95 % quantile of Student's t with n − 1

    ȳ and s are of the attribute images of a group, none compared with itself. Beyond a limit, towards the other group,
    lies one of 20 images that are of the group; so ``null`` is 0.05, p asks whether so many lie there by chance, and
    ``flag`` says where q is at most 0.01. Where the limits do not leave a gap, nothing is told to lie in it.
    """
    modalities = [m for m in (0, 1) if m == 0 or view.reads_text]
    a, b = study.pair

    def scores(cosines: np.ndarray) -> np.ndarray:
        return np.asarray((cosines[:, modalities, a] - cosines[:, modalities, b]).sum(axis=1))

    limit_a, limit_b = _limit(scores(view.own[a]), -1), _limit(scores(view.own[b]), 1)
    has_gap = bool(limit_b < limit_a)
    of_targets = [scores(cosines) for cosines in view.image_cosines]
    inside = [int(((limit_b < y) & (y < limit_a)).sum()) for y in of_targets]
    shares = [
        wilson_interval(k, len(y) if has_gap else 0, study.settings.confidence)
        for k, y in zip(inside, of_targets, strict=True)
    ]
    numbers = _columns(shares, "value", "low", "high")
    numbers = replace(numbers, null=np.where(np.isfinite(numbers.value), BETWEEN_BY_CHANCE, np.nan))
    basis = Basis(("ii", "ita") if view.reads_text else ("ii",), study.pair)
    rows = []
    for t in study.target_numbers:
        row = target_row(study, view, t, basis, numbers, metric="share", component="between")
        if not isfinite(row.value):
            rows.append(with_reason(row, NO_GAP))
            continue
        p = float(scipy.stats.binom.sf(inside[t] - 1, row.n_target, BETWEEN_BY_CHANCE))
        rows.append(with_reason(replace(row, p=p, test=BETWEEN_TEST), FIXED))
    rows = corrected(rows, f"share: between over {len(rows)} targets")
    return [replace(row, flag=BETWEEN) if row.q <= BETWEEN_LEVEL else row for row in rows]


def _limit(y: np.ndarray, sign: int) -> float:
    """Find the limit that one of 20 images of a group lies beyond, towards the other group; NaN from one image."""
    n = len(y)
    if n < 2:
        return np.nan
    return float(y.mean() + sign * scipy.special.stdtrit(n - 1, 0.95) * y.std(ddof=1) * np.sqrt(1 + 1 / n))


def _with_bounds(row: Score, count: tuple[int, int], confidence: float) -> Score:
    """Add the ends of the interval with all missing images read as b, and as a."""
    (near, n), missing = count, row.n_missing
    if not missing or not n:
        return row
    least, most = (wilson_interval(near + more, n + missing, confidence) for more in (0, missing))
    return replace(row, bound_low=min(row.low, least.low), bound_high=max(row.high, most.high))


def _columns(estimates: Sequence[object], *names: str) -> Estimate:
    return bare(*(np.array([getattr(estimate, name) for estimate in estimates]) for name in names))


def _count(study: LeaningStudy, view: EncoderView, t: int) -> tuple[int, int]:
    """Count the images with a positive association with a's words against b's, and all images."""
    a, b = study.pair
    near = view.image_cosines[t][:, 1]
    if not (study.layout.word_counts[a] and study.layout.word_counts[b] and np.isfinite(near[:, [a, b]]).all()):
        return 0, 0
    return int((near[:, a] - near[:, b] > 0).sum()), len(near)


def other_audit_rows(study: LeaningStudy, view: EncoderView, blanks: Sequence[Matches]) -> list[Score]:
    """Report scores of other audits for each target, from the zero-shot reading of its images.

    An image counts for the group whose words it is nearest to on average: ``gender_gap`` over a and b, the others over
    all groups. ``miss_rate`` compares its cosine with its target's text and with the blank prompt, averaged over the
    encoders that read text (``blanks``, of each target).
    """
    rows = []
    for t in study.target_numbers:
        for component, score in _scores(study, view, t, blanks[t]).items():
            fields = {name: getattr(score, name) for name in ("value", "low", "high", "null")}
            fields["reason"] = FIXED if isfinite(score.value) else _reason(study, view, t, component, score)
            fields |= {"metric": "other_audits", "component": component, "n_missing": 0}
            rows.append(target_row(study, view, t, Basis(("ita",), study.pair), None, **fields))
    return rows


def _scores(study: LeaningStudy, view: EncoderView, t: int, blanks: Matches) -> dict[str, DistributionScore]:
    confidence = study.settings.confidence
    pair, everyone = (count_nearest(view.image_cosines[t], groups) for groups in (study.pair, study.everyone))
    own, blank = blanks
    return {
        "gender_gap": gender_gap(int(pair[0]), int(pair.sum()), confidence=confidence),
        "mean_absolute_deviation": mean_absolute_deviation(everyone, confidence=confidence),
        "entropy_bias": entropy_bias(everyone, confidence=confidence),
        "distribution_bias": distribution_bias(everyone, confidence=confidence),
        "miss_rate": generative_miss_rate(own, blank, confidence=confidence),
    }


def _reason(study: LeaningStudy, view: EncoderView, t: int, component: str, score: DistributionScore) -> str:
    if not view.reads_text:
        return "the encoder reads no text"
    if not study.layout.target_sizes[t]:
        return "no image of the target"
    if component == "miss_rate":
        return NO_BLANK
    empty = [g for g in study.everyone if not study.layout.word_counts[g]]
    return f"no word of group {study.layout.groups[empty[0]]!r}" if empty else score.reason


@dataclass(frozen=True)
class _Match:
    """How the images of one target match the prompts: of each image, the rank of its own (1 the nearest)."""

    ranks: np.ndarray
    n_prompts: int
    p: float
    reason: str = ""


def fidelity_rows(
    study: LeaningStudy, encoders: Sequence[EncoderEmbeddings], views: Sequence[EncoderView]
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
            matches[id(encoder)] = _matches(encoder, view.matches, study.layout.target_sizes)
        rows += _rows(study, name, matches[id(encoder)])
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
    own = [_shares(rows, view) for rows in (first, second)]
    names = [name for name in own[0] if name in own[1]]
    fewest = {name: min(sum(row.n_target for row in run[name]) for run in own) for name in names}
    enough = [name for name in names if fewest[name] >= FEWEST_IMAGES]
    names = enough or names
    if not names:
        return []
    of_both = [[by_name[name] for name in names] for by_name in own]
    answers = [[np.concatenate([_answers(row) for row in rows]) for rows in run] for run in of_both]
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


def _answers(row: Score) -> np.ndarray:
    """Tell of each image of a target whether its own prompt is the nearest."""
    return np.arange(row.n_target) < round(row.value * row.n_target)


def _rows(study: LeaningStudy, view: str, matches: Sequence[_Match]) -> list[Score]:
    family = [_first(study, view, k, match) for k, match in enumerate(matches)]
    family = corrected(family, f"{FIDELITY} over {len(family)} targets")
    first = [replace(row, flag=NOT_SHOWN) if row.q > LEVEL else row for row in family]
    others = [make(study, view, k, match) for k, match in enumerate(matches) for make in (_upper_half, _rank)]
    flags: Mapping[str, str] = {row.concept: row.flag for row in first}
    return [*first, *(replace(row, flag=flags[row.concept]) for row in others)]


def _matches(encoder: EncoderEmbeddings, matches: TextMatches | None, sizes: Sequence[int]) -> list[_Match]:
    texts = texts_of(encoder)
    if texts is None:
        return [_Match(np.empty(0), 0, nan, "the encoder reads no text")] * len(sizes)
    if len(texts.units) < 2 or matches is None:
        return [_Match(np.empty(0), len(texts.units), nan, "one text: there is no other to compare with")] * len(sizes)
    return list(_rank_matches(matches, texts, sizes))


def _rank_matches(matches: TextMatches, texts: Texts, sizes: Sequence[int]) -> Iterator[_Match]:
    """Match each target: the gains of all images wait in a file, and are read by text."""
    owners = np.repeat(texts.own, sizes)
    at_once = max(HELD // max(len(owners), 1), 1)
    for first in range(0, len(texts.own), at_once):
        by_target = np.concatenate([gains.read(first, first + at_once) for gains in matches.gains], axis=1)
        for k, gains in enumerate(by_target, start=first):
            yield _Match(
                matches.ranks[k],
                len(texts.units) if sizes[k] else 0,
                _p_value(gains, owners == texts.own[k], k, sizes),
                "" if sizes[k] else "no image of the target",
            )


def _p_value(gains: np.ndarray, same: np.ndarray, target: int, sizes: Sequence[int]) -> float:
    """Find Mann and Whitney's p of a target's own images against those of targets with another text."""
    start = sum(sizes[:target])
    mine, others = gains[start : start + sizes[target]], gains[~same]
    return rank_sum_p(mine, others) if len(mine) and len(others) else nan


def _first(study: LeaningStudy, view: str, target: int, match: _Match) -> Score:
    row = _share(study, view, target, match, "own_prompt_first", 1.0, 1)
    return replace(row, p=match.p, test=TEST if isfinite(match.p) else "")


def _upper_half(study: LeaningStudy, view: str, target: int, match: _Match) -> Score:
    half = match.n_prompts // 2
    return _share(study, view, target, match, "own_prompt_upper_half", half, half)


def _share(
    study: LeaningStudy, view: str, target: int, match: _Match, component: str, at_most: float, of: int
) -> Score:
    near = int((match.ranks <= at_most).sum())
    share = wilson_interval(near, len(match.ranks), study.settings.confidence)
    null = of / match.n_prompts if match.n_prompts else nan
    return _row(study, view, target, match, component, share.value, share.low, share.high, null)


def _rank(study: LeaningStudy, view: str, target: int, match: _Match) -> Score:
    ranks, confidence = match.ranks, study.settings.confidence
    if not len(ranks):
        return _row(study, view, target, match, "own_prompt_rank", nan, nan, nan, nan)
    mean, low, high = float(ranks.mean()), nan, nan
    if len(ranks) > 1:
        reach = float(scipy.stats.t.ppf((1 + confidence) / 2, len(ranks) - 1) * ranks.std(ddof=1) / sqrt(len(ranks)))
        low, high = max(mean - reach, 1.0), min(mean + reach, float(match.n_prompts))
    return _row(study, view, target, match, "own_prompt_rank", mean, low, high, (match.n_prompts + 1) / 2)


def _row(
    study: LeaningStudy,
    view: str,
    target: int,
    match: _Match,
    component: str,
    value: float,
    low: float,
    high: float,
    null: float,
) -> Score:
    concept = study.design.targets[target]
    return Score(
        metric=FIDELITY, component=component, concept=concept.name, category=concept.category, encoder=view,
        value=value, low=low, high=high, null=null if isfinite(value) else nan, n_target=len(match.ranks),
        reason=match.reason or _NO_STIMULUS,
    )  # fmt: skip
