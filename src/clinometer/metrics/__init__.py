"""The formulas of the papers, over plain arrays of embeddings. No model, no file, no torch.

Positive always means: leans to A.
"""

from clinometer.metrics.classification import choice_association, image_associations, pairwise_wins
from clinometer.metrics.internal import (
    bias_amplification,
    delta_alpha_curve,
    diffusion_bias,
    signed_bias_amplification,
    signed_diffusion_bias,
)
from clinometer.metrics.mcas import MODALITIES, Mcas, mcas
from clinometer.metrics.records import Score
from clinometer.metrics.skin import (
    SkinTone,
    Swatch,
    individual_typology_angle,
    monk_self_test,
    skin_mask,
    skin_tone,
    tone_class,
)
from clinometer.metrics.study import Design, EncoderEmbeddings, TargetDesign, mcas_study
from clinometer.metrics.t2iat import (
    AssociationDesign,
    AssociationEmbeddings,
    AssociationStudy,
    Density,
    DesignedTest,
    DifferentialAssociation,
    association_study,
    differential_association,
    effect_magnitude,
)
from clinometer.metrics.verdict import verdict
from clinometer.metrics.weat import Weat, weat
from clinometer.metrics.xmcas import CENTROID, UNBIASED_ANGLE, Xmcas, xmcas
from clinometer.stats.association import association_direction, association_scores
from clinometer.stats.smoothing import Curve

__all__ = [
    "CENTROID",
    "MODALITIES",
    "UNBIASED_ANGLE",
    "AssociationDesign",
    "AssociationEmbeddings",
    "AssociationStudy",
    "Curve",
    "Density",
    "Design",
    "DesignedTest",
    "DifferentialAssociation",
    "EncoderEmbeddings",
    "Mcas",
    "Score",
    "SkinTone",
    "Swatch",
    "TargetDesign",
    "Weat",
    "Xmcas",
    "association_direction",
    "association_scores",
    "association_study",
    "bias_amplification",
    "choice_association",
    "delta_alpha_curve",
    "differential_association",
    "diffusion_bias",
    "effect_magnitude",
    "image_associations",
    "individual_typology_angle",
    "mcas",
    "mcas_study",
    "monk_self_test",
    "pairwise_wins",
    "signed_bias_amplification",
    "signed_diffusion_bias",
    "skin_mask",
    "skin_tone",
    "tone_class",
    "verdict",
    "weat",
    "xmcas",
]
