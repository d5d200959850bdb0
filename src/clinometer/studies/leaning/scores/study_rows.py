"""Every number of a run, with intervals, tests and nulls: measures all targets and collects all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import withheld_by_shares
from clinometer.stats.blocks import ArrayStore, InMemory
from clinometer.studies.leaning.scores import axes, components, derived, encoder_check, plane, shares
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    ResamplingSettings,
    StudySetup,
    layout_of,
    pooled_encoders,
)
from clinometer.studies.leaning.scores.measuring import MeasuredTarget, Measurer, ReplicateWeights, counted_once
from clinometer.studies.leaning.scores.rows import as_encoder
from clinometer.studies.leaning.scores.views import EncoderView, StudyViews, gather, resampling_weights


def mcas_study(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    n_resamples: int = 10_000,
    n_permutations: int = 9_999,
    seed: int = 0,
    confidence: float = 0.95,
    measured: Iterable[tuple[int, MeasuredTarget]] | None = None,
    store: Callable[[], ArrayStore] = InMemory,
) -> list[Score]:
    """Compute every number of the MCAS family for one run.

    All of them are functions of one tensor of mean cosines ``C[target, modality, group]``, so the cosines are
    computed once and 10,000 bootstrap replicates are weights times cosines. Rows:

    ========================== ============================================================= =================
    metric                     components                                                    encoders
    ========================== ============================================================= =================
    ``mcas``                   ii, itp, ita, tt, image_part, text_part, mcas (with p, q,     mean and each
                               p_labels; verdicts on the last three of "mean")
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
    ``middle``                 of ii, ita, image_part, mcas; of the profile's rows; with a   each and mean,
                               third group, ``setting`` ``plane``: the place on the plane    then mean
    ``pictures``               batches                                                       none
    ========================== ============================================================= =================

    ``low``, ``high``, p and q are over images (those of targets and of attributes), words fixed; the stimulus interval
    is over the words and the encoders too. What is linear in the cosines has the intervals and tests of
    :mod:`clinometer.studies.leaning.scores.contrasts`, everything else percentiles of bootstrap replicates. Verdicts
    stand on both parts and MCAS of the mean over encoders, and in the profile on every group and pair, from ten images
    of a target on. What is missing (no images, one image, no text tower) makes NaN with a reason, and the rest goes on.
    A verdict is compared with 0 and against the groups' middle
    (:mod:`clinometer.studies.leaning.scores.middle`), and withheld where the share of the same images denies it.
    The same arguments give the same bits. ``n_permutations`` = 0 leaves out the labels. A view that cannot read its own
    attribute images gives no verdict: ``not measured``, with the reason.

    Where the groups are cells of axes, the rows are those of :func:`crossed_study` instead: there is no pair of
    groups, so there is no MCAS of one. Each axis is checked by itself, and a cell needs them all.

    A picture that is there more than once, or nearly, counts once
    (:mod:`~clinometer.studies.leaning.scores.measuring`): ``n_target`` counts different ones, ``n_repeated`` the
    others. Batches are units of chance, those that are known
    (``target_batches``) and those that the order of the rows shows; ``n_batches`` counts them, and from ten of them on
    there are verdicts. A row ``pictures``, ``batches`` says so.

    ``measured`` : the targets as :func:`measurer_of` measured them, in any process and order; then no image of a
    target is read here, but there must be as many, of embeddings that count each once.
    ``store`` makes what replicates wait in, 0.7 MB a target and view: memory by default.

    Raises
    ------
    InvalidInputError
        Embeddings that no cosine can take, or counts that do not match the design; names encoder and target.
    """
    settings = ResamplingSettings(n_resamples, n_permutations, seed, confidence, store=store)
    return _study(encoders, design, settings, measured)


def measurer_of(
    encoders: Sequence[EncoderEmbeddings], design: Design, *, n_resamples: int = 10_000, seed: int = 0
) -> Measurer:
    """Return the measurer of single targets for :func:`mcas_study`; raises as that does.

    The images of a target are looked at when it is measured.
    """
    setup, replicate_weights = _set_up(encoders, design, ResamplingSettings(n_resamples, seed=seed))
    return Measurer(encoders, setup.layout, replicate_weights, own_texts=replicate_weights is not None, check=design)


def crossed_study(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    confidence: float = 0.95,
    measured: Iterable[tuple[int, MeasuredTarget]] | None = None,
) -> list[Score]:
    """Compute every number of a run whose groups are cells of axes, and how well the encoders read along each axis.

    Rows are of metric ``intersections``. Values are image parts, II + ITA, but for interactions, which are shares of
    images; ``setting`` names another component of MCAS, or ``"mcas"`` itself, where a row is of that. Where equal parts
    of all cells' own images lie, along each axis and among the cells, is of metric ``middle``, component
    ``image_part``, and ``setting`` is the component that has it as its second zero.

    ============================ ======================================================================
    component                    value
    ============================ ======================================================================
    ``axis:A``                   of two levels, the image part along the axis, every cell of a level weighing
                                 alike; ``group`` is the level that positive leans to, ``setting`` see above
    ``axis:A``, ``group`` a      of more levels, the deviation of each from their mean; without ``group`` the
    level                        length of all deviations, tested against uniform
    ``cells``                    length of the cells' deviations, tested against all cells being as near
    ``cell:C``                   deviation of a cell from the mean of all; sums to 0 over the cells
    ``interaction:A×B``          share of images at the cell ``group`` beyond what its levels alone give; with
                                 more than one free cell, one row each, and their length without ``group``
    ``residual:A×B``             the double-centred cosine of the cell ``group``: not neutral, carries no verdict
    ============================ ======================================================================

    Tests are corrected over the targets, those of cells and levels over both. Verdicts stand in the rows of single
    axes, cells and interactions, averaged over encoders.

    ``measured`` : as in :func:`mcas_study`.
    """
    return _study(encoders, design, ResamplingSettings(confidence=confidence), measured)


def _study(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    settings: ResamplingSettings,
    measured: Iterable[tuple[int, MeasuredTarget]] | None,
) -> list[Score]:
    """Collect all rows of a run, of embeddings that count each picture once; targets are measured unless they are."""
    if measured is None:
        encoders = counted_once(encoders, design)
    setup, replicate_weights = _set_up(encoders, design, settings)
    if measured is None:
        measure = Measurer(encoders, setup.layout, replicate_weights, own_texts=replicate_weights is not None)
        measured = measure.every_target()
    views = gather(encoders, setup, replicate_weights, measured)
    checks = encoder_check.checks_of(encoders, design, confidence=settings.confidence)
    if design.axes:
        rows, fidelity = axes.axis_rows(setup, views.all), list[Score]()
        middles = [row for view in views.all for row in axes.axis_middle_rows(setup, view)]
    else:
        rows, fidelity = _pair_rows(setup, views), shares.fidelity_rows(setup, encoders, views.all)
        middles = [row for view in views.all for row in components.pair_middle_rows(setup, view)]
        middles += [*plane.profile_middle_rows(setup, views.mean), *plane.plane_middle_rows(setup, views.mean)]
    rows += shares.batch_rows(setup, views.mean, encoders[0].order)
    rows += encoder_check.corrected_rows(setup, [row for row in rows if row.metric == "share"], checks[0].by_view)
    rows = shares.mark_unshown(withheld_by_shares(rows, rows, a=design.a), fidelity)
    return [
        *encoder_check.withheld_by_level(rows, checks),
        *encoder_check.reader_rows(checks, settings.confidence),
        *encoder_check.confusion_rows(setup, views.all),
        *fidelity,
        *middles,
    ]


def _set_up(
    encoders: Sequence[EncoderEmbeddings], design: Design, settings: ResamplingSettings
) -> tuple[StudySetup, ReplicateWeights | None]:
    """Check embeddings, and make the weights of replicates.

    Along axes every interval has a formula, so there are none; nor are images compared with the targets' texts.
    """
    setup = StudySetup(design, layout_of(encoders, design, targets=False), settings)
    return setup, None if design.axes else resampling_weights(setup, n_encoders=len(pooled_encoders(encoders)))


def _pair_rows(setup: StudySetup, views: StudyViews) -> list[Score]:
    """Compute what images and texts say of a pair of groups."""
    mean, others = views.mean, views.by_encoder
    rows, further = components.mcas_rows(setup, mean), _rows_of_a_view(setup, mean)
    rows += further
    if len(others) == 1:  # the average of one is that one, but that no verdict stands on it
        rows += [*components.mcas_rows(setup, others[0]), *as_encoder(further, others[0].encoder)]
    else:
        rows += [row for view in others for row in (*components.mcas_rows(setup, view), *_rows_of_a_view(setup, view))]
    rows += components.sensitivity_rows(rows, [view.encoder for view in others])
    return [
        *rows,
        *shares.other_audit_rows(setup, mean, views.blanks),
        *derived.internal_bias_summary_rows(setup, mean),
        *derived.category_rows(setup, mean),
        *derived.sign_rows(setup, mean),
        *plane.xmcas_rows(setup, mean),
        *plane.xmcas_group_rows(setup, mean),
        *plane.profile_rows(setup, mean),
    ]


def _rows_of_a_view(setup: StudySetup, view: EncoderView) -> list[Score]:
    return [
        *derived.internal_bias_rows(setup, view),
        *shares.share_rows(setup, view),
        *shares.between_rows(setup, view),
    ]
