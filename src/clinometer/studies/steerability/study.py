"""The steerability study: how a run is read, scored, compared and shown.

The readings are those of the run's readers; without any, its encoders read by the words of the groups
(`nearest_group`), so that an audit needs no reader. How often a reader errs is known from labelled pictures alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer.errors import InvalidInputError, RunMismatchError, SuiteError
from clinometer.metrics.reading import AnsweredQuestion
from clinometer.metrics.records import Score
from clinometer.metrics.steerability import steerability_rows
from clinometer.metrics.steered import SteeredPictures, gap_evidence, rows_when_stopped
from clinometer.metrics.transport import ReadPictures
from clinometer.metrics.verdict import StoppingRule
from clinometer.readings.fit import unfit
from clinometer.readings.scores import known_errors, pictures_as_read, unread_in_words, vectors_of_some
from clinometer.report import wording
from clinometer.report.differences import Quantity, RunsCompared
from clinometer.report.page import Page
from clinometer.report.view import Row, Scores, scores_table
from clinometer.runs.run import Run
from clinometer.runs.several import Comparison
from clinometer.stats.association import association_scores, nearest_group, unit_vectors
from clinometer.stats.share_gap import images_for_gap
from clinometer.studies.steerability.compare import ReadAsAsked, compare_steerability
from clinometer.studies.steerability.page import BY_WORDS, PAGE, SteerabilityView, points_words
from clinometer.studies.study import ComparedGroups, Pairing, Pool, Scored, Study, in_shape, suite_of
from clinometer.suites import Suite
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


READ: Final = "read"
"""The curve of a run's pictures as readers read them, for the page: ``id``, ``reader``, ``answer``."""


READERS: Final = {
    "without errors": ((1.0, 1.0), None),
    "recalls of .95, 200 labelled of each": ((0.95, 0.95), (200.0, 200.0)),
    "recalls of .98 and .80, 200 labelled of each": ((0.98, 0.8), (200.0, 200.0)),
}
"""Readers that a plan without a pilot assumes: their recalls of the two groups, and labelled pictures of each."""
GAPS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def gap_name(suite: Suite, row: Row) -> str:
    """Return the name of a difference: its concept and, of more than two groups, the pair."""
    return row.concept if len(in_shape(suite, SteerabilitySuite).groups) == 2 else f"{row.concept}, {row.group}"


GAP: Final = Quantity(
    "gap", "gap", "concept", "Δ gap", "images per prompt, of both runs", "concept",
    "{a} are drawn more readily than in {first}", encoder="", family="concepts", name=gap_name,
)  # fmt: skip


class GapsCompared(RunsCompared[SteerabilitySuite]):
    """Gaps of two models, concept by concept."""

    view = SteerabilityView
    bars = ("images",)
    averaged = False
    sums_up = False

    def quantities(self, suite: SteerabilitySuite) -> Sequence[Quantity]:
        """List what is compared."""
        return (GAP,)

    def label_a(self, suite: SteerabilitySuite) -> str:
        """Return what a positive number leans to."""
        return suite.label_of(next(iter(suite.groups)))

    def side_by_side(self, views: Mapping[str, SteerabilityView], encoder: str) -> dict[str, Any]:
        """Gather success of every concept and group in several runs, and their gaps as read."""
        first = next(iter(views.values()))
        group, *others = first.suite.groups

        def cells(view: SteerabilityView, concept: str) -> list[str]:
            rows = [view.success.get((concept, name)) for name in first.suite.groups]
            gaps = [view.gaps.get((concept, f"{group}-{other}")) for other in others]
            return [*(wording.percent(row.value) if row else wording.MISSING for row in rows), *map(points_words, gaps)]

        return {
            "columns": [*(first.label(name) for name in first.suite.groups),
                        *(f"gap to {first.label(other)}" if len(others) > 1 else "gap" for other in others)],
            "concepts": [{"name": name, "cells": [cells(view, name) for view in views.values()]}
                         for name in first.suite.concept_names()],
        }  # fmt: skip

    def verdict(self, comparison: Comparison, labels: tuple[str, str]) -> str:
        """Count the concepts in which the second run favours a group more, or less."""
        rows = Scores.from_frame(comparison.scores).select("comparison", "gap", encoder="")
        lost = sum(map(wording.not_measured, rows))
        if lost == len(rows):
            return f"{labels[1]} compared with {labels[0]}: no gap could be compared."
        gaps, differ = wording.count(len(rows) - lost, "gap"), sum(map(wording.decided, rows))
        finding = f"none of {gaps} is shown to differ"
        if differ:
            finding = f"{wording.numeral(differ)} of {gaps} {'differs' if differ == 1 else 'differ'}"
        return f"{labels[1]} compared with {labels[0]}: {finding}."


class Steerability(Study[SteerabilitySuite]):
    """Whether a group that a prompt names is drawn, and one as readily as another."""

    key = "steerability"
    suite = SteerabilitySuite
    texts_needed = True

    def page(self, suite: SteerabilitySuite) -> Page[Any]:
        """Show success by group, and gaps."""
        return PAGE

    def comparison(self, suite: SteerabilitySuite) -> RunsCompared[SteerabilitySuite]:
        """Compare gaps."""
        return GapsCompared()

    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Compute every number of the study, reader by reader. Nothing is resampled."""
        suite = suite_of(run, SteerabilitySuite)
        rows, read = list[Score](), list[pd.DataFrame]()
        for seen in read_runs(run, suite):
            scores = steerability_rows(seen.cells, seen.asked, margin=suite.margin)
            if run.record.get("until") is not None:
                scores = rows_when_stopped(scores, seen.cells, seen.asked, suite.margin)
            rows += scores
            read.append(seen.answers.assign(curve=READ, reader=seen.asked.reader, question=seen.asked.question))
        curves = pd.concat(read, ignore_index=True) if read else pd.DataFrame({name: [] for name in ("curve", "id")})
        return Scored(scores_table(rows), curves)

    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare gaps, second minus first, by the first reader that read both runs."""
        runs = pairing.runs
        suite = suite_of(runs[0], SteerabilitySuite)
        seen = [{(each.asked.reader, each.asked.question): each for each in read_runs(run, suite)} for run in runs]
        both = [key for key in seen[0] if key in seen[1]]
        if not both:
            raise RunMismatchError(f"{runs[0].url}: no reader has read it and {runs[1].url}; read both by the same one")
        noises = None if pairing.seeds is None else {str(seed) for seed in pairing.seeds}
        first, second = (read_as_asked(by_reader[both[0]], noises) for by_reader in seen)
        return compare_steerability(
            first, second, list(suite.groups), reader=both[0][0], question=both[0][1], paired=pairing.paired,
            margin=suite.margin, n_permutations=2 * pairing.resamples - 1, seed=pairing.seed,
        )  # fmt: skip

    def open_concepts(self, run: Run, rule: StoppingRule, encoders: Sequence[str]) -> list[str]:
        """List the concepts whose gaps the pictures so far do not decide, by the reader whose verdicts stand."""
        suite = suite_of(run, SteerabilitySuite)
        decider = str(run.record.get("options", {}).get("verdict_reader") or "")
        seen = sorted(read_runs(run, suite), key=lambda each: each.asked.reader != decider)[0]
        stands = gap_evidence(seen.cells, seen.asked, margin=suite.margin)
        return [concept for concept, stand in stands.items() if not stand.stops(rule)]

    def check_rounds(self, suite: SteerabilitySuite, labelled: bool) -> None:
        """Refuse more than two groups, and readers whose errors nobody knows while pictures are drawn."""
        if len(suite.groups) > 2:
            raise SuiteError.unsupported(
                f"suite {suite.name}: {len(suite.groups)} groups, and --until follows the gap between two; give a "
                "number of --images"
            )
        if not labelled:
            raise InvalidInputError.missing(
                f"suite {suite.name}: no gap is decided while nobody knows how often the reader errs; give labelled "
                "pictures with --reader NAME --truth FILE, or leave --until out",
                field="until",
            )

    def plan_unseen(self, suite: SteerabilitySuite, power: float, alpha: float) -> pd.DataFrame:
        """Count the images of each prompt that find a gap in one concept, by its size and by how the reader errs."""
        pairs = len(suite.concepts) * (len(suite.groups) - 1)
        rows = [
            {"effect": gap, "reader": words, "to_detect": images_for_gap(
                gap, recall=recall, labelled=labelled, concepts=pairs, power=power, alpha=alpha
            )}
            for gap in GAPS
            for words, (recall, labelled) in READERS.items()
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def compared_groups(self, suite: SteerabilitySuite) -> Sequence[ComparedGroups]:
        """Compare refusals of the first group with those of each other, prompts matched by their concept."""
        concept_of = {text: each.name for _, each in suite.concepts for text in each.asked.values()}
        first, *others = suite.groups
        return [
            ComparedGroups(first, other, lambda group, prompt: ("", concept_of.get(prompt, ""))) for other in others
        ]

    def reading_words(self, suite: SteerabilitySuite) -> Mapping[str, Sequence[str]]:
        """Return the words by which an encoder finds each group."""
        return {name: group.words for name, group in suite.groups.items()}


STEERABILITY: Final = Steerability()
