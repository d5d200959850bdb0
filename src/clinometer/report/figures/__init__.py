"""Figures as SVG text: drawn by matplotlib, coloured by the page's style sheet, told to a screen reader."""

from clinometer.report.figures.internal import internal_bias_figure
from clinometer.report.figures.leaning import (
    category_figure,
    component_figure,
    encoder_figure,
    overview_figure,
)
from clinometer.report.figures.plane import plane_figure, profile_figure
from clinometer.report.figures.planted import planted_figure
from clinometer.report.figures.svg import Figure

__all__ = [
    "Figure",
    "category_figure",
    "component_figure",
    "encoder_figure",
    "internal_bias_figure",
    "overview_figure",
    "plane_figure",
    "planted_figure",
    "profile_figure",
]
