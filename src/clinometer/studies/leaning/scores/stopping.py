"""When a concept has enough images: decisions that stay valid although the data are examined after every round.

The attribute images, the words and the texts are there before the first target image. Given them, the image part of
target t is a mean over its images, ::

    θ_t = II_t + ITA_t = E y_t(x),     y_t(x) = s(x̂, A images, B images) + s(x̂, A words, B words)

and y is held within [lo, hi], the span that the images of the two groups themselves cover (averaged over encoders, as
everything is). What is tested is the mean of y so held, which differs from θ only where a concept's images are further
out than the groups' own; the rows count them. So betting e-values (:mod:`clinometer.stats.sequential`) test, after any
number of images,

- *leaning*: θ_t = 0, two-sided;
- *balance*: |θ_t| ≥ margin, both sides.

MCAS is θ_t and a constant, ITP_t + TT_t, and is tested in the same way. It stops nothing.

Both are asked of two zeros, 0 and the groups' middle m (:mod:`clinometer.studies.leaning.scores.middle`): θ_t − m is
θ_t with another constant, and the attribute images enter it in another way, so it has a reach of its own. What has to
hold of both has the smaller of two e-values, on either side: where one of two hypotheses is true, its own e-value is at
most 1 on average, and the smaller of both is no larger.

Each is corrected over the targets by the e-value form of Benjamini–Hochberg. A target that is decided draws no more, so
that its evidence stands; what it decided cannot be undone by the others.

The attribute images are a draw too. What they may be off by, r_t, is Student's bound on the mean of their cosines, and
is given away beforehand: the e-values test |θ_t| ≤ r_t, and |θ_t| ≥ margin − r_t, at ``LEVEL − ATTRIBUTE_LEVEL``,
and r_t is exceeded with probability ``ATTRIBUTE_LEVEL``. Words are fixed, as for a fixed number of images.

Two runs are compared by pairs of images: the i-th image of a prompt starts from the same noise in both runs. Given the
attribute images of both, the difference of the image parts is a mean over a target's pairs, ::

    Δ_t = E d_t,       d_t = y_t(x of the second) − y_t(x of the first)

and d lies within what the spans of the two runs allow; that of MCAS is ITP_t(second) − ITP_t(first) more. So the bets
above test Δ as they test the image part. What the attribute images may be off by is given away beforehand: here
Student's bound on their paired difference.

A pair counts if both runs have it. Which pairs those are follows from when each run stopped, and never from a pair that
is still to be drawn, so the evidence holds at any stopping time of either. See decision 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan
from typing import Literal

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.metrics.differences import METRIC, judged_when_stopped
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import (
    ATTRIBUTE_LEVEL,
    FIXED_ONLY,
    LEANING,
    LEVEL,
    MISSING,
    REPEATS,
    Evidence,
    Judgement,
    ReasonCode,
    StoppingRule,
    Verdict,
    anytime_p,
    in_family,
    judged_as,
    without_inference,
)
from clinometer.stats.multiplicity import holm
from clinometer.stats.power import POWER, factors_by_steps, images_to_decide
from clinometer.stats.sequential import chance_to_reach, confidence_sequence, e_value
from clinometer.studies.leaning.scores.contrasts import (
    II,
    ITP,
    TT,
    ItemValues,
    group_variances,
    item_differences,
    item_values,
    pair_weights,
)
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    Layout,
    ResamplingSettings,
    StudySetup,
    layout_of,
)
from clinometer.studies.leaning.scores.encoder_check import READER
from clinometer.studies.leaning.scores.middle import attribute_influences, margin_around_middle, middle_of
from clinometer.studies.leaning.scores.rows import MIDDLE
from clinometer.studies.leaning.scores.views import linear_views

CONFIDENCE = 0.95
TEST = "betting e-values, two-sided, valid at any number of images"
AHEAD = np.geomspace(1, 1000, 350)
"""Times the images that are looked ahead, 2 % apart: what comes of it is said in two figures."""
ONE_PICTURE = "no interval: an attribute prompt has one picture that counts, so what its pictures are off by is unknown"


def evidence_of(
    encoders: Sequence[EncoderEmbeddings], design: Design, *, component: str = IMAGE_PART, ahead: bool = False
) -> list[Evidence]:
    """Judge every target by the images there are, one :class:`Evidence` each; ``ahead`` counts those that would decide.

    ``component`` : the image part, or ``"mcas"``.

    Raises
    ------
    InvalidInputError
        As ``mcas_study``; or no encoder reads text, or a group has no image: the number is then not defined.
    """
    run = image_leanings(encoders, design, component)
    leanings = list(zip(run.targets, run.constants.tolist(), strict=True))
    zeros = _zeros_of(run.layout, run.influences, design.margin, (run.middle, run.middle_margin), len(leanings))
    return _judge_means(leanings, run.span, zeros, ahead)


@dataclass(frozen=True)
class Zero:
    """Where a mean would lean to neither side: 0, or the groups' middle.

    ``reaches`` : of each target, Student's bound on what the attribute images add by chance to its distance from it.
    """

    at: float
    margin: float | None
    reaches: np.ndarray


def _zeros_of(
    layout: Layout,
    influences: tuple[ItemValues, ItemValues],
    margin: float | None,
    middle: tuple[float, float | None],
    size: int,
) -> list[Zero]:
    """List 0 and, where it is known, the groups' middle, with its own margin."""
    zeros = [Zero(0.0, margin, reaches_of(layout, influences[0], size))]
    if isfinite(middle[0]):
        zeros.append(Zero(*middle, reaches_of(layout, influences[1], size)))
    return zeros


def _judge_means(
    leanings: Sequence[tuple[np.ndarray, float]], span: tuple[float, float], zeros: Sequence[Zero], ahead: bool
) -> list[Evidence]:
    """Judge means of observations within a span, each with what is added to it, as one family."""
    stands = in_family(
        [mean_evidence(values, constant, *span, zeros, t) for t, (values, constant) in enumerate(leanings)]
    )
    if not ahead:
        return stands
    factors = factors_ahead(stands, leanings, span, zeros)
    return [
        replace(stand, factor=float(of_leaning), factor_balance=float(of_balance))
        for stand, of_leaning, of_balance in zip(stands, *factors, strict=True)
    ]


def rows_when_stopped(rows: Sequence[Score], stands: Mapping[str, Sequence[Evidence]], design: Design) -> list[Score]:
    """Judge the rows of a study whose images were drawn until decided; ``stands`` by component: image part and MCAS.

    Both carry their confidence sequences, their anytime-valid p and q, and the verdicts that follow from them. Every
    other interval and test that rests on the targets' images holds for a fixed number of them only: it is left out,
    with that reason.
    """
    evidence = {
        (component, target.name): (stand, float(p_holm))
        for component, family in stands.items()
        for target, stand, p_holm in zip(
            design.targets, family, holm(np.array([stand.p for stand in family])), strict=True
        )
    }
    stopped_rows = []
    for row in rows:
        judged = evidence.get((row.component, row.concept))
        if (row.metric, row.encoder) == ("mcas", "mean") and judged is not None:
            stopped_rows.append(_decide(row, *judged, design))
        elif row.metric in (READER, MIDDLE) or (row.metric == "mcas" and row.component in ("itp", "tt", TEXT_PART)):
            stopped_rows.append(row)  # no target image enters
        else:
            stopped_rows.append(without_inference(row))
    return stopped_rows


@dataclass(frozen=True)
class ImageLeanings:
    """y of the images of a run, averaged over the encoders that read text.

    Attributes
    ----------
    targets : of each target, y of its images without the constant.
    constants : of each target, what its texts add to MCAS; 0 of the image part.
    span : of y, over the images of the two groups themselves.
    influences : what each attribute image adds to each target's number, and to its distance from the groups' middle.
    middle, middle_margin : the groups' middle, and the margin around it, which is no wider than nearly equal parts of
        the groups reach; None without a margin.
    """

    targets: list[np.ndarray]
    constants: np.ndarray
    span: tuple[float, float]
    layout: Layout
    influences: tuple[ItemValues, ItemValues]
    middle: float
    middle_margin: float | None


def image_leanings(encoders: Sequence[EncoderEmbeddings], design: Design, component: str) -> ImageLeanings:
    """Read y of every image of a run, for the image part or MCAS.

    Raises
    ------
    InvalidInputError
        No encoder reads text, or a group has no image, or its images do not differ.
    """
    layout = layout_of(encoders, design)
    readers = [encoder for encoder in encoders if encoder.reads_text]
    if not readers:
        raise InvalidInputError.unsupported(
            "none reads text, so no concept can be decided; name a dual encoder", field="encoders"
        )
    setup = StudySetup(design, layout, ResamplingSettings(confidence=CONFIDENCE))
    a, b = setup.pair
    if not (layout.image_counts[a] and layout.image_counts[b]):
        raise InvalidInputError.too_few("group_images: a group of the pair has no image, so no concept can be decided")
    view = linear_views(readers, setup).mean
    weights = pair_weights(setup, COMPONENTS[component], a, b)

    def leaning(cosines: np.ndarray) -> np.ndarray:
        """Compute ``s(x̂, A images, B images) + s(x̂, A words, B words)`` of each image: (n,)."""
        return np.asarray((cosines[..., a] - cosines[..., b]).sum(axis=1))

    span = np.concatenate([leaning(view.group_image_scores[g]) for g in (a, b)])
    span = span[np.isfinite(span)]  # a group of one image has no other to compare it with
    if len(span) == 0 or span.min() == span.max():
        raise InvalidInputError.undefined(
            "group_images: the images of the pair do not differ, so no concept can be decided"
        )
    texts = view.targets.point[:, [ITP, TT]]
    return ImageLeanings(
        targets=[leaning(cosines) for cosines in view.image_cosines],
        constants=np.zeros(len(design.targets)) if component == IMAGE_PART else leaning(texts),
        span=(float(span.min()), float(span.max())),
        layout=layout,
        influences=(item_values(view.items.images, weights[[II, ITP]]), attribute_influences(view, weights)),
        middle=middle_of(view.poles, weights),
        middle_margin=None if design.margin is None else margin_around_middle(view.poles, weights, design.margin),
    )


def reaches_of(layout: Layout, influences: ItemValues, size: int) -> np.ndarray:
    """Bound what the attribute images add to each of ``size`` targets by chance; 0 without images of it.

    NaN where a prompt of the pair has one picture that counts: what it is off by is then unknown.
    """
    variances, freedom = group_variances(layout, influences, size, images=True)
    reaches = scipy.stats.t.ppf(1 - ATTRIBUTE_LEVEL / 2, freedom) * np.sqrt(variances.sum(axis=1))
    return np.where(np.array(layout.target_sizes) > 0, reaches, 0.0)


def mean_evidence(
    values: np.ndarray, constant: float, low: float, high: float, zeros: Sequence[Zero], t: int
) -> Evidence:
    """Judge the mean of target ``t`` by its observations so far, against 0 and, where there is one, the middle.

    The observations lie within ``low`` … ``high`` or count as if they did; ``constant`` is added to their mean.
    """
    margin = zeros[0].margin
    if not len(values):  # no evidence, and yet one of the family from the start: nothing decided is undone later
        return Evidence(0, nan, nan, nan, 1.0, e_balance=nan if margin is None else 1.0)
    if any(isnan(zero.reaches[t]) for zero in zeros):
        none = nan if margin is None else 1.0
        return Evidence(len(values), float(values.mean()) + constant, nan, nan, 1.0, e_balance=none, reach=nan)
    observations = np.clip(values, low, high)
    bounds = confidence_sequence(observations, low=low, high=high, confidence=CONFIDENCE + ATTRIBUTE_LEVEL)
    value = float(values.mean())

    def evidence(mean: float, alternative: Literal["greater", "less"]) -> float:
        return e_value(observations, mean - constant, low=low, high=high, alternative=alternative)

    sides, balance, ends = [], [], []
    for zero in zeros:
        reach = float(zero.reaches[t])
        sides.append((evidence(zero.at + reach, "greater"), evidence(zero.at - reach, "less")))
        if zero.margin is not None:
            inner = zero.margin - reach
            within = min(evidence(zero.at + inner, "less"), evidence(zero.at - inner, "greater")) if inner > 0 else 0.0
            balance.append(within)
        ends.append((
            min(float(bounds.low[-1]), value) + constant - zero.at - reach,
            max(float(bounds.high[-1]), value) + constant - zero.at + reach,
        ))  # fmt: skip
    two_sided = [sum(each) / 2 for each in sides]
    of_middle = {}
    if len(zeros) > 1:
        of_middle = {
            "middle": zeros[1].at, "middle_margin": nan if zeros[1].margin is None else zeros[1].margin,
            "from_middle_low": ends[1][0], "from_middle_high": ends[1][1],
        }  # fmt: skip
    return Evidence(
        n=len(values),
        value=value + constant,
        low=ends[0][0],
        high=ends[0][1],
        e=sum(map(min, *sides)) / 2 if len(zeros) > 1 else two_sided[0],
        e_balance=min(balance, default=nan),
        clipped=int((observations != values).sum()),
        reach=float(zeros[0].reaches[t]),
        e_zeros=(two_sided[0], two_sided[-1]),
        **of_middle,
    )


def factors_ahead(
    stands: Sequence[Evidence],
    leanings: Sequence[tuple[np.ndarray, float]],
    span: tuple[float, float],
    zeros: Sequence[Zero],
) -> tuple[np.ndarray, np.ndarray]:
    """Find ``factor`` and ``factor_balance`` of every target, by the step of Benjamini–Hochberg that calls it first.

    Where there are two zeros, the one that is harder to leave, or to stay near, decides how likely both are.
    """
    level = LEVEL - ATTRIBUTE_LEVEL
    evidence = len(stands) / (level * np.arange(1, len(stands) + 1))  # m / (kα), which k e-values have to reach
    first = np.full((2, len(stands), len(AHEAD)), len(stands))  # the step of a test with so many times the images
    for t, (stand, (values, constant)) in enumerate(zip(stands, leanings, strict=True)):
        if stand.stops(StoppingRule()):  # draws no more: it counts with what it has
            reached = np.array([[stand.e], [stand.e_balance]]) >= evidence
            first[:, t] = np.where(reached.any(axis=1), reached.argmax(axis=1), len(stands))[:, None]
        elif stand.n:
            observations = np.clip(values, *span)
            of_zeros = [
                _chances(observations, constant - zero.at, span, zero.margin, float(zero.reaches[t]), evidence)
                for zero in zeros
            ]
            chances = [np.minimum.reduce(each) for each in zip(*of_zeros, strict=False)]  # balance, if all have it
            reached = np.logical_or.accumulate(np.stack(chances) >= POWER, axis=1)
            first[: len(reached), t] = np.where(reached.any(axis=2), reached.argmax(axis=2), len(stands))
    return factors_by_steps(first[0], AHEAD), factors_by_steps(first[1], AHEAD)


def _chances(
    observations: np.ndarray,
    constant: float,
    span: tuple[float, float],
    margin: float | None,
    reach: float,
    evidence: np.ndarray,
) -> list[np.ndarray]:
    """Find the chances of leaning and, with a margin, of balance: (times the images, evidence) each."""

    def chance(mean: float, alternative: Literal["greater", "less"], needed: np.ndarray) -> np.ndarray:
        return chance_to_reach(
            observations, mean - constant, needed, AHEAD, low=span[0], high=span[1], alternative=alternative
        )  # fmt: skip

    leaning = chance(reach, "greater", 2 * evidence) + chance(-reach, "less", 2 * evidence)
    if margin is None or margin <= reach:
        return [leaning]
    inner = margin - reach
    return [leaning, chance(inner, "less", evidence) + chance(-inner, "greater", evidence) - 1]


def _decide(row: Score, stand: Evidence, p_holm: float, design: Design) -> Score:
    if not isfinite(row.value) or stand.n == 0:
        unmeasured = Judgement(Verdict.NOT_MEASURED, reason_code=ReasonCode.NO_ESTIMATE)
        return judged_as(without_inference(row), unmeasured)
    if isnan(stand.reach):
        unmeasured = Judgement(Verdict.NOT_MEASURED, reason_code=ReasonCode.NO_TEST)
        return judged_as(replace(without_inference(row), reason=ONE_PICTURE), unmeasured)
    needed = 0
    if stand.balanced:
        judgement = Judgement(Verdict.BALANCED)
    elif stand.leans:
        slightly = design.margin is not None and abs(stand.value) < design.margin
        side = design.a if stand.value > 0 else design.b
        judgement = Judgement(Verdict.LEANS_SLIGHTLY if slightly else Verdict.LEANS, side=side)
    else:
        of_0, of_middle = stand.beyond
        code = ReasonCode.CORRECTION if of_0 else ReasonCode.INTERVAL
        code = ReasonCode.ZEROS_DISAGREE if of_0 != of_middle else code
        judgement = Judgement(Verdict.UNDECIDED, reason_code=code)
        needed = images_to_decide(stand.n, min(stand.factor_balance, stand.factor))
    decided = replace(
        _anytime(row, stand, "images", TEST), stimulus_low=nan, stimulus_high=nan, q=stand.q, p_holm=p_holm,
        q_equivalence=stand.q_balance, n_decide=needed,
    )  # fmt: skip
    return _move_bounds(judged_as(decided, judgement), row, design.margin)


def _anytime(row: Score, stand: Evidence, counted: str, test: str) -> Score:
    """Return a row with evidence that holds at any number of images, or pairs."""
    clipped = f"; {stand.clipped} of {stand.n} {counted} beyond the groups' own span" if stand.clipped else ""
    return replace(
        row, low=stand.low, high=stand.high, p=stand.p, test=f"{test}{clipped}",
        p_equivalence=anytime_p(stand.e_balance), reason="no stimulus interval: " + FIXED_ONLY,
        middle=stand.middle, middle_margin=stand.middle_margin, from_middle_low=stand.from_middle_low,
        from_middle_high=stand.from_middle_high, p_zero=anytime_p(stand.e_zeros[0]),
        p_middle=nan if isnan(stand.middle) else anytime_p(stand.e_zeros[1]),
    )  # fmt: skip


def _move_bounds(decided: Score, row: Score, margin: float | None) -> Score:
    """Move the sequence's ends by as much as fillings move those of a fixed number of images."""
    if not isfinite(row.bound_low):
        return decided
    low, high = decided.low + row.bound_low - row.low, decided.high + row.bound_high - row.high
    missing = row.n_missing + row.n_missing_attributes
    kinds = [kind for kind, n in ((MISSING, missing), (REPEATS, row.n_repeated)) if n]
    leans = decided.verdict in (*LEANING, Verdict.MORE) and low <= 0 <= high
    inside = -(margin or 0.0) < low <= high < (margin or 0.0)
    beyond = decided.verdict in (Verdict.BALANCED, Verdict.ALIKE) and not inside
    return replace(decided, bound_low=low, bound_high=high, depends_on=" ".join(kinds) if leans or beyond else "")


def paired_evidence(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    component: str = IMAGE_PART,
    ahead: bool = False,
) -> list[Evidence]:
    """Judge the difference of every target, second minus first, by the pairs there are, as one family.

    The i-th image of a prompt is the partner of the other run's i-th. ``component``, ``ahead`` : see ``evidence_of``.

    Raises
    ------
    InvalidInputError
        As ``evidence_of``; or the runs have other numbers of images.
    """
    both = image_leanings(first, design, component), image_leanings(second, design, component)
    if len({tuple(map(len, run.targets)) for run in both}) > 1:
        raise InvalidInputError.mismatch("paired: the runs have different numbers of images; pair them")
    one, other = both
    constants = (other.constants - one.constants).tolist()
    leanings = [(y - x, c) for x, y, c in zip(one.targets, other.targets, constants, strict=True)]
    span = other.span[0] - one.span[1], other.span[1] - one.span[0]
    if one.layout.prompt_sizes != other.layout.prompt_sizes:
        raise InvalidInputError.mismatch("paired: the runs have different numbers of attribute images; pair them")
    of_0, of_middle = (item_differences(*each) for each in zip(one.influences, other.influences, strict=True))
    margins = [run.middle_margin for run in both if run.middle_margin is not None]
    middle = other.middle - one.middle, min(margins, default=None)
    zeros = _zeros_of(other.layout, (of_0, of_middle), design.margin, middle, len(leanings))
    return _judge_means(leanings, span, zeros, ahead)


def differences_when_stopped(
    rows: Sequence[Score], stands: Mapping[str, Sequence[Evidence]], design: Design
) -> list[Score]:
    """Judge the rows of a comparison whose images were drawn until decided; ``stands`` by component.

    The differences of these carry their confidence sequences and their anytime-valid p and q, over the targets. What
    else rests on target images holds for a fixed number of them only and keeps its estimate alone.
    """
    names = [target.name for target in design.targets]
    evidence = {
        (component, t): stand for component, family in stands.items() for t, stand in zip(names, family, strict=True)
    }
    rest: list[Score] = []
    decided: dict[str, list[Score]] = {component: [] for component in stands}
    fixed: dict[str, list[Score]] = {component: [] for component in stands}
    for row in rows:
        stand = evidence.get((row.component, row.concept))
        if row.encoder == "mean" and stand is not None and isfinite(row.value) and stand.n:
            judged = _anytime(without_inference(row), stand, "pairs", f"{TEST}, over pairs")
            if isnan(stand.reach):
                judged = replace(judged, reason=ONE_PICTURE)
            n_decide = images_to_decide(stand.n, min(stand.factor_balance, stand.factor))
            decided[row.component].append(replace(judged, n_target=stand.n, n_decide=n_decide))
            fixed[row.component].append(row)
        else:
            rest.append(row if row.component in ("itp", TEXT_PART) else without_inference(row))
    for component, of_component in decided.items():
        name = f"{METRIC}: {component} over {len(names)} targets"
        of_family = judged_when_stopped(of_component, name, [(design.a, design.b)] * len(of_component))
        rest += [_move_bounds(*both, design.margin) for both in zip(of_family, fixed[component], strict=True)]
    return rest
