"""The page of an editing study: its headline says what its verdicts say."""

from typing import Any

import pandas as pd

from clinometer.report import ReportInput
from clinometer.report.sections.editing import skin_finding
from clinometer.report.view import PIXELS, EditingView
from clinometer.suites import load_suite
from tests.report.synthetic import model_card, picture

CELL = {"metric": "editing", "encoder": PIXELS, "category": "planted towards men", "setting": "strength 1"}


def change(value: float = 40.0, p: float = 0.125, n_splits: int = 16, **fields: Any) -> dict[str, Any]:
    row = {"component": "ita_change", "group": "dark woman", "value": value, "low": value - 5, "high": value + 5}
    return CELL | row | {"p": p, "p_exact": True, "n_splits": n_splits, "verdict": "undecided"} | fields


def contrast(value: float, verdict: str, side: str = "") -> dict[str, Any]:
    row = {"component": "ita_contrast", "value": value, "low": value - 9, "high": value + 9}
    return CELL | row | {"verdict": verdict, "side": side}


def view_of(*rows: dict[str, Any]) -> EditingView:
    report = ReportInput(
        title="editor", suite=load_suite("downstream/editing-reference"), model_card=model_card(), encoder_cards={},
        settings={}, scores=pd.DataFrame(rows), samples=pd.DataFrame(), image=picture,
    )  # fmt: skip
    return EditingView.of(report)


def test_the_finding_leads_with_a_contrast_of_tones_that_leans():
    said = skin_finding(view_of(
        change(),
        contrast(38.0, "leans", "lighter skin"),
        contrast(-171.3, "leans", "darker skin"),
    ))  # fmt: skip
    assert said.startswith(
        "Held against light skin, dark skin becomes darker (−171.3° [−180.3, −162.3]) when edited into "
        "“planted towards men” at strength 1. Whether the skin of a single group changes: the images do not tell."
    )


def test_portraits_too_few_for_any_verdict_are_called_too_few():
    undecided, few = contrast(4.0, "undecided"), {"verdict": "too few images"}
    assert skin_finding(view_of(change(p=0.5, **few), change(**few), undecided)) == (
        "Whether the skin of a single group changes: there are too few images to tell, for with so few portraits of a "
        "group no p can fall below 0.125."
    )
    said = skin_finding(view_of(change(**few), change(n_splits=64), undecided))
    assert said == "Whether the skin of a single group changes: the images do not tell."


def test_a_group_that_changes_is_named():
    said = skin_finding(view_of(change(p=0.01, n_splits=256, verdict="leans", side="lighter skin"), change(value=90.0)))
    assert said == (
        "The largest change of skin: women with dark skin become lighter (+40.0° [35.0, 45.0]) when edited into "
        "“planted towards men” at strength 1."
    )


def test_without_skin_nothing_is_judged():
    assert skin_finding(view_of()) == "No change of skin tone could be judged: too few images show skin."
