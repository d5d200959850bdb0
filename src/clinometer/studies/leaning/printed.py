"""Which of a leaning run's numbers the papers on MCAS, internal bias and xMCAS print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Final

from clinometer.metrics.mcas import xmcas
from clinometer.studies.printed import PrintedCell, PrintedCells, PrintedTable, RunNumber
from clinometer.studies.study import in_shape
from clinometer.suites import LeaningSuite

SWAPPED_CENTROID: Final = (0.0, 1 / 3)
"""The centroid that the printed distances of the xMCAS paper fit: its axes are swapped."""


def category_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield average and standard deviation of MCAS by category: of terms with a bias to either side, and of all."""
    axis = in_shape(table.suite, LeaningSuite).compared
    sides = {
        "male_biased": ("category_by_sign", axis.a, "terms with male bias"),
        "female_biased": ("category_by_sign", axis.b, "terms with female bias"),
        "all": ("category", "", "all terms"),
    }
    for side, (metric, group, label) in sides.items():
        for component, word in (("mean", "average"), ("std", "standard deviation")):
            for row in table.rows:
                number = table.find(metric, component, category=row["category"], group=group)
                column = f"{word}, {label}"
                yield table.cell(row, f"{side}_{component}", column, number, category=row["category"])


def internal_bias_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield MCAS, δ and α of every target."""
    yield from _of_targets(table, "mcas", "mcas", "mcas", "MCAS")
    yield from _of_targets(table, "diffusion_bias", "internal_bias", "diffusion_bias", "δ")
    yield from _of_targets(table, "bias_amplification", "internal_bias", "bias_amplification", "α")


def internal_bias_summary_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield the summaries of δ and α by stereotype."""
    axis = in_shape(table.suite, LeaningSuite).compared
    groups = {"male": axis.a, "female": axis.b, "all": ""}
    for symbol, quantity in (("δ", "diffusion_bias"), ("α", "bias_amplification")):
        for statistic, word in (("min", "min"), ("max", "max"), ("mean", "mean"), ("standard_error", "±")):
            for row in table.rows:
                component, group = f"{quantity}_{statistic}", groups[row["stereotype"]]
                number = table.find("internal_bias_summary", component, category="all", group=group)
                names = {"category": "all", "group": row["stereotype"]}
                yield table.cell(row, component, f"{word} {symbol}", number, **names)


def xmcas_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield MCAS, angle and distance of every target, and the distance from the centroid that the print fits."""
    yield from _of_targets(table, "mcas", "mcas", "mcas", "MCAS")
    yield from _of_targets(table, "theta_rad", "xmcas", "angle", "θ")
    yield from _of_targets(table, "euclidean_od", "xmcas", "distance", "o-d")
    offset = table.find("xmcas", "offset").value
    for row in table.rows:
        number = _fit_swapped(table, row["target"], offset)
        names = {"concept": row["target"], "category": row["category"]}
        yield table.cell(row, "euclidean_od", "o-d, axes swapped", number, **names)


def _of_targets(
    table: PrintedTable, printed_column: str, metric: str, component: str, label: str
) -> Iterator[PrintedCell]:
    """Yield a column of a table that has a row a target."""
    for row in table.rows:
        number = table.find(metric, component, concept=row["target"])
        yield table.cell(row, printed_column, label, number, concept=row["target"], category=row["category"])


def _fit_swapped(table: PrintedTable, target: str, offset: float) -> RunNumber:
    """Return a target's distance from the centroid that the printed column fits."""
    mcas = table.find("mcas", "mcas", concept=target)
    similarity = table.find("xmcas", "similarity", concept=target).value
    if not (isfinite(mcas.value) and isfinite(similarity) and isfinite(offset)):
        return RunNumber(encoder=mcas.encoder, notes=("the target's place or the offset is undefined",))
    place = xmcas(mcas=mcas.value, similarity=similarity, offset=offset, centroid=SWAPPED_CENTROID)
    notes = ("no interval: this distance serves the comparison only",)
    return RunNumber(float(place.distance), encoder=mcas.encoder, notes=notes)


PRINTED: Final[Mapping[str, PrintedCells]] = {
    "mcas_categories": category_cells,
    "internal_bias": internal_bias_cells,
    "internal_bias_summary": internal_bias_summary_cells,
    "xmcas": xmcas_cells,
}
