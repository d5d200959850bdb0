"""Pictures of a steerability study: what was asked for, how it was read, and what labels say of the reader.

The rows of :mod:`clinometer.metrics.steerability` and the evidence of
:mod:`clinometer.metrics.steerability_stopping` are both computed from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Final

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.reading import AnsweredQuestion, known_pictures
from clinometer.metrics.records import STEERABILITY, Score
from clinometer.metrics.transport import ReadPictures, count_by_kind, transport
from clinometer.metrics.verdict import ReasonCode
from clinometer.stats.confusion import CorrectedShares, Kinds, corrected_shares, pool_contexts
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
    missing, repeated : pictures that are not there, and those that are another one again.
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
    def of(cls, cell: SteeredPictures, asked: AnsweredQuestion, confidence: float) -> ReadErrors:
        """Correct the shares of one prompt's pictures, and check that the labelled ones are like them."""
        groups = asked.groups
        known, truths = known_pictures(asked)
        tables, kinds = count_by_kind(known, truths, cell.read, groups=len(groups))
        if not asked.known.sum(axis=1).all():
            return cls(None, tables, kinds, NO_LABELS, ReasonCode.UNKNOWN_ERRORS)
        found = corrected_shares(cell.read.counts(len(groups)), tables, confidence=confidence, kinds=kinds)
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


def pair_prompts(
    cells: Mapping[tuple[str, str], SteeredPictures], asked: AnsweredQuestion, confidence: float
) -> list[SteeredPair]:
    """Pair the prompts of every concept for the first group and for each other, concept by concept of every pair."""
    concepts = list(dict.fromkeys(concept for concept, _ in cells))
    errors = {key: ReadErrors.of(cell, asked, confidence) for key, cell in cells.items() if cell.asked != NEUTRAL}
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
