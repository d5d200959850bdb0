"""The T2IAT study: whether one concept's images are nearer than another's to an attribute.

What is named here is pure: arrays in, rows out.
"""

from clinometer.studies.t2iat.scores import (
    AssociationDesign,
    AssociationEmbeddings,
    AssociationStudy,
    ConceptMeasurer,
    Density,
    DesignedTest,
    MeasuredConcept,
    association_study,
    association_study_of,
)

__all__ = [
    "AssociationDesign",
    "AssociationEmbeddings",
    "AssociationStudy",
    "ConceptMeasurer",
    "Density",
    "DesignedTest",
    "MeasuredConcept",
    "association_study",
    "association_study_of",
]
