"""What readers said of a run, as rows of its scores, whatever its study."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from clinometer._messages import OTHERWISE, first_and_more
from clinometer.errors import RunNotFoundError
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, reading_rows
from clinometer.runs.fingerprint import lost_images
from clinometer.runs.store import Run
from clinometer.studies.common import scores_table

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
    if decider and decider not in readers:
        raise RunNotFoundError(
            f"found {decider!r}, which has not read {run.url}; expected one of {', '.join(readers) or 'none'}; give: "
            f"clinometer read {run.url} --reader {decider}",
            field="verdict_reader",
        )
    answered = [each for reader in readers for each in answered_questions(run, reader)]
    rows = scores_table(reading_rows(answered, decider=decider))
    return pd.concat([scores, rows.reindex(columns=scores.columns)], ignore_index=True) if len(rows) else scores


def answered_questions(run: Run, reader: str) -> Iterator[AnsweredQuestion]:
    """Count a reader's answers to each question, by concept and by known group; a picture counts once."""
    table, lost = run.readings(reader), lost_images(run)
    missing = lost[lost.role == "target"].concept.value_counts()
    for question, spec in run.readers.questions(reader).items():
        rows = table[table.question == question]
        names = list(spec.answers)
        column = rows.answer.map({name: k for k, name in enumerate(names)}).fillna(len(names)).astype(int)
        rows = rows.assign(column=column)
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
        shown = rows[rows.truth.notna()].drop_duplicates(["group", "prompt", "sha256"])
        known = np.zeros((len(names), len(names) + 1), int)
        np.add.at(known, (shown.truth.map({name: k for k, name in enumerate(names)}).to_numpy(int), shown.column), 1)
        groups = tuple(answer.means or name for name, answer in spec.answers.items())
        yield AnsweredQuestion(reader, question, groups, concepts, known, ATTRIBUTE_IMAGES)


def unread_in_words(rows: pd.DataFrame) -> str:
    """Say how many pictures are of no group, and why: ``3 several people and 1 more``."""
    answers = rows["answer"].map(OTHERWISE).where(rows["answer"].notna(), rows["reason"].str.partition(":")[0])
    return first_and_more([f"{count} {what}" for what, count in answers.dropna().value_counts().items()], 4)
