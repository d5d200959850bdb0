"""Two finished runs of one suite compared, as data; and a run narrowed to the concepts that both asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from clinometer.runs.plan import Plan
from clinometer.runs.run import Run
from clinometer.suites import Suite


@dataclass(frozen=True, repr=False)
class Comparison:
    """A run held against another.

    Attributes
    ----------
    first, second : the runs.
    unpaired : what keeps images from being paired, in words; empty where they are.
    pairs : images that both runs have; 0 where they are not paired.
    dropped : images of either run that have no partner, because the other run could not make it.
    identical : pairs of which both images are one and the same.
    left_out : the concepts that not all of the runs asked for; the runs are narrowed to the others.
    scores : rows of metric ``comparison``, second against first; of refusals where either run has any.
    """

    first: Run
    second: Run
    unpaired: str
    pairs: int
    dropped: int
    identical: int
    scores: pd.DataFrame
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        of = f"{self.second.directory.shown!r} beside {self.first.directory.shown!r}"
        return f"Comparison({of}: {len(self.scores)} rows, {f'{self.pairs} pairs' if self.paired else 'not paired'})"

    @property
    def paired(self) -> bool:
        """Whether images of one prompt and one noise were compared in pairs."""
        return not self.unpaired


def shared_encoders(runs: Sequence[Run]) -> list[str]:
    """Return the names of the encoders that all runs have, the same in each: one of that name may be another."""
    cards = [run.encoder_cards for run in runs]
    return [
        name
        for name, card in cards[0].items()
        if all(name in other and other[name]["fingerprint"] == card["fingerprint"] for other in cards[1:])
    ]


class NarrowedRun(Run):
    """A run of which only some concepts are looked at: nothing else of it says that there are others.

    Parameters
    ----------
    suite : the run's own, with fewer concepts.
    score : computes the scores and curves of a run; those that are stored are of all its concepts.
    """

    def __init__(self, run: Run, suite: Suite, score: Callable[[Run], tuple[pd.DataFrame, pd.DataFrame]]) -> None:
        super().__init__(run.url)
        self.suite, self._score = suite, score
        names = {spec.concept for spec in suite.every_prompt_spec() if spec.role == "target"}
        samples = enumerate(super().plan.rows("role", "concept"))
        self._plan = super().plan.take(
            np.array([at for at, (role, concept) in samples if role != "target" or concept in names], int)
        )
        self.drawn.only = self._plan.column("id").combine_chunks()

    @property
    def plan(self) -> Plan:
        """The samples of its concepts and groups, in order."""
        return self._plan

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of its concepts, as if it had asked for no others."""
        return self._scored[0]

    @property
    def curves(self) -> pd.DataFrame:
        """The curves of its concepts."""
        return self._scored[1]

    @cached_property
    def _scored(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return self._score(self)
