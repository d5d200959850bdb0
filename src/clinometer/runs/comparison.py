"""Two finished runs of one suite beside each other, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from clinometer.runs.store import Run


@dataclass(frozen=True)
class Comparison:
    """A run held against another.

    Attributes
    ----------
    first, second : the runs.
    unpaired : what keeps images from being paired, in words; empty where they are.
    pairs : images that both runs have; 0 where they are not paired.
    dropped : images of either run that have no partner, because the other run could not make it.
    identical : pairs of which both images are one and the same.
    scores : rows of metric ``comparison``, second against first; of refusals where either run has any.
    """

    first: Run
    second: Run
    unpaired: str
    pairs: int
    dropped: int
    identical: int
    scores: pd.DataFrame

    @property
    def paired(self) -> bool:
        """Whether images of one prompt and one noise were compared in pairs."""
        return not self.unpaired


def shared_encoders(runs: Sequence[Run]) -> list[str]:
    """Names of the encoders that all runs have, the same in each: one of that name may be another."""
    cards = [run.encoder_cards for run in runs]
    return [
        name
        for name, card in cards[0].items()
        if all(name in other and other[name]["fingerprint"] == card["fingerprint"] for other in cards[1:])
    ]
