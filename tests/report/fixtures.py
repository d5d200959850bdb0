"""A page to look at and a browser to look with, for the tests of whatever has pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from clinometer.pipeline.results import render_html
from clinometer.report import ReportInput
from tests.report.browsing import launched_chromium
from tests.report.page import Page
from tests.report.synthetic import report_input

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def report() -> ReportInput:
    return report_input()


@pytest.fixture(scope="session")
def html(report: ReportInput) -> str:
    return render_html(report)


@pytest.fixture(scope="session")
def page(html: str) -> Page:
    return Page(html)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium for a module, not for a session: while it runs, no other test of the process may run a loop."""
    with launched_chromium() as browser:
        yield browser
