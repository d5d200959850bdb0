"""What a T2IAT study is made of, names and embeddings by name; associations of stimuli, and all that concepts say.

A concept's cosines are as many as the products of its neutral images with those of either attribute, and its resamples
weigh them all. No concept needs another one, so concepts are measured one at a time, by any process, in any order. What
stays of one is a few numbers an image and, of each test that it is part of, the replicates of its mean association.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from math import isnan, nan
from typing import Any, TypeVar

import numpy as np
import scipy

from clinometer.metrics.records import Score
from clinometer.metrics.t2iat.differential import set_generator
from clinometer.metrics.t2iat.draws import (
    SetDraws,
    WelchEstimate,
    bilinear_mean,
    centred,
    freedom_of,
    interval_of,
    set_draws,
)
from clinometer.metrics.t2iat.sets import MeasuredSet, PromptSet, average_sets, is_batched, labels_of, prompt_set
from clinometer.stats.association import unit_vectors
from clinometer.stats.batches import by_batch
from clinometer.stats.repeats import SAVED_AGAIN, drawn_once, sketches

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
    repeats : neutral images that are another one again and do not count.
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
        """Return what is sampled: images, or, where these came in batches, batches in their place."""
        rows, *columns = self.batches
        if all(own is None for own in self.batches) or not len(self.associations):
            return self
        image_a, image_b = (
            by_batch(by_batch(cosines, rows).T, own).T
            for cosines, own in zip((self.image_a, self.image_b), columns, strict=True)
        )
        return replace(self, image_a=image_a, image_b=image_b, batches=(None, None, None))

    @property
    def n_batches(self) -> int:
        """Count the batches of the neutral images; 0 where every image is one by itself."""
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

        Only differences of the two cosines count; where there is no image, or none to tell how far, it stays so.
        """
        if not (n and len(self.associations) and np.isfinite(self.poles).all()):
            return self
        furthest = (self.poles.min(), self.poles.max())[side]
        return replace(
            self,
            image_a=np.vstack([self.image_a, np.full((n, self.image_a.shape[1]), furthest)]),
            image_b=np.vstack([self.image_b, np.zeros((n, self.image_b.shape[1]))]),
            batches=(None if self.batches[0] is None else labels_of(np.zeros(len(self.image_a) + n), self.batches[0]),
                     *self.batches[1:]),
        )  # fmt: skip


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
    image: WelchEstimate
    text: WelchEstimate
    poles: np.ndarray
    repeats: int
    shifts: np.ndarray
    sampled: np.ndarray
    batches: np.ndarray | None = None

    @property
    def n_batches(self) -> int:
        """Count the batches of the neutral images; 0 where every image is one by itself."""
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
    of_images, repeats = (_cosines(image, with_a), _cosines(image, with_b)), embeddings.repeats.get(stimulus, 0)
    known = [embeddings.batches.get((stimulus, group)) for group in ("", a, b)]
    batches = tuple(own if own is not None and is_batched(own) else None for own in known)
    return StimulusCosines(*of_images, text_a, text_b, _poles(with_a, with_b), repeats, batches)


def _poles(with_a: np.ndarray, with_b: np.ndarray) -> np.ndarray:
    """Mean Asc of the images with each attribute: mean_{i≠j} cos = (|S|² − n) / (n (n − 1)) from the sum S of n."""
    if min(len(with_a), len(with_b)) < 2:
        return np.full(2, np.nan)
    units = [unit_vectors(x) for x in (with_a, with_b)]
    within = [(np.square(x.sum(axis=0)).sum() - len(x)) / (len(x) * (len(x) - 1)) for x in units]
    between = units[0].mean(axis=0) @ units[1].mean(axis=0)
    return np.array([within[0] - between, between - within[1]])


def measured_stimulus(cosines: StimulusCosines, design: T2iatDesign, name: str) -> MeasuredStimulus:
    """Return a stimulus without its cosines.

    ``shifts`` : each missing image with an attribute is taken to be as near to the neutral ones as the farthest, or the
    nearest, of either attribute is.
    """
    shifts = np.zeros(2)
    if len(cosines.associations):
        means = [cosines.image_a.mean(axis=0), cosines.image_b.mean(axis=0)]
        ends = np.array([min(map(np.min, means)), max(map(np.max, means))])
        for group, own, order in ((design.a, means[0], ends), (design.b, means[1], ends[::-1])):
            lost = design.missing_attributes.get((name, group), 0)
            shifts += (1 if group == design.a else -1) * lost / (len(own) + lost) * (order - own.mean())
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
    """Return those of the encoders that read text; all of them, without their texts, where none does."""
    with_text = [stimulus for stimulus in cosines if stimulus.text_a.size]
    return with_text or [images_only(stimulus) for stimulus in cosines]


def images_only(cosines: StimulusCosines) -> StimulusCosines:
    """Return the same without texts."""
    nothing = np.zeros((1, 0))
    return replace(cosines, text_a=nothing, text_b=nothing)


def _cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not len(x) or not len(y):
        return np.zeros((len(x), len(y)))
    cosines: np.ndarray = unit_vectors(x) @ unit_vectors(y).T
    return cosines


def image_estimate(cosines: StimulusCosines, design: T2iatDesign) -> WelchEstimate:
    """Mean of Asc over a stimulus's neutral images; its error is over images, neutral and with attributes.

    Where these came in batches, it is over batches.
    """
    what = ("neutral image", f"image with {design.a}", f"image with {design.b}")
    units = cosines.units
    return bilinear_mean(units.image_a, units.image_b, what)


def text_estimate(cosines: StimulusCosines, design: T2iatDesign) -> WelchEstimate:
    """Return Asc of a stimulus's neutral prompt against its prompts with attributes, as texts; its error is over words.

    The prompt itself is one text and held fixed.
    """
    if not (cosines.text_a.size and cosines.text_b.size):
        return WelchEstimate(reason="the encoder reads no text")
    mean = bilinear_mean(cosines.text_a, cosines.text_b, ("prompt", f"word for {design.a}", f"word for {design.b}"))
    attributes = ((design.a, cosines.text_a), (design.b, cosines.text_b))
    single = [f"one word for {group} only" for group, texts in attributes if texts.shape[1] == 1]
    reason = f"interval: {' and '.join(single)}" if single else ""
    return WelchEstimate(mean.value, mean.variances[1:], mean.freedoms[1:], reason)


def distribution_rows(name: str, category: str, encoder: str, stimulus: MeasuredStimulus) -> list[Score]:
    """Return the quartiles with exact order-statistic intervals, and Tukey's whiskers, of Asc over a stimulus's images.

    The intervals take the attribute images for given: they are about neutral images only.
    """
    values = stimulus.associations
    about: dict[str, Any] = {
        "metric": "association",
        "concept": name,
        "category": category,
        "encoder": encoder,
        "n_target": len(values),
        "n_a": stimulus.n_a,
        "n_b": stimulus.n_b,
        "n_repeated": stimulus.repeats,
    }
    if not len(values):
        reason = "no neutral images, or none with one of the attributes"
        return [Score(component=quartile, reason=reason, **about) for quartile in QUARTILES]
    rows = []
    for quartile, share in QUARTILES.items():
        # distribution-free: two order statistics, where there are enough
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
    missing : by stimulus, its neutral images that were asked for and are not there; where it is not named, none.
    missing_attributes : the same of its images with an attribute, by stimulus and attribute.
    """

    concepts: Mapping[str, tuple[str, ...]]
    tests: tuple[DesignedTest, ...]
    a: str
    b: str
    margin: float | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    missing_attributes: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def lacking(self, stimuli: Iterable[str]) -> int:
        """Count the images with an attribute that these stimuli lack."""
        names = set(stimuli)
        return sum(n for (name, _), n in self.missing_attributes.items() if name in names)

    def unbounded(self, stimuli: Iterable[str]) -> str:
        """Explain that these give a number no bounds; empty where none is missing."""
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
    repeats : by stimulus, neutral images that are another one again and are left out already.
    saved_again : how far saving a picture again moves its unit vector; two that are closer may be one
        (:mod:`clinometer.stats.repeats`).
    batches : by (stimulus, attribute), the attribute of neutral ones empty, which request, session or cache each image
        came from, any labels; of what is not named every image is one by itself.
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
    """Some rows of each array, (None: all of them), taken when it is asked for."""

    def __init__(self, arrays: Mapping[Key, np.ndarray], rows: Mapping[Key, np.ndarray | None]) -> None:
        self._arrays, self._rows = arrays, rows

    def __getitem__(self, key: Key) -> np.ndarray:
        own = self._rows[key]
        return self._arrays[key] if own is None else self._arrays[key][own]

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

    def kept(arrays: Callable[[T2iatEmbeddings], np.ndarray]) -> np.ndarray | None:
        images = [[sketches(arrays(encoder)) for encoder in run] for run in runs]
        limits = [[encoder.saved_again for encoder in run] for run in runs]
        own = reduce(
            np.intersect1d, (drawn_once(seen, within=limit)[0] for seen, limit in zip(images, limits, strict=True))
        )
        return None if len(own) == len(images[0][0]) else own

    neutral = {name: kept(lambda e, name=name: e.neutral[name]) for name in stimuli}  # type: ignore[misc]
    keys = [(name, group) for name in stimuli for group in groups]
    attribute = {key: kept(lambda e, key=key: e.attribute[key]) for key in keys}  # type: ignore[misc]

    def repeats(encoder: T2iatEmbeddings, name: str, own: np.ndarray | None) -> int:
        return encoder.repeats.get(name, 0) + (0 if own is None else len(encoder.neutral[name]) - len(own))

    return tuple(
        [
            replace(
                encoder,
                neutral=_Chosen(encoder.neutral, neutral),
                attribute=_Chosen(encoder.attribute, attribute),
                repeats={name: repeats(encoder, name, own) for name, own in neutral.items()},
                batches=_of_kept(encoder.batches, {**{(name, ""): own for name, own in neutral.items()}, **attribute}),
            )
            for encoder in run
        ]
        for run in runs
    )


def _of_kept(
    batches: Mapping[tuple[str, str], np.ndarray], kept: Mapping[tuple[str, str], np.ndarray | None]
) -> dict[tuple[str, str], np.ndarray]:
    """Return the batches of the images that are kept; None keeps all."""
    return {key: own if (rows := kept.get(key)) is None else own[rows] for key, own in batches.items()}


Interval = tuple[float, float]


@dataclass(frozen=True)
class SeenConcept:
    """A concept as one encoder, or the average of all, sees it.

    Attributes
    ----------
    prompts : its set of prompts.
    intervals : of its mean association, over images and over prompts; NaN where it cannot be used.
    drawn : by the order of each test that it is part of, its resamples over images and over prompts; nothing where it
        cannot be used.
    stimuli, arrows : its stimuli by name, averaged over the encoders, and over those of them that read text: an arrow's
        two ends must be seen by the same ones.
    filled : the same, without its stimuli, with what is missing taken to be with B, and with A; nothing of nothing.
    """

    prompts: MeasuredSet
    intervals: tuple[Interval, Interval]
    drawn: Mapping[int, tuple[SetDraws, SetDraws]]
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
        concept = list(self.design.concepts)[number]
        names = self.design.concepts[concept]
        (embeddings,) = counted_once(self.embeddings, stimuli=names, groups=(self.design.a, self.design.b))
        sets = [self._prompt_set(encoder, concept) for encoder in embeddings]
        lost = [self.design.missing.get(name, 0) for name in names]
        ends = [[self._prompt_set(e, concept, lost, side) for e in embeddings] for side in (0, 1)] if any(lost) else []
        a, b = self.design.a, self.design.b
        stimuli = [{name: stimulus_cosines(encoder, name, a, b) for name in names} for encoder in embeddings]
        views = [
            self._see(
                number, own_set, {name: (cosines[name], cosines[name]) for name in names}, [end[i] for end in ends]
            )
            for i, (own_set, cosines) in enumerate(zip(sets, stimuli, strict=True))
        ]
        if len(views) == 1:
            return (*views,)
        by_name = {name: [cosines[name] for cosines in stimuli] for name in names}
        together = {
            name: (average_stimulus([images_only(one) for one in cosines]), average_stimulus(reading(cosines)))
            for name, cosines in by_name.items()
        }
        return (self._see(number, average_sets(sets), together, [average_sets(end) for end in ends]), *views)

    def _prompt_set(
        self, encoder: T2iatEmbeddings, concept: str, missing: Sequence[int] = (), side: int = 0
    ) -> PromptSet:
        stimuli, groups = self.design.concepts[concept], (self.design.a, self.design.b)
        attribute = [[encoder.attribute[name, group] for name in stimuli] for group in groups]
        neutral = [encoder.neutral[name] for name in stimuli]
        batches = [[encoder.batches.get((name, group)) for group in ("", *groups)] for name in stimuli]
        return prompt_set(neutral, *attribute, name=concept, missing=missing, side=side, batches=batches)

    def _see(
        self,
        number: int,
        own_set: PromptSet,
        stimuli: Mapping[str, tuple[StimulusCosines, StimulusCosines]],
        ends: Sequence[PromptSet] = (),
    ) -> SeenConcept:
        nothing = (np.nan, np.nan)
        intervals, drawn = (nothing, nothing), dict[int, tuple[SetDraws, SetDraws]]()
        if not own_set.reason:
            intervals = self._interval(own_set, number, prompts=False), self._interval(own_set, number, prompts=True)
            concept = list(self.design.concepts)[number]
            drawn = {
                order: (self._draw(own_set, order, test.y == concept, prompts=False),
                        self._draw(own_set, order, test.y == concept, prompts=True))
                for order, test in enumerate(self.design.tests)
                if concept in (test.x, test.y)
            }  # fmt: skip
        of_images = {name: measured_stimulus(pair[0], self.design, name) for name, pair in stimuli.items()}
        of_readers = {
            name: of_images[name] if pair[0] is pair[1] else measured_stimulus(pair[1], self.design, name)
            for name, pair in stimuli.items()
        }
        filled = tuple(self._see(number, end, {}) for end in ends)
        return SeenConcept(own_set.measured(), intervals, drawn, of_images, of_readers, filled)

    def _interval(self, own_set: PromptSet, number: int, *, prompts: bool) -> Interval:
        rng = np.random.default_rng([self.seed, number, int(prompts)])
        draws = set_draws(own_set, self.n_resamples, rng, prompts=prompts).association
        freedom = freedom_of([own_set], prompts=prompts)
        return interval_of(centred(draws, own_set.association), own_set.association, freedom)

    def _draw(self, own_set: PromptSet, order: int, second: bool, *, prompts: bool) -> SetDraws:
        rng = set_generator(np.random.default_rng([self.seed, order]), prompts=prompts, second=second)
        return set_draws(own_set, self.n_resamples, rng, prompts=prompts)
