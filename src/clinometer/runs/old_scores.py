"""Scores of runs made before verdicts were data: the one place that reads a verdict out of a sentence.

Such a table says ``leans slightly to men`` where a new one has the verdict ``leans slightly`` and the side ``men``.
It knows no ``p_labels`` either: in its rows of MCAS, ``p`` is of permuted labels. ``clinometer score RUN`` makes a new
one.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Final, NamedTuple

import pandas as pd

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import Verdict

_SENTENCES: Final[tuple[tuple[re.Pattern[str], Verdict], ...]] = tuple(
    (re.compile(pattern), verdict)
    for pattern, verdict in (
        (r"leans slightly to (?P<side>.+?)(?:, .* more than .*)?", Verdict.LEANS_SLIGHTLY),
        (r"leans to (?P<side>.+?)(?:, .* more than .*)?", Verdict.LEANS),
        (r"(?:shown )?balanced within margin", Verdict.BALANCED),
        (r"undecided", Verdict.UNDECIDED),
        (r"not measured", Verdict.NOT_MEASURED),
        (r"shown to lean alike within margin", Verdict.ALIKE),
        (r"the second leans more to (?P<side>.+)", Verdict.MORE),
        (r"the (?P<run>first|second)'s refusals tilt more to (?P<side>.+)", Verdict.MORE),
        (r"the (?P<side>first|second) refuses more of these prompts", Verdict.MORE_HERE),
        (r"the (?P<side>first|second) (?:leans|refuses) more", Verdict.MORE),
    )
)
"""What was said, and what it says; the first that fits a whole sentence counts."""


class Read(NamedTuple):
    """A sentence as data; ``run`` is ``first`` or ``second`` where it says whose refusals tilt."""

    verdict: str
    side: str = ""
    run: str = ""


def read_verdict(sentence: str) -> Read:
    """The verdict of a sentence, and its side; of words that none ever was, ``not measured``.

    >>> read_verdict("leans slightly to men")
    Read(verdict='leans slightly', side='men', run='')
    """
    if not sentence:
        return Read("")
    for pattern, verdict in _SENTENCES:
        match = pattern.fullmatch(sentence)
        if match:
            named = match.groupdict()
            return Read(verdict.value, named.get("side") or "", named.get("run") or "")
    return Read(Verdict.NOT_MEASURED.value)


def with_verdicts_as_data(scores: pd.DataFrame) -> pd.DataFrame:
    """A table of scores in today's columns: an old one gets those it lacks, its verdicts read."""
    if "verdict" not in scores:
        return scores
    lacking: dict[str, Any] = {field.name: field.default for field in fields(Score) if field.name not in scores}
    if "side" in scores:
        return scores.assign(**lacking) if lacking else scores
    readings = [read_verdict("" if pd.isna(sentence) else str(sentence)) for sentence in scores["verdict"]]
    tilts = [
        f"{reading.run} run" if reading.run else own for reading, own in zip(readings, scores["setting"], strict=True)
    ]
    return scores.assign(
        **lacking
        | {
            "verdict": [reading.verdict for reading in readings],
            "side": [reading.side for reading in readings],
            "setting": tilts,
        }
    )
