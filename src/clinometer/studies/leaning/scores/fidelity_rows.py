"""Rows of whether a concept's images show the concept: is an image nearer to its own prompt than to the others'?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan, sqrt
from typing import Final

import numpy as np
import scipy

from clinometer.metrics.differences import METRIC
from clinometer.metrics.families import corrected
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.stats.clusters import contrast, share_difference
from clinometer.stats.permutation import rank_sum_p
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.design import EncoderEmbeddings
from clinometer.studies.leaning.scores.gathering import GatheredTargets, TextMatches
from clinometer.studies.leaning.scores.measuring import Texts, texts_of
from clinometer.studies.leaning.scores.pooled import by_view

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


@dataclass(frozen=True)
class _Match:
    """How the images of one target match the prompts: of each image, the rank of its own (1 the nearest)."""

    ranks: np.ndarray
    n_prompts: int
    p: float
    reason: str = ""


def fidelity_rows(study: LeaningStudy, encoders: Sequence[EncoderEmbeddings], targets: GatheredTargets) -> list[Score]:
    """Of every view and target, how its images rank its own text among the texts of all targets, by cosine.

    ``own_prompt_first``: share of images whose own text is the nearest, Wilson interval, null 1/T over T different
    texts. ``own_prompt_upper_half``: share of those with a rank of T/2 or better. ``own_prompt_rank``: mean rank, t
    interval, null (T+1)/2. An image's cosines are less their mean over the texts, and p is Mann and Whitney's: are they
    higher for this text than those of the other targets' images are? So a text that everything is near to helps nobody.
    q corrects over the targets; where it is above 0.05 the target is flagged ``not shown``. ``blank prompt``: see
    ``miss_rate`` of the other audits.
    """
    views = zip(by_view(encoders).items(), (targets.mean, *targets.encoders), strict=True)
    matches: dict[int, list[_Match]] = {}  # the average of one encoder is that one
    rows = []
    for (name, encoder), viewed in views:
        if id(viewed) not in matches:
            matches[id(viewed)] = _matches(encoder, viewed.matches, study.layout.target_sizes)
        rows += _rows(study, name, matches[id(viewed)])
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
    """Rows of metric ``comparison`` on how well two runs' images show what was asked, from each run's own scores.

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
    """The shares of each target, of a run that is several seeds put together as many as these."""
    by_name: dict[str, list[Score]] = {}
    for row in rows:
        if (row.metric, row.component, row.encoder) == (FIDELITY, "own_prompt_first", view) and isfinite(row.value):
            by_name.setdefault(row.concept, []).append(row)
    return by_name


def _answers(row: Score) -> np.ndarray:
    """Of each image of a target, whether its own prompt is the nearest."""
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
    return list(_ranked(matches, texts, sizes))


def _ranked(matches: TextMatches, texts: Texts, sizes: Sequence[int]) -> Iterator[_Match]:
    """The match of each target: the gains of all images wait in a file, and are read by text."""
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
    """Mann and Whitney's p of a target's own images against those of targets with another text."""
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
