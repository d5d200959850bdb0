"""The run as the sections see it: rows, names of the groups, order of the concepts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from clinometer.report.inputs import ReportInput
from clinometer.report.rows import MEAN, METRICS_OF_THE_MODEL, Scores


@dataclass(frozen=True)
class View:
    """A ``ReportInput`` with its rows read: what every study's page has."""

    unit: ClassVar[str] = "images"
    """What intervals are over."""

    report: ReportInput
    scores: Scores

    @classmethod
    def of(cls, report: ReportInput) -> Self:
        """Read the rows."""
        return cls(report, Scores.from_frame(report.scores))

    def label(self, group: str) -> str:
        """Look up a group's label for people; a name the suite does not know is shown as it is."""
        return self.report.suite.label_of(group)

    @cached_property
    def encoders(self) -> list[str]:
        """Names of the single encoders, in stored order; rows that no encoder made, as those of refusals, name none."""
        rows = (row for row in self.scores if row.metric not in METRICS_OF_THE_MODEL)
        return list(dict.fromkeys(row.encoder for row in rows if row.encoder not in (MEAN, "")))


class PairView(View, ABC):
    """A run of a study that compares two groups, or two attributes."""

    @abstractmethod
    def labels_of(self, side: str) -> list[str]:
        """Labels of the two sides of a difference, that of ``side``, the first of them, in front."""
