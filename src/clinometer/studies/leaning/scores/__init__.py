"""A whole study: every number of a run, with intervals, tests and nulls, from embeddings alone."""

from clinometer.metrics.verdict import Evidence, StoppingRule
from clinometer.studies.leaning.scores.components import own_text_rows, prior_rows
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.encoder_check import ReaderCheck, reader_checks, withheld
from clinometer.studies.leaning.scores.measuring import MeasuredTarget, counted_once
from clinometer.studies.leaning.scores.stopping import evidence_of, paired_evidence, rows_when_stopped
from clinometer.studies.leaning.scores.study_rows import crossed_study, mcas_study, measurer_of

__all__ = [
    "Design",
    "EncoderEmbeddings",
    "Evidence",
    "MeasuredTarget",
    "ReaderCheck",
    "StoppingRule",
    "TargetDesign",
    "counted_once",
    "crossed_study",
    "evidence_of",
    "mcas_study",
    "measurer_of",
    "own_text_rows",
    "paired_evidence",
    "prior_rows",
    "reader_checks",
    "rows_when_stopped",
    "withheld",
]
