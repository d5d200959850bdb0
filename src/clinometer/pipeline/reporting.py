"""From a finished run to its page: the suite's study says which sections there are."""

from __future__ import annotations

import warnings

from clinometer.errors import DamagedRunWarning
from clinometer.report.html import render_page
from clinometer.report.inputs import ReportInput, report_input
from clinometer.runs import Run
from clinometer.runs.fingerprint import REPORT, are_whole, fingerprint_of_report, is_current
from clinometer.studies import study_of


def render_html(report: ReportInput) -> str:
    """Render the report of a run as one self-contained HTML page: see :func:`clinometer.report.render_page`."""
    return render_page(report, study_of(report.suite).page(report.suite))


def write_report(run: Run) -> list[str]:
    """Write ``report.html`` into a run directory. Returns what of the run is missing or damaged, as the page says it.

    Raises
    ------
    RunError
        The run is not scored, or its scores, its plan or run.json are not what was written.
    """
    run.directory.require_writable()
    with run.directory.listed_once():
        report = report_input(run)
        page = render_html(report)
    run.ledger.unlist([REPORT])
    with run.ledger.together():  # of two reports that are written at once the list names the one that stays
        run.ledger.write_bytes(REPORT, page.encode("utf-8", "replace"))
        run.ledger.list_files([REPORT])
        if not report.damage:
            run.ledger.note_made_of(REPORT, fingerprint_of_report(run))
    return report.damage


def refresh_report(run: Run) -> bool:
    """Write ``report.html`` unless the one that is there was made of the same, or the run was asked to go without.

    Returns whether it was written.

    Raises
    ------
    RunError
        As :func:`write_report`.

    Warns
    -----
    DamagedRunWarning
        For each part that is missing or damaged.
    """
    if not run.record.get("options", {}).get("report", True):
        return False
    if is_current(run, REPORT, fingerprint_of_report(run)) and are_whole(run, (REPORT,)):
        return False
    for damage in write_report(run):
        warnings.warn(DamagedRunWarning(damage), stacklevel=2)
    return True
