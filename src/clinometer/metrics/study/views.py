"""What one encoder (or the average of all) says: estimates, bootstrap replicates, null draws and gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from clinometer.metrics.study.cosines import (
    Cosines,
    Weights,
    average_cosines,
    group_cosines,
    item_means,
    mean_cosines,
    target_cosines,
    uniform_weights,
)
from clinometer.metrics.study.design import Design, EncoderEmbeddings, Layout
from clinometer.metrics.study.relabelling import Pools, label_tests, pools_of, relabelled_tensor
from clinometer.stats.bootstrap import ball_interval, fold_interval, percentile_interval, rao_wu_weights
from clinometer.stats.permutation import PermutationTest

Formula = Callable[[np.ndarray], np.ndarray]
"""From tensors of mean cosines (… × T × 4 × groups) to numbers (… × anything)."""


@dataclass(frozen=True)
class Settings:
    """How much is drawn, from which seed."""

    n_resamples: int
    n_permutations: int
    seed: int
    confidence: float

    def rng(self, *names: str) -> np.random.Generator:
        """A generator of its own for each thing that is drawn: a target's draws do not depend on its neighbours."""
        return np.random.default_rng([self.seed, *"\0".join(names).encode()])


@dataclass(frozen=True)
class Replicates:
    """Tensors of mean cosines: the estimate (T × 4 × groups), replicates of it (R × …) and stimulus replicates."""

    point: np.ndarray
    images: np.ndarray
    stimulus: np.ndarray


@dataclass(frozen=True)
class View:
    """One encoder's view of the study, or the average of the encoders (``encoder == "mean"``).

    ``null_pair`` holds tensors with the labels of a and b permuted, ``null_all`` those of all groups.
    """

    encoder: str
    reads_text: bool
    cosines: Cosines
    targets: Replicates
    groups: Replicates | None
    tests: Mapping[str, PermutationTest | None]
    null_pair: np.ndarray
    null_all: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """Numbers with their intervals and null expectation, all of one shape."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    stimulus_low: np.ndarray
    stimulus_high: np.ndarray
    null: np.ndarray

    def folded(self) -> Estimate:
        """The magnitudes: |value| with the images of the intervals under the absolute value."""
        inner, outer = (
            fold_interval(self.low, self.high),
            fold_interval(self.stimulus_low, self.stimulus_high),
        )
        return replace(
            self,
            value=np.abs(self.value),
            low=inner.low,
            high=inner.high,
            stimulus_low=outer.low,
            stimulus_high=outer.high,
        )

    def with_null(self, draws: np.ndarray, centre: Literal["mean", "median"] = "mean") -> Estimate:
        """The same with the null expectation of a non-negative score: the centre of its null draws."""
        draws = np.asarray(draws, np.float64)
        return replace(self, null=draws.mean(axis=0) if centre == "mean" else np.median(draws, axis=0))


def estimate(
    replicates: Replicates, formula: Formula, confidence: float, centred: Formula | None = None
) -> Estimate:
    """A formula of the tensor with percentile intervals.

    ``centred`` serves the replicates where it differs from the formula of the estimate (signs held, say).
    """
    value = np.asarray(formula(replicates.point))
    inner = percentile_interval((centred or formula)(replicates.images), confidence)
    outer = percentile_interval((centred or formula)(replicates.stimulus), confidence)
    return Estimate(value, inner.low, inner.high, outer.low, outer.high, np.full(value.shape, np.nan))


def estimate_norm(
    replicates: Replicates, vector: Formula, norm: Formula, confidence: float, value: Formula | None = None
) -> Estimate:
    """``norm(vector(C))``, non-negative, with the interval of :func:`ball_interval`.

    ``value`` is the number reported where it is not that norm itself but a function that moves no more than
    it.
    """
    centre = vector(replicates.point)
    size = np.asarray((value or norm)(centre))
    inner = ball_interval(size, norm(vector(replicates.images) - centre), confidence)
    outer = ball_interval(size, norm(vector(replicates.stimulus) - centre), confidence)
    return Estimate(size, inner.low, inner.high, outer.low, outer.high, np.full(size.shape, np.nan))


def views_of(
    encoders: Sequence[EncoderEmbeddings], design: Design, layout: Layout, settings: Settings
) -> tuple[View, ...]:
    """The average view first, then one view an encoder.

    The average is over the encoders that read text, so that all four components average the same encoders; if
    none does, over all.
    """
    pooled = [i for i, e in enumerate(encoders) if e.reads_text] or list(range(len(encoders)))
    weights = _Draws.of(design, layout, settings, n_encoders=len(pooled))
    seen = [_EncoderView.of(e, layout, weights) for e in encoders]
    mean = _EncoderView.average([seen[i] for i in pooled], layout, weights)
    texts = [e.reads_text for e in encoders]
    pair, everyone = pools_of(design, layout, (design.a, design.b)), pools_of(design, layout, design.groups)
    views = [_view("mean", any(texts), mean, design, pair, everyone, settings)]
    for embeddings, own in zip(encoders, seen, strict=True):
        if len(encoders) == 1:
            views.append(replace(views[0], encoder=embeddings.encoder))
        else:
            views.append(
                _view(embeddings.encoder, embeddings.reads_text, own, design, pair, everyone, settings)
            )
    return tuple(views)


@dataclass(frozen=True)
class _Draws:
    """Bootstrap weights, shared by all encoders: they look at the same images and words."""

    targets: Weights
    targets_stimulus: Weights
    groups: Weights | None
    groups_stimulus: Weights | None
    encoders: np.ndarray

    @classmethod
    def of(cls, design: Design, layout: Layout, settings: Settings, n_encoders: int) -> _Draws:
        n = settings.n_resamples
        targets = tuple(
            rao_wu_weights([size], n, settings.rng("images of target", name))
            for name, size in zip(layout.targets, layout.target_sizes, strict=True)
        )
        images = np.concatenate(
            [rao_wu_weights(sizes, n, settings.rng("images of group", g)) for g, sizes in _by_group(layout)],
            axis=1,
        )
        words = np.concatenate(
            [
                rao_wu_weights([count], n, settings.rng("words of group", g))
                for g, count in zip(layout.groups, layout.word_counts, strict=True)
            ],
            axis=1,
        )
        fixed = uniform_weights(layout, ()).words.astype(np.float32)
        own = None
        if design.third is not None:
            own = _own_weights(layout, images)
        return cls(
            targets=Weights(targets, images, fixed),
            targets_stimulus=Weights(targets, images, words),
            groups=None if own is None else Weights(own, images, fixed),
            groups_stimulus=None if own is None else Weights(own, images, words),
            encoders=rao_wu_weights([n_encoders], n, settings.rng("encoders"))
            if n_encoders > 1
            else np.ones((n, 1)),
        )


@dataclass(frozen=True)
class _EncoderView:
    """Cosines and replicates of one encoder, before any test."""

    cosines: Cosines
    group_cosines: Cosines | None
    targets: Replicates
    groups: Replicates | None

    @classmethod
    def of(cls, embeddings: EncoderEmbeddings, layout: Layout, draws: _Draws) -> _EncoderView:
        cosines = target_cosines(embeddings, layout)
        targets = _replicates(cosines, layout, draws.targets, draws.targets_stimulus)
        if draws.groups is None or draws.groups_stimulus is None:
            return cls(cosines, None, targets, None)
        own = group_cosines(embeddings, layout)
        return cls(cosines, own, targets, _replicates(own, layout, draws.groups, draws.groups_stimulus))

    @classmethod
    def average(cls, views: Sequence[_EncoderView], layout: Layout, draws: _Draws) -> _EncoderView:
        """The average of encoders; its stimulus replicates resample the encoders as well."""
        if len(views) == 1:
            return views[0]
        cosines = average_cosines([v.cosines for v in views])
        targets = _replicates(cosines, layout, draws.targets, None)
        targets = replace(
            targets, stimulus=_weighted_sum([v.targets.stimulus for v in views], draws.encoders)
        )
        if draws.groups is None:
            return cls(cosines, None, targets, None)
        own = average_cosines([v.group_cosines for v in views if v.group_cosines is not None])
        groups = _replicates(own, layout, draws.groups, None)
        stimuli = [v.groups.stimulus for v in views if v.groups is not None]
        return cls(cosines, own, targets, replace(groups, stimulus=_weighted_sum(stimuli, draws.encoders)))


def _replicates(cosines: Cosines, layout: Layout, images: Weights, stimulus: Weights | None) -> Replicates:
    uniform = uniform_weights(layout, [len(x) for x in cosines.image_image])
    draws = mean_cosines(cosines, layout, images)
    return Replicates(
        point=mean_cosines(cosines, layout, uniform)[0],
        images=draws,
        stimulus=draws if stimulus is None else mean_cosines(cosines, layout, stimulus),
    )


def _view(
    name: str,
    reads_text: bool,
    own: _EncoderView,
    design: Design,
    pair: Pools,
    everyone: Pools,
    settings: Settings,
) -> View:
    images, words = item_means(own.cosines)
    n, point = settings.n_permutations, own.targets.point
    tests = label_tests(images, words, pair, n, settings.rng("labels"))
    null_pair = relabelled_tensor(images, words, point, pair, n, settings.rng("null labels"))
    if everyone.groups == pair.groups:
        null_all = null_pair
    else:
        null_all = relabelled_tensor(
            images, words, point, everyone, n, settings.rng("null labels of all groups")
        )
    return View(name, reads_text, own.cosines, own.targets, own.groups, tests, null_pair, null_all)


def _by_group(layout: Layout) -> list[tuple[str, tuple[int, ...]]]:
    return list(zip(layout.groups, layout.prompt_sizes, strict=True))


def _own_weights(layout: Layout, images: np.ndarray) -> tuple[np.ndarray, ...]:
    """Weights of each attribute prompt's images when the prompt is the target: its columns, summing to 1 again."""
    counts = [layout.image_counts[g] for g in layout.prompt_groups]
    sizes = [size for sizes in layout.prompt_sizes for size in sizes]
    return tuple(
        images[:, columns] * np.float32(count / max(size, 1))
        for columns, count, size in zip(layout.prompt_slices, counts, sizes, strict=True)
    )


def _weighted_sum(tensors: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    total = np.zeros_like(tensors[0])
    for tensor, weight in zip(tensors, weights.T, strict=True):
        total += tensor * weight[:, None, None, None].astype(tensor.dtype)
    return total
