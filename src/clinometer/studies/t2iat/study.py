"""The record of the T2IAT study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from clinometer.report.comparison import Quantity, RunsCompared, own_name
from clinometer.report.rows import Row
from clinometer.runs import Run
from clinometer.runs.ratings.store import Rated
from clinometer.runs.vectors import embedded
from clinometer.stats.association import association_scores
from clinometer.studies.study import ComparedGroups, Study, named_answers
from clinometer.studies.t2iat.figures import T2IATView
from clinometer.studies.t2iat.page import PAGE, side_by_side
from clinometer.studies.t2iat.scoring import compare_t2iat_runs, score_t2iat
from clinometer.suites import Suite, T2iatSuite


def test_name(suite: Suite, row: Row) -> str:
    """Return a test by its two concepts."""
    named = {test.name: test for test in _narrowed(suite).tests}
    test = named.get(row.concept)
    if test is None:
        return own_name(suite, row)
    label = _narrowed(suite).concept_label
    return f"{label(test.x)}, against {label(test.y)}"


TEST: Final = Quantity(
    component="differential_association",
    symbol="S",
    unit="test",
    column="ΔS",
    to_decide="images, neutral ones, with as many more prompts",
    counted="test",
    positive="the first concept, against the other, more to {a} than in {first}",
    over="prompts",
    name=test_name,
)
PROMPT: Final = Quantity(
    component="association",
    symbol="Asc",
    unit="prompt",
    column="ΔAsc",
    to_decide="images, neutral ones, with as many more of the attributes",
    counted="prompt",
    positive="more to {a} than {first}",
)


def quantities(suite: Suite) -> Sequence[Quantity]:
    """Tests, where the suite has any, and prompts."""
    return (TEST, PROMPT) if _narrowed(suite).tests else (PROMPT,)


def compared_groups(suite: Suite) -> Sequence[ComparedGroups]:
    """Return the two attributes."""
    axis = _narrowed(suite).axis
    return (ComparedGroups(axis.a, axis.b),)


def rated(suite: Suite) -> Rated:
    """Neutral images of stimuli are rated, those of a concept at once, and read by the stimulus' attribute images."""
    axis = _narrowed(suite).axis
    return Rated(
        suite.name, (axis.a, axis.b), "", named_answers(suite), column="category",
        machine=(("association", "mean"),), read=read_by_attribute_images,
    )  # fmt: skip


def read_by_attribute_images(run: Run, encoder: str) -> dict[str, float]:
    """By how much each neutral image is nearer to its stimulus' images of a than to those of b, by its id."""
    vectors, _ = embedded(run, encoder)
    margins: dict[str, float] = {}
    drawn: dict[tuple[str, str], list[str]] = {}
    for sample in run.plan:
        if sample.id in vectors:
            drawn.setdefault((sample.concept, sample.group), []).append(sample.id)
    suite = _narrowed(run.suite)
    for _, stimulus in suite.stimuli():
        ids = [drawn.get((stimulus.name, group), []) for group in ("", *suite.pair)]
        if all(ids):
            images, a, b = (np.stack([vectors[i] for i in group_ids]) for group_ids in ids)
            margins |= dict(zip(ids[0], association_scores(images, a, b).tolist(), strict=True))
    return margins


def _label_a(suite: Suite) -> str:
    return suite.label_of(_narrowed(suite).axis.a)


def _narrowed(suite: Suite) -> T2iatSuite:
    assert isinstance(suite, T2iatSuite)
    return suite


COMPARED: Final = RunsCompared(
    quantities, _label_a, T2IATView, side_by_side, bars=("images", "prompts"), magnitude_over_prompts=True
)

T2IAT: Final = Study(
    key="t2iat",
    suite=T2iatSuite,
    score=score_t2iat,
    score_by=score_t2iat,
    compare=compare_t2iat_runs,
    page=lambda suite: PAGE,
    comparison=lambda suite: COMPARED,
    compared_groups=compared_groups,
    rated=rated,
)
