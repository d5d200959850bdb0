"""The record of the classification study."""

from __future__ import annotations

from typing import Final

from clinometer.report.comparison import Quantity, RunsCompared
from clinometer.report.rows import Row
from clinometer.studies.classification.figures import DENOISER, ClassificationView, contrast_in_words
from clinometer.studies.classification.page import CLASSIFICATION as PAGE
from clinometer.studies.classification.page import side_by_side
from clinometer.studies.classification.scoring import (
    classify,
    compare_classification,
    require_denoiser,
    score_classification,
    unclassified_parts,
)
from clinometer.studies.study import PartStage, Study
from clinometer.suites import ClassificationSuite, Suite


def contrast_name(suite: Suite, row: Row) -> str:
    """Return a contrast by its two sides."""
    return contrast_in_words(_classification(suite), row.group)


def _classification(suite: Suite) -> ClassificationSuite:
    assert isinstance(suite, ClassificationSuite)
    return suite


CONTRAST: Final = Quantity(
    component="differential",
    symbol="\N{GREEK CAPITAL LETTER DELTA}S",
    unit="contrast",
    column="difference",
    to_decide="portraits, of all groups",
    counted="portrait",
    positive="the first side goes more often to a profession {a} than in {first}",
    over="portraits",
    encoder=DENOISER,
    name=contrast_name,
)

COMPARED: Final = RunsCompared(
    lambda suite: (CONTRAST,),
    lambda suite: _classification(suite).a.label,
    ClassificationView,
    side_by_side,
    averaged=False,
)

CLASSIFICATION: Final = Study(
    key="classification",
    suite=ClassificationSuite,
    score=score_classification,
    compare=compare_classification,
    page=lambda suite: PAGE,
    comparison=lambda suite: COMPARED,
    stages=(PartStage(classify, "classifying", unclassified_parts),),
    encoders_needed=False,
    reads_pixels=True,
    check=require_denoiser,
)
