"""The section on readers, made of rows as a run has them."""

from __future__ import annotations

import numpy as np
import pytest

from clinometer.metrics.readers import (
    ReadImages,
    agreement_rows,
    confusion_rows,
    peer_rows,
    planned_rows,
)
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, reading_rows
from clinometer.report.readings import PEER_NAMES, reader_lines, readers
from clinometer.report.view import View, scores_table
from clinometer.suites import load_suite

GROUPS = ("man", "woman")
GOOD, POOR = np.array([[60, 2, 2], [3, 61, 0]]), np.array([[40, 20, 4], [15, 40, 9]])


def answered(reader, known, *counts):
    concepts = tuple(
        ConceptAnswers(name, "jobs", np.array(own)) for name, own in zip(("doctor", "nurse"), counts, strict=True)
    )
    return AnsweredQuestion(reader, "gender", GROUPS, concepts, known, "labels")


@pytest.fixture
def view():
    """Two readers that differ on nurses, and agree on doctors."""
    each = [answered("good", GOOD, (38, 2, 0), (4, 36, 0)), answered("poor", POOR, (28, 10, 2), (30, 7, 3))]
    rows = reading_rows(each)
    said = {name: np.random.default_rng(k).integers(0, 3, 80).astype(float) for k, name in enumerate(("good", "poor"))}
    concepts = (("doctor", "jobs", np.arange(40)), ("nurse", "jobs", np.arange(40, 80)))
    rows += agreement_rows(ReadImages("gender", GROUPS, concepts, said, np.zeros((0, 80))))
    rows += [
        row for own in each for made in (confusion_rows(own), peer_rows(own), planned_rows(own, rows)) for row in made
    ]
    return View.of_scores(load_suite("reference"), scores_table(rows))


def test_the_verdict_follows_the_better_reader_and_what_another_changes_is_marked(view):
    (question,) = readers(view)["questions"]
    assert question["decider"].encoder == "good"
    assert question["why"].startswith("it tells the groups apart best")
    assert question["changing"] == ["nurse"]
    assert [(c["row"].concept, c["changes"]) for c in question["concepts"]] == [("doctor", False), ("nurse", True)]
    assert question["others"] == ["poor"]
    assert [row.encoder for row in question["agreement"]] == ["good"]
    assert len(question["peer_rows"][0][1]) == len(PEER_NAMES)
    assert all(row is not None for _, rows in question["peer_rows"] for row in rows)
    assert all(c["more"].value >= 10 for c in question["concepts"])


def test_errors_are_drawn_with_every_count(view):
    for each, table in zip(readers(view)["questions"][0]["readers"], (GOOD, POOR), strict=True):
        for count in table.ravel():
            assert f"{count}" in each["figure"].svg
    assert "60 of 64" in readers(view)["questions"][0]["readers"][0]["figure"].svg


def test_a_terminal_says_whose_verdicts_stand_and_why(view):
    good, poor = reader_lines(view)
    assert good == (
        "Reader good on gender: 1 to men · 1 to women; its verdicts count: it tells the groups apart best of the "
        "readers, by the smallest singular value of its errors; another reader differs on nurse"
    )
    assert poor.startswith("Reader poor on gender: ")
    assert "stand" not in poor


def test_of_three_groups_the_parity_is_named():
    known = np.array([[60, 2, 1, 1], [2, 60, 1, 1], [1, 1, 60, 2]])
    concepts = (ConceptAnswers("doctor", "jobs", np.array([20, 20, 0, 0])),)
    each = AnsweredQuestion("good", "who", ("man", "woman", "person"), concepts, known, "labels")
    rows = [*reading_rows([each]), *confusion_rows(each)]
    (line,) = reader_lines(View.of_scores(load_suite("reference"), scores_table(rows)))
    assert line.startswith("Reader good on who (parity is 1/3 each): ")
    person = next(row for row in rows if (row.component, row.group) == ("corrected_share", "person"))
    assert (person.side, person.null) == ("others", 1 / 3)  # shown evenly, the other two leave the third out


def test_a_run_that_nobody_read_has_no_section():
    assert readers(View.of_scores(load_suite("reference"), scores_table([]))) is None


def test_readers_are_no_encoders(view):
    assert view.encoders == []


def test_concepts_of_which_all_pictures_are_read_as_one_value_are_named_beside_what_chance_gives():
    rows = reading_rows([answered("good", GOOD, (20, 0, 0), (9, 11, 0))])
    by = {(row.component, row.concept): row for row in rows}
    assert (by["one_value", "doctor"].value, by["one_value", "doctor"].group) == (1, "man")
    assert (by["one_value", "nurse"].value, by["one_value", "nurse"].n_a) == (0, 11)
    over = by["concentration", ""]
    assert (over.value, over.n_target, over.n_a) == (0.5, 2, 1)
    assert over.p < 2e-3
    (question,) = readers(View.of_scores(load_suite("reference"), scores_table(rows)))["questions"]
    assert question["concentrated"]["ones"] == ["doctor (20 of 20 as men)"]
    (unread,) = reading_rows([answered("good", GOOD, (5, 0, 30), (4, 2, 0))])[-1:]
    assert np.isnan(unread.value)
    assert unread.reason == "no concept has 10 images that are read"
