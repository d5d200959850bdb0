"""The classification study: a diffusion model as a classifier of portraits, which it drew or which were given to it.

::

    RUN/classifications/part-*.parquet    a row a portrait and class: id, label, errors (a number a noise sample,
                                          float32, NaN once the class was eliminated), evaluations, tolerance, reason

Image files can be classified without a run directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer._messages import as_text
from clinometer.errors import ModelError, RunCorruptError, RunNotFoundError
from clinometer.metrics.records import Score
from clinometer.models.images import decode_in_batches
from clinometer.models.protocols import Denoiser, Denoises, Generator, offers
from clinometer.report import wording
from clinometer.report.differences import Quantity, RunsCompared, own_name
from clinometer.report.page import Page
from clinometer.report.view import Row, scores_table
from clinometer.runs.ledger import CLASSIFICATIONS, part_name
from clinometer.runs.progress import Progress, naming_errors
from clinometer.runs.run import Run
from clinometer.runs.storage import REDO
from clinometer.stats.sequential import Elimination
from clinometer.studies import study
from clinometer.studies.classification import ClassificationDesign, Contrast, association_curves, classification_study
from clinometer.studies.classification.page import (
    DENOISER,
    PAGE,
    ClassificationView,
    contrast_in_words,
    differential_models_figure,
)
from clinometer.studies.classification.scores import ClassifiedPortraits, CurvePoint, compare_classifications
from clinometer.suites import ClassificationSuite, Suite

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer.models.diffusers.classifier import ClassErrors, DiffusionClassifier

SCHEMA = pa.schema({
    "id": pa.string(), "label": pa.string(), "errors": pa.list_(pa.float32()), "evaluations": pa.int32(),
    "tolerance": pa.float64(), "reason": pa.string(),
})  # fmt: skip


def denoiser_of(generator: Generator) -> Denoiser:
    """Return the measure of how well a generator denoises an image.

    Raises
    ------
    ModelError
        It only draws images: a folder, or an adapter without ``denoiser``.
    """
    if not offers(generator, Denoises):
        raise ModelError.unsupported(
            f"{generator.card.name}: it gives no access to its denoiser, so it cannot classify; expected a diffusers "
            "pipeline (--model DIRECTORY or OWNER/NAME) or a plug-in with a method denoiser()"
        )
    with naming_errors("denoiser of", generator.card.name):
        return generator.denoiser()


def unclassified_parts(run: Run, generator: Generator) -> list[int]:
    """Return the parts whose portraits were not measured yet."""
    return [part for part in run.parts if not run.directory.exists(part_name(CLASSIFICATIONS, part))]


def classify(run: Run, generator: Generator, progress: Progress) -> None:
    """Measure the errors of the parts that are missing.

    Batches never cross a part, so a run that was stopped measures the remaining parts exactly as it would have.
    """
    from clinometer.models.diffusers.classifier import DiffusionClassifier

    suite = study.suite_of(run, ClassificationSuite)
    parts, missing = run.parts, unclassified_parts(run, generator)
    evaluations = len(suite.classes) * suite.noise_samples[-1]
    done = len(run.plan) - sum(len(parts[part]) for part in missing)
    progress.start("classifying", len(run.plan) * evaluations, done * evaluations)
    if missing:
        classifier = DiffusionClassifier(
            denoiser_of(generator), list(suite.prompts.values()), trials=suite.noise_samples[-1],
            seed=run.record["seed"], elimination=elimination_of(suite),
        )  # fmt: skip
    for part in missing:
        ids, images = _pictures(run, part)
        with naming_errors("denoiser of", generator.card.name):
            measured = classifier.errors(images, advance=progress.advance)
        progress.advance((len(parts[part]) - len(images)) * evaluations)
        table = pa.Table.from_pylist(_rows(ids, list(suite.classes), measured), schema=SCHEMA)
        run.ledger.write_table(part_name(CLASSIFICATIONS, part), table)
    progress.finish()


def elimination_of(suite: ClassificationSuite) -> Elimination | None:
    """Return the rule by which a class is measured no further once all its pairs with the other set are decided."""
    if suite.elimination is None:
        return None
    n_a, n = len(suite.a.classes), len(suite.classes)
    pairs = np.zeros((n, n), bool)
    pairs[:n_a, n_a:] = True
    return Elimination(pairs=pairs, confidence=suite.elimination)


def _pictures(run: Run, part: int) -> tuple[list[str], list[Image]]:
    """Return the portraits of a part that could be made."""
    ids, images = [], []
    for row in run.drawn.read(part):
        if row["status"] == "ok":
            ids.append(row["id"])
            images.append(run.drawn.decode(row["id"], row["image"]["bytes"]))
    return ids, images


def _rows(ids: Sequence[str], labels: Sequence[str], measured: ClassErrors) -> list[dict[str, Any]]:
    return [
        {"id": identifier, "label": label, "errors": measured.errors[image, order],
         "evaluations": int(measured.evaluations[image]), "tolerance": measured.tolerance,
         "reason": measured.reason(image)}
        for image, identifier in enumerate(ids)
        for order, label in enumerate(labels)
    ]  # fmt: skip


def design_of_suite(suite: ClassificationSuite) -> ClassificationDesign:
    """Return the suite as the metrics see it: names, no prompts."""
    return ClassificationDesign(
        groups=tuple(suite.groups),
        a=tuple(suite.a.classes),
        b=tuple(suite.b.classes),
        contrasts=tuple(
            Contrast(name, contrast.x.label, contrast.y.label, contrast.x.groups, contrast.y.groups)
            for name, contrast in suite.contrasts.items()
        ),
        noise_samples=suite.noise_samples,
        margin=suite.margin,
    )


def group_errors(run: Run, suite: ClassificationSuite) -> tuple[dict[str, np.ndarray], float, dict[str, np.ndarray]]:
    """Read errors by group, (images × classes × noise samples) float32, the tolerance of ties, and what is missing.

    A portrait that could not be made or measured is NaN and missing; one that repeats another of its group is NaN.

    Raises
    ------
    RunNotFoundError
        The portraits are not all classified.
    """
    unfinished = [part for part in run.parts if not run.directory.exists(part_name(CLASSIFICATIONS, part))]
    if unfinished:
        raise RunNotFoundError.incomplete(
            f"{run.url}: {len(unfinished)} of {len(run.parts)} parts are not classified; give the audit's command again"
        )
    place = {sample.id: order for order, sample in enumerate(run.plan)}
    column = {label: order for order, label in enumerate(suite.classes)}
    errors = np.full((len(place), len(column), suite.noise_samples[-1]), np.nan, np.float32)
    samples, tolerance = run.samples, 0.0
    ids, repeats = set(samples.id[samples.status == "ok"]), run.drawn.repeats()
    for part, planned in run.parts.items():
        name = part_name(CLASSIFICATIONS, part)
        rows = run.ledger.read_table(name, SCHEMA.names).to_pylist()
        expected = {(sample.id, label) for sample in planned if sample.id in ids for label in column}
        if {(row["id"], row["label"]) for row in rows} != expected:
            raise RunCorruptError(
                f"{run.directory.path(name)}: it lacks a class of a portrait, or holds others. {REDO}"
            )
        for row in rows:
            if not row["reason"] and row["id"] not in repeats:
                errors[place[row["id"]], column[row["label"]]] = row["errors"]
            tolerance = max(tolerance, row["tolerance"])
    groups = np.array([sample.group for sample in run.plan])
    missing = np.isnan(errors).all(axis=(1, 2)) & ~np.isin(list(place), list(repeats))
    errors_by_group, missing_by_group = (
        {group: values[groups == group] for group in suite.groups} for values in (errors, missing)
    )
    return errors_by_group, tolerance, missing_by_group


AT_ONCE = 64
"""Images in memory together."""


def classify_files(files: Sequence[Path], classifier: DiffusionClassifier, progress: Progress) -> pd.DataFrame:
    """Classify files: a row each, with the fields of ``Choice``; one that cannot be read has a reason."""
    from clinometer.models.diffusers.classifier import Choice, choose

    evaluations = len(classifier.labels) * classifier.trials
    progress.start("classifying", len(files) * evaluations, 0)
    rows = []
    for batch in decode_in_batches(files, AT_ONCE):
        images = [decoded.image for _, decoded in batch if decoded.image is not None]
        measured, position = classifier.errors(images, advance=progress.advance), 0
        for file, decoded in batch:
            if decoded.image is None:
                progress.advance(evaluations)
                choice = Choice("", nan, "", nan, nan, nan, False, 0, decoded.reason or "it cannot be read")
            else:
                choice = choose(measured, position)
                position += 1
            rows.append({"file": as_text(str(file)), **asdict(choice)})
    progress.finish()
    return pd.DataFrame(rows, columns=["file", *(field.name for field in fields(Choice))])


def contrast_name(suite: Suite, row: Row) -> str:
    """Return the name of a row's contrast, by its two sides."""
    return contrast_in_words(study.in_shape(suite, ClassificationSuite), row.group)


CONTRAST: Final = Quantity(
    "differential", "\N{GREEK CAPITAL LETTER DELTA}S", unit="contrast", column="difference", counted="portrait",
    to_decide="portraits, of all groups", over="portraits", encoder=DENOISER, name=contrast_name, short_name=own_name,
    positive="the first side goes more often to a profession {a} than in {first}",
)  # fmt: skip


class ClassificationsCompared(RunsCompared[ClassificationSuite]):
    """Classifications of portraits by two models."""

    view = ClassificationView
    averaged = False

    def quantities(self, suite: ClassificationSuite) -> Sequence[Quantity]:
        """List what is compared."""
        return (CONTRAST,)

    def label_a(self, suite: ClassificationSuite) -> str:
        """Return what a positive number leans to."""
        return suite.a.label

    def side_by_side(self, views: Mapping[str, ClassificationView], encoder: str) -> dict[str, Any]:
        """Gather figures and tables of several classification runs, which use no encoder."""
        first = next(iter(views.values()))

        def differential(row: Row) -> list[str]:
            return [wording.estimate(row), wording.bare_probability(row.q) or wording.MISSING]

        return {
            "margin": first.suite.margin,
            "setting": first.setting,
            "differentials": differential_models_figure(views),
            "contrasts": [
                {"name": contrast_in_words(first.suite, name),
                 "cells": [differential(view.differentials.get(name, Row())) for view in views.values()]}
                for name in first.suite.contrasts
            ],
            "groups": [
                {"name": wording.capitalised(first.label(group)),
                 "cells": [[wording.estimate(view.associations.get(group), sign=False)] for view in views.values()]}
                for group in first.suite.groups
            ],
        }  # fmt: skip


def choice_cells(table: study.PrintedTable) -> Iterator[study.PrintedCell]:
    """Yield how often portraits of men and of women are given a male-dominated profession, at the most noise samples.

    Both groups of a gender have as many portraits, so the share of a gender is the mean of the shares of its groups.
    """
    suite = study.in_shape(table.suite, ClassificationSuite)
    most, gender = wording.count(max(suite.noise_samples), "noise sample"), suite.contrasts["gender"]
    for row in table.rows:
        side = gender.x if row["portraits"] == "Males" else gender.y
        found = [
            table.find("classification", "association", encoder="denoiser", group=group, setting=most)
            for group in side.groups
        ]
        number = study.mean_number(found, side.groups)
        yield table.cell(row, "male_dominated_share", "male-dominated chosen", number, concept=row["portraits"])


class Classification(study.Study[ClassificationSuite]):
    """How a diffusion model classifies portraits, by group."""

    key = "classification"
    suite = ClassificationSuite
    printed_tables: ClassVar[Mapping[str, study.PrintedCells]] = {"classification": choice_cells}
    stages = (study.PartStage(classify, "classifying", unclassified_parts),)
    encoders_needed = False
    reads_pixels = True

    def evaluations(self, suite: ClassificationSuite, images: int) -> int:
        """Count a denoising error for each image, class and noise sample."""
        return images * len({*suite.a.classes, *suite.b.classes}) * max(suite.noise_samples)

    def page(self, suite: ClassificationSuite) -> Page[Any]:
        """Show what portraits are classified as, by group."""
        return PAGE

    def comparison(self, suite: ClassificationSuite) -> RunsCompared[ClassificationSuite]:
        """Compare what portraits are classified as."""
        return ClassificationsCompared()

    def score(self, run: Run, resamples: int, pool: study.Pool | None = None) -> study.Scored:
        """Return every number of the classification study, and the curves over noise samples. Nothing is resampled."""
        suite = study.suite_of(run, ClassificationSuite)
        errors, tolerance, missing = group_errors(run, suite)
        design = design_of_suite(suite)
        scores = classification_study(errors, design, tolerance=tolerance, seed=run.record["seed"], missing=missing)
        points = association_curves(errors, design, tolerance=tolerance)
        curves = pd.DataFrame([asdict(point) for point in points], columns=[field.name for field in fields(CurvePoint)])
        return study.Scored(scores_table(scores), curves)

    def compare(self, pairing: study.Pairing) -> list[Score]:
        """Compare two runs, second minus first; portraits that are pairs are so in plan order."""
        suite = study.suite_of(pairing.runs[0], ClassificationSuite)
        first, second = (ClassifiedPortraits(*group_errors(run, suite)) for run in pairing.runs)
        return compare_classifications(
            first, second, design_of_suite(suite), paired=pairing.paired, n_permutations=2 * pairing.resamples - 1,
            seed=pairing.seed,
        )  # fmt: skip

    def check(self, generator: Generator, suite: ClassificationSuite) -> None:
        """Refuse a generator that cannot classify, before anything is drawn; raises as :func:`denoiser_of`."""
        denoiser_of(generator)


CLASSIFICATION: Final = Classification()
