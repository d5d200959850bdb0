"""What was rated, as arrays: answers by rater and item, readings by item; and the names its rows share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Final

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.verdict import ReasonCode

HUMAN: Final = "human"
"""The metric of numbers that rest on answers of people."""
SIMULATED: Final = "simulated"
"""The metric of the same numbers where they rest on simulated raters, who are never pooled with people."""

ONE_RATER: Final = "one rater: how raters differ is not known, so it is not in the interval"


@dataclass(frozen=True)
class RatedConcept:
    """The rated images of one concept.

    Attributes
    ----------
    name, category : of the concept.
    answers : (raters, n) the number of each rater's answer to each item, NaN where there is none.
    readings : of each encoder, (n,) 1 where it reads the item as a, else 0.
    unrated : of each encoder, the same of the concept's other images.
    strata, sizes : (n,) from 0 and (H,): where items were drawn within strata, the stratum of each, and the images that
        each stratum holds; empty for a simple random sample.
    whole : whether the item is all images of the concept at once; then raters, not items, are the units.
    """

    name: str
    category: str
    answers: np.ndarray
    readings: Mapping[str, np.ndarray] = field(default_factory=dict)
    unrated: Mapping[str, np.ndarray] = field(default_factory=dict)
    strata: np.ndarray | None = None
    sizes: np.ndarray | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        n = self.answers.shape[1]
        for encoder, readings in self.readings.items():
            if len(readings) != n:
                raise InvalidInputError(
                    f"readings of {encoder}: expected one for each of {n} items of {self.name}, found {len(readings)}"
                )

    def chosen(self, answer: int) -> np.ndarray:
        """(raters, n) 1 where an answer is this one, 0 where it is another, NaN where there is none."""
        return np.where(np.isfinite(self.answers), self.answers == answer, np.nan).astype(np.float64)

    def other_than(self, first: int, second: int) -> np.ndarray:
        """(raters, n) where an answer is neither of the two."""
        return np.asarray(np.isfinite(self.answers) & (self.answers != first) & (self.answers != second))


@dataclass(frozen=True)
class MachineScores:
    """A number of the machine for each concept, positive where it leans to a."""

    metric: str
    component: str
    encoder: str
    values: Mapping[str, float]

    @property
    def name(self) -> str:
        """``"mcas ii"``; the metric alone where its component has the same name."""
        return self.metric if self.metric == self.component else f"{self.metric} {self.component}"


@dataclass(frozen=True)
class HumanStudy:
    """The ratings of a run.

    Attributes
    ----------
    answers : every answer that could be given, by number.
    a, b : numbers of the answers that stand for the two groups compared.
    concepts : what was rated of each concept; all hold the same raters in the same order.
    same, repeats : repeated items that got the same answer again, and all of them.
    right, checks : items with a known answer that were answered so, and all of them.
    machine : scores that the fractions are held against.
    margin : the margin for which the ratings still needed are counted.
    """

    answers: tuple[str, ...]
    a: int
    b: int
    concepts: tuple[RatedConcept, ...]
    same: int = 0
    repeats: int = 0
    right: int = 0
    checks: int = 0
    machine: tuple[MachineScores, ...] = ()
    margin: float = 0.05
    confidence: float = 0.95

    def __post_init__(self) -> None:
        raters = {len(concept.answers) for concept in self.concepts}
        if len(raters) > 1:
            raise InvalidInputError(f"answers: expected as many raters of each concept, found {sorted(raters)}")

    @property
    def table(self) -> np.ndarray:
        """(raters, items) all answers, concept by concept."""
        return np.concatenate([concept.answers for concept in self.concepts], axis=1)


def known_values(machine: MachineScores, fractions: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Fractions and scores of the concepts that have both."""
    pairs = [(value, machine.values.get(name, nan)) for name, value in fractions.items()]
    both = [pair for pair in pairs if isfinite(pair[0]) and isfinite(pair[1])]
    x, y = np.array(both).reshape(-1, 2).T
    return x, y


def raters_of(answers: np.ndarray) -> int:
    """Count the raters with at least one answer."""
    return int(np.isfinite(answers).any(axis=1).sum())


def rated_items(answers: np.ndarray) -> int:
    """Count the items with at least one answer."""
    return int(np.isfinite(answers).any(axis=0).sum())


def caution(answers: np.ndarray, value: float) -> dict[str, str]:
    """Return what the interval of an estimate does not hold, as the fields of a row that say so."""
    alone = isfinite(value) and raters_of(answers) == 1
    return {"reason": ONE_RATER, "reason_code": ReasonCode.ONE_RATER} if alone else {}
