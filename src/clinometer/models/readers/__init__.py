"""Readers, which answer questions about pictures: questions, answers, and the protocol that every reader fulfils."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Protocol

from clinometer._messages import OTHERWISE
from clinometer.errors import ModelError
from clinometer.models.protocols import Card
from clinometer.models.readers.answers import is_missing, refuses

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Answer:
    """One answer of a closed question: its group, and the words in which it is offered.

    Attributes
    ----------
    group : by the suite's name, such as "woman".
    text : as a person or a model is offered it, such as "a woman".
    labels : what else it is called: the labels of classifiers that mean it, and the words by which an encoder finds it.
    """

    group: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that it is called, without case."""
        return tuple(dict.fromkeys(name.casefold() for name in (*self.labels, self.text, self.group)))


@dataclass(frozen=True)
class Question:
    """A question about a picture: a closed one has answers, its own and those of `OTHERWISE`; an open one has none.

    Raises
    ------
    ModelError
        One answer alone, or names that two of them share.
    """

    name: str
    text: str
    answers: tuple[Answer, ...] = ()

    def __post_init__(self) -> None:
        if self.is_open:
            return
        groups = [answer.group for answer in self.answers]
        names = [name for answer in self.answers for name in answer.names]
        twice = next((name for name in names if names.count(name) > 1), None)
        if len(set(groups)) < 2 or twice is not None or set(names) & {*OTHERWISE, *OTHERWISE.values()}:
            found = f"{twice!r} twice" if twice else f"{', '.join(groups) or 'none'}"
            raise ModelError.too_few(
                f"question {self.name}: found the answers {found}, expected two or more with names of their own; "
                f"{', '.join(OTHERWISE.values())} are always there"
            )

    @property
    def is_open(self) -> bool:
        """True if it is answered in free words."""
        return not self.answers

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of its answers."""
        return tuple(answer.group for answer in self.answers)

    @property
    def options(self) -> dict[str, str]:
        """The words of every answer by its group, in the order in which they are offered."""
        return {answer.group: answer.text for answer in self.answers} | OTHERWISE

    @property
    def named(self) -> dict[str, str]:
        """The option of each name that an answer may use."""
        return {text: key for key, text in self.options.items()} | {
            name: answer.group for answer in self.answers for name in answer.names
        }

    @property
    def fingerprint(self) -> str:
        """Hash of wording and answers, 16 hexadecimal digits: another wording is another question."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Reading:
    """A reader's answer about one picture.

    Attributes
    ----------
    answer : a group, or a key of `OTHERWISE`; of an open question what was said. None where there is no answer, of
        which ``reason`` says why.
    probabilities : of every option in the question's order, summing to 1; None of a reader that gives none.
    words : what it said, where it answers in words.
    reason : why there is no answer: it was refused, it failed, or what came could not be read as one of the options.
    prompt_sha256 : hash of the words that were sent with the picture, of a reader behind an endpoint.
    size : share of the picture's area that what it read covers, such as a face; None of a reader that does not say.
    """

    answer: str | None
    probabilities: tuple[float, ...] | None = None
    words: str | None = None
    reason: str | None = None
    prompt_sha256: str | None = None
    size: float | None = None


class ReadingStopped(KeyboardInterrupt):
    """An interrupt while images were read, with the readings that had come: they may be paid for."""

    def __init__(self, readings: Sequence[Reading | None]) -> None:
        super().__init__("stopped")
        self.readings = list(readings)


ASKED_OPENLY: Final = (
    "{question}\nAnswer in English, with one to five words and nothing else. If the picture does not show it, answer "
    '"unknown".'
)
"""The prompt of an open question to readers that answer in words."""

MOST_WORDS: Final = 10
"""The most words of an answer to an open question; the prompt asks for five, and more are an essay."""


def open_reading(said: str, *, cut: bool = False) -> Reading:
    """Read what was said to an open question: a few words, or no answer. ``cut`` says that it had not ended."""
    words = " ".join(said.split())
    shown = words if len(words) <= 300 else words[:299] + "…"
    if not words:
        return Reading(None, words="", reason="unread: an empty answer")
    if refuses(words):
        return Reading(None, words=shown, reason=f"refused: {shown}")
    if is_missing(words):
        return Reading(None, words=shown, reason=f"unread: it says that the answer is missing ({shown})")
    if len(words.split()) > MOST_WORDS:
        return Reading(None, words=shown, reason=f"unread: an essay of more than {MOST_WORDS} words")
    if cut or len(words) > 200:
        return Reading(None, words=shown, reason="unread: it was cut off")
    return Reading(words, words=words)


class Reader(Protocol):
    """Says what pictures show, by a closed question or, where it answers in words, by an open one.

    Its card pins all that an answer depends on. A reader that must choose among groups leaves the options of
    `OTHERWISE` out of its ``possible_answers``, and what it reads of other pictures is forced.
    """

    card: Card
    batch_size: int

    def possible_answers(self, question: Question) -> tuple[str, ...]:
        """Return the options of a question that it may answer with; none for an open question that it can answer.

        Raises
        ------
        ModelError
            It cannot answer the question; for one in words see `not_in_words`.
        """
        ...

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Answer the question of each image, in their order."""
        ...


def require_answer(reader: Reader, question: Question) -> None:
    """Raise the `ModelError` of a reader that cannot answer a question.

    ``possible_answers`` was called ``offers`` once, and a plug-in may still call it so.
    """
    getattr(reader, "possible_answers" if hasattr(reader, "possible_answers") else "offers")(question)


def not_in_words(reader: Card, question: Question) -> ModelError:
    """Refuse an open question, which takes words, to a reader that answers with labels or groups alone."""
    return ModelError.unsupported(
        f"{reader.name}: question {question.name} is open, and this reader has no words to answer it with; give a "
        "vision-language model, a model for visual question answering, or openai:MODEL"
    )
