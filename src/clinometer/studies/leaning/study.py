"""The record of the leaning study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from clinometer.metrics.mcas import IMAGE_PART
from clinometer.report.comparison import Quantity, RunsCompared
from clinometer.report.page import Page
from clinometer.studies.leaning.cells import CELLS, CROSSED, TO_DECIDE
from clinometer.studies.leaning.own_text import embed_own_texts, lacks_own_texts
from clinometer.studies.leaning.page import LEANING as PAGE
from clinometer.studies.leaning.prior import draw_prior_embeddings, parts_without_prior
from clinometer.studies.leaning.scoring import compare_leaning, open_concepts, paired_evidence_of, score_leaning
from clinometer.studies.leaning.side_by_side import fidelity_caution, side_by_side
from clinometer.studies.leaning.view import LeaningView
from clinometer.studies.study import ComparedGroups, PartStage, Study, WholeStage
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


def _label_a(suite: Suite) -> str:
    return suite.label_of(_leaning(suite).compared.a)


def _leaning(suite: Suite) -> LeaningSuite:
    assert isinstance(suite, LeaningSuite)
    return suite


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
    ),
    check_rounds=require_a_pair,
    open_concepts=open_concepts,
    paired_evidence_of=paired_evidence_of,
    compared_groups=compared_groups,
)
