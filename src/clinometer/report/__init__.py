"""The toolkit of pages: rows, words, marks, tables, galleries, and how they become one HTML file. Knows no study."""

from clinometer.report.html import render_page
from clinometer.report.view import ReportInput

__all__ = ["ReportInput", "render_page"]
