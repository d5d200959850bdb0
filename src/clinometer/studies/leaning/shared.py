"""Targets measured by several processes: each reads the vectors of some targets, and returns what was measured.

Which process measures a target changes no bit of it: a target's numbers follow from its own vectors, from those of the
groups and texts, which every process reads, and from weights that are drawn from the seed and the target's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from clinometer._cores import one_blas_thread
from clinometer.runs.embedded import require_finished
from clinometer.runs.store import Run
from clinometer.studies.common import suite_of
from clinometer.studies.leaning.embeddings import lazy_embeddings, study_design
from clinometer.studies.leaning.scores import EncoderEmbeddings, MeasuredTarget, measurer_of
from clinometer.studies.leaning.scores.measuring import Measurer
from clinometer.studies.leaning.stacks import target_sizes
from clinometer.studies.study import Pool
from clinometer.suites import LeaningSuite

UNITS_A_WORKER: Final = 4
"""So many at least: the last to end keeps the others waiting."""
BYTES_A_UNIT: Final = 2**24
"""What a process returns at once, about."""


@dataclass(frozen=True)
class Measuring:
    """The measuring of a run's targets as work: a unit is some of their numbers.

    Attributes
    ----------
    place : of the run, absolute.
    sizes : how many images each target has.
    """

    place: str
    encoders: tuple[str, ...]
    sizes: tuple[int, ...]
    resamples: int

    def open(self) -> Callable[[tuple[int, ...]], list[tuple[int, MeasuredTarget]]]:
        """Read what all targets need, and return what measures some."""
        run = Run(self.place)
        suite = suite_of(run, LeaningSuite)
        embeddings = lazy_embeddings(run, suite, self.encoders, self.sizes)
        measure = measurer_of(embeddings, study_design(suite), n_resamples=self.resamples, seed=run.record["seed"])
        return partial(_measured, measure)


def _measured(measure: Measurer, unit: tuple[int, ...]) -> list[tuple[int, MeasuredTarget]]:
    with one_blas_thread():
        return [(target, measure(target)) for target in unit]


def measured_by(
    pool: Pool, run: Run, suite: LeaningSuite, resamples: int
) -> tuple[list[EncoderEmbeddings], Iterator[tuple[int, MeasuredTarget]]]:
    """The embeddings of a run, no vector of a target among them read yet, and its targets as a pool measures them."""
    encoders, sizes = tuple(run.encoder_cards), target_sizes(run, suite)
    for encoder in encoders:
        require_finished(run, encoder)
    work = Measuring(run.directory.place, encoders, sizes, resamples)
    of_a_target = 20 * resamples * len(suite.groups) * (len(encoders) + 1)
    at_once = max(1, min(-(-len(sizes) // (UNITS_A_WORKER * pool.workers)), BYTES_A_UNIT // of_a_target))
    units = [tuple(range(len(sizes))[first : first + at_once]) for first in range(0, len(sizes), at_once)]
    measured = pool.map(work, units, [f"target {target.name!r}" for target in suite.targets])
    return lazy_embeddings(run, suite, encoders, sizes), chain.from_iterable(measured)
