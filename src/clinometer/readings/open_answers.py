"""Answers to open questions: merged where they mean the same, and tested for how they differ between concepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from clinometer._cores import one_thread
from clinometer._messages import first_and_more
from clinometer.errors import InvalidInputError, ModelError
from clinometer.metrics.open_answers import cluster_answers, concept_association, normalise_answer, open_distribution
from clinometer.metrics.reading import OpenAnswers, open_rows
from clinometer.metrics.records import Score
from clinometer.models.protocols import Encoder
from clinometer.runs.answers import Clusters
from clinometer.runs.run import Run
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.suites.question import QuestionSpec


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
