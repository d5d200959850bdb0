"""As which group a run's pictures are read, prompt by prompt, and whether they still show their concept.

The readers of the run read them; where none has, its encoders do, by the words of the groups (`nearest_group`), so
that an audit needs no reader to be told. How often a reader errs is taken from labelled pictures alone.
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
from clinometer.readings.known import known_errors, pictures_as_read, unread_in_words, vectors_of_some
from clinometer.runs.run import Run
from clinometer.stats.association import association_scores, nearest_group, unit_vectors
from clinometer.studies.steerability.compare import ReadAsAsked
from clinometer.studies.steerability.figures import BY_WORDS
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
    looked_at, found = vectors_of_some(run, tables.values()), False
    for reader, table in tables.items():
        for question, spec in run.readers.questions(reader).items():
            if {answer.means or name for name, answer in spec.answers.items()} >= set(suite.groups):
                rows, found = table[table.question == question], True
                known, encoders = known_errors(run, reader, question, rows, looked_at)
                yield _read_by_reader(run, suite, known, encoders, rows, drawn, shown)
    if not found:
        yield from _read_by_encoders(run, suite, drawn, shown)


def _read_by_reader(
    run: Run,
    suite: SteerabilitySuite,
    known: AnsweredQuestion,
    encoders: Sequence[Mapping[str, np.ndarray]],
    rows: pd.DataFrame,
    drawn: pd.DataFrame,
    shown: pd.DataFrame,
) -> ReadRun:
    """Return the run as a reader sees it; ``rows`` : its answers to the question, ``known`` : how it errs."""
    names = list(run.readers.questions(known.reader)[known.question].answers)
    order = _order(known.groups, list(suite.groups))
    place = {names[at]: k for k, at in enumerate(order)}
    said = rows.drop(columns=[name for name in drawn if name != "id" and name in rows])
    given = drawn.merge(said, on="id", how="left")
    cells = tuple(
        replace(
            cell, pictures=_reordered(pictures_as_read(run, own, names, encoders), order), unread=unread_in_words(own)
        )
        for cell, own in _cells(suite, given, given.answer.map(place), len(names), shown)
    )
    meaning = dict(zip(names, known.groups, strict=True))
    answers = given[["id"]].assign(answer=given.answer.map(meaning).fillna(""))
    return ReadRun(_in_order(known, order), cells, answers)


def _read_by_encoders(
    run: Run, suite: SteerabilitySuite, drawn: pd.DataFrame, shown: pd.DataFrame
) -> Iterator[ReadRun]:
    groups = tuple(suite.groups)
    for encoder in run.encoder_cards:
        answers = read_by_words(run, suite, encoder)
        known = AnsweredQuestion(encoder, BY_WORDS, groups, (), np.zeros((len(groups), len(groups) + 1), int), "")
        cells = tuple(cell for cell, _ in _cells(suite, drawn, drawn["id"].map(answers), len(groups), shown))
        named = drawn[["id"]].assign(answer=drawn["id"].map({key: groups[k] for key, k in answers.items()}).fillna(""))
        yield ReadRun(known, cells, named)


def read_as_asked(seen: ReadRun, noises: Collection[str] | None = None) -> list[ReadAsAsked]:
    """Return of each concept which pictures asked for a group are read as it, in the order of their noises.

    ``noises`` : those whose pictures are looked at; all by default.
    """
    found: dict[str, ReadAsAsked] = {}
    for cell in seen.cells:
        if not cell.asked:
            found[cell.concept] = ReadAsAsked(cell.concept, cell.category, {})
            continue
        order = np.argsort(cell.noise, kind="stable")
        kept = order if noises is None else order[np.isin(cell.noise[order], list(noises))]
        hits = cell.answers[kept] == seen.asked.groups.index(cell.asked)
        before = found[cell.concept]
        found[cell.concept] = replace(
            before, hits={**before.hits, cell.asked: hits}, missing=before.missing + cell.missing
        )
    return list(found.values())


def read_by_words(run: Run, suite: SteerabilitySuite, encoder: str) -> dict[str, int]:
    """Read every picture by an encoder as the group, from 0, whose words it is nearest to: by the picture's id."""
    run.vectors.require_finished(encoder)
    texts = run.texts(encoder)
    words = [np.stack([texts[word] for word in group.words]) for group in suite.groups.values()] if texts else []
    answers: dict[str, int] = {}
    for _, vectors in run.vectors.each_part(encoder) if words else ():
        if vectors:
            images = np.stack(list(vectors.values()))
            cosines = np.stack([association_scores(images, own, words[-1]) for own in words], axis=1)
            answers |= dict(zip(vectors, nearest_group(cosines).tolist(), strict=True))
    return answers


def drawn_pictures(run: Run) -> pd.DataFrame:
    """Return a row a picture that was asked for: id, concept, category, group, noise, status, sha256.

    ``noise`` is empty of an imported picture: nobody knows what it started from.
    """
    planned = pd.DataFrame(
        run.plan.rows("id", "concept", "category", "group", "seed", "file"),
        columns=["id", "concept", "category", "group", "seed", "file"],
    )
    planned["noise"] = planned.seed.astype(str).where(planned.file == "", "")
    there = pd.DataFrame(run.drawn.each(["id", "status", "sha256"]), columns=["id", "status", "sha256"])
    left_out = run.left_out()
    there.loc[there["id"].isin(left_out), "status"] = "left out"
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
    own = {key: place[concept] for key, concept in run.plan.rows("id", "concept")}
    texts_by_encoder = {}
    for encoder, card in run.encoder_cards.items():
        texts = run.texts(encoder) if not unfit(card, run.model_card, suite) and len(prompts) > 1 else {}
        if texts:
            texts_by_encoder[encoder] = unit_vectors(np.stack([texts[prompt] for prompt in prompts]))
    found: dict[str, tuple[float, float]] = {}
    for part in run.parts if texts_by_encoder else ():
        cosines: dict[str, list[np.ndarray]] = {}
        for encoder, units in texts_by_encoder.items():
            vectors = run.vectors.of_part(encoder, part)
            for key, of_prompts in zip(vectors, unit_vectors(np.stack([*vectors.values()])) @ units.T, strict=True):
                cosines.setdefault(key, []).append(of_prompts)
        for key, by_encoder in cosines.items():
            mean = np.mean(by_encoder, axis=0)
            found[key] = float(mean[own[key]] - mean.mean()), float(mean[own[key]] >= mean.max())
    return pd.DataFrame.from_dict(found, orient="index", columns=["fidelity", "shows"])


def _cells(
    suite: SteerabilitySuite, drawn: pd.DataFrame, answers: pd.Series, groups: int, shown: pd.DataFrame
) -> Iterator[tuple[SteeredPictures, pd.DataFrame]]:
    """Yield the pictures of each prompt, and their rows of ``drawn``; a picture that is there again counts once.

    ``answers`` : one of ``groups`` from 0, NaN for none, in the rows of ``drawn``.
    """
    table = drawn.assign(answered=answers.to_numpy(np.float64))
    by_prompt = {key: own for key, own in table.groupby(["concept", "group"], sort=False)}
    for category, concept in suite.concepts:
        for group in ("", *suite.groups):
            planned = by_prompt.get((concept.name, group), table[:0])
            there = planned[planned.status == "ok"]
            own = there.drop_duplicates("sha256")
            fidelity, shows = shown.reindex(own["id"]).to_numpy(np.float64).T
            yield SteeredPictures(
                concept.name, category, group, own.answered.fillna(groups).to_numpy(int), own.noise.to_numpy(str),
                shows, fidelity, len(planned) - len(there),
                len(there) - len(own),
            ), own  # fmt: skip


def _order(groups: Sequence[str], first: Sequence[str]) -> np.ndarray:
    """Return the places of groups, those that come ``first`` before the others."""
    return np.array(
        [*(groups.index(name) for name in first), *(k for k, name in enumerate(groups) if name not in first)]
    )


def _in_order(asked: AnsweredQuestion, order: np.ndarray) -> AnsweredQuestion:
    """Return what is known with the groups in another order."""
    k = len(order)
    place = np.append(np.argsort(order), k)
    return replace(
        asked, groups=tuple(asked.groups[at] for at in order), known=asked.known[order][:, [*order, k]],
        pictures=None if asked.pictures is None else _reordered(asked.pictures, order),
        truths=None if asked.truths is None else place[asked.truths],
    )  # fmt: skip


def _reordered(pictures: ReadPictures, order: np.ndarray) -> ReadPictures:
    """Number the answers by the groups in another order; none of them stays the last."""
    return replace(pictures, answers=np.append(np.argsort(order), len(order))[pictures.answers])
