"""Pages of made-up runs, parsed and in a browser."""

from tests.report.fixtures import browser, html, page, report

__all__ = ["browser", "html", "page", "report"]
