"""The split of a sweep by guidance: what each setting leans at guidance 1, and what more guidance adds.

A setting is compared with the one that differs from it in guidance alone and draws without the unconditional branch,
whatever the sweep's baseline is. :func:`clinometer.studies.leaning.compare.split_rows` says what the numbers are. What
guidance adds is one family of tests over the whole grid, as all differences are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from clinometer._csv import csv_text
from clinometer.errors import ClinometerError, RunNotFoundError
from clinometer.metrics.differences import RUNS, judged_over_grid
from clinometer.metrics.verdict import Verdict
from clinometer.pipeline.comparison import split_runs
from clinometer.report import wording
from clinometer.report.rows import Row, Scores, scores_table
from clinometer.report.verdicts import digits_of
from clinometer.runs import Directory
from clinometer.runs.several import pooled
from clinometer.studies import study_of
from clinometer.suites import Suite
from clinometer.sweeps.grid import AXES, Value
from clinometer.sweeps.outcome import Setting, Split, SweepOutcome, stored_table

SPLIT: Final = "split.csv"
_TOLD: Final = ("component", "concept", "setting", "value", "low", "high", "p", "q", "p_holm", "n_target", "verdict",
                "side", "depends_on", "reason")  # fmt: skip
COLUMNS: Final = (*(axis for axis in AXES if axis != "seed"), "guidance_of_first", "guidance_of_second", *_TOLD)
COSTS: Final = {
    "diversity": "mean distance between two images of a concept",
    "fidelity": "share of images nearest to their own prompt",
}


def guidance_of(setting: Setting) -> float | None:
    """Return the guidance scale that a setting was drawn at, or is to be; None where the model names none."""
    if setting.run is None:
        value = setting.cell["guidance"]
    else:
        value = setting.run.model_card["settings"].get("guidance_scale")
    return float(value) if isinstance(value, int | float) else None


def with_splits(directory: Directory, outcome: SweepOutcome) -> SweepOutcome:
    """Add what guidance adds at every setting that has a partner at guidance 1; what was computed before is read."""
    splits = []
    for setting in outcome.settings:
        guidance, at_one = guidance_of(setting), unguided(outcome, setting)
        if guidance is not None and guidance > 1 and at_one is not None:
            splits.append(_split(directory, at_one, setting))
    # what guidance adds is one family over the grid
    added = [
        (order, row)
        for order, split in enumerate(splits) if split.scores is not None
        for row in Scores.from_frame(split.scores).rows if row.component == "added"
    ]  # fmt: skip
    family = f"split: added over {len(added)} differences of the grid"
    judged = defaultdict[int, list[Any]](list)
    for (order, _), row in zip(added, judged_over_grid([row for _, row in added], family), strict=True):
        judged[order].append(row)
    for order, split in enumerate(splits):
        if split.scores is not None and judged[order]:
            others = [row for row in Scores.from_frame(split.scores).rows if row.component != "added"]
            splits[order] = replace(split, scores=scores_table([*others, *judged[order]]))
    return replace(outcome, splits=tuple(splits))


def unguided(outcome: SweepOutcome, setting: Setting) -> Setting | None:
    """Find the setting that differs in guidance alone and has no unconditional branch: at 1, or else nearest below."""
    others = setting.cell.at(guidance=None)
    partners = [
        (guidance, other)
        for other in outcome.settings
        if other.cell.at(guidance=None) == others and (guidance := guidance_of(other)) is not None and guidance <= 1
    ]
    return max(partners, key=lambda each: each[0])[1] if partners else None


def _split(directory: Directory, at_one: Setting, setting: Setting) -> Split:
    try:
        seeds = [seed for seed in setting.runs if seed in at_one.runs]
        if not seeds:
            missing = [reason for side in (at_one, setting) for reason in side.missing.values()]
            raise RunNotFoundError.incomplete(missing[0] if missing else "no seed is finished at both guidances")
        first, second = ([side.runs[seed] for seed in seeds] for side in (at_one, setting))
        scores, _ = stored_table(
            directory, f"{setting.cell.name}-split", [*first, *second],
            lambda: (split_runs(pooled(first), pooled(second)), {}),
        )  # fmt: skip
        return Split(at_one, setting, scores)
    except ClinometerError as error:
        return Split(at_one, setting, undone=str(error))


def split_table(outcome: SweepOutcome) -> pd.DataFrame:
    """Return every number of every split, led by the axes; of one that could not be computed, a row that says why."""
    return pd.DataFrame([line for split in outcome.splits for line in _table_lines(split)], columns=COLUMNS)


def _table_lines(split: Split) -> Iterator[dict[str, Any]]:
    common: dict[str, Any] = {axis: split.setting.cell[axis] for axis in AXES if axis != "seed"}
    common |= {"guidance_of_first": guidance_of(split.at_one), "guidance_of_second": guidance_of(split.setting)}
    if split.scores is None:
        yield common | {"reason": split.undone}
        return
    for row in Scores.from_frame(split.scores).rows:
        yield common | {name: getattr(row, name) for name in _TOLD}


def write_split(directory: Directory, outcome: SweepOutcome) -> None:
    """Write ``split.csv``, where there is a split."""
    if outcome.splits:
        directory.write_bytes(SPLIT, csv_text(split_table(outcome)).encode("utf-8", "backslashreplace"))


def split_lacks(outcome: SweepOutcome, suite: Value) -> str:
    """Explain why a suite has no split, and what to do; empty where there is one, or no guidance to split by."""
    settings = [setting for setting in outcome.of_suite(suite) if setting.run is not None]
    scales = [scale for setting in settings if (scale := guidance_of(setting)) is not None]
    run = next((setting.run for setting in settings if setting.run is not None), None)
    if run is None or not scales or not study_of(run.suite).overrides("split"):
        return ""
    if any(split.setting.cell["suite"] == suite for split in outcome.splits):
        return ""
    if max(scales) <= 1:
        return (
            "Every setting is drawn without the unconditional branch, so how it leans is what the network learned. To "
            "see what guidance adds, give guidances above 1 as well, such as --guidance 1,3,7.5, and the same --out."
        )
    given = ",".join(f"{scale:g}" for scale in sorted({1.0, *scales}))
    return (
        "No setting is drawn at guidance 1, so what the network learned cannot be separated from what guidance adds. "
        f"Give --guidance {given} (in a sweep’s file guidance: [{given.replace(',', ', ')}]) and the same --out: only "
        "the cells at guidance 1 are drawn."
    )


# --- the page --------------------------------------------------------------------------------------------------------


def split_tables(outcome: SweepOutcome, suite: Value) -> list[dict[str, Any]]:
    """Write each split of a suite: its name, a sentence, a table a concept a row, and one of what guidance costs."""
    fixed = tuple(axis for axis in outcome.grid.varied if axis not in ("seed", "guidance", "suite"))
    told: list[dict[str, Any]] = []
    for split in outcome.splits:
        if split.setting.cell["suite"] != suite:
            continue
        scales = [f"guidance {guidance_of(side):g}" for side in (split.at_one, split.setting)]
        name = wording.capitalised(scales[1]) + (f", {split.setting.cell.words(fixed)}" if fixed else "")
        if split.scores is None or split.at_one.run is None:
            told.append({"name": name, "said": f"No split: {split.undone}.", "tables": []})
            continue
        rows = Scores.from_frame(split.scores)
        tables = [_concepts(rows, split.at_one.run.suite, scales), _costs(rows, scales)]
        told.append({"name": name, "said": _said(rows, scales[1]), "tables": tables})
    return told


def _said(rows: Scores, guided: str) -> str:
    by_number = [rows.by_concept("split", name) for name in ("learned", "added", "leaning")]
    effects = Counter(_effect(*(own[concept] for own in by_number)) for concept in by_number[1])
    words = {
        "adds": "adds to the leaning of {}",
        "takes": "reduces the leaning of {}",
        "turns": "turns the leaning of {} to the other side",
        "moves": "moves {} not shown to lean at guidance 1",
        "alike": "leaves {} unchanged within the margin",
    }
    concepts = wording.count(len(by_number[1]), "concept")
    parts = [said.format(effects[effect]) for effect, said in words.items() if effects[effect]]
    if not parts:
        return f"What {guided} adds cannot be told for any of {concepts}."
    untold = f"; for {effects['']} it cannot be told" if effects[""] else ""
    return f"Of {concepts}, {guided} {wording.listed(parts)}{untold}."


def _effect(learned: Row, added: Row, leaning: Row) -> str:
    """Name what guidance does to a concept: adds, takes, turns or moves, or leaves it alike; empty if undecided."""
    if added.verdict == Verdict.ALIKE:
        return "alike"
    if added.verdict != Verdict.MORE:
        return ""
    if not learned.side:
        return "moves"
    if learned.side == added.side:
        return "adds"
    return "turns" if leaning.side == added.side else "takes"


def _concepts(rows: Scores, suite: Suite, scales: Sequence[str]) -> dict[str, Any]:
    by_number = [rows.by_concept("split", name) for name in ("learned", "added", "leaning")]
    digits = digits_of([row for own in by_number for row in own.values()])

    def size(name: str) -> float:
        return abs(by_number[1][name].value) if by_number[1][name].defined else -1.0

    cells = []
    for name in sorted(by_number[0], key=size, reverse=True):
        learned, added, leaning = (own[name] for own in by_number)
        cells.append((
            name, _verdict(learned, added, leaning, suite),
            wording.estimate(learned, digits), wording.bare_probability(learned.q),
            wording.estimate(added, digits), wording.bare_probability(added.q), wording.signed(leaning.value, digits),
        ))  # fmt: skip
    one, guided = scales
    a = study_of(suite).comparison(suite).label_a(suite)
    return {
        "title": f"{guided} compared with {one}, concept by concept",
        "columns": ("Concept", "Verdict", f"at {one}", "q", f"{guided} adds", "q", f"at {guided}"),
        "rows": cells,
        "note": f"Positive numbers lean to {a}. Both numbers are from the same pairs of images, by the attribute "
        f"images at {one}, and add up to the last. In brackets is the 95 % interval over images; q of what the network "
        "learned is over the concepts, q of what guidance adds is over all guidances and concepts.",
    }


def _verdict(learned: Row, added: Row, leaning: Row, suite: Suite) -> str:
    """Word both verdicts of a concept."""
    more = {
        "adds": "guidance adds to it",
        "takes": "guidance reduces it",
        "turns": f"guidance turns it to {suite.label_of(leaning.side)}" if leaning.side else "",
        "moves": f"guidance moves it towards {suite.label_of(added.side)}" if added.side else "",
        "alike": "guidance leaves it unchanged within the margin",
        "": added.reason or "what guidance adds cannot be told",
    }[_effect(learned, added, leaning)]
    return f"{wording.verdict_words(learned, suite.label_of)}; {more}{wording.assumption(added)}"


def _costs(rows: Scores, scales: Sequence[str]) -> dict[str, Any]:
    cells = []
    for component, name in COSTS.items():
        found = {row.setting: row for row in rows.select("split", component)}
        change = found.get("", Row())
        numbers = [wording.estimate(found.get(run), 3, sign=False) for run in RUNS]
        limit = f"\N{PLUS-MINUS SIGN}{change.null:.2g}" if change.null > 0 else ""
        said = change.verdict or change.reason or "no number"
        cells.append((name, said, *numbers, wording.estimate(change, 3), limit))
    one, guided = scales
    return {
        "title": f"What {guided} costs",
        "columns": ("Over all concepts", "Verdict", f"at {one}", f"at {guided}", "change", "limit"),
        "rows": cells,
        "note": "Kept: two one-sided tests show that the change is within the limit. Disturbed: the number fell, and "
        "the interval lies beyond the limit; risen: it grew beyond it. A leaning may change because pictures show less "
        "of what was asked.",
    }
