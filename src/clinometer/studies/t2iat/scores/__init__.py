"""Every number of a T2IAT study, from each encoder's embeddings to rows of scores.

The mean association of a stimulus t over its neutral images x is ::

    Asc_t = mean_x Asc(x) − offset_t

Three sources of chance: the stimulus's neutral images, or the batches that they came in, with one more at the furthest
that its images with A, or with B, score themselves (:mod:`clinometer.stats.bounded_means`), and its own images with A
and with B, which all its neutral images share. p is dual to the interval: below 0.05 exactly where the 95 % interval
leaves out 0.

Stereotype amplification is whether the images lean farther than the texts that asked for them: Wang et al. (2023),
section 5.4 and figure 4: the arrow from a prompt's text association (tail) to that of its images (head).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isfinite, nan
from typing import Any

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.differences import with_reasons
from clinometer.metrics.prompt_sets import (
    PairDraws,
    WelchEstimate,
    average_pairs,
    containing,
    difference_draws,
    pair_sets,
)
from clinometer.metrics.records import BATCHES_KNOWN, PICTURES, Score, corrected, permuted, storable
from clinometer.metrics.t2iat import DifferentialAssociation, pair_association
from clinometer.metrics.verdict import (
    FEWEST_IMAGES,
    MISSING,
    Ends,
    image_ends,
    judge_family,
    stimulus_ends,
    with_bounds,
)
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.stats.bounded_means import TEST, BoundedMeans, bounded_means
from clinometer.stats.clusters import cluster_mean
from clinometer.stats.dependence import batch_correlation
from clinometer.stats.permutation import sign_flip_test
from clinometer.studies.t2iat.scores.stimuli import (
    ConceptMeasurer,
    Density,
    MeasuredConcept,
    MeasuredStimulus,
    SeenConcept,
    StimulusCosines,
    T2iatDesign,
    T2iatEmbeddings,
    density,
    distribution_rows,
)

PROMPT_TEST = "prompts permuted between X and Y with their images, two-sided"
TEST_FAMILY = "differential associations of the suite"
STIMULUS_FAMILY = "associations of the suite's stimuli"


@dataclass(frozen=True)
class T2iatStudy:
    """Scores, and the distributions that the figures draw."""

    scores: tuple[Score, ...]
    densities: tuple[Density, ...]


@dataclass(frozen=True)
class _View:
    """One encoder, or the average of all.

    Attributes
    ----------
    concepts : by name, as it sees them.
    encoders : the same of each encoder that is averaged.
    """

    encoder: str
    concepts: Mapping[str, SeenConcept]
    encoders: Sequence[Mapping[str, SeenConcept]]

    @property
    def stimuli(self) -> dict[str, MeasuredStimulus]:
        """All stimuli by name."""
        return {name: one for seen in self.concepts.values() for name, one in seen.stimuli.items()}

    @property
    def arrows(self) -> dict[str, MeasuredStimulus]:
        """All stimuli by name, averaged over the encoders that read text."""
        return {name: one for seen in self.concepts.values() for name, one in seen.arrows.items()}


def t2iat_study(
    embeddings: Sequence[T2iatEmbeddings], design: T2iatDesign, *, n_resamples: int, seed: int
) -> T2iatStudy:
    """Return differential associations, associations of concepts and stimuli with quartiles, and amplification.

    The first view is the average over encoders (``encoder="mean"``), the others the encoders one by one; all share
    their resamples. q-values are within a view and a family.
    """
    measure = ConceptMeasurer(embeddings, design, n_resamples, seed)
    measured = ((number, measure(number)) for number in range(len(design.concepts)))
    return t2iat_study_of([encoder.encoder for encoder in embeddings], design, measured, seed=seed)


def t2iat_study_of(
    encoders: Sequence[str], design: T2iatDesign, measured: Iterable[tuple[int, MeasuredConcept]], *, seed: int
) -> T2iatStudy:
    """Return the study of measured concepts, each with its number, in any order.

    ``measured`` : from a :class:`ConceptMeasurer` of these encoders and this seed, in any process.

    Raises
    ------
    InvalidInputError
        A concept was not measured.
    """
    names, by_number = list(design.concepts), dict(measured)
    if missing := [name for number, name in enumerate(names) if number not in by_number]:
        raise InvalidInputError.missing(f"nothing of concept {missing[0]!r}", field="measured")
    mean, *seen = (
        {name: by_number[number][view] for number, name in enumerate(names)} for view in range(len(by_number[0]))
    )
    single = seen or [mean]
    together = _View("mean", mean, single)
    rows = _rows(together, design, seed)
    if len(encoders) == 1:  # the average of one encoder is that encoder
        rows += [replace(row, encoder=encoders[0]) for row in rows]
    else:
        for encoder, concepts in zip(encoders, single, strict=True):
            rows += _rows(_View(encoder, concepts, [concepts]), design, seed)
    rows += _batch_rows(together)
    densities = tuple(density(name, stimulus.associations) for name, stimulus in together.stimuli.items())
    return T2iatStudy(tuple(rows), densities)


def _batch_rows(view: _View) -> list[Score]:
    """Report how alike neutral pictures of one batch are, by their Asc; no row where every picture is one by itself."""
    stimuli = view.stimuli.values()
    known = [each for each in stimuli if each.batches is not None and len(each.associations)]
    if not known:
        return []
    value = batch_correlation([each.associations[:, None] for each in known], [each.batches for each in known])  # type: ignore[misc]
    return [
        Score(
            metric=PICTURES, component="batches", category="all", encoder="", value=value, flag=BATCHES_KNOWN,
            n_target=sum(each.n for each in known), n_batches=sum(each.n_batches for each in known),
            reason="batches are known: nothing is tested",
        )
    ]  # fmt: skip


def _rows(view: _View, design: T2iatDesign, seed: int) -> list[Score]:
    rows = [
        *_test_rows(view, design, seed),
        *_concept_rows(view, design),
        *_stimulus_rows(view, design),
        *_amplification(view, design, seed),
    ]
    return _bound(_judge(rows, design), view, design, seed)


def _bound(rows: list[Score], view: _View, design: T2iatDesign, seed: int) -> list[Score]:
    """Add bounds for missing images to tests and stimuli; in a test, X goes to one side and Y to the other.

    Bounds of tests leave missing images with an attribute out, and say so.
    """
    if not any((*design.missing.values(), *design.missing_attributes.values())):
        return rows
    fillings = []
    for side in (0, 1):
        filled = [*_test_rows(view, design, seed, side), *_stimulus_rows(view, design, side)]
        fillings.append({_about_row(row): row for row in _judge(filled, design)})
    bounded = []
    for row in rows:
        others = [[filled[_about_row(row)]] for filled in fillings if _about_row(row) in filled]
        ends = stimulus_ends if row.metric == "t2iat" else image_ends
        bounded += with_bounds([row], {MISSING: others}, ends)
    return bounded


def _about_row(row: Score) -> tuple[str, str, str]:
    return row.metric, row.component, row.concept or row.category


def _test_rows(view: _View, design: T2iatDesign, seed: int, side: int | None = None) -> list[Score]:
    """Report S and d of every test; with ``side``, what X lacks filled in to that side, what Y lacks to the other."""

    def seen(concept: SeenConcept, filled: int) -> SeenConcept:
        return concept.filled[filled] if side is not None and concept.filled else concept

    rows: list[Score] = []
    for order, test in enumerate(design.tests):
        to_x, to_y = side or 0, 1 - (side or 0)
        pairs = [
            pair_sets(seen(encoder[test.x], to_x).prompts, seen(encoder[test.y], to_y).prompts)
            for encoder in view.encoders
        ]
        x, y = seen(view.concepts[test.x], to_x), seen(view.concepts[test.y], to_y)
        pair = average_pairs(pairs, x.prompts, y.prompts)
        drawn = partial(_pair_draws, x, y, order)
        association = pair_association(pair, rng=np.random.default_rng([seed, order]), drawn=drawn)
        names = design.stimuli_of(test)
        about = {
            "concept": test.name, "encoder": view.encoder, "n_missing": sum(design.missing.get(s, 0) for s in names),
            "n_repeated": sum(s.repeats for name in (test.x, test.y) for s in view.concepts[name].stimuli.values()),
        }  # fmt: skip
        rows += [with_reasons(row, design.unbounded(names)) for row in _rows_of(association, **about)]
    return rows


def _pair_draws(x: SeenConcept, y: SeenConcept, order: int) -> tuple[PairDraws, PairDraws]:
    """Return replicates of a test, over images and over prompts."""
    images, prompts = zip(x.drawn[order], y.drawn[order], strict=True)
    sets = (x.prompts, y.prompts)
    return difference_draws(images, sets), difference_draws(prompts, sets)


def _rows_of(test: DifferentialAssociation, **about: Any) -> list[Score]:
    """Return the rows of S and d."""
    left_out = f"left out for want of images: {test.left_out} of the prompts" if test.left_out else ""
    about |= {
        "metric": "t2iat", "n_target": test.n_x + test.n_y, "n_a": test.n_a, "n_b": test.n_b,
        "reason": "; ".join(filter(None, (test.reason, left_out))),
    }  # fmt: skip
    statistic = Score(
        component="differential_association", value=test.statistic, low=test.low, high=test.high,
        stimulus_low=test.stimulus_low, stimulus_high=test.stimulus_high, p=test.p_value, test=PROMPT_TEST,
        p_exact=test.exact, p_error=test.p_error, n_splits=storable(test.n_splits), p_method=test.p_method,
        p_low=test.p_low, p_high=test.p_high, family=TEST_FAMILY, **about,
    )  # fmt: skip
    effect_size = Score(
        component="effect_size", value=test.effect_size, low=test.effect_size_low, high=test.effect_size_high,
        stimulus_low=test.effect_size_stimulus_low, stimulus_high=test.effect_size_stimulus_high, **about,
    )  # fmt: skip
    return [statistic, effect_size]


def _concept_rows(view: _View, design: T2iatDesign) -> list[Score]:
    """Report the mean association of each concept with its own attribute images: the two parts of S."""
    rows = []
    for concept in design.concepts:
        seen = view.concepts[concept]
        prompts = seen.prompts
        row = Score(
            metric="association", component="mean", category=concept, encoder=view.encoder, reason=prompts.reason,
            n_target=prompts.n_images, n_a=sum(prompts.sizes_a), n_b=sum(prompts.sizes_b),
            n_repeated=sum(stimulus.repeats for stimulus in seen.stimuli.values()),
        )  # fmt: skip
        if not prompts.reason:
            (low, high), over_prompts = seen.intervals
            stimulus_low, stimulus_high = containing(over_prompts, (low, high))
            reason = "" if isfinite(over_prompts[0]) else "stimulus interval: the concept has one prompt only"
            row = replace(
                row, value=prompts.association, low=low, high=high, stimulus_low=stimulus_low,
                stimulus_high=stimulus_high, reason=reason,
            )  # fmt: skip
        rows.append(row)
    return rows


def _stimulus_rows(view: _View, design: T2iatDesign, side: int | None = None) -> list[Score]:
    """Report Asc of every stimulus and its distribution; with ``side``, Asc alone, what is missing filled in to it."""
    rows: list[Score] = []
    stimuli = view.stimuli
    estimates = {name: stimuli[name].image for _, name in design.stimuli}
    tests = stimulus_tests(stimuli, estimates, missing=None if side is None else design.missing, side=side or 0)
    for category, name in design.stimuli:
        estimate, test, about = estimates[name], tests[name], _about(view, category, name)
        rows.append(
            Score(
                metric="association", component="mean", value=estimate.value if side is None else test.value,
                low=test.low, high=test.high, p=test.p, p_error=0.0, test=TEST, family=STIMULUS_FAMILY,
                reason=estimate.reason, n_missing=design.missing.get(name, 0),
                n_missing_attributes=design.lacking([name]), **about,
            )
        )  # fmt: skip
        rows += distribution_rows(stimuli[name].associations, about) if side is None else []
    return rows


def _amplification(view: _View, design: T2iatDesign, seed: int) -> list[Score]:
    rows: list[Score] = []
    arrows: dict[str, list[tuple[WelchEstimate, WelchEstimate]]] = {}
    stimuli = view.arrows
    heads = {name: stimuli[name].image for _, name in design.stimuli}
    tails = {name: stimuli[name].text for _, name in design.stimuli}
    images = stimulus_tests(stimuli, heads)
    changes = stimulus_tests(stimuli, heads, tails)
    for category, name in design.stimuli:
        arrow = heads[name], tails[name]
        arrows.setdefault(category, []).append(arrow)
        rows += amplification_rows(*arrow, images[name], changes[name], **_about(view, category, name))
    everything = {"all": [arrow for pairs in arrows.values() for arrow in pairs]}
    for order, (category, pairs) in enumerate(({**arrows, **everything} if len(arrows) > 1 else everything).items()):
        rows += overall_rows(pairs, np.random.default_rng([seed, order]), category=category, encoder=view.encoder)
    return rows


def _about(view: _View, category: str, name: str) -> dict[str, Any]:
    """Return what all rows about a stimulus share: its names, and its numbers of images."""
    stimulus = view.concepts[category].stimuli[name]
    return {
        "concept": name, "category": category, "encoder": view.encoder, "n_target": stimulus.n, "n_a": stimulus.n_a,
        "n_b": stimulus.n_b, "n_repeated": stimulus.repeats, "n_batches": stimulus.n_batches,
    }  # fmt: skip


def _judge(rows: Sequence[Score], design: T2iatDesign) -> list[Score]:
    """Return one view's rows with their q-values and verdicts, each within its family and component.

    Tests are judged by the interval over prompts, stimuli by that over images.
    """
    judged: dict[tuple[str, str], tuple[Ends, int]] = {
        ("t2iat", "differential_association"): (stimulus_ends, 0),  # its unit is the prompt
        ("association", "mean"): (image_ends, FEWEST_IMAGES),
    }
    families: dict[tuple[str, str, str], list[int]] = {}
    for place, row in enumerate(rows):
        if row.family:
            families.setdefault((row.metric, row.component, row.family), []).append(place)
    judged_rows = list(rows)
    for (metric, component, family), places in families.items():
        members = corrected([rows[place] for place in places], family)
        if (metric, component) in judged:
            ends, fewest = judged[metric, component]
            members = judge_family(members, a=design.a, b=design.b, margin=design.margin, ends=ends, fewest=fewest)
        for place, row in zip(places, members, strict=True):
            judged_rows[place] = row
    return judged_rows


@dataclass(frozen=True)
class StimulusTest:
    """The mean association of a stimulus, its 95 % interval over images, and the p of 0; NaN where there is none.

    ``stimulus_low``, ``stimulus_high`` : the interval over images and the words of its text.
    """

    low: float = nan
    high: float = nan
    p: float = nan
    stimulus_low: float = nan
    stimulus_high: float = nan
    value: float = nan


def stimulus_tests(
    stimuli: Mapping[str, StimulusCosines] | Mapping[str, MeasuredStimulus],
    estimates: Mapping[str, WelchEstimate],
    texts: Mapping[str, WelchEstimate] | None = None,
    missing: Mapping[str, int] | None = None,
    side: int = 0,
) -> dict[str, StimulusTest]:
    """Test the mean association of every stimulus, less that of its text, against 0.

    ``estimates`` : by name, the mean with its parts: neutral images, images with A, images with B. ``texts`` : the
    association of each text, held fixed but for the stimulus interval; 0 without. ``missing`` : neutral images that are
    not there, assumed to score like those with B (``side`` 0), or with A; and then missing images with an attribute
    move the mean as far as they may.
    """
    all_words = {name: texts[name] if texts else WelchEstimate(0.0) for name in estimates}
    names = [name for name in estimates if np.isfinite([estimates[name].value, all_words[name].value]).all()]
    results = dict.fromkeys(estimates, StimulusTest())
    if not names:
        return results
    words = [all_words[name] for name in names]
    tests = _bounded_means([stimuli[name] for name in names], [estimates[name] for name in names],
                           [text.value for text in words])  # fmt: skip
    if missing is not None:
        lost = []
        for name in names:  # in units of chance, as if missing images came in batches like the others
            n, stimulus = missing.get(name, 0), stimuli[name]
            lost.append(ceil(n * stimulus.n_batches / len(stimulus.associations)) if stimulus.n_batches else n)
        tests = tests.filled(lost, side)
        tests = tests.moved(np.array([getattr(stimuli[name], "shifts", np.zeros(2))[side] for name in names]))
    parts = [list(zip(text.variances, text.freedoms, strict=True)) for text in words]
    outer = tests.with_other(
        np.array([sum(variance for variance, _ in text_parts) for text_parts in parts]),
        np.array([float(welch_satterthwaite(text_parts)) for text_parts in parts]),
    ).interval()
    ends = tests.interval()
    columns = (ends.low, ends.high, tests.p_value, outer.low, outer.high, tests.value)
    return results | {name: StimulusTest(*map(float, numbers)) for name, *numbers in zip(names, *columns, strict=True)}


def _bounded_means(
    stimuli: Sequence[StimulusCosines | MeasuredStimulus], estimates: Sequence[WelchEstimate], offsets: Sequence[float]
) -> BoundedMeans:
    """Return the bounded means of stimuli, with the estimates' variance from attribute images added."""
    shared = [list(zip(estimate.variances[1:], estimate.freedoms[1:], strict=True)) for estimate in estimates]
    poles = np.array([np.nan_to_num(stimulus.poles) for stimulus in stimuli])
    return bounded_means(
        [stimulus.sampled for stimulus in stimuli],
        np.sort(poles, axis=1),
        -np.asarray(offsets, np.float64),
        np.array([sum(variance for variance, _ in parts) for parts in shared]),
        np.array([float(welch_satterthwaite(parts)) for parts in shared]),
    )


FLIP_TEST = "sign flips of the change over stimuli, two-sided"
CHANGE_TEST = f"the images' association against the text's, words fixed: {TEST}"
CHANGE_FAMILY = "change from text to images, over the suite's stimuli"
OVERALL_FAMILY = "mean change from text to images, over the suite's concepts"


def amplification_rows(
    head: WelchEstimate, tail: WelchEstimate, images: StimulusTest, fixed: StimulusTest, **about: Any
) -> list[Score]:
    """Return the rows of one stimulus: tail, head, their difference, and that difference in the text's own direction.

    ::

        change        = Asc(images) − Asc(text)
        amplification = sign(Asc(text)) · change          positive: the images go farther where the text already leaned

    The interval of the head is over images, that of the tail over words. For the change, ``low, high`` hold the words
    fixed and ``stimulus_low, stimulus_high`` do not; the latter contain the former. The two associations are cosines
    between different kinds of things, images and texts, whose spreads differ: the paper compares them as they are, and
    so does this.

    ``head``, ``tail`` : mean association of the images, and of the text. ``images`` : the test of the head; ``fixed`` :
    that of head less tail, words held fixed.
    """
    change, about = head + (-tail), {"metric": "amplification", **about}
    stimulus_low, stimulus_high = tail.interval()
    text = Score(
        component="text", value=tail.value, reason=tail.reason, stimulus_low=stimulus_low, stimulus_high=stimulus_high,
        **about,
    )  # fmt: skip
    image = Score(component="image", value=head.value, low=images.low, high=images.high, reason=head.reason, **about)
    moved = Score(
        component="change", value=change.value, low=fixed.low, high=fixed.high, p=fixed.p, p_error=0.0,
        test=CHANGE_TEST, family=CHANGE_FAMILY, reason=change.reason, stimulus_low=fixed.stimulus_low,
        stimulus_high=fixed.stimulus_high, **about,
    )  # fmt: skip
    # a change in the direction of the text: amplification
    direction = np.sign(tail.value) if np.isfinite(tail.value) else nan
    intervals = (moved.low, moved.high), (moved.stimulus_low, moved.stimulus_high)
    (low, high), (stimulus_low, stimulus_high) = (
        map(float, sorted(direction * np.array(interval))) for interval in intervals
    )
    amplified = replace(
        moved, component="amplification", value=float(direction * moved.value), low=low, high=high, p=nan, p_error=nan,
        test="", family="", stimulus_low=stimulus_low, stimulus_high=stimulus_high,
    )  # fmt: skip
    return [text, image, moved, amplified]


def overall_rows(
    stimuli: Sequence[tuple[WelchEstimate, WelchEstimate]], rng: np.random.Generator, **about: Any
) -> list[Score]:
    """Return means over stimuli of change and amplification, given (head, tail) of each; with a sign-flip test.

    The interval over stimuli is the t interval of the mean. The test flips the signs of the changes: under the null of
    no change each is as likely to be up as down. Every flip is counted while there are at most 34 stimuli.
    """
    heads = np.array([head.value for head, _ in stimuli])
    tails = np.array([tail.value for _, tail in stimuli])
    there = np.isfinite(heads) & np.isfinite(tails)
    change = heads[there] - tails[there]
    left_out = f"left out for want of an association: {(~there).sum()} of the stimuli" if not there.all() else ""
    rows = []
    for component, values in (("change", change), ("amplification", np.sign(tails[there]) * change)):
        fields: dict[str, Any] = {
            "metric": "amplification", "component": component, "family": OVERALL_FAMILY, "n_target": len(values),
        }  # fmt: skip
        if len(values) < 2 or not np.ptp(values) > 1e-12:
            few = "fewer than two stimuli" if len(values) < 2 else "all stimuli change alike"
            value = float(values.mean()) if len(values) else nan
            rows.append(Score(value=value, reason="; ".join(filter(None, (few, left_out))), **fields, **about))
            continue
        mean, flipped = cluster_mean(values), permuted(sign_flip_test(values, rng=rng))
        rows.append(
            Score(value=mean.value, stimulus_low=mean.low, stimulus_high=mean.high, test=FLIP_TEST, reason=left_out,
                  **flipped, **fields, **about)
        )  # fmt: skip
    return rows
