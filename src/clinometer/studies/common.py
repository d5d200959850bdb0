"""What the studies share: the check that embeddings are complete, and the table of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

import pandas as pd

from clinometer.errors import RunCorruptError
from clinometer.metrics import Score
from clinometer.runs.store import Run
from clinometer.suites import Suite

AnySuite = TypeVar("AnySuite", bound=Suite)


def suite_of(run: Run, shape: type[AnySuite]) -> AnySuite:
    """The run's suite, in the shape that its study has."""
    if not isinstance(run.suite, shape):
        raise RunCorruptError(f"{run.url}: its suite is of study {run.suite.study!r}, expected a {shape.__name__}")
    return run.suite


def scores_table(scores: Sequence[Score]) -> pd.DataFrame:
    """Scores as the table that a run keeps."""
    names = [field.name for field in fields(Score)]
    return pd.DataFrame([{name: getattr(row, name) for name in names} for row in scores], columns=names)
