"""The record every metric fills, one row of ``scores.parquet``, and families of rows that are corrected together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import nan
from typing import Any, Final

import numpy as np

from clinometer.stats.multiplicity import benjamini_hochberg, holm
from clinometer.stats.permutation import PermutationTest

OWN_TEXT: Final = "own_text"
"""The metric of numbers that rest on the audited model's own text encoders; no audit encoder made them."""

PRIOR: Final = "prior"
"""The metric of numbers that rest on the image embeddings that the audited model's prior draws."""

PICTURES: Final = "pictures"
"""The metric of what is said of pictures as such."""
BATCHES_KNOWN: Final = "batches are known"
"""The flag where pictures say which batch they came in, and batches are the units of chance."""
READING: Final = "reading"
"""The metric of numbers that rest on readers' answers."""

STANDARD: Final = "standard"
"""The metric of numbers that hold shares against a declared standard."""

STEERABILITY: Final = "steerability"
"""The metric of numbers that say whether a model draws the group that a prompt names."""

ABLATION: Final = "ablation"
"""The metric of what single words of a prompt do to its pictures."""

SELECTION: Final = "selection_ratio"
"""The metric of shares over the largest of the same images: the four-fifths ratio."""

DECIDES: Final = "decides"
"""The flag of the reader whose verdicts stand."""

CHANGED_READER: Final = "the reader changed"
"""The flag of what a reader says that changed while it read."""

TRACE: Final = "trace"
"""The metric of numbers about what the audited model takes its images for on the way, step by step."""

OF_THE_MODEL: Final = (OWN_TEXT, PRIOR)
"""Metrics that rest on no encoder of the audit."""

MOST_SPLITS = 2**63 - 1
"""The largest ``n_splits`` that a column of whole numbers holds."""


MEAN = "mean"
"""The encoder of rows that are the average over encoders."""


class _Fields:
    """The fields of a record with slots, for ``vars``: of 350,000 in a table of counts, dictionaries take 2 kB."""

    __slots__ = ()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, slots=True)
class Score(_Fields):
    """One number with everything needed to defend it.

    An undefined number is NaN and ``reason`` says why; it is never 0.

    Attributes
    ----------
    metric : ``"mcas"``, ``"internal_bias"``, ``"xmcas"``, ``"profile"``, ``"share"``, ``"category"``, …
    component : which number of the metric, for example ``"ii"`` or ``"bias_amplification"``.
    concept : the target it is about; empty for a number about a category or a whole suite.
    category : the target's category, or the category summarised; ``"all"`` for the whole suite.
    group : the attribute group it is about, where there is one.
    setting : what was varied besides the concept, for example ``"strength 0.8"``; empty where nothing was.
    encoder : the encoder's name, or ``"mean"`` for the average over encoders; of metric ``"reading"`` the reader's.
    value : the estimate.
    low, high : 95 % interval over images, those of the target and of the attributes; words are fixed.
    stimulus_low, stimulus_high : 95 % interval over the attribute words and the encoders too.
    p : p-value, of the test named in ``test``; of a number with a middle the larger of ``p_zero`` and ``p_middle``.
    q : Benjamini–Hochberg q-value within ``family``; the verdict's.
    p_holm : Holm's adjusted p-value within ``family``.
    test : what the test takes for chance, and the alternative.
    p_labels : p of permuted labels of words and attribute prompts, the target's images held: how far the number depends
        on the words and prompts that were chosen. It qualifies a verdict and withholds none.
    p_labels_least : the smallest ``p_labels`` that so few words and prompts allow.
    labels_test : what was permuted for ``p_labels``.
    p_exact : whether every split was counted, and p is exact.
    p_error : Monte-Carlo standard error of ``p``; 0 when exact.
    n_splits : number of splits counted or sampled; 2^63 − 1 stands for that many or more.
    p_method : how a permutation p was found: ``"exact"``, ``"certified"`` (the upper end of a proven bracket) or
        ``"sampled"``; empty for a p of another kind.
    p_low, p_high : bounds of the exact p: the proven bracket, or the 95 % Monte-Carlo interval; p itself when exact.
    middle : what the number would be at pictures that are in equal parts the groups' own; NaN where a verdict does not
        ask.
    from_middle_low, from_middle_high : 95 % interval of ``value`` − ``middle`` over images.
    middle_margin : the margin around the middle: the suite's, and at most an eighth of the way between the groups' own
        images.
    p_zero, p_middle : p of ``value`` = 0, which ``low`` and ``high`` are dual to, and of ``value`` = ``middle``.
    family : the tests ``q`` and ``p_holm`` correct for.
    null : expectation at these sample sizes if nothing leaned (median where no mean exists, see docs);
        for scores that are non-negative by construction.
    n_target, n_a, n_b : images (or texts) in the target and in the two attribute sets, each different picture once.
    n_repeated : images of the target that are one of these again, as of a fixed seed or a cache, and do not count.
    n_batches : batches that the images of the target came in, where these are the units of chance; 0 where images are.
    n_missing : images of the target that were asked for and are not there: refused, failed, of one colour, or
        left out by an encoder.
    n_missing_attributes : images of the attribute groups that the number rests on and that are not there either.
    bound_low, bound_high : the outermost ends of the interval with all missing images taken to be of one group, then of
        the other, and with repeated ones counted as often as they were drawn (:mod:`clinometer.metrics.verdict`); NaN
        where there is neither.
    depends_on : what a verdict would not hold over: ``"missing"``, ``"repeats"``, ``"unread"`` pictures, another
        ``"reader"``, or several with spaces between.
    flag : ``"unstable"`` or empty.
    p_equivalence, q_equivalence : of two one-sided tests that |value| is below the suite's margin, where it names one,
        and the larger of it and of the same of |value − middle| and ``middle_margin``, where there is a middle; q
        corrects within the same rows.
    n_decide : where undecided, the images (as ``n_target``) with which four of five runs would decide, with q over the
        family and all other sets in proportion; 0 where none would, or it is not asked.
    verdict : one of :class:`clinometer.metrics.verdict.Verdict`, in the rows that decide; else empty.
    side : the side that the verdict names: a group, or of two runs ``"first"`` or ``"second"``; empty for none.
    reason_code : one of :class:`clinometer.metrics.verdict.ReasonCode`: why the verdict names no side.
    reason : why the value, the interval or the p-value is missing.
    """

    metric: str
    component: str
    concept: str = ""
    category: str = ""
    group: str = ""
    setting: str = ""
    encoder: str = "mean"
    value: float = nan
    low: float = nan
    high: float = nan
    stimulus_low: float = nan
    stimulus_high: float = nan
    p: float = nan
    q: float = nan
    p_holm: float = nan
    test: str = ""
    p_labels: float = nan
    p_labels_least: float = nan
    labels_test: str = ""
    p_exact: bool = False
    p_error: float = nan
    n_splits: int = 0
    p_method: str = ""
    p_low: float = nan
    p_high: float = nan
    middle: float = nan
    from_middle_low: float = nan
    from_middle_high: float = nan
    middle_margin: float = nan
    p_zero: float = nan
    p_middle: float = nan
    family: str = ""
    null: float = nan
    n_target: int = 0
    n_a: int = 0
    n_b: int = 0
    n_repeated: int = 0
    n_batches: int = 0
    n_missing: int = 0
    n_missing_attributes: int = 0
    bound_low: float = nan
    bound_high: float = nan
    depends_on: str = ""
    flag: str = ""
    p_equivalence: float = nan
    q_equivalence: float = nan
    n_decide: int = 0
    verdict: str = ""
    side: str = ""
    reason_code: str = ""
    reason: str = ""

    @property
    def least_exchange_p(self) -> float:
        """The smallest p of a two-sided test of so many exchanges of partners: of a full count two are the extremes.

        ``2 / n`` where all n are counted, ``1 / (1 + n)`` where n are drawn, 0 where p is of another kind.
        """
        if not self.n_splits:
            return 0.0
        return 2 / self.n_splits if self.p_exact else 1 / (1 + self.n_splits)


def storable(n_splits: int) -> int:
    """``n_splits`` as a column can hold it: C(68, 34) = 2.8e19 is beyond 64 bits.

    >>> storable(70), storable(10**30) == MOST_SPLITS
    (70, True)
    """
    return min(n_splits, MOST_SPLITS)


def permuted(test: PermutationTest, at: int = 0) -> dict[str, Any]:
    """Return a permutation test's p and how it was found, as fields of a row; ``at`` chooses the statistic."""
    return {
        "p": float(test.p_value[at]),
        "p_exact": test.exact,
        "p_error": float(test.standard_error[at]),
        "n_splits": storable(test.n_splits),
        "p_method": test.method,
        "p_low": float(test.p_low[at]),
        "p_high": float(test.p_high[at]),
    }


def corrected(rows: Sequence[Score], family: str) -> list[Score]:
    """Add a family's name, Benjamini–Hochberg q-values and Holm's adjusted p-values to its rows.

    q bounds the share of false findings among all findings, Holm's p the chance of a single one. A row without p is no
    test of the family.
    """
    p = np.array([row.p for row in rows], np.float64)
    adjusted = zip(rows, benjamini_hochberg(p), holm(p), strict=True)
    return [replace(row, q=float(q), p_holm=float(p_holm), family=family) for row, q, p_holm in adjusted]
