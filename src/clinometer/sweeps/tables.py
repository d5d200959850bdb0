"""The numbers of a sweep as tables: ``table.csv`` and ``differences.csv``.

``table.csv`` has a row a number of every setting, and a row a difference from the baseline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pandas as pd

from clinometer._csv import csv_text
from clinometer.report import wording
from clinometer.report.rows import MEAN, Row, Scores
from clinometer.runs import Directory
from clinometer.studies import study_of
from clinometer.sweeps.grid import AXES
from clinometer.sweeps.outcome import Setting, SweepOutcome

TABLE: Final = "table.csv"
DIFFERENCES: Final = "differences.csv"
NUMBER, DIFFERENCE, UNDONE = "number", "difference", "undone"

WHOLE: Final = ("", "all")
"""Categories of rows about the whole suite."""

_TOLD: Final = ("metric", "component", "concept", "value", "low", "high", "p", "q", "p_holm", "n_target", "n_decide",
                "verdict", "side", "flag", "reason")  # fmt: skip
COLUMNS: Final = (*(axis for axis in AXES if axis != "seed"), "seeds", "images", "is_baseline", "kind", *_TOLD)


def numbers_of(setting: Setting) -> list[Row]:
    """The numbers of a setting about its whole suite: those that its study follows, or all that have an interval."""
    if setting.scores is None or setting.run is None:
        return []
    rows = [
        row
        for row in Scores.from_frame(setting.scores)
        if row.encoder == MEAN and row.category in WHOLE and not (row.concept or row.group or row.setting)
    ]
    suite = setting.run.suite
    followed = study_of(suite).comparison(suite).overall
    if not followed:
        return [row for row in rows if row.has_interval]
    return [row for name in followed for row in rows if (row.metric, row.component) == name]


def numbers_by_concept(setting: Setting) -> list[Row]:
    """The numbers of each concept of a setting that its study names."""
    if setting.scores is None or setting.run is None:
        return []
    suite, rows = setting.run.suite, Scores.from_frame(setting.scores)
    return [row for name in study_of(suite).comparison(suite).tabled for row in rows.select(*name) if row.concept]


def magnitude_of(setting: Setting) -> Row | None:
    """Tell whether it leans more or less than the baseline over all, where one number says so."""
    if setting.comparison is None:
        return None
    return Scores.from_frame(setting.comparison.scores).first("comparison", "magnitude")


def concepts_of(setting: Setting) -> list[Row]:
    """Return the differences of each concept, test or prompt that are judged."""
    if setting.comparison is None:
        return []
    rows = Scores.from_frame(setting.comparison.scores)
    suite = setting.comparison.first.suite
    quantities = study_of(suite).comparison(suite).quantities(suite)
    return [
        row
        for quantity in quantities
        for row in rows.select("comparison", quantity.component, encoder=quantity.encoder)
    ]


def image_count(setting: Setting) -> int:
    """Images that are there and were scored."""
    return 0 if setting.run is None else int((setting.run.samples.status == "ok").sum())


def table_of(outcome: SweepOutcome) -> pd.DataFrame:
    """Return the table; a setting of which nothing is known has a row that says why."""
    return pd.DataFrame(
        [line for setting in outcome.settings for line in _table_lines(outcome, setting)], columns=COLUMNS
    )


def _table_lines(outcome: SweepOutcome, setting: Setting) -> Iterator[dict[str, Any]]:
    common = {axis: setting.cell[axis] for axis in AXES if axis != "seed"}
    common |= {"seeds": len(setting.runs), "images": image_count(setting), "is_baseline": outcome.is_baseline(setting)}
    # the differences that are judged: over all, and of each concept, test or prompt
    over_all = magnitude_of(setting)
    for kind, rows in (
        (NUMBER, [*numbers_of(setting), *numbers_by_concept(setting)]),
        (DIFFERENCE, [*([] if over_all is None else [over_all]), *concepts_of(setting)]),
    ):
        for row in rows:
            yield common | {"kind": kind} | {name: getattr(row, name) for name in _TOLD}
    for reason in undone_of(setting):
        yield common | {"kind": UNDONE, "reason": reason}


def undone_of(setting: Setting) -> Sequence[str]:
    """Return what is missing of a setting, and why."""
    lost = [f"seed {seed}: {reason}" for seed, reason in setting.missing.items()]
    return [*lost, *([setting.undone] if setting.undone and setting.runs else [])]


def differences_of(outcome: SweepOutcome) -> pd.DataFrame:
    """Return every row of every comparison with the baseline, led by the values of the axes."""
    tables = []
    for setting in outcome.settings:
        if setting.comparison is not None:
            axes = {axis: [setting.cell[axis]] * len(setting.comparison.scores) for axis in AXES if axis != "seed"}
            tables.append(pd.concat([pd.DataFrame(axes), setting.comparison.scores.reset_index(drop=True)], axis=1))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[a for a in AXES if a != "seed"])


def write_tables(directory: Directory, outcome: SweepOutcome) -> None:
    """Write ``table.csv`` and ``differences.csv``."""
    for name, table in ((TABLE, table_of(outcome)), (DIFFERENCES, differences_of(outcome))):
        directory.write_bytes(name, csv_text(table).encode("utf-8", "backslashreplace"))


_NAMES: Final = {
    ("internal_bias_summary", "diffusion_bias_mean"): "mean diffusion bias \N{GREEK SMALL LETTER DELTA}",
    ("internal_bias_summary", "bias_amplification_mean"): "mean bias amplification \N{GREEK SMALL LETTER ALPHA}",
    ("category", "std"): "spread of MCAS over concepts",
    ("category", "mean"): "mean MCAS",
}


def number_in_words(metric: str, component: str) -> str:
    """Name a number about a whole suite."""
    component_names = wording.COMPONENT_NAMES
    plain = " ".join(dict.fromkeys(component_names.get(name, name.replace("_", " ")) for name in (metric, component)))
    return _NAMES.get((metric, component), plain)
