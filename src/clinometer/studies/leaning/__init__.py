"""The leaning study: how near a model's images of people named by no group are to those of each group.

MCAS, internal bias, xMCAS and other audits' numbers, from embeddings alone. What is named here is pure: arrays in,
rows out. How a run reads, stops and shows them is in the room's other modules.
"""

from clinometer.studies.leaning.scores import (
    Design,
    EncoderEmbeddings,
    Evidence,
    ReaderCheck,
    StoppingRule,
    TargetDesign,
    counted_once,
    crossed_study,
    evidence_of,
    mcas_study,
    own_text_rows,
    paired_evidence,
    prior_rows,
    reader_checks,
    rows_when_stopped,
    withheld,
)

__all__ = [
    "Design",
    "EncoderEmbeddings",
    "Evidence",
    "ReaderCheck",
    "StoppingRule",
    "TargetDesign",
    "counted_once",
    "crossed_study",
    "evidence_of",
    "mcas_study",
    "own_text_rows",
    "paired_evidence",
    "prior_rows",
    "reader_checks",
    "rows_when_stopped",
    "withheld",
]
