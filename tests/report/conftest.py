import pytest

from clinometer.pipeline.reporting import render_html
from clinometer.report import ReportInput
from tests.report.page import Page
from tests.report.synthetic import report_input


@pytest.fixture(scope="session")
def report() -> ReportInput:
    return report_input()


@pytest.fixture(scope="session")
def html(report: ReportInput) -> str:
    return render_html(report)


@pytest.fixture(scope="session")
def page(html: str) -> Page:
    return Page(html)
