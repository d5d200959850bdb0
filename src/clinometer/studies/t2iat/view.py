"""The run of a T2IAT study as its sections see it."""

from __future__ import annotations

from functools import cached_property

from clinometer.report import wording
from clinometer.report.page import PairView
from clinometer.report.rows import Row
from clinometer.report.wording import without_estimate
from clinometer.suites import DifferentialTest, T2iatSuite


class T2IATView(PairView):
    """Rows by test and by stimulus, and the names of attributes and concepts."""

    @property
    def suite(self) -> T2iatSuite:
        """The suite in the shape that the study has."""
        assert isinstance(self.report.suite, T2iatSuite)
        return self.report.suite

    @property
    def label_a(self) -> str:
        """Label of the attribute that a positive association leans to."""
        return self.label(self.suite.axis.a)

    def labels_of(self, side: str) -> list[str]:
        """Labels of the two attributes of a difference, that of ``side``, the first of them, in front."""
        return [self.label_a, self.label_b]

    @property
    def label_b(self) -> str:
        """Label of the other attribute."""
        return self.label(self.suite.axis.b)

    def concept_label(self, concept: str) -> str:
        """Label of a concept; ``"all"`` is all of them."""
        return self.suite.concept_label(concept) if concept in self.suite.concepts else "All concepts"

    def test_subject(self, test: DifferentialTest) -> str:
        """``"Career, against Family"``."""
        return f"{self.concept_label(test.x)}, against {self.concept_label(test.y)}"

    @cached_property
    def statistics(self) -> dict[str, Row]:
        """S of each test, averaged over encoders."""
        return self.scores.by_concept("t2iat", "differential_association")

    @cached_property
    def effect_sizes(self) -> dict[str, Row]:
        """Cohen's d of each test."""
        return self.scores.by_concept("t2iat", "effect_size")

    def stimulus_rows(self, metric: str, component: str) -> dict[str, Row]:
        """A number of each stimulus, by its name."""
        return self.scores.by_concept(metric, component)

    @cached_property
    def associations(self) -> dict[str, Row]:
        """Mean association of each stimulus's images."""
        return self.stimulus_rows("association", "mean")

    def ordered(self, concept: str) -> list[str]:
        """A concept's stimuli that have an association, by their median, highest first."""
        medians = self.stimulus_rows("association", "median")
        names = [s.name for s in self.suite.concepts[concept].stimuli if s.name in medians and medians[s.name].defined]
        return sorted(names, key=lambda name: -medians[name].value)

    @cached_property
    def digits(self) -> int:
        """Decimal places for associations."""
        rows = [*self.statistics.values(), *self.associations.values()]
        return wording.digits_for([row.value for row in rows])

    @property
    def judged(self) -> dict[str, Row]:
        """The rows that the verdicts are about: tests, or single stimuli where the suite has no tests."""
        if self.suite.tests:
            names, rows = [test.name for test in self.suite.tests], self.statistics
        else:
            names, rows = [stimulus.name for _, stimulus in self.suite.stimuli()], self.associations
        return {name: rows.get(name) or without_estimate(concept=name) for name in names}

    @property
    def over(self) -> str:
        """Tell what the judged interval is over: prompts of tests, images of stimuli."""
        return "stimuli" if self.suite.tests else "images"

    def effect_words(self, test: str) -> str:
        """Write an effect size with Cohen's word: ``d +1.05, large``; his thresholds are the paper's."""
        row = self.effect_sizes.get(test)
        if row is None or not row.defined:
            return ""
        return f"d {wording.signed(row.value)}, {self.magnitude(row)}"

    @staticmethod
    def magnitude(row: Row) -> str:
        """Find Cohen's word for an effect size."""
        words = (("negligible", 0.2), ("small", 0.5), ("medium", 0.8))
        return next((word for word, below in words if abs(row.value) < below), "large")

    def subject(self, name: str) -> str:
        """Name what a judged row is about."""
        tests = {test.name: test for test in self.suite.tests}
        return self.test_subject(tests[name]) if name in tests else name
