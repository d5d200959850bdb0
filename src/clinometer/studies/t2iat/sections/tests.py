"""The sections of an association study: verdicts, tests, distributions, arrows."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.page import Judged, Told, Verdicts, judged
from clinometer.report.rows import Row
from clinometer.report.sections import measured_how
from clinometer.report.wording import (
    HEADINGS,
    NOTES,
    VERDICT_GROUPS,
    held_back,
    needed,
    said_of,
    verdict_group_of,
)
from clinometer.studies.t2iat.figures import (
    arrow_figure,
    arrow_limits,
    distribution_figure,
    distribution_limits,
)
from clinometer.studies.t2iat.sections.finding import (
    effect_words,
    finding,
    judged_ends,
    judged_interval,
    magnitude,
    strongest,
)
from clinometer.studies.t2iat.view import AssociationView
from clinometer.suites import AssociationSuite


def association_verdicts(view: AssociationView) -> dict[str, Any]:
    """Tests, or stimuli, by their verdicts, the strongest first."""
    margin = view.suite.margin
    headings = {"a": f"Leans to {view.label_a}", "b": f"Leans to {view.label_b}", **HEADINGS}
    notes = {"balanced": f"Tests show it to be within ±{margin:g}." if margin else "", **NOTES}
    verdict_groups = [
        {
            "id": verdict_group,
            "lean": verdict_group,
            "heading": headings[verdict_group],
            "note": notes.get(verdict_group, ""),
            "items": _items(view, verdict_group),
        }
        for verdict_group in VERDICT_GROUPS
    ]
    return {
        "verdict_groups": [verdict_group for verdict_group in verdict_groups if verdict_group["items"]],
        "label_a": view.label_a,
        "label_b": view.label_b,
        "tests": bool(view.suite.tests),
    }


def signs(suite: AssociationSuite) -> str:
    """What the sign of S means, or of Asc where the suite has no tests."""
    label_a, label_b = (suite.label_of(group) for group in suite.pair)
    verb = f"ties X closer to {label_a} than Y" if suite.tests else f"leans to {label_a}"
    return f"+ {verb}, {wording.MINUS} to {label_b}"


def association_told(view: AssociationView) -> Told:
    """The finding, and every test, or every stimulus where the suite has none."""
    unit, symbol = ("test, X against Y", "S") if view.suite.tests else ("prompt", "Asc")
    rows = tuple(_judged(view, name, row) for name, row in view.judged.items())
    return Told(finding(view), strongest(view), (Verdicts(unit, symbol, signs(view.suite), rows, view.label),))


def _judged(view: AssociationView, name: str, row: Row) -> Judged:
    item = _item(view, name, row)
    notes = (effect_words(view.effect_sizes.get(name)), item["reason"])
    return judged(
        row, view.subject(name), view.label, item["value"], item.get("interval", ""), ends=judged_ends(view, row),
        notes=notes,
    )  # fmt: skip


def _items(view: AssociationView, lean: str) -> list[dict[str, str]]:
    rows = [(name, row) for name, row in view.judged.items() if verdict_group_of(row) == lean]
    rows.sort(key=lambda item: -abs(item[1].value) if item[1].defined else 0.0)
    return [_item(view, name, row) for name, row in rows]


def _item(view: AssociationView, name: str, row: Row) -> dict[str, str]:
    item = {
        "name": name,
        "subject": wording.capitalised(view.subject(name)),
        "symbol": "S" if view.suite.tests else "Asc",
    }
    if not row.defined:
        reason = row.reason or "there is no score for it"
        return item | {"verdict": "could not be measured", "value": "", "reason": reason}
    effect = view.effect_sizes.get(name)
    return item | {
        "verdict": said_of(row, view.label),
        "value": wording.signed(row.value, view.digits),
        "interval": judged_interval(view, row),
        "more": ", ".join(part for part in (effect_words(effect), wording.probability(row.q, "q")) if part),
        "reason": row.reason or _needed(view, row),
    }


def _needed(view: AssociationView, row: Row) -> str:
    """How many images would decide, with as many more prompts where these are permuted; or that none would."""
    more = ", with as many more prompts," if view.suite.tests else ""
    words = needed(row, f"neutral images{more}")
    if view.suite.tests and not words and held_back(row, *judged_ends(view, row)):
        return "prompts permuted by chance do as well: more images alone would not decide"
    return words


def tests(view: AssociationView) -> dict[str, Any] | None:
    """Table of the tests, each with all that is needed to defend it; left out where the suite has none."""
    if not view.suite.tests:
        return None
    encoders = [name for name in view.encoders if len(view.encoders) > 1]
    return {
        "rows": [_test_row(view, test.name, view.test_subject(test)) for test in view.suite.tests],
        "how": sorted({row.test for row in view.statistics.values() if row.test}),
        "encoders": encoders,
        "by_encoder": [
            {
                "subject": view.test_subject(test),
                "cells": [
                    _test_cell(
                        view, view.scores.by_concept("t2iat", "differential_association", encoder=e).get(test.name)
                    )
                    for e in encoders
                ],
            }
            for test in view.suite.tests
        ]
        if encoders
        else [],
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _test_cell(view: AssociationView, row: Row | None) -> str:
    if row is None or not row.defined:
        return wording.MISSING
    return f"{wording.signed(row.value, view.digits)} ({wording.probability(row.p) or 'no p'})"


def _test_row(view: AssociationView, name: str, subject: str) -> dict[str, str]:
    row, effect = view.statistics.get(name, Row(concept=name)), view.effect_sizes.get(name, Row(concept=name))
    return {
        "subject": subject,
        "lean": verdict_group_of(row),
        "statistic": wording.signed(row.value, view.digits),
        "images": wording.interval(row.low, row.high, view.digits),
        "prompts": wording.interval(row.stimulus_low, row.stimulus_high, view.digits),
        "effect": wording.signed(effect.value),
        "effect_interval": wording.interval(effect.stimulus_low, effect.stimulus_high),
        "size": magnitude(effect) if effect.defined else "",
        "p": _bare(row.p),
        "q": _bare(row.q),
        "splits": wording.splits(row),
        "n": f"{row.n_target:,} + {row.n_a:,} + {row.n_b:,}",
        "reason": row.reason,
    }


def _bare(value: float) -> str:
    """A p-value without its name; a dash where there is none."""
    return wording.probability(value, "").removeprefix(" = ").strip() or wording.MISSING


def distributions(view: AssociationView) -> dict[str, Any]:
    """A figure of distributions for each concept, and the table of quartiles."""
    limits = distribution_limits(view)
    figures = [
        {"heading": view.concept_label(concept), "figure": distribution_figure(view, concept, limits)}
        for concept in view.suite.concepts
    ]
    parts = ("lower_quartile", "median", "upper_quartile")
    quartiles = {part: view.stimulus_rows("association", part) for part in parts}
    rows = [
        {
            "name": name,
            "concept": view.concept_label(concept),
            "mean": wording.signed(view.associations[name].value, view.digits),
            "interval": wording.interval(view.associations[name].low, view.associations[name].high, view.digits),
            "cells": [wording.signed(quartiles[part][name].value, view.digits) for part in parts],
            "q": _bare(view.associations[name].q),
        }
        for concept in view.suite.concepts
        for name in view.ordered(concept)
    ]
    return {
        "figures": [entry for entry in figures if entry["figure"] is not None],
        "rows": rows,
        "missing": [s.name for _, s in view.suite.stimuli() if s.name not in {row["name"] for row in rows}],
        "label_a": view.label_a,
        "label_b": view.label_b,
        "margin": view.suite.margin,
        "few": any(verdict_group_of(row) == "few" for row in view.associations.values()),
    }


def amplification(view: AssociationView) -> dict[str, Any] | None:
    """Arrows for each concept, and the mean change; left out where no prompt's text and images have an association."""
    if not any(row.defined for row in view.stimulus_rows("amplification", "amplification").values()):
        return None
    limits = arrow_limits(view)
    figures = [
        {"heading": view.concept_label(concept), "figure": arrow_figure(view, concept, limits)}
        for concept in view.suite.concepts
    ]
    return {
        "figures": [entry for entry in figures if entry["figure"] is not None],
        "sentence": _amplified(view),
        "overall": _overall(view),
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _amplified(view: AssociationView) -> str:
    rows = [row for row in view.stimulus_rows("amplification", "amplification").values() if row.defined]
    change = view.stimulus_rows("amplification", "change")
    beyond = sum(row.value > 0 for row in rows)
    sure = sum(row.value > 0 and change[row.concept].q <= 0.05 for row in rows)
    return (
        f"For {beyond} of {wording.count(len(rows), 'prompt')} the images go farther than the text in the text’s own "
        f"direction; for {sure} of those the change stands out (q at most 0.05)."
    )


def _overall(view: AssociationView) -> list[dict[str, str]]:
    table = []
    for concept in (*view.suite.concepts, "all"):
        cells = {}
        for component in ("change", "amplification"):
            row = next(
                (r for r in view.scores.select("amplification", component, category=concept) if not r.concept), None
            )
            if row is None:
                continue
            interval = wording.interval(row.stimulus_low, row.stimulus_high, view.digits)
            cells[component] = f"{wording.signed(row.value, view.digits)} {interval}".strip()
            cells[f"{component}_p"] = _bare(row.p)
        if cells:
            table.append({"label": view.concept_label(concept), **cells})
    return table


def association_method(view: AssociationView) -> dict[str, Any]:
    """Cards, settings, words and limits."""
    suite = view.suite
    return measured_how(view) | {
        "words": [(view.label(group), list(suite.groups[group].words)) for group in suite.pair],
        "concepts": [
            (view.concept_label(name), concept.template, concept.attribute_template, [s.name for s in concept.stimuli])
            for name, concept in suite.concepts.items()
        ],
        "label_a": view.label_a,
        "label_b": view.label_b,
        "families": sorted({row.family for row in view.scores if row.family}),
    }
