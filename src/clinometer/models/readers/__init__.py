"""Readers, which answer questions about pictures: questions, answers, and the protocol that every reader fulfils.

Models that are asked for JSON wrap it, misspell it or leave it out, and those that are asked for an option put it into
a sentence. What is taken is what can be meant in one way only: the words in a box, under "answer" or alone; of a
sentence, the option that it leads up to or begins with, where it names no other. "Not a man" names one and means
another, so what stands around an option is known word by word, or comes behind a comma or a full stop.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import yaml

from clinometer._messages import MISSING, OTHERWISE
from clinometer.errors import ModelError
from clinometer.models.protocols import Card

if TYPE_CHECKING:
    from PIL.Image import Image


_BOX: Final = re.compile(
    r"<\|begin_of_box\|>(.*?)(<\|end_of_box\|>|\Z)|<answer>(.*?)(</answer>|\Z)"
    r"|\\boxed\{(?:\\(?:text|textbf|mathrm)\{)?([^{}]*+)(\}|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_LABEL: Final = re.compile(r"[\s*_#>]*(?:final )?answer[\s*_]*:", re.IGNORECASE)
_HIDDEN: Final = re.compile("[\u200b\u2060\ufeff\u00ad]|</?(?:b|i|p|br|em|strong|span|output)/?>", re.IGNORECASE)
_SPEAKER: Final = re.compile(r"\s*(?:assistant\s*\n|\[/?INST\])", re.IGNORECASE)
_REMARK: Final = re.compile(r"(?<=[\s,{])//[^\n]*")
_EDGES: Final = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_GAP: Final = re.compile(r"[\s\u2010-\u2015_]+|(?<=\w)-(?=\w)")
_ARTICLE: Final = re.compile(r"(?:a|an|the) ")
_BEGIN: Final = re.compile(
    r"(?:(?:i (?:think|believe|see|would say|choose)|so|thus|therefore|hence|(?:\d{1,2}|[a-h])[.):]|option|choice)"
    r" ?[:,]? ?)*+"
    r"(?:that )?(?:(?:the|my|this|that) )?(?:(?:final|correct|best|most likely) )?"
    r"(?:(?:answer|option|choice|person|figure|subject|picture|image|photo|portrait|it|this|he|she|they)"
    r"(?: (?:in|of) the (?:picture|image|photo))?(?: (?:shown|depicted|pictured))?"
    r" ?(?:is|'s|shows|depicts|appears to be|seems to be|looks like|:|=|-) ?)?+(?:\d{1,2}[.):] ?)?"
)
_WORD: Final = re.compile(r"\w+")
_REST: Final = re.compile(r" ?[,.;(:!]| - | because ")
_REFUSAL: Final = re.compile(
    r"(?:i(?: a|')?m )?(?:very )?(?:sorry|afraid)\b|i apologi[sz]e|unfortunately|as an ai\b"
    r"|i(?: am|'m) (?:not able|unable)|i (?:can ?not|can't|won't|will not|do not|don't) "
    r"|(?:es )?tut mir leid|ich kann |lo siento|no puedo |désolé|je (?:suis désolé|ne peux)|mi dispiace"
    r"|抱歉|很抱歉|对不起|對不起|我无法|我不能|申し訳|죄송"
)
MOST_STARTS: Final = 8
"""Braces of an answer at which JSON may begin."""

MOST_MENDED: Final = 2_000
"""Characters of what is nearly JSON."""

_UNDER: Final = frozenset(
    {"answer", "choice", "final_answer", "label", "option", "output", "prediction", "response", "result", "value"}
)
"""Keys under which an answer stands alone, where none is called "answer"."""

_SAYS: Final = {
    "yes": {"yes", "y", "true", "ja", "oui", "si", "sí", "sim", "да", "是", "是的", "有", "はい", "예", "네", "نعم",
            "हाँ"},
    "no": {"no", "n", "false", "nein", "non", "não", "нет", "否", "不是", "没有", "いいえ", "아니요", "لا", "नहीं"},
}  # fmt: skip
"""Words for the options yes and no, where these are options."""


def answer_in(words: str) -> tuple[str, bool]:
    r"""Extract the answer from words: from a box, from JSON with an "answer", from a fence; and whether it is whole.

    >>> answer_in('```json\n{"Answer": "a man"}\n```\nThat is all.')
    ('a man', True)
    >>> answer_in("I see <|begin_of_box|>a man<|end_of_box|>"), answer_in("**Answer:** a man"), answer_in("a man")
    (('a man', True), ('a man', False), ('a man', False))
    >>> answer_in("{'answer': ['a man'],}"), answer_in('{"answer": "a man"} or {"answer": "a woman"}')[0][:20]
    (('a man', True), '{"answer": "a man"} ')
    """
    words, is_whole = _HIDDEN.sub("", unicodedata.normalize("NFKC", words)), False
    if speaker := _SPEAKER.match(words):
        words = words[speaker.end() :]
    for box in _BOX.finditer(words):
        inside, closed = next((box[n], box[n + 1]) for n in (1, 3, 5) if box[n] is not None)
        words, is_whole = inside.replace("\\ ", " "), bool(closed)
    with suppress(ValueError, RecursionError):
        if isinstance(text := json.loads(words), str):  # JSON within JSON
            words, is_whole = text, True
    answers = [answer for value in json_in(words) if (answer := _told(value)) is not None]
    if answers and len({_plain(each) for each in answers}) == 1:
        return answers[0], True
    _, fence, rest = words.partition("```")
    inside = rest.partition("```")[0]
    language, line, body = inside.partition("\n")
    unfenced = (words if not fence else body if line and language.strip().isalnum() else inside).strip()
    with suppress(ValueError, RecursionError):
        value = json.loads(unfenced)
        answer = value if isinstance(value, str) else _told(value) if isinstance(value, list) else None
        if answer is not None:
            return answer, True
    label = _LABEL.match(unfenced)
    return (unfenced[label.end() :].strip(" *_\n") if label else unfenced), is_whole


def json_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text, whatever stands around them; one that is nearly JSON where there is none."""
    end, is_json = 0, False
    for start in islice(re.finditer(r"\{", text), MOST_STARTS):
        if start.start() >= end:
            with suppress(ValueError, RecursionError):
                value, end = json.JSONDecoder().raw_decode(text, start.start())
                is_json = True
                yield value
    first, last = text.find("{"), text.rfind("}")
    if is_json or first < 0:
        return
    near = text[first : last + 1] if last > first else text[first:].rstrip("` \n") + "}"
    if len(near) <= MOST_MENDED and near.count("{") + near.count("[") <= MOST_STARTS:
        with suppress(yaml.YAMLError, RecursionError):  # other quotes or none, a comma too many, remarks
            value = yaml.load(_REMARK.sub("", near), Loader=yaml.BaseLoader)
            if isinstance(value, dict):
                yield value


def _told(value: Any) -> str | None:
    """Return the answer that JSON holds, under "answer" or alone under a word like it, in a list too; None of none."""
    if isinstance(value, dict):
        named = {str(key).strip().casefold(): cell for key, cell in value.items()}
        if "answer" in named:
            return "" if named["answer"] is None else _told(named["answer"])
        return _told(next(iter(named.values()))) if len(named) == 1 and named.keys() <= _UNDER else None
    if isinstance(value, list):
        inner = [_told(each) for each in value]
        return ", ".join(each or "" for each in inner) if None not in inner else None
    return str(value).strip() if isinstance(value, str | int | float) else None


def option_in(answer: str, named: Mapping[str, str]) -> str | None:
    """Return which option an answer means; None where it names none, or more than one.

    Case, articles, hyphens and marks around it do not matter, nor do words that lead up to an option, such as "the
    person is", nor what follows behind a comma or a full stop, unless it names another.

    ``named`` : the option of each name that an answer may use.
    """
    meant = {_plain(name): key for name, key in named.items()}
    for yes_or_no in _SAYS.keys() & meant.keys():
        meant |= {word: meant[yes_or_no] for word in _SAYS[yes_or_no] - meant.keys()}
    text = _plain(answer)
    if text in meant:
        return meant[text]
    led = _BEGIN.match(text)
    text = _plain(text[led.end() :]) if led else text
    rest = _REST.search(text)
    key = meant.get(_plain(text[: rest.start()] if rest else text))
    behind = " ".join(["", *_WORD.findall(text[rest.end() :]), ""]) if rest else ""
    others = (name for name, group in meant.items() if group != key and len(name) > 1)
    return None if key is None or any(f" {name} " in behind for name in others) else key


def _plain(text: str) -> str:
    """Return words as they are compared: without case, marks around them, article, and difference of hyphens."""
    words = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    within = _EDGES.search(_GAP.sub(" ", words))
    bare = within[0] if within else ""
    article = _ARTICLE.match(bare)
    return bare[article.end() :] if article else bare


def refuses(words: str) -> bool:
    """Return whether an answer that is no option declines to give one, and is no answer to an open question.

    >>> refuses("I'm sorry, I can't help with that."), refuses("a sorry hat"), refuses("unknown")
    (True, False, False)
    """
    return bool(_REFUSAL.match(" ".join(words.casefold().replace("’", "'").split())[:200]))


def is_missing(words: str) -> bool:
    """Return whether an answer to an open question is how programs write that there is none."""
    return words.strip(" .\"'`*") in MISSING


# --- Questions, answers, and the protocol of readers -----------------------------------------------------------------


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
