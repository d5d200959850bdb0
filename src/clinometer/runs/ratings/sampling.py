"""Which images of a run people are shown: drawn at random from each concept, or from each concept and reading."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import pandas as pd

from clinometer._messages import did_you_mean
from clinometer.errors import RatingsError
from clinometer.metrics.records import MEAN
from clinometer.runs.ratings.scoring import readings_of
from clinometer.runs.ratings.store import OF_CONCEPT, Rated
from clinometer.runs.store import Run

Strata = Literal["concept", "reading", "none"]
"""Within what images are drawn: each concept, each concept and what the encoders read in it, or the whole run."""

ALL_AT_ONCE: Final = 0
"""Images of a concept where a rater sees several at once."""
SHOWN: Final = 20
"""Images of a concept that are shown at once, as in T2IAT (section 5.5)."""


@dataclass(frozen=True)
class DrawnItem:
    """An item of a rating task; ``attention`` is its known answer, where it checks attention.

    ``flagged`` says that a safety checker took offence at it, or at one of the ``pictures`` that are shown at once.
    """

    name: str
    concept: str
    stratum: str = ""
    stratum_size: int = 0
    attention: str = ""
    flagged: bool = False
    pictures: tuple[str, ...] = ()


def draw_items(
    run: Run,
    rated: Rated,
    images: int,
    *,
    strata: Strata = "concept",
    concepts: Collection[str] = (),
    attention: int = 0,
    seed: int = 0,
    shown: int = SHOWN,
) -> list[DrawnItem]:
    """Draw ``images`` of each concept, or as many in all with ``strata="none"``; 0 shows ``shown`` of each at once.

    ``attention`` more are images that were drawn for either group by name, whose answer is taken as known.

    Raises
    ------
    RatingsError
        An unknown concept or kind of strata, or a run without images or without readings.
    """
    if strata not in get_args(Strata):
        raise RatingsError(f"expected one of {', '.join(get_args(Strata))}, found {strata!r}", field="strata")
    rng = np.random.default_rng([seed, 20])
    pool = ratable_images(run, rated, concepts)
    if images == ALL_AT_ONCE:
        items = []
        for name, images_of_concept in pool.groupby(rated.column, sort=False):
            chosen = over_prompts(images_of_concept, shown, rng)
            pictures, flagged = tuple(chosen.id), bool(chosen.flagged.any())
            items.append(DrawnItem(f"{OF_CONCEPT}{name}", str(name), flagged=flagged, pictures=pictures))
    else:
        items = [
            item
            for stratum in _strata(run, rated, pool, strata)
            for item in _stratum_items(stratum, images, strata, rng)
        ]
    return [*items, *_attention(run, rated, attention, rng)]


def over_prompts(images: pd.DataFrame, number: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw images at random over their prompts, in random order: each image is as likely as every other.

    They are put in order prompt by prompt, prompts and images at random, and every (N / number)-th of the N is taken
    from a random start: of a prompt with m images ⌊m · number / N⌋ or one more.
    """
    images = images.iloc[rng.permutation(len(images))]
    prompts = images.prompt.unique()
    images = images.iloc[np.argsort(pd.Index(rng.permutation(prompts)).get_indexer(images.prompt), kind="stable")]
    number = min(number, len(images))
    places = ((np.arange(number) + rng.random()) * (len(images) / number)).astype(int)
    return images.iloc[rng.permutation(places)]


def drawn_before(run: Run, rated: Rated, item: str) -> list[str]:
    """Draw the pictures of an item of a task that kept none, made by an earlier version."""
    images, name = ratable_images(run, rated), item.removeprefix(OF_CONCEPT)
    images = images[(images.concept == name) | (images.category == name)]
    return list(over_prompts(images, SHOWN, np.random.default_rng([0, 20])).id)


def ratable_images(run: Run, rated: Rated, concepts: Collection[str] = ()) -> pd.DataFrame:
    """The images that may be rated and are there, of some concepts."""
    run.require_images("a rating task")
    samples = _samples(run)
    pool = samples[(samples.status == "ok") & samples.role.isin(rated.roles)]
    names = set(pool.concept)
    for name in concepts:
        if name not in names:
            hint = did_you_mean(name, names)
            raise RatingsError(f"{run.url} has no images of {name!r}{'; ' if hint else ''}{hint}", field="concept")
    if pool.empty:
        raise RatingsError(f"{run.url}: it has no images to rate")
    return pool[pool.concept.isin(concepts)] if concepts else pool


def _samples(run: Run) -> pd.DataFrame:
    """The samples of a run; of one that knows no flags none is flagged."""
    samples = run.samples
    return samples.assign(flagged=samples.flagged.fillna(False).astype(bool))


def _strata(run: Run, rated: Rated, pool: pd.DataFrame, strata: Strata) -> Iterator[tuple[str, pd.DataFrame]]:
    if strata == "none":
        yield "", pool
        return
    if strata == "concept":
        yield from (("", stratum) for _, stratum in pool.groupby("concept", sort=False))
        return
    readings, (a, b) = readings_of(run, rated).get(MEAN), rated.groups
    if readings is None:
        raise RatingsError(f"{run.url}: no encoder has read its images; give --strata concept, or score it first")
    read = pool.assign(read=[a if readings[identifier] else b for identifier in pool.id])
    for (concept, group), stratum in read.groupby(["concept", "read"], sort=False):
        yield f"{concept}, read as {group}", stratum


def _stratum_items(
    stratum: tuple[str, pd.DataFrame], images: int, strata: Strata, rng: np.random.Generator
) -> Iterator[DrawnItem]:
    name, samples = stratum
    n = -(-images // 2) if strata == "reading" else images
    chosen = samples.iloc[np.sort(rng.permutation(len(samples))[:n])]
    for row in chosen.itertuples():
        size = len(samples) if name else 0
        yield DrawnItem(str(row.id), str(row.concept), name, size, flagged=bool(row.flagged))


def _attention(run: Run, rated: Rated, number: int, rng: np.random.Generator) -> Sequence[DrawnItem]:
    """As many images of either group, drawn for it by name."""
    samples, items = _samples(run), []
    for order, group in enumerate(rated.groups if number else ()):
        of = samples[(samples.status == "ok") & samples.group.isin(rated.shown_by.get(group, [group]))]
        of = of[of.role.isin(rated.shown_roles)]
        n = (number + 1 - order) // 2
        for row in of.iloc[rng.permutation(len(of))[:n]].itertuples():
            items.append(DrawnItem(str(row.id), str(row.concept), attention=group, flagged=bool(row.flagged)))
    return items
