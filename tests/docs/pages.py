"""Reading the documentation: pages, their code blocks, their tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "skills/clinometer/SKILL.md")]
    + list((ROOT / "docs").rglob("*.md"))
)


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def name_of(path: Path) -> str:
    """Name a page by its path in the repository."""
    return str(path.relative_to(ROOT))


def sh_commands(path: Path) -> Iterator[list[str]]:
    """List the commands of a page, as words."""
    for block in blocks(path.read_text(encoding="utf-8"), "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def numbers(text: str) -> set[str]:
    """Every number of a text as it is printed, with its minus and without its sentence."""
    return {found.rstrip(",.") for found in re.findall(r"\N{MINUS SIGN}?\d[\d,.]*", text)}


def table_rows(text: str, first_heading: str) -> list[list[str]]:
    """The cells of every table whose first column has that heading, without the head; ``\\|`` is a bar."""
    rows: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == first_heading:
            inside = True
        elif inside and set(cells[0]) - set("-:"):
            rows.append(cells)
    return rows
