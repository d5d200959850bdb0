"""Differences of brightness between two runs, image by image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clinometer.metrics.differences import METRIC as COMPARISON
from clinometer.metrics.differences import Family, magnitude_row
from clinometer.metrics.records import Score
from clinometer_example.brightness.scores import _row


def brightness_differences(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> list[Score]:
    """Compare brightness prompt by prompt, second run minus first; and how far from one half all prompts are."""
    rows = [_row(COMPARISON, concept, second[concept] - first[concept]) for concept in first]
    differences = Family(rows=rows, name="brightness of the concepts", sides=("bright", "dark"))
    means = [np.array([abs(run[concept].mean() - 0.5) for concept in first]) for run in (first, second)]
    over_all = replace(_row(COMPARISON, "", means[1] - means[0]), component="magnitude", category="all")
    return [magnitude_row(over_all, excess=(0.0, 0.0)), *differences.judged()]
