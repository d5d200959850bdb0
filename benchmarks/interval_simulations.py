"""Do intervals of few items cover, and those in which some draws have no value? Experiments for benchmarks/simulations.

Average faces of few portraits; agreement of raters on units of nearly one kind; and the text part of MCAS where the
pictures of the groups are drawn again, with the same words, prompts and texts.
"""

from __future__ import annotations

from dataclasses import replace
from math import nan

import numpy as np
import skimage

from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import Population, design_of, rate_over_studies, verdict_rows
from clinometer.metrics.verdict import LEANING
from clinometer.stats.agreement import krippendorff_alpha
from clinometer.stats.bootstrap import percentile_interval, rao_wu_weights
from clinometer.stats.skin import MINIMUM_SHARE, skin_mask

FACES = {
    "alike": {"lightness": 4, "yellowness": 2, "lift": (3, 1), "hidden": 0.0},
    "that scatter": {"lightness": 12, "yellowness": 4, "lift": (3, 4), "hidden": 0.0},
    "partly hidden": {"lightness": 12, "yellowness": 4, "lift": (3, 4), "hidden": 0.3},
}
"""Portraits: how their skin scatters in CIELAB, how much lighter edits make it, and how much of a face is no skin."""


def average_faces(n: int, kind: str, portraits: int) -> list[Found]:
    """The change of the average face's angle, portraits resampled, against that of 20,000 portraits."""
    rng = np.random.default_rng([71, portraits, len(kind)])
    truth = float(np.diff([_angles(faces.mean(axis=0)[None])[0] for faces in _portraits(rng, kind, 20_000)])[0])
    held, without = [], 0
    for _ in range(n):
        before, after = _portraits(rng, kind, portraits)
        weights = rao_wu_weights([portraits], 200, rng).astype(np.float64)
        value, draws = (
            _angles(np.tensordot(w, after, axes=1)) - _angles(np.tensordot(w, before, axes=1))
            for w in (np.full((1, portraits), 1 / portraits), weights)
        )
        interval = percentile_interval(draws, freedom=portraits - 1, value=value[0])
        if np.isnan(interval.low):
            without += 1
        else:
            held.append(interval.low <= truth <= interval.high)
    setting = f"{portraits} portraits {kind}"
    return [
        Found("interval-faces", "change of the average face", setting, 0.95, float(np.mean(held)), len(held)),
        rate_over_studies("interval-faces", "no interval", setting, nan, np.arange(n) < without),
    ]


def _portraits(rng: np.random.Generator, kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw portraits and their edits, (n × 6 × 6 × 3) each."""
    of, pixels = FACES[kind], (n, 6, 6)
    lightness, yellowness = rng.normal(60, of["lightness"], n), rng.normal(18, of["yellowness"], n)
    redness, lift = rng.normal(13, 2, n), rng.normal(*of["lift"], n)
    found = []
    for more in (np.zeros(n), lift):
        lab = np.empty((*pixels, 3))
        lab[..., 0] = (lightness + more)[:, None, None] + rng.normal(0, 3, pixels)
        lab[..., 1] = redness[:, None, None]
        lab[..., 2] = yellowness[:, None, None] + rng.normal(0, 1, pixels)
        rgb = np.clip(skimage.color.lab2rgb(lab), 0, 1)
        hidden = rng.random(pixels) < of["hidden"]
        found.append(np.where(hidden[..., None], rng.random((n, 1, 1, 1)) * [0.4, 0.5, 0.6], rgb))
    return found[0], found[1]


def _angles(faces: np.ndarray) -> np.ndarray:
    """Individual typology angles of many faces at once, as :func:`clinometer.stats.skin.skin_tone` has of one."""
    faces = np.clip(faces, 0, 1)
    mask, lab = skin_mask(faces), skimage.color.rgb2lab(faces)
    counts = mask.sum(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        mean = (lab * mask[..., None]).sum(axis=(1, 2)) / counts[:, None]
    angles = np.degrees(np.arctan2(mean[:, 0] - 50, mean[:, 2]))
    return np.where(mask.mean(axis=(1, 2)) >= MINIMUM_SHARE, angles, nan)


def rare_kinds(n: int, units: int, share: float) -> list[Found]:
    """Krippendorff's α of three raters of units of which few are of a second kind; truth from 200,000 units."""

    def rated(rng: np.random.Generator, size: int) -> np.ndarray:
        kinds = rng.random(size) < share
        return np.where(rng.random((3, size)) < 0.95, kinds, ~kinds).astype(np.float64)

    truth = krippendorff_alpha(rated(np.random.default_rng(72), 200_000), n_resamples=20).value
    rng, held, wide = np.random.default_rng([73, units, round(100 * share)]), [], []
    for study in range(n):
        found = krippendorff_alpha(rated(rng, units), n_resamples=499, rng=study)
        if np.isfinite(found.low):
            held.append(found.low <= truth <= found.high)
            wide.append(found.high - found.low > 1.99)
    setting = f"{units} units, {share:.0%} of a second kind, α = {truth:.2f}"
    return [
        Found("interval-agreement", "Krippendorff's α", setting, 0.95, float(np.mean(held)), len(held)),
        rate_over_studies("interval-agreement", "anything from −1 to 1", setting, nan, np.array(wide)),
    ]


def redrawn_groups(n: int, scatter: float, text_part: float) -> list[Found]:
    """Only the groups' pictures are drawn again: verdicts on text parts that change, and how often intervals hold.

    The number that they are to hold is the mean over the redraws: the text part of these words, prompts and texts.
    """
    chosen, design = Population("redrawn", scatter=scatter, text_part=text_part, noise=0.5), design_of(28)
    held = []
    for study in range(n):
        drawn = chosen.draw(np.random.default_rng([74, study]), np.full(28, 0.5), 2)
        # one list of words, alike, so that chance is that of prompts and their pictures
        words = {group: np.repeat(own[:1], 4, axis=0) for group, own in (drawn.group_words or {}).items()}
        rows = verdict_rows(replace(drawn, group_words=words), design, "text_part")
        held.append([(row.value, row.low, row.high, row.verdict in LEANING) for row in rows])
    value, low, high, leans = np.moveaxis(np.array(held, float), -1, 0)
    truth = value.mean(axis=0)
    setting = f"text part {text_part:g}, prompts that {'scatter' if scatter else 'are alike'}"
    return [
        rate_over_studies("interval-texts", "interval holds the mean of the redraws", setting, 0.95,
                          (low <= truth) & (truth <= high)),
        rate_over_studies("interval-texts", "leans", setting, 0.05 if text_part == 0 else nan, leans),
        rate_over_studies("interval-texts", "another verdict than most redraws have", setting, nan,
                          leans != (leans.mean(axis=0) > 0.5)),
    ]  # fmt: skip


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((average_faces, 400, {"kind": kind, "portraits": n}) for kind in FACES for n in (2, 3, 4, 6, 12, 25)),
        *((rare_kinds, 400, {"units": units, "share": share}) for units in (10, 20, 60) for share in (0.05, 0.3)),
        *((redrawn_groups, 100, {"scatter": scatter, "text_part": text})
          for scatter in (0.0, 0.3) for text in (0.0, -0.03)),
    ]  # fmt: skip
