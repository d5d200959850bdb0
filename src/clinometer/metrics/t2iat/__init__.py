"""T2IAT: differential association of two concepts and an attribute."""

from clinometer.metrics.t2iat.differential import (
    DifferentialAssociation,
    differential_association,
    effect_magnitude,
)

__all__ = [
    "DifferentialAssociation",
    "differential_association",
    "effect_magnitude",
]
