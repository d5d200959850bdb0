"""The T2IAT study: whether one concept's images are nearer than another's to an attribute.

What is named here is pure: arrays in, rows out.
"""

from clinometer.studies.t2iat.scores import T2iatStudy, t2iat_study, t2iat_study_of
from clinometer.studies.t2iat.scores.stimuli import (
    ConceptMeasurer,
    Density,
    DesignedTest,
    MeasuredConcept,
    T2iatDesign,
    T2iatEmbeddings,
)

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
