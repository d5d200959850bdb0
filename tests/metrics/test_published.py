"""Printed numbers of the papers; tests/golden/README.md says whence, and what is wrong with some."""

from __future__ import annotations

import csv
from math import degrees, tan
from pathlib import Path

import numpy as np
import pytest

from clinometer.metrics import UNBIASED_ANGLE, delta_alpha_curve, diffusion_bias, xmcas
from clinometer.studies.leaning.scores.derived import STD_DDOF

GOLDEN = Path(__file__).parents[1] / "golden"
PAPER_OFFSET = 0.0227


def read(name: str) -> list[dict[str, str]]:
    with (GOLDEN / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def similarities(rows: list[dict[str, str]]) -> np.ndarray:
    """c from the printed θ and MCAS: c = tan θ · (1 − |MCAS| + k)."""
    return np.array([tan(float(r["theta_rad"])) * (1 - abs(float(r["mcas"])) + PAPER_OFFSET) for r in rows])


def test_the_unbiased_angle_is_not_what_the_paper_prints():
    assert xmcas(mcas=0, similarity=1 / 3).angle == pytest.approx(UNBIASED_ANGLE)
    assert pytest.approx(0.32175, abs=5e-6) == UNBIASED_ANGLE
    assert degrees(UNBIASED_ANGLE) == pytest.approx(18.43, abs=0.005)


def test_swapped_centroid_reproduces_the_printed_distances():
    rows = read("xmcas.csv")
    assert len(rows) == 44
    result = xmcas(mcas=column(rows, "mcas"), similarity=similarities(rows), offset=PAPER_OFFSET, centroid=(0, 1 / 3))
    np.testing.assert_allclose(result.angle, column(rows, "theta_rad"), atol=1e-12)
    error = result.distance - column(rows, "euclidean_od")
    assert np.abs(error).max() <= 0.06
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.025, abs=0.001)


def test_the_definition_gives_other_distances_than_the_printed():
    rows = read("xmcas.csv")
    distance = xmcas(mcas=column(rows, "mcas"), similarity=similarities(rows), offset=PAPER_OFFSET).distance
    assert (distance.min(), distance.max()) == pytest.approx((0.05, 0.18), abs=0.002)
    assert (column(rows, "euclidean_od") >= 0.45).all()


@pytest.mark.parametrize(
    ("model", "stereotype", "delta", "alpha"),
    [
        ("dalle-2", "male", (0.00, 0.02, 0.01), (1.00, 2.05, 1.47)),
        ("dalle-2", "female", (0.01, 0.08, 0.05), (1.16, 26.06, 10.0)),
        ("dalle-2", None, (0.00, 0.08, 0.03), (1.00, 26.06, 5.74)),
        ("stable-diffusion-2", "male", (0.00, 0.02, 0.01), (1.11, 2.87, 1.70)),  # the paper prints 3.15
        ("stable-diffusion-2", "female", (0.01, 0.10, 0.05), (1.19, 26.02, 11.25)),
        ("stable-diffusion-2", None, (0.00, 0.10, 0.03), (1.11, 26.02, 6.47)),
    ],
)
def test_table_four_follows_from_table_three(model, stereotype, delta, alpha):
    """Minimum, maximum and mean; the last female and overall α are 2 % off in the paper itself."""
    rows = [r for r in read("internal_bias.csv") if r["model"] == model and stereotype in (None, r["stereotype"])]
    for name, printed in (("diffusion_bias", delta), ("bias_amplification", alpha)):
        x = column(rows, name)
        assert (x.min(), x.max()) == printed[:2]
        assert x.mean() == pytest.approx(printed[2], abs=0.006, rel=0.02)


def test_category_standard_deviations_divide_by_n():
    """Which divisor comes nearer to the printed values of DALL-E 2: n, in all four categories."""
    targets = [r for r in read("internal_bias.csv") if r["model"] == "dalle-2"]
    rows = [r for r in read("mcas_categories.csv") if r["model"] == "dalle-2" and r["category"] != "all"]
    scores = [column([t for t in targets if t["category"] == row["category"]], "mcas") for row in rows]
    error = {ddof: np.abs([x.std(ddof=ddof) for x in scores] - column(rows, "all_std")) for ddof in (0, 1)}
    assert (error[0] < error[1]).all()
    assert np.sqrt(np.mean(error[0] ** 2)) < 0.003
    assert STD_DDOF == 0


@pytest.mark.parametrize("model", ["dalle-2", "stable-diffusion-2"])
def test_amplification_rises_with_diffusion_bias(model):
    """Figures 3 and 4: low and flat below δ = 0.02, steep beyond."""
    rows = [r for r in read("internal_bias.csv") if r["model"] == model]
    curve = delta_alpha_curve(column(rows, "diffusion_bias"), column(rows, "bias_amplification"))
    assert curve.reason == ""
    low, middle = (float(np.interp(x, curve.x, curve.y)) for x in (0.005, 0.05))
    assert low < 3
    assert middle > 3 * low


def test_diffusion_bias_is_the_formula_of_equation_four():
    np.testing.assert_allclose(diffusion_bias([0.3, -0.1], [-0.1, 0.3]), [0.2, 0.2])
