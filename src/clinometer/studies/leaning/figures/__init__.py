"""The figures of a leaning study's page."""

from clinometer.studies.leaning.figures.concepts import (
    category_figure,
    component_figure,
    encoder_figure,
    overview_figure,
)
from clinometer.studies.leaning.figures.internal import internal_bias_figure
from clinometer.studies.leaning.figures.plane import plane_figure, profile_figure
from clinometer.studies.leaning.figures.planted import planted_figure

__all__ = [
    "category_figure",
    "component_figure",
    "encoder_figure",
    "internal_bias_figure",
    "overview_figure",
    "plane_figure",
    "planted_figure",
    "profile_figure",
]
