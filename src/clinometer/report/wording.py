"""Words and numbers as the page writes them. Wording only: nothing here estimates anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final

from clinometer._messages import first_and_more
from clinometer.report.rows import Row

MINUS: Final = "\N{MINUS SIGN}"
DASH: Final = "\N{EN DASH}"
MISSING: Final = "\N{EM DASH}"
ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"

COMPONENT_NAMES: Final = {
    "ii": "II",
    "itp": "ITP",
    "ita": "ITA",
    "tt": "TT",
    "image_part": "image part",
    "text_part": "text part",
    "mcas": "MCAS",
}
PART_SCALE: Final = f"on a scale from {MINUS}4 to 4"
MCAS_SCALE: Final = f"on a scale from {MINUS}8 to 8"
COMPONENT_MEANINGS: Final = {
    "ii": "drawn images against drawn images",
    "itp": "prompts against drawn images",
    "ita": "drawn images against words",
    "tt": "prompts against words",
}
_WORDS: Final = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def number(value: float, digits: int = 2) -> str:
    """Write a number with a true minus; an em dash where there is none."""
    if not isfinite(value):
        return MISSING
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def signed(value: float, digits: int = 2) -> str:
    """Write a number with its sign, plus included."""
    text = number(value, digits)
    return text if text[0] in (MINUS, MISSING) or float(text) == 0 else f"+{text}"


def digits_for(values: Sequence[float]) -> int:
    """Choose decimal places that keep two figures of the larger values: 2 near 0.3, 3 near 0.05, 2 where all are 0."""
    largest = max((abs(value) for value in values if isfinite(value) and value), default=1.0)
    return 2 if largest >= 0.2 else 3 if largest >= 0.02 else 4


def interval(low: float, high: float, digits: int = 2) -> str:
    """Write an interval in brackets; empty when either end is missing."""
    if not (isfinite(low) and isfinite(high)):
        return ""
    return f"[{number(low, digits)}, {number(high, digits)}]"


def flagged(text: str, *, unstable: bool) -> str:
    """Mark what divides by nearly nothing."""
    return f"{text} (unstable)" if unstable else text


def percent(value: float) -> str:
    """Write a share as a whole percentage."""
    return f"{100 * value:.0f}\N{NARROW NO-BREAK SPACE}%" if isfinite(value) else MISSING


def signed_percent(value: float) -> str:
    """Write a share with its sign and one decimal: ``+12.5 %``."""
    return f"{signed(100 * value, 1)}\N{NARROW NO-BREAK SPACE}%" if isfinite(value) else MISSING


def probability(value: float, name: str = "p") -> str:
    """Write ``p = 0.034`` or ``p < 0.001``; empty when missing."""
    if not isfinite(value):
        return ""
    return f"{name} < 0.001" if value < 0.001 else f"{name} = {value:.3f}"


def bare_probability(value: float) -> str:
    """Write ``0.034`` or ``< 0.001``, for a column that is headed p or q; empty when missing."""
    return probability(value).removeprefix("p ").removeprefix("= ")


def with_interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """Write ``+0.21 [0.10, 0.32]``, or the number alone where it has no interval."""
    return f"{signed(value, digits)} {interval(low, high, digits)}".strip()


def splits(row: Row) -> str:
    """How a permutation p was found: ``exact, 70 splits``; a certified one with its bracket; empty without splits."""
    if row.n_splits == 0:
        return ""
    if row.p_method == "certified":
        return f"certified: p between {row.p_low:.2g} and {row.p_high:.2g}"
    return f"{'exact' if row.p_exact else 'sampled'}, {row.n_splits:,} splits"


def count(n: int, one: str, many: str | None = None, *, words: bool = False) -> str:
    """Write ``1 image``, ``20 images``; with ``words``, ``three images``."""
    return f"{numeral(n) if words else f'{n:,}'} {one if n == 1 else many or one + 's'}"


def numeral(n: int) -> str:
    """Write a small number as a word: ``three``, ``13``."""
    return _WORDS[n] if 0 <= n < len(_WORDS) else f"{n:,}"


def listed(items: Sequence[str]) -> str:
    """Join with commas and "and"."""
    return ", ".join(items[:-1]) + (" and " if len(items) > 1 else "") + items[-1] if items else ""


def capitalised(text: str) -> str:
    """Capitalise the first letter and leave the rest as it is."""
    return text[:1].upper() + text[1:]


def reasons(missing: Iterable[tuple[str, str]]) -> list[str]:
    """Why cells of a table are empty, a line for each reason: how many where they are more than three."""
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in missing:
        names_by_reason.setdefault(reason, []).append(name)
    return [
        f"{listed(names) if len(names) <= 3 else count(len(names), 'cell')}: {reason}"
        for reason, names in names_by_reason.items()
    ]


def commonest(reasons: Iterable[str], unit: str) -> str:
    """Count reasons, the commonest first, and no more of them than three: ``no image of the target (2 concepts)``."""
    counted = Counter(reasons).most_common()
    return first_and_more([f"{reason} ({count(n, unit)})" for reason, n in counted], 3)


def shortened(text: str, width: int) -> str:
    """Cut to ``width`` characters, the last an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + ELLIPSIS


def about(n: int) -> str:
    """Write a number of images that would decide in two figures, rounded upwards; empty where none would."""
    if n <= 0:
        return ""
    places = max(0, len(str(n)) - 2)
    return f"{-(-n // 10**places) * 10**places:,}"  # two figures: it is an estimate


def share_words(share: Row | None, label_a: str, label_b: str) -> str:
    """Say how many images read as the group that most of them do: "19 of 20 images read as men"."""
    if share is None or not share.defined or share.n_target <= 0:
        return ""
    if share.flag == "not shown":
        return "its images do not show the concept better than chance, so their share is not read"
    near_a = share.value * share.n_target
    label, near = (label_a, near_a) if share.value >= 0.5 else (label_b, share.n_target - near_a)
    if abs(near - round(near)) > 0.01:  # an average over encoders is no whole number of images
        return f"{percent(near / share.n_target)} of {count(share.n_target, 'image')} read as {label}"
    lost = share.n_missing
    total = share.n_target + lost
    filled = f"; with the {lost:,} missing, {round(near):,} to {round(near) + lost:,} of {total:,}" if lost else ""
    return f"{round(near)} of {count(share.n_target, 'image reads', 'images read')} as {label}{filled}"
