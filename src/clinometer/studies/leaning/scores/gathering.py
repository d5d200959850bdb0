"""Measured targets put together: the views that all numbers of a study are made of.

Replicates of a target, 0.7 MB a view with what the texts add, are put away in a scratch file as they come. Targets may
come in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.association import matmul
from clinometer.stats.scratch import Kept, Scratch
from clinometer.studies.leaning.scores.cosines import (
    attribute_vectors,
    text_cosine,
    text_word_cosine,
    uniform_weights,
)
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, Layout
from clinometer.studies.leaning.scores.estimates import Drawn, TargetReplicates
from clinometer.studies.leaning.scores.measuring import (
    IMAGED,
    Draws,
    MeasuredTarget,
    SeenTarget,
    pooled_encoders,
)
from clinometer.studies.leaning.scores.pooled import unit_rows
from clinometer.studies.leaning.scores.relabelling import ItemMeans


@dataclass(frozen=True)
class TextMatches:
    """How the images of every target match the texts: of each target the ranks of its own, and the gains, put away."""

    ranks: tuple[np.ndarray, ...]
    gains: tuple[Kept, ...]


@dataclass(frozen=True)
class ViewedTargets:
    """What one encoder, or the average of some, says of all targets.

    ``image_cosines`` : see :class:`clinometer.studies.leaning.scores.views.EncoderView`.
    """

    replicates: TargetReplicates
    image_cosines: tuple[np.ndarray, ...]
    items: ItemMeans
    matches: TextMatches | None


@dataclass(frozen=True)
class GatheredTargets:
    """All targets, as the average of the pooled encoders and as each encoder sees them; ``blanks`` of each target."""

    mean: ViewedTargets
    encoders: tuple[ViewedTargets, ...]
    blanks: tuple[tuple[np.ndarray, np.ndarray], ...]


def gather(
    encoders: Sequence[EncoderEmbeddings],
    layout: Layout,
    draws: Draws,
    measured: Iterable[tuple[int, MeasuredTarget]],
) -> GatheredTargets:
    """Put targets together that were measured by these encoders and draws, each with its number, in any order.

    Raises
    ------
    InvalidInputError
        A target is missing, or was measured of another number of images.
    """
    pooled, scratch = pooled_encoders(encoders), Scratch()
    texts = [_text_cosines(encoder, layout) for encoder in encoders]
    if len(pooled) > 1:
        texts.append(tuple(np.mean([texts[i][kind] for i in pooled], axis=0) for kind in (0, 1)))
    views = [_View(layout, draws, scratch, *cosines) for cosines in texts]
    blanks: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for t, target in measured:
        _require_size(target, t, layout)
        blanks[t] = target.blanks
        for view, measurement in zip(views, target.views, strict=True):
            view.take(t, measurement)
        if len(pooled) > 1:
            views[-1].resample_encoders([views[i] for i in pooled])
        for view in views:
            view.put_away(t)
    if missing := set(range(len(layout.targets))) - set(blanks):
        raise InvalidInputError(f"measured: nothing of target {layout.targets[min(missing)]!r}")
    targets = [view.finished() for view in views]
    mean = targets[-1] if len(pooled) > 1 else targets[pooled[0]]
    return GatheredTargets(mean, tuple(targets[: len(encoders)]), tuple(blanks[t] for t in sorted(blanks)))


def _text_cosines(embeddings: EncoderEmbeddings, layout: Layout) -> tuple[np.ndarray, ...]:
    """Of the targets' texts with the attribute images and with the words."""
    images, words = attribute_vectors(embeddings, layout)
    texts = None if embeddings.target_texts is None else unit_rows(embeddings.target_texts)
    n, n_words = len(layout.targets), sum(layout.word_counts)
    return text_cosine(texts, images, n), text_word_cosine(texts, words, n, n_words)


def _require_size(target: MeasuredTarget, t: int, layout: Layout) -> None:
    size = len(target.views[0].image_cosines)
    if size != layout.target_sizes[t]:
        raise InvalidInputError(
            f"measured: {size} images of target {layout.targets[t]!r}, expected {layout.target_sizes[t]}"
        )


class _View:
    """The numbers of one view: the estimate, replicates put away, and those of the target in hand.

    ``text_image``, ``text_word`` : cosines of the targets' texts, (T × attribute images) and (T × words).
    """

    def __init__(
        self, layout: Layout, draws: Draws, scratch: Scratch, text_image: np.ndarray, text_word: np.ndarray
    ) -> None:
        self._layout, self._draws, self._scratch = layout, draws, scratch
        self._point = np.full((len(layout.targets), 4, len(layout.groups)), np.nan)
        self._texts = text_image, text_word
        self._text_tensors = self._resampled_texts()
        self._cosines: dict[int, tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]] = {}
        self._drawn: dict[int, Drawn] = {}
        self._matches: dict[int, tuple[np.ndarray, Kept]] = {}

    def take(self, t: int, measurement: SeenTarget) -> None:
        """Take a target in hand: what was measured of its images, with what its text says."""
        self._cosines[t] = measurement.image_cosines, measurement.items
        if measurement.own_text is not None:
            self._matches[t] = measurement.own_text.ranks, self._scratch.keep(measurement.own_text.gains)
        self._point[t, IMAGED] = measurement.point
        self._tensors = [
            self._with_texts(t, drawn, texts)
            for drawn, texts in zip((measurement.images, measurement.stimulus), self._text_tensors, strict=True)
        ]

    @staticmethod
    def _with_texts(t: int, drawn: np.ndarray, texts: dict[int, list[Kept | None]]) -> np.ndarray:
        tensor = np.full((len(drawn), 4, drawn.shape[2]), np.nan, np.float32)
        tensor[:, IMAGED] = drawn
        for m, by_group in texts.items():
            for g, column in enumerate(by_group):
                if column is not None:
                    tensor[:, m, g] = column.read(t, t + 1)[0]
        return tensor

    def resample_encoders(self, parts: Sequence[_View]) -> None:
        """Replicates of an average over stimuli: those of its encoders, which are resampled as well."""
        stimulus = np.zeros_like(parts[0]._tensors[1])
        for part, weight in zip(parts, self._draws.encoders.T, strict=True):
            stimulus += part._tensors[1] * weight[:, None, None].astype(stimulus.dtype)
        self._tensors[1] = stimulus

    def put_away(self, t: int) -> None:
        """Put the replicates of the target in hand away."""
        self._drawn[t] = Drawn(*map(self._scratch.keep, self._tensors))

    def _resampled_texts(self) -> list[dict[int, list[Kept | None]]]:
        """What the texts say of every target, (T × replicates) a group, by modality; of each kind of replicates."""
        draws, layout, uniform = self._draws, self._layout, uniform_weights(self._layout, ())
        images = partial(_by_group, self._texts[0], layout.image_slices)
        words = partial(_by_group, self._texts[1], layout.word_slices)
        for m, columns in ((1, images(uniform.images)), (3, words(uniform.words))):
            for g, column in enumerate(columns):
                if column is not None:
                    self._point[:, m, g] = column[:, 0]

        def keep(columns: Iterator[np.ndarray | None]) -> list[Kept | None]:
            return [None if column is None else self._scratch.keep(column) for column in columns]

        itp, tt = keep(images(draws.images)), keep(words(draws.fixed_words))
        return [{1: itp, 3: tt}, {1: itp, 3: keep(words(draws.words))}]

    def finished(self) -> ViewedTargets:
        """What was put together."""
        order = sorted(self._drawn)
        images, words = (np.stack([self._cosines[t][1][kind] for t in order]) for kind in (0, 1))
        matches = None
        if self._matches:
            matches = TextMatches(*(tuple(self._matches[t][kind] for t in order) for kind in (0, 1)))  # type: ignore[arg-type]
        return ViewedTargets(
            TargetReplicates(self._point, [self._drawn[t] for t in order]),
            tuple(self._cosines[t][0] for t in order),
            ItemMeans(np.stack([images, self._texts[0]]), np.stack([words, self._texts[1]])),
            matches,
        )


def _by_group(texts: np.ndarray, slices: Sequence[slice], weights: np.ndarray) -> Iterator[np.ndarray | None]:
    """Mean cosines of the texts to each group under R rows of weights, (T × R); None of a group without items."""
    for columns in slices:
        filled = columns.stop > columns.start
        yield matmul(weights[:, columns], texts[:, columns].T.astype(weights.dtype)).T if filled else None
