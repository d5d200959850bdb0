"""Every number of a T2IAT study, from embeddings alone."""

from clinometer.studies.t2iat.scores.design import AssociationDesign, AssociationEmbeddings, DesignedTest
from clinometer.studies.t2iat.scores.measuring import ConceptMeasurer, MeasuredConcept
from clinometer.studies.t2iat.scores.rows import AssociationStudy, association_study, association_study_of
from clinometer.studies.t2iat.scores.stimuli import Density

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
