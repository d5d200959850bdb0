"""Runs are compared by their tables here; their pages are blank but where a test is marked ``pages``."""

from tests.blank_pages import blank_pages, pages_where_marked
from tests.pipeline.kept_workers import fresh_workers, kept_workers, slots

__all__ = ["blank_pages", "fresh_workers", "kept_workers", "pages_where_marked", "slots"]
