"""Studies from their numbers to their pages; runs have none but where a test is marked ``pages``."""

from tests.pipeline.kept_workers import fresh_workers, kept_workers, slots
from tests.quick import pages_of_a_module, pages_of_a_test
from tests.report.fixtures import browser, html, page, report

__all__ = [
    "browser",
    "fresh_workers",
    "html",
    "kept_workers",
    "page",
    "pages_of_a_module",
    "pages_of_a_test",
    "report",
    "slots",
]
