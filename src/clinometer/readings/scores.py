"""Rows of the scores for what readers answered about a run's pictures, whatever its study; open answers are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from clinometer._cores import one_thread
from clinometer._messages import OTHERWISE, first_and_more
from clinometer.errors import InvalidInputError, ModelError, RunNotFoundError
from clinometer.metrics.open_answers import cluster_answers, concept_association, normalise_answer, open_distribution
from clinometer.metrics.readers import (
    ReadImages,
    agreement_rows,
    confusion_rows,
    drift_row,
    peer_rows,
    planned_rows,
    rated_rows,
    with_changed,
)
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, OpenAnswers, open_rows, reading_rows
from clinometer.metrics.records import Score
from clinometer.metrics.standard import selection_rows
from clinometer.metrics.transport import ReadPictures
from clinometer.models.protocols import Encoder
from clinometer.ratings import has_ratings, ratings_of
from clinometer.readings.standard import compare_with_standard, shares_of_readers
from clinometer.report.view import scores_table
from clinometer.runs.answers import KINDS, KNOWN, KNOWN_SCHEMA, Clusters
from clinometer.runs.run import Run
from clinometer.runs.verification import lost_images
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.suites.question import QuestionSpec

LABELLED = "labelled pictures of a folder, which need not be misread as these are"
ATTRIBUTE_IMAGES = "attribute images, which need not show what they were drawn for"

MOST_COMPARED: Final = 200
"""Pictures of a concept, or of a group, whose vectors are compared with others', spread evenly over the plan."""


def vectors_of_some(run: Run, tables: Iterable[pd.DataFrame]) -> dict[str, dict[str, np.ndarray]]:
    """Return the vectors of some of the pictures that were read, by the fingerprint of the encoder and by id.

    Encoders that have not finished are left out. Of each concept, and of each group's own pictures, there are
    `MOST_COMPARED` at most, so that memory grows with the concepts and not with the pictures.
    """
    finished = [name for name in run.encoder_cards if len(run.vectors.parts_there(name)) == len(run.planned.parts)]
    columns = ["id", "role", "concept", "group"]
    rows = pd.concat([pd.DataFrame(columns=columns), *(table[columns] for table in tables)]).drop_duplicates("id")
    if not finished or rows.empty:
        return {}
    ids = list[str]()
    for _, alike in rows.fillna("").groupby(["role", "concept", "group"]):
        ids += alike["id"].iloc[np.unique(np.linspace(0, len(alike) - 1, MOST_COMPARED).astype(int))].tolist()
    return {
        run.encoder_cards[name]["fingerprint"]: dict(zip(ids, run.vectors.rows(name, ids, 1), strict=True))
        for name in finished
    }


def vectors_in_rows(ids: Sequence[str], encoders: Sequence[Mapping[str, np.ndarray]]) -> np.ndarray | None:
    """Stack the unit vectors of pictures by all encoders, (n, d): NaN where one has none; None without encoders."""
    blocks = []
    for vectors in encoders:
        width = next((len(vectors[key]) for key in ids if key in vectors), 0)
        lacking = np.full(width, np.nan, np.float32)
        block = np.array([vectors.get(key, lacking) for key in ids], np.float64).reshape(len(ids), width)
        blocks.append(block / np.linalg.norm(block, axis=1, keepdims=True))
    return np.concatenate(blocks, axis=1) if sum(block.shape[1] for block in blocks) else None


def answered_questions(
    run: Run, reader: str, table: pd.DataFrame, run_vectors: Mapping[str, Mapping[str, np.ndarray]] | None = None
) -> Iterator[AnsweredQuestion]:
    """Count a reader's answers to each question, by concept and by known group; a picture counts once.

    ``run_vectors`` : vectors of some of the run's pictures, as of :func:`vectors_of_some`. Known pictures have those of
    the run's encoders, or, of a folder, those of the one that embedded them.
    """
    lost = lost_images(run)
    missing = lost[lost.role == "target"].concept.value_counts()
    for question, spec in run.readers.questions(reader).items():
        if spec.kind == "open":  # its answers are no groups: see opened_rows
            continue
        rows = table[table.question == question]
        known, encoders = known_errors(run, reader, question, rows, run_vectors)
        targets = rows[rows.role == "target"]
        once = targets.drop_duplicates(["concept", "sha256"])
        names = list(spec.answers)
        concepts = []
        for concept, read in once.groupby("concept", sort=False):
            pictures = pictures_as_read(run, read, names, encoders)
            concepts.append(ConceptAnswers(
                str(concept), str(read.category.iloc[0]), pictures.counts(len(names)), int(missing.get(concept, 0)),
                int((targets.concept == concept).sum()) - len(read), unread_in_words(read), pictures,
            ))  # fmt: skip
        yield replace(known, concepts=tuple(concepts))


def known_errors(
    run: Run, reader: str, question: str, rows: pd.DataFrame, run_vectors: Mapping[str, Mapping[str, np.ndarray]] | None
) -> tuple[AnsweredQuestion, list[Mapping[str, np.ndarray]]]:
    """Count a reader's answers to pictures of known groups; no concepts yet.

    Parameters
    ----------
    rows : every answer to the question, as of ``Run.readings``.
    run_vectors : as of :func:`answered_questions`.

    Returns
    -------
    The question with what is known, and the vectors, by id, of the encoders that embedded the known pictures too.
    """
    groups = run.readers.questions(reader)[question].answers
    names = list(groups)
    labelled = pd.DataFrame(run.answers.beside(KNOWN, run.readers.cards[reader]), columns=KNOWN_SCHEMA.names)
    of_folder = labelled[labelled.question == question].drop_duplicates("sha256")
    encoders = vectors = dict(run_vectors or {})
    if len(of_folder):  # somebody saw what they show; an attribute image may show something else
        shown, keys, source = of_folder, of_folder.file, LABELLED
        kinds = shown[list(KINDS)]  # errors vary between models and concepts
        encoders = {key: by_id for key, by_id in encoders.items() if key in set(of_folder.encoder)}
        of_files = dict(zip(keys, map(np.asarray, of_folder.vector), strict=True))
        vectors = dict.fromkeys(encoders, of_files)
    else:
        shown = rows[rows.truth.notna()].drop_duplicates(["group", "prompt", "sha256"])
        keys, source = shown["id"], ATTRIBUTE_IMAGES
        kinds = pd.DataFrame("", shown.index, KINDS)  # they are of one kind
    truths = shown.truth.map({name: k for k, name in enumerate(names)}).to_numpy(int)
    pictures = read_pictures(shown, names, kinds, vectors_in_rows(keys.tolist(), list(vectors.values())))
    known = np.zeros((len(names), len(names) + 1), int)
    np.add.at(known, (truths, pictures.answers), 1)
    meanings = tuple(answer.means or name for name, answer in groups.items())
    return AnsweredQuestion(reader, question, meanings, (), known, source, pictures, truths), list(encoders.values())


def pictures_as_read(
    run: Run, table: pd.DataFrame, groups: Sequence[str], encoders: Sequence[Mapping[str, np.ndarray]]
) -> ReadPictures:
    """Return some of a run's pictures as they were read; ``encoders`` : vectors by id, as of `known_errors`."""
    kinds = table[["concept"]].assign(model=run.model_card["name"])[list(KINDS)]
    return read_pictures(table, groups, kinds, vectors_in_rows(table["id"].tolist(), encoders))


def read_pictures(
    table: pd.DataFrame, groups: Sequence[str], kinds: pd.DataFrame, vectors: np.ndarray | None = None
) -> ReadPictures:
    """Return the pictures of a table, one a row, as they were read; ``kinds`` names what else they differ by.

    ``vectors`` : (n, d) of an image encoder, NaN of a picture that it has none of.

    A confidence is the probability of the reader's answer, NaN where the reader gives none.
    """
    column = {group: k for k, group in enumerate(groups)}
    answers = table["answer"].map(column).fillna(len(groups)).to_numpy(int)
    sure = [
        float(of_groups[k]) if k < len(groups) and of_groups is not None and len(of_groups) else np.nan
        for k, of_groups in zip(answers, table.get("probabilities", pd.Series([None] * len(table))), strict=True)
    ]
    size = pd.to_numeric(table["size"] if "size" in table else pd.Series(np.nan, table.index))
    contexts = kinds.astype(object).fillna("").to_numpy(str)
    return ReadPictures(answers, np.array(sure), size.to_numpy(np.float64), vectors, contexts)


def read_images(run: Run, tables: Mapping[str, pd.DataFrame]) -> Iterator[ReadImages]:
    """Yield the answers of all readers to each question, with people's where they answered it, too.

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
        targets = {
            reader: table[(table.question == question) & (table.role == "target")] for reader, table in tables.items()
        }
        targets = {reader: table for reader, table in targets.items() if len(table)}
        if not targets:
            continue
        every = pd.concat(targets.values()).drop_duplicates(["concept", "sha256"])
        places = {identifier: place for place, identifier in enumerate(every.id)}
        answers = {
            reader: table.set_index("id").answer.map(numbers).reindex(every.id).to_numpy(np.float64)
            for reader, table in targets.items()
        }
        here = rated[rated.item.isin(places)] if len(rated) else rated
        raters = list(dict.fromkeys(here.rater)) if len(here) and set(here.answer) & set(groups) else []
        people = np.full((len(raters), len(every)), np.nan)
        if raters:
            indices = {group: float(k) for k, group in enumerate(groups)}
            seen = here.answer.map(indices).fillna(float(len(groups))).to_numpy(np.float64)
            people[[raters.index(rater) for rater in here.rater], [places[item] for item in here["item"]]] = seen
        concepts = tuple(
            (str(concept), str(rows.category.iloc[0]), rows.index.to_numpy())
            for concept, rows in every.reset_index(drop=True).groupby("concept", sort=False)
        )
        yield ReadImages(question, groups, concepts, answers, people)


def unread_in_words(rows: pd.DataFrame) -> str:
    """State how many pictures are of no group, and why: ``3 several people and 1 more``."""
    answers = rows["answer"].map(OTHERWISE).where(rows["answer"].notna(), rows["reason"].str.partition(":")[0])
    return first_and_more([f"{count} {what}" for what, count in answers.dropna().value_counts().items()], 4)


def require_counterfactuals(spec: QuestionSpec, concepts: Iterable[str]) -> None:
    """Refuse a question whose counterfactuals name a concept that no picture was drawn for."""
    known = sorted(set(map(str, concepts)))
    for name in dict.fromkeys(name for initial, others in spec.counterfactuals.items() for name in (initial, *others)):
        if name not in known:
            raise InvalidInputError.unknown_name(
                f"question {spec.name}, counterfactuals: no picture of the concept {name!r}; there are "
                f"{first_and_more(known, 10) or 'none with a concept'}"
            )


def clusters_of(answers: pd.Series, encoder: Encoder | None, threshold: float) -> Clusters:
    """Merge answers that mean the same, by an encoder's text vectors; None merges only equal ones.

    Raises
    ------
    ModelError
        The encoder reads no text.
    """
    if encoder is None:
        return Clusters({}, "the same words, once normalised")
    if not hasattr(encoder, "encode_texts"):
        raise ModelError.unsupported(
            f"encoder {encoder.card.name}: it reads no text, so it cannot cluster answers; give another"
        )
    counts = dict(sorted(Counter(filter(None, map(plain_answer, answers))).items()))
    with one_thread():
        vectors = encoder.encode_texts(list(counts)) if counts else None
    by = f"{encoder.card.name} ({encoder.card.fingerprint}), mean cosine {threshold:g} or more"
    return Clusters(cluster_answers(counts, vectors, threshold), by)


def plain_answer(answer: object) -> str:
    """Normalise an answer; whatever is not text becomes an empty one."""
    return normalise_answer(answer) if isinstance(answer, str) else ""


def distribute(
    table: pd.DataFrame, spec: QuestionSpec, clusters: Clusters | None = None
) -> tuple[OpenAnswers, pd.Series]:
    """Test whether the answers to an open question depend on the concept; also return each row's cluster.

    Parameters
    ----------
    table : a row a picture: ``concept`` (None belongs to none), ``sha256``, and ``answer``.
    clusters : answers that are merged; one that is in none is its own cluster.
    """
    clusters = clusters or clusters_of(table["answer"], None, 1.0)
    plain = table["answer"].map(plain_answer)
    of_concept = table["concept"].notna()
    repeats = table.duplicated(["concept", "sha256"])
    counted = plain[of_concept & ~repeats & (plain != "")]
    cluster_of = {answer: clusters.of.get(answer, answer) for answer in sorted(set(filter(None, plain)))}
    cluster = plain.map(cluster_of)
    names, answers = table["concept"][counted.index].astype(str), cluster[counted.index]
    distribution = open_distribution(list(names), list(answers))
    once = table[of_concept & ~repeats]
    without = once["concept"][plain[once.index] == ""].value_counts()
    associations = {}
    for initial, others in spec.counterfactuals.items():
        for other in others:
            sets = [
                (answers[names == name].to_numpy()[:, None] == np.array(distribution.answers)[None, :]).astype(float)
                for name in (initial, other)
            ]
            associations[initial, other] = concept_association(*sets)
    q = benjamini_hochberg(np.array([each.p for each in associations.values()]))
    associations = {
        pair: replace(each, q=float(adjusted)) for (pair, each), adjusted in zip(associations.items(), q, strict=True)
    }
    unread = tuple(int(without.get(name, 0)) for name in distribution.concepts)
    return OpenAnswers(distribution, cluster_of, clusters.by, unread, associations), cluster


def opened_rows(run: Run, reader: str, table: pd.DataFrame) -> Iterator[Score]:
    """Make the rows of a reader's open questions, with answers merged as the run records."""
    clusters = run.answers.clusters(run.readers.cards[reader])
    targets = table[table.role == "target"]
    categories = dict(zip(targets["concept"].astype(str), targets["category"].fillna("").astype(str), strict=True))
    for question, spec in run.readers.questions(reader).items():
        if spec.kind == "open":
            rows = targets[targets.question == question].reset_index(drop=True)
            yield from open_rows(distribute(rows, spec, clusters.get(question))[0], reader, question, categories)


def rows_of_readers(run: Run) -> tuple[pd.DataFrame, list[Score]]:
    """Return what readers say of the concepts as a table of scores, and the rows that are judged.

    Raises
    ------
    RunNotFoundError
        The reader whose verdicts count has not read it.
    """
    readers = run.readers.cards
    decider = str(run.record.get("options", {}).get("verdict_reader") or "")
    require_reader(run, decider)
    if not readers and run.suite.reference is None:
        return scores_table([]), []
    tables = {reader: run.readings(reader) for reader in readers}
    vectors = vectors_of_some(run, tables.values())
    answered = [each for reader, table in tables.items() for each in answered_questions(run, reader, table, vectors)]
    judged = reading_rows(answered, decider=decider)
    together = [row for read in read_images(run, tables) for make in (agreement_rows, rated_rows) for row in make(read)]
    rated = {(row.encoder, row.setting, row.concept) for row in together if row.component == "ratings_to_decide"}
    shares = shares_of_readers(answered, [*judged, *together])
    differing = {reader: run.answers.differing(card) for reader, card in readers.items()}
    drifts = [drift_row(reader, *answers) for reader, answers in differing.items() if len(answers[0])]
    changed = {row.encoder for row in drifts if row.flag}
    table = scores_table(with_changed([
        *judged,
        *(row for each in answered for make in (confusion_rows, peer_rows) for row in make(each)),
        *together,
        *(row for each in answered for row in planned_rows(each, judged)
          if (row.encoder, row.setting, row.concept) not in rated),
        *(row for reader, table in tables.items() for row in opened_rows(run, reader, table)),
        *(row for source in shares for row in selection_rows(source)),
        *(compare_with_standard(run.suite, shares) if run.suite.draws else ()),
        *drifts,
    ], changed))  # fmt: skip
    return table, judged


def require_reader(run: Run, decider: str, others: Sequence[str] = ()) -> None:
    """Refuse to judge by a reader that has not read a run and is none of the ``others``; an empty name is none.

    Raises
    ------
    RunNotFoundError
        The message names those that have.
    """
    known = [*run.readers.cards, *others]
    if decider and decider not in known:
        expected = f"expected one of {', '.join(known)}, or " if known else ""
        raise RunNotFoundError.unknown_name(
            f"found {decider!r}, which has not read {run.url}; {expected}give: "
            f"clinometer read {run.url} --reader {decider}",
            field="verdict_reader",
        )
