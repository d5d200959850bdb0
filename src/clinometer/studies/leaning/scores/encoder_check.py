"""Whether an encoder can be relied on: it must separate the two groups' attribute images better than chance would.

What the images were drawn for is known, so they can be asked. An encoder **reads** when

1. the 95 % interval of sensitivity + specificity − 1 lies above 0,
2. the images of a are nearer to a's words than those of b are: p ≤ 0.01, the prompts being the units,
3. the words are what tells them apart: with the words' labels permuted, p ≤ 0.01,
4. it misses neither side: more than half of the images of a, and of b, are read right.

1 refuses an encoder to which everything is one group, however certain it is. 2 refuses one whose images scatter by
prompt and not by group, 3 one whose words mean nothing to it although its images differ. 4 refuses one that tells the
groups apart and has its zero in the wrong place: it takes most images of one group for the other, so what it reads of
a concept at parity leans as well. Each asks for what the others cannot see; where words are too few to be permuted, 3
is not asked. An encoder without a text tower is asked 1, 2 and 4 of its images alone, each compared with the images of
the other prompts. See decision 10.

Groups that are cells of axes have no pair. But the images drawn at one level of an axis, over all cells, have a known
answer against those of the other levels, and so have the words. So each axis is checked as a pair of groups is: of two
levels the first against the second, of more each against the others. Prompts of two levels are matched where they
differ in nothing but the level. A verdict along an axis rests on that axis. One on a cell, or on what goes together,
rests on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb, isfinite, nan
from typing import Final, Literal

import numpy as np
import scipy

from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import OTHERS, Judgement, ReasonCode, Verdict, judged_as
from clinometer.stats.association import nearest_group
from clinometer.stats.confusion import Informedness, ReadingCounts, corrected_share, informedness
from clinometer.stats.permutation import MEET_IN_THE_MIDDLE_LIMIT, permute_labels, permute_statistic, split_test
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.cosines import by_view
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, StudySetup, unit_rows
from clinometer.studies.leaning.scores.rows import FIXED
from clinometer.studies.leaning.scores.views import EncoderView, count_nearest

FEWEST_PROMPTS: Final = 6
"""Prompts of both groups together from which on they are the units; with fewer, images are, given these prompts."""

FEWEST_PAIRS: Final = 4
"""The same for pairs of prompts, where images alone are compared."""

N_PERMUTATIONS: Final = 1_999
LEVEL: Final = 0.01
"""Largest p that counts as reading."""


def prompt_p_value(
    of_a: Sequence[np.ndarray],
    of_b: Sequence[np.ndarray],
    pairs_a: Sequence[str | None] = (),
    pairs_b: Sequence[str | None] = (),
) -> float:
    """Find the one-sided p that images of a score no higher than those of b: Student's t over the prompts' means.

    ``of_a``, ``of_b`` are the scores of each prompt's images. Images of one prompt resemble each other, so prompts are
    the units where there are at least ``FEWEST_PROMPTS`` and two in each group; else images are. Where prompts are
    matched, t is also asked of the pairs' differences, from which age or setting drop out, and p is twice the smaller
    of both: fewer degrees of freedom, but often less scatter.
    """
    groups = [[x for x in prompts if len(x)] for prompts in (of_a, of_b)]
    by_prompt = min(map(len, groups)) >= 2 and sum(map(len, groups)) >= FEWEST_PROMPTS
    a, b = (np.array([x.mean() for x in prompts]) if by_prompt else np.concatenate(prompts) for prompts in groups)
    if len(a) + len(b) < 3:
        apart = nan
    elif np.ptp(a) == 0 and np.ptp(b) == 0:  # no spread to divide by: only what the scores say
        apart = float(np.finfo(np.float64).tiny) if a[0] > b[0] else 1.0
    else:
        apart = float(scipy.stats.ttest_ind(a, b, alternative="greater").pvalue)
    if not pairs_a or None in pairs_a or set(pairs_a) != set(pairs_b):
        return apart
    order = [list(pairs_b).index(pair) for pair in pairs_a]
    means = [(x.mean(), of_b[k].mean()) for x, k in zip(of_a, order, strict=True) if len(x) and len(of_b[k])]
    differences = np.array([x - y for x, y in means])
    if len(differences) < FEWEST_PAIRS or np.ptp(differences) == 0:
        return apart
    within = float(scipy.stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue)
    return apart if np.isnan(within) else min(1.0, 2 * min(apart, within))


def word_p_value(difference: np.ndarray, a: np.ndarray, b: np.ndarray, *, level: float) -> float:
    """Find the one-sided p that the words' labels mean nothing, over all ways to share out the words of both lists.

    ::

        S = mean_{w∈A} d·ŵ − mean_{w∈B} d·ŵ          d = mean x̂ of the images of a − mean x̂ of those of b

    NaN where words are so few that p could not be a tenth of ``level``: a single word out of order would decide then.
    """
    if 10 / comb(len(a) + len(b), len(a)) > level:
        return nan
    values = (np.concatenate([a, b]) @ difference)[None]
    labels = np.arange(values.shape[1]) < len(a)
    if len(labels) <= MEET_IN_THE_MIDDLE_LIMIT:
        return float(split_test(values, labels, alternative="greater").p_value[0])
    return float(permute_labels(values, labels, alternative="greater", n_permutations=N_PERMUTATIONS).p_value[0])


@dataclass(frozen=True)
class ImageEvidence:
    """Scores of each prompt's images by the images of the other prompts, and p that both groups' images are alike."""

    of_a: list[np.ndarray]
    of_b: list[np.ndarray]
    p_value: float


def image_evidence(
    a: Sequence[np.ndarray], b: Sequence[np.ndarray], pairs_a: Sequence[str | None], pairs_b: Sequence[str | None]
) -> ImageEvidence | None:
    """Compare each attribute image with those of the other prompts: is it nearer to its own group's?

    ::

        s(x) = mean cosine to the images of a − mean cosine to those of b,

    the image's own prompt and the prompt matched with it left out. With D_k the difference of the mean images of the
    k-th pair of prompts, the groups differ alike in all pairs where the D_k point one way: p is of Student's t over the
    products D_k·D_l, k < l, which scatter around 0 where pairs differ by chance alone. Prompts that are not matched are
    paired in their order. With fewer than ``FEWEST_PAIRS``, labels of images are permuted and one image is left out.

    ``a``, ``b`` are unit vectors, prompt by prompt. None without images of both groups.
    """
    if None not in pairs_a and set(pairs_a) == set(pairs_b):  # matched ones stand at the same place
        b = [b[list(pairs_b).index(pair)] for pair in pairs_a]
    matched = [(x, y) for x, y in zip(a, b, strict=False) if len(x) and len(y)]
    if len(matched) >= FEWEST_PAIRS:
        differences = np.stack([x.mean(axis=0) - y.mean(axis=0) for x, y in matched])
        products = np.array([x @ y for x, y in combinations(differences, 2)])
        others = (differences.sum(axis=0) - differences) / (len(differences) - 1)
        of_a, of_b = (
            [x @ towards for x, towards in zip(prompts, others, strict=True)] for prompts in zip(*matched, strict=True)
        )
        p = float(scipy.stats.ttest_1samp(products, 0.0, alternative="greater").pvalue)
        return ImageEvidence(of_a, of_b, p)
    pools = [[x for x in prompts if len(x)] for prompts in (a, b)]
    return _over_images(*(np.concatenate(pool) for pool in pools)) if all(pools) else None


def _over_images(a: np.ndarray, b: np.ndarray) -> ImageEvidence | None:
    """Leave one image out; permute the labels of all images."""
    n_a, n_b = len(a), len(b)
    if n_a < 2 or n_b < 2:
        return None
    images, labels = np.concatenate([a, b]), np.arange(n_a + n_b) < n_a
    total = images.sum(axis=0)

    def statistic(memberships: np.ndarray) -> np.ndarray:
        """Compute the mean cosine within a plus that within b less twice that between them, no image with itself."""
        of_a = memberships.astype(np.float64) @ images
        of_b = total - of_a
        within_a = (np.vecdot(of_a, of_a) - n_a) / (n_a * (n_a - 1))
        within_b = (np.vecdot(of_b, of_b) - n_b) / (n_b * (n_b - 1))
        return np.asarray(within_a + within_b - 2 * np.vecdot(of_a, of_b) / (n_a * n_b))

    test = permute_statistic(
        statistic, labels, np.zeros(len(labels), int), tolerance=1e-12, alternative="greater",
        n_permutations=N_PERMUTATIONS,
    )  # fmt: skip
    own_a = a @ (a.sum(axis=0)) - 1
    own_b = b @ (b.sum(axis=0)) - 1
    of_a = own_a / (n_a - 1) - a @ b.mean(axis=0)
    of_b = b @ a.mean(axis=0) - own_b / (n_b - 1)
    return ImageEvidence([of_a], [of_b], float(np.squeeze(test.p_value)))


@dataclass(frozen=True)
class ReaderCheck:
    """Whether a view (an encoder, or the average) can be believed, and why not.

    Attributes
    ----------
    encoder : the view's name.
    reads : whether its verdicts may stand.
    code, reason : why not; both empty where it reads.
    basis : ``"words"``, or ``"images"`` for an encoder without a text tower.
    reading : attribute images of a and b, and how many were read right.
    informedness : sensitivity + specificity − 1, with its interval.
    p_images : that the images of both groups are alike to it; units are the prompts, or images where prompts are few.
    p_words : that the labels of the words mean nothing to it; asked last, and NaN where another answer is no already,
        or where words are too few to be permuted.
    unfit : reasons against single targets, by name.
    """

    encoder: str
    reads: bool
    code: ReasonCode
    reason: str
    basis: Literal["words", "images"]
    reading: ReadingCounts
    informedness: Informedness
    p_images: float = nan
    p_words: float = nan
    unfit: Mapping[str, str] = field(default_factory=dict)

    def reason_for(self, target: str) -> str:
        """Explain why this view gives no verdict on a target; empty where it gives one."""
        return self.reason or self.unfit.get(target, "")

    def code_for(self, target: str) -> ReasonCode:
        """Return the code of that reason."""
        return self.code or (ReasonCode.DOMAIN if self.unfit.get(target) else ReasonCode.NONE)


def reader_checks(
    encoders: Sequence[EncoderEmbeddings], design: Design, *, confidence: float = 0.95
) -> dict[str, ReaderCheck]:
    """Check every view of a study: ``"mean"`` first, then each encoder, by name.

    The average is checked as it reads, by the averaged cosines, so one poor encoder among good ones withholds nothing
    but its own rows. One that does not fit (``EncoderEmbeddings.unfit``) withholds the average too: what it adds is
    arbitrary. Embeddings are taken as checked (``layout_of``).
    """
    return {
        name: replace(_check(encoder, design, confidence), encoder=name) for name, encoder in by_view(encoders).items()
    }


def withheld(rows: Sequence[Score], checks: Mapping[str, ReaderCheck]) -> list[Score]:
    """Withhold the verdicts that no encoder can carry: ``not measured``, with the reason; numbers stay."""
    return [_withhold(row, checks.get(row.encoder)) for row in rows]


def _withhold(row: Score, check: ReaderCheck | None) -> Score:
    judged = row.verdict not in ("", Verdict.NOT_MEASURED)  # what could not be measured has its own reason
    if check is None or not judged or not (reason := check.reason_for(row.concept)):
        return row
    judgement = Judgement(Verdict.NOT_MEASURED, reason_code=check.code_for(row.concept))
    return judged_as(replace(row, reason=reason), judgement, n_decide=0)


def _check(encoder: EncoderEmbeddings, design: Design, confidence: float) -> ReaderCheck:
    check = (_by_words if encoder.reads_text else _by_images)(encoder, design, confidence)
    concepts = {target: reason for target, reason in encoder.unfit.items() if target}
    code, reason = _judge(check, encoder, design, confidence)
    return replace(check, reads=not code, code=code, reason=reason, unfit=concepts)


def _by_words(encoder: EncoderEmbeddings, design: Design, confidence: float) -> ReaderCheck:
    """Read the attribute images by the words, as shares are read."""
    assert encoder.group_words is not None
    words = [unit_rows(encoder.group_words[group]) for group in (design.a, design.b)]
    images = [[unit_rows(x) for x in encoder.group_images[group]] for group in (design.a, design.b)]
    if not all(len(x) for x in words):
        return _unread(encoder, "words")
    direction = words[0].mean(axis=0) - words[1].mean(axis=0)
    of_a, of_b = ([x @ direction if len(x) else np.empty(0) for x in prompts] for prompts in images)
    reading = reading_of(of_a, of_b)
    if not (reading.n_a and reading.n_b):
        return _unread(encoder, "words")
    check = replace(
        _unread(encoder, "words"),
        reading=reading,
        informedness=informedness(reading, confidence),
        p_images=prompt_p_value(of_a, of_b, design.pairs.get(design.a, ()), design.pairs.get(design.b, ())),
    )
    if _doubt(check):
        return check
    means = [np.concatenate([x for x in prompts if len(x)]).mean(axis=0) for prompts in images]
    return replace(check, p_words=word_p_value(means[0] - means[1], *words, level=LEVEL))


def _by_images(encoder: EncoderEmbeddings, design: Design, confidence: float) -> ReaderCheck:
    """Read each attribute image by the images of the other prompts."""
    of_a, of_b = (design.pairs.get(g) or (None,) * len(encoder.group_images[g]) for g in (design.a, design.b))
    a, b = ([unit_rows(x) for x in encoder.group_images[group]] for group in (design.a, design.b))
    evidence = image_evidence(a, b, of_a, of_b)
    if evidence is None:
        return _unread(encoder, "images")
    reading = reading_of(evidence.of_a, evidence.of_b)
    return replace(
        _unread(encoder, "images"),
        reading=reading,
        informedness=informedness(reading, confidence),
        p_images=evidence.p_value,
    )


def reading_of(of_a: Sequence[np.ndarray], of_b: Sequence[np.ndarray]) -> ReadingCounts:
    """Count the images that are read right, from their associations with a against b, prompt by prompt."""
    a, b = (np.concatenate([*x, np.empty(0)]) for x in (of_a, of_b))
    as_a, as_b = (nearest_group(np.stack([x, np.zeros_like(x)], axis=1)) for x in (a, b))
    return ReadingCounts(int((as_a == 0).sum()), len(a), int((as_b == 1).sum()), len(b))


def _unread(encoder: EncoderEmbeddings, basis: Literal["words", "images"]) -> ReaderCheck:
    nothing = ReadingCounts(0, 0, 0, 0)
    return ReaderCheck(encoder.encoder, False, ReasonCode.NONE, "", basis, nothing, informedness(nothing))


def _judge(check: ReaderCheck, encoder: EncoderEmbeddings, design: Design, confidence: float) -> tuple[ReasonCode, str]:
    """Explain by a code and a sentence why the encoder cannot be believed; both empty if it can."""
    reading = check.reading
    who = "the average over encoders" if encoder.encoder == MEAN else f"encoder {encoder.encoder}"
    if encoder.unfit.get(""):
        return ReasonCode.DOMAIN, encoder.unfit[""]
    if not (reading.n_a and reading.n_b):
        lacking = (
            f"{what} of group {group!r}"
            for group in (design.a, design.b)
            for what, there in (
                ("image", any(map(len, encoder.group_images[group]))),
                ("word", encoder.group_words is None or len(encoder.group_words[group])),
            )
            if not there
        )
        first_missing = next(lacking, "second image of a group")
        return ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES, f"no {first_missing} to check {who} on"
    if informedness(ReadingCounts(reading.n_a, reading.n_a, reading.n_b, reading.n_b), confidence).low <= 0:
        counts = f"{reading.n_a} of {design.a!r} and {reading.n_b} of {design.b!r}"
        return (
            ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES,
            f"attribute images are too few ({counts}) to tell whether {who} reads them",
        )
    sides = ((design.a, design.b, reading.right_a, reading.n_a), (design.b, design.a, reading.right_b, reading.n_b))
    missed = (
        f"it misses {drawn!r}, which it mostly takes for {other!r}, and scores lean with that"
        for drawn, other, right, n in sides
        if right <= n / 2
    )
    doubt = _doubt(check) or next(missed, "")
    if not doubt:
        return ReasonCode.NONE, ""
    return ReasonCode.READER, (
        f"{who} cannot read its own attribute images: {reading.right_a} of {reading.n_a} drawn for {design.a!r} and "
        f"{reading.right_b} of {reading.n_b} drawn for {design.b!r} are read right; {doubt}"
    )


def _doubt(check: ReaderCheck) -> str:
    """Name the first question that the check fails; empty if none."""
    if check.informedness.low <= 0:
        return "that may be chance"
    if not check.p_images <= LEVEL:
        return f"over prompts that may be chance (p = {check.p_images:.2g})"
    if isfinite(check.p_words) and check.p_words > LEVEL:
        return f"words with their labels permuted do as well (p = {check.p_words:.2g})"
    return ""


# --- of a pair of groups, or of every axis ---------------------------------------------------------------------------

READER: Final = "reader"
UNREAD: Final = "cannot read"
"""The flag of a view that gives no verdict."""

AXIS: Final = "axis:"
"""Leads the components that rest on a single axis."""


@dataclass(frozen=True)
class LevelCheck:
    """How every view reads one level of an axis against the others, or a against b.

    Attributes
    ----------
    axis, level : what is asked; of an axis of two levels the first. Empty of a pair of groups.
    design : the study with the cells of that level as group a, and all others as b.
    by_view : the checks, by encoder.
    """

    axis: str
    level: str
    design: Design
    by_view: Mapping[str, ReaderCheck]

    @property
    def setting(self) -> str:
        """The axis, with the level if it has more than two: identifies the rows of this check."""
        if not self.axis:
            return ""
        return AXIS + self.axis if self.design.b != OTHERS else f"{AXIS}{self.axis} {self.level}"


def checks_of(encoders: Sequence[EncoderEmbeddings], design: Design, *, confidence: float = 0.95) -> list[LevelCheck]:
    """Check the pair of groups, or every axis: one entry for two levels, one for each level if there are more."""
    if not design.axes:
        return [LevelCheck("", "", design, reader_checks(encoders, design, confidence=confidence))]
    level_checks = []
    for axis, levels in design.axes.items():
        for level in levels[: 1 if len(levels) == 2 else None]:
            pair = pair_of_levels(design, axis, level)
            cells = {name: [g for g, _ in side] for name, side in _cells_of(design, axis, pair.a, pair.b).items()}
            pooled = [_pool_cells(encoder, cells) for encoder in encoders]
            level_checks.append(LevelCheck(axis, level, pair, reader_checks(pooled, pair, confidence=confidence)))
    return level_checks


def _pool_cells(encoder: EncoderEmbeddings, sides: Mapping[str, Sequence[str]]) -> EncoderEmbeddings:
    """Pool the cells of each side into one group."""
    words = encoder.group_words
    return replace(
        encoder,
        group_images={name: tuple(x for g in side for x in encoder.group_images[g]) for name, side in sides.items()},
        group_words=None if words is None else {n: np.concatenate([words[g] for g in s]) for n, s in sides.items()},
        group_texts=None,
    )


def pair_of_levels(design: Design, axis: str, level: str) -> Design:
    """Make a design of two groups: the cells at this level of the axis, and all others."""
    levels = design.axes[axis]
    other = next(name for name in levels if name != level) if len(levels) == 2 else OTHERS
    pairs = {  # what each prompt is matched by: its own pair at the same levels of the other axes
        name: tuple(
            None if pair is None else f"{pair} {rest}"
            for group, rest in cells
            for pair in design.pairs.get(group, (None,))
        )
        for name, cells in _cells_of(design, axis, level, other).items()
    }
    matched = len(levels) == 2 and None not in pairs[level] and set(pairs[level]) == set(pairs[other])
    return Design(
        targets=design.targets, groups=(level, other), a=level, b=other, pairs=pairs if matched else {},
        margin=design.margin,
    )  # fmt: skip


def _cells_of(design: Design, axis: str, level: str, other: str) -> dict[str, list[tuple[str, str]]]:
    """List the groups on either side of an axis, each with its levels on the other axes."""
    at = list(design.axes).index(axis)
    sides: dict[str, list[tuple[str, str]]] = {level: [], other: []}
    for group in design.groups:
        cell = design.cells[group]
        rest = " ".join(name for i, name in enumerate(cell) if i != at)
        sides[level if cell[at] == level else other].append((group, rest))
    return sides


def withheld_by_level(rows: Sequence[Score], checks: Sequence[LevelCheck]) -> list[Score]:
    """Withhold the verdicts that no encoder can carry: ``not measured``, with the reason; numbers stay.

    A row of one axis needs its own level of it to be read; that of a cell, or of a pair of groups, needs all there are.
    One over all targets, which names no encoder, rests on the average.
    """
    for check in checks:
        axis, groups = AXIS + check.axis, ("", check.level)
        rows = [
            _withhold(row, check.by_view.get(row.encoder or MEAN))
            if not row.component.startswith(AXIS) or (row.component == axis and row.group in groups)
            else row
            for row in rows
        ]
    return list(rows)


def withheld_between(rows: Sequence[Score], first: Sequence[LevelCheck], second: Sequence[LevelCheck]) -> list[Score]:
    """Withhold the verdicts of differences where the view cannot be believed in either run."""
    for which, checks in (("first", first), ("second", second)):
        for level_check in checks:
            by_view = {
                name: replace(check, reason=check.reason and f"in the {which} run, {check.reason}")
                for name, check in level_check.by_view.items()
            }
            rows = withheld_by_level(rows, [replace(level_check, by_view=by_view)])
    return list(rows)


# --- what it misreads ------------------------------------------------------------------------------------------------

BY_IMAGES: Final = "read by the images of the other prompts: the encoder reads no text"


def reader_rows(checks: Sequence[LevelCheck], confidence: float) -> list[Score]:
    """Report how often every view reads the attribute images of a and b right; along axes ``setting`` names the axis.

    ``sensitivity``: images drawn for a that are read as a, by the rule of ``share``; ``specificity``: the same of b;
    with Wilson intervals. ``informedness``: their sum less 1, with p that they are read by chance (over prompts where
    there are enough), and the verdict of the check: ``flag`` and ``reason`` where the view reads too little.
    """
    rows = []
    for level_check, check in [(level, check) for level in checks for check in level.by_view.values()]:
        design, reading, measured = level_check.design, check.reading, check.informedness
        basis = FIXED if check.basis == "words" else BY_IMAGES
        for component, group, right, n in (
            ("sensitivity", design.a, reading.right_a, reading.n_a),
            ("specificity", design.b, reading.right_b, reading.n_b),
        ):
            rate = wilson_interval(right, n, confidence)
            rows.append(Score(
                metric=READER, component=component, group=group, setting=level_check.setting, encoder=check.encoder,
                value=rate.value, low=rate.low, high=rate.high, null=0.5, n_target=n, reason=rate.reason or basis,
            ))  # fmt: skip
        words = f"; labels of words permuted: p {check.p_words:.2g}" if isfinite(check.p_words) else ""
        tested = isfinite(check.p_images)
        rows.append(Score(
            metric=READER, component="informedness", group=level_check.level, setting=level_check.setting,
            encoder=check.encoder, value=measured.value, low=measured.low, high=measured.high,
            p=check.p_images, q=check.p_images, p_holm=check.p_images,
            test=f"images of both groups alike, one-sided{words}" if tested else "",
            family="reader: a test by itself" if tested else "", null=0.0, n_target=reading.n_a + reading.n_b,
            n_a=reading.n_a, n_b=reading.n_b, flag="" if check.reads else UNREAD,
            reason=check.reason or measured.reason or basis,
        ))  # fmt: skip
    return rows


def corrected_rows(setup: StudySetup, shares: Sequence[Score], checks: Mapping[str, ReaderCheck]) -> list[Score]:
    """Correct the share of every target for misreading: one row for each row ``share``, of the same view.

    :func:`clinometer.stats.confusion.corrected_share`; the attribute images (``n_a``, ``n_b``) tell how often
    the view misreads.
    """
    return [
        _correct_share(setup, row, checks[row.encoder])
        for row in shares
        if (row.metric, row.component) == ("share", "share")
    ]


def _correct_share(setup: StudySetup, row: Score, check: ReaderCheck) -> Score:
    reading = check.reading
    blank = replace(
        row, component="corrected_share", value=float("nan"), low=float("nan"), high=float("nan"), flag="",
        bound_low=float("nan"), bound_high=float("nan"),
        n_a=reading.n_a, n_b=reading.n_b,
    )  # fmt: skip
    if not isfinite(row.value) or check.basis != "words":
        return blank if not isfinite(row.value) else replace(blank, reason="the encoder reads no text")
    count = round(row.value * row.n_target)
    share = corrected_share(count, row.n_target, reading, setup.settings.confidence)
    if share.reason:
        return replace(blank, reason=f"attribute images: {share.reason}")
    if row.n_batches:  # as much wider as the share itself is
        alone = wilson_interval(count, row.n_target, setup.settings.confidence)
        wider = max((row.high - row.low) / (alone.high - alone.low), 1.0)
        low, high = (share.value + wider * (end - share.value) for end in (share.low, share.high))
        share = replace(share, low=max(low, 0.0), high=min(high, 1.0))
    clipped = share.estimate != share.value
    clipping = f"the estimate, {share.estimate:.2f}, is clipped to {share.value:.0f}; " if clipped else ""
    corrected = replace(blank, value=share.value, low=share.low, high=share.high, reason=clipping + FIXED)
    if not row.n_missing:
        return corrected
    n = row.n_target + row.n_missing
    least, most = (corrected_share(count + more, n, reading, setup.settings.confidence) for more in (0, row.n_missing))
    return replace(corrected, bound_low=min(share.low, least.low), bound_high=max(share.high, most.high))


def confusion_rows(setup: StudySetup, views: Sequence[EncoderView]) -> list[Score]:
    """Report for every view the share of each group's images that are read as each group."""
    groups, rows = setup.design.groups, []
    for view in views:
        for drawn, images in zip(groups, view.group_image_scores, strict=True):
            counts = count_nearest(images, setup.everyone)
            for read, count in zip(groups, counts.tolist(), strict=True):
                n = int(counts.sum())
                share = wilson_interval(count, n, setup.settings.confidence)
                rows.append(Score(
                    metric=READER, component="confusion", group=drawn, setting=f"read as {read}", encoder=view.encoder,
                    value=share.value, low=share.low, high=share.high, null=1 / len(groups), n_target=n,
                    reason=FIXED if n else "no image of the group, or a group without words to read by",
                ))  # fmt: skip
    return rows
