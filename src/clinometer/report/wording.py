"""Words and numbers as pages write them: numbers first, then verdicts, their sides and their reasons.

Nothing here estimates anything. A verdict is data (:mod:`clinometer.metrics.verdict`); here it is said, of a score or
of the difference of two runs, in the labels of the suite and the names of the runs. No code reads meaning back out. See
decision 48.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Final, Literal, NamedTuple

from clinometer._messages import first_and_more
from clinometer.metrics.differences import FIRST, SECOND
from clinometer.metrics.verdict import (
    DRIFT,
    FEWEST_IMAGES,
    LEANING,
    LEVEL,
    OTHERS,
    REPEATS,
    UNREAD,
    ReasonCode,
    Verdict,
)
from clinometer.metrics.verdict import MISSING as MISSING_PICTURES
from clinometer.metrics.verdict import READER as BY_READER
from clinometer.report.view import ABLATION_METRIC, Row

MINUS: Final = "\N{MINUS SIGN}"
DASH: Final = "\N{EN DASH}"
MISSING: Final = "\N{EM DASH}"
ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"

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


def estimate(
    row: Row | None, digits: int = 2, *, sign: bool = True, over: str = "images", scale: float = 1.0, unit: str = ""
) -> str:
    """Write a row's number and the interval that it has: ``+0.21 [0.10, 0.32]``; an em dash where there is none.

    ``over`` : what the interval is over, images or ``"stimuli"``. ``unit`` : follows the number, scaled by ``scale``.
    """
    if row is None or not row.defined:
        return MISSING
    low, high = row.ends(over)
    number_text = (signed if sign else number)(scale * row.value, digits)
    return f"{number_text}{unit} {interval(scale * low, scale * high, digits)}".strip()


def splits(row: Row) -> str:
    """Word how a permutation p was found: ``exact, 70 splits``, or certified with its bracket; empty without splits."""
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
    """Explain why cells of a table are empty, a line for each reason: how many where they are more than three."""
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


MANY: Final = 10_000
"""Images that would decide, beyond which no estimate is sure enough for a number to be told."""


def about(*numbers: int) -> str:
    """Write how many images would decide, ``about 320``, or from the least to the most; empty where none would.

    In two figures, rounded upwards, for they are estimates; beyond ten thousand ``more than 10,000``.
    """
    ends = sorted(n for n in numbers if n > 0)
    written = list(dict.fromkeys(_two_figures(n) for n in ends[:: max(len(ends) - 1, 1)]))
    if not written:
        return ""
    return " to ".join(written) if written[0].startswith("more") else f"about {' to '.join(written)}"


def _two_figures(n: int) -> str:
    places = max(0, len(str(n)) - 2)
    return f"{-(-n // 10**places) * 10**places:,}" if n <= MANY else f"more than {MANY:,}"


class CountedShare(NamedTuple):
    """The share of images that read as the group that most of them do, with its interval; of ``n_images``."""

    value: float
    low: float
    high: float
    n_images: int
    label: str

    @property
    def near(self) -> int | None:
        """How many images; None of an average over encoders that is no whole number of them."""
        near = self.value * self.n_images
        return round(near) if abs(near - round(near)) <= 0.01 else None

    @property
    def out_of(self) -> str:
        """Write ``19 of 20``; where that is no whole number, ``93 % of 20``."""
        return f"{percent(self.value) if self.near is None else f'{self.near:,}'} of {self.n_images:,}"

    @property
    def share(self) -> str:
        """Write ``95 % [76 %, 99 %]``."""
        ends = isfinite(self.low) and isfinite(self.high)
        return percent(self.value) + (f" [{percent(self.low)}, {percent(self.high)}]" if ends else "")


def counted_share(share: Row | None, label_a: str, label_b: str) -> CountedShare | None:
    """Count the images that read as the group that most of them do; None where no share is known or can be read."""
    if share is None or not share.defined or share.n_target <= 0 or share.flag == "not shown":
        return None
    if share.value >= 0.5:
        return CountedShare(share.value, share.low, share.high, share.n_target, label_a)
    return CountedShare(1 - share.value, 1 - share.high, 1 - share.low, share.n_target, label_b)


def share_words(share: Row | None, label_a: str, label_b: str) -> str:
    """State how many images read as the group that most of them do: "19 of 20 images read as men"."""
    if share is not None and share.defined and share.n_target > 0 and share.flag == "not shown":
        return "its images are not shown to be what was asked, so no share is read from them"
    counted = counted_share(share, label_a, label_b)
    if share is None or counted is None:
        return ""
    near, lost = counted.near, share.n_missing
    if near is None:
        return f"{counted.out_of} {'image' if counted.n_images == 1 else 'images'} read as {counted.label}"
    total = counted.n_images + lost
    filled = f"; with the {lost:,} missing, {near:,} to {near + lost:,} of {total:,}" if lost else ""
    return f"{near} of {count(counted.n_images, 'image reads', 'images read')} as {counted.label}{filled}"


VerdictGroup = Literal["a", "b", "balanced", "undecided", "few", "unmeasured"]
"""Where a page lists what it judged: the side, or why none is named."""

VERDICT_GROUPS: Final[tuple[VerdictGroup, ...]] = ("a", "b", "balanced", "undecided", "few", "unmeasured")

Label = Callable[[str], str]
"""The label of a side: of a group of the suite, or whatever else a side is named."""

_VERDICT_GROUP_OF: Final[dict[str, VerdictGroup]] = {
    Verdict.BALANCED: "balanced",
    Verdict.UNDECIDED: "undecided",
    Verdict.TOO_FEW: "few",
}
_PLAIN: Final[dict[str, str]] = {
    Verdict.BALANCED: "shown balanced",
    Verdict.UNDECIDED: "undecided",
    Verdict.TOO_FEW: "too few images to tell",
    Verdict.NOT_MEASURED: "not measured",
    Verdict.ALIKE: "shown to lean alike within the margin",
}
_AFTER_A_SUBJECT: Final[dict[str, str]] = {
    Verdict.BALANCED: "is shown balanced",
    Verdict.UNDECIDED: "is undecided",
    Verdict.TOO_FEW: "has too few images to tell",
}
_REASONS: Final[dict[str, str]] = {
    ReasonCode.INTERVAL: "the interval covers 0",
    ReasonCode.CORRECTION: "it does not stand out once q corrects for the number of tests",
    ReasonCode.ZEROS_DISAGREE: "measured from 0 and from the middle of the groups' own pictures, verdicts differ",
    ReasonCode.WITNESSES_DISAGREE: "the share of its images contradicts the image part",
    ReasonCode.TOO_FEW_IMAGES: "too few images",
    ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES: "too few images of the groups to tell whether the encoder reads them",
    ReasonCode.TOO_FEW_EXCHANGES: "there are too few to exchange for any p to reach 0.05",
    ReasonCode.NO_ESTIMATE: "there is no score for it",
    ReasonCode.NO_TEST: "there is no interval or no p to judge it by",
    ReasonCode.READER: "the encoder does not read its own attribute images",
    ReasonCode.DOMAIN: "the encoder does not fit the suite or the model",
    ReasonCode.NOT_APART: "the reader does not tell the groups apart",
    ReasonCode.UNKNOWN_ERRORS: "how often the reader errs is not known",
    ReasonCode.NOT_ALIKE: "the reader's errors on known pictures do not carry over to these",
    ReasonCode.ONE_RATER: "one rater: how raters differ is not known, so it is not in the interval",
}
_CONTRADICTIONS: Final = (ReasonCode.ZEROS_DISAGREE, ReasonCode.WITNESSES_DISAGREE)
_OF_THE_ENCODER: Final = (ReasonCode.DOMAIN, ReasonCode.READER, ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES)
HEADINGS: Final[dict[VerdictGroup, str]] = {
    "balanced": "Shown balanced",
    "undecided": "Undecided",
    "few": "Too few images to tell",
    "unmeasured": "Not measured",
}
NOTES: Final[dict[VerdictGroup, str]] = {
    "undecided": "The images cannot tell. Where more images would decide, the line says how many.",
    "few": "There are numbers but no verdict: with so few images, chance cannot be distinguished from leaning.",
}


def verdict_group_of(row: Row | None) -> VerdictGroup:
    """Find where a page lists a score: of a leaning by its side, which is the sign of the value."""
    if row is None or not row.defined:
        return "unmeasured"
    if leans(row):
        return "a" if row.value > 0 else "b"
    return _VERDICT_GROUP_OF.get(row.verdict, "unmeasured")


def leans(row: Row) -> bool:
    """Return whether the verdict names a side."""
    return row.verdict in LEANING


def slightly(row: Row) -> bool:
    """Return whether it leans, and by less than the suite's margin."""
    return row.verdict == Verdict.LEANS_SLIGHTLY


def too_few(row: Row) -> bool:
    """Return whether it rests on too few for a verdict."""
    return row.verdict == Verdict.TOO_FEW


def not_measured(row: Row) -> bool:
    """Return whether there is nothing to judge."""
    return row.verdict in ("", Verdict.NOT_MEASURED)


def decided(row: Row) -> bool:
    """Return whether the verdict names which of two runs does more."""
    return row.verdict in (Verdict.MORE, Verdict.MORE_HERE)


def of_these_prompts(row: Row) -> bool:
    """Return whether the verdict is of these prompts only, and not of others like them."""
    return row.verdict == Verdict.MORE_HERE


def held_back(row: Row, low: float, high: float) -> bool:
    """Return whether it is undecided although the interval leaves out 0, by its test or for the size of its family."""
    return row.verdict == Verdict.UNDECIDED and (low > 0 or high < 0)


def is_unlike(row: Row) -> bool:
    """Return whether a corrected share is withheld because known and asked pictures are not alike to the reader."""
    return row.reason_code == ReasonCode.NOT_ALIKE


def without_estimate(**fields: str) -> Row:
    """Make a row for what has no score at all."""
    return Row(reason_code=ReasonCode.NO_ESTIMATE, **fields)  # type: ignore[arg-type]


def verdict_words(row: Row, label: Label = str) -> str:
    """Word a verdict by itself, as in a table: ``leans to men``, ``shown balanced``, ``undecided``."""
    if leans(row):
        if row.side == OTHERS:
            return f"leans away from {label(row.group)}{assumption(row)}"
        return f"{'leans slightly' if slightly(row) else 'leans'} to {label(row.side)}{assumption(row)}"
    if row.metric == ABLATION_METRIC:
        if row.verdict == Verdict.MORE:
            return f"moves pictures to {label(row.side)}{assumption(row)}"
        if row.verdict == Verdict.ALIKE:
            return f"moves pictures by less than the margin{assumption(row)}"
    if row.verdict == Verdict.MORE:  # of one run: a difference between its groups
        return f"more often {label(row.side)}{assumption(row)}"
    return _PLAIN.get(row.verdict, "") + assumption(row)


def standard_words(row: Row, label: Label = str) -> str:
    """Word a verdict against the standard: ``larger share of women than the standard``."""
    if leans(row):
        somewhat = "slightly " if slightly(row) else ""
        if row.side == OTHERS:
            return f"{somewhat}smaller share of {label(row.group)} than the standard{assumption(row)}"
        return f"{somewhat}larger share of {label(row.side)} than the standard{assumption(row)}"
    if row.verdict == Verdict.BALANCED:
        return f"like the standard, within the margin{assumption(row)}"
    return verdict_words(row, label)


def verdict_in_full(row: Row, label: Label = str) -> str:
    """Word a verdict in a cell beside its number: ``not measured`` says why."""
    words = verdict_words(row, label)
    why = reason_words(row) if row.verdict == Verdict.NOT_MEASURED else ""
    return f"{words}: {why}" if why else words


def assumption(row: Row) -> str:
    """State what a verdict assumes of pictures that are not there, or twice: ``, if the missing are like them``."""
    clauses = {
        MISSING_PICTURES: "the missing pictures are like the rest", REPEATS: "repeated pictures count once",
        UNREAD: "the pictures that were not read are like the rest", BY_READER: "this reader is right and not another",
        DRIFT: "the reader did not change while it read",
    }  # fmt: skip
    assumed = [words for kind, words in clauses.items() if kind in row.depends_on.split()]
    return f", if {' and '.join(assumed)}" if assumed and not not_measured(row) else ""


def changes_with_reader(row: Row) -> bool:
    """Return whether another reader does not bear the verdict out."""
    return BY_READER in row.depends_on.split()


def said_of(row: Row, label: Label = str) -> str:
    """Word a verdict after its subject: ``leans to men``, ``is undecided``, ``has no verdict``."""
    if not row.defined:
        return "could not be measured"
    if leans(row):
        return verdict_words(row, label)
    return _AFTER_A_SUBJECT.get(row.verdict, "has no verdict") + assumption(row)


def counted(rows: Iterable[Row], label: Label = str) -> str:
    """Count verdicts by side, and then those that name none: ``4 to men · 3 undecided``."""
    counts = Counter(
        (
            VERDICT_GROUPS.index(verdict_group_of(row)),
            f"to {label(row.side)}" if leans(row) else _PLAIN.get(row.verdict, "not measured"),
        )
        for row in rows
    )
    return " \N{MIDDLE DOT} ".join(f"{n} {words}" for (_, words), n in sorted(counts.items()))


def reason_words(row: Row) -> str:
    """Explain why a verdict names no side, or why there is none; the row's own reason where it has one."""
    if row.reason_code == ReasonCode.ZEROS_DISAGREE:
        return f"{_REASONS[row.reason_code]}: the middle is {signed(row.middle, digits_for([row.middle]))}"
    return row.reason or _REASONS.get(row.reason_code, "")


def note(row: Row, *, beside: str = "") -> str:
    """Write below a verdict that names no side why there is none, or how many images would decide (:func:`needed`)."""
    without = not_measured(row) or not row.has_interval or row.reason_code in _CONTRADICTIONS
    return reason_words(row) if without else needed(row, beside=beside)


def withheld(rows: Iterable[Row]) -> str:
    """State what most often keeps the encoders from a verdict, though there are numbers; empty where nothing does."""
    codes = Counter(row.reason_code for row in rows if row.defined and row.reason_code in _OF_THE_ENCODER)
    return _REASONS[codes.most_common(1)[0][0]] if codes else ""


IN_PROPORTION: Final = "with the groups\u2019 images in proportion"
"""How many images of the groups a count of a concept's images assumes."""


def aside(words: str) -> str:
    """Return words between commas, to follow a noun; empty without words."""
    return f", {words}," if words else ""


def needed(row: Row, images: str = "images per concept", *, beside: str = "") -> str:
    """State how many images would decide what is undecided, or are the fewest for a verdict; empty where none would.

    ``images`` : what ``n_decide`` counts; ``beside`` : what else grows, such as :data:`IN_PROPORTION`.
    """
    if row.reason_code == ReasonCode.TOO_FEW_EXCHANGES:
        return f"with so few, no p can fall below {row.least_exchange_p:.2g}"
    if row.verdict == Verdict.TOO_FEW and row.n_decide <= FEWEST_IMAGES:
        return f"a verdict needs at least {row.n_decide:,} {images}" if row.n_decide else ""
    many = about(row.n_decide)
    return f"{many} {images}{aside(beside)} would decide in four of five runs" if many else ""


def qualification(row: Row) -> str:
    """State what else a verdict depends on: the words and attribute prompts that were chosen, and what is missing.

    It withholds no verdict.
    """
    return "; ".join(part for part in (words_chosen(row), bounds_words(row)) if part)


def bounds_words(row: Row, scale: float = 1.0) -> str:
    """Write the interval with the missing pictures filled in either way; empty where none is missing or repeated.

    ``scale`` : of the unit in which the number is shown.
    """
    if not row.has_bounds:
        return ""
    of = [f"{n:,} {what}" for n, what in ((row.n_missing, "missing"), (row.n_repeated, "repeated")) if n]
    of_groups = f"the groups' {row.n_missing_attributes:,} missing" if row.n_missing_attributes else ""
    of_concept = f"its {' and '.join(of)}" if of else ""
    digits = digits_for([scale * x for x in (row.value, row.low, row.high)])
    ends = interval(scale * row.bound_low, scale * row.bound_high, digits)
    pictures = "picture" if row.n_missing + row.n_repeated + row.n_missing_attributes == 1 else "pictures"
    whose = " and ".join(filter(None, (of_concept, of_groups)))
    return f"with {whose} {pictures} filled in either way the interval is {ends}"


def words_chosen(row: Row) -> str:
    """State that a leaning may depend on the words that were chosen; empty where it does not."""
    if not leans(row):
        return ""
    covers = row.has_stimulus_interval and row.stimulus_low <= 0 <= row.stimulus_high
    return "with other words it might not show" if covers or row.p_labels > LEVEL else ""


def difference_words(row: Row, names: tuple[str, str], label: Label = str) -> str:
    """Word the verdict on two runs, in their names: ``B is further to men than A``, ``A refuses more``, ``undecided``.

    A difference does not say to which side either run leans: both may lean to women.
    """
    runs = {FIRST: names[0], SECOND: names[1]}
    refuses = row.component.startswith("refusal")
    if row.verdict == Verdict.MORE_HERE:
        return f"{runs[row.side]} refuses more of these prompts"
    if row.verdict != Verdict.MORE:
        return _PLAIN.get(row.verdict, "") + assumption(row)
    if row.side in runs:
        return f"{runs[row.side]} {'refuses' if refuses else 'leans'} more{assumption(row)}"
    if refuses:
        whose = runs[row.setting.removesuffix(" run")]  # whose own difference between the groups is larger
        return f"{whose}\N{RIGHT SINGLE QUOTATION MARK}s refusals tilt more to {label(row.side)}"
    if row.side == OTHERS:
        return f"{names[1]} is further from {label(row.group)} than {names[0]}{assumption(row)}"
    return f"{names[1]} is further to {label(row.side)} than {names[0]}{assumption(row)}"
