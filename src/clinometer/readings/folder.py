"""Read a folder of pictures: known pictures show the reader's errors; free answers are tested by concept."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer._cores import unbroken
from clinometer._messages import as_text
from clinometer.errors import InvalidInputError, ModelError
from clinometer.metrics import (
    ConfusionMatrix,
    CorrectedShares,
    ReaderShares,
    ReadShare,
    confusion_matrix,
    shares_as_read,
    shares_by_reader,
)
from clinometer.metrics.reading import OpenAnswers
from clinometer.models.files import image_files, read_manifest
from clinometer.models.images import at_hand, decode_image
from clinometer.models.protocols import Card, Encoder, RemembersAnswers, SeesImages, offers
from clinometer.models.readers import Question, Reader, Reading, ReadingStopped, require_answer
from clinometer.models.weights import file_hash
from clinometer.readings.fit import unfit_pictures
from clinometer.readings.scores import clusters_of, distribute, read_pictures, require_counterfactuals
from clinometer.runs import Directory, Progress, Run
from clinometer.runs.answers import ADDED, ANSWERED, KINDS, KNOWN, KNOWN_SCHEMA, MOST_TRIES, failed, reader_question
from clinometer.runs.embeddings import checked_vectors
from clinometer.runs.encoding import AT_ONCE
from clinometer.runs.ledger import part_name
from clinometer.runs.progress import naming_errors
from clinometer.runs.reading import require_readings
from clinometer.suites.question import QuestionSpec

SCHEMA: Final = pa.schema({"file": pa.string(), "sha256": pa.string()} | {
    name: kind for name, kind in ANSWERED.items() if name != "question"
})  # fmt: skip
VECTORS_SCHEMA: Final = pa.schema({"sha256": pa.string(), "vector": pa.list_(pa.float32())})


@dataclass(frozen=True)
class FolderReadings:
    """What a reader answered about a folder's pictures.

    Attributes
    ----------
    card, question : the reader's card, and what it was asked.
    table : a row a picture: file (relative to the folder), sha256, answer, probabilities, words, reason, and its group
        where that is known (``truth``). ``answer`` is a group, or none, several or unclear; None has a reason.
    confusion : of the pictures whose group is known; None where no truth was given. Rows are groups in the question's
        order; "cannot tell" counts whatever is no group.
    answers : (K + 1,) counts over the pictures whose group is not known; the last one of unread pictures.
    read : of each group, its share among those of them that are read, as read, with bounds over the unread.
    shares : of the groups among those, corrected for the reader's errors; None without truth, or where all are known.
    quoted : which of the shares may be quoted, whether the errors carry over, and how many pictures to label if not.
    opened : of an open question, whose table has ``concept`` and ``cluster`` in place of ``truth``.
    vectors : of each row's picture by an encoder, NaN where it has none; None where no encoder compared them.
    """

    card: Card
    question: Question
    table: pd.DataFrame
    confusion: ConfusionMatrix | None
    answers: np.ndarray
    shares: CorrectedShares | None
    opened: OpenAnswers | None = None
    quoted: ReaderShares | None = None
    vectors: np.ndarray | None = None

    @property
    def read(self) -> tuple[ReadShare, ...]:
        """Return the shares among the pictures that are read; see Attributes."""
        return shares_as_read(self.answers)


def read_folder(
    folder: str | os.PathLike[str],
    reader: Reader,
    spec: QuestionSpec,
    progress: Progress,
    *,
    encoder: Encoder | None = None,
    threshold: float = 0.9,
    truth: str | os.PathLike[str] | None = None,
    same_pictures: bool = False,
    out: str | os.PathLike[str],
    budget: float | None = None,
) -> FolderReadings:
    """Read a folder's pictures; what lies in ``out`` already is not read again.

    Readings are kept in parts as soon as a part is read, in a folder of ``out`` for each reader and question. A
    picture is known again by its bytes, so it may be renamed.

    Parameters
    ----------
    truth : a manifest with ``file`` and ``group``, of some of the pictures or of all; for an open question with
        ``concept``, of all, without which the concept of a picture is the folder in which it lies. A column
        ``model`` or ``concept`` beside ``group`` says which pictures are of one kind: errors may differ from kind to
        kind.
    same_pictures : whether the pictures of ``truth`` were drawn at random from the folder's.
    encoder : of an open question, as of :func:`clinometer.readings.scores.clusters_of`. Of another it says
        whether the pictures of ``truth`` look like the others; by default what a reader by an encoder reads with.
    threshold : of an open question, as of :func:`clinometer.readings.scores.clusters_of`.
    budget : what the missing answers may cost, by the reader's price; checked before the first is asked for.

    Raises
    ------
    InvalidInputError, ImportManifestError
        No picture, a truth that does not fit folder and question, or answers that cost more than ``budget``.
    ModelError, RunError
        The reader does not fit the pictures, cannot answer the question, or does not answer at all; a part that cannot
        be read or written.
    """
    question = reader_question(spec)
    with naming_errors("reader", reader.card.name):
        require_answer(reader, question)
    _require_use(encoder, question, truth)
    place = Path(folder)
    names = [path.relative_to(place).as_posix() for path in image_files([place])]
    if question.is_open:
        truths = _read_concepts(place, names, truth)
        require_counterfactuals(spec, truths.values())
    else:
        truths, kinds = ({}, {}) if truth is None else read_groups(place, truth, question)
    if truth is None:  # else the labelled pictures show how well it reads
        decoded = (decode_image(at_hand(place / name)).image for name in names)
        if unfit := unfit_pictures(asdict(reader.card), (image for image in decoded if image is not None)):
            raise ModelError.unsupported(unfit)
    hashes = {name: file_hash(place / name) for name in names}
    directory = Directory(out)
    rows = _read_missing(directory, reader, question, place, hashes, progress, budget)
    column = "concept" if question.is_open else "truth"
    table = pd.DataFrame([{**rows[hashes[name]], "file": name, column: truths.get(name)} for name in names])
    if question.is_open:
        opened, clusters = distribute(table, spec, clusters_of(table["answer"], encoder, threshold))
        table = table.assign(cluster=clusters)
        return FolderReadings(reader.card, question, table, None, np.zeros(1, int), None, opened)
    table = table.assign(**{name: table["file"].map(kinds.get(name, {})) for name in KINDS})
    compares = truth is not None and not same_pictures
    comparing = (encoder or getattr(reader, "encoder", None)) if compares else None
    vectors = comparing and _embed(directory, comparing, {place / name: hashes[name] for name in names}, progress)
    return _judge(reader.card, question, table, vectors, has_truth=truth is not None, same_pictures=same_pictures)


def _read_missing(
    directory: Directory,
    reader: Reader,
    question: Question,
    place: Path,
    hashes: Mapping[str, str],
    progress: Progress,
    budget: float | None,
) -> dict[str, Mapping[str, object]]:
    """Read the pictures that are not read yet, part by part; return the row of each hash.

    ``hashes`` : by the picture's name in ``place``.
    """
    where = f"{reader.card.fingerprint}-{question.fingerprint}"
    kept = _read_kept(directory, where)
    waiting = [name for name, key in hashes.items() if key not in kept]
    price = float(getattr(reader, "price_per_image", 0.0))
    if budget is not None and price * len(waiting) > budget:
        raise InvalidInputError.over_budget(
            f"{len(waiting):,} answers at {price:g} each cost {price * len(waiting):,.2f}, which is more than "
            f"{budget:,.2f}; raise it, or give fewer pictures",
            field="budget",
        )
    if offers(reader, RemembersAnswers):
        reader.has_answered |= any(not failed(row) for row in kept.values())
    metadata = {"card": json.dumps(asdict(reader.card)), "question": json.dumps(asdict(question))}
    first, size = len(directory.names(where, ".parquet")), max(reader.batch_size, 1)
    progress.start(f"reading with {reader.card.name}", len(hashes), len(hashes) - len(waiting))
    for number, start in enumerate(range(0, len(waiting), size), start=first):
        part = waiting[start : start + size]
        readings, stopped = _read(reader, question, [place / name for name in part])
        rows = [
            {"file": as_text(name), "sha256": hashes[name], **asdict(reading)}
            for name, reading in zip(part, readings, strict=True)
            if reading is not None
        ]
        with unbroken():
            table = pa.Table.from_pylist(rows, SCHEMA.with_metadata(metadata))
            directory.write_table(part_name(where, number), table)
        if stopped is not None:
            raise stopped
        kept.update({row["sha256"]: row for row in rows})
        progress.advance(len(part))
    progress.finish()
    return kept


def _require_use(encoder: Encoder | None, question: Question, truth: str | os.PathLike[str] | None) -> None:
    """Refuse an encoder of no use: with a closed question it compares known pictures with the others."""
    if encoder is None or question.is_open or (truth is not None and offers(encoder, SeesImages)):
        return
    wanted = "truth, which says what some pictures show" if truth is None else "one that embeds images"
    raise InvalidInputError.unsupported(
        f"{encoder.card.name} compares known pictures with the others: expected {wanted}; or leave it out",
        field="encoder",
    )


def _embed(directory: Directory, encoder: Encoder, files: Mapping[Path, str], progress: Progress) -> np.ndarray:
    """Embed the files, with their hashes, that are not embedded yet: (n, d), NaN of what has no vector."""
    where, kept = f"vectors-{encoder.card.fingerprint}", dict[str, Sequence[float] | None]()
    parts = directory.names(where, ".parquet")
    for name in parts:
        table = directory.read_table(name, way_out="remove it, and its pictures are embedded again")
        kept |= {row["sha256"]: row["vector"] for row in table.to_pylist()}
    waiting = [(file, key) for file, key in files.items() if key not in kept]
    progress.start(f"encoding with {encoder.card.name}", len(files), len(files) - len(waiting))
    for number, start in enumerate(range(0, len(waiting), AT_ONCE), start=len(parts)):
        some = waiting[start : start + AT_ONCE]
        images = {key: decode_image(at_hand(file)).image for file, key in some}
        there = {key: image for key, image in images.items() if image is not None}
        embedded = encoder.encode_images(list(there.values())) if there else np.zeros((0, 1))
        vectors = dict(zip(there, checked_vectors(embedded, encoder.card, list(there)), strict=True))
        part = {key: None if key not in vectors or np.isnan(vectors[key]).all() else vectors[key] for key in images}
        rows = {"sha256": list(part), "vector": list(part.values())}
        directory.write_table(part_name(where, number), pa.table(rows, VECTORS_SCHEMA))
        kept |= part
        progress.advance(len(some))
    progress.finish()
    lacking = np.full(max((len(x) for x in kept.values() if x is not None), default=1), np.nan)
    return np.array([lacking if (x := kept[key]) is None else x for key in files.values()], np.float64)


def read_groups(
    folder: Path, path: str | os.PathLike[str], question: Question
) -> tuple[dict[str, str], dict[str, dict[str, str | None]]]:
    """Read from a manifest which group each picture shows, and by which model and of which concept, where given."""
    manifest = read_manifest(folder, Path(path))
    for row in manifest:
        if row.group not in question.groups:
            raise InvalidInputError.unknown_name(
                f"{manifest.path.name}, line {row.line}, group: found {row.group or 'nothing'!r}, expected one of "
                f"{', '.join(question.groups)}; leave out pictures of none of them"
            )
    kinds = {name: {row.file: getattr(row, name) for row in manifest} for name in KINDS}
    return {row.file: str(row.group) for row in manifest}, kinds


def _read_concepts(folder: Path, names: Sequence[str], path: str | os.PathLike[str] | None) -> dict[str, str]:
    """Read which concept each picture was drawn for: as a manifest says, or the folder that it lies in."""
    if path is None:
        return {name: name.partition("/")[0] for name in names if "/" in name}
    manifest = read_manifest(folder, Path(path))
    for row in manifest:
        if row.concept is None:
            raise InvalidInputError.missing(
                f"{manifest.path.name}, line {row.line}, concept: nothing found, expected what the picture was drawn "
                "for, as answers to an open question are tested by concept"
            )
    return {row.file: str(row.concept) for row in manifest}


def _read_kept(directory: Directory, where: str) -> dict[str, Mapping[str, object]]:
    """Return the rows that are there already, by the picture's hash; failed ones are left out, to be tried again."""
    kept: dict[str, Mapping[str, object]] = {}
    tries = Counter[str]()
    for name in directory.names(where, ".parquet"):
        rows = directory.read_table(name, way_out="remove it, and its pictures are read again", added=ADDED).to_pylist()
        tries.update({row["sha256"] for row in rows if failed(row)})
        kept |= {row["sha256"]: row for row in rows if not failed(row) or tries[row["sha256"]] >= MOST_TRIES}
    return kept


def _read(
    reader: Reader, question: Question, files: Sequence[Path]
) -> tuple[list[Reading | None], ReadingStopped | None]:
    """Read some files; one that is no picture has no answer, with the reason. An interrupt leaves out the rest."""
    decoded, stopped = [decode_image(at_hand(file)) for file in files], None
    images = [each.image for each in decoded if each.image is not None]
    answers: Iterator[Reading | None]
    try:
        with naming_errors("reader", reader.card.name):
            returned = reader.read(images, question)
        require_readings(returned, len(images), question, reader.card.name)
        answers = iter(returned)
    except ReadingStopped as interrupt:
        answers, stopped = iter(interrupt.readings), interrupt
    readings = [
        next(answers) if each.image is not None else Reading(None, reason=each.reason or "it cannot be read")
        for each in decoded
    ]
    return readings, stopped


def _judge(
    card: Card, question: Question, table: pd.DataFrame, vectors: np.ndarray | None, *, has_truth: bool,
    same_pictures: bool,
) -> FolderReadings:  # fmt: skip
    groups = question.groups
    pictures = read_pictures(table, groups, table[list(KINDS)], vectors)
    known = table["truth"].notna().to_numpy()
    answers = np.bincount(pictures.answers[~known], minlength=len(groups) + 1)
    if not has_truth:
        return FolderReadings(card, question, table, None, answers, None)
    truths = table["truth"][known].map({group: index for index, group in enumerate(groups)}).to_numpy(int)
    matrix = confusion_matrix(truths, pictures.answers[known], len(groups))
    if not answers.sum():
        return FolderReadings(card, question, table, matrix, answers, None, vectors=vectors)
    quoted = shares_by_reader(
        pictures.where(~known), pictures.where(known), truths, groups=len(groups), same_pictures=same_pictures
    )
    return FolderReadings(card, question, table, matrix, answers, quoted.corrected, quoted=quoted, vectors=vectors)


def read_known(
    run: Run,
    readers: Sequence[Reader],
    spec: QuestionSpec,
    truth: str | os.PathLike[str],
    progress: Progress,
    *,
    budget: float | None = None,
    encoder: Encoder | None = None,
) -> None:
    """Read the labelled pictures in the folder of ``truth`` with a run's readers; store their errors in the run.

    ``encoder`` : one of the run's, by which the labelled pictures are compared with the run's own.

    Raises
    ------
    InvalidInputError, ImportManifestError, ModelError, RunError
        As :func:`read_folder`; the run's pictures have no vectors of the encoder.
    """
    known_by = {card["fingerprint"] for card in run.encoder_cards.values()}
    if encoder is not None and encoder.card.fingerprint not in known_by:
        raise InvalidInputError.unknown_name(
            f"encoder {encoder.card.name}: the run's pictures have no vectors of it; expected one of "
            f"{', '.join(run.encoder_cards) or 'none'}, or give: clinometer score {run.url} --encoder "
            f"{encoder.card.name}"
        )
    folder = Path(truth).parent
    out = Path("readings") / folder.resolve().name
    for reader in readers:
        read = read_folder(folder, reader, spec, progress, truth=truth, out=out, budget=budget, encoder=encoder)
        vectors = [None] * len(read.table) if encoder is None or read.vectors is None else list(read.vectors)
        by = None if encoder is None else encoder.card.fingerprint
        table = read.table.assign(question=spec.name, encoder=by, vector=pd.Series(vectors, read.table.index))
        labelled = table[table.truth.notna()][KNOWN_SCHEMA.names].astype(object)
        rows = labelled.where(labelled.notna(), None).to_dict("records")  # a column that lacks some may hold NaN
        run.answers.write_beside(KNOWN, reader.card, spec.name, rows)
    run.end_stage()


def keep_clusters(
    run: Run, readers: Sequence[Reader], asked: Sequence[QuestionSpec], encoder: Encoder, threshold: float
) -> None:
    """Merge answers to open questions that mean the same, and record in the run what was merged and by whom.

    Raises
    ------
    ModelError, InvalidInputError
        The encoder reads no text; a threshold out of its range.
    """
    for reader in readers:
        table = run.readings(reader.card.name)
        for spec in (spec for spec in asked if spec.kind == "open"):
            said = table.answer[(table.question == spec.name) & (table.role == "target")]
            run.answers.write_clusters(reader.card, spec.name, clusters_of(said, encoder, threshold))
    run.end_stage()
