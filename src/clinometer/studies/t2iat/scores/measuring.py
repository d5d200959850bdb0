"""What the images of one concept say: all that a study needs of their vectors, measured one concept at a time.

A concept's cosines are as many as the products of its neutral images with those of either attribute, and its resamples
weigh them all. No concept needs another one, so concepts can be measured by any process, in any order. What stays of
one is a few numbers an image and, of each test that it is part of, the replicates of its mean association.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.metrics.t2iat.differential import set_generator
from clinometer.metrics.t2iat.draws import SetDraws, centred, freedom_of, interval_of, set_draws
from clinometer.metrics.t2iat.sets import MeasuredSet, PromptSet, average_sets, prompt_set
from clinometer.studies.t2iat.scores.stimuli import (
    MeasuredStimulus,
    StimulusCosines,
    T2iatDesign,
    T2iatEmbeddings,
    average_stimulus,
    counted_once,
    images_only,
    measured_stimulus,
    reading,
    stimulus_cosines,
)

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
        """Take the cosines of a concept, and what is needed of them."""
        concept = list(self.design.concepts)[number]
        names = self.design.concepts[concept]
        (embeddings,) = counted_once(self.embeddings, stimuli=names, groups=(self.design.a, self.design.b))
        sets = [self._prompt_set(encoder, concept) for encoder in embeddings]
        lost = [self.design.missing.get(name, 0) for name in names]
        ends = [[self._prompt_set(e, concept, lost, side) for e in embeddings] for side in (0, 1)] if any(lost) else []
        stimuli = [self._stimuli(encoder, concept) for encoder in embeddings]
        views = [
            self._seen(
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
        return (self._seen(number, average_sets(sets), together, [average_sets(end) for end in ends]), *views)

    def _prompt_set(
        self, encoder: T2iatEmbeddings, concept: str, missing: Sequence[int] = (), side: int = 0
    ) -> PromptSet:
        stimuli, groups = self.design.concepts[concept], (self.design.a, self.design.b)
        attribute = [[encoder.attribute[name, group] for name in stimuli] for group in groups]
        neutral = [encoder.neutral[name] for name in stimuli]
        return prompt_set(neutral, *attribute, name=concept, missing=missing, side=side)

    def _stimuli(self, encoder: T2iatEmbeddings, concept: str) -> dict[str, StimulusCosines]:
        a, b = self.design.a, self.design.b
        return {name: stimulus_cosines(encoder, name, a, b) for name in self.design.concepts[concept]}

    def _seen(
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
            drawn = dict(self._draws(own_set, list(self.design.concepts)[number]))
        of_images = {name: measured_stimulus(pair[0], self.design, name) for name, pair in stimuli.items()}
        of_readers = {
            name: of_images[name] if pair[0] is pair[1] else measured_stimulus(pair[1], self.design, name)
            for name, pair in stimuli.items()
        }
        filled = tuple(self._seen(number, end, {}) for end in ends)
        return SeenConcept(own_set.measured(), intervals, drawn, of_images, of_readers, filled)

    def _interval(self, own_set: PromptSet, number: int, *, prompts: bool) -> Interval:
        rng = np.random.default_rng([self.seed, number, int(prompts)])
        draws = set_draws(own_set, self.n_resamples, rng, prompts=prompts).association
        freedom = freedom_of([own_set], prompts=prompts)
        return interval_of(centred(draws, own_set.association), own_set.association, freedom)

    def _draws(self, own_set: PromptSet, concept: str) -> Iterator[tuple[int, tuple[SetDraws, SetDraws]]]:
        for order, test in enumerate(self.design.tests):
            if concept in (test.x, test.y):
                yield order, (self._drawn(own_set, order, test.y == concept, prompts=False),
                              self._drawn(own_set, order, test.y == concept, prompts=True))  # fmt: skip

    def _drawn(self, own_set: PromptSet, order: int, second: bool, *, prompts: bool) -> SetDraws:
        rng = set_generator(np.random.default_rng([self.seed, order]), prompts=prompts, second=second)
        return set_draws(own_set, self.n_resamples, rng, prompts=prompts)
