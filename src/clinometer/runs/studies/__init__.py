"""What a run does for each study: the one place where the key ``study`` of a suite meets code of this room."""

from typing import Final

from clinometer.runs.studies.association import compare_association, score_association
from clinometer.runs.studies.classification import (
    classify,
    compare_classification,
    require_denoiser,
    score_classification,
)
from clinometer.runs.studies.common import Scored, Study
from clinometer.runs.studies.editing import compare_editing, edit, plan_edits, require_editor, score_editing
from clinometer.runs.studies.leaning import compare_leaning, open_concepts, score_leaning
from clinometer.runs.studies.own_text import embed_own_texts
from clinometer.runs.studies.prior import draw_prior_embeddings

STUDIES: Final[dict[str, Study]] = {
    "leaning": Study(
        score=score_leaning,
        stages=(embed_own_texts, draw_prior_embeddings),
        compare=compare_leaning,
        open_concepts=open_concepts,
    ),
    "association": Study(score=score_association, compare=compare_association),
    "editing": Study(
        score=score_editing,
        compare=compare_editing,
        stages=(edit,),
        texts_needed=True,
        extend_plan=plan_edits,
        check=require_editor,
    ),
    "classification": Study(
        score=score_classification,
        compare=compare_classification,
        stages=(classify,),
        encoders_needed=False,
        check=require_denoiser,
    ),
}
"""By the suite's ``study``. A new study is a module here and a line in this mapping."""

__all__ = ["STUDIES", "Scored", "Study"]
