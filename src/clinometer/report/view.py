"""The run as the sections see it: rows, names of the groups, order of the concepts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from clinometer.report import verdict_words, wording
from clinometer.report.inputs import ReportInput
from clinometer.report.rows import MEAN, METRICS_OF_THE_MODEL, Row, Scores
from clinometer.suites import EditingSuite, LeaningSuite


@dataclass(frozen=True)
class Concept:
    """A target of the suite as the page names it."""

    name: str
    prompt: str
    category: str
    stereotype: str


@dataclass(frozen=True)
class View:
    """A ``ReportInput`` with its rows read: what every study's page has."""

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


class LeaningView(View):
    """The run of a leaning study, with its names looked up once."""

    @property
    def suite(self) -> LeaningSuite:
        """The suite in the shape that the study has."""
        assert isinstance(self.report.suite, LeaningSuite)
        return self.report.suite

    @property
    def group_a(self) -> str:
        """Name of the group that a positive score leans to."""
        return self.suite.compared.a

    @property
    def group_b(self) -> str:
        """Name of the group that a negative score leans to."""
        return self.suite.compared.b

    @property
    def third(self) -> str | None:
        """Name of the third group, where the suite has one."""
        return self.suite.compared.third

    @property
    def label_a(self) -> str:
        """Label of group A."""
        return self.label(self.group_a)

    @property
    def label_b(self) -> str:
        """Label of group B."""
        return self.label(self.group_b)

    def labels_of(self, side: str) -> list[str]:
        """Labels of the two groups of a difference, that of ``side``, the first of them, in front."""
        return [self.label_a, self.label_b]

    @property
    def label_third(self) -> str:
        """Label of the third group; empty without one."""
        return self.label(self.third) if self.third else ""

    def category_label(self, category: str) -> str:
        """Look up a category's label for people."""
        known = self.suite.categories.get(category)
        if known is None:
            return "All concepts" if category == "all" else wording.capitalised(category)
        return known.label or wording.capitalised(category)

    @cached_property
    def concepts(self) -> dict[str, Concept]:
        """The suite's targets in order, by name."""
        return {
            target.name: Concept(target.name, target.prompt, category, target.stereotype or "")
            for category, target in self.suite.categorised_targets()
        }

    @cached_property
    def mcas(self) -> dict[str, Row]:
        """The MCAS row of each concept, averaged over encoders."""
        return self.scores.by_concept("mcas", "mcas")

    @cached_property
    def shares(self) -> dict[str, Row]:
        """The share of images nearer to group A, by concept."""
        return self.scores.by_concept("share", "share")

    @cached_property
    def digits(self) -> int:
        """Decimal places for MCAS and its components."""
        return wording.digits_for([row.value for row in self.mcas.values()])

    def ranked(self, category: str | None = None) -> list[Concept]:
        """Concepts that have an MCAS, from leaning to A down to leaning to B."""
        held = [
            concept
            for name, concept in self.concepts.items()
            if (category is None or concept.category == category) and name in self.mcas and self.mcas[name].defined
        ]
        return sorted(held, key=lambda concept: -self.mcas[concept.name].value)

    def said_of(self, concept: Concept) -> tuple[verdict_words.Heap, str, str]:
        """The heap, the verdict and the number of a concept, for its pictures."""
        row = self.mcas.get(concept.name)
        words = verdict_words.said_of(row, self.label) if row else "not measured"
        return self.heap(concept.name), words, wording.signed(row.value, self.digits) if row and row.defined else ""

    def heap(self, concept: str) -> verdict_words.Heap:
        """Say which heap a concept's verdict belongs to."""
        return verdict_words.heap_of(self.mcas.get(concept))

    @property
    def holds_few(self) -> bool:
        """Whether a concept has too few images to tell."""
        return any(self.heap(name) == "few" for name in self.concepts)


PIXELS: Final = "pixels"
"""What rows that no encoder made have in its place."""


class EditingView(View):
    """The run of an editing study."""

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
        """Where the columns of each class begin."""
        return [(order * len(self.settings), kind) for order, kind in enumerate(self.kinds)]

    def class_rows(self, component: str, encoder: str) -> list[Row]:
        """Rows about whole classes."""
        return [row for row in self.scores.select("editing", component, encoder=encoder) if not row.concept]

    def pixel_rows(self, component: str) -> list[Row]:
        """Rows measured on pixels."""
        return self.scores.select("editing", component, encoder=PIXELS)
