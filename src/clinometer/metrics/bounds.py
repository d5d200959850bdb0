"""What the pictures that are not there, or twice, might change: the same verdict with them filled in.

A picture that was refused, or failed, would have shown something. Nobody knows what, so all of them are taken to be of
group a, and then all of group b, each at what an image of that group may score; of pictures that are another one again,
which count once, the mean is also taken over all as they were drawn. A missing picture of an attribute group is taken
to be as near to what is measured as the nearest picture of any group, and then as far as the farthest. Of two runs,
what is missing of the one is taken to be of the group that what is missing of the other is not. Each filling is tested
and judged as the pictures themselves are, with q over the same family. A verdict that a filling does not bear out
depends on it, and says so (Manski 1990: bounds without an assumption about why something is missing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Final

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import LEANING, Ends, Verdict, image_ends

MISSING: Final = "missing"
REPEATS: Final = "repeats"
UNREAD: Final = "unread"
READER: Final = "reader"
"""What a verdict may depend on: the values of ``Score.depends_on``, which may be several, one behind the other."""


def with_bounds(
    rows: Sequence[Score], fillings: Mapping[str, Sequence[Sequence[Score]]], ends: Ends = image_ends
) -> list[Score]:
    """Give rows the outermost ends of their interval over all fillings, and what their verdict depends on.

    ``fillings`` : by what is filled in, the same rows judged with it, once for every way to fill it in.
    ``ends`` : which interval is judged.
    """
    held = list(rows)
    for place, row in enumerate(rows):
        apart = {kind: [filled[place] for filled in some] for kind, some in fillings.items() if _concerns(row, kind)}
        others = [other for some in apart.values() for other in some]
        low, high = ends(row)
        if not others or not isfinite(low):
            continue
        beyond = [ends(other) for other in others]
        depends = [kind for kind, some in apart.items() if not all(bears_out(row, other) for other in some)]
        held[place] = replace(
            row,
            bound_low=min(low, *(least for least, _ in beyond)),
            bound_high=max(high, *(most for _, most in beyond)),
            depends_on=" ".join(depends),
        )
    return held


def without_bounds(row: Score) -> Score:
    """Return the row without what was said of fillings."""
    return replace(row, bound_low=nan, bound_high=nan, depends_on="")


def _concerns(row: Score, kind: str) -> bool:
    return (row.n_missing + row.n_missing_attributes if kind == MISSING else row.n_repeated) > 0


def bears_out(row: Score, other: Score) -> bool:
    """Tell whether a filling, or another reader, has a row's verdict; what it does not decide depends on nothing."""
    if row.verdict in LEANING:
        return other.verdict in LEANING and other.side == row.side
    return row.verdict not in (Verdict.BALANCED, Verdict.MORE, Verdict.ALIKE) or (
        (other.verdict, other.side) == (row.verdict, row.side)
    )
