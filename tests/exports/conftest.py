"""Runs are written out by their tables here; they have no pages but where a test is marked ``pages``."""

from tests.quick import pages_of_a_module, pages_of_a_test
from tests.report.fixtures import browser

__all__ = ["browser", "pages_of_a_module", "pages_of_a_test"]
