"""What contrasts of groups are made of: each image's mean cosine to each group, and how well group means are known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from clinometer.metrics.mcas import MODALITIES
from clinometer.studies.leaning.scores.cosines import Cosines
from clinometer.studies.leaning.scores.design import Layout


@dataclass(frozen=True)
class Moments:
    """What all contrasts of a view are made of, summed over some modalities.

    Attributes
    ----------
    images : per target (n_t × G), the mean cosines of each of its images to each group; no columns' sum is taken.
    texts : (T × G), of the target's text; 0 where no modality has it.
    attributes, words : (T × G), variances of the means over each group's images and words.
    freedom_attributes, freedom_words : degrees of freedom of those, over all groups.
    imaged : whether a modality holds target images.
    """

    images: tuple[np.ndarray, ...]
    texts: np.ndarray
    attributes: np.ndarray
    words: np.ndarray
    freedom_attributes: float
    freedom_words: float
    imaged: bool

    @property
    def means(self) -> np.ndarray:
        """Mean cosines to the groups, summed over the modalities: (T × G)."""
        if not self.imaged:
            return self.texts
        own = [x.mean(axis=0) if len(x) else np.full(x.shape[1], np.nan) for x in self.images]
        return np.asarray(np.stack(own) + self.texts)


@dataclass(frozen=True)
class CellMeans:
    """What moments are made of: of the cosines themselves nothing more is needed.

    Attributes
    ----------
    images : per target (n_t × 2 × G), the mean cosines of each image to each group's images and words.
    attributes, words : mean cosine of each attribute image and each word to each target's images, (T × items).
    """

    images: tuple[np.ndarray, ...]
    attributes: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class CellView:
    """One encoder's cosines, or their average (``"mean"``); ``members`` are then the views that were averaged.

    ``measured`` : the means of the targets' cosines, where somebody has looked at their images already; the cosines are
    then those of their texts alone.
    ``poles`` : what images drawn for each group score (:func:`~clinometer.studies.leaning.scores.cosines.group_poles`);
    None of differences between runs, which have no such bound.
    """

    encoder: str
    reads_text: bool
    cosines: Cosines
    layout: Layout
    members: tuple[CellView, ...] = ()
    measured: CellMeans | None = None
    poles: np.ndarray | None = None
    _by_modalities: dict[tuple[str, ...], Moments] = field(default_factory=dict, compare=False, repr=False)
    _means: list[CellMeans] = field(default_factory=list, compare=False, repr=False)

    @property
    def means(self) -> CellMeans:
        """The means of the cosines, from one look at each target."""
        if self.measured is not None:
            return self.measured
        if not self._means:
            self._means.append(means_of(self.cosines, self.layout))
        return self._means[0]

    def moments(self, modalities: Collection[str] = MODALITIES) -> Moments:
        """The moments of these modalities, computed once."""
        key = tuple(name for name in MODALITIES if name in modalities)
        if key not in self._by_modalities:
            self._by_modalities[key] = _moments(self.means, self.cosines, self.layout, key)
        return self._by_modalities[key]


@dataclass(frozen=True)
class TargetMeans:
    """The same of a single target: ``images`` (n × 2 × G), ``attributes`` and ``words`` (items,)."""

    images: np.ndarray
    attributes: np.ndarray
    words: np.ndarray


def means_of(cosines: Cosines, layout: Layout) -> CellMeans:
    """The means of targets' cosines, one target at a time."""
    pairs = zip(cosines.image_image, cosines.image_word, strict=True)
    return together([target_means(gram, by_word, layout) for gram, by_word in pairs])


def target_means(gram: np.ndarray, by_word: np.ndarray, layout: Layout) -> TargetMeans:
    """The means of one target's cosines with the attribute images and with the words."""
    both = group_means(gram, layout.image_slices), group_means(by_word, layout.word_slices)
    return TargetMeans(np.stack(both, axis=1), _mean(gram), _mean(by_word))


def together(targets: Sequence[TargetMeans]) -> CellMeans:
    """The means of all targets, in their order."""
    return CellMeans(
        tuple(target.images for target in targets),
        np.stack([target.attributes for target in targets]),
        np.stack([target.words for target in targets]),
    )


def _moments(means: CellMeans, cosines: Cosines, layout: Layout, modalities: Sequence[str]) -> Moments:
    n, groups = len(cosines.text_image), len(layout.groups)
    images = [np.zeros((len(x), groups)) for x in means.images]
    texts, attributes, words = np.zeros((n, groups)), np.zeros((n, groups)), np.zeros((n, groups))
    to_images, to_words = np.zeros_like(cosines.text_image), np.zeros_like(cosines.text_word)
    for place, name in enumerate(("ii", "ita")):
        if name in modalities:
            for own, of_images in zip(images, means.images, strict=True):
                np.add(own, of_images[:, place], out=own)
    if "ii" in modalities:
        to_images += means.attributes
    if "ita" in modalities:
        to_words += means.words
    if "itp" in modalities:
        texts += group_means(cosines.text_image, layout.image_slices)
        to_images += cosines.text_image
    if "tt" in modalities:
        texts += group_means(cosines.text_word, layout.word_slices)
        to_words += cosines.text_word
    if {"ii", "itp"} & set(modalities):
        attributes = _variances(to_images, layout.prompt_sizes)
    if {"ita", "tt"} & set(modalities):
        words = _variances(to_words, tuple((count,) for count in layout.word_counts))
    return Moments(
        tuple(images), texts, attributes, words,
        freedom_attributes=float(sum(max(size - 1, 0) for sizes in layout.prompt_sizes for size in sizes)),
        freedom_words=float(sum(max(count - 1, 0) for count in layout.word_counts)),
        imaged=bool({"ii", "ita"} & set(modalities)),
    )  # fmt: skip


def image_scores(means: CellMeans, *, words: bool) -> list[np.ndarray]:
    """Each image's mean cosines to the groups' images and, where texts are read, words: per target (n × G)."""
    return [own[:, 0] + (own[:, 1] if words else 0.0) for own in means.images]


def _mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.mean(axis=0)) if len(rows) else np.full(rows.shape[1], np.nan)


def group_means(rows: np.ndarray, slices: Sequence[slice]) -> np.ndarray:
    """Mean over each group's columns: (rows × groups), NaN where a group has none."""
    nothing = np.full(len(rows), np.nan)
    means = [rows[:, own].mean(axis=1) if own.stop > own.start else nothing for own in slices]
    return np.stack(means, axis=1)


def _variances(items: np.ndarray, strata: Sequence[Sequence[int]]) -> np.ndarray:
    """Variance of each group's mean, its items drawn within strata: (T × items) to (T × groups).

    NaN where a stratum has one item; strata without items are none.
    """
    variances = np.zeros((len(items), len(strata)))
    bounds = np.cumsum([0, *(size for sizes in strata for size in sizes)])
    blocks = iter(pairwise(bounds.tolist()))
    for g, sizes in enumerate(strata):
        for size, (start, stop) in zip(sizes, blocks, strict=False):
            if size:
                own = items[:, start:stop]
                spread = own.var(axis=1, ddof=1) if size > 1 else np.full(len(items), np.nan)
                variances[:, g] += (size / sum(sizes)) ** 2 * spread / size
    return variances
