"""Every number of a T2IAT study, from embeddings alone."""

from clinometer.studies.t2iat.scores.measuring import ConceptMeasurer, MeasuredConcept
from clinometer.studies.t2iat.scores.rows import T2iatStudy, t2iat_study, t2iat_study_of
from clinometer.studies.t2iat.scores.stimuli import Density, DesignedTest, T2iatDesign, T2iatEmbeddings

__all__ = [
    "ConceptMeasurer",
    "Density",
    "DesignedTest",
    "MeasuredConcept",
    "T2iatDesign",
    "T2iatEmbeddings",
    "T2iatStudy",
    "t2iat_study",
    "t2iat_study_of",
]
