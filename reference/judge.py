"""The independent judge: the nearest artwork, which knows nothing of the CLIP or the UNet.

Samples are near copies of the artwork, so the label of the nearest drawing is a reading of the sample that
owes nothing to any trained network. Distance: root mean square in lightly blurred RGB, the smallest over
shifts by up to one pixel. It is itself validated on labelled pictures (`validate`), among them the hard case
in which the right tone is taken away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from reference import art, captions, vae

CANDIDATES = 48
SHIFTS = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]


def _blurred(images: np.ndarray) -> torch.Tensor:
    """float (n, 3, h, w) in [−1, 1], 3×3 binomial blur."""
    kernel = torch.tensor([1.0, 2.0, 1.0])
    kernel = (kernel[:, None] * kernel / 16).expand(3, 1, 3, 3)
    return functional.conv2d(functional.pad(vae.to_tensor(images), (1, 1, 1, 1), value=1.0), kernel, groups=3)


@dataclass(frozen=True)
class Verdict:
    """One row a picture. `gender` has three values, `binary` two (−1 where a man's and a woman's drawing are
    as near).

    `margin` is (d_woman − d_man) / (d_woman + d_man), d the distance to the nearest drawing; `distance` is to
    the nearest of all, in units of the 0…255 scale.
    """

    concept: np.ndarray
    gender: np.ndarray
    tone: np.ndarray
    binary: np.ndarray
    margin: np.ndarray
    distance: np.ndarray

    def man(self) -> np.ndarray:
        """1 for a man, 0 for a woman, NaN for undecided."""
        return np.where(self.binary < 0, np.nan, self.binary == 0)


class Judge:
    """Holds the artwork; `judge(images)` finds the nearest drawing of each, on this device."""

    def __init__(self, pictures: art.Pictures, device: torch.device | str = "cpu") -> None:
        self.pictures = pictures
        self.device = torch.device(device)
        self._art = _blurred(pictures.images).to(self.device)
        self._flat = self._art.flatten(1)
        self._norms = self._flat.square().sum(1)
        self._gender = torch.from_numpy(pictures.gender).to(self.device)

    def judge(self, images: np.ndarray, exclude: np.ndarray | None = None, batch: int = 64) -> Verdict:
        """`exclude`: boolean (n, number of drawings), drawings that may not be chosen for a picture."""
        rows = []
        for start in range(0, len(images), batch):
            part = slice(start, start + batch)
            away = None if exclude is None else torch.from_numpy(exclude[part]).to(self.device)
            rows.append(self._judge_batch(_blurred(images[part]).to(self.device), away))
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        return Verdict(*columns)

    def _judge_batch(self, images: torch.Tensor, away: torch.Tensor | None) -> tuple[np.ndarray, ...]:
        flat = images.flatten(1)
        squared = flat.square().sum(1, keepdim=True) + self._norms - 2 * flat @ self._flat.T
        if away is not None:
            squared = squared.masked_fill(away, torch.inf)
        # The men's and the women's nearest must both be among the candidates, or there is no comparing them.
        near = [
            squared.masked_fill(self._gender != g, torch.inf).topk(CANDIDATES // 3, largest=False).indices
            for g in (0, 1, 2)
        ]
        candidates = torch.cat(near, 1)
        exact = self._shifted_distance(images, candidates)
        exact = exact.masked_fill(squared.gather(1, candidates).isinf(), torch.inf)
        third = CANDIDATES // 3
        man, woman = exact[:, :third].amin(1), exact[:, third : 2 * third].amin(1)
        best = candidates.gather(1, exact.argmin(1, keepdim=True)).squeeze(1).cpu().numpy()
        margin = ((woman - man) / (woman + man).clamp(min=1e-9)).cpu().numpy()
        binary = np.where(np.abs(margin) < 1e-6, -1, (margin < 0).astype(int))
        of = self.pictures
        return of.concept[best], of.gender[best], of.tone[best], binary, margin, exact.amin(1).cpu().numpy()

    def _shifted_distance(self, images: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """(n, candidates): root mean square difference, smallest over SHIFTS of the picture."""
        drawings = self._art[candidates]
        padded = functional.pad(images, (1, 1, 1, 1), value=1.0)
        size = images.shape[-1]
        distances = [
            (padded[:, None, :, 1 + dy : 1 + dy + size, 1 + dx : 1 + dx + size] - drawings).square().mean((2, 3, 4))
            for dy, dx in SHIFTS
        ]
        return torch.stack(distances).amin(0).sqrt() * 127.5


def right_shares(verdict: Verdict, truth: art.Pictures) -> dict[str, float]:
    """Shares judged right. Gender is asked two ways of pictures of men and women; ties count as wrong."""
    named = truth.concept != captions.concept_index("adult")
    binary = truth.gender < 2
    return {
        "concept": float(np.mean((verdict.concept == truth.concept)[named])),
        "man/woman": float(np.mean(verdict.binary[binary] == truth.gender[binary])),
        "three groups": float(np.mean(verdict.gender == truth.gender)),
        "tone": float(np.mean(verdict.tone == truth.tone)),
    }


def spoiled(images: np.ndarray, seed: int) -> np.ndarray:
    """Noise, colour shift and a shift of one pixel, as a labelled stand-in for an imperfect sample."""
    rng = np.random.default_rng(seed)
    n = len(images)
    moved = np.stack([np.roll(image, rng.integers(-1, 2, 2), (0, 1)) for image in images]).astype(np.float64)
    colour = rng.normal(0, 8, (n, 1, 1, 3)) + rng.normal(0, 10, moved.shape)
    return np.clip(moved + colour, 0, 255).round().astype(np.uint8)


def validate(judge: Judge, reconstructions: np.ndarray, every: int = 7, seed: int = 5) -> dict[str, dict[str, float]]:
    """The judge's own accuracy on labelled pictures it has not seen in that form."""
    index = np.arange(0, len(judge.pictures), every)
    of = judge.pictures
    truth = art.Pictures(of.images[index], of.concept[index], of.gender[index], of.tone[index], of.set[index])
    same_tone = truth.tone[:, None] == of.tone[None]
    without_tone = right_shares(judge.judge(truth.images, exclude=same_tone), truth)
    del without_tone["tone"]  # the right answer was taken away
    return {
        "VAE reconstructions": right_shares(judge.judge(reconstructions[index]), truth),
        "noise, colour and position shifted": right_shares(judge.judge(spoiled(truth.images, seed)), truth),
        "all drawings of the right tone removed": without_tone,
    }
