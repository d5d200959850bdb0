"""What people see in the images, beside what the encoders read: shares, agreement, and the encoders' errors."""

from clinometer.metrics.human.design import HumanStudy, MachineScores, RatedConcept
from clinometer.metrics.human.study import HUMAN, human_rows

__all__ = ["HUMAN", "HumanStudy", "MachineScores", "RatedConcept", "human_rows"]
