"""The run of a classification study as its sections see it."""

from __future__ import annotations

from functools import cached_property

from clinometer.report import wording
from clinometer.report.page import View
from clinometer.report.rows import Row
from clinometer.suites import ClassificationSuite

METRIC = "classification"
DENOISER = "denoiser"
"""What rows say in place of an encoder: the numbers are read from the model's own errors."""


class ClassificationView(View):
    """Rows by component at the largest number of noise samples, and the suite's names."""

    unit = "portraits"

    @property
    def suite(self) -> ClassificationSuite:
        """The suite in the shape that the study has."""
        assert isinstance(self.report.suite, ClassificationSuite)
        return self.report.suite

    @property
    def label_a(self) -> str:
        """Look up what the classes of the first set are called."""
        return self.suite.a.label

    @property
    def label_b(self) -> str:
        """Look up what the classes of the second set are called."""
        return self.suite.b.label

    @property
    def setting(self) -> str:
        """The largest number of noise samples, as rows name it."""
        return self.suite.settings[self.suite.noise_samples[-1]]

    def rows(self, component: str, **equal: str) -> list[Row]:
        """Select the rows of a component at the largest number of noise samples, unless another setting is named."""
        conditions = {"encoder": DENOISER, "setting": self.setting, **equal}
        return self.scores.select(METRIC, component, **conditions)

    @cached_property
    def associations(self) -> dict[str, Row]:
        """S of each group."""
        return {row.group: row for row in self.rows("association")}

    @cached_property
    def differentials(self) -> dict[str, Row]:
        """ΔS of each contrast."""
        return {row.group: row for row in self.rows("differential")}

    @cached_property
    def amplifications(self) -> dict[str, Row]:
        """Look up what more noise samples add to ΔS, by contrast."""
        return {row.group: row for row in self.rows("amplification", setting="*")}

    @property
    def given(self) -> str:
        """Look up where the portraits came from, if the model did not draw them."""
        portraits = self.report.model_card.get("settings", {}).get("portraits")
        return str(portraits["name"]) if portraits else ""

    def side_labels(self, contrast: str) -> tuple[str, str]:
        """The two sides of a contrast, for people."""
        sides = self.suite.contrasts[contrast]
        return sides.x.label, sides.y.label


def contrast_in_words(suite: ClassificationSuite, contrast: str) -> str:
    """A contrast with its sides: ``"Gender: men less women"``."""
    sides = suite.contrasts[contrast]
    return f"{wording.capitalised(contrast)}: {sides.x.label} less {sides.y.label}"
