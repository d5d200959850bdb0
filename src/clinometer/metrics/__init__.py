"""The formulas of the papers, over plain arrays of embeddings. No model, no file, no torch.

Positive always means: leans to A.
"""

from clinometer.metrics.internal import (
    bias_amplification,
    delta_alpha_curve,
    diffusion_bias,
    signed_bias_amplification,
    signed_diffusion_bias,
)
from clinometer.metrics.mcas import MODALITIES, Mcas, mcas
from clinometer.metrics.records import Score
from clinometer.metrics.study import Design, EncoderEmbeddings, TargetDesign, mcas_study
from clinometer.metrics.verdict import verdict
from clinometer.metrics.weat import Weat, weat
from clinometer.metrics.xmcas import CENTROID, UNBIASED_ANGLE, Xmcas, xmcas
from clinometer.stats.association import association_direction, association_scores
from clinometer.stats.smoothing import Curve

__all__ = [
    "CENTROID",
    "MODALITIES",
    "UNBIASED_ANGLE",
    "Curve",
    "Design",
    "EncoderEmbeddings",
    "Mcas",
    "Score",
    "TargetDesign",
    "Weat",
    "Xmcas",
    "association_direction",
    "association_scores",
    "bias_amplification",
    "delta_alpha_curve",
    "diffusion_bias",
    "mcas",
    "mcas_study",
    "signed_bias_amplification",
    "signed_diffusion_bias",
    "verdict",
    "weat",
    "xmcas",
]
