"""What each section says, as plain values for its template. ``SECTIONS`` is the order of the page."""

from collections.abc import Callable
from typing import Any, Final

from clinometer.report.sections.gallery import gallery
from clinometer.report.sections.internal import internal_bias
from clinometer.report.sections.leaning import categories, stages
from clinometer.report.sections.masthead import masthead
from clinometer.report.sections.method import method
from clinometer.report.sections.plane import plane
from clinometer.report.sections.planted import planted
from clinometer.report.sections.table import table
from clinometer.report.sections.verdicts import verdicts
from clinometer.report.view import View

Section = Callable[[View], dict[str, Any] | None]

SECTIONS: Final[dict[str, Section]] = {
    "masthead": masthead,
    "verdicts": verdicts,
    "categories": categories,
    "stages": stages,
    "internal": internal_bias,
    "plane": plane,
    "planted": planted,
    "gallery": gallery,
    "table": table,
    "method": method,
}
"""A section that returns None is left out of the page and of its contents."""

__all__ = ["SECTIONS", "Section"]
