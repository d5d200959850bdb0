"""The SVG that leaves matplotlib belongs to the page."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from clinometer.report.figures import Figure, Ink, canvas, draw_cell, finish, folded, label_rows, place
from clinometer.report.html import asset
from clinometer.studies.classification.page import CELL
from clinometer.studies.leaning import figures, plane
from clinometer.studies.leaning.figures import lean_limits
from clinometer.studies.leaning.view import LeaningView
from tests.report.synthetic import report_input

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawings() -> dict[str, Figure]:
    view = LeaningView.of(report_input())
    return {
        "forest": figures.forest_figure(view),
        "category": figures.category_figure(view, "occupation", lean_limits(view)),
        "component": figures.component_figure(view),
        "encoder": figures.encoder_figure(view),
        "internal": figures.internal_bias_figure(view),
        "plane": plane.plane_figure(view, close=False),
        "close": plane.plane_figure(view, close=True),
        "profile": plane.profile_figure(view),
        "share": figures.planted_figure(view, score="share"),
        "part": figures.planted_figure(view, score="image_part"),
    }


@pytest.mark.thorough
def test_no_colour_is_fixed(drawings):
    """A colour left in the drawing would be wrong in the dark: every one is a class of the style sheet."""
    for name, figure in drawings.items():
        for element in ET.fromstring(figure.svg).iter():
            for attribute in ("fill", "stroke"):
                value = element.attrib.get(attribute, "none")
                assert value == "none" or value.startswith("url("), (name, element.tag, attribute, value)
            assert "style" not in element.attrib


@pytest.mark.thorough
def test_every_class_has_its_rule(drawings, html: str):
    classes = {
        name
        for figure in drawings.values()
        for names in re.findall('class="([^"]*)"', figure.svg)
        for name in names.split()
    }
    rules = set(re.findall(r"\.((?:fill|stroke)-[a-z]+) \{", html))
    assert classes - {"mark"} <= rules


def test_every_drawing_says_what_it_shows(drawings):
    for figure in drawings.values():
        root = ET.fromstring(figure.svg)
        assert root.attrib["role"] == "img"
        title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"
        assert title.text == figure.title
        assert len(description.text) > 20
        assert not list(root.iter(f"{SVG}style"))
        assert not list(root.iter(f"{SVG}metadata"))


def test_every_concept_has_a_mark_with_its_name(drawings):
    concepts = {target.name for target in report_input().suite.targets}
    for name in ("forest", "internal", "plane", "share", "part"):
        tips = {e.text.split(":")[0] for e in ET.fromstring(drawings[name].svg).iter(f"{SVG}title")}
        assert concepts <= tips, name


def test_text_is_text(drawings):
    labels = [e.text for e in ET.fromstring(drawings["category"].svg).iter(f"{SVG}text")]
    assert "engineer" in labels


def test_names_that_differ_at_their_ends_stay_apart():
    names = [f"Planted towards women, strength {at}" for at in (0.6, 0.8)]
    with canvas(300, 120) as figure:
        axes = place(figure, 150, 10, 10, 10)
        label_rows(axes, [*names, "Cook", "", "a" * 90], 26, lines=2)
        labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[:4] == ["Planted towards women,\nstrength 0.6", "Planted towards women,\nstrength 0.8", "Cook", ""]
    assert max(map(len, labels[4].split("\n"))) <= 26
    assert labels[4].endswith("\N{HORIZONTAL ELLIPSIS}")


def inks(css: str) -> tuple[dict[str, str], dict[str, str]]:
    """The style sheet's colours by name, in light and in dark."""
    light, dark = css.split("prefers-color-scheme: dark", 1)
    held = [dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", part.split("*,")[0])) for part in (light, dark)]
    return held[0], held[1]


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """WCAG's contrast of two colours in [0, 1]."""
    linear = [np.where(c <= 0.03928, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for c in (one, other)]
    low, high = sorted(float(c @ (0.2126, 0.7152, 0.0722)) for c in linear)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("colour", [Ink.A, Ink.B, Ink.ACCENT])
def test_text_on_the_fullest_cell_of_a_matrix_can_be_read(colour, scheme):
    with canvas(200, 100) as figure:
        draw_cell(place(figure, 10, 10, 10, 10), 0, 0, colour, 1.0, "+1.00", "0.19 to 1.00")
        root = ET.fromstring(finish(figure, name="cell", title="", description="").svg)
    paint = inks(asset("style.css"))[scheme]
    (fill,) = (e for e in root.iter(f"{SVG}use") if "fill-opacity" in e.attrib)
    tinted, paper = (_rgb(paint[name]) for name in (_paint(fill), "paper"))
    alpha = float(fill.attrib["fill-opacity"])
    ground = alpha * tinted + (1 - alpha) * paper
    written = [e for e in root.iter(f"{SVG}text") if e.text in ("+1.00", "0.19 to 1.00")]
    assert len(written) == 2
    assert min(contrast(_rgb(paint[_paint(e)]), ground) for e in written) >= 4.5


def _rgb(text: str) -> np.ndarray:
    return np.array([int(text[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def _paint(element: ET.Element) -> str:
    (name,) = re.findall(r"fill-([a-z]+)", element.attrib["class"])
    return name


def test_an_interval_fits_its_cell_and_a_name_its_column():
    with canvas(400, 100) as figure:
        text = figure.text(0, 0, "\N{MINUS SIGN}0.97 to \N{MINUS SIGN}0.19", fontsize=10.5)
        assert text.get_window_extent(FigureCanvasAgg(figure).get_renderer()).width < 0.94 * CELL
    assert folded("construction worker", 14, 2) == "construction\nworker"


def test_a_drawing_leaves_no_trace_in_matplotlib():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figures.encoder_figure(LeaningView.of(report_input()))
    assert dict(mpl.rcParams) == before
