"""A run as the sections of its page see it: what was asked and found, with its rows read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, cast

from clinometer.report.album import Album
from clinometer.report.inputs import ReportInput
from clinometer.report.rows import MEAN, METRICS_OF_THE_MODEL, READING_METRIC, Scores
from clinometer.suites.base import AnySuite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite


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

    @classmethod
    def of_scores(cls, suite: Suite, scores: pd.DataFrame) -> Self:
        """View scores alone: there is no card and no image."""
        nothing: dict[str, Any] = {}
        return cls.of(
            ReportInput(
                title="", suite=suite, model_card=nothing, encoder_cards=nothing, settings=nothing, scores=scores,
                samples=scores[:0], image=lambda _: None,
            )
        )  # fmt: skip

    def label(self, group: str) -> str:
        """Look up a group's label for people; a name the suite does not know is shown as it is."""
        return self.report.suite.label_of(group)

    @staticmethod
    def encoder_label(name: str) -> str:
        """Return the name of an encoder for people, or that it is the average over them."""
        return "average over encoders" if name == MEAN else name

    @property
    def model(self) -> str:
        """Look up what the model is called."""
        return str(self.report.model_card.get("name", "the model"))

    @cached_property
    def album(self) -> Album:
        """The pictures of the page, each of which it holds once."""
        return Album(self.report)

    @cached_property
    def encoders(self) -> list[str]:
        """Names of the single encoders, in stored order; rows that no encoder made, as those of refusals, name none."""
        others = (*METRICS_OF_THE_MODEL, READING_METRIC)
        found = (encoder for metric, encoder in self.scores.distinct("metric", "encoder") if metric not in others)
        return [encoder for encoder in dict.fromkeys(found) if encoder not in (MEAN, "")]


class StudyView(View, Generic[AnySuite]):
    """What the page of a study has, whose suites have a shape of their own."""

    @property
    def suite(self) -> AnySuite:
        """The suite in the shape that the study has."""
        return cast("AnySuite", self.report.suite)


class PairView(StudyView[AnySuite], ABC):
    """A run of a study that compares two groups, or two attributes."""

    @abstractmethod
    def labels_of(self, side: str) -> list[str]:
        """Return the labels of the two sides of a difference, that of ``side`` first."""
