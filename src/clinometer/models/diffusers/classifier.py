"""A text-to-image diffusion model as a zero-shot classifier: which prompt lets it denoise an image best?

Li et al. (2023), *Your Diffusion Model is Secretly a Zero-Shot Classifier*::

    c(x) = argmin_c E_{t,ε} ‖target(x, ε, t) − f(x_t, t, c)‖²

The expectation is a mean over trials, each a timestep and a noise that all classes share, so that classes are compared
by paired differences. An image is encoded once and a prompt once; rows of different images and classes fill the batches
together. Classes leave when the paired differences are settled (:mod:`clinometer.stats.sequential`)::

    denoiser = clinometer.models.load_generator("reference").denoiser()
    classifier = DiffusionClassifier(denoiser, ["cook", "pilot"], template="a portrait of a {}", trials=10)
    classifier.classify([image])[0].label

Trial i of an image looks at the fraction ``(r(i) + u) mod 1`` of the noise schedule: u is the image's own uniform
start, and r the radical inverse of i in base 10 with its digits permuted (van der Corput 1935; Faure 1992). So the
first 10, 100, … trials hold exactly one fraction in each tenth, hundredth, … of the schedule, any other number nearly
so, and each trial by itself is uniform: the mean over any prefix of the trials is an unbiased estimate. Timesteps and
noise follow from (seed, image, trial), by hashes, on the CPU; neither batch, worker nor device enters. See decision 22.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
from PIL import Image

from clinometer._torch import torch
from clinometer.errors import InvalidInputError
from clinometer.models.images import image_sha256
from clinometer.models.protocols import Denoiser
from clinometer.stats.sequential import Elimination, Race, final_mean

TRIALS = 100

NOT_FINITE = "the model's errors are not finite; try dtype float32"

ENDLESS = 2**31
"""So many trials that a mean over them is the expectation."""


@dataclass(frozen=True)
class ClassErrors:
    """Denoising errors of images under classes.

    Attributes
    ----------
    labels : the classes.
    images : the images' keys, hashes of their pixels.
    errors : (images × classes × trials) float32; NaN where a class had left.
    fractions : (images × trials) of the noise schedule.
    evaluations : (images,) calls of the network, a row each.
    tolerance : relative difference of two mean errors that rounding may make or unmake.
    """

    labels: tuple[str, ...]
    images: tuple[str, ...]
    errors: np.ndarray
    fractions: np.ndarray
    evaluations: np.ndarray
    tolerance: float

    def reason(self, image: int) -> str:
        """The reason why an image has no numbers; empty if it has some."""
        measured = int(np.isfinite(self.errors[image]).sum())
        return "" if 0 < measured == self.evaluations[image] else NOT_FINITE


@dataclass(frozen=True)
class Choice:
    """The class that an image was assigned to.

    Attributes
    ----------
    label : the class of the smallest mean error; empty where there is none.
    error : its mean error.
    runner_up : the next class among those that stayed as long.
    margin : mean paired difference to the runner-up, relative to ``error``; 0 or more.
    low, high : interval of the margin over further trials.
    tie : whether the margin is within the stated tolerance.
    evaluations : calls of the network spent on it.
    reason : why there is no label.
    """

    label: str
    error: float
    runner_up: str
    margin: float
    low: float
    high: float
    tie: bool
    evaluations: int
    reason: str = ""


class DiffusionClassifier:
    """Classifies images by how well a diffusion model denoises them under each prompt.

    Parameters
    ----------
    denoiser : the model, as in ``generator.denoiser()``.
    labels : the classes, at least two.
    template : the prompt of a class, with ``{}`` for its label; the label itself by default.
    trials : timesteps with their noise that an image is looked at, at most.
    seed : timesteps and noise follow from it and from the image.
    elimination : when classes leave early; None looks at every class in every trial.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        labels: Sequence[str],
        *,
        template: str = "{}",
        trials: int = TRIALS,
        seed: int = 0,
        elimination: Elimination | None = None,
    ) -> None:
        if len(labels) < 2 or len(set(labels)) != len(labels):
            raise InvalidInputError.too_few(
                f"expected two or more different ones, found {', '.join(labels) or 'none'}", field="labels"
            )
        if "{}" not in template:
            raise InvalidInputError.malformed(
                f"expected {{}} where the label goes, found {template!r}", field="template"
            )
        if trials < 1:
            raise InvalidInputError.out_of_range(f"expected 1 or more, found {trials}", field="trials")
        self.denoiser = denoiser
        self.labels = tuple(labels)
        self.prompts = tuple(template.replace("{}", label) for label in labels)
        self.trials = trials
        self.seed = seed
        self.elimination = elimination

    def errors(
        self, images: Sequence[Image.Image], *, advance: Callable[[int], None] = lambda evaluations: None
    ) -> ClassErrors:
        """Measure the error of every class on every image.

        A number depends on its image, class, trial and seed alone; on the images beside it and on the batch size by
        rounding, which ``tolerance`` bounds. ``advance`` is called with the evaluations done or spared.
        """
        keys = tuple(image_sha256(image) for image in images)
        shape = (len(images), len(self.labels), self.trials)
        errors = np.full(shape, np.nan, np.float32)
        where = np.array([fractions(self.seed, key, self.trials) for key in keys]).reshape(shape[0], shape[2])
        race = Race(*shape, self.elimination)
        evaluations = np.zeros(len(images), int)
        latents = self.denoiser.encode_images(images) if images else torch.empty(0)
        for start, stop in race.looks():
            # an image, a trial and a class each; a batch is full, whatever images and classes its rows are of
            rows = np.argwhere(np.repeat(race.active[:, None], stop - start, axis=1)) + np.array([0, start, 0])
            evaluations += race.active.sum(axis=1) * (stop - start)
            done = 0
            while done < len(rows):
                image, trial, label = rows[done : done + self.denoiser.batch_size].T
                timesteps = self.denoiser.timesteps(torch.from_numpy(where[image, trial]))
                places = list(zip(image.tolist(), trial.tolist(), strict=True))
                drawn: dict[tuple[int, int], torch.Tensor] = {}  # shared by the classes
                for (i, j), t in zip(places, timesteps.tolist(), strict=True):
                    if (i, j) not in drawn:
                        drawn[i, j] = noise(self.seed, keys[i], t, j, latents.shape[1:])
                errors[image, label, trial] = self.denoiser.errors(
                    latents[torch.from_numpy(image)],
                    timesteps,
                    torch.stack([drawn[place] for place in places]),
                    [self.prompts[c] for c in label],
                )
                done += len(places)
                advance(len(places))
            race.judge(errors[:, :, :stop], where[:, :stop])
        advance(errors.size - int(evaluations.sum()))
        return ClassErrors(self.labels, keys, errors, where, evaluations, self.denoiser.tolerance)

    def classify(self, images: Sequence[Image.Image]) -> list[Choice]:
        """Choose a class for each image."""
        measured = self.errors(images)
        return [choose(measured, image) for image in range(len(images))]


def choose(measured: ClassErrors, image: int) -> Choice:
    """Choose the class of one image among those that stayed to the last."""
    errors, evaluations = measured.errors[image].astype(np.float64), int(measured.evaluations[image])
    counts = np.isfinite(errors).sum(axis=1)
    if measured.reason(image):
        return Choice("", nan, "", nan, nan, nan, False, evaluations, measured.reason(image))
    n = int(counts.max())
    stayed = np.flatnonzero(counts == n)
    errors = errors[:, np.argsort(measured.fractions[image, :n], kind="stable")]
    first, second = stayed[np.argsort(errors[stayed].mean(axis=1), kind="stable")][:2]
    error = float(errors[first].mean())
    lead = final_mean(errors[second] - errors[first], ENDLESS, 0.95)
    margin, reach = float(lead.mean) / error, float(lead.half_width) / error
    return Choice(
        label=measured.labels[first],
        error=error,
        runner_up=measured.labels[second],
        margin=margin,
        low=margin - reach if isfinite(reach) else nan,
        high=margin + reach if isfinite(reach) else nan,
        tie=margin <= measured.tolerance,
        evaluations=evaluations,
    )


BASE = 10
DIGITS = np.array([0, 5, 2, 7, 4, 9, 1, 6, 3, 8])
"""Which tenth comes when: any few in a row lie far apart."""


def fractions(seed: int, image: str, trials: int) -> np.ndarray:
    """Return fractions of the noise schedule that an image's trials look at: (trials,) float64 in [0, 1).

    >>> sorted((10 * fractions(0, "an image", 10)).astype(int).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    start = _hash("start", seed, image) / 2**64
    spread = np.zeros(trials)
    number, scale = np.arange(trials), 1.0
    while number.any():
        scale /= BASE
        spread += DIGITS[number % BASE] * scale
        number = number // BASE
    return np.asarray((spread + start) % 1.0)


def noise(seed: int, image: str, timestep: float, trial: int, shape: Sequence[int]) -> torch.Tensor:
    """Draw standard normal noise of one trial: float32 of the given shape.

    torch's CPU generator uses the low 32 bits of a seed.
    """
    generator = torch.Generator("cpu").manual_seed(_hash("noise", seed, image, timestep, trial) & 0xFFFFFFFF)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32)


def _hash(*key: str | float) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps(key).encode()).digest()[:8])
