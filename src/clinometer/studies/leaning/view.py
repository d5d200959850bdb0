"""The run of a leaning study as its sections see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from clinometer.metrics.mcas import IMAGE_PART, TEXT_PART
from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.report.view import PairView
from clinometer.suites import LeaningSuite


@dataclass(frozen=True)
class Concept:
    """A target of the suite as the page names it."""

    name: str
    prompt: str
    category: str
    stereotype: str


class LeaningView(PairView):
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
        entry = self.suite.categories.get(category)
        if entry is None:
            return "All concepts" if category == "all" else wording.capitalised(category)
        return entry.label or wording.capitalised(category)

    @cached_property
    def concepts(self) -> dict[str, Concept]:
        """The suite's targets in order, by name."""
        return {
            target.name: Concept(target.name, target.prompt, category, target.stereotype or "")
            for category, target in self.suite.categorised_targets()
        }

    @cached_property
    def pictures(self) -> dict[str, Row]:
        """The image part of each concept, averaged over encoders: what the page's verdicts are of."""
        return self.scores.by_concept("mcas", IMAGE_PART)

    @cached_property
    def texts(self) -> dict[str, Row]:
        """The text part of each concept."""
        return self.scores.by_concept("mcas", TEXT_PART)

    @cached_property
    def mcas(self) -> dict[str, Row]:
        """The MCAS row of each concept."""
        return self.scores.by_concept("mcas", "mcas")

    def middle(self, component: str, setting: str = "") -> float | None:
        """Look up where the groups' own pictures, in equal parts, lie on the scale of a component."""
        row = self.scores.first("middle", component, concept="", group="", setting=setting)
        return row.value if row is not None and row.defined else None

    @cached_property
    def shares(self) -> dict[str, Row]:
        """The share of images nearer to group A, by concept."""
        return self.scores.by_concept("share", "share")

    @cached_property
    def digits(self) -> int:
        """Decimal places for MCAS, its parts and components."""
        return wording.digits_for([row.value for row in self.pictures.values()])

    def ranked(self, category: str | None = None, by: Mapping[str, Row] | None = None) -> list[Concept]:
        """Return concepts with an image part (or one of the scores ``by``), from leaning to A down to leaning to B."""
        rows = self.pictures if by is None else by
        concepts = [
            concept
            for name, concept in self.concepts.items()
            if (category is None or concept.category == category) and name in rows and rows[name].defined
        ]
        return sorted(concepts, key=lambda concept: -rows[concept.name].value)

    @property
    def ordered(self) -> list[Concept]:
        """Concepts, those that lean first, and of these and of the others the farthest from 0 first."""
        rows = {name: row for name, row in self.pictures.items() if row.defined}

        def rank(concept: Concept) -> tuple[bool, float]:
            row = rows.get(concept.name)
            return row is None or not wording.leans(row), 0.0 if row is None else -abs(row.value)

        return sorted(self.concepts.values(), key=rank)

    @property
    def foremost(self) -> list[Concept]:
        """Concepts as ordered, but first of all the one that leans most to A and the one that leans most to B."""
        ordered = self.ordered
        sides = [next((c for c in ordered if self.said_of(c)[0] == side), None) for side in ("a", "b")]
        first = [concept for concept in sides if concept is not None]
        return [*first, *(concept for concept in ordered if concept not in first)]

    def said_of(self, concept: Concept) -> tuple[wording.VerdictGroup, str, str]:
        """Look up the list, the verdict and the number of a concept, for its pictures."""
        row = self.pictures.get(concept.name)
        words = wording.said_of(row, self.label) if row else "not measured"
        return (
            self.verdict_group(concept.name),
            words,
            wording.signed(row.value, self.digits) if row and row.defined else "",
        )

    def verdict_group(self, concept: str) -> wording.VerdictGroup:
        """Return the group of verdicts that a concept is listed in."""
        return wording.verdict_group_of(self.pictures.get(concept))

    @property
    def holds_few(self) -> bool:
        """Return whether a concept has too few images to tell."""
        return any(self.verdict_group(name) == "few" for name in self.concepts)
