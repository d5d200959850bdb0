"""Wordings of a concept: the readings of their images, noise by noise, and what the page says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clinometer.metrics.records import Score
from clinometer.report import wording as words
from clinometer.report.rows import Row
from clinometer.runs.store import Run
from clinometer.stats.association import unit_vectors
from clinometer.studies.leaning.scores import Design, EncoderEmbeddings, reader_checks
from clinometer.studies.leaning.scores.wordings import image_part_direction, wording_rows
from clinometer.studies.leaning.view import LeaningView
from clinometer.suites import LeaningSuite


def rows_of_wordings(
    run: Run, suite: LeaningSuite, encoders: Sequence[EncoderEmbeddings], design: Design, resamples: int
) -> list[Score]:
    """Say what wordings do to the images of a run; nothing where no concept has several."""
    if not suite.wordings:
        return []
    readings = {}
    for embeddings in encoders:
        direction = image_part_direction(embeddings, design)
        if direction is not None:
            readings[embeddings.encoder] = _readings(run, suite, embeddings.encoder, direction)
    checks = reader_checks(encoders, design)
    return wording_rows(readings, encoders, checks, n_permutations=resamples, seed=run.record["seed"])


def _readings(run: Run, suite: LeaningSuite, encoder: str, direction: np.ndarray) -> dict[str, np.ndarray]:
    """Read the image part of every image of a concept with wordings, (wordings × noises); NaN where there is none.

    An image that is another one again counts here: of one noise two wordings may give the same.
    """
    place: dict[str, tuple[str, int]] = {
        target: (concept, order)
        for concept, by_wording in suite.wordings.items()
        for order, target in enumerate(by_wording.values())
    }
    noises: dict[str, dict[int, int]] = {concept: {} for concept in suite.wordings}
    for concept, seed in run.plan.rows("concept", "seed"):
        if concept in place:
            of_concept = noises[place[concept][0]]
            of_concept.setdefault(seed, len(of_concept))
    readings = {
        concept: np.full((len(by_wording), len(noises[concept])), np.nan)
        for concept, by_wording in suite.wordings.items()
    }
    for part, vectors in run.vectors.each_part(encoder):
        rows = [row for row in run.parts[part].rows("id", "concept", "seed") if row[0] in vectors and row[1] in place]
        if rows:
            scores = unit_vectors(np.stack([vectors[identifier] for identifier, *_ in rows])) @ direction
            for (_, target, seed), score in zip(rows, scores.tolist(), strict=True):
                concept, order = place[target]
                readings[concept][order, noises[concept][seed]] = score
    return readings


NAMES = {
    "concept": "concept",
    "wording": "wording, alike in all concepts",
    "concept_wording": "concept × wording",
    "noise": "noise, alike in all wordings",
    "image": "single image",
}


def wordings(view: LeaningView) -> dict[str, Any] | None:
    """Gather the variance by its source, and every concept in all its wordings; None of a suite without wordings."""
    rows = {row.component: row for row in view.scores.select("wording") if not row.concept}
    if not rows or not view.suite.wordings:
        return None
    total = sum(max(row.value, 0.0) for row in rows.values() if row.defined)
    tests = view.scores.by_concept("wording", "by_wording")
    return {
        "parts": [(NAMES[name], rows[name], max(rows[name].value, 0) / total if total else 0.0) for name in NAMES],
        "said": said(rows.get("concept_wording", Row()), tests.values()),
        "names": list(next(iter(view.suite.wordings.values()))),
        "concepts": [
            (concept, [view.pictures.get(target) for target in by_wording.values()], tests.get(concept))
            for concept, by_wording in view.suite.wordings.items()
        ],
        "reasons": words.reasons((NAMES[name], row.reason) for name, row in rows.items() if row.reason),
    }


def said(both: Row, tests: Any) -> str:
    """Say whether verdicts hang on the wording, and for which concepts."""
    names = [row.concept for row in tests if row.flag]
    if not both.defined:
        return "Whether verdicts hang on the wording cannot be told" + (f": {both.reason}." if both.reason else ".")
    verdict = (
        "How far a concept leans depends on its wording" if both.flag
        else "It is not shown that how far a concept leans depends on its wording"
    )  # fmt: skip
    of = f"; by itself it is shown for {words.listed(names)}" if names else ""
    return f"{verdict} ({words.probability(both.p, 'p')}){of}."
