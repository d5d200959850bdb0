"""Finished runs of one suite beside each other: which images are pairs, and whether they can be compared at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from clinometer.errors import RunMismatchError
from clinometer.runs.score import RESAMPLES
from clinometer.runs.store import Run
from clinometer.runs.studies import STUDIES
from clinometer.runs.studies.common import scores_table


@dataclass(frozen=True)
class Comparison:
    """A run held against another.

    Attributes
    ----------
    first, second : the runs.
    paired : images of one prompt and one noise were compared in pairs.
    pairs : images that both runs have; 0 where they are not paired.
    dropped : images of either run that have no partner, because the other run could not make it.
    scores : rows of metric ``comparison``, second against first.
    """

    first: Run
    second: Run
    paired: bool
    pairs: int
    dropped: int
    scores: pd.DataFrame


def compare_runs(first: Run, second: Run, *, resamples: int = RESAMPLES) -> Comparison:
    """Hold the second run against the first.

    Two runs of one suite and one seed start every image from the noise that the other's starts from. Their images are
    then compared in pairs, and an image without a partner counts in neither.

    Raises
    ------
    RunMismatchError
        Another suite, study or encoder; the message names what differs.
    """
    encoders = _comparable(first, second)
    seeds = [Counter(sample.seed for sample in run.plan) for run in (first, second)]
    paired = seeds[0] == seeds[1] and max(seeds[0].values()) == 1 and {_origin(first), _origin(second)} == {"generated"}
    drawn = [_drawn_seeds(run) for run in (first, second)]
    keep = drawn[0] & drawn[1] if paired else None
    compare = STUDIES[first.suite.study].compare
    assert compare is not None  # _comparable refuses the others
    rows = compare((first, second), encoders, keep, resamples)
    return Comparison(
        first=first,
        second=second,
        paired=paired,
        pairs=len(keep) if keep is not None else 0,
        dropped=len(drawn[0] ^ drawn[1]) if paired else 0,
        scores=scores_table(rows),
    )


def _origin(run: Run) -> str:
    return str(run.record["origin"])


def _drawn_seeds(run: Run) -> frozenset[int]:
    """Seeds of the images that are there to be scored."""
    samples = run.samples
    return frozenset(int(seed) for seed in samples.seed[samples.status == "ok"])


def _comparable(first: Run, second: Run) -> list[str]:
    """The encoders that both runs share; refuse runs that were asked different things."""
    if first.url == second.url:
        raise RunMismatchError(f"{first.url}: it cannot be compared with itself; name two runs")
    for run in (first, second):
        if STUDIES[run.suite.study].compare is None:
            can = " and ".join(repr(name) for name, study in STUDIES.items() if study.compare is not None)
            raise RunMismatchError(
                f"{run.url}: a run of study {run.suite.study!r}; runs of studies {can} can be compared. Read "
                "the reports of such runs beside each other: clinometer report RUN"
            )
        if run.record.get("until") is not None:
            raise RunMismatchError(
                f"{run.url}: its images were drawn until decided, and intervals of a difference need a number fixed "
                "beforehand; compare runs without --until"
            )
    asked = [_question(run) for run in (first, second)]
    if asked[0] != asked[1]:
        raise RunMismatchError(
            f"{second.url}: suite {second.suite.name!r} asks other things than suite {first.suite.name!r} of "
            f"{first.url}; only runs of one suite can be compared"
        )
    shared = [name for name in first.encoder_cards if name in second.encoder_cards]
    for name in shared:
        if first.encoder_cards[name]["fingerprint"] != second.encoder_cards[name]["fingerprint"]:
            raise RunMismatchError(
                f"encoder {name!r}: {first.url} and {second.url} hold embeddings of different encoders of that name; "
                f"add one that is the same to both: clinometer score RUN --encoder NAME"
            )
    if not shared:
        names = [", ".join(run.encoder_cards) or "none" for run in (first, second)]
        raise RunMismatchError(
            f"no encoder has seen both runs: {first.url} has {names[0]}, {second.url} has {names[1]}; "
            "give: clinometer score RUN --encoder NAME"
        )
    return shared


def _question(run: Run) -> object:
    """What a run was asked, whatever the number of images."""
    return run.suite.model_dump(exclude={"images", "name", "title", "description", "source"})


def first_against_rest(runs: Sequence[Run], *, resamples: int = RESAMPLES) -> list[Comparison]:
    """Hold every further run against the first."""
    if len(runs) < 2:
        raise RunMismatchError(f"compare: found {len(runs)} run, expected two or more")
    return [compare_runs(runs[0], run, resamples=resamples) for run in runs[1:]]
