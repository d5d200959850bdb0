"""How a study is shown: the class of its page, whose sections stand in the order of what a reader asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from clinometer.report.gallery import foremost_pictures
from clinometer.report.readings import readers, standard
from clinometer.report.sections import how_sure, masthead, measured_how, paired, people, protocol, table
from clinometer.report.verdicts import Summary, Verdicts
from clinometer.report.view import View

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite

CHAPTERS: Final = {
    "found": ("Findings", "What was found"),
    "pictures": ("Pictures", "See for yourself"),
    "sure": ("How sure", "How sure it is"),
    "limits": ("Limits", "What it does not say"),
    "basis": ("Basis", "What it rests on"),
    "numbers": ("Numbers", "The numbers"),
}
"""What a reader asks, in this order: its name in the contents, which one line of a phone takes, and its heading."""

AnyView = TypeVar("AnyView", bound=View)


@dataclass(frozen=True)
class Section:
    """A section of the page. Its template reads the view, as ``view``, and what ``build`` makes of it, as ``s``.

    The first section of a chapter is open, the others are folded.

    Attributes
    ----------
    id : its anchor.
    label : what stands on it while it is folded, unless ``build`` gives another as ``fold``; empty for the masthead,
        which comes before all chapters.
    build : returns what it says besides rows; None leaves it out of the page.
    template : its template, without ``.html``: of the study, or one of those that all studies share.
    chapter : the question that it answers, of ``CHAPTERS``.
    """

    id: str
    label: str
    build: Callable[[Any], dict[str, Any] | None]
    template: str
    chapter: str = "found"


class Page(ABC, Generic[AnyView]):
    """How one study is shown. Methods that are not abstract may be left as they are.

    Attributes
    ----------
    view : the class that reads the input of a report for all methods and sections.
    package : the package whose folder ``templates`` holds those of the sections.
    method_template : the template of method and limits.
    """

    view: ClassVar[type[View]] = View
    package: ClassVar[str]
    method_template: str = "method"

    @abstractmethod
    def finding(self, view: AnyView) -> str:
        """Word the finding in one sentence."""

    @abstractmethod
    def verdicts(self, view: AnyView) -> Sequence[Verdicts]:
        """Return what is judged, one list for each quantity."""

    def strongest(self, view: AnyView) -> str:
        """Word the strongest of the finding with its numbers; empty where nothing stands out."""
        return ""

    def meaning(self, view: AnyView) -> str:
        """Explain in one sentence what a verdict that names a side means."""
        return ""

    def lead(self, view: AnyView) -> dict[str, Any]:
        """Return what the masthead says."""
        return masthead(view, self.finding(view), self.strongest(view))

    def own_sections(self) -> Sequence[Section]:
        """Return the study's own sections, one of which has the id ``verdicts``.

        Within a chapter they come before those of all studies, but after what a verdict takes.
        """
        return ()

    def method(self, view: AnyView) -> dict[str, Any]:
        """Return what the page says of how it was measured."""
        return measured_how(view)

    def foremost(self, view: AnyView, judged: Sequence[Verdicts], most: int, pictures: int) -> list[dict[str, Any]]:
        """Return the pictures beside the finding: of ``most`` concepts, so many ``pictures`` of each."""
        return foremost_pictures(view, judged, most, pictures)

    def summarise(self, view: AnyView) -> Summary:
        """Summarise the verdicts in a few lines: those on the first quantity."""
        return self.verdicts(view)[0].summary()

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The sections of the page, the study's own and those of all studies, in the order of what a reader asks.

        The first is the masthead.
        """

        def method(view: AnyView) -> dict[str, Any]:
            return self.method(view) | {"limits_only": False}

        def limits(view: AnyView) -> dict[str, Any]:
            return self.method(view) | {"limits_only": True}

        def certainty(view: AnyView) -> dict[str, Any]:
            return {"said": how_sure(view, self.verdicts(view))}

        ordered = (
            Section("certainty", "What a verdict requires", certainty, "certainty", "sure"),
            Section("table", "All numbers", table, "table", "numbers"),
            *self.own_sections(),
            Section("standard", "Compared with a declared standard", standard, "standard", "found"),
            Section("readers", "What readers see", readers, "readers", "sure"),
            Section("people", "People and the machine", people, "people", "sure"),
            Section("pairs", "Two pictures compared", paired, "pairs", "sure"),
            Section("method", "How it was measured", method, self.method_template, "basis"),
            Section("protocol", "The paper\u2019s protocol", protocol, "protocol", "basis"),
            Section("method-limits", "Limits", limits, self.method_template, "limits"),
        )
        chapters = list(CHAPTERS)
        return (
            Section("masthead", "", self.lead, "masthead"),
            *sorted(ordered, key=lambda section: chapters.index(section.chapter)),
        )

    def summary(self, suite: Suite, scores: pd.DataFrame) -> Summary:
        """Summarise scores in a few lines, for a terminal and for a notebook."""
        view: Any = self.view.of_scores(suite, scores)
        return self.summarise(view)
