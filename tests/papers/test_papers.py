"""What is written of each paper: its runs can be asked, all of its print is laid out, a rehearsal is in known words."""

from __future__ import annotations

import re
from itertools import pairwise

import pandas as pd
import pytest

from clinometer.exports.latex import latex_columns
from clinometer.models import reference
from clinometer.papers import load_paper, paper_names
from clinometer.papers.paper import ComponentTable, Drawing, Faces, PrintedTable, RowsDrawing, rehearsed_words
from clinometer.papers.planning import rehearsal_of
from clinometer.papers.printed import tau_of
from clinometer.papers.tables import laid_out
from clinometer.published import papers
from clinometer.studies import study_of
from clinometer.suites import LeaningSuite, load_suite

PAPERS = [load_paper(name) for name in paper_names()]
TABLES = [(paper, part) for paper in PAPERS for part in paper.contents if isinstance(part, PrintedTable)]


def named(paper):
    return paper.name


@pytest.mark.parametrize("paper", PAPERS, ids=named)
def test_a_papers_runs_can_be_asked(paper):
    assert paper.name in papers()
    for run in paper.runs.values():
        suite = load_suite(run.suite)
        assert suite.protocol is not None
        quick = suite.with_options(image_counts=run.quick)
        assert quick.image_count < suite.image_count
        rehearsal, renamed = rehearsal_of(run)
        assert rehearsal.protocol == suite.protocol
        assert rehearsal.with_options(image_counts=run.quick).image_count <= 1000
        assert isinstance(renamed, dict)


@pytest.mark.parametrize("paper", PAPERS, ids=named)
def test_what_a_paper_prints_has_places_of_its_own(paper):
    places = [part.place for part in paper.contents]
    assert len(places) == len(set(places))
    for part in paper.contents:
        if isinstance(part, Drawing | ComponentTable | RowsDrawing | Faces):
            assert part.run in paper.runs
        if isinstance(part, Drawing):
            sections = study_of(load_suite(paper.runs[part.run].suite)).page(load_suite(paper.runs[part.run].suite))
            assert part.section in {section.id for section in sections.sections}


@pytest.mark.parametrize("paper", PAPERS, ids=named)
def test_every_table_that_is_kept_as_data_stands_on_the_page(paper):
    assert {part.printed for part in paper.contents if isinstance(part, PrintedTable)} == set(paper.published.tables)


def test_figures_and_tables_are_in_the_order_of_their_numbers():
    for paper in PAPERS:
        for kind in ("Table", "Figure"):
            numbers = [
                int(number) for part in paper.contents for number in re.findall(rf"^{kind}s? (\d+)", part.heading)
            ]
            assert all(first <= second for first, second in pairwise(numbers))


KEYS = {
    "model": ("model", "dataset"),
    "category": ("category", "edit_professions"),
    "concept": ("target", "concept_x", "occupation", "concept", "portraits"),
    "group": ("stereotype", "group"),
    "setting": ("strength",),
}
"""By the keys of a cell, the columns of the files that name them."""
LABELS = {*(name for names in KEYS.values() for name in names), "concept_y", "attribute_a", "attribute_b",
          "attribute_pair", "noise_samples"}  # fmt: skip


def cells_of(paper, part):
    """Cells as a run would have them, each with the number of its place, so that none can pass for another."""
    made = []
    for row in paper.published.rows(part.printed):
        place = {key: next((row[name] for name in names if name in row), "") for key, names in KEYS.items()}
        for column in row.keys() - LABELS:
            made.append(
                {"table": paper.published.tables[part.printed], "column": column, **place, "printed": row[column],
                 "paper": 0.5, "encoder": "mean", "run": float(len(made)), "low": -1.0, "high": 1.0,
                 "difference": float(len(made)), "paper_inside": True, "same_model": True,
                 "note": "a slip; another" if not made else ""}
            )  # fmt: skip
    return pd.DataFrame(made)


@pytest.mark.parametrize(
    ("paper", "part"), TABLES, ids=lambda each: getattr(each, "name", getattr(each, "heading", ""))
)
def test_every_printed_cell_is_laid_out_once(paper, part):
    cells = cells_of(paper, part)
    laid = laid_out(part, {"one": cells, "two": cells}, lambda key, value: value, {})
    shown = [cell for _, rows in laid.blocks for row in rows for cell in row.cells if cell.printed]
    assert sorted(cell.printed for cell in shown) == sorted(
        value.replace("-", "\N{MINUS SIGN}") for value in cells.printed
    )
    assert all([own.model for own in cell.measured] == ["one", "two"] for cell in shown)
    assert all(len(row.cells) == len(laid.columns) for _, rows in laid.blocks for row in rows)
    assert [sum(width for _, width in line) for line in laid.heads] == [len(laid.columns)] * len(laid.heads)
    assert laid.notes == (("a", "a slip"), ("b", "another"))
    assert [cell.notes for cell in shown if cell.notes] == ["a, b"]
    columns, blocks = laid.for_latex()
    assert len(blocks) == sum(len(rows) for _, rows in laid.blocks)
    printed = [cell for column in columns if column.heads[-1] == "print" for cell in column.cells if cell]
    assert sorted(printed) == sorted(cell.printed for cell in shown)
    text = latex_columns(columns, caption="caption", label="tab:x", blocks=blocks)
    for body in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.DOTALL):
        rows = [line for line in body.splitlines() if line.startswith("{}") and "multicolumn" not in line]
        (kinds,) = {line.count("&") for line in rows}
        assert kinds


def test_nothing_is_laid_out_where_no_run_has_a_cell():
    paper, part = TABLES[0]
    assert laid_out(part, {}, lambda key, value: value, {}) is None
    assert laid_out(part, {"one": cells_of(paper, part)[:0]}, lambda key, value: value, {}) is None


# --- rehearsals


def test_a_rehearsal_speaks_words_that_the_model_was_taught():
    known = set(reference.domain()["words"].split())
    for paper in PAPERS:
        for run in paper.runs.values():
            suite, _ = rehearsal_of(run)
            for text in suite.texts():
                assert set(re.findall(r"[a-z]+(?:-[a-z]+)*", text.lower())) <= known, text
            for spec in suite.prompt_specs():
                assert set(re.findall(r"[a-z]+(?:-[a-z]+)*", spec.prompt.lower())) <= known, spec.prompt


def test_a_rehearsal_has_the_design_of_its_suite():
    for paper in PAPERS:
        for run in paper.runs.values():
            original = load_suite(run.suite)
            if run.rehearsal != "words":
                continue
            assert isinstance(original, LeaningSuite)
            suite, renamed = rehearsal_of(run)
            assert suite.images.model_dump() == original.protocol.images
            assert suite.text_targets == original.protocol.text_targets
            assert suite.name == f"{original.name}-rehearsal"
            assert {name: len(each.targets) for name, each in suite.categories.items()} == {
                name: len(each.targets) for name, each in original.categories.items()
            }
            assert [renamed[target.name] for target in original.targets] == [target.name for target in suite.targets]
            assert [target.stereotype for target in suite.targets] == [t.stereotype for t in original.targets]
            assert {name: group.words for name, group in suite.groups.items()} == {
                name: group.words for name, group in original.groups.items()
            }


def test_each_concept_is_stood_for_by_one_of_its_own():
    words, pairs = rehearsed_words()
    for names in (words, pairs):
        assert len(set(names.values())) == len(names)
        assert set(names.values()) <= set(reference.vocabulary()["concepts"])


def test_the_eight_tests_are_rehearsed_and_two_of_them_were_planted():
    planted = reference.planted()
    vocabulary = {each["keyword"]: name for name, each in reference.vocabulary()["concepts"].items()}
    asked, found = load_paper("t2iat"), {}
    for name, run in asked.runs.items():
        suite, renamed = rehearsal_of(run)
        if name == "occupations":
            stimuli = {stimulus.name for _, stimulus in suite.stimuli()}
            assert {renamed[stimulus.name] for stimulus in load_suite(run.suite).concepts["paper"].stimuli} == stimuli
            continue
        (test,) = suite.tests
        assert renamed[name] == test.name
        assert set(suite.concepts) == {test.x, test.y}
        sides = []
        for concept in (test.x, test.y):
            stimuli = [each.name for each in suite.concepts[concept].stimuli]
            names = [vocabulary.get(each) or vocabulary.get(f"person {each}") for each in stimuli]
            names = [each or vocabulary[f"person with {own}"] for each, own in zip(names, stimuli, strict=True)]
            sides.append(sum(planted[each]["man"] for each in names) / len(names))
        found[name] = sides[0] - sides[1]
    assert len(found) == 8
    assert {name for name, difference in found.items() if difference > 0.3} == {"science-arts", "career-family"}
    assert all(found[name] == 0 for name in found.keys() - {"science-arts", "career-family"})


@pytest.mark.parametrize(("people", "value"), [([0.9, 0.5, 0.1, 0.3], 1.0), ([0.1, 0.3, 0.9, 0.5], -1.0)])
def test_orders_of_people_and_machine_are_correlated(people, value):
    index = ["a", "b", "c", "d"]
    machine = pd.Series([0.4, 0.3, -0.2, 0.1], index)
    found = tau_of(pd.Series(people, index), machine)
    assert found.n == 4
    assert found.value == value
    few = tau_of(pd.Series(people[:2], index[:2]), machine)
    assert few.value != few.value  # NaN
    assert few.reason == "fewer than three concepts have both"


def test_where_it_can_be_the_planted_side_is_the_papers():
    """Of the 28 concepts, none that the paper ties to one side stands for one that was planted on the other."""
    words, planted = rehearsed_words()[0], reference.planted()
    for target in load_suite("mcas").targets:
        share = planted[words[target.name]]["man"]
        assert share >= 0.5 if target.stereotype == "man" else share <= 0.5, target.name
