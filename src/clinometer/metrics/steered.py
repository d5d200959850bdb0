"""Pictures of a steerability study: how they are read, and when they are enough, judged after every round.

The rows of :mod:`clinometer.metrics.steerability` are computed from the same records.

Of two groups a and b, let x_i say whether the i-th picture asked for a is read as a, and y_i whether the i-th asked for
b is read as b. With recalls ρ_a and ρ_b of the reader, and the true gap δ::

    E(x_i − y_i) = (ρ_a − ρ_b) + δ (ρ_a + ρ_b − 1)

whatever the success of either group is. So no gap is a statement about the mean of bounded observations, and bets on it
(:mod:`clinometer.stats.sequential`) hold after any number of pictures. The recalls come from labelled pictures, which
are there before the first is drawn: both lie within their exact intervals (Clopper and Pearson) but for a chance of
``ATTRIBUTE_LEVEL``, which is given away beforehand, and every bet is made against the worst recalls within these::

    leaning to a   E(x − y) ≤ ρ_a⁺ − ρ_b⁻                                    is refuted
    δ < margin     E(x − y) ≥ ρ_a⁻ − ρ_b⁺ + margin (ρ_a⁻ + ρ_b⁺ − 1)         is refuted

Pictures that are read as neither group are left out, as from the corrected gap; the i-th is then the i-th that is read.
The e-values of all concepts are one family, by the e-value form of Benjamini–Hochberg. A concept that is decided draws
no more, and one whose labels do not carry over decides nothing. See method.md, "Steerability", and decision 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan
from typing import Final, Literal

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.reading import AnsweredQuestion, known_pictures
from clinometer.metrics.records import STEERABILITY, Score
from clinometer.metrics.transport import ReadPictures, count_by_kind, transport
from clinometer.metrics.verdict import (
    ATTRIBUTE_LEVEL,
    LEANING,
    LEVEL,
    MISSING,
    UNREAD,
    Evidence,
    Judgement,
    ReasonCode,
    Verdict,
    anytime_p,
    in_family,
    judged_as,
    without_inference,
)
from clinometer.stats.confusion import CorrectedShares, Kinds, corrected_shares, pool_contexts
from clinometer.stats.multiplicity import holm
from clinometer.stats.power import POWER, images_to_decide
from clinometer.stats.proportion import clopper_pearson
from clinometer.stats.sequential import chance_to_reach, confidence_sequence, e_value
from clinometer.stats.share_gap import AnsweredSets

NEUTRAL: Final = ""
"""``SteeredPictures.asked`` of the prompt that names no group."""

NO_LABELS: Final = "no labelled picture says how often the reader errs: the whole gap may be its own"


@dataclass(frozen=True)
class SteeredPictures:
    """The readings of the pictures of one prompt, an entry for each different picture.

    Attributes
    ----------
    asked : the group that the prompt names; "" of the neutral prompt.
    answers : (n,) the group that it is read as, from 0; K for none of them.
    noise : (n,) key of the noise that it started from, "" where there is none: pictures of two prompts of a concept
        with the same key are a pair.
    shows : (n,) whether the concept is still shown, 1 or 0; NaN where that is not known.
    fidelity : (n,) cosine with the concept's own text, or what else says how well it is drawn; NaN where unknown.
    missing, repeated : pictures that are missing, and those that repeat another.
    unread : how many have no answer among the groups, by why, in words.
    pictures : what else the reader shows of the pictures; None where only the answers are known.
    """

    concept: str
    category: str
    asked: str
    answers: np.ndarray
    noise: np.ndarray
    shows: np.ndarray
    fidelity: np.ndarray
    missing: int = 0
    repeated: int = 0
    unread: str = ""
    pictures: ReadPictures | None = None

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in ("answers", "noise", "shows", "fidelity")}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{n} {name}" for name, n in lengths.items())
            about = f"pictures of {self.concept!r} asked for {self.asked!r}"
            raise InvalidInputError.wrong_shape(f"{about}: expected as many of each, found {found}")

    @property
    def read(self) -> ReadPictures:
        """The reading of these pictures."""
        return self.pictures or ReadPictures(self.answers)


def cells_by_prompt(
    steered: Sequence[SteeredPictures], groups: Sequence[str]
) -> dict[tuple[str, str], SteeredPictures]:
    """Check the pictures, and return them by concept and group."""
    cells: dict[tuple[str, str], SteeredPictures] = {}
    for cell in steered:
        about = f"pictures of {cell.concept!r} asked for {cell.asked!r}"
        if cell.asked not in (NEUTRAL, *groups):
            raise InvalidInputError.unknown_name(
                f"{about}: expected one of {', '.join(groups)}, or '' for the neutral prompt"
            )
        if (cell.concept, cell.asked) in cells:
            raise InvalidInputError.duplicate(f"{about}: expected once, found twice")
        if not set(np.unique(cell.answers).tolist()) <= set(range(len(groups) + 1)):
            raise InvalidInputError.out_of_range(
                f"{about}: expected answers from 0 to {len(groups)}, found {np.unique(cell.answers).tolist()}"
            )
        cells[cell.concept, cell.asked] = cell
    return cells


@dataclass(frozen=True)
class ReadErrors:
    """A reader's errors on one prompt's pictures, from labelled ones.

    ``shares`` : corrected; NaN where ``reason`` and ``code`` say why. ``tables``, ``kinds`` : of the labelled pictures.
    """

    shares: CorrectedShares | None
    tables: np.ndarray
    kinds: Kinds
    reason: str = ""
    code: ReasonCode = ReasonCode.NONE
    checks: tuple[Score, ...] = ()

    @classmethod
    def of(cls, cell: SteeredPictures, asked: AnsweredQuestion) -> ReadErrors:
        """Correct the shares of one prompt's pictures, and check that the labelled ones are like them."""
        groups = asked.groups
        known, truths = known_pictures(asked)
        tables, kinds = count_by_kind(known, truths, cell.read, groups=len(groups))
        if not asked.known.sum(axis=1).all():
            return cls(None, tables, kinds, NO_LABELS, ReasonCode.UNKNOWN_ERRORS)
        found = corrected_shares(cell.read.counts(len(groups)), tables, kinds=kinds)
        alike = transport(cell.read, known, truths, groups=len(groups))
        about = replace(about_prompt(cell, asked, "transport"), group=cell.asked, n_a=int(asked.known.sum()))
        checks = (
            replace(about, value=alike.p, p=alike.p, flag=alike.answer, reason=alike.reason),
            replace(about, component="misfit", value=found.misfit, null=0.0, p=found.misfit_p,
                    reason="" if isfinite(found.misfit) else found.reason),
        )  # fmt: skip
        reason, code = "", ReasonCode.NONE
        if not found.identified:
            reason, code = found.reason, ReasonCode.NOT_APART
        elif not isfinite(found.misfit):
            reason, code = found.reason, ReasonCode.NO_ESTIMATE
        elif alike.answer == "unlike":
            reason, code = alike.reason, ReasonCode.NOT_ALIKE
        elif not found.quotable:
            reason, code = found.reason, ReasonCode.NOT_ALIKE
        return cls(found, tables, kinds, reason, code, checks)


def about_prompt(cell: SteeredPictures, asked: AnsweredQuestion, component: str) -> Score:
    """Return the labels of a row about one prompt's pictures."""
    return Score(
        metric=STEERABILITY, component=component, concept=cell.concept, category=cell.category, encoder=asked.reader,
        setting=asked.question, n_target=len(cell.answers), n_missing=cell.missing, n_repeated=cell.repeated,
    )  # fmt: skip


@dataclass(frozen=True)
class SteeredPair:
    """The pictures of a concept that were asked for the first group, and for another."""

    a: SteeredPictures
    b: SteeredPictures
    errors_a: ReadErrors
    errors_b: ReadErrors
    matches: tuple[np.ndarray, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        noise_a, noise_b = (np.asarray(each.noise, str) for each in (self.a, self.b))
        shared, one, two = np.intersect1d(noise_a, noise_b, return_indices=True)
        object.__setattr__(self, "matches", (one[shared != ""], two[shared != ""]))

    @property
    def name(self) -> str:
        """The names of the two groups."""
        return f"{self.a.asked}-{self.b.asked}"

    @property
    def prompts(self) -> tuple[tuple[SteeredPictures, ReadErrors], tuple[SteeredPictures, ReadErrors]]:
        """Return the pictures of either prompt, with what labels say of them."""
        return (self.a, self.errors_a), (self.b, self.errors_b)

    @property
    def withheld(self) -> tuple[str, ReasonCode]:
        """The reason why there is no corrected gap; empty where there is one."""
        one = self.errors_a if self.errors_a.reason else self.errors_b
        return one.reason, one.code

    def sets(self, first: np.ndarray, second: np.ndarray, answers: int) -> AnsweredSets:
        """Count answers (n,) of so many kinds to either set, and to pairs; any other number is no answer."""
        one, two = (np.bincount(each[(each >= 0) & (each < answers)], minlength=answers) for each in (first, second))
        of_pairs = np.column_stack([first[self.matches[0]], second[self.matches[1]]])
        of_pairs = of_pairs[((of_pairs >= 0) & (of_pairs < answers)).all(axis=1)]
        pairs = np.zeros((answers, answers), int)
        np.add.at(pairs, tuple(of_pairs.T), 1)
        return AnsweredSets(one, two, pairs)

    def about(self, asked: AnsweredQuestion, component: str) -> Score:
        """Return the labels of a row about the two; ``n_target`` is the smaller number of pictures."""
        n_a, n_b = len(self.a.answers), len(self.b.answers)
        return replace(
            about_prompt(self.a, asked, component), group=self.name, n_target=min(n_a, n_b), n_a=n_a, n_b=n_b,
            n_missing=self.a.missing + self.b.missing, n_repeated=self.a.repeated + self.b.repeated,
        )  # fmt: skip


def pair_prompts(cells: Mapping[tuple[str, str], SteeredPictures], asked: AnsweredQuestion) -> list[SteeredPair]:
    """Pair the prompts of every concept for the first group and for each other, concept by concept of every pair."""
    concepts = list(dict.fromkeys(concept for concept, _ in cells))
    errors = {key: ReadErrors.of(cell, asked) for key, cell in cells.items() if cell.asked != NEUTRAL}
    first, *others = asked.groups
    return [
        SteeredPair(cells[concept, first], cells[concept, other], errors[concept, first], errors[concept, other])
        for other in others
        for concept in concepts
        if (concept, first) in cells and (concept, other) in cells
    ]


def labelled_table(errors: ReadErrors, *, elsewhere: bool = False) -> np.ndarray:
    """Return the answers to labelled pictures among the groups (K, K), each row counted as what it is worth here.

    ``elsewhere`` : for pictures of no kind that is labelled, so that one table does for all concepts.
    """
    kinds = replace(errors.kinds, asked=None) if elsewhere else errors.kinds
    return pool_contexts(errors.tables[:, :, :-1].astype(float), kinds)[0]


GAP_TEST: Final = "no gap: betting e-values within the labels' exact intervals, valid at any number of images"
_AHEAD: Final = np.geomspace(1, 1000, 350)


def gap_evidence(
    steered: Sequence[SteeredPictures], asked: AnsweredQuestion, *, margin: float | None = None, ahead: bool = False
) -> dict[str, Evidence]:
    """Judge the gap of every concept by the pictures there are; by concept, those that are withheld without evidence.

    Parameters
    ----------
    steered, asked, margin : as in :func:`clinometer.metrics.steerability.steerability_rows`, of two groups.
    ahead : also count the pictures that would decide.

    Returns
    -------
    ``value`` is the gap as the middle of the recalls' intervals has it; ``low`` and ``high`` hold it at 95 %, at any
    number of pictures. ``reach`` is NaN where more pictures decide nothing.

    Raises
    ------
    InvalidInputError
        As ``steerability_rows``; or there are more than two groups.
    """
    if len(asked.groups) != 2:
        raise InvalidInputError.unsupported(
            f"expected two, found {len(asked.groups)}; of more, fix the number of pictures", field="groups"
        )
    pairs = pair_prompts(cells_by_prompt(steered, asked.groups), asked)
    found = in_family([_evidence_of(pair, margin) for pair in pairs])
    if ahead:
        needed = len(pairs) / (LEVEL - ATTRIBUTE_LEVEL)
        found = [
            replace(each, factor=_factor_ahead(pair, margin, needed) if isfinite(each.low) else inf)
            for pair, each in zip(pairs, found, strict=True)
        ]
    return {pair.a.concept: each for pair, each in zip(pairs, found, strict=True)}


def rows_when_stopped(
    rows: Sequence[Score], steered: Sequence[SteeredPictures], asked: AnsweredQuestion, margin: float | None
) -> list[Score]:
    """Judge the rows of pictures that were drawn until decided: the corrected gaps by evidence, and nothing else.

    Every other interval and test holds for a number of pictures fixed beforehand and is left out, with that reason.
    What was withheld stays withheld.
    """
    found = gap_evidence(steered, asked, margin=margin, ahead=True)
    p_holm = dict(zip(found, holm(np.array([each.p for each in found.values()])), strict=True))
    a, b = asked.groups
    kept = []
    for row in rows:
        if row.component in ("transport", "misfit", "recall_gap"):  # the labels' own, or about them
            kept.append(row)
        elif row.component != "corrected_gap" or not isfinite(row.value):
            kept.append(without_inference(row))
        else:
            kept.append(_decide(row, found[row.concept], float(p_holm[row.concept]), margin, (a, b)))
    return kept


def _decide(row: Score, stand: Evidence, p_holm: float, margin: float | None, sides: tuple[str, str]) -> Score:
    needed = 0
    if stand.balanced:
        judgement = Judgement(Verdict.BALANCED)
    elif stand.leans:
        slightly = margin is not None and abs(row.value) < margin
        side = sides[0] if stand.low > 0 else sides[1]
        judgement = Judgement(Verdict.LEANS_SLIGHTLY if slightly else Verdict.LEANS, side=side)
    else:
        code = ReasonCode.CORRECTION if stand.beyond[0] else ReasonCode.INTERVAL
        judgement, needed = Judgement(Verdict.UNDECIDED, reason_code=code), images_to_decide(stand.n, stand.factor)
    low, high = min(stand.low, row.value), max(stand.high, row.value)
    ends = min(row.bound_low, row.bound_low - row.low + low), max(row.bound_high, row.bound_high - row.high + high)
    depends = ""
    if judgement.verdict in LEANING and ends[0] <= 0 <= ends[1]:  # no ends where every picture is there and read
        depends = row.depends_on or (f"{UNREAD} {MISSING}" if row.n_missing else UNREAD)
    decided = replace(
        row, low=low, high=high, p=stand.p, q=stand.q, p_holm=p_holm, p_equivalence=anytime_p(stand.e_balance),
        q_equivalence=stand.q_balance, n_decide=needed, test=f"{GAP_TEST}; {row.test.rpartition('; ')[2]}",
        bound_low=ends[0], bound_high=ends[1], depends_on=depends,
    )  # fmt: skip
    return judged_as(decided, judgement)


def _observed(pair: SteeredPair) -> np.ndarray:
    """Return x_i − y_i of the pictures that are read, by their order: (n,)."""
    hits = [(each.answers[each.answers < 2] == k).astype(float) for k, each in enumerate((pair.a, pair.b))]
    n = min(map(len, hits))
    return np.asarray(hits[0][:n] - hits[1][:n])


def _table(pair: SteeredPair) -> np.ndarray:
    """Return the labelled answers of the prompt to which they say less: (2, 2)."""
    return min((labelled_table(each) for _, each in pair.prompts), key=lambda each: float(each.sum()))


def _recalls(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound both recalls, with a chance of ``ATTRIBUTE_LEVEL`` together: (2,) lower and upper ends."""
    return clopper_pearson(np.diag(table), table.sum(axis=1), ATTRIBUTE_LEVEL / 4)


def _means(low: np.ndarray, high: np.ndarray, margin: float | None) -> tuple[float, float, float, float]:
    """Return E(x − y) at its greatest and least without a gap, and at the least gap of +margin and greatest of −margin.

    NaN where there is no margin, or where some recalls within their bounds are no better than chance.
    """
    a_low, b_low, a_high, b_high = (float(each) for each in (*low, *high))
    ends = (a_high - b_low, a_low - b_high)
    if margin is None:
        return (*ends, nan, nan)
    return (*ends, ends[1] + margin * (a_low + b_high - 1), ends[0] - margin * (a_high + b_low - 1))


def _evidence_of(pair: SteeredPair, margin: float | None) -> Evidence:
    if pair.withheld[0]:
        return Evidence(len(_observed(pair)), nan, nan, nan, 1.0, e_balance=nan if margin is None else 1.0, reach=nan)
    return evidence_of_pairs(_observed(pair), _table(pair), margin)


def evidence_of_pairs(d: np.ndarray, table: np.ndarray, margin: float | None) -> Evidence:
    """Judge one gap by x_i − y_i (n,), and by how labelled pictures were answered (2, 2), a row a true group."""
    none = nan if margin is None else 1.0
    if not len(d):
        return Evidence(0, nan, nan, nan, 1.0, e_balance=none)
    low, high = _recalls(table)
    most, least, above, below = _means(low, high, margin)

    def bet(mean: float, alternative: Literal["greater", "less"]) -> float:
        return e_value(d, mean, low=-1.0, high=1.0, alternative=alternative)

    bounds = confidence_sequence(d, low=-1.0, high=1.0, confidence=0.95 + ATTRIBUTE_LEVEL)
    middle = (low + high) / 2
    return Evidence(
        n=len(d),
        value=_gap_at(float(d.mean()), float(middle[0] - middle[1]), float(middle.sum()) - 1, nan),
        low=_gap_at(float(bounds.low[-1]), most, float(high[0] + low[1]) - 1, -1.0),
        high=_gap_at(float(bounds.high[-1]), least, float(low[0] + high[1]) - 1, 1.0),
        e=(bet(most, "greater") + bet(least, "less")) / 2,
        e_balance=none if margin is None else min(bet(above, "less"), bet(below, "greater")),
    )


def _gap_at(mean: float, without: float, slope: float, none: float) -> float:
    """Return the gap at which E(x − y) is ``mean``; ``none`` where the reader may be no better than chance."""
    return float(np.clip((mean - without) / slope, -1.0, 1.0)) if slope > 0 else none


def _factor_ahead(pair: SteeredPair, margin: float | None, needed: float) -> float:
    """Find the times the pictures that decide with a chance of ``POWER``, if those to come are like those there are."""
    d, means = _observed(pair), _means(*_recalls(_table(pair)), margin)

    def chance(mean: float, alternative: Literal["greater", "less"], evidence: float) -> np.ndarray:
        return chance_to_reach(d, mean, np.array([evidence]), _AHEAD, low=-1.0, high=1.0, alternative=alternative)[:, 0]

    chances = np.maximum(chance(means[0], "greater", 2 * needed), chance(means[1], "less", 2 * needed))
    if margin is not None:
        chances = np.maximum(chances, chance(means[2], "less", needed) + chance(means[3], "greater", needed) - 1)
    reached = chances >= POWER
    return float(_AHEAD[reached.argmax()]) if reached.any() else inf
