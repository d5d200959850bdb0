"""The editing study: portraits are drawn, each is edited, and before is compared with after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from clinometer.errors import ModelError
from clinometer.metrics.records import Score
from clinometer.models import reference
from clinometer.models.protocols import Editor, EditRequest, Edits, GenerationResult, Generator, NamesStrength, offers
from clinometer.ratings import Rated
from clinometer.report import wording
from clinometer.report.differences import Quantity, RunsCompared, by_label
from clinometer.report.figures import rows_figure
from clinometer.report.page import Page
from clinometer.report.view import Row, scores_table
from clinometer.runs.drawing import draw_parts, note_drawn_images, price_of
from clinometer.runs.plan import Sample, noise_seed, sample_id
from clinometer.runs.progress import Failures, Progress
from clinometer.runs.run import Run
from clinometer.stats.association import association_scores
from clinometer.studies import study
from clinometer.studies.editing.compare import EditedPortraits, compare_edits
from clinometer.studies.editing.design import EditingDesign, Faces, GenderReadings, PortraitGroup
from clinometer.studies.editing.faces import align, average_faces, read_faces
from clinometer.studies.editing.page import PAGE, EditingView, faces_by_group
from clinometer.studies.editing.scores import PIXELS, editing_study, planted_order
from clinometer.suites import EditingSuite, Suite, load_suite
from clinometer.suites.editing import EDIT, PORTRAIT

PORTRAITS_AT_ONCE: Final = 16
"""Portraits whose edits' vectors are in double precision at a time."""


def edit(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw the edits that are missing. The edits of a missing portrait fail, with that as their reason."""
    failures, editor = Failures(run), _editor(generator)

    def edit_part(samples: Sequence[Sample]) -> Iterator[GenerationResult]:
        sources = dict(run.images({sample.source for sample in samples}))
        requests = []
        for sample in samples:
            content = sources[sample.source]
            if content is None:
                yield GenerationResult(sample.id, "failed", None, f"its portrait {sample.source} is missing")
                continue
            image = run.drawn.decode(sample.source, content)
            requests.append(
                EditRequest(id=sample.id, prompt=sample.prompt, seed=sample.seed, image=image, strength=sample.strength)
            )
        yield from failures.check(samples, editor.edit(requests))

    note_drawn_images(editor, run, edits=True)
    with failures.forget_on_failure():
        draw_parts(run, EDIT, edit_part, progress, "editing", paid=price_of(generator) > 0)
        failures.require_one(sample for sample in run.plan if sample.source)


def _editor(generator: Generator) -> Editor:
    if not offers(generator, Edits):
        raise ModelError.unsupported(
            f"{generator.card.name}: it draws images but edits none; expected a model that does"
        )
    return generator.editor()


def _read_edited(run: Run, suite: EditingSuite, design: EditingDesign) -> tuple[list[Sample], np.ndarray, np.ndarray]:
    """Return the portraits, each one's group by position, and the ids of their edits."""
    portraits = [sample for sample in run.plan if sample.role == PORTRAIT]
    names = [group.name for group in design.groups]
    groups = np.array([names.index(portrait.group) for portrait in portraits], int)
    return portraits, groups, edits_of(run, suite, portraits)


def batches_of(run: Run, portraits: Sequence[Sample]) -> np.ndarray | None:
    """Return the batch that each portrait came in, (n,); None where no two of them came in one."""
    known = {key: batch for key, batch in run.drawn.each(["id", "batch"]) if batch}
    labels = [known.get(portrait.id) or f"\0{place}" for place, portrait in enumerate(portraits)]
    return np.array(labels) if len(set(labels)) < len(labels) else None


def _counted_once(
    run: Run, portraits: Sequence[Sample], edits: np.ndarray, faces: Faces
) -> tuple[list[Sample], np.ndarray, Faces, np.ndarray]:
    """Return portraits, edits and faces with repeated pictures and their edits as missing, and which edits are missing.

    The last are the edits that were asked for and not drawn, for example as their portrait was refused. Average faces
    are still of all that was drawn.
    """
    repeats = run.drawn.repeats()
    repeated = np.array([portrait.id in repeats for portrait in portraits], bool)
    repeated_edits = np.isin(edits, list(repeats)) | repeated[:, None, None]
    once = replace(
        faces,
        before=np.where(repeated, np.nan, faces.before),
        after=np.where(repeated_edits, np.nan, faces.after),
        drawn_before=faces.drawn_before & ~repeated,
        drawn_after=faces.drawn_after & ~repeated_edits,
    )
    kept = [replace(portrait, id="") if portrait.id in repeats else portrait for portrait in portraits]
    return kept, np.where(repeated_edits, "", edits), once, ~faces.drawn_after & ~repeated_edits


def design_of_suite(suite: EditingSuite) -> EditingDesign:
    """Return the suite as the metrics see it."""
    return EditingDesign(
        groups=tuple(PortraitGroup(name, group.gender, group.tone or "") for name, group in suite.groups.items()),
        a=suite.genders.a, b=suite.genders.b, strengths=suite.strengths, tones=suite.tones or (),
        professions={name: profession.kind for name, profession in suite.professions.items()},
    )  # fmt: skip


def edits_of(run: Run, suite: EditingSuite, portraits: Sequence[Sample]) -> np.ndarray:
    """Return the ids of the edits: (portraits × professions × strengths)."""
    place = {portrait.id: i for i, portrait in enumerate(portraits)}
    profession = {name: i for i, name in enumerate(suite.professions)}
    strength = {value: i for i, value in enumerate(suite.strengths)}
    ids = np.full((len(portraits), len(profession), len(strength)), "", dtype=object)
    for sample in run.plan:
        if sample.role == EDIT:
            ids[place[sample.source], profession[sample.concept], strength[sample.strength]] = sample.id
    return ids


def gender_readings(
    run: Run, suite: EditingSuite, encoder: str, portraits: Sequence[Sample], edits: np.ndarray
) -> GenderReadings:
    """Read portraits and edits by an encoder: margins of every wording, and the cosine of before and after."""
    n, ids = len(portraits), [*(portrait.id for portrait in portraits), *edits.ravel()]
    with run.directory.listed_once():
        run.vectors.require_finished(encoder)
        texts = run.texts(encoder)
        vectors = run.vectors.rows(encoder, ids, next(map(len, texts.values()), 1))
    for row in range(len(vectors)):  # lengths in float64: the last digits of a float32 sum depend on the processor
        vectors[row] /= np.linalg.norm(vectors[row].astype(np.float64))
    words = {text: vector / np.linalg.norm(vector.astype(np.float64)) for text, vector in texts.items()}
    directions = np.array([words[w.a] - words[w.b] for w in suite.wordings])
    before, after = vectors[:n].astype(np.float64), vectors[n:].reshape(*edits.shape, -1)
    margins, identity = np.empty((*edits.shape, len(directions))), np.empty(edits.shape)
    shown = [each.shows for each in suite.professions.values() if each.shows]  # of all, or of none
    signs = np.array([words[text] for text in shown], np.float64)
    followed = np.full(edits.shape, np.nan)
    for first in range(0, n, PORTRAITS_AT_ONCE):
        some = slice(first, first + PORTRAITS_AT_ONCE)
        in_double = after[some].astype(np.float64)
        margins[some] = in_double @ directions.T
        identity[some] = np.einsum("nd,npsd->nps", before[some], in_double)
        if shown:
            # (n, P, S, P): the difference first, so that an unchanged portrait has gained exactly nothing
            gain = (in_double - before[some][:, None, None]) @ signs.T
            intended = np.diagonal(gain, axis1=1, axis2=3).transpose(0, 2, 1)
            followed[some] = (intended * len(shown) - gain.sum(axis=-1)) / (len(shown) - 1)
    return GenderReadings(encoder, before @ directions.T, margins, identity, followed if shown else None)


def edit_name(suite: Suite, row: Row) -> str:
    """Return the name of a row's edit: its group, its profession or class, and its strength."""
    into = f"into {row.concept or f'“{row.category}”'}, {row.setting}"
    return f"{suite.label_of(row.group)} {into}" if row.group else wording.capitalised(into)


_between_groups = partial(
    Quantity, unit="edit", counted="portrait", over="portraits", name=edit_name, column="difference",
    to_decide="portraits, of all groups",
)  # fmt: skip
_of_a_group = partial(_between_groups, to_decide="portraits, of the group")
DEGREES: Final = "difference, °"

QUANTITIES: Final = (
    _between_groups("flip_asymmetry", "flip asymmetry", positive="edits move more to {a} than in {first}"),
    _between_groups(
        "ita_contrast", "contrast of skin", column=DEGREES, encoder=PIXELS,
        positive="the darker tone, compared with the lighter one, is lightened more than in {first}",
    ),
    _of_a_group(
        "ita_change", "change of skin", column=DEGREES, encoder=PIXELS,
        positive="skin is lightened more than in {first}",
    ),
)  # fmt: skip

ERASURE: Final = (
    _between_groups(
        "erasure_contrast", "soft erasure by tone",
        positive="instructions are left out more often for the tone, compared with the first tone, than in {first}",
    ),
    _of_a_group("soft_erasure", "soft erasure", positive="instructions are left out more often than in {first}"),
)  # fmt: skip
"""Quantities of suites that say what an edit shows."""


def read_by_wordings(run: Run, encoder: str) -> dict[str, float]:
    """Return by id how much nearer each edit is to a than to b.

    That is the mean over the wordings; the study's own reader abstains where they disagree.
    """
    vectors, texts = run.embedded(encoder)
    ids = [sample.id for sample in run.plan if sample.role == EDIT and sample.id in vectors]
    if not texts or not ids:
        return {}
    wordings = study.in_shape(run.suite, EditingSuite).wordings
    a, b = (np.stack([texts[getattr(each, side)] for each in wordings]) for side in ("a", "b"))
    return dict(zip(ids, association_scores(np.stack([vectors[i] for i in ids]), a, b).tolist(), strict=True))


class EditsCompared(RunsCompared[EditingSuite]):
    """Edits of two models, portrait by portrait."""

    view = EditingView
    averaged = False

    def quantities(self, suite: EditingSuite) -> Sequence[Quantity]:
        """List flips and skin, and soft erasure where the suite says what an edit shows."""
        erasure = ERASURE if suite.tones else ERASURE[1:]
        return (*QUANTITIES, *(erasure if any(each.shows for each in suite.professions.values()) else ()))

    def label_a(self, suite: EditingSuite) -> str:
        """Return what a positive number leans to."""
        return suite.genders.a

    def side_by_side(self, views: Mapping[str, EditingView], encoder: str) -> dict[str, Any]:
        """Gather figures and tables of several editing runs, as ``encoder`` reads them."""
        first = next(iter(views.values()))
        asymmetries = {
            model: {f"{row.category}, {row.setting}": row for row in view.class_rows("flip_asymmetry", encoder)}
            for model, view in views.items()
        }
        names = [f"{kind}, {setting}" for kind, setting in first.columns]
        rows_by_cell = [
            (view.by_cell("flip_rate", encoder), view.by_cell("ita_change"), view.by_cell("identity", encoder))
            for view in views.values()
        ]

        def cells(by_cell: Sequence[Mapping[Any, Row]], cell: tuple[str, str, str]) -> list[str]:
            """Write the flip rate, the change of the skin's angle, and the cosine of before and after."""
            flip, change, identity = (rows.get(cell, Row()) for rows in by_cell)
            degrees = f"{wording.signed(change.value, 1)}°" if change.defined else wording.MISSING
            return [wording.percent(flip.value), degrees, wording.number(identity.value)]

        return {
            "reader": encoder,
            "margin": None,
            "asymmetry": rows_figure(
                asymmetries, names, "flip asymmetry", (f"edits move to {first.label_b}", f"to {first.label_a}"),
                name="asymmetry", title="Flip asymmetry of every model",
            ),
            "edits": [
                {
                    "name": f"{wording.capitalised(first.label(group))}, into “{kind}”",
                    "concept": setting,
                    "cells": [cells(by_cell, (group, kind, setting)) for by_cell in rows_by_cell],
                }
                for group in first.suite.groups
                for kind, setting in first.columns
            ],
            "faces": by_label(
                [{"model": model, **row} for model, view in views.items() for row in faces_by_group(view)]
            ),
        }  # fmt: skip


CODES: Final = {
    "White Female": "WF", "White Male": "WM", "Black Female": "BF", "Black Male": "BM",
    "Caucasian Woman": "WF", "Caucasian Man": "WM", "African-American Woman": "BF", "African-American Man": "BM",
}  # fmt: skip
"""The groups of the downstream paper's table, by the codes that a suite gives its groups."""


def edit_cells(table: study.PrintedTable) -> Iterator[study.PrintedCell]:
    """Yield flips of gender and changes of skin by group, class of professions and strength."""
    group_of = _groups_by_code(table)
    columns = {
        "gender_flip_rate": ("flip_rate_single_wording", "gender flips", _reader(table)),
        "ita_change_degrees": ("average_face_ita_change", "change of ITA, degrees", "pixels"),
    }
    for name, (component, label, encoder) in columns.items():
        for row in table.rows:
            group, setting = group_of[CODES[row["group"]]], f"strength {float(row['strength']):g}"
            names = {"category": row["edit_professions"], "group": group, "setting": setting}
            yield table.cell(row, name, label, table.find("editing", component, encoder=encoder, **names), **names)


def cells_in_text(table: study.PrintedTable) -> Iterator[study.PrintedCell]:
    """Yield the flips that the text prints, of women and of men over both skin tones, at the strongest edit."""
    group_of, reader = _groups_by_code(table), _reader(table)
    for row in table.rows:
        groups = [group_of[code] for code in (("WF", "BF") if row["portraits"] == "Women" else ("WM", "BM"))]
        names = {"category": row["edit_professions"], "setting": f"strength {float(row['strength']):g}"}
        rates = [
            table.find("editing", "flip_rate_single_wording", encoder=reader, group=group, **names) for group in groups
        ]
        number = study.mean_number(rates, groups)
        yield table.cell(row, "gender_flip_rate", "gender flips", number, concept=row["portraits"], **names)


def _groups_by_code(table: study.PrintedTable) -> dict[str, str]:
    """Return the groups of the paper's own suite by the codes of the Chicago Face Database."""
    suite = study.in_shape(load_suite(table.publication.suites[0]), EditingSuite)
    return {code: name for name, group in suite.groups.items() for code in group.codes}


def _reader(table: study.PrintedTable) -> str:
    """Return the encoder that reads genders: there is no average over encoders."""
    readers = table.scores.encoder[table.scores.component == "flip_rate_single_wording"]
    return str(readers.iloc[0]) if len(readers) else ""


class Editing(study.Study[EditingSuite]):
    """What an edit of a portrait changes besides what was asked for, by group."""

    key = "editing"
    suite = EditingSuite
    printed_tables: ClassVar[Mapping[str, study.PrintedCells]] = {"editing": edit_cells, "editing_text": cells_in_text}
    stages = (study.PartStage(edit, "editing"),)
    reads_pixels = True
    texts_needed = True

    def page(self, suite: EditingSuite) -> Page[Any]:
        """Show what edits change, by group."""
        return PAGE

    def comparison(self, suite: EditingSuite) -> RunsCompared[EditingSuite]:
        """Compare what edits change."""
        return EditsCompared()

    def score(self, run: Run, resamples: int, pool: study.Pool | None = None) -> study.Scored:
        """Return flips, skin tone and identity before against after, and the average faces of every cell as curves.

        With a ``pool``, its processes read the images.
        """
        suite = study.suite_of(run, EditingSuite)
        design = design_of_suite(suite)
        portraits, groups, edits = _read_edited(run, suite, design)
        alignment, batches = align(run, pool), batches_of(run, portraits)
        faces = read_faces(run, portraits, edits, alignment, pool)
        kept, kept_edits, kept_faces, missing = _counted_once(run, portraits, edits, faces)
        readings = [gender_readings(run, suite, encoder, kept, kept_edits) for encoder in run.encoder_cards]
        rows = editing_study(
            readings, kept_faces, groups, design, seed=run.record["seed"], n_resamples=max(1, resamples // 50),
            n_permutations=2 * resamples - 1, missing=missing, batches=batches,
        )  # fmt: skip
        planted = reference.planted_in(run.model_card)
        if planted is not None:
            rows += planted_order(readings, groups, design, planted, seed=run.record["seed"], batches=batches)
        return study.Scored(scores_table(rows), average_faces(faces, groups, design, alignment))

    def compare(self, pairing: study.Pairing) -> list[Score]:
        """Compare two runs, second minus first; portraits that are pairs are so in plan order."""
        suite = study.suite_of(pairing.runs[0], EditingSuite)
        design = design_of_suite(suite)
        compared = []
        for run in pairing.runs:
            portraits, groups, edits = _read_edited(run, suite, design)
            faces = read_faces(run, portraits, edits, alignment=None)
            portraits, edits, faces, missing = _counted_once(run, portraits, edits, faces)
            readings = [gender_readings(run, suite, encoder, portraits, edits) for encoder in pairing.encoders]
            change = faces.after - faces.before[:, None, None]
            compared.append(EditedPortraits(groups, readings, change, missing, batches_of(run, portraits)))
        return compare_edits(
            compared[0], compared[1], design, paired=pairing.paired, n_permutations=2 * pairing.resamples - 1,
            seed=pairing.seed,
        )  # fmt: skip

    def extend_plan(self, suite: EditingSuite, portraits: Sequence[Sample], part_size: int) -> list[Sample]:
        """Return the portraits, then their edits, in parts of their own.

        The edits of one portrait start from the same noise, whatever the profession, the strength or the model: what
        differs between them is what was asked.
        """
        edits: list[Sample] = []
        first = 1 + max((sample.part for sample in portraits), default=-1)
        for name, profession, strength in suite.edits():
            for portrait in portraits:
                edits.append(
                    Sample(
                        id=sample_id("edit", portrait.id, profession.prompt, strength), source=portrait.id,
                        part=first + len(edits) // part_size, prompt=profession.prompt, concept=name, role=EDIT,
                        group=portrait.group, category=profession.kind, seed=noise_seed("edit", portrait.seed),
                        strength=strength,
                    )
                )  # fmt: skip
        return [*portraits, *edits]

    def check(self, generator: Generator, suite: EditingSuite) -> None:
        """Refuse a generator that cannot edit, or not at several strengths, before anything is drawn."""
        editor = _editor(generator)
        if len(suite.strengths) > 1 and offers(editor, NamesStrength) and not editor.names_strength:
            raise ModelError.unsupported(
                f"{generator.card.name}: its edits have no strength, found {len(suite.strengths)} strengths in suite "
                f"{suite.name}; expected one: copy the suite, with one number under strengths"
            )

    def compared_groups(self, suite: EditingSuite) -> Sequence[study.ComparedGroups]:
        """Return the two genders, matched within tones of skin."""
        sides = {name: (group.gender, group.tone or "") for name, group in suite.groups.items()}
        return (
            study.ComparedGroups(suite.genders.a, suite.genders.b, lambda group, prompt: sides.get(group, ("", ""))),
        )

    def rated(self, suite: EditingSuite) -> Rated:
        """Return how edits are rated; portraits of a gender show it."""
        pair = (suite.genders.a, suite.genders.b)
        shown_by = {gender: [name for name, group in suite.groups.items() if group.gender == gender] for gender in pair}
        return Rated(
            suite.name, pair, "", {name.lower(): name for name in pair}, (EDIT,), (PORTRAIT,), shown_by,
            read=read_by_wordings,
        )  # fmt: skip


EDITING: Final = Editing()
