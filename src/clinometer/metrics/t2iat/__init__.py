"""T2IAT: differential association, associations of single stimuli, stereotype amplification."""

from clinometer.metrics.t2iat.design import AssociationDesign, AssociationEmbeddings, DesignedTest
from clinometer.metrics.t2iat.differential import (
    DifferentialAssociation,
    differential_association,
    effect_magnitude,
)
from clinometer.metrics.t2iat.stimuli import Density
from clinometer.metrics.t2iat.study import AssociationStudy, association_study

__all__ = [
    "AssociationDesign",
    "AssociationEmbeddings",
    "AssociationStudy",
    "Density",
    "DesignedTest",
    "DifferentialAssociation",
    "association_study",
    "differential_association",
    "effect_magnitude",
]
