"""What the papers print: their tables as data, with source, the models they are of, and known slips.

The tables are facts; nothing in them was computed here. ``published(paper)`` reads one paper's.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from clinometer.errors import InvalidInputError
from clinometer.suites.base import PaperModel
from clinometer.suites.strict import Name, Strict, Text

_HERE: Final = resources.files("clinometer.published")


class Slip(Strict):
    """Printed cells that are wrong or mean something else: those that have all the named values."""

    cells: dict[str, Text]
    said: Text

    def holds(self, cell: Mapping[str, Any]) -> bool:
        """Return whether it is about a cell."""
        return all(cell.get(key) == value for key, value in self.cells.items())


class Published(Strict):
    """The tables of one paper.

    ``tables`` maps files to the names that the paper gives them; ``suites`` are those whose runs hold such numbers, the
    paper's own first.
    """

    paper: Text
    tables: dict[Name, Text]
    suites: tuple[Name, ...] = ()
    models: dict[Name, PaperModel]
    slips: tuple[Slip, ...] = ()

    def rows(self, table: str) -> list[dict[str, str]]:
        """Return the rows of a table as printed."""
        text = (_HERE / f"{table}.csv").read_text(encoding="utf-8")
        return list(csv.DictReader(text.splitlines()))


@cache
def _all() -> dict[str, Published]:
    read = yaml.safe_load((_HERE / "sources.yaml").read_text(encoding="utf-8"))
    return {name: Published.model_validate(entry) for name, entry in read.items()}


def papers() -> list[str]:
    """Return names of the papers whose tables are here."""
    return list(_all())


def published(paper: str) -> Published:
    """Return the tables of a paper.

    Raises
    ------
    InvalidInputError
        There is no such paper here.
    """
    papers = _all()
    if paper not in papers:
        raise InvalidInputError.expected_one_of(papers, paper, field="paper")
    return papers[paper]
