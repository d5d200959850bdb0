"""What every part of a suite is made of: names, texts, numbers of images, and records that know their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from clinometer._messages import did_you_mean, escaped, quoted, shortened

LONGEST_NAME: Final = 200
LONGEST_TEXT: Final = 4_000
"""Characters of a name, and of a prompt or a description."""

MOST_EACH: Final = 100_000
"""Images of a prompt: a plan is held in memory."""

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f]+$")
]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_TEXT)]

Language = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=35, pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$")
]
"""A language by its BCP 47 tag: ``en``, ``de-AT``, ``zh-Hant``."""


def _no_truth(entry: Any) -> Any:
    """Refuse ``yes`` and ``true``, which would pass for the number 1."""
    if isinstance(entry, bool):
        raise ValueError(f"expected a number, found {str(entry).lower()}")
    return entry


Number = Annotated[float, BeforeValidator(_no_truth)]
WholeNumber = Annotated[int, BeforeValidator(_no_truth)]
ImageCount = Annotated[WholeNumber, Field(ge=1, le=MOST_EACH)]


def several(entry: Any) -> Any:
    """Return one value as a list of one."""
    return list(entry) if isinstance(entry, list | tuple) else [entry]


class Strict(BaseModel):
    """A part of a suite: fixed once read, and no key that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_OUR_WORDS: Final = {
    "Input should be ": "expected ",
    "greater than or equal to": "at least",
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
    "less than or equal to": "at most",
    "greater than": "more than",
}
"""What pydantic expects, as every other message says it: ``expected at least 1``."""

_SHAPES: Final = {"tuple_type": "a list", "list_type": "a list", "dict_type": "keys with values"}


def explain(
    error: ValidationError, source: str, *, keys_at: Callable[[tuple[int | str, ...]], Iterable[str]] = lambda place: ()
) -> str:
    """Describe in one line the first problem, and how many more there are: see :func:`first_problem`."""
    field, message = first_problem(error, keys_at)
    return f"{source}: {f'{field}: ' if field else ''}{message}"


def first_problem(
    error: ValidationError, keys_at: Callable[[tuple[int | str, ...]], Iterable[str]] = lambda place: ()
) -> tuple[str, str]:
    """Name the field of the first problem, and say what it is; a misspelt key before the key it leaves out.

    ``keys_at`` : the keys that a place may hold, where an unknown one shall be told by them.
    """
    problems = error.errors(include_url=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    field = escaped(".".join(str(part) for part in first["loc"]))
    if first["type"] == "extra_forbidden":
        place, key = first["loc"][:-1], str(first["loc"][-1])
        missing = [str(p["loc"][-1]) for p in problems if p["type"] == "missing" and p["loc"][:-1] == place]
        known = list(keys_at(place))
        way_out = did_you_mean(key, missing) or did_you_mean(key, known)
        if known and not way_out:
            way_out = f"expected {', '.join(known)}"
        message = "; ".join(filter(None, ("unknown key", way_out)))
    elif first["type"] == "value_error":
        message = str(first["ctx"]["error"])
    else:
        expected = _SHAPES.get(first["type"])  # in YAML's words: a writer of suites knows no tuple
        message = f"expected {expected}" if expected else first["msg"]
        if not expected:
            for theirs, ours in _OUR_WORDS.items():
                message = message.replace(theirs, ours)
        if first["type"] != "missing" and not isinstance(first["input"], dict | list | tuple):
            message += f", found {quoted(first['input'])}"
        if first["type"] == "string_type" and isinstance(first["input"], bool | int | float | date):
            message += "; put it in quotes"  # YAML reads no, yes, 2024 and 2024-05-01 as something else than text
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return shortened(field, 200), f"{shortened(message, 500)}{more}"
