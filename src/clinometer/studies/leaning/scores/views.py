"""What one encoder (or the average of all) says: estimates, bootstrap replicates, tests and null draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from clinometer.stats.bootstrap import rao_wu_chunks, rao_wu_weights
from clinometer.stats.permutation import PermutationTest
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.cosines import (
    Cosines,
    Weights,
    average_cosines,
    group_cosines,
    group_poles,
    group_scores,
    mean_cosines,
    uniform_weights,
)
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, Layout
from clinometer.studies.leaning.scores.estimates import Replicates, TargetReplicates
from clinometer.studies.leaning.scores.gathering import GatheredTargets, ViewedTargets, gather
from clinometer.studies.leaning.scores.measuring import Draws, Measurer, measured_by_threads, pooled_encoders
from clinometer.studies.leaning.scores.relabelling import ItemMeans, label_tests


@dataclass(frozen=True)
class EncoderView:
    """One encoder's view of the study, or the average of the encoders (``encoder == "mean"``).

    Attributes
    ----------
    image_cosines : of each target, the mean cosines of every image to the images and to the words of every group,
        (n_t × 2 × groups).
    items : mean cosines of every attribute item to every target.
    encoder_points : the tensors of mean cosines of the encoders that are averaged, (E × T × 4 × groups).
    tests : of permuted labels, per component.
    poles : what images drawn for each group score, see :func:`clinometer.studies.leaning.scores.cosines.group_poles`.
    own : the same of each of them, see :func:`clinometer.studies.leaning.scores.cosines.group_scores`.
    """

    encoder: str
    reads_text: bool
    image_cosines: tuple[np.ndarray, ...]
    items: ItemMeans
    targets: TargetReplicates
    groups: Replicates | None
    encoder_points: np.ndarray
    tests: Mapping[str, PermutationTest | None]
    poles: np.ndarray
    own: tuple[np.ndarray, ...]


def views_of(
    encoders: Sequence[EncoderEmbeddings], study: LeaningStudy, *, labels: bool = True
) -> tuple[EncoderView, ...]:
    """List the average view first, then one view an encoder; without ``labels`` none are permuted.

    Bootstrap weights follow from the seed and from names and counts, not from the images: two runs of one layout, drawn
    from one seed, are resampled alike, image by image.

    The average is over the encoders that read text, so that all four components average the same encoders; if
    none does, over all.
    """
    draws = draw_weights(study, n_encoders=len(pooled_encoders(encoders)))
    measure = Measurer(encoders, study.layout, draws, own_texts=False)
    targets = gather(encoders, study.layout, draws, measured_by_threads(measure, study.layout, draws))
    return views_of_gathered(encoders, study, draws, targets, labels=labels)


def views_of_gathered(
    encoders: Sequence[EncoderEmbeddings],
    study: LeaningStudy,
    draws: Draws,
    targets: GatheredTargets,
    *,
    labels: bool = True,
) -> tuple[EncoderView, ...]:
    """The same of targets that are measured already, by these draws."""
    pooled = pooled_encoders(encoders)
    groups: list[_Measured] | None = None
    mean_groups = None
    if study.design.third is not None:
        own = [group_cosines(e, study.layout) for e in encoders]
        groups = [_measure(cosines, study.layout, draws) for cosines in own]
        mean_groups = _average([groups[i] for i in pooled], study.layout, draws)
    averaged = [targets.encoders[i] for i in pooled]
    poles = [group_poles(encoder, study.layout) for encoder in encoders]
    mean_poles = np.mean([poles[i] for i in pooled], axis=0)
    scores = [group_scores(encoder, study.layout) for encoder in encoders]
    mean_own = tuple(np.mean(of_group, axis=0) for of_group in zip(*(scores[i] for i in pooled), strict=True))
    reads_text = any(e.reads_text for e in encoders)
    views = [_view("mean", reads_text, targets.mean, mean_groups, averaged, (mean_poles, mean_own), study, labels)]
    for i, (e, own_targets) in enumerate(zip(encoders, targets.encoders, strict=True)):
        if len(encoders) == 1:
            views.append(replace(views[0], encoder=e.encoder))
        else:
            places = groups[i] if groups else None
            views.append(
                _view(e.encoder, e.reads_text, own_targets, places, [own_targets], (poles[i], scores[i]), study, labels)
            )
    return tuple(views)


@dataclass(frozen=True)
class _Measured:
    """Cosines of the attribute prompts as targets, and what follows from them."""

    cosines: Cosines
    replicates: Replicates


def draw_weights(study: LeaningStudy, n_encoders: int) -> Draws:
    """The bootstrap weights of a study, over so many encoders that are averaged; those of targets when asked for."""
    layout, n = study.layout, study.settings.n_resamples
    rng, image_rng = study.settings.rng, study.settings.image_rng
    images = [
        rao_wu_weights(sizes, n, image_rng("images of group", group))
        for group, sizes in zip(layout.groups, layout.prompt_sizes, strict=True)
    ]
    words = [
        rao_wu_weights([count], n, rng("words of group", group))
        for group, count in zip(layout.groups, layout.word_counts, strict=True)
    ]
    all_images = np.concatenate(images, axis=1)
    return Draws(
        targets=partial(_target_weights, study),
        prompts=_weights_of_prompts(layout, all_images),
        images=all_images,
        words=np.concatenate(words, axis=1),
        fixed_words=uniform_weights(layout, ()).words.astype(np.float32),
        encoders=rao_wu_weights([n_encoders], n, rng("encoders")) if n_encoders > 1 else np.ones((n, 1)),
    )


def _target_weights(study: LeaningStudy, t: int, rows: int) -> Iterator[np.ndarray]:
    """The weights of a target's images, so many rows at a time; the same ones whenever they are asked for."""
    rng = study.settings.image_rng("images of target", study.layout.targets[t])
    return rao_wu_chunks([study.layout.target_sizes[t]], study.settings.n_resamples, rng, rows)


def _weights_of_prompts(layout: Layout, images: np.ndarray) -> tuple[np.ndarray, ...]:
    """Take each attribute prompt's columns out of all images' weights, scaled to sum to 1."""
    counts = [layout.image_counts[g] for g in layout.prompt_groups]
    sizes = [size for sizes in layout.prompt_sizes for size in sizes]
    return tuple(
        images[:, columns] * np.float32(count / max(size, 1))
        for columns, count, size in zip(layout.prompt_slices, counts, sizes, strict=True)
    )


def _measure(cosines: Cosines, layout: Layout, draws: Draws) -> _Measured:
    stimulus = mean_cosines(cosines, layout, Weights(draws.prompts, draws.images, draws.words))
    return _Measured(cosines, _replicates(cosines, layout, draws, stimulus))


def _average(parts: Sequence[_Measured], layout: Layout, draws: Draws) -> _Measured:
    """Average encoders; the stimulus replicates resample the encoders as well."""
    if len(parts) == 1:
        return parts[0]
    cosines = average_cosines([part.cosines for part in parts])
    stimulus = np.zeros_like(parts[0].replicates.stimulus)
    for part, weight in zip(parts, draws.encoders.T, strict=True):
        stimulus += part.replicates.stimulus * weight[:, None, None, None].astype(stimulus.dtype)
    return _Measured(cosines, _replicates(cosines, layout, draws, stimulus))


def _replicates(cosines: Cosines, layout: Layout, draws: Draws, stimulus: np.ndarray) -> Replicates:
    uniform = uniform_weights(layout, [len(x) for x in cosines.image_image])
    return Replicates(
        point=mean_cosines(cosines, layout, uniform)[0],
        images=mean_cosines(cosines, layout, Weights(draws.prompts, draws.images, draws.fixed_words)),
        stimulus=stimulus,
    )


def _view(
    name: str,
    reads_text: bool,
    targets: ViewedTargets,
    groups: _Measured | None,
    averaged: Sequence[ViewedTargets],
    of_groups: tuple[np.ndarray, tuple[np.ndarray, ...]],
    study: LeaningStudy,
    labels: bool,
) -> EncoderView:
    settings = study.settings
    return EncoderView(
        encoder=name,
        reads_text=reads_text,
        image_cosines=targets.image_cosines,
        items=targets.items,
        targets=targets.replicates,
        groups=None if groups is None else groups.replicates,
        encoder_points=np.stack([view.replicates.point for view in averaged]),
        tests=label_tests(targets.items, study.pools, settings.n_permutations, settings.rng("labels"))
        if labels
        else {},
        poles=of_groups[0],
        own=of_groups[1],
    )
