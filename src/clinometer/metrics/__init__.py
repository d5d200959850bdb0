"""The formulas of the papers, over plain arrays of embeddings. No model, no file, no torch.

Positive always means: leans to A.
"""

from clinometer.metrics.classification import choice_association, image_associations, pairwise_wins
from clinometer.metrics.classification_study import (
    ClassificationDesign,
    Contrast,
    association_curves,
    classification_study,
)
from clinometer.metrics.distribution import (
    DistributionScore,
    distribution_bias,
    entropy_bias,
    gender_gap,
    generative_miss_rate,
    histogram_overlap,
    jaccard_hallucination,
    mean_absolute_deviation,
    tone_gap,
)
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
from clinometer.metrics.study import (
    Design,
    EncoderEmbeddings,
    Stand,
    StoppingRule,
    TargetDesign,
    mcas_study,
    own_text_rows,
    prior_rows,
    rows_when_stopped,
    stands_of,
)
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
from clinometer.metrics.weat import Weat, stimulus_weat, weat
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
    "ClassificationDesign",
    "Contrast",
    "Curve",
    "Density",
    "Design",
    "DesignedTest",
    "DifferentialAssociation",
    "DistributionScore",
    "EncoderEmbeddings",
    "Mcas",
    "Score",
    "SkinTone",
    "Stand",
    "StoppingRule",
    "Swatch",
    "TargetDesign",
    "Weat",
    "Xmcas",
    "association_curves",
    "association_direction",
    "association_scores",
    "association_study",
    "bias_amplification",
    "choice_association",
    "classification_study",
    "delta_alpha_curve",
    "differential_association",
    "diffusion_bias",
    "distribution_bias",
    "effect_magnitude",
    "entropy_bias",
    "gender_gap",
    "generative_miss_rate",
    "histogram_overlap",
    "image_associations",
    "individual_typology_angle",
    "jaccard_hallucination",
    "mcas",
    "mcas_study",
    "mean_absolute_deviation",
    "monk_self_test",
    "own_text_rows",
    "pairwise_wins",
    "prior_rows",
    "rows_when_stopped",
    "signed_bias_amplification",
    "signed_diffusion_bias",
    "skin_mask",
    "skin_tone",
    "stands_of",
    "stimulus_weat",
    "tone_class",
    "tone_gap",
    "verdict",
    "weat",
    "xmcas",
]
