"""Which numbers of a run decide nothing, whatever their intervals say, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer.metrics.mcas import TEXT_PART
from clinometer.metrics.records import MEAN
from clinometer.metrics.verdict import FEWEST_IMAGES, ReasonCode, Verdict


class GateReason(StrEnum):
    """Why a number is undecided."""

    NONE = ""
    NO_ESTIMATE = "not measured"
    NO_INTERVAL = "it has no interval"
    NO_WIDTH = "its interval has no width: the images are too few to show any difference"
    TOO_FEW = "too few images"
    LEFT_OUT = "it leaves out a concept that was not measured"
    UNFIT = "the encoder does not fit, or cannot read its own attribute images"
    UNCHECKED = "too few attribute images to tell whether the encoder reads them"
    REACHES_OVER = "interval reaches over the limit"
    REACHES_BACK = "interval reaches back over the limit"
    CORRECTION = "not after correction"
    PICTURES = "missing or repeated images, filled in either way, could change it"


UNREAD: Final = {
    ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES: GateReason.UNCHECKED,
    ReasonCode.READER: GateReason.UNFIT,
    ReasonCode.DOMAIN: GateReason.UNFIT,
}
"""Why verdicts were withheld of an encoder; its other numbers decide nothing, either."""

READER: Final = "reader"
CANNOT_READ: Final = "cannot read"
"""The metric and the flag of a row that tells of an encoder, or of the average, that it cannot read."""

AXIS: Final = "axis:"
"""Leads what is measured, and what is read, along a single axis of a suite."""

NO_ENCODER: Final = ""
"""The encoder of a number over all concepts that rests on the average."""

ALL: Final = "all"
"""The category of numbers about a whole suite."""


def unread(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of encoders that cannot read."""
    return scores[(scores.metric == READER) & (scores.flag == CANNOT_READ)]


class Withheld:
    """What the verdicts of a run say of the numbers that have none of their own.

    A number about a concept is withheld with the verdict of the concept, one about a category or the whole suite with
    all verdicts there. An encoder that does not read along an axis decides nothing that rests on that axis.

    Parameters
    ----------
    unfit : encoders that do not fit the suite, whatever verdicts say.
    unread : rows of the encoders that cannot read (:func:`unread`), of every run that the numbers are of.
    """

    def __init__(self, scores: pd.DataFrame, unfit: Iterable[str], unread: pd.DataFrame) -> None:
        judged = scores[(scores.verdict != "") & (scores.component != TEXT_PART)]  # it holds no image that may lack
        measured = judged[judged.verdict != Verdict.NOT_MEASURED]
        without = judged[judged.reason_code.isin(UNREAD)]
        # a text that an encoder has not learned may be of one concept alone
        of_one = (without.reason_code == ReasonCode.DOMAIN) & without.encoder.isin(measured.encoder)
        self._concepts = set(zip(without.encoder[of_one], without.concept[of_one], strict=True))
        along_axes = without.encoder.isin(unread.encoder[unread.setting != ""])
        whole = without[~of_one & ~along_axes]
        self._encoders = {
            name: UNREAD[ReasonCode(code)] for name, code in zip(whole.encoder, whole.reason_code, strict=True)
        }
        self._encoders |= dict.fromkeys(unfit, GateReason.UNFIT)
        self._axes = list(zip(unread.encoder, unread.setting, unread.group, strict=True))
        codes = set(without.reason_code)
        self._of_axes = UNREAD[ReasonCode(codes.pop())] if len(codes) == 1 else GateReason.UNFIT
        if (measured.concept != "").any():
            measured = measured[measured.concept != ""]
        few = measured.verdict == Verdict.TOO_FEW
        self._few = set(measured.category[few]) - set(measured.category[~few])
        if len(few) and few.all():
            self._few.add(ALL)
        missing = judged[judged.value.isna() & (judged.concept != "")]
        self._missing = {
            (encoder, category)
            for name, own in zip(missing.encoder, missing.category, strict=True)
            for encoder in (name, *((NO_ENCODER,) if name == MEAN else ()))
            for category in (own, ALL)
        }
        self._enough = set(measured.concept[~few])

    def reason(self, row: Mapping[Any, Any]) -> GateReason:
        """Why a row is not judged at all."""
        if np.isnan(row["value"]):
            return GateReason.NO_ESTIMATE
        if (unread := self._unread(row)) != GateReason.NONE:
            return unread
        if row["verdict"] == Verdict.TOO_FEW or self._too_few(row):
            return GateReason.TOO_FEW
        if not row["concept"] and (row["encoder"], row["category"]) in self._missing:
            return GateReason.LEFT_OUT
        return GateReason.NO_ESTIMATE if row["verdict"] == Verdict.NOT_MEASURED else GateReason.NONE

    def _unread(self, row: Mapping[Any, Any]) -> GateReason:
        """Why its encoder says nothing of a row."""
        encoder = row["encoder"]
        if own := self._encoders.get(encoder) or UNREAD.get(row["reason_code"]):
            return own
        if any(encoder == name and _rests_on(row, axis, level) for name, axis, level in self._axes):
            return self._of_axes
        of_one = any(encoder == name and row["concept"] in (concept, "") for name, concept in self._concepts)
        return GateReason.UNFIT if of_one else GateReason.NONE

    def _too_few(self, row: Mapping[Any, Any]) -> bool:
        if row["concept"] in self._enough and row["n_target"] == 1:  # its text was counted, and not its images
            return False
        if row["concept"] and row["n_target"]:
            return not row["verdict"] and row["n_target"] < FEWEST_IMAGES
        return ALL in self._few or row["category"] in self._few


def _rests_on(row: Mapping[Any, Any], axis: str, level: str) -> bool:
    """Whether a number needs the reading of an axis, or of one of its levels; what is along no axis needs all."""
    if not axis or not row["component"].startswith(AXIS):
        return True
    return axis == row["component"] or (axis == f"{row['component']} {level}" and row["group"] in ("", level))
