"""Runs of toys, whose pages are blank."""

from tests.blank_pages import blank_pages, pages_where_marked

__all__ = ["blank_pages", "pages_where_marked"]
