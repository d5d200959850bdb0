"""Which of an editing run's numbers the paper on downstream applications prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from clinometer.studies.printed import PrintedCell, PrintedCells, PrintedTable, mean_number
from clinometer.studies.study import in_shape
from clinometer.suites import EditingSuite, load_suite

CODES: Final = {
    "White Female": "WF", "White Male": "WM", "Black Female": "BF", "Black Male": "BM",
    "Caucasian Woman": "WF", "Caucasian Man": "WM", "African-American Woman": "BF", "African-American Man": "BM",
}  # fmt: skip
"""The groups of the downstream paper's table, by the codes that a suite gives its groups."""


def edit_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield flips of gender and changes of skin by group, class of professions and strength."""
    group_of = _groups_by_code(table)
    columns = {
        "gender_flip_rate": ("flip_rate_single_wording", "gender flips", _reader(table)),
        "ita_change_degrees": ("average_face_ita_change", "change of ITA, degrees", "pixels"),
    }
    for name, (component, label, encoder) in columns.items():
        for row in table.rows:
            group, setting = group_of[CODES[row["group"]]], f"strength {float(row['strength']):g}"
            names = {"category": row["edit_professions"], "group": group, "setting": setting}
            yield table.cell(row, name, label, table.find("editing", component, encoder=encoder, **names), **names)


def cells_in_text(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield the flips that the text prints, of women and of men over both skin tones, at the strongest edit."""
    group_of, reader = _groups_by_code(table), _reader(table)
    for row in table.rows:
        groups = [group_of[code] for code in (("WF", "BF") if row["portraits"] == "Women" else ("WM", "BM"))]
        names = {"category": row["edit_professions"], "setting": f"strength {float(row['strength']):g}"}
        rates = [
            table.find("editing", "flip_rate_single_wording", encoder=reader, group=group, **names) for group in groups
        ]
        number = mean_number(rates, groups)
        yield table.cell(row, "gender_flip_rate", "gender flips", number, concept=row["portraits"], **names)


def _groups_by_code(table: PrintedTable) -> dict[str, str]:
    """Return the groups of the paper's own suite by the codes of the Chicago Face Database."""
    suite = in_shape(load_suite(table.publication.suites[0]), EditingSuite)
    return {code: name for name, group in suite.groups.items() for code in group.codes}


def _reader(table: PrintedTable) -> str:
    """Return the encoder that reads genders: there is no average over encoders."""
    readers = table.scores.encoder[table.scores.component == "flip_rate_single_wording"]
    return str(readers.iloc[0]) if len(readers) else ""


PRINTED: Final[Mapping[str, PrintedCells]] = {"editing": edit_cells, "editing_text": cells_in_text}
