"""Verdicts on a score with an interval and its tests, as data. ``report/wording`` has the words.

=================== ====================================================================================
``BALANCED``        two one-sided tests show |θ| < margin: q of equivalence ≤ 0.05 (the suite must name
                    a margin); without such a test, the 95 % interval lies inside
``LEANS``           the interval leaves out 0 and q ≤ 0.05; ``side`` says to whom
``LEANS_SLIGHTLY``  the same, but the estimate is smaller than the margin
``TOO_FEW``         fewer images than the tests were shown to hold for: a number, and no verdict
``UNDECIDED``       none of these; ``n_decide`` of the row says how many images would tell
``NOT_MEASURED``    there is no estimate, or no interval or q-value to judge it by
=================== ====================================================================================

Without an estimate a score is not measured; of too few images nothing else is said; then the order is the precedence. A
leaning that is certain and yet inside the margin counts as balanced: the margin is the size below which a suite calls a
leaning none.

**Two zeros.** A score with a ``middle`` (:mod:`clinometer.studies.leaning.scores.middle`) is compared with 0 and with
the middle. It leans where it is shown to lean, to the same side, against both: q is of the larger p, which tests that
*either* is the truth (Berger 1982: an intersection–union test, which needs no correction). It is balanced where it is
shown to lie within the margin around both. Where one of them gets an answer that the other does not, it is undecided,
``ZEROS_DISAGREE``. And what a share of the same images denies is not said: ``WITNESSES_DISAGREE``
(:func:`withheld_by_shares`). See decision 66.

``ALIKE``, ``MORE`` and ``MORE_HERE`` are said of the difference of two runs
(:mod:`clinometer.metrics.differences`). See decision 1.

**Bounds.** What the pictures that are not there, or twice, might change is the same verdict with them filled in. A
picture that was refused, or failed, would have shown something. Nobody knows what, so all of them are taken to be of
group a, and then all of group b, each at what an image of that group may score; of pictures that repeat another,
which count once, the mean is also taken over all as they were drawn. A missing picture of an attribute group is taken
to be as near to what is measured as the nearest picture of any group, and then as far as the farthest. Of two runs,
what is missing of the one is taken to be of the group that what is missing of the other is not. Each filling is tested
and judged as the pictures themselves are, with q over the same family. A verdict that a filling does not bear out
depends on it, and says so (Manski 1990: bounds without an assumption about why something is missing).

**Rounds.** A run may be drawn in rounds, each target until it is decided. ``Evidence`` is what there is so far, and a
``StoppingRule`` says when it suffices. See decision 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, inf, isfinite, isnan, nan
from typing import Final

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.records import MEAN, READING, Score
from clinometer.stats.multiplicity import benjamini_hochberg, e_benjamini_hochberg
from clinometer.stats.power import equivalence_p_value, factors_to_decide, images_to_decide, standard_error_of
from clinometer.stats.proportion import wilson_interval
from clinometer.stats.sequential import p_value_of


class Verdict(StrEnum):
    """The verdict on a score, or on a difference between two runs."""

    LEANS = "leans"
    LEANS_SLIGHTLY = "leans slightly"
    BALANCED = "balanced"
    UNDECIDED = "undecided"
    TOO_FEW = "too few images"
    NOT_MEASURED = "not measured"
    MORE = "more"
    MORE_HERE = "more of these prompts"
    ALIKE = "alike"


class ReasonCode(StrEnum):
    """The reason why a verdict names no side."""

    NONE = ""
    INTERVAL = "the interval covers 0"
    CORRECTION = "not after correction for the number of tests"
    ZEROS_DISAGREE = "zeros_disagree"
    WITNESSES_DISAGREE = "witnesses_disagree"
    TOO_FEW_IMAGES = "too few images"
    TOO_FEW_ATTRIBUTE_IMAGES = "too few attribute images"
    TOO_FEW_EXCHANGES = "too few to exchange for any p to reach the level"
    NO_ESTIMATE = "no estimate"
    NO_TEST = "no interval or no p"
    READER = "the encoder does not read its own attribute images"
    DOMAIN = "the encoder does not fit the suite"
    NOT_APART = "the reader does not tell the groups apart"
    UNKNOWN_ERRORS = "how often the reader errs is not known"
    NOT_ALIKE = "the reader's errors do not carry over"
    ONE_RATER = "one rater"


class Source(StrEnum):
    """The part that carries a verdict on MCAS, which is the sum of an image part and a text part."""

    PICTURES = "by its pictures"
    TEXT = "by its text"
    BOTH = "by both"
    CANCEL = "the two cancel"
    NONE = ""


LEANING = (Verdict.LEANS, Verdict.LEANS_SLIGHTLY)

LEVEL = 0.05
"""Largest q-value that counts."""

OTHERS = "others"
"""The side of a group's profile that is all groups but itself."""

FEWEST_IMAGES = 10
"""Images of a target from which on its test was shown to hold its level, and its interval to cover
(docs/simulations.md)."""

Ends = Callable[[Score], tuple[float, float]]
"""Chooses an interval of a row."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, the side that it names (empty for none), and why it names none."""

    verdict: Verdict
    side: str = ""
    reason_code: ReasonCode = ReasonCode.NONE


def source_of(mcas: Score, image_part: Score, limits: tuple[float, float] | None = None) -> Source:
    """Return which part carries a verdict on MCAS or, with ``limits``, that its interval lies beyond or within them.

    A part carries it that would be beyond by itself, with the error of MCAS; by the verdicts, the pictures do where
    their own verdict names that side. Where neither would, it takes both. Within the limits the two cancel where one
    part alone would be beyond, and the other is of the other sign.
    """
    text, below, above = mcas.value - image_part.value, mcas.low - mcas.value, mcas.high - mcas.value
    if not isfinite(text + below + above):
        return Source.NONE
    at_least, at_most = limits or (0.0, 0.0)

    def beyond(part: float) -> int:
        return int(part + below > at_most) - int(part + above < at_least)

    whole, pictures = beyond(mcas.value), beyond(image_part.value)
    if limits is None:
        whole, pictures = ((1 if r.value > 0 else -1) * (r.verdict in LEANING) for r in (mcas, image_part))
    if whole:
        carry = pictures == whole, beyond(text) == whole
        return {(True, False): Source.PICTURES, (False, True): Source.TEXT}.get(carry, Source.BOTH)
    opposed = text * image_part.value < 0
    return Source.CANCEL if opposed and (pictures or beyond(text)) else Source.NONE


@dataclass(frozen=True)
class DistanceFromZero:
    """A score compared with one zero: how far it is from it, the interval of that, and q of the tests of its family."""

    value: float
    low: float
    high: float
    q: float
    q_equivalence: float = nan


Judge = Callable[[Score, tuple[float, float], float, str, str], Judgement]
"""Judges a row by its interval, the q of its equivalence test and the names of its two sides."""


Decide = Callable[[np.ndarray], Sequence[int]]
"""Counts the images that would decide the rows of a family that are undecided, (rows,); 0 where no number would."""


def image_ends(row: Score) -> tuple[float, float]:
    """Return the interval over images."""
    return row.low, row.high


def stimulus_ends(row: Score) -> tuple[float, float]:
    """Return the interval that resamples stimuli too."""
    return row.stimulus_low, row.stimulus_high


def verdict(
    *,
    value: float,
    low: float,
    high: float,
    q: float,
    a: str,
    b: str,
    margin: float | None = None,
    q_equivalence: float = nan,
    enough: bool = True,
) -> Judgement:
    """Judge a signed score, positive towards group ``a``, by the table above.

    ``enough`` : whether it rests on as many images as its test was shown to hold for.

    >>> verdict(value=0.2, low=0.1, high=0.3, q=0.001, a="men", b="women", margin=0.05).side
    'men'
    >>> print(verdict(value=-0.01, low=-0.03, high=0.02, q=0.4, a="men", b="women", margin=0.05).verdict)
    balanced
    """
    if isnan(value):
        return Judgement(Verdict.NOT_MEASURED, reason_code=ReasonCode.NO_ESTIMATE)
    if not enough:
        return Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.TOO_FEW_IMAGES)
    if any(map(isnan, (low, high, q))):
        return Judgement(Verdict.NOT_MEASURED, reason_code=ReasonCode.NO_TEST)
    if margin is not None:
        inside = -margin < low and high < margin
        if inside if isnan(q_equivalence) else q_equivalence <= LEVEL:
            return Judgement(Verdict.BALANCED)
    if low <= 0 <= high or q > LEVEL:
        code = ReasonCode.INTERVAL if low <= 0 <= high else ReasonCode.CORRECTION
        return Judgement(Verdict.UNDECIDED, reason_code=code)
    slightly = margin is not None and abs(value) < margin
    return Judgement(Verdict.LEANS_SLIGHTLY if slightly else Verdict.LEANS, side=a if value > 0 else b)


def judged_as(row: Score, judgement: Judgement, **fields: float | int) -> Score:
    """Write a judgement into its row."""
    return replace(
        row, verdict=judgement.verdict, side=judgement.side, reason_code=judgement.reason_code, **fields  # type: ignore[arg-type]
    )  # fmt: skip


def p_can_tell(row: Score) -> bool:
    """Return whether there are enough exchanges for p to fall to ``LEVEL`` at all: with 3 + 3 prompts none can."""
    return row.p <= LEVEL or row.least_exchange_p <= LEVEL


def judge_rows(
    rows: Sequence[Score],
    judge: Judge,
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None,
    ends: Ends,
    decide: Decide | None = None,
) -> list[Score]:
    """Add to every row of one family its equivalence test, its verdict and the images that would decide it.

    The equivalence tests are a family of their own, with Benjamini–Hochberg q-values. A row that has no p of its own
    equivalence test gets one from ``ends``, which chooses the 95 % interval that is judged: its width stands for the
    standard error. ``a`` and ``b`` name the sides of all rows, or of each. ``decide`` counts the images that would
    decide the undecided ones; by default :func:`images_that_decide` does, from their intervals.
    """
    p = np.full(len(rows), nan)
    if margin is not None:
        for at, row in enumerate(rows):
            p[at] = row.p_equivalence
            if not isfinite(p[at]):
                zeros = [(row.value, *ends(row), margin)]
                if isfinite(row.middle):
                    zeros.append((*from_middle_of(row), row.middle_margin))
                p[at] = max(map(_p_outside, *zip(*zeros, strict=True)))
    sides = [[names] * len(rows) if isinstance(names, str) else names for names in (a, b)]
    inside = np.column_stack([p, benjamini_hochberg(p)]).tolist()
    judgements = [
        judge(row, ends(row), q_inside, *of_row)
        for row, (_, q_inside), *of_row in zip(rows, inside, *sides, strict=True)
    ]
    is_open = np.array([each.verdict in (Verdict.UNDECIDED, Verdict.TOO_FEW) for each in judgements], bool)
    needed: Sequence[int] = [0] * len(rows)
    if is_open.any():
        needed = images_that_decide(rows, margin, ends) if decide is None else decide(is_open)
    return [
        judged_as(
            row, judgement, p_equivalence=p_inside, q_equivalence=q_inside, n_decide=images if undecided else 0
        )
        for row, judgement, (p_inside, q_inside), images, undecided in zip(
            rows, judgements, inside, needed, is_open, strict=True
        )
    ]  # fmt: skip


def images_that_decide(rows: Sequence[Score], margin: float | None, ends: Ends) -> list[int]:
    """Count the images (as ``n_target``) that decide each row of a family with a chance of .8; 0 where no number does.

    As leaning or as balanced, with q-values over all rows and all sets of images growing alike, from estimates and
    their intervals alone (:class:`clinometer.stats.power.EstimatedPilot`); of a score with a middle against both zeros.
    Where p is of another kind than the interval, as of permuted prompts, no leaning is promised where the interval is
    narrow enough already.
    """
    p = np.array([row.p for row in rows], np.float64)
    zeros = [[(row.value, *ends(row)) for row in rows]]
    if any(isfinite(row.middle) for row in rows):
        zeros.append([from_middle_of(row) if isfinite(row.middle) else (row.value, *ends(row)) for row in rows])
    value, low, high = np.moveaxis(np.array(zeros, np.float64).reshape(len(zeros), len(rows), 3), -1, 0)
    around = None if margin is None else np.full(value.shape, margin)
    if around is not None and len(around) > 1:
        around[1] = [row.middle_margin if isfinite(row.middle) else margin for row in rows]
    factors = factors_to_decide(value, low, high, p, around, LEVEL)
    return [images_to_decide(row.n_target, float(factor)) for row, factor in zip(rows, factors, strict=True)]


def from_middle_of(row: Score) -> tuple[float, float, float]:
    """Return how far a score lies from its middle, and the ends of that."""
    return row.value - row.middle, row.from_middle_low, row.from_middle_high


def _p_outside(value: float, low: float, high: float, margin: float) -> float:
    """Find p of |value| ≥ margin from an interval; 1 where the margin leaves nothing within it."""
    return equivalence_p_value(value, standard_error_of(low, high), margin) if margin > 0 else 1.0


def against_each_zero(
    rows: Sequence[Score], margin: float | None, ends: Ends
) -> list[tuple[DistanceFromZero, DistanceFromZero]]:
    """Test the rows of one family, each with a middle, against 0 and against their middles, each a family of tests."""
    if margin is None:
        margin = nan
    held = []
    for p, of, around in (
        ([row.p_zero for row in rows], [(row.value, *ends(row)) for row in rows], [margin] * len(rows)),
        ([row.p_middle for row in rows], list(map(from_middle_of, rows)), [row.middle_margin for row in rows]),
    ):
        inside = [nan if isnan(margin) else _p_outside(*each, own) for each, own in zip(of, around, strict=True)]
        q, q_inside = (benjamini_hochberg(np.array(values, np.float64)) for values in (p, inside))
        held.append([DistanceFromZero(*each, *map(float, both)) for each, *both in zip(of, q, q_inside, strict=True)])
    return list(zip(*held, strict=True))


def with_both_zeros(together: Judgement, by_0: Judgement, by_middle: Judgement, inside: tuple[bool, bool]) -> Judgement:
    """Judge a score by both zeros, from what is said with the larger p, and of a leaning by each zero alone.

    ``inside`` : whether it is shown to lie within the margin around 0, and around the middle.
    """
    if together.verdict in (Verdict.NOT_MEASURED, Verdict.TOO_FEW, Verdict.BALANCED, Verdict.ALIKE):
        return together
    if by_middle.verdict == Verdict.NOT_MEASURED:
        return by_middle
    if by_0.side != by_middle.side or (not by_0.side and inside[0] != inside[1]):
        return Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.ZEROS_DISAGREE)
    return together


def judge_family(
    rows: Sequence[Score],
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None = None,
    ends: Ends = image_ends,
    fewest: int = 0,
    decide: Decide | None = None,
) -> list[Score]:
    """Add to every row of one family its verdict, as :func:`judge_rows` says; none below ``fewest`` images.

    Those with a middle are judged against both zeros.
    """
    with_middle = [row for row in rows if isfinite(row.middle)]
    of_zeros = iter(against_each_zero(with_middle, margin, ends))

    def judge(row: Score, interval: tuple[float, float], q_inside: float, of_a: str, of_b: str) -> Judgement:
        held = [
            DistanceFromZero(row.value, *interval, row.q, q_inside),
            *(next(of_zeros) if isfinite(row.middle) else ()),
        ]
        if isfinite(row.value) and not p_can_tell(row):
            return Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.TOO_FEW_EXCHANGES)
        enough = units_of(row) >= fewest
        together = verdict(**vars(held[0]), a=of_a, b=of_b, margin=margin, enough=enough)
        if len(held) == 1:
            return together
        by_0, by_middle = (verdict(**vars(one), a=of_a, b=of_b, enough=enough) for one in held[1:])
        inside = held[1].q_equivalence <= LEVEL, held[2].q_equivalence <= LEVEL
        return with_both_zeros(together, by_0, by_middle, inside)

    judged = judge_rows(rows, judge, a=a, b=b, margin=margin, ends=ends, decide=decide)
    return [decide_at_least_fewest(row, fewest) for row in judged]


def withheld_by_shares(rows: Sequence[Score], shares: Sequence[Score], *, a: str) -> list[Score]:
    """Withhold the verdict on an image part that the share of the same images read as ``a`` contradicts.

    "Balanced" where the share, or the share corrected for misreading, is shown to lean: its interval leaves out ½. And
    a leaning where it is shown to lean the other way. Zero, the middle and the share are three witnesses of the same
    pictures; where they contradict each other none is right by itself. Undecided, ``WITNESSES_DISAGREE``, with both
    numbers.

    ``shares`` : rows of the share of each concept, as the encoders' average reads it, or a reader does that was asked
    which of two groups a picture shows.
    """
    by_concept: dict[str, list[Score]] = {}
    for share in shares:
        is_share = (share.metric == READING and share.null == 0.5) or (share.metric, share.encoder) == ("share", MEAN)
        is_share = is_share and share.component in ("share", "corrected_share") and share.group == a
        if is_share and (share.low > 0.5 or share.high < 0.5):
            by_concept.setdefault(share.concept, []).append(share)
    return [
        _withhold_by_shares(row, by_concept.get(row.concept, ()), a)
        if (row.metric, row.component, row.encoder) == ("mcas", IMAGE_PART, MEAN)
        else row
        for row in rows
    ]


def _withhold_by_shares(row: Score, leaning: Sequence[Score], a: str) -> Score:
    said = "is balanced" if row.verdict == Verdict.BALANCED else f"leans to {row.side!r}"
    for share in leaning:
        to_a = share.low > 0.5
        if row.verdict == Verdict.BALANCED or (row.verdict in LEANING and (row.side == a) != to_a):
            reader = f" by {share.encoder}" if share.metric == READING else ""
            corrected_for = ", corrected for misreading," if share.component == "corrected_share" else ""
            reason = (
                f"the image part {said}, {row.value:+.3f} [{row.low:.3f}, {row.high:.3f}], but the share of its images "
                f"read as {a!r}{reader}{corrected_for} leans {'to' if to_a else 'away from'} it, {share.value:.2f} "
                f"[{share.low:.2f}, {share.high:.2f}]"
            )
            judgement = Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.WITNESSES_DISAGREE)
            return judged_as(replace(row, reason=reason), judgement, n_decide=0)
    return row


def units_of(row: Score) -> int:
    """Count the units of chance: images, or the batches that they came in."""
    return row.n_batches or row.n_target


def decide_at_least_fewest(row: Score, fewest: int) -> Score:
    """Raise ``n_decide`` to the fewest images that are judged, where it is set or there are too few images."""
    if row.n_decide or row.reason_code == ReasonCode.TOO_FEW_IMAGES:
        images = ceil(fewest * row.n_target / units_of(row)) if row.n_batches else fewest
        return replace(row, n_decide=images) if images > row.n_decide else row
    return row


MISSING: Final = "missing"
REPEATS: Final = "repeats"
UNREAD: Final = "unread"
READER: Final = "reader"
DRIFT: Final = "drift"
"""What a verdict may depend on: the values of ``Score.depends_on``, which may be several, one behind the other."""


def with_bounds(
    rows: Sequence[Score], fillings: Mapping[str, Sequence[Sequence[Score]]], ends: Ends = image_ends
) -> list[Score]:
    """Add to rows the outermost ends of their interval over all fillings, and what their verdict depends on.

    ``fillings`` : by what is filled in, the same rows judged with it, once for every way to fill it in.
    ``ends`` : which interval is judged.
    """
    held = list(rows)
    for place, row in enumerate(rows):
        concerned = {MISSING: row.n_missing + row.n_missing_attributes, REPEATS: row.n_repeated}
        apart = {kind: [filled[place] for filled in some] for kind, some in fillings.items() if concerned[kind]}
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


def with_share_bounds(row: Score, count: int, n: int, unread: int = 0, confidence: float = 0.95) -> Score:
    """Add to the row of a share, ``count`` of ``n``, Wilson's ends with what is missing taken to be of it, or none.

    ``unread`` : how many of the n have no answer, and might be of it too.
    """
    open_to_it = unread + row.n_missing
    if not (n and open_to_it):
        return row
    least, most = (wilson_interval(count + more, n + row.n_missing, confidence) for more in (0, open_to_it))
    return replace(row, bound_low=min(row.low, least.low), bound_high=max(row.high, most.high))


def without_bounds(row: Score) -> Score:
    """Return the row without what was said of fillings."""
    return replace(row, bound_low=nan, bound_high=nan, depends_on="")


def bears_out(row: Score, other: Score) -> bool:
    """Return whether a filling, or another reader, has a row's verdict; what it does not decide depends on nothing."""
    if row.verdict in LEANING:
        return other.verdict in LEANING and other.side == row.side
    return row.verdict not in (Verdict.BALANCED, Verdict.MORE, Verdict.ALIKE) or (
        (other.verdict, other.side) == (row.verdict, row.side)
    )


ATTRIBUTE_LEVEL = 0.01
"""Share of all errors that the attribute images may make."""


@dataclass(frozen=True)
class StoppingRule:
    """The rule by which a target needs no more images.

    ``precision`` : half-width of the 95 % confidence sequence that suffices; None to stop once the target is decided,
    as leaning or as balanced.
    """

    precision: float | None = None

    def __post_init__(self) -> None:
        if self.precision is not None and not 0 < self.precision < inf:
            raise InvalidInputError.out_of_range(
                f"expected a positive finite number, found {self.precision}", field="precision"
            )


@dataclass(frozen=True)
class Evidence:
    """The evidence of a target's images so far.

    Attributes
    ----------
    n : images seen.
    value : their mean y; ``low``, ``high`` the confidence sequence of its held form and what the attribute images may
        be off by, 95 % together, widened to contain it.
    e, p, q : evidence against a mean of 0, with its p-value and its q-value over the targets; where there is a middle,
        against either.
    e_balance, q_balance : evidence against |mean| ≥ margin, around both zeros; NaN without a margin.
    middle : the groups' middle, with the confidence sequence of how far the mean lies from it, and the margin around
        it; NaN where there is none.
    e_zeros : the evidence against 0 alone, and against the middle alone.
    reach : r, what the attribute images may be off by; NaN where a prompt has one, so that nothing can be decided.
    factor, factor_balance : times the images at which leaning, or balance, is decided with a chance of .8, if those to
        come are drawn from those there are, and all targets that are not decided grow alike; infinite for none, or
        where nobody asked (``ahead``).
    clipped : images whose y was outside of the groups' own span and was held at its end.
    """

    n: int
    value: float
    low: float
    high: float
    e: float
    q: float = nan
    e_balance: float = nan
    q_balance: float = nan
    factor: float = inf
    factor_balance: float = inf
    clipped: int = 0
    reach: float = 0.0
    middle: float = nan
    middle_margin: float = nan
    from_middle_low: float = nan
    from_middle_high: float = nan
    e_zeros: tuple[float, float] = (nan, nan)

    @property
    def p(self) -> float:
        """Anytime-valid p of a mean of 0: what the images say, and what the attribute images may be wrong in."""
        return anytime_p(self.e)

    @property
    def beyond(self) -> tuple[int, int]:
        """On which side of 0, and of the middle, the confidence sequence lies as a whole: 1, −1, or 0 for neither."""
        of_0 = int(self.low > 0) - int(self.high < 0)
        return of_0, of_0 if isnan(self.middle) else int(self.from_middle_low > 0) - int(self.from_middle_high < 0)

    @property
    def leans(self) -> bool:
        """True if the mean is shown to lie beyond both zeros, by the images as held and with those beyond in full."""
        of_0, of_middle = self.beyond
        return self.q <= LEVEL and of_0 != 0 and of_0 == of_middle

    @property
    def balanced(self) -> bool:
        """True if the mean is shown to be within the margin."""
        return self.q_balance <= LEVEL

    def stops(self, rule: StoppingRule) -> bool:
        """Return whether drawing should stop: it is decided, or no further image can decide it."""
        if isnan(self.reach):
            return True
        if rule.precision is not None:
            return (self.high - self.low) / 2 <= rule.precision
        return self.leans or self.balanced


def in_family(stands: Sequence[Evidence]) -> list[Evidence]:
    """Return the same with the q-values of one family, what the attribute images may be wrong in included."""
    q, q_balance = (anytime_q(np.array([getattr(stand, name) for stand in stands])) for name in ("e", "e_balance"))
    return [
        replace(stand, q=float(of_leaning), q_balance=float(of_balance))
        for stand, of_leaning, of_balance in zip(stands, q, q_balance, strict=True)
    ]


FIXED_ONLY: Final = "images were drawn until decided: this interval or test holds only for a number fixed beforehand"


def without_inference(row: Score) -> Score:
    """Return only the estimate of a row whose interval and test hold for a number of images fixed beforehand."""
    claims = (row.low, row.high, row.stimulus_low, row.stimulus_high, row.p)
    if all(isnan(number) for number in claims):
        return row
    return replace(
        row, low=nan, high=nan, stimulus_low=nan, stimulus_high=nan, p=nan, q=nan, p_holm=nan, p_error=nan,
        p_exact=False, n_splits=0, p_method="", p_low=nan, p_high=nan, test="", family="",
        p_equivalence=nan, q_equivalence=nan, n_decide=0, verdict="", side="", reason_code="",
        bound_low=nan, bound_high=nan, depends_on="",
        middle=nan, middle_margin=nan, from_middle_low=nan, from_middle_high=nan, p_zero=nan, p_middle=nan,
        reason=FIXED_ONLY,
    )  # fmt: skip


def anytime_p(e_value: float) -> float:
    """Return the p-value of an e-value, and on top what the attribute images may be wrong in."""
    return float(np.minimum(p_value_of(e_value) + ATTRIBUTE_LEVEL, 1.0))


def anytime_q(e_values: np.ndarray) -> np.ndarray:
    """Return the q-values of a family of e-values, and on top what the attribute images may be wrong in."""
    return np.asarray(np.minimum(e_benjamini_hochberg(e_values) + ATTRIBUTE_LEVEL, 1.0))
