"""The inputs of a T2IAT study, names and embeddings by name; the associations of stimuli, and rows of concepts.

A concept's cosines are as many as the products of its neutral images with those of either attribute, and its resamples
weigh them all. No concept needs another one, so concepts are measured one at a time, by any process, in any order. What
stays of one is a few numbers an image and, of each test that it is part of, the replicates of its mean association.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from math import isnan, nan
from typing import Any, TypeVar

import numpy as np
import scipy

from clinometer.metrics import prompt_sets
from clinometer.metrics.records import Score
from clinometer.metrics.t2iat import set_generator
from clinometer.stats.association import unit_vectors
from clinometer.stats.dependence import SAVED_AGAIN, by_batch, drawn_once, sketches

QUARTILES = {"lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75}
DENSITY_POINTS = 61


@dataclass(frozen=True)
class StimulusCosines:
    """Cosines of one stimulus with its own attribute images, and of its text with its own attribute texts.

    Attributes
    ----------
    image_a, image_b : (neutral images × images with the attribute).
    text_a, text_b : (1 × words); no columns where the encoder reads no text.
    poles : (2,), mean Asc of the images with A and of those with B themselves, none compared with itself; NaN where
        one kind is missing, or has a single image.
    repeats : neutral images that repeat another one and do not count.
    batches : of the neutral images, and of those with A and with B, the batch of each; None where each is by itself.
    """

    image_a: np.ndarray
    image_b: np.ndarray
    text_a: np.ndarray
    text_b: np.ndarray
    poles: np.ndarray
    repeats: int = 0
    batches: tuple[np.ndarray | None, ...] = (None, None, None)

    @property
    def units(self) -> StimulusCosines:
        """The cosines of what is sampled: images, or, where these came in batches, batches in their place."""
        neutral, with_a, with_b = self.batches
        if all(labels is None for labels in self.batches) or not len(self.associations):
            return self
        return replace(
            self,
            image_a=by_batch(by_batch(self.image_a, neutral).T, with_a).T,
            image_b=by_batch(by_batch(self.image_b, neutral).T, with_b).T,
            batches=(None, None, None),
        )

    @property
    def n_batches(self) -> int:
        """Batches of the neutral images; 0 where every image is one by itself."""
        return 0 if self.batches[0] is None else len(np.unique(self.batches[0]))

    @property
    def sampled(self) -> np.ndarray:
        """Asc of every unit of chance."""
        return self.units.associations

    @property
    def associations(self) -> np.ndarray:
        """Asc of every neutral image: (n,); empty where a kind of image is missing."""
        if not (self.image_a.size and self.image_b.size):
            return np.zeros(0)
        associations: np.ndarray = self.image_a.mean(axis=1) - self.image_b.mean(axis=1)
        return associations

    def filled(self, n: int, side: int) -> StimulusCosines:
        """Add so many neutral images, all as far to B (``side`` 0), or to A, as the images with it are.

        Only differences of the two cosines count; without images, or without poles, nothing is added.
        """
        if not (n and len(self.associations) and np.isfinite(self.poles).all()):
            return self
        furthest = (self.poles.min(), self.poles.max())[side]
        neutral, *others = self.batches
        return replace(
            self,
            image_a=np.vstack([self.image_a, np.full((n, self.image_a.shape[1]), furthest)]),
            image_b=np.vstack([self.image_b, np.zeros((n, self.image_b.shape[1]))]),
            batches=(
                None if neutral is None else prompt_sets.labels_of(np.zeros(len(self.image_a) + n), neutral),
                *others,
            ),
        )


@dataclass(frozen=True)
class MeasuredStimulus:
    """What is left of a stimulus without its cosines.

    Attributes
    ----------
    n, n_a, n_b : its neutral images, and those with the attributes.
    associations : Asc of every neutral image: (n,); empty where a kind of image is missing.
    image, text : mean of Asc over the images, and Asc of its text.
    poles, repeats : the same two of its cosines.
    shifts : (2,), how far the mean of Asc may lie lower, and higher, for images with an attribute that are missing.
    sampled : Asc of every unit of chance.
    batches : the batch of each neutral image; None where images are the units of chance.
    """

    n: int
    n_a: int
    n_b: int
    associations: np.ndarray
    image: prompt_sets.WelchEstimate
    text: prompt_sets.WelchEstimate
    poles: np.ndarray
    repeats: int
    shifts: np.ndarray
    sampled: np.ndarray
    batches: np.ndarray | None = None

    @property
    def n_batches(self) -> int:
        """Batches of the neutral images; 0 where every image is one by itself."""
        return 0 if self.batches is None else len(np.unique(self.batches))


@dataclass(frozen=True)
class Density:
    """The distribution of one stimulus's associations, for a figure: a smooth density and the points beyond whiskers.

    ``x``, ``y`` are empty where there are too few images, or all associate alike.
    """

    stimulus: str
    x: np.ndarray
    y: np.ndarray
    outliers: np.ndarray


def stimulus_cosines(embeddings: T2iatEmbeddings, stimulus: str, a: str, b: str) -> StimulusCosines:
    """Return the cosines of one stimulus, as one encoder sees it."""
    image = embeddings.neutral[stimulus]
    with_a, with_b = (embeddings.attribute[stimulus, group] for group in (a, b))
    text = embeddings.neutral_texts.get(stimulus)
    text_a = text_b = np.zeros((1, 0))
    if text is not None:
        text_a, text_b = (_cosines(text[None], embeddings.attribute_texts[stimulus, group]) for group in (a, b))
    poles = np.full(2, np.nan)
    if min(len(with_a), len(with_b)) > 1:  # from the sum S of n unit vectors, mean_{i≠j} cos = (|S|² − n) / (n (n − 1))
        units = [unit_vectors(x) for x in (with_a, with_b)]
        within = [(np.square(x.sum(axis=0)).sum() - len(x)) / (len(x) * (len(x) - 1)) for x in units]
        between = units[0].mean(axis=0) @ units[1].mean(axis=0)
        poles = np.array([within[0] - between, between - within[1]])
    labels = [embeddings.batches.get((stimulus, group)) for group in ("", a, b)]
    return StimulusCosines(
        _cosines(image, with_a), _cosines(image, with_b), text_a, text_b, poles, embeddings.repeats.get(stimulus, 0),
        tuple(each if each is not None and prompt_sets.is_batched(each) else None for each in labels),
    )  # fmt: skip


def measured_stimulus(cosines: StimulusCosines, design: T2iatDesign, name: str) -> MeasuredStimulus:
    """Return a stimulus without its cosines.

    ``shifts`` : each missing image with an attribute is assumed as near to the neutral ones as the farthest, or the
    nearest, of either attribute is.
    """
    shifts = np.zeros(2)
    if len(cosines.associations):
        means = [cosines.image_a.mean(axis=0), cosines.image_b.mean(axis=0)]
        ends = np.array([min(map(np.min, means)), max(map(np.max, means))])
        for group, sign, mean, order in ((design.a, 1, means[0], ends), (design.b, -1, means[1], ends[::-1])):
            lost = design.missing_attributes.get((name, group), 0)
            shifts += sign * lost / (len(mean) + lost) * (order - mean.mean())
    return MeasuredStimulus(
        cosines.image_a.shape[0], cosines.image_a.shape[1], cosines.image_b.shape[1], cosines.associations,
        image_estimate(cosines, design), text_estimate(cosines, design), cosines.poles, cosines.repeats, shifts,
        cosines.sampled, cosines.batches[0],
    )  # fmt: skip


def average_stimulus(cosines: Sequence[StimulusCosines]) -> StimulusCosines:
    """Return the cosines averaged over encoders, all of which read text, or none."""
    image_a, image_b, text_a, text_b, poles = (
        np.mean([getattr(stimulus, part) for stimulus in cosines], axis=0)
        for part in ("image_a", "image_b", "text_a", "text_b", "poles")
    )
    return StimulusCosines(image_a, image_b, text_a, text_b, poles, cosines[0].repeats, cosines[0].batches)


def reading(cosines: Sequence[StimulusCosines]) -> list[StimulusCosines]:
    """Return the cosines of the encoders that read text; where none does, those of all, without texts."""
    with_text = [stimulus for stimulus in cosines if stimulus.text_a.size]
    return with_text or [images_only(stimulus) for stimulus in cosines]


def images_only(cosines: StimulusCosines) -> StimulusCosines:
    """Return the cosines without those of texts."""
    nothing = np.zeros((1, 0))
    return replace(cosines, text_a=nothing, text_b=nothing)


def _cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not len(x) or not len(y):
        return np.zeros((len(x), len(y)))
    cosines: np.ndarray = unit_vectors(x) @ unit_vectors(y).T
    return cosines


def image_estimate(cosines: StimulusCosines, design: T2iatDesign) -> prompt_sets.WelchEstimate:
    """Return the mean of Asc over a stimulus's neutral images, with its error over all images, or their batches."""
    units = cosines.units
    return prompt_sets.bilinear_mean(units.image_a, units.image_b, design.kinds)


def text_estimate(cosines: StimulusCosines, design: T2iatDesign) -> prompt_sets.WelchEstimate:
    """Return Asc of a stimulus's neutral prompt against its prompts with attributes, as texts; its error is over words.

    The prompt itself is one text and held fixed.
    """
    if not (cosines.text_a.size and cosines.text_b.size):
        return prompt_sets.WelchEstimate(reason="the encoder reads no text")
    mean = prompt_sets.bilinear_mean(
        cosines.text_a, cosines.text_b, ("prompt", f"word for {design.a}", f"word for {design.b}")
    )
    attributes = ((design.a, cosines.text_a), (design.b, cosines.text_b))
    single = [f"one word for {group} only" for group, texts in attributes if texts.shape[1] == 1]
    reason = f"interval: {' and '.join(single)}" if single else ""
    return prompt_sets.WelchEstimate(mean.value, mean.variances[1:], mean.freedoms[1:], reason)


def distribution_rows(values: np.ndarray, about: Mapping[str, Any]) -> list[Score]:
    """Return the quartiles with exact order-statistic intervals, and Tukey's whiskers, of Asc over a stimulus's images.

    The intervals hold the attribute images fixed: they are about neutral images only.
    """
    about = {**about, "metric": "association", "n_target": len(values), "n_batches": 0}
    if not len(values):
        reason = "no neutral images, or none with one of the attributes"
        return [Score(component=quartile, reason=reason, **about) for quartile in QUARTILES]
    rows = []
    for quartile, share in QUARTILES.items():
        # distribution-free: two order statistics, if there are enough
        ranks, low, high = _ranks_about(len(values), share), nan, nan
        if not any(map(isnan, ranks)):
            low, high = (float(np.sort(values)[int(rank)]) for rank in ranks)
        reason = "" if np.isfinite([low, high]).all() else f"interval: {len(values)} images are too few"
        value = float(np.quantile(values, share))
        rows.append(Score(component=quartile, value=value, low=low, high=high, reason=reason, **about))
    low, high = whiskers(values)
    for whisker, value in (("lower_whisker", low), ("upper_whisker", high)):
        rows.append(Score(component=whisker, value=value, reason="descriptive: a whisker has no interval", **about))
    return rows


@lru_cache(maxsize=1024)
def _ranks_about(n: int, share: float) -> tuple[float, float]:
    """Return which order statistics of n, from 0, bound a quantile; NaN where none does."""
    interval = scipy.stats.quantile_test(np.arange(n), p=share).confidence_interval(0.95)
    return float(interval.low), float(interval.high)


def whiskers(values: np.ndarray) -> tuple[float, float]:
    """Return Tukey's whiskers: the outermost values within 1.5 interquartile ranges of the quartiles."""
    first, third = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * (third - first)
    inside = values[(values >= first - reach) & (values <= third + reach)]
    return float(inside.min()), float(inside.max())


def density(stimulus: str, values: np.ndarray) -> Density:
    """Estimate the associations' density by Gaussian kernels of Scott's bandwidth, a bandwidth beyond their range."""
    if len(values) < 3 or not np.ptp(values) > 1e-12:
        return Density(stimulus, np.zeros(0), np.zeros(0), np.zeros(0))
    kernel = scipy.stats.gaussian_kde(values)
    width = float(np.sqrt(kernel.covariance[0, 0]))
    x = np.linspace(values.min() - width, values.max() + width, DENSITY_POINTS)
    low, high = whiskers(values)
    return Density(stimulus, x, kernel(x), np.sort(values[(values < low) | (values > high)]))


@dataclass(frozen=True)
class DesignedTest:
    """A test of concept ``x`` against concept ``y``."""

    name: str
    x: str
    y: str


@dataclass(frozen=True)
class T2iatDesign:
    """A T2IAT study without its prompts' texts.

    Attributes
    ----------
    concepts : the stimuli of each concept.
    tests : differential associations asked for; may be none.
    a, b : the two attributes; positive leans to ``a``.
    margin : size below which an association counts as none; None if the suite names none.
    missing : by stimulus, its neutral images that were asked for and are not there; none where it is left out.
    missing_attributes : missing images with an attribute, by stimulus and attribute.
    """

    concepts: Mapping[str, tuple[str, ...]]
    tests: tuple[DesignedTest, ...]
    a: str
    b: str
    margin: float | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    missing_attributes: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def stimuli(self) -> list[tuple[str, str]]:
        """All (concept, stimulus) pairs, in order."""
        return [(concept, name) for concept, names in self.concepts.items() for name in names]

    @property
    def kinds(self) -> tuple[str, str, str]:
        """What a single image of each kind is called."""
        return "neutral image", f"image with {self.a}", f"image with {self.b}"

    def stimuli_of(self, test: DesignedTest) -> list[str]:
        """Return the stimuli of both sides of a test."""
        return [*self.concepts[test.x], *self.concepts[test.y]]

    def lacking(self, stimuli: Iterable[str]) -> int:
        """Count the images with an attribute that these stimuli lack."""
        names = set(stimuli)
        return sum(n for (name, _), n in self.missing_attributes.items() if name in names)

    def unbounded(self, stimuli: Iterable[str]) -> str:
        """Explain why a number from these stimuli has no bounds; return an empty text where no image is missing."""
        n = self.lacking(stimuli)
        return f"no bounds for the {n:,} missing pictures with an attribute" if n else ""


@dataclass(frozen=True)
class T2iatEmbeddings:
    """What one encoder sees.

    Attributes
    ----------
    neutral : (images × dim) by stimulus; no rows where no image could be made.
    attribute : (images × dim) by (stimulus, attribute).
    neutral_texts : (dim,) by stimulus; empty where the encoder reads no text.
    attribute_texts : (words × dim) by (stimulus, attribute); empty where the encoder reads no text.
    repeats : by stimulus, neutral images that repeat another one and are left out already.
    saved_again : how far saving a picture again moves its unit vector; two that are closer may be one
        (:mod:`clinometer.stats.dependence`).
    batches : by (stimulus, attribute), the attribute of neutral ones empty, which request, session or cache each image
        came from, any labels; without an entry every image is one by itself.
    """

    encoder: str
    neutral: Mapping[str, np.ndarray]
    attribute: Mapping[tuple[str, str], np.ndarray]
    neutral_texts: Mapping[str, np.ndarray]
    attribute_texts: Mapping[tuple[str, str], np.ndarray]
    repeats: Mapping[str, int] = field(default_factory=dict)
    saved_again: float = SAVED_AGAIN
    batches: Mapping[tuple[str, str], np.ndarray] = field(default_factory=dict)


Key = TypeVar("Key", bound=Hashable)


class _Chosen(Mapping[Key, np.ndarray]):
    """Some rows of each array (None: all of them), selected when an array is read."""

    def __init__(self, arrays: Mapping[Key, np.ndarray], rows: Mapping[Key, np.ndarray | None]) -> None:
        self._arrays, self._rows = arrays, rows

    def __getitem__(self, key: Key) -> np.ndarray:
        rows = self._rows[key]
        return self._arrays[key] if rows is None else self._arrays[key][rows]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def counted_once(
    *runs: Sequence[T2iatEmbeddings], stimuli: Sequence[str], groups: tuple[str, str]
) -> tuple[list[T2iatEmbeddings], ...]:
    """Return stimuli's embeddings with each picture once: what all encoders of a run see as one is one.

    Of several runs the i-th pictures are partners, and a pair counts where either picture is new in its own run.
    """

    def rows_of(name: str, group: str) -> np.ndarray | None:
        """Return the rows of the pictures that count; None for all of them."""
        images = [
            [sketches(e.attribute[name, group] if group else e.neutral[name]) for e in encoders] for encoders in runs
        ]
        limits = [[encoder.saved_again for encoder in encoders] for encoders in runs]
        new = (drawn_once(seen, within=limit)[0] for seen, limit in zip(images, limits, strict=True))
        rows = reduce(np.intersect1d, new)
        return None if len(rows) == len(images[0][0]) else rows

    rows = {(name, group): rows_of(name, group) for name in stimuli for group in ("", *groups)}
    neutral = {name: rows[name, ""] for name in stimuli}
    attribute = {key: kept for key, kept in rows.items() if key[1]}

    def once(encoder: T2iatEmbeddings) -> T2iatEmbeddings:
        repeats = {name: encoder.repeats.get(name, 0) for name in stimuli}
        for name, kept in neutral.items():
            repeats[name] += 0 if kept is None else len(encoder.neutral[name]) - len(kept)
        return replace(
            encoder,
            neutral=_Chosen(encoder.neutral, neutral),
            attribute=_Chosen(encoder.attribute, attribute),
            repeats=repeats,
            batches={key: labels if (kept := rows.get(key)) is None else labels[kept]
                     for key, labels in encoder.batches.items()},
        )  # fmt: skip

    return tuple([once(encoder) for encoder in encoders] for encoders in runs)


def set_of_prompts(
    encoder: T2iatEmbeddings,
    design: T2iatDesign,
    concept: str,
    stimuli: Sequence[str],
    missing: Sequence[int] = (),
    side: int = 0,
) -> prompt_sets.PromptSet:
    """Return the prompts of some of a concept's stimuli, as one encoder sees them."""
    groups = (design.a, design.b)
    return prompt_sets.prompt_set(
        [encoder.neutral[name] for name in stimuli],
        *([encoder.attribute[name, group] for name in stimuli] for group in groups),
        name=concept,
        missing=missing,
        side=side,
        batches=[[encoder.batches.get((name, group)) for group in ("", *groups)] for name in stimuli],
    )


Interval = tuple[float, float]


@dataclass(frozen=True)
class SeenConcept:
    """A concept as one encoder, or the average of all, sees it.

    Attributes
    ----------
    prompts : its set of prompts.
    intervals : of its mean association, over images and over prompts; NaN where it cannot be used.
    drawn : by the order of each test that it is part of, its resamples over images and over prompts; empty where it
        cannot be used.
    stimuli, arrows : its stimuli by name, averaged over the encoders, and over those of them that read text: an arrow's
        two ends must be seen by the same ones.
    filled : the concept without its stimuli, with missing images assumed to be like those with B, and with A; empty
        where none is missing.
    """

    prompts: prompt_sets.MeasuredSet
    intervals: tuple[Interval, Interval]
    drawn: Mapping[int, tuple[prompt_sets.SetDraws, prompt_sets.SetDraws]]
    stimuli: Mapping[str, MeasuredStimulus]
    arrows: Mapping[str, MeasuredStimulus]
    filled: tuple[SeenConcept, ...] = ()


MeasuredConcept = tuple[SeenConcept, ...]
"""A concept as the average of several encoders sees it, and then as each encoder does."""


@dataclass(frozen=True)
class ConceptMeasurer:
    """Measures concepts by their number.

    Attributes
    ----------
    embeddings : of the images of the concepts that are asked for, and of the texts.
    """

    embeddings: Sequence[T2iatEmbeddings]
    design: T2iatDesign
    n_resamples: int
    seed: int

    def __call__(self, number: int) -> MeasuredConcept:
        """Compute the cosines of a concept, and what is needed of them."""
        concept, names = list(self.design.concepts.items())[number]
        a, b = self.design.a, self.design.b
        (embeddings,) = counted_once(self.embeddings, stimuli=names, groups=(a, b))
        sets = [set_of_prompts(encoder, self.design, concept, names) for encoder in embeddings]
        lost = [self.design.missing.get(name, 0) for name in names]
        ends = [
            [set_of_prompts(encoder, self.design, concept, names, lost, side) for encoder in embeddings]
            for side in (0, 1)
        ] if any(lost) else []  # fmt: skip
        stimuli = [{name: stimulus_cosines(encoder, name, a, b) for name in names} for encoder in embeddings]
        views = [
            self._see(number, prompts, {name: (cosines[name],) * 2 for name in names}, [end[i] for end in ends])
            for i, (prompts, cosines) in enumerate(zip(sets, stimuli, strict=True))
        ]
        if len(views) == 1:
            return (*views,)
        by_name = {name: [cosines[name] for cosines in stimuli] for name in names}
        together = {
            name: (average_stimulus([images_only(one) for one in cosines]), average_stimulus(reading(cosines)))
            for name, cosines in by_name.items()
        }
        return (
            self._see(
                number, prompt_sets.average_sets(sets), together, [prompt_sets.average_sets(end) for end in ends]
            ),
            *views,
        )

    def _see(
        self,
        number: int,
        prompts: prompt_sets.PromptSet,
        stimuli: Mapping[str, tuple[StimulusCosines, StimulusCosines]],
        ends: Sequence[prompt_sets.PromptSet] = (),
    ) -> SeenConcept:
        concept, nothing = list(self.design.concepts)[number], (nan, nan)
        intervals, drawn = (nothing, nothing), dict[int, tuple[prompt_sets.SetDraws, prompt_sets.SetDraws]]()
        if not prompts.reason:
            intervals = self._interval(prompts, number, False), self._interval(prompts, number, True)
            for order, test in enumerate(self.design.tests):
                if concept in (test.x, test.y):
                    is_second = test.y == concept
                    drawn[order] = (
                        self._draw(prompts, order, is_second, False),
                        self._draw(prompts, order, is_second, True),
                    )
        images = {name: measured_stimulus(pair[0], self.design, name) for name, pair in stimuli.items()}
        arrows = {
            name: images[name] if pair[0] is pair[1] else measured_stimulus(pair[1], self.design, name)
            for name, pair in stimuli.items()
        }
        filled = tuple(self._see(number, end, {}) for end in ends)
        return SeenConcept(prompts.measured(), intervals, drawn, images, arrows, filled)

    def _interval(self, prompts: prompt_sets.PromptSet, number: int, over_prompts: bool) -> Interval:
        rng = np.random.default_rng([self.seed, number, int(over_prompts)])
        draws = prompt_sets.set_draws(prompts, self.n_resamples, rng, prompts=over_prompts).association
        freedom = prompt_sets.freedom_of([prompts], prompts=over_prompts)
        return prompt_sets.interval_of(prompt_sets.centred(draws, prompts.association), prompts.association, freedom)

    def _draw(
        self, prompts: prompt_sets.PromptSet, order: int, is_second: bool, over_prompts: bool
    ) -> prompt_sets.SetDraws:
        rng = set_generator(np.random.default_rng([self.seed, order]), prompts=over_prompts, second=is_second)
        return prompt_sets.set_draws(prompts, self.n_resamples, rng, prompts=over_prompts)
