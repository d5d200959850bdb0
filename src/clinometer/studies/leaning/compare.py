"""Two models, or one at two settings, asked the same: how much the second differs from the first in leaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Final, Literal

import numpy as np

from clinometer._cores import available_cores, mapped_by_threads
from clinometer.errors import InvalidInputError
from clinometer.metrics.differences import METRIC, RUNS, magnitude_row, named_or_counted, not_measured, with_reasons
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, component_of
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import MISSING, REPEATS, with_bounds
from clinometer.stats.association import matmul
from clinometer.stats.blocks import ArrayStore, InMemory, pieces_of
from clinometer.stats.bootstrap import magnitude_excess, percentile_interval, student_p
from clinometer.studies.leaning.scores.contrasts import pair_weights
from clinometer.studies.leaning.scores.cosines import attribute_vectors, uniform_weights, variance
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    ResamplingSettings,
    StudySetup,
    pooled_encoders,
    unit_rows,
)
from clinometer.studies.leaning.scores.differences import (
    JUDGED,
    NO_INTERVAL,
    ComparedRuns,
    MissingPictures,
    compare_runs,
    measured_runs,
)
from clinometer.studies.leaning.scores.encoder_check import checks_of, withheld_between, withheld_by_level
from clinometer.studies.leaning.scores.measuring import AHEAD, PART, ROWS, WHOLE, ReplicateWeights
from clinometer.studies.leaning.scores.mitigated import DIVERSITY, FIDELITY, image_spread, judge_against_limit
from clinometer.studies.leaning.scores.rows import Contrast, contrast_family, pair_contrast
from clinometer.studies.leaning.scores.shares import OWN_FIDELITY
from clinometer.studies.leaning.scores.stopping import differences_when_stopped, paired_evidence
from clinometer.studies.leaning.scores.views import resampling_weights

COMPARED = (IMAGE_PART, "ii", "itp", "ita", "mcas")
"""TT rests on no image: it is the same in both, and the text part differs by ITP alone."""

MAGNITUDE_TEST = "{} t of the difference, bootstrapped standard error, two-sided"


def compare_leanings(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    paired: bool,
    until_decided: bool = False,
    n_resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    missing: MissingPictures | None = None,
    store: Callable[[], ArrayStore] = InMemory,
) -> list[Score]:
    """Compare the MCAS components of two runs of one design, seen by the same encoders.

    ::

        Δ_t = s_t(second) − s_t(first)                  in [−16, 16] for mcas, [−8, 8] for ``image_part``, else [−4, 4]
        Δ   = mean_t |image_part_t(second)| − mean_t |image_part_t(first)|                    ``magnitude``
        p   = 2 P(T_ν ≥ |Δ_t| / se)        se over images: of partners their own, else moderated over the targets

    Positive: the second run leans more to group a. ``paired``: the i-th image of a prompt starts from the same noise in
    both runs, so both are resampled by the same weights and what they have in common cancels; then every prompt must
    have equally many images in both. Otherwise each run's images are resampled for themselves. Words and encoders are
    the same in both runs, and are always resampled alike. Intervals of a target's numbers are dual to their tests.
    An attribute prompt that one run has no image of is left out of both, and rows that rest on it say so: the mean of a
    group would be one of other prompts.
    In ``magnitude`` the signs of the estimates are held while resampling: a percentile interval of |x| cannot reach 0;
    and each prompt has equally many images in both runs, the first ones of the larger: the magnitude of few images is
    larger by chance. So is that of targets near parity: the ends are moved outwards, and the difference that p judges
    towards 0, by what either run's magnitude may owe to it (``magnitude_excess``).
    ``until_decided``: a run stopped by what it saw. Only what holds at any number of images is then reported:
    intervals, p and verdicts of the image part and MCAS, by bets on the pairs
    (:mod:`~clinometer.studies.leaning.scores.stopping`).
    ``missing`` : what either run was asked for and did not draw. What is missing of the second is taken to be of group
    b, and of the first of group a, and then the other way round; a verdict that does not hold over both says so. So
    does one that rests on counting once what was drawn several times.
    ``store`` : makes what replicates wait in, memory by default.

    Returns
    -------
    Rows of metric ``comparison``: every component of every target, and ``magnitude`` over all targets, with q over the
    targets of a component, and a verdict on ``image_part`` and ``mcas`` of the mean over encoders and on ``magnitude``.
    Where the design has a margin, two one-sided tests show that the runs lean alike: |Δ| < margin. What is undecided
    says how many images would decide, all sets growing alike. A view that cannot read the attribute images of either
    run gives no verdict: ``not measured``, with the reason.

    Raises
    ------
    InvalidInputError
        Encoders or, where paired, counts of images that differ between the runs.
    """
    if until_decided and not paired:
        raise InvalidInputError.unsupported(
            "images drawn until decided are compared in pairs only", field="until_decided"
        )
    settings = ResamplingSettings(n_resamples, seed=seed, confidence=confidence, store=store)
    runs = compare_runs(first, second, design, settings, paired=paired, missing=missing)
    checks = [checks_of(run, design, confidence=confidence) for run in runs.embeddings]
    rows = [
        row
        for encoder in runs.encoders
        for component in COMPARED
        for row in runs.component_family(encoder, component).judged()
    ]
    rows = [*rows, _magnitude(runs, _equally_many(runs, settings), confidence)]
    rows = [_note_left_out(row, runs) for row in rows]
    if until_decided:
        stands = {name: paired_evidence(*runs.embeddings, design, component=name, ahead=True) for name in JUDGED}
        rows = differences_when_stopped(rows, stands, design)
    return withheld_between(rows, *checks)


def _note_left_out(row: Score, runs: ComparedRuns) -> Score:
    """Note in a row that rests on attribute images which of their prompts were left out."""
    design = runs.design
    positions = {group: runs.left_out[group] for group in (design.a, design.b) if group in runs.left_out}
    if not positions or row.component == "ita":
        return row
    words = []
    for group, at in positions.items():
        prompts = design.prompts.get(group)
        named = named_or_counted([f"“{prompts[i]}”" for i in at], "of the prompts") if prompts is not None else ""
        words.append(f"{named or f'{len(at)} of the prompts'} of {group}")
    images = "images that both runs drew" if runs.paired else "images in one of the runs"
    return with_reasons(row, f"left out of both for want of {images}: {' and '.join(words)}")


def _equally_many(runs: ComparedRuns, settings: ResamplingSettings) -> list[ImagePartReplicates]:
    """Replicate both runs' image parts over equally many images of every prompt: the first ones of the larger."""
    (first, _), (second, _) = runs.measured
    embeddings, measured = runs.embeddings, runs.measured
    counts = [(setup.layout.target_sizes, setup.layout.prompt_sizes) for setup in (first, second)]
    if counts[0] != counts[1]:
        pairs = list(zip(*runs.embeddings, strict=True))
        embeddings = [_cut(one, other) for one, other in pairs], [_cut(other, one) for one, other in pairs]
        measured = measured_runs(embeddings, runs.design, settings, runs.paired)
    return image_part_replicates([
        (run, setup, views[MEAN].targets.point) for run, (setup, views) in zip(embeddings, measured, strict=True)
    ])  # fmt: skip


def _cut(run: EncoderEmbeddings, other: EncoderEmbeddings) -> EncoderEmbeddings:
    """Cut what an encoder saw of a run to as many images of every prompt as it saw of the other, if these are fewer."""

    def shorter(images: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(x[: len(y)] for x, y in zip(images, others, strict=True))

    return replace(
        run,
        target_images=shorter(run.target_images, other.target_images),
        target_batches=run.target_batches and shorter(run.target_batches, other.target_images),
        group_images={g: shorter(images, other.group_images[g]) for g, images in run.group_images.items()},
    )


def _magnitude(runs: ComparedRuns, both: Sequence[ImagePartReplicates], confidence: float) -> Score:
    """Report which run leans more, over all targets that both measure.

    Missing pictures of a run may make each of its targets lean less, or more. The difference is moved as far as they
    may move it, with the same uncertainty, and likewise to where all pictures count as often as they were drawn.
    """
    is_measured, left_out = _with_interval(runs.design, both)
    if not is_measured.any():
        reason = "no target is measured in both runs"
        return not_measured(Score(metric=METRIC, component="magnitude", category="all", reason=reason))

    def difference(kind: Literal["point", "images", "stimulus"]) -> np.ndarray:
        first, second = (getattr(run, kind) * np.sign(run.point) for run in both)
        return np.asarray((second - first)[..., is_measured].mean(axis=-1))

    def excess(kind: Literal["images", "stimulus"]) -> list[float]:
        errors = [np.sqrt(variance(getattr(run, kind)))[is_measured] for run in both]
        return [
            float(magnitude_excess(run.point[is_measured], error).mean())
            for run, error in zip(both, errors, strict=True)
        ]

    value, images, stimulus = difference("point"), difference("images"), difference("stimulus")
    inner, outer = (percentile_interval(draws, confidence, value=value) for draws in (images, stimulus))
    of_images, of_stimuli = excess("images"), excess("stimulus")
    pictures = runs.absent.pictures if runs.absent else MissingPictures(((), ()))

    def row(shift: float = 0.0) -> Score:
        moved = float(value + shift)
        surely = np.sign(moved) * max(0.0, abs(moved) - of_images[int(moved > 0)])
        p = float(student_p(surely, np.sqrt(variance(images))))
        test = MAGNITUDE_TEST.format("paired" if runs.paired else "unpaired")
        magnitude = Score(
            metric=METRIC, component="magnitude", category="all", value=moved, low=float(inner.low + shift),
            high=float(inner.high + shift), stimulus_low=float(outer.low + shift),
            stimulus_high=float(outer.high + shift), p=p, test=test if isfinite(p) else "",
            n_target=int(is_measured.sum()), n_missing=sum(pictures.of_targets),
            n_missing_attributes=sum(pictures.of_groups.values()), reason=left_out if isfinite(p) else NO_INTERVAL,
            n_repeated=sum(runs.repeated[t] for t in np.flatnonzero(is_measured)),
        )  # fmt: skip
        return magnitude_row(magnitude, of_images, of_stimuli)

    fillings = {
        kind: [[row(float(shift[is_measured].mean()))] for shift in shifts if np.isfinite(shift[is_measured]).all()]
        for kind, shifts in _magnitude_shifts(runs, [run.point for run in both]).items()
    }
    return with_bounds([row()], fillings)[0]


def _magnitude_shifts(runs: ComparedRuns, points: Sequence[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Find how far each target's difference of magnitudes moves by what is filled in, by kind: (T,) each."""
    if runs.absent is None:
        return {}
    setup, _ = runs.measured[0]
    least, most = np.stack([runs.absent.magnitudes(i, runs.measured[i], points[i]) for i in (0, 1)], axis=1)
    sizes, weights = np.abs(points), pair_weights(setup, COMPONENTS[IMAGE_PART], *setup.pair)
    drawn = [
        np.abs(x + runs.absent.drawn_shift(i, runs.measured[i], MEAN, weights)) for i, x in enumerate(points)
    ]  # fmt: skip
    ways = ((most[0], least[1]), (least[0], most[1]))
    return {
        MISSING: [(second - sizes[1]) - (first - sizes[0]) for first, second in ways],
        REPEATS: [drawn[1] - sizes[1] - drawn[0] + sizes[0]],
    }


def _with_interval(design: Design, both: Sequence[ImagePartReplicates]) -> tuple[np.ndarray, str]:
    """Find the targets whose images have a spread in both runs, all where none has; say why others are left out.

    A single target of one image would take the interval from the mean over all.
    """
    is_measured = np.all([np.isfinite(run.point) for run in both], axis=0)
    sure = is_measured & np.all([np.isfinite(variance(run.images)) for run in both], axis=0)
    if not sure.any() or sure.sum() == is_measured.sum():
        return is_measured, ""
    names = [target.name for target, out in zip(design.targets, is_measured & ~sure, strict=True) if out]
    return sure, f"left out, with one image in one of the runs: {named_or_counted(names, 'targets')}"


# --- replicates of the image part alone ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImagePartReplicates:
    """The image part of every target by the average view: (T,), and its replicates, (R × T) float32."""

    point: np.ndarray
    images: np.ndarray
    stimulus: np.ndarray


def image_part_replicates(
    runs: Sequence[tuple[Sequence[EncoderEmbeddings], StudySetup, np.ndarray]],
) -> list[ImagePartReplicates]:
    """Replicate the image part of every target of runs of one design, as :func:`views_of` would, and nothing else.

    The image part is a difference of two groups and linear in the cosines, so the signs of the groups and the average
    over encoders are taken before images are weighed, not after: a third of the time for 300 targets.

    Parameters
    ----------
    runs : the encoders of each run, its study, and the tensor of mean cosines of its average view. Runs that are
        resampled by the same weights (of pairs) share them.
    """
    replicate_weights = [
        resampling_weights(setup, n_encoders=len(pooled_encoders(encoders))) for encoders, setup, _ in runs[:1]
    ]
    for encoders, setup, _ in runs[1:]:
        same = _resampled_alike(setup, runs[0][1])
        replicate_weights.append(
            replicate_weights[0] if same else resampling_weights(setup, n_encoders=len(pooled_encoders(encoders)))
        )
    layout, n = runs[0][1].layout, runs[0][1].settings.n_resamples
    parts = [_ImagePart(*run[:2], weights) for run, weights in zip(runs, replicate_weights, strict=True)]
    most = max(max(part.layout.target_sizes) for part in parts)
    threads = min(available_cores(), len(layout.targets), max(AHEAD // max(min(n * most, WHOLE), 1), 1))

    def of_target(t: int) -> list[np.ndarray]:
        sizes = [part.layout.target_sizes[t] for part in parts]
        rows = n if n * max(sizes) <= WHOLE else max(PART // max(sizes), 1)
        scores, cosines = [np.full((2, n), np.nan, np.float32) for _ in parts], [part.cosines(t) for part in parts]
        chunks = [
            of_run.targets(t, rows) if size else iter(()) for of_run, size in zip(replicate_weights, sizes, strict=True)
        ]
        for first in range(0, n, rows):
            shared = next(chunks[0], None)
            for at, part in enumerate(parts):
                weights = shared if replicate_weights[at] is replicate_weights[0] else next(chunks[at], None)
                if weights is not None:
                    scores[at][:, first : first + rows] = part.replicates(first, weights, cosines[at])
        return scores

    scores = [np.empty((2, n, len(layout.targets)), np.float32) for _ in parts]
    for t, by_run in enumerate(mapped_by_threads(of_target, range(len(layout.targets)), threads)):
        for whole, of_run in zip(scores, by_run, strict=True):
            whole[:, :, t] = of_run
    return [
        ImagePartReplicates(component_of(point, *setup.pair, IMAGE_PART), *whole)
        for (_, setup, point), whole in zip(runs, scores, strict=True)
    ]


def _resampled_alike(setup: StudySetup, other: StudySetup) -> bool:
    batches = zip(setup.layout.target_batches, other.layout.target_batches, strict=False)
    return (
        setup.layout == other.layout
        and setup.settings == other.settings
        and len(setup.layout.target_batches) == len(other.layout.target_batches)
        and all(np.array_equal(*both) for both in batches)
    )


class _ImagePart:
    """The image part of one run's targets, by the average over encoders, in every replicate."""

    def __init__(
        self, encoders: Sequence[EncoderEmbeddings], setup: StudySetup, replicate_weights: ReplicateWeights
    ) -> None:
        self.layout, self._replicate_weights = setup.layout, replicate_weights
        self._encoders = [encoders[i] for i in pooled_encoders(encoders)]
        a, b = setup.pair
        uniform = uniform_weights(self.layout, ())

        def signed(weights: np.ndarray, slices: Sequence[slice]) -> np.ndarray:
            """Return the columns of a and b, those of b negated; NaN where a group has no items."""
            of_both = weights[:, slices[a]], -weights[:, slices[b]]
            known = all(x.shape[1] for x in of_both)
            return np.concatenate(of_both, axis=1, dtype=np.float64) if known else np.full((len(weights), 1), np.nan)

        def of_pair(items: np.ndarray | None, slices: Sequence[slice], width: int) -> np.ndarray:
            of_both = (slices[a], slices[b])
            if items is None or any(x.stop == x.start for x in of_both):
                return np.full((1, width), np.nan)
            return np.concatenate([items[x] for x in of_both])

        images = signed(replicate_weights.images, self.layout.image_slices)
        self._words = signed(replicate_weights.words, self.layout.word_slices)
        fixed = signed(uniform.words, self.layout.word_slices)
        self._left, self._right = list[np.ndarray](), list[tuple[np.ndarray | None, np.ndarray, np.ndarray]]()
        for encoder in self._encoders:
            items, words = attribute_vectors(encoder, self.layout)
            items = of_pair(items, self.layout.image_slices, items.shape[1])
            words = of_pair(words, self.layout.word_slices, items.shape[1])
            fewer = len(items) < items.shape[1]  # weigh whichever is narrower: cosines with the items, or dimensions
            self._left.append(images if fewer else matmul(images, items))
            self._right.append((items if fewer else None, words, matmul(fixed, words)))

    def cosines(self, t: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Read the target's images; what each encoder's weights are multiplied by: (k × n), (words × n), (n,)."""
        by_encoder = []
        for encoder, (items, words, fixed) in zip(self._encoders, self._right, strict=True):
            pieces = [unit_rows(rows) for rows in pieces_of(encoder.target_images, t, ROWS)]
            by_encoder.append(
                (
                    np.concatenate([rows.T if items is None else items @ rows.T for rows in pieces], axis=1),
                    np.concatenate([words @ rows.T for rows in pieces], axis=1),
                    np.concatenate([(rows @ fixed.T)[:, 0] for rows in pieces]),
                )
            )
        return by_encoder

    def replicates(
        self, first: int, weights: np.ndarray, cosines: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """Weigh the images in the replicates from ``first`` on: over images and over stimuli, (2 × R)."""
        weights, rows = weights.astype(np.float64), slice(first, first + len(weights))
        by_encoder = self._replicate_weights.encoders[rows]
        values = np.zeros((2, len(weights)))
        for at, (left, (images, words, fixed)) in enumerate(zip(self._left, cosines, strict=True)):
            ii = np.vecdot(weights, matmul(left[rows], images))
            values[0] += (ii + matmul(weights, fixed)) / len(cosines)
            values[1] += (ii + np.vecdot(weights, matmul(self._words[rows], words))) * by_encoder[:, at]
        return values


# --- what guidance adds ----------------------------------------------------------------------------------------------

SPLIT: Final = "split"
LEARNED, ADDED, AT_GUIDANCE = "learned", "added", "leaning"


def split_rows(
    at_one: Sequence[EncoderEmbeddings],
    guided: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    missing: MissingPictures | None = None,
    fidelity: Sequence[Score] = (),
) -> list[Score]:
    """Split the leaning of every target at guidance g into what the network learned and what guidance adds.

    In pairs of images that start from one noise, ::

        L_t  learned   image part of the images at guidance 1
        A_t  added     mean over pairs of  (image part at guidance g − image part at guidance 1)
        G_t  leaning   image part of the images at guidance g           L + A = G, for the same pairs

    At guidance 1 the sampler follows the network's own prediction for the prompt. So L is what the network learned and
    A what sampling makes of it ("Stay Fair!", arXiv 2605.28036). The attribute images of guidance 1 are the yardstick
    of both: were each guidance measured by its own, a sharper picture of a man would lengthen the scale, and every
    concept that leans would seem to lean more. Beside them, over all concepts, what guidance costs::

        diversity   mean over concepts of the mean 1 − cosine of two images
        fidelity    share of images that are nearest to their own prompt

    each at both guidances and as a difference, held to the limits of a mitigation's. See decision 63.

    Parameters
    ----------
    at_one, guided : the i-th image of a target starts from the same noise in both. Only the attribute images of
        ``at_one`` are looked at.
    design : its targets know how many of their pairs are missing.
    missing : the pictures that either run was asked for and did not draw.
    fidelity : rows of how well either run's images show what was asked.

    Returns
    -------
    Rows of metric ``split``, by the average over encoders: ``learned``, ``added`` and ``leaning`` of every target, with
    interval, p, q over the targets and verdict, of ``added`` that of a difference; and over all targets ``diversity``
    and ``fidelity``, of the first run, the second and, without a setting, their difference.

    Raises
    ------
    InvalidInputError
        Encoders or counts of images that differ between the runs.
    """
    guided = [replace(second, group_images=first.group_images) for first, second in zip(at_one, guided, strict=True)]
    runs = compare_runs(at_one, guided, design, ResamplingSettings(), paired=True, missing=missing)

    def contrast(setup: StudySetup, component: str) -> Contrast:
        return pair_contrast(setup, COMPONENTS[IMAGE_PART], {"metric": SPLIT, "component": component})

    added = runs.family(MEAN, [contrast(runs.measured[0][0], ADDED)], ADDED, margin=design.margin, judged=True).judged()
    checks = [checks_of(run, design) for run in runs.embeddings]
    added = [
        replace(row, metric=SPLIT, family=row.family.replace(METRIC, SPLIT, 1))
        for row in withheld_between(added, *checks)
    ]
    by_run = []  # what either run is by itself, judged as in its own report
    for (setup, views), check, component in zip(runs.measured, checks, (LEARNED, AT_GUIDANCE), strict=True):
        name = f"{SPLIT}: {component} over {len(design.targets)} targets"
        contrasts = [contrast(setup, component)]
        judged = contrast_family(setup, views[MEAN], contrasts, name, margin=design.margin, judged=True)
        by_run.append(withheld_by_level(judged, check))
    return [*by_run[0], *added, *by_run[1], *_costs(*runs.embeddings, fidelity)]


def _costs(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings], fidelity: Sequence[Score]
) -> list[Score]:
    """Report diversity and fidelity at both guidances, and judge their differences against their limits."""
    about, rows = Score(metric=SPLIT, component="diversity", category="all", encoder=MEAN), list[Score]()
    spread = image_spread(first, second)
    if spread is not None:
        for setting, value, error in zip((*RUNS, ""), spread.values, spread.errors, strict=True):
            row = replace(about, setting=setting, n_target=spread.n_targets)
            if setting:
                rows.append(replace(row, value=value, low=value - 1.96 * error, high=value + 1.96 * error))
            else:
                rows.append(judge_against_limit(row, value, error, DIVERSITY * spread.values[0]))
    for row in fidelity:
        if row.component == OWN_FIDELITY:
            rows.append(replace(row, metric=SPLIT, component="fidelity"))
        elif row.component == "fidelity":
            whole = replace(about, component="fidelity", n_target=row.n_target, reason=row.reason)
            error = (row.high - row.low) / (2 * 1.96)
            rows.append(judge_against_limit(whole, row.value, error, FIDELITY) if np.isfinite(error) else replace(
                whole, value=row.value, low=nan, high=nan
            ))  # fmt: skip
    return rows
