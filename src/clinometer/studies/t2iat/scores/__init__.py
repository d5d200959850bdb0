"""Every number of a T2IAT study, from each encoder's embeddings to rows of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.differences import with_reasons
from clinometer.metrics.records import BATCHES_KNOWN, PICTURES, Score, corrected, storable
from clinometer.metrics.t2iat.differential import DifferentialAssociation, pair_association
from clinometer.metrics.t2iat.draws import PairDraws, WelchEstimate, containing, difference_draws
from clinometer.metrics.t2iat.sets import average_pairs, pair_sets
from clinometer.metrics.verdict import (
    FEWEST_IMAGES,
    MISSING,
    Ends,
    image_ends,
    judge_family,
    stimulus_ends,
    with_bounds,
)
from clinometer.stats.batches import batch_correlation
from clinometer.studies.t2iat.scores.stimuli import (
    ConceptMeasurer,
    Density,
    DesignedTest,
    MeasuredConcept,
    MeasuredStimulus,
    SeenConcept,
    T2iatDesign,
    T2iatEmbeddings,
    density,
    distribution_rows,
)
from clinometer.studies.t2iat.scores.stimulus_tests import Arrow, amplification_rows, overall_rows, stimulus_tests

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
        """The same by the encoders that read text."""
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
    """Return the same of measured concepts, each with its number, in any order.

    ``measured`` : what a :class:`ConceptMeasurer` of these encoders and this seed says of them, in whatever process.

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
        for encoder, own in zip(encoders, single, strict=True):
            rows += _rows(_View(encoder, own, [own]), design, seed)
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
    return _bound(_judge(_correct(rows), design), view, design, seed)


def _bound(rows: list[Score], view: _View, design: T2iatDesign, seed: int) -> list[Score]:
    """Add bounds for missing images to tests and stimuli; in a test, X goes to one side and Y to the other.

    Bounds of tests leave missing images with an attribute out, and say so.
    """
    if not any((*design.missing.values(), *design.missing_attributes.values())):
        return rows
    fillings = []
    for side in (0, 1):
        filled = [*_test_rows(view, design, seed, side), *_stimulus_rows(view, design, side)]
        fillings.append({_about_row(row): row for row in _judge(_correct(filled), design)})
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
        again = sum(s.repeats for name in (test.x, test.y) for s in view.concepts[name].stimuli.values())
        names = [s for name in (test.x, test.y) for s in design.concepts[name]]
        lost, unbounded = sum(design.missing.get(s, 0) for s in names), design.unbounded(names)
        rows += [
            replace(with_reasons(row, unbounded), n_repeated=again, n_missing=lost)
            for row in _rows_of(association, test, view.encoder)
        ]
    return rows


def _pair_draws(x: SeenConcept, y: SeenConcept, order: int) -> tuple[PairDraws, PairDraws]:
    """Return replicates of a test, over images and over prompts."""
    images, prompts = zip(x.drawn[order], y.drawn[order], strict=True)
    sets = (x.prompts, y.prompts)
    return difference_draws(images, sets), difference_draws(prompts, sets)


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


def _concept_rows(view: _View, design: T2iatDesign) -> list[Score]:
    """Mean association of each concept with its own attribute images: the two parts of S."""
    rows = []
    for concept in design.concepts:
        seen = view.concepts[concept]
        prompts = seen.prompts
        about: dict[str, Any] = {
            "metric": "association",
            "component": "mean",
            "category": concept,
            "encoder": view.encoder,
            "n_target": prompts.n_images,
            "n_a": sum(prompts.sizes_a),
            "n_b": sum(prompts.sizes_b),
            "n_repeated": sum(stimulus.repeats for stimulus in seen.stimuli.values()),
        }
        if prompts.reason:
            rows.append(Score(reason=prompts.reason, **about))
            continue
        over_images, over_prompts = seen.intervals
        over_both = containing(over_prompts, over_images)
        rows.append(
            Score(
                value=prompts.association,
                low=over_images[0],
                high=over_images[1],
                stimulus_low=over_both[0],
                stimulus_high=over_both[1],
                reason="" if isfinite(over_prompts[0]) else "stimulus interval: the concept has one prompt only",
                **about,
            )
        )
    return rows


def _stimulus_rows(view: _View, design: T2iatDesign, side: int | None = None) -> list[Score]:
    """Report Asc of every stimulus and its distribution; with ``side``, Asc alone, what is missing filled in to it."""
    rows: list[Score] = []
    stimuli = view.stimuli
    estimates = {name: stimuli[name].image for _, name in _list_pairs(design)}
    tests = stimulus_tests(stimuli, estimates, missing=None if side is None else design.missing, side=side or 0)
    for category, name in _list_pairs(design):
        estimate, test = estimates[name], tests[name]
        rows.append(
            Score(
                metric="association",
                component="mean",
                value=estimate.value if side is None else test.value,
                low=test.low,
                high=test.high,
                p=test.p,
                p_error=0.0,
                test=tests.test,
                family=STIMULUS_FAMILY,
                reason=estimate.reason,
                n_missing=design.missing.get(name, 0),
                n_missing_attributes=design.lacking([name]),
                **_about(view, category, name),
            )
        )
        rows += distribution_rows(name, category, view.encoder, stimuli[name]) if side is None else []
    return rows


def _amplification(view: _View, design: T2iatDesign, seed: int) -> list[Score]:
    rows: list[Score] = []
    arrows: dict[str, list[tuple[WelchEstimate, WelchEstimate]]] = {}
    read = view.arrows
    heads = {name: read[name].image for _, name in _list_pairs(design)}
    tails = {name: read[name].text for _, name in _list_pairs(design)}
    images = stimulus_tests(read, heads)
    changes = stimulus_tests(read, heads, tails)
    for category, name in _list_pairs(design):
        arrows.setdefault(category, []).append((heads[name], tails[name]))
        arrow = Arrow(heads[name], tails[name], images[name], changes[name], changes.test)
        rows += amplification_rows(arrow, **_about(view, category, name))
    everything = {"all": [arrow for pairs in arrows.values() for arrow in pairs]}
    for order, (category, pairs) in enumerate(({**arrows, **everything} if len(arrows) > 1 else everything).items()):
        rows += overall_rows(pairs, np.random.default_rng([seed, order]), category=category, encoder=view.encoder)
    return rows


def _list_pairs(design: T2iatDesign) -> list[tuple[str, str]]:
    """Return (concept, stimulus) pairs in order."""
    return [(concept, name) for concept, stimuli in design.concepts.items() for name in stimuli]


def _about(view: _View, category: str, name: str) -> dict[str, Any]:
    """Return what a row about a stimulus says of it, with its numbers of images."""
    stimulus = view.concepts[category].stimuli[name]
    return {
        "concept": name,
        "category": category,
        "encoder": view.encoder,
        "n_target": stimulus.n,
        "n_a": stimulus.n_a,
        "n_b": stimulus.n_b,
        "n_repeated": stimulus.repeats,
        "n_batches": stimulus.n_batches,
    }


def _correct(rows: Sequence[Score]) -> list[Score]:
    """Return rows with their q-values, each within its family (and, for overall rows, its component)."""
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


def _judge(rows: Sequence[Score], design: T2iatDesign) -> list[Score]:
    """Return rows with their verdicts: of tests by the interval over prompts, of stimuli by that over images."""
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
