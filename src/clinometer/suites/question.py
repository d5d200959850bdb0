"""Questions about pictures, as data: built-in ones by name, others from a file or written out in a suite.

A closed question has answers, one a group; an open one (``kind: open``) has none and is answered in free words. A file
holds one question, or several as a list under ``readings``, of which ``FILE#NAME`` is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from clinometer._messages import OTHERWISE, did_you_mean, first_and_more, quoted, shortened
from clinometer.errors import InvalidInputError, SuiteError
from clinometer.suites.strict import Name, Strict, Text, code_of, explain, read_text, read_yaml

OFFERED: Final = frozenset((*OTHERWISE, *OTHERWISE.values()))
"""Names of the options that every question has besides its own answers."""

_FOLDER: Final = resources.files("clinometer.suites") / "questions"


class AnswerSpec(Strict):
    """An answer: the words in which it is offered, and what else it is called.

    Attributes
    ----------
    labels : labels of classifiers that mean it, and the words by which an encoder finds it.
    means : the suite's group (or level of an axis) that shows it; left out, the one of the answer's own name, if any.
    """

    text: Text
    labels: tuple[Name, ...] = ()
    means: Name | None = None


class QuestionSpec(Strict):
    """A question, and its answers by their groups.

    "None of these", "several people" and "cannot tell" are always offered, too.

    Attributes
    ----------
    kind : closed, or open: without answers.
    counterfactuals : of an open question, concepts of other prompts by the concept that each departs from; what is seen
        in both is compared.
    """

    name: Name
    text: Text
    kind: Literal["closed", "open"] = "closed"
    answers: dict[Name, AnswerSpec] = Field(default_factory=dict, max_length=20)
    counterfactuals: dict[Name, tuple[Name, ...]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, written: Any) -> Any:
        """Return a question named ``gender`` or ``{question: gender, means: {woman: women, man: men}}`` in full."""
        if isinstance(written, str):
            return load_question(written, built_in=True).model_dump()
        if not (isinstance(written, dict) and "question" in written):
            return written
        if odd := sorted(str(key) for key in {*written} - {"question", "means"}):
            raise InvalidInputError.unknown_name(
                f"unknown key {quoted(odd[0])} beside question; expected means, or all written out"
            )
        question = load_question(str(written["question"]), built_in=True).model_dump()
        means = written.get("means") or {}
        if not isinstance(means, dict):
            raise InvalidInputError.missing("means: expected answers with the groups that show them")
        for answer, group in means.items():
            if answer not in question["answers"]:
                known = ", ".join(question["answers"])
                raise InvalidInputError.unknown_name(
                    f"means: question {question['name']} has no answer {quoted(answer)}; it has {known}"
                )
            question["answers"][answer]["means"] = group
        return question

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Refuse answers of an open question, and answers that share a name."""
        if self.kind == "open" and self.answers:
            raise InvalidInputError.conflict(
                "answers: found some, and a question of kind open has none; leave them out, or kind"
            )
        if self.kind == "closed" and len(self.answers) < 2:
            raise InvalidInputError.too_few(
                f"answers: found {len(self.answers)}, expected at least 2; or say kind: open"
            )
        if self.kind == "closed" and self.counterfactuals:
            raise InvalidInputError.conflict("counterfactuals: only a question of kind open has them; leave them out")
        taken = dict.fromkeys(OFFERED, "")
        for group, answer in self.answers.items():
            for name in dict.fromkeys(name.casefold() for name in (*answer.labels, answer.text, group)):
                if name in taken:
                    whose = f"answer {taken[name]!r} has it, too" if taken[name] else "it is always offered beside them"
                    raise InvalidInputError.duplicate(
                        f"answers.{group}: found the name {name!r}, and {whose}; give each its own"
                    )
                taken[name] = group
        return self

    def meanings(self, groups: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
        """Yield each group of a suite that an answer refers to, with that answer.

        ``groups`` : by name, what an answer may call it: its name, or in a crossed suite the levels of its cell.
        """
        shown = {answer.means or name: name for name, answer in self.answers.items()}
        for group, names in groups.items():
            if answer := next((shown[name] for name in names if name in shown), ""):
                yield group, answer


def question_of_groups(name: str, label: str, groups: Mapping[str, tuple[str, Sequence[str]]]) -> QuestionSpec:
    """Return the question to which group a picture's person belongs, from each group's label and words.

    Words that several groups share identify none of them and are left out. ``label`` : what the groups differ in, such
    as skin tone; empty where unknown.
    """
    uses = Counter(word.casefold() for text, words in groups.values() for word in dict.fromkeys((text, *words)))
    answers = {
        group: AnswerSpec(
            text=text,
            labels=tuple(word for word in words if uses[word.casefold()] == 1 and word.casefold() not in OFFERED),
            means=group,
        )
        for group, (text, words) in groups.items()
    }
    question = "To which of these does the person in this picture belong, by looks?"
    if label:
        question = f"Which of these describes the person in this picture, by {label}?"
    return QuestionSpec(name=name, text=question, answers=answers)


def question_names() -> list[str]:
    """Return the names of the built-in questions."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _FOLDER.iterdir() if entry.name.endswith(".yaml"))


def load_question(question: str | Path, *, built_in: bool = False) -> QuestionSpec:
    """Read a built-in question by name, or, unless it must be ``built_in``, one from a YAML file; of several FILE#NAME.

    Raises
    ------
    SuiteError
        There is no such question, or the file says something that it must not: the message names file and field.
    """
    name = str(question)
    if built_in and name not in question_names():
        raise InvalidInputError.unknown_name(
            f"no built-in question named {quoted(name)}; they are {', '.join(question_names())}"
        )
    file, mark, wanted = name.rpartition("#")
    if not mark or Path(name).exists():
        file, wanted = name, ""
    try:
        is_name = name in question_names()
        text = _FOLDER.joinpath(f"{name}.yaml").read_text("utf-8") if is_name else read_text(Path(file))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        hint = did_you_mean(name, question_names()) or f"built in are {', '.join(question_names())}"
        message = f"no question named {shortened(name, 200)!r}: it is neither a file nor built in; {hint}"
        raise SuiteError.unknown_name(message) from error
    except (OSError, ValueError) as error:
        raise SuiteError.not_text(f"{name}: cannot be read as text: {error}") from error
    data: Any = read_yaml(text, source=file, what="question")
    if "readings" in data:
        several = [entry for entry in data["readings"] or () if isinstance(entry, dict)]
        named = {str(entry.get("name")): entry for entry in several}
        if wanted not in named and (wanted or len(several) != 1):
            known = first_and_more([f"{file}#{each}" for each in named], 10) or "none with a name"
            raise SuiteError.too_many(
                f"{file}, readings: found {len(several)} questions, expected one by its name; it has {known}"
            )
        data = named[wanted] if wanted else several[0]
    elif wanted:
        raise SuiteError.conflict(
            f"{file}: it holds one question, not a list under readings; give it without #{wanted}"
        )
    try:
        return QuestionSpec.model_validate(data)
    except ValidationError as error:
        raise SuiteError(explain(error, name), code=code_of(error)) from error
