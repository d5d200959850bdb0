"""The leaning study: how near a model's images of people named by no group are to those of each group.

MCAS, internal bias, xMCAS and other audits' numbers, from embeddings alone. What is named here is pure: arrays in,
rows out. How a run reads, stops and shows them is in the room's other modules.
"""

from clinometer.metrics.verdict import Evidence, StoppingRule
from clinometer.studies.leaning.scores.components import own_text_rows, prior_rows
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.encoder_check import ReaderCheck, reader_checks, withheld
from clinometer.studies.leaning.scores.measuring import counted_once
from clinometer.studies.leaning.scores.stopping import evidence_of, paired_evidence, rows_when_stopped
from clinometer.studies.leaning.scores.study_rows import crossed_study, mcas_study

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
