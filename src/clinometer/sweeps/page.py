"""The tables and the page of a sweep: what was found at each setting, how numbers move along the axes, all differences.

``table.csv`` has a row a number of every setting, and a row a difference from the baseline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final

import pandas as pd

from clinometer._csv import csv_text
from clinometer.metrics.differences import RUNS
from clinometer.metrics.verdict import Verdict
from clinometer.pipeline.comparison_page import (
    comparison_caution,
    comparison_tables,
    comparison_verdict,
    pairing_in_words,
)
from clinometer.report import wording
from clinometer.report.figures import Figure, Line, Step, bands_figure, span
from clinometer.report.html import asset, environment, page_style, style_and_script
from clinometer.report.verdicts import digits_of
from clinometer.report.view import MEAN, Row, Scores
from clinometer.report.wording import decided, difference_words
from clinometer.runs import Directory
from clinometer.studies import component_names, study_of
from clinometer.suites import Suite
from clinometer.sweeps.grid import REPLICATES, SETTING_AXES, Cell, Value, value_in_words
from clinometer.sweeps.outcome import SPLIT, Setting, SweepOutcome, guidance_of, split_lacks, split_table

TABLE: Final = "table.csv"
DIFFERENCES: Final = "differences.csv"
NUMBER, DIFFERENCE, UNDONE = "number", "difference", "undone"

WHOLE: Final = ("", "all")
"""Categories of rows about the whole suite."""

_TOLD: Final = ("metric", "component", "concept", "value", "low", "high", "p", "q", "p_holm", "n_target", "n_decide",
                "verdict", "side", "flag", "reason")  # fmt: skip
COLUMNS: Final = (*SETTING_AXES, "seeds", "images", "is_baseline", "kind", *_TOLD)


def numbers_of(setting: Setting) -> list[Row]:
    """Return a setting's numbers about its whole suite: those that its study follows, or all with an interval."""
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


def magnitude_of(setting: Setting) -> Row | None:
    """Return whether it leans more or less than the baseline over all, where one number says so."""
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
    """Count the images that are there and were scored."""
    return 0 if setting.run is None else int((setting.run.samples.status == "ok").sum())


def table_of(outcome: SweepOutcome) -> pd.DataFrame:
    """Return the table; a setting of which nothing is known has a row that says why."""
    return pd.DataFrame(
        [line for setting in outcome.settings for line in _table_lines(outcome, setting)], columns=COLUMNS
    )


def _table_lines(outcome: SweepOutcome, setting: Setting) -> Iterator[dict[str, Any]]:
    common = {axis: setting.cell[axis] for axis in SETTING_AXES}
    common |= {"seeds": len(setting.runs), "images": image_count(setting), "is_baseline": outcome.is_baseline(setting)}
    numbers = numbers_of(setting)
    if setting.scores is not None and setting.run is not None:
        suite, scores = setting.run.suite, Scores.from_frame(setting.scores)
        tabled = study_of(suite).comparison(suite).tabled
        numbers += [row for name in tabled for row in scores.select(*name) if row.concept]
    # the differences that are judged: over all, and of each concept, test or prompt
    over_all = magnitude_of(setting)
    for kind, rows in (
        (NUMBER, numbers),
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
            axes = {axis: [setting.cell[axis]] * len(setting.comparison.scores) for axis in SETTING_AXES}
            tables.append(pd.concat([pd.DataFrame(axes), setting.comparison.scores.reset_index(drop=True)], axis=1))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=SETTING_AXES)


def write_tables(directory: Directory, outcome: SweepOutcome) -> None:
    """Write ``table.csv``, ``differences.csv`` and, where there is a split, ``split.csv``."""
    tables = {TABLE: table_of(outcome), DIFFERENCES: differences_of(outcome)}
    if outcome.splits:
        tables[SPLIT] = split_table(outcome)
    for name, table in tables.items():
        directory.write_bytes(name, csv_text(table).encode("utf-8", "backslashreplace"))


def number_in_words(metric: str, component: str) -> str:
    """Name a number about a whole suite."""
    names = component_names()
    plain = dict.fromkeys(names.get(name, name.replace("_", " ")) for name in (metric, component))
    return names.get(f"{metric}:{component}", " ".join(plain))


# --- the page --------------------------------------------------------------------------------------------------------

PAGE: Final = "sweep.html"
MOST_LINES: Final = 8
"""Lines of a figure: one of each shape. Of more settings, those of the baseline alone are drawn."""
MOST_TABLES: Final = 60
"""Settings whose differences stand on the page, concept by concept; differences.csv has all."""

DIFFERENCE_SYMBOL: Final = "mean magnitude minus the baseline's"


def write_page(directory: Directory, outcome: SweepOutcome) -> None:
    """Write ``sweep.html``."""
    directory.write_bytes(PAGE, sweep_html(outcome).encode("utf-8", "replace"))


def sweep_html(outcome: SweepOutcome) -> str:
    """Render a sweep as one self-contained HTML page."""
    suites = [_suite(outcome, suite) for suite in outcome.grid.values("suite") if outcome.of_suite(suite)]
    cells = [outcome.record.status(cell) for cell in outcome.grid]
    return (
        environment("clinometer.report")
        .get_template("sweep_page.html")
        .render(
            title=outcome.record.title or "Sweep",
            axes=[_axis(outcome, axis) for axis in outcome.grid.varied],
            finished=sum(cell.status == "finished" for cell in cells),
            cells=len(cells),
            suites=suites,
            most_curves=MOST_CURVES,
            undone=[
                (_setting_name(outcome, setting.cell), why)
                for setting in outcome.settings
                for why in undone_of(setting)
            ],
            **style_and_script(page_style(), asset("page.js")),
        )
    )


def _axis(outcome: SweepOutcome, axis: str) -> dict[str, Any]:
    values = [value_in_words(axis, value) for value in outcome.grid.values(axis)]
    first = outcome.grid.baseline_of(next(iter(outcome.grid)))
    of_baseline = "" if axis in REPLICATES else value_in_words(axis, first[axis])
    return {"name": axis.replace("_", " "), "given": wording.listed(values), "baseline": of_baseline}


def _setting_name(outcome: SweepOutcome, cell: Cell) -> str:
    """Return a setting by its values on the axes that are varied."""
    return cell.words(tuple(axis for axis in outcome.grid.varied if axis != "seed"))


def _suite(outcome: SweepOutcome, suite: Value) -> dict[str, Any]:
    settings = outcome.of_suite(suite)
    compared = [setting for setting in settings if setting.comparison is not None]
    numbers = _numbers(settings)
    run = next((setting.run for setting in settings if setting.run is not None), None)
    return _suite_rows(outcome, suite) | {
        "label_a": study_of(run.suite).comparison(run.suite).label_a(run.suite) if run is not None else "",
        "said": _finding(outcome, compared),
        "axes": [
            {
                "name": axis.replace("_", " "),
                "figures": list(axis_figures(outcome, settings, axis, numbers)),
                "concepts": concept_curves(outcome, settings, axis) if axis in CURVED else [],
            }
            for axis in outcome.grid.varied
            if axis not in REPLICATES
        ],
        "splits": split_tables(outcome, suite),
        "split_lacks": split_lacks(outcome, suite),
        "comparisons": [_differences(outcome, setting) for setting in compared[:MOST_TABLES]],
        "left_out": max(0, len(compared) - MOST_TABLES),
    }


def _numbers(settings: Sequence[Setting]) -> list[tuple[str, str]]:
    """Name the numbers that any setting has about the whole suite, by metric and component."""
    rows = [row for setting in settings for row in numbers_of(setting) if row.defined]
    return list(dict.fromkeys((row.metric, row.component) for row in rows))


def _suite_rows(outcome: SweepOutcome, suite: Value) -> dict[str, Any]:
    settings = outcome.of_suite(suite)
    numbers = _numbers(settings)
    title = next((setting.run.suite.title for setting in settings if setting.run is not None), str(suite))
    return {
        "name": title,
        "baseline": _setting_name(outcome, outcome.grid.baseline_of(settings[0].cell)),
        "columns": [number_in_words(*name) for name in numbers],
        "rows": [_row(outcome, setting, numbers) for setting in settings],
    }


MOST_NUMBERS: Final = 2
"""Numbers of a setting that a terminal has room for."""


def settings_tables(outcome: SweepOutcome) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Return, for each suite, a table for a terminal: its title, its columns, and a row per setting."""
    for suite in outcome.grid.values("suite"):
        table = _suite_rows(outcome, suite)
        columns = [
            "setting",
            "images",
            *table["columns"][:MOST_NUMBERS],
            "\N{GREEK CAPITAL LETTER DELTA}",
            "q",
            "verdict",
        ]
        rows = [
            [row["name"], row["images"]]
            + [number.partition(" ")[0] for number in row["numbers"][:MOST_NUMBERS]]
            + [row[name] for name in ("difference", "q", "verdict")]
            for row in table["rows"]
        ]
        yield f"{table['name']}; the baseline is {table['baseline']}", columns, rows


def _finding(outcome: SweepOutcome, compared: Sequence[Setting]) -> str:
    """Count the settings that lean more than the baseline, and less."""
    rows = [row for row in map(magnitude_of, compared) if row is not None]
    more = sum(decided(row) and row.side == "second" for row in rows)
    less = sum(decided(row) and row.side == "first" for row in rows)
    if not rows:
        return "No setting could be compared with the baseline."
    if outcome.record.rounds is not None:
        n_decided = sum(any(map(decided, concepts_of(setting))) for setting in compared)
        return (
            f"Of {wording.count(len(rows), 'setting')}, {n_decided} differ from the baseline in some concept. "
            "Images were drawn until each difference was decided, or there were as many as requested."
        )
    held = f"{wording.capitalised(wording.count(len(rows), 'setting', words=True))} compared with the baseline:"
    if len(rows) == 1:
        return f"{held} {'it leans more' if more else 'it leans less' if less else 'the images cannot tell'}."
    parts = [wording.count(more, "leans more", "lean more", words=True)] if more else []
    parts += [wording.count(less, "leans less", "lean less", words=True)] if less else []
    if rest := len(rows) - more - less:
        parts.append(f"for {wording.numeral(rest)} the images cannot tell")
    return f"{held} {wording.listed(parts)}."


def _row(outcome: SweepOutcome, setting: Setting, numbers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    by_number = {(row.metric, row.component): row for row in numbers_of(setting)}
    over_all = magnitude_of(setting)
    names = _setting_name(outcome, setting.cell), "the baseline"
    return {
        "name": names[0],
        "is_baseline": outcome.is_baseline(setting),
        "seeds": str(len(setting.runs)),
        "images": f"{image_count(setting):,}",
        "numbers": [written(by_number.get(name)) for name in numbers],
        "difference": written(over_all, sign=True),
        "q": "" if over_all is None else wording.bare_probability(over_all.q),
        "verdict": _verdict(outcome, setting, over_all),
        "caution": "" if setting.comparison is None else comparison_caution(setting.comparison, names[::-1])[0],
    }


def _verdict(outcome: SweepOutcome, setting: Setting, over_all: Row | None) -> str:
    if outcome.is_baseline(setting):
        return "baseline"
    comparison = setting.comparison
    if comparison is not None and 0 < comparison.identical == comparison.pairs and not comparison.dropped:
        return "the same images"
    if over_all is None:
        return setting.undone or "there is no single number for the difference"
    if outcome.record.rounds is not None:
        rows = concepts_of(setting)
        return f"differs in {sum(map(decided, rows))} of {wording.count(len(rows), 'concept')}"
    return difference_words(over_all, ("the baseline", "it")) if over_all.defined else over_all.reason


def written(row: Row | None, *, sign: bool = False) -> str:
    """Write a number of a setting with its interval, and whether it is unstable."""
    if row is None or not row.defined:
        return wording.MISSING
    return wording.flagged(wording.estimate(row, digits_of([row]), sign=sign), unstable=row.unstable)


def _differences(outcome: SweepOutcome, setting: Setting) -> dict[str, Any]:
    assert setting.comparison is not None
    baseline = outcome.grid.baseline_of(setting.cell)
    names = _setting_name(outcome, baseline), _setting_name(outcome, setting.cell)
    caution = comparison_caution(setting.comparison, names)
    return {
        "name": names[1],
        "said": " ".join(filter(None, (comparison_verdict(setting.comparison, names), *caution))),
        "pairing": pairing_in_words(setting.comparison),
        "tables": comparison_tables(setting.comparison, names),
    }


# --- figures ---------------------------------------------------------------------------------------------------------


def axis_figures(
    outcome: SweepOutcome, settings: Sequence[Setting], axis: str, numbers: Sequence[tuple[str, str]]
) -> Iterator[Figure]:
    """Return the difference from the baseline along an axis, and each number."""
    lines = _lines(outcome, settings, axis)
    place = f"{settings[0].cell['suite']}-{axis}"
    label = axis.replace("_", " ")

    def drawn(order: int, symbol: str, row_of: Any, zero: str) -> Figure | None:
        bands = [
            Line(name, tuple(Step(x, caption, row_of(setting) or Row()) for x, caption, setting in steps))
            for name, steps in lines
        ]
        return bands_figure(
            bands, name=f"sweep-{order}-{_identifier(place)}", title=f"{symbol} along {label}", x_label=label,
            symbol=symbol, zero=zero,
        )  # fmt: skip

    def difference(setting: Setting) -> Row | None:  # of the baseline itself it is 0, and nothing varies
        is_baseline = outcome.is_baseline(setting) and setting.runs
        return Row(value=0.0, low=0.0, high=0.0) if is_baseline else magnitude_of(setting)

    def number(setting: Setting, name: tuple[str, str]) -> Row | None:
        return next((row for row in numbers_of(setting) if (row.metric, row.component) == name), None)

    figures = [drawn(0, DIFFERENCE_SYMBOL, difference, "the baseline")]
    figures += [
        drawn(order, number_in_words(*name), partial(number, name=name), "") for order, name in enumerate(numbers, 1)
    ]
    return (figure for figure in figures if figure is not None)


def _identifier(text: str) -> str:
    return "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in text)


Steps = list[tuple[float, str, Setting]]


def _lines(outcome: SweepOutcome, settings: Sequence[Setting], axis: str) -> list[tuple[str, Steps]]:
    """Return settings along an axis, a line for each combination of the other axes; of many, the baseline's alone.

    A model without a LoRA is where the line of each LoRA's weights begins.
    """
    others = tuple(other for other in outcome.grid.varied if other not in (axis, *REPLICATES))
    values = outcome.grid.values(axis)
    numeric = all(isinstance(value, int | float) for value in values)
    lines: dict[Cell, Steps] = {}
    bare = []
    for setting in settings:
        if axis == "lora_scale" and not setting.cell["lora"]:
            bare.append(setting)
            continue
        value = setting.cell[axis]
        x = float(value) if numeric and isinstance(value, int | float) else float(values.index(value))
        lines.setdefault(setting.cell.at(**{axis: None}), []).append((x, value_in_words(axis, value), setting))
    for setting in bare:
        for cell, steps in lines.items():
            if cell.at(lora=None) == setting.cell:
                steps.append((0.0 if numeric else -1.0, "no LoRA", setting))
    if len(lines) > MOST_LINES:
        baseline = outcome.grid.baseline_of(settings[0].cell).at(**{axis: None})
        chosen = baseline if baseline in lines else next(iter(lines))
        lines = {chosen: lines[chosen]}
    return [(cell.words(others) if others else "", sorted(steps, key=lambda s: s[0])) for cell, steps in lines.items()]


CURVED: Final = ("checkpoint", "lora_scale", "scheduler", "guidance", "steps")
"""Axes along which each concept has a curve of its own."""
MOST_CURVES: Final = 12
"""Concepts whose curves are open, those that move most; the others are folded."""


def concept_curves(outcome: SweepOutcome, settings: Sequence[Setting], axis: str) -> list[Figure]:
    """Draw what each concept leans along an axis, on one scale, those first whose number moves most."""
    run = next((setting.run for setting in settings if setting.run is not None), None)
    by_concept = study_of(run.suite).comparison(run.suite).by_concept if run is not None else None
    if run is None or by_concept is None:
        return []
    scores = {
        setting.cell: {} if setting.scores is None else Scores.from_frame(setting.scores).by_concept(*by_concept)
        for setting in settings
    }
    lines = _lines(outcome, settings, axis)
    drawn = [rows for _, steps in lines for _, _, setting in steps for rows in scores[setting.cell].values()]
    names = dict.fromkeys(name for rows in scores.values() for name in rows)

    def moved(name: str) -> float:
        values = [[scores[setting.cell][name].value for _, _, setting in steps if name in scores[setting.cell]]
                  for _, steps in lines]  # fmt: skip
        finite = [[value for value in own if isfinite(value)] for own in values]
        return max((max(own) - min(own) for own in finite if own), default=0.0)

    symbol = number_in_words(*by_concept)
    place, label = _identifier(f"{settings[0].cell['suite']}-{axis}"), axis.replace("_", " ")
    limits, side = span(drawn, stimulus=False), study_of(run.suite).comparison(run.suite).label_a(run.suite)
    figures = [
        bands_figure(
            [
                Line(line, tuple(Step(x, caption, scores[at.cell].get(name) or Row()) for x, caption, at in steps))
                for line, steps in lines
            ],
            name=f"concept-{order}-{place}", title=name, x_label=label, symbol=f"{symbol}, + to {side}", zero="parity",
            limits=limits,
        )
        for order, name in enumerate(sorted(names, key=moved, reverse=True))
    ]  # fmt: skip
    return [figure for figure in figures if figure is not None]


# --- what guidance adds ----------------------------------------------------------------------------------------------

COSTS: Final = {
    "diversity": "mean distance between two images of a concept",
    "fidelity": "share of images nearest to their own prompt",
}


def split_tables(outcome: SweepOutcome, suite: Value) -> list[dict[str, Any]]:
    """Write each split of a suite: its name, a sentence, a table a concept a row, and one of what guidance costs."""
    fixed = tuple(axis for axis in outcome.grid.varied if axis not in ("seed", "guidance", "suite"))
    splits: list[dict[str, Any]] = []
    for split in outcome.splits:
        if split.setting.cell["suite"] != suite:
            continue
        scales = [f"guidance {guidance_of(side):g}" for side in (split.at_one, split.setting)]
        name = wording.capitalised(scales[1]) + (f", {split.setting.cell.words(fixed)}" if fixed else "")
        if split.scores is None or split.at_one.run is None:
            splits.append({"name": name, "said": f"No split: {split.undone}.", "tables": []})
            continue
        rows = Scores.from_frame(split.scores)
        tables = [_split_concepts(rows, split.at_one.run.suite, scales), _split_costs(rows, scales)]
        splits.append({"name": name, "said": _split_in_words(rows, scales[1]), "tables": tables})
    return splits


def _split_in_words(rows: Scores, guided: str) -> str:
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


def _split_concepts(rows: Scores, suite: Suite, scales: Sequence[str]) -> dict[str, Any]:
    by_number = [rows.by_concept("split", name) for name in ("learned", "added", "leaning")]
    digits = digits_of([row for own in by_number for row in own.values()])

    def size(name: str) -> float:
        return abs(by_number[1][name].value) if by_number[1][name].defined else -1.0

    cells = []
    for name in sorted(by_number[0], key=size, reverse=True):
        learned, added, leaning = (own[name] for own in by_number)
        cells.append((
            name, _split_verdict(learned, added, leaning, suite),
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


def _split_verdict(learned: Row, added: Row, leaning: Row, suite: Suite) -> str:
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


def _split_costs(rows: Scores, scales: Sequence[str]) -> dict[str, Any]:
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
