"""Whether groups are the complete product of some axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod


def wrong_product(axes: Mapping[str, Sequence[str]], cells: Mapping[str, Sequence[str]], groups: Sequence[str]) -> str:
    """What is wrong with axes and cells, in one line; empty where the groups are their complete product."""
    if len(axes) < 2 or any(len(levels) < 2 or len(set(levels)) < len(levels) for levels in axes.values()):
        return "axes: expected two or more, each of two or more different levels"
    if set(cells) != set(groups):
        return "cells: expected the levels of every group, and of no other"
    for group in groups:
        if not _is_cell(cells[group], axes):
            return f"cells: {group!r} is at {', '.join(cells[group])}; expected a level of each of {', '.join(axes)}"
    size = prod(map(len, axes.values()))
    if len(groups) != size or len({tuple(cells[group]) for group in groups}) != size:
        return f"groups: expected {size}, one for every combination of the axes' levels, found {len(groups)}"
    return ""


def _is_cell(cell: Sequence[str], axes: Mapping[str, Sequence[str]]) -> bool:
    return len(cell) == len(axes) and all(level in levels for level, levels in zip(cell, axes.values(), strict=True))
