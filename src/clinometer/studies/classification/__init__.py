"""The classification study: whom a diffusion classifier takes for what (the downstream paper)."""

from clinometer.studies.classification.scores import (
    ClassificationDesign,
    Contrast,
    association_curves,
    classification_study,
)

__all__ = ["ClassificationDesign", "Contrast", "association_curves", "classification_study"]
