"""The run of an editing study as its sections see it."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from clinometer.report.page import View
from clinometer.report.rows import Row
from clinometer.suites import EditingSuite

PIXELS: Final = "pixels"
"""What rows that no encoder made have in its place."""


class EditingView(View):
    """The run of an editing study."""

    unit = "portraits"

    @property
    def suite(self) -> EditingSuite:
        """The suite in the shape that the study has."""
        assert isinstance(self.report.suite, EditingSuite)
        return self.report.suite

    @property
    def label_a(self) -> str:
        """The gender that a positive asymmetry moves to."""
        return self.suite.genders.a

    @property
    def label_b(self) -> str:
        """The other gender."""
        return self.suite.genders.b

    @cached_property
    def readers(self) -> list[str]:
        """The encoders that read genders."""
        return [name for name in self.encoders if name != PIXELS]

    @property
    def reader(self) -> str:
        """The encoder whose readings lead the page: the first."""
        return self.readers[0] if self.readers else ""

    @cached_property
    def kinds(self) -> list[str]:
        """The classes of professions, in the suite's order."""
        return list(dict.fromkeys(profession.kind for profession in self.suite.professions.values()))

    @cached_property
    def settings(self) -> list[str]:
        """The strengths as rows name them."""
        return list(self.suite.settings.values())

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Every (class, strength)."""
        return [(kind, setting) for kind in self.kinds for setting in self.settings]

    @property
    def class_starts(self) -> list[tuple[int, str]]:
        """Find where the columns of each class begin."""
        return [(order * len(self.settings), kind) for order, kind in enumerate(self.kinds)]

    def class_rows(self, component: str, encoder: str) -> list[Row]:
        """Select rows about whole classes."""
        return [row for row in self.scores.select("editing", component, encoder=encoder) if not row.concept]

    def overall(self, component: str) -> list[Row]:
        """Select rows about whole classes that were measured on pixels."""
        return self.class_rows(component, PIXELS)

    def by_cell(self, component: str, encoder: str = PIXELS) -> dict[tuple[str, str, str], Row]:
        """Look up rows about whole classes by group, class and strength."""
        return {(row.group, row.category, row.setting): row for row in self.class_rows(component, encoder)}

    def pixel_rows(self, component: str) -> list[Row]:
        """Select rows measured on pixels."""
        return self.scores.select("editing", component, encoder=PIXELS)
