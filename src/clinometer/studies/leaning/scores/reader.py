"""Does an encoder read right? Whether it tells the attribute images of the two groups apart, and better than by chance.

What the images were drawn for is known, so they can be asked. An encoder **reads** when

1. the 95 % interval of sensitivity + specificity − 1 lies above 0,
2. the images of a are nearer to a's words than those of b are: p ≤ 0.01, the prompts being the units,
3. the words are what tells them apart: with the words' labels permuted, p ≤ 0.01,
4. it misses neither side: more than half of the images of a, and of b, are read right.

1 refuses an encoder to which everything is one group, however certain it is. 2 refuses one whose images scatter by
prompt and not by group, 3 one whose words mean nothing to it although its images differ. 4 refuses one that tells the
groups apart and has its zero in the wrong place: it takes most images of one group for the other, so what it reads of
a concept at parity leans as well. Each asks for what the others cannot see; where words are too few to be permuted, 3
is not asked. An encoder without a text tower is asked 1, 2 and 4 of its images alone, each held against the images of
the other prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Final, Literal

import numpy as np

from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import Judgement, ReasonCode, Verdict, judged_as
from clinometer.stats.misclassification import Informedness, ReadingCounts, informedness
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings
from clinometer.studies.leaning.scores.pooled import by_view, unit_rows
from clinometer.studies.leaning.scores.separation import image_evidence, prompt_p_value, word_p_value

LEVEL: Final = 0.01
"""Largest p that counts as reading."""


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
        """Why this view gives no verdict on a target; empty where it gives one."""
        return self.reason or self.unfit.get(target, "")

    def code_for(self, target: str) -> ReasonCode:
        """The same as a code."""
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
    """The rows without the verdicts that no encoder can carry: ``not measured``, with the reason; numbers stay."""
    return [_withheld(row, checks.get(row.encoder)) for row in rows]


def _withheld(row: Score, check: ReaderCheck | None) -> Score:
    judged = row.verdict not in ("", Verdict.NOT_MEASURED)  # what could not be measured has its own reason
    if check is None or not judged or not (reason := check.reason_for(row.concept)):
        return row
    judgement = Judgement(Verdict.NOT_MEASURED, reason_code=check.code_for(row.concept))
    return judged_as(replace(row, reason=reason), judgement, n_decide=0)


def withheld_between(
    rows: Sequence[Score], first: Mapping[str, ReaderCheck], second: Mapping[str, ReaderCheck]
) -> list[Score]:
    """Differences of two runs without the verdicts that the view cannot carry in either: both runs' images are read.

    What is said over all targets (no encoder named) rests on the average.
    """
    for which, checks in (("first", first), ("second", second)):
        rows = [_withheld(row, _in_run(checks.get(row.encoder or MEAN), which)) for row in rows]
    return list(rows)


def _in_run(check: ReaderCheck | None, which: str) -> ReaderCheck | None:
    if check is None or not check.reason:
        return check
    return replace(check, reason=f"in the {which} run, {check.reason}")


def _check(encoder: EncoderEmbeddings, design: Design, confidence: float) -> ReaderCheck:
    check = (_by_words if encoder.reads_text else _by_images)(encoder, design, confidence)
    concepts = {target: reason for target, reason in encoder.unfit.items() if target}
    code, reason = _judged(check, encoder, design, confidence)
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
    """Count the images that are read right, by the sign of their association; prompt by prompt."""
    a, b = (np.concatenate([*x, np.empty(0)]) for x in (of_a, of_b))
    return ReadingCounts(int((a > 0).sum()), len(a), int((b <= 0).sum()), len(b))


def _unread(encoder: EncoderEmbeddings, basis: Literal["words", "images"]) -> ReaderCheck:
    nothing = ReadingCounts(0, 0, 0, 0)
    return ReaderCheck(encoder.encoder, False, ReasonCode.NONE, "", basis, nothing, informedness(nothing))


def _judged(
    check: ReaderCheck, encoder: EncoderEmbeddings, design: Design, confidence: float
) -> tuple[ReasonCode, str]:
    """Why the encoder does not read; two empty strings where it does."""
    reading, who = check.reading, _who(encoder)
    if encoder.unfit.get(""):
        return ReasonCode.DOMAIN, encoder.unfit[""]
    if not (reading.n_a and reading.n_b):
        return ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES, f"no {_lacking(encoder, design)} to check {who} on"
    if informedness(ReadingCounts(reading.n_a, reading.n_a, reading.n_b, reading.n_b), confidence).low <= 0:
        counts = f"{reading.n_a} of {design.a!r} and {reading.n_b} of {design.b!r}"
        return (
            ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES,
            f"attribute images are too few ({counts}) to tell whether {who} reads them",
        )
    doubt = _doubt(check) or _missed_side(check, design)
    if not doubt:
        return ReasonCode.NONE, ""
    return ReasonCode.READER, (
        f"{who} cannot read its own attribute images: {reading.right_a} of {reading.n_a} drawn for {design.a!r} and "
        f"{reading.right_b} of {reading.n_b} drawn for {design.b!r} are read right; {doubt}"
    )


def _lacking(encoder: EncoderEmbeddings, design: Design) -> str:
    for group in (design.a, design.b):
        if not any(len(x) for x in encoder.group_images[group]):
            return f"image of group {group!r}"
        if encoder.group_words is not None and not len(encoder.group_words[group]):
            return f"word of group {group!r}"
    return "second image of a group"


def _who(encoder: EncoderEmbeddings) -> str:
    return "the average over encoders" if encoder.encoder == MEAN else f"encoder {encoder.encoder}"


def _doubt(check: ReaderCheck) -> str:
    """The first question that it fails, in words."""
    if check.informedness.low <= 0:
        return "that may be chance"
    if not check.p_images <= LEVEL:
        return f"over prompts that may be chance (p = {check.p_images:.2g})"
    if isfinite(check.p_words) and check.p_words > LEVEL:
        return f"words with their labels permuted do as well (p = {check.p_words:.2g})"
    return ""


def _missed_side(check: ReaderCheck, design: Design) -> str:
    """What to say of an encoder that takes one group for the other at least every other time."""
    reading = check.reading
    sides = ((design.a, design.b, reading.right_a, reading.n_a), (design.b, design.a, reading.right_b, reading.n_b))
    for own, other, right, n in sides:
        if right <= n / 2:
            return f"it misses {own!r}, which it mostly takes for {other!r}, and scores lean with that"
    return ""
