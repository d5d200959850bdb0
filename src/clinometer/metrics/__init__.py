"""The formulas of the papers, over plain arrays of embeddings. No model, no file, no torch.

Positive always means: leans to A.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from clinometer.metrics.classification import choice_association, image_associations, pairwise_wins
from clinometer.metrics.distribution import (
    DistributionScore,
    bias_amplification_score,
    composite_bias,
    distribution_bias,
    divergence_from_uniform,
    entropy_bias,
    gender_gap,
    generative_miss_rate,
    group_entropy,
    histogram_overlap,
    jaccard_hallucination,
    mean_absolute_deviation,
    parity_gap,
    peer_scores,
    standard_deviation,
    tone_gap,
    total_variation,
)
from clinometer.metrics.mcas import (
    CENTROID,
    MODALITIES,
    UNBIASED_ANGLE,
    Mcas,
    SmoothCurve,
    Xmcas,
    bias_amplification,
    delta_alpha_curve,
    diffusion_bias,
    mcas,
    signed_bias_amplification,
    signed_diffusion_bias,
    xmcas,
)
from clinometer.metrics.readers import (
    GroupShares,
    ReaderShares,
    ReadShare,
    rated_group_shares,
    ratings_to_decide,
    reader_agreement,
    shares_as_read,
    shares_by_reader,
)
from clinometer.metrics.reading import Concentration, concentration
from clinometer.metrics.records import Score
from clinometer.metrics.t2iat import DifferentialAssociation, differential_association, effect_magnitude
from clinometer.metrics.transport import ReadPictures, Transport, transport
from clinometer.metrics.verdict import verdict
from clinometer.metrics.weat import Weat, stimulus_weat, weat
from clinometer.stats.association import association_direction, association_scores
from clinometer.stats.confusion import ConfusionMatrix, CorrectedShares, Kinds, confusion_matrix, corrected_shares
from clinometer.stats.skin import (
    SkinTone,
    Swatch,
    individual_typology_angle,
    monk_self_test,
    skin_mask,
    skin_tone,
    tone_class,
)

__all__ = [
    "CENTROID",
    "MODALITIES",
    "UNBIASED_ANGLE",
    "Concentration",
    "ConfusionMatrix",
    "CorrectedShares",
    "DifferentialAssociation",
    "DistributionScore",
    "GroupShares",
    "Kinds",
    "Mcas",
    "ReadPictures",
    "ReadShare",
    "ReaderShares",
    "Score",
    "SkinTone",
    "SmoothCurve",
    "Swatch",
    "Transport",
    "Weat",
    "Xmcas",
    "association_direction",
    "association_scores",
    "bias_amplification",
    "bias_amplification_score",
    "choice_association",
    "composite_bias",
    "concentration",
    "confusion_matrix",
    "corrected_shares",
    "delta_alpha_curve",
    "differential_association",
    "diffusion_bias",
    "distribution_bias",
    "divergence_from_uniform",
    "effect_magnitude",
    "entropy_bias",
    "gender_gap",
    "generative_miss_rate",
    "group_entropy",
    "histogram_overlap",
    "image_associations",
    "individual_typology_angle",
    "jaccard_hallucination",
    "mcas",
    "mean_absolute_deviation",
    "monk_self_test",
    "pairwise_wins",
    "parity_gap",
    "peer_scores",
    "rated_group_shares",
    "ratings_to_decide",
    "reader_agreement",
    "shares_as_read",
    "shares_by_reader",
    "signed_bias_amplification",
    "signed_diffusion_bias",
    "skin_mask",
    "skin_tone",
    "standard_deviation",
    "stimulus_weat",
    "tone_class",
    "tone_gap",
    "total_variation",
    "transport",
    "verdict",
    "weat",
    "xmcas",
]

_MOVED = {
    "clinometer.studies.leaning": (
        "Design", "EncoderEmbeddings", "Evidence", "StoppingRule", "TargetDesign", "mcas_study", "own_text_rows",
        "prior_rows", "rows_when_stopped", "evidence_of",
    ),
    "clinometer.studies.t2iat": (
        "AssociationDesign", "AssociationEmbeddings", "AssociationStudy", "Density", "DesignedTest",
        "association_study",
    ),
    "clinometer.studies.classification": (
        "ClassificationDesign", "Contrast", "association_curves", "classification_study",
    ),
}  # fmt: skip
"""Whole studies stood here in version 0.1; their rooms have them now."""

_RENAMED = {
    "AssociationDesign": "T2iatDesign", "AssociationEmbeddings": "T2iatEmbeddings", "AssociationStudy": "T2iatStudy",
    "association_study": "t2iat_study",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for room, names in _MOVED.items():
        if name in names:
            new = _RENAMED.get(name, name)
            warnings.warn(f"clinometer.metrics.{name} is {room}.{new} now", DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(room), new)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
