"""As which group a run's pictures are read, prompt by prompt, and whether they still show their concept.

The readings are those of the run's readers; without any, its encoders read by the words of the groups
(`nearest_group`), so that an audit needs no reader. How often a reader errs is known from labelled pictures alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from clinometer.metrics.reading import AnsweredQuestion
from clinometer.metrics.steered import SteeredPictures
from clinometer.metrics.transport import ReadPictures
from clinometer.readings.fit import unfit
from clinometer.readings.scores import known_errors, pictures_as_read, unread_in_words, vectors_of_some
from clinometer.runs.run import Run
from clinometer.stats.association import association_scores, nearest_group, unit_vectors
from clinometer.studies.steerability.compare import ReadAsAsked
from clinometer.studies.steerability.page import BY_WORDS
from clinometer.suites.steerability import SteerabilitySuite


@dataclass(frozen=True)
class ReadRun:
    """A run as one reader sees it.

    Attributes
    ----------
    asked : the reader and its question, whose first groups are the suite's in their order, and what is known of errors.
    cells : the pictures of every prompt, each different one once.
    answers : a row a picture: ``id``, ``answer`` (a group of the question, or empty for none of them).
    """

    asked: AnsweredQuestion
    cells: tuple[SteeredPictures, ...]
    answers: pd.DataFrame


def read_runs(run: Run, suite: SteerabilitySuite) -> Iterator[ReadRun]:
    """Yield the run as each of its readers sees it that was asked about the suite's groups, or else each encoder."""
    drawn, shown = drawn_pictures(run), shown_concepts(run, suite)
    tables = {reader: run.readings(reader) for reader in run.readers.cards}
    vectors, is_read = vectors_of_some(run, tables.values()), False
    for reader, table in tables.items():
        for question, spec in run.readers.questions(reader).items():
            if {answer.means or name for name, answer in spec.answers.items()} >= set(suite.groups):
                rows, is_read = table[table.question == question], True
                known, encoders = known_errors(run, reader, question, rows, vectors)
                yield _read_by_reader(run, suite, known, encoders, rows, drawn, shown)
    if is_read:
        return
    groups = tuple(suite.groups)
    for encoder in run.encoder_cards:
        answers = read_by_words(run, suite, encoder)
        known = AnsweredQuestion(encoder, BY_WORDS, groups, (), np.zeros((len(groups), len(groups) + 1), int), "")
        cells = tuple(cell for cell, _ in _cells(suite, drawn, drawn["id"].map(answers), len(groups), shown))
        named = drawn[["id"]].assign(answer=drawn["id"].map({key: groups[k] for key, k in answers.items()}).fillna(""))
        yield ReadRun(known, cells, named)


def _read_by_reader(
    run: Run, suite: SteerabilitySuite, known: AnsweredQuestion, encoders: Sequence[Mapping[str, np.ndarray]],
    rows: pd.DataFrame, drawn: pd.DataFrame, shown: pd.DataFrame,
) -> ReadRun:  # fmt: skip
    """Return the run as a reader sees it; ``rows`` : its answers to the question, ``known`` : how it errs."""
    names = list(run.readers.questions(known.reader)[known.question].answers)
    others = (place for place, name in enumerate(known.groups) if name not in suite.groups)
    order = np.array([*map(known.groups.index, suite.groups), *others])  # the suite's groups first
    place = {names[at]: k for k, at in enumerate(order)}
    answered = rows.drop(columns=[name for name in drawn if name != "id" and name in rows])
    table = drawn.merge(answered, on="id", how="left")
    cells = []
    for cell, pictures in _cells(suite, table, table.answer.map(place), len(names), shown):
        read = _reordered(pictures_as_read(run, pictures, names, encoders), order)
        cells.append(replace(cell, pictures=read, unread=unread_in_words(pictures)))
    meaning = dict(zip(names, known.groups, strict=True))
    answers = table[["id"]].assign(answer=table.answer.map(meaning).fillna(""))
    return ReadRun(_in_order(known, order), tuple(cells), answers)


def read_as_asked(seen: ReadRun, noises: Collection[str] | None = None) -> list[ReadAsAsked]:
    """Return for each concept which pictures asked for a group are read as it, in the order of their noises.

    ``noises`` : those whose pictures count; all by default.
    """
    by_concept: dict[str, ReadAsAsked] = {}
    for cell in seen.cells:
        if not cell.asked:
            by_concept[cell.concept] = ReadAsAsked(cell.concept, cell.category, {})
            continue
        order = np.argsort(cell.noise, kind="stable")
        kept = order if noises is None else order[np.isin(cell.noise[order], list(noises))]
        hits = cell.answers[kept] == seen.asked.groups.index(cell.asked)
        before = by_concept[cell.concept]
        by_concept[cell.concept] = replace(
            before, hits={**before.hits, cell.asked: hits}, missing=before.missing + cell.missing
        )
    return list(by_concept.values())


def read_by_words(run: Run, suite: SteerabilitySuite, encoder: str) -> dict[str, int]:
    """Read every picture by an encoder as the group, from 0, whose words it is nearest to: by the picture's id."""
    run.vectors.require_finished(encoder)
    texts = run.texts(encoder)
    words = [np.stack([texts[word] for word in group.words]) for group in suite.groups.values()] if texts else []
    answers: dict[str, int] = {}
    for _, vectors in run.vectors.each_part(encoder) if words else ():
        if vectors:
            images = np.stack(list(vectors.values()))
            cosines = np.stack([association_scores(images, group, words[-1]) for group in words], axis=1)
            answers |= dict(zip(vectors, nearest_group(cosines).tolist(), strict=True))
    return answers


def drawn_pictures(run: Run) -> pd.DataFrame:
    """Return a row a picture that was asked for: id, concept, category, group, noise, status, sha256.

    ``noise`` is empty for an imported picture: what it started from is not known.
    """
    columns = ["id", "concept", "category", "group", "seed", "file"]
    planned = pd.DataFrame(run.plan.rows(*columns), columns=columns)
    planned["noise"] = planned.seed.astype(str).where(planned.file == "", "")
    columns = ["id", "status", "sha256"]
    there = pd.DataFrame(run.drawn.each(columns), columns=columns)
    there.loc[there["id"].isin(run.left_out()), "status"] = "left out"
    return planned.drop(columns=["seed", "file"]).merge(there, on="id", how="left")


def shown_concepts(run: Run, suite: SteerabilitySuite) -> pd.DataFrame:
    """Return how well each picture shows its concept, by id: ``fidelity`` and ``shows``.

    ::

        f(x) = mean over encoders of cos(x, t_c) − mean_t cos(x, t)          in [−2, 2]
        x shows c where cos(x, t_c) ≥ cos(x, t) for every t: the own prompt is the first, as in leaning's fidelity

    t are the concepts' neutral prompts, whatever was asked for; of several encoders the mean cosine decides. Encoders
    that do not fit the model or the suite are left out; with none, or of one concept, there are no rows.
    """
    prompts = list(dict.fromkeys(concept.prompt for _, concept in suite.concepts))
    place = {concept.name: prompts.index(concept.prompt) for _, concept in suite.concepts}
    places = {key: place[concept] for key, concept in run.plan.rows("id", "concept")}
    texts_by_encoder = {}
    for encoder, card in run.encoder_cards.items():
        texts = run.texts(encoder) if not unfit(card, run.model_card, suite) and len(prompts) > 1 else {}
        if texts:
            texts_by_encoder[encoder] = unit_vectors(np.stack([texts[prompt] for prompt in prompts]))
    rows: dict[str, tuple[float, float]] = {}
    for part in run.parts if texts_by_encoder else ():
        cosines: dict[str, list[np.ndarray]] = {}
        for encoder, units in texts_by_encoder.items():
            vectors = run.vectors.of_part(encoder, part)
            for key, row in zip(vectors, unit_vectors(np.stack([*vectors.values()])) @ units.T, strict=True):
                cosines.setdefault(key, []).append(row)
        for key, by_encoder in cosines.items():
            mean = np.mean(by_encoder, axis=0)
            rows[key] = float(mean[places[key]] - mean.mean()), float(mean[places[key]] >= mean.max())
    return pd.DataFrame.from_dict(rows, orient="index", columns=["fidelity", "shows"])


def _cells(
    suite: SteerabilitySuite, drawn: pd.DataFrame, answers: pd.Series, groups: int, shown: pd.DataFrame
) -> Iterator[tuple[SteeredPictures, pd.DataFrame]]:
    """Yield the pictures of each prompt, and their rows of ``drawn``; a repeated picture counts once.

    ``answers`` : one of ``groups`` from 0, NaN for none, in the rows of ``drawn``.
    """
    table = drawn.assign(answered=answers.to_numpy(np.float64))
    by_prompt = dict(iter(table.groupby(["concept", "group"], sort=False)))
    for category, concept in suite.concepts:
        for group in ("", *suite.groups):
            planned = by_prompt.get((concept.name, group), table[:0])
            there = planned[planned.status == "ok"]
            once = there.drop_duplicates("sha256")
            fidelity, shows = shown.reindex(once["id"]).to_numpy(np.float64).T
            yield SteeredPictures(
                concept.name, category, group, once.answered.fillna(groups).to_numpy(int), once.noise.to_numpy(str),
                shows, fidelity, len(planned) - len(there), len(there) - len(once),
            ), once  # fmt: skip


def _in_order(asked: AnsweredQuestion, order: np.ndarray) -> AnsweredQuestion:
    """Return a question with its groups in another order."""
    k = len(order)
    place = np.append(np.argsort(order), k)
    return replace(
        asked, groups=tuple(asked.groups[at] for at in order), known=asked.known[order][:, [*order, k]],
        pictures=None if asked.pictures is None else _reordered(asked.pictures, order),
        truths=None if asked.truths is None else place[asked.truths],
    )  # fmt: skip


def _reordered(pictures: ReadPictures, order: np.ndarray) -> ReadPictures:
    """Return pictures with answers numbered by the groups in another order; "none" keeps the last number."""
    return replace(pictures, answers=np.append(np.argsort(order), len(order))[pictures.answers])
