"""Rows of how well an encoder reads, and of shares corrected for what it misreads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Final

import numpy as np

from clinometer.metrics.records import Score
from clinometer.stats.misclassification import corrected_share
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings
from clinometer.studies.leaning.scores.pooled import by_view, unit_rows
from clinometer.studies.leaning.scores.reader import ReaderCheck

READER: Final = "reader"
UNREAD: Final = "cannot read"
"""The flag of a view that gives no verdict."""

NO_STIMULUS: Final = "no stimulus interval: words and encoder are fixed"
BY_IMAGES: Final = "read by the images of the other prompts: the encoder reads no text"


def reader_rows(
    study: LeaningStudy, encoders: Sequence[EncoderEmbeddings], checks: Mapping[str, ReaderCheck]
) -> list[Score]:
    """Of every view, how often the attribute images of a and b are read right; of all groups, as what they are read.

    ``sensitivity``: images drawn for a that are read as a, by the rule of ``share``; ``specificity``: the same of b;
    with Wilson intervals. ``informedness``: their sum less 1, with p that they are read by chance (over prompts where
    there are enough), and the verdict of the check: ``flag`` and ``reason`` where the view reads too little.
    ``confusion``, with more than two groups: the share of each group's images nearest to the words of each.
    """
    rows = [row for check in checks.values() for row in (*_rates(study, check), _informedness(study, check))]
    if len(study.design.groups) > 2:
        rows += confusion_rows(study.design, encoders, study.settings.confidence)
    return rows


def corrected_rows(study: LeaningStudy, shares: Sequence[Score], checks: Mapping[str, ReaderCheck]) -> list[Score]:
    """The share of every target, corrected for misreading: beside each row ``share``, of the same view.

    :func:`clinometer.stats.misclassification.corrected_share`; the attribute images (``n_a``, ``n_b``) tell how often
    the view misreads.
    """
    return [
        _corrected(study, row, checks[row.encoder])
        for row in shares
        if (row.metric, row.component) == ("share", "share")
    ]


def _corrected(study: LeaningStudy, row: Score, check: ReaderCheck) -> Score:
    reading = check.reading
    blank = replace(
        row, component="corrected_share", value=float("nan"), low=float("nan"), high=float("nan"), flag="",
        bound_low=float("nan"), bound_high=float("nan"),
        n_a=reading.n_a, n_b=reading.n_b,
    )  # fmt: skip
    if not isfinite(row.value) or check.basis != "words":
        return blank if not isfinite(row.value) else replace(blank, reason="the encoder reads no text")
    count = round(row.value * row.n_target)
    share = corrected_share(count, row.n_target, reading, study.settings.confidence)
    if share.reason:
        return replace(blank, reason=f"attribute images: {share.reason}")
    clipped = share.estimate != share.value
    clipping = f"the estimate, {share.estimate:.2f}, is clipped to {share.value:.0f}; " if clipped else ""
    corrected = replace(blank, value=share.value, low=share.low, high=share.high, reason=clipping + NO_STIMULUS)
    if not row.n_missing:
        return corrected
    n = row.n_target + row.n_missing
    least, most = (corrected_share(count + more, n, reading, study.settings.confidence) for more in (0, row.n_missing))
    return replace(corrected, bound_low=min(share.low, least.low), bound_high=max(share.high, most.high))


def _rates(study: LeaningStudy, check: ReaderCheck) -> list[Score]:
    reading, confidence = check.reading, study.settings.confidence
    counted = (
        ("sensitivity", study.design.a, reading.right_a, reading.n_a),
        ("specificity", study.design.b, reading.right_b, reading.n_b),
    )
    rows = []
    for component, group, right, n in counted:
        rate = wilson_interval(right, n, confidence)
        rows.append(
            Score(
                metric=READER, component=component, group=group, encoder=check.encoder, value=rate.value,
                low=rate.low, high=rate.high, null=0.5, n_target=n, reason=rate.reason or _basis(check),
            )
        )  # fmt: skip
    return rows


def _informedness(study: LeaningStudy, check: ReaderCheck) -> Score:
    informedness = check.informedness
    return Score(
        metric=READER, component="informedness", encoder=check.encoder, value=informedness.value, low=informedness.low,
        high=informedness.high, p=check.p_images, test=_test(check), family=_family(check), q=check.p_images,
        p_holm=check.p_images, null=0.0, n_target=check.reading.n_a + check.reading.n_b, n_a=check.reading.n_a,
        n_b=check.reading.n_b, flag="" if check.reads else UNREAD,
        reason=check.reason or informedness.reason or _basis(check),
    )  # fmt: skip


def _basis(check: ReaderCheck) -> str:
    return NO_STIMULUS if check.basis == "words" else BY_IMAGES


def _test(check: ReaderCheck) -> str:
    if not isfinite(check.p_images):
        return ""
    words = f"; labels of words permuted: p {check.p_words:.2g}" if isfinite(check.p_words) else ""
    return f"images of both groups alike, one-sided{words}"


def _family(check: ReaderCheck) -> str:
    return "reader: a test by itself" if isfinite(check.p_images) else ""


def confusion_rows(design: Design, encoders: Sequence[EncoderEmbeddings], confidence: float) -> list[Score]:
    """Of every view, the share of each group's images that are nearest to the words of each group."""
    return [
        _confused(design, view, drawn, read, counts, confidence)
        for view, embeddings in by_view(encoders).items()
        for drawn, counts in _confusion_counts(design, embeddings).items()
        for read in design.groups
    ]


def _confused(design: Design, view: str, drawn: str, read: str, counts: np.ndarray, confidence: float) -> Score:
    n = int(counts.sum())
    share = wilson_interval(int(counts[design.index(read)]), n, confidence)
    return Score(
        metric=READER, component="confusion", group=drawn, setting=f"read as {read}", encoder=view, value=share.value,
        low=share.low, high=share.high, null=1 / len(design.groups), n_target=n,
        reason=NO_STIMULUS if n else "no image of the group, or a group without words to read by",
    )  # fmt: skip


def _confusion_counts(design: Design, embeddings: EncoderEmbeddings) -> dict[str, np.ndarray]:
    """Attribute images of each group by the group whose words they are nearest to; zeros where that is unknown."""
    groups, words = design.groups, embeddings.group_words
    nothing = {group: np.zeros(len(groups), int) for group in groups}
    if words is None or not all(len(words[group]) for group in groups):
        return nothing
    directions = np.stack([unit_rows(words[group]).mean(axis=0) for group in groups])
    for group in groups:
        for images in embeddings.group_images[group]:
            if len(images):
                near = unit_rows(images) @ directions.T
                nearest = len(groups) - 1 - near[:, ::-1].argmax(axis=1)  # a tie: not the first, as in other audits
                nothing[group] += np.bincount(nearest, minlength=len(groups))
    return nothing
