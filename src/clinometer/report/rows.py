"""Rows of the score table as typed records, and the questions a page asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

from clinometer.metrics.records import DECIDES, OF_THE_MODEL, OWN_TEXT, PRIOR, READING, Score

if TYPE_CHECKING:
    import pandas as pd

MEAN = "mean"
OWN_TEXT_METRIC = OWN_TEXT
PRIOR_METRIC = PRIOR
METRICS_OF_THE_MODEL = OF_THE_MODEL
READING_METRIC = READING
DECIDING_FLAG = DECIDES
BY_COSINES: Final = "clip with "
"""Before an encoder's name: the reader whose answers are a run's shares, see ``stats.association.nearest_group``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row(Score):
    """A score as the page reads it."""

    metric: str = ""
    component: str = ""

    @property
    def defined(self) -> bool:
        """Return whether there is a number."""
        return isfinite(self.value)

    @property
    def has_interval(self) -> bool:
        """Return whether the image interval is there."""
        return isfinite(self.low) and isfinite(self.high)

    @property
    def has_stimulus_interval(self) -> bool:
        """Return whether the stimulus interval is there."""
        return isfinite(self.stimulus_low) and isfinite(self.stimulus_high)

    def ends(self, over: str = "images") -> tuple[float, float]:
        """Look up the interval over images, or over what was asked: ``"stimuli"``."""
        return (self.stimulus_low, self.stimulus_high) if over == "stimuli" else (self.low, self.high)

    @property
    def has_bounds(self) -> bool:
        """Return whether it is known what missing or repeated pictures might change."""
        return isfinite(self.bound_low) and isfinite(self.bound_high)

    @property
    def unstable(self) -> bool:
        """Return whether the value is flagged unstable."""
        return self.flag == "unstable"


class Scores:
    """The rows of a run, in their stored order."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Scores:
        """Read a data frame; a missing column or cell takes the field's default."""
        columns = {name: _cells(frame[name], default) for name, default in _DEFAULTS.items() if name in frame}
        if not columns:
            return cls(Row() for _ in range(len(frame)))
        return cls(Row(**dict(zip(columns, cells, strict=True))) for cells in zip(*columns.values(), strict=True))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, metric: str, component: str | None = None, **equal: str) -> list[Row]:
        """Select the rows of a metric, in order; ``encoder`` is the mean over encoders unless named, ``"*"`` is any."""
        conditions = {"encoder": MEAN, **equal}
        return [
            row
            for row in self.rows
            if row.metric == metric
            and (component is None or row.component == component)
            and all(value == "*" or getattr(row, name) == value for name, value in conditions.items())
        ]

    def by_concept(self, metric: str, component: str, **equal: str) -> dict[str, Row]:
        """Look up the row of each concept."""
        return {row.concept: row for row in self.select(metric, component, **equal) if row.concept}

    def first(self, metric: str, component: str, **equal: str) -> Row | None:
        """Look up the first such row, if there is one."""
        return next(iter(self.select(metric, component, **equal)), None)


_DEFAULTS = {field.name: field.default for field in fields(Row)}


def _cells(column: pd.Series, default: Any) -> list[Any]:
    """Read cells in the field's type; an empty one (None, NaN, NA) is the default."""
    kind, cells, empty = type(default), column.tolist(), column.isna().to_numpy()
    if not empty.any():
        return list(map(kind, cells))
    return [default if gone else kind(cell) for cell, gone in zip(cells, empty.tolist(), strict=True)]


def is_empty(value: Any) -> bool:
    """Return whether a cell of a data frame holds nothing: None, NaN or NA."""
    return value is None or (isinstance(value, float) and isnan(value)) or str(value) == "<NA>"
