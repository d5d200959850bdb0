"""Closed questions about pictures, as data: built-in ones by name, others from a file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pydantic import Field, ValidationError

from clinometer._messages import did_you_mean, shortened
from clinometer.errors import SuiteError
from clinometer.suites.base import explain
from clinometer.suites.reading import read_text, read_yaml
from clinometer.suites.strict import Name, Strict, Text


class AnswerSpec(Strict):
    """An answer: the words in which it is offered, and what else it is called.

    Attributes
    ----------
    labels : labels of classifiers that mean it, and the words by which an encoder finds it.
    """

    text: Text
    labels: tuple[Name, ...] = ()


class QuestionSpec(Strict):
    """A question, and its answers by the group that each stands for.

    "None of these", "several people" and "cannot tell" are always offered beside them.
    """

    name: Name
    text: Text
    answers: dict[Name, AnswerSpec] = Field(min_length=2, max_length=20)


def question_names() -> list[str]:
    """Names of the built-in questions."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml"))


def load_question(question: str | Path) -> QuestionSpec:
    """Read a built-in question by name, or one from a YAML file.

    Raises
    ------
    SuiteError
        There is no such question, or the file says something that it must not: the message names file and field.
    """
    name = str(question)
    try:
        built_in = name in question_names()
        text = _folder().joinpath(f"{name}.yaml").read_text("utf-8") if built_in else read_text(Path(question))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        hint = did_you_mean(name, question_names()) or f"built in are {', '.join(question_names())}"
        message = f"no question named {shortened(name, 200)!r}: it is neither a file nor built in; {hint}"
        raise SuiteError(message) from error
    except (OSError, ValueError) as error:
        raise SuiteError(f"{name}: cannot be read as text: {error}") from error
    try:
        return QuestionSpec.model_validate(read_yaml(text, source=name, what="question"))
    except ValidationError as error:
        raise SuiteError(explain(error, name)) from error


def _folder() -> resources.abc.Traversable:
    return resources.files("clinometer.suites") / "questions"
