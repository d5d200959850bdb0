"""Every number of an association study, from each encoder's embeddings to rows of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from clinometer.metrics.families import corrected
from clinometer.metrics.records import Score, storable
from clinometer.metrics.t2iat.differential import DifferentialAssociation, pair_association
from clinometer.metrics.t2iat.draws import centred, containing, freedom_of, interval_of, set_draws
from clinometer.metrics.t2iat.sets import PromptSet, average_pairs, average_sets, pair_sets, prompt_set
from clinometer.metrics.t2iat.welch import WelchEstimate
from clinometer.metrics.verdict import FEWEST_IMAGES, Ends, image_ends, judge_family, stimulus_ends
from clinometer.studies.t2iat.scores.amplification import Arrow, amplification_rows, overall_rows
from clinometer.studies.t2iat.scores.design import AssociationDesign, AssociationEmbeddings, DesignedTest
from clinometer.studies.t2iat.scores.stimuli import (
    Density,
    StimulusCosines,
    average_stimulus,
    density,
    distribution_rows,
    image_estimate,
    images_only,
    reading,
    stimulus_cosines,
    text_estimate,
)
from clinometer.studies.t2iat.scores.stimulus_tests import stimulus_tests

PROMPT_TEST = "prompts permuted between X and Y with their images, two-sided"
TEST_FAMILY = "differential associations of the suite"
STIMULUS_FAMILY = "associations of the suite's stimuli"


@dataclass(frozen=True)
class AssociationStudy:
    """Scores, and the distributions that the figures draw."""

    scores: tuple[Score, ...]
    densities: tuple[Density, ...]


@dataclass(frozen=True)
class _EncoderSets:
    """One encoder, or the average of all.

    ``arrows`` are averaged over the encoders that read text: an arrow's two ends must be seen by the same ones.
    """

    encoder: str
    sets: dict[str, list[PromptSet]]
    stimuli: dict[str, StimulusCosines]
    arrows: dict[str, StimulusCosines]


def association_study(
    embeddings: Sequence[AssociationEmbeddings], design: AssociationDesign, *, n_resamples: int, seed: int
) -> AssociationStudy:
    """Differential associations, associations of concepts and stimuli with their quartiles, amplification.

    The first view is the average over encoders (``encoder="mean"``), the others the encoders one by one; all share
    their resamples. q-values are within a view and a family.
    """
    views = _views(embeddings, design)
    rows = _rows(views[0], design, n_resamples, seed)
    if len(embeddings) == 1:  # the average of one encoder is that encoder
        rows += [replace(row, encoder=embeddings[0].encoder) for row in rows]
    else:
        rows += [row for view in views[1:] for row in _rows(view, design, n_resamples, seed)]
    densities = tuple(density(name, cosines.associations) for name, cosines in views[0].stimuli.items())
    return AssociationStudy(tuple(rows), densities)


def _rows(view: _EncoderSets, design: AssociationDesign, n_resamples: int, seed: int) -> list[Score]:
    rows = [
        *_test_rows(view, design, n_resamples, seed),
        *_concept_rows(view, design, n_resamples, seed),
        *_stimulus_rows(view, design),
        *_amplification(view, design, seed),
    ]
    return _judged(_corrected(rows), design)


def _views(embeddings: Sequence[AssociationEmbeddings], design: AssociationDesign) -> list[_EncoderSets]:
    names = [name for stimuli in design.concepts.values() for name in stimuli]
    single = [_view(encoder, design, names) for encoder in embeddings]
    by_name = {name: [view.stimuli[name] for view in single] for name in names}
    mean = _EncoderSets(
        "mean",
        {concept: [view.sets[concept][0] for view in single] for concept in design.concepts},
        {name: average_stimulus([images_only(stimulus) for stimulus in cosines]) for name, cosines in by_name.items()},
        {name: average_stimulus(reading(cosines)) for name, cosines in by_name.items()},
    )
    return [mean, *single]


def _view(embeddings: AssociationEmbeddings, design: AssociationDesign, names: Sequence[str]) -> _EncoderSets:
    stimuli = {name: stimulus_cosines(embeddings, name, design.a, design.b) for name in names}
    sets = {concept: [_prompt_set(embeddings, design, concept)] for concept in design.concepts}
    return _EncoderSets(embeddings.encoder, sets, stimuli, stimuli)


def _prompt_set(embeddings: AssociationEmbeddings, design: AssociationDesign, concept: str) -> PromptSet:
    stimuli = design.concepts[concept]
    parts = [
        [embeddings.neutral[name] for name in stimuli],
        *([embeddings.attribute[name, group] for name in stimuli] for group in (design.a, design.b)),
    ]
    return prompt_set(*parts, name=concept)


def _test_rows(view: _EncoderSets, design: AssociationDesign, n_resamples: int, seed: int) -> list[Score]:
    rows: list[Score] = []
    for order, test in enumerate(design.tests):
        pairs = [pair_sets(x, y) for x, y in zip(view.sets[test.x], view.sets[test.y], strict=True)]
        rng = np.random.default_rng([seed, order])
        rows += _rows_of(pair_association(average_pairs(pairs), resamples=n_resamples, rng=rng), test, view.encoder)
    return rows


def _rows_of(association: DifferentialAssociation, test: DesignedTest, encoder: str) -> list[Score]:
    left_out = f"left out for want of images: {association.left_out} of the prompts" if association.left_out else ""
    about: dict[str, Any] = {
        "metric": "t2iat",
        "concept": test.name,
        "encoder": encoder,
        "n_target": association.n_x + association.n_y,
        "n_a": association.n_a,
        "n_b": association.n_b,
        "reason": "; ".join(part for part in (association.reason, left_out) if part),
    }
    statistic = Score(
        component="differential_association",
        value=association.statistic,
        low=association.low,
        high=association.high,
        stimulus_low=association.stimulus_low,
        stimulus_high=association.stimulus_high,
        p=association.p_value,
        test=PROMPT_TEST,
        p_exact=association.exact,
        p_error=association.p_error,
        n_splits=storable(association.n_splits),
        p_method=association.p_method,
        p_low=association.p_low,
        p_high=association.p_high,
        family=TEST_FAMILY,
        **about,
    )
    effect_size = Score(
        component="effect_size",
        value=association.effect_size,
        low=association.effect_size_low,
        high=association.effect_size_high,
        stimulus_low=association.effect_size_stimulus_low,
        stimulus_high=association.effect_size_stimulus_high,
        **about,
    )
    return [statistic, effect_size]


def _concept_rows(view: _EncoderSets, design: AssociationDesign, n_resamples: int, seed: int) -> list[Score]:
    """Mean association of each concept with its own attribute images: the two parts of S."""
    rows = []
    for order, (concept, sets) in enumerate(view.sets.items()):
        average = average_sets(sets)
        about: dict[str, Any] = {
            "metric": "association",
            "component": "mean",
            "category": concept,
            "encoder": view.encoder,
            "n_target": average.n_images,
            "n_a": sum(average.sizes_a),
            "n_b": sum(average.sizes_b),
        }
        if average.reason:
            rows.append(Score(reason=average.reason, **about))
            continue
        images, prompts = (
            _interval_of_set(average, n_resamples, np.random.default_rng([seed, order, kind]), prompts=bool(kind))
            for kind in (0, 1)
        )
        over_both = containing(prompts, images)
        rows.append(
            Score(
                value=average.association,
                low=images[0],
                high=images[1],
                stimulus_low=over_both[0],
                stimulus_high=over_both[1],
                reason="" if isfinite(prompts[0]) else "stimulus interval: the concept has one prompt only",
                **about,
            )
        )
    return rows


def _interval_of_set(
    concept_set: PromptSet, n_resamples: int, rng: np.random.Generator, *, prompts: bool
) -> tuple[float, float]:
    draws = centred(set_draws(concept_set, n_resamples, rng, prompts=prompts).association, concept_set.association)
    return interval_of(draws, concept_set.association, freedom_of([concept_set], prompts=prompts))


def _stimulus_rows(view: _EncoderSets, design: AssociationDesign) -> list[Score]:
    rows: list[Score] = []
    estimates = {name: image_estimate(view.stimuli[name], design) for _, name in _named(design)}
    tests = stimulus_tests(view.stimuli, estimates)
    for category, name in _named(design):
        estimate, test = estimates[name], tests[name]
        rows.append(
            Score(
                metric="association",
                component="mean",
                value=estimate.value,
                low=test.low,
                high=test.high,
                p=test.p,
                p_error=0.0,
                test=tests.test,
                family=STIMULUS_FAMILY,
                reason=estimate.reason,
                **_about(view, category, name),
            )
        )
        rows += distribution_rows(name, category, view.encoder, view.stimuli[name])
    return rows


def _amplification(view: _EncoderSets, design: AssociationDesign, seed: int) -> list[Score]:
    rows: list[Score] = []
    arrows: dict[str, list[tuple[WelchEstimate, WelchEstimate]]] = {}
    heads = {name: image_estimate(view.arrows[name], design) for _, name in _named(design)}
    tails = {name: text_estimate(view.arrows[name], design) for _, name in _named(design)}
    images = stimulus_tests(view.arrows, heads)
    changes = stimulus_tests(view.arrows, heads, {name: tail.value for name, tail in tails.items()})
    for category, name in _named(design):
        arrows.setdefault(category, []).append((heads[name], tails[name]))
        arrow = Arrow(heads[name], tails[name], images[name], changes[name], changes.test)
        rows += amplification_rows(arrow, **_about(view, category, name))
    everything = {"all": [arrow for pairs in arrows.values() for arrow in pairs]}
    for order, (category, pairs) in enumerate(({**arrows, **everything} if len(arrows) > 1 else everything).items()):
        rows += overall_rows(pairs, np.random.default_rng([seed, order]), category=category, encoder=view.encoder)
    return rows


def _named(design: AssociationDesign) -> list[tuple[str, str]]:
    """(concept, stimulus) pairs in order."""
    return [(concept, name) for concept, stimuli in design.concepts.items() for name in stimuli]


def _about(view: _EncoderSets, category: str, stimulus: str) -> dict[str, Any]:
    """What a row about a stimulus says of it, with its numbers of images."""
    cosines = view.stimuli[stimulus]
    return {
        "concept": stimulus,
        "category": category,
        "encoder": view.encoder,
        "n_target": cosines.image_a.shape[0],
        "n_a": cosines.image_a.shape[1],
        "n_b": cosines.image_b.shape[1],
    }


def _corrected(rows: Sequence[Score]) -> list[Score]:
    """Rows with their q-values, each within its family (and, for overall rows, its component)."""
    families: dict[tuple[str, str, str], list[int]] = {}
    for order, row in enumerate(rows):
        if row.family:
            families.setdefault((row.metric, row.component, row.family), []).append(order)
    corrected_rows = list(rows)
    for members in families.values():
        family = corrected([rows[order] for order in members], rows[members[0]].family)
        for order, row in zip(members, family, strict=True):
            corrected_rows[order] = row
    return corrected_rows


def _judged(rows: Sequence[Score], design: AssociationDesign) -> list[Score]:
    """Rows with their verdicts: of tests by the interval over prompts, of stimuli by that over images."""
    judge: dict[tuple[str, str], tuple[Ends, int]] = {
        ("t2iat", "differential_association"): (stimulus_ends, 0),  # its unit is the prompt
        ("association", "mean"): (image_ends, FEWEST_IMAGES),
    }
    judged_rows = list(rows)
    families = {(row.metric, row.component, row.encoder, row.family) for row in rows if row.family}
    for metric, component, encoder, family in sorted(families):
        if (metric, component) not in judge:
            continue
        ends, fewest = judge[metric, component]
        places = [
            i for i, row in enumerate(rows)
            if (row.metric, row.component, row.encoder, row.family) == (metric, component, encoder, family)
        ]  # fmt: skip
        sides: dict[str, Any] = {"a": design.a, "b": design.b, "margin": design.margin}
        judged = judge_family([rows[i] for i in places], ends=ends, fewest=fewest, **sides)
        for i, row in zip(places, judged, strict=True):
            judged_rows[i] = row
    return judged_rows
