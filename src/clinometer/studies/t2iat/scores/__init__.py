"""Every number of a T2IAT study, from embeddings alone."""

from clinometer.studies.t2iat.scores.design import AssociationDesign, AssociationEmbeddings, DesignedTest
from clinometer.studies.t2iat.scores.rows import AssociationStudy, association_study
from clinometer.studies.t2iat.scores.stimuli import Density

__all__ = [
    "AssociationDesign",
    "AssociationEmbeddings",
    "AssociationStudy",
    "Density",
    "DesignedTest",
    "association_study",
]
