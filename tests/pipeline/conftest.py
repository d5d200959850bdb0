"""Runs are compared by their tables here; their pages are blank but where a test is marked ``pages``."""

from tests.blank_pages import blank_pages, pages_where_marked

__all__ = ["blank_pages", "pages_where_marked"]
