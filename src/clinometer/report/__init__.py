"""The report of a run: one HTML page, and a few lines for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clinometer.report.html import render_html, write_report
from clinometer.report.inputs import Curve, ReportInput
from clinometer.report.notebook import run_repr_html

if TYPE_CHECKING:
    from clinometer.runs import Run

__all__ = ["Curve", "ReportInput", "refresh", "render_html", "run_repr_html", "write", "write_report"]


def write(run: Run) -> list[str]:
    """Write ``report.html`` into a run directory. Returns what of the run is missing or damaged, as the page says it.

    Raises
    ------
    RunError
        The run is not scored, or its scores, its plan or run.json are not what was written.
    """
    from clinometer.report.from_run import report_input
    from clinometer.runs.fingerprint import REPORT, fingerprint_of_report, record_made_of

    held = report_input(run)
    page = render_html(held)
    run.ledger.write_bytes(REPORT, page.encode("utf-8", "replace"))
    run.ledger.list_files([REPORT])
    if not held.damage:
        record_made_of(run, REPORT, fingerprint_of_report(run))
    return held.damage


def refresh(run: Run) -> bool:
    """Write ``report.html`` unless the one that is there was made of the same. Returns whether it was written.

    Raises
    ------
    RunError
        As :func:`write`.
    """
    from clinometer.runs.fingerprint import REPORT, are_whole, fingerprint_of_report, is_current

    if is_current(run, REPORT, fingerprint_of_report(run)) and are_whole(run, (REPORT,)):
        return False
    write(run)
    return True
