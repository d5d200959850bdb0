"""What readers said of a run, as rows of its scores, whatever its study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from clinometer._messages import OTHERWISE, first_and_more
from clinometer.errors import RunNotFoundError
from clinometer.metrics.readers import ReadImages, agreement_rows, confusion_rows, peer_rows, planned_rows, rated_rows
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, reading_rows
from clinometer.runs.answers import KNOWN_SCHEMA
from clinometer.runs.fingerprint import lost_images
from clinometer.runs.ratings.store import has_ratings, ratings_of
from clinometer.runs.store import Run
from clinometer.studies.common import scores_table

LABELLED = "labelled pictures of a folder, which need not be misread as these are"
ATTRIBUTE_IMAGES = "attribute images, which need not show what they were drawn for"


def with_readings(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    """Scores, below them what readers say of the concepts, where any has read the run.

    Raises
    ------
    RunNotFoundError
        The reader whose verdicts are to stand has not read it.
    """
    readers = run.readers.cards
    decider = str(run.record.get("options", {}).get("verdict_reader") or "")
    require_reader(run, decider)
    tables = {reader: run.readings(reader) for reader in readers}
    answered = [each for reader, table in tables.items() for each in answered_questions(run, reader, table)]
    judged = reading_rows(answered, decider=decider)
    together = [row for read in read_images(run, tables) for make in (agreement_rows, rated_rows) for row in make(read)]
    rated = {(row.encoder, row.setting, row.concept) for row in together if row.component == "ratings_to_decide"}
    rows = scores_table([
        *judged,
        *(row for each in answered for make in (confusion_rows, peer_rows) for row in make(each)),
        *together,
        *(row for each in answered for row in planned_rows(each, judged)
          if (row.encoder, row.setting, row.concept) not in rated),
    ])  # fmt: skip
    return pd.concat([scores, rows.reindex(columns=scores.columns)], ignore_index=True) if len(rows) else scores


def require_reader(run: Run, decider: str, others: Sequence[str] = ()) -> None:
    """Refuse to judge by a reader that has not read a run and is none of the ``others``; an empty name is none.

    Raises
    ------
    RunNotFoundError
        The message names those that have.
    """
    known = [*run.readers.cards, *others]
    if decider and decider not in known:
        raise RunNotFoundError(
            f"found {decider!r}, which has not read {run.url}; expected one of {', '.join(known) or 'none'}, or give: "
            f"clinometer read {run.url} --reader {decider}",
            field="verdict_reader",
        )


def answered_questions(run: Run, reader: str, table: pd.DataFrame) -> Iterator[AnsweredQuestion]:
    """Count a reader's answers to each question, by concept and by known group; a picture counts once."""
    lost = lost_images(run)
    missing = lost[lost.role == "target"].concept.value_counts()
    labelled = pd.DataFrame(run.answers.known(run.readers.cards[reader]), columns=KNOWN_SCHEMA.names)
    for question, spec in run.readers.questions(reader).items():
        if spec.kind == "open":  # its answers are no groups: see pipeline.reading.distribute
            continue
        names = list(spec.answers)
        numbers = {name: k for k, name in enumerate(names)}
        rows = table[table.question == question]
        rows = rows.assign(column=rows.answer.map(numbers).fillna(len(names)).astype(int))
        targets = rows[rows.role == "target"]
        once = targets.drop_duplicates(["concept", "sha256"])
        concepts = tuple(
            ConceptAnswers(
                str(concept),
                str(own.category.iloc[0]),
                np.bincount(own.column, minlength=len(names) + 1),
                int(missing.get(concept, 0)),
                int((targets.concept == concept).sum()) - len(own),
                unread_in_words(own),
            )
            for concept, own in once.groupby("concept", sort=False)
        )
        shown, source = rows[rows.truth.notna()].drop_duplicates(["group", "prompt", "sha256"]), ATTRIBUTE_IMAGES
        of_folder = labelled[labelled.question == question].drop_duplicates("sha256")
        if len(of_folder):  # what they show somebody has seen; an attribute image may show something else
            column = of_folder.answer.map(numbers).fillna(len(names)).astype(int)
            shown, source = of_folder.assign(column=column), LABELLED
        known = np.zeros((len(names), len(names) + 1), int)
        np.add.at(known, (shown.truth.map(numbers).to_numpy(int), shown.column.to_numpy(int)), 1)
        groups = tuple(answer.means or name for name, answer in spec.answers.items())
        yield AnsweredQuestion(reader, question, groups, concepts, known, source)


def read_images(run: Run, tables: Mapping[str, pd.DataFrame]) -> Iterator[ReadImages]:
    """Lay the answers of all readers to each question beside each other, and people's where they were asked of it.

    People's answers count where the suite's raters may name all groups of the question; a picture counts once.
    """
    questions = {name: spec for reader in tables for name, spec in run.readers.questions(reader).items()}
    rated = pd.DataFrame()
    if has_ratings(run):
        ratings = ratings_of(run)
        rated = ratings[~ratings.simulated.astype(bool) & ~ratings["repeat"].astype(bool) & (ratings.attention == "")]
        rated = rated.drop_duplicates(["rater", "item"])
    for question, spec in questions.items():
        if spec.kind == "open":
            continue
        groups = tuple(answer.means or name for name, answer in spec.answers.items())
        numbers = {name: float(k) for k, name in enumerate(spec.answers)} | dict.fromkeys(OTHERWISE, float(len(groups)))
        asked = {
            reader: table[(table.question == question) & (table.role == "target")] for reader, table in tables.items()
        }
        asked = {reader: table for reader, table in asked.items() if len(table)}
        if not asked:
            continue
        every = pd.concat(asked.values()).drop_duplicates(["concept", "sha256"])
        places = {identifier: place for place, identifier in enumerate(every.id)}
        answers = {
            reader: table.set_index("id").answer.map(numbers).reindex(every.id).to_numpy(np.float64)
            for reader, table in asked.items()
        }
        own = rated[rated.item.isin(places)] if len(rated) else rated
        raters = list(dict.fromkeys(own.rater)) if len(own) and set(own.answer) & set(groups) else []
        people = np.full((len(raters), len(every)), np.nan)
        if raters:
            seen = own.answer.map({group: k for k, group in enumerate(groups)}).fillna(len(groups)).to_numpy(np.float64)
            people[[raters.index(rater) for rater in own.rater], [places[item] for item in own["item"]]] = seen
        concepts = tuple(
            (str(concept), str(rows.category.iloc[0]), rows.index.to_numpy())
            for concept, rows in every.reset_index(drop=True).groupby("concept", sort=False)
        )
        yield ReadImages(question, groups, concepts, answers, people)


def unread_in_words(rows: pd.DataFrame) -> str:
    """Say how many pictures are of no group, and why: ``3 several people and 1 more``."""
    answers = rows["answer"].map(OTHERWISE).where(rows["answer"].notna(), rows["reason"].str.partition(":")[0])
    return first_and_more([f"{count} {what}" for what, count in answers.dropna().value_counts().items()], 4)
