"""The samples of a run as a page reads them: counted and sorted by columns, and looked at one by one where shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import pandas as pd

from clinometer.report.rows import is_empty

Sample = Mapping[str, Any]


class _Row(Mapping[str, Any]):
    """A row of a table."""

    def __init__(self, table: pd.DataFrame, at: int) -> None:
        self._table, self._at = table, at

    def __getitem__(self, name: str) -> Any:
        cell = self._table[name].array[self._at]
        return cell.item() if isinstance(cell, np.generic) else cell

    def __iter__(self) -> Iterator[str]:
        return iter(map(str, self._table.columns))

    def __len__(self) -> int:
        return len(self._table.columns)


class Samples(Sequence[Sample]):
    """Rows of a table of samples, in its order; of a million rows, each as an object would take a gigabyte."""

    def __init__(self, table: pd.DataFrame, rows: np.ndarray | None = None) -> None:
        self._table = table
        self._rows = np.arange(len(table)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Sample: ...
    @overload
    def __getitem__(self, at: slice) -> Samples: ...
    def __getitem__(self, at: int | slice) -> Sample | Samples:
        if isinstance(at, slice):
            return Samples(self._table, self._rows[at])
        return _Row(self._table, int(self._rows[at]))

    def counts(self, name: str) -> Counter[str]:
        """How often each text stands in a column, in the order in which they first do."""
        codes, texts = self._texts(name)
        return Counter(dict(zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True)))

    def by(self, *names: str) -> dict[tuple[str, ...], Samples]:
        """The rows of each combination of texts in some columns, in the order in which they first appear."""
        codes, texts = zip(*(self._texts(name) for name in names), strict=True)
        shape = [max(1, len(each)) for each in texts]
        ranks, found = pd.factorize(np.atleast_1d(np.ravel_multi_index(codes, shape)))
        order, ends = np.argsort(ranks, kind="stable"), np.cumsum(np.bincount(ranks, minlength=len(found)))
        keys = zip(*np.unravel_index(found, shape), strict=True)
        return {
            tuple(each[code] for each, code in zip(texts, key, strict=True)): Samples(self._table, self._rows[rows])
            for key, rows in zip(keys, np.split(order, ends[:-1]), strict=False)
        }

    def _texts(self, name: str) -> tuple[np.ndarray, list[str]]:
        """A column as codes of its texts, in the order in which they first appear; a missing one is empty."""
        if name not in self._table:
            return np.zeros(len(self), int), [""] if len(self) else []
        codes, cells = pd.factorize(self._table[name].array.take(self._rows), use_na_sentinel=False)
        place: dict[str, int] = {}
        of_cell = [place.setdefault(text_of(cell), len(place)) for cell in cells]
        return np.array(of_cell, int)[codes], [*place]

    @classmethod
    def together(cls, found: Sequence[Samples]) -> Samples:
        """Rows of one table as one, in its order."""
        if len(found) == 1:
            return found[0]
        return cls(found[0]._table, np.sort(np.concatenate([each._rows for each in found])))


def by_owner(samples: Samples, *further: str) -> dict[tuple[str, ...], Samples]:
    """The rows of each role and owner, a target's concept or else a group, and of the texts in further columns."""
    held: dict[tuple[str, ...], list[Samples]] = {}
    for (role, concept, group, *rest), found in samples.by("role", "concept", "group", *further).items():
        held.setdefault((role, concept if role == "target" else group, *rest), []).append(found)
    return {key: Samples.together(found) for key, found in held.items()}


def text_of(value: Any) -> str:
    """A cell as text; empty where there is nothing."""
    return "" if is_empty(value) else str(value)
