"""From the ratings of a run to rows of its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from clinometer.errors import RunMismatchError
from clinometer.metrics.human import HUMAN, SIMULATED, HumanStudy, RatedConcept, human_rows
from clinometer.metrics.records import MEAN
from clinometer.runs.ratings.readings import RATED, Readings, machine_scores, readings_of
from clinometer.runs.ratings.store import OF_CONCEPT, has_ratings, ratings_of
from clinometer.runs.store import Run
from clinometer.suites import LeaningSuite, Suite


def with_ratings(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    """Scores, below them what people's ratings say, and apart from that what simulated ones do, where there are any."""
    if not has_ratings(run):
        return scores
    rows = [
        vars(score) | {"metric": metric}
        for metric in (HUMAN, SIMULATED)
        for score in human_rows(human_study(run, scores, simulated=metric == SIMULATED))
    ]
    return pd.concat([scores, pd.DataFrame(rows, columns=scores.columns)], ignore_index=True) if rows else scores


def rescore(run: Run) -> pd.DataFrame:
    """Compute the rows of people's ratings anew, and write them beside the others of the run's scores."""
    others = run.scores[~run.scores.metric.isin((HUMAN, SIMULATED))].reset_index(drop=True)
    scores = with_ratings(run, others)
    run.write_scores(scores, run.curves)
    return scores


def pooled(run: Run) -> str:
    """Say of scores of an earlier version that they count simulated raters among people; empty of others."""
    if not has_ratings(run) or not ratings_of(run).simulated.any():
        return ""
    metrics = set(run.scores.metric)
    if HUMAN not in metrics or SIMULATED in metrics:
        return ""
    return (
        "what people said was scored by a version that counted simulated raters among them; give: clinometer score RUN"
    )


def human_study(run: Run, scores: pd.DataFrame, *, simulated: bool = False) -> HumanStudy:
    """The ratings of a run by people as the metrics see them, or those by simulated raters.

    Raises
    ------
    RunMismatchError
        The suite compares no two groups.
    """
    a, b = compared_groups(run.suite)
    ratings = ratings_of(run)
    ratings = ratings[ratings.simulated == simulated]
    estimated = ratings[(ratings.attention == "") & ~ratings["repeat"]]
    answers = tuple(dict.fromkeys([a, b, *_other_groups(run.suite), *sorted(estimated.answer.unique())]))
    checks = ratings[ratings.attention != ""]
    same, repeats = _repeats(ratings)
    return HumanStudy(
        answers=answers,
        a=0,
        b=1,
        concepts=tuple(_concepts(run, estimated, answers)),
        same=same,
        repeats=repeats,
        right=int((checks.answer == checks.attention).sum()),
        checks=len(checks),
        machine=machine_scores(scores, a),
    )


def compared_groups(suite: Suite) -> tuple[str, str]:
    """The two groups that a suite compares.

    Raises
    ------
    RunMismatchError
        It names none, or crosses axes.
    """
    sides: Any = getattr(suite, "axis", None) or getattr(suite, "genders", None)
    if sides is None or (isinstance(suite, LeaningSuite) and suite.axes):
        raise RunMismatchError(f"suite {suite.name}: ratings are held against two groups, and it does not name two")
    return sides.a, sides.b


def _other_groups(suite: Suite) -> Sequence[str]:
    third = getattr(getattr(suite, "axis", None), "third", None)
    return (third,) if third else ()


def _repeats(ratings: pd.DataFrame) -> tuple[int, int]:
    """How many repeated items got the same answer again, and of how many."""
    keys = ["source", "rater", "item"]
    first, again = (ratings[ratings["repeat"] == is_repeat][[*keys, "answer"]] for is_repeat in (False, True))
    both = again.merge(first, on=keys, suffixes=("", "_first"))
    return int((both.answer == both.answer_first).sum()), len(both)


def _concepts(run: Run, ratings: pd.DataFrame, answers: Sequence[str]) -> Iterator[RatedConcept]:
    codes, raters = {answer: k for k, answer in enumerate(answers)}, sorted(ratings.rater.unique())
    table = ratings.assign(code=ratings.answer.map(codes).astype(float))
    # several tasks may have asked a rater about an item; the first answer counts
    answered = table.drop_duplicates(["rater", "item"]).pivot(index="rater", columns="item", values="code")
    answered = answered.reindex(raters)
    drawn = ratings.drop_duplicates("item").set_index("item")
    readings = readings_of(run)
    for concept, category, ids in _images(run):
        rated = [identifier for identifier in ids if identifier in answered.columns]
        if rated:
            yield _concept(concept, category, ids, rated, answered[rated].to_numpy(), readings, drawn.loc[rated])
    for item in (item for item in answered.columns if item.startswith(OF_CONCEPT)):
        name = item.removeprefix(OF_CONCEPT)
        yield RatedConcept(name, name, answered[[item]].to_numpy(), whole=True)


def _concept(
    name: str,
    category: str,
    ids: Sequence[str],
    rated: Sequence[str],
    answers: np.ndarray,
    readings: Readings,
    drawn: pd.DataFrame,
) -> RatedConcept:
    others = [identifier for identifier in ids if identifier not in set(rated)]
    whole_readings = {
        encoder: by_id for encoder, by_id in readings.items() if all(identifier in by_id for identifier in ids)
    }
    strata, sizes = _strata(drawn, readings.get(MEAN, {}), ids)
    return RatedConcept(
        name,
        category,
        answers,
        {encoder: _values_of(by_id, rated) for encoder, by_id in whole_readings.items()},
        {encoder: _values_of(by_id, others) for encoder, by_id in whole_readings.items()},
        strata,
        sizes,
    )


def _strata(
    drawn: pd.DataFrame, read: Mapping[str, float], ids: Sequence[str]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Strata of the rated items and their sizes; None where all were drawn from the whole concept.

    Items of several tasks may have been drawn either way. Then all are put into the strata that the readings make: an
    item drawn from the whole concept is a random one of its stratum, too.
    """
    within = drawn.stratum != ""
    if not within.any():
        return None, None
    if within.all():
        names = list(dict.fromkeys(drawn.stratum))
        sizes = drawn.drop_duplicates("stratum").set_index("stratum").stratum_size
        return np.array([names.index(stratum) for stratum in drawn.stratum]), sizes.loc[names].to_numpy(dtype=int)
    labels = np.array([int(read[identifier]) for identifier in drawn.index])
    sides = np.array([int(read[identifier]) for identifier in ids])
    kinds = np.unique(labels)
    return np.searchsorted(kinds, labels), np.array([int((sides == kind).sum()) for kind in kinds])


def _values_of(by_id: Mapping[str, float], ids: Sequence[str]) -> np.ndarray:
    return np.array([by_id[identifier] for identifier in ids], np.float64)


def _images(run: Run) -> Iterator[tuple[str, str, list[str]]]:
    """Concepts with their category and the rated images that are there."""
    there = run.samples
    images = there[(there.status == "ok") & there.role.isin(RATED)]
    for (concept, category), concept_images in images.groupby(["concept", "category"], sort=False):
        yield str(concept), str(category), concept_images.id.tolist()
