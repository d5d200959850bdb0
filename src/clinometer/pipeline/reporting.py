"""From a finished run to its page, and to what a notebook shows: the suite's study says which sections there are."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clinometer.errors import DamagedRunWarning
from clinometer.report import wording
from clinometer.report.html import notebook_html, render_page
from clinometer.report.inputs import ReportInput, report_input
from clinometer.runs import Run
from clinometer.runs.verification import REPORT, are_whole, fingerprint_of_report, is_current
from clinometer.studies import study_of

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite


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


def run_repr_html(
    *,
    suite: Suite,
    model_card: Mapping[str, Any],
    samples: pd.DataFrame,
    scores: pd.DataFrame | None = None,
    planned: int = 0,
    place: str = "",
) -> str:
    """Summarise a run, finished or not, as a small piece of HTML.

    Parameters
    ----------
    suite, model_card : what was asked of what.
    samples : a row an image, with its ``status``.
    scores : the score table, once there is one.
    planned : how many images the plan holds; 0 when it is not known.
    place : the run directory.
    """
    about = (_images(samples, planned), place)
    title = f"{model_card.get('name', 'unnamed model')} × {suite.title}"
    if scores is None:
        return notebook_html(title, about, ["Not scored yet."])
    summary = study_of(suite).page(suite).summary(suite, scores)
    unmeasured = f"Not measured: {summary.unmeasured}." if summary.unmeasured else ""
    said = (summary.verdicts, unmeasured, *summary.found)
    return notebook_html(title, about, said, [(summary.title, summary.columns, summary.rows)] if summary.rows else [])


def _images(samples: pd.DataFrame, planned: int) -> str:
    statuses = Counter(samples["status"]) if "status" in samples else Counter()
    drawn = wording.count(statuses.pop("ok", 0), "image")
    of = f" of {planned:,}" if planned else ""
    return ", ".join([f"{drawn}{of}", *(f"{n:,} {status}" for status, n in sorted(statuses.items()))])
