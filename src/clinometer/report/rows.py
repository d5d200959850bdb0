"""Rows of the score table as typed records, and the questions a page asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from clinometer.metrics import records

if TYPE_CHECKING:
    import pandas as pd

MEAN = "mean"
OWN_TEXT_METRIC = records.OWN_TEXT
PRIOR_METRIC = records.PRIOR
METRICS_OF_THE_MODEL = records.OF_THE_MODEL
READING_METRIC = records.READING
STANDARD_METRIC = records.STANDARD
STEERABILITY_METRIC = records.STEERABILITY
ABLATION_METRIC = records.ABLATION
DECIDING_FLAG = records.DECIDES
BY_COSINES: Final = "clip with "
"""Before an encoder's name: the reader whose answers are a run's shares, see ``stats.association.nearest_group``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row(records.Score):
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
    """The rows of a run, in their stored order; each is made when it is asked for, as a table may have 350,000."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._made: list[Row | None] = list(rows)
        self._columns: dict[str, np.ndarray] = {}

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Scores:
        """Read a data frame; a missing column or cell takes the field's default."""
        scores = cls(())
        scores._made = [None] * len(frame)
        scores._columns = {name: _cells(frame[name], default) for name, default in _DEFAULTS.items() if name in frame}
        return scores

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every row."""
        return tuple(self)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._at(range(len(self))))

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, positions: slice) -> list[Row]:
        return self._at(range(len(self))[positions])

    def select(self, metric: str, component: str | None = None, **equal: str) -> list[Row]:
        """Select the rows of a metric, in order; ``encoder`` is the mean over encoders unless named, ``"*"`` is any."""
        return self.head(len(self), metric, component, **equal)

    def head(self, most: int, metric: str, component: str | None, /, **equal: str) -> list[Row]:
        """Select the first of these rows, so many at most."""
        component = "*" if component is None else component
        found = np.arange(len(self))
        for name, value in ({"metric": metric, "component": component, "encoder": MEAN} | equal).items():
            if value != "*":
                found = found[self._cells_of(name)[found] == value]
        return self._at(found[:most].tolist())

    def having(self, field: str) -> list[Row]:
        """Select the rows in which a field is not what it is by default."""
        return self._at(np.flatnonzero(self._cells_of(field) != _DEFAULTS[field]).tolist())

    def distinct(self, *fields: str) -> list[tuple[str, ...]]:
        """List what several fields are together, each once, in the order of the rows."""
        return list(dict.fromkeys(zip(*map(self._cells_of, fields), strict=True)))

    def by_concept(self, metric: str, component: str, **equal: str) -> dict[str, Row]:
        """Look up the row of each concept."""
        return {row.concept: row for row in self.select(metric, component, **equal) if row.concept}

    def first(self, metric: str, component: str, **equal: str) -> Row | None:
        """Look up the first such row, if there is one."""
        return next(iter(self.select(metric, component, **equal)), None)

    def _cells_of(self, field: str) -> np.ndarray:
        if field not in self._columns:
            cells = [_DEFAULTS[field] if row is None else getattr(row, field) for row in self._made]
            self._columns[field] = np.array(cells, object)
        return self._columns[field]

    def _at(self, places: Sequence[int]) -> list[Row]:
        new = [place for place in places if self._made[place] is None]
        columns = {name: cells[new].tolist() for name, cells in self._columns.items()}
        for at, place in enumerate(new):
            self._made[place] = Row(**{name: cells[at] for name, cells in columns.items()})
        return cast("list[Row]", [self._made[place] for place in places])


_DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in fields(Row)}


def _cells(column: pd.Series, default: Any) -> np.ndarray:
    """Read cells in the field's type; an empty one (None, NaN, NA) is the default."""
    if isinstance(default, str):  # the same few texts again and again: each is kept once
        codes, texts = column.factorize()
        return np.array([*map(str, texts), default], object).take(codes, mode="wrap")
    kind, empty = type(default), column.isna().to_numpy()
    if column.dtype == np.dtype(kind):
        return np.asarray(column)
    cells = column.tolist()
    return np.array([default if gone else kind(cell) for cell, gone in zip(cells, empty, strict=True)], kind)


def is_empty(value: Any) -> bool:
    """Return whether a cell of a data frame holds nothing: None, NaN or NA."""
    return value is None or (isinstance(value, float) and isnan(value)) or str(value) == "<NA>"


ROWS_AT_ONCE: Final = 50_000


def scores_table(scores: Iterable[records.Score]) -> pd.DataFrame:
    """Return scores as the table that a run keeps; of an iterator only so many are there at a time."""
    import pandas as pd

    rows, tables = iter(scores), list[pd.DataFrame]()
    while (some := list(islice(rows, ROWS_AT_ONCE))) or not tables:
        tables.append(
            pd.DataFrame({field.name: [getattr(row, field.name) for row in some] for field in fields(records.Score)})
        )
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)
