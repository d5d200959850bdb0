"""The page on how the code is laid out says what is there."""

import importlib.util
import re
import sys
from pkgutil import resolve_name

import pytest

from tests.docs.pages import ROOT, page, table_rows

ARCHITECTURE = page("docs/architecture.md")
BRIGHTNESS = ROOT / "examples/plugin/clinometer_example/brightness"


def test_the_files_of_a_study_are_those_of_the_example():
    listed = re.findall(r"^\| `([\w./]+)` \|", ARCHITECTURE.split("**A study**")[1].split("\n## ")[0], re.MULTILINE)
    there = {f"{path.name}/" if path.is_dir() else path.name for path in BRIGHTNESS.iterdir()}
    assert set(listed) == there - {"__init__.py", "__pycache__/"}


def test_the_modules_of_the_engine_of_leaning_are_those_that_are_listed():
    table = ARCHITECTURE.split("## The engine of leaning")[1].split("\n## ")[0]
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)))
    there = {path.stem for path in (ROOT / "src/clinometer/studies/leaning/scores").glob("*.py")} - {"__init__"}
    assert set(listed) == there


def test_the_path_of_a_picture_names_functions_that_are_there():
    section = ARCHITECTURE.split("## One picture, function by function")[1].split("\n## ")[0]
    names = re.findall(r"`(\w+(?:\.\w+)+)`", section)
    assert len(names) > 30
    assert all(callable(resolve_name(f"clinometer.{name}")) for name in names)


def test_every_room_is_in_the_table():
    rooms = {path.name for path in (ROOT / "src/clinometer").iterdir() if (path / "__init__.py").exists()}
    table = ARCHITECTURE.split("## Who may import whom")[1].split("## What to touch")[0]
    named = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    assert rooms - {"published"} <= named | {"api"}


def counter():
    spec = importlib.util.spec_from_file_location("count_rooms", ROOT / "docs/count_rooms.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def count():
    return counter()


@pytest.fixture(scope="module")
def rooms(count):
    """The rooms of the package, which take seconds to measure."""
    return count.measure_rooms()


@pytest.mark.thorough
def test_the_script_prints_the_table_of_sizes(count, rooms, monkeypatch, capsys):
    measured = []
    monkeypatch.setattr(count, "measure_rooms", lambda *where: measured.append(where) or rooms)
    monkeypatch.setattr(sys, "argv", ["count_rooms.py"])
    count.main()
    assert capsys.readouterr().out.strip() == count.table(rooms)
    assert measured == [()]  # of the package itself


@pytest.mark.thorough
def test_the_table_of_sizes_has_the_columns_and_rooms_of_the_script(count, rooms):
    """The figures change with every commit, and `make lint` prints them."""
    assert f"| {' | '.join(count.COLUMNS)} |" in ARCHITECTURE
    told = {row[0].strip("`") for row in table_rows(ARCHITECTURE, "room") if len(row) == len(count.COLUMNS)}
    assert rooms.keys() | {"sum"} <= told
    assert all("→" in row[1] for row in table_rows(ARCHITECTURE, "room") if row[0] == "sum")


def test_lines_bodies_and_imports_are_counted(tmp_path, count):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text(
        '"""A docstring\nof two lines."""\n\nimport ast  # why\n# a comment\nNUMBER = (\n    1\n)\n'
        '"""What it is."""\n\n\ndef double(x):\n    """Double."""\n\n    import math\n\n'
        "    return (\n        2 * x\n    )\n"
    )
    (tmp_path / "top.py").write_text("")
    sizes = count.measure_rooms(tmp_path)
    assert sizes == {
        "room": count.Size(modules=1, lines=9, imports=2, bodies=[4]),
        "top": count.Size(modules=1),
    }
    assert count.table(sizes).splitlines()[-1] == "| sum | 2 | 9 | 111 | 22.2 | 4 | 0 |"
    assert count.table(sizes, sizes).splitlines()[2] == "| `room` | 1 | 9 | 111 | 22.2 | 4 | 0 |"
