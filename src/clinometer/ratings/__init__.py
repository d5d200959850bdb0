"""Ratings of a run: which images people are shown, what they answered, and the scores that follow from it.

``RUN/ratings/part-00000.parquet`` holds a row an answer, sealed like other parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from clinometer._messages import did_you_mean, quoted
from clinometer.errors import RatingsError, RunCorruptError, RunMismatchError
from clinometer.metrics.human import (
    HUMAN,
    SIMULATED,
    HumanStudy,
    MachineScores,
    PairedStudy,
    RatedConcept,
    human_rows,
    paired_rows,
)
from clinometer.metrics.records import MEAN
from clinometer.runs.ledger import RATINGS, always, part_name, require_shape
from clinometer.runs.run import Run
from clinometer.stats.agreement import Agreement, krippendorff_alpha

SCHEMA: Final = pa.schema(
    {
        "source": pa.string(),  # the task, or the file, that they came from: it is taken in once
        "question": pa.string(),
        "item": pa.string(),  # a sample's id, "concept:NAME" for all its images at once, or "pair:LEFT RIGHT" of two
        "rater": pa.string(),  # a pseudonym
        "answer": pa.string(),  # the name of a group, or another answer; of a pair left, right or tie
        "seconds": pa.float32(),
        "time": pa.string(),  # ISO 8601, empty if not known
        "order": pa.int32(),  # place among the rater's items, from 1; 0 if not known
        "repeat": pa.bool_(),  # asked a second time
        "attention": pa.string(),  # the known answer of an item that checks attention, else empty
        "stratum": pa.string(),  # within what the item was drawn at random; empty for its whole concept
        "stratum_size": pa.int32(),  # images that the stratum held
        "simulated": pa.bool_(),  # made up by the demonstration: never counted among people's
    }
)
DEFAULTS: Final[dict[str, Any]] = {
    "question": "", "seconds": None, "time": "", "order": 0, "repeat": False, "attention": "", "stratum": "",
    "stratum_size": 0, "simulated": False,
}  # fmt: skip
_PART: Final = re.compile(rf"{RATINGS}/part-\d{{5,9}}\.parquet")

OF_CONCEPT: Final = "concept:"
"""Prefix of the item that shows all images of a concept; the concept's name follows."""
PAIR: Final = "pair:"
"""Prefix of the item that shows two samples; their ids follow: the left one, a space, the right one."""
PAIR_ANSWERS: Final = ("left", "right", "tie")
"""Answers to a pair, in the order of their numbers."""
_SIMULATED: Final = "skill-"
"""What names of simulated raters began with when only names marked them; those of people are hexadecimal."""
IMPORT_AGAIN: Final = "Restore it, or delete it and take its ratings in again: clinometer ratings import RUN FILE"


@dataclass(frozen=True)
class Rated:
    """What people rate in the runs of a suite, as its study says.

    Attributes
    ----------
    suite : its name.
    pair : the two groups that ratings are compared with; None where the suite does not compare two.
    third : a further group among the answers; empty where there is none.
    answers : groups by their names and labels, in small letters.
    roles : roles of the images that are rated.
    shown_roles : roles of images that show a group, whose answer is known.
    shown_by : of each of the pair, the groups whose images show it.
    column : the column of samples that says which images are seen at once: the concept, or the category of its stimuli.
    machine : metrics and components of a concept that are larger the more it leans to the first of the pair.
    read : (run, encoder) → by how much each rated image is nearer to the first of the pair, by its id, by the rule of
        the study's own numbers; empty where the encoder cannot say.
    """

    suite: str
    pair: tuple[str, str] | None = None
    third: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[str, ...] = ("target",)
    shown_roles: tuple[str, ...] = ("attribute",)
    shown_by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    column: Literal["concept", "category"] = "concept"
    machine: tuple[tuple[str, str], ...] = ()
    read: Callable[[Run, str], Mapping[str, float]] = lambda run, encoder: {}

    @property
    def groups(self) -> tuple[str, str]:
        """The two groups.

        Raises
        ------
        RunMismatchError
            The suite names none, or crosses axes.
        """
        if self.pair is None:
            raise RunMismatchError(f"suite {self.suite}: ratings compare two groups, and it does not name two")
        return self.pair


def add_ratings(run: Run, source: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the ratings of a source, in the place of those that it left before. Returns the part's name.

    ``rows`` have the columns of ``SCHEMA`` without ``source``; those of ``DEFAULTS`` may be missing.
    """
    # parts that are gone are taken off the list: what is written now replaces them
    there = run.directory.names(RATINGS, ".parquet")
    run.ledger.unlist([name for name in run.ledger.files if name.startswith(f"{RATINGS}/") and name not in there])
    name = _part_of(run, source)
    if name is None:
        numbers = [int(part.rpartition("part-")[2].removesuffix(".parquet")) for part in _parts(run)]
        name = part_name(RATINGS, max(numbers, default=-1) + 1)
    table = pa.Table.from_pylist([DEFAULTS | dict(row) | {"source": source} for row in rows], schema=SCHEMA)
    run.ledger.write_table(name, table)
    run.ledger.list_files([name])
    return name


def ratings_of(run: Run) -> pd.DataFrame:
    """Return every rating of a run, part by part; of a rater's answers to one item the first counts, repeats aside."""
    ratings: pd.DataFrame = pa.concat_tables(
        [SCHEMA.empty_table(), *(_read(run, name) for name in _parts(run))]
    ).to_pandas()
    was_simulated = ratings.rater.str.startswith(_SIMULATED)
    ratings = ratings.assign(simulated=ratings.simulated.astype("boolean").fillna(was_simulated).astype(bool))
    return ratings.drop_duplicates(["source", "rater", "item", "repeat"], keep="first", ignore_index=True)


def _read(run: Run, name: str) -> pa.Table:
    added = pa.schema([SCHEMA.field("simulated")])
    table = run.ledger.read_table(name, SCHEMA.names, way_out=IMPORT_AGAIN, shape=_require_ratings, added=added)
    return table.select(SCHEMA.names)


def _require_ratings(table: pa.Table) -> None:
    require_shape(table, always(SCHEMA, empty=("seconds", "simulated")))
    empty = pc.and_(pc.not_equal(table["stratum"], ""), pc.less(table["stratum_size"], 1))
    if strata := table["stratum"].filter(empty).to_pylist():
        raise pa.ArrowInvalid(f"its column 'stratum_size' is below 1 for {quoted(strata[0])}")


def remove_ratings(run: Run, source: str, *, rater: str = "", simulated: bool = False) -> int:
    """Remove what a source left in a run, or of it a rater's answers or the simulated ones. Return how many."""
    name = _part_of(run, source)
    if name is None:
        return 0
    rows = _read(run, name).to_pylist()
    left = [
        row
        for row in rows
        if (rater and row["rater"] != rater)
        or (simulated and not (row["simulated"] or row["rater"].startswith(_SIMULATED)))
    ]
    if left:
        run.ledger.write_table(name, pa.Table.from_pylist(left, schema=SCHEMA))
        run.ledger.list_files([name])
    else:
        run.directory.remove(name)
        run.ledger.unlist([name])
    return len(rows) - len(left)


def has_ratings(run: Run) -> bool:
    """Return whether people rated images of the run."""
    return bool(_parts(run))


def _parts(run: Run) -> list[str]:
    there = sorted(name for name in run.directory.names(RATINGS, ".parquet") if _PART.fullmatch(name))
    lost_parts = [name for name in run.ledger.files if name.startswith(f"{RATINGS}/") and name not in there]
    if lost_parts:
        raise RunCorruptError(f"{run.directory.path(lost_parts[0])}: it was written and is missing. {IMPORT_AGAIN}")
    return there


def _part_of(run: Run, source: str) -> str | None:
    """Return the part that a source wrote before."""
    for name in _parts(run):
        if source in run.ledger.read_table(name, ["source"], way_out=IMPORT_AGAIN)["source"].unique().to_pylist():
            return name
    return None


# --- Which images of a run people are shown: drawn at random from each concept, or from each concept and reading -----


Readings = Mapping[str, Mapping[str, float]]
"""Encoder → sample id → 1 where it reads the image as a, else 0."""


def readings_of(run: Run, rated: Rated) -> Readings:
    """Return how the study's own rule reads the rated images; nothing for a study that has no such rule.

    ``"mean"`` averages over the encoders.
    """
    margins = {name: margins for name in run.encoder_cards if (margins := rated.read(run, name))}
    if not margins:
        return {}
    ids = list(next(iter(margins.values())))
    mean = {i: float(np.mean([by_id[i] for by_id in margins.values()])) for i in ids}
    return {name: {i: float(m > 0) for i, m in by_id.items()} for name, by_id in ({MEAN: mean} | margins).items()}


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
        raise RatingsError.expected_one_of(get_args(Strata), strata, field="strata")
    rng = np.random.default_rng([seed, 20])
    pool = ratable_images(run, rated, concepts)
    items: list[DrawnItem] = []
    if images == ALL_AT_ONCE:
        for name, images_of_concept in pool.groupby(rated.column, sort=False):
            chosen = over_prompts(images_of_concept, shown, rng)
            pictures, flagged = tuple(chosen.id), bool(chosen.flagged.any())
            items.append(DrawnItem(f"{OF_CONCEPT}{name}", str(name), flagged=flagged, pictures=pictures))
    else:
        most = -(-images // 2) if strata == "reading" else images
        for stratum, images_of_stratum in _strata(run, rated, pool, strata):
            size = len(images_of_stratum) if stratum else 0
            for row in images_of_stratum.iloc[np.sort(rng.permutation(len(images_of_stratum))[:most])].itertuples():
                items.append(DrawnItem(str(row.id), str(row.concept), stratum, size, flagged=bool(row.flagged)))
    samples = _samples(run)
    for order, group in enumerate(rated.groups if attention else ()):  # as many images of either, drawn for it by name
        images_of_stratum = samples[(samples.status == "ok") & samples.group.isin(rated.shown_by.get(group, [group]))]
        images_of_stratum = images_of_stratum[images_of_stratum.role.isin(rated.shown_roles)]
        n = (attention + 1 - order) // 2
        for row in images_of_stratum.iloc[rng.permutation(len(images_of_stratum))[:n]].itertuples():
            items.append(DrawnItem(str(row.id), str(row.concept), attention=group, flagged=bool(row.flagged)))
    return items


def draw_pairs(run: Run, rated: Rated, pairs: int, *, concepts: Collection[str] = (), seed: int = 0) -> list[DrawnItem]:
    """Draw pairs of pictures of different concepts, in random order, every concept as often as every other.

    Concepts are put in a circle at random, neighbours are compared, and then again: a round links all of them.

    Raises
    ------
    RatingsError
        An unknown concept, or images of fewer than two.
    """
    rng, pool = np.random.default_rng([seed, 21]), ratable_images(run, rated, concepts)
    images_by_concept = {
        str(concept): images for concept, images in pool[pool.concept != ""].groupby("concept", sort=False)
    }
    names = list(images_by_concept)
    if len(names) < 2:
        raise RatingsError.too_few(
            f"{run.url}: pairs are of two concepts, and it has images of {len(names)}", field="pairs"
        )
    items: dict[str, DrawnItem] = {}
    for _ in range(20 * pairs):  # a pair that was drawn before is drawn again
        at = len(items) % len(names)
        if at == 0:
            circle = rng.permutation(len(names))
        both = [images_by_concept[names[circle[(at + step) % len(names)]]] for step in rng.permutation(2)]
        left, right = (images.iloc[rng.integers(len(images))] for images in both)
        name = f"{PAIR}{left.id} {right.id}"
        flagged = bool(left.flagged or right.flagged)
        items.setdefault(name, DrawnItem(name, "pairs", flagged=flagged, pictures=(str(left.id), str(right.id))))
        if len(items) == pairs:
            break
    return list(items.values())


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
    """Return the images that may be rated and are there, of some concepts."""
    run.require_images("a rating task")
    samples = _samples(run)
    pool = samples[(samples.status == "ok") & samples.role.isin(rated.roles)]
    names = set(pool.concept)
    for name in concepts:
        if name not in names:
            hint = did_you_mean(name, names)
            raise RatingsError.unknown_name(
                f"{run.url} has no images of {name!r}{'; ' if hint else ''}{hint}", field="concept"
            )
    if pool.empty:
        raise RatingsError.too_few(f"{run.url}: it has no images to rate")
    return pool[pool.concept.isin(concepts)] if concepts else pool


def _samples(run: Run) -> pd.DataFrame:
    """Return the samples of a run; of one that knows no flags none is flagged."""
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
        raise RatingsError.incomplete(
            f"{run.url}: no encoder has read its images; give --strata concept, or score it first"
        )
    read = pool.assign(read=[a if readings[identifier] else b for identifier in pool.id])
    for (concept, group), stratum in read.groupby(["concept", "read"], sort=False):
        yield f"{concept}, read as {group}", stratum


# --- From the ratings of a run to rows of its scores -----------------------------------------------------------------


def machine_scores(scores: pd.DataFrame, rated: Rated) -> tuple[MachineScores, ...]:
    """Return what people's fractions are compared with: every signed score of the concepts, by encoder."""
    concept_scores = scores[(scores.setting == "") & scores.group.isin(["", rated.groups[0]])]
    machine = []
    for metric, component in rated.machine:
        rows = concept_scores[(concept_scores.metric == metric) & (concept_scores.component == component)]
        for encoder, of_encoder in rows.groupby("encoder", sort=False):
            names = of_encoder.concept.where(of_encoder.concept != "", of_encoder.category)
            values = {str(n): float(v) for n, v in zip(names, of_encoder.value, strict=True)}
            machine.append(MachineScores(metric, component, str(encoder), values))
    return tuple(machine)


def with_ratings(run: Run, rated: Rated, scores: pd.DataFrame) -> pd.DataFrame:
    """Append to scores what people's ratings say and, apart from them, what simulated ones do, where there are any."""
    if not has_ratings(run):
        return scores
    scores_by_metric = {
        metric: [
            *human_rows(human_study(run, rated, scores, simulated=metric == SIMULATED)),
            *(row for study in paired_studies(run, simulated=metric == SIMULATED) for row in paired_rows(study)),
        ]
        for metric in (HUMAN, SIMULATED)
    }
    rows = [vars(score) | {"metric": metric} for metric, scored in scores_by_metric.items() for score in scored]
    return pd.concat([scores, pd.DataFrame(rows, columns=scores.columns)], ignore_index=True) if rows else scores


def mixed_raters(run: Run) -> str:
    """Return a warning where scores of an earlier version count simulated raters among people; else an empty text."""
    if not has_ratings(run) or not ratings_of(run).simulated.any():
        return ""
    metrics = set(run.scores.metric)
    if HUMAN not in metrics or SIMULATED in metrics:
        return ""
    return (
        "what people said was scored by a version that counted simulated raters among them; give: clinometer score RUN"
    )


def human_study(run: Run, rated: Rated, scores: pd.DataFrame, *, simulated: bool = False) -> HumanStudy:
    """Return the ratings of a run by people as the metrics see them, or those by simulated raters.

    Raises
    ------
    RunMismatchError
        The suite compares no two groups.
    """
    ratings = ratings_of(run)
    ratings = ratings[(ratings.simulated == simulated) & ~ratings["item"].str.startswith(PAIR)]
    if ratings.empty:
        return HumanStudy((), 0, 1, ())
    a, b = rated.groups
    estimated = ratings[(ratings.attention == "") & ~ratings["repeat"]]
    answers = tuple(dict.fromkeys([a, b, *([rated.third] if rated.third else []), *sorted(estimated.answer.unique())]))
    checks = ratings[ratings.attention != ""]
    keys = ["source", "rater", "item"]
    first, again = (ratings[ratings["repeat"] == is_repeat][[*keys, "answer"]] for is_repeat in (False, True))
    asked_twice = again.merge(first, on=keys, suffixes=("", "_first"))
    return HumanStudy(
        answers=answers,
        a=0,
        b=1,
        concepts=tuple(_concepts(run, rated, estimated, answers)),
        same=int((asked_twice.answer == asked_twice.answer_first).sum()),
        repeats=len(asked_twice),
        right=int((checks.answer == checks.attention).sum()),
        checks=len(checks),
        machine=machine_scores(scores, rated),
    )


def paired_studies(run: Run, *, simulated: bool = False) -> Iterator[PairedStudy]:
    """Yield the comparisons of two pictures, question by question; what was asked again does not count.

    A picture stands for the concept that it was drawn for, or else for its group.
    """
    ratings = ratings_of(run)
    ratings = ratings[(ratings.simulated == simulated) & ratings["item"].str.startswith(PAIR) & ~ratings["repeat"]]
    if ratings.empty:
        return
    ids = ratings["item"].str.removeprefix(PAIR).str.split(" ", expand=True).to_numpy(str)
    samples = run.samples.fillna({"concept": "", "category": "", "group": ""}).set_index("id")
    drawn_for = [
        (concept, category, "" if concept else group)
        for concept, category, group in samples.loc[
            np.unique(ids), ["concept", "category", "group"]
        ].itertuples(index=False)
    ]  # fmt: skip
    of_sample = dict(zip(np.unique(ids), drawn_for, strict=True))
    for question, rows in ratings.reset_index(drop=True).groupby("question", sort=False):
        ids_of_pairs = ids[rows.index]
        names, pictures = np.unique(ids_of_pairs, return_inverse=True)
        units = tuple(dict.fromkeys(of_sample[name] for name in names))
        left, right = np.array([[units.index(of_sample[name]) for name in pair] for pair in ids_of_pairs]).T
        yield PairedStudy(
            str(question), units, left, right, rows.answer.map(PAIR_ANSWERS.index).to_numpy(),
            pictures.reshape(ids_of_pairs.shape), pd.factorize(rows.rater)[0],
        )  # fmt: skip


def _concepts(run: Run, rated: Rated, ratings: pd.DataFrame, answers: Sequence[str]) -> Iterator[RatedConcept]:
    codes, raters = {answer: k for k, answer in enumerate(answers)}, sorted(ratings.rater.unique())
    table = ratings.assign(code=ratings.answer.map(codes).astype(float))
    # several tasks may have asked a rater about an item; the first answer counts
    answered = table.drop_duplicates(["rater", "item"]).pivot(index="rater", columns="item", values="code")
    answered = answered.reindex(raters)
    drawn = ratings.drop_duplicates("item").set_index("item")
    readings = readings_of(run, rated)
    there = run.samples
    images = there[(there.status == "ok") & there.role.isin(rated.roles)]
    for (concept, category), images_of_concept in images.groupby(["concept", "category"], sort=False):
        ids = images_of_concept.id.tolist()
        seen = [identifier for identifier in ids if identifier in answered.columns]
        if seen:
            others = [identifier for identifier in ids if identifier not in answered.columns]
            whole = {name: by_id for name, by_id in readings.items() if by_id.keys() >= set(ids)}
            yield RatedConcept(
                str(concept),
                str(category),
                answered[seen].to_numpy(),
                {name: np.array([by_id[each] for each in seen], np.float64) for name, by_id in whole.items()},
                {name: np.array([by_id[each] for each in others], np.float64) for name, by_id in whole.items()},
                *_drawn_strata(drawn.loc[seen], readings.get(MEAN, {}), ids),
            )
    for item in (item for item in answered.columns if item.startswith(OF_CONCEPT)):
        name = item.removeprefix(OF_CONCEPT)
        yield RatedConcept(name, name, answered[[item]].to_numpy(), whole=True)


def _drawn_strata(
    drawn: pd.DataFrame, read: Mapping[str, float], ids: Sequence[str]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return strata of the rated items and their sizes; None where all were drawn from the whole concept.

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


# --- What an organiser sees while ratings come in: how far each rater and concept is, and how far raters agree -------


RESAMPLES = 999


@dataclass(frozen=True)
class RaterSummary:
    """One rater's answers: how many, the median of their seconds, and the counts that tell care."""

    name: str
    answers: int
    seconds: float
    right: int
    checks: int
    same: int
    repeats: int


def agreement_so_far(answers: pd.DataFrame) -> Agreement:
    """Return Krippendorff's α of the answers so far, without repeats and without those whose answer is known."""
    ratings = answers[~answers["repeat"].astype(bool) & (answers.attention == "")]
    if ratings.empty:
        return Agreement(nan, nan, nan, 0, reason="no answer yet")
    codes = ratings.assign(code=pd.factorize(ratings.answer)[0].astype(float), key=ratings.run + "\0" + ratings.item)
    table = codes.pivot_table(index="rater", columns="key", values="code", aggfunc="first")
    return krippendorff_alpha(table.to_numpy(np.float64), n_resamples=RESAMPLES)


def rater_summaries(answers: pd.DataFrame) -> dict[str, RaterSummary]:
    """Return each rater's answers so far, by pseudonym."""
    summaries = {}
    for name, answers_of_rater in answers.groupby("rater", sort=False):
        checks, is_repeat = answers_of_rater[answers_of_rater.attention != ""], answers_of_rater["repeat"].astype(bool)
        again = answers_of_rater[is_repeat].merge(
            answers_of_rater[~is_repeat], on=["run", "item"], suffixes=("", "_first")
        )
        summaries[str(name)] = RaterSummary(
            name=str(name),
            answers=len(answers_of_rater),
            seconds=float(answers_of_rater.seconds.astype(float).median()),
            right=int((checks.answer == checks.attention).sum()),
            checks=len(checks),
            same=int((again.answer == again.answer_first).sum()),
            repeats=len(again),
        )
    return summaries
