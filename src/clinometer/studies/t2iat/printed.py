"""Which of a T2IAT run's numbers the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import Final

from clinometer.studies.printed import PrintedCell, PrintedCells, PrintedTable, RunNumber
from clinometer.studies.study import in_shape
from clinometer.suites import T2iatSuite

TESTS: Final = {
    "flowers-insects": "Flower",
    "instruments-weapons": "Musical Instrument",
    "european-african-american": "European American",
    "light-dark-skin": "Light skin",
    "straight-gay": "Straight",
    "judaism-christianity": "Judaism",
    "science-arts": "Science",
    "career-family": "Careers",
}
"""The tests of the T2IAT paper's table 1 by the first of their two concepts."""

SETS: Final = {
    "Flowers": "flowers",
    "Insects": "insects",
    "Musical Instrument": "instruments",
    "Weapon": "weapons",
    "Science": "science",
    "Arts": "arts",
    "Careers": "career",
    "Family": "family",
}
"""The sets of stimuli of the T2IAT paper's table 2, by the names that its suites have for them."""

PEOPLE: Final = "fraction by people"
MACHINE: Final = "association by the machine"
"""Columns of that table: what people said, and the machine's number next to it here."""


def test_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield S, p and d of the run's tests."""
    tests = {test.name for test in in_shape(table.suite, T2iatSuite).tests}
    for name in (suite.rpartition("/")[2] for suite in table.answered):
        if table.own_name(name) not in tests:
            continue
        (row,) = [row for row in table.rows if row["concept_x"] == TESTS[name]]
        association = table.find("t2iat", "differential_association", concept=name)
        yield table.cell(row, "association_score", "S", association, concept=name)
        p_value = RunNumber(association.p, encoder=association.encoder)
        yield table.cell(row, "p_value", "p", p_value, concept=name)
        effect = table.find("t2iat", "effect_size", concept=name)
        yield table.cell(row, "effect_size_d", "d", effect, concept=name)


def people_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield the fraction that people tied to the first attribute, and what the machine says of the set of stimuli."""
    suite = in_shape(table.suite, T2iatSuite)
    for row in table.rows:
        name = SETS[row["concept"]]
        if table.own_name(name) not in suite.concepts:
            continue
        people = table.find("human", "fraction", encoder="", concept=name, group=suite.axis.a)
        if not isfinite(people.value):
            people = replace(people, notes=("nobody has rated these pictures",))
        yield table.cell(row, "fraction_choosing_first", PEOPLE, people, concept=name)
        machine = table.find("association", "mean", category=name)
        yield table.cell(row, "", MACHINE, replace(machine, notes=()), concept=name)


def occupation_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield the associations of an occupation's text and images."""
    texts = in_shape(table.suite, T2iatSuite).neutral_texts()
    for row in table.rows:
        name = row["occupation"]
        if table.own_name(name) in texts:
            for column, component in (("text", "text"), ("images", "image")):
                number = table.find("amplification", component, concept=name)
                yield table.cell(row, column, column, number, concept=name)


PRINTED: Final[Mapping[str, PrintedCells]] = {
    "t2iat": test_cells,
    "t2iat_human": people_cells,
    "t2iat_occupations": occupation_cells,
}
