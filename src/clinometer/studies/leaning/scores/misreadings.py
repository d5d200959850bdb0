"""Rows of how well every view reads its attribute images, and shares corrected for what it misreads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Final

from clinometer.metrics.records import Score
from clinometer.stats.confusion import corrected_share
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.design import StudySetup
from clinometer.studies.leaning.scores.encoder_check import READER, UNREAD, LevelCheck, ReaderCheck
from clinometer.studies.leaning.scores.rows import FIXED
from clinometer.studies.leaning.scores.views import EncoderView, count_nearest

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
