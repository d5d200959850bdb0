"""Rows of what lies inside the audited model itself: TT in its own text encoders, II in the embeddings of its prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clinometer.metrics.records import OWN_TEXT, PRIOR, Score
from clinometer.studies.leaning.scores.composite_rows import mcas_rows
from clinometer.studies.leaning.scores.context import DrawSettings, LeaningStudy
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, layout_of
from clinometer.studies.leaning.scores.relabelling import pools_of
from clinometer.studies.leaning.scores.views import views_of


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
    settings = DrawSettings(n_resamples, n_permutations, seed, confidence)
    return [row for encoder in encoders for row in _rows(encoder, design, settings, OWN_TEXT, "tt")]


def prior_rows(
    priors: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    n_resamples: int = 10_000,
    n_permutations: int = 9_999,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Score]:
    """II of every target in the image embeddings that the model's prior draws: metric ``prior``, component ``ii``.

    ::

        II = mean_{x∈X} (mean_{a∈A} cos(x, a) − mean_{b∈B} cos(x, b))

    with X the prior's embeddings of the target's prompt, A and B those of the attribute prompts: the same number as
    ``mcas`` / ``ii`` one stage earlier, before anything is decoded into an image. In [−2, 2], positive towards A.
    Interval and test are those of ``ii``, with embeddings in the place of images: resampled within their prompts,
    tested as images are. ``q`` corrects over the targets. No prior enters the mean over the audit's
    encoders.

    Parameters
    ----------
    priors : what a prior drew, as images; no texts.

    Raises
    ------
    InvalidInputError
        Embeddings that no cosine can take, or counts that do not match the design.
    """
    settings = DrawSettings(n_resamples, n_permutations, seed, confidence)
    rows = [row for prior in priors for row in _rows(prior, design, settings, PRIOR, "ii")]
    return [replace(row, reason=_of_embeddings(row.reason), test=_of_embeddings(row.test)) for row in rows]


def _rows(
    encoder: EncoderEmbeddings, design: Design, settings: DrawSettings, metric: str, component: str
) -> list[Score]:
    """One component alone, under a metric of its own."""
    design = replace(design, third=None)
    layout = layout_of([encoder], design)
    study = LeaningStudy(design, layout, settings, pools_of(design, layout))
    own = views_of([encoder], study)[1]
    rows = [row for row in mcas_rows(study, own) if row.component == component]
    return [replace(row, metric=metric, family=row.family.replace("mcas", metric, 1)) for row in rows]


def _of_embeddings(words: str) -> str:
    return words.replace(" image", " prior embedding", 1)
