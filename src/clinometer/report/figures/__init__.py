"""Figures as SVG text: drawn by matplotlib, coloured by the page's style sheet, told to a screen reader."""

from clinometer.report.figures.svg import Figure

__all__ = ["Figure"]
