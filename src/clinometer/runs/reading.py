"""Ask readers for the answers that are missing, each once, unless a question is repeated on purpose."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import numpy as np

from clinometer._cores import WORKERS, one_behind, unbroken
from clinometer._messages import OTHERWISE, quoted
from clinometer.errors import ModelError
from clinometer.models.protocols import Card, RemembersAnswers, offers
from clinometer.models.readers import Question, Reader, Reading, ReadingStopped
from clinometer.runs.answers import AGAIN, AT_END, MOST_TRIES, failed, reader_question
from clinometer.runs.encoding import prepared_images, remaining_images, require_drawn
from clinometer.runs.progress import HOPELESS, Progress, naming_errors
from clinometer.runs.run import Run
from clinometer.suites.question import QuestionSpec


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
    questions = {name: reader_question(spec) for name, spec in run.readers.questions(card.name).items()}
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
                with naming_errors("reader", card.name):
                    readings_of_some = self._reader.read([images[each] for each in some], self._questions[name])
                require_readings(readings_of_some, len(some), self._questions[name], card.name)
                readings += readings_of_some
            except ReadingStopped as stopped:
                readings += stopped.readings
                raise
            finally:
                for each, reading in zip(some, readings, strict=False):
                    if reading is not None:
                        row = {"id": each, "sha256": hashes[each], "question": name, **asdict(reading)}
                        rows[each, name] = row | {"tries": self._count(row, rows.get((each, name)))}
            if self._in_a_row >= HOPELESS[0]:
                raise ModelError.failed(
                    f"reader {card.name}: it failed {self._in_a_row} images in a row, the last because: "
                    f"{readings_of_some[-1].reason}; what is read is kept, and the same command goes on from there"
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
    """The first pictures that a reader has read, of which it is asked again; see :mod:`clinometer.stats.change`.

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
                ids_of_question = self._wanted.setdefault(row["question"], [])
                if row["id"] not in ids_of_question:
                    ids_of_question.append(row["id"])
        elif self._most:
            for part in run.parts:
                if not self._wanted and run.drawn.has(part):
                    self.remember(part, run.answers.of_part(record, part))

    def remember(self, part: int, rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
        """Choose the first pictures of a part that is read, where none are chosen."""
        if self._most and not self._wanted:
            for each, name in rows:
                ids = self._wanted.setdefault(name, []) if name in self._questions else []
                if name in self._questions and len(ids) < self._most and not failed(rows[each, name]):
                    ids.append(each)
            self._home, self._wanted = part, {name: ids for name, ids in self._wanted.items() if ids}

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
                rows = dict[tuple[str, str], Any]()
                try:
                    there = {each: self._images[each] for each in ids if each in self._images}
                    self._asking.ask(name, there, hashes, rows)
                finally:
                    about = {"round": number, "part": before}
                    names = ("id", "sha256", "question", "answer", "reason")
                    self._rows += [about | {key: row[key] for key in names} for row in rows.values()]
                    if rows:
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
        raise ModelError.wrong_type(f"reader {name}: found {found} to {count} images, expected a list of one an image")
    options = () if question.is_open else (*question.groups, *OTHERWISE)
    for reading in readings:
        if not isinstance(reading, Reading) or (reading.answer is None) is not bool(reading.reason):
            raise ModelError.wrong_type(
                f"reader {name}: found {quoted(str(reading))}, expected a Reading with an answer or a reason"
            )
        _require_kinds(reading, name)
        if reading.answer is not None and options and reading.answer not in options:
            raise ModelError.unknown_name(
                f"reader {name}: found the answer {quoted(reading.answer)} to question {question.name}, expected one "
                f"of {', '.join(options)}"
            )
        probabilities = reading.probabilities
        if probabilities is not None and not _are_probabilities(probabilities, len(options)):
            raise ModelError.out_of_range(
                f"reader {name}: found the probabilities {quoted(str(probabilities))}, expected {len(options)} from 0 "
                f"to 1 that sum to 1, of {', '.join(options)}"
            )


def _are_probabilities(numbers: Any, count: int) -> bool:
    try:
        values = np.asarray(numbers, np.float64)
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
            raise ModelError.wrong_type(
                f"reader {name}: found {quoted(text)} as a reading's {key}, expected text of {MOST_SAID:,} characters "
                "or fewer"
            )
    if not (reading.size is None or 0 <= reading.size < np.inf):
        raise ModelError.out_of_range(
            f"reader {name}: found the size {reading.size!r}, expected a share of the picture's area"
        )
