"""What readers answered about a run's pictures, counted by concept and by what is known of the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from clinometer._messages import OTHERWISE, first_and_more
from clinometer.metrics.readers import (
    ReadImages,
)
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers
from clinometer.metrics.transport import ReadPictures
from clinometer.ratings.store import has_ratings, ratings_of
from clinometer.runs.answers import KINDS, KNOWN, KNOWN_SCHEMA
from clinometer.runs.run import Run
from clinometer.runs.verification import lost_images

LABELLED = "labelled pictures of a folder, which need not be misread as these are"
ATTRIBUTE_IMAGES = "attribute images, which need not show what they were drawn for"


MOST_LOOKED_AT: Final = 200
"""Pictures of a concept, or of a group, whose vectors are held against others', spread evenly over the plan."""


def vectors_of_some(run: Run, tables: Iterable[pd.DataFrame]) -> dict[str, dict[str, np.ndarray]]:
    """Return the vectors of some of the pictures that were read, by id, of each encoder that has finished.

    Encoders go by their fingerprints. Of each concept, and of each group's own pictures, there are `MOST_LOOKED_AT` at
    most, so that memory grows with the concepts and not with the pictures.
    """
    finished = [name for name in run.encoder_cards if len(run.vectors.parts_there(name)) == len(run.planned.parts)]
    columns = ["id", "role", "concept", "group"]
    rows = pd.concat([pd.DataFrame(columns=columns), *(table[columns] for table in tables)]).drop_duplicates("id")
    if not finished or rows.empty:
        return {}
    chosen = [
        own[np.unique(np.linspace(0, len(own) - 1, MOST_LOOKED_AT).astype(int))]
        for own in (part["id"].to_numpy() for _, part in rows.fillna("").groupby(["role", "concept", "group"]))
    ]
    ids = np.concatenate(chosen).tolist()
    return {
        run.encoder_cards[name]["fingerprint"]: dict(zip(ids, run.vectors.rows(name, ids, 1), strict=True))
        for name in finished
    }


def vectors_in_rows(ids: Sequence[str], encoders: Sequence[Mapping[str, np.ndarray]]) -> np.ndarray | None:
    """Stack the unit vectors of pictures by all encoders, (n, d): NaN of those not looked at; None without encoders."""
    blocks = []
    for vectors in encoders:
        own = [vectors.get(key) for key in ids]
        width = next((len(each) for each in own if each is not None), 0)
        lacking = np.full(width, np.nan, np.float32)
        block = np.array([lacking if each is None else each for each in own], np.float64).reshape(len(own), width)
        blocks.append(block / np.linalg.norm(block, axis=1, keepdims=True))
    return np.concatenate(blocks, axis=1) if sum(block.shape[1] for block in blocks) else None


def answered_questions(
    run: Run, reader: str, table: pd.DataFrame, looked_at: Mapping[str, Mapping[str, np.ndarray]] | None = None
) -> Iterator[AnsweredQuestion]:
    """Count a reader's answers to each question, by concept and by known group; a picture counts once.

    ``looked_at`` : vectors of some of the run's pictures, as of :func:`vectors_of_some`. Known pictures have those of
    the run's encoders, or, of a folder, those of the one that embedded them.
    """
    lost = lost_images(run)
    missing = lost[lost.role == "target"].concept.value_counts()
    for question, spec in run.readers.questions(reader).items():
        if spec.kind == "open":  # its answers are no groups: see _opened_rows
            continue
        rows = table[table.question == question]
        known, encoders = known_errors(run, reader, question, rows, looked_at)
        targets = rows[rows.role == "target"]
        once = targets.drop_duplicates(["concept", "sha256"])
        names = list(spec.answers)
        concepts = []
        for concept, own in once.groupby("concept", sort=False):
            pictures = pictures_as_read(run, own, names, encoders)
            concepts.append(ConceptAnswers(
                str(concept), str(own.category.iloc[0]), pictures.counts(len(names)), int(missing.get(concept, 0)),
                int((targets.concept == concept).sum()) - len(own), unread_in_words(own), pictures,
            ))  # fmt: skip
        yield replace(known, concepts=tuple(concepts))


def known_errors(
    run: Run, reader: str, question: str, rows: pd.DataFrame, looked_at: Mapping[str, Mapping[str, np.ndarray]] | None
) -> tuple[AnsweredQuestion, list[Mapping[str, np.ndarray]]]:
    """Count a reader's answers to pictures of known groups; no concepts yet.

    Parameters
    ----------
    rows : every answer to the question, as of ``Run.readings``.
    looked_at : as of :func:`answered_questions`.

    Returns
    -------
    The question with what is known, and the vectors, by id, of the encoders that embedded the known pictures too.
    """
    names = list(run.readers.questions(reader)[question].answers)
    numbers = {name: k for k, name in enumerate(names)}
    labelled = pd.DataFrame(run.answers.beside(KNOWN, run.readers.cards[reader]), columns=KNOWN_SCHEMA.names)
    of_folder = labelled[labelled.question == question].drop_duplicates("sha256")
    own_encoders = vectors = dict(looked_at or {})
    if len(of_folder):
        own_encoders = {key: own for key, own in own_encoders.items() if key in set(of_folder.encoder)}
    shown, source = rows[rows.truth.notna()].drop_duplicates(["group", "prompt", "sha256"]), ATTRIBUTE_IMAGES
    if len(of_folder):  # what they show somebody has seen; an attribute image may show something else
        shown, source = of_folder, LABELLED
        of_files = dict(zip(of_folder.file, map(np.asarray, of_folder.vector), strict=True))
        vectors = dict.fromkeys(own_encoders, of_files)
    truths = shown.truth.map(numbers).to_numpy(int)
    # errors vary between labelled models and concepts; attribute images are of one kind
    kinds = shown[list(KINDS)] if len(of_folder) else pd.DataFrame("", shown.index, KINDS)
    keys = shown["file" if len(of_folder) else "id"].tolist()
    pictures = read_pictures(shown, names, kinds, vectors_in_rows(keys, list(vectors.values())))
    known = np.zeros((len(names), len(names) + 1), int)
    np.add.at(known, (truths, pictures.answers), 1)
    answers = run.readers.questions(reader)[question].answers
    groups = tuple(answer.means or name for name, answer in answers.items())
    return AnsweredQuestion(reader, question, groups, (), known, source, pictures, truths), list(own_encoders.values())


def pictures_as_read(
    run: Run, own: pd.DataFrame, groups: Sequence[str], encoders: Sequence[Mapping[str, np.ndarray]]
) -> ReadPictures:
    """Return what a reader shows of some of a run's pictures; ``encoders`` : vectors by id, as of `known_errors`."""
    kinds = own[["concept"]].assign(model=run.model_card["name"])[list(KINDS)]
    return read_pictures(own, groups, kinds, vectors_in_rows(own["id"].tolist(), encoders))


def read_pictures(
    table: pd.DataFrame, groups: Sequence[str], kinds: pd.DataFrame, vectors: np.ndarray | None = None
) -> ReadPictures:
    """Return what a reader shows of a table's pictures, one a row; ``kinds`` names what else they differ by.

    ``vectors`` : (n, d) of an image encoder, NaN of a picture that it has none of.

    A confidence is the probability of the answer that was given, NaN where the reader gives none.
    """
    column = {group: k for k, group in enumerate(groups)}
    answers = table["answer"].map(column).fillna(len(groups)).to_numpy(int)
    sure = [
        float(given[k]) if k < len(groups) and given is not None and len(given) else np.nan
        for k, given in zip(answers, table.get("probabilities", pd.Series([None] * len(table))), strict=True)
    ]
    size = pd.to_numeric(table["size"] if "size" in table else pd.Series(np.nan, table.index))
    contexts = kinds.astype(object).fillna("").to_numpy(str)
    return ReadPictures(answers, np.array(sure), size.to_numpy(np.float64), vectors, contexts)


def read_images(run: Run, tables: Mapping[str, pd.DataFrame]) -> Iterator[ReadImages]:
    """Return the answers of all readers to each question, and people's where they were asked it.

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
    """State how many pictures are of no group, and why: ``3 several people and 1 more``."""
    answers = rows["answer"].map(OTHERWISE).where(rows["answer"].notna(), rows["reason"].str.partition(":")[0])
    return first_and_more([f"{count} {what}" for what, count in answers.dropna().value_counts().items()], 4)
