"""Markdown of somebody else's words: they are shown as they are, and never read as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clinometer._messages import printable

_ENTITIES: Final = {ord(character): f"&#{ord(character)};" for character in "|$\\`~"} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
_BACKSLASHED: Final = re.compile(r"[*\[\]]|(?<![^\W_])_|_(?![^\W_])")
"""What begins emphasis or a link; an underscore between letters begins nothing."""

_LEADING: Final = re.compile(r"^([+=-]+)(?=\s|$|[=-])|(?<!\S)(#+)|^(\d{1,9})([.)])(?=\s|$)")
"""What would begin a heading, a list or a rule, were it the first word of a line; or end a heading."""


def escaped(text: object) -> str:
    r"""Text on one line in which Markdown and HTML find nothing, in a table's cell too.

    Entities stand for what HTML, tables, code and mathematics are written with: CommonMark reads no structure in them,
    and readers differ in what they make of a backslash.

    >>> escaped("a_b _c | <b>`x`\n# y")
    'a_b \\_c &#124; &lt;b&gt;&#96;x&#96; &#35; y'
    >>> escaped("# a"), escaped("1. a"), escaped("+0.30"), escaped("- ")
    ('&#35; a', '1&#46; a', '+0.30', '&#45;')
    """
    line = one_line(text).translate(_ENTITIES)
    return _LEADING.sub(_as_entities, _BACKSLASHED.sub(r"\\\g<0>", line))


def _as_entities(found: re.Match[str]) -> str:
    if found[3]:
        return f"{found[3]}&#{ord(found[4])};"
    return "".join(f"&#{ord(character)};" for character in found[0])


def one_line(text: object) -> str:
    r"""Text without characters that are not shown, its white space as single spaces.

    >>> one_line("a\n\n b\x07")
    'a b\ufffd'
    """
    return printable(" ".join(str(text).split()))


def fenced(text: str, language: str = "") -> Markup:
    """A block of code that its text cannot end.

    >>> print(fenced("a ``` b", "sh"))
    ````sh
    a ``` b
    ````
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text}\n{fence}")


@cache
def environment() -> Environment:
    """The templates of Markdown; whatever is put into them is escaped, unless it is Markdown already."""

    def finalize(value: Any) -> Any:
        return value if isinstance(value, Markup) else escaped(value)

    environment = Environment(
        loader=PackageLoader("clinometer.report"),
        autoescape=False,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cells"] = cells
    return environment


def cells(texts: Iterable[object]) -> Markup:
    """A row of a table, of texts and of what is Markdown already."""
    return Markup(f"| {' | '.join(text if isinstance(text, Markup) else escaped(text) for text in texts)} |")
