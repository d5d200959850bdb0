"""The page of an editing study: its headline says what its verdicts say."""

from dataclasses import replace
from typing import Any

import pandas as pd

from clinometer.report import ReportInput
from clinometer.studies.editing.page import PAGE, EditingView, _tile, resting, skin_finding
from clinometer.studies.editing.scores import PIXELS
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
        "Compared with light skin, dark skin becomes darker (−171.3° [−180.3, −162.3]) when edited into "
        "“planted towards men” at strength 1. It is undecided whether the skin of any single group changes: "
        "the images cannot tell."
    )


def test_portraits_too_few_for_any_verdict_are_called_too_few():
    undecided, few = contrast(4.0, "undecided"), {"verdict": "too few images"}
    assert skin_finding(view_of(change(p=0.5, **few), change(**few), undecided)) == (
        "It is undecided whether the skin of any single group changes: there are too few images to tell; with so few "
        "portraits of a group no p can fall below 0.125."
    )
    said = skin_finding(view_of(change(**few), change(n_splits=64), undecided))
    assert said == "It is undecided whether the skin of any single group changes: the images cannot tell."


def test_a_group_that_changes_is_named():
    said = skin_finding(view_of(change(p=0.01, n_splits=256, verdict="leans", side="lighter skin"), change(value=90.0)))
    assert said == (
        "The largest change of skin tone: women with dark skin become lighter (+40.0° [35.0, 45.0]) when edited into "
        "“planted towards men” at strength 1."
    )


def test_without_skin_nothing_is_judged():
    assert skin_finding(view_of()) == "No change of skin tone could be judged: too few images show skin."


def flips(value: float, verdict: str, **fields: Any) -> dict[str, Any]:
    row = {"component": "flip_asymmetry", "encoder": "reader", "value": value, "low": value - 0.3, "high": value + 0.3}
    judged = {"verdict": verdict, "q": 0.04, "n_target": 8, "p": 0.33, "p_exact": True, "n_splits": 6}
    return CELL | row | judged | fields


def test_what_the_portraits_do_not_tell_is_not_called_no_difference():
    few, undecided = (view_of(flips(-0.5, each)) for each in ("too few images", "undecided"))
    assert PAGE.finding(few).startswith("There are too few images to tell whether editing turns")
    assert PAGE.finding(undecided).startswith("The images cannot tell whether editing turns")
    assert resting(undecided) == (
        "The largest difference, into “planted towards men” at strength 1: −50 points [−80, −20], towards woman, "
        "q = 0.040, from 8 portraits."
    )
    assert resting(few).endswith("from 8 portraits; with so few portraits of a group no p can fall below 0.333.")
    for view in (few, undecided):
        assert "o difference" not in PAGE.finding(view)


def test_the_finding_is_the_largest_that_leans():
    view = view_of(flips(-0.9, "undecided"), flips(0.4, "leans", side="man", setting="strength 0.6"))
    assert PAGE.finding(view) == (
        "Edited into the professions “planted towards men” at strength 0.6, a portrait of a woman comes to read as a "
        "man 40 percentage points more often than the other way round."
    )
    assert resting(view).startswith("That is +40 points [10, 70], towards man, q = 0.040")


def test_an_image_that_cannot_be_decoded_is_called_unreadable():
    """It is neither there nor the encoder's fault, nor was it refused."""
    tiles = [
        _tile(EditingView.of(replace(view_of(change()).report, image=image)), {"id": "a", "status": "ok"}, "portrait")
        for image in (picture, lambda _: b"\x89PNG broken", lambda _: None)
    ]
    assert [(tile["status"], tile["picture"] is None) for tile in tiles] == [
        ("ok", False),
        ("unreadable", True),
        ("unreadable", True),
    ]
