"""Encoding and reading: the embeddings and the answers that are missing, and none twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np

from clinometer._cores import WORKERS, one_behind, one_thread, unbroken
from clinometer._memory import give_back
from clinometer._messages import OTHERWISE, quoted
from clinometer.errors import ModelError, RunNotFoundError
from clinometer.models.images import saved_again
from clinometer.models.protocols import (
    BeginsPrepared,
    Card,
    Encoder,
    PreparesImages,
    ReadsTexts,
    RemembersAnswers,
    offers,
)
from clinometer.models.readers import Question, Reader, Reading, ReadingStopped
from clinometer.runs.answers import AGAIN, AT_END, MOST_TRIES, failed, question_of
from clinometer.runs.embeddings import LEAVES_OUT
from clinometer.runs.progress import HOPELESS, Progress, named
from clinometer.runs.store import Run
from clinometer.suites.question import QuestionSpec

_PICTURE: Final = ["id", "status", "sha256"]
"""Columns of a run's samples that say which picture each has."""

AT_ONCE = 8
"""Images that a thread decodes in one go, at most."""


def encode(run: Run, encoder: Encoder, progress: Progress) -> None:
    """Embed the texts of the suite and the images that this encoder has not seen.

    While texts or a part are embedded, the next part's images are decoded and resized, and the last one's vectors are
    written.

    Raises
    ------
    RunNotFoundError
        Images are still to be drawn.
    RunMismatchError
        The run holds embeddings of another encoder of that name.
    """
    name = encoder.card.name
    parts = run.parts
    missing = [part for part in parts if not run.vectors.has(name, part)]
    require_drawn(run, f"clinometer score {run.url} --encoder {name}")
    run.encoders.begin(encoder.card)
    done = len(run.plan) - sum(len(parts[part]) for part in missing)
    progress.start(f"encoding with {name}", len(run.plan), done)
    with (
        forgotten(run, name),
        ThreadPoolExecutor(WORKERS) as decoders,
        ThreadPoolExecutor(1) as reader,
        one_behind() as write,
    ):
        hands = PartEncoder(run, encoder, write, lambda part: progress.advance(len(parts[part])))
        ahead = deque(reader.submit(prepared_images, run, part, hands.prepare, decoders) for part in missing[:1])
        hands.read_texts()
        for index, part in enumerate(missing):
            with named("encoder", name):
                ids, images = ahead.popleft().result()
            if index + 1 < len(missing):
                ahead.append(reader.submit(prepared_images, run, missing[index + 1], hands.prepare, decoders))
            hands.embed(part, ids, images, probe=index == 0)
        hands.finish()
    if run.is_whole or not parts:
        hands.measure_saving()
    run.encoders.finish(encoder.card)
    progress.finish()


def take_vectors(run: Run, others: Sequence[Run], card: Card) -> int:
    """Copy the vectors of the parts whose every picture other runs have embedded, and return how many pictures that is.

    A picture is the same where its id and the hash of its file are, an encoder where the fingerprint of its card is.
    """
    others = [each for each in others if each.encoder_cards.get(card.name, {}).get("fingerprint") == card.fingerprint]
    missing = [part for part in run.parts if not run.vectors.has(card.name, part)] if others else []
    planned = [set(other.plan.column("id").to_pylist()) for other in others] if missing else []
    taken = 0
    for part in missing:
        rows = run.drawn.part(part, _PICTURE).to_pylist()
        wanted = {row["id"]: row["sha256"] for row in rows if row["status"] == "ok"}
        vectors = dict[str, np.ndarray]()
        for other, there in zip(others, planned, strict=True):
            for number in sorted(set(other.plan.parts_of([key for key in wanted if key in there]))):
                hashes = {row["id"]: row["sha256"] for row in other.drawn.part(number, _PICTURE).to_pylist()}
                same = other.vectors.of_part(card.name, number).items()
                vectors |= {key: vector for key, vector in same if key in wanted and hashes[key] == wanted[key]}
        if wanted and vectors.keys() == wanted.keys():
            run.encoders.begin(card)
            run.vectors.write(card.name, part, list(wanted), np.stack([vectors[key] for key in wanted]))
            taken += len(wanted)
    return taken


def remaining_images(run: Run) -> int:
    """Count the images that are still to be drawn; those that are read from files cost nothing."""
    return sum(not sample.file for part in run.parts for sample in run.drawn.missing(part))


def require_drawn(run: Run, then: str = "") -> None:
    """Refuse a run of which images are still to be drawn; of some of its parts, who has it whole did so.

    Raises
    ------
    RunNotFoundError
        The message names the way out, and what comes ``then``.
    """
    undrawn = sum(len(run.drawn.missing(part)) for part in run.parts) if run.is_whole else 0
    if undrawn:
        after = f", and then: {then}" if then else ""
        raise RunNotFoundError(
            f"{run.url}: {undrawn} of {len(run.plan)} images are not drawn yet; give the command that began the run "
            f"again{after}"
        )


@contextmanager
def forgotten(run: Run, encoder: str) -> Iterator[None]:
    """Keep nothing of an encoder that gives no vectors: with one that cannot finish, a run would have no scores.

    Of a run that shows some of its parts, who has it whole does so.
    """
    try:
        yield
    except NoVectorsError as error:
        if not run.is_whole:
            raise
        run.encoders.forget(encoder)
        raise NoVectorsError(f"{error}; mend it, or name another encoder: what is drawn is kept") from error


def prepared_images(
    run: Run, part: int, prepare: Callable[[list[Any]], list[Any]], decoders: Executor
) -> tuple[list[str], list[Any]]:
    """Decode the images of a part that are there: ids and what a model takes of each."""
    rows = [row for row in run.drawn.read(part) if row["status"] == "ok"]
    ids, n_bytes = [row["id"] for row in rows], sum(len(row["image"]["bytes"]) for row in rows)
    give_back(n_bytes)  # what it took to read them

    def prepared(chunk: list[dict[str, Any]]) -> list[Any]:
        return prepare([run.drawn.decode(row["id"], row["image"].pop("bytes")) for row in chunk])

    # A few at a time: each call of an image processor, and each that waits for a thread, costs some of Python's time.
    size = min(AT_ONCE, max(1, len(rows) // (2 * WORKERS)))
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    items = list(chain.from_iterable(decoders.map(prepared, chunks)))
    give_back(n_bytes)
    return ids, items


# --- An encoder at work on part after part of a run: the device has one part while another is fetched and written ----


Embed = Callable[[list[Any]], Callable[[], np.ndarray]]
"""Begins to embed what was prepared; the vectors are there when what it returns is called."""


class PartEncoder:
    """Embeds parts and hands their vectors on to be written.

    Parameters
    ----------
    write : called with a function and its arguments, as of :func:`clinometer._cores.one_behind`.
    done : told of each part whose vectors are handed on.
    """

    def __init__(
        self,
        run: Run,
        encoder: Encoder,
        write: Callable[..., None],
        done: Callable[[int], None] = lambda part: None,
    ) -> None:
        self.prepare, self._embed = _halves(encoder)
        self.name = encoder.card.name
        self._run, self._encoder, self._write, self._done = run, encoder, write, done
        self._width: int | None = None
        self._begun: deque[tuple[int, Sequence[str], Callable[[], Any]]] = deque()
        self._at_once = 1 if offers(encoder, BeginsPrepared) else 0

    def read_texts(self) -> None:
        """Embed the texts of the suite unless they are; images are then to have vectors as long as theirs."""
        with named("encoder", self.name), one_thread():
            if not self._run.vectors.has_texts(self.name):
                texts, vectors = self._run.suite.texts() if offers(self._encoder, ReadsTexts) else [], NO_VECTORS
                if texts:
                    vectors = require_vectors(self._encoder.encode_texts(texts), self.name, texts)
                    again = self._encoder.encode_texts(texts[:PROBED])
                    again = require_vectors(again, self.name, texts[:PROBED], vectors.shape[1])
                    require_same(vectors[:PROBED], again, self._encoder.card, "text")
                self._run.vectors.write_texts(self.name, texts, vectors)
        self._width = next((len(vector) for vector in self._run.texts(self.name).values()), None)

    def measure_saving(self) -> None:
        """Measure how far saving a picture again moves its vector, of some pictures spread over the plan; once.

        Two pictures that are closer may be one (:mod:`clinometer.stats.repeats`). It comes after the parts: it is left
        out while those of these pictures are still to be embedded, and a picture that the encoder fails on, once it
        has embedded them all, is passed over.
        """
        plan, vectors = self._run.plan, self._run.vectors
        some = sorted({int(at) for at in np.linspace(0, len(plan) - 1, MEASURED)}) if len(plan) else []
        ids = [plan[at].id for at in some]
        parts = set(plan.parts_of(ids))
        if vectors.has_saved_again(self.name) or not all(vectors.has(self.name, part) for part in parts):
            return
        rows = list[tuple[str, str, float]]()
        for key, content in self._run.drawn.images(ids):
            if content is not None:
                with suppress(ModelError), named("encoder", self.name):
                    rows += self._moved(key, content)
        vectors.write_saved_again(self.name, rows)

    def _moved(self, key: str, content: bytes) -> list[tuple[str, str, float]]:
        """Measure how far each way of saving a picture again moves its vector; empty where it has no direction."""
        image = self._run.drawn.decode(key, content).convert("RGB")
        changed = saved_again(image)
        seen = self._embed(self.prepare([image, *changed.values()]))()
        seen = shaped_vectors(seen, self.name, [key] * (1 + len(changed)), self._width).astype(float)
        seen[~np.isfinite(seen).all(axis=1)] = np.nan
        lengths = np.linalg.norm(seen, axis=1, keepdims=True)  # a blank picture may have no direction
        units = np.divide(seen, lengths, out=np.full_like(seen, np.nan), where=lengths > 0)
        apart = np.round(np.linalg.norm(units[1:] - units[0], axis=1), 4)
        moved = zip(changed, apart.tolist(), strict=True)
        return [(key, change, distance) for change, distance in moved if np.isfinite(distance)]

    def embed(self, part: int, ids: Sequence[str], prepared: list[Any], *, probe: bool) -> None:
        """Begin with a part, and hand on what is no longer awaited.

        Raises
        ------
        NoVectorsError
            What it gives cannot be used. ``probe`` : or is not the same twice.
        """
        with named("encoder", self.name):
            vectors = self._embed(prepared) if prepared else list
            if probe and prepared:
                card = self._encoder.card
                first = checked_vectors(vectors(), card, ids, self._width)
                again = checked_vectors(self._embed(prepared[:PROBED])(), card, ids[:PROBED], first.shape[1])
                require_same(first[:PROBED], again, card, "image")
        self._begun.append((part, ids, vectors))
        if len(self._begun) > self._at_once:  # the next one is in the device's hands while this one is fetched
            self._hand_on()

    def finish(self) -> None:
        """Hand on all that was begun."""
        while self._begun:
            self._hand_on()

    def _hand_on(self) -> None:
        part, ids, vectors = self._begun.popleft()
        with named("encoder", self.name):
            embeddings = checked_vectors(vectors(), self._encoder.card, ids, self._width) if ids else NO_VECTORS
        self._width = embeddings.shape[1] if ids else self._width
        self._write(self._run.vectors.write, self.name, part, ids, embeddings)
        self._done(part)


def checked_vectors(output: Any, card: Card, ids: Sequence[str], width: int | None = None) -> np.ndarray:
    """Check image vectors; those that the encoder's card leaves out are NaN throughout."""
    vectors = shaped_vectors(output, card.name, ids, width)
    left_out = np.isnan(vectors).all(axis=1) & bool(card.settings.get(LEAVES_OUT))
    kept = [key for key, is_out in zip(ids, left_out, strict=True) if not is_out]
    require_vectors(vectors[~left_out], card.name, kept, width)
    return vectors


def _halves(encoder: Any) -> tuple[Callable[[list[Any]], list[Any]], Embed]:
    """Split an encoder into preprocessing and model; one that does not tell them apart does all in the second."""
    prepares = offers(encoder, PreparesImages)
    prepare = encoder.prepare_images if prepares else list
    if prepares and offers(encoder, BeginsPrepared):
        return prepare, encoder.begin_prepared
    encode = encoder.encode_prepared if prepares else encoder.encode_images

    def begin(images: list[Any]) -> Callable[[], np.ndarray]:
        vectors = encode(images)
        return lambda: vectors

    return prepare, begin


# --- What an encoder gives, checked before it is stored --------------------------------------------------------------


NO_VECTORS: Final = np.zeros((0, 1), np.float32)
"""Parquet has no vectors of no length."""


MEASURED: Final = 16
"""Pictures that are saved again, to see how far their vectors move."""

PROBED: Final = 4
"""Images, and texts, that are embedded a second time."""

EPSILON: Final = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number."""


class NoVectorsError(ModelError):
    """What an encoder gave is not what it was asked for."""


def require_vectors(output: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """Return what an encoder gave, as (n, d) float32: a vector for each name, of one width with those before.

    A vector with NaN or infinity, or of zeros, would poison every score it enters, and is refused where it arises,
    before it is stored. A text without a word may have no direction: scores leave the blank prompt out then.
    """
    vectors = shaped_vectors(output, encoder, names, width)
    not_finite = ~np.isfinite(vectors).all(axis=1)
    zero = ~vectors.any(axis=1) & np.array([bool(name.strip()) for name in names], bool)
    for bad, what in ((not_finite, "not finite"), (zero, "zero, and have no direction")):
        if bad.any():
            raise NoVectorsError(
                f"encoder {encoder}: {int(bad.sum())} of {len(vectors)} embeddings are {what}, first that of "
                f"{names[int(bad.argmax())]!r}: its weights are damaged, or too large for the precision it runs in"
            )
    return vectors


def require_same(first: np.ndarray, again: np.ndarray, card: Card, what: str) -> None:
    """Refuse an encoder that gives other vectors the second time, but for rounding: scores of it would mean nothing.

    ::

        |first − again| / |first| ≤ √ε        of the card's dtype, float32 where it names none
    """
    epsilon = EPSILON.get(str(card.settings.get("dtype")), EPSILON["float32"])
    first, again = np.nan_to_num(first), np.nan_to_num(again)
    lengths = np.maximum(np.linalg.norm(first, axis=1), np.finfo(np.float32).tiny)
    apart = float((np.linalg.norm(first.astype(float) - again, axis=1) / lengths).max(initial=0.0))
    if not apart <= epsilon**0.5:
        raise NoVectorsError(
            f"encoder {card.name}: one {what}, embedded twice, gives vectors that are {apart:.2g} of their length "
            "apart: they are random in part"
        )


def shaped_vectors(output: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """Check an encoder's output, (n, d) float32: with one vector too few each image would get its neighbour's."""
    try:
        vectors = np.asarray(output)
        with np.errstate(over="ignore"):  # named below
            vectors = vectors.astype(np.float32) if vectors.dtype.kind in "fiu" else np.zeros(())
    except (TypeError, ValueError, RuntimeError):  # a ragged list, a tensor with its gradient or on a device
        vectors = np.zeros(())
    if vectors.ndim != 2 or len(vectors) != len(names) or vectors.shape[1] != (width or vectors.shape[1] or -1):
        shape = f" of {output.dtype}, {tuple(output.shape)}" if hasattr(output, "shape") else ""
        raise NoVectorsError(
            f"encoder {encoder}: found {type(output).__name__}{shape}, expected an array of numbers, "
            f"({len(names)}, {width or 'dimension'}): a vector for each image or text, all of one length"
        )
    return vectors


# --- Reading: the answers that are missing, and none twice -----------------------------------------------------------


def waiting_answers(run: Run, card: Card, asked: Collection[str]) -> dict[int, dict[str, list[str]]]:
    """Find the images that a reader is still to be asked about, by question, of each part that has any."""
    record = {"name": card.name, "fingerprint": card.fingerprint}
    with run.directory.listed_once():
        missing = {part: run.answers.missing(record, part, asked) for part in run.parts if run.drawn.has(part)}
    return {part: by_question for part, by_question in missing.items() if by_question}


def answers_to_come(run: Run, reader: Reader, asked: Sequence[QuestionSpec], *, further: int = 0) -> int:
    """Count the answers that a reader would still have to give, ``further`` images and those not drawn among them."""
    waiting = waiting_answers(run, reader.card, [spec.name for spec in asked])
    return sum(len(ids) for each in waiting.values() for ids in each.values()) + len(asked) * (
        further + remaining_images(run)
    )


def read(run: Run, reader: Reader, progress: Progress, *, once_more: bool = False) -> None:
    """Ask a reader, part by part, what it has not answered; and before each part the same again, where the run says so.

    While it reads a part, the next part's images are decoded, and the last one's answers are written.

    Parameters
    ----------
    once_more : ask the same again although all is read.

    Raises
    ------
    RunNotFoundError
        Images are still to be drawn.
    ModelError
        It fails image after image, or what it answers is no reading.
    """
    card = reader.card
    record = (run.readers.cards | run.readers.begun)[card.name]
    questions = {name: question_of(spec) for name, spec in run.readers.questions(card.name).items()}
    require_drawn(run, f"clinometer read {run.url} --reader {card.name}")
    parts = run.parts
    waiting = waiting_answers(run, card, questions)
    progress.start(f"reading with {card.name}", len(run.plan), len(run.plan) - sum(len(parts[p]) for p in waiting))
    asking = _Asking(reader, questions, has_answered=run.answers.has_answer(record))
    again = _AskedAgain(run, record, asking, [name for name, each in questions.items() if not each.is_open])
    with (
        ThreadPoolExecutor(WORKERS) as decoders,
        ThreadPoolExecutor(1) as fetcher,
        one_behind() as write,
    ):
        fetch = partial(fetcher.submit, partial(prepared_images, run, prepare=list, decoders=decoders))
        order = list(waiting)
        ahead = deque(fetch(part) for part in order[:1])
        for index, part in enumerate(order):
            ids, decoded = ahead.popleft().result()
            if index + 1 < len(order):
                ahead.append(fetch(order[index + 1]))
            images, hashes = dict(zip(ids, decoded, strict=True)), run.answers.hashes(part)
            rows = run.answers.of_part(record, part)
            again.ask(part, decoders, partial(write, run.answers.write_beside, AGAIN, card))
            try:
                for name, wanted in waiting[part].items():
                    asking.ask(name, {each: images[each] for each in wanted}, hashes, rows)
            finally:  # what is read of a part may be paid for
                if rows:
                    names = dict.fromkeys(name for _, name in rows)  # also of questions that are asked no longer
                    in_order = [rows[each, name] for each in ids for name in names if (each, name) in rows]
                    with unbroken():
                        write(run.answers.write, reader.card, part, in_order)
            again.remember(part, rows)
            progress.advance(len(parts[part]))
        if order or once_more:
            again.ask(AT_END, decoders, partial(write, run.answers.write_beside, AGAIN, card))
    finish_reading(run, reader.card, progress)


class _Asking:
    """A reader at work on a run: it is stopped once it fails image after image.

    An image that failed before says nothing about the reader, once that has answered about others.
    """

    def __init__(self, reader: Reader, questions: Mapping[str, Question], *, has_answered: bool) -> None:
        self._reader, self._questions, self._has_answered, self._in_a_row = reader, questions, has_answered, 0
        if has_answered and offers(reader, RemembersAnswers):
            reader.has_answered = True

    def ask(
        self, name: str, images: Mapping[str, Any], hashes: Mapping[str, str], rows: dict[tuple[str, str], Any]
    ) -> None:
        """Add the answers to a question about images to the rows of their part, those before an interrupt too."""
        ids, size, card = list(images), max(self._reader.batch_size, 1), self._reader.card
        for start in range(0, len(ids), size):
            some, readings = ids[start : start + size], list[Reading | None]()
            try:
                with named("reader", card.name):
                    given = self._reader.read([images[each] for each in some], self._questions[name])
                require_readings(given, len(some), self._questions[name], card.name)
                readings += given
            except ReadingStopped as stopped:
                readings += stopped.readings
                raise
            finally:
                for each, reading in zip(some, readings, strict=False):
                    if reading is not None:
                        row = {"id": each, "sha256": hashes[each], "question": name, **asdict(reading)}
                        rows[each, name] = row | {"tries": self._count(row, rows.get((each, name)))}
            if self._in_a_row >= HOPELESS[0]:
                raise ModelError(
                    f"reader {card.name}: it failed {self._in_a_row} images in a row, the last because: "
                    f"{given[-1].reason}; what is read is kept, and the same command goes on from there"
                )

    def _count(self, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> int:
        """Return how often an answer has been asked for, and count whether it is one more that failed in a row."""
        tries = 1 + (before["tries"] if before is not None and failed(before) else 0)
        if not failed(row):
            self._has_answered, self._in_a_row = True, 0
        elif tries == 1 or not self._has_answered:
            self._in_a_row += 1
        return tries


RETESTS: Final = 4
"""Rounds in which the same is asked at first: how often a reader answers otherwise by chance takes some to show."""


def answers_again(run: Run, reader: Reader, asked: Sequence[QuestionSpec], again: int) -> int:
    """Count the answers that asking about pictures again before each part takes, of closed questions.

    ``again`` : of how many; 0 is as the run keeps it, of which nothing is asked once all is read.
    """
    closed = [spec.name for spec in asked if spec.kind != "open"]
    record = {"name": reader.card.name, "fingerprint": reader.card.fingerprint}
    rounds = len(waiting_answers(run, reader.card, closed))
    kept = (run.readers.cards | run.readers.begun).get(reader.card.name, {}).get("again", 0) if rounds else 0
    rounds, again = rounds + 1, again or kept
    if not run.answers.beside(AGAIN, record):
        rounds += RETESTS - 1 - (not run.answers.has_answer(record))
    return again * len(closed) * rounds


class _AskedAgain:
    """The first pictures that a reader has read, of which it is asked again; see :mod:`clinometer.stats.drift`.

    What a round of asking brought is kept at once, so that one that is stopped is not lost; the next one is another.
    A worker, which has some of the parts, asks nothing again.
    """

    def __init__(self, run: Run, record: Mapping[str, Any], asking: _Asking, questions: Sequence[str]) -> None:
        self._run, self._asking, self._questions = run, asking, questions
        self._most = int(record.get("again", 0)) if run.is_whole else 0
        self._rows: list[dict[str, Any]] = run.answers.beside(AGAIN, record) if self._most else []
        self._images, self._wanted, self._home = dict[str, Any](), dict[str, list[str]](), -1
        if self._rows:
            ids = {row["id"] for row in self._rows}
            self._home = next(part for key, part in run.plan.rows("id", "part") if key in ids)
            for row in self._rows:
                own = self._wanted.setdefault(row["question"], [])
                if row["id"] not in own:
                    own.append(row["id"])
        elif self._most:
            for part in run.parts:
                if not self._wanted and run.drawn.has(part):
                    self.remember(part, run.answers.of_part(record, part))

    def remember(self, part: int, rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
        """Choose the first pictures of a part that is read, where none are chosen."""
        if self._most and not self._wanted:
            for each, name in rows:
                own = self._wanted.setdefault(name, []) if name in self._questions else []
                if name in self._questions and len(own) < self._most and not failed(rows[each, name]):
                    own.append(each)
            self._home, self._wanted = part, {name: own for name, own in self._wanted.items() if own}

    def ask(self, before: int, decoders: Executor, write: Callable[[str, list[dict[str, Any]]], object]) -> None:
        """Ask again before a part, several times the first time; nothing where nothing is read yet."""
        if not self._wanted:
            return
        if not self._images:
            self._images = dict(zip(*prepared_images(self._run, self._home, list, decoders), strict=True))
        hashes = self._run.answers.hashes(self._home)
        first = 1 + max((row["round"] for row in self._rows), default=-1)
        for number in range(first, first + (1 if self._rows else RETESTS)):
            for name, ids in self._wanted.items():
                given = dict[tuple[str, str], Any]()
                try:
                    there = {each: self._images[each] for each in ids if each in self._images}
                    self._asking.ask(name, there, hashes, given)
                finally:
                    about = {"round": number, "part": before}
                    names = ("id", "sha256", "question", "answer", "reason")
                    self._rows += [about | {key: row[key] for key in names} for row in given.values()]
                    if given:
                        with unbroken():
                            write(name, [row for row in self._rows if row["question"] == name])


def finish_reading(run: Run, card: Card, progress: Progress) -> None:
    """Record that a reader is done with the whole run, and say how many answers failed."""
    if not run.is_whole:
        return
    questions, record = run.readers.questions(card.name), {"name": card.name, "fingerprint": card.fingerprint}
    waiting = waiting_answers(run, card, questions)
    to_come = sum(len(ids) for by_question in waiting.values() for ids in by_question.values())
    given_up = run.answers.failures(record, questions) - to_come
    run.readers.finish(card, failed=to_come)
    progress.finish()
    if to_come:
        progress.note(f"{to_come} answers of {card.name} failed; the same command asks for them again")
    if given_up:
        progress.note(
            f"{given_up} answers of {card.name} failed {MOST_TRIES} times and are left out; --retry-failed asks again"
        )


def require_readings(readings: Any, count: int, question: Question, name: str) -> None:
    """Refuse what is not one reading an image, of an option or with a reason: a plug-in may give anything.

    Raises
    ------
    ModelError
        The message says what was found.
    """
    if not isinstance(readings, list | tuple) or len(readings) != count:
        found = f"{len(readings)} answers" if isinstance(readings, list | tuple) else type(readings).__name__
        raise ModelError(f"reader {name}: found {found} to {count} images, expected a list of one an image")
    options = () if question.is_open else (*question.groups, *OTHERWISE)
    for reading in readings:
        if not isinstance(reading, Reading) or (reading.answer is None) is not bool(reading.reason):
            raise ModelError(
                f"reader {name}: found {quoted(str(reading))}, expected a Reading with an answer or a reason"
            )
        _require_kinds(reading, name)
        if reading.answer is not None and options and reading.answer not in options:
            raise ModelError(
                f"reader {name}: found the answer {quoted(reading.answer)} to question {question.name}, expected one "
                f"of {', '.join(options)}"
            )
        given = reading.probabilities
        if given is not None and not _are_probabilities(given, len(options)):
            raise ModelError(
                f"reader {name}: found the probabilities {quoted(str(given))}, expected {len(options)} from 0 to "
                f"1 that sum to 1, of {', '.join(options)}"
            )


def _are_probabilities(given: Any, count: int) -> bool:
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        return False
    return values.shape == (count,) and bool((values >= 0).all()) and abs(float(values.sum()) - 1) < 1e-3


MOST_SAID: Final = 4_000
"""Characters of what a reader says of a picture."""


def _require_kinds(reading: Reading, name: str) -> None:
    """Refuse what no table of readings holds, or only at the expense of what is shown of it."""
    for key in ("answer", "words", "reason", "prompt_sha256"):
        text = getattr(reading, key)
        try:
            fits = text is None or (isinstance(text, str) and len(text) <= MOST_SAID and bool(text.encode() or True))
        except UnicodeEncodeError:
            fits = False
        if not fits:
            raise ModelError(
                f"reader {name}: found {quoted(text)} as a reading's {key}, expected text of {MOST_SAID:,} characters "
                "or fewer"
            )
    if not (reading.size is None or 0 <= reading.size < np.inf):
        raise ModelError(f"reader {name}: found the size {reading.size!r}, expected a share of the picture's area")
