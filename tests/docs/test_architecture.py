"""The page on how the code is laid out says what is there."""

import re

from tests.docs.pages import ROOT, page

ARCHITECTURE = page("docs/architecture.md")


def test_the_files_of_a_study_are_those_of_the_toy_study():
    listed = re.findall(r"^\| `([\w./]+)` \|", ARCHITECTURE.split("**A study**")[1].split("\n## ")[0], re.MULTILINE)
    there = {f"{path.name}/" if path.is_dir() else path.name for path in (ROOT / "tests/toy_study").iterdir()}
    assert set(listed) == there - {"__init__.py", "__pycache__/"}


def test_the_modules_of_the_engine_of_leaning_are_those_that_are_listed():
    table = ARCHITECTURE.split("## The engine of leaning")[1].split("\n## ")[0]
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)))
    there = {path.stem for path in (ROOT / "src/clinometer/studies/leaning/scores").glob("*.py")} - {"__init__"}
    assert set(listed) == there


def test_every_room_is_in_the_table():
    rooms = {path.name for path in (ROOT / "src/clinometer").iterdir() if (path / "__init__.py").exists()}
    table = ARCHITECTURE.split("## Who may import whom")[1].split("## What to touch")[0]
    named = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    assert rooms - {"published"} <= named | {"api"}
