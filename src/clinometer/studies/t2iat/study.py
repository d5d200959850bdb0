"""The T2IAT study: T2IAT from the embeddings of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from clinometer.metrics import Score
from clinometer.ratings import Rated
from clinometer.report import wording
from clinometer.report.differences import Quantity, RunsCompared, own_name
from clinometer.report.page import Page
from clinometer.report.view import Row, scores_table
from clinometer.runs.embeddings import ImageVectors, NamedVectors
from clinometer.runs.run import Run
from clinometer.stats.association import association_scores
from clinometer.studies import study, t2iat
from clinometer.studies.t2iat.compare import compare_t2iat
from clinometer.studies.t2iat.figures import T2IATView, distribution_models_figure, effect_models_figure
from clinometer.studies.t2iat.page import PAGE, QUARTILES
from clinometer.suites import Suite, T2iatSuite


@dataclass(frozen=True)
class Measuring(study.RunWork):
    """The measuring of a run's concepts as work: a unit is some of their numbers.

    Attributes
    ----------
    whole : whether one process measures everything, and reads all parts in turn, or each concept reads its own.
    """

    encoders: tuple[str, ...]
    resamples: int
    whole: bool

    def on(self, run: Run) -> Callable[[study.Unit], list[tuple[int, t2iat.MeasuredConcept]]]:
        """See :class:`~clinometer.studies.study.RunWork`."""
        suite = study.suite_of(run, T2iatSuite)
        vectors = [ImageVectors(run.vectors, encoder, left_out=run.left_out()) for encoder in self.encoders]
        embeddings = [_embeddings(run, suite, *pair) for pair in zip(self.encoders, vectors, strict=True)]
        design = with_missing(t2iat_design(suite), run)
        measure = t2iat.ConceptMeasurer(embeddings, design, self.resamples, run.record["seed"])
        concepts = list(suite.concepts.values())
        owners = [[(s.name, group) for s in concept.stimuli for group in ("", *suite.pair)] for concept in concepts]

        def measured(unit: study.Unit) -> list[tuple[int, t2iat.MeasuredConcept]]:
            for images in vectors:
                images.read(None if self.whole else [owner for number in unit for owner in owners[number]])
            return [(number, measure(number)) for number in unit]

        return measured


def with_missing(design: t2iat.T2iatDesign, run: Run) -> t2iat.T2iatDesign:
    """Add to a design how many images of each stimulus, neutral and with an attribute, are missing."""
    neutral, others = _missing(run)
    return replace(design, missing=neutral, missing_attributes=others)


def _missing(run: Run) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Count missing images: neutral ones by stimulus, others by stimulus and attribute."""
    rows, left_out = run.drawn.each(["id", "concept", "group", "status"]), run.left_out()
    lost = Counter((name, group) for key, name, group, status in rows if status != "ok" or key in left_out)
    neutral = Counter({name: n for (name, group), n in lost.items() if not group})
    return neutral, Counter({owner: n for owner, n in lost.items() if owner[1]})


def t2iat_design(suite: T2iatSuite) -> t2iat.T2iatDesign:
    """Return the suite as the metrics see it: names, no prompts' texts."""
    return t2iat.T2iatDesign(
        concepts={name: tuple(s.name for s in concept.stimuli) for name, concept in suite.concepts.items()},
        tests=tuple(t2iat.DesignedTest(test.name, test.x, test.y) for test in suite.tests),
        a=suite.axis.a,
        b=suite.axis.b,
        margin=suite.margin,
    )


def t2iat_embeddings(
    run: Run, suite: T2iatSuite, encoder: str, keep: Collection[int] | None = None
) -> t2iat.T2iatEmbeddings:
    """Return one encoder's vectors, by stimulus and attribute; with ``keep``, those of images with these seeds alone.

    They are read once and kept in a temporary file.
    """
    vectors = ImageVectors(run.vectors, encoder, keep, run.left_out())
    vectors.read()
    return _embeddings(run, suite, encoder, vectors)


def _embeddings(run: Run, suite: T2iatSuite, encoder: str, vectors: ImageVectors) -> t2iat.T2iatEmbeddings:
    texts, neutral_texts, attribute_texts = run.texts(encoder), suite.neutral_texts(), suite.attribute_texts()
    read = bool(texts)  # an encoder without a text tower has none
    return t2iat.T2iatEmbeddings(
        encoder=encoder,
        neutral=NamedVectors(vectors, {name: (name, "") for name in neutral_texts}),
        attribute=NamedVectors(vectors, {key: key for key in attribute_texts}),
        neutral_texts={name: texts[text] for name, text in neutral_texts.items() if read},
        attribute_texts={
            key: np.stack([texts[text] for text in group_texts]) for key, group_texts in attribute_texts.items() if read
        },
        repeats={name: vectors.repeats[name, ""] for name in neutral_texts},
        saved_again=run.vectors.saved_again(encoder),
        batches=_batches(run, vectors.keep),
    )


def _batches(run: Run, keep: Collection[int] | None) -> dict[tuple[str, str], np.ndarray]:
    """Return the batch of each image that is there, by stimulus and attribute, where two of one came in one batch."""
    without = {*(run.drawn.repeats() if keep is None else ()), *run.left_out()}
    labels: dict[tuple[str, str], list[str]] = {}
    columns = ["id", "concept", "group", "seed", "status", "batch"]
    for place, (key, concept, group, seed, status, batch) in enumerate(run.drawn.each(columns)):
        if status == "ok" and key not in without and (keep is None or seed in keep):
            labels.setdefault((concept, group or ""), []).append(batch or f"\0{place}")
    return {owner: np.array(batches) for owner, batches in labels.items() if len(set(batches)) < len(batches)}


def test_name(suite: Suite, row: Row) -> str:
    """Return the label of a row's test, by its two concepts."""
    shaped = study.in_shape(suite, T2iatSuite)
    test = next((test for test in shaped.tests if test.name == row.concept), None)
    return shaped.test_label(test) if test else own_name(suite, row)


TEST: Final = Quantity(
    component="differential_association",
    symbol="S",
    unit="test",
    column="ΔS",
    to_decide="neutral images, with prompts in proportion",
    counted="test",
    positive="the first concept, compared with the other, is nearer to {a} than in {first}",
    over="prompts",
    name=test_name,
    short_name=own_name,
)
PROMPT: Final = Quantity(
    component="association",
    symbol="Asc",
    unit="prompt",
    column="ΔAsc",
    to_decide="neutral images, with those of the attributes in proportion",
    counted="prompt",
    positive="the prompt leans more to {a} than in {first}",
)


def read_by_attribute_images(run: Run, encoder: str) -> dict[str, float]:
    """Return by id how much nearer each neutral image is to its stimulus' images with a than to those with b."""
    vectors, _ = run.embedded(encoder)
    margins: dict[str, float] = {}
    drawn: dict[tuple[str, str], list[str]] = {}
    for sample in run.plan:
        if sample.id in vectors:
            drawn.setdefault((sample.concept, sample.group), []).append(sample.id)
    suite = study.in_shape(run.suite, T2iatSuite)
    for _, stimulus in suite.stimuli():
        ids = [drawn.get((stimulus.name, group), []) for group in ("", *suite.pair)]
        if all(ids):
            images, a, b = (np.stack([vectors[i] for i in group_ids]) for group_ids in ids)
            margins |= dict(zip(ids[0], association_scores(images, a, b).tolist(), strict=True))
    return margins


class AssociationsCompared(RunsCompared[T2iatSuite]):
    """Differential associations of two models."""

    view = T2IATView
    bars = ("images", "prompts")
    magnitude_over_prompts = True

    def quantities(self, suite: T2iatSuite) -> Sequence[Quantity]:
        """List tests, where the suite has any, and prompts."""
        return (TEST, PROMPT) if suite.tests else (PROMPT,)

    def label_a(self, suite: T2iatSuite) -> str:
        """Return what a positive number leans to."""
        return suite.label_of(suite.axis.a)

    def side_by_side(self, views: Mapping[str, T2IATView], encoder: str) -> dict[str, Any]:
        """Gather figures and tables of several T2IAT runs, from the one encoder of the views."""
        first = next(iter(views.values()))
        figures = [
            (first.concept_label(name), distribution_models_figure(views, name)) for name in first.suite.concepts
        ]

        def test_cells(view: T2IATView, test: str) -> list[str]:
            """Write S, p and d, as the T2IAT paper's table prints them."""
            statistic, effect = view.statistics.get(test, Row()), view.effect_sizes.get(test, Row())
            p = wording.bare_probability(statistic.p) or wording.MISSING
            return [wording.signed(statistic.value, 3), p, wording.signed(effect.value)]

        def stimulus_cells(view: T2IATView, name: str) -> list[str]:
            rows = [view.associations, *(view.scores.by_concept("association", part) for part in QUARTILES)]
            return [wording.signed(by_name.get(name, Row()).value, 3) for by_name in rows]

        return {
            "margin": first.suite.margin,
            "effects": effect_models_figure(views),
            "tests": [
                {"name": first.suite.test_label(test),
                 "cells": [test_cells(view, test.name) for view in views.values()]}
                for test in first.suite.tests
            ],
            "figures": [entry for entry in figures if entry[1] is not None],
            "stimuli": [
                {"name": stimulus.name, "concept": first.concept_label(concept),
                 "cells": [stimulus_cells(view, stimulus.name) for view in views.values()]}
                for concept, stimulus in first.suite.stimuli()
            ],
        }  # fmt: skip


TESTS: Final = {
    "flowers-insects": "Flower",
    "instruments-weapons": "Musical Instrument",
    "european-african-american": "European American",
    "light-dark-skin": "Light skin",
    "straight-gay": "Straight",
    "judaism-christianity": "Judaism",
    "science-arts": "Science",
    "career-family": "Careers",
}
"""The tests of the T2IAT paper's table 1 by the first of their two concepts."""

SETS: Final = {
    "Flowers": "flowers",
    "Insects": "insects",
    "Musical Instrument": "instruments",
    "Weapon": "weapons",
    "Science": "science",
    "Arts": "arts",
    "Careers": "career",
    "Family": "family",
}
"""The sets of stimuli of the T2IAT paper's table 2, by the names that its suites have for them."""

PEOPLE: Final = "fraction by people"
MACHINE: Final = "association by the machine"
"""Columns of that table: what people said, and the machine's number next to it here."""


def test_cells(table: study.PrintedTable) -> Iterator[study.PrintedCell]:
    """Yield S, p and d of the run's tests."""
    tests = {test.name for test in study.in_shape(table.suite, T2iatSuite).tests}
    for name in (suite.rpartition("/")[2] for suite in table.answered):
        if table.own_name(name) not in tests:
            continue
        (row,) = [row for row in table.rows if row["concept_x"] == TESTS[name]]
        association = table.find("t2iat", "differential_association", concept=name)
        yield table.cell(row, "association_score", "S", association, concept=name)
        p_value = study.RunNumber(association.p, encoder=association.encoder)
        yield table.cell(row, "p_value", "p", p_value, concept=name)
        effect = table.find("t2iat", "effect_size", concept=name)
        yield table.cell(row, "effect_size_d", "d", effect, concept=name)


def people_cells(table: study.PrintedTable) -> Iterator[study.PrintedCell]:
    """Yield the fraction that people tied to the first attribute, and what the machine says of the set of stimuli."""
    suite = study.in_shape(table.suite, T2iatSuite)
    for row in table.rows:
        name = SETS[row["concept"]]
        if table.own_name(name) not in suite.concepts:
            continue
        people = table.find("human", "fraction", encoder="", concept=name, group=suite.axis.a)
        if not isfinite(people.value):
            people = replace(people, notes=("nobody has rated these pictures",))
        yield table.cell(row, "fraction_choosing_first", PEOPLE, people, concept=name)
        machine = table.find("association", "mean", category=name)
        yield table.cell(row, "", MACHINE, replace(machine, notes=()), concept=name)


def occupation_cells(table: study.PrintedTable) -> Iterator[study.PrintedCell]:
    """Yield the associations of an occupation's text and images."""
    texts = study.in_shape(table.suite, T2iatSuite).neutral_texts()
    for row in table.rows:
        name = row["occupation"]
        if table.own_name(name) in texts:
            for column, component in (("text", "text"), ("images", "image")):
                number = table.find("amplification", component, concept=name)
                yield table.cell(row, column, column, number, concept=name)


class T2iat(study.Study[T2iatSuite]):
    """Differential associations between pictures of two targets and of two attributes (T2IAT)."""

    key = "t2iat"
    suite = T2iatSuite
    printed_tables: ClassVar[Mapping[str, study.PrintedCells]] = {
        "t2iat": test_cells,
        "t2iat_human": people_cells,
        "t2iat_occupations": occupation_cells,
    }

    def page(self, suite: T2iatSuite) -> Page[Any]:
        """Show differential associations."""
        return PAGE

    def comparison(self, suite: T2iatSuite) -> RunsCompared[T2iatSuite]:
        """Compare differential associations."""
        return AssociationsCompared()

    def score(self, run: Run, resamples: int, pool: study.Pool | None = None) -> study.Scored:
        """Return every number of the T2IAT study, and the distributions that its figures draw.

        With a ``pool``, its processes measure the concepts.
        """
        suite = study.suite_of(run, T2iatSuite)
        design, numbers = with_missing(t2iat_design(suite), run), range(len(suite.concepts))
        encoders = tuple(run.encoder_cards)
        for encoder in encoders:
            run.vectors.require_finished(encoder)
        most_images = max(Counter(run.plan.column("category").to_pylist()).values(), default=0)
        bytes_per_view = 8 * most_images + 32 * resamples * len(design.tests)
        work = Measuring(run.directory.place, encoders, resamples, whole=pool is None)
        names = [f"concept {name!r}" for name in suite.concepts]
        measured = study.map_units(work, run, numbers, names, pool, size=(len(encoders) + 1) * bytes_per_view)
        measures = t2iat.t2iat_study_of(encoders, design, chain.from_iterable(measured), seed=run.record["seed"])
        # densities point by point, and the images beyond the whiskers
        rows: list[tuple[str, str, float, float]] = []
        for density in measures.densities:
            name, points = density.stimulus, zip(density.x, density.y, strict=True)
            rows += [("association_density", name, x, y) for x, y in points]
            rows += [("association_outlier", name, x, 0.0) for x in density.outliers]
        columns = {"curve": str, "concept": str, "x": float, "y": float}
        return study.Scored(scores_table(measures.scores), pd.DataFrame(rows, columns=list(columns)).astype(columns))

    def compare(self, pairing: study.Pairing) -> list[Score]:
        """Compare two runs, second minus first."""
        suite, seeds = study.suite_of(pairing.runs[0], T2iatSuite), pairing.seeds
        first, second = (
            [t2iat_embeddings(run, suite, name, seeds) for name in pairing.encoders] for run in pairing.runs
        )
        neutral, others = zip(*map(_missing, pairing.runs), strict=True)
        return compare_t2iat(
            first, second, replace(t2iat_design(suite), missing_attributes=others[0] + others[1]),
            paired=pairing.paired, n_resamples=pairing.resamples, seed=pairing.seed, missing=neutral,
        )  # fmt: skip

    def compared_groups(self, suite: T2iatSuite) -> Sequence[study.ComparedGroups]:
        """Return the two attributes."""
        axis = suite.axis
        return (study.ComparedGroups(axis.a, axis.b),)

    def counts_images(self, row: Row) -> bool:
        """Return whether a row counts all images of its stimulus."""
        return row.metric == "association"

    def rated(self, suite: T2iatSuite) -> Rated:
        """Rate neutral images of stimuli, those of a concept at once, read by the stimulus' attribute images."""
        axis = suite.axis
        return Rated(
            suite.name, (axis.a, axis.b), "", study.named_answers(suite), column="category",
            machine=(("association", "mean"),), read=read_by_attribute_images,
        )  # fmt: skip

    def judged(self, suite: T2iatSuite) -> Sequence[tuple[str, str]]:
        """Return the differential association of every test."""
        return [("differential_association", test.name) for test in suite.tests]


T2IAT: Final = T2iat()
