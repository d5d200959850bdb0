"""The view of one encoder, or of their average: estimates and replicates of every target, from measured targets.

Replicates of a target, 0.7 MB a view with what the texts add, are put away in a store as they come. Targets may
come in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.records import MEAN
from clinometer.stats.association import nearest_group
from clinometer.stats.blocks import ArrayStore, StoredArray
from clinometer.stats.bootstrap import rao_wu_chunks, rao_wu_weights
from clinometer.stats.dependence import by_picture
from clinometer.studies.leaning.scores.cosines import (
    Replicates,
    StoredReplicates,
    TargetReplicates,
    Weights,
    attribute_vectors,
    average_cosines,
    group_cosines,
    group_scores,
    group_word_means,
    mean_cosines,
    text_cosine,
    text_word_cosine,
    uniform_weights,
    weigh,
)
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, Layout, StudySetup, pooled_encoders, unit_rows
from clinometer.studies.leaning.scores.measuring import IMAGED, MeasuredTarget, Measurer, ReplicateWeights, SeenTarget


@dataclass(frozen=True)
class ItemMeans:
    """Mean cosine of each attribute item to each target: images (2 × T × items; ii, itp), words (2 × T × items)."""

    images: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class TextMatches:
    """How the images of every target match the texts: of each target the ranks of its own, and the gains, put away."""

    ranks: tuple[np.ndarray, ...]
    gains: tuple[StoredArray, ...]


@dataclass(frozen=True)
class EncoderView:
    """One encoder's view of the study, or the average of the encoders (``encoder == "mean"``).

    Attributes
    ----------
    image_cosines : of each target, the mean cosines of every image to the images and to the words of every group,
        (n_t × 2 × groups); where images came in batches, of every batch, as :meth:`Layout.units` makes them.
    each_image : those of every image, whatever batch it came in.
    items : mean cosines of every attribute item to every target.
    targets : the tensor of mean cosines, and its replicates where there are some.
    matches : None where the view reads no text, or a single one, and where it is not needed.
    encoder_points : the tensors of mean cosines of the encoders that are averaged, (E × T × 4 × groups).
    group_image_scores : what the images drawn for each group score, see
        :func:`clinometer.studies.leaning.scores.cosines.group_scores`.
    group_word_means : mean cosine of each word to the images drawn for each group, (groups × words).
    encoder_poles : ``poles`` of the encoders that are averaged, (E × groups × 2 × groups).
    groups : the attribute prompts as targets, where there is a third group.
    """

    encoder: str
    reads_text: bool
    image_cosines: tuple[np.ndarray, ...]
    items: ItemMeans
    targets: TargetReplicates
    matches: TextMatches | None
    encoder_points: np.ndarray
    group_image_scores: tuple[np.ndarray, ...]
    group_word_means: np.ndarray
    encoder_poles: np.ndarray
    each_image: tuple[np.ndarray, ...]
    groups: Replicates | None = None

    @cached_property
    def poles(self) -> np.ndarray:
        """What images drawn for each group score on average, (groups × 2 × groups); NaN of a group without images."""
        return mean_scores(self.group_image_scores)


def mean_scores(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Average the scores of each group's images, (groups × 2 × groups); NaN of a group without images."""
    return np.stack([x.mean(axis=0) if len(x) else np.full(x.shape[1:], np.nan) for x in scores])


@dataclass(frozen=True)
class StudyViews:
    """The view of the average, and of each encoder; ``blanks`` of each target: see :class:`MeasuredTarget`."""

    mean: EncoderView
    by_encoder: tuple[EncoderView, ...]
    blanks: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def all(self) -> tuple[EncoderView, ...]:
        """The average first, then each encoder."""
        return self.mean, *self.by_encoder


def views_of(encoders: Sequence[EncoderEmbeddings], setup: StudySetup) -> StudyViews:
    """Return all views with replicates, without how images match the texts."""
    weights = resampling_weights(setup, n_encoders=len(pooled_encoders(encoders)))
    return gather(encoders, setup, weights, Measurer(encoders, setup.layout, weights, own_texts=False).every_target())


def linear_views(encoders: Sequence[EncoderEmbeddings], setup: StudySetup) -> StudyViews:
    """Return the same views without replicates: enough for all that is linear in the mean cosines."""
    return gather(encoders, setup, None, Measurer(encoders, setup.layout, own_texts=False).every_target())


def resampling_weights(setup: StudySetup, n_encoders: int) -> ReplicateWeights:
    """Make the bootstrap weights of a study that averages so many encoders; those of targets are made on demand.

    They follow from the seed and from names and counts, not from the images: two runs of one layout, drawn from one
    seed, are resampled alike, image by image.
    """
    layout, n = setup.layout, setup.settings.n_resamples
    rng, image_rng = setup.settings.rng, setup.settings.image_rng
    images = [
        rao_wu_weights(sizes, n, image_rng("images of group", group))
        for group, sizes in zip(layout.groups, layout.prompt_sizes, strict=True)
    ]
    words = [
        rao_wu_weights([count], n, rng("words of group", group))
        for group, count in zip(layout.groups, layout.word_counts, strict=True)
    ]
    all_images = np.concatenate(images, axis=1)
    counts = [layout.image_counts[g] for g in layout.prompt_groups]

    def of_target(t: int, rows: int) -> Iterator[np.ndarray]:
        """Yield the weights of a target, so many replicates at a time; the same ones on every call."""
        size, batches = layout.batch_count(t) or layout.target_sizes[t], layout.batches(t)
        chunks = rao_wu_chunks([size], n, image_rng("images of target", layout.targets[t]), rows)
        return (by_picture(weights, batches) for weights in chunks)

    return ReplicateWeights(
        targets=of_target,
        prompts=tuple(  # a prompt's columns of all images' weights, scaled to sum to 1
            all_images[:, columns] * np.float32(count / max(columns.stop - columns.start, 1))
            for columns, count in zip(layout.prompt_slices, counts, strict=True)
        ),
        images=all_images,
        words=np.concatenate(words, axis=1),
        fixed_words=uniform_weights(layout, ()).words.astype(np.float32),
        encoders=rao_wu_weights([n_encoders], n, rng("encoders")) if n_encoders > 1 else np.ones((n, 1)),
    )


def gather(
    encoders: Sequence[EncoderEmbeddings],
    setup: StudySetup,
    replicate_weights: ReplicateWeights | None,
    measured: Iterable[tuple[int, MeasuredTarget]],
) -> StudyViews:
    """Gather targets that were measured by these encoders and weights, each with its number, in any order.

    Raises
    ------
    InvalidInputError
        A target is missing, or was measured of another number of images.
    """
    layout, pooled, store = setup.layout, pooled_encoders(encoders), setup.settings.store()
    texts = [_text_cosines(encoder, layout) for encoder in encoders]
    by_encoder, mean_collector = [_Collector(layout, replicate_weights, store, *cosines) for cosines in texts], None
    if len(pooled) > 1:
        mean_texts = [np.mean([texts[i][kind] for i in pooled], axis=0) for kind in (0, 1)]
        mean_collector = _Collector(layout, replicate_weights, store, *mean_texts)
    blanks: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for t, target in measured:
        if (size := len(target.by_encoder[0].image_cosines)) != layout.target_sizes[t]:
            raise InvalidInputError.wrong_shape(
                f"{size} images of target {layout.targets[t]!r}, expected {layout.target_sizes[t]}", field="measured"
            )
        blanks[t] = target.blanks
        for collector, seen in zip(by_encoder, target.by_encoder, strict=True):
            collector.take(t, seen)
        if mean_collector is not None and target.mean is not None:
            mean_collector.take(t, target.mean)
            if replicate_weights is not None:
                mean_collector.resample_encoders([by_encoder[i] for i in pooled], replicate_weights)
            mean_collector.put_away(t)
        for collector in by_encoder:
            collector.put_away(t)
    if missing := set(range(len(layout.targets))) - set(blanks):
        raise InvalidInputError.missing(f"nothing of target {layout.targets[min(missing)]!r}", field="measured")
    image_scores = [group_scores(encoder, layout) for encoder in encoders]
    word_means = [group_word_means(encoder, layout) for encoder in encoders]
    mean_groups, groups = _groups_as_targets(encoders, setup, replicate_weights)
    views = tuple(
        collector.view(encoder.encoder, encoder.reads_text, scores, words, places)
        for collector, encoder, scores, words, places in zip(
            by_encoder, encoders, image_scores, word_means, groups, strict=True
        )
    )
    mean = replace(views[pooled[0]], encoder=MEAN)
    if mean_collector is not None:
        mean_scores_of = tuple(np.mean(each, axis=0) for each in zip(*(image_scores[i] for i in pooled), strict=True))
        mean_words = np.mean([word_means[i] for i in pooled], axis=0)
        mean = mean_collector.view(MEAN, mean.reads_text, mean_scores_of, mean_words, mean_groups)
        mean = replace(
            mean,
            encoder_points=np.concatenate([views[i].encoder_points for i in pooled]),
            encoder_poles=np.concatenate([views[i].encoder_poles for i in pooled]),
        )
    return StudyViews(mean, views, tuple(blanks[t] for t in sorted(blanks)))


def _text_cosines(embeddings: EncoderEmbeddings, layout: Layout) -> tuple[np.ndarray, ...]:
    """Compute cosines of the targets' texts with the attribute images and with the words."""
    images, words = attribute_vectors(embeddings, layout)
    texts = None if embeddings.target_texts is None else unit_rows(embeddings.target_texts)
    n, n_words = len(layout.targets), sum(layout.word_counts)
    return text_cosine(texts, images, n), text_word_cosine(texts, words, n, n_words)


def _groups_as_targets(
    encoders: Sequence[EncoderEmbeddings], setup: StudySetup, replicate_weights: ReplicateWeights | None
) -> tuple[Replicates | None, list[Replicates | None]]:
    """Make tensors of the attribute prompts as targets: of the average of several encoders, and of each encoder.

    None without a third group: nothing else needs them. The stimulus replicates of an average resample encoders too.
    """
    pooled, layout = pooled_encoders(encoders), setup.layout
    if setup.design.third is None or replicate_weights is None:
        return None, [None] * len(encoders)
    cosines = [group_cosines(encoder, layout) for encoder in encoders]
    weights = Weights(replicate_weights.prompts, replicate_weights.images, replicate_weights.words)
    stimuli = [mean_cosines(encoder_cosines, layout, weights) for encoder_cosines in cosines]
    if len(pooled) > 1:
        cosines.append(average_cosines([cosines[i] for i in pooled]))
        stimulus = np.zeros_like(stimuli[0])
        for i, weight in zip(pooled, replicate_weights.encoders.T, strict=True):
            stimulus += stimuli[i] * weight[:, None, None, None].astype(stimulus.dtype)
        stimuli.append(stimulus)
    uniform = uniform_weights(layout, [len(x) for x in cosines[0].image_image])
    images = Weights(replicate_weights.prompts, replicate_weights.images, replicate_weights.fixed_words)
    replicates: list[Replicates | None] = [
        Replicates(
            mean_cosines(encoder_cosines, layout, uniform)[0], mean_cosines(encoder_cosines, layout, images), stimulus
        )
        for encoder_cosines, stimulus in zip(cosines, stimuli, strict=True)
    ]
    return (replicates[-1] if len(pooled) > 1 else None), replicates[: len(encoders)]


class _Collector:
    """The numbers of one view: the estimate, replicates put away, and those of the target in hand.

    ``text_image``, ``text_word`` : cosines of the targets' texts, (T × attribute images) and (T × words).
    """

    def __init__(
        self,
        layout: Layout,
        replicate_weights: ReplicateWeights | None,
        store: ArrayStore,
        text_image: np.ndarray,
        text_word: np.ndarray,
    ) -> None:
        self._layout, self._store = layout, store
        self._texts = text_image, text_word
        self._point = np.full((len(layout.targets), 4, len(layout.groups)), np.nan)
        self._seen: dict[int, SeenTarget] = {}
        self._stored: dict[int, StoredReplicates] = {}
        self._gains: dict[int, StoredArray] = {}
        self._tensors: list[np.ndarray] = []
        self._text_tensors = self._texts_under(replicate_weights)

    def take(self, t: int, seen: SeenTarget) -> None:
        """Set the current target: what was measured of its images, with what its text says."""
        self._point[t, IMAGED] = seen.point
        if seen.own_text is not None:
            self._gains[t] = self._store.keep(seen.own_text.gains)
        self._tensors = [
            self._with_texts(t, replicates, texts)
            for replicates, texts in zip(
                (seen.images, seen.stimulus), self._text_tensors, strict=bool(self._text_tensors)
            )
        ]
        nothing = np.empty(0)
        own_text = None if seen.own_text is None else replace(seen.own_text, gains=nothing)
        self._seen[t] = replace(seen, images=nothing, stimulus=nothing, own_text=own_text)

    @staticmethod
    def _with_texts(t: int, replicates: np.ndarray, texts: dict[int, list[StoredArray | None]]) -> np.ndarray:
        tensor = np.full((len(replicates), 4, replicates.shape[2]), np.nan, np.float32)
        tensor[:, IMAGED] = replicates
        for m, by_group in texts.items():
            for g, column in enumerate(by_group):
                if column is not None:
                    tensor[:, m, g] = column.read(t, t + 1)[0]
        return tensor

    def resample_encoders(self, parts: Sequence[_Collector], replicate_weights: ReplicateWeights) -> None:
        """Replicate an average over stimuli: the replicates of its encoders, which are resampled as well."""
        stimulus = np.zeros_like(parts[0]._tensors[1])
        for part, weight in zip(parts, replicate_weights.encoders.T, strict=True):
            stimulus += part._tensors[1] * weight[:, None, None].astype(stimulus.dtype)
        self._tensors[1] = stimulus

    def put_away(self, t: int) -> None:
        """Store the replicates of the target at hand."""
        if self._tensors:
            self._stored[t] = StoredReplicates(*map(self._store.keep, self._tensors))

    def _texts_under(self, replicate_weights: ReplicateWeights | None) -> list[dict[int, list[StoredArray | None]]]:
        """Average what the texts say, (T × replicates) a group, by modality; for each kind of replicates."""
        layout, uniform = self._layout, uniform_weights(self._layout, ())
        images = partial(_by_group, self._texts[0], layout.image_slices)
        words = partial(_by_group, self._texts[1], layout.word_slices)
        for m, columns in ((1, images(uniform.images)), (3, words(uniform.words))):
            for g, column in enumerate(columns):
                if column is not None:
                    self._point[:, m, g] = column[:, 0]
        if replicate_weights is None:
            return []

        def keep(columns: Iterator[np.ndarray | None]) -> list[StoredArray | None]:
            return [None if column is None else self._store.keep(column) for column in columns]

        itp, tt = keep(images(replicate_weights.images)), keep(words(replicate_weights.fixed_words))
        return [{1: itp, 3: tt}, {1: itp, 3: keep(words(replicate_weights.words))}]

    def view(
        self,
        encoder: str,
        reads_text: bool,
        group_image_scores: tuple[np.ndarray, ...],
        group_word_means: np.ndarray,
        groups: Replicates | None,
    ) -> EncoderView:
        """Return what was put together, as one view."""
        seen = [self._seen[t] for t in sorted(self._seen)]
        images, words = (np.stack([target.items[kind] for target in seen]) for kind in (0, 1))
        ranks = tuple(target.own_text.ranks for target in seen if target.own_text is not None)
        return EncoderView(
            encoder=encoder,
            reads_text=reads_text,
            image_cosines=tuple(self._layout.units(t, target.image_cosines) for t, target in enumerate(seen)),
            items=ItemMeans(np.stack([images, self._texts[0]]), np.stack([words, self._texts[1]])),
            targets=TargetReplicates(self._point, [self._stored[t] for t in sorted(self._stored)]),
            matches=TextMatches(ranks, tuple(self._gains[t] for t in sorted(self._gains))) if ranks else None,
            encoder_points=self._point[None],
            group_image_scores=group_image_scores,
            group_word_means=group_word_means,
            encoder_poles=mean_scores(group_image_scores)[None],
            each_image=tuple(target.image_cosines for target in seen),
            groups=groups,
        )


def _by_group(texts: np.ndarray, slices: Sequence[slice], weights: np.ndarray) -> Iterator[np.ndarray | None]:
    """Average the texts' cosines to each group under R rows of weights, (T × R); None for a group without items."""
    for columns in slices:
        filled = columns.stop > columns.start
        yield weigh(weights[:, columns], texts[:, columns].T).astype(weights.dtype).T if filled else None


def count_nearest(cosines: np.ndarray, groups: Sequence[int]) -> np.ndarray:
    """Count images (n × 2 × groups) by as which group they are read; zeros where a group has no word."""
    near = cosines[:, 1][:, list(groups)]
    if not len(near) or not np.isfinite(near).all():
        return np.zeros(len(groups), int)
    return np.bincount(nearest_group(near), minlength=len(groups))
