r"""Tables as LaTeX to paste into an article: booktabs' rules, siunitx's columns, inside the text width of an article.

A number stands in an ``S`` column, its interval below it, as a standard error stands below a coefficient. A table that
is too wide in small type is cut by its columns, one that is too long by its rows; each part has the table's caption.
``table*`` is a plain table in one column and spans both of two. Widths are estimated from Computer Modern's, which are
wider than Times'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil
from typing import Final

import pandas as pd

from clinometer.report.figures import MARGIN, Figure
from clinometer.report.model_card import one_line

QUOTED_BRACKET: Final = "\ue000"
"""Stands for an opening bracket of somebody else's text while ours is searched for citations; a private character."""

ESCAPES: Final = str.maketrans({
    QUOTED_BRACKET: "[",
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\^{}", "~": r"\~{}", "−": "$-$", "–": "--", "—": "---", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\leq$",
    "≥": r"$\geq$", "°": r"$^\circ$", "“": "``", "”": "''", "’": "'", "δ": r"$\delta$", "Δ": r"$\Delta$",
    "α": r"$\alpha$", "θ": r"$\theta$", "τ": r"$\tau$", "χ": r"$\chi$", "²": "$^2$", "→": r"$\rightarrow$",
    "…": r"\ldots{}", "·": r"$\cdot$", "<": "$<$", ">": "$>$", "|": "$|$", "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{NO-BREAK SPACE}": "~",
})  # fmt: skip
"""Characters that LaTeX takes for markup, or that its older engines cannot print."""

TEXT_WIDTH: Final = 334.0
"""Points of the narrowest text: article's 345 at 10 pt, less what an estimate may miss; neurips has 397, acl 455."""

COLUMN: Final = 215.0
"""Points of a column of acl: a table that is wider spans both."""

TEXT_HEIGHT: Final = 430.0
"""Points that the rows of a part may take; caption, notes and head come on top."""

SIZES: Final = {"small": 9.0, "footnotesize": 8.0, "scriptsize": 7.0}
TINY: Final = 5.0
"""Points of the type of intervals."""

STRETCH: Final = {9.0: 1.03, 8.0: 1.06, 7.0: 1.14, TINY: 1.36}
"""How much wider, for its size, Computer Modern is in small type."""

GAP: Final = 6.0
"""Points between two columns."""

MOST_TOLD: Final = 400
"""Letters of a figure's description that a caption has room for; a longer one tells every mark."""

_NUMBER: Final = re.compile(r"([-+−]?)(\d[\d,]*)(?:\.(\d+))?")
_ESTIMATE: Final = re.compile(r"([-+−]?\d[\d,]*(?:\.\d+)?)(?: (\[[^\]]*\]))?(?: (\([\w ,]+\)))?")
_EM: Final = 0.53
"""Width of a letter in ems, on average, of text; a digit has .5."""


@dataclass(frozen=True)
class Column:
    """A column: the lines of its head, outer first, and a cell a row; ``below`` a second line of each cell, if any.

    ``group`` : columns of one group stand under one outer head, and are not parted.
    """

    heads: tuple[str, ...]
    cells: tuple[str, ...]
    below: tuple[str, ...] = ()
    group: str = ""

    @property
    def is_number(self) -> bool:
        """Whether every cell is a number, or has none; then it is set by siunitx."""
        filled = [cell for cell in self.cells if cell not in ("", "—")]
        return bool(filled) and all(_NUMBER.fullmatch(cell) or cell.startswith("<") for cell in filled)

    @property
    def format(self) -> str:
        """What siunitx has to reserve: signs, digits before and after the point."""
        found = [match for cell in self.cells if (match := _NUMBER.fullmatch(cell))]
        sign = "-" if any(match[1] for match in found) else ""
        whole = max((len(match[2].replace(",", "")) for match in found), default=1)
        digits = max((len(match[3] or "") for match in found), default=0)
        return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"

    def width(self, size: float) -> float:
        """Estimate how wide it is in type of a size, where nothing in it is broken."""
        texts = [*self.cells, self.heads[-1]]
        return max([_width(cell, size) for cell in texts] + [_width(cell, TINY) for cell in self.below])

    def least(self, size: float) -> float:
        """Estimate how wide its longest word is."""
        if self.is_number or self.below:
            return self.width(size)
        return max(_width(word, size) for cell in (*self.cells, self.heads[-1]) for word in cell.split(" "))


def _width(text: str, size: float) -> float:
    digits = sum(each.isdigit() for each in text)
    capitals = sum(each.isupper() for each in text)
    wide = sum(each in "mwMW" for each in text)
    return STRETCH[size] * size * (0.3 * wide + 0.5 * digits + 0.78 * capitals + _EM * (len(text) - digits - capitals))


def plain_name(name: str) -> str:
    r"""Return a name of letters, digits and dashes alone: of a file in this folder, and of a label in LaTeX.

    >>> plain_name("image_part"), plain_name(r"x}\input{/etc/passwd"), plain_name("../..")
    ('image_part', 'x-input-etc-passwd', 'unnamed')
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:80] or "unnamed"


def latex_text(text: object) -> str:
    r"""Return text on one line as LaTeX prints it: no command, no comment, no mathematics of its own.

    >>> latex_text("50 % of \\input{x}"), latex_text("a\nb\x00")
    ('50 \\% of \\textbackslash{}input\\{x\\}', 'a b\ufffd')
    """
    return one_line(text).translate(ESCAPES)


def latex(table: pd.DataFrame, *, caption: str, label: str, notes: str = "") -> str:
    """Write a table of texts as LaTeX: columns of numbers, of numbers with their intervals, and of words."""
    written = table.map(one_line)
    columns = [_column(str(table.columns[at]), tuple(written.iloc[:, at])) for at in range(len(table.columns))]
    return latex_columns(columns, caption=caption, label=label, notes=notes)


def _column(head: str, cells: tuple[str, ...]) -> Column:
    """Split a column of estimates: the numbers, and below each its interval and notes."""
    found = [_ESTIMATE.fullmatch(cell) for cell in cells]
    if any(match and match[2] for match in found) and all(
        match or cell in ("", "—") for match, cell in zip(found, cells, strict=True)
    ):
        numbers = tuple(match[1] if match else cell for match, cell in zip(found, cells, strict=True))
        below = tuple(" ".join(filter(None, (match[2], match[3]))) if match else "" for match in found)
        return Column((one_line(head),), numbers, below)
    return Column((one_line(head),), cells)


def latex_columns(
    columns: Sequence[Column], *, caption: str, label: str, notes: str = "", blocks: Sequence[str] = ()
) -> str:
    """Write columns as one table, or as several where one would be too wide or too long.

    ``blocks`` : by row the heading that it stands under, the same for rows under one heading.
    """
    label = ":".join(map(plain_name, label.split(":")))
    parts = [part for by_width in _by_width(columns) for part in _by_height(by_width, blocks)] if columns else []
    written = []
    short = caption.split(". ", maxsplit=1)[0].rstrip(".")
    for number, (part_columns, part_blocks) in enumerate(parts):
        part_caption = caption if not number else f"{short} (part {number + 1} of {len(parts)})."
        part_label = label if not number else f"{label}-{number + 1}"
        written.append(_one(part_columns, part_blocks, part_caption, part_label, notes))
        if number % 10 == 9:  # so many floats at once are more than LaTeX keeps
            written.append("\\clearpage\n")
    return "% needs \\usepackage{booktabs, siunitx}\n" + "".join(written)


def latex_figures(figures: Iterable[tuple[str, Figure, str]], *, label: str) -> str:
    """Write a file that includes figures, each as large as it was drawn and no wider than the text, with its caption.

    ``figures`` : of each the name of its file in ``figures/``, the figure, and what its caption opens with.
    """
    lines = ["% needs \\usepackage{graphicx}, and this file beside the folder figures"]
    for number, (name, figure, opening) in enumerate(figures, 1):
        points = (figure.width + 2 * MARGIN) * 72.27 / 72
        description = figure.description if len(figure.description) <= MOST_TOLD else ""
        caption = " ".join(filter(None, (opening.strip(), description)))
        lines += [
            f"\\begin{{{'figure*' if points > COLUMN else 'figure'}}}[htbp]", "\\centering",
            f"\\includegraphics[width=\\ifdim\\linewidth<{points:.0f}pt \\linewidth\\else {points:.0f}pt\\fi,"
            f"height=.8\\textheight,keepaspectratio]{{figures/{name}.pdf}}",
            f"\\caption{{{latex_text(caption)}}}", f"\\label{{fig:{plain_name(label)}-{name}}}",
            f"\\end{{{'figure*' if points > COLUMN else 'figure'}}}",
        ]  # fmt: skip
        if number % 10 == 0:
            lines.append("\\clearpage")
    return "\n".join([*lines, ""])


def _fits(columns: Sequence[Column], size: float) -> bool:
    return sum(_least_of(list(group), size) for group in _groups(columns)) <= TEXT_WIDTH


def _groups(columns: Sequence[Column]) -> list[list[Column]]:
    """Return the columns that stand together: those of one named group, else each alone."""
    keyed = groupby(enumerate(columns), key=lambda each: each[1].group or f"column {each[0]}")
    return [[column for _, column in group] for _, group in keyed]


def _least_of(group: Sequence[Column], size: float) -> float:
    """Estimate how wide the columns of a group are, or an interval that spans them."""
    numbers = sum(column.least(size) + GAP for column in (replace(each, below=()) for each in group))
    below = max((_width(cell, TINY) for column in group for cell in column.below), default=0.0)
    return max(numbers, below + GAP)


def _by_width(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Cut columns where they are too wide in the smallest type; the first one, the names of rows, is in every part."""
    first, part = columns[0], list[Column]()
    smallest = SIZES["scriptsize"]
    for _, under in groupby(columns[1:], key=lambda each: each.heads[0] if len(each.heads) > 1 else ""):
        cols = list(under)
        if part and cols[0].heads[0] and _fits([first, *cols], smallest) and not _fits([first, *part, *cols], smallest):
            yield [first, *part]  # what stands under one head stays together where it can
            part = []
        for group in _groups(cols):
            if part and not _fits([first, *part, *group], smallest):
                yield [first, *part]
                part = []
            part += group
    yield [first, *part]


def _by_height(columns: Sequence[Column], blocks: Sequence[str]) -> Iterator[tuple[list[Column], Sequence[str]]]:
    """Cut rows where they are too many for a page."""
    size = _size(columns)
    widths, start, height = _widths(columns, size), 0, 0.0
    rows = range(len(columns[0].cells))
    for row in rows:
        lines = max(
            [ceil(column.width(size) and _width(column.cells[row], size) / width) if width else 1
             for column, width in zip(columns, widths, strict=True)] + [1]
        )  # fmt: skip
        new = bool(blocks and blocks[row] and (row == start or blocks[row] != blocks[row - 1]))
        needed = 1.25 * size * (lines + new) + any(column.below and column.below[row] for column in columns) * size
        if height + needed > TEXT_HEIGHT:
            yield _rows(columns, start, row), blocks[start:row]
            start, height = row, 0.0
        height += needed
    yield _rows(columns, start, len(rows)), blocks[start:]


def _rows(columns: Sequence[Column], start: int, end: int) -> list[Column]:
    return [replace(each, cells=each.cells[start:end], below=each.below[start:end]) for each in columns]


def _size(columns: Sequence[Column]) -> float:
    """Choose the largest type in which numbers, and the longest words, fit side by side."""
    return next((size for size in SIZES.values() if _fits(columns, size)), SIZES["scriptsize"])


def _widths(columns: Sequence[Column], size: float) -> list[float]:
    """Return of each column of words how wide it may be before it is broken; 0 of one that needs no break."""
    natural = [each.width(size) for each in columns]
    spare = TEXT_WIDTH - sum(_least_of(group, size) for group in _groups(columns))
    wanted = {at: natural[at] - each.least(size) for at, each in enumerate(columns) if not each.is_number}
    if sum(wanted.values()) <= spare:
        return [0.0] * len(columns)
    share = max(spare, 0.0) / sum(wanted.values())
    return [
        columns[at].least(size) + share * wanted[at] + 1 if wanted.get(at, 0) > 0 else 0.0 for at in range(len(columns))
    ]


def _one(columns: Sequence[Column], blocks: Sequence[str], caption: str, label: str, notes: str) -> str:
    size = _size(columns)
    widths = _widths(columns, size)
    name = next(name for name, value in SIZES.items() if value == size)
    width = sum(w or each.width(size) for w, each in zip(widths, columns, strict=True)) + GAP * len(columns)
    environment = "table*" if width > COLUMN else "table"
    kinds = [
        f"S[table-format={each.format}]" if each.is_number
        else f">{{\\raggedright\\arraybackslash}}p{{{width:.0f}pt}}" if width else "l"
        for each, width in zip(columns, widths, strict=True)
    ]  # fmt: skip
    lines = [
        f"\\begin{{{environment}}}[htbp]", "\\centering", f"\\caption{{{latex_text(caption)}}}", f"\\label{{{label}}}",
        f"\\{name}", f"\\setlength{{\\tabcolsep}}{{{GAP / 2:g}pt}}",
        f"\\begin{{tabular}}{{@{{}}{''.join(kinds)}@{{}}}}", "\\toprule", *_head(columns), "\\midrule",
        *_body(columns, blocks), "\\bottomrule", "\\end{tabular}",
        *([f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\footnotesize {latex_text(notes)}}}"] if notes else []),
        f"\\end{{{environment}}}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _head(columns: Sequence[Column]) -> Iterator[str]:
    """Write the lines of the head; an outer name stands over all of its columns, with a rule below."""
    depth = max(len(each.heads) for each in columns)
    padded = [("",) * (depth - len(each.heads)) + each.heads for each in columns]
    for level in range(depth - 1):
        cells, rules, at = list[str](), list[str](), 1
        for heads, same in groupby(padded, key=lambda each: each[: level + 1]):
            span = len(list(same))
            cells.append(f"\\multicolumn{{{span}}}{{c}}{{{latex_text(heads[-1])}}}" if heads[-1] else "&" * (span - 1))
            if heads[-1] and span > 1:
                rules.append(f"\\cmidrule(lr){{{at}-{at + span - 1}}}")
            at += span
        yield " & ".join(cells) + " \\\\"
        if rules:
            yield "".join(rules)
    names = [latex_text(heads[-1]) for heads in padded]
    yield " & ".join(
        f"{{{name}}}" if each.is_number or not at else name
        for at, (each, name) in enumerate(zip(columns, names, strict=True))
    ) + " \\\\"  # fmt: skip


def _body(columns: Sequence[Column], blocks: Sequence[str]) -> Iterator[str]:
    """Write the rows, each block under its heading. A row cannot begin with an option of the line's end before it."""
    for row in range(len(columns[0].cells)):
        if blocks and blocks[row] and (not row or blocks[row] != blocks[row - 1]):
            yield f"\\multicolumn{{{len(columns)}}}{{@{{}}l}}{{\\textit{{{latex_text(blocks[row])}}}}} \\\\"
        cells = [_cell(each, each.cells[row]) for each in columns]
        if not columns[0].is_number:
            cells[0] = f"{{}}{cells[0]}"
        yield " & ".join(cells) + " \\\\"
        if any(each.below and each.below[row] for each in columns):
            yield " & ".join(_second_line(columns, row)) + " \\\\"


def _cell(column: Column, text: str) -> str:
    if not column.is_number:
        return latex_text(text)
    match = _NUMBER.fullmatch(text)
    return text.replace("−", "-").replace(",", "") if match else f"{{{latex_text(text)}}}"


def _second_line(columns: Sequence[Column], row: int) -> Iterator[str]:
    """Yield the line of intervals: each under its number, or under all columns of its group."""
    for group in _groups(columns):
        joined = " ".join(each.below[row] for each in group if each.below and each.below[row])
        if joined and len(group) > 1 and sum(bool(each.below) for each in group) == 1:
            yield f"\\multicolumn{{{len(group)}}}{{r}}{{\\tiny {latex_text(joined)}}}"
            continue
        for each in group:
            interval = each.below[row] if each.below else ""
            yield f"\\multicolumn{{1}}{{r}}{{\\tiny {latex_text(interval)}}}" if interval else ""
