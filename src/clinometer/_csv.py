"""The one writer of CSV: a table that a spreadsheet opens holds no formula that somebody else put into a name.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line's end is read as a formula by spreadsheets, whatever
quotes stand around it. Text that begins so gets an apostrophe in front, which says to a spreadsheet: this is text.
Numbers stay numbers, negative ones too, and so does text that is a number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
WIDE: Final = ("\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The first four as East Asian letters, which some spreadsheets read alike."""


ROWS_AT_ONCE: Final = 20_000


def csv_text(table: pd.DataFrame) -> str:
    """Return a table as CSV, without its index."""
    texts, parts = table.select_dtypes(exclude=["number", "bool"]).columns, []
    for start in range(0, max(len(table), 1), ROWS_AT_ONCE):  # what is being written takes four bytes a character
        part = table.iloc[start : start + ROWS_AT_ONCE]
        tame = part.assign(**{name: part[name].map(_tame) for name in texts}) if len(texts) else part
        parts.append(str(tame.rename(columns=_tame).to_csv(index=False, header=not start)))
    return "".join(parts)


def _tame(cell: Any) -> Any:
    """Return a cell that no spreadsheet reads as a formula."""
    return _tamed_text(cell) if isinstance(cell, str) else cell


@lru_cache(maxsize=2**12)  # the rows of a table say the same again and again
def _tamed_text(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # which alone is not quoted, and ends a row
    is_formula = text.lstrip(" ").startswith((*FORMULAS, *WIDE)) and not _is_number(text)
    return f"'{text}" if is_formula else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and not text[-1:].isspace()
