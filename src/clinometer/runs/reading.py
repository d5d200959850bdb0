"""Reading: the answers that are missing, and none twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from clinometer._cores import WORKERS, one_behind
from clinometer._messages import OTHERWISE, quoted
from clinometer.errors import ModelError
from clinometer.models.protocols import Card, Question, Reader, Reading
from clinometer.runs.answers import FAILED, question_of
from clinometer.runs.drawing import remaining_images
from clinometer.runs.encoding import prepared_images, require_drawn
from clinometer.runs.failures import HOPELESS, named
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
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


def read(run: Run, reader: Reader, progress: Progress) -> None:
    """Have a reader answer what it was begun to be asked and has not answered, part by part.

    While it reads a part, the next part's images are decoded, and the last one's answers are written.

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
    in_a_row, size = 0, max(reader.batch_size, 1)
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
            try:
                for name, wanted in waiting[part].items():
                    for start in range(0, len(wanted), size):
                        some = wanted[start : start + size]
                        with named("reader", card.name):
                            readings = reader.read([images[each] for each in some], questions[name])
                        require_readings(readings, len(some), questions[name], card.name)
                        for each, reading in zip(some, readings, strict=True):
                            rows[each, name] = {"id": each, "sha256": hashes[each], "question": name, **asdict(reading)}
                            in_a_row = in_a_row + 1 if (reading.reason or "").startswith(FAILED) else 0
                        if in_a_row >= HOPELESS[0]:
                            raise ModelError(
                                f"reader {card.name}: it failed {in_a_row} images in a row, the last because: "
                                f"{readings[-1].reason}; what is read is kept, and the same command goes on from there"
                            )
            finally:  # what is read of a part may be paid for
                if rows:
                    names = dict.fromkeys(name for _, name in rows)  # also of questions that are asked no longer
                    in_order = [rows[each, name] for each in ids for name in names if (each, name) in rows]
                    write(run.answers.write, card, part, in_order)
            progress.advance(len(parts[part]))
    finish_reading(run, card, progress)


def finish_reading(run: Run, card: Card, progress: Progress) -> None:
    """Record that a reader is done with the whole run, and say how many answers failed."""
    if not run.is_whole:
        return
    waiting = waiting_answers(run, card, run.readers.questions(card.name))
    failed = sum(len(ids) for by_question in waiting.values() for ids in by_question.values())
    run.readers.finish(card, failed=failed)
    progress.finish()
    if failed:
        progress.note(f"{failed} answers of {card.name} failed; the same command asks for them again")


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
        if not isinstance(reading, Reading) or (reading.answer is None and not reading.reason):
            raise ModelError(
                f"reader {name}: found {quoted(str(reading))}, expected a Reading with an answer or a reason"
            )
        if reading.answer is not None and options and reading.answer not in options:
            raise ModelError(
                f"reader {name}: found the answer {quoted(reading.answer)} to question {question.name}, expected one "
                f"of {', '.join(options)}"
            )
        given = reading.probabilities
        if given is not None and not (
            len(given) == len(options) and np.isfinite(given).all() and min(given) >= 0 and abs(sum(given) - 1) < 1e-3
        ):
            raise ModelError(
                f"reader {name}: found the probabilities {quoted(str(list(given)))}, expected {len(options)} from 0 to "
                f"1 that sum to 1, of {', '.join(options)}"
            )
