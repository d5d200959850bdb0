"""How each study is shown: the one place where the key ``study`` of a suite meets code of this room."""

from typing import Final

from clinometer.report.studies.association import ASSOCIATION
from clinometer.report.studies.cells import CELLS
from clinometer.report.studies.classification import CLASSIFICATION
from clinometer.report.studies.common import Page, Section, Summary
from clinometer.report.studies.editing import EDITING
from clinometer.report.studies.leaning import LEANING
from clinometer.suites import LeaningSuite, Suite

PAGES: Final[dict[str, Page]] = {
    "leaning": LEANING,
    "association": ASSOCIATION,
    "editing": EDITING,
    "classification": CLASSIFICATION,
}
"""By the suite's ``study``. A new study is a module here and a line in this mapping."""


def page_of(suite: Suite) -> Page:
    """How a suite is shown: as its study is, but for a leaning study with axes, which has no pair of groups."""
    return CELLS if isinstance(suite, LeaningSuite) and suite.axes else PAGES[suite.study]


__all__ = ["PAGES", "Page", "Section", "Summary", "page_of"]
