"""Figures as SVG text: drawn by matplotlib, coloured by the page's style sheet, told to a screen reader.

matplotlib draws with sentinel colours (``Ink.A``, ``Ink.MUTED``, …). Afterwards each sentinel becomes a class
which the style sheet colours from its variables, so one drawing is right in light, in dark and on paper.
Inline styles become presentation attributes, so the page needs no ``unsafe-inline``; ids get a prefix, so
many drawings live in one page. See decision 47.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import numpy as np
from markupsafe import Markup

from clinometer.report.fonts import font_faces

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SVG: Final = "{http://www.w3.org/2000/svg}"
XLINK: Final = "{http://www.w3.org/1999/xlink}"


class Ink:
    """Sentinel colours: what a mark means, not what it looks like."""

    TEXT = "#010101"
    MUTED = "#010102"
    GRID = "#010103"
    PAPER = "#010104"
    A = "#010105"
    B = "#010106"
    THIRD = "#010107"
    BALANCED = "#010108"
    UNDECIDED = "#010109"
    ACCENT = "#01010a"
    SHADE = "#01010b"


_CLASSES: Final = {
    value: name.lower().replace("_", "-") for name, value in vars(Ink).items() if not name.startswith("_")
}
_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "clinometer",
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 12,
    "text.color": Ink.TEXT,
    "axes.edgecolor": Ink.GRID,
    "axes.labelcolor": Ink.MUTED,
    "axes.titlecolor": Ink.TEXT,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.labelsize": 12,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 1,
    "axes.axisbelow": True,
    "xtick.color": Ink.GRID,
    "ytick.color": Ink.GRID,
    "xtick.labelcolor": Ink.MUTED,
    "ytick.labelcolor": Ink.TEXT,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 12,
    "grid.color": Ink.GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 11.5,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "lines.solid_capstyle": "round",
}
PIXELS_PER_INCH: Final = 72
MARGIN: Final = 12
"""Pixels around a drawing in a file of its own: in a page its labels may reach over its edges."""


@dataclass(frozen=True)
class Figure:
    """A finished drawing: SVG for the page, its natural size in CSS pixels, and what it says in words.

    ``name`` is unique in a page; ``drawing`` is matplotlib's, for what is no page.
    """

    svg: Markup
    width: int
    height: int
    title: str
    description: str
    name: str
    drawing: Canvas = field(repr=False, compare=False)


@contextmanager
def canvas(width: float, height: float) -> Iterator[Canvas]:
    """Open an empty figure of ``width`` × ``height`` CSS pixels, in the page's style."""
    from matplotlib import rc_context  # most commands, and every worker, draw no figure
    from matplotlib.figure import Figure as Canvas

    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield Canvas(figsize=(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH), dpi=PIXELS_PER_INCH)


def finish(figure: Canvas, *, name: str, title: str, description: str, tips: Mapping[str, str] | None = None) -> Figure:
    """Turn a matplotlib figure into the page's SVG. Call it inside ``canvas``.

    Parameters
    ----------
    figure : the drawing.
    name : prefix of every id, unique in the page.
    title, description : what the drawing is, and what it shows, for those who do not see it.
    tips : text shown on hovering over a mark, by the ``gid`` it was drawn with.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    root = ET.fromstring(buffer.getvalue())
    _strip(root)
    for element in list(root.iter()):
        said = (tips or {}).get(element.attrib.get("id", ""))
        if said is not None:
            tip = ET.Element(f"{SVG}title")
            tip.text = said
            element.insert(0, tip)
            element.set("class", "mark")
        _restyle(element)
        for attribute, value in list(element.attrib.items()):
            if attribute == "id":
                element.set(attribute, f"{name}-{value}")
            elif attribute in ("href", f"{XLINK}href") and value.startswith("#"):
                element.attrib.pop(attribute)
                element.set("href", f"#{name}-{value[1:]}")
            elif "url(#" in value:
                element.set(attribute, value.replace("url(#", f"url(#{name}-"))
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    for tag, said in (("desc", description), ("title", title)):
        element = ET.Element(f"{SVG}{tag}", {"id": f"{name}-{tag}"})
        element.text = said
        root.insert(0, element)
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    text = ET.tostring(root, encoding="unicode")
    width, height = (round(size * PIXELS_PER_INCH) for size in figure.get_size_inches())
    return Figure(Markup(text), width, height, title, description, name, figure)


def figures_in(value: Any) -> Iterator[Figure]:
    """Yield every figure in what a section of a page is made of, however deep in mappings and lists it lies."""
    if isinstance(value, Figure):
        yield value
    elif isinstance(value, Mapping):
        yield from figures_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from figures_in(part)


def renamed(figure: Figure, name: str) -> Figure:
    """Rename a finished drawing, so that a page may hold another of the same name."""
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ET.fromstring(figure.svg)
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute in ("id", "aria-labelledby"):
                new = " ".join(f"{name}{part.removeprefix(figure.name)}" for part in value.split(" "))
            elif attribute == "href" and value.startswith("#"):
                new = f"#{name}{value[1:].removeprefix(figure.name)}"
            else:
                new = value.replace(f"url(#{figure.name}-", f"url(#{name}-")
            element.set(attribute, new)
    return replace(figure, svg=Markup(ET.tostring(root, encoding="unicode")), name=name)


def svg_file(figure: Figure, colours: Mapping[str, str]) -> bytes:
    """Write a page's drawing as an SVG file of its own, which needs no style sheet beside it.

    ``colours`` : of each ink by its name in small letters, such as ``"text"``, as ``#rrggbb``.
    """
    root = ET.fromstring(figure.svg)
    width, height = figure.width + 2 * MARGIN, figure.height + 2 * MARGIN
    size = {"width": str(width), "height": str(height), "viewBox": f"{-MARGIN} {-MARGIN} {width} {height}"}
    root.attrib.update(size)
    style = ET.Element(f"{SVG}style")
    rules = [f".{prop}-{ink}{{{prop}:{colour}}}" for ink, colour in colours.items() for prop in ("fill", "stroke")]
    font = "text{font-family:'Clinometer Sans',sans-serif}"
    style.text = "".join((font_faces("sans"), font, *rules))
    root.insert(0, style)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode").encode()


def pdf_file(figure: Figure, colours: Mapping[str, str]) -> bytes:
    """Write a page's drawing as a PDF, in the ``colours`` of :func:`svg_file`; the same bytes each time."""
    from matplotlib import rc_context

    drawing, buffer = painted(figure, colours), io.BytesIO()
    with rc_context(_STYLE | {"pdf.fonttype": 42}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        metadata = {"CreationDate": None, "Title": figure.title}
        drawing.savefig(
            buffer, format="pdf", bbox_inches="tight", pad_inches=MARGIN / PIXELS_PER_INCH, metadata=metadata
        )
    return buffer.getvalue()


def painted(figure: Figure, colours: Mapping[str, str]) -> Canvas:
    """Apply the ``colours`` of :func:`svg_file` to a page's drawing and return it, as matplotlib's own object."""
    from matplotlib import colors
    from matplotlib.text import Text

    inks = {ink: colors.to_rgb(colours[name]) for ink, name in _CLASSES.items() if name in colours}
    artists = figure.drawing.findobj()
    texts = [artist for artist in artists if isinstance(artist, Text)]
    patches = [patch for text in texts for patch in (text.get_bbox_patch(), getattr(text, "arrow_patch", None))]
    for artist in [*artists, *filter(None, patches)]:
        for part in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            value = getattr(artist, f"get_{part}", lambda: "none")()
            rows = colors.to_rgba_array(value)
            new = [(*inks.get(colors.to_hex(row), row[:3]), row[3]) for row in rows]
            if len(rows) and not np.array_equal(rows, new):
                getattr(artist, f"set_{part}")(new if np.ndim(value) == 2 else new[0])
    return figure.drawing


def _strip(root: ET.Element) -> None:
    """Drop metadata and the global style sheet that matplotlib embeds."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("}metadata") or child.tag in (f"{SVG}style", f"{SVG}metadata"):
                parent.remove(child)
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    root.attrib.pop("version", None)


def _restyle(element: ET.Element) -> None:
    """Move an inline style to presentation attributes, and sentinel colours to classes."""
    classes = element.attrib.get("class", "").split()
    pairs = [declaration.partition(":") for declaration in element.attrib.pop("style", "").split(";")]
    declarations = {prop.strip(): value.strip() for prop, _, value in pairs if value}
    for prop in ("fill", "stroke"):
        if prop in element.attrib:
            declarations.setdefault(prop, element.attrib.pop(prop))
    for prop, value in declarations.items():
        if prop in ("fill", "stroke") and value in _CLASSES:
            classes.append(f"{prop}-{_CLASSES[value]}")
        elif prop == "font":
            # size and weight of a font shorthand; the family is the page's
            size = re.search(r"([\d.]+)px", value)
            weight = re.search(r"\b(bold|[5-9]00)\b", value)
            font = {"font-size": size.group(1)} if size else {}
            element.attrib.update(font | ({"font-weight": weight.group(1)} if weight else {}))
        elif prop != "font-family":
            element.set(prop, value)
    if element.tag == f"{SVG}text" and "fill" not in declarations:
        classes.append("fill-text")
    if classes:
        element.set("class", " ".join(classes))


def tidy(axes: Any, *, grid: str = "x") -> None:
    """Leave the axes bare: no ticks, a light grid along one axis."""
    axes.tick_params(length=0)
    axes.grid(visible=True, axis=grid)
    for spine in axes.spines.values():
        spine.set_visible(False)
