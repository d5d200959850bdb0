"""The one writer of CSV: in a spreadsheet, no name that somebody else chose becomes a formula.

Spreadsheets read a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line's end as a formula, quoted or not.
Such text is written with an apostrophe in front, by which a spreadsheet knows that it is text. Numbers stay numbers,
negative ones too, and so does text that is a number.
"""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
WIDE: Final = ("\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The first four as East Asian letters, which some spreadsheets read alike."""


def text_of(content: bytes) -> str:
    """Return the text of a table as programs save it: UTF-8, or UTF-16 with the byte order mark of spreadsheets.

    Raises
    ------
    UnicodeDecodeError
        It is neither.
    """
    head = content[:40]
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return content.decode("utf-16")
    if len(head) > 9 and not any(head[1::2]) and all(head[::2]):  # the same without its mark
        return content.decode("utf-16-le")
    return content.decode("utf-8").lstrip("\ufeff")


def workbook(content: bytes) -> str:
    """Name the spreadsheet format of a file that is no table of text; empty for others."""
    kinds = {b"PK\x03\x04": "an Excel workbook or another archive", b"\xd0\xcf\x11\xe0": "an old Excel workbook"}
    return kinds.get(content[:4], "")


def without_separator_line(text: str) -> tuple[str, str]:
    """Split off a first line ``sep=;``, as spreadsheets write it; return the separator, or nothing, and the rest."""
    first, _, rest = text.partition("\n")
    named = first.strip().strip('"')
    return (named[4:], rest) if named[:4].lower() == "sep=" and len(named) == 5 else ("", text)


ROWS_AT_ONCE: Final = 20_000


def csv_text(table: pd.DataFrame) -> str:
    """Return a table as CSV, without its index."""
    texts, parts = table.select_dtypes(exclude=["number", "bool"]).columns, []
    for start in range(0, max(len(table), 1), ROWS_AT_ONCE):  # text in memory takes four bytes a character
        part = table.iloc[start : start + ROWS_AT_ONCE]
        tame = part.assign(**{name: _tamed(part[name]) for name in texts}) if len(texts) else part
        parts.append(str(tame.rename(columns=_tame).to_csv(index=False, header=not start)))
    return "".join(parts)


def _tamed(cells: pd.Series) -> Any:
    """Return cells that no spreadsheet reads as formulas; equal texts of a column are checked once."""
    import numpy as np
    from pandas.api.types import infer_dtype

    if infer_dtype(cells, skipna=False) != "string":  # equal cells may be different: 1 and True
        return cells.map(_tame)
    codes, texts = cells.factorize(use_na_sentinel=False)
    return np.array([_tame(text) for text in texts], object).take(codes)


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
