"""The record of the leaning study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from clinometer.metrics.mcas import IMAGE_PART
from clinometer.report.comparison import Quantity, RunsCompared
from clinometer.report.page import Page
from clinometer.runs import Run
from clinometer.runs.ratings.store import Rated
from clinometer.runs.tracing import parts_without_trace, trace_parts
from clinometer.runs.vectors import embedded
from clinometer.stats.association import association_scores
from clinometer.studies.leaning.cells import CELLS, CROSSED, TO_DECIDE
from clinometer.studies.leaning.own_text import embed_own_texts, lacks_own_texts
from clinometer.studies.leaning.page import LEANING as PAGE
from clinometer.studies.leaning.prior import draw_prior_embeddings, parts_without_prior
from clinometer.studies.leaning.scoring import compare_leaning, open_concepts, paired_evidence_of, score_leaning
from clinometer.studies.leaning.side_by_side import fidelity_caution, mitigation_tables, side_by_side
from clinometer.studies.leaning.view import LeaningView
from clinometer.studies.study import ComparedGroups, PartStage, Study, WholeStage, named_answers
from clinometer.suites import LeaningSuite, Suite


def page_of(suite: Suite) -> Page:
    """How a suite is shown: one with axes has no pair of groups, and a page of its own."""
    return CELLS if _leaning(suite).axes else PAGE


def compared_groups(suite: Suite) -> Sequence[ComparedGroups]:
    """Its two groups, prompts matched by the name of their pair; of crossed axes, the levels of each."""
    leaning = _leaning(suite)
    pairs = {prompt.prompt: prompt.pair or "" for group in leaning.groups.values() for prompt in group.prompts}
    if leaning.axes is None:
        return (
            ComparedGroups(leaning.compared.a, leaning.compared.b, lambda group, prompt: ("", pairs.get(prompt, ""))),
        )
    return [
        ComparedGroups(first, others[0] if len(others) == 1 else "no level", _on_axis(leaning, name, pairs))
        for name, (first, *others) in ((name, tuple(axis.levels)) for name, axis in leaning.axes.items())
    ]


def reading_words(suite: Suite) -> Mapping[str, Sequence[str]]:
    """The words of the pair; with axes, of every cell."""
    leaning = _leaning(suite)
    names = (leaning.compared.a, leaning.compared.b) if leaning.axes is None else tuple(leaning.groups)
    return {name: leaning.groups[name].words for name in names}


def rated(suite: Suite) -> Rated:
    """Images of targets are rated, and read by the words of the pair, as ``share`` reads them."""
    leaning, answers = _leaning(suite), named_answers(suite)
    if leaning.axes:
        return Rated(suite.name, answers=answers)
    pair = leaning.compared
    return Rated(suite.name, (pair.a, pair.b), pair.third or "", answers, machine=LARGER_TOWARDS_A, read=read_by_words)


def read_by_words(run: Run, encoder: str) -> dict[str, float]:
    """By how much each image of a target is nearer to the words of a than to those of b, by its id."""
    vectors, texts = embedded(run, encoder)
    words = list(reading_words(run.suite).values())
    ids = [sample.id for sample in run.plan if sample.role == "target" and sample.id in vectors]
    if not texts or not all(words) or not ids:
        return {}
    a, b = (np.stack([texts[word] for word in side_words]) for side_words in words)
    return dict(zip(ids, association_scores(np.stack([vectors[i] for i in ids]), a, b).tolist(), strict=True))


def _on_axis(suite: LeaningSuite, axis: str, pairs: dict[str, str]) -> Callable[[str, str], tuple[str, str]]:
    """Prompts are matched within the levels of the other axes."""

    def place(group: str, prompt: str) -> tuple[str, str]:
        if not group:
            return "", ""
        cell = suite.groups[group].cell or {}
        others = [level for name, level in cell.items() if name != axis]
        pair = pairs.get(prompt, "")
        return cell[axis], " ".join([pair, *others]) if pair else ""

    return place


def require_a_pair(suite: Suite) -> None:
    """Refuse axes: rounds follow one pair of groups."""
    _leaning(suite).pair_for("--until")


def require_a_pair_to_trace(suite: Suite) -> None:
    """Refuse axes: a trace follows one pair of groups."""
    _leaning(suite).pair_for("--trace")


def _label_a(suite: Suite) -> str:
    return suite.label_of(_leaning(suite).compared.a)


def _leaning(suite: Suite) -> LeaningSuite:
    assert isinstance(suite, LeaningSuite)
    return suite


LARGER_TOWARDS_A: Final = (
    ("mcas", IMAGE_PART), ("mcas", "mcas"), ("mcas", "ii"), ("mcas", "itp"), ("mcas", "ita"), ("mcas", "tt"),
    ("share", "share"), ("share", "corrected_share"),
)  # fmt: skip
"""Scores of a target that are larger the more it leans to a."""

PICTURES: Final = Quantity(
    component=IMAGE_PART,
    symbol="image part",
    unit="concept",
    column="Δ image part",
    to_decide=TO_DECIDE,
    counted="concept",
    positive="more to {a} than {first}",
)

OVERALL: Final = (
    ("internal_bias_summary", "diffusion_bias_mean"),
    ("internal_bias_summary", "bias_amplification_mean"),
    ("category", "std"),
    ("category", "mean"),
)

PAIR: Final = RunsCompared(
    lambda suite: (PICTURES,),
    _label_a,
    LeaningView,
    side_by_side,
    bars=("images", "words and encoders"),
    overall=OVERALL,
    caution=fidelity_caution,
    further=mitigation_tables,
)


def runs_compared(suite: Suite) -> RunsCompared:
    """How runs of a suite are shown beside each other: of axes, each of them."""
    return CROSSED if _leaning(suite).axes else PAIR


LEANING: Final = Study(
    key="leaning",
    suite=LeaningSuite,
    score=score_leaning,
    score_by=score_leaning,
    compare=compare_leaning,
    page=page_of,
    comparison=runs_compared,
    stages=(
        WholeStage(embed_own_texts, "texts in the model's own encoders", lacks_own_texts),
        PartStage(draw_prior_embeddings, "the prior's embeddings", parts_without_prior),
        PartStage(trace_parts, "tracing", parts_without_trace),
    ),
    check_rounds=require_a_pair,
    check_trace=require_a_pair_to_trace,
    open_concepts=open_concepts,
    paired_evidence_of=paired_evidence_of,
    compared_groups=compared_groups,
    rated=rated,
    reading_words=reading_words,
)
