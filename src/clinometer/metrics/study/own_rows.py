"""Rows of TT in the text encoders of the audited model itself, beside those of the audit's encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clinometer.metrics.records import OWN_TEXT, Score
from clinometer.metrics.study.composite_rows import mcas_rows
from clinometer.metrics.study.context import Settings, Study
from clinometer.metrics.study.design import Design, EncoderEmbeddings, layout_of
from clinometer.metrics.study.relabelling import pools_of
from clinometer.metrics.study.views import views_of


def own_text_rows(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    n_resamples: int = 10_000,
    n_permutations: int = 9_999,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Score]:
    """TT of every target in each of the model's own text encoders: metric ``own_text``, component ``tt``.

    ::

        TT = mean_{a∈A} cos(w, a) − mean_{b∈B} cos(w, b)      w the target's text, A and B the attribute words

    The same number as ``mcas`` / ``tt``, in [−2, 2], positive towards A, with the same test over the words and the same
    stimulus interval. These encoders see no image, so no other component exists, and none of them enters the mean over
    the audit's encoders. ``q`` corrects over the targets, each encoder by itself.

    Raises
    ------
    InvalidInputError
        Embeddings that no cosine can take, or counts that do not match the design.
    """
    settings = Settings(n_resamples, n_permutations, seed, confidence)
    return [row for each in encoders for row in _rows(each, replace(design, third=None), settings)]


def _rows(encoder: EncoderEmbeddings, design: Design, settings: Settings) -> list[Score]:
    layout = layout_of([encoder], design)
    pair, everyone = pools_of(design, layout, (design.a, design.b)), pools_of(design, layout, design.groups)
    study = Study(design, layout, settings, pair, everyone)
    own = views_of([encoder], study)[1]
    rows = [row for row in mcas_rows(study, own) if row.component == "tt"]
    return [replace(row, metric=OWN_TEXT, family=row.family.replace("mcas", OWN_TEXT, 1)) for row in rows]
