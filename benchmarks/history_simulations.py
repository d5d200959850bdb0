"""Does a gate over time keep its promise for a year of nights, and when does it find a change? For simulations.py.

Every night a checkpoint is held against the last runs that passed; whatever is not called changed joins these. A night
has some numbers, each the mean of a few images of a concept. What all of them share, as the groups' images, moves them
together, and what a training adds moves each by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from math import nan

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.rates import Experiment, Found
from clinometer.gates.numbers import LAST, NIGHTS, YEARLY
from clinometer.stats.change import latest_change

NUMBERS = 4
PERMUTATIONS = 9_999
"""Fewer than a gate takes: a test at this level needs 7,299."""


@dataclass(frozen=True)
class World:
    """Images of a concept, and what else a night's numbers hold.

    Attributes
    ----------
    draw : rng, shape → scores of images.
    between : standard deviation of what a training adds, in standard errors of a concept's mean.
    shared : the same, of what all numbers of a night have in common.
    redrawn : whether images are drawn again each night; else all nights start from the same noise.
    heavy : whether what a training adds has the tails of Student's t of 3 degrees of freedom.
    """

    name: str
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    between: float = 0.0
    shared: float = 0.5
    redrawn: bool = True
    heavy: bool = False

    def nights(self, rng: np.random.Generator, nights: int, images: int) -> tuple[np.ndarray, float]:
        """Numbers of so many nights at which nothing changes, (nights × NUMBERS), and their standard deviation."""
        error = float(self.draw(np.random.default_rng(0), (100_000,)).std()) / np.sqrt(images)
        means = self.draw(rng, (nights, NUMBERS, images)).mean(axis=2)
        if not self.redrawn:
            means = np.repeat(means[:1], nights, axis=0)
        added = rng.standard_t(3, means.shape) if self.heavy else rng.normal(size=means.shape)
        own, common = self.between * error, self.shared * error
        spread = np.sqrt(self.redrawn * error**2 + own**2 * (3 if self.heavy else 1) + common**2)
        return means + own * added + common * rng.normal(size=(nights, 1)), float(spread)


def _rare(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.1, 0.9, -0.1)


def _skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.exponential(size=shape)


def _even(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


WORLDS = (
    World("normal, trainings differ", _even, between=1.0),
    World("exponential", _skewed),
    World("a rare kind", _rare),
    World("a rare kind, trainings differ", _rare, between=1.0),
    World("trainings differ with heavy tails", _even, between=1.0, heavy=True),
    World("one noise for all nights, trainings differ", _rare, between=1.0, redrawn=False),
)


def changed(window: np.ndarray) -> np.ndarray:
    """Return which numbers of the last night are called changed."""
    return latest_change(window, level=YEARLY / NIGHTS, permutations=PERMUTATIONS).p_family <= YEARLY / NIGHTS


def changed_by_t(window: np.ndarray) -> np.ndarray:
    """The same by a t test of the last night alone against the earlier ones, as a table of t has it."""
    earlier, n = window[:-1], len(window) - 1
    t = (window[-1] - earlier.mean(axis=0)) / (earlier.std(axis=0, ddof=1) * np.sqrt(1 + 1 / n))
    return 2 * stats.t.sf(np.abs(t), n - 1) <= YEARLY / NIGHTS / window.shape[1]


def quiet_years(n: int, world: int, images: int) -> list[Found]:
    """Years in which nothing changes: how many have any false alarm, by the gate and by a t test."""
    chosen, alarms = WORLDS[world], np.zeros((n, 2), bool)
    for year in range(n):
        numbers, _ = chosen.nights(np.random.default_rng([75, world, images, year]), LAST + NIGHTS, images)
        windows = [numbers[night - LAST : night + 1] for night in range(LAST, len(numbers))]
        alarms[year] = [any(test(window).any() for window in windows) for test in (changed, changed_by_t)]
    setting = f"{chosen.name}, {images} images"
    by_gate, by_t = alarms.mean(axis=0)
    return [
        Found("history-level", "a false alarm in 365 nights", setting, YEARLY, float(by_gate), n),
        Found("history-t", "the same by t tests", setting, nan, float(by_t), n, float(alarms[:, 1].std())),
    ]


def following_years(n: int, correlation: float) -> list[Found]:
    """Years of one training: every night's numbers follow from those of the night before, with so much correlation."""
    alarms = np.zeros(n)
    for year in range(n):
        rng = np.random.default_rng([79, round(100 * correlation), year])
        numbers = rng.normal(size=(LAST + NIGHTS, NUMBERS))
        for night in range(1, len(numbers)):
            kept = np.sqrt(1 - correlation**2)
            numbers[night] = correlation * numbers[night - 1] + kept * numbers[night]
        alarms[year] = any(changed(numbers[night - LAST : night + 1]).any() for night in range(LAST, len(numbers)))
    setting = f"normal, correlation {correlation:g} from night to night"
    return [
        Found("history-follows", "a false alarm in 365 nights", setting, nan, alarms.mean(), n, float(alarms.std()))
    ]


def changes(n: int, world: int, shift: float, one: bool, images: int = 20) -> list[Found]:
    """One night on, all numbers or one of them lie elsewhere by so many standard deviations: when it is found."""
    chosen, waits = WORLDS[world], (3, 5, 10, 20)
    found = np.zeros((n, len(waits)), bool)
    for study in range(n):
        rng = np.random.default_rng([76, world, round(10 * shift), one, study])
        numbers, spread = chosen.nights(rng, LAST + waits[-1], images)
        numbers[LAST:, : 1 if one else None] += shift * spread
        night = next((k for k in range(1, waits[-1] + 1) if changed(numbers[k - 1 : LAST + k])[0]), waits[-1] + 1)
        found[study] = [night <= wait for wait in waits]
    setting = f"{chosen.name}, {'one number moves' if one else 'all numbers move'} by {shift:g} SD"
    return [
        Found("history-power", f"found by night {wait}", setting, nan, float(rate), n, float(spread))
        for wait, rate, spread in zip(waits, found.mean(axis=0), found.std(axis=0), strict=True)
    ]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((quiet_years, 60, {"world": world, "images": 10}) for world in range(len(WORLDS))),
        *((following_years, 40, {"correlation": correlation}) for correlation in (0.3, 0.6)),
        *((changes, 60, {"world": world, "shift": shift, "one": one})
          for world, one in ((0, True), (0, False), (3, True)) for shift in (1.0, 2.0, 3.0, 5.0)),
    ]  # fmt: skip


# --- real pictures: python -m benchmarks.history_simulations FOLDER ---------------------------------------------------


def real_nights(seen: pd.DataFrame, model: str, nights: int, images: int, rng: np.random.Generator) -> np.ndarray:
    """Shares of pictures with a woman, (nights × occupations), of pictures drawn from those that a model has drawn."""
    own = seen[seen.model == model]
    shows = {name: (rows.seen_gender != "man").to_numpy(float) for name, rows in own.groupby("concept")}
    return np.stack([rng.choice(each, (nights, images)).mean(axis=1) for _, each in sorted(shows.items())], axis=1)


def main(folder: str, years: int = 60, images: int = 10) -> None:
    """Print false alarms in years of one model's real pictures, and the nights until another model's are found."""
    seen = pd.read_csv(f"{folder}/pictures.csv")
    models = sorted(seen.model.unique())
    for place, model in enumerate(models):
        alarms = 0
        for year in range(years):
            numbers = real_nights(seen, model, LAST + NIGHTS, images, np.random.default_rng([77, place, year]))
            alarms += any(changed(numbers[night - LAST : night + 1]).any() for night in range(LAST, len(numbers)))
        print(f"{model}: a false alarm in {alarms} of {years} years")
    for place, (before, after) in enumerate(permutations(models, 2)):
        waits = []
        for study in range(years):
            rng = np.random.default_rng([78, place, study])
            numbers = np.concatenate([real_nights(seen, each, LAST, images, rng) for each in (before, after)])[
                : LAST + 21
            ]
            waits.append(next((k for k in range(1, 21) if changed(numbers[k - 1 : LAST + k]).any()), 21))
        late = waits.count(21)
        print(f"{before} → {after}: found by night {np.median(waits):.0f} in half of {years}, not in 20 in {late}")


if __name__ == "__main__":
    main(sys.argv[1])
