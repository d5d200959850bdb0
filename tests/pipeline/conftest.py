"""Runs are compared by their tables here; they have no pages but where a test is marked ``pages``."""

from tests.pipeline.kept_workers import fresh_workers, kept_workers, slots
from tests.quick import pages_of_a_module, pages_of_a_test
from tests.report.fixtures import browser

__all__ = ["browser", "fresh_workers", "kept_workers", "pages_of_a_module", "pages_of_a_test", "slots"]
