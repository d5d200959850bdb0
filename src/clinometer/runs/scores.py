"""The scores of a run as it stores them; of an old run, as they would be stored today.

Here alone a verdict is read out of a sentence, of runs that were scored before verdicts were data.

Such a table says ``leans slightly to men`` where a new one has the verdict ``leans slightly`` and the side ``men``.
It knows no ``p_labels`` either: in its rows of MCAS, ``p`` is of permuted labels.

Later ones have no parts of MCAS: their verdicts are of the sum, which may lean by its text alone. ``clinometer score
RUN`` makes a new table of either.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Final, NamedTuple

import pandas as pd
import pyarrow as pa

from clinometer.errors import RunNotFoundError
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import Verdict
from clinometer.runs.ledger import Ledger, require_numbers

SCORE_AGAIN = "Score the run again: clinometer score RUN"


def read_scores(ledger: Ledger, name: str = "scores.parquet") -> pd.DataFrame:
    """Read the scores, or the curves, in today's columns."""
    if not ledger.directory.exists(name):
        what = f"{name} is missing" if name in (ledger.record.get("files") or {}) else "not scored yet"
        raise RunNotFoundError.incomplete(
            f"{ledger.directory.url}: {what}; give: clinometer score {ledger.directory.url}"
        )
    # without what pandas wrote about it, which says nothing more and of a run without checksums may be damaged
    # Arrow keeps the memory of a table that is gone, which is as much again while another is read
    pa.default_memory_pool().release_unused()
    table = ledger.read_table(name, way_out=SCORE_AGAIN, shape=require_numbers).to_pandas(ignore_metadata=True)
    pa.default_memory_pool().release_unused()
    return with_parts(with_verdicts_as_data(table)) if name == "scores.parquet" else table


# --- Runs that were scored by an earlier version ---------------------------------------------------------------------

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
"""Sentences and the verdicts that they mean; the first that fits a whole sentence counts."""


class Read(NamedTuple):
    """A sentence as data; ``run`` is ``first`` or ``second`` where it says whose refusals tilt."""

    verdict: str
    side: str = ""
    run: str = ""


def read_verdict(sentence: str) -> Read:
    """Return the verdict of a sentence, and its side; of words that none ever was, ``not measured``.

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
    """Return a table of scores in today's columns: an old one gets those it lacks, its verdicts read."""
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


WITHOUT_PARTS: Final = (
    "the scores are of a version that did not tell what the pictures lean from what the text does; give: "
    "clinometer score RUN"
)
_NO_VERDICT: Final = {"verdict": Verdict.NOT_MEASURED.value, "side": "", "reason_code": "", "reason": WITHOUT_PARTS}
_OF_A_TEST: Final = ("low", "high", "stimulus_low", "stimulus_high", "p", "q", "p_holm", "p_labels", "p_equivalence",
                     "q_equivalence")  # fmt: skip


def with_parts(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the parts of MCAS, before all else: of an old one their values alone, with the reason.

    Along axes the stored number was the sum: it takes the setting that it has today, and the part is unknown.
    """
    if not {"metric", "component", "encoder", "concept", "setting"} <= set(scores):
        return scores
    parts = []
    mcas = scores[scores.metric == "mcas"]
    if len(mcas) and IMAGE_PART not in set(mcas.component):
        values = mcas.pivot_table(index=["encoder", "concept"], columns="component", values="value", dropna=False)
        for name in (IMAGE_PART, TEXT_PART):
            part = mcas[mcas.component == "mcas"].assign(component=name, **dict.fromkeys(_OF_A_TEST, float("nan")))
            at = pd.MultiIndex.from_frame(part[["encoder", "concept"]])
            value = values.reindex(at, columns=list(COMPONENTS[name])).sum(axis=1, skipna=False).to_numpy()
            part = part.assign(value=value, **_NO_VERDICT)
            part.loc[(part.encoder != MEAN) | (name == TEXT_PART), "verdict"] = ""
            parts.append(part)
    along = scores.component.str.match("axis:|cell:|cells$") & (scores.metric == "intersections")
    if along.any() and "mcas" not in set(scores.setting[along]):
        whole = along & (scores.setting == "")
        unknown = scores[whole].assign(value=float("nan"), **dict.fromkeys(_OF_A_TEST, float("nan")), **_NO_VERDICT)
        unknown.loc[scores.verdict[whole] == "", "verdict"] = ""
        parts.append(unknown)
        scores = scores.assign(setting=scores.setting.where(~whole, "mcas"))
    return pd.concat([*parts, scores], ignore_index=True) if parts else scores
