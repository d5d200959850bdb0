"""Figures as SVG text: drawn by matplotlib, coloured by the page's style sheet, told to a screen reader.

See decision 47.
"""

from clinometer.report.figures.svg import Figure

__all__ = ["Figure"]
