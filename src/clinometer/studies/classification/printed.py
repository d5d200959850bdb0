"""Which of a classification run's numbers the paper on downstream applications prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from clinometer.report import wording
from clinometer.studies.printed import PrintedCell, PrintedCells, PrintedTable, mean_number
from clinometer.studies.study import in_shape
from clinometer.suites import ClassificationSuite


def choice_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield how often portraits of men and of women are given a male-dominated profession, at the most noise samples.

    Both groups of a gender have as many portraits, so the share of a gender is the mean of the shares of its groups.
    """
    suite = in_shape(table.suite, ClassificationSuite)
    most, gender = wording.count(max(suite.noise_samples), "noise sample"), suite.contrasts["gender"]
    for row in table.rows:
        side = gender.x if row["portraits"] == "Males" else gender.y
        found = [
            table.find("classification", "association", encoder="denoiser", group=group, setting=most)
            for group in side.groups
        ]
        number = mean_number(found, side.groups)
        yield table.cell(row, "male_dominated_share", "male-dominated chosen", number, concept=row["portraits"])


PRINTED: Final[Mapping[str, PrintedCells]] = {"classification": choice_cells}
