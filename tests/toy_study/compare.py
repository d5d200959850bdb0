"""Differences of brightness between two runs, image by image."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clinometer.metrics.differences import METRIC as COMPARISON
from clinometer.metrics.differences import judge_differences, judge_magnitude
from clinometer.metrics.records import Score
from tests.toy_study.scores import _row, _with_q


def brightness_differences(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> list[Score]:
    rows = [_row(COMPARISON, concept, second[concept] - first[concept]) for concept in first]
    judged = judge_differences(_with_q(rows), a="bright", b="dark")
    means = [np.array([abs(run[concept].mean() - 0.5) for concept in first]) for run in (first, second)]
    magnitude = _row(COMPARISON, "", means[1] - means[0])
    return [judge_magnitude(Score(**(vars(magnitude) | {"component": "magnitude", "q": magnitude.p}))), *judged]
