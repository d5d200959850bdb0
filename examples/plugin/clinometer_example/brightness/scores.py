"""From the brightness of images to rows: mean brightness less one half, by Student's t."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import stats

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import judge_family
from clinometer.stats.multiplicity import benjamini_hochberg

METRIC = "brightness"


def brightness_rows(brightness: Mapping[str, np.ndarray]) -> list[Score]:
    """Test the mean brightness of each prompt against one half; positive rows lean to bright."""
    rows = [_row(METRIC, concept, values - 0.5) for concept, values in brightness.items()]
    return judge_family(_with_q(rows), a="bright", b="dark")


def _row(metric: str, concept: str, values: np.ndarray) -> Score:
    test = stats.ttest_1samp(values, 0)
    low, high = test.confidence_interval()
    return Score(
        metric=metric, component=METRIC, concept=concept, value=float(values.mean()), low=low, high=high,
        p=float(test.pvalue), test="Student's t over images", n_target=len(values),
    )  # fmt: skip


def _with_q(rows: list[Score]) -> list[Score]:
    corrected = benjamini_hochberg([row.p for row in rows])
    return [Score(**(vars(row) | {"q": float(q)})) for row, q in zip(rows, corrected, strict=True)]
