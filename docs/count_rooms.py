"""Print how large the rooms of the package are, as docs/architecture.md has it; ``make lint`` ends with it.

    python docs/count_rooms.py                                  one row a room, and the sum
    python docs/count_rooms.py --before OTHER/src/clinometer    from another checkout to this one, as the page has it
    python docs/count_rooms.py --audit                          and what a default audit runs through: takes minutes

A line of code is one that is neither blank nor a comment nor part of a docstring. A body is what a function has of
them beside its signature. Imports within functions count as imports.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import tempfile
import threading
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "clinometer"
COLUMNS = ("room", "modules", "lines of code", "functions per 1,000", "imports, %", "body, median", "body, 90 %")
SEPARATE = {"studies"}
"""Rooms whose folders are counted each for itself."""


@dataclass
class Size:
    """What a room holds: its modules, its lines, those of them that import, and the lines of each function's body."""

    modules: int = 0
    lines: int = 0
    imports: int = 0
    bodies: list[int] = field(default_factory=list)

    def __add__(self, other: Size) -> Size:
        return Size(
            self.modules + other.modules,
            self.lines + other.lines,
            self.imports + other.imports,
            self.bodies + other.bodies,
        )

    def cells(self) -> tuple[str, ...]:
        """Tell it as a row of the table."""
        most = quantiles(self.bodies, n=10)[-1] if len(self.bodies) > 1 else 0
        return (
            str(self.modules),
            f"{self.lines:,}",
            f"{1000 * len(self.bodies) / max(self.lines, 1):.0f}",
            f"{100 * self.imports / max(self.lines, 1):.1f}",
            f"{median(self.bodies or [0]):.0f}",
            f"{most:.0f}",
        )


def measure(path: Path) -> Size:
    """Measure a module."""
    tree, code = ast.parse(path.read_text("utf-8")), set[int]()
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type not in (
                tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
                tokenize.ENDMARKER,
            ):  # fmt: skip
                code.update(range(token.start[0], token.end[0] + 1))
    nodes = list(ast.walk(tree))
    for node in nodes:  # docstrings, and strings that stand alone below what they describe
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code -= lines_of(node)
    imports, bodies = set[int](), []
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= lines_of(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bodies.append(len(code & set().union(*map(lines_of, node.body))))
    return Size(1, len(code), len(imports), bodies)


def lines_of(node: ast.stmt) -> set[int]:
    """List the numbers of a statement's lines."""
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def room_of(path: Path, package: Path) -> str:
    """Name the room of a module; of the modules beside the rooms, the top."""
    folders = path.relative_to(package).parts[:-1]
    if not folders:
        return "top"
    return "/".join(folders[:2]) if folders[0] in SEPARATE else folders[0]


def measure_rooms(package: Path = PACKAGE) -> dict[str, Size]:
    """Measure every room."""
    rooms: dict[str, Size] = defaultdict(Size)
    for path in sorted(package.rglob("*.py")):
        rooms[room_of(path, package)] += measure(path)
    return dict(rooms)


def table(rooms: dict[str, Size], before: dict[str, Size] | None = None) -> str:
    """Lay the figures out as Markdown; beside those of another state, from that to this."""
    rows = [COLUMNS]
    for room in [*sorted({*rooms, *(before or {})}), "sum"]:
        now, then = (
            sum(sizes.values(), Size()) if room == "sum" else sizes.get(room, Size()) for sizes in (rooms, before or {})
        )
        pairs = zip(then.cells(), now.cells(), strict=True)
        cells = now.cells() if before is None else (one if one == other else f"{one} → {other}" for one, other in pairs)
        rows.append((room if room == "sum" else f"`{room}`", *cells))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(COLUMNS) - 1), *lines[1:]])


def trace_audit() -> tuple[int, int, int]:
    """Count the modules, templates and functions of the package that an audit of the reference model runs through."""
    functions = set[tuple[str, int]]()
    inside = str(PACKAGE)

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(inside) and code.co_flags & inspect.CO_OPTIMIZED:
            functions.add((code.co_filename, code.co_firstlineno))

    import clinometer as cm

    with tempfile.TemporaryDirectory() as folder:
        threading.setprofile(note)
        sys.setprofile(note)
        cm.audit(out=f"{folder}/run", images=2, steps=1)
        sys.setprofile(None)
        threading.setprofile(None)
    files = {file for file, _ in functions}
    modules = sum(file.endswith(".py") for file in files)
    return modules, len(files) - modules, len(functions)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--audit", action="store_true", help="also count what a default audit runs through")
    parser.add_argument("--before", type=Path, help="another checkout's src/clinometer, from which it is told")
    asked = parser.parse_args()
    print(table(measure_rooms(), asked.before and measure_rooms(asked.before)))  # noqa: T201
    if asked.audit:
        modules, templates, functions = trace_audit()
        print(  # noqa: T201
            f"\nA default audit runs through {modules} modules, {templates} templates and {functions:,} functions."
        )


if __name__ == "__main__":
    main()
