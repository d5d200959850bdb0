"""Phrases that messages of several rooms share."""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

NONE: Final = "none"
SEVERAL: Final = "several"
UNCLEAR: Final = "unclear"
OTHERWISE: Final = {NONE: "none of these", SEVERAL: "several people", UNCLEAR: "cannot tell"}
"""The options that every closed question has besides its own answers, so that no answer is forced."""

MISSING: Final = frozenset({
    "nan", "NaN", "NAN", "-nan", "-NaN", "None", "N/A", "n/a", "NA", "N.A.", "n.a.", "<NA>", "#N/A", "#NA", "null",
    "Null", "NULL", "#NULL!", "#VALUE!", "#REF!", "#DIV/0!", "#NAME?", "#NUM!", "NaT", ".", "-", "--",
    "\N{EN DASH}", "\N{EM DASH}",
})  # fmt: skip
"""How programs write that an entry is missing; ``none`` in small letters is an answer."""


def composed(text: str) -> str:
    r"""Return text in the form in which names are compared: accents are part of their letters (NFC), as most write it.

    >>> composed("infirmie\u0300re") == "infirmi\u00e8re"
    True
    """
    return unicodedata.normalize("NFC", text)


def first_and_more(names: Sequence[str], most: int = 1) -> str:
    """Return the first of many names, and how many more there are: ``a, b and 3 more``; every name where there are few.

    >>> first_and_more(["a", "b", "c"]), first_and_more(["a", "b", "c"], most=2), first_and_more(["a"])
    ('a and 2 more', 'a, b and 1 more', 'a')
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def as_text(name: str) -> str:
    r"""Return a file's name as text: bytes that are not UTF-8 are written out, as tables and run.json hold text alone.

    >>> as_text("caf\udce9")
    'caf\\udce9'
    """
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(text: str) -> str:
    r"""Return text that a terminal shows safely: no character moves the cursor, changes colours or turns the direction.

    Lines stay lines. Joiners of letters and of emoji stay, too, and spaces that do not break.

    >>> printable("a\x1b[31m b\u202e"), printable("a\nb"), printable("5\u202f%") == "5\u202f%"
    ('a�[31m b�', 'a\nb', True)
    """
    exceptions = "\n\u200c\u200d\u00a0\u202f"
    return "".join(
        character if character in exceptions or character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def escaped(text: str) -> str:
    r"""Return text on one line, in which what is not printable is written as Python writes it.

    >>> escaped("a\nb \x1b[31m é")
    'a\\nb \\x1b[31m é'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def shortened(text: str, most: int = 80) -> str:
    """Return the beginning of a long text.

    >>> shortened("abcdef", 3), shortened("abc", 3)
    ('abc…', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}…"


def named_in_a_line(names: Iterable[str], most: int = 300) -> str:
    r"""Return names that somebody else chose, such as those of columns, in one short line.

    >>> named_in_a_line(["file", "a\n\nb"]), named_in_a_line([])
    ('file, a b', 'none')
    """
    return shortened(" ".join(", ".join(names).split()), most) or "none"


def quoted(value: object, most: int = 80) -> str:
    """Return what a message shows of something found: its ``repr``, not all of a long one.

    >>> quoted("a" * 100, 3), quoted(1)
    ("'aaa…", '1')
    """
    if isinstance(value, str | bytes):
        value = value[: most + 1]
    elif isinstance(value, list | tuple | dict | set):
        return type(value).__name__
    elif isinstance(value, int) and value.bit_length() > 4 * most:
        return "a huge number"
    text = repr(value)
    return text if len(text) <= most + 2 else f"{text[: most + 1]}…"


def nearest(word: str, candidates: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return names that a mistyped one may have meant, the nearest first, whatever their case."""
    by_letters = {name.lower(): name for name in candidates}
    return [by_letters[name] for name in difflib.get_close_matches(word.lower(), by_letters, most, cutoff)]


def did_you_mean(word: str, candidates: Iterable[str], most: int = 1) -> str:
    """Return ``did you mean X or Y?``; empty where no name is near.

    >>> did_you_mean("fire-fighter", ["firefighter", "nurse"])
    'did you mean firefighter?'
    """
    near = nearest(word, candidates, most)
    return f"did you mean {' or '.join(near)}?" if near else ""
