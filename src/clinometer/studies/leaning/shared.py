"""Targets measured by several processes: each reads the vectors of some targets, and returns what was measured.

Which process measures a target changes no bit of it: a target's numbers follow from its own vectors, from those of the
groups and texts, which every process reads, and from weights that are drawn from the seed and the target's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from clinometer.runs.store import Run
from clinometer.runs.vectors import require_finished
from clinometer.studies.leaning.embeddings import lazy_embeddings, study_design
from clinometer.studies.leaning.scores import (
    EncoderEmbeddings,
    MeasuredTarget,
    counted_once,
    measurer_of,
)
from clinometer.studies.leaning.scores.measuring import Found, pictures_that_count
from clinometer.studies.leaning.stacks import target_sizes
from clinometer.studies.sharing import RunWork, Unit, made
from clinometer.studies.study import Pool, suite_of
from clinometer.suites import LeaningSuite


@dataclass(frozen=True)
class Measuring(RunWork):
    """The measuring of a run's targets as work: a unit is some of their numbers.

    Attributes
    ----------
    sizes : how many images each target has.
    found : which of them count, and how often each was drawn.
    """

    encoders: tuple[str, ...]
    sizes: tuple[int, ...]
    found: Found
    resamples: int

    def on(self, run: Run) -> Callable[[Unit], list[tuple[int, MeasuredTarget]]]:
        """Read what all targets need, and return what measures some."""
        suite = suite_of(run, LeaningSuite)
        design = study_design(suite)
        embeddings = counted_once(lazy_embeddings(run, suite, self.encoders, self.sizes), design, self.found)
        measure = measurer_of(embeddings, design, n_resamples=self.resamples, seed=run.record["seed"])
        return lambda unit: [(target, measure(target)) for target in unit]


def measured_by(
    pool: Pool, run: Run, suite: LeaningSuite, resamples: int
) -> tuple[list[EncoderEmbeddings], Iterator[tuple[int, MeasuredTarget]]]:
    """Return a run's embeddings, no vector of a target among them read yet, and its targets as a pool measures them."""
    encoders, sizes = tuple(run.encoder_cards), target_sizes(run, suite, run.drawn.repeats())
    for encoder in encoders:
        require_finished(run, encoder)
    found = pictures_that_count(lazy_embeddings(run, suite, encoders, sizes), study_design(suite))
    work = Measuring(run.directory.place, encoders, sizes, found, resamples)
    of_a_view = 16 * max(sizes, default=0) if suite.axes else 20 * resamples
    of_a_target = of_a_view * len(suite.groups) * (len(encoders) + 1)
    names = [f"target {target.name!r}" for target in suite.targets]
    measured = made(work, run, range(len(sizes)), names, pool, size=of_a_target)
    lazy = lazy_embeddings(run, suite, encoders, sizes)
    return counted_once(lazy, study_design(suite), found), chain.from_iterable(measured)
