"""Where leaning sets in on the way to the images: rows of metric ``trace``, from embeddings of each step's estimates.

At a step s the model's own estimate of each finished image is decoded and embedded. Estimates of targets are held
against those of the attribute prompts *at the same step*: both are as blurred as each other, and as long as the model
does not tell the groups apart, no estimate can lie nearer to one of them. So ::

    II(s) = mean_x ( mean_a cos(x_s, a_s) − mean_b cos(x_s, b_s) )        ITA(s), share(s) alike, with the words

have, at the last step, the values that the finished images have, and their intervals and tests (over images, moderated
bounds, see :mod:`clinometer.studies.leaning.scores.contrasts`).

**The onset** τ of a target is the first step from which on its image part leans the way that the finished images lean.
It is reported for targets whose finished images lean by their q. Each step that is looked at has an interval, of a
level of 5 % times the share of targets for which an onset is reported; leaning has set in by the first step from which
on all of these leave out 0: the end is too early only where the step before τ is called leaning, however the steps hang
together. So of all onsets that a study reports, one in twenty at most is expected to be wrong (Benjamini & Yekutieli
2005, false coverage rate).
**Half way** is the first step from which on at least half of the finished images'
leaning is there, by differences within images::

    θ_half(s) = II+ITA at s − ½ (II+ITA of the finished images)

Its interval runs from behind the last of the leading steps that are shown to have less, to the first step from which on
all are shown to have more, by intervals of the same level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Final

import numpy as np

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.metrics.records import MEAN, OWN_TEXT, PRIOR, TRACE, Score
from clinometer.metrics.verdict import FEWEST_IMAGES, Verdict
from clinometer.stats.agreement import kendall_tau_b
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.components import mcas_rows
from clinometer.studies.leaning.scores.contrasts import pair_weights, paired_difference, paired_tests
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    ResamplingSettings,
    StudySetup,
    layout_of,
)
from clinometer.studies.leaning.scores.differences import compare_runs
from clinometer.studies.leaning.scores.encoder_check import checks_of, reader_checks, withheld, withheld_between
from clinometer.studies.leaning.scores.shares import share_rows
from clinometer.studies.leaning.scores.views import EncoderView, ItemMeans, linear_views

LEVEL: Final = 1 - 0.95  # which is not 0.05 to the last digit
ONSET: Final = "onset"
HALF: Final = "half_way"
AGREEMENT: Final = "agreement"
ORDER: Final = "rank_correlation"
StepReaders = Mapping[int, Callable[[], Sequence[EncoderEmbeddings]]]
"""By step that was looked at: the function that reads the embeddings of its estimates."""

SHOWN: Final = ("ii", "ita", IMAGE_PART)
"""The parts of MCAS that images of a target enter."""

IN_TEXT, IN_PRIOR, IN_STEPS = "text", "prior", "steps"
"""The flag of an onset: where, of text, prior and steps, leaning that way first shows."""

UNJUDGED: Final = ("", Verdict.NOT_MEASURED, Verdict.TOO_FEW)
"""Verdicts of what cannot be judged."""

NO_LEANING: Final = "the finished images are not shown to lean to either side"
UNREAD: Final = "the encoder cannot read the finished images of the groups themselves"
FEW: Final = f"fewer than {FEWEST_IMAGES} images"


def trace_rows(
    finished: Sequence[EncoderEmbeddings],
    steps: StepReaders,
    design: Design,
    *,
    total: int,
    before: Sequence[Score] = (),
) -> list[Score]:
    """Report what is read of the estimates at each step, and where it sets in.

    ===================== ==================================================================== ==============
    component             value                                                                ``setting``
    ===================== ==================================================================== ==============
    ii, ita, image_part   as in ``mcas``, of the estimates at a step; image_part has verdicts  ``step 3``
    share                 as in ``share``                                                      ``step 3``
    onset                 the step by which it has set in; ``group`` is the side, ``flag`` is
                          ``text``, ``prior`` or ``steps``, where that side first shows
    half_way              the step from which on half of it is there
    onset, of no concept  the middle of the targets' onsets: half of those that lean do so by then
    agreement             share of targets with the verdict of the finished images             ``step 3``
    rank_correlation      τ-b of the targets' image parts with those of the finished images    ``step 3``
    ===================== ==================================================================== ==============

    A step at which an encoder cannot tell the estimates of the groups' own prompts apart has no verdict, and no leaning
    is said to be there.

    Parameters
    ----------
    finished : embeddings of the finished images that were traced.
    steps : of each step that was looked at, what reads the embeddings of its estimates, of the same images.
    total : how many steps the model draws in.
    before : rows of the model's own text encoders and prior, which say what comes before the first step.

    Raises
    ------
    InvalidInputError
        Embeddings that no cosine can take, or counts that do not match the design.
    """
    design = of_images_there(design)
    settings = ResamplingSettings()
    ends, view_of_end, setup = _at(finished, design, settings, "")
    end = _image_parts(ends)
    level = interval_level(end)
    way, rows = list[_Step](), list[Score]()
    for step, read in sorted(steps.items()):
        step_rows, view, _ = _at(read(), design, settings, f"step {step}")
        rows += step_rows
        way.append(_Step(step, _image_parts(step_rows), _half(setup, view, view_of_end, 1 - level)))
    sides = design.a, design.b
    sets_in = [row for t, last in enumerate(end) for row in _onset_rows(t, last, way, total, before, sides, level)]
    known = sorted(row.value for row in sets_in if row.component == ONSET and isfinite(row.value))
    middle = Score(
        metric=TRACE, component=ONSET, category="all", value=known[(len(known) - 1) // 2] if known else nan,
        n_target=len(known),
        reason="the middle of the concepts' onsets, without an interval" if known else "no concept is shown to lean",
    )  # fmt: skip
    rows += [*sets_in, middle]
    return [*rows, *(row for step in way for row in _agreement_rows(step, end))]


def of_images_there(design: Design) -> Design:
    """Return a design as a trace needs it: one pair of groups, and no image missing."""
    targets = tuple(replace(target, missing=0) for target in design.targets)
    return replace(design, third=None, missing_attributes={}, targets=targets)


@dataclass(frozen=True)
class _Step:
    """A step: of each target its image part, and that less half of the finished images' (low, value, high)."""

    number: int
    image_parts: Sequence[Score]
    halves: np.ndarray


def _at(
    encoders: Sequence[EncoderEmbeddings], design: Design, settings: ResamplingSettings, setting: str
) -> tuple[list[Score], EncoderView, StudySetup]:
    """Make the rows of one step by the mean over encoders and by each, where there are several."""
    setup = StudySetup(design, layout_of(encoders, design), settings)
    views = linear_views(encoders, setup)
    rows = list[Score]()
    for view in [views.mean] if len(encoders) == 1 else views.all:
        rows += mcas_rows(setup, view, SHOWN)
        rows += [row for row in share_rows(setup, view) if row.component == "share"]
    rows = withheld(rows, reader_checks(encoders, design))
    named = [
        replace(row, metric=TRACE, setting=setting, family=row.family.replace("mcas", f"{TRACE}, {setting}", 1))
        for row in rows
    ]
    return named, views.mean, setup


def _image_parts(rows: Sequence[Score]) -> list[Score]:
    return [row for row in rows if (row.component, row.encoder) == (IMAGE_PART, MEAN)]


def _half(setup: StudySetup, view: EncoderView, end: EncoderView, confidence: float) -> np.ndarray:
    """Estimate the image part less half of the finished images', pair by pair: (targets × 3), low, value, high."""
    setup = replace(setup, settings=replace(setup.settings, confidence=confidence))
    half = replace(
        end,
        image_cosines=tuple(cosines / 2 for cosines in end.image_cosines),
        items=ItemMeans(end.items.images / 2, end.items.words / 2),
        targets=replace(end.targets, point=end.targets.point / 2),
        encoder_points=end.encoder_points / 2,
    )
    modalities = COMPONENTS[IMAGE_PART] if view.reads_text else ("ii",)
    tests = paired_tests(setup, paired_difference(half, view), pair_weights(setup, modalities, *setup.pair))
    estimate = tests.estimate
    return np.stack([estimate.low, estimate.value, estimate.high], axis=1)


def _onset_rows(
    t: int,
    end: Score,
    way: Sequence[_Step],
    total: int,
    before: Sequence[Score],
    sides: tuple[str, str],
    level: float,
) -> Iterator[Score]:
    """Report where one target's leaning sets in, and where half of it is there."""
    about = Score(metric=TRACE, component=ONSET, concept=end.concept, category=end.category, n_target=end.n_target)
    sign = side_by_q(end)
    if not sign:
        unread = end.verdict == Verdict.NOT_MEASURED and end.n_target >= FEWEST_IMAGES
        reason = FEW if end.n_target < FEWEST_IMAGES else UNREAD if unread else NO_LEANING
        yield from (replace(about, component=component, reason=reason) for component in (ONSET, HALF))
        return
    leanings = [side_shown(step.image_parts[t], level) for step in way]
    numbers = [step.number for step in way]
    onset = from_on([side == sign for side in leanings], numbers, total)
    opposed = behind([side == -sign for side in leanings], numbers)
    group = sides[0] if sign > 0 else sides[1]
    earlier = [row for row in before if row.concept == end.concept]  # of the text there is an interval over words alone
    ends = [(IN_TEXT, row.stimulus_low, row.stimulus_high) for row in earlier if row.metric == OWN_TEXT]
    ends += [(IN_PRIOR, row.low, row.high) for row in earlier if row.metric == PRIOR]
    shown = (place for place, low, high in ends if (low > 0 and sign > 0) or (high < 0 and sign < 0))
    yield replace(
        about, value=onset, low=opposed, high=onset, group=group, flag=next(shown, IN_STEPS),
        reason="the upper end is the estimate: leaning that no interval shows is not excluded before it",
    )  # fmt: skip
    halves = np.stack([np.sort(sign * step.halves[t]) for step in way])
    above = from_on([bool(low > 0) for low, *_ in halves], numbers, total)
    below = behind([bool(high < 0) for *_, high in halves], numbers)
    value = from_on([bool(value >= 0) for _, value, _ in halves], numbers, total)
    yield replace(about, component=HALF, value=value, low=below, high=above, group=group)


def side_by_q(row: Score) -> int:
    """Return the side an image part, or a difference of two, leans to in the end by its q: 1, −1, or 0 for neither.

    How much it leans does not matter: what is within a suite's margin sets in somewhere, too.
    """
    return int(np.sign(row.value)) if row.verdict not in UNJUDGED and row.q <= LEVEL else 0


def interval_level(end: Sequence[Score]) -> float:
    """Return the level of the intervals on the way, which are reported for some targets alone.

    ::

        α R / m         R of the m targets that can be judged lean by their q, so that an onset is reported

    so that at most a share α of all that is reported is expected to be wrong (Benjamini & Yekutieli 2005). See
    decision 64.
    """
    m = sum(row.verdict not in UNJUDGED for row in end)
    n_leaning = sum(bool(side_by_q(row)) for row in end)
    return LEVEL * (n_leaning / m if n_leaning else 1.0)


def side_shown(row: Score, level: float) -> int:
    """Return the side an image part is shown to lean to at a level: 1, −1, or 0 if neither, or nothing is read."""
    if row.verdict == Verdict.NOT_MEASURED or not row.p <= level:
        return 0
    return int(np.sign(row.value))


def from_on(holds: Sequence[bool], numbers: Sequence[int], total: int) -> float:
    """Find the first step from which on something holds at all of them; the last of all where it holds at none."""
    first = float(total)
    for is_so, number in zip(reversed(holds), reversed(numbers), strict=True):
        if not is_so:
            break
        first = float(number)
    return first


def behind(holds: Sequence[bool], numbers: Sequence[int]) -> float:
    """Find the step behind those leading ones at which something holds; the first of all where it does at none."""
    behind = 1.0
    for is_so, number in zip(holds, numbers, strict=True):
        if not is_so:
            break
        behind = number + 1.0
    return behind


def _agreement_rows(step: _Step, end: Sequence[Score]) -> Iterator[Score]:
    """Compare a step's verdicts, and the order of its image parts, with those of the finished images."""
    about, pairs = (
        Score(metric=TRACE, component=AGREEMENT, category="all", setting=f"step {step.number}"),
        [(at_step, last) for at_step, last in zip(step.image_parts, end, strict=True) if last.verdict],
    )
    alike = sum((at_step.verdict, at_step.side) == (last.verdict, last.side) for at_step, last in pairs)
    share = wilson_interval(alike, len(pairs))
    yield replace(
        about, value=share.value, low=share.low, high=share.high, n_target=len(pairs),
        reason="" if pairs else "no target has a verdict",
    )  # fmt: skip
    values = np.array([[row.value for row in rows] for rows in (step.image_parts, end)])
    tau = kendall_tau_b(*values)
    yield replace(
        about, component=ORDER, value=tau.value, low=tau.low, high=tau.high, n_target=tau.n,
        null=0.0 if isfinite(tau.value) else nan, reason=tau.reason,
    )  # fmt: skip


# --- two runs --------------------------------------------------------------------------------------------------------

PARTING = "parting"


def compare_traces(
    first: StepReaders,
    second: StepReaders,
    design: Design,
    *,
    paired: bool,
    by_run: tuple[Sequence[Score], Sequence[Score]],
    total: int,
) -> list[Score]:
    """Compare two runs of one design on the way to their images, second minus first.

    ===================== ============================================================================== ==========
    component             value                                                                          setting
    ===================== ============================================================================== ==========
    ii, ita, image_part   differences at a step that both looked at, as in ``comparison``; image_part    ``step 3``
                          has verdicts, and q is over the targets of a step
    parting               the step by which the image parts differ as they do at the last step of both
    onset, half_way       by how many steps later it sets in, or half of it is there
    ===================== ============================================================================== ==========

    The parting has the bounds of an onset, of the difference. An onset's interval runs from the least to the most that
    the ends of both runs' own allow, each of which errs with 2.5 % chance at most.

    Parameters
    ----------
    first, second : of each step that was looked at, what reads the embeddings of its estimates; where ``paired``, of
        images that are partners.
    by_run : rows of :func:`trace_rows` of either run.
    total : how many steps either draws in.
    """
    design, settings = of_images_there(design), ResamplingSettings()
    rows, way = list[Score](), dict[int, list[Score]]()
    for step in sorted(first.keys() & second.keys()):
        runs = compare_runs(first[step](), second[step](), design, settings, paired=paired)
        checks = [checks_of(run, design) for run in runs.embeddings]
        at_step = [
            replace(row, metric=TRACE, setting=f"step {step}", family=f"{TRACE}, step {step}: {component}")
            for encoder in runs.encoders[: 1 if len(runs.embeddings[0]) == 1 else None]
            for component in SHOWN
            for row in runs.component_family(encoder, component).judged()
        ]
        at_step = withheld_between(at_step, *checks)
        way[step] = [row for row in at_step if (row.component, row.encoder) == (IMAGE_PART, MEAN)]
        rows += at_step
    if way:
        level = interval_level(way[max(way)])
        rows += [
            _parting([of_step[t] for of_step in way.values()], list(way), total, design, level)
            for t in range(len(design.targets))
        ]
    first_rows, second_rows = [{(row.component, row.concept): row for row in of_run} for of_run in by_run]
    return rows + [
        _later(component, first_rows[component, target.name], second_rows[component, target.name])
        for component in (ONSET, HALF)
        for target in design.targets
    ]


def _parting(way: Sequence[Score], numbers: Sequence[int], total: int, design: Design, level: float) -> Score:
    """Find from which step on two runs differ in a target as they do at the last step that both looked at."""
    sides = [side_shown(row, level) for row in way]
    last, sign = way[-1], side_by_q(way[-1])
    about = Score(metric=TRACE, component=PARTING, concept=last.concept, category=last.category, n_target=last.n_target)
    if not sign:
        return replace(about, reason=f"no difference is shown at step {numbers[-1]}, the last that both looked at")
    by = from_on([side == sign for side in sides], numbers, total)
    low = behind([side == -sign for side in sides], numbers)
    return replace(about, value=by, low=low, high=by, group=design.a if sign > 0 else design.b)


def _later(component: str, first: Score, second: Score) -> Score:
    """Return by how many steps later something sets in in the second run; NaN where it does not in one of them."""
    about = replace(second, value=nan, low=nan, high=nan, group="", flag="", reason="")
    n = min(first.n_target, second.n_target)
    missing = {f"{which} run": row.reason for which, row in (("first", first), ("second", second))
               if not isfinite(row.value)}  # fmt: skip
    if len(missing) == 2 and first.reason == second.reason:
        missing = {"both runs": first.reason}
    if missing:
        return replace(about, n_target=n, reason="; ".join(f"{which}: {reason}" for which, reason in missing.items()))
    sides = "" if first.group == second.group else f"they lean to {first.group} and to {second.group}"
    return replace(
        about, value=second.value - first.value, low=second.low - first.high, high=second.high - first.low, n_target=n,
        reason=sides,
    )  # fmt: skip
