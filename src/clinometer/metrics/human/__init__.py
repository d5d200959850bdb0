"""What people see in the images, beside what the encoders read: shares, agreement, and the encoders' errors."""

from __future__ import annotations

from clinometer.metrics.human.agreement_rows import agreement_rows, correlation_rows
from clinometer.metrics.human.design import HumanStudy, MachineScores, RatedConcept
from clinometer.metrics.human.encoder_rows import encoder_rows
from clinometer.metrics.human.names import HUMAN, SIMULATED
from clinometer.metrics.human.share_rows import corrected_rows, fraction_rows, share_rows
from clinometer.metrics.records import Score

__all__ = ["HUMAN", "SIMULATED", "HumanStudy", "MachineScores", "RatedConcept", "human_rows"]


def human_rows(study: HumanStudy) -> list[Score]:
    """Fractions, shares corrected by people, agreement of people with each other and with the machine.

    Rows that no encoder took part in name none. Of every concept: ``fraction`` of each answer, ``share`` of a among the
    answers a and b, and by encoder ``corrected_share`` and ``more_ratings``. Of all: ``alpha``, ``self_consistency``,
    ``attention``, by encoder ``sensitivity``, ``specificity`` and ``confusion``, and ``tau`` against each score.
    """
    if not study.concepts:
        return []
    shares = share_rows(study)
    return [
        *fraction_rows(study),
        *shares,
        *corrected_rows(study),
        *agreement_rows(study),
        *encoder_rows(study),
        *correlation_rows(study, {row.concept: row.value for row in shares}),
    ]
