"""YAML that is data and no more: no key twice, and no few lines that expand to gigabytes.

An alias repeats a whole value, and ``<<`` merges whole mappings, so thirty lines can expand to more values than fit in
memory. The values of a document are therefore counted with all its aliases expanded.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from clinometer.errors import ClinometerError, SuiteError

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
