"""How each study is shown: the one place where the key ``study`` of a suite meets code of this room."""

from typing import Final

from clinometer.report.studies.association import ASSOCIATION
from clinometer.report.studies.classification import CLASSIFICATION
from clinometer.report.studies.common import Page, Section, Summary
from clinometer.report.studies.editing import EDITING
from clinometer.report.studies.leaning import LEANING

PAGES: Final[dict[str, Page]] = {
    "leaning": LEANING,
    "association": ASSOCIATION,
    "editing": EDITING,
    "classification": CLASSIFICATION,
}
"""By the suite's ``study``. A new study is a module here and a line in this mapping."""

__all__ = ["PAGES", "Page", "Section", "Summary"]
