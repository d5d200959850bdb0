"""Figures as SVG text: drawn by matplotlib, coloured by the page's style sheet, described for screen readers.

matplotlib draws with sentinel colours (``Ink.A``, ``Ink.MUTED``, …). Afterwards each sentinel becomes a class
which the style sheet colours from its variables, so one drawing is right in light, in dark and on paper.
Inline styles become presentation attributes, so the page needs no ``unsafe-inline``; ids get a prefix, so
many drawings live in one page. The marks are those that several figures share. See decision 47.
"""

from __future__ import annotations

import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np
from markupsafe import Markup

from clinometer.report import wording
from clinometer.report.fonts import font_faces
from clinometer.report.view import Row

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


ROW_HEIGHT: Final = 21
LABEL_CHARACTERS: Final = 21


class Mark(NamedTuple):
    """Shape and colour of a marker; shape alone tells the leaning too."""

    shape: str
    colour: str
    filled: bool = True


MARKS: Final[dict[str, Mark]] = {
    "a": Mark(">", Ink.A),
    "b": Mark("<", Ink.B),
    "balanced": Mark("s", Ink.BALANCED),
    "undecided": Mark("o", Ink.UNDECIDED, filled=False),
    "few": Mark("D", Ink.UNDECIDED, filled=False),
    "unmeasured": Mark("x", Ink.UNDECIDED),
}
ENCODER_SHAPES: Final = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")


def draw_mark(axes: Any, x: float, y: float, mark: Mark, *, size: float = 7.5, gid: str | None = None) -> None:
    """Draw one marker."""
    _add_line(
        axes,
        [x],
        [y],
        linestyle="none",
        marker=mark.shape,
        markersize=size,
        markerfacecolor=mark.colour if mark.filled else Ink.PAPER,
        markeredgecolor=mark.colour,
        markeredgewidth=1.6,
        zorder=4,
        gid=gid,
        clip_on=False,
    )


def draw_intervals(axes: Any, row: Row, y: float, colour: str) -> None:
    """Draw the image interval thick and the stimulus interval thin; either may be missing."""
    if row.has_stimulus_interval:
        _add_line(axes, [row.stimulus_low, row.stimulus_high], [y, y], color=colour, linewidth=1.1, zorder=2)
    if row.has_interval:
        _add_line(axes, [row.low, row.high], [y, y], color=colour, linewidth=3.6, alpha=0.55, zorder=3)


def draw_cut(axes: Any, row: Row, y: float, mark: Mark, most: float, *, gid: str, size: float = 7.5) -> None:
    """Draw a number and its intervals up to ±``most``: an end beyond is an arrow, a value beyond has its number, too.

    One estimate far out, of few images, would leave no room for the others.
    """
    shown = within(row, most)
    draw_intervals(axes, shown, y, mark.colour)
    for low, high in ((row.stimulus_low, row.stimulus_high), (row.low, row.high)):
        for side, is_beyond in ((-1, low < -most), (1, high > most)):
            if is_beyond:
                draw_mark(axes, side * most, y, Mark("<" if side < 0 else ">", mark.colour), size=0.6 * size)
    if abs(row.value) <= most:
        draw_mark(axes, row.value, y, mark, gid=gid, size=size)
        return
    side = 1 if row.value > 0 else -1
    draw_mark(axes, side * most, y, mark._replace(shape="<" if side < 0 else ">"), gid=gid, size=1.3 * size)
    axes.annotate(
        wording.signed(row.value), (side * most, y), (-12 * side, 0), textcoords="offset points", va="center",
        ha="right" if side > 0 else "left", fontsize=11, color=Ink.TEXT,
        bbox={"facecolor": Ink.PAPER, "edgecolor": "none", "pad": 1.0},
    )  # fmt: skip


def within(row: Row, most: float) -> Row:
    """Return the row with its number and its ends brought to within ±``most``."""
    names = ("value", "low", "high", "stimulus_low", "stimulus_high")
    return replace(row, **{name: min(max(getattr(row, name), -most), most) for name in names})


def _add_line(axes: Any, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
    """Add what ``axes.plot`` adds, without reading formats, units and colour cycles: pages hold hundreds of marks."""
    from matplotlib.lines import Line2D

    axes.add_line(Line2D(x, y, **style))


MOST_TINT: Final = 0.5
"""Opacity of a matrix's fullest cell: the text on it keeps a contrast of 4.5 in light and dark."""


def draw_cell(
    axes: Any, x: int, y: int, colour: str, fullness: float, number: str, ends: str, *, bold: bool = False
) -> None:
    """Draw a matrix's cell, the fuller the more of its colour, with a number and its interval below."""
    alpha = 0.04 + (MOST_TINT - 0.04) * min(1.0, fullness)
    axes.fill_between([x - 0.47, x + 0.47], y - 0.45, y + 0.45, color=colour, alpha=alpha, lw=0)
    inked = {"ha": "center", "color": Ink.TEXT}
    axes.text(x, y - 0.02, number, va="bottom", fontsize=13, fontweight="bold" if bold else "normal", **inked)
    axes.text(x, y + 0.07, ends, va="top", fontsize=10.5, **inked)


def label_rows(axes: Any, names: Sequence[str], characters: int = LABEL_CHARACTERS, *, lines: int = 1) -> None:
    """Name the rows, first on top; in several lines where only the ends of names tell them apart."""
    axes.set_yticks(range(len(names)), [folded(name, characters, lines) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)


def folded(name: str, characters: int, lines: int) -> str:
    """Return a label in lines of so many characters, cut after the last."""
    wrapped = textwrap.wrap(
        drawable(name, lines * characters), characters, max_lines=lines, placeholder="\N{HORIZONTAL ELLIPSIS}"
    )
    return "\n".join(wrapped)


def drawable(text: str, characters: int = LABEL_CHARACTERS) -> str:
    """Return text that fits a label and is legal in XML."""
    legal = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cs", "Cn"))
    return wording.shortened(legal, characters)


def span(rows: Sequence[Row], *, include: Sequence[float] = (0.0,), stimulus: bool = True) -> tuple[float, float]:
    """Return the limits of an axis that hold every value and interval, with a little air."""
    numbers = list(include)
    for row in rows:
        numbers += [row.value, row.low, row.high]
        numbers += [row.stimulus_low, row.stimulus_high] if stimulus else []
    finite = [value for value in numbers if isfinite(value)] or [-1.0, 1.0]
    low, high = min(finite), max(finite)
    air = 0.06 * (high - low) or 1.0
    return low - air, high + air


def place(figure: Any, left: float, bottom: float, right: float, top: float, **options: Any) -> Any:
    """Add axes by their margins in CSS pixels."""
    width, height = figure.get_size_inches() * figure.dpi
    box = (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    return figure.add_axes(box, **options)


SHAPES: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
COLOURS: Final = (("accent", Ink.ACCENT), ("third", Ink.THIRD), ("a", Ink.A), ("b", Ink.B))
LEFT: Final = 156
LANE: Final = 15
_GAP: Final = 13
HALO: Final = {"facecolor": Ink.PAPER, "edgecolor": "none", "pad": 1.0}


def model_mark(order: int) -> Mark:
    """Return the shape and colour of a model by its place; the shape alone tells it."""
    return Mark(SHAPES[order % len(SHAPES)], COLOURS[order % len(COLOURS)][1])


def row_height(models: int) -> int:
    """Return the height in pixels of a row that holds a mark of every model."""
    return _GAP + LANE * models


def lane_offset(order: int, models: int) -> float:
    """Find how far below its row's middle a model's mark lies, in rows."""
    return (order - (models - 1) / 2) * LANE / row_height(models)


def shade_alternate(axes: Any, y: int) -> None:
    """Shade every other row."""
    if y % 2:
        axes.axhspan(y - 0.5, y + 0.5, color=Ink.SHADE, alpha=0.45, linewidth=0, zorder=0)


def draw_model(axes: Any, row: Row, y: float, mark: Mark, gid: str) -> None:
    """Draw one model's number with its intervals."""
    draw_intervals(axes, row, y, mark.colour)
    draw_mark(axes, row.value, y, mark, size=6.5, gid=gid)


def model_tip(name: str, model: str, symbol: str, row: Row, digits: int, *, stimulus: bool = False) -> str:
    """Return the text that a pointer over a model's mark shows."""
    low, high = (row.stimulus_low, row.stimulus_high) if stimulus else (row.low, row.high)
    number = wording.with_interval(row.value, low, high, digits)
    return drawable(f"{name}, {model}: {symbol} {number}", 140)


def rows_figure(
    by_model: Mapping[str, Mapping[str, Row]],
    names: Sequence[str],
    symbol: str,
    ends: tuple[str, str],
    *,
    name: str,
    title: str,
    margin: float | None = None,
) -> Figure | None:
    """Draw signed numbers, a row each, models side by side; None where no model has one."""
    names = [label for label in names if any(label in rows and rows[label].defined for rows in by_model.values())]
    if not names:
        return None
    height = max(24, row_height(len(by_model)))
    with canvas(460, 64 + height * len(names)) as figure:
        axes = place(figure, 176, 52, 14, 12)
        tidy(axes)
        axes.set_xlim(*span([row for rows in by_model.values() for row in rows.values()], stimulus=False))
        axes.axvline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        if margin:
            axes.axvspan(-margin, margin, color=Ink.SHADE, linewidth=0, zorder=0)
        tips = {}
        for y, label in enumerate(names):
            for order, (model, rows) in enumerate(by_model.items()):
                row = rows.get(label, Row())
                if row.defined:
                    gid = f"r{y}x{order}"
                    draw_model(axes, row, y + (order - (len(by_model) - 1) / 2) * LANE / height, model_mark(order), gid)
                    tips[gid] = model_tip(label, model, symbol, row, 2)
        label_rows(axes, [wording.capitalised(label) for label in names], 26, lines=2)
        left, right = (drawable(end, 26 if all(ends) else 44) for end in ends)
        axes.set_xlabel(f"{left} \u25c2  {symbol}  \u25b8 {right}" if left else f"{symbol}  \u25b8 {right}")
        return finish(figure, name=f"models-{name}", title=title, description="; ".join(tips.values()), tips=tips)


SHAPE_CHARACTERS = {
    "o": "●",
    "s": "■",
    "^": "▲",
    "D": "◆",
    "v": "▼",
    "P": "✚",
    "X": "✖",
    "*": "★",
    "p": "⬟",
    "h": "⬢",
}


_LINE: Final = 17
_MOST_LABELS: Final = 9


@dataclass(frozen=True)
class Step:
    """A number at a place of the axis; ``label`` says which place, ``name`` which run."""

    x: float
    label: str
    row: Row
    name: str = ""


@dataclass(frozen=True)
class Line:
    """Numbers of one setting of all other axes, along this one."""

    name: str
    steps: tuple[Step, ...]


def bands_figure(
    lines: Sequence[Line],
    *,
    name: str,
    title: str,
    x_label: str,
    symbol: str,
    zero: str = "",
    limits: tuple[float, float] | None = None,
) -> Figure | None:
    """Draw the lines with their bands; None where nothing is measured.

    ``zero`` : what 0 means, said at its line; empty for a number of which it means nothing. ``limits`` : of the
    numbers, where several figures have one scale; such a figure is drawn small, beside others.
    """
    curves = [(line.name, steps) for line in lines if (steps := [step for step in line.steps if step.row.defined])]
    if not curves:
        return None
    below = 66 + (_LINE * len(curves) if len(curves) > 1 else 0)
    with canvas(*((520, 234 + below) if limits is None else (340, 130 + below))) as figure:
        axes = place(figure, 66, below, 16, 26 if limits is None else 12)
        _prepare(axes, [step for _, steps in curves for step in steps], zero, air=0.06)
        axes.set_ylim(*(limits or axes.get_ylim()))
        tips = {}
        for order, (line, steps) in enumerate(curves):
            mark = model_mark(order)
            banded = [step for step in steps if step.row.has_interval]
            if len(banded) > 1:
                ends = ([step.row.low for step in banded], [step.row.high for step in banded])
                axes.fill_between(
                    [step.x for step in banded], *ends, color=mark.colour, alpha=0.14, linewidth=0, zorder=1
                )
            values = [step.row.value for step in steps]
            axes.plot([step.x for step in steps], values, color=mark.colour, linewidth=1.6, zorder=2)
            for at, step in enumerate(steps):
                row, gid = step.row, f"b{order}x{at}"
                if row.has_interval:
                    axes.plot([step.x] * 2, [row.low, row.high], color=mark.colour, linewidth=2.4, alpha=0.5, zorder=3)
                draw_mark(axes, step.x, row.value, mark, size=6, gid=gid)
                which = ", ".join(part for part in (line, step.label) if part)
                tips[gid] = drawable(f"{which}: {symbol} {_number(row)}", 160)
            if len(curves) > 1:  # name the lines below the axis: shape, colour, setting
                axes.annotate(
                    f"{SHAPE_CHARACTERS[mark.shape]} {drawable(line, 60)}", (0, 0), xycoords="axes fraction",
                    xytext=(0, -50 - _LINE * order), textcoords="offset pixels", color=mark.colour, fontsize=11.5,
                    va="top", annotation_clip=False,
                )  # fmt: skip
        axes.set_xlabel(x_label)
        return finish(figure, name=name, title=title, description=". ".join(tips.values()), tips=tips)


def trend_figure(points: Sequence[Step], *, title: str, x_label: str, zero: str = "") -> Figure | None:
    """Draw each run's number with its 95 % interval, from left to right; None where no run has the number.

    ``zero`` : what 0 means, said at its line; empty for a number of which it means nothing.
    """
    measures = [point for point in points if point.row.defined]
    if not measures:
        return None
    with canvas(760, 320) as figure:
        axes = place(figure, 66, 66, 20, 16)
        _prepare(axes, measures, zero, air=0.08)
        tips = {}
        for order, point in enumerate(measures):
            row, gid = point.row, f"t{order}"
            mark = MARKS[wording.verdict_group_of(row) if row.verdict else "balanced"]
            if row.has_interval:
                axes.plot([point.x] * 2, [row.low, row.high], color=mark.colour, linewidth=3.6, alpha=0.55, zorder=3)
            draw_mark(axes, point.x, row.value, mark, gid=gid)
            tips[gid] = drawable(f"{point.name}, {point.label}: {_number(row)}", 160)
        axes.plot([p.x for p in measures], [p.row.value for p in measures], color=Ink.GRID, linewidth=1.4, zorder=1)
        axes.set_xlabel(x_label)
        return finish(figure, name="trend", title=title, description=". ".join(tips.values()), tips=tips)


def _prepare(axes: Any, steps: Sequence[Step], zero: str, *, air: float) -> None:
    """Set both limits, draw zero where it means something, and name not more places than can be read."""
    tidy(axes, grid="y")
    axes.set_ylim(*span([step.row for step in steps], include=(0.0,) if zero else (), stimulus=False))
    if zero:
        axes.axhline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
    places = {step.x: drawable(step.label, 14) for step in steps}
    ordered = sorted(places)
    every = -(-len(ordered) // _MOST_LABELS)
    axes.set_xticks(ordered[::every], [places[x] for x in ordered[::every]])
    margin = air * (ordered[-1] - ordered[0]) or 0.5
    axes.set_xlim(ordered[0] - margin, ordered[-1] + margin)


def _number(row: Row) -> str:
    return wording.with_interval(row.value, row.low, row.high, wording.digits_for([row.value, row.low, row.high]))
