"""Intervals that leave out the value that they are of: there should be none."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from clinometer.metrics import Score


def left_out(rows: Iterable[Score]) -> list[tuple[object, ...]]:
    """Rows with an interval, over images, stimuli or bounds, that does not hold the value."""
    found = []
    for row in rows:
        for kind in ("", "stimulus_", "bound_"):
            low, high = getattr(row, f"{kind}low"), getattr(row, f"{kind}high")
            if np.isfinite(low) and np.isfinite(high) and not low - 1e-12 <= row.value <= high + 1e-12:
                found.append((row.metric, row.component, row.concept, row.encoder, low, row.value, high))
    return found
