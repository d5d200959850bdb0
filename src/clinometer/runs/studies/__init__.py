"""What a run does for each study: the one place where the key ``study`` of a suite meets code of this room."""

from typing import Final

from clinometer.runs.studies.common import Scored, Study
from clinometer.runs.studies.leaning import score_leaning

STUDIES: Final[dict[str, Study]] = {"leaning": Study(score=score_leaning)}
"""By the suite's ``study``. A new study is a module here and a line in this mapping."""

__all__ = ["STUDIES", "Scored", "Study"]
