"""What people write, read strictly: YAML that is data and no more, and records that know their keys.

In YAML no key may be there twice. An alias repeats a whole value, and ``<<`` merges whole mappings, so thirty lines can
expand to more values than fit in memory. The values of a document are therefore counted with all its aliases expanded.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_serializer

from clinometer._messages import did_you_mean, escaped, nearest, quoted, shortened
from clinometer.errors import ClinometerError, Code, InvalidInputError, SuiteError

MOST_BYTES: Final = 500_000
"""A hundred times the largest suite that is built in."""

MOST_VALUES: Final = 20_000
"""Keys, values, lists and mappings of a suite, with its aliases expanded."""

MOST_NESTED: Final = 20
"""Lists and mappings within each other; a suite has six."""

MOST_ALIASES: Final = 1_000

MERGE: Final = "tag:yaml.org,2002:merge"
"""The tag of ``<<``, which merges the keys of another mapping and is not a key itself."""


class _DataLoader(yaml.SafeLoader):
    """The safe loader, refusing aliases that expand too far, and duplicate keys, of which it would keep the last."""

    def compose_document(self) -> yaml.Node | None:
        root = super().compose_document()
        if root is not None:
            _require(_written_out(root, {}), MOST_VALUES, "values, with its aliases written out", root.start_mark)
        return root

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != MERGE]
        doubled = [str(key) for key, count in Counter(map(str, keys)).items() if count > 1]
        if doubled:
            raise SuiteError.duplicate(
                f"line {node.start_mark.line + 1}: key written twice: {', '.join(doubled)[:200]}"
            )
        return super().construct_mapping(node, deep)


def _require(count: float, most: int, what: str, place: Any) -> None:
    if count > most:
        raise SuiteError.too_many(f"line {place.line + 1}: more than {most:,} {what}; divide it into several")


def _written_out(node: yaml.Node, counts: dict[int, float]) -> float:
    """Return how many values a node expands to; infinitely many if it contains itself."""
    if id(node) not in counts:
        counts[id(node)] = float("inf")
        children = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = (part for child in children for part in (child if isinstance(child, tuple) else (child,)))
        counts[id(node)] = 1 + sum(_written_out(part, counts) for part in parts)
    return counts[id(node)]


def line_of(text: str, place: Sequence[int | str]) -> int | None:
    r"""Return the line, from 1 up, of a value in a YAML document, or of the nearest around it; None without a text.

    Parameters
    ----------
    text : a document that has been read, so that no alias in it expands too far.
    place : keys and positions that lead to the value, from the root.

    >>> line_of("a: 1\nb:\n  - c\n  - d", ["b", 1]), line_of("a: 1", ["z"]), line_of("", ["a"])
    (4, 1, None)
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader) if text else None
    if node is None:
        return None
    line = node.start_mark.line
    for part in place:
        if isinstance(node, yaml.MappingNode):
            key, node = next(((key, value) for key, value in node.value if key.value == str(part)), (None, None))
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            key = node = node.value[part]
        else:
            key = None
        if key is None:
            break
        line = key.start_mark.line
    return line + 1


Kind = Literal["suite", "policy", "sweep", "question", "reference"]

KINDS: Final[dict[Kind, tuple[str, str]]] = {
    "suite": ("study, name, title, description, …", "docs/suites.md"),
    "policy": ("title and rules", "docs/gates.md"),
    "sweep": ("axes, images, …", "docs/sweeps.md"),
    "question": ("name, text and answers", "docs/readers.md"),
    "reference": ("source and shares", "docs/standards.md"),
}
"""The keys of a document, and the page that describes it, by its kind."""


def read_yaml(text: str, *, source: str, what: Kind = "suite") -> dict[str, Any]:
    """Read a YAML text that is a mapping. ``source`` is what an error calls it, ``what`` its kind.

    Raises
    ------
    SuiteError
        It is no YAML, no mapping, or more than a suite may be.
    """
    if len(text) > MOST_BYTES:
        raise _too_large(source)
    try:
        # Count while parsing, with the parser in C if available: it is a hundred times faster.
        nested = values = aliases = 0
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            nested += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            values += isinstance(event, yaml.NodeEvent)
            aliases += isinstance(event, yaml.AliasEvent)
            _require(nested, MOST_NESTED, "lists and mappings within each other", event.start_mark)
            _require(values, MOST_VALUES, "values", event.start_mark)
            _require(aliases, MOST_ALIASES, "aliases", event.start_mark)
        data = yaml.load(text, _DataLoader)
    except SuiteError as error:
        raise SuiteError(f"{source}: {error}", code=error.code) from error
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:  # some of dates and numbers
        raise SuiteError.malformed(f"{source}: not YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(data, dict):
        raise SuiteError.wrong_type(f"{source}: expected a mapping with {KINDS[what][0]}, found {type(data).__name__}")
    return data


def read_text(path: Path) -> str:
    """Read a text file, up to the limit: the path may be of an endless device."""
    with path.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _too_large(str(path))
    return content.decode()


def _too_large(source: str) -> SuiteError:
    return SuiteError.too_many(f"{source}: more than {MOST_BYTES:,} bytes; divide it into several")


def read_request(path: str | os.PathLike[str], what: Kind, error: type[ClinometerError]) -> dict[str, Any]:
    """Read a user's YAML file of the kind ``what``.

    Raises
    ------
    ``error``
        There is none, or it is no such mapping: the message names the file and the way out.
    """
    keys, page = KINDS[what]
    place, wanted = Path(path), f"give a YAML file with {keys}; see {page}"
    try:
        return read_yaml(read_text(place), source=str(place), what=what)
    except IsADirectoryError as caught:
        raise error.wrong_type(f"{place}: a folder; {wanted}") from caught
    except (FileNotFoundError, NotADirectoryError) as caught:
        raise error.not_found(f"{place}: no such file; {wanted}") from caught
    except SuiteError as caught:
        raise error(str(caught), code=caught.code) from caught
    except OSError as caught:
        raise error.unreadable(f"{place}: cannot be read as text: {caught}") from caught
    except ValueError as caught:
        raise error.not_text(f"{place}: cannot be read as text: {caught}") from caught


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

SEVERAL_LANGUAGES: Final = "mul"
"""The tag of a suite in several languages (ISO 639-2): each wording of its concepts is one, named by its tag."""

LANGUAGE_TAG: Final = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
"""What a wording that is a language is called."""


def _no_truth(entry: Any) -> Any:
    """Refuse ``yes`` and ``true``, which would pass for the number 1."""
    if isinstance(entry, bool):
        raise InvalidInputError.wrong_type(f"expected a number, found {str(entry).lower()}")
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


class Sparse(Strict):
    """A part of a suite whose ``optional`` keys are not written where they are empty.

    A suite's fingerprint is then what it was before there were any such keys.
    """

    optional: ClassVar[frozenset[str]]

    @model_serializer(mode="wrap")
    def _without_empty_keys(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {
            name: value for name, value in handler(self).items() if name not in self.optional or value not in (None, ())
        }


_OUR_WORDS: Final = {
    "Input should be ": "expected ",
    "Field required": "it is missing",
    "a valid string": "a text",
    "greater than or equal to": "at least",
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
    "less than or equal to": "at most",
    "greater than": "more than",
    "Tuple should have": "expected",
    "Dictionary should have": "expected",
    "List should have": "expected",
    " after validation, not": ", found",
}
"""What pydantic expects, as every other message says it: ``expected at least 1``."""

_SHAPES: Final = {"tuple_type": "a list", "list_type": "a list", "dict_type": "keys with values"}


_CODES: Final = {
    "^missing$": Code.MISSING, "extra_forbidden|literal_error|enum|union_tag": Code.UNKNOWN_NAME,
    "finite_number": Code.NOT_FINITE, "greater|less|multiple": Code.OUT_OF_RANGE, "too_short": Code.TOO_FEW,
    "too_long": Code.TOO_MANY, "pattern|date": Code.MALFORMED, "type|parsing|int_from_float": Code.WRONG_TYPE,
}  # fmt: skip
"""The code of each type of pydantic's problems; the first pattern that is found in it."""


_Place = tuple[int | str, ...]
MOST_PROBLEMS: Final = 10
"""Problems that one message lists."""


def explain(
    error: ValidationError, source: str, *, keys_at: Callable[[_Place], Iterable[str]] = lambda place: ()
) -> str:
    """Describe in one line the first problem, and how many more there are: see :func:`first_problem`."""
    field, message = first_problem(error, keys_at)
    return f"{source}: {f'{field}: ' if field else ''}{message}"


def code_of(error: ValidationError) -> Code:
    """Return the code of the first problem, as :func:`first_problem` picks it."""
    problem = min(error.errors(include_url=False), key=_rank)
    if problem["type"] == "value_error":
        return getattr(problem["ctx"]["error"], "code", Code.INVALID)
    known = (code for pattern, code in _CODES.items() if re.search(pattern, problem["type"]))
    return next(known, Code.INVALID)


def explain_all(error: ValidationError, source: str, line_of: Callable[[_Place], int | None]) -> str:
    """Describe up to ten problems with their lines: one in a line with its source, several below each other.

    Parameters
    ----------
    line_of : the line of a place, where it is known.
    """
    problems = error.errors(include_url=False)
    lines = []
    for problem in sorted(problems, key=_rank):
        if _follows(problem, problems):
            continue
        field, message = _in_words(problem, problems, lambda place: ())
        place = problem["loc"]
        if problem["type"] == "value_error":  # of what holds it; the message begins with the key that is wrong
            place += tuple(int(key) if key.isdecimal() else key for key in message.partition(":")[0].split("."))
        line = line_of(place) if place else None
        lines.append(f"{f'{field}: ' if field else ''}{message}{f' (line {line})' if line else ''}")
    if len(lines) == 1:
        return f"{source}: {lines[0]}"
    rest = len(lines) - MOST_PROBLEMS
    more = [f"and {rest} more"] if rest > 0 else []
    return "\n  ".join([f"{source}: {len(lines)} problems", *lines[:MOST_PROBLEMS], *more])


def _follows(problem: Any, problems: Sequence[Any]) -> bool:
    """Return whether a problem results from another: a missing key from a misspelt one, a short list from its items."""
    place = problem["loc"]
    if problem["type"] == "missing":
        others = [str(each["loc"][-1]) for each in problems
                  if each["type"] == "extra_forbidden" and each["loc"][:-1] == place[:-1]]  # fmt: skip
        return any(nearest(other, [str(place[-1])]) for other in others)
    within = any(each["loc"][: len(place)] == place and len(each["loc"]) > len(place) for each in problems)
    return problem["type"] == "too_short" and within


def first_problem(
    error: ValidationError, keys_at: Callable[[_Place], Iterable[str]] = lambda place: ()
) -> tuple[str, str]:
    """Return the field of the first problem, and what is wrong with it; a misspelt key before the key it leaves out.

    ``keys_at`` : the keys that a place may have, which a message about an unknown one lists.
    """
    problems = error.errors(include_url=False)
    field, message = _in_words(min(problems, key=_rank), problems, keys_at)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return field, f"{message}{more}"


def _rank(problem: Any) -> bool:
    """Return a sort key that puts misspelt keys before other problems."""
    return bool(problem["type"] != "extra_forbidden")


def _in_words(problem: Any, problems: Sequence[Any], keys_at: Callable[[_Place], Iterable[str]]) -> tuple[str, str]:
    """Return the field of a problem, and what is wrong with it."""
    field = escaped(".".join(str(part) for part in problem["loc"]))
    if problem["type"] == "extra_forbidden":
        place, key = problem["loc"][:-1], str(problem["loc"][-1])
        missing = [str(p["loc"][-1]) for p in problems if p["type"] == "missing" and p["loc"][:-1] == place]
        known = list(keys_at(place))
        way_out = did_you_mean(key, missing) or did_you_mean(key, known)
        if known and not way_out:
            way_out = f"expected {', '.join(known)}"
        message = "; ".join(filter(None, ("unknown key", way_out)))
    elif problem["type"] == "value_error":
        message = str(problem["ctx"]["error"])
    else:
        expected = _SHAPES.get(problem["type"])  # in YAML's words: a writer of suites knows no tuple
        message = f"expected {expected}" if expected else problem["msg"]
        if not expected:
            for theirs, ours in _OUR_WORDS.items():
                message = message.replace(theirs, ours)
        if problem["type"] != "missing" and not isinstance(problem["input"], dict | list | tuple):
            message += f", found {quoted(problem['input'])}"
        if problem["type"] == "string_type" and isinstance(problem["input"], bool | int | float | date):
            message += "; put it in quotes"  # YAML reads no, yes, 2024 and 2024-05-01 as something else than text
    return shortened(field, 200), shortened(message, 500)
