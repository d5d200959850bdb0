"""A whole study: every number of a run, with intervals, tests and nulls, from embeddings alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clinometer.metrics.records import Score
from clinometer.metrics.stopping import Evidence, StoppingRule
from clinometer.studies.leaning.scores.audit_rows import other_audit_rows
from clinometer.studies.leaning.scores.axis_readers import axis_checks, axis_reader_rows, withheld_from_axes
from clinometer.studies.leaning.scores.composite_rows import internal_bias_rows, mcas_rows
from clinometer.studies.leaning.scores.context import LeaningStudy, checked_settings
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign, layout_of
from clinometer.studies.leaning.scores.fidelity_rows import fidelity_rows, mark_unshown
from clinometer.studies.leaning.scores.gathering import GatheredTargets, gather
from clinometer.studies.leaning.scores.intersection_rows import cell_measurer_of, intersection_study
from clinometer.studies.leaning.scores.measured_cells import CellMeasurer, MeasuredCells
from clinometer.studies.leaning.scores.measuring import MeasuredTarget, Measurer, measured_by_threads, pooled_encoders
from clinometer.studies.leaning.scores.own_rows import own_text_rows, prior_rows
from clinometer.studies.leaning.scores.paired_stopping import paired_evidence
from clinometer.studies.leaning.scores.plane_rows import xmcas_group_rows, xmcas_rows
from clinometer.studies.leaning.scores.profile_rows import profile_rows
from clinometer.studies.leaning.scores.reader import ReaderCheck, reader_checks, withheld
from clinometer.studies.leaning.scores.reader_rows import corrected_rows, reader_rows
from clinometer.studies.leaning.scores.relabelling import pools_of
from clinometer.studies.leaning.scores.repeats import counted_once
from clinometer.studies.leaning.scores.sensitivity_rows import sensitivity_rows
from clinometer.studies.leaning.scores.share_rows import between_rows, share_rows
from clinometer.studies.leaning.scores.stopping import evidence_of, rows_when_stopped
from clinometer.studies.leaning.scores.summary_rows import category_rows, internal_bias_summary_rows, sign_rows
from clinometer.studies.leaning.scores.views import draw_weights, views_of_gathered

__all__ = [
    "CellMeasurer",
    "Design",
    "EncoderEmbeddings",
    "Evidence",
    "MeasuredCells",
    "MeasuredTarget",
    "ReaderCheck",
    "StoppingRule",
    "TargetDesign",
    "cell_measurer_of",
    "counted_once",
    "crossed_study",
    "evidence_of",
    "intersection_study",
    "mcas_study",
    "measurer_of",
    "own_text_rows",
    "paired_evidence",
    "prior_rows",
    "reader_checks",
    "rows_when_stopped",
    "withheld",
]


def mcas_study(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    n_resamples: int = 10_000,
    n_permutations: int = 9_999,
    seed: int = 0,
    confidence: float = 0.95,
    measured: Iterable[tuple[int, MeasuredTarget]] | None = None,
) -> list[Score]:
    """Every number of the MCAS family for one run.

    All of them are functions of one tensor of mean cosines ``C[target, modality, group]``, so the cosines are
    computed once and 10,000 bootstrap replicates are weights times cosines. Rows:

    ========================== ============================================================= =================
    metric                     components                                                    encoders
    ========================== ============================================================= =================
    ``mcas``                   ii, itp, ita, tt, mcas (with p, q, p_labels; verdict on mcas  mean and each
                               of "mean")
    ``internal_bias``          diffusion_bias, bias_amplification and their signed forms     mean and each
    ``share``                  share, parity_gap, corrected_share, between                   mean and each
    ``reader``                 sensitivity, specificity, informedness, confusion             mean and each
    ``fidelity``               own_prompt_first, own_prompt_upper_half, own_prompt_rank      mean and each
    ``other_audits``           gender_gap, mean_absolute_deviation, entropy_bias,            mean
                               distribution_bias, miss_rate
    ``internal_bias_summary``  {diffusion_bias, bias_amplification}_{min, max, mean,         mean
                               standard_error} per stereotype group ("": all)
    ``category``               mean, std per category and stereotype group ("": all)         mean
    ``category_by_sign``       the same over the targets that measure positive or negative   mean
    ``profile``                association per group, "g-h" per pair, norm (p, q, verdicts)  mean
    ``sensitivity``            size, agreement and spread of every component over encoders   each and mean
    ``xmcas``, ``xmcas_group`` similarity, angle, distance, mcas, offset; with a third group mean
    ========================== ============================================================= =================

    ``low``, ``high``, p and q are over images (those of targets and of attributes), words fixed; the stimulus interval
    is over the words and the encoders too. What is linear in the cosines has the intervals and tests of
    :mod:`clinometer.studies.leaning.scores.inference`, everything else percentiles of bootstrap replicates. A verdict
    rests on MCAS of the mean over encoders, and in the profile on every group and pair, from ten images of a target
    on. What is missing (no images, one image, no text tower) makes NaN with a reason, and the rest goes on. The same
    arguments, the same bits. ``n_permutations`` = 0 leaves out the labels. A view that cannot read its own attribute
    images gives no verdict: ``not measured``, with the reason.

    Where the groups are cells of axes, the rows are those of :func:`intersection_study` instead: there is no pair of
    groups, so there is no MCAS of one. Each axis is checked by itself, and a cell needs them all.

    A picture that is there more than once counts once (:mod:`~clinometer.studies.leaning.scores.repeats`):
    ``n_target`` counts different ones, ``n_repeated`` the others.

    ``measured`` : of each target, what :func:`measurer_of` says of it in whatever process and order; then no image of a
    target is read here, but there must be as many, of embeddings that count each once. Not of axes: see
    :func:`crossed_study`.

    Raises
    ------
    InvalidInputError
        Embeddings that no cosine can take, or counts that do not match the design; names encoder and target.
    """
    settings = checked_settings(n_resamples, n_permutations, seed, confidence)
    if design.axes:
        return crossed_study(encoders, design, confidence=confidence)
    if measured is None:
        encoders = counted_once(encoders, design)
    layout = layout_of(encoders, design, targets=False)
    study = LeaningStudy(design, layout, settings, pools_of(design, layout))
    draws = draw_weights(study, n_encoders=len(pooled_encoders(encoders)))
    if measured is None:
        measured = measured_by_threads(Measurer(encoders, layout, draws), layout, draws)
    targets = gather(encoders, layout, draws, measured)
    views = views_of_gathered(encoders, study, draws, targets)
    rows = [
        row
        for view in views
        for make in (mcas_rows, internal_bias_rows, share_rows, between_rows)
        for row in make(study, view)
    ]
    summaries = (
        internal_bias_summary_rows, category_rows, sign_rows, xmcas_rows, xmcas_group_rows, profile_rows,
    )  # fmt: skip
    rows += sensitivity_rows(rows, [view.encoder for view in views[1:]])
    rows += other_audit_rows(study, views[0], targets.blanks)
    rows += [row for make in summaries for row in make(study, views[0])]
    return _with_readers(rows, study, encoders, targets)


def measurer_of(
    encoders: Sequence[EncoderEmbeddings], design: Design, *, n_resamples: int = 10_000, seed: int = 0
) -> Measurer:
    """What measures the targets of a study for :func:`mcas_study`, one at a time; raises as that does.

    The images of a target are looked at when it is measured.
    """
    settings = checked_settings(n_resamples, 0, seed, 0.95)
    layout = layout_of(encoders, design, targets=False)
    study = LeaningStudy(design, layout, settings, pools_of(design, layout))
    return Measurer(encoders, layout, draw_weights(study, n_encoders=len(pooled_encoders(encoders))), check=design)


def _with_readers(
    rows: list[Score], study: LeaningStudy, encoders: Sequence[EncoderEmbeddings], targets: GatheredTargets
) -> list[Score]:
    """The rows with how well the encoders read, and without what one that cannot read would have said."""
    checks = reader_checks(encoders, study.design, confidence=study.settings.confidence)
    fidelity = fidelity_rows(study, encoders, targets)
    shares = [row for row in rows if row.metric == "share"]
    rows = mark_unshown([*rows, *corrected_rows(study, shares, checks)], fidelity)
    return [*withheld(rows, checks), *reader_rows(study, encoders, checks), *fidelity]


def crossed_study(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    confidence: float = 0.95,
    measured: Iterable[tuple[int, MeasuredCells]] | None = None,
) -> list[Score]:
    """Every number of a run whose groups are cells of axes, and how well the encoders read along each axis.

    ``measured`` : see :func:`intersection_study`.
    """
    if measured is None:
        encoders = counted_once(encoders, design)
    rows = intersection_study(encoders, design, confidence=confidence, measured=measured)
    checks = axis_checks(encoders, design, confidence=confidence)
    return [*withheld_from_axes(rows, checks), *axis_reader_rows(encoders, design, checks, confidence)]
